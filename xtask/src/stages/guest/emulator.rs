//! The emulator of a whole computer: the host's if it is new enough, else Debian's packages in our cache.
//!
//! From the packages only the program, the libraries that it asks for, and the firmware are kept; it is started by its
//! own loader, so nothing of it has to fit the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::debian::{self, AptRoot};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{find_program, output};
use crate::stage::{Leftover, Stage};
use crate::stages::emulator::{at_least, parse_version};
use crate::tables::guest;
use crate::{elf, interrupt, ui};

/// Raised when this file keeps something else of the same packages.
const RECIPE: u32 = 1;

/// An emulator of a whole computer.
#[derive(Clone, Debug)]
pub struct Emulator {
    program: PathBuf,
    /// The folder of libraries, the loader in it, and the firmware's folder, where it is not the host's own.
    own: Option<Own>,
    version: String,
}

#[derive(Clone, Debug)]
struct Own {
    loader: PathBuf,
    libraries: PathBuf,
    firmware: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    loader: String,
}

impl Emulator {
    /// A command of it, up to its first argument.
    pub fn command(&self) -> Command {
        let Some(own) = &self.own else { return Command::new(&self.program) };
        let mut command = Command::new(&own.loader);
        command.arg("--library-path").arg(&own.libraries).arg(&self.program);
        command.arg("-L").arg(&own.firmware);
        command
    }

    /// Its program's name.
    pub fn name(&self) -> String {
        self.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Its version, e.g. `10.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn new(program: PathBuf, own: Option<Own>) -> Result<Self> {
        let mut found = Emulator { program, own, version: String::new() };
        let mut ask = found.command();
        let text = output({
            ask.arg("--version");
            ask
        })?;
        found.version = parse_version(&text)
            .with_context(|| format!("{} does not tell its version", found.program.display()))?;
        Ok(found)
    }
}

/// Finds an emulator that is new enough, or fetches one.
pub fn find(home: &Home, wanted: &guest::Emulator) -> Result<Emulator> {
    if let Some(program) = find_program(&wanted.program)
        && let Ok(emulator) = Emulator::new(program, None)
        && at_least(emulator.version(), &wanted.minimum)
    {
        return Ok(emulator);
    }
    if debian::codename().is_none() {
        let what = format!(
            "no {} of version {} or newer in $PATH, which the guest needs: {}",
            wanted.program, wanted.minimum, wanted.why
        );
        return Err(Failure::new(Kind::MissingPackages, what).next("install QEMU's system emulators").into());
    }
    let emulator = fetch(home, wanted)?;
    if !at_least(emulator.version(), &wanted.minimum) {
        let what = format!(
            "{} of {} is version {}, {} or newer is needed: {}",
            wanted.program,
            wanted.suites.join(", "),
            emulator.version(),
            wanted.minimum,
            wanted.why
        );
        return Err(Failure::new(Kind::EmulatorBroken, what).into());
    }
    Ok(emulator)
}

fn fetch(home: &Home, wanted: &guest::Emulator) -> Result<Emulator> {
    let stage = Stage { home, name: "tools", label: wanted.program.clone(), leftover: Leftover::Discard };
    let inputs = (&wanted.program, &wanted.packages, &wanted.suites, &wanted.firmware, RECIPE);
    let done = stage.get(&inputs, |work| {
        ui::step(
            "emulator",
            &format!("{} from {}, for portbench alone", wanted.program, wanted.suites.join(", ")),
        );
        home.need_space(1 << 29, "the emulator")?;
        let root = AptRoot::open(home, &debian::host_architecture()?, &wanted.suites)?;
        let all = work.join("all");
        fs::create_dir_all(&all)?;
        for deb in root.download_closure(&wanted.packages)? {
            interrupt::check()?;
            debian::unpack(&deb, &all)?;
        }
        let loader = keep(&all, work, wanted)?;
        fs::remove_dir_all(&all)?;
        Ok(Receipt { loader })
    })?;
    let folder = |name: &str| done.folder.join(name);
    let own = Own {
        loader: folder("lib").join(&done.receipt.loader),
        libraries: folder("lib"),
        firmware: folder("firmware"),
    };
    Emulator::new(folder("bin").join(&wanted.program), Some(own))
}

/// Takes the program, its libraries and its firmware out of the unpacked packages; the loader's name.
fn keep(all: &Path, work: &Path, wanted: &guest::Emulator) -> Result<String> {
    for folder in ["bin", "lib", "firmware"] {
        fs::create_dir_all(work.join(folder))?;
    }
    let program = work.join("bin").join(&wanted.program);
    copy(&all.join("usr/bin").join(&wanted.program), &program)?;
    for file in &wanted.firmware {
        let name = Path::new(file).file_name().context("a firmware file without a name")?;
        copy(&all.join(file), &work.join("firmware").join(name))?;
    }
    let interpreter = elf::interpreter(&program)?.context("the emulator asks for no loader")?;
    let loader = Path::new(&interpreter).file_name().context("a loader without a name")?;
    let loader = loader.to_string_lossy().into_owned();
    let folders = library_folders(all)?;
    let mut open = vec![loader.clone()];
    open.extend(elf::needed(&program)?);
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let found = folders.iter().map(|folder| folder.join(&name)).find(|file| file.is_file());
        let found = found.with_context(|| format!("the emulator's packages hold no {name}"))?;
        let to = work.join("lib").join(&name);
        copy(&found, &to)?;
        open.extend(elf::needed(&to)?);
    }
    Ok(loader)
}

/// Every folder of libraries: Debian's are one level below `lib` and `usr/lib`.
fn library_folders(all: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for base in ["lib", "usr/lib"].map(|name| all.join(name)).into_iter().filter(|base| base.is_dir()) {
        for entry in fs::read_dir(&base)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            }
        }
        folders.push(base);
    }
    folders.sort();
    Ok(folders)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
}
