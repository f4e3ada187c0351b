//! A topology: the nodes of an NDB Cluster and what each runs with, as its file in `xtask/topologies`, or one of the
//! user's, says.

mod around;
mod check;
mod ini;
mod size;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use model::CpuList;
use model::facts::Facts;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::failure::{Failure, Kind};
use crate::home::repository;
use crate::machines::name::Name;

pub use around::Around;
pub use ini::At;
pub use size::Size;

/// One file of `xtask/topologies`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Topology {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// The file; not in the file.
    #[serde(skip)]
    pub file: PathBuf,
    /// The text that it was read from; not in the file.
    #[serde(skip)]
    text: String,
    /// One line for people.
    pub description: String,
    /// Copies of each row.
    pub replicas: Spanned<u32>,
    /// Whether it is meant that the management node, which arbitrates, is on a data node's host.
    #[serde(default)]
    pub arbitrator_on_data_host: bool,
    /// Memory of each data node.
    #[serde(default)]
    pub memory: Memory,
    /// Threads of each data node.
    #[serde(default)]
    pub threads: Threads,
    /// The redo log of each data node.
    #[serde(default)]
    pub redo_log: RedoLog,
    /// Limits; those left out grow with how slow the machines are.
    #[serde(default)]
    pub limits: Limits,
    /// Further keys of `[ndbd default]`, as NDB names them.
    #[serde(default)]
    pub config: BTreeMap<String, Spanned<toml::Value>>,
    /// Management nodes; the first is the arbitrator.
    pub management: Vec<Spanned<Node>>,
    /// Data nodes.
    pub data: Vec<Spanned<Node>>,
    /// Slots of SQL servers that somebody starts by hand, each with a node id of its own. The server of `--with sql`
    /// takes one of the slots for programs.
    #[serde(default)]
    pub sql: Vec<Spanned<Node>>,
    /// Slots for programs of the NDB API.
    pub api: Api,
}

/// Memory of a data node; what is left out is NDB's default.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Memory {
    /// `DataMemory`: rows and indexes.
    pub data_memory: Option<Spanned<Size>>,
    /// `SharedGlobalMemory`.
    pub shared_global_memory: Option<Spanned<Size>>,
    /// `TransactionMemory`.
    pub transaction_memory: Option<Spanned<Size>>,
    /// `DiskPageBufferMemory`.
    pub disk_page_buffer_memory: Option<Spanned<Size>>,
    /// `RedoBuffer`, of each of four log parts.
    pub redo_buffer: Option<Spanned<Size>>,
}

/// Threads of a data node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Threads {
    /// `MaxNoOfExecutionThreads`.
    pub max_no_of_execution_threads: Option<Spanned<u32>>,
    /// `ThreadConfig`, instead of it.
    pub thread_config: Option<Spanned<String>>,
}

/// The redo log of a data node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RedoLog {
    /// `NoOfFragmentLogFiles`.
    pub fragment_log_files: Option<Spanned<u32>>,
    /// `FragmentLogFileSize`.
    pub fragment_log_file_size: Option<Spanned<Size>>,
    /// `InitFragmentLogFiles`: `SPARSE` or `FULL`.
    pub init_fragment_log_files: Option<Initial>,
}

/// How the files of a redo log are made.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Initial {
    /// Of their length, but empty.
    Sparse,
    /// Written throughout.
    Full,
}

/// Limits, in milliseconds, exactly as given.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// `HeartbeatIntervalDbDb`.
    pub heartbeat_db_db_ms: Option<Spanned<u32>>,
    /// `HeartbeatIntervalDbApi`.
    pub heartbeat_db_api_ms: Option<Spanned<u32>>,
    /// `TimeBetweenWatchDogCheck`.
    pub watchdog_ms: Option<Spanned<u32>>,
    /// `TimeBetweenWatchDogCheckInitial`.
    pub watchdog_initial_ms: Option<Spanned<u32>>,
    /// `TransactionDeadlockDetectionTimeout`.
    pub deadlock_ms: Option<Spanned<u32>>,
    /// `ArbitrationTimeout`.
    pub arbitration_ms: Option<Spanned<u32>>,
    /// `ConnectCheckIntervalDelay`.
    pub connect_check_ms: Option<Spanned<u32>>,
    /// `StartPartialTimeout`.
    pub start_partial_ms: Option<Spanned<u32>>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Node {
    /// Its node id.
    pub id: Spanned<u32>,
    /// Its machine; left out: the one that `--on` names.
    pub machine: Option<Spanned<String>>,
    /// Its TCP port; left out: a free one.
    pub port: Option<Spanned<u16>>,
    /// CPUs that it is bound to.
    pub cpus: Option<Spanned<CpuList>>,
    /// The NUMA node, by its number, that its memory comes from, and its CPUs unless `cpus` names some.
    pub numa_node: Option<Spanned<u32>>,
    /// The same, counted from 0 among the machine's NUMA nodes that have CPUs and memory, and round again.
    pub numa_index: Option<Spanned<u32>>,
    /// Further keys of the node's own section, as NDB names them.
    #[serde(default)]
    pub config: BTreeMap<String, Spanned<toml::Value>>,
}

