//! `ssh:NAME`: a machine of `machines.toml`, reached by OpenSSH through one connection that everything shares.

mod master;
mod preflight;
mod push;
mod refusal;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result};
use model::agent::{Run, SILENCE_S};
use model::message::{Caveat, CaveatKind};
use model::record::EmulatorFacts;

use super::{Call, Elsewhere, Link, Machine, Reach, natively};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::quoted;
use crate::relay::{self, Relay, Transport};
use crate::stages::bundle::{BENCH, Bundle};
use crate::stages::deployment::{self, Deployed};
use crate::stages::toolchain::Toolchain;
use crate::tables::machines::SshMachine;
use crate::tables::target::Target;
use master::Master;
use preflight::Preflight;

/// A clock that is further off than this, in seconds, is worth a caveat.
const CLOCK_S: f64 = 1.0;

/// A connection to a machine that was found fit.
struct Up {
    master: Master,
    said: Preflight,
}

thread_local! {
    /// One a machine: whoever asks whether it fits, deploys to it or runs on it uses the same.
    static UP: RefCell<Vec<(SshMachine, Rc<Up>)>> = const { RefCell::new(Vec::new()) };
}

/// Connects, and looks whether the machine fits: before anything is copied, or built.
pub fn check(home: &Home, machine: &SshMachine, target: &Target) -> Result<()> {
    up(home, machine, target).map(drop)
}

fn up(home: &Home, machine: &SshMachine, target: &Target) -> Result<Rc<Up>> {
    let known =
        UP.with_borrow(|all| all.iter().find(|(known, _)| known == machine).map(|(_, up)| up.clone()));
    if let Some(up) = known {
        if up.master.lost()?.is_none() {
            return Ok(up);
        }
        UP.with_borrow_mut(|all| all.retain(|(known, _)| known != machine));
    }
    let master = Master::connect(home, machine)?;
    let said = preflight::ask(&master, machine)?;
    said.check_target(machine, target)?;
    said.check_folder(machine)?;
    let up = Rc::new(Up { master, said });
    UP.with_borrow_mut(|all| all.push((machine.clone(), up.clone())));
    Ok(up)
}

/// The machine `ssh:NAME`.
pub struct Ssh<'a> {
    home: &'a Home,
    toolchain: &'a Toolchain,
    machine: SshMachine,
}

impl<'a> Ssh<'a> {
    /// A machine of `machines.toml` for a target's programs.
    pub fn new(home: &'a Home, toolchain: &'a Toolchain, machine: SshMachine) -> Self {
        Ssh { home, toolchain, machine }
    }

    fn up(&self) -> Result<Rc<Up>> {
        up(self.home, &self.machine, self.toolchain.target())
    }
}

impl Machine for Ssh<'_> {
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed> {
        let manifest = bundle.manifest();
        // First the machine: unpacking here is not worth it for one that does not fit.
        let up = self.up()?;
        let copy = deployment::unpack(self.home, bundle)?;
        let order = self.toolchain.target().byte_order;
        up.said.check_kernel(&self.machine, &copy.join(&manifest.loader), order)?;
        let work = PathBuf::from(&self.machine.work_folder);
        let root = work.join("deployments").join(bundle.key());
        push::push(&up.master, &self.machine, manifest, &copy, &root.display().to_string())?;
        Ok(Deployed { manifest: manifest.clone(), copy, root, runs: work.join("run") })
    }

    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>> {
        let mut link = SshLink {
            machine: self.machine.clone(),
            up: self.up()?,
            deployed: deployed.clone(),
            slowdown: 1.0,
            tunnelled: Cell::new(false),
        };
        link.slowdown = super::probe(self.home, self.toolchain, &link, deployed)?;
        Ok(Box::new(link))
    }
}

struct SshLink {
    machine: SshMachine,
    up: Rc<Up>,
    deployed: Deployed,
    slowdown: f64,
    tunnelled: Cell<bool>,
}

impl SshLink {
    /// The address at which others reach the machine.
    fn address(&self, port: u16) -> Result<SocketAddr> {
        let name = self.machine.address.as_ref().unwrap_or(&self.machine.host);
        let found = (name.as_str(), port).to_socket_addrs().ok().and_then(|mut all| all.next());
        let what = || format!("ssh:{}: nobody knows an address of {name}", self.machine.name);
        let next = format!("give [{}] in machines.toml an `address`", self.machine.name);
        found.ok_or_else(|| Failure::new(Kind::MachineUnreachable, what()).next(next).into())
    }
}

impl Link for SshLink {
    fn line(&self, call: &Call) -> Vec<String> {
        natively(&self.deployed, call)
    }

    fn command(&self, call: &Call) -> Command {
        let mut agent = vec!["exec".to_string()];
        agent.extend(self.line(&Call::of(&self.deployed, BENCH).args(["agent"])));
        let run = Run {
            // Who may log in may start programs: sshd has seen to that.
            token: String::new(),
            program: Vec::new(),
            environment: call.environment.iter().cloned().collect(),
            folder: call.folder.clone(),
            user: None,
            cpus: call.placement.cpus.clone(),
            numa_node: call.placement.numa_node,
            silence_s: SILENCE_S,
            terminal: None,
        };
        let transport = Transport::Command(self.up.master.command(&quoted(&agent)));
        relay::command(&Relay { transport, run }, &self.line(call))
    }

    fn slowdown(&self) -> f64 {
        self.slowdown
    }

    fn emulator(&self) -> Option<EmulatorFacts> {
        None
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        let (ahead, uncertain) = (self.up.said.clock_ahead_s, self.up.said.clock_uncertain_s);
        if ahead.abs() - uncertain > CLOCK_S {
            let side = if ahead > 0.0 { "ahead of" } else { "behind" };
            let detail =
                format!("the clock of ssh:{} is {:.1} s {side} this host's", self.machine.name, ahead.abs());
            caveats.push(Caveat { kind: CaveatKind::ClockDiffers, detail });
        }
        if self.tunnelled.get() {
            let detail = format!(
                "the client reached ssh:{} through ssh, whose time and CPU are in every latency; an `address` in \
                 machines.toml is reached directly",
                self.machine.name
            );
            caveats.push(Caveat { kind: CaveatKind::Tunnelled, detail });
        }
        caveats
    }

    fn runs_as_root(&self) -> bool {
        self.up.said.user == 0
    }

    fn clock_ahead_s(&self) -> Option<f64> {
        Some(self.up.said.clock_ahead_s)
    }

    fn reach(&self, port: u16, from: &Elsewhere) -> Result<Reach> {
        if self.machine.address.is_none() && *from == Elsewhere::Host {
            self.tunnelled.set(true);
            return Ok(Reach { listen: Ipv4Addr::LOCALHOST.into(), connect: self.up.master.forward(port)? });
        }
        let connect = self.address(port)?;
        // The machine may know itself by another address than others do.
        let listen: IpAddr = match connect.ip() {
            own if own.is_loopback() => own,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Ok(Reach { listen, connect })
    }

    fn lost(&mut self) -> Result<Option<Failure>> {
        self.up.master.lost()
    }

    fn stop(self: Box<Self>) -> Result<()> {
        UP.with_borrow_mut(|all| all.retain(|(known, _)| *known != self.machine));
        // A client and a server may be on the same machine.
        if Rc::strong_count(&self.up) > 1 {
            return Ok(());
        }
        self.up.master.stop().context("cannot end ssh")
    }
}
