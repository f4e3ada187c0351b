//! The record: everything known about one execution, in one append-only file.
//!
//! A record file is JSON Lines: one [`Line`] a line, each flushed when it happens. The first is a `header`; then, for
//! each workload, a `workload`, its `message`s as the bench binary sent them; `caveat`s where they arise; and an `end`.
//! A file without an `end` is a record whose writer was killed: valid, partial, outcome *unknown*.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::{Caveat, Message};
use crate::request::{Load, Workload};

/// Version of the record format; readers refuse a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Line {
    /// First line: provenance.
    Header(Box<Header>),
    /// The server is ready; what it really runs with.
    Server(ServerFacts),
    /// A workload begins.
    Workload {
        /// Its place in the suite, from 0.
        index: u32,
        /// The workload with its parameters.
        workload: Workload,
        /// How much load, for how long.
        load: Load,
        /// `target` or `host`: where the client runs.
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
    /// The command line, without the program's path.
    pub command: Vec<String>,
    /// The target's name.
    pub target: String,
    /// Name of the suite.
    pub suite: String,
    /// What was deployed; `None` with the null back-end.
    pub bundle: Option<BundleFacts>,
    /// Where it ran.
    pub machine: MachineFacts,
}

/// What is known of a bundle; its own `manifest.json` holds this too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Where a bundle ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineFacts {
    /// `qemu-user`, …
    pub machine: String,
    /// The emulator; `None` on hardware.
    pub emulator: Option<EmulatorFacts>,
    /// The host's kernel, `uname -r`.
    pub host_kernel: String,
    /// The host's CPU.
    pub host_cpu: Option<String>,
    /// CPUs of the host that portbench may use.
    pub host_cpus: u32,
    /// Memory of the host in bytes.
    pub host_memory_bytes: u64,
}

/// The emulator of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmulatorFacts {
    /// Its program's name.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The CPU it was told to be.
    pub cpu: String,
    /// How many times slower than the host it ran a probe; measured when the toolchain was probed.
    pub slowdown: f64,
}

/// What the server says of itself once it is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerFacts {
    /// `@@version`.
    pub version: String,
    /// Seconds from start to the first answered query.
    pub ready_s: f64,
    /// Settings read back, by name, as the server prints them.
    pub settings: BTreeMap<String, String>,
    /// Warnings and errors of its own start-up, from its log.
    pub warnings: Vec<String>,
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
