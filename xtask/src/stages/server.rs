//! A server of a deployment: its data folder made, started, ready, read back, and stopped whatever happens.

mod io_method;
mod place;
mod watch;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::record::ServerFacts;
use model::request::{Account, Endpoint};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::machines::{Machine, limit};
use crate::process::{self, Guarded, OnOurDeath};
use crate::stage::hex;
use crate::stages::deployment::Deployment;
use crate::tables::product::{Product, Server as Table};
use crate::{interrupt, ui};

/// How long a server may take to be ready on hardware; an emulator gets as many times more as it is slower.
const READY: Duration = Duration::from_secs(30);
/// The same for making a data folder.
const BOOTSTRAP: Duration = Duration::from_secs(60);
/// The same for an orderly shutdown.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// What a server is started from.
pub struct Plan<'a> {
    /// Where.
    pub machine: &'a dyn Machine,
    /// What.
    pub deployment: &'a Deployment,
    /// How.
    pub product: &'a Product,
    /// Further arguments, which override the product's.
    pub more_arguments: &'a [String],
    /// The TCP port that was asked for; `None`: a free one.
    pub port: Option<u16>,
}

/// A running server. Dropped, it is gone.
pub struct Server {
    process: Guarded,
    log: PathBuf,
    socket: PathBuf,
    port: u16,
    account: Account,
    facts: ServerFacts,
    shutdown: Duration,
    // Last, so that the folders outlive the process.
    _place: place::Place,
}

impl Server {
    /// Its process id on this host.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it listens.
    pub fn endpoint(&self, tcp: bool) -> Endpoint {
        if tcp {
            Endpoint::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: self.port }
        } else {
            Endpoint::Unix { path: self.socket.clone() }
        }
    }

    /// Who may log in.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// What it says of itself.
    pub fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// The failure of a server that has ended although nobody asked it to; `None` while it lives.
    pub fn lost(&mut self) -> Result<Option<Failure>> {
        let Some(status) = self.process.ended()? else { return Ok(None) };
        let tail = process::indented(&process::tail(&self.log, 12));
        let what = format!("the server ended in mid-run: {}\n{tail}", process::ending(status));
        Ok(Some(
            Failure::new(Kind::ServerLost, what)
                .log(&self.log)
                .next("read the log's last lines; then run it again"),
        ))
    }

    /// Asks it to end, waits, and ends it if it does not.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop(self.shutdown)
    }
}

/// Makes a data folder and starts a server on it; returns when it answers.
pub fn start(home: &Home, plan: &Plan, log_name: &str) -> Result<Server> {
    let log = home.log(&format!("server-{log_name}"))?;
    fs::write(&log, "")?;
    let place = place::Place::make(&home.folder("run")?)?;
    let starter = Starter { plan, data: place.data(), socket: place.socket(), log: &log };
    ui::step("server", &format!("making a data folder for {}", plan.deployment.manifest().facts.product));
    starter.bootstrap()?;
    let account = Account { user: "portbench".into(), password: random_hex()? };
    let port = free_port(plan.port)?;
    ui::step("server", &format!("starting on {}", plan.machine.name()));
    let (process, ready) = starter.run(port, &account)?;
    let facts = starter.read_back(&account, ready)?;
    let shutdown = limit(plan.machine, SHUTDOWN);
    let socket = starter.socket.clone();
    Ok(Server { process, log, socket, port, account, facts, shutdown, _place: place })
}

struct Starter<'a> {
    plan: &'a Plan<'a>,
    data: &'a Path,
    socket: PathBuf,
    log: &'a Path,
}

