//! What can go wrong, by kind: each kind has its name, its exit code and a next step.
//!
//! The first digit of an exit code names the family: 3 a stage failed, 4 a verification failed.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The kinds of failure that a caller or a script may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something asked for does not exist or makes no sense.
    Usage,
    /// A stage failed for a reason that has no kind of its own.
    StageFailed,
    /// Packages are missing and may not be installed from here.
    MissingPackages,
    /// No space left.
    DiskFull,
    /// The emulator cannot run a program of the target.
    EmulatorBroken,
    /// The port that was asked for is taken.
    PortInUse,
    /// The server ended while it started.
    ServerDied,
    /// The server was lost in mid-run.
    ServerLost,
    /// The server was not ready within its time.
    ServerNotReady,
    /// A machine cannot be reached, or the link to it broke.
    MachineUnreachable,
    /// A guest did not come up, or ended in mid-run.
    GuestFailed,
    /// The machine is not what the target needs: architecture, byte order, CPU.
    WrongMachine,
    /// A check found something wrong that has no kind of its own.
    VerificationFailed,
    /// What was downloaded is not what was pinned.
    CorruptDownload,
    /// A file of the sysroot is missing.
    SysrootIncomplete,
    /// The server answered with wrong data.
    WrongData,
    /// A record does not follow its schema.
    BadRecord,
    /// Ended by Ctrl-C or SIGTERM.
    Interrupted,
}

impl Kind {
    /// Every kind, for the tests that nothing was forgotten.
    #[cfg(test)]
    pub const ALL: [Kind; 18] = [
        Kind::Usage,
        Kind::StageFailed,
        Kind::MissingPackages,
        Kind::DiskFull,
        Kind::EmulatorBroken,
        Kind::PortInUse,
        Kind::ServerDied,
        Kind::ServerLost,
        Kind::ServerNotReady,
        Kind::MachineUnreachable,
        Kind::GuestFailed,
        Kind::WrongMachine,
        Kind::VerificationFailed,
        Kind::CorruptDownload,
        Kind::SysrootIncomplete,
        Kind::WrongData,
        Kind::BadRecord,
        Kind::Interrupted,
    ];

    /// The process's exit code. 1 is left for bugs.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Usage => 2,
            Kind::StageFailed | Kind::MissingPackages => 3,
            Kind::DiskFull => 31,
            Kind::EmulatorBroken => 32,
            Kind::PortInUse => 33,
            Kind::ServerDied => 34,
            Kind::ServerLost => 35,
            Kind::ServerNotReady => 36,
            Kind::MachineUnreachable => 37,
            Kind::GuestFailed => 38,
            Kind::WrongMachine => 39,
            Kind::VerificationFailed => 4,
            Kind::CorruptDownload => 41,
            Kind::SysrootIncomplete => 42,
            Kind::WrongData => 43,
            Kind::BadRecord => 44,
            Kind::Interrupted => 130,
        }
    }

    /// The kind as records and `--json` spell it.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(String::from)).unwrap_or_default()
    }
}

/// A failure with all that its reader needs: what happened, where the rest stands, what to do next.
#[derive(Debug, thiserror::Error)]
pub struct Failure {
    /// Which kind.
    pub kind: Kind,
    /// What happened, lower case, no full stop; may hold several lines.
    pub what: String,
    /// The log that holds the rest.
    pub log: Option<PathBuf>,
    /// What to run or change next.
    pub next: Option<String>,
}

impl Failure {
    /// A failure that has no log and no next step yet.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Failure { kind, what: what.into(), log: None, next: None }
    }

    /// Names the log.
    pub fn log(mut self, log: impl AsRef<Path>) -> Self {
        self.log = Some(log.as_ref().to_path_buf());
        self
    }

    /// Says what to run or change next.
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(log) = &self.log {
            write!(f, "\n  log:  {}", log.display())?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {next}")?;
        }
        Ok(())
    }
}

/// Something was asked for by a name that does not exist: the nearest names are suggested.
pub fn unknown(what: &str, given: &str, known: &[String]) -> Failure {
    let near = nearest(given, known);
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    Failure::new(Kind::Usage, format!("unknown {what} `{given}`{hint}"))
        .next(format!("choose one of: {}", known.join(", ")))
}

/// The known names closest to `given`, best first, at most three.
pub fn nearest(given: &str, known: &[String]) -> Vec<String> {
    let mut scored: Vec<(f64, &String)> = known
        .iter()
        .map(|name| (strsim::jaro_winkler(&given.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name.clone()).collect()
}

/// The kind of any error: its own, or the one that the operating system's error implies.
pub fn kind_of(error: &anyhow::Error) -> Option<Kind> {
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return Some(failure.kind);
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            // What the system refuses (a file, a permission) is no bug of ours.
            let full = io.kind() == std::io::ErrorKind::StorageFull;
            return Some(if full { Kind::DiskFull } else { Kind::StageFailed });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_gets_the_nearest_ones() {
        let known = ["ppc64le".to_string(), "ppc64".into(), "x86_64".into()];
        assert_eq!(nearest("ppc64el", &known)[0], "ppc64le");
        assert_eq!(nearest("x86-64", &known), ["x86_64"]);
        assert!(nearest("zzz", &known).is_empty());
    }

    #[test]
    fn families_share_their_first_digit() {
        for kind in Kind::ALL {
            assert!(matches!(kind.exit_code().to_string().as_bytes()[0], b'2' | b'3' | b'4' | b'1'));
            assert!(!kind.name().is_empty());
        }
    }

    #[test]
    fn a_full_disk_is_recognised_under_any_context() {
        let io = std::io::Error::from_raw_os_error(28);
        let error = anyhow::Error::from(io).context("cannot write").context("stage");
        assert_eq!(kind_of(&error), Some(Kind::DiskFull));
    }
}
