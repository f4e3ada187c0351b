//! Records as tables for people.

use model::Message;
use model::message::Measurement;
use model::record::{Header, Line, Outcome};

use crate::ui::Table;

/// Columns of the table of results.
const COLUMNS: [&str; 14] = [
    "build",
    "workload",
    "conns",
    "ops/s",
    "p50 us",
    "p95 us",
    "p99 us",
    "p99.9 us",
    "max us",
    "client us/op",
    "server us/op",
    "errors",
    "data",
    "status",
];

/// The table of results of some records, a row a workload.
pub fn table(records: &[Vec<Line>]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for record in records {
        let build = record.iter().find_map(|line| match line {
            Line::Header(header) => Some(build_name(header)),
            _ => None,
        });
        for row in rows(record) {
            table.row(std::iter::once(build.clone().unwrap_or("?".into())).chain(row.cells()));
        }
    }
    table
}

/// What tells one build from another, short.
fn build_name(header: &Header) -> String {
    match &header.bundle {
        Some(bundle) => {
            format!("{} {} ({}) {}", bundle.product, bundle.release, bundle.origin, header.target)
        }
        None => format!("null back-end {}", header.target),
    }
}

/// One workload of a record.
struct Row {
    label: String,
    connections: u32,
    measured: Option<Measurement>,
    checks: Option<bool>,
    status: String,
}

fn rows(record: &[Line]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in record {
        match line {
            Line::Workload { workload, load, .. } => rows.push(Row {
                label: workload.label(),
                connections: load.connections,
                measured: None,
                checks: None,
                status: "no result".into(),
            }),
            Line::Message { index, said } => {
                if let Some(row) = rows.get_mut(*index as usize) {
                    row.take(said);
                }
            }
            _ => {}
        }
    }
    rows
}

impl Row {
    fn take(&mut self, said: &Message) {
        match said {
            Message::Verified { checks, .. } => {
                let passed = checks.iter().all(|check| check.passed());
                self.checks = Some(self.checks.unwrap_or(true) && passed);
            }
            Message::Finished(measured) => {
                let interrupted = measured.ended_by == model::message::EndedBy::Interrupted;
                self.status = if interrupted { "interrupted" } else { "ok" }.into();
                self.measured = Some((**measured).clone());
            }
            Message::Failed(failed) => {
                self.status = format!("failed: {}", failed.detail.lines().next().unwrap_or_default());
                self.measured = failed.partial.as_deref().cloned();
            }
            _ => {}
        }
    }

    fn cells(self) -> Vec<String> {
        let none = || "-".to_string();
        let data = self.checks.map_or(none(), |passed| if passed { "verified" } else { "WRONG" }.into());
        let Some(measured) = self.measured else {
            let mut cells = vec![self.label, self.connections.to_string()];
            cells.extend(std::iter::repeat_n(none(), 9));
            cells.extend([data, self.status]);
            return cells;
        };
        let per_operation = |cpu: Option<model::message::CpuTime>| match cpu {
            Some(cpu) if measured.operations > 0 => {
                microseconds((cpu.user_s + cpu.system_s) * 1e6 / measured.operations as f64)
            }
            _ => none(),
        };
        let throughput = measured.throughput_per_s.map_or(none(), |value| format!("{value:.0}"));
        let mut cells = vec![self.label, self.connections.to_string(), throughput];
        match &measured.latency {
            Some(l) => cells.extend(
                [l.latency_us_p50, l.latency_us_p95, l.latency_us_p99, l.latency_us_p99_9, l.latency_us_max]
                    .map(microseconds),
            ),
            None => cells.extend(std::iter::repeat_n(none(), 5)),
        }
        cells.push(per_operation(Some(measured.client_cpu)));
        cells.push(per_operation(measured.server_cpu));
        cells.push(measured.errors.values().sum::<u64>().to_string());
        cells.extend([data, self.status]);
        cells
    }
}

