//! The first root error among the logs of all nodes, in plain words; what follows from it is counted.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Result;

use super::causes::{self, Cause};
use super::node::Node;
use super::{Folders, Plan};
use crate::failure::{Failure, Kind};
use crate::machines::{Call, limit};
use crate::process;
use crate::tables::topology::Role;
use crate::ui;

/// How long an error log may take to be read, on hardware.
const READ: Duration = Duration::from_secs(10);
/// Signals by which programs end themselves: what ends them from outside is none of these.
const OWN_SIGNALS: [i32; 5] = [4, 6, 7, 8, 11];

/// When a node ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// While the cluster started.
    Starting,
    /// In mid-run.
    Running,
}

/// How the data nodes' own error logs are read: they are on their machines.
pub struct ErrorLogs {
    commands: Vec<(u32, Command, Duration)>,
    log: PathBuf,
}

impl ErrorLogs {
    /// Of a plan.
    pub fn of(plan: &Plan, folders: &Folders, log: &Path) -> Self {
        let mut commands = Vec::new();
        for data in plan.topology.data.iter().map(|node| node.get_ref()) {
            let (Some(machine), Ok(at)) = (plan.machine_of(data), folders.of(data.id())) else { continue };
            let words = [at.folder.clone()];
            let call = Call::shell(r#"cat "$1"/ndb_*_error.log 2>/dev/null || true"#, &words);
            let link = plan.machines[machine].link;
            commands.push((data.id(), link.command(&call), limit(link, READ)));
        }
        ErrorLogs { commands, log: log.to_path_buf() }
    }

    /// A node's; empty where it wrote none, or its machine is gone.
    fn read(&mut self, id: u32) -> String {
        let Some(index) = self.commands.iter().position(|(known, ..)| *known == id) else {
            return String::new();
        };
        let (_, command, limit) = self.commands.remove(index);
        process::asked("sh", command, limit, &self.log).unwrap_or_default()
    }
}

/// What a node that has ended left behind.
struct Left {
    name: String,
    status: ExitStatus,
    log: String,
    error_log: String,
    file: PathBuf,
}

/// Why nodes have ended.
pub fn failure(nodes: &mut [Node], errors: &mut ErrorLogs, when: When) -> Result<Failure> {
    let mut left = Vec::new();
    let mut all_logs = Vec::new();
    for node in nodes.iter_mut() {
        let log = fs::read_to_string(&node.log).unwrap_or_default();
        all_logs.push(log.clone());
        if let Some(status) = node.look()? {
            let error_log = if node.role == Role::Data { errors.read(node.id) } else { String::new() };
            left.push(Left { name: node.name(), status, log, error_log, file: node.log.clone() });
        }
    }
    if left.iter().all(|one| verdict(one).cause.follows)
        && let Some(failure) = silent(nodes)?
    {
        let ended = left.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
        let what = format!("{}\nin consequence: {ended} ended", failure.what);
        return Ok(Failure { what, ..failure });
    }
    let alerts = all_logs.iter().map(|log| log.lines().filter(|line| is_alert(line)).count()).sum();
    Ok(told(&left, alerts, when))
}

/// A data node whose process lives, but which the others have given up because it does not answer.
pub fn silent(nodes: &mut [Node]) -> Result<Option<Failure>> {
    let mut logs = Vec::new();
    for node in nodes.iter() {
        logs.push((node.name(), fs::read_to_string(&node.log).unwrap_or_default()));
    }
    for node in nodes.iter_mut().filter(|node| node.role == Role::Data) {
        if node.look()?.is_none()
            && let Some((by, line)) = logs.iter().find_map(|(by, log)| Some((by, given_up(log, node.id)?)))
        {
            let what = format!(
                "{} does not answer, though its process is there\n  | {by}: {}",
                node.name(),
                bare(line)
            );
            let next = "was it stopped, or did its machine have no time or memory for it? then run it again";
            return Ok(Some(Failure::new(Kind::ServerLost, what).log(&node.log).next(next)));
        }
    }
    Ok(None)
}

/// The line by which somebody gives a node up that does not answer.
fn given_up(log: &str, id: u32) -> Option<&str> {
    let marks =
        [format!("disconnecting node {id} due to missed"), format!("Node {id} declared dead due to missed")];
    log.lines().find(|line| marks.iter().any(|mark| line.contains(mark)))
}

fn told(left: &[Left], alerts: usize, when: When) -> Failure {
    let mut verdicts: Vec<(Verdict, &Left)> = left.iter().map(|one| (verdict(one), one)).collect();
    verdicts.sort_by(|(a, _), (b, _)| (a.cause.follows, &a.time).cmp(&(b.cause.follows, &b.time)));
    let Some((first, node)) = verdicts.first() else {
        return Failure::new(Kind::ServerLost, "a node has ended");
    };
    let phase = match (when, phase(&node.log)) {
        (When::Starting, Some(phase)) => format!(" after start phase {phase}"),
        (When::Starting, None) => " while it started".into(),
        (When::Running, _) => " in mid-run".into(),
    };
    let mut what = format!("{} ended{phase}: {}", node.name, first.plain);
    if !first.own_words.is_empty() {
        what += &format!("\n{}", process::indented(&first.own_words));
    }
    let others: Vec<&str> = verdicts[1..].iter().map(|(_, left)| left.name.as_str()).collect();
    if !others.is_empty() {
        what += &format!("\nin consequence or after it: {} ended as well", others.join(", "));
    }
    if alerts > 0 {
        what += &format!("\n{} of all nodes not shown", ui::counted(alerts as u64, "further alert"));
    }
    let died = if when == When::Starting { Kind::ServerDied } else { Kind::ServerLost };
    Failure::new(first.cause.kind.unwrap_or(died), what).log(&node.file).next(first.cause.next)
}

/// Why a node has ended, by its own logs.
struct Verdict {
    cause: Cause,
    plain: String,
    own_words: String,
    /// Of the last line that it wrote.
    time: String,
}

fn verdict(left: &Left) -> Verdict {
    let lines: Vec<&str> = left.log.lines().collect();
    let time = lines.iter().rev().find_map(|line| time(line)).unwrap_or_default().to_string();
    let unknown = Cause {
        plain: "",
        next: "the log's last lines say more; then run it again",
        kind: None,
        follows: false,
    };
    let of = |cause: Cause, plain: String, own_words: String| Verdict { cause, plain, own_words, time };
    if let Some((code, words)) = code(&left.error_log) {
        let cause = causes::of_code(code).unwrap_or(unknown);
        let plain = if cause.plain.is_empty() { "by an error of its own" } else { cause.plain };
        return of(cause, format!("{plain} (NDB error {code})"), words);
    }
    let killed = signal(left.status).filter(|signal| !OWN_SIGNALS.contains(signal));
    if let Some(signal) = killed {
        let plain = format!("killed from outside by signal {signal}, or by the kernel for lack of memory");
        return of(unknown, plain, String::new());
    }
    if let Some((cause, line)) = causes::of_words(&left.log) {
        // The first error says which value; the one that was recognised may only sum up.
        let first = lines.iter().position(|line| line.contains(" ERROR "));
        let words = match first.filter(|_| cause.kind == Some(Kind::Usage)) {
            Some(at) => lines[at..].iter().take(2).map(|line| bare(line)).collect::<Vec<_>>().join("\n"),
            None => bare(line).to_string(),
        };
        return of(cause, cause.plain.into(), words);
    }
    let mut own: Vec<&str> = lines.iter().copied().filter(|line| is_alert(line)).map(bare).take(3).collect();
    if own.is_empty() {
        own = lines[lines.len().saturating_sub(5)..].to_vec();
    }
    of(unknown, process::ending(left.status), own.join("\n"))
}

/// The signal that ended a program, here or behind a relay.
fn signal(status: ExitStatus) -> Option<i32> {
    status.signal().or_else(|| status.code().filter(|code| (129..193).contains(code)).map(|code| code - 128))
}

/// The last entry of an error log: NDB's code, and its own words.
fn code(error_log: &str) -> Option<(u32, String)> {
    let entry = error_log.rsplit("Time: ").next()?;
    let field = |name: &str| entry.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let code = field("Error: ")?.parse().ok()?;
    let words = [field("Message: "), field("Error data: ")];
    Some((code, words.into_iter().flatten().collect::<Vec<_>>().join("\n")))
}

/// The last start phase that a node has completed.
fn phase(log: &str) -> Option<&str> {
    let last = log.lines().rev().find_map(|line| line.split_once("-- Start phase "))?.1;
    last.split_once(" completed").map(|(number, _)| number)
}

fn time(line: &str) -> Option<&str> {
    let word = line.split(' ').next()?;
    (word.len() > 20 && word.ends_with('Z') && word.contains('T')).then_some(word)
}

/// A line without its time.
fn bare(line: &str) -> &str {
    time(line).map_or(line, |time| line[time.len()..].trim())
}

fn is_alert(line: &str) -> bool {
    ["] ALERT ", "] ERROR ", "] CRITICAL "].iter().any(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: &str = "2026-12-01T00:45:37.1Z [ndbd] INFO     -- Start phase 4 completed (initial start)\n";

    fn left(name: &str, status: i32, log: &str, error_log: &str) -> Left {
        let log = format!("{BEGUN}{log}");
        let status = ExitStatus::from_raw(status);
        Left { name: name.into(), status, log, error_log: error_log.into(), file: "/log".into() }
    }

    fn entry(code: u32, message: &str, data: &str) -> String {
        format!(
            "Current byte-offset\n\nTime: Tuesday\nStatus: x\nMessage: {message}\nError: {code}\nError data: {data}\n***EOM***\n"
        )
    }

    #[test]
    fn a_node_that_was_killed_is_the_root_and_what_it_took_with_it_is_counted() {
        let later = "2026-12-01T00:45:38.0Z [ndbd] INFO     -- Error handler shutting down system\n";
        let all = [
            left("data node 1", 255 << 8, later, &entry(2308, "Another node failed", "Node 2 disconnected")),
            left("data node 2", 9, "", ""),
        ];
        let failure = told(&all, 2, When::Starting);
        let said = failure.to_string();
        assert_eq!(failure.kind, Kind::ServerDied);
        assert!(
            said.starts_with("data node 2 ended after start phase 4: killed from outside by signal 9"),
            "{said}"
        );
        assert!(
            said.contains("after it: data node 1 ended as well") && said.contains("2 further alerts"),
            "{said}"
        );
        assert_eq!(told(&all[..1], 0, When::Running).kind, Kind::ServerLost);
    }

    #[test]
    fn a_refused_configuration_is_told_by_the_line_that_names_the_value() {
        let log = "2026-12-01T00:46:09.4Z [MgmtSrvr] ERROR    -- at line 19: Illegal value 9 for parameter A.\n\
                   Legal values are between 8 and 20320\n\
                   2026-12-01T00:46:09.5Z [MgmtSrvr] ERROR    -- Could not load configuration from '/x'\n";
        let failure = told(&[left("management node 145", 1 << 8, log, "")], 0, When::Starting);
        assert_eq!(failure.kind, Kind::Usage);
        assert!(failure.what.contains("Illegal value 9 for parameter A.\n  | Legal values"), "{failure}");
    }

    #[test]
    fn exhausted_memory_and_full_disks_are_told_as_such() {
        let log = "2026-12-01T00:46:13.4Z [ndbd] WARNING  -- Unable to alloc requested memory from OS: min: 579Mb\n";
        let said = told(&[left("data node 1", 6, log, "")], 0, When::Starting).to_string();
        assert!(said.contains("memory is exhausted") && said.contains("579Mb"), "{said}");
        let full = left("data node 1", 255 << 8, "", &entry(2810, "The file system is full", "x"));
        assert_eq!(told(&[full], 0, When::Running).kind, Kind::DiskFull);
    }

    #[test]
    fn a_node_that_does_not_answer_is_known_by_what_the_others_say() {
        let log = "2026-12-07T11:46:04.9Z [MgmtSrvr] WARNING  -- Node 2: Node 1 missed heartbeat 3\n\
                   2026-12-07T11:46:05.0Z [MgmtSrvr] ALERT    -- Node 2: Node 1 declared dead due to missed heartbeat\n";
        assert!(given_up(log, 1).is_some_and(|line| line.contains("ALERT")));
        assert_eq!((given_up(log, 2), given_up(log, 11)), (None, None));
        assert!(
            given_up("[MgmtSrvr] ERROR -- Node 145 disconnecting node 1 due to missed heartbeat", 1)
                .is_some()
        );
    }

    #[test]
    fn an_unknown_code_is_told_in_ndbs_own_words() {
        let one = left("data node 1", 255 << 8, "", &entry(7777, "Something new", "here"));
        let said = told(&[one], 0, When::Running).to_string();
        assert!(said.contains("NDB error 7777") && said.contains("| Something new\n  | here"), "{said}");
    }
}
