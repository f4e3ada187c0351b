//! `local` and `qemu-user`: programs of the bundle as processes of this host, through the bundle's own loader and, for
//! `qemu-user`, an emulator each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::Result;
use model::message::{Caveat, CaveatKind};
use model::record::EmulatorFacts;

use super::{Call, Elsewhere, Link, Machine, Reach};
use crate::home::Home;
use crate::placement;
use crate::stages::bundle::Bundle;
use crate::stages::deployment::{self, Deployed};
use crate::stages::emulator::Emulator;
use crate::stages::toolchain::{Toolchain, run_prefix};

/// The name of the machine without an emulator.
pub const LOCAL: &str = "local";
/// The name of the machine with one.
pub const QEMU_USER: &str = "qemu-user";

/// The machine `local` or `qemu-user`.
pub struct Direct<'a> {
    home: &'a Home,
    emulator: Option<(Emulator, f64)>,
}

impl<'a> Direct<'a> {
    /// This host, as it is.
    pub fn local(home: &'a Home) -> Self {
        Direct { home, emulator: None }
    }

    /// This host, through a probed toolchain's emulator.
    pub fn qemu_user(home: &'a Home, toolchain: &Toolchain) -> Self {
        Direct { home, emulator: Some((toolchain.emulator().clone(), toolchain.probed().slowdown)) }
    }
}

impl Machine for Direct<'_> {
    fn name(&self) -> &str {
        if self.emulator.is_some() { QEMU_USER } else { LOCAL }
    }

    fn deploy(&self, bundle: &Bundle) -> Result<Deployed> {
        let copy = deployment::unpack(self.home, bundle)?;
        let runs = self.home.folder("run")?;
        Ok(Deployed { manifest: bundle.manifest().clone(), root: copy.clone(), copy, runs })
    }

    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>> {
        Ok(Box::new(DirectLink { deployed: deployed.clone(), emulator: self.emulator.clone() }))
    }
}

struct DirectLink {
    deployed: Deployed,
    emulator: Option<(Emulator, f64)>,
}

impl Link for DirectLink {
    fn command(&self, call: &Call) -> Command {
        let (loader, libraries) = (self.deployed.loader(), self.deployed.libraries());
        let mut command = match (&self.emulator, call.of_bundle) {
            (Some((emulator, _)), true) => {
                let prefix = run_prefix(emulator, &loader, &[libraries]);
                let mut command = Command::new(emulator.program());
                command.args(&prefix[1..]).arg(&call.program);
                command
            }
            (None, true) => {
                let mut command = Command::new(loader);
                command.arg("--library-path").arg(libraries).arg(&call.program);
                command
            }
            (_, false) => Command::new(&call.program),
        };
        command.args(&call.arguments).envs(call.environment.iter().cloned());
        if let Some(folder) = &call.folder {
            command.current_dir(folder);
        }
        placement::command(&call.placement, command)
    }

    fn slowdown(&self) -> f64 {
        self.emulator.as_ref().map_or(1.0, |(_, slowdown)| slowdown.max(1.0))
    }

    fn emulator(&self) -> Option<EmulatorFacts> {
        let (emulator, slowdown) = self.emulator.as_ref()?;
        let program = emulator.program().file_name().map(|name| name.to_string_lossy().into_owned());
        Some(EmulatorFacts {
            program: program.unwrap_or_default(),
            version: emulator.version().to_string(),
            cpu: emulator.cpu().to_string(),
            slowdown: *slowdown,
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

    fn reach(&self, port: u16, _from: &Elsewhere) -> Result<Reach> {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        Ok(Reach { listen: here, connect: SocketAddr::new(here, port) })
    }
}
