//! The table of point-select: every row is a function of its id, so the client knows what the server must
//! say.
//!
//! A stamp (data set, schema version, rows, complete) makes loading idempotent: a complete stamp that
//! matches is kept, anything else that we stamped is dropped and loaded anew, and a table without a stamp
//! is not ours and never touched. The stamp is kept in the same storage engine, so that it lives where the
//! rows live: an NDB table outlives the SQL node that made it.

use std::fmt::Write;
use std::time::Duration;

use model::message::{DataCheck, FailedKind};
use model::request::Engine;

use super::{mix, scale};
use crate::control::{Control, ControlError};
use crate::failure::Failure;
use crate::output;

/// Bytes of column `c`.
pub const C_BYTES: usize = 120;
/// To be raised whenever the table or its content changes.
const SCHEMA_VERSION: u32 = 1;
const ROWS_A_STATEMENT: u64 = 500;
/// One sum over this many rows: bounded work for a slow (emulated) server.
const ROWS_A_CHECK: u64 = 20_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// The table with this many rows.
pub struct Dataset {
    /// Rows, ids 1 to `rows`.
    pub rows: u64,
    /// What holds them.
    pub engine: Engine,
}

/// What column `c` of row `id` holds: 15 words of 8 letters from `a` to `p`, a letter for each 4 bits.
#[inline]
pub fn content(id: u64) -> [u8; C_BYTES] {
    let mut out = [0; C_BYTES];
    let mut state = mix(id);
    for pair in out.chunks_mut(16) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let bits = state ^ (state >> 29);
        pair[..8].copy_from_slice(&letters(bits as u32));
        if let Some(second) = pair.get_mut(8..16) {
            second.copy_from_slice(&letters((bits >> 32) as u32));
        }
    }
    out
}

/// Spreads 8 times 4 bits over 8 bytes.
#[inline]
fn letters(bits: u32) -> [u8; 8] {
    let x = u64::from(bits);
    let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    let x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    (x + 0x6161_6161_6161_6161).to_le_bytes()
}

/// What column `k` of row `id` holds.
fn k(id: u64) -> u64 {
    scale(mix(!id), 1 << 31)
}

/// Count and sums over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    rows: u128,
    id: u128,
    k: u128,
    crc: u128,
}

impl Sums {
    fn of(first: u64, last: u64) -> Self {
        let mut sums = Sums::default();
        for id in first..=last {
            sums.rows += 1;
            sums.id += u128::from(id);
            sums.k += u128::from(k(id));
            sums.crc += u128::from(crc32fast::hash(&content(id)));
        }
        sums
    }

    fn add(&mut self, other: Sums) {
        self.rows += other.rows;
        self.id += other.id;
        self.k += other.k;
        self.crc += other.crc;
    }
}

fn failed(error: ControlError, doing: &str) -> Failure {
    error.into_failure(doing, FailedKind::Prepare)
}

