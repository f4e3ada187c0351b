//! Where a bundle runs. Each kind of machine is one module; what is above them knows only these traits.

mod direct;
pub mod name;
mod qemu_system;
mod ssh;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::facts::Facts;
use model::message::Caveat;
use model::record::EmulatorFacts;

use crate::failure::{Failure, Kind, kind_of};
use crate::home::Home;
use crate::placement::{Allowed, Flags, Placement};
use crate::stages::bundle::{BENCH, Bundle, PROBE};
use crate::stages::deployment::Deployed;
use crate::stages::toolchain::Toolchain;
use crate::tables::machines::SshMachine;
use crate::tables::target::Target;
use crate::{host, process, tables};

use direct::Direct;
use name::Name;
use qemu_system::QemuSystem;
use ssh::Ssh;

/// What a person chooses of machines.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Choices {
    /// The file of ssh machines; left out: machines.toml in the checkout, else in the cache.
    #[arg(long, value_name = "FILE")]
    pub machines: Option<PathBuf>,
    /// The guest.
    #[command(flatten)]
    pub guest: qemu_system::Options,
}

/// How long the bundle's probe may take: it works for less than a second on hardware.
const PROBED: Duration = Duration::from_secs(120);

/// How long the bench binary may take to say what it sees, on hardware.
const FACTS: Duration = Duration::from_secs(20);
/// How long a computer may take to end, once its links have broken: its memory is given back first.
const ENDING: Duration = Duration::from_secs(5);
/// The flags that place a server.
const SERVER_FLAGS: Flags = Flags { cpus: "--server-cpus", numa_node: "--numa-node" };

/// A machine, by its kind and name; nothing of it has been started.
pub trait Machine {
    /// Puts the bundle there. Only what changed is moved.
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed>;
    /// Brings up what runs programs there: a guest, a connection, or nothing.
    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>>;
}

/// A machine that programs can be run on. Dropped, everything that was started through it has ended.
pub trait Link {
    /// The program as somebody on the machine would start it, word by word.
    fn line(&self, call: &Call) -> Vec<String>;
    /// A command of this host that stands for a program there: its streams, its exit code, its end.
    fn command(&self, call: &Call) -> Command;
    /// How many times slower than this host it is, at least 1: limits are scaled by it.
    fn slowdown(&self) -> f64;
    /// Its emulator.
    fn emulator(&self) -> Option<EmulatorFacts>;
    /// What every record of it must warn of.
    fn caveats(&self) -> Vec<Caveat>;
    /// Whether its files, sockets and processes are this host's.
    fn is_here(&self) -> bool {
        false
    }
    /// Whether servers have native AIO or io_uring there.
    fn has_native_io(&self) -> bool {
        true
    }
    /// Whether programs run as root there, which servers refuse unless told that it is meant.
    fn runs_as_root(&self) -> bool;
    /// The only TCP port on which a server can be reached from outside; `None`: any.
    fn server_port(&self) -> Option<u16> {
        None
    }
    /// Seconds that its clock is ahead of this host's; `None` where it is this host's.
    fn clock_ahead_s(&self) -> Option<f64> {
        None
    }
    /// How a client elsewhere reaches a server's TCP port.
    fn reach(&self, port: u16, from: &Elsewhere) -> Result<Reach>;
    /// Why the machine itself is gone; `None` while it lives.
    fn lost(&mut self) -> Result<Option<Failure>> {
        Ok(None)
    }
    /// Ends it in good order.
    fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A machine of that name for a target's programs.
pub fn open<'a>(
    name: &Name,
    home: &'a Home,
    toolchain: &'a Toolchain,
    choices: &'a Choices,
) -> Result<Box<dyn Machine + 'a>> {
    Ok(match name {
        Name::Local => Box::new(Direct::local(home, toolchain)),
        Name::QemuUser => Box::new(Direct::qemu_user(home, toolchain)),
        Name::QemuSystem => Box::new(QemuSystem::new(home, toolchain, &choices.guest)),
        Name::Ssh(name) => Box::new(Ssh::new(home, toolchain, machine_of(name, choices)?)),
    })
}

/// Why a target's programs can never run on a machine, whatever is installed there; `None` where they can.
pub fn impossible(name: &Name, target: &Target, choices: &Choices) -> Result<Option<String>> {
    Ok(match name {
        Name::Local => {
            let here = host::uname_machine();
            (here != target.uname_machine).then(|| {
                format!("this host is {here}, {} programs need {}", target.name, target.uname_machine)
            })
        }
        Name::Ssh(_) => {
            let there = target_of(name, choices)?;
            (there != target.name)
                .then(|| format!("{name} is a machine for {there}, not for {}", target.name))
        }
        Name::QemuUser => None,
        Name::QemuSystem => {
            target.guest.is_none().then(|| format!("the target {} has no [guest]", target.name))
        }
    })
}

/// Refuses a machine that a target's programs can never run on.
pub fn refuse_impossible(name: &Name, target: &Target, choices: &Choices) -> Result<()> {
    let Some(why) = impossible(name, target, choices)? else { return Ok(()) };
    Err(Failure::new(Kind::WrongMachine, why).next("cargo xtask targets shows what runs here").into())
}

/// What is known of a machine before it is up: this host's facts, and those that a guest is given.
pub fn foreseen(name: &Name, target: &Target, choices: &Choices) -> Option<Facts> {
    match name {
        Name::Local | Name::QemuUser => Some(host::here()),
        Name::QemuSystem => target.guest.as_ref().map(|table| choices.guest.facts(table)),
        Name::Ssh(_) => None,
    }
}

