//! What a guest is booted from: emulator, kernel, first file system, disks. Nothing here starts one.

mod busybox;
mod config;
mod cpio;
pub mod disk;
pub mod emulator;
pub mod initramfs;
pub mod kernel;
mod modules;
mod pinned;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::setup;
use crate::tables::guest::{Guest, Kernel as Wanted};
use crate::tables::target::Target;
use emulator::Emulator;
use kernel::Kernel;

/// A guest that can be booted.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What it runs in.
    pub emulator: Emulator,
    /// What it boots.
    pub kernel: Kernel,
    /// Its first file system.
    pub initramfs: PathBuf,
}

/// The target's guest, or the failure that says that it has none.
pub fn of(target: &Target) -> Result<&Guest> {
    target.guest.as_ref().ok_or_else(|| {
        let what = format!("the target {} has no guest: its file has no [guest]", target.name);
        Failure::new(Kind::Usage, what).next("choose another machine, or another target").into()
    })
}

/// The packages that the host needs for a guest with that kernel.
pub fn host_packages(target: &Target, guest: &Guest, kernel: &Wanted) -> Vec<String> {
    let mut all = guest.host_packages.clone();
    if let (Wanted::Source { .. }, Some(source)) = (kernel, &guest.kernel_source) {
        all.extend(source.host_packages.iter().cloned());
        all.extend(target.host.packages.iter().cloned());
    }
    all.sort();
    all.dedup();
    all
}

/// Finds all that a guest is booted from, or makes it. `kernel` is the name of one of its kernels; `None`: the first.
pub fn make(home: &Home, target: &Target, kernel: Option<&str>) -> Result<Parts> {
    let guest = of(target)?;
    let wanted = guest.kernel(kernel)?;
    setup::ensure_packages(home, &host_packages(target, guest, wanted))?;
    let kernel = kernel::make(home, target, guest, wanted)?;
    let label = format!("{}-{}", target.name, kernel.name);
    complete(home, target, guest, kernel, &label)
}

/// [`make`], with a kernel of somebody else's.
pub fn make_with(home: &Home, target: &Target, image: &Path) -> Result<Parts> {
    complete(home, target, of(target)?, kernel::given(image), &format!("{}-given", target.name))
}

fn complete(home: &Home, target: &Target, guest: &Guest, kernel: Kernel, label: &str) -> Result<Parts> {
    let emulator = emulator::find(home, &guest.emulator)?;
    let busybox = busybox::make(home, target, &guest.busybox)?;
    let initramfs = initramfs::make(home, label, &kernel, &busybox)?;
    Ok(Parts { emulator, kernel, initramfs })
}
