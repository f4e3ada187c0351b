//! Some files of a release as it is shipped, and the names of all: enough to say what patches do, without the gigabyte
//! that a whole tree takes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Packed, unreadable};
use crate::home::Home;
use crate::stage::{Leftover, Stage};
use crate::stages::fetch::Archive;
use crate::{interrupt, ui};

/// Files of a release.
pub struct Originals {
    folder: PathBuf,
}

/// What the stamp keeps.
#[derive(Serialize, Deserialize)]
struct Taken {
    files: u64,
}

impl Originals {
    /// Takes the files of these paths out of a release's archive, those that are there; a path that ends with `/` is a
    /// folder with all that is in it.
    pub fn take(home: &Home, label: &str, archive: &Archive, paths: &BTreeSet<String>) -> Result<Self> {
        let stage = Stage { home, name: "originals", label: label.into(), leftover: Leftover::Discard };
        let done = stage.get(&(archive.sha256(), paths), |work| {
            ui::step(
                "read",
                &format!("{label}: {} that patches name", ui::counted(paths.len() as u64, "file")),
            );
            let (tree, names) = (work.join("tree"), work.join("names"));
            fs::create_dir_all(&tree)?;
            let (files, all) = take(archive.path(), paths, &tree)?;
            fs::write(&names, all.join("\n")).with_context(|| format!("cannot write {}", names.display()))?;
            Ok(Taken { files })
        })?;
        Ok(Originals { folder: done.folder })
    }

    /// The folder that stands for the source tree.
    pub fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Paths of the release whose file has the name of `path`'s: where it may have gone.
    pub fn namesakes(&self, path: &str) -> Result<Vec<String>> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let all = fs::read_to_string(self.folder.join("names"))?;
        let same = all.lines().filter(|known| known.rsplit('/').next() == Some(name) && *known != path);
        Ok(same.take(3).map(String::from).collect())
    }
}

/// Writes the wanted files below `tree`; how many there were, and the paths of all.
fn take(archive: &Path, wanted: &BTreeSet<String>, tree: &Path) -> Result<(u64, Vec<String>)> {
    let file = File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let mut reader = tar::Archive::new(Packed::of(archive)?.reader(file));
    let (mut files, mut names) = (0, Vec::new());
    for entry in reader.entries().map_err(|error| unreadable(archive, error))? {
        interrupt::check()?;
        let mut entry = entry.map_err(|error| unreadable(archive, error))?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let path = path.strip_prefix("./").unwrap_or(&path);
        // Below the archive's one top-level folder.
        let Some((_, path)) = path.split_once('/').filter(|(_, rest)| !rest.is_empty()) else { continue };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let in_folder =
            || wanted.iter().any(|known| known.ends_with('/') && path.starts_with(known.as_str()));
        if wanted.contains(path) || in_folder() {
            let to = tree.join(path);
            fs::create_dir_all(to.parent().unwrap_or(tree))?;
            io::copy(&mut entry, &mut File::create(&to)?).map_err(|error| unreadable(archive, error))?;
            files += 1;
        }
        names.push(path.to_string());
    }
    Ok((files, names))
}
