//! Other programs: started so that they end with us, whatever ends us, and with their whole output in a log.
//!
//! Each child is started through `xtask guard`, which asks the kernel for a signal when its parent dies and then
//! becomes the program; and in a process group of its own, which is ended when its [`Guarded`] value is dropped.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group, set_parent_process_death_signal};

use crate::failure::{Failure, Kind};
use crate::{interrupt, ui};

/// How often a waiting loop looks up.
pub const TICK: Duration = Duration::from_millis(20);

/// How long a child may take to end after SIGTERM before SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// What a child does when we die: builders end in order and take their own children with them, servers end at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnOurDeath {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// A running child that does not outlive this value.
pub struct Guarded {
    child: Child,
    ended: Option<ExitStatus>,
}

/// Starts a program under guard.
///
/// The program's standard streams are those set on `command`; it reads nothing unless told so.
pub fn spawn(name: &str, command: Command, on_death: OnOurDeath) -> Result<Guarded> {
    spawn_with(name, command, on_death, [Stdio::null(), Stdio::inherit(), Stdio::inherit()])
}

/// [`spawn`], with standard input, output and error given.
pub fn spawn_with(name: &str, command: Command, on_death: OnOurDeath, stdio: [Stdio; 3]) -> Result<Guarded> {
    let [stdin, stdout, stderr] = stdio;
    let mut guarded = guarded(command, on_death);
    guarded.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
    let child = guarded.spawn().with_context(|| format!("cannot start {name}"))?;
    Ok(Guarded { child, ended: None })
}

/// The command behind `guard`.
fn guarded(command: Command, on_death: OnOurDeath) -> Command {
    // A unit test's program is no guard: it would run no test, be content, and the command would not have run.
    if cfg!(test) {
        panic!("{}: unit tests run programs by `process::output`", shown(&command));
    }
    // `/proc/self/exe` is this very program even if cargo has replaced its file since.
    let mut guarded = Command::new("/proc/self/exe");
    guarded.arg("guard").arg(getpid().as_raw_nonzero().to_string());
    guarded.arg(if on_death == OnOurDeath::Kill { "kill" } else { "terminate" });
    guarded.arg("--").arg(command.get_program()).args(command.get_args());
    inherit_setting(&command, &mut guarded);
    guarded
}

/// Runs a program that has the terminal: Ctrl-C is its own affair.
pub fn interactive(name: &str, command: Command) -> Result<ExitStatus> {
    let _ctrl_c = interrupt::Ignored::begin();
    let mut child =
        guarded(command, OnOurDeath::Kill).spawn().with_context(|| format!("cannot start {name}"))?;
    Ok(child.wait()?)
}

/// Gives a command that stands for another one its environment and its folder.
pub fn inherit_setting(from: &Command, to: &mut Command) {
    for (key, value) in from.get_envs() {
        match value {
            Some(value) => to.env(key, value),
            None => to.env_remove(key),
        };
    }
    if let Some(folder) = from.get_current_dir() {
        to.current_dir(folder);
    }
}

/// `xtask guard PARENT SIGNAL -- PROGRAM …`: asks for the signal, then becomes the program. Returns only on failure.
pub fn guard(parent: i32, kill: bool, program: &[OsString]) -> Result<()> {
    let signal = if kill { Signal::KILL } else { Signal::TERM };
    set_parent_process_death_signal(Some(signal)).context("cannot ask for a signal at the parent's death")?;
    // The parent may have died before the kernel knew that we care.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        anyhow::bail!("the parent has ended");
    }
    let (name, arguments) = program.split_first().context("no program given")?;
    let error = Command::new(name).args(arguments).exec();
    ui::say(&format!("cannot start {}: {error}", Path::new(name).display()));
    std::process::exit(NOT_STARTED);
}

/// Exit code of the guard when the program cannot be started, as shells have it.
pub const NOT_STARTED: i32 = 127;

impl Guarded {
    /// The child's end, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Standard input, if it is a pipe.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// Sends a signal to the child and all that it started in its group.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_none()
            && let Some(pid) = Pid::from_raw(self.child.id() as i32)
        {
            // It may have ended meanwhile.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Waits for the end, at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            match self.ended()? {
                None if Instant::now() < until => std::thread::sleep(TICK),
                ended => return Ok(ended),
            }
        }
    }

    /// Asks the child to end, and ends it if it does not within `grace`.
    pub fn stop(&mut self, grace: Duration) -> Result<()> {
        self.signal(Signal::TERM);
        if self.wait(grace)?.is_none() {
            self.signal(Signal::KILL);
            self.ended = Some(self.child.wait()?);
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The lines of a pipe, read by a thread of their own so that the reader can wait with a time limit.
pub fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            if send.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receive
}

/// A program whose whole output goes to a log file.
pub struct Logged<'a> {
    /// What a person calls it, e.g. `cmake`.
    pub name: &'a str,
    /// The log; what it held is kept, new output comes behind it.
    pub log: &'a Path,
    /// What to do next if it fails.
    pub next: &'a str,
}

