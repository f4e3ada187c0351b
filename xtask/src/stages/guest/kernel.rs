//! The guest's kernel: the distribution's own with the modules that are needed, or one that is built here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xshell::{Shell, cmd};

use super::modules::Modules;
use super::{config, pinned};
use crate::debian::{self, AptRoot};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, Logged};
use crate::stage::{Leftover, Stage, remove};
use crate::tables::guest::{self, Guest, KernelSource};
use crate::tables::target::Target;
use crate::{interrupt, ui};

/// Raised when this file makes another kernel of the same inputs.
const RECIPE: u32 = 1;

/// Options of every kernel that is built here.
const CONFIG: &str = include_str!("../../../guest/kernel.config");

/// A kernel that can be booted.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel itself.
    pub image: PathBuf,
    /// Its modules, in the order of their loading.
    pub modules: Vec<PathBuf>,
    /// Its version.
    pub version: String,
    /// The variant's name.
    pub name: String,
    /// Size of its pages in KiB; `None`: not promised.
    pub page_kib: Option<u32>,
    /// Hash of what it was made of.
    pub key: String,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    version: String,
    modules: Vec<String>,
}

const IMAGE: &str = "kernel";
const MODULES: &str = "modules";

/// Finds a kernel of the guest, or makes it.
pub fn make(home: &Home, target: &Target, guest: &Guest, wanted: &guest::Kernel) -> Result<Kernel> {
    let (name, page_kib) = (wanted.name(), wanted.page_kib());
    let stage = Stage {
        home,
        name: "kernels",
        label: format!("{}-{name}", target.name),
        leftover: Leftover::Discard,
    };
    let done = match wanted {
        guest::Kernel::Debian { architecture, suites, package, modules, .. } => {
            stage.get(&(architecture, suites, package, modules, RECIPE), |work| {
                ui::step("kernel", &format!("{package} of {architecture} from {}", suites.join(", ")));
                home.need_space(1 << 30, "the guest's kernel")?;
                let apt = AptRoot::open(home, architecture, suites)?;
                take(&apt, package, modules, work)
            })?
        }
        guest::Kernel::Source { config: more, .. } => {
            let source = guest.kernel_source.as_ref().context("the guest's table has no kernel-source")?;
            let asked = asked(source, more);
            let compiler = compiler(target)?;
            let inputs = (&source.release.sha256, &source.arch, &source.image, &asked, compiler, RECIPE);
            stage.get(&inputs, |work| {
                let log = home.log(&format!("kernel-{}-{name}", target.name))?;
                Build { home, target, source, asked: &asked, work, log: &log }.run(name)
            })?
        }
    };
    let modules = done.receipt.modules.iter().map(|file| done.folder.join(MODULES).join(file));
    Ok(Kernel {
        image: done.folder.join(IMAGE),
        modules: modules.collect(),
        version: done.receipt.version,
        name: name.to_string(),
        page_kib: Some(page_kib),
        key: done.key,
    })
}

/// Takes the kernel and the wanted modules out of a package.
fn take(apt: &AptRoot, package: &str, wanted: &[String], work: &Path) -> Result<Receipt> {
    let all = work.join("all");
    let mut deb = apt.download_one(package, None)?;
    // The usual name is an empty package that depends on today's kernel.
    if let Some(newest) = debian::depends_of(&deb)?.into_iter().find(|name| name.starts_with("linux-image-"))
    {
        deb = apt.download_one(&newest, None)?;
    }
    fs::create_dir_all(&all)?;
    debian::unpack(&deb, &all)?;
    interrupt::check()?;
    let kernel = only_file(&all.join("boot"), "vmlinu")?;
    fs::rename(&kernel, work.join(IMAGE))?;
    let base = [all.join("lib/modules"), all.join("usr/lib/modules")];
    let base = base.iter().find(|folder| folder.is_dir()).context("the kernel's package has no modules")?;
    let files = Modules::below(&only_file(base, "")?)?.in_order(wanted)?;
    fs::create_dir_all(work.join(MODULES))?;
    let mut modules = Vec::new();
    for file in files {
        let name = file.file_name().context("a module without a name")?;
        fs::rename(&file, work.join(MODULES).join(name))?;
        modules.push(name.to_string_lossy().into_owned());
    }
    remove(&all)?;
    let package = debian::package_of(&deb)?;
    Ok(Receipt { version: format!("{} ({})", package.name, package.version), modules })
}