impl Dataset {
    /// The table's name in the database `portbench`: one for each engine, so that both can be there.
    pub fn table(&self) -> &'static str {
        match self.engine {
            Engine::InnoDb => "point_select",
            Engine::NdbCluster => "point_select_ndb",
        }
    }

    /// The name of the table of stamps.
    fn stamps(&self) -> &'static str {
        match self.engine {
            Engine::InnoDb => "stamp",
            Engine::NdbCluster => "stamp_ndb",
        }
    }

    /// Loads the table unless it is there, complete.
    pub fn prepare(&self, control: &mut Control) -> Result<(), Failure> {
        control.set_patience(PATIENCE);
        let (name, stamps) = (self.table(), self.stamps());
        let creating = format!("creating database portbench and its table {stamps}");
        self.create_stamps(control).map_err(|e| failed(e, &creating))?;
        let stamp =
            self.stamp(control).map_err(|e| failed(e, &format!("reading table portbench.{stamps}")))?;
        let wanted = [SCHEMA_VERSION.to_string(), self.rows.to_string(), "1".to_string()];
        let exists = self.found_engine(control).map_err(|e| failed(e, "looking for the table"))?.is_some();
        match stamp {
            Some(found) if exists && found == wanted => return Ok(()),
            None if exists => {
                let detail = format!(
                    "table portbench.{name} exists and portbench did not create it (it has no \
                     stamp); rename or drop it: RENAME TABLE portbench.{name} TO portbench.{name}_old"
                );
                return Err(Failure::new(FailedKind::Prepare, detail));
            }
            _ => {}
        }
        self.load(control).map_err(|e| failed(e, &format!("loading table portbench.{name}")))
    }

    fn create_stamps(&self, control: &mut Control) -> Result<(), ControlError> {
        control.query("CREATE DATABASE IF NOT EXISTS portbench")?;
        control.query(&format!(
            "CREATE TABLE IF NOT EXISTS portbench.{} (dataset VARCHAR(64) NOT NULL PRIMARY KEY, \
             schema_version INT NOT NULL, row_count BIGINT NOT NULL, complete TINYINT NOT NULL) \
             ENGINE={} DEFAULT CHARSET=utf8mb4",
            self.stamps(),
            self.engine.name()
        ))?;
        Ok(())
    }

    /// The stamp is there before the table and complete only after it: whenever this ends, it can be told.
    fn load(&self, control: &mut Control) -> Result<(), ControlError> {
        let (rows, name, stamps) = (self.rows, self.table(), self.stamps());
        output::for_people(&format!("loading {rows} rows into portbench.{name}"));
        control.query(&format!(
            "REPLACE INTO portbench.{stamps} VALUES ('{name}', {SCHEMA_VERSION}, {rows}, 0)"
        ))?;
        control.query(&format!("DROP TABLE IF EXISTS portbench.{name}"))?;
        control.query(&format!(
            "CREATE TABLE portbench.{name} (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, \
             k BIGINT UNSIGNED NOT NULL, c CHAR({C_BYTES}) NOT NULL) \
             ENGINE={} DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
            self.engine.name()
        ))?;
        for (first, last) in ranges(rows, ROWS_A_STATEMENT) {
            control.query(&insert(name, first, last))?;
        }
        control.query(&format!("UPDATE portbench.{stamps} SET complete=1 WHERE dataset='{name}'"))?;
        Ok(())
    }

    /// Stamp, engine, count, sums and known rows against what they must be.
    pub fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
        control.set_patience(PATIENCE);
        let checking = format!("checking table portbench.{}", self.table());
        self.checks(control).map_err(|e| e.into_failure(&checking, FailedKind::WrongData))
    }

    fn checks(&self, control: &mut Control) -> Result<Vec<DataCheck>, ControlError> {
        let (rows, name) = (self.rows, self.table());
        let stamp = self.stamp(control)?.map_or("none".into(), |stamp| stamp.join(" "));
        let engine = self.found_engine(control)?.unwrap_or("none".into());
        let total = format!("SELECT COUNT(*) FROM portbench.{name}");
        let total = control.value(&total)?.unwrap_or_default();
        let (mut expected, mut found) = (Sums::default(), Sums::default());
        for (first, last) in ranges(rows, ROWS_A_CHECK) {
            expected.add(Sums::of(first, last));
            found.add(sums_of_server(control, name, first, last)?);
        }
        let mut checks = vec![
            check("stamp", format!("{SCHEMA_VERSION} {rows} 1"), stamp),
            // Servers write names of engines in their own case.
            check("engine", self.engine.name().to_ascii_lowercase(), engine.to_ascii_lowercase()),
            check("row count", rows, total),
            check("rows with the right ids", expected.rows, found.rows),
            check("sum of id", expected.id, found.id),
            check("sum of k", expected.k, found.k),
            check("sum of crc32(c)", expected.crc, found.crc),
        ];
        for id in known_ids(rows) {
            let sql = format!("SELECT id, k, c FROM portbench.{name} WHERE id={id}");
            let row = control.query_prepared(&sql)?.concat().join(" ");
            let c = content(id);
            let wanted = format!("{id} {} {}", k(id), String::from_utf8_lossy(&c));
            checks.push(check(&format!("row {id}"), wanted, row));
        }
        Ok(checks)
    }

    /// Schema version, rows and completeness of our table, as stamped.
    fn stamp(&self, control: &mut Control) -> Result<Option<Vec<String>>, ControlError> {
        let sql = format!(
            "SELECT schema_version, row_count, complete FROM portbench.{} WHERE dataset='{}'",
            self.stamps(),
            self.table()
        );
        Ok(control.query(&sql)?.into_iter().next())
    }

    /// The engine that holds the table; `None`: there is no such table.
    fn found_engine(&self, control: &mut Control) -> Result<Option<String>, ControlError> {
        control.value(&format!(
            "SELECT engine FROM information_schema.tables \
             WHERE table_schema='portbench' AND table_name='{}'",
            self.table()
        ))
    }
}

