//! The steps of a server's start: data folder, process, readiness, read-back.

use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::facts::FolderFacts;
use model::record::ServerFacts;
use model::request::Account;

use super::place::Place;
use super::settings::{differences, requested};
use super::{Plan, io_method, port_in_use, watch};
use crate::failure::{Failure, Kind};
use crate::machines::{Call, limit};
use crate::placement;
use crate::process::{self, Guarded, OnOurDeath};
use crate::stages::bundle::BENCH;
use crate::stages::deployment::Deployed;
use crate::tables::product::Server as Table;
use crate::{interrupt, relay, ui};

/// How long a server may take to be ready on hardware; an emulator gets as many times more as it is slower.
const READY: Duration = Duration::from_secs(30);
/// The same for making a data folder.
const BOOTSTRAP: Duration = Duration::from_secs(60);

/// Makes a server's folders and says whose data is there: nothing where it is to be made, also after an attempt that
/// was killed before its stamp.
const PREPARE: &str = r#"umask 077; cd "$1" || exit 1
[ -e portbench.making ] && [ ! -e portbench.target ] && rm -rf data
mkdir -p data tmp && cat >init.sql || exit 1
if [ -e portbench.target ]; then cat portbench.target
elif [ -n "$(ls -A data)" ]; then echo foreign
else : >portbench.making; fi"#;

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
    fn call(&self) -> Call {
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
        call = call.args(self.arguments());
        if self.plan.link.runs_as_root() {
            // Servers refuse root unless told that it is meant.
            call = call.args(["--user=root"]);
        }
        call.folder = Some(data.to_path_buf());
        call.placement = self.plan.placement.clone();
        call
    }

    fn arguments(&self) -> Vec<String> {
        let simulated = !self.plan.link.has_native_io();
        let more = if simulated { self.table.simulated_io_arguments.as_slice() } else { &[] };
        self.table.arguments.iter().chain(more).chain(self.plan.more_arguments).cloned().collect()
    }

    /// Makes the folders, the file of accounts, and, where there is none yet, the server's system tables.
    ///
    /// A folder that was used before keeps its data; the name of the target that made it is returned.
    pub fn prepare(&self) -> Result<Option<String>> {
        let folder = self.place.data().display().to_string();
        let accounts = accounts(self.account, self.plan.client.is_some());
        let found = self.ask(&Call::shell(PREPARE, std::slice::from_ref(&folder)), "sh", &accounts)?;
        let manifest = &self.plan.deployed.manifest;
        match found.trim() {
            "" => {
                ui::step("server", &format!("making a data folder for {}", manifest.facts.product));
                self.bootstrap()?;
                let words = [folder, manifest.target.clone()];
                self.ask(&Call::shell("cd \"$1\" && echo \"$2\" >portbench.target", &words), "sh", "")?;
                Ok(None)
            }
            "foreign" => {
                let what =
                    format!("{folder}/data holds files that portbench did not make: they are not touched");
                Err(Failure::new(Kind::Usage, what).next("name another folder with --data").into())
            }
            target => {
                ui::step("server", &format!("using the data in {folder}, made for {target}"));
                Ok(Some(target.to_string()))
            }
        }
    }

    /// Lets the server make its system tables from the SQL files of its release.
    fn bootstrap(&self) -> Result<()> {
        let mut text = self.table.bootstrap_first.join("\n") + "\n";
        for file in &self.table.bootstrap {
            let path = self.plan.deployed.copy.join(file);
            let sql = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let without = self.table.bootstrap_without.as_deref();
            for line in sql.lines().filter(|line| without.is_none_or(|part| !line.contains(part))) {
                text.push_str(line);
                text.push('\n');
            }
        }
        let call = self.call().args(["--bootstrap", "--max-allowed-packet=8M", "--net-buffer-length=16K"]);
        let mut process = self.spawn("the server's bootstrap", &call, input(&text)?.into())?;
        match watch::end(&mut process, limit(self.plan.link, BOOTSTRAP))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(relay::failure(status, self.log)
                .unwrap_or_else(|| self.died(&format!("making its data folder: {}", process::ending(status))))
                .into()),
            None => Err(self.not_ready("its data folder was not made", BOOTSTRAP).into()),
        }
    }

    fn spawn(&self, name: &str, call: &Call, stdin: Stdio) -> Result<Guarded> {
        let command = self.plan.link.command(call);
        let mut log = process::append(self.log)?;
        std::io::Write::write_all(&mut log, format!("$ {}\n", process::shown(&command)).as_bytes())?;
        process::spawn_with(name, command, OnOurDeath::Kill, [stdin, log.try_clone()?.into(), log.into()])
    }

    /// Starts the server; returns when it says that it is ready, with the time that took.
    pub fn run(&self) -> Result<(Guarded, Duration)> {
        let data = self.place.data();
        let call = self.call().args(
            [
                ("socket", self.place.socket().display().to_string()),
                ("port", self.port.to_string()),
                ("bind-address", self.listen.to_string()),
                ("pid-file", data.join("pid").display().to_string()),
                ("init-file", data.join("init.sql").display().to_string()),
            ]
            .map(|(name, value)| format!("--{name}={value}")),
        );
        let begun = Instant::now();
        let mut process = self.spawn("the server", &call, Stdio::null())?;
        let until = begun + limit(self.plan.link, READY);
        loop {
            interrupt::check()?;
            if let Some(status) = process.ended()? {
                return Err(self.ended_at_start(status).into());
            }
            if process::tail(self.log, 40).contains("ready for connections") {
                return Ok((process, begun.elapsed()));
            }
            if Instant::now() > until {
                return Err(self.not_ready("the server was not ready", READY).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
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

    fn died(&self, how: &str) -> Failure {
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

    fn not_ready(&self, what: &str, base: Duration) -> Failure {
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

    /// Asks the server, through the bundle's own client, for what it really runs with.
    pub fn read_back(&self, ready: Duration, data_written_by: Option<String>) -> Result<ServerFacts> {
        let asked = requested(&self.arguments());
        let mut names: Vec<&str> = self.table.settings.iter().map(String::as_str).collect();
        names.extend(asked.keys().map(String::as_str));
        let list = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        let query = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})");
        let settings = watch::rows(&self.query(&query)?);
        let different = differences(&asked, &settings);
        if !different.is_empty() {
            let what = format!(
                "the server does not run with what it was asked for:\n{}",
                process::indented(&different.join("\n"))
            );
            return Err(Failure::new(Kind::VerificationFailed, what)
                .log(self.log)
                .next(match self.plan.more_arguments {
                    [] => format!("mend `arguments` in xtask/products/{}.toml", self.plan.product.name),
                    _ => "ask with --server-arg for the value that it shows, or leave it out".into(),
                })
                .into());
        }
        let log = fs::read_to_string(self.log).unwrap_or_default();
        let means = io_method::means(&log, &settings);
        Ok(ServerFacts {
            io_method: means.io_method,
            io_fallback: means.fell_back,
            crc32_method: means.crc32_method,
            data_folder: None,
            allowed_cpus: None,
            memory_policy: None,
            version: settings.get("version").cloned().unwrap_or_default(),
            ready_s: ready.as_secs_f64(),
            data_written_by,
            warnings: watch::warnings(&log),
            settings,
        })
    }

    /// Its process id, by its own word: what stands for it on this host may be another process.
    pub fn pid(&self) -> Result<u32> {
        let file = self.place.data().join("pid").display().to_string();
        let text = self.ask(&Call::shell("cat \"$1\"", &[file]), "sh", "")?;
        text.trim().parse().with_context(|| format!("the server's pid file says `{}`", text.trim()))
    }

    /// The machine's own word for where the server runs; a difference from what was asked for fails the run.
    pub fn read_back_placement(&self, pid: u32, facts: &mut ServerFacts) -> Result<()> {
        let status = self.ask(&Call::shell(r#"cat "/proc/$1/status""#, &[pid.to_string()]), "sh", "")?;
        // Kernels without NUMA have no such file; the first line is enough.
        let first = Call::shell(r#"head -n 1 "/proc/$1/numa_maps" 2>/dev/null || true"#, &[pid.to_string()]);
        let numa_maps = Some(self.ask(&first, "sh", "")?).filter(|text| !text.is_empty());
        let wrong = self.plan.placement.differences(&status, numa_maps.as_deref());
        if !wrong.is_empty() {
            let what = format!(
                "the server is not where it was asked to be:\n{}",
                process::indented(&wrong.join("\n"))
            );
            return Err(Failure::new(Kind::VerificationFailed, what).log(self.log).into());
        }
        facts.allowed_cpus = placement::allowed_cpus(&status);
        facts.memory_policy = numa_maps.as_deref().and_then(placement::memory_policy);
        Ok(())
    }

    /// What I/O the data folder bears.
    pub fn probe_folder(&self) -> Result<FolderFacts> {
        let folder = self.place.data().display().to_string();
        let call = Call::of(self.plan.deployed, BENCH).args(["probe-io".to_string(), "--in".into(), folder]);
        let text = self.ask(&call, "the bench binary", "")?;
        serde_json::from_str(text.trim())
            .with_context(|| format!("not the facts of a folder: {}", text.trim()))
    }

    fn query(&self, query: &str) -> Result<String> {
        let call = client(self.plan.deployed, &self.table.client, self.place.socket(), self.account);
        let call = call.args(["--batch", "--skip-column-names", "--execute", query]);
        self.ask(&call, "the bundle's client", "")
    }

    /// Runs a short program to its end and returns what it said.
    fn ask(&self, call: &Call, name: &str, stdin: &str) -> Result<String> {
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
fn input(text: &str) -> Result<File> {
    let mut file = tempfile::tempfile()?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    std::io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// What runs before the first connection: our account, and no other way in.
fn accounts(account: &Account, from_elsewhere: bool) -> String {
    let (user, password) = (&account.user, &account.password);
    let hosts: &[&str] =
        if from_elsewhere { &["localhost", "127.0.0.1", "%"] } else { &["localhost", "127.0.0.1"] };
    let mut text = String::new();
    for host in hosts {
        // A data folder that was used before knows the account with another password.
        text += &format!("CREATE USER IF NOT EXISTS '{user}'@'{host}';\n");
        text += &format!("ALTER USER '{user}'@'{host}' IDENTIFIED BY '{password}';\n");
        text += &format!("GRANT ALL PRIVILEGES ON *.* TO '{user}'@'{host}';\n");
    }
    text + "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"
}
