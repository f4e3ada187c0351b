//! The ordered patches of a release, and how they come into its tree: all of them, exactly, or none.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind};
use crate::process;
use crate::stage::hex;

/// The patches that a release's `series` names.
#[derive(Clone, Debug, Default)]
pub struct Series {
    folder: PathBuf,
    patches: Vec<Patch>,
}

/// One patch: what a source tree depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Patch {
    /// Its file's name.
    pub name: String,
    /// SHA-256 of its file.
    pub sha256: String,
}

impl Series {
    /// Reads `series` in `folder` and each patch that it names; a folder without one has no patches.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("series");
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Series::default()),
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let mut patches = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let name = line.trim();
            if name.is_empty() || name.starts_with('#') {
                continue;
            }
            let bytes = fs::read(folder.join(name)).map_err(|error| {
                let what = format!("{}:{}: cannot read {name}: {error}", file.display(), number + 1);
                Failure::new(Kind::StageFailed, what).next("mend the series, or add the patch")
            })?;
            patches.push(Patch { name: name.to_string(), sha256: hex(&Sha256::digest(&bytes)) });
        }
        Ok(Series { folder: folder.to_path_buf(), patches })
    }

    /// The patches in their order.
    pub fn patches(&self) -> &[Patch] {
        &self.patches
    }

    /// Applies all of them to `tree`, which is thrown away by the caller where one fails.
    ///
    /// `git apply` knows no fuzz; a hunk that has moved is found by its whole context.
    pub fn apply(&self, tree: &Path) -> Result<()> {
        for patch in &self.patches {
            let file = self.folder.join(&patch.name);
            let touched = touched(tree, &file)?;
            let before = hashes(tree, &touched)?;
            process::output(git(tree, &["apply", "--whitespace=nowarn"], &file)).map_err(|error| {
                let what = format!("{} does not apply: {error:#}", file.display());
                Failure::new(Kind::StageFailed, what).next("mend the patch, or take it out of the series")
            })?;
            // Beneath somebody's repository git skips files without a word: it must have changed each.
            let after = hashes(tree, &touched)?;
            let same = touched.iter().find(|name| before.get(*name) == after.get(*name));
            if touched.is_empty() || same.is_some() {
                let which = same.map_or("it names no file".into(), |name| format!("{name} did not change"));
                let what = format!("{} came to nothing: {which}", file.display());
                return Err(Failure::new(Kind::StageFailed, what).next("mend the patch").into());
            }
        }
        Ok(())
    }
}

/// `git` on a patch, which takes `tree` for no part of a repository and no setting from anybody.
fn git(tree: &Path, arguments: &[&str], patch: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(tree).args(arguments).arg(patch);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    command
}

/// The files that a patch changes, adds or removes.
fn touched(tree: &Path, patch: &Path) -> Result<Vec<String>> {
    let text = process::output(git(tree, &["apply", "--numstat", "-z"], patch)).map_err(|error| {
        Failure::new(Kind::StageFailed, format!("{} is no patch: {error:#}", patch.display()))
            .next("mend the patch")
    })?;
    let names = text.split('\0').filter_map(|entry| entry.rsplit('\t').next());
    Ok(names.filter(|name| !name.trim().is_empty()).map(String::from).collect())
}

fn hashes(tree: &Path, names: &[String]) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for name in names {
        match fs::read(tree.join(name)) {
            Ok(bytes) => all.insert(name.clone(), hex(&Sha256::digest(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        };
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::kind_of;

    const PATCH: &str =
        "Description: x\n---\n--- a/sub/file\n+++ b/sub/file\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

    /// A tree with one file, beneath somebody's repository, and a series of these patches.
    fn laid_out(patches: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let init = Command::new("git").args(["init", "-q"]).arg(folder.path()).status().unwrap();
        assert!(init.success());
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/file"), "one\ntwo\nthree\n").unwrap();
        let series: String = patches.iter().map(|(name, _)| format!("{name}\n")).collect();
        fs::write(folder.path().join("series"), format!("# ours\n\n{series}")).unwrap();
        for (name, text) in patches {
            fs::write(folder.path().join(name), text).unwrap();
        }
        (folder, tree)
    }

    #[test]
    fn a_series_is_applied_in_order_also_beneath_a_repository() {
        let second = PATCH.replace("-two", "-2").replace("+2", "+zwei");
        let (folder, tree) = laid_out(&[("0001-a.patch", PATCH), ("0002-b.patch", &second)]);
        let series = Series::read(folder.path()).unwrap();
        assert_eq!(series.patches().len(), 2);
        series.apply(&tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("sub/file")).unwrap(), "one\nzwei\nthree\n");
    }

    #[test]
    fn a_patch_that_fits_only_with_fuzz_is_refused_with_its_name() {
        let (folder, tree) = laid_out(&[("0001-a.patch", &PATCH.replace(" three", " four"))]);
        let series = Series::read(folder.path()).unwrap();
        let error = series.apply(&tree).unwrap_err();
        assert_eq!(kind_of(&error), Some(Kind::StageFailed));
        assert!(format!("{error:#}").contains("0001-a.patch does not apply"), "{error:#}");
    }

    #[test]
    fn a_patch_that_is_none_and_one_that_is_missing_are_named() {
        let (folder, tree) = laid_out(&[("0001-a.patch", "no patch\n")]);
        let series = Series::read(folder.path()).unwrap();
        let message = series.apply(&tree).unwrap_err().to_string();
        assert!(message.contains("0001-a.patch"), "{message}");
        fs::write(folder.path().join("series"), "# one\n0009-gone.patch\n").unwrap();
        let message = Series::read(folder.path()).unwrap_err().to_string();
        assert!(message.contains("series:2: cannot read 0009-gone.patch"), "{message}");
    }

    #[test]
    fn no_series_is_no_patch() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Series::read(folder.path()).unwrap().patches().is_empty());
    }
}