fn check(name: &str, expected: impl ToString, found: impl ToString) -> DataCheck {
    DataCheck { check: name.into(), expected: expected.to_string(), found: found.to_string() }
}

/// First, middle and last row.
fn known_ids(rows: u64) -> Vec<u64> {
    let mut ids = vec![1, rows.div_ceil(2), rows];
    ids.dedup();
    ids
}

/// Ids 1 to `rows` in ranges of at most `step`.
fn ranges(rows: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..rows.div_ceil(step)).map(move |i| (i * step + 1, (i + 1).saturating_mul(step).min(rows)))
}

fn insert(table: &str, first: u64, last: u64) -> String {
    let mut sql = format!("INSERT INTO portbench.{table} (id, k, c) VALUES ");
    for id in first..=last {
        let comma = if id == first { "" } else { "," };
        let c = content(id);
        // Writing to a string cannot fail.
        let _ = write!(sql, "{comma}({id},{},'{}')", k(id), String::from_utf8_lossy(&c));
    }
    sql
}

fn sums_of_server(control: &mut Control, table: &str, first: u64, last: u64) -> Result<Sums, ControlError> {
    let sql = format!(
        "SELECT COUNT(*), COALESCE(SUM(id),0), COALESCE(SUM(k),0), COALESCE(SUM(CRC32(c)),0) \
         FROM portbench.{table} WHERE id BETWEEN {first} AND {last}"
    );
    let row = control.query(&sql)?.concat();
    let number = |index: usize| row.get(index).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(Sums { rows: number(0), id: number(1), k: number(2), crc: number(3) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_does_not_depend_on_the_machine() {
        assert_eq!(letters(0xfedc_ba98), *b"ijklmnop");
        let text = String::from_utf8(content(1).to_vec()).unwrap();
        assert!(text.bytes().all(|b| (b'a'..=b'p').contains(&b)), "{text}");
        assert_eq!(crc32fast::hash(&content(1)), CRC_OF_ROW_1);
        assert_eq!(k(1), K_OF_ROW_1);
        assert_ne!(content(1), content(2));
    }

    const CRC_OF_ROW_1: u32 = 2_995_999_930;
    const K_OF_ROW_1: u64 = 1_829_991_063;

    #[test]
    fn ranges_cover_every_id_once() {
        for rows in [1, 499, 500, 501, 1000, 1234] {
            let ids: Vec<u64> = ranges(rows, 500).flat_map(|(a, b)| a..=b).collect();
            assert_eq!(ids, (1..=rows).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_are_inserted_as_the_functions_say() {
        let sql = insert("t", 3, 4);
        let c = String::from_utf8(content(3).to_vec()).unwrap();
        assert!(sql.contains(&format!("VALUES (3,{},'{c}'),(4,", k(3))), "{sql}");
        assert_eq!(known_ids(1), [1]);
        assert_eq!(known_ids(10), [1, 5, 10]);
    }
}