/// The one entry of a folder whose name begins so.
fn only_file(folder: &Path, begin: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(begin) {
            found.push(entry.path());
        }
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        n => anyhow::bail!("{} holds {n} files {begin}*, not one", folder.display()),
    }
}

/// What the configuration must say, an option a line.
fn asked(source: &KernelSource, more: &[String]) -> Vec<String> {
    let general = config::lines(CONFIG);
    general.into_iter().chain(source.config.iter().chain(more).cloned()).collect()
}

/// The compiler's own words for its version: another compiler makes another kernel.
fn compiler(target: &Target) -> Result<String> {
    let (sh, gcc) = (Shell::new()?, target.tool("gcc"));
    let text = process::output(cmd!(sh, "{gcc} --version"))?;
    Ok(text.lines().next().unwrap_or_default().to_string())
}

struct Build<'a> {
    home: &'a Home,
    target: &'a Target,
    source: &'a KernelSource,
    asked: &'a [String],
    work: &'a Path,
    log: &'a Path,
}

impl Build<'_> {
    fn run(&self, name: &str) -> Result<Receipt> {
        self.home.need_space(3 << 30, "building the guest's kernel")?;
        let (tree, out) = (self.work.join("source"), self.work.join("out"));
        pinned::unpack(self.home, &self.source.release, &tree)?;
        fs::create_dir_all(&out)?;
        let version = &self.source.release.version;
        ui::step("kernel", &format!("building {version} for {}, {name}: some minutes", self.target.name));
        let fragment = self.work.join("asked.config");
        fs::write(&fragment, config::file("CONFIG_", self.asked))?;
        self.make(&tree, &out, &["allnoconfig"], Some(&fragment))?;
        config::check(&out.join(".config"), "CONFIG_", self.asked)?;
        self.make(&tree, &out, &[&self.source.image], None)?;
        let (sh, strip) = (Shell::new()?, self.target.tool("strip"));
        let (from, to) = (out.join(&self.source.image), self.work.join(IMAGE));
        if crate::elf::is_elf(&from)? {
            self.logged("strip").run(cmd!(sh, "{strip} -o {to} {from}"))?;
        } else {
            fs::copy(&from, &to)?;
        }
        fs::copy(out.join(".config"), self.work.join("config"))?;
        remove(&out)?;
        remove(&tree)?;
        Ok(Receipt { version: version.clone(), modules: Vec::new() })
    }

    fn logged<'a>(&'a self, name: &'a str) -> Logged<'a> {
        Logged { name, log: self.log, next: "read the log's last lines; cargo xtask doctor" }
    }

    fn make(&self, tree: &Path, out: &Path, goals: &[&str], fragment: Option<&Path>) -> Result<()> {
        let sh = Shell::new()?;
        let jobs = std::thread::available_parallelism().map_or(1, |n| n.get()).to_string();
        let (arch, prefix) = (&self.source.arch, self.target.tool(""));
        let mut command =
            cmd!(sh, "make -j{jobs} -C {tree} O={out} ARCH={arch} CROSS_COMPILE={prefix} {goals...}")
                // The same parts make the same kernel, whoever builds it and when.
                .env("KBUILD_BUILD_USER", "portbench")
                .env("KBUILD_BUILD_HOST", "portbench")
                .env("KBUILD_BUILD_TIMESTAMP", "1970-01-01");
        if let Some(fragment) = fragment {
            command = command.env("KCONFIG_ALLCONFIG", fragment);
        }
        self.logged("make").run(command)
    }
}

/// A kernel that somebody else made: it has all that the guest needs built in.
pub fn given(image: &Path) -> Kernel {
    Kernel {
        image: image.to_path_buf(),
        modules: Vec::new(),
        version: "given".into(),
        name: image.display().to_string(),
        page_kib: None,
        // Its first file system has no modules, whichever kernel it is.
        key: String::new(),
    }
}

/// Fails where a kernel is not for the target at all.
pub fn check_image(image: &Path, target: &Target) -> Result<()> {
    // Compressed kernels of some architectures are no ELF files: QEMU and the firmware will tell.
    if !crate::elf::is_elf(image)? || crate::elf::is_for(image, target)? {
        return Ok(());
    }
    let what = format!("{} is a program or kernel of another target than {}", image.display(), target.name);
    Err(Failure::new(Kind::WrongMachine, what).next("give a kernel of this target").into())
}
