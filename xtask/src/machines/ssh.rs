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

use super::{Call, Elsewhere, Link, Machine, Reach, bundle_prefix};
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

/// Connects, and looks whether the machine fits: before anything is copied, or built.
pub fn connect(home: &Home, machine: &SshMachine, target: &Target) -> Result<(Master, Preflight)> {
    let master = Master::connect(home, machine)?;
    let said = preflight::ask(&master, machine)?;
    said.check_target(machine, target)?;
    said.check_folder(machine)?;
    Ok((master, said))
}

/// The machine `ssh:NAME`.
pub struct Ssh<'a> {
    home: &'a Home,
    toolchain: &'a Toolchain,
    machine: SshMachine,
    /// Connected and found fit, once it was needed.
    up: RefCell<Option<(Rc<Master>, Preflight)>>,
}

impl<'a> Ssh<'a> {
    /// A machine of `machines.toml` for a target's programs; nothing is connected yet.
    pub fn new(home: &'a Home, toolchain: &'a Toolchain, machine: SshMachine) -> Self {
        Ssh { home, toolchain, machine, up: RefCell::default() }
    }

    /// Connects and looks whether the machine fits, or finds that done.
    fn up(&self) -> Result<(Rc<Master>, Preflight)> {
        if let Some((master, said)) = &*self.up.borrow()
            && master.lost()?.is_none()
        {
            return Ok((master.clone(), said.clone()));
        }
        let (master, said) = connect(self.home, &self.machine, self.toolchain.target())?;
        let master = Rc::new(master);
        self.up.replace(Some((master.clone(), said.clone())));
        Ok((master, said))
    }
}

impl Machine for Ssh<'_> {
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed> {
        let manifest = bundle.manifest();
        // First the machine: unpacking here is not worth it for one that does not fit.
        let (master, said) = self.up()?;
        let copy = deployment::unpack(self.home, bundle)?;
        let order = self.toolchain.target().byte_order;
        said.check_kernel(&self.machine, &copy.join(&manifest.loader), order)?;
        let work = PathBuf::from(&self.machine.work_folder);
        let root = work.join("deployments").join(bundle.key());
        push::push(&master, &self.machine, manifest, &copy, &root.display().to_string())?;
        Ok(Deployed { manifest: manifest.clone(), copy, root, runs: work.join("run") })
    }

    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>> {
        let (master, said) = self.up()?;
        let mut link = SshLink {
            machine: self.machine.clone(),
            master,
            said,
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
    master: Rc<Master>,
    said: Preflight,
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
        let mut words = if call.of_bundle { bundle_prefix(&self.deployed) } else { Vec::new() };
        words.push(call.program.display().to_string());
        words.extend_from_slice(&call.arguments);
        words
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
        let transport = Transport::Command(self.master.command(&quoted(&agent)));
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
        let (ahead, uncertain) = (self.said.clock_ahead_s, self.said.clock_uncertain_s);
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
        self.said.user == 0
    }

    fn clock_ahead_s(&self) -> Option<f64> {
        Some(self.said.clock_ahead_s)
    }

    fn reach(&self, port: u16, from: &Elsewhere) -> Result<Reach> {
        if self.machine.address.is_none() && *from == Elsewhere::Host {
            self.tunnelled.set(true);
            return Ok(Reach { listen: Ipv4Addr::LOCALHOST.into(), connect: self.master.forward(port)? });
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
        self.master.lost()
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.master.stop().context("cannot end ssh")
    }
}
