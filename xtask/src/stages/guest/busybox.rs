//! Busybox: the guest's shell and small programs, in one static program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use xshell::{Shell, cmd};

use super::{config, pinned};
use crate::debian::{self, AptRoot};
use crate::home::Home;
use crate::process::Logged;
use crate::stage::{Leftover, Stage, remove};
use crate::tables::guest;
use crate::tables::product::Release;
use crate::tables::target::Target;
use crate::ui;

/// Raised when this file makes another busybox of the same inputs.
const RECIPE: u32 = 1;

/// Options of a busybox that is built here.
const CONFIG: &str = include_str!("../../../guest/busybox.config");

/// A static busybox.
#[derive(Clone, Debug)]
pub struct Busybox {
    /// Its program.
    pub program: PathBuf,
    /// Hash of what it was made of.
    pub key: String,
}

/// Finds busybox, or makes it.
pub fn make(home: &Home, target: &Target, wanted: &guest::Busybox) -> Result<Busybox> {
    let label = format!("busybox-{}", target.name);
    let stage = Stage { home, name: "tools", label, leftover: Leftover::Discard };
    let done = match wanted {
        guest::Busybox::Debian { architecture, suites, package } => {
            stage.get(&(architecture, suites, package, RECIPE), |work| {
                ui::step("busybox", &format!("{package} of {architecture} from {}", suites.join(", ")));
                let deb = AptRoot::open(home, architecture, suites)?.download_one(package, None)?;
                debian::unpack(&deb, &work.join("all"))?;
                let places = ["bin/busybox", "usr/bin/busybox"].map(|name| work.join("all").join(name));
                let found = places.iter().find(|file| file.is_file());
                let Some(found) = found else { anyhow::bail!("{package} holds no busybox") };
                fs::copy(found, work.join("busybox"))?;
                remove(&work.join("all"))
            })?
        }
        guest::Busybox::Source { release } => {
            let inputs =
                (&release.sha256, config::lines(CONFIG), &target.gnu_prefix, &target.cpu.flags, RECIPE);
            stage.get(&inputs, |work| build(home, target, release, work))?
        }
    };
    Ok(Busybox { program: done.folder.join("busybox"), key: done.key })
}

fn build(home: &Home, target: &Target, release: &Release, work: &Path) -> Result<()> {
    let log = home.log(&format!("busybox-{}", target.name))?;
    home.need_space(1 << 28, "building busybox")?;
    let tree = work.join("source");
    pinned::unpack(home, release, &tree)?;
    ui::step("busybox", &format!("building {} for {}", release.version, target.name));
    let (sh, prefix) = (Shell::new()?, target.tool(""));
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get()).to_string();
    let flags = format!("EXTRA_CFLAGS={}", target.cpu.flags.join(" "));
    let logged = Logged { name: "make", log: &log, next: "read the log's last lines; cargo xtask doctor" };
    let make = |goal: &str| cmd!(sh, "make -j{jobs} -C {tree} CROSS_COMPILE={prefix} {flags} {goal}");
    logged.run(make("defconfig"))?;
    // Its Kconfig is an old one that cannot be given a list of options.
    let (asked, written) = (config::lines(CONFIG), tree.join(".config"));
    fs::write(&written, config::set(&fs::read_to_string(&written)?, "CONFIG_", &asked))?;
    logged.run(make("busybox"))?;
    config::check(&written, "CONFIG_", &asked)?;
    fs::copy(tree.join("busybox"), work.join("busybox"))?;
    remove(&tree)
}
