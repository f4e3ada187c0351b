//! The modules of a distribution's kernel: which ones are needed, and in which order they are loaded.
//!
//! A package holds no list of dependencies: that is made when it is installed. Each module tells its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

use crate::failure::{Failure, Kind};

/// What a kernel's folder of modules offers.
pub struct Modules {
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Modules {
    /// Those below a folder `lib/modules/VERSION`.
    pub fn below(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        walk(folder, &mut files)?;
        let list = folder.join("modules.builtin");
        let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let builtin = text.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Ok(Modules { files, builtin })
    }

    /// The files of the wanted modules and of all that they depend on, each behind what it depends on.
    pub fn in_order(&self, wanted: &[String]) -> Result<Vec<PathBuf>> {
        let depends = |name: &str| match self.files.get(name) {
            Some(file) => Ok(Some(depends(file)?)),
            None if self.builtin.contains(name) => Ok(None),
            None => {
                let what = format!("the kernel has no module `{name}`, and it is not built in");
                Err(Failure::new(Kind::StageFailed, what)
                    .next("mend `modules` of this kernel in the target's file")
                    .into())
            }
        };
        let names = order(wanted, depends)?;
        Ok(names.iter().filter_map(|name| self.files.get(name).cloned()).collect())
    }
}

/// Names in the order of their loading. `depends` is `None` for what is built in.
fn order(wanted: &[String], depends: impl Fn(&str) -> Result<Option<Vec<String>>>) -> Result<Vec<String>> {
    let mut done = Vec::new();
    // What waits for its dependencies stands in the stack below them.
    let mut stack: Vec<(String, bool)> = wanted.iter().rev().map(|name| (plain(name), false)).collect();
    let mut open = BTreeSet::new();
    while let Some((name, ready)) = stack.pop() {
        if done.contains(&name) {
            continue;
        }
        if ready {
            open.remove(&name);
            done.push(name);
            continue;
        }
        let Some(before) = depends(&name)? else { continue };
        anyhow::ensure!(open.insert(name.clone()), "the kernel's module {name} depends on itself");
        stack.push((name, true));
        stack.extend(before.iter().rev().map(|name| (plain(name), false)));
    }
    Ok(done)
}

/// The kernel takes `-` and `_` for the same.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn name_of(file: &Path) -> Option<String> {
    Some(plain(file.file_name()?.to_str()?.strip_suffix(".ko")?))
}

fn walk(folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, found)?;
        } else if let Some(name) = name_of(&path) {
            found.insert(name, path);
        }
    }
    Ok(())
}

/// What a module says that it depends on.
fn depends(file: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let cannot = || format!("{} is no kernel module", file.display());
    let elf = object::File::parse(&*bytes).with_context(cannot)?;
    let section = elf.section_by_name(".modinfo").with_context(cannot)?;
    Ok(depends_in(section.data().with_context(cannot)?))
}

/// The dependencies in a module's information: `key=value`, each ended by a zero.
fn depends_in(information: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(information);
    let list = text.split('\0').find_map(|pair| pair.strip_prefix("depends="));
    let names = list.unwrap_or_default().split(',').filter(|name| !name.is_empty());
    names.map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(wanted: &[&str], table: &[(&str, &[&str])]) -> Result<Vec<String>> {
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        order(&wanted, |name| {
            let found = table.iter().find(|(known, _)| *known == name);
            Ok(found.map(|(_, before)| before.iter().map(|name| name.to_string()).collect()))
        })
    }

    #[test]
    fn a_module_comes_behind_what_it_depends_on_and_once() {
        let table: [(&str, &[&str]); 6] = [
            ("virtio", &[]),
            ("virtio_ring", &["virtio"]),
            ("virtio_pci", &["virtio-ring", "virtio"]),
            ("virtio_blk", &["virtio_ring", "virtio"]),
            ("jbd2", &["builtin"]),
            ("ext4", &["jbd2"]),
        ];
        let found = loaded(&["virtio_pci", "virtio-blk", "ext4"], &table).unwrap();
        assert_eq!(found, ["virtio", "virtio_ring", "virtio_pci", "virtio_blk", "jbd2", "ext4"]);
    }

    #[test]
    fn what_is_wanted_first_is_loaded_first() {
        let table: [(&str, &[&str]); 3] = [("crc", &[]), ("ext4", &["jbd2"]), ("jbd2", &[])];
        assert_eq!(loaded(&["crc", "ext4"], &table).unwrap(), ["crc", "jbd2", "ext4"]);
    }

    #[test]
    fn a_circle_is_an_error_and_no_endless_loop() {
        let table: [(&str, &[&str]); 2] = [("a", &["b"]), ("b", &["a"])];
        assert!(loaded(&["a"], &table).unwrap_err().to_string().contains("depends on itself"));
    }

    #[test]
    fn dependencies_are_read_from_the_modules_information() {
        assert_eq!(depends_in(b"license=GPL\0depends=jbd2,mbcache\0name=ext4\0"), ["jbd2", "mbcache"]);
        assert_eq!(depends_in(b"license=GPL\0depends=\0"), Vec::<String>::new());
        assert_eq!(depends_in(b"license=GPL\0"), Vec::<String>::new());
    }
}
