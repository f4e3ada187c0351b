//! The guest of a target: what the machine `qemu-system` boots, as the `[guest]` table of the target's file says.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::failure::unknown;
use crate::tables::product::Release;

/// A whole emulated computer of the target.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Guest {
    /// QEMU's machine, with its version: a newer QEMU must not change what is emulated.
    pub machine: String,
    /// Properties of it.
    pub machine_options: Vec<String>,
    /// `-cpu`: the baseline.
    pub cpu: String,
    /// CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// The kernel's name of its console.
    pub console: String,
    /// What the firmware says first; `None`: it says nothing on the console.
    pub firmware: Option<String>,
    /// The emulator.
    pub emulator: Emulator,
    /// Debian packages that the host needs for any of its kernels.
    pub host_packages: Vec<String>,
    /// Its shell and small programs.
    pub busybox: Busybox,
    /// What a kernel that is built here is made of.
    pub kernel_source: Option<KernelSource>,
    /// Its kernels; the first is the default.
    pub kernel: Vec<Kernel>,
}

/// The emulator of a whole computer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Emulator {
    /// Its program.
    pub program: String,
    /// Lowest version that works.
    pub minimum: String,
    /// Why not lower.
    pub why: String,
    /// Debian packages that hold a new enough one.
    pub packages: Vec<String>,
    /// Suites of them and of what they depend on.
    pub suites: Vec<String>,
    /// The firmware and tables that the machine loads, as paths in the packages.
    pub firmware: Vec<String>,
}

/// Where busybox comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "from", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Busybox {
    /// Debian's package of the target.
    Debian {
        /// Debian's name for the architecture.
        architecture: String,
        /// Suites to take it from.
        suites: Vec<String>,
        /// The package.
        package: String,
    },
    /// Built here, with `xtask/guest/busybox.config`.
    Source {
        /// Its source.
        release: Release,
    },
}

/// The source of kernels that are built here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KernelSource {
    /// The source.
    pub release: Release,
    /// The kernel's name for the architecture.
    pub arch: String,
    /// The target of make, and the path of the file that it makes.
    pub image: String,
    /// Debian packages that the host needs to build it, beside the compiler.
    pub host_packages: Vec<String>,
    /// Options beside those of `xtask/guest/kernel.config`, without `CONFIG_`.
    pub config: Vec<String>,
}

/// A kernel that the guest can be booted with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "from", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Kernel {
    /// Debian's own.
    Debian {
        /// What `--kernel` calls it.
        name: String,
        /// Size of its pages in KiB.
        page_kib: u32,
        /// Debian's name for the architecture.
        architecture: String,
        /// Suites to take it from.
        suites: Vec<String>,
        /// The package, or one that does nothing but depend on the newest.
        package: String,
        /// Modules that the guest needs; what they depend on comes too.
        modules: Vec<String>,
    },
    /// Built here.
    Source {
        /// What `--kernel` calls it.
        name: String,
        /// Size of its pages in KiB.
        page_kib: u32,
        /// Options beside those of the source's table.
        config: Vec<String>,
    },
}

impl Kernel {
    /// What `--kernel` calls it.
    pub fn name(&self) -> &str {
        match self {
            Kernel::Debian { name, .. } | Kernel::Source { name, .. } => name,
        }
    }

    /// Size of its pages in KiB.
    pub fn page_kib(&self) -> u32 {
        match self {
            Kernel::Debian { page_kib, .. } | Kernel::Source { page_kib, .. } => *page_kib,
        }
    }
}

impl Guest {
    /// The kernel of that name, or the default.
    pub fn kernel(&self, name: Option<&str>) -> Result<&Kernel> {
        let found = match name {
            None => self.kernel.first(),
            Some(name) => self.kernel.iter().find(|kernel| kernel.name() == name),
        };
        let known: Vec<String> = self.kernel.iter().map(|kernel| kernel.name().to_string()).collect();
        found.ok_or_else(|| unknown("kernel", name.unwrap_or_default(), &known).into())
    }
}

#[cfg(test)]
mod tests {
    use crate::tables::target::Target;

    #[test]
    fn every_guest_has_a_kernel_and_a_pinned_machine() {
        for name in Target::names().unwrap() {
            let Some(guest) = Target::load(&name).unwrap().guest else { continue };
            guest.kernel(None).unwrap();
            // The alias without a version is another machine in every QEMU.
            assert!(guest.machine.contains(|c: char| c.is_ascii_digit()), "{name}: {}", guest.machine);
            let ours = guest.kernel.iter().any(|kernel| matches!(kernel, super::Kernel::Source { .. }));
            assert!(!ours || guest.kernel_source.is_some(), "{name} has no kernel-source");
        }
    }

    #[test]
    fn a_misspelt_kernel_is_answered_with_the_nearest() {
        let guest = Target::load("ppc64le").unwrap().guest.unwrap();
        let message = guest.kernel(Some("64kb")).unwrap_err().to_string();
        assert!(message.contains("did you mean 64k?"), "{message}");
    }
}
