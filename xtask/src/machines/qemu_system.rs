//! `qemu-system`: a whole emulated computer of the target, with a kernel of its own and without root on this host.
//!
//! The bundle is a read-only disk, made once. Each connection boots a guest with an empty data disk; an agent in it
//! runs the programs. Nothing of it is left when it ends.

mod boot;
mod console;
mod folder;
mod guest;
mod options;

use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use model::agent::Run;
use model::message::{Caveat, CaveatKind};
use model::record::EmulatorFacts;

use super::{Call, Elsewhere, Link, Machine, Reach, natively};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::relay::{self, Relay, Transport};
use crate::stages::bundle::{BENCH, Bundle};
use crate::stages::deployment::{self, Deployed};
use crate::stages::guest::{self as stage, Parts, disk, kernel};
use crate::stages::toolchain::Toolchain;
use crate::{setup, ui};
use boot::{Plan, SERVER_PORT, USER};
use guest::Guest;
pub use options::Options;

/// Where a guest has the bundle's disk.
const BUNDLE: &str = "/bundle";
/// Where a guest has its data disk.
const DATA: &str = "/data";
/// Size of the data disk where nobody chooses another.
const DISK_MIB: u32 = 2048;
/// How long relay and agent wait for each other's word, in seconds: an emulated computer on a busy host is slow.
const SILENCE_S: u64 = 60;

/// The machine `qemu-system`.
pub struct QemuSystem<'a> {
    home: &'a Home,
    toolchain: &'a Toolchain,
    options: &'a Options,
    image: OnceCell<PathBuf>,
}

impl<'a> QemuSystem<'a> {
    /// A guest of a toolchain's target.
    pub fn new(home: &'a Home, toolchain: &'a Toolchain, options: &'a Options) -> Self {
        QemuSystem { home, toolchain, options, image: OnceCell::new() }
    }

    /// What the guest is booted from, with what a person chose.
    fn parts(&self) -> Result<Parts> {
        let target = self.toolchain.target();
        let Some(file) = &self.options.guest_kernel else {
            return stage::make(self.home, target, self.options.kernel.as_deref());
        };
        kernel::check_image(file, target)?;
        stage::make_with(self.home, target, file)
    }
}

impl Machine for QemuSystem<'_> {
    fn deploy(&self, bundle: &Bundle) -> Result<Deployed> {
        let table = stage::of(self.toolchain.target())?;
        setup::ensure_packages(self.home, &table.host_packages)?;
        let copy = deployment::unpack(self.home, bundle)?;
        let facts = &bundle.manifest().facts;
        let label = format!("{}-{}-{}", facts.product, bundle.manifest().target, facts.origin);
        let image = disk::of_bundle(self.home, &label, bundle.key(), &copy)?;
        let _ = self.image.set(image);
        Ok(Deployed { manifest: bundle.manifest().clone(), copy, root: BUNDLE.into(), runs: DATA.into() })
    }

    fn connect(&self, deployed: &Deployed) -> Result<Box<dyn Link>> {
        let target = self.toolchain.target();
        let usual = stage::of(target)?;
        let table = self.options.over(usual);
        let parts = self.parts()?;
        let emulator = EmulatorFacts {
            program: parts.emulator.name(),
            version: parts.emulator.version().to_string(),
            cpu: table.cpu.clone(),
            slowdown: 1.0,
            machine: Some(table.machine.clone()),
            kernel: Some(format!("{}: {}", parts.kernel.name, parts.kernel.version)),
            memory_mib: Some(table.memory_mib),
        };
        ui::step(
            "boot",
            &format!(
                "{} as {}, {}, {} MiB, kernel {}",
                parts.emulator.name(),
                table.machine,
                ui::counted(table.cpus.into(), "CPU"),
                table.memory_mib,
                parts.kernel.name
            ),
        );
        let plan = Plan {
            home: self.home,
            parts: &parts,
            table: &table,
            bundle: self.image.get().context("the bundle was not deployed")?,
            disk_mib: self.options.guest_disk_mib.unwrap_or(DISK_MIB),
            programs: [deployed.loader(), deployed.libraries(), deployed.file(BENCH)],
            log: self.home.log(&format!("guest-{}-{}", target.name, std::process::id()))?,
            usual_console: &usual.console,
        };
        let guest = Guest::boot(&plan)?;
        ui::step("", &guest.times());
        check(&guest, &parts)?;
        let mut link = GuestLink { deployed: deployed.clone(), guest, emulator };
        link.emulator.slowdown = super::probe(self.home, self.toolchain, &link, deployed)?;
        Ok(Box::new(link))
    }
}

/// The guest's own word for the size of its pages is what the table promises.
fn check(guest: &Guest, parts: &Parts) -> Result<()> {
    let Some(wanted) = parts.kernel.page_kib else { return Ok(()) };
    let found = guest.fact("page").context("the guest did not tell the size of its pages")?;
    if found == wanted.to_string() {
        return Ok(());
    }
    let what = format!("the kernel {} has pages of {found} KiB, not of {wanted}", parts.kernel.name);
    Err(Failure::new(Kind::VerificationFailed, what).next("mend `page-kib` in the target's file").into())
}

struct GuestLink {
    deployed: Deployed,
    guest: Guest,
    emulator: EmulatorFacts,
}

impl Link for GuestLink {
    fn line(&self, call: &Call) -> Vec<String> {
        natively(&self.deployed, call)
    }

    fn command(&self, call: &Call) -> Command {
        let run = Run {
            token: self.guest.token().to_string(),
            program: Vec::new(),
            environment: call.environment.iter().cloned().collect(),
            folder: call.folder.clone(),
            user: Some(USER),
            cpus: call.placement.cpus.clone(),
            numa_node: call.placement.numa_node,
            silence_s: SILENCE_S,
            terminal: None,
        };
        let relay = Relay { transport: Transport::Tcp(self.guest.agent()), run };
        relay::command(&relay, &self.line(call))
    }

    fn slowdown(&self) -> f64 {
        self.emulator.slowdown
    }

    fn emulator(&self) -> Option<EmulatorFacts> {
        Some(self.emulator.clone())
    }

    fn caveats(&self) -> Vec<Caveat> {
        let detail = "ran in a qemu-system guest: compare only with records of the same emulator and host";
        vec![Caveat { kind: CaveatKind::Emulated, detail: detail.into() }]
    }

    fn runs_as_root(&self) -> bool {
        false
    }

    fn server_port(&self) -> Option<u16> {
        Some(SERVER_PORT)
    }

    fn clock_ahead_s(&self) -> Option<f64> {
        self.guest.clock_ahead_s()
    }

    fn reach(&self, port: u16, from: &Elsewhere) -> Result<Reach> {
        if *from == Elsewhere::Machine || port != SERVER_PORT {
            let what = format!("a guest is reached from this host only, and at port {SERVER_PORT} only");
            let next = "run the clients on this host: --client host";
            return Err(Failure::new(Kind::Usage, what).next(next).into());
        }
        Ok(Reach { listen: IpAddr::from(Ipv4Addr::UNSPECIFIED), connect: self.guest.server() })
    }

    fn lost(&mut self) -> Result<Option<Failure>> {
        self.guest.lost()
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.guest.stop()
    }
}