impl Logged<'_> {
    /// Runs it to its end.
    pub fn run(&self, command: impl Into<Command>) -> Result<()> {
        self.run_watched(command, |_| ())
    }

    /// Runs it to its end; `each` sees every line of output.
    pub fn run_watched(&self, command: impl Into<Command>, mut each: impl FnMut(&str)) -> Result<()> {
        let command = command.into();
        let mut log = append(self.log)?;
        // A log holds earlier attempts as well: what they said is no reason of this one's failure.
        let begun_at = log.metadata()?.len();
        writeln!(log, "$ {}", shown(&command))?;
        let (reader, writer) = std::io::pipe()?;
        let stdio = [Stdio::null(), writer.try_clone()?.into(), writer.into()];
        let mut child = spawn_with(self.name, command, OnOurDeath::Terminate, stdio)?;
        let lines = lines_of(reader);
        let mut ended_at = None;
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => {
                    writeln!(log, "{line}")?;
                    each(&line);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::requested() {
                child.stop(GRACE)?;
                return Err(interrupt::failure().log(self.log).into());
            }
            // A grandchild may hold the pipe open after the child's end: the child's end counts.
            if child.ended()?.is_some() && ended_at.get_or_insert_with(Instant::now).elapsed() > GRACE {
                break;
            }
        }
        let status =
            child.wait(Duration::from_secs(3600))?.context("the program closed its output and goes on")?;
        if status.success() { Ok(()) } else { Err(self.failed(status, begun_at).into()) }
    }

    fn failed(&self, status: ExitStatus, begun_at: u64) -> Failure {
        let tail = tail_from(self.log, begun_at, 15);
        if status.code() == Some(NOT_STARTED) && tail.contains("cannot start") {
            return Failure::new(Kind::MissingPackages, format!("{} is not installed", self.name))
                .log(self.log)
                .next("cargo xtask setup");
        }
        let full = tail.contains("No space left on device");
        let kind = if full { Kind::DiskFull } else { Kind::StageFailed };
        let how =
            if full { "ran out of disk space".to_string() } else { format!("failed: {}", ending(status)) };
        Failure::new(kind, format!("{} {how}\n{}", self.name, indented(&tail))).log(self.log).next(self.next)
    }
}

/// How a program ended, in words.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) if code > 128 && code < 128 + 65 => {
            format!("exit code {code} (signal {})", code - 128)
        }
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// The last lines of a text file, for a message; empty where it cannot be read.
pub fn tail(log: &Path, lines: usize) -> String {
    tail_from(log, 0, lines)
}

/// [`tail`] of what stands behind the first `skipped` bytes.
fn tail_from(log: &Path, skipped: u64, lines: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[(skipped as usize).min(bytes.len())..]);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Every line set in, so that quoted output stands apart from our words.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  | {line}")).collect::<Vec<_>>().join("\n")
}

/// A log opened to write behind what it holds.
pub fn append(log: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}

/// A command as a person could paste it into a shell.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    quoted(&words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
}

/// Words as a shell must be given them.
pub fn quoted(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let plain =
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c));
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// A program's standard output, as text; its failure names it. For short programs only.
pub fn output(command: impl Into<Command>) -> Result<String> {
    let mut command = command.into();
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what =
            format!("{} failed: {}\n{}", shown(&command), ending(output.status), indented(said.trim()));
        return Err(Failure::new(Kind::StageFailed, what).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a short program to its end and returns what it said; its standard error goes to a log.
///
/// # Errors
/// `StageFailed` where it does not end well, or not within `limit`; `Interrupted` where the user does not wait.
pub fn asked(name: &str, command: Command, limit: Duration, log: &Path) -> Result<String> {
    let (reader, writer) = std::io::pipe()?;
    let stdio = [Stdio::null(), writer.into(), append(log)?.into()];
    let mut child = spawn_with(name, command, OnOurDeath::Kill, stdio)?;
    let lines = lines_of(reader);
    let until = Instant::now() + limit;
    let mut said = String::new();
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => said += &(line + "\n"),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => interrupt::check()?,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    let how = match child.wait(TICK * 50)? {
        Some(status) if status.success() => return Ok(said),
        Some(status) => ending(status),
        None => format!("no end within {}", crate::ui::duration(limit)),
    };
    if let Some(failure) = child.ended()?.and_then(|status| crate::relay::failure(status, log)) {
        return Err(failure.into());
    }
    let what = format!("{name}: {how}\n{}", indented(&tail(log, 8)));
    Err(Failure::new(Kind::StageFailed, what).log(log).next("the log's last lines say why").into())
}

/// The cargo that runs us, or the one in `$PATH`.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A program found in `$PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let mut command = Command::new("cmake");
        command.args(["-DA=b c", "it's", "-G", "Ninja"]);
        assert_eq!(shown(&command), r"cmake '-DA=b c' 'it'\''s' -G Ninja");
    }

    #[test]
    fn what_an_earlier_attempt_said_is_not_quoted() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "No space left on device\nnew\n").unwrap();
        assert_eq!(tail_from(log.path(), 24, 9), "new");
        assert_eq!(tail_from(log.path(), 999, 9), "");
    }

    #[test]
    fn the_tail_of_a_missing_log_is_empty() {
        assert_eq!(tail(Path::new("/nonexistent/log"), 3), "");
    }
}
