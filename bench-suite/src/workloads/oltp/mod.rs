//! sysbench's OLTP tests: its tables, its statements, its numbers of them in a transaction, keys uniformly chosen.
//! Statements are prepared.

mod rows;

use model::message::DataCheck;
use model::request::{Oltp, OltpTest};

use self::rows::{C_BYTES, PAD_BYTES, are_digits, digits};
use super::{Workload, check_values, mix, random, scale};
use crate::client::{Expect, Reply, Rows, command};
use crate::control::Control;
use crate::failure::Failure;

/// Rows of a range.
const RANGE: u64 = 100;
/// Places of `random-points` and ranges of `random-ranges`.
const POINTS: usize = 10;
/// How far a range of `random-ranges` reaches.
const DELTA: u64 = 5;
/// Type codes of a 4-byte integer and of a string.
const LONG: [u8; 2] = [0x03, 0];
const STRING: [u8; 2] = [0xfd, 0];

/// A command of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Begin,
    Commit,
    Point,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    IndexUpdate,
    NonIndexUpdate,
    Delete,
    /// The row that the command before it deleted.
    Insert,
    RandomPoints,
    RandomRanges,
}

impl Kind {
    /// Its statement on a table; `None` where it is sent as text.
    fn statement(self, table: &str) -> Option<String> {
        let table = format!("portbench.{table}");
        Some(match self {
            Kind::Begin | Kind::Commit => return None,
            Kind::Point => format!("SELECT c FROM {table} WHERE id=?"),
            Kind::SimpleRange => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ?"),
            Kind::SumRange => format!("SELECT SUM(k) FROM {table} WHERE id BETWEEN ? AND ?"),
            Kind::OrderRange => format!("SELECT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Kind::DistinctRange => {
                format!("SELECT DISTINCT c FROM {table} WHERE id BETWEEN ? AND ? ORDER BY c")
            }
            Kind::IndexUpdate => format!("UPDATE {table} SET k=k+1 WHERE id=?"),
            Kind::NonIndexUpdate => format!("UPDATE {table} SET c=? WHERE id=?"),
            Kind::Delete => format!("DELETE FROM {table} WHERE id=?"),
            Kind::Insert => format!("INSERT INTO {table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            Kind::RandomPoints => {
                format!("SELECT id, k, c, pad FROM {table} WHERE k IN ({})", ["?"; POINTS].join(", "))
            }
            Kind::RandomRanges => {
                format!("SELECT COUNT(k) FROM {table} WHERE {}", ["k BETWEEN ? AND ?"; POINTS].join(" OR "))
            }
        })
    }
}

/// The commands of a test's transaction, as sysbench has them.
fn plan(test: OltpTest) -> Vec<Kind> {
    let reads =
        [&[Kind::Point; 10][..], &[Kind::SimpleRange, Kind::SumRange, Kind::OrderRange, Kind::DistinctRange]];
    let writes: &[Kind] = &[Kind::IndexUpdate, Kind::NonIndexUpdate, Kind::Delete, Kind::Insert];
    let (begin, commit): (&[Kind], &[Kind]) = (&[Kind::Begin], &[Kind::Commit]);
    match test {
        OltpTest::PointSelect => vec![Kind::Point],
        OltpTest::ReadOnly => [begin, reads[0], reads[1], commit].concat(),
        OltpTest::ReadWrite => [begin, reads[0], reads[1], writes, commit].concat(),
        OltpTest::WriteOnly => [begin, writes, commit].concat(),
        OltpTest::UpdateIndex => vec![Kind::IndexUpdate],
        OltpTest::UpdateNonIndex => vec![Kind::NonIndexUpdate],
        OltpTest::RandomPoints => vec![Kind::RandomPoints],
        OltpTest::RandomRanges => vec![Kind::RandomRanges],
    }
}

/// The workload.
pub struct OltpWorkload {
    oltp: Oltp,
    plan: Vec<Kind>,
    /// Each command has random values of its own.
    seeds: Vec<u64>,
    /// Where the statement of each command on the first table is; those of the next table follow them all.
    places: Vec<usize>,
    /// Statements on one table.
    a_table: usize,
    statements: Vec<String>,
}

