//! The folders of one running server: its data, and a short one for its socket, made and held by the bench binary on
//! the machine itself, so that they go when it does, whatever ended it.

use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::failure::{Failure, Kind};
use crate::interrupt;
use crate::machines::{Call, Link, limit};
use crate::process::{self, Guarded, OnOurDeath};
use crate::stages::bundle::BENCH;
use crate::stages::deployment::Deployed;

/// How long the folders may take to be made on hardware.
const MADE: Duration = Duration::from_secs(15);
/// How long they may take to be removed.
const REMOVED: Duration = Duration::from_secs(15);

/// A server's folders. Dropped, they are removed.
pub struct Place {
    process: Guarded,
    stdin: Option<ChildStdin>,
    at: model::agent::Place,
    log: PathBuf,
}

impl Place {
    /// Makes the folders on the machine; `kept`: a data folder of the user's, which stays.
    pub fn make(link: &dyn Link, deployed: &Deployed, log: &Path, kept: Option<&Path>) -> Result<Self> {
        Self::with_ports(link, deployed, log, kept, 0)
    }

    /// [`Place::make`], with so many further ports.
    pub fn with_ports(
        link: &dyn Link,
        deployed: &Deployed,
        log: &Path,
        kept: Option<&Path>,
        more_ports: usize,
    ) -> Result<Self> {
        let mut call = Call::of(deployed, BENCH).args(["place".to_string(), "--below".into()]);
        call = call.args([deployed.runs.display().to_string()]);
        if more_ports > 0 {
            call = call.args(["--more-ports".to_string(), more_ports.to_string()]);
        }
        if let Some(folder) = kept {
            call = call.args(["--data".to_string(), folder.display().to_string()]);
        }
        let (reader, writer) = std::io::pipe()?;
        let stdio = [Stdio::piped(), writer.into(), process::append(log)?.into()];
        let mut process =
            process::spawn_with("the bench binary", link.command(&call), OnOurDeath::Terminate, stdio)?;
        let stdin = process.take_stdin();
        let lines = process::lines_of(reader);
        let until = Instant::now() + limit(link, MADE);
        let line = loop {
            interrupt::check()?;
            match lines.recv_timeout(process::TICK) {
                Ok(line) => break line,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(_) => return Err(failed(log).into()),
            }
        };
        let at = serde_json::from_str(&line).with_context(|| format!("not a place: {line}"))?;
        Ok(Place { process, stdin, at, log: log.to_path_buf() })
    }

    /// The folder for data.
    pub fn data(&self) -> &Path {
        &self.at.data
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.at.socket
    }

    /// All ports that were free.
    pub fn ports(&self) -> Vec<u16> {
        std::iter::once(self.at.port).chain(self.at.more_ports.iter().copied()).collect()
    }

    /// A port that was free.
    pub fn port(&self) -> u16 {
        self.at.port
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The end of its standard input tells it to remove them.
        drop(self.stdin.take());
        if !matches!(self.process.wait(REMOVED), Ok(Some(_))) {
            crate::ui::step("warning", &format!("folders may be left, see {}", self.log.display()));
        }
    }
}

fn failed(log: &Path) -> Failure {
    let tail = process::tail(log, 5);
    let kind = if tail.contains("No space left") { Kind::DiskFull } else { Kind::StageFailed };
    let what = format!("the folders of a server could not be made\n{}", process::indented(&tail));
    Failure::new(kind, what).log(log).next("the log's last lines say why; then run the same command again")
}
