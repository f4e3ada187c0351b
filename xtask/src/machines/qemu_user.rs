//! `qemu-user`: programs of the target as processes of this host, each in an emulator of its own.

use std::path::Path;
use std::process::Command;

use model::message::{Caveat, CaveatKind};
use model::record::EmulatorFacts;

use super::Machine;
use crate::stages::deployment::Deployment;
use crate::stages::emulator::Emulator;
use crate::stages::toolchain::{Toolchain, run_prefix};

/// The machine `qemu-user`.
pub struct QemuUser {
    emulator: Emulator,
    slowdown: f64,
}

impl QemuUser {
    /// A machine that uses a probed toolchain's emulator.
    pub fn new(toolchain: &Toolchain) -> Self {
        QemuUser { emulator: toolchain.emulator().clone(), slowdown: toolchain.probed().slowdown }
    }
}

impl Machine for QemuUser {
    fn name(&self) -> &str {
        "qemu-user"
    }

    fn command(&self, deployment: &Deployment, program: &Path) -> Command {
        let prefix = run_prefix(&self.emulator, &deployment.loader(), &[deployment.libraries()]);
        let mut command = Command::new(self.emulator.program());
        command.args(&prefix[1..]).arg(program);
        command
    }

    fn slowdown(&self) -> f64 {
        self.slowdown.max(1.0)
    }

    fn emulator(&self) -> Option<EmulatorFacts> {
        let program = self.emulator.program().file_name().map(|name| name.to_string_lossy().into_owned());
        Some(EmulatorFacts {
            program: program.unwrap_or_default(),
            version: self.emulator.version().to_string(),
            cpu: self.emulator.cpu().to_string(),
            slowdown: self.slowdown,
        })
    }

    fn caveats(&self) -> Vec<Caveat> {
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
}
