//! The load generator of a bench: built before anything is timed, and brought up beside each server.

use std::process::Command;

use anyhow::Result;

use super::{Args, Client};
use crate::home::Home;
use crate::machines::name::Name;
use crate::machines::{self, Call, Elsewhere, Link};
use crate::pipeline::Pipeline;
use crate::placement::{self, Placement};
use crate::stages::bench_binary::{self, BenchBinary};
use crate::stages::bundle::{BENCH, Bundle};
use crate::stages::deployment::Deployed;
use crate::stages::toolchain::Toolchain;

/// The load generator, built.
pub enum Generator {
    /// It comes with the server's bundle.
    Target,
    /// For this host.
    Host(BenchBinary),
    /// For a machine of its own.
    Away(Box<Away>),
}

/// A load generator for a machine that is not the server's.
pub struct Away {
    name: Name,
    pipeline: Pipeline,
    toolchain: Toolchain,
    bundle: Bundle,
}

impl Away {
    /// SHA-256 of the program.
    pub fn sha256(&self) -> String {
        self.bundle.manifest().files.get(BENCH).cloned().unwrap_or_default()
    }
}

impl Generator {
    /// Builds what the flags ask for.
    pub fn prepare(args: &Args, home: &Home) -> Result<Self> {
        match &args.client {
            Client::Target => Ok(Generator::Target),
            Client::Host => Ok(Generator::Host(bench_binary::for_host(home)?)),
            Client::Ssh(name) => {
                let pipeline = args.what.pipeline(&machines::target_of(name, &args.choices)?)?;
                machines::fits(name, home, &pipeline.target, &args.choices)?;
                let toolchain = pipeline.toolchain(&[])?;
                let bundle = pipeline.bench_bundle(&toolchain)?;
                Ok(Generator::Away(Box::new(Away { name: name.clone(), pipeline, toolchain, bundle })))
            }
        }
    }

    /// Brings it up for one server, whose machine is `link`.
    pub fn up<'a>(&'a self, args: &Args, link: &'a dyn Link, deployed: &'a Deployed) -> Result<Up<'a>> {
        match self {
            Generator::Target => Ok(Up::Same(link, deployed)),
            Generator::Host(binary) => Ok(Up::Host(binary, link.is_here())),
            Generator::Away(away) => {
                let machine =
                    machines::open(&away.name, &away.pipeline.home, &away.toolchain, &args.choices)?;
                let deployed = machine.deploy(&away.bundle)?;
                let link = machine.connect(&deployed)?;
                Ok(Up::Away(link, Box::new(deployed), away.name.to_string()))
            }
        }
    }
}

/// A load generator that can be run.
pub enum Up<'a> {
    /// On the server's machine.
    Same(&'a dyn Link, &'a Deployed),
    /// On this host; whether the server is here as well.
    Host(&'a BenchBinary, bool),
    /// On a machine of its own, by that name.
    Away(Box<dyn Link>, Box<Deployed>, String),
}

impl Up<'_> {
    /// A command of this host that runs it.
    pub fn command(&self, placement: &Placement) -> Command {
        let call = |deployed: &Deployed| Call { placement: placement.clone(), ..Call::of(deployed, BENCH) };
        match self {
            Up::Same(link, deployed) => link.command(&call(deployed)),
            Up::Host(binary, _) => placement::command(placement, Command::new(binary.path())),
            Up::Away(link, deployed, _) => link.command(&call(deployed)),
        }
    }

    /// Where it is, seen from the server; `None`: on the same machine.
    pub fn elsewhere(&self) -> Option<Elsewhere> {
        match self {
            Up::Same(..) | Up::Host(_, true) => None,
            Up::Host(_, false) => Some(Elsewhere::Host),
            Up::Away(..) => Some(Elsewhere::Machine),
        }
    }

    /// How many times slower than this host it runs.
    pub fn slowdown(&self) -> f64 {
        match self {
            Up::Same(link, _) => link.slowdown(),
            Up::Host(..) => 1.0,
            Up::Away(link, ..) => link.slowdown(),
        }
    }
}
