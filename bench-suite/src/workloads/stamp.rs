//! Stamps: what makes loading a table idempotent, and tells a half loaded one.
//!
//! A stamp (data set, schema version, rows, complete) that is complete and matches is kept, anything else that we
//! stamped is dropped and loaded anew, and a table without a stamp is not ours and never touched. The stamp is kept in
//! the same storage engine, so that it lives where the rows live: an NDB table outlives the SQL node that made it.

use std::time::Duration;

use model::message::{DataCheck, FailedKind};
use model::request::Engine;

use super::check;
use crate::control::{Control, ControlError};
use crate::failure::Failure;
use crate::output;

/// How long a statement may take that does bulk work.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A table of ours in the database `portbench`.
pub struct Stamped {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// What holds it.
    pub engine: Engine,
    /// To be raised whenever the table or its content changes.
    pub schema_version: u32,
}

fn failed(error: ControlError, doing: &str) -> Failure {
    error.into_failure(doing, FailedKind::Prepare)
}

impl Stamped {
    /// Loads the table unless it is there, complete: `columns` are its definition, `insert` the statement that
    /// inserts rows from one id to another.
    pub fn prepare(
        &self,
        control: &mut Control,
        columns: &str,
        insert: impl Fn(u64, u64) -> String,
    ) -> Result<(), Failure> {
        control.set_patience(PATIENCE);
        let (name, stamps) = (&self.table, self.stamps());
        let creating = format!("creating database portbench and its table {stamps}");
        self.create_stamps(control).map_err(|e| failed(e, &creating))?;
        let stamp =
            self.stamp(control).map_err(|e| failed(e, &format!("reading table portbench.{stamps}")))?;
        let exists = self.found_engine(control).map_err(|e| failed(e, "looking for the table"))?.is_some();
        match stamp {
            Some(found) if exists && found == self.wanted() => return Ok(()),
            None if exists => {
                let detail = format!(
                    "table portbench.{name} exists and portbench did not create it (it has no \
                     stamp); rename or drop it: RENAME TABLE portbench.{name} TO portbench.{name}_old"
                );
                return Err(Failure::new(FailedKind::Prepare, detail));
            }
            _ => {}
        }
        self.load(control, columns, insert).map_err(|e| failed(e, &format!("loading table portbench.{name}")))
    }

    /// The stamp is there before the table and complete only after it: whenever this ends, it can be told.
    fn load(
        &self,
        control: &mut Control,
        columns: &str,
        insert: impl Fn(u64, u64) -> String,
    ) -> Result<(), ControlError> {
        let Stamped { table, rows, schema_version, .. } = self;
        let (stamps, engine) = (self.stamps(), self.engine.name());
        output::for_people(&format!("loading {rows} rows into portbench.{table}"));
        control.query(&format!(
            "REPLACE INTO portbench.{stamps} VALUES ('{table}', {schema_version}, {rows}, 0)"
        ))?;
        control.query(&format!("DROP TABLE IF EXISTS portbench.{table}"))?;
        control.query(&format!(
            "CREATE TABLE portbench.{table} ({columns}) \
             ENGINE={engine} DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        ))?;
        for (first, last) in ranges(*rows, ROWS_A_STATEMENT) {
            control.query(&insert(first, last))?;
        }
        control.query(&format!("UPDATE portbench.{stamps} SET complete=1 WHERE dataset='{table}'"))?;
        Ok(())
    }

    /// Stamp, engine and count against what they must be.
    pub fn checks(&self, control: &mut Control) -> Result<Vec<DataCheck>, ControlError> {
        let stamp = self.stamp(control)?.map_or("none".into(), |stamp| stamp.join(" "));
        let engine = self.found_engine(control)?.unwrap_or("none".into());
        let total = format!("SELECT COUNT(*) FROM portbench.{}", self.table);
        let total = control.value(&total)?.unwrap_or_default();
        Ok(vec![
            check("stamp", self.wanted().join(" "), stamp),
            // Servers write names of engines in their own case.
            check("engine", self.engine.name().to_ascii_lowercase(), engine.to_ascii_lowercase()),
            check("row count", self.rows, total),
        ])
    }

    /// The name of the table of stamps.
    fn stamps(&self) -> &'static str {
        match self.engine {
            Engine::InnoDb => "stamp",
            Engine::NdbCluster => "stamp_ndb",
        }
    }

    fn wanted(&self) -> [String; 3] {
        [self.schema_version.to_string(), self.rows.to_string(), "1".to_string()]
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

    /// Schema version, rows and completeness of our table, as stamped.
    fn stamp(&self, control: &mut Control) -> Result<Option<Vec<String>>, ControlError> {
        let sql = format!(
            "SELECT schema_version, row_count, complete FROM portbench.{} WHERE dataset='{}'",
            self.stamps(),
            self.table
        );
        Ok(control.query(&sql)?.into_iter().next())
    }

    /// The engine that holds the table; `None`: there is no such table.
    fn found_engine(&self, control: &mut Control) -> Result<Option<String>, ControlError> {
        control.value(&format!(
            "SELECT engine FROM information_schema.tables \
             WHERE table_schema='portbench' AND table_name='{}'",
            self.table
        ))
    }
}

const ROWS_A_STATEMENT: u64 = 500;

/// Ids 1 to `rows` in ranges of at most `step`.
pub fn ranges(rows: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..rows.div_ceil(step)).map(move |i| (i * step + 1, (i + 1).saturating_mul(step).min(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_every_id_once() {
        for rows in [1, 499, 500, 501, 1000, 1234] {
            let ids: Vec<u64> = ranges(rows, 500).flat_map(|(a, b)| a..=b).collect();
            assert_eq!(ids, (1..=rows).collect::<Vec<_>>());
        }
    }
}
