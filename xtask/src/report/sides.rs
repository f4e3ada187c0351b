//! Two builds that were benched in turn, as one comparison.

use model::message::Measurement;
use model::record::Line;

use super::compared::{Turn, ratios};
use super::row::{self, Row};
use crate::ui::Table;

/// Which of two a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is compared.
    One,
    /// What it is compared with.
    Other,
}

/// What is compared of a measurement: its name, its digits, and its value.
type Metric = (&'static str, usize, fn(&Measurement) -> Option<f64>);

const METRICS: [Metric; 4] = [
    ("ops/s", 0, |measured| measured.throughput_per_s),
    ("p50 us", 1, |measured| measured.latency.as_ref().map(|latency| latency.latency_us_p50)),
    ("p99 us", 1, |measured| measured.latency.as_ref().map(|latency| latency.latency_us_p99)),
    ("server us/op", 2, |measured| {
        let cpu = measured.server_cpu.as_ref()?;
        (measured.operations > 0).then(|| (cpu.user_s + cpu.system_s) * 1e6 / measured.operations as f64)
    }),
];

/// A row a target, machine, workload and metric: the medians of both, and their ratio turn by turn.
pub fn table(records: &[(Side, &Vec<Line>)], names: [&str; 2]) -> Table {
    let rows = |side: Side| -> Vec<Row> {
        records.iter().filter(|(known, _)| *known == side).flat_map(|(_, record)| row::of(record)).collect()
    };
    let (one, other) = (rows(Side::One), rows(Side::Other));
    let mut table = Table::new(&[
        "target", "machine", "workload", "conns", "metric", names[0], names[1], "ratio", "least", "most",
        "turns",
    ]);
    let mut seen: Vec<[String; 4]> = Vec::new();
    for row in &one {
        let which = key(row);
        if seen.contains(&which) {
            continue;
        }
        for (metric, digits, value) in METRICS {
            let values = |rows: &[Row]| -> Vec<f64> {
                let same = rows.iter().filter(|row| key(row) == which);
                same.filter_map(|row| row.measured.as_ref().and_then(value)).collect()
            };
            let turns: Vec<Turn> = values(&one).into_iter().zip(values(&other)).collect();
            if !turns.is_empty() {
                let cells = which.iter().cloned().chain([metric.to_string()]).chain(ratios(&turns, digits));
                table.row(cells);
            }
        }
        seen.push(which);
    }
    table
}

/// What tells one row from another.
fn key(row: &Row) -> [String; 4] {
    let asked = row.workload.as_ref();
    let label = asked.map(|asked| asked.label.clone()).unwrap_or_default();
    let part = row.part.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
    let conns = asked.map(|asked| asked.connections.to_string()).unwrap_or_default();
    [row.target.clone(), row.machine.clone(), label + &part, conns]
}
