//! A server of a deployment: its data folder made, started, ready, read back, and stopped whatever happens.

mod data;
mod io_method;
pub mod place;
mod read_back;
mod settings;
mod starter;
pub mod watch;

use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use model::record::ServerFacts;
use model::request::{Account, Endpoint};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::machines::{Call, Elsewhere, Link, limit};
use crate::placement::Placement;
use crate::process::{self, Guarded};
use crate::stage::hex;
use crate::stages::deployment::Deployed;
use crate::stages::run::Watched;
use crate::tables::product::Product;
use crate::{relay, ui};

use place::Place;
use starter::Starter;

/// How long an orderly shutdown may take on hardware.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// What a server is started from.
pub struct Plan<'a> {
    /// Where: the machine's name.
    pub machine: &'a str,
    /// What runs programs there.
    pub link: &'a dyn Link,
    /// What.
    pub deployed: &'a Deployed,
    /// How.
    pub product: &'a Product,
    /// The connect string of the cluster that it is a node of.
    pub cluster: Option<&'a str>,
    /// Further arguments, which override the product's.
    pub more_arguments: &'a [String],
    /// The TCP port that was asked for; `None`: a free one.
    pub port: Option<u16>,
    /// What it is bound to.
    pub placement: &'a Placement,
    /// Where its clients are, unless they are on its own machine.
    pub client: Option<Elsewhere>,
    /// A data folder of the user's on the machine, which is made if it is empty and stays; `None`: one that goes.
    pub data: Option<&'a Path>,
}

/// A running server. Dropped, it is gone.
pub struct Server {
    client: String,
    process: Guarded,
    log: PathBuf,
    tcp: SocketAddr,
    account: Account,
    facts: ServerFacts,
    pid: u32,
    shutdown: Duration,
    // Last, so that the folders outlive the process.
    place: Place,
}

impl Server {
    /// Its process id on its machine.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it listens: over TCP as clients that are elsewhere reach it, or its socket.
    pub fn endpoint(&self, tcp: bool) -> Endpoint {
        if tcp {
            Endpoint::Tcp { address: self.tcp.ip(), port: self.tcp.port() }
        } else {
            Endpoint::Unix { path: self.place.socket().to_path_buf() }
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

    /// The folder of its data on its machine.
    pub fn data(&self) -> PathBuf {
        self.place.data().join("data")
    }

    /// Its log, on this host.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its UNIX socket on its machine.
    pub fn socket(&self) -> &Path {
        self.place.socket()
    }

    /// Asks it to end, waits, and ends it if it does not. A server that crashes while it shuts down is told.
    pub fn stop(mut self) -> Result<()> {
        self.process.stop(self.shutdown)?;
        match self.process.ended()? {
            Some(status) if !status.success() => {
                let tail = process::indented(&process::tail(&self.log, 12));
                let what =
                    format!("the server did not shut down in order: {}\n{tail}", process::ending(status));
                Err(Failure::new(Kind::ServerLost, what)
                    .log(&self.log)
                    .next("read the log's last lines")
                    .into())
            }
            _ => Ok(()),
        }
    }
}

impl Watched for Server {
    fn lost(&mut self) -> Result<Option<Failure>> {
        let Some(status) = self.process.ended()? else { return Ok(None) };
        if let Some(failure) = relay::failure(status, &self.log) {
            return Ok(Some(failure));
        }
        let tail = process::indented(&process::tail(&self.log, 12));
        let what = format!("the server ended in mid-run: {}\n{tail}", process::ending(status));
        Ok(Some(
            Failure::new(Kind::ServerLost, what)
                .log(&self.log)
                .next("read the log's last lines; then run it again"),
        ))
    }
}

/// The bundle's client on the server's machine, logged in.
pub fn client(deployed: &Deployed, server: &Server) -> Call {
    starter::client(deployed, &server.client, server.socket(), &server.account)
}

/// Makes a data folder and starts a server on it; returns when it answers.
pub fn start(home: &Home, plan: &Plan, log_name: &str) -> Result<Server> {
    let table = plan.product.server()?;
    let log = home.log(&format!("server-{log_name}"))?;
    fs::write(&log, "")?;
    let place = Place::make(plan.link, plan.deployed, &log, plan.data)?;
    let account = Account { user: "portbench".into(), password: random_hex()? };
    let port = port(plan, &place)?;
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let (listen, tcp) = match &plan.client {
        None => (here, SocketAddr::new(here, port)),
        Some(elsewhere) => {
            let reach = plan.link.reach(port, elsewhere)?;
            (reach.listen, reach.connect)
        }
    };
    let starter = Starter { table, plan, place: &place, log: &log, account: &account, port, listen };
    let written_by = starter.prepare()?;
    if plan.cluster.is_some() {
        starter.run_alone()?;
    }
    ui::step("server", &format!("starting on {}", plan.machine));
    let (process, ready) = starter.run()?;
    let mut facts = starter.read_back(ready, written_by)?;
    let pid = starter.pid()?;
    starter.read_back_placement(pid, &mut facts)?;
    facts.data_folder = Some(starter.probe_folder()?);
    let shutdown = limit(plan.link, SHUTDOWN);
    let client = table.client.clone();
    Ok(Server { client, process, log, tcp, account, facts, pid, shutdown, place })
}

/// The port that was asked for, the only one that works there, or one that was free.
fn port(plan: &Plan, place: &Place) -> Result<u16> {
    match (plan.port, plan.link.server_port()) {
        (asked, Some(only)) => {
            if let Some(asked) = asked.filter(|asked| *asked != only) {
                let what = format!("a server on {} can only use port {only}, not {asked}", plan.machine);
                return Err(Failure::new(Kind::Usage, what).next("leave --port out").into());
            }
            Ok(only)
        }
        (Some(asked), None) if plan.link.is_here() => asked_port(asked),
        (Some(asked), None) => Ok(asked),
        (None, None) => Ok(place.port()),
    }
}

fn random_hex() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

/// A port of this host that somebody else has is better told before anything is made.
fn asked_port(port: u16) -> Result<u16> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(port),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(port_in_use(port).into()),
        Err(error) => Err(error).with_context(|| format!("cannot use port {port}")),
    }
}

fn port_in_use(port: u16) -> Failure {
    Failure::new(Kind::PortInUse, format!("port {port} is in use where the server is to run")).next(format!(
        "choose another with --port, or leave --port out; `ss -tlnp sport = :{port}` shows who has it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_told_with_its_number() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = asked_port(port).unwrap_err();
        assert_eq!(crate::failure::kind_of(&error), Some(Kind::PortInUse));
        assert!(error.to_string().contains(&port.to_string()));
    }
}
