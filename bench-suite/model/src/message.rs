//! What the bench binary answers: one JSON message a line on standard output, flushed one by one.
//!
//! Order: `Hello`, then `Phase` messages with what belongs to each phase behind it, and last exactly one of
//! `Finished` or `Failed`. An interrupted run (first SIGINT or SIGTERM) ends with `Finished` whose
//! [`Measurement::ended_by`] says so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::facts::Facts;

/// One line of the bench binary's standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Message {
    /// First line: who speaks, and what the machine is.
    Hello {
        /// [`crate::PROTOCOL_VERSION`] of the binary.
        protocol_version: u32,
        /// The bench binary's version.
        version: String,
        /// What the bench binary sees of the machine it runs on.
        facts: Box<Facts>,
    },
    /// A phase has begun.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// The data was checked.
    Verified {
        /// `verify-before` or `verify-after`.
        phase: Phase,
        /// Check by check.
        checks: Vec<DataCheck>,
    },
    /// Progress of the timed part.
    Interval(Interval),
    /// What one part of a workload measured, where it has several: flexasync's phases. `Finished` sums them up.
    Part {
        /// Its name, e.g. `insert`.
        part: String,
        /// What it measured.
        measured: Box<Measurement>,
    },
    /// Something that a reader of the result must know.
    Caveat(Caveat),
    /// Last line of a run that measured something.
    Finished(Box<Measurement>),
    /// Last line of a run that did not.
    Failed(Failed),
}

/// The parts of one run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Phase {
    /// Logging in and computing whether the server's limits suffice.
    Connect,
    /// Creating and loading the data, if its stamp is missing.
    Prepare,
    /// Checking the data before timing.
    VerifyBefore,
    /// Load that is not counted.
    Warmup,
    /// The timed part.
    Measure,
    /// Checking the data after timing.
    VerifyAfter,
}

/// One check of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DataCheck {
    /// What was checked, e.g. `row count`.
    pub check: String,
    /// What it must be.
    pub expected: String,
    /// What the server said.
    pub found: String,
}

impl DataCheck {
    /// Whether the server said what it must.
    pub fn passed(&self) -> bool {
        self.expected == self.found
    }
}

/// The timed part, as far as it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Seconds since the timed part began.
    pub elapsed_s: f64,
    /// Operations completed since the last interval.
    pub operations: u64,
    /// Errors since the last interval.
    pub errors: u64,
    /// Operations a second over this interval.
    pub throughput_per_s: f64,
    /// Connections that are up.
    pub connections_up: u32,
}

/// A typed warning that travels with a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caveat {
    /// Which kind.
    pub kind: CaveatKind,
    /// What it means here, in one sentence.
    pub detail: String,
}

/// The kinds of caveat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CaveatKind {
    /// Ran under an emulator: never compare its seconds with hardware.
    Emulated,
    /// The server was built without optimisation or with assertions.
    DebugBuild,
    /// The server uses another I/O method than the one it would use on hardware.
    FallbackIo,
    /// A setting was not taken as it was asked for.
    SettingDiffers,
    /// Client and server shared the same CPUs.
    SharedCpus,
    /// The client was on another architecture than the server.
    ClientOnHost,
    /// The server's own counter and the client's count do not agree.
    CountDiffers,
    /// Some operations failed.
    Errors,
    /// Connections were lost, or never came up.
    ConnectionsLost,
    /// The run was ended before its time.
    Interrupted,
    /// The server warned of something at its start.
    ServerWarning,
    /// A check could not be made.
    NotChecked,
    /// The machine's clock is not the host's.
    ClockDiffers,
    /// An open loop did not get the rate that was asked for.
    RateNotReached,
    /// The client reached the server through ssh.
    Tunnelled,
}

/// Latency of the operations that succeeded, in microseconds, from an HDR histogram with 3 significant digits.
///
/// Always `min ≤ p50 ≤ p95 ≤ p99 ≤ p99.9 ≤ max`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// Operations counted.
    pub count: u64,
    /// Fastest.
    pub latency_us_min: f64,
    /// Arithmetic mean.
    pub latency_us_mean: f64,
    /// Median.
    pub latency_us_p50: f64,
    /// 95th percentile.
    pub latency_us_p95: f64,
    /// 99th percentile.
    pub latency_us_p99: f64,
    /// 99.9th percentile.
    pub latency_us_p99_9: f64,
    /// Slowest.
    pub latency_us_max: f64,
    /// The whole histogram of nanoseconds, HDR V2 format compressed with deflate, in base64: it can be merged with
    /// others.
    pub histogram_ns_hdr_base64: String,
}

