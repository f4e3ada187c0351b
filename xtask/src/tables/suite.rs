//! A suite: a named list of workloads with their parameters, as its file in `bench-suite/suites` says.

use anyhow::Result;
use model::request::{Load, Statement, Workload};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, unknown};
use crate::home::repository;

/// One file of `bench-suite/suites`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suite {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Load before each timed part, in seconds.
    pub warmup_s: f64,
    /// Length of each timed part in seconds.
    pub duration_s: f64,
    /// Decides every operation.
    pub seed: u64,
    /// The workloads in their order.
    pub workload: Vec<Entry>,
}

/// One workload of a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Entry {
    /// Its name: `point-select` or `do0`.
    pub name: String,
    /// Connections.
    pub connections: u32,
    /// `prepared` or `text`; for workloads with a choice.
    pub statement: Option<Statement>,
    /// Rows of the table; for workloads with one.
    pub rows: Option<u64>,
    /// Client threads; left out: as many as cores.
    pub threads: Option<u32>,
}

/// A workload ready to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What.
    pub workload: Workload,
    /// How much.
    pub load: Load,
}

impl Suite {
    /// Reads the suite `name`.
    pub fn load(name: &str) -> Result<Self> {
        let mut suite: Suite = super::load(&repository().join("bench-suite/suites"), "suite", name)?;
        suite.name = name.to_string();
        Ok(suite)
    }

    /// The names of all suites.
    #[cfg(test)]
    pub fn names() -> Result<Vec<String>> {
        super::names(&repository().join("bench-suite/suites"))
    }

    /// The workloads as they will be asked for; `only` keeps those of that name.
    pub fn plan(&self, only: &[String]) -> Result<Vec<Planned>> {
        let mut planned =
            self.workload.iter().map(|entry| self.planned(entry)).collect::<Result<Vec<_>>>()?;
        // By name, or as tables print it: `point-select`, `point-select/text`.
        let known: Vec<String> = Workload::NAMES.iter().map(|n| n.to_string()).collect();
        let labels: Vec<String> = planned.iter().map(|planned| planned.workload.label()).collect();
        if let Some(wrong) = only.iter().find(|name| !known.contains(name) && !labels.contains(name)) {
            return Err(unknown("workload", wrong, &known).into());
        }
        let named =
            |label: &str| only.iter().any(|name| label == name || label.split('/').next() == Some(name));
        planned.retain(|planned| only.is_empty() || named(&planned.workload.label()));
        if planned.is_empty() {
            let what = format!("the suite `{}` has no workload {}", self.name, only.join(" or "));
            return Err(Failure::new(Kind::Usage, what)
                .next("choose another suite, or leave --workload out")
                .into());
        }
        Ok(planned)
    }

    fn planned(&self, entry: &Entry) -> Result<Planned> {
        let wrong = |what: &str| {
            let what = format!("suite `{}`, workload `{}`: {what}", self.name, entry.name);
            Failure::new(Kind::Usage, what).next(format!("mend bench-suite/suites/{}.toml", self.name))
        };
        let workload = match entry.name.as_str() {
            "point-select" => Workload::PointSelect {
                statement: entry.statement.ok_or_else(|| wrong("needs `statement`: prepared or text"))?,
                rows: entry.rows.filter(|rows| *rows > 0).ok_or_else(|| wrong("needs `rows`, 1 or more"))?,
            },
            "do0" if entry.statement.is_some() || entry.rows.is_some() => {
                return Err(wrong("has no `statement` and no `rows`").into());
            }
            "do0" => Workload::Do0,
            other => {
                let known: Vec<String> = Workload::NAMES.iter().map(|n| n.to_string()).collect();
                return Err(unknown("workload", other, &known).into());
            }
        };
        if entry.connections == 0 {
            return Err(wrong("needs 1 connection or more").into());
        }
        let load = Load {
            connections: entry.connections,
            threads: entry.threads,
            warmup_s: self.warmup_s,
            duration_s: self.duration_s,
            operations: None,
            seed: self.seed,
            interval_s: 1.0,
            reply_timeout_s: 30.0,
        };
        Ok(Planned { workload, load })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_yields_a_plan() {
        for name in Suite::names().unwrap() {
            assert!(!Suite::load(&name).unwrap().plan(&[]).unwrap().is_empty(), "{name}");
        }
    }

    #[test]
    fn a_misspelt_workload_is_answered_with_the_nearest() {
        let message = Suite::load("smoke").unwrap().plan(&["point-selct".into()]).unwrap_err().to_string();
        assert!(message.contains("did you mean point-select?"), "{message}");
    }
}
