//! Records as tables for people.

use model::Message;
use model::message::{Measurement, Phase};
use model::record::{Line, Outcome};

use crate::ui::{self, Table};

/// Columns of the table of results.
const COLUMNS: [&str; 15] = [
    "build",
    "workload",
    "client",
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

/// A cell of a matrix that has no record.
pub struct Absent {
    /// Its target.
    pub target: String,
    /// Its machine.
    pub machine: String,
    /// Why.
    pub reason: String,
}

/// Prints the results of some records: to people a table a record under a heading, to programs one table of all.
pub fn print(records: &[Vec<Line>], _absent: &[Absent]) {
    let all = records.iter().map(|record| (build_name(record), rows(record)));
    let all: Vec<(String, Vec<Row>)> = all.filter(|(_, rows)| !rows.is_empty()).collect();
    if !ui::on_terminal() && !all.is_empty() {
        return table(&all).print();
    }
    for (build, rows) in all {
        ui::print(&build);
        let mut table = Table::new(&COLUMNS[1..]);
        rows.iter().for_each(|row| table.row(row.cells()));
        table.print();
    }
}

/// One table of all results, a row a workload.
fn table(all: &[(String, Vec<Row>)]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for (build, row) in all.iter().flat_map(|(build, rows)| rows.iter().map(move |row| (build, row))) {
        table.row(std::iter::once(build.clone()).chain(row.cells()));
    }
    table
}

/// What tells one build from another, short.
fn build_name(record: &[Line]) -> String {
    let Some(Line::Header(header)) = record.first() else { return "?".into() };
    match &header.bundle {
        Some(bundle) => {
            format!("{} {} ({}) {}", bundle.product, bundle.release, bundle.origin, header.target)
        }
        None => "null back-end".into(),
    }
}

/// One workload of a record.
struct Row {
    label: String,
    client: String,
    connections: u32,
    measured: Option<Measurement>,
    data: Option<&'static str>,
    status: String,
}

fn rows(record: &[Line]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in record {
        match line {
            Line::Workload { workload, load, client, transport, .. } => rows.push(Row {
                label: workload.label(),
                client: format!("{client}/{transport}"),
                connections: load.connections,
                measured: None,
                data: None,
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
            Message::Verified { phase, checks } => {
                let passed = checks.iter().all(|check| check.passed());
                self.data = Some(match (passed, phase) {
                    (false, _) => "WRONG",
                    (true, Phase::VerifyAfter) if self.data == Some("before only") => "verified",
                    (true, _) => "before only",
                });
            }
            Message::Finished(measured) => {
                let interrupted = measured.ended_by == model::message::EndedBy::Interrupted;
                self.status = if interrupted { "interrupted" } else { "ok" }.into();
                self.measured = Some((**measured).clone());
            }
            Message::Failed(failed) => {
                self.status = format!("failed: {}", kind_name(&failed.kind));
                self.measured = failed.partial.as_deref().cloned();
            }
            _ => {}
        }
    }

    fn cells(&self) -> Vec<String> {
        let none = || "-".to_string();
        let data = self.data.map_or(none(), String::from);
        let mut cells = vec![self.label.clone(), self.client.clone(), self.connections.to_string()];
        let Some(measured) = &self.measured else {
            cells.extend(std::iter::repeat_n(none(), 9));
            cells.extend([data, self.status.clone()]);
            return cells;
        };
        let per_operation = |cpu: Option<model::message::CpuTime>| match cpu {
            Some(cpu) if measured.operations > 0 => {
                microseconds((cpu.user_s + cpu.system_s) * 1e6 / measured.operations as f64)
            }
            _ => none(),
        };
        cells.push(measured.throughput_per_s.map_or(none(), |value| format!("{value:.0}")));
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
        cells.extend([data, self.status.clone()]);
        cells
    }
}

/// Three significant digits where they matter.
fn microseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// A kind as records spell it.
fn kind_name(kind: &impl serde::Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(String::from)).unwrap_or_default()
}

/// The caveats of a record, each once, as `kind: detail`.
pub fn caveats(record: &[Line]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in record {
        let caveat = match line {
            Line::Caveat(caveat) | Line::Message { said: Message::Caveat(caveat), .. } => caveat,
            _ => continue,
        };
        let text = format!("{}: {}", kind_name(&caveat.kind), caveat.detail);
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
            (name, error.as_ref().map(|error| error.detail.clone()).filter(|detail| detail != name))
        }
        _ => ("unknown", Some("its writer was killed".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(last: &str) -> Vec<Line> {
        let header = r#"{"line":"header","schema_version":2,"id":"x","started_at":"2026-01-01T00:00:00Z",
            "portbench_version":"0","portbench_commit":null,"bench_binary_sha256":"","command":[],"target":"t",
            "suite":"s","bundle":null,"placement":{"server_cpus":null,"client_cpus":null,"numa_node":null},
            "machine":{"machine":"m","host_kernel":"k","host_cpu":null,"host_cpus":1,"host_memory_bytes":1}}"#;
        let workload = r#"{"line":"workload","index":0,"workload":{"name":"do0"},"client":"target","transport":"unix",
            "load":{"connections":8,"threads":null,"warmup_s":1.0,"duration_s":2.0,"operations":null,"seed":1,
            "interval_s":1.0,"reply_timeout_s":1.0}}"#;
        let verified = r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-before",
            "checks":[{"check":"row count","expected":"3","found":"FOUND"}]}}"#;
        let found = if last.contains("wrong-data") { "2" } else { "3" };
        let lines = [header, workload, &verified.replace("FOUND", found), last];
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn rendered(record: Vec<Line>) -> String {
        table(&[(build_name(&record), rows(&record))]).render(false)
    }

    #[test]
    fn data_is_verified_only_before_and_after() {
        let after = r#"{"line":"message","index":0,"said":{"message":"verified","phase":"verify-after","checks":[]}}"#;
        assert!(rendered(record(after)).contains("\tverified\t"));
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
        let text = rendered(record(finished));
        let row =
            "null back-end\tdo0\ttarget/unix\t8\t1000\t8.12\t90\t100\t200\t300\t10\t100\t1\tbefore only\tok";
        assert_eq!(text.lines().nth(1), Some(row));
    }

    #[test]
    fn a_failure_is_a_row_with_its_reason() {
        let failed = r#"{"line":"message","index":0,"said":{"message":"failed","kind":"wrong-data",
            "detail":"3 rows expected\nmore","phase":"verify-before","partial":null}}"#;
        let text = rendered(record(failed));
        let row = "null back-end\tdo0\ttarget/unix\t8\t-\t-\t-\t-\t-\t-\t-\t-\t-\tWRONG\tfailed: wrong-data";
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