impl Starter<'_> {
    fn table(&self) -> &Table {
        &self.plan.product.server
    }

    fn command(&self) -> Command {
        let deployment = self.plan.deployment;
        let mut command = self.plan.machine.command(deployment, &deployment.file(&self.table().program));
        command.arg("--no-defaults");
        let share = deployment.file("share");
        for (name, path) in [
            ("basedir", deployment.folder()),
            ("datadir", &self.data.join("data")),
            ("tmpdir", &self.data.join("tmp")),
            ("lc-messages-dir", &share),
            ("character-sets-dir", &share.join("charsets")),
            ("plugin-dir", &deployment.file("lib")),
        ] {
            command.arg(format!("--{name}={}", path.display()));
        }
        command.args(self.arguments());
        if rustix::process::geteuid().is_root() {
            // Servers refuse root unless told that it is meant.
            command.arg("--user=root");
        }
        command.current_dir(self.data);
        command
    }

    fn arguments(&self) -> Vec<String> {
        let emulated = self.plan.machine.emulator().is_some();
        let more = if emulated { self.table().emulated_arguments.as_slice() } else { &[] };
        self.table().arguments.iter().chain(more).chain(self.plan.more_arguments).cloned().collect()
    }

    /// Lets the server make its system tables from the SQL files of its release.
    fn bootstrap(&self) -> Result<()> {
        for folder in ["data", "tmp"] {
            fs::create_dir(self.data.join(folder))?;
        }
        let script = self.data.join("bootstrap.sql");
        let mut text = self.table().bootstrap_first.join("\n") + "\n";
        for file in &self.table().bootstrap {
            let path = self.plan.deployment.file(file);
            let sql = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let without = self.table().bootstrap_without.as_deref();
            for line in sql.lines().filter(|line| without.is_none_or(|part| !line.contains(part))) {
                text.push_str(line);
                text.push('\n');
            }
        }
        fs::write(&script, text)?;
        let mut command = self.command();
        command.args(["--bootstrap", "--max-allowed-packet=8M", "--net-buffer-length=16K"]);
        let mut process = self.spawn("the server's bootstrap", command, File::open(&script)?.into())?;
        match watch::end(&mut process, limit(self.plan.machine, BOOTSTRAP))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                Err(self.died(&format!("making its data folder: {}", process::ending(status))).into())
            }
            None => Err(self.not_ready("its data folder was not made", BOOTSTRAP).into()),
        }
    }

    fn spawn(&self, name: &str, command: Command, stdin: Stdio) -> Result<Guarded> {
        let mut log = process::append(self.log)?;
        std::io::Write::write_all(&mut log, format!("$ {}\n", process::shown(&command)).as_bytes())?;
        process::spawn_with(name, command, OnOurDeath::Kill, [stdin, log.try_clone()?.into(), log.into()])
    }

    fn run(&self, port: u16, account: &Account) -> Result<(Guarded, Duration)> {
        let init = self.data.join("init.sql");
        fs::write(&init, accounts(account))?;
        let mut command = self.command();
        for (name, value) in [
            ("socket", self.socket.display().to_string()),
            ("port", port.to_string()),
            ("bind-address", Ipv4Addr::LOCALHOST.to_string()),
            ("pid-file", self.data.join("pid").display().to_string()),
            ("init-file", init.display().to_string()),
        ] {
            command.arg(format!("--{name}={value}"));
        }
        let begun = Instant::now();
        let mut process = self.spawn("the server", command, Stdio::null())?;
        let until = begun + limit(self.plan.machine, READY);
        loop {
            interrupt::check()?;
            if let Some(status) = process.ended()? {
                return Err(self.ended_at_start(port, status).into());
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

    fn ended_at_start(&self, port: u16, status: std::process::ExitStatus) -> Failure {
        let tail = process::tail(self.log, 40);
        if tail.contains("Address already in use") {
            return port_in_use(port).log(self.log);
        }
        self.died(&process::ending(status))
    }

    fn died(&self, how: &str) -> Failure {
        // Its errors say more than its last lines, which are often a stack trace.
        let text = fs::read_to_string(self.log).unwrap_or_default();
        let errors: Vec<&str> =
            text.lines().filter(|line| line.contains("[ERROR]") || line.contains("qemu:")).collect();
        let shown = if errors.is_empty() {
            process::tail(self.log, 10)
        } else {
            errors[..errors.len().min(10)].join("\n")
        };
        let full = text.contains("No space left on device") || text.contains("Disk is full");
        let kind = if full { Kind::DiskFull } else { Kind::ServerDied };
        let what = format!("the server ended while it started: {how}\n{}", process::indented(&shown));
        Failure::new(kind, what)
            .log(self.log)
            .next("cargo xtask doctor; the log holds the server's own words")
    }

    fn not_ready(&self, what: &str, base: Duration) -> Failure {
        let limit = limit(self.plan.machine, base);
        let factor = self.plan.machine.slowdown();
        let tail = process::indented(&process::tail(self.log, 5));
        let what = format!(
            "{what} within {} ({} x {factor:.1} for {})\n{tail}",
            ui::duration(limit),
            ui::duration(base),
            self.plan.machine.name()
        );
        Failure::new(Kind::ServerNotReady, what)
            .log(self.log)
            .next("look for what else uses the CPUs; then run it again")
    }

    /// Asks the server, through the bundle's own client, for what it really runs with.
    fn read_back(&self, account: &Account, ready: Duration) -> Result<ServerFacts> {
        let asked = requested(&self.arguments());
        let mut names: Vec<&str> = self.table().settings.iter().map(String::as_str).collect();
        names.extend(asked.keys().map(String::as_str));
        let list = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        let query = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})");
        let settings = watch::rows(&self.query(account, &query)?);
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
            warnings: watch::warnings(&log),
            settings,
        })
    }

    fn query(&self, account: &Account, query: &str) -> Result<String> {
        let deployment = self.plan.deployment;
        let mut command = self.plan.machine.command(deployment, &deployment.file(&self.table().client));
        // The password goes by the environment: arguments are for everybody to see.
        command
            .env("MYSQL_PWD", &account.password)
            .arg("--no-defaults")
            .arg(format!("--user={}", account.user));
        command.arg(format!("--socket={}", self.socket.display()));
        command.arg(format!("--character-sets-dir={}", deployment.file("share/charsets").display()));
        command.args(["--batch", "--skip-column-names", "--execute", query]);
        let (mut reader, writer) = std::io::pipe()?;
        let stdio = [Stdio::null(), writer.into(), process::append(self.log)?.into()];
        let mut client = process::spawn_with("the bundle's client", command, OnOurDeath::Kill, stdio)?;
        let status = watch::end(&mut client, limit(self.plan.machine, READY))?;
        if !status.is_some_and(|status| status.success()) {
            let how = status.map_or("no answer".into(), process::ending);
            return Err(self.died(&format!("its own client could not ask it: {how}")).into());
        }
        let mut text = String::new();
        reader.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// What runs before the first connection: our account, and no other way in.
fn accounts(account: &Account) -> String {
    let (user, password) = (&account.user, &account.password);
    let mut text = String::new();
    for host in ["localhost", "127.0.0.1"] {
        text += &format!("CREATE USER '{user}'@'{host}' IDENTIFIED BY '{password}';\n");
        text += &format!("GRANT ALL PRIVILEGES ON *.* TO '{user}'@'{host}';\n");
    }
    text + "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"
}

/// The settings that arguments of the form `--name=value` ask for.
fn requested(arguments: &[String]) -> BTreeMap<String, String> {
    let pairs = arguments.iter().filter_map(|argument| argument.strip_prefix("--")?.split_once('='));
    pairs.map(|(name, value)| (name.replace('-', "_"), value.to_string())).collect()
}

/// Where the server's settings are not those that were asked for.
fn differences(asked: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let plain = |value: &str| match value.to_ascii_uppercase().as_str() {
        "ON" | "1" | "YES" | "TRUE" => "ON".to_string(),
        "OFF" | "0" | "NO" | "FALSE" => "OFF".to_string(),
        other => bytes(other).map_or_else(|| other.to_string(), |number| number.to_string()),
    };
    asked
        .iter()
        .filter_map(|(name, wanted)| {
            let have = found.get(name).map_or("not a variable", String::as_str);
            (plain(have) != plain(wanted)).then(|| format!("{name}: asked for {wanted}, is {have}"))
        })
        .collect()
}

/// A number with the suffix that servers take: `64M` is 67108864.
fn bytes(value: &str) -> Option<u64> {
    let shift = match value.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => return None,
    };
    value[..value.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn random_hex() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

fn free_port(asked: Option<u16>) -> Result<u16> {
    let address = (Ipv4Addr::LOCALHOST, asked.unwrap_or(0));
    match TcpListener::bind(address) {
        Ok(listener) => Ok(listener.local_addr()?.port()),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(port_in_use(address.1).into()),
        Err(error) => Err(error).with_context(|| format!("cannot use port {}", address.1)),
    }
}

fn port_in_use(port: u16) -> Failure {
    Failure::new(Kind::PortInUse, format!("port {port} on 127.0.0.1 is in use")).next(format!(
        "choose another with --port, or leave --port out; `ss -tlnp sport = :{port}` shows who has it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_was_silently_changed_is_found() {
        let asked = requested(&[
            "--max-connections=4096".into(),
            "--performance-schema=OFF".into(),
            "--skip-log-bin".into(),
        ]);
        let found = [("max_connections", "214"), ("performance_schema", "0")];
        let found = found.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(differences(&asked, &found), ["max_connections: asked for 4096, is 214"]);
        let (asked, found) =
            (requested(&["--pool=64M".into()]), [("pool".to_string(), "67108864".to_string())]);
        assert!(differences(&asked, &found.into()).is_empty());
    }

    #[test]
    fn a_port_in_use_is_told_with_its_number() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = free_port(Some(port)).unwrap_err();
        assert_eq!(crate::failure::kind_of(&error), Some(Kind::PortInUse));
        assert!(error.to_string().contains(&port.to_string()));
    }
}
