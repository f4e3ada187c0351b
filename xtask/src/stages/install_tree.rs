//! The install tree: a product's programs and files for a target, wherever they came from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::record::BundleFacts;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stages::toolchain::Toolchain;
use crate::tables::product::Install;

/// A product, installed into a folder, with all that is known of its making.
#[derive(Clone, Debug)]
pub struct InstallTree {
    pub(super) folder: PathBuf,
    pub(super) key: String,
    pub(super) library_folders: Vec<PathBuf>,
    pub(super) develop: Option<PathBuf>,
    pub(super) facts: BundleFacts,
    /// What stands beside it in its bundle.
    pub(super) joined: Vec<InstallTree>,
}

impl InstallTree {
    /// No product: for a load generator alone.
    pub fn empty(home: &Home, toolchain: &Toolchain) -> Result<Self> {
        let folder = home.folder("installs")?.join("empty");
        fs::create_dir_all(&folder)?;
        Ok(InstallTree {
            folder,
            key: toolchain.native_key().to_string(),
            library_folders: toolchain.sysroot().library_folders(),
            develop: None,
            facts: BundleFacts {
                product: "bench-suite".into(),
                origin: "source".into(),
                ..BundleFacts::default()
            },
            joined: Vec::new(),
        })
    }

    /// With other products' trees, which go into the same bundle.
    pub fn joined(mut self, others: Vec<InstallTree>) -> Self {
        for other in others {
            self.key = format!("{}+{}", self.key, other.key);
            self.library_folders.extend(other.library_folders.iter().cloned());
            self.facts.parts.push(format!("{} {} {}", other.facts.product, other.facts.release, other.key));
            self.joined.push(other);
        }
        self
    }

    /// Every folder that a bundle is made of.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self).chain(&self.joined).map(|tree| tree.folder.as_path())
    }

    /// Hash of all that it was made of.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Where the libraries that it needs are found.
    pub fn library_folders(&self) -> &[PathBuf] {
        &self.library_folders
    }

    /// What programs are compiled against; `None` where the product has nothing of the kind.
    pub fn develop(&self) -> Option<&Path> {
        self.develop.as_deref()
    }

    /// What is known of its making; `hash` and `elf` are the bundle's to fill in.
    pub fn facts(&self) -> &BundleFacts {
        &self.facts
    }
}

/// Copies what a product's table lists; `places` are what `{name}` in `from` stands for, `""` what stands before a
/// path without one.
pub fn install(list: &[Install], places: &[(&str, &Path)], to: &Path) -> Result<()> {
    for entry in list {
        let mut from = resolve(&entry.from, places)?;
        if let (false, Some(other)) = (from.exists(), &entry.or) {
            from = resolve(other, places)?;
        }
        let target = to.join(&entry.to);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        if !from.exists() {
            let what = format!(
                "`{}` was to be installed as `{}`, but there is no {}",
                entry.from,
                entry.to,
                from.display()
            );
            return Err(Failure::new(Kind::StageFailed, what)
                .next("mend `install` in the product's file")
                .into());
        }
        copy(&from, &target)?;
    }
    Ok(())
}

fn resolve(from: &str, places: &[(&str, &Path)]) -> Result<PathBuf> {
    let place = |name: &str| places.iter().find(|(known, _)| *known == name).map(|(_, path)| *path);
    let found = match from.strip_prefix('{').and_then(|rest| rest.split_once("}/")) {
        Some((name, rest)) => place(name).map(|path| path.join(rest)),
        None => place("").map(|path| path.join(from)),
    };
    found.with_context(|| format!("`{from}` begins with a place that is not known here"))
}

/// Copies a file or a folder; links are followed, modes kept.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in() {
        let places = [("build", Path::new("/b")), ("", Path::new("/p"))];
        assert_eq!(resolve("{build}/sql/x", &places).unwrap(), Path::new("/b/sql/x"));
        assert_eq!(resolve("usr/sbin/x", &places).unwrap(), Path::new("/p/usr/sbin/x"));
        assert!(resolve("{source}/x", &places).is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let list = [Install { from: "gone".into(), or: None, to: "bin/gone".into() }];
        let message = install(&list, &[("", folder.path())], folder.path()).unwrap_err().to_string();
        assert!(message.contains("`gone` was to be installed as `bin/gone`"), "{message}");
    }

    #[test]
    fn another_releases_place_is_taken_where_the_first_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), "old").unwrap();
        let list = [Install { from: "new".into(), or: Some("old".into()), to: "to".into() }];
        let copied = || {
            install(&list, &[("", folder.path())], folder.path()).unwrap();
            fs::read_to_string(folder.path().join("to")).unwrap()
        };
        assert_eq!(copied(), "old");
        fs::write(folder.path().join("new"), "new").unwrap();
        assert_eq!(copied(), "new");
    }
}