/// Slots for programs of the NDB API: connections without a machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Api {
    /// The first one's node id; the others follow.
    pub first_id: Spanned<u32>,
    /// How many.
    pub slots: Spanned<u32>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// `ndb_mgmd`.
    Management,
    /// `ndbmtd`.
    Data,
    /// `mysqld`.
    Sql,
}

impl Role {
    /// As records and `--json` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Management => "management",
            Role::Data => "data",
            Role::Sql => "sql",
        }
    }
}

impl Node {
    /// Its id.
    pub fn id(&self) -> u32 {
        *self.id.get_ref()
    }

    /// The machine's name in the file.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_ref().map(|name| name.get_ref().as_str())
    }
}

impl Topology {
    /// The one that was named, or else `small`.
    pub fn of(name: Option<&str>) -> Result<Self> {
        Self::load(name.unwrap_or("small"))
    }

    /// Reads a topology: a file, where the name ends with `.toml` or has a `/`, else one of `xtask/topologies`.
    ///
    /// # Errors
    /// What can be told of the file alone is checked: see [`Topology::check`] for the rest.
    pub fn load(name: &str) -> Result<Self> {
        let file = if name.ends_with(".toml") || name.contains('/') {
            PathBuf::from(name)
        } else {
            let known = Self::names()?;
            if !known.iter().any(|one| one == name) {
                let failure = crate::failure::unknown("topology", name, &known);
                return Err(failure.into());
            }
            folder().join(format!("{name}.toml"))
        };
        let text = super::text_of(&file, "name a file, or one of: cargo xtask topology")?;
        Self::parse(&file, &text)
    }

    /// Reads the text of a file.
    pub fn parse(file: &Path, text: &str) -> Result<Self> {
        let mut topology: Topology = super::parse(file, text)?;
        topology.name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        topology.file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        topology.text = text.to_string();
        check::refuse(file, text, check::alone(&topology))?;
        Ok(topology)
    }

    /// The names of those that ship.
    pub fn names() -> Result<Vec<String>> {
        super::names(&folder())
    }

    /// Fails with each thing, by line, that cannot work where it is to run.
    pub fn check(&self, around: &Around) -> Result<()> {
        check::refuse(&self.file, &self.text, around::problems(self, around))
    }

    /// Nodes that are processes, in the order in which they start.
    pub fn nodes(&self) -> impl Iterator<Item = (Role, &Node)> {
        let management = self.management.iter().map(|node| (Role::Management, node.get_ref()));
        let data = self.data.iter().map(|node| (Role::Data, node.get_ref()));
        let sql = self.sql.iter().map(|node| (Role::Sql, node.get_ref()));
        management.chain(data).chain(sql)
    }

    /// The machines that the file names, each once.
    pub fn machines(&self) -> Result<Vec<Name>> {
        let mut all: Vec<Name> = Vec::new();
        for name in self.nodes().filter_map(|(_, node)| node.machine()) {
            let name: Name = name.parse().map_err(|error: String| Failure::new(Kind::Usage, error))?;
            if !all.contains(&name) {
                all.push(name);
            }
        }
        Ok(all)
    }

    /// Whether a node is on the machine that `--on` names.
    pub fn needs_default_machine(&self) -> bool {
        self.nodes().any(|(_, node)| node.machine.is_none())
    }

    /// What makes data folders of one topology unfit for another: nodes and replicas.
    pub fn shape(&self) -> String {
        let ids: Vec<String> = self.data.iter().map(|node| node.get_ref().id().to_string()).collect();
        format!("replicas {}, data nodes {}", self.replicas.get_ref(), ids.join(","))
    }
}

/// The NUMA node that a node's memory comes from, on a machine with these facts.
pub fn numa_node(node: &Node, facts: &Facts, machine: &str) -> Result<Option<u32>> {
    let Some(index) = &node.numa_index else { return Ok(node.numa_node.as_ref().map(|n| *n.get_ref())) };
    let useful = |known: &&model::facts::NumaNode| !known.cpus.is_empty() && known.memory_bytes != Some(0);
    let nodes: Vec<u32> = facts.numa_nodes.iter().flatten().filter(useful).map(|known| known.node).collect();
    match nodes.get(*index.get_ref() as usize % nodes.len().max(1)) {
        Some(number) => Ok(Some(*number)),
        None => Err(Failure::new(Kind::Usage, format!("node {}: {machine} has no NUMA nodes", node.id()))
            .next("leave `numa-index` out there")
            .into()),
    }
}

fn folder() -> PathBuf {
    repository().join("xtask/topologies")
}

#[cfg(test)]
mod tests;
