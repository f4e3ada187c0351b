//! The record: everything known about one execution, in one append-only file.
//!
//! A record file is JSON Lines: one [`Line`] a line, each flushed when it happens. The first is a `header`; then the
//! `machine`s, once they are up, and the `server`; for each workload, a `workload`, its `message`s as the bench binary
//! sent them; `caveat`s where they arise; and an `end`.
//! A file without an `end` is a record whose writer was killed: valid, partial, outcome *unknown*.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpus::CpuList;
use crate::facts::{Facts, FolderFacts};
use crate::message::{Caveat, Message};
use crate::request::{Load, Workload};

/// Version of the record format; readers refuse another one.
pub const SCHEMA_VERSION: u32 = 4;
/// The oldest version that readers take: what came since is lines and values that it does not have.
const OLDEST_VERSION: u32 = 2;

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Line {
    /// First line: provenance.
    Header(Box<Header>),
    /// A machine is up: what it says of itself.
    Machine(Box<MachineUp>),
    /// The server is ready; what it really runs with.
    Server(ServerFacts),
    /// A cluster is up; what its nodes really run with.
    Cluster(Box<ClusterFacts>),
    /// A workload begins.
    Workload {
        /// Its place in the suite, from 0.
        index: u32,
        /// The workload with its parameters.
        workload: Workload,
        /// How much load, for how long.
        load: Load,
        /// Where the client runs: `target` (on the server's machine), `host`, or a machine's name.
        client: String,
        /// `unix`, `tcp` or `none`: asked for; the measurement says what was used.
        transport: String,
    },
    /// What the bench binary said about workload `index`.
    Message {
        /// The workload's place in the suite.
        index: u32,
        /// The message.
        #[cfg_attr(feature = "schema", schemars(rename = "said"))]
        said: Message,
    },
    /// The original of workload `index`, run beside it on the same servers.
    Compared {
        /// The workload's place in the suite.
        index: u32,
        /// What it gave.
        ran: Compared,
    },
    /// A warning about the whole record.
    Caveat(Caveat),
    /// Last line.
    End {
        /// How it ended.
        outcome: Outcome,
        /// Why, where it was not `complete`.
        error: Option<RecordedError>,
        /// RFC 3339, UTC.
        ended_at: String,
    },
}

/// One run of a program that a workload is modelled on, by that program's own words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compared {
    /// The program, e.g. `flexAsynch`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its phases in their order.
    pub phases: Vec<ComparedPhase>,
    /// CPU time of the whole process, user and system, in seconds; `None` where it cannot be seen.
    pub cpu_s: Option<f64>,
}

/// One phase of a program that a workload is modelled on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedPhase {
    /// Its name, e.g. `insert`.
    pub phase: String,
    /// Operations.
    pub operations: u64,
    /// Seconds that they took, by the program's own clock.
    pub elapsed_s: f64,
}

/// Where the numbers come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Unique name of the record.
    pub id: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// portbench's version.
    pub portbench_version: String,
    /// Commit of portbench's checkout, `-dirty` where it was changed since; `None` outside of git.
    pub portbench_commit: Option<String>,
    /// SHA-256 of the load generator that ran.
    pub bench_binary_sha256: String,
    /// The command line, without the program's path.
    pub command: Vec<String>,
    /// The target's name.
    pub target: String,
    /// Name of the suite.
    pub suite: String,
    /// What was deployed; `None` with the null back-end.
    pub bundle: Option<BundleFacts>,
    /// The host and the machine that was asked for.
    pub machine: MachineFacts,
    /// What programs were to be bound to.
    pub placement: PlacementFacts,
}

/// What is known of a bundle; its own `manifest.json` holds this too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BundleFacts {
    /// The product's name.
    pub product: String,
    /// The release.
    pub release: String,
    /// `source`: built by portbench; `distro`: the distribution's packages.
    pub origin: String,
    /// Hash that names the bundle: of everything that went into it.
    pub hash: String,
    /// SHA-256 of the release's source archive; `None` for `distro`.
    pub source_sha256: Option<String>,
    /// Patches in their order, each `name sha256`.
    pub patches: Vec<String>,
    /// Products whose own builds stand beside it, each `product release hash`; the fields below are not of these.
    #[serde(default)]
    pub parts: Vec<String>,
    /// Compiler flags for the CPU.
    pub cpu_flags: Vec<String>,
    /// CMake settings; empty for `distro`.
    pub cmake: BTreeMap<String, String>,
    /// First line of `--version` of the compiler; `None` for `distro`.
    pub compiler: Option<String>,
    /// Packages whose files are in the bundle or that it was built against, each `name version`.
    pub packages: Vec<String>,
    /// What the ELF check found, over all files.
    pub elf: ElfFacts,
}

