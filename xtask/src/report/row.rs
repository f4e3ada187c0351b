//! One row: a workload of a record, a record that came to none, or a cell of a matrix without a record.

use model::Message;
use model::message::{CpuTime, EndedBy, Measurement, Phase};
use model::record::{Header, Line, Outcome, RecordedError};

use super::{Absent, kind_name};

/// Characters of a reason that a table shows; the record has the rest.
const REASON: usize = 100;

/// One row.
#[derive(Clone, Default)]
pub struct Row {
    pub target: String,
    pub machine: String,
    /// Base pages of the server's machine; `None` where the record does not say.
    pub page_bytes: Option<u64>,
    pub build: String,
    /// `None`: there is no workload.
    pub workload: Option<Asked>,
    /// The record's number of that workload.
    pub index: u32,
    /// One part of it, e.g. a phase.
    pub part: Option<String>,
    pub measured: Option<Measurement>,
    pub data: Option<&'static str>,
    pub status: Status,
}

/// What was asked for.
#[derive(Clone)]
pub struct Asked {
    pub label: String,
    pub client: String,
    pub transport: String,
    pub connections: u32,
}

/// What became of it.
#[derive(Clone, Default)]
pub struct Status {
    /// `ok`, `interrupted`, `failed`, `no result`, or a sentence of its own.
    pub word: String,
    /// Why it is not `ok`: the kind of failure and what happened.
    pub reason: Option<String>,
}

impl Status {
    fn plain(word: &str) -> Self {
        Status { word: word.into(), reason: None }
    }

    fn failed(kind: &str, detail: &str) -> Self {
        Status { word: "failed".into(), reason: Some(format!("{kind}: {detail}")) }
    }

    /// The execution's own end, for a row that has none.
    fn of_end(outcome: Outcome, error: Option<&RecordedError>) -> Self {
        match (outcome, error) {
            (Outcome::Interrupted, _) => Status::plain("interrupted"),
            (_, Some(error)) => Status::failed(&error.kind, &error.detail),
            (Outcome::Failed, None) => Status::plain("failed"),
            (Outcome::Complete, None) => Status::plain("no result"),
        }
    }

    fn is(&self, word: &str) -> bool {
        self.word == word
    }

    /// In one line.
    fn shown(&self) -> String {
        let Some(reason) = &self.reason else { return self.word.clone() };
        let first = reason.lines().next().unwrap_or_default();
        let cut: String = first.chars().take(REASON).collect();
        let more = if cut.len() < first.len() { "…" } else { "" };
        format!("{}: {cut}{more}", self.word)
    }
}

/// The rows of a record, one at least.
pub fn of(record: &[Line]) -> Vec<Row> {
    let Some(Line::Header(header)) = record.first() else { return Vec::new() };
    let mut rows: Vec<Row> = Vec::new();
    for line in record {
        match line {
            Line::Workload { index, workload, load, client, transport } => rows.push(Row {
                index: *index,
                workload: Some(Asked {
                    label: workload.label() + &load.arrival.label(),
                    client: client.clone(),
                    transport: transport.clone(),
                    connections: load.connections,
                }),
                status: Status::plain("no result"),
                ..Row::of_header(header)
            }),
            Line::Message { index, said: Message::Part { part, measured } } => {
                take_part(&mut rows, *index, part, measured);
            }
            Line::Message { index, said } => {
                rows.iter_mut().filter(|row| row.index == *index).for_each(|row| row.take(said));
            }
            Line::End { outcome, error, .. } => {
                let status = Status::of_end(*outcome, error.as_ref());
                let told = *outcome == Outcome::Complete || rows.iter().any(|row| !row.status.is("ok"));
                match rows.last_mut() {
                    Some(row) if row.status.is("no result") => row.status = status,
                    _ if told => {}
                    // Nothing above says that it failed.
                    _ => rows.push(Row { status, ..Row::of_header(header) }),
                }
            }
            _ => {}
        }
    }
    if rows.is_empty() {
        rows.push(Row { status: Status::plain("no result"), ..Row::of_header(header) });
    }
    let page_bytes = page_bytes(record);
    rows.iter_mut().for_each(|row| row.page_bytes = page_bytes);
    rows
}

