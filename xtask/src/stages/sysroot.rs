//! The sysroot: the target's headers and libraries in a folder, without root: from signed packages of its own, or from
//! the cross compiler's packages and libraries that are built here.

mod library;
mod tree;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xshell::{Shell, cmd};

use crate::debian::{self, AptRoot, Package};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage};
use crate::tables::target::{self, Target};
use crate::{elf, process, ui};

/// Raised when this file makes another sysroot of the same packages.
const RECIPE: u32 = 1;
/// The same for sysroots that are built.
const SOURCE_RECIPE: u32 = 1;
const STAGE: &str = "sysroots";

/// A sysroot, complete when this value was made.
#[derive(Debug, Clone)]
pub struct Sysroot {
    root: PathBuf,
    packages: Vec<Package>,
    multiarch: String,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    packages: Vec<Package>,
}

impl Sysroot {
    /// The folder that compilers get as `--sysroot`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The packages it is made of, and the libraries that were built for it.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The folders that hold its libraries.
    pub fn library_folders(&self) -> Vec<PathBuf> {
        vec![self.root.join("lib").join(&self.multiarch), self.root.join("usr/lib").join(&self.multiarch)]
    }

    /// Where pkg-config looks for the target's libraries, and nowhere else.
    pub fn pkg_config_folders(&self) -> Vec<PathBuf> {
        let usr = self.root.join("usr/lib");
        vec![usr.join(&self.multiarch).join("pkgconfig"), usr.join("pkgconfig")]
    }
}

/// The target's sysroot, if it has been made: complete, or the failure that says what is missing.
pub fn found(home: &Home, target: &Target) -> Result<Option<Sysroot>> {
    let peeked = match &target.sysroot {
        target::Sysroot::Debian { .. } => {
            stage(home, target, "").peek::<Receipt>(&(&target.sysroot, RECIPE))?
        }
        target::Sysroot::Source { .. } => match stage(home, target, "-base").peek(&base_inputs(target))? {
            None => None,
            Some((folder, receipt)) => {
                let base = sysroot(target, folder, receipt);
                stage(home, target, "").peek(&source_inputs(target, &base)?)?
            }
        },
    };
    let Some((folder, receipt)) = peeked else { return Ok(None) };
    check_complete(&folder, target)?;
    Ok(Some(sysroot(target, folder, receipt)))
}

/// Finds the target's sysroot, or makes it. `renew` makes it anew from today's packages.
pub fn make(home: &Home, target: &Target, renew: bool) -> Result<Sysroot> {
    match &target.sysroot {
        target::Sysroot::Debian { architecture, suites, packages, .. } => {
            let inputs = (&target.sysroot, RECIPE);
            if renew {
                stage(home, target, "").forget(&inputs)?;
            }
            stage(home, target, "").get(&inputs, |work| {
                let count = packages.len();
                ui::step("sysroot", &format!("{} from {count} packages of {architecture}", target.name));
                home.need_space(1 << 30, "a sysroot")?;
                let files = AptRoot::open(home, architecture, suites)?.download_closure(packages)?;
                let (all, root) = (work.join("all"), work.join("root"));
                let packages = tree::unpack(&files, &all)?;
                tree::keep(&all, &root, &tree::KEPT.map(|kept| (kept.to_string(), kept.to_string())))?;
                finish(work, target, packages)
            })?;
        }
        target::Sysroot::Source { .. } => from_source(home, target, renew)?,
    }
    found(home, target)?.context("the sysroot that was just made is gone")
}

fn stage<'a>(home: &'a Home, target: &Target, more: &str) -> Stage<'a> {
    Stage { home, name: STAGE, label: format!("{}{more}", target.name), leftover: Leftover::Discard }
}

fn sysroot(target: &Target, folder: PathBuf, receipt: Receipt) -> Sysroot {
    let multiarch = target.sysroot.multiarch().to_string();
    Sysroot { root: folder.join("root"), packages: receipt.packages, multiarch }
}

/// What the compiler's own libraries depend on.
fn base_inputs(target: &Target) -> impl Serialize {
    let target::Sysroot::Source { suites, packages, multiarch, .. } = target.sysroot.clone() else {
        return None;
    };
    Some((suites, packages, multiarch, target.gnu_prefix.clone(), SOURCE_RECIPE))
}

/// What the whole of a built sysroot depends on.
fn source_inputs(target: &Target, base: &Sysroot) -> Result<impl Serialize + use<>> {
    let libraries = target.recipes()?;
    let keys = libraries.iter().map(|recipe| library::key(target, base, recipe));
    Ok((base.root.clone(), base.packages.clone(), keys.collect::<Result<Vec<String>>>()?, SOURCE_RECIPE))
}

