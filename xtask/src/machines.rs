//! Where a bundle runs. Each kind of machine is one module; what is above them knows only these traits.

mod direct;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use model::message::Caveat;
use model::record::EmulatorFacts;

use crate::failure::Failure;
use crate::placement::Placement;
use crate::stages::bundle::Bundle;
use crate::stages::deployment::Deployed;

/// A machine, by its kind and name; nothing of it has been started.
pub trait Machine {
    /// Its name, as `--on` has it.
    fn name(&self) -> &str;
    /// Puts the bundle there. Only what changed is moved.
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed>;
    /// Brings up what runs programs there: a guest, a connection, or nothing.
    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>>;
}

/// A machine that programs can be run on. Dropped, everything that was started through it has ended.
pub trait Link {
    /// A command of this host that stands for a program there: its streams, its exit code, its end.
    fn command(&self, call: &Call) -> Command;
    /// How many times slower than this host it is, at least 1: limits are scaled by it.
    fn slowdown(&self) -> f64;
    /// Its emulator.
    fn emulator(&self) -> Option<EmulatorFacts>;
    /// What every record of it must warn of.
    fn caveats(&self) -> Vec<Caveat>;
    /// Whether programs run as root there, which servers refuse unless told that it is meant.
    fn runs_as_root(&self) -> bool;
    /// The only TCP port on which a server can be reached from outside; `None`: any.
    fn server_port(&self) -> Option<u16> {
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

/// A time limit, scaled by how slow the machine was measured to be.
pub fn limit(link: &dyn Link, on_hardware: Duration) -> Duration {
    on_hardware.mul_f64(link.slowdown().max(1.0))
}
