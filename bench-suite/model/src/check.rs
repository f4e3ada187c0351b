//! Checks of a measurement beyond its types: what must hold for every one, whatever was measured.

use crate::message::{EndedBy, Latency, Measurement};

/// How far apart two ways to compute the same number may be, relatively.
const ROUNDING: f64 = 1e-6;

/// What is wrong with a measurement, a sentence each; empty: nothing.
pub fn measurement(measurement: &Measurement) -> Vec<String> {
    let mut wrong = Vec::new();
    let m = measurement;
    if !(m.elapsed_s.is_finite() && m.elapsed_s > 0.0) {
        wrong.push(format!("elapsed_s is {}", m.elapsed_s));
    }
    let some = m.operations > 0;
    if some != m.throughput_per_s.is_some() {
        wrong.push(format!("{} operations with throughput_per_s {:?}", m.operations, m.throughput_per_s));
    }
    if some != m.latency.is_some() {
        let is = if m.latency.is_some() { "a" } else { "no" };
        wrong.push(format!("{} operations with {is} latency", m.operations));
    }
    if let Some(throughput) = m.throughput_per_s {
        let expected = m.operations as f64 / m.elapsed_s;
        let difference = (throughput - expected).abs();
        if difference.is_nan() || difference > expected.abs() * ROUNDING {
            wrong.push(format!("throughput_per_s is {throughput}, operations / elapsed_s is {expected}"));
        }
    }
    if let Some(latency) = &m.latency {
        check_latency(latency, m.operations, &mut wrong);
    }
    if let Some(open) = &m.open_loop {
        if !(open.target_rate_per_s.is_finite() && open.target_rate_per_s > 0.0) {
            wrong.push(format!("target_rate_per_s is {}", open.target_rate_per_s));
        }
        if some != open.service.is_some() {
            wrong.push(format!("{} operations with service {:?}", m.operations, open.service.is_some()));
        }
        if let Some(service) = &open.service {
            check_latency(service, m.operations, &mut wrong);
        }
    }
    check_counts(m, &mut wrong);
    check_cpu(m, &mut wrong);
    wrong
}

fn check_latency(latency: &Latency, operations: u64, wrong: &mut Vec<String>) {
    let l = latency;
    if l.count != operations {
        wrong.push(format!("latency of {} operations, {operations} succeeded", l.count));
    }
    let line = [
        ("latency_us_min", l.latency_us_min),
        ("latency_us_p50", l.latency_us_p50),
        ("latency_us_p95", l.latency_us_p95),
        ("latency_us_p99", l.latency_us_p99),
        ("latency_us_p99_9", l.latency_us_p99_9),
        ("latency_us_max", l.latency_us_max),
    ];
    for (name, value) in line.iter().chain(&[("latency_us_mean", l.latency_us_mean)]) {
        if !(value.is_finite() && *value >= 0.0) {
            wrong.push(format!("{name} is {value}"));
        }
    }
    for pair in line.windows(2) {
        let [(low_name, low), (high_name, high)] = pair else { continue };
        if low > high {
            wrong.push(format!("{low_name} {low} is above {high_name} {high}"));
        }
    }
    if !(l.latency_us_min..=l.latency_us_max).contains(&l.latency_us_mean) {
        let (min, max) = (l.latency_us_min, l.latency_us_max);
        wrong.push(format!("latency_us_mean {} is not within {min} to {max}", l.latency_us_mean));
    }
    if l.histogram_ns_hdr_base64.is_empty() {
        wrong.push("histogram_ns_hdr_base64 is empty".into());
    }
}

fn check_counts(m: &Measurement, wrong: &mut Vec<String>) {
    let failed: u64 = m.errors.values().sum();
    let ended = m.operations.saturating_add(failed);
    if m.client_questions < ended {
        let sent = m.client_questions;
        wrong.push(format!("{sent} questions sent, but {} succeeded and {failed} failed", m.operations));
    }
    if let Some(code) = m.errors.iter().find_map(|(code, &count)| (count == 0).then_some(code)) {
        wrong.push(format!("error {code} is listed with count 0"));
    }
    for (name, up) in [
        ("connections_up_at_start", m.connections_up_at_start),
        ("connections_up_at_end", m.connections_up_at_end),
    ] {
        if up > m.connections {
            wrong.push(format!("{name} is {up} of {}", m.connections));
        }
    }
    if m.threads == 0 || m.threads > m.connections {
        wrong.push(format!("{} threads for {} connections", m.threads, m.connections));
    }
    if m.transport == "none" && (m.server_questions.is_some() || m.authentication.is_some()) {
        wrong.push("the null back-end has no server to count or to log in to".into());
    }
    if m.ended_by == EndedBy::Operations && ended == 0 {
        wrong.push("ended by the limit of operations without one".into());
    }
}

