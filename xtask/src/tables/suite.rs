//! A suite: a named list of workloads with their parameters, as its file in `bench-suite/suites` says.

mod planned;

use std::fmt::Display;
use std::ops::RangeInclusive;

use anyhow::Result;
use model::request::{
    Arrival, Coordinator, Engine, Flexasync, Load, Oltp, OltpTest, SendWhen, Statement, Workload,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::failure::{Failure, Kind, unknown};
use crate::home::repository;

pub use planned::{Planned, Spread, rate_of_text};

/// What the load generator takes; it refuses the same, but only once everything is built.
const MAX_SECONDS: f64 = 1e6;
const MAX_CONNECTIONS: u32 = 100_000;
const MAX_THREADS: u32 = 1024;
const MAX_ROWS: u64 = 1 << 40;
/// Of oltp: its key is a signed 32-bit integer.
const MAX_OLTP_ROWS: u64 = (1 << 31) - 1000;
const MAX_OLTP_TABLES: u32 = 1000;
const MAX_RATE_PER_S: f64 = 1e8;

/// One file of `bench-suite/suites`. Values are checked while it is read, so that a wrong one is told with its line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suite {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Load before each timed part, in seconds.
    #[serde(deserialize_with = "seconds_or_none")]
    pub warmup_s: f64,
    /// Length of each timed part in seconds.
    #[serde(deserialize_with = "seconds")]
    pub duration_s: f64,
    /// Decides every operation.
    pub seed: u64,
    /// The workloads in their order.
    #[serde(deserialize_with = "some_entries")]
    pub workload: Vec<Entry>,
}

/// One workload of a suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct Entry {
    workload: Workload,
    connections: u32,
    arrival: Arrival,
    threads: Option<u32>,
}

/// An entry as people write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    /// Its name, e.g. `point-select`.
    #[serde(deserialize_with = "known_workload")]
    name: String,
    /// Connections; flexasync has threads alone.
    #[serde(default, deserialize_with = "connections")]
    connections: Option<u32>,
    /// Operations a second that are due whatever the server does; left out: a closed loop.
    #[serde(default, deserialize_with = "rate")]
    rate_per_s: Option<f64>,
    /// How they are spread; left out: `fixed`.
    arrival: Option<Spread>,
    /// `prepared` or `text`; for workloads with a choice.
    statement: Option<Statement>,
    /// Which of sysbench's tests, for oltp.
    test: Option<OltpTest>,
    /// Tables, for oltp; left out: 1.
    tables: Option<u32>,
    /// Rows of the table, of each of them; for workloads with one.
    #[serde(default, deserialize_with = "rows")]
    rows: Option<u64>,
    /// `InnoDB`, which is what it is left out for, or `NDBCLUSTER`; for workloads with a table.
    engine: Option<Engine>,
    /// Client threads; left out: as many as cores.
    #[serde(default, deserialize_with = "threads")]
    threads: Option<u32>,
    /// What flexasync does.
    flexasync: Option<WrittenFlexasync>,
}

/// flexasync's parameters as people write them; what is left out is what flexAsynch would do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenFlexasync {
    parallel: u32,
    transactions: u32,
    #[serde(default = "one")]
    operations: u32,
    attributes: u32,
    #[serde(default = "one")]
    attribute_words: u32,
    #[serde(default = "one")]
    tables: u32,
    #[serde(default)]
    ndb_record: bool,
    #[serde(default = "by_key")]
    coordinator: Coordinator,
    #[serde(default = "load_factor")]
    load_factor: u32,
    #[serde(default = "yes")]
    logging: bool,
    #[serde(default = "adaptive")]
    send: SendWhen,
    loops: Option<u32>,
}

fn one() -> u32 {
    1
}

fn by_key() -> Coordinator {
    Coordinator::Key
}

fn load_factor() -> u32 {
    80
}

fn yes() -> bool {
    true
}

