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
                format!("{:.1}", (cpu.user_s + cpu.system_s) * 1e6 / measured.operations as f64)
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
