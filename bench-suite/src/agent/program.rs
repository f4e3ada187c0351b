//! The program of a connection: how it is started, signalled, and kept from outliving the agent.
//!
//! It is started through `bench-suite guard`, which asks the kernel for SIGKILL at the agent's death, takes the
//! terminal if there is one, and becomes the program. So the process id is the program's, and none of this needs
//! `unsafe`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use model::CpuList;
use model::agent::{Run, Terminal};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, geteuid, getpid, getppid};
use rustix::process::{kill_process, kill_process_group, set_parent_process_death_signal, setsid, waitid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::output::for_people;

/// Exit code of the guard when the program cannot be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// Become a program that ends with its parent; how the agent starts programs
#[derive(clap::Args)]
pub struct GuardArgs {
    /// Process id of the parent
    parent: i32,
    /// Make standard input the controlling terminal
    #[arg(long)]
    terminal: bool,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// A program that was started.
pub struct Program {
    pid: Pid,
    /// Whether its process id may already be somebody else's.
    reaped: Arc<Mutex<bool>>,
}

/// This side of the program's streams.
pub struct Streams {
    /// What it reads.
    pub stdin: File,
    /// What it writes, to a terminal everything.
    pub stdout: File,
    /// What it writes to standard error.
    pub stderr: Option<File>,
    /// The terminal, to change its size.
    pub terminal: Option<File>,
}

/// Starts a program; `ended` is called, once, when it has ended, by a thread of its own.
pub fn start(
    run: &Run,
    ended: impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
) -> Result<(Program, Streams), String> {
    let cpus = run.cpus.as_ref().map(allowed_cpus).transpose()?;
    let (mut command, ours) = prepare(run)?;
    let (send, receive) = sync_channel(1);
    let reaped = Arc::new(Mutex::new(false));
    let to_mark = reaped.clone();
    // A thread of its own: what it is bound to is inherited by the program, and the kernel takes this thread's end for
    // the parent's death.
    std::thread::spawn(move || {
        let bound = cpus.map_or(Ok(()), |set| sched_setaffinity(None, &set));
        let child = match bound.map_err(io::Error::from).and_then(|()| command.spawn()) {
            Ok(child) => child,
            Err(error) => {
                let _ = send.send(Err(format!("cannot start the program: {error}")));
                return;
            }
        };
        // The terminal's end on this side must close with the program's.
        drop(command);
        wait(child, |child| drop(send.send(Ok(streams(child)))), &to_mark, ended);
    });
    let (pid, mut streams) = receive.recv().map_err(|_| "the program was not started".to_string())??;
    if let Some(terminal) = ours {
        let copy = || terminal.try_clone().map_err(|error| error.to_string());
        streams = Some(Streams { stdin: copy()?, stdout: copy()?, stderr: None, terminal: Some(copy()?) });
    }
    let pid = Pid::from_raw(pid as i32).ok_or("the program has no process id")?;
    Ok((Program { pid, reaped }, streams.ok_or("the program has no streams")?))
}

fn streams(child: &mut Child) -> (u32, Option<Streams>) {
    let stdin = child.stdin.take().map(OwnedFd::from);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    let streams = stdin.zip(stdout).map(|(stdin, stdout)| Streams {
        stdin: stdin.into(),
        stdout: stdout.into(),
        stderr: stderr.map(File::from),
        terminal: None,
    });
    (child.id(), streams)
}

/// Waits for the program's end, and ends what it leaves behind in its group.
fn wait(
    mut child: Child,
    started: impl FnOnce(&mut Child),
    reaped: &Mutex<bool>,
    ended: impl FnOnce(io::Result<ExitStatus>),
) {
    started(&mut child);
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // Not reaped yet: until then no other process can have its id.
        while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            .is_err_and(|error| error == rustix::io::Errno::INTR)
        {}
        let mut reaped = reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = kill_process_group(pid, Signal::KILL);
        *reaped = true;
    }
    ended(child.wait());
}

/// The command, its standard streams set; this side of its terminal if it has one.
fn prepare(run: &Run) -> Result<(Command, Option<File>), String> {
    let (name, _) = run.program.split_first().ok_or("no program was named")?;
    if name.contains('/') && !Path::new(name).is_file() {
        return Err(format!("{name} is not there"));
    }
    let mut command = ourselves().map_err(|error| format!("cannot find the agent's own program: {error}"))?;
    command.arg("guard").arg(getpid().as_raw_nonzero().to_string());
    if run.terminal.is_some() {
        command.arg("--terminal");
    }
    command.arg("--");
    if let Some(node) = run.numa_node {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join("numactl").is_file()) {
            return Err("numactl, which binds memory to a NUMA node, is not installed there".into());
        }
        command.arg("numactl").arg(format!("--membind={node}")).arg("--");
    }
    command.args(&run.program).envs(&run.environment);
    if let Some(folder) = &run.folder {
        if !folder.is_dir() {
            return Err(format!("the folder {} is not there", folder.display()));
        }
        command.current_dir(folder);
    }
    if let Some(user) = run.user.filter(|user| *user != geteuid().as_raw()) {
        if !geteuid().is_root() {
            return Err(format!("only root could run it as user {user}"));
        }
        command.uid(user).gid(user);
    }
    let Some(terminal) = &run.terminal else {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        return Ok((command, None));
    };
    // The guard makes a session, and with it a group.
    let (ours, theirs) = open_terminal(terminal).map_err(|error| format!("no terminal: {error}"))?;
    command.env("TERM", &terminal.kind);
    let copy = || theirs.try_clone().map_err(|error| error.to_string());
    command.stdin(copy()?).stdout(copy()?).stderr(copy()?);
    Ok((command, Some(ours)))
}

