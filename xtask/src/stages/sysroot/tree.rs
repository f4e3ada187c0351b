//! A sysroot's folder: what is kept of packages, links that stay inside, and the list of what belongs there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::debian::{self, Package};
use crate::interrupt;

/// What is kept of the packages: what compilers and loaders look at, and nothing that a program would open by an
/// absolute path (`/etc`, `/tmp`, `/usr/share`, …).
pub const KEPT: [&str; 4] = ["lib", "lib64", "usr/lib", "usr/include"];

/// Unpacks packages into `all`; their names and versions, sorted.
pub fn unpack(debs: &[PathBuf], all: &Path) -> Result<Vec<Package>> {
    fs::create_dir_all(all)?;
    let mut packages = Vec::new();
    for deb in debs {
        interrupt::check()?;
        debian::unpack(deb, all)?;
        packages.push(debian::package_of(deb)?);
    }
    packages.sort();
    Ok(packages)
}

/// Moves what is kept of `all` to `root`; each pair names a folder of `all` and where it comes to.
pub fn keep(all: &Path, root: &Path, folders: &[(String, String)]) -> Result<()> {
    for (from, to) in folders {
        let (from, to) = (all.join(from), root.join(to));
        if from.exists() {
            fs::create_dir_all(to.parent().unwrap_or(root))?;
            fs::rename(from, to)?;
        }
    }
    fs::remove_dir_all(all).with_context(|| format!("cannot remove {}", all.display()))
}

/// Every path below a folder that is not itself a folder.
pub fn walk(folder: &Path, each: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() { walk(&path, each)? } else { each(&path)? }
    }
    Ok(())
}

/// Makes absolute links relative; then drops links to what was not kept, and lists everything else.
pub fn settle(root: &Path) -> Result<Vec<String>> {
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
    fn folders_are_moved_to_where_they_belong_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let (all, root) = (folder.path().join("all"), folder.path().join("root"));
        for name in ["usr/x/lib", "usr/x/include", "etc"] {
            fs::create_dir_all(all.join(name)).unwrap();
        }
        fs::write(all.join("usr/x/lib/libc.so.6"), "").unwrap();
        let moves = [("usr/x/lib", "usr/lib/x"), ("usr/y", "usr/lib/y")];
        keep(&all, &root, &moves.map(|(from, to)| (from.to_string(), to.to_string()))).unwrap();
        assert!(root.join("usr/lib/x/libc.so.6").exists() && !root.join("usr/include").exists());
        assert!(!all.exists());
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