/// Refuses a machine on which no data folder outlives its server.
pub fn keeps_data(name: &Name) -> Result<()> {
    if *name != Name::QemuSystem {
        return Ok(());
    }
    let what = format!("--data: a guest's disks go with it, {name} can keep no data folder");
    Err(Failure::new(Kind::Usage, what).next("leave --data out, or use another machine").into())
}

/// The target of a machine of `machines.toml`.
pub fn target_of(name: &Name, choices: &Choices) -> Result<String> {
    match name {
        Name::Ssh(name) => Ok(machine_of(name, choices)?.target),
        other => Err(Failure::new(Kind::Usage, format!("{other} is a machine for every target")).into()),
    }
}

/// Fails where a machine can be asked before anything is built, and would not do.
pub fn fits(name: &Name, home: &Home, target: &Target, choices: &Choices) -> Result<()> {
    match name {
        Name::Ssh(name) => ssh::check(home, &machine_of(name, choices)?, target),
        Name::Local | Name::QemuUser | Name::QemuSystem => Ok(()),
    }
}

fn machine_of(name: &str, choices: &Choices) -> Result<SshMachine> {
    tables::machines::load(&tables::machines::file(choices.machines.as_deref())?, name)
}

/// Where a client is that is not on the server's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// On this host.
    Host,
    /// On a machine that is reached by ssh.
    Machine,
}

/// How a server is reached from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The address on which it must listen.
    pub listen: std::net::IpAddr,
    /// Where the client connects to.
    pub connect: SocketAddr,
}

/// A program to be run on a machine. Every path is the machine's own.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The program.
    pub program: PathBuf,
    /// Whether it is a program of the bundle, which the bundle's loader starts.
    pub of_bundle: bool,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that are set for it; secrets go here, not into arguments.
    pub environment: Vec<(String, String)>,
    /// Its working folder.
    pub folder: Option<PathBuf>,
    /// What it is bound to.
    pub placement: Placement,
}

impl Call {
    /// A program of a deployed bundle, by its path there.
    pub fn of(deployed: &Deployed, program: &str) -> Self {
        Call { program: deployed.file(program), of_bundle: true, ..Call::default() }
    }

    /// A script for the machine's `sh`; `$1` and on are the arguments.
    pub fn shell(script: &str, arguments: &[String]) -> Self {
        let mut words = vec!["-c".to_string(), script.to_string(), "sh".to_string()];
        words.extend_from_slice(arguments);
        Call { program: "/bin/sh".into(), arguments: words, ..Call::default() }
    }

    /// With further arguments.
    pub fn args<S: Into<String>>(mut self, more: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(more.into_iter().map(Into::into));
        self
    }
}

/// What stands before a program of a bundle: its own loader, so that it runs on the bundle's libraries wherever it is.
pub fn bundle_prefix(deployed: &Deployed) -> Vec<String> {
    let words = [deployed.loader(), "--library-path".into(), deployed.libraries()];
    words.map(|word| word.display().to_string()).to_vec()
}

/// What was done on a machine, which fails with the machine's own end where there was one: a guest that died or a link
/// that broke explains more than what it broke.
pub fn explained<T>(done: Result<T>, mut lost: impl FnMut() -> Result<Option<Failure>>) -> Result<T> {
    let Err(error) = &done else { return done };
    if kind_of(error) == Some(Kind::Interrupted) {
        return done;
    }
    // A dying computer closes its links before the kernel says that it has ended.
    let broken = kind_of(error) == Some(Kind::MachineUnreachable);
    let until = Instant::now() + if broken { ENDING } else { Duration::ZERO };
    loop {
        if let Some(failure) = lost()? {
            return Err(failure.into());
        }
        if Instant::now() >= until {
            return done;
        }
        std::thread::sleep(process::TICK);
    }
}

/// What the bench binary sees on a machine.
pub fn facts(link: &dyn Link, deployed: &Deployed, log: &Path) -> Result<Facts> {
    let call = Call::of(deployed, BENCH).args(["facts"]);
    let text = process::asked("the bench binary", link.command(&call), limit(link, FACTS), log)?;
    serde_json::from_str(text.trim()).with_context(|| format!("not the facts of a machine: {}", text.trim()))
}

/// A server's placement, held against what the machine allows and has tools for.
pub fn place_server(asked: &Placement, link: &dyn Link, machine: &str, facts: &Facts) -> Result<Placement> {
    let placement = asked.on(machine, SERVER_FLAGS, &Allowed::of(facts))?;
    if link.is_here() {
        placement.check_tools()?;
    }
    Ok(placement)
}

/// Runs the bundle's probe: the machine is what the target promises, and so many times slower than this host.
pub fn probe(home: &Home, toolchain: &Toolchain, link: &dyn Link, deployed: &Deployed) -> Result<f64> {
    let log = home.log(&format!("probe-{}", toolchain.target().name))?;
    let said = process::asked("the probe", link.command(&Call::of(deployed, PROBE)), PROBED, &log)?;
    Ok(toolchain.slowdown(&said)?.max(1.0))
}

/// A program on a machine that is of the target itself, guest or host: only the bundle's loader stands before it.
pub fn natively(deployed: &Deployed, call: &Call) -> Vec<String> {
    let mut words = if call.of_bundle { bundle_prefix(deployed) } else { Vec::new() };
    words.push(call.program.display().to_string());
    words.extend_from_slice(&call.arguments);
    words
}

/// A time limit, scaled by how slow the machine was measured to be.
pub fn limit(link: &dyn Link, on_hardware: Duration) -> Duration {
    on_hardware.mul_f64(link.slowdown().max(1.0))
}