fn check_cpu(m: &Measurement, wrong: &mut Vec<String>) {
    let server = m.server_cpu.into_iter().map(|cpu| ("server_cpu", cpu));
    for (name, cpu) in server.chain([("client_cpu", m.client_cpu)]) {
        let good = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if !(good(cpu.user_s) && good(cpu.system_s)) {
            wrong.push(format!("{name} is {} and {} s", cpu.user_s, cpu.system_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{CpuTime, OpenLoop};

    fn good() -> Measurement {
        Measurement {
            transport: "unix".into(),
            authentication: Some("mysql_native_password".into()),
            tls_cipher: None,
            connections: 2,
            connections_up_at_start: 2,
            connections_up_at_end: 2,
            threads: 1,
            elapsed_s: 2.0,
            operations: 10,
            throughput_per_s: Some(5.0),
            latency: Some(Latency {
                count: 10,
                latency_us_min: 1.0,
                latency_us_mean: 2.5,
                latency_us_p50: 2.0,
                latency_us_p95: 3.0,
                latency_us_p99: 3.0,
                latency_us_p99_9: 4.0,
                latency_us_max: 4.0,
                histogram_ns_hdr_base64: "SElTVA".into(),
            }),
            open_loop: None,
            client_cpu: CpuTime { user_s: 0.1, system_s: 0.2 },
            server_cpu: None,
            server_questions: Some(10),
            client_questions: 10,
            errors: [].into(),
            retries: [].into(),
            ended_by: EndedBy::Duration,
        }
    }

    #[track_caller]
    fn finds(part: &str, change: impl FnOnce(&mut Measurement, &mut Latency)) {
        let mut changed = good();
        let mut latency = changed.latency.take().unwrap();
        change(&mut changed, &mut latency);
        changed.latency = Some(latency);
        let wrong = measurement(&changed);
        assert!(wrong.iter().any(|sentence| sentence.contains(part)), "{part} in {wrong:?}");
    }

    #[test]
    fn a_good_measurement_passes() {
        assert_eq!(measurement(&good()), Vec::<String>::new());
        let mut none = good();
        none.operations = 0;
        none.client_questions = 3;
        none.errors = [("1205".to_string(), 3)].into();
        none.throughput_per_s = None;
        none.latency = None;
        assert_eq!(measurement(&none), Vec::<String>::new());
    }

    #[test]
    fn percentiles_out_of_order_are_found() {
        finds("latency_us_min 3", |_, l| l.latency_us_min = 3.0);
        finds("latency_us_p50 9", |_, l| l.latency_us_p50 = 9.0);
        finds("latency_us_p95 9", |_, l| l.latency_us_p95 = 9.0);
        finds("latency_us_p99 9", |_, l| l.latency_us_p99 = 9.0);
        finds("latency_us_p99_9 9", |_, l| l.latency_us_p99_9 = 9.0);
        finds("latency_us_max 3.5", |_, l| l.latency_us_max = 3.5);
    }

    #[test]
    fn a_mean_beyond_the_extremes_is_found() {
        finds("latency_us_mean 0.5", |_, l| l.latency_us_mean = 0.5);
        finds("latency_us_mean 5", |_, l| l.latency_us_mean = 5.0);
    }

    #[test]
    fn numbers_that_are_none_are_found() {
        finds("latency_us_mean is NaN", |_, l| l.latency_us_mean = f64::NAN);
        finds("latency_us_p50 is inf", |_, l| l.latency_us_p50 = f64::INFINITY);
        finds("latency_us_min is -1", |_, l| l.latency_us_min = -1.0);
        finds("elapsed_s is 0", |m, _| m.elapsed_s = 0.0);
        finds("elapsed_s is NaN", |m, _| m.elapsed_s = f64::NAN);
        finds("throughput_per_s is NaN", |m, _| m.throughput_per_s = Some(f64::NAN));
        finds("client_cpu is -1", |m, _| m.client_cpu.user_s = -1.0);
        let nan = CpuTime { user_s: 0.0, system_s: f64::NAN };
        finds("server_cpu is 0 and NaN", |m, _| m.server_cpu = Some(nan));
    }

    #[test]
    fn counts_that_do_not_agree_are_found() {
        finds("latency of 9 operations", |_, l| l.count = 9);
        finds("throughput_per_s is 6", |m, _| m.throughput_per_s = Some(6.0));
        finds("9 questions sent", |m, _| m.client_questions = 9);
        finds("error 1205 is listed", |m, _| m.errors = [("1205".to_string(), 0)].into());
        finds("connections_up_at_start is 3 of 2", |m, _| m.connections_up_at_start = 3);
        finds("connections_up_at_end is 3 of 2", |m, _| m.connections_up_at_end = 3);
        finds("0 threads", |m, _| m.threads = 0);
        finds("3 threads", |m, _| m.threads = 3);
        finds("null back-end", |m, _| m.transport = "none".into());
        finds("histogram", |_, l| l.histogram_ns_hdr_base64.clear());
    }

    #[test]
    fn an_open_loop_has_a_rate_and_a_service_time() {
        let open = |m: &Measurement, l: &Latency, target_rate_per_s: f64, service: bool| {
            let service = service.then(|| l.clone());
            Some(Box::new(OpenLoop { target_rate_per_s, service, backlog_max: 0, unsent: m.operations }))
        };
        finds("target_rate_per_s is 0", |m, l| m.open_loop = open(m, l, 0.0, true));
        finds("10 operations with service false", |m, l| m.open_loop = open(m, l, 5.0, false));
        finds("latency of 9 operations", |m, l| {
            let nine = Latency { count: 9, ..l.clone() };
            m.open_loop = open(m, &nine, 5.0, true);
        });
        let mut good = good();
        good.open_loop = open(&good, good.latency.as_ref().unwrap(), 5.0, true);
        assert_eq!(measurement(&good), Vec::<String>::new());
    }

    #[test]
    fn none_stands_for_no_operations_exactly() {
        finds("10 operations with throughput_per_s None", |m, _| m.throughput_per_s = None);
        finds("0 operations with a latency", |m, _| m.operations = 0);
        let mut without = good();
        without.latency = None;
        assert_eq!(measurement(&without), ["10 operations with no latency"]);
        finds("without one", |m, _| {
            m.operations = 0;
            m.client_questions = 0;
            m.ended_by = EndedBy::Operations;
        });
    }
}
