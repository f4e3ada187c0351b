//! A server's process: how it is called, when it is ready, what is said when it is not.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;
use model::request::Account;

use super::place::Place;
use super::{Plan, port_in_use, watch};
use crate::failure::{Failure, Kind};
use crate::machines::{Call, limit};
use crate::process::{self, Guarded, OnOurDeath};
use crate::stages::deployment::Deployed;
use crate::tables::product::Server as Table;
use crate::{interrupt, relay, ui};

/// How long a server may take to be ready on hardware; an emulator gets as many times more as it is slower.
const READY: Duration = Duration::from_secs(30);
/// The same for a node of a cluster, which waits for the cluster's data nodes.
const JOINED: Duration = Duration::from_secs(120);

/// How long it may take from giving up a wait to saying so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a server says once it takes connections. With the colon: of MySQL's X plugin and of its administrative port the
/// same words are said without one.
const READY_MARK: &str = ": ready for connections.";
/// What a node of a cluster says once its NDB tables can be used. Only then it really takes connections, whatever it said
/// before.
const JOINED_MARK: &str = "[NDB] Binlog: Startup and setup completed";
/// What it says, as an error, when it takes connections although they cannot.
const NOT_JOINED: &str = "Tables not available after";

/// A server that is being started.
pub struct Starter<'a> {
    /// The product's.
    pub table: &'a Table,
    /// From what.
    pub plan: &'a Plan<'a>,
    /// In which folders.
    pub place: &'a Place,
    /// Its output goes there.
    pub log: &'a Path,
    /// Who may log in.
    pub account: &'a Account,
    /// Where it listens.
    pub port: u16,
    /// On which address.
    pub listen: IpAddr,
}

