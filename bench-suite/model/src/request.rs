//! What the bench binary is asked to do: one workload, once.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One workload to run, read by the bench binary as a single JSON document from standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// Must equal [`crate::PROTOCOL_VERSION`].
    pub protocol_version: u32,
    /// What answers the operations.
    pub backend: Backend,
    /// What is done.
    pub workload: Workload,
    /// How much of it, and for how long.
    pub load: Load,
}

/// What answers the operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Backend {
    /// Nothing: every operation is built and completes at once. Measures the harness itself.
    Null,
    /// A server that speaks the MySQL protocol.
    Server {
        /// Where it listens.
        endpoint: Endpoint,
        /// Who logs in.
        account: Account,
        /// The server's process as the bench binary sees it, to read its CPU time; `None` when it is on another
        /// machine.
        server_pid: Option<u32>,
    },
    /// An NDB Cluster, through the NDB API.
    Ndb {
        /// The management servers, as NDB writes them: `host:port`, separated by commas.
        connect_string: String,
        /// The data nodes' processes as the bench binary sees them, to read their CPU time; empty where they are on
        /// other machines.
        server_pids: Vec<u32>,
    },
}

/// Where a server listens. Never `localhost`, which means a socket to some clients and TCP to others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Endpoint {
    /// A UNIX socket.
    Unix {
        /// The socket's path.
        path: PathBuf,
    },
    /// TCP, with `TCP_NODELAY`.
    Tcp {
        /// An address, not a name: resolving is not what is benched.
        address: std::net::IpAddr,
        /// The port.
        port: u16,
    },
}

impl Endpoint {
    /// `unix` or `tcp`: part of what makes two results comparable.
    pub fn transport(&self) -> &'static str {
        match self {
            Endpoint::Unix { .. } => "unix",
            Endpoint::Tcp { .. } => "tcp",
        }
    }
}

/// A database account.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// User name.
    pub user: String,
    /// Password; empty for none. Never printed, never recorded.
    pub password: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account({})", self.user)
    }
}

/// One benched behaviour with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Workload {
    /// `SELECT c FROM … WHERE id = ?` on a primary key, uniformly chosen; each row's content is checked.
    PointSelect {
        /// Prepared statement (binary protocol) or text.
        statement: Statement,
        /// Rows in the table, ids 1 to `rows`.
        rows: u64,
        /// The table's storage engine.
        #[serde(default, skip_serializing_if = "Engine::is_default")]
        engine: Engine,
    },
    /// `DO 0`: the least a server can do for a query.
    Do0,
    /// Keyed operations through the NDB API, as NDB's own flexAsynch does them.
    Flexasync(Flexasync),
    /// A test of sysbench's OLTP family.
    Oltp(Oltp),
}

/// A test of sysbench's OLTP family on its tables, statements prepared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Oltp {
    /// Which.
    pub test: OltpTest,
    /// Tables (`--tables`): `sbtest1` and on; each statement takes one at random.
    pub tables: u32,
    /// Rows of each (`--table-size`).
    pub rows: u64,
    /// The tables' storage engine.
    #[serde(default, skip_serializing_if = "Engine::is_default")]
    pub engine: Engine,
}

/// sysbench's OLTP tests, without its `oltp_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OltpTest {
    /// A row by its key.
    PointSelect,
    /// A transaction of 10 rows by their keys and 4 ranges of 100 rows: plain, summed up, sorted, distinct.
    ReadOnly,
    /// The same with the writes of `write-only`.
    ReadWrite,
    /// A transaction that changes a row in its index, changes another, deletes one and inserts it again.
    WriteOnly,
    /// A row changed in its index, committed at once.
    UpdateIndex,
    /// A row changed elsewhere.
    UpdateNonIndex,
    /// Rows with one of 10 values of an indexed column.
    RandomPoints,
    /// Rows counted whose indexed column is in one of 10 ranges.
    RandomRanges,
}

impl OltpTest {
    /// As tables print it.
    pub fn name(self) -> &'static str {
        match self {
            OltpTest::PointSelect => "point-select",
            OltpTest::ReadOnly => "read-only",
            OltpTest::ReadWrite => "read-write",
            OltpTest::WriteOnly => "write-only",
            OltpTest::UpdateIndex => "update-index",
            OltpTest::UpdateNonIndex => "update-non-index",
            OltpTest::RandomPoints => "random-points",
            OltpTest::RandomRanges => "random-ranges",
        }
    }
}

/// Phases insert, read, update, read, delete over the same keys. In parentheses: what flexAsynch calls it. Its threads
/// (`-t`) are the load's connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flexasync {
    /// Transactions that each thread has in flight (`-p`), 1 to 1024.
    pub parallel: u32,
    /// Rounds of `parallel` transactions that each thread does in each phase (`-o`).
    pub transactions: u32,
    /// Operations in each transaction (`-c`).
    pub operations: u32,
    /// Attributes of a row, one of them in the key (`-a`), 1 to 500.
    pub attributes: u32,
    /// 32-bit words of each attribute that is not in the key (`-s`).
    pub attribute_words: u32,
    /// Tables; threads take turns at them (`-num_tables`).
    pub tables: u32,
    /// By NdbRecord, whole rows at once (`-ndbrecord`).
    pub ndb_record: bool,
    /// Where a transaction's coordinator is (`-no_hint`, `-local`).
    pub coordinator: Coordinator,
    /// Load factor of the hash index in per cent (`-load_factor`), 40 to 99.
    pub load_factor: u32,
    /// Whether the tables are logged and checkpointed (not `-temp`).
    pub logging: bool,
    /// When operations are sent (`-adaptive`, `-force`, `-non_adaptive`).
    pub send: SendWhen,
    /// Times that all phases are done (`-l`); `None`: until the time limit of the load is over.
    pub loops: Option<u32>,
}

