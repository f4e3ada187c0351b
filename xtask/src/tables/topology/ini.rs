//! `config.ini` of a topology, once it is known where each node is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Node, Role, Topology};

/// Where a node is.
#[derive(Clone, Debug)]
pub struct At {
    /// Its node id.
    pub id: u32,
    /// Its address, as the other nodes reach it.
    pub host: IpAddr,
    /// Its port, in words: `show` has none yet.
    pub port: String,
    /// Its folder on its machine.
    pub folder: String,
}

/// Settings by NDB's own names, in the order of `config.ini`.
pub type Settings = Vec<(String, String)>;

/// Limits of hardware in ms: NDB's own defaults, but ten times as long for the watchdog of the start.
/// `ConnectCheckIntervalDelay` has no default that does anything, and stays away.
const LIMITS: [(&str, u32, u32); 7] = [
    // Name, on hardware, at most.
    ("HeartbeatIntervalDbDb", 5000, 60_000),
    ("HeartbeatIntervalDbApi", 1500, 60_000),
    ("TimeBetweenWatchDogCheck", 6000, 600_000),
    ("TimeBetweenWatchDogCheckInitial", 60_000, 600_000),
    ("TransactionDeadlockDetectionTimeout", 1200, 120_000),
    ("ArbitrationTimeout", 7500, 120_000),
    ("StartPartialTimeout", 30_000, 600_000),
];

impl Topology {
    /// The settings of all data nodes. `slowdown`: of the slowest machine.
    pub fn defaults(&self, slowdown: f64) -> Settings {
        let mut all: Settings = vec![("NoOfReplicas".into(), self.replicas.get_ref().to_string())];
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                all.push((name.into(), value));
            }
        };
        let size = |size: &Option<toml::Spanned<super::Size>>| size.as_ref().map(|s| s.get_ref().to_string());
        let memory = &self.memory;
        put("DataMemory", size(&memory.data_memory));
        put("SharedGlobalMemory", size(&memory.shared_global_memory));
        put("TransactionMemory", size(&memory.transaction_memory));
        put("DiskPageBufferMemory", size(&memory.disk_page_buffer_memory));
        put("RedoBuffer", size(&memory.redo_buffer));
        let threads = &self.threads;
        put(
            "MaxNoOfExecutionThreads",
            threads.max_no_of_execution_threads.as_ref().map(|n| n.get_ref().to_string()),
        );
        put("ThreadConfig", threads.thread_config.as_ref().map(|text| text.get_ref().clone()));
        let redo = &self.redo_log;
        put("NoOfFragmentLogFiles", redo.fragment_log_files.as_ref().map(|n| n.get_ref().to_string()));
        put("FragmentLogFileSize", size(&redo.fragment_log_file_size));
        put("InitFragmentLogFiles", redo.init_fragment_log_files.map(|how| how.name().to_string()));
        for (name, value) in self.scaled_limits(slowdown) {
            put(name, Some(value.to_string()));
        }
        put(
            "ConnectCheckIntervalDelay",
            self.limits.connect_check_ms.as_ref().map(|ms| ms.get_ref().to_string()),
        );
        merge(&mut all, &self.config);
        all
    }

    fn scaled_limits(&self, slowdown: f64) -> Vec<(&'static str, u32)> {
        let own = &self.limits;
        let given = [
            &own.heartbeat_db_db_ms,
            &own.heartbeat_db_api_ms,
            &own.watchdog_ms,
            &own.watchdog_initial_ms,
            &own.deadlock_ms,
            &own.arbitration_ms,
            &own.start_partial_ms,
        ];
        let scaled = |base: u32, most: u32| ((f64::from(base) * slowdown.max(1.0)) as u32).min(most);
        let pairs = LIMITS.iter().zip(given);
        pairs
            .map(|((name, base, most), own)| {
                (*name, own.as_ref().map_or_else(|| scaled(*base, *most), |ms| *ms.get_ref()))
            })
            .collect()
    }

    /// The settings of one node, without what says where it is.
    fn own(&self, role: Role, node: &Node) -> Settings {
        let mut all = Settings::new();
        // A node that is bound to a NUMA node must not spread its memory again.
        if role == Role::Data && (node.numa_node.is_some() || node.numa_index.is_some()) {
            all.push(("Numa".into(), "0".into()));
        }
        merge(&mut all, &node.config);
        all
    }

    /// What a data node is asked to run with.
    pub fn asked(&self, node: &Node, slowdown: f64) -> BTreeMap<String, String> {
        let mut all = self.defaults(slowdown);
        // NDB's names have no case: the node's own setting wins however it is spelt.
        for (name, value) in self.own(Role::Data, node) {
            all.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            all.push((name, value));
        }
        all.into_iter().collect()
    }

    /// The text of `config.ini`.
    pub fn config_ini(&self, at: &[At], slowdown: f64) -> String {
        let mut text = format!("# Of the topology {}; made anew at each start.\n[ndbd default]\n", self.name);
        let lines = |settings: Settings| -> String {
            settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
        };
        text += &lines(self.defaults(slowdown));
        for (role, node) in self.nodes() {
            let Some(at) = at.iter().find(|at| at.id == node.id()) else { continue };
            let (section, port) = match role {
                Role::Management => ("ndb_mgmd", Some("PortNumber")),
                Role::Data => ("ndbd", Some("ServerPort")),
                Role::Sql => ("mysqld", None),
            };
            text += &format!("\n[{section}]\nNodeId={}\nHostName={}\n", at.id, at.host);
            if let Some(port) = port {
                text += &format!("{port}={}\nDataDir={}\n", at.port, at.folder);
            }
            text += &lines(self.own(role, node));
        }
        for id in self.api_ids() {
            text += &format!("\n[api]\nNodeId={id}\n");
        }
        text
    }

    /// The node ids of slots for programs.
    pub fn api_ids(&self) -> std::ops::Range<u32> {
        let first = *self.api.first_id.get_ref();
        first..first.saturating_add(*self.api.slots.get_ref())
    }

    /// What programs and nodes connect with.
    pub fn connect_string(&self, at: &[At]) -> String {
        let management =
            self.management.iter().filter_map(|node| at.iter().find(|at| at.id == node.get_ref().id()));
        let hosts = management.map(|at| match at.host {
            IpAddr::V4(host) => format!("{host}:{}", at.port),
            IpAddr::V6(host) => format!("[{host}]:{}", at.port),
        });
        hosts.collect::<Vec<_>>().join(",")
    }
}

/// Adds what a file gives freely; it wins over what stands there.
fn merge(all: &mut Settings, more: &BTreeMap<String, toml::Spanned<toml::Value>>) {
    for (name, value) in more {
        let value = match value.get_ref() {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match all.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, old)) => *old = value,
            None => all.push((name.clone(), value)),
        }
    }
}