impl OltpWorkload {
    /// One test.
    pub fn new(oltp: &Oltp, seed: u64) -> Self {
        let plan = plan(oltp.test);
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in plan.iter().filter(|kind| kind.statement("").is_some()) {
            if !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        let tables = (1..=oltp.tables).map(|table| rows::name(oltp, table));
        let on_each =
            |table: String| kinds.iter().filter_map(|kind| kind.statement(&table)).collect::<Vec<_>>();
        OltpWorkload {
            statements: tables.flat_map(on_each).collect(),
            places: plan.iter().map(|kind| kinds.iter().position(|k| k == kind).unwrap_or(0)).collect(),
            a_table: kinds.len(),
            seeds: (0..plan.len() as u64).map(|step| mix(seed ^ mix(step + 1))).collect(),
            plan,
            oltp: oltp.clone(),
        }
    }

    /// What a command is about: an insert is about the row that was deleted before it.
    #[inline]
    fn draw(&self, number: u64, step: usize) -> Draw {
        let about = step - usize::from(self.plan[step] == Kind::Insert);
        let value = random(self.seeds[about], number);
        Draw {
            id: 1 + scale(value, self.oltp.rows),
            table: scale(mix(value), self.oltp.tables.into()) as usize,
            more: mix(!value),
        }
    }
}

/// Random values of a command.
struct Draw {
    id: u64,
    /// From 0.
    table: usize,
    more: u64,
}

/// Rows that a range from `id` has.
fn in_range(id: u64, rows: u64) -> u64 {
    RANGE.min(rows - id + 1)
}

/// Appends the execution of a statement with parameters: their types, then their values.
fn execute(out: &mut Vec<u8>, statement: u32, types: &[[u8; 2]]) {
    out.push(command::STMT_EXECUTE);
    out.extend_from_slice(&statement.to_le_bytes());
    // No cursor; once.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    // No parameter is NULL; types follow.
    out.resize(out.len() + types.len().div_ceil(8), 0);
    out.push(1);
    types.iter().for_each(|kind| out.extend_from_slice(kind));
}

fn put_long(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&(value as u32).to_le_bytes());
}

fn put_digits<const N: usize>(out: &mut Vec<u8>, state: u64) {
    out.push(N as u8);
    out.extend_from_slice(&digits::<N>(state));
}

impl Workload for OltpWorkload {
    fn statements(&self) -> &[String] {
        &self.statements
    }

    fn commands(&self) -> u32 {
        self.plan.len() as u32
    }

    fn expect(&self, step: u32) -> Expect {
        match self.plan[step as usize] {
            Kind::Begin | Kind::Commit => Expect::Text,
            _ => Expect::Binary,
        }
    }

    fn encode(&self, number: u64, step: u32, statements: &[u32], out: &mut Vec<u8>) {
        let step = step as usize;
        let Draw { id, table, more } = self.draw(number, step);
        let rows = self.oltp.rows;
        let place = table * self.a_table + self.places[step];
        let statement = statements.get(place).copied().unwrap_or_default();
        match self.plan[step] {
            Kind::Begin => out.extend_from_slice(b"\x03BEGIN"),
            Kind::Commit => out.extend_from_slice(b"\x03COMMIT"),
            Kind::Point | Kind::IndexUpdate | Kind::Delete => {
                execute(out, statement, &[LONG]);
                put_long(out, id);
            }
            Kind::SimpleRange | Kind::SumRange | Kind::OrderRange | Kind::DistinctRange => {
                execute(out, statement, &[LONG; 2]);
                put_long(out, id);
                put_long(out, id + RANGE - 1);
            }
            Kind::NonIndexUpdate => {
                execute(out, statement, &[STRING, LONG]);
                put_digits::<C_BYTES>(out, more);
                put_long(out, id);
            }
            Kind::Insert => {
                execute(out, statement, &[LONG, LONG, STRING, STRING]);
                put_long(out, id);
                put_long(out, rows::k(more, rows));
                put_digits::<C_BYTES>(out, more);
                put_digits::<PAD_BYTES>(out, !more);
            }
            Kind::RandomPoints => {
                execute(out, statement, &[LONG; POINTS]);
                (0..POINTS as u64).for_each(|n| put_long(out, 1 + scale(random(more, n), rows)));
            }
            Kind::RandomRanges => {
                execute(out, statement, &[LONG; 2 * POINTS]);
                for n in 0..POINTS as u64 {
                    let from = 1 + scale(random(more, n), rows);
                    put_long(out, from);
                    put_long(out, from + DELTA);
                }
            }
        }
    }

    fn check(&self, number: u64, step: u32, reply: &Reply<'_>) -> bool {
        let step = step as usize;
        let expected = || in_range(self.draw(number, step).id, self.oltp.rows) as usize;
        match (self.plan[step], reply) {
            (Kind::Begin | Kind::Commit, Reply::Ok(_)) => true,
            (Kind::IndexUpdate | Kind::NonIndexUpdate | Kind::Delete | Kind::Insert, Reply::Ok(ok)) => {
                ok.affected_rows == 1
            }
            (Kind::Point, Reply::Rows(rows)) => rows.len() == 1 && each(rows, is_c),
            (Kind::SimpleRange, Reply::Rows(rows)) => rows.len() == expected() && each(rows, is_c),
            (Kind::OrderRange, Reply::Rows(rows)) => {
                rows.len() == expected() && each(rows, is_c) && is_sorted(rows)
            }
            (Kind::DistinctRange, Reply::Rows(rows)) => {
                (1..=expected()).contains(&rows.len()) && each(rows, is_c) && is_sorted(rows)
            }
            // One value that is not NULL.
            (Kind::SumRange | Kind::RandomRanges, Reply::Rows(rows)) => {
                rows.len() == 1
                    && rows.width() == 1
                    && rows.raw(0).is_some_and(|row| row.starts_with(&[0, 0]))
            }
            (Kind::RandomPoints, Reply::Rows(rows)) => rows.width() == 4 && each(rows, is_whole),
            _ => false,
        }
    }