/// A part of a workload is a row of its own; the first takes the place of the workload's.
fn take_part(rows: &mut Vec<Row>, index: u32, part: &str, measured: &Measurement) {
    let Some(last) = rows.iter().rposition(|row| row.index == index && row.workload.is_some()) else {
        return;
    };
    if rows[last].part.is_some() {
        let row = rows[last].clone();
        rows.push(row);
    }
    let at = if rows[last].part.is_some() { rows.len() - 1 } else { last };
    rows[at].part = Some(part.to_string());
    rows[at].measured = Some(measured.clone());
}

/// Rows for cells that have no record.
pub fn absent(cells: &[Absent]) -> impl Iterator<Item = Row> {
    cells.iter().map(|cell| Row {
        target: cell.target.clone(),
        machine: cell.machine.clone(),
        build: "-".into(),
        status: Status::plain(&cell.reason),
        ..Row::default()
    })
}

/// Of the machine that the server ran on, else of the load generator's.
fn page_bytes(record: &[Line]) -> Option<u64> {
    let server = record.iter().find_map(|line| match line {
        Line::Machine(up) if up.role == "server" => Some(up.facts.page_bytes),
        _ => None,
    });
    server.or_else(|| {
        record.iter().find_map(|line| match line {
            Line::Message { said: Message::Hello { facts, .. }, .. } => Some(facts.page_bytes),
            _ => None,
        })
    })
}

impl Row {
    fn of_header(header: &Header) -> Self {
        let build = header.bundle.as_ref();
        let build = build.map(|bundle| format!("{} {} ({})", bundle.product, bundle.release, bundle.origin));
        Row {
            target: header.target.clone(),
            machine: header.machine.machine.clone(),
            build: build.unwrap_or("null back-end".into()),
            ..Row::default()
        }
    }

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
                let interrupted = measured.ended_by == EndedBy::Interrupted;
                self.status = Status::plain(if interrupted { "interrupted" } else { "ok" });
                if self.part.is_none() {
                    self.measured = Some((**measured).clone());
                }
            }
            Message::Failed(failed) => {
                self.status = Status::failed(&kind_name(&failed.kind), &failed.detail);
                if self.part.is_none() {
                    self.measured = failed.partial.as_deref().cloned();
                }
            }
            _ => {}
        }
    }

    /// What stands above a record's own table.
    pub fn heading(&self) -> String {
        let page = self.page_bytes.map(|bytes| format!(", pages of {}", size(bytes))).unwrap_or_default();
        format!("{}, {} on {}{page}", self.build, self.target, self.machine)
    }

    /// Which execution.
    pub fn which(&self) -> [String; 4] {
        let page = self.page_bytes.map_or("-".into(), size);
        [self.target.clone(), self.machine.clone(), page, self.build.clone()]
    }

    /// What it gave.
    pub fn what(&self) -> Vec<String> {
        let none = || "-".to_string();
        let mut cells = match &self.workload {
            Some(asked) => vec![
                match &self.part {
                    Some(part) => format!("{}/{part}", asked.label),
                    None => asked.label.clone(),
                },
                format!("{}/{}", asked.client, asked.transport),
                asked.connections.to_string(),
            ],
            None => vec![none(); 3],
        };
        match &self.measured {
            Some(measured) => cells.extend(numbers(measured)),
            None => cells.extend(std::iter::repeat_n(none(), 9)),
        }
        cells.extend([self.data.map_or(none(), String::from), self.status.shown()]);
        cells
    }
}

fn numbers(measured: &Measurement) -> Vec<String> {
    let none = || "-".to_string();
    let per_operation = |cpu: Option<CpuTime>| match cpu {
        Some(cpu) if measured.operations > 0 => {
            microseconds((cpu.user_s + cpu.system_s) * 1e6 / measured.operations as f64)
        }
        _ => none(),
    };
    let mut cells = vec![measured.throughput_per_s.map_or(none(), |value| format!("{value:.0}"))];
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
    cells
}

/// Three significant digits where they matter.
fn microseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Pages are powers of two of at least a KiB.
fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}
