//! `SELECT c FROM portbench.point_select WHERE id = ?`: one row by its primary key, uniformly chosen, its
//! content checked.

use model::message::DataCheck;
use model::request::Statement;

use super::dataset::{C_BYTES, Dataset, content};
use super::{Workload, check_values, random, scale};
use crate::client::{Expect, Reply, command};
use crate::control::Control;
use crate::failure::Failure;

/// The type code of an 8-byte integer, and the flag for unsigned.
const UNSIGNED_LONGLONG: [u8; 2] = [0x08, 0x80];

/// The workload.
pub struct PointSelect {
    statement: Statement,
    seed: u64,
    dataset: Dataset,
    /// The statement without its parameter.
    text: Vec<u8>,
    /// The statement with a place for it, where it is prepared.
    prepared: Vec<String>,
}

impl PointSelect {
    /// Selects from the rows of `dataset`.
    pub fn new(statement: Statement, dataset: Dataset, seed: u64) -> Self {
        let text = format!("SELECT c FROM portbench.{} WHERE id=", dataset.table());
        let prepared = match statement {
            Statement::Prepared => vec![format!("{text}?")],
            Statement::Text => Vec::new(),
        };
        PointSelect { statement, seed, dataset, prepared, text: text.into_bytes() }
    }

    /// The row that operation `number` asks for.
    #[inline]
    fn id(&self, number: u64) -> u64 {
        1 + scale(random(self.seed, number), self.dataset.rows)
    }
}

impl Workload for PointSelect {
    fn statements(&self) -> &[String] {
        &self.prepared
    }

    fn expect(&self, _step: u32) -> Expect {
        match self.statement {
            Statement::Prepared => Expect::Binary,
            Statement::Text => Expect::Text,
        }
    }

    #[inline]
    fn encode(&self, number: u64, _step: u32, statements: &[u32], out: &mut Vec<u8>) {
        let id = self.id(number);
        match self.statement {
            Statement::Prepared => {
                out.push(command::STMT_EXECUTE);
                out.extend_from_slice(&statements.first().copied().unwrap_or_default().to_le_bytes());
                // No cursor; once; no parameter is NULL; types follow.
                out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1]);
                out.extend_from_slice(&UNSIGNED_LONGLONG);
                out.extend_from_slice(&id.to_le_bytes());
            }
            Statement::Text => {
                out.push(command::QUERY);
                out.extend_from_slice(&self.text);
                put_decimal(out, id);
            }
        }
    }

    #[inline]
    fn check(&self, number: u64, _step: u32, reply: &Reply<'_>) -> bool {
        let Reply::Rows(rows) = reply else { return false };
        let (1, 1, Some(row)) = (rows.len(), rows.width(), rows.raw(0)) else { return false };
        let value = match self.statement {
            // A zero byte, no NULL.
            Statement::Prepared => row.strip_prefix(&[0, 0]),
            Statement::Text => Some(row),
        };
        let Some((&length, value)) = value.and_then(<[u8]>::split_first) else { return false };
        usize::from(length) == C_BYTES && *value == content(self.id(number))
    }

    fn prepare(&self, control: &mut Control) -> Result<(), Failure> {
        self.dataset.prepare(control)
    }

    fn verify(&self, control: &mut Control) -> Result<Vec<DataCheck>, Failure> {
        let mut checks = check_values(control)?;
        checks.extend(self.dataset.verify(control)?);
        Ok(checks)
    }
}

/// Appends a number as text.
#[inline]
fn put_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use model::request::Engine;

    use super::*;

    fn workload(statement: Statement) -> PointSelect {
        PointSelect::new(statement, Dataset { rows: 10_000, engine: Engine::InnoDb }, 7)
    }

    fn encoded(statement: Statement, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        workload(statement).encode(number, 0, &[0x0102], &mut out);
        out
    }

    #[test]
    fn each_engine_has_a_table_of_its_own() {
        assert_eq!(
            workload(Statement::Prepared).statements(),
            ["SELECT c FROM portbench.point_select WHERE id=?"]
        );
        let ndb = Dataset { rows: 10_000, engine: Engine::NdbCluster };
        let workload = PointSelect::new(Statement::Prepared, ndb, 7);
        assert_eq!(workload.statements(), ["SELECT c FROM portbench.point_select_ndb WHERE id=?"]);
    }

    #[test]
    fn commands_are_the_same_bytes_on_every_machine() {
        let workload = workload(Statement::Text);
        let id = workload.id(3);
        assert!((1..=10_000).contains(&id));
        assert_eq!(
            encoded(Statement::Text, 3),
            [&[3], workload.text.as_slice(), id.to_string().as_bytes()].concat()
        );
        let head = [0x17, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0x80];
        assert_eq!(encoded(Statement::Prepared, 3)[..14], head);
        let [low, high] = [(id % 256) as u8, (id / 256) as u8];
        assert_eq!(encoded(Statement::Prepared, 3)[14..], [low, high, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn decimals() {
        for value in [0, 7, 10, 12345, u64::MAX] {
            let mut out = Vec::new();
            put_decimal(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn no_other_reply_than_the_row_is_right() {
        let workload = workload(Statement::Text);
        let ok = crate::client::OkReply { affected_rows: 0, warnings: 0 };
        assert!(!workload.check(0, 0, &Reply::Ok(ok)));
    }
}
