//! NDB's own flexAsynch, run on the cluster that our workload runs on, so that the two can be held against each other.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Result;
use model::record::{Compared, ComparedPhase};
use nix::sys::resource::{UsageWho, getrusage};

use crate::failure::{Failure, Kind};
use crate::machines::{Call, Link, limit};
use crate::process::{self, OnOurDeath};
use crate::stages::run::{Watched, first_lost};
use crate::{interrupt, relay};

/// Its phases, each by the name that flexasync has for it.
const PHASES: [&str; 5] = ["insert", "read", "update", "read-updated", "delete"];
/// How long it may take on hardware beside its work, which `longest` is for: to join the cluster, to make tables.
const LIMIT: Duration = Duration::from_secs(120);
/// How often the servers are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(200);

/// Runs it to its end and returns what it printed of each phase.
///
/// Its CPU time is that of the process and all its threads; it is known only where the process is a child of ours.
pub fn run(
    link: &dyn Link,
    call: &Call,
    log: &Path,
    longest: Duration,
    watched: &mut [&mut dyn Watched],
) -> Result<Compared> {
    let (mut reader, writer) = std::io::pipe()?;
    let errors = process::append(log)?;
    let before = children_cpu_s()?;
    let command = link.command(call);
    let mut child = process::spawn_with(
        "flexAsynch",
        command,
        OnOurDeath::Kill,
        [Stdio::null(), writer.into(), errors.into()],
    )?;
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut reader, &mut text).map(|_| text)
    });
    let until = Instant::now() + limit(link, LIMIT + longest);
    let mut status = None;
    while status.is_none() && Instant::now() < until {
        status = child.wait(LOOK)?;
        interrupt::check()?;
        if let Some(failure) = first_lost(watched)? {
            return Err(failure.into());
        }
    }
    drop(child);
    let text =
        reading.join().map_err(|_| anyhow::anyhow!("the reader of flexAsynch's output panicked"))??;
    std::io::Write::write_all(&mut process::append(log)?, text.as_bytes())?;
    if let Some(failure) = status.and_then(|status| relay::failure(status, log)) {
        return Err(failure.into());
    }
    let phases = phases(&text);
    if !status.is_some_and(|status| status.success()) || phases.is_empty() {
        let how = status.map_or("it did not end in its time".into(), process::ending);
        let tail: Vec<&str> = text.lines().rev().take(6).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        let what = format!("flexAsynch did not tell all its phases: {how}\n{}", process::indented(&tail));
        return Err(Failure::new(Kind::StageFailed, what).log(log).next("read the log").into());
    }
    let cpu_s = if link.is_here() { Some(children_cpu_s()? - before) } else { None };
    Ok(Compared { program: "flexAsynch".into(), arguments: call.arguments.clone(), phases, cpu_s })
}

/// CPU seconds of all children that have ended, user and system.
fn children_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// What `NdbTimer::printTransactionStatistics` prints once a phase, summed up over the loops; empty where a loop lacks
/// one.
fn phases(text: &str) -> Vec<ComparedPhase> {
    let printed: Vec<ComparedPhase> = text.lines().filter_map(phase).collect();
    if printed.is_empty() || !printed.len().is_multiple_of(PHASES.len()) {
        return Vec::new();
    }
    let sum = |(at, name): (usize, &&str)| {
        let mine = printed.iter().skip(at).step_by(PHASES.len());
        ComparedPhase {
            phase: name.to_string(),
            operations: mine.clone().map(|phase| phase.operations).sum(),
            elapsed_s: mine.map(|phase| phase.elapsed_s).sum(),
        }
    };
    PHASES.iter().enumerate().map(sum).collect()
}

/// `76800 transactions, 76800 insert total time = 320 ms`.
fn phase(line: &str) -> Option<ComparedPhase> {
    let rest = line.split_once(" transactions, ")?.1;
    let (done, time) = rest.split_once(" total time = ")?;
    let (operations, name) = done.split_once(' ')?;
    let milliseconds: f64 = time.strip_suffix(" ms")?.trim().parse().ok()?;
    let operations: u64 = operations.parse().ok()?;
    Some(ComparedPhase { phase: name.to_string(), operations, elapsed_s: milliseconds / 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_phases_are_read_in_order() {
        let line = |n: u32, what: &str, ms: u32| {
            format!("{n} transactions, {n} {what} total time = {ms} ms\nAverage …\n")
        };
        let one =
            |ms| ["insert", "read", "update", "read", "delete"].map(|what| line(76800, what, ms)).concat();
        let found = phases(&format!("Executing inserts\n{}{}", one(320), one(280)));
        let names: Vec<&str> = found.iter().map(|phase| phase.phase.as_str()).collect();
        assert_eq!(names, PHASES);
        assert_eq!(found[3].operations, 153_600);
        assert!((found[3].elapsed_s - 0.6).abs() < 1e-9);
        assert!(phases(&one(320).replace("delete", "gone")).len() == 5);
        assert!(phases(&line(1, "insert", 1)).is_empty(), "a run that broke off");
    }
}