/// Summary of the ELF check of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElfFacts {
    /// ELF files checked.
    pub files: u32,
    /// Highest version of a glibc symbol that any file needs, e.g. `2.34`; `None` where none needs one.
    pub glibc_needed: Option<String>,
    /// Instructions beyond the CPU baseline in files that choose them at run time, by file.
    pub run_time_dispatched: BTreeMap<String, u64>,
    /// Whether instructions were scanned; `false` is a check that could not be made.
    pub instructions_scanned: bool,
}

/// The machine that was asked for, and the host that drove it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineFacts {
    /// `local`, `qemu-user`, `qemu-system`, `ssh:NAME`.
    pub machine: String,
    /// The host's kernel, `uname -r`.
    pub host_kernel: String,
    /// The host's CPU.
    pub host_cpu: Option<String>,
    /// CPUs of the host that portbench may use.
    pub host_cpus: u32,
    /// Memory of the host in bytes.
    pub host_memory_bytes: u64,
}

/// What programs were to be bound to; where it could not be, there is no measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementFacts {
    /// CPUs of the server, e.g. `0-3`; `None`: any.
    pub server_cpus: Option<CpuList>,
    /// CPUs of the load generator; `None`: any.
    pub client_cpus: Option<CpuList>,
    /// NUMA node of the server's memory; `None`: any.
    pub numa_node: Option<u32>,
}

/// A machine that is up, by its own word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineUp {
    /// Its name.
    pub machine: String,
    /// `server` or `client`: whose machine it is. A client on the server's machine has no line of its own.
    pub role: String,
    /// The emulator; `None` on hardware.
    pub emulator: Option<EmulatorFacts>,
    /// Seconds that its clock is ahead of the host's, as far as that could be told; `None` where it is the host's.
    pub clock_ahead_s: Option<f64>,
    /// What the bench binary sees there.
    pub facts: Facts,
}

/// The emulator of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmulatorFacts {
    /// Its program's name.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The CPU it was told to be.
    pub cpu: String,
    /// How many times slower than the host it ran a probe.
    pub slowdown: f64,
    /// The machine it was told to be, with its version, e.g. `pseries-10.0`; `None` for programs alone.
    pub machine: Option<String>,
    /// The guest's kernel by its variant's name; `None` for programs alone.
    pub kernel: Option<String>,
    /// The guest's memory in MiB; `None` for programs alone.
    pub memory_mib: Option<u32>,
}

/// What the server says of itself once it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFacts {
    /// `@@version`.
    pub version: String,
    /// Seconds from its start until its log said that it is ready.
    pub ready_s: f64,
    /// Settings read back, by name, as the server prints them.
    pub settings: BTreeMap<String, String>,
    /// The target whose server made the data folder, where it was there before; `None`: it was made for this record.
    pub data_written_by: Option<String>,
    /// Warnings and errors of its own start-up, from its log.
    pub warnings: Vec<String>,
    /// How it reads and writes its data, by its own word: `io_uring`, `libaio`, or `synchronous` by threads of its own;
    /// `None` where it does not say.
    pub io_method: Option<String>,
    /// Why that is not the method that it tried first, in its own words; `None` where it is.
    pub io_fallback: Option<String>,
    /// How it computes checksums, in its own words, e.g. `POWER8 crc32 instructions`; `None` where it does not say.
    pub crc32_method: Option<String>,
    /// What its data folder bears; `None` where that was not looked at.
    pub data_folder: Option<FolderFacts>,
    /// CPUs that it may run on, read back; `None` where that cannot be read.
    pub allowed_cpus: Option<CpuList>,
    /// Its memory policy, read back; `None` where that cannot be read.
    pub memory_policy: Option<String>,
}

/// An NDB Cluster that is up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterFacts {
    /// The topology's name.
    pub topology: String,
    /// The nodes' version, by their own word, e.g. `mysql-9.7.2 ndb-9.7.2`.
    pub version: String,
    /// Copies of each row.
    pub replicas: u32,
    /// What programs connect with.
    pub connect_string: String,
    /// The text of `config.ini`.
    pub config_ini: String,
    /// Seconds from the start of the first node until the last data node said that it has started.
    pub started_s: f64,
    /// The target whose nodes made the data folders, where they were there before; `None`: they were made for this
    /// record.
    pub data_written_by: Option<String>,
    /// Its nodes, in the order in which they were started.
    pub nodes: Vec<ClusterNode>,
}

