//! The connection to a machine: one ssh that logged in (the master), through which all others go.
//!
//! What trust and reproducibility hang on is said on the command line, where it overrules every file: keys, host
//! keys, no questions, no forwarding of the user's agent or screen. The rest of `~/.ssh/config` is read, because how
//! a machine is reached (`ProxyJump`, `HostName`) often stands only there.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::refusal;
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::interrupt;
use crate::process::{self, Guarded, OnOurDeath, TICK, find_program};
use crate::tables::machines::SshMachine;

/// How long a connection may take to come up: names, TCP and log-in together.
const CONNECTED: Duration = Duration::from_secs(30);
/// How long ssh waits for TCP, in seconds.
const TCP_S: u32 = 10;
/// How often the machine is asked whether it lives, in seconds, and how often it may be silent: a cut link is noticed
/// after the product.
const ALIVE_S: u32 = 2;
const ALIVE_MOST: u32 = 5;
/// How long a script may take on the machine unless it moves data.
pub const SCRIPT: Duration = Duration::from_secs(60);

/// A connection that is up. Dropped, it ends, and with it everything that goes through it.
pub struct Master {
    machine: SshMachine,
    process: RefCell<Guarded>,
    log: PathBuf,
    log_from: u64,
    // Last, so that it outlives the process.
    sockets: Sockets,
}

/// How a script on the machine ended.
pub struct Ran {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether it said that all is well.
    pub success: bool,
}

impl Master {
    /// Logs in.
    pub fn connect(home: &Home, machine: &SshMachine) -> Result<Self> {
        if find_program("ssh").is_none() {
            return Err(Failure::new(Kind::MissingPackages, "ssh is not installed")
                .next("apt-get install openssh-client")
                .into());
        }
        let log = home.log(&format!("ssh-{}", machine.name))?;
        let sockets = Sockets::make()?;
        let mut command = Command::new("ssh");
        command.args(["-M", "-N", "-T", "-o", "ControlPersist=no", "-S"]).arg(sockets.control());
        command.args(options(machine)).arg("--").arg(&machine.host);
        command.env("LC_ALL", "C");
        let mut file = process::append(&log)?;
        let log_from = file.metadata()?.len();
        writeln!(file, "$ {}", process::shown(&command))?;
        let stdio = [Stdio::null(), file.try_clone()?.into(), file.into()];
        let process = RefCell::new(process::spawn_with("ssh", command, OnOurDeath::Kill, stdio)?);
        let master = Master { machine: machine.clone(), process, log, log_from, sockets };
        master.wait_until_up()?;
        Ok(master)
    }