fn adaptive() -> SendWhen {
    SendWhen::Adaptive
}

impl WrittenFlexasync {
    /// `Err` where a value is out of NDB's bounds.
    fn checked(self) -> Result<Flexasync, String> {
        let WrittenFlexasync { parallel, transactions, operations, attributes, attribute_words, .. } = self;
        let bounds = [
            ("parallel", parallel, 1..=1024),
            ("transactions", transactions, 1..=1 << 20),
            ("operations", operations, 1..=1024),
            ("attributes", attributes, 1..=500),
            ("attribute-words", attribute_words, 1..=2000),
            ("tables", self.tables, 1..=100),
            ("load-factor", self.load_factor, 40..=99),
        ];
        for (name, value, allowed) in bounds {
            if !allowed.contains(&value) {
                let (least, most) = (allowed.start(), allowed.end());
                return Err(format!("flexasync: `{name}` is {value}, must be {least} to {most}"));
            }
        }
        Ok(Flexasync {
            parallel,
            transactions,
            operations,
            attributes,
            attribute_words,
            tables: self.tables,
            ndb_record: self.ndb_record,
            coordinator: self.coordinator,
            load_factor: self.load_factor,
            logging: self.logging,
            send: self.send,
            loops: self.loops,
        })
    }
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
        let mut planned: Vec<Planned> = self.workload.iter().map(|entry| self.planned(entry)).collect();
        // By name, or as tables print it: `point-select`, `point-select/text`.
        let known = names();
        let labels: Vec<String> = planned.iter().map(|planned| planned.workload.label()).collect();
        if let Some(wrong) = only.iter().find(|name| !known.contains(name) && !labels.contains(name)) {
            return Err(unknown("workload", wrong, &known).into());
        }
        let named =
            |label: &str| only.iter().any(|name| label == name || label.split('/').next() == Some(name));
        planned.retain(|planned| only.is_empty() || named(&planned.workload.label()));
        if planned.is_empty() {
            let Suite { name, description, .. } = self;
            let what = format!("the suite `{name}` ({description}) has no workload {}", only.join(" or "));
            return Err(Failure::new(Kind::Usage, what)
                .next("choose another suite, or leave --workload out")
                .into());
        }
        Ok(planned)
    }

    fn planned(&self, entry: &Entry) -> Planned {
        let load = Load {
            connections: entry.connections,
            arrival: entry.arrival,
            threads: entry.threads,
            warmup_s: self.warmup_s,
            duration_s: self.duration_s,
            operations: None,
            seed: self.seed,
            interval_s: 1.0,
            reply_timeout_s: 30.0,
        };
        Planned { workload: entry.workload.clone(), load }
    }
}

impl TryFrom<Written> for Entry {
    type Error = String;

    /// `Err` where fields do not belong together.
    fn try_from(written: Written) -> Result<Self, String> {
        if written.arrival.is_some() && written.rate_per_s.is_none() {
            return Err(format!("{}: `arrival` is of a `rate-per-s`, which is not given", written.name));
        }
        if let (Some(threads), Some(connections)) = (written.threads, written.connections)
            && threads > connections
        {
            return Err(format!("{}: has more `threads` than `connections`", written.name));
        }
        if written.name == "oltp" {
            return written.oltp();
        }
        if written.test.is_some() || written.tables.is_some() {
            return Err(format!("{}: `test` and `tables` are oltp's", written.name));
        }
        let Written {
            name,
            connections,
            rate_per_s,
            arrival,
            statement,
            rows,
            engine,
            threads,
            flexasync,
            ..
        } = written;
        let arrival = arrival.unwrap_or_default().arrival(rate_per_s);
        if name == "flexasync" {
            return flexasync_entry(
                connections,
                threads,
                statement.is_some() || rows.is_some() || engine.is_some() || rate_per_s.is_some(),
                flexasync,
            );
        }
        let connections = connections.ok_or_else(|| format!("{name}: needs `connections`"))?;
        if flexasync.is_some() {
            return Err(format!("{name}: has no `flexasync`"));
        }
        let missing = |what: &str| format!("{name}: needs {what}");
        let workload = match name.as_str() {
            "point-select" => Workload::PointSelect {
                statement: statement.ok_or_else(|| missing("`statement`: prepared or text"))?,
                rows: rows.ok_or_else(|| missing("`rows`"))?,
                engine: engine.unwrap_or_default(),
            },
            "do0" if statement.is_some() || rows.is_some() || engine.is_some() => {
                return Err("do0: has no `statement`, no `rows` and no `engine`".into());
            }
            "do0" => Workload::Do0,
            other => return Err(unknown("workload", other, &names()).to_string()),
        };
        Ok(Entry { workload, connections, arrival, threads })
    }
}