/// The command that starts this very program again, through the same loader if one was named.
fn ourselves() -> io::Result<Command> {
    let line = {
        let mut bytes = Vec::new();
        File::open("/proc/self/cmdline")?.read_to_end(&mut bytes)?;
        bytes
    };
    let words: Vec<OsString> = line
        .strip_suffix(&[0])
        .unwrap_or(&line)
        .split(|b| *b == 0)
        .map(|word| std::os::unix::ffi::OsStringExt::from_vec(word.to_vec()))
        .collect();
    // A loader's own words stand before the program's name and are hidden from it.
    let own_arguments = std::env::args_os().len().saturating_sub(1);
    let mut command = Command::new("/proc/self/exe");
    command.args(words.get(1..words.len().saturating_sub(own_arguments)).unwrap_or_default());
    Ok(command)
}

fn open_terminal(terminal: &Terminal) -> io::Result<(File, File)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    let ours = File::from(ours);
    resize(&ours, terminal.rows, terminal.columns);
    Ok((ours, theirs.into()))
}

/// Changes a terminal's size; what it shows is no reason to fail.
pub fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let _ = tcsetwinsize(terminal, size);
}

/// CPUs of a list, all of which the agent may use: the kernel would leave out the others without a word.
fn allowed_cpus(list: &CpuList) -> Result<CpuSet, String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("cannot ask for the CPUs: {error}"))?;
    let usable: CpuList = (0..CpuSet::MAX_CPU as u32).filter(|cpu| allowed.is_set(*cpu as usize)).collect();
    let missing = list.without(&usable);
    if !missing.is_empty() {
        return Err(format!("CPU {missing} is not among those that may be used: {usable}"));
    }
    let mut set = CpuSet::new();
    list.iter().for_each(|cpu| set.set(cpu as usize));
    Ok(set)
}

impl Program {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Sends a signal to it and to all in its group.
    pub fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        // A guard that has not made its group yet is reached by its process id.
        if !*reaped && kill_process_group(self.pid, signal).is_err() {
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// `bench-suite guard PARENT -- PROGRAM …`: becomes the program. Returns only on failure.
pub fn guard(args: &GuardArgs) -> ExitCode {
    let Some((name, arguments)) = args.program.split_first() else { return ExitCode::from(NOT_STARTED) };
    let ready = || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the kernel knew that we care.
        if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(args.parent) {
            return Err(io::Error::other("the agent has ended"));
        }
        if args.terminal {
            setsid()?;
            rustix::process::ioctl_tiocsctty(io::stdin())?;
        }
        Ok(())
    };
    let error = match ready() {
        Ok(()) => Command::new(name).args(arguments).exec(),
        Err(error) => error,
    };
    for_people(&format!("cannot start {}: {error}", Path::new(name).display()));
    ExitCode::from(NOT_STARTED)
}
