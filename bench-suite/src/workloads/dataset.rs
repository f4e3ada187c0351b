//! The table of point-select: every row is a function of its id, so the client knows what the server must
//! say.

use std::fmt::Write;

use model::message::{DataCheck, FailedKind};
use model::request::Engine;

use super::stamp::{PATIENCE, Stamped, ranges};
use super::{check, mix, scale};
use crate::control::{Control, ControlError};
use crate::failure::Failure;

/// Bytes of column `c`.
pub const C_BYTES: usize = 120;
/// To be raised whenever the table or its content changes.
const SCHEMA_VERSION: u32 = 1;
/// One sum over this many rows: bounded work for a slow (emulated) server.
const ROWS_A_CHECK: u64 = 20_000;

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

impl Dataset {
    /// The table's name in the database `portbench`: one for each engine, so that both can be there.
    pub fn table(&self) -> &'static str {
        match self.engine {
            Engine::InnoDb => "point_select",
            Engine::NdbCluster => "point_select_ndb",
        }
    }

    fn stamped(&self) -> Stamped {
        Stamped {
            table: self.table().into(),
            rows: self.rows,
            engine: self.engine,
            schema_version: SCHEMA_VERSION,
        }
    }

    /// Loads the table unless it is there, complete.
    pub fn prepare(&self, control: &mut Control) -> Result<(), Failure> {
        let columns = format!(
            "id BIGINT UNSIGNED NOT NULL PRIMARY KEY, k BIGINT UNSIGNED NOT NULL, c CHAR({C_BYTES}) NOT NULL"
        );
        self.stamped().prepare(control, &columns, |first, last| insert(self.table(), first, last))
    }

    /// Stamp, engine, count, sums and known rows against what they must be.
    pub fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
        control.set_patience(PATIENCE);
        let checking = format!("checking table portbench.{}", self.table());
        self.checks(control).map_err(|e| e.into_failure(&checking, FailedKind::WrongData))
    }

    fn checks(&self, control: &mut Control) -> Result<Vec<DataCheck>, ControlError> {
        let (rows, name) = (self.rows, self.table());
        let mut checks = self.stamped().checks(control)?;
        let (mut expected, mut found) = (Sums::default(), Sums::default());
        for (first, last) in ranges(rows, ROWS_A_CHECK) {
            expected.add(Sums::of(first, last));
            found.add(sums_of_server(control, name, first, last)?);
        }
        checks.extend([
            check("rows with the right ids", expected.rows, found.rows),
            check("sum of id", expected.id, found.id),
            check("sum of k", expected.k, found.k),
            check("sum of crc32(c)", expected.crc, found.crc),
        ]);
        for id in known_ids(rows) {
            let sql = format!("SELECT id, k, c FROM portbench.{name} WHERE id={id}");
            let row = control.query_prepared(&sql)?.concat().join(" ");
            let c = content(id);
            let wanted = format!("{id} {} {}", k(id), String::from_utf8_lossy(&c));
            checks.push(check(&format!("row {id}"), wanted, row));
        }
        Ok(checks)
    }
}

/// First, middle and last row.
fn known_ids(rows: u64) -> Vec<u64> {
    let mut ids = vec![1, rows.div_ceil(2), rows];
    ids.dedup();
    ids
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
    fn rows_are_inserted_as_the_functions_say() {
        let sql = insert("t", 3, 4);
        let c = String::from_utf8(content(3).to_vec()).unwrap();
        assert!(sql.contains(&format!("VALUES (3,{},'{c}'),(4,", k(3))), "{sql}");
        assert_eq!(known_ids(1), [1]);
        assert_eq!(known_ids(10), [1, 5, 10]);
    }
}