impl Written {
    /// One of sysbench's tests.
    fn oltp(self) -> Result<Entry, String> {
        if self.statement.is_some() || self.flexasync.is_some() {
            return Err("oltp: its statements are prepared; it has no `statement` and no `flexasync`".into());
        }
        let (rows, tables) = (self.rows.ok_or("oltp: needs `rows`")?, self.tables.unwrap_or(1));
        if rows > MAX_OLTP_ROWS || !(1..=MAX_OLTP_TABLES).contains(&tables) {
            let what =
                format!("oltp: at most {MAX_OLTP_ROWS} `rows` in each of 1 to {MAX_OLTP_TABLES} `tables`");
            return Err(what);
        }
        let test = self.test.ok_or("oltp: needs `test`, e.g. read-only")?;
        Ok(Entry {
            workload: Workload::Oltp(Oltp { test, tables, rows, engine: self.engine.unwrap_or_default() }),
            connections: self.connections.ok_or("oltp: needs `connections`")?,
            arrival: self.arrival.unwrap_or_default().arrival(self.rate_per_s),
            threads: self.threads,
        })
    }
}

fn flexasync_entry(
    connections: Option<u32>,
    threads: Option<u32>,
    of_sql: bool,
    flexasync: Option<WrittenFlexasync>,
) -> Result<Entry, String> {
    if connections.is_some() || of_sql {
        return Err(
            "flexasync: has `threads`, and no `connections`, `rate-per-s`, `statement`, `rows`, `engine`"
                .into(),
        );
    }
    let threads = threads.ok_or("flexasync: needs `threads`")?;
    let parameters = flexasync.ok_or("flexasync: needs `flexasync`, its parameters")?.checked()?;
    let workload = Workload::Flexasync(parameters);
    Ok(Entry { workload, connections: threads, arrival: Arrival::Closed, threads: None })
}

fn names() -> Vec<String> {
    Workload::NAMES.iter().map(|name| name.to_string()).collect()
}

fn known_workload<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if names().contains(&name) {
        Ok(name)
    } else {
        Err(D::Error::custom(unknown("workload", &name, &names())))
    }
}

fn some_entries<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Entry>, D::Error> {
    let entries = Vec::deserialize(from)?;
    if entries.is_empty() { Err(D::Error::custom("needs a workload at least")) } else { Ok(entries) }
}

fn seconds_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    in_range(f64::deserialize(from)?, 0.0..=MAX_SECONDS, "seconds from 0")
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    in_range(f64::deserialize(from)?, f64::MIN_POSITIVE..=MAX_SECONDS, "seconds above 0")
}

fn connections<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    in_range(u32::deserialize(from)?, 1..=MAX_CONNECTIONS, "1 or more").map(Some)
}

fn threads<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    in_range(u32::deserialize(from)?, 1..=MAX_THREADS, "1 or more").map(Some)
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    in_range(f64::deserialize(from)?, f64::MIN_POSITIVE..=MAX_RATE_PER_S, "operations a second above 0")
        .map(Some)
}

