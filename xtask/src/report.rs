//! Records as tables for people and programs.
//!
//! Every execution is a row at least: one that failed has its reason where others have numbers, and a cell of a matrix
//! that cannot be executed says why.

mod compared;
pub mod micro;
mod row;
mod sides;
mod summary;

use model::Message;
use model::record::{Line, Outcome};

use crate::ui::{self, Table};
use row::Row;
pub use sides::Side;
pub use summary::summary;

/// A cell of a matrix that has no record.
pub struct Absent {
    /// Its target.
    pub target: String,
    /// Its machine.
    pub machine: String,
    /// Why.
    pub reason: String,
}

/// Columns that tell executions from one another.
const WHICH: [&str; 4] = ["target", "machine", "page", "build"];
/// Columns of what one workload gave.
const WHAT: [&str; 14] = [
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
/// Those that a matrix on a terminal has no room for; `show` of one record has them.
const NARROW: [&str; 4] = ["client", "p99.9 us", "client us/op", "server us/op"];

/// Prints the results of some records, and the cells of their matrix that have none.
///
/// To people, executions on one target and machine are a table each under a heading, others one narrower table. To
/// programs everything is one table that always has the same columns.
///
/// Behind it stands, for each record that has one, the comparison with the program that its workload is modelled on.
pub fn print(records: &[Vec<Line>], absent: &[Absent]) {
    print_rows(records, absent);
    for table in records.iter().filter_map(|record| compared::table(record)) {
        ui::print("");
        table.print();
    }
}

/// Prints two builds that were benched in turn as one comparison; `names`: what they are called.
pub fn print_sides(records: &[(Side, &Vec<Line>)], names: [&str; 2]) {
    sides::table(records, names).print();
}

fn print_rows(records: &[Vec<Line>], absent: &[Absent]) {
    let rows: Vec<Row> =
        records.iter().flat_map(|record| row::of(record)).chain(row::absent(absent)).collect();
    if rows.is_empty() {
        return;
    }
    if !ui::on_terminal() {
        return table(&rows, &[]).print();
    }
    let first = &rows[0];
    if rows.iter().any(|row| (&row.target, &row.machine) != (&first.target, &first.machine)) {
        return table(&rows, &NARROW).print();
    }
    for record in records {
        let rows = row::of(record);
        let Some(first) = rows.first() else { continue };
        ui::print(&first.heading());
        table(&rows, &WHICH).print();
    }
    // With a row at least, so that nothing is silent.
    let none: Vec<Row> = row::absent(absent).collect();
    if !none.is_empty() {
        table(&none, &NARROW).print();
    }
}

/// A table of these rows without some columns.
fn table(rows: &[Row], without: &[&str]) -> Table {
    let all = || WHICH.iter().chain(&WHAT);
    let kept: Vec<bool> = all().map(|column| !without.contains(column)).collect();
    let names: Vec<&str> = all().zip(&kept).filter(|(_, kept)| **kept).map(|(name, _)| *name).collect();
    let mut table = Table::new(&names);
    for row in rows {
        let cells = row.which().into_iter().chain(row.what());
        table.row(cells.zip(&kept).filter(|(_, kept)| **kept).map(|(cell, _)| cell));
    }
    table
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
mod tests;