/// Where a transaction's coordinator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Coordinator {
    /// On the data node that has the row.
    Key,
    /// Wherever the API thinks fit (`-no_hint`).
    Any,
    /// On one data node a thread (`-local 1`).
    Thread,
    /// On the data nodes in turn (`-local 2`).
    RoundRobin,
    /// On a data node at random (`-local 3`).
    Random,
}

/// When operations are sent to the data nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SendWhen {
    /// By how full the API's buffers are.
    Adaptive,
    /// At once.
    Forced,
    /// Each 10 milliseconds.
    NonAdaptive,
}

impl Flexasync {
    /// How many seconds these loops may take on hardware, whatever goes slowly: 5000 operations a second.
    pub fn longest_s(&self, loops: u32, threads: u32) -> f64 {
        // Five phases, and the look for what was deleted.
        let a_loop = self.operations_of_a_phase() * 6 * u64::from(threads);
        (a_loop * u64::from(loops)) as f64 / 5000.0
    }

    /// Operations of one phase of one thread.
    pub fn operations_of_a_phase(&self) -> u64 {
        u64::from(self.parallel) * u64::from(self.transactions) * u64::from(self.operations)
    }
}

impl Workload {
    /// Every workload's name, for messages that suggest one.
    pub const NAMES: [&str; 4] = ["point-select", "do0", "flexasync", "oltp"];

    /// Name with its variant, as tables print it: `point-select/prepared`, `point-select/prepared/ndbcluster`, `do0`.
    pub fn label(&self) -> String {
        match self {
            Workload::PointSelect { statement, engine, .. } => {
                let statement = match statement {
                    Statement::Prepared => "prepared",
                    Statement::Text => "text",
                };
                match engine {
                    Engine::InnoDb => format!("point-select/{statement}"),
                    Engine::NdbCluster => format!("point-select/{statement}/ndbcluster"),
                }
            }
            Workload::Do0 => "do0".into(),
            Workload::Flexasync(_) => "flexasync".into(),
            Workload::Oltp(Oltp { test, engine: Engine::InnoDb, .. }) => format!("oltp/{}", test.name()),
            Workload::Oltp(Oltp { test, .. }) => format!("oltp/{}/ndbcluster", test.name()),
        }
    }
}

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Statement {
    /// Prepared once a connection, then executed by its id.
    Prepared,
    /// Sent as text each time.
    Text,
}

/// The storage engine of a workload's tables, by the name that `CREATE TABLE` takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Engine {
    /// In the server itself.
    #[default]
    #[serde(rename = "InnoDB")]
    InnoDb,
    /// In the data nodes of the cluster that the server is a node of.
    #[serde(rename = "NDBCLUSTER")]
    NdbCluster,
}

impl Engine {
    /// As SQL has it.
    pub fn name(self) -> &'static str {
        match self {
            Engine::InnoDb => "InnoDB",
            Engine::NdbCluster => "NDBCLUSTER",
        }
    }

    fn is_default(&self) -> bool {
        *self == Engine::default()
    }
}

/// How much load, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Connections, 1 or more. With the null back-end: independent loops; with the NDB API: threads.
    pub connections: u32,
    /// When operations are due.
    #[serde(default, skip_serializing_if = "Arrival::is_closed")]
    pub arrival: Arrival,
    /// Client threads; `None`: as many as cores, at most `connections`.
    pub threads: Option<u32>,
    /// Load before the timed part, in seconds; not counted.
    pub warmup_s: f64,
    /// The timed part's limit in seconds.
    pub duration_s: f64,
    /// The timed part's limit in operations over all connections; `None`: only the time limits.
    pub operations: Option<u64>,
    /// With an operation's number it decides everything about that operation.
    pub seed: u64,
    /// Seconds between two [`crate::message::Interval`] messages.
    pub interval_s: f64,
    /// A reply that takes longer than this, in seconds, counts as a lost connection.
    pub reply_timeout_s: f64,
}

/// When operations are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Arrival {
    /// A closed loop: each connection's next operation is due when the one before it has ended.
    #[default]
    Closed,
    /// An open loop, at equal distances, whatever the server does; an operation waits for an idle connection.
    Fixed {
        /// Operations a second over all connections.
        rate_per_s: f64,
    },
    /// An open loop, at random: a Poisson process.
    Poisson {
        /// Operations a second over all connections, on average.
        rate_per_s: f64,
    },
}

impl Arrival {
    /// Operations a second that are asked for; `None` in a closed loop.
    pub fn rate_per_s(self) -> Option<f64> {
        match self {
            Arrival::Closed => None,
            Arrival::Fixed { rate_per_s } | Arrival::Poisson { rate_per_s } => Some(rate_per_s),
        }
    }

    /// As tables print it behind a workload: ` @5000/s`, ` @~5000/s` at random, nothing for a closed loop.
    pub fn label(self) -> String {
        match self {
            Arrival::Closed => String::new(),
            Arrival::Fixed { rate_per_s } => format!(" @{rate_per_s}/s"),
            Arrival::Poisson { rate_per_s } => format!(" @~{rate_per_s}/s"),
        }
    }

    fn is_closed(&self) -> bool {
        *self == Arrival::Closed
    }
}
