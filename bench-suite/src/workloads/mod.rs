//! The benched behaviours, one file each behind one trait.

mod dataset;
mod do0;
mod oltp;
mod point_select;
mod stamp;

use std::sync::Arc;

use model::message::{DataCheck, FailedKind};

use self::dataset::Dataset;
use crate::client::{Expect, Reply};
use crate::control::Control;
use crate::failure::Failure;

/// One benched behaviour.
///
/// Its operations are numbered: everything about one is a function of the seed and its number, so every run
/// can be repeated, and threads need not agree on anything.
pub trait Workload: Send + Sync {
    /// The statements that each connection prepares before the load, in their order; none where operations are text.
    fn statements(&self) -> &[String] {
        &[]
    }

    /// Commands of an operation. Several are a transaction: the next is sent when the one before it was answered
    /// rightly.
    fn commands(&self) -> u32 {
        1
    }

    /// What kind of reply a command has; `step` counts an operation's commands from 0.
    fn expect(&self, step: u32) -> Expect;

    /// Appends a command of operation `number`, to be sent on a connection that prepared the statements under these
    /// ids.
    fn encode(&self, number: u64, step: u32, statements: &[u32], out: &mut Vec<u8>);

    /// Whether the server answered it rightly. Errors never come here.
    fn check(&self, number: u64, step: u32, reply: &Reply<'_>) -> bool;

    /// Creates and loads the data, unless it is there.
    fn prepare(&self, control: &mut Control) -> Result<(), Failure>;

    /// Compares the data with what it must be.
    fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure>;
}

/// The workload that `request` asks for; those that are not of SQL are refused.
pub fn make(request: &model::request::Workload, seed: u64) -> Result<Arc<dyn Workload>, Failure> {
    match request {
        &model::request::Workload::PointSelect { statement, rows, engine } => {
            Ok(Arc::new(point_select::PointSelect::new(statement, Dataset { rows, engine }, seed)))
        }
        model::request::Workload::Do0 => Ok(Arc::new(do0::Do0)),
        model::request::Workload::Oltp(oltp) => Ok(Arc::new(oltp::OltpWorkload::new(oltp, seed))),
        model::request::Workload::Flexasync(_) => Err(needs_sql(request)),
    }
}

/// A check of the data.
fn check(name: &str, expected: impl ToString, found: impl ToString) -> DataCheck {
    DataCheck { check: name.into(), expected: expected.to_string(), found: found.to_string() }
}

/// A workload and a back-end that do not belong together.
pub fn needs_sql(request: &model::request::Workload) -> Failure {
    let what = format!(
        "{} needs another back-end: SQL workloads a server, flexasync an NDB Cluster",
        request.label()
    );
    Failure::new(FailedKind::BadRequest, what)
}

/// SplitMix64's finaliser: neighbouring inputs give unrelated outputs, at the cost of two multiplications.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Operation `number`'s own random value.
#[inline]
pub fn random(seed: u64, number: u64) -> u64 {
    mix(seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// `random` scaled to `0..limit`, uniformly, without division.
#[inline]
pub fn scale(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

/// Values of every kind that text and binary rows can carry: does client and server agree on them?
///
/// This is where a client that reads integers, floats or dates with the wrong byte order is found.
pub fn check_values(control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
    let sql = "SELECT -2, 258, 9223372036854775807, 18446744073709551615, -2.25e0, \
               CAST('2026-02-03' AS DATE), CAST('2026-02-03 04:05:06' AS DATETIME), \
               CAST('-51:04:05' AS TIME), 12.50, 'text', NULL";
    let expected = "-2 258 9223372036854775807 18446744073709551615 -2.25 \
                    2026-02-03 2026-02-03 04:05:06 -51:04:05 12.50 text NULL";
    let refused = FailedKind::WrongData;
    let as_text = control.query(sql).map_err(|e| e.into_failure("checking values", refused))?;
    let binary = control.query_prepared(sql).map_err(|e| e.into_failure("checking values", refused))?;
    let check = |check: &str, found: &[Vec<String>]| DataCheck {
        check: check.into(),
        expected: expected.into(),
        found: found.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("\n"),
    };
    Ok(vec![check("values as text", &as_text), check("values in binary", &binary)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_values_do_not_depend_on_the_machine() {
        // The first outputs of SplitMix64 with seed 0, as published with it.
        assert_eq!(random(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random(0, 1), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(random(0, 2), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn scaled_values_cover_their_range_evenly() {
        let mut seen = [0_u32; 10];
        for number in 0..100_000 {
            seen[scale(random(42, number), 10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (9_500..10_500).contains(&count)), "{seen:?}");
        assert_eq!(scale(u64::MAX, 10), 9);
        assert_eq!(scale(0, 10), 0);
    }
}