fn rows<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    in_range(u64::deserialize(from)?, 1..=MAX_ROWS, "1 or more").map(Some)
}

fn in_range<T: PartialOrd + Display, E: Error>(
    value: T,
    range: RangeInclusive<T>,
    what: &str,
) -> Result<T, E> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(E::custom(format!("is {value}, must be {what}, at most {}", range.end()))),
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

    const GOOD: &str = "description = 'x'\nwarmup-s = 0\nduration-s = 1.5\nseed = 1\n\n[[workload]]\n\
                        name = 'point-select'\nstatement = 'text'\nrows = 10\nconnections = 2\nthreads = 2\n";

    /// What is said of a suite with a line changed.
    fn refused(from: &str, to: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(GOOD.contains(from));
        std::fs::write(file.path(), GOOD.replace(from, to)).unwrap();
        let error = super::super::read::<Suite>(file.path()).unwrap_err();
        assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
        error.to_string()
    }

    #[test]
    fn a_value_out_of_range_is_told_with_its_line() {
        assert!(toml::from_str::<Suite>(GOOD).is_ok());
        for (from, to, line, said) in [
            ("warmup-s = 0", "warmup-s = -1", 2, "is -1, must be seconds from 0, at most 1000000"),
            ("duration-s = 1.5", "duration-s = 0", 3, "is 0, must be seconds above 0"),
            ("duration-s = 1.5", "duration-s = nan", 3, "is NaN"),
            ("duration-s = 1.5", "duration-s = inf", 3, "is inf"),
            ("duration-s = 1.5", "duration-s = 1e300", 3, "at most 1000000"),
            ("rows = 10", "rows = 0", 9, "is 0, must be 1 or more"),
            ("connections = 2", "connections = 0", 10, "is 0, must be 1 or more, at most 100000"),
            ("connections = 2", "connections = 9999999", 10, "at most 100000"),
            ("connections = 2", "connections = -1", 10, "-1"),
            ("connections = 2", "rate-per-s = 0", 10, "operations a second above 0"),
            ("connections = 2", "rate-per-s = nan", 10, "operations a second above 0"),
            ("threads = 2", "threads = 0", 11, "is 0, must be 1 or more, at most 1024"),
            ("'point-select'", "'point-selct'", 7, "did you mean point-select?"),
            ("rows = 10", "row = 10", 9, "unknown field `row`"),
            ("rows = 10", "rows = 10\nengine = 'ndb'", 10, "`InnoDB` or `NDBCLUSTER`"),
        ] {
            let message = refused(from, to);
            assert!(message.contains(&format!("at line {line}, column")), "{to}: {message}");
            assert!(message.contains(said), "{to}: {message}");
        }
    }

    #[test]
    fn fields_that_do_not_belong_together_are_told_with_the_entrys_line() {
        for (from, to, said) in [
            ("rows = 10\n", "", "needs `rows`"),
            ("statement = 'text'\n", "", "needs `statement`"),
            ("threads = 2", "threads = 3", "more `threads` than `connections`"),
            ("threads = 2", "arrival = 'poisson'", "`arrival` is of a `rate-per-s`"),
            ("'point-select'", "'do0'", "has no `statement`, no `rows` and no `engine`"),
        ] {
            let message = refused(from, to);
            assert!(message.contains("at line 6, column 1") && message.contains(said), "{to}: {message}");
        }
        let entries = &GOOD[GOOD.find("\n[[").unwrap()..];
        let message = refused(entries, "workload = []\n");
        assert!(
            message.contains("at line 5, column") && message.contains("a workload at least"),
            "{message}"
        );
    }

    #[test]
    fn a_misspelt_workload_is_answered_with_the_nearest() {
        let message = Suite::load("smoke").unwrap().plan(&["point-selct".into()]).unwrap_err().to_string();
        assert!(message.contains("did you mean point-select?"), "{message}");
    }
}