/// The compiler's libraries, then each library that is built against them, then all in one folder.
fn from_source(home: &Home, target: &Target, renew: bool) -> Result<()> {
    if renew {
        stage(home, target, "-base").forget(&base_inputs(target))?;
    }
    let base = base(home, target)?;
    let inputs = source_inputs(target, &base)?;
    if renew {
        stage(home, target, "").forget(&inputs)?;
    }
    stage(home, target, "").get(&inputs, |work| {
        let recipes = target.recipes()?;
        let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
        ui::step("sysroot", &format!("{} with {} from source", target.name, names.join(", ")));
        home.need_space(2 << 30, "a sysroot")?;
        let root = work.join("root");
        let (sh, from) = (Shell::new()?, base.root());
        process::output(cmd!(sh, "cp --archive {from} {root}"))?;
        let mut packages = base.packages.clone();
        for recipe in &recipes {
            let built = library::make(home, target, &base, recipe)?;
            add(&built, &root)?;
            packages.push(Package { name: recipe.name.clone(), version: recipe.source.version.clone() });
        }
        finish(work, target, packages)
    })?;
    Ok(())
}

/// The libraries that come with the compiler, laid out as in packages of the target.
fn base(home: &Home, target: &Target) -> Result<Sysroot> {
    let target::Sysroot::Source { suites, multiarch, packages, .. } = &target.sysroot else {
        anyhow::bail!("{} is not built from source", target.name);
    };
    let done = stage(home, target, "-base").get(&base_inputs(target), |work| {
        ui::step("sysroot", &format!("{} from {}", target.name, packages.join(" ")));
        let host = debian::host_architecture()?;
        let files = AptRoot::open(home, &host, suites)?.download_closure(packages)?;
        let (all, root, own) = (work.join("all"), work.join("root"), format!("usr/{}", target.gnu_prefix));
        let packages = tree::unpack(&files, &all)?;
        let moves = [
            (format!("{own}/lib"), format!("usr/lib/{multiarch}")),
            (format!("{own}/include"), "usr/include".into()),
        ];
        tree::keep(&all, &root, &moves)?;
        // Linker scripts name their files by the path that they have on the host.
        fs::create_dir_all(root.join(&own))?;
        symlink(format!("../lib/{multiarch}"), root.join(&own).join("lib"))?;
        finish(work, target, packages)
    })?;
    Ok(sysroot(target, done.folder, done.receipt))
}

/// Copies what a library installed into the sysroot, links as links; documents and programs stay behind.
fn add(built: &Path, root: &Path) -> Result<()> {
    for folder in tree::KEPT.iter().filter(|folder| built.join(folder).is_dir()) {
        let to = root.join(folder);
        fs::create_dir_all(&to)?;
        let (sh, from) = (Shell::new()?, built.join(folder).join("."));
        process::output(cmd!(sh, "cp --archive {from} {to}"))?;
    }
    Ok(())
}

/// Makes links relative, checks every library, and writes down what is there.
fn finish(work: &Path, target: &Target, packages: Vec<Package>) -> Result<Receipt> {
    let files = tree::settle(&work.join("root"))?;
    check_libraries(&work.join("root"), &files, target)?;
    fs::write(work.join("files.txt"), files.join("\n") + "\n")?;
    let names: Vec<String> = packages.iter().map(Package::to_string).collect();
    fs::write(work.join("packages.txt"), names.join("\n") + "\n")?;
    Ok(Receipt { packages })
}

/// Every library is of the target's class, byte order, machine and ABI: one of the host's would link, or fail to, an
/// hour later.
fn check_libraries(root: &Path, files: &[String], target: &Target) -> Result<()> {
    let mut wrong = Vec::new();
    for name in files.iter().filter(|name| is_library(name)) {
        wrong.extend(elf::foreign(&root.join(name), target)?.iter().map(|how| format!("{name} {how}")));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the sysroot {} holds what is not of {}:\n{}",
        root.display(),
        target.name,
        process::indented(&wrong.join("\n"))
    );
    Err(Failure::new(Kind::VerificationFailed, what).next(again(target)).into())
}

fn is_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.ends_with(".so") || file.contains(".so.")
}

fn again(target: &Target) -> String {
    format!("cargo xtask sysroot --target {} --renew", target.name)
}

/// Every file that the sysroot was made of is still there, and every library still the target's.
fn check_complete(folder: &Path, target: &Target) -> Result<()> {
    let list = folder.join("files.txt");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let root = folder.join("root");
    let gone: Vec<&str> = text.lines().filter(|name| fs::metadata(root.join(name)).is_err()).collect();
    if let Some(first) = gone.first() {
        let what = format!("the sysroot {} lacks {first} ({} files missing)", root.display(), gone.len());
        return Err(Failure::new(Kind::SysrootIncomplete, what).next(again(target)).into());
    }
    if fs::metadata(root.join(&target.elf.loader)).is_err() {
        let what = format!("the packages of {} hold no {}", target.name, target.elf.loader);
        return Err(Failure::new(Kind::SysrootIncomplete, what)
            .next(format!(
                "mend `loader` or `packages` in xtask/targets/{}.toml, then {}",
                target.name,
                again(target)
            ))
            .into());
    }
    let files: Vec<String> = text.lines().map(String::from).collect();
    check_libraries(&root, &files, target)
}

#[cfg(test)]
mod tests;