/// Three significant digits where they matter.
fn microseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// The caveats of a record, each once, as `kind: detail`.
pub fn caveats(record: &[Line]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in record {
        let caveat = match line {
            Line::Caveat(caveat) | Line::Message { said: Message::Caveat(caveat), .. } => caveat,
            _ => continue,
        };
        let kind = serde_json::to_value(caveat.kind).ok().and_then(|v| v.as_str().map(String::from));
        let text = format!("{}: {}", kind.unwrap_or_default(), caveat.detail);
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// How a record ended: `unknown` where its writer was killed.
pub fn outcome(record: &[Line]) -> (&'static str, Option<String>) {
    match record.last() {
        Some(Line::End { outcome, error, .. }) => {
            let name = match outcome {
                Outcome::Complete => "complete",
                Outcome::Interrupted => "interrupted",
                Outcome::Failed => "failed",
            };
            (name, error.as_ref().map(|error| error.detail.clone()))
        }
        _ => ("unknown", Some("its writer was killed".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(last: &str) -> Vec<Line> {
        let header = r#"{"line":"header","schema_version":1,"id":"x","started_at":"2026-01-01T00:00:00Z",
            "portbench_version":"0","command":[],"target":"t","suite":"s","bundle":null,"machine":{"machine":"m",
            "emulator":null,"host_kernel":"k","host_cpu":null,"host_cpus":1,"host_memory_bytes":1}}"#;
        let workload = r#"{"line":"workload","index":0,"workload":{"name":"do0"},"client":"target","transport":"unix",
            "load":{"connections":8,"threads":null,"warmup_s":1.0,"duration_s":2.0,"operations":null,"seed":1,
            "interval_s":1.0,"reply_timeout_s":1.0}}"#;
        let verified = r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-before",
            "checks":[{"check":"row count","expected":"3","found":"FOUND"}]}}"#;
        let found = if last.contains("wrong-data") { "2" } else { "3" };
        let lines = [header, workload, &verified.replace("FOUND", found), last];
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_measurement_is_a_row_with_its_cost_an_operation() {
        let finished = r#"{"line":"message","index":0,"said":{"message":"finished","transport":"unix",
            "authentication":"mysql_native_password","tls_cipher":null,"connections":8,"connections_up_at_start":8,
            "connections_up_at_end":8,"threads":2,"elapsed_s":2.0,"operations":2000,"throughput_per_s":1000.0,
            "latency":{"count":2000,"latency_us_min":1.0,"latency_us_mean":9.0,"latency_us_p50":8.123,
            "latency_us_p95":90.0,"latency_us_p99":100.4,"latency_us_p99_9":200.0,"latency_us_max":300.0,
            "histogram_ns_hdr_base64":""},"client_cpu":{"user_s":0.01,"system_s":0.01},
            "server_cpu":{"user_s":0.1,"system_s":0.1},"server_questions":2000,"client_questions":2000,
            "errors":{"1205":1},"ended_by":"duration"}}"#;
        let text = table(&[record(finished)]).render(false);
        let row = "null back-end t\tdo0\t8\t1000\t8.12\t90\t100\t200\t300\t10\t100\t1\tverified\tok";
        assert_eq!(text.lines().nth(1), Some(row));
    }

    #[test]
    fn a_failure_is_a_row_with_its_reason() {
        let failed = r#"{"line":"message","index":0,"said":{"message":"failed","kind":"wrong-data",
            "detail":"3 rows expected\nmore","phase":"verify-before","partial":null}}"#;
        let text = table(&[record(failed)]).render(false);
        let row = "null back-end t\tdo0\t8\t-\t-\t-\t-\t-\t-\t-\t-\t-\tWRONG\tfailed: 3 rows expected";
        assert_eq!(text.lines().nth(1), Some(row));
    }

    #[test]
    fn a_record_without_an_end_says_that_its_writer_was_killed() {
        let caveat = r#"{"line":"caveat","kind":"emulated","detail":"slow"}"#;
        let record = record(caveat);
        assert_eq!(outcome(&record).0, "unknown");
        assert_eq!(caveats(&record), ["emulated: slow"]);
    }
}
