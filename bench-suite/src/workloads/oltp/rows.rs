//! sysbench's tables `sbtest1` and on: what their columns hold.

use std::fmt::Write;

use model::message::{DataCheck, FailedKind};
use model::request::Oltp;

use super::super::stamp::{PATIENCE, Stamped};
use super::super::{check, mix, scale};
use crate::control::{Control, ControlError};
use crate::failure::Failure;

/// Bytes of what column `c` holds: 10 numbers of 11 digits with dashes between them.
pub const C_BYTES: usize = 119;
/// The same of `pad`, which has 5.
pub const PAD_BYTES: usize = 59;
/// Digits of a number.
const DIGITS: usize = 11;
/// To be raised whenever the tables or their content change.
const SCHEMA_VERSION: u32 = 1;

/// Numbers of 11 digits with dashes between them, as sysbench's `###########-###########-…`.
#[inline]
pub fn digits<const N: usize>(mut state: u64) -> [u8; N] {
    let mut out = [b'-'; N];
    for group in out.chunks_mut(DIGITS + 1) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = scale(mix(state), 100_000_000_000);
        for digit in group.iter_mut().take(DIGITS) {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    out
}

/// Whether these are such numbers.
#[inline]
pub fn are_digits(bytes: &[u8], length: usize) -> bool {
    let good = |(at, byte): (usize, &u8)| match at % (DIGITS + 1) {
        DIGITS => *byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    bytes.len() == length && bytes.iter().enumerate().all(good)
}

/// What column `k` of a new row holds: a number of the table's rows.
pub fn k(state: u64, rows: u64) -> u64 {
    1 + scale(mix(!state), rows)
}

/// The state that a row's content is made of when it is loaded.
fn state_of(table: u32, id: u64) -> u64 {
    mix(id ^ u64::from(table) << 40)
}

/// The name of a table, numbered from 1: one for each engine, so that both can be there.
pub fn name(oltp: &Oltp, table: u32) -> String {
    let engine = if oltp.engine == model::request::Engine::NdbCluster { "_ndb" } else { "" };
    format!("sbtest{table}{engine}")
}

fn stamped(oltp: &Oltp, table: u32) -> Stamped {
    Stamped { table: name(oltp, table), rows: oltp.rows, engine: oltp.engine, schema_version: SCHEMA_VERSION }
}

/// Loads all tables, unless they are there.
pub fn prepare(oltp: &Oltp, control: &mut Control) -> Result<(), Failure> {
    for table in 1..=oltp.tables {
        let columns = format!(
            "id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
             pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id), KEY k_{table} (k)"
        );
        let rows = |first, last| insert(oltp, table, first, last);
        stamped(oltp, table).prepare(control, &columns, rows)?;
    }
    Ok(())
}

fn insert(oltp: &Oltp, table: u32, first: u64, last: u64) -> String {
    let mut sql = format!("INSERT INTO portbench.{} (id, k, c, pad) VALUES ", name(oltp, table));
    for id in first..=last {
        let state = state_of(table, id);
        let (c, pad) = (digits::<C_BYTES>(state), digits::<PAD_BYTES>(!state));
        let [c, pad] = [&c[..], &pad[..]].map(String::from_utf8_lossy);
        let comma = if id == first { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(sql, "{comma}({id},{},'{c}','{pad}')", k(state, oltp.rows));
    }
    sql
}

/// What holds whatever transactions did: no row is lost or cut, and the index has what the table has.
pub fn verify(oltp: &Oltp, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
    control.set_patience(PATIENCE);
    let mut all = Vec::new();
    for table in 1..=oltp.tables {
        let checks = checks(oltp, table, control).map_err(|error| {
            let doing = format!("checking table portbench.{}", name(oltp, table));
            error.into_failure(&doing, FailedKind::WrongData)
        })?;
        all.extend(checks);
    }
    Ok(all)
}

fn checks(oltp: &Oltp, table: u32, control: &mut Control) -> Result<Vec<DataCheck>, ControlError> {
    let (rows, name) = (oltp.rows, name(oltp, table));
    let mut all = stamped(oltp, table).checks(control)?;
    let row = control
        .query(&format!(
            "SELECT COUNT(DISTINCT id), MIN(id), MAX(id), SUM(LENGTH(c) <> {C_BYTES} OR LENGTH(pad) <> {PAD_BYTES} \
             OR k < 1) FROM portbench.{name}"
        ))?
        .concat()
        .join(" ");
    all.push(check(&format!("ids and cut rows of {name}"), format!("{rows} 1 {rows} 0"), row));
    let mut sum = |index: &str| {
        control.value(&format!("SELECT SUM(k) FROM portbench.{name} FORCE INDEX ({index}) WHERE k > 0"))
    };
    let (by_key, by_index) = (sum("PRIMARY")?, sum(&format!("k_{table}"))?);
    let [by_key, by_index] = [by_key, by_index].map(Option::unwrap_or_default);
    all.push(check(&format!("sum of k of {name}, by key and by index"), by_key, by_index));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_shape_and_differ() {
        let (one, other) = (digits::<C_BYTES>(1), digits::<C_BYTES>(2));
        assert!(are_digits(&one, C_BYTES) && are_digits(&digits::<PAD_BYTES>(1), PAD_BYTES));
        assert_ne!(one, other);
        assert!(!are_digits(&one[..118], C_BYTES) && !are_digits(&[b'1'; C_BYTES], C_BYTES));
        let ks: Vec<u64> = (0..1000).map(|state| k(state, 10)).collect();
        assert!((1..=10).all(|k| ks.contains(&k)) && ks.iter().all(|k| (1..=10).contains(k)));
    }
}