impl Starter<'_> {
    /// The server with its folders and these further arguments.
    pub fn call(&self, arguments: &[String]) -> Call {
        let deployed = self.plan.deployed;
        let share = deployed.file("share");
        let data = self.place.data();
        let folders = [
            ("basedir", deployed.root.clone()),
            ("datadir", data.join("data")),
            ("tmpdir", data.join("tmp")),
            ("lc-messages-dir", share.clone()),
            ("character-sets-dir", share.join("charsets")),
            ("plugin-dir", deployed.file("lib")),
        ];
        let mut call = Call::of(deployed, &self.table.program).args(["--no-defaults"]);
        call = call.args(folders.iter().map(|(name, path)| format!("--{name}={}", path.display())));
        call = call.args(arguments);
        if self.plan.link.runs_as_root() {
            // Servers refuse root unless told that it is meant.
            call = call.args(["--user=root"]);
        }
        call.folder = Some(data.to_path_buf());
        call.placement = self.plan.placement.clone();
        call
    }

    /// The product's arguments, and those that were asked for.
    pub fn own_arguments(&self) -> Vec<String> {
        let simulated = !self.plan.link.has_native_io();
        let more = if simulated { self.table.simulated_io_arguments.as_slice() } else { &[] };
        self.table.arguments.iter().chain(more).chain(self.plan.more_arguments).cloned().collect()
    }

    /// The arguments of every start.
    pub fn arguments(&self) -> Vec<String> {
        let joining = self.plan.cluster.map_or(Vec::new(), |cluster| self.joining(cluster));
        joining.into_iter().chain(self.own_arguments()).collect()
    }

    /// What makes a server a node of a cluster, that takes no connection before its NDB tables can be used.
    fn joining(&self, cluster: &str) -> Vec<String> {
        let patience = limit(self.plan.link, JOINED).as_secs();
        let product = self.plan.product.cluster.iter().flat_map(|table| table.server_arguments.clone());
        product
            .chain([
                format!("--ndb-connectstring={cluster}"),
                format!("--ndb-wait-connected={patience}"),
                format!("--ndb-wait-setup={patience}"),
            ])
            .collect()
    }

    /// Starts a program whose output goes to the log.
    pub fn spawn(&self, name: &str, call: &Call, stdin: Stdio) -> Result<Guarded> {
        let command = self.plan.link.command(call);
        let mut log = process::append(self.log)?;
        std::io::Write::write_all(&mut log, format!("$ {}\n", process::shown(&command)).as_bytes())?;
        process::spawn_with(name, command, OnOurDeath::Kill, [stdin, log.try_clone()?.into(), log.into()])
    }

    /// Starts the server; returns when it is ready, with the time that took.
    pub fn run(&self) -> Result<(Guarded, Duration)> {
        if self.plan.cluster.is_none() {
            return self.until(
                READY,
                &[READY_MARK],
                &self.call(&self.own_arguments()).args([self.init_file()]),
            );
        }
        let begun = Instant::now();
        let call = self.call(&self.arguments());
        let (process, _) = self.until(JOINED, &[READY_MARK, JOINED_MARK], &call)?;
        // What else it waits for it does not say.
        self.query("DO 0")?;
        Ok((process, begun.elapsed()))
    }

    /// Lets the server make the accounts before it is a node of a cluster, and ends it.
    ///
    /// As a node it would take accounts that are made while it starts for the cluster's, and drop them.
    pub fn run_alone(&self) -> Result<()> {
        let call = self.call(&self.own_arguments()).args([self.init_file()]);
        let (mut process, _) = self.until(READY, &[READY_MARK], &call)?;
        process.stop(limit(self.plan.link, READY))
    }

    fn init_file(&self) -> String {
        format!("--init-file={}", self.place.data().join("init.sql").display())
    }

    /// Starts the server and waits, for `base` on hardware, until it has said all of `marks`.
    fn until(&self, base: Duration, marks: &[&str], call: &Call) -> Result<(Guarded, Duration)> {
        let data = self.place.data();
        let call = call.clone().args(
            [
                ("socket", self.place.socket().display().to_string()),
                ("port", self.port.to_string()),
                ("bind-address", self.listen.to_string()),
                ("pid-file", data.join("pid").display().to_string()),
            ]
            .map(|(name, value)| format!("--{name}={value}")),
        );
        // What made the data folder is in the same log.
        let before = fs::metadata(self.log)?.len();
        let begun = Instant::now();
        let mut process = self.spawn("the server", &call, Stdio::null())?;
        // Beyond its own patience, so that its own words on what it waited for come first.
        let until = begun + limit(self.plan.link, base) + LAST_WORDS;
        loop {
            interrupt::check()?;
            if let Some(status) = process.ended()? {
                return Err(self.ended_at_start(status).into());
            }
            let said = self.said_since(before)?;
            if said.contains(NOT_JOINED) {
                return Err(self.not_ready("the server could not join its cluster", base).into());
            }
            if said_all(&said, marks) {
                return Ok((process, begun.elapsed()));
            }
            if Instant::now() > until {
                return Err(self.not_ready("the server was not ready", base).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The log from this byte on.
    fn said_since(&self, offset: u64) -> Result<String> {
        let mut file = File::open(self.log)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn ended_at_start(&self, status: ExitStatus) -> Failure {
        if let Some(failure) = relay::failure(status, self.log) {
            return failure;
        }
        let tail = process::tail(self.log, 40);
        if tail.contains("Address already in use") {
            return port_in_use(self.port).log(self.log);
        }
        self.died(&process::ending(status))
    }

    /// The failure of a server that ended too early, `how` being its exit code or signal.
    pub fn died(&self, how: &str) -> Failure {
        // Its errors say more than its last lines, which are often a stack trace.
        let text = fs::read_to_string(self.log).unwrap_or_default();
        let telling = |line: &&str| {
            ["[ERROR]", "qemu:", "relay:"].iter().any(|mark| line.contains(mark))
                && !line.ends_with("Aborting")
        };
        let errors: Vec<&str> = text.lines().filter(telling).collect();
        let shown = if errors.is_empty() {
            process::tail(self.log, 10)
        } else {
            errors[..errors.len().min(10)].join("\n")
        };
        // InnoDB says the number alone where its first write does not fit.
        let full = ["No space left on device", "Disk is full", "error number 28", "Error 28", "errno: 28"];
        let full = full.iter().any(|words| text.contains(words));
        let kind = if full { Kind::DiskFull } else { Kind::ServerDied };
        let what = format!("the server ended while it started: {how}\n{}", process::indented(&shown));
        Failure::new(kind, what)
            .log(self.log)
            .next("cargo xtask doctor; the log holds the server's own words")
    }

    /// The failure of a server that took longer than `base` allows on this machine.
    pub fn not_ready(&self, what: &str, base: Duration) -> Failure {
        let limit = limit(self.plan.link, base);
        let factor = self.plan.link.slowdown();
        let tail = process::indented(&process::tail(self.log, 5));
        let what = format!(
            "{what} within {} ({} x {factor:.1} for {})\n{tail}",
            ui::duration(limit),
            ui::duration(base),
            self.plan.machine
        );
        Failure::new(Kind::ServerNotReady, what)
            .log(self.log)
            .next("look for what else uses the CPUs; then run it again")
    }

    /// Runs a short program to its end and returns what it said.
    pub fn ask(&self, call: &Call, name: &str, stdin: &str) -> Result<String> {
        let (mut reader, writer) = std::io::pipe()?;
        let stdio = [input(stdin)?.into(), writer.into(), process::append(self.log)?.into()];
        let mut process = process::spawn_with(name, self.plan.link.command(call), OnOurDeath::Kill, stdio)?;
        let status = watch::end(&mut process, limit(self.plan.link, READY))?;
        if let Some(failure) = status.and_then(|status| relay::failure(status, self.log)) {
            return Err(failure.into());
        }
        if !status.is_some_and(|status| status.success()) {
            let how = status.map_or("no answer".into(), process::ending);
            return Err(self.died(&format!("{name}: {how}")).into());
        }
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        Ok(text)
    }
}

fn said_all(said: &str, marks: &[&str]) -> bool {
    marks.iter().all(|mark| said.contains(mark))
}

/// The bundle's client, logged in.
pub fn client(deployed: &Deployed, program: &str, socket: &Path, account: &Account) -> Call {
    let mut call = Call::of(deployed, program).args([
        "--no-defaults".to_string(),
        format!("--user={}", account.user),
        format!("--socket={}", socket.display()),
        format!("--character-sets-dir={}", deployed.file("share/charsets").display()),
    ]);
    // The password goes by the environment: arguments are for everybody to see.
    call.environment.push(("MYSQL_PWD".into(), account.password.clone()));
    call
}

/// Text as a program's standard input; a file, so that nobody has to feed it.
pub fn input(text: &str) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_word_makes_it_ready() {
        for other in [
            "[System] [MY-011323] [Server] X Plugin ready for connections. Bind-address: '::' port: 33060",
            "[System] [MY-013292] [Server] Admin interface ready for connections, address: '127.0.0.1'  port: 33062",
        ] {
            assert!(!said_all(other, &[READY_MARK]), "{other}");
        }
        let mysql = "[System] [MY-010931] [Server] /b/bin/mysqld: ready for connections. Version: '9.7.2'\n";
        assert!(said_all(mysql, &[READY_MARK]));
        assert!(said_all("0 [Note] mariadbd: ready for connections.\nVersion: '10.11.18'", &[READY_MARK]));
        let node = [READY_MARK, JOINED_MARK];
        assert!(!said_all(mysql, &node));
        let joined = "2 [System] [MY-010866] [NDB] Binlog: Startup and setup completed\n";
        assert!(said_all(&format!("{mysql}{joined}"), &node));
    }
}