    fn prepare(&self, control: &mut Control) -> Result<(), Failure> {
        rows::prepare(&self.oltp, control)
    }

    fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
        let mut checks = check_values(control)?;
        checks.extend(rows::verify(&self.oltp, control)?);
        Ok(checks)
    }
}

fn each(rows: &Rows<'_>, good: fn(&[u8]) -> bool) -> bool {
    (0..rows.len()).all(|at| rows.raw(at).is_some_and(good))
}

fn is_sorted(rows: &Rows<'_>) -> bool {
    (1..rows.len()).all(|at| rows.raw(at - 1) <= rows.raw(at))
}

/// A row with the column `c`: a zero byte, no NULL, and the value.
fn is_c(row: &[u8]) -> bool {
    row.strip_prefix(&[0, 0, C_BYTES as u8]).is_some_and(|c| are_digits(c, C_BYTES))
}

/// A row with all four columns.
fn is_whole(row: &[u8]) -> bool {
    let texts = row.strip_prefix(&[0, 0]).and_then(|rest| rest.get(8..));
    let c = texts
        .and_then(|rest| rest.strip_prefix(&[C_BYTES as u8]))
        .and_then(|rest| rest.split_at_checked(C_BYTES));
    c.is_some_and(|(c, rest)| {
        let pad = rest.strip_prefix(&[PAD_BYTES as u8]);
        are_digits(c, C_BYTES) && pad.is_some_and(|pad| are_digits(pad, PAD_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use model::request::Engine;

    use super::*;
    use crate::client::OkReply;

    fn workload(test: OltpTest) -> OltpWorkload {
        OltpWorkload::new(&Oltp { test, tables: 3, rows: 1000, engine: Engine::InnoDb }, 7)
    }

    #[test]
    fn a_transaction_has_sysbenchs_commands() {
        let questions = |test| workload(test).commands();
        assert_eq!(
            [OltpTest::ReadOnly, OltpTest::ReadWrite, OltpTest::WriteOnly].map(questions),
            [16, 20, 6]
        );
        assert_eq!(
            [OltpTest::PointSelect, OltpTest::UpdateIndex, OltpTest::RandomPoints].map(questions),
            [1; 3]
        );
    }

    #[test]
    fn each_table_has_its_statements_and_each_command_finds_its_own() {
        let workload = workload(OltpTest::ReadWrite);
        assert_eq!(workload.statements().len(), 3 * 9);
        let ids: Vec<u32> = (0..27).collect();
        for number in 0..200 {
            for step in (0..workload.commands()).filter(|step| !matches!(step, 0 | 19)) {
                let mut out = Vec::new();
                workload.encode(number, step, &ids, &mut out);
                let statement =
                    &workload.statements()[u32::from_le_bytes([out[1], out[2], out[3], out[4]]) as usize];
                let draw = workload.draw(number, step as usize);
                let table = format!("sbtest{}", draw.table + 1);
                assert_eq!(Some(statement.clone()), workload.plan[step as usize].statement(&table));
                assert!((1..=1000).contains(&draw.id));
            }
        }
    }

    #[test]
    fn what_is_deleted_is_inserted_again() {
        let workload = workload(OltpTest::WriteOnly);
        assert_eq!((workload.plan[3], workload.plan[4]), (Kind::Delete, Kind::Insert));
        for number in 0..100 {
            let (delete, insert) = (workload.draw(number, 3), workload.draw(number, 4));
            assert_eq!((delete.id, delete.table), (insert.id, insert.table));
        }
    }

    #[test]
    fn an_update_that_changed_nothing_and_a_cut_value_are_wrong() {
        let workload = workload(OltpTest::UpdateIndex);
        let ok = |affected_rows| Reply::Ok(OkReply { affected_rows, warnings: 0 });
        assert!(workload.check(0, 0, &ok(1)) && !workload.check(0, 0, &ok(0)));
        let c = digits::<C_BYTES>(5);
        let row = [&[0, 0, 119], &c[..]].concat();
        assert!(is_c(&row) && !is_c(&row[..row.len() - 1]));
        let whole =
            [&[0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 119], &c[..], &[59], &digits::<PAD_BYTES>(5)[..]].concat();
        assert!(is_whole(&whole) && !is_whole(&whole[..whole.len() - 1]) && !is_whole(&row));
        assert_eq!((in_range(1, 1000), in_range(1000, 1000), in_range(951, 1000)), (100, 1, 50));
    }
}
