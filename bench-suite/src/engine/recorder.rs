//! What a thread records of its operations, merged when all have ended.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use model::message::Latency;

/// Latencies beyond an hour are recorded as an hour; their exact maximum is kept beside the histogram.
const HIGHEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The server said so, with this number.
    Server(u16),
    /// The reply was well formed and wrong.
    WrongAnswer,
    /// The connection was lost before the reply.
    ConnectionLost,
    /// No reply in time; the connection was given up.
    ReplyTimeout,
    /// The reply did not follow the protocol; the connection was given up.
    Protocol,
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ErrorCode::Server(code) => code.fmt(f),
            ErrorCode::WrongAnswer => f.write_str("wrong-answer"),
            ErrorCode::ConnectionLost => f.write_str("connection-lost"),
            ErrorCode::ReplyTimeout => f.write_str("reply-timeout"),
            ErrorCode::Protocol => f.write_str("protocol"),
        }
    }
}

/// Latencies of the operations that succeeded, and the reasons of those that did not.
#[derive(Clone, Debug)]
pub struct Recorder {
    histogram: Histogram<u64>,
    /// Exact, where the histogram rounds.
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
    operations: u64,
    errors: BTreeMap<ErrorCode, u64>,
    error_count: u64,
    retries: BTreeMap<u16, u64>,
}

impl Default for Recorder {
    fn default() -> Self {
        // The bounds are constants that the histogram accepts; a test makes one.
        let histogram =
            Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS).expect("constant bounds are valid");
        Recorder {
            histogram,
            min_ns: u64::MAX,
            max_ns: 0,
            sum_ns: 0,
            operations: 0,
            errors: BTreeMap::new(),
            error_count: 0,
            retries: BTreeMap::new(),
        }
    }
}

impl Recorder {
    /// An operation succeeded.
    #[inline]
    pub fn success(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns += u128::from(latency_ns);
        self.operations += 1;
    }

    /// An operation failed.
    pub fn error(&mut self, code: ErrorCode) {
        *self.errors.entry(code).or_default() += 1;
        self.error_count += 1;
    }

    /// An operation was begun again after the server's error.
    pub fn retried(&mut self, code: u16) {
        *self.retries.entry(code).or_default() += 1;
    }

    /// Operations begun again, by the server's error.
    pub fn retries(&self) -> BTreeMap<String, u64> {
        self.retries.iter().map(|(code, count)| (code.to_string(), *count)).collect()
    }

    /// Operations that succeeded.
    #[inline]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Operations that failed.
    pub fn error_count(&self) -> u64 {
        self.error_count
    }

    /// Operations that failed with `code`.
    pub fn errors_of(&self, code: ErrorCode) -> u64 {
        self.errors.get(&code).copied().unwrap_or(0)
    }

    /// Failed operations by code, as a measurement lists them.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.iter().map(|(code, count)| (code.to_string(), *count)).collect()
    }

    /// Adds what another thread recorded.
    pub fn merge(&mut self, other: &Recorder) {
        // Both have the same bounds, so nothing can be out of range.
        self.histogram.add(&other.histogram).expect("equal bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.operations += other.operations;
        self.error_count += other.error_count;
        for (code, count) in &other.retries {
            *self.retries.entry(*code).or_default() += count;
        }
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    /// The latencies; `None` where nothing succeeded.
    ///
    /// A bucket of the histogram is up to 0.1 % wide and is reported by its end, which can lie beyond the
    /// true maximum: so each percentile is held between the exact minimum and maximum.
    pub fn latency(&self) -> Option<Latency> {
        if self.operations == 0 {
            return None;
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let (min, max) = (us(self.min_ns), us(self.max_ns));
        let quantile = |q: f64| us(self.histogram.value_at_quantile(q)).clamp(min, max);
        let mean = self.sum_ns as f64 / self.operations as f64 / 1000.0;
        Some(Latency {
            count: self.operations,
            latency_us_min: min,
            latency_us_mean: mean.clamp(min, max),
            latency_us_p50: quantile(0.5),
            latency_us_p95: quantile(0.95),
            latency_us_p99: quantile(0.99),
            latency_us_p99_9: quantile(0.999),
            latency_us_max: max,
            histogram_ns_hdr_base64: self.histogram_base64(),
        })
    }

    fn histogram_base64(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail, and the counts fit.
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("a histogram can be written to memory");
        STANDARD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    fn recorded(latencies: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::default();
        latencies.into_iter().for_each(|ns| recorder.success(ns));
        recorder
    }

    fn ordered(latency: &Latency) {
        let l = latency;
        let line = [
            l.latency_us_min,
            l.latency_us_p50,
            l.latency_us_p95,
            l.latency_us_p99,
            l.latency_us_p99_9,
            l.latency_us_max,
        ];
        assert!(line.is_sorted(), "{line:?}");
        assert!((l.latency_us_min..=l.latency_us_max).contains(&l.latency_us_mean));
    }

    #[test]
    fn nothing_has_no_latency() {
        assert_eq!(Recorder::default().latency(), None);
    }

    #[test]
    fn percentiles_stay_between_minimum_and_maximum() {
        for latencies in [vec![0], vec![1_234_567], vec![3, 2_000_001], (1..10_000).collect()] {
            ordered(&recorded(latencies).latency().unwrap());
        }
        let latency = recorded((1..=1000).map(|us| us * 1000)).latency().unwrap();
        assert_eq!((latency.count, latency.latency_us_max), (1000, 1000.0));
        assert!((latency.latency_us_p50 - 500.0).abs() < 1.0);
        assert!((latency.latency_us_mean - 500.5).abs() < 1e-9);
    }

    #[test]
    fn beyond_an_hour_is_kept() {
        let latency = recorded([HIGHEST_NS * 3]).latency().unwrap();
        assert_eq!(latency.latency_us_max, HIGHEST_NS as f64 * 3.0 / 1000.0);
        ordered(&latency);
    }

    #[test]
    fn threads_are_merged() {
        let mut all = recorded([5, 7]);
        all.error(ErrorCode::Server(1205));
        let mut other = recorded([1000]);
        other.error(ErrorCode::Server(1205));
        other.error(ErrorCode::ConnectionLost);
        all.merge(&other);
        assert_eq!((all.operations(), all.error_count()), (3, 3));
        assert_eq!(all.errors()["1205"], 2);
        assert_eq!(all.errors()["connection-lost"], 1);
        let latency = all.latency().unwrap();
        assert_eq!((latency.latency_us_min, latency.latency_us_max), (0.005, 1.0));
    }

    #[test]
    fn the_histogram_can_be_read_back() {
        let text = recorded([10, 20, 30]).latency().unwrap().histogram_ns_hdr_base64;
        let bytes = STANDARD.decode(text).unwrap();
        let back: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!((back.len(), back.max()), (3, 30));
    }
}