/// CPU seconds of a process over the timed part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuTime {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

/// What ended the timed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EndedBy {
    /// The time limit.
    Duration,
    /// The limit of operations.
    Operations,
    /// SIGINT or SIGTERM.
    Interrupted,
    /// The server went away; only in a partial measurement.
    ServerLost,
}

/// What one run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// `unix`, `tcp`, `ndb` or `none` (null back-end).
    pub transport: String,
    /// Authentication plugin the server asked for; `None` with the null back-end.
    pub authentication: Option<String>,
    /// TLS cipher of a worker's connection; `None`: not encrypted.
    pub tls_cipher: Option<String>,
    /// Connections asked for.
    pub connections: u32,
    /// Connections that were up when the timed part began.
    pub connections_up_at_start: u32,
    /// Connections that were up when it ended.
    pub connections_up_at_end: u32,
    /// Client threads.
    pub threads: u32,
    /// Length of the timed part in seconds, all operations in flight completed.
    pub elapsed_s: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// `operations / elapsed_s`; `None` where nothing succeeded.
    pub throughput_per_s: Option<f64>,
    /// Latency, from when an operation was due; in a closed loop that is when the one before it has completed. `None`
    /// where nothing succeeded.
    pub latency: Option<Latency>,
    /// What an open loop adds; `None` in a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<Box<OpenLoop>>,
    /// CPU time of the client process.
    pub client_cpu: CpuTime,
    /// CPU time of the server process; `None` where it cannot be read.
    pub server_cpu: Option<CpuTime>,
    /// Difference of the server's `Questions` counter over the timed part, less the client's own control queries;
    /// `None` with the null back-end.
    pub server_questions: Option<u64>,
    /// Questions the client sent in the timed part, several for a transaction; equals `server_questions` when nothing
    /// else talks to the server.
    pub client_questions: u64,
    /// Failed operations by code: the server's error number (`1205`), or the client's: `wrong-answer`,
    /// `connection-lost`, `reply-timeout` (then given up, too), `protocol` (garbage, then given up).
    pub errors: BTreeMap<String, u64>,
    /// Operations that were begun again, by the server's error number: a deadlock (1213), a lock that was not got in
    /// time (1205). What succeeded at last is no error.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retries: BTreeMap<String, u64>,
    /// What ended the timed part.
    pub ended_by: EndedBy,
}

/// What became of a rate that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenLoop {
    /// Operations a second that were due.
    pub target_rate_per_s: f64,
    /// Time from when an operation was sent: `latency` without the wait for an idle connection. `None` where nothing
    /// succeeded.
    pub service: Option<Latency>,
    /// Operations that were due at once and not yet sent, at most.
    pub backlog_max: u64,
    /// Operations that were due and not yet sent when the timed part ended; they are in no other number.
    pub unsent: u64,
}

/// Why a run measured nothing that can be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failed {
    /// Which kind.
    pub kind: FailedKind,
    /// What happened and what to do, lower case, no full stop.
    pub detail: String,
    /// The phase it happened in; `None` before the first.
    pub phase: Option<Phase>,
    /// What had been measured until then, if anything.
    pub partial: Option<Box<Measurement>>,
}

/// The kinds of failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FailedKind {
    /// The request cannot be read or makes no sense.
    BadRequest,
    /// No connection to the server.
    CannotConnect,
    /// The server refused the account, or asks for a plugin that is not supported.
    Authentication,
    /// A limit of the server or of the machine is too low for the request.
    Limit,
    /// The server has no room for more rows.
    Full,
    /// The data could not be created or loaded.
    Prepare,
    /// The data is not what it must be.
    WrongData,
    /// The server went away in the run.
    ServerLost,
    /// The server refused an operation for good.
    Refused,
    /// A reply did not follow the protocol.
    Protocol,
    /// The timed part ended without a single operation that succeeded; `partial` has the errors.
    NothingSucceeded,
    /// The run was ended before it measured anything.
    Interrupted,
    /// A bug in the bench binary.
    Internal,
}
