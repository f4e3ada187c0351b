//! The sysroot: the target's headers and libraries in a folder, from signed packages, without root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::debian::{self, AptRoot, Package};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage};
use crate::tables::target::{self, Target};
use crate::{interrupt, ui};

/// Raised when this file makes another sysroot of the same packages.
const RECIPE: u32 = 1;
const STAGE: &str = "sysroots";

/// What is kept of the packages: what compilers and loaders look at, and nothing that a program would open by an
/// absolute path (`/etc`, `/tmp`, `/usr/share`, …).
const KEPT: [&str; 4] = ["lib", "lib64", "usr/lib", "usr/include"];

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

    /// The packages it is made of.
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
    let target::Sysroot::Debian { multiarch, .. } = &target.sysroot;
    let stage = Stage { home, name: STAGE, label: target.name.clone(), leftover: Leftover::Discard };
    let Some((folder, receipt)) = stage.peek::<Receipt>(&(&target.sysroot, RECIPE))? else { return Ok(None) };
    check_complete(&folder, target)?;
    Ok(Some(Sysroot { root: folder.join("root"), packages: receipt.packages, multiarch: multiarch.clone() }))
}

/// Finds the target's sysroot, or makes it. `renew` makes it anew from today's packages.
pub fn make(home: &Home, target: &Target, renew: bool) -> Result<Sysroot> {
    let target::Sysroot::Debian { architecture, suites, packages, .. } = &target.sysroot;
    let stage = || Stage { home, name: STAGE, label: target.name.clone(), leftover: Leftover::Discard };
    let inputs = (&target.sysroot, RECIPE);
    if renew {
        stage().forget(&inputs)?;
    }
    stage().get(&inputs, |work| {
        ui::step("sysroot", &format!("{} from {} packages of {architecture}", target.name, packages.len()));
        home.need_space(1 << 30, "a sysroot")?;
        let files = AptRoot::open(home, architecture, suites)?.download_closure(packages)?;
        fill(work, &files)
    })?;
    found(home, target)?.context("the sysroot that was just made is gone")
}

/// Unpacks the packages and keeps what belongs into a sysroot.
fn fill(work: &Path, debs: &[PathBuf]) -> Result<Receipt> {
    let (all, root) = (work.join("all"), work.join("root"));
    fs::create_dir_all(&all)?;
    let mut packages = Vec::new();
    for deb in debs {
        interrupt::check()?;
        debian::unpack(deb, &all)?;
        packages.push(debian::package_of(deb)?);
    }
    packages.sort();
    for kept in KEPT {
        if all.join(kept).exists() {
            let to = root.join(kept);
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::rename(all.join(kept), to)?;
        }
    }
    fs::remove_dir_all(&all)?;
    let files = settle(&root)?;
    fs::write(work.join("files.txt"), files.join("\n") + "\n")?;
    let names: Vec<String> = packages.iter().map(Package::to_string).collect();
    fs::write(work.join("packages.txt"), names.join("\n") + "\n")?;
    Ok(Receipt { packages })
}

/// Every path below a folder that is not itself a folder.
fn walk(folder: &Path, each: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() { walk(&path, each)? } else { each(&path)? }
    }
    Ok(())
}

/// Makes absolute links relative; then drops links to what was not kept, and lists everything else.
fn settle(root: &Path) -> Result<Vec<String>> {
    walk(root, &mut |path| {
        if let Ok(to) = fs::read_link(path)
            && to.is_absolute()
        {
            fs::remove_file(path)?;
            symlink(relative_link(path.strip_prefix(root)?, &to), path)?;
        }
        Ok(())
    })?;
    let mut files = Vec::new();
    walk(root, &mut |path| {
        if path.exists() {
            files.push(path.strip_prefix(root)?.display().to_string());
        } else {
            fs::remove_file(path)?;
        }
        Ok(())
    })?;
    files.sort();
    Ok(files)
}

/// The relative form of an absolute link that stands at `link` (relative to the root).
fn relative_link(link: &Path, to: &Path) -> PathBuf {
    let depth = link.components().count().saturating_sub(1);
    let mut relative: PathBuf = std::iter::repeat_n(Component::ParentDir, depth).collect();
    relative.extend(to.components().filter(|part| *part != Component::RootDir));
    relative
}

/// Every file that the sysroot was made of is still there.
fn check_complete(folder: &Path, target: &Target) -> Result<()> {
    let again = format!("cargo xtask sysroot --target {} --renew", target.name);
    let list = folder.join("files.txt");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let root = folder.join("root");
    let gone: Vec<&str> = text.lines().filter(|name| fs::metadata(root.join(name)).is_err()).collect();
    if let Some(first) = gone.first() {
        let what = format!("the sysroot {} lacks {first} ({} files missing)", root.display(), gone.len());
        return Err(Failure::new(Kind::SysrootIncomplete, what).next(again).into());
    }
    if fs::metadata(root.join(&target.elf.loader)).is_err() {
        let what = format!("the packages of {} hold no {}", target.name, target.elf.loader);
        return Err(Failure::new(Kind::SysrootIncomplete, what)
            .next(format!("mend `loader` or `packages` in xtask/targets/{}.toml, then {again}", target.name))
            .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_become_relative_to_where_they_stand() {
        let link =
            relative_link(Path::new("lib64/ld64.so.2"), Path::new("/lib/powerpc64le-linux-gnu/ld64.so.2"));
        assert_eq!(link, Path::new("../lib/powerpc64le-linux-gnu/ld64.so.2"));
    }

    #[test]
    fn nothing_that_a_program_opens_by_absolute_path_is_kept() {
        for kept in KEPT {
            assert!(!["etc", "tmp", "var", "run", "usr/share", "usr/bin", "bin"].contains(&kept));
        }
    }

    #[test]
    fn a_tree_is_listed_without_dangling_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("lib/x")).unwrap();
        fs::write(root.join("lib/x/libc.so.6"), "").unwrap();
        fs::create_dir_all(root.join("lib64")).unwrap();
        symlink("/lib/x/libc.so.6", root.join("lib64/good")).unwrap();
        symlink("/usr/bin/gone", root.join("lib64/dangling")).unwrap();
        assert_eq!(settle(root).unwrap(), ["lib/x/libc.so.6", "lib64/good"]);
        assert_eq!(fs::read_link(root.join("lib64/good")).unwrap(), Path::new("../lib/x/libc.so.6"));
    }
}