/// A node of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterNode {
    /// Its node id.
    pub node_id: u32,
    /// `management` or `data`.
    pub node_role: String,
    /// Its machine's name.
    pub machine: String,
    /// Its process id on its machine.
    pub pid: u32,
    /// Its address and port.
    pub listens: String,
    /// What it really runs with, by NDB's names, as it says itself.
    pub effective: BTreeMap<String, String>,
    /// CPUs that it may run on, read back; `None` where that cannot be read.
    pub allowed_cpus: Option<CpuList>,
    /// Its memory policy, read back; `None` where that cannot be read.
    pub memory_policy: Option<String>,
    /// Its log, on the host.
    pub log: String,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Outcome {
    /// Every workload of the suite finished.
    Complete,
    /// Ended by the user.
    Interrupted,
    /// At least one workload failed, or the server did.
    Failed,
}

/// An error, as a field of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedError {
    /// Its kind, as the exit code's table in the README names it.
    pub kind: String,
    /// What happened.
    pub detail: String,
    /// The log that holds the rest; `None` where there is none.
    pub log: Option<String>,
}

/// What is wrong with a record beyond its types; empty where nothing is. A record without an `end` is valid: partial.
pub fn check(lines: &[Line]) -> Vec<String> {
    let mut wrong = Vec::new();
    match lines.first() {
        Some(Line::Header(header)) if !(OLDEST_VERSION..=SCHEMA_VERSION).contains(&header.schema_version) => {
            wrong.push(format!(
                "schema version {}, this program knows {SCHEMA_VERSION}",
                header.schema_version
            ));
        }
        Some(Line::Header(_)) => {}
        _ => wrong.push("the first line is no header".into()),
    }
    let mut workloads = 0;
    let mut finished = 0;
    for (number, line) in lines.iter().enumerate() {
        let mut say = |what: String| wrong.push(format!("line {}: {what}", number + 1));
        match line {
            Line::Header(_) if number > 0 => say("a second header".into()),
            Line::Workload { index, .. } if *index != workloads => {
                say(format!("workload {index} is out of order"))
            }
            Line::Workload { .. } => workloads += 1,
            Line::Message { index, .. } if *index + 1 != workloads => {
                say(format!("a message about workload {index}, which is not the one that runs"));
            }
            Line::Message { said: Message::Finished(measurement), .. } => {
                finished += 1;
                crate::check::measurement(measurement).into_iter().for_each(say);
            }
            Line::End { .. } if number + 1 != lines.len() => say("something follows the end".into()),
            Line::End { outcome: Outcome::Complete, .. } if finished != workloads => {
                say(format!("complete, but {finished} of {workloads} workloads finished"));
            }
            _ => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Line {
        let text = r#"{"line":"header","schema_version":2,"id":"x","started_at":"2026-01-01T00:00:00Z",
            "portbench_version":"0","portbench_commit":null,"bench_binary_sha256":"","command":[],"target":"t","suite":"s","bundle":null,
            "placement":{"server_cpus":null,"client_cpus":null,"numa_node":null},
            "machine":{"machine":"m","host_kernel":"k","host_cpu":null,"host_cpus":1,"host_memory_bytes":1}}"#;
        serde_json::from_str(text).unwrap()
    }

    fn workload(index: u32) -> Line {
        let text = format!(
            r#"{{"line":"workload","index":{index},"workload":{{"name":"do0"}},"client":"target","transport":"unix",
            "load":{{"connections":1,"threads":null,"warmup_s":1.0,"duration_s":1.0,"operations":null,"seed":1,
            "interval_s":1.0,"reply_timeout_s":1.0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn end(outcome: Outcome) -> Line {
        Line::End { outcome, error: None, ended_at: "2026-01-01T00:00:01Z".into() }
    }

    #[test]
    fn a_record_whose_writer_was_killed_is_valid() {
        assert_eq!(check(&[header(), workload(0)]), Vec::<String>::new());
    }

    #[test]
    fn a_record_needs_its_header_first_and_its_end_last() {
        assert!(check(&[workload(0)])[0].contains("no header"));
        assert!(
            check(&[header(), end(Outcome::Failed), workload(0)])
                .iter()
                .any(|w| w.contains("follows the end"))
        );
    }

    #[test]
    fn complete_means_that_every_workload_finished() {
        assert!(
            check(&[header(), workload(0), end(Outcome::Complete)])[0].contains("0 of 1 workloads finished")
        );
        assert!(check(&[header(), workload(1)])[0].contains("out of order"));
    }

    #[test]
    fn a_record_of_another_schema_is_refused() {
        let text = serde_json::to_string(&header()).unwrap();
        let newer = text.replace("\"schema_version\":2", "\"schema_version\":99");
        assert!(check(&[serde_json::from_str(&newer).unwrap()])[0].contains("99"));
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = serde_json::to_string(&end(Outcome::Failed)).unwrap().replace("\"error\"", "\"eror\"");
        assert!(serde_json::from_str::<Line>(&text).is_err());
    }
}
