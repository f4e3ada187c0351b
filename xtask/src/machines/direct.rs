//! `local` and `qemu-user`: programs of the bundle as processes of this host, through the bundle's own loader and, for
//! `qemu-user`, an emulator each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::Result;
use model::message::{Caveat, CaveatKind};
use model::record::EmulatorFacts;

use super::{Call, Elsewhere, Link, Machine, Reach, bundle_prefix};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::placement;
use crate::stages::bundle::Bundle;
use crate::stages::deployment::{self, Deployed};
use crate::stages::emulator::Emulator;
use crate::stages::toolchain::{Toolchain, run_prefix};

/// The machine `local` or `qemu-user`.
pub struct Direct<'a> {
    home: &'a Home,
    toolchain: &'a Toolchain,
    emulated: bool,
}

impl<'a> Direct<'a> {
    /// This host, as it is.
    pub fn local(home: &'a Home, toolchain: &'a Toolchain) -> Self {
        Direct { home, toolchain, emulated: false }
    }

    /// This host, through a probed toolchain's emulator.
    pub fn qemu_user(home: &'a Home, toolchain: &'a Toolchain) -> Self {
        Direct { home, toolchain, emulated: true }
    }
}

impl Machine for Direct<'_> {
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed> {
        let copy = deployment::unpack(self.home, bundle)?;
        let runs = self.home.folder("run")?;
        Ok(Deployed { manifest: bundle.manifest().clone(), root: copy.clone(), copy, runs })
    }

    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>> {
        let emulator = self.emulated.then(|| self.toolchain.emulator().clone());
        let mut link = DirectLink { deployed: deployed.clone(), emulator, slowdown: 1.0 };
        link.slowdown = super::probe(self.home, self.toolchain, &link, deployed)?;
        Ok(Box::new(link))
    }
}

struct DirectLink {
    deployed: Deployed,
    emulator: Option<Emulator>,
    slowdown: f64,
}

impl Link for DirectLink {
    fn line(&self, call: &Call) -> Vec<String> {
        let deployed = &self.deployed;
        let mut words = match (&self.emulator, call.of_bundle) {
            (_, false) => Vec::new(),
            (None, true) => bundle_prefix(deployed),
            (Some(emulator), true) => {
                let prefix = run_prefix(emulator, &deployed.loader(), &[deployed.libraries()]);
                prefix.iter().map(|word| word.to_string_lossy().into_owned()).collect()
            }
        };
        words.push(call.program.display().to_string());
        words.extend_from_slice(&call.arguments);
        words
    }

    fn command(&self, call: &Call) -> Command {
        let words = self.line(call);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(call.environment.iter().cloned());
        if let Some(folder) = &call.folder {
            command.current_dir(folder);
        }
        placement::command(&call.placement, command)
    }

    fn slowdown(&self) -> f64 {
        self.slowdown
    }

    fn emulator(&self) -> Option<EmulatorFacts> {
        let emulator = self.emulator.as_ref()?;
        let program = emulator.program().file_name().map(|name| name.to_string_lossy().into_owned());
        Some(EmulatorFacts {
            program: program.unwrap_or_default(),
            version: emulator.version().to_string(),
            cpu: emulator.cpu().to_string(),
            slowdown: self.slowdown,
            ..EmulatorFacts::default()
        })
    }

    fn caveats(&self) -> Vec<Caveat> {
        if self.emulator.is_none() {
            return Vec::new();
        }
        let caveat = |kind, detail: &str| Caveat { kind, detail: detail.into() };
        vec![
            caveat(
                CaveatKind::Emulated,
                "ran under qemu-user: compare only with records of the same emulator and host",
            ),
            caveat(
                CaveatKind::FallbackIo,
                "qemu-user has neither native AIO nor io_uring: the server's I/O is simulated",
            ),
        ]
    }

    fn is_here(&self) -> bool {
        true
    }

    fn has_native_io(&self) -> bool {
        self.emulator.is_none()
    }

    fn runs_as_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn reach(&self, port: u16, from: &Elsewhere) -> Result<Reach> {
        if *from == Elsewhere::Machine {
            let what =
                "a server on this host listens on loopback only: no client on another machine reaches it";
            return Err(Failure::new(Kind::Usage, what)
                .next("name this host in machines.toml and use --server ssh:NAME, or --client host")
                .into());
        }
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        Ok(Reach { listen: here, connect: SocketAddr::new(here, port) })
    }
}