    fn wait_until_up(&self) -> Result<()> {
        let until = Instant::now() + CONNECTED;
        // ssh makes the socket when it has logged in.
        while !self.sockets.control().exists() {
            interrupt::check()?;
            if self.process.borrow_mut().ended()?.is_some() {
                return Err(refusal::explain(&self.machine, &self.said()).log(&self.log).into());
            }
            if Instant::now() > until {
                let what =
                    format!("ssh:{}: no log-in within {}", self.machine.name, crate::ui::duration(CONNECTED));
                return Err(Failure::new(Kind::MachineUnreachable, what)
                    .log(&self.log)
                    .next(refusal::by_hand(&self.machine))
                    .into());
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// What the master said since it was started.
    fn said(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes[(self.log_from as usize).min(bytes.len())..]).into_owned()
    }

    /// The ssh command that runs one line of shell there, through this connection and no other.
    pub fn command(&self, line: &str) -> Vec<String> {
        let mut words = vec!["ssh".to_string(), "-T".into(), "-S".into()];
        words.push(self.sockets.control().display().to_string());
        // Without the master ssh would connect by itself: then this ends it.
        let more = ["-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR"];
        words.extend(more.map(String::from));
        words.extend(options(&self.machine));
        words.extend(["--".to_string(), self.machine.host.clone(), line.to_string()]);
        words
    }

    fn client(&self, line: &str) -> Command {
        let words = self.command(line);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("LC_ALL", "C");
        command
    }

    /// Runs a script of the machine's `sh` with arguments; `feed` writes its standard input.
    pub fn run(
        &self,
        script: &str,
        arguments: &[&str],
        limit: Duration,
        feed: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<Ran> {
        let mut words = ["exec", "/bin/sh", "-c", script, "sh"].map(String::from).to_vec();
        words.extend(arguments.iter().map(|word| word.to_string()));
        let mut outputs = [tempfile::tempfile()?, tempfile::tempfile()?];
        let stdio = [Stdio::piped(), outputs[0].try_clone()?.into(), outputs[1].try_clone()?.into()];
        let client = self.client(&process::quoted(&words));
        let mut child = process::spawn_with("ssh", client, OnOurDeath::Kill, stdio)?;
        let fed = match child.take_stdin() {
            Some(mut stdin) => feed(&mut stdin),
            None => Ok(()),
        };
        // A script that ended early says why, which is more than that nobody reads.
        let broken = |error: &anyhow::Error| {
            let io = error.downcast_ref::<std::io::Error>();
            io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if let Err(error) = fed
            && !broken(&error)
        {
            return Err(error);
        }
        let until = Instant::now() + limit;
        let status = loop {
            interrupt::check()?;
            if let Some(status) = child.wait(TICK)? {
                break Some(status);
            }
            if Instant::now() > until {
                break None;
            }
        };
        let [stdout, stderr] = outputs.each_mut().map(text_of);
        if let Some(failure) = self.lost()? {
            return Err(failure.into());
        }
        let Some(status) = status else {
            let what = format!("ssh:{}: no answer within {}", self.machine.name, crate::ui::duration(limit));
            return Err(Failure::new(Kind::MachineUnreachable, what)
                .log(&self.log)
                .next(refusal::by_hand(&self.machine))
                .into());
        };
        Ok(Ran { stdout: stdout?, stderr: stderr?, success: status.success() })
    }

    /// Makes a port of the machine's 127.0.0.1 reachable here; where.
    pub fn forward(&self, port: u16) -> Result<SocketAddr> {
        let socket = self.sockets.control();
        let mut said = String::new();
        // Another program may take the port between our look and ssh's.
        for _ in 0..5 {
            let here = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let mut command = Command::new("ssh");
            command.args(["-O", "forward", "-o", "ExitOnForwardFailure=yes", "-S"]).arg(&socket);
            command.args(["-L", &format!("{here}:127.0.0.1:{port}"), "--", &self.machine.host]);
            match process::output(command) {
                Ok(_) => return Ok(here),
                Err(error) => said = error.to_string(),
            }
        }
        let what = format!("ssh:{}: port {port} cannot be forwarded: {said}", self.machine.name);
        Err(Failure::new(Kind::MachineUnreachable, what)
            .next("give the machine an `address` in machines.toml, or allow AllowTcpForwarding in its sshd_config")
            .into())
    }

    /// Why the connection is gone; `None` while it is up.
    pub fn lost(&self) -> Result<Option<Failure>> {
        let Some(status) = self.process.borrow_mut().ended()? else { return Ok(None) };
        let tail = process::indented(said_last(&self.said()).trim());
        let what =
            format!("the link to ssh:{} broke: {}\n{tail}", self.machine.name, process::ending(status));
        Ok(Some(
            Failure::new(Kind::MachineUnreachable, what.trim_end())
                .log(&self.log)
                .next("see that the machine and the network are up; then run the same command again"),
        ))
    }

    /// Ends it in good order.
    pub fn stop(&self) -> Result<()> {
        self.process.borrow_mut().stop(Duration::from_secs(2))
    }
}

/// A private folder with a short path: that of a UNIX socket has at most 107 bytes, and ssh adds to it while it
/// connects.
struct Sockets {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Sockets {
    const BELOW: &str = "/tmp";
    const PREFIX: &str = "portbench-ssh-";
    const LOCK: &str = "lock";

    /// Makes it, and removes those of portbenchs that were killed.
    fn make() -> Result<Self> {
        for entry in fs::read_dir(Self::BELOW)?.flatten() {
            let mine = entry.file_name().to_string_lossy().starts_with(Self::PREFIX);
            // Without a lock it is being made this very moment, or is another user's.
            if mine && File::open(entry.path().join(Self::LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = tempfile::Builder::new().prefix(Self::PREFIX).tempdir_in(Self::BELOW)?;
        let lock = File::create(folder.path().join(Self::LOCK))?;
        lock.try_lock().context("a new folder is locked by somebody else")?;
        Ok(Sockets { folder, _lock: lock })
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("c")
    }
}

/// The last words, without the line that says how ssh was started.
fn said_last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("$ ")).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn text_of(file: &mut File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes).context("cannot read what ssh said")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What every ssh of ours is told.
fn options(machine: &SshMachine) -> Vec<String> {
    let mut options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "ForwardAgent=no",
        "ForwardX11=no",
        "PermitLocalCommand=no",
        "RemoteCommand=none",
        "RequestTTY=no",
        "ClearAllForwardings=yes",
        "TCPKeepAlive=yes",
    ]
    .map(String::from)
    .to_vec();
    options.push(format!("ConnectTimeout={TCP_S}"));
    options.push(format!("ServerAliveInterval={ALIVE_S}"));
    options.push(format!("ServerAliveCountMax={ALIVE_MOST}"));
    if let Some(key) = &machine.key_file {
        options.push(format!("IdentityFile={}", escaped(key)));
        options.push("IdentitiesOnly=yes".into());
    }
    if let Some(file) = &machine.known_hosts {
        options.push(format!("UserKnownHostsFile={}", escaped(file)));
        options.push("GlobalKnownHostsFile=none".into());
    }
    let mut words: Vec<String> = options.into_iter().flat_map(|option| ["-o".to_string(), option]).collect();
    words.extend(["-p".to_string(), machine.port.to_string()]);
    if let Some(user) = &machine.user {
        words.extend(["-l".to_string(), user.clone()]);
    }
    words
}

/// A path as ssh's options take it: `%` begins a token, quotes hold blanks together.
fn escaped(path: &std::path::Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('%', "%%"))
}
