//! The ordered patches of a release, as its file `series` has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::diff::{self, Diff};
use super::header::{self, Complaint, Header};
use super::selection::Selection;
use crate::failure::{Failure, Kind};
use crate::home::repository;
use crate::stage::hex;
use crate::tables::target::Target;

/// The patches that a release's `series` names.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The folder of the release.
    pub folder: PathBuf,
    /// The patches in their order.
    pub patches: Vec<Patch>,
}

/// One patch of a series.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Its file's name.
    pub name: String,
    /// Its file, which may be another release's.
    pub file: PathBuf,
    /// Why another release's file fits; `None` where it is this release's own.
    pub shared: Option<String>,
    /// SHA-256 of its file.
    pub sha256: String,
    /// What it says of itself.
    pub header: Header,
    /// What is wrong with that.
    pub complaints: Vec<Complaint>,
    /// What it does.
    pub diff: Diff,
}

/// What a tree depends on.
#[derive(Serialize)]
pub struct Identity<'a> {
    name: &'a str,
    sha256: &'a str,
}

impl Series {
    /// The series of a release; `source`: the name of the product whose source it is.
    pub fn of(source: &str, release: &str) -> Result<Self> {
        Self::read(&folder(source, release))
    }

    /// Reads `series` in `folder` and each patch that it names; a folder without one has no patches.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join("series");
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Series { folder: folder.to_path_buf(), patches: Vec::new() });
            }
            text => text.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let targets = Target::names()?;
        let mut patches: Vec<Patch> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let (entry, reason) = line.split_once('#').unwrap_or((line, ""));
            let (entry, reason) = (entry.trim(), reason.trim());
            if entry.is_empty() {
                continue;
            }
            let wrong = |what: String, next: &str| {
                let what = format!("{}:{}: {what}", file.display(), number + 1);
                Failure::new(Kind::Usage, what).next(next)
            };
            let shared = shared(entry, reason).map_err(|what| wrong(what, "mend the series"))?;
            let patch = Patch::read(&folder.join(entry), shared, &targets).map_err(|error| {
                wrong(format!("cannot read {entry}: {error:#}"), "mend the series, or add the patch")
            })?;
            if patches.iter().any(|known| known.name == patch.name) {
                return Err(wrong(format!("{} stands there twice", patch.name), "mend the series").into());
            }
            patches.push(patch);
        }
        Ok(Series { folder: folder.to_path_buf(), patches })
    }

    /// Those that are chosen and concern a target.
    pub fn chosen(mut self, selection: &Selection, target: &str) -> Result<Self> {
        selection.check(&self.names())?;
        self.patches.retain(|patch| selection.takes(&patch.name) && patch.header.concerns(target));
        Ok(self)
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<String> {
        self.patches.iter().map(|patch| patch.name.clone()).collect()
    }

    /// What a tree with these patches depends on.
    pub fn identity(&self) -> Vec<Identity<'_>> {
        self.patches.iter().map(|patch| Identity { name: &patch.name, sha256: &patch.sha256 }).collect()
    }
}

/// Where the patches of a release are: in the checkout, or where `$PORTBENCH_PATCHES` says.
pub fn folder(source: &str, release: &str) -> PathBuf {
    let elsewhere =
        std::env::var_os("PORTBENCH_PATCHES").filter(|value| !value.is_empty()).map(PathBuf::from);
    elsewhere.unwrap_or_else(|| repository().join("patches")).join(source).join(release)
}

/// Why an entry that is another release's file stands in this series.
fn shared(entry: &str, reason: &str) -> Result<Option<String>, String> {
    let Some((folder, _)) = entry.rsplit_once('/') else { return Ok(None) };
    match folder.strip_prefix("../").filter(|release| !release.contains('/') && !release.contains("..")) {
        None => {
            Err(format!("{entry}: a patch is in this folder, or in that of another release, ../RELEASE/NAME"))
        }
        Some(_) if reason.is_empty() => {
            Err(format!("{entry} is another release's: say behind a `#` why it fits this one as well"))
        }
        Some(_) => Ok(Some(reason.to_string())),
    }
}

impl Patch {
    /// Reads a patch's file.
    pub fn read(file: &Path, shared: Option<String>, targets: &[String]) -> Result<Self> {
        let bytes = fs::read(file)?;
        let diff = diff::parse(file, &bytes)?;
        let (header, complaints) = header::read(&diff.header, targets);
        Ok(Patch {
            name: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            file: file.to_path_buf(),
            shared,
            sha256: hex(&Sha256::digest(&bytes)),
            header,
            complaints,
            diff,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Description: x\nAuthor: a\nForwarded: no\nLast-Update: 2026-11-30\n---\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n";

    fn read(series: &str, others: &[(&str, &str)]) -> Result<Series> {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join("2");
        fs::create_dir(&release).unwrap();
        fs::create_dir(folder.path().join("1")).unwrap();
        fs::write(release.join("series"), series).unwrap();
        for (name, text) in others {
            fs::write(release.join(name), text).unwrap();
        }
        Series::read(&release)
    }

    #[test]
    fn order_is_that_of_the_file_and_a_shared_patch_needs_a_reason() {
        let patches = [("0002-b.patch", PATCH), ("../1/0001-a.patch", PATCH)];
        let series = read("# ours\n\n0002-b.patch\n../1/0001-a.patch # same lines\n", &patches).unwrap();
        assert_eq!(series.names(), ["0002-b.patch", "0001-a.patch"]);
        assert_eq!(series.patches[1].shared.as_deref(), Some("same lines"));
        assert!(series.patches.iter().all(|patch| patch.complaints.is_empty()));
        let message = read("../1/0001-a.patch\n", &patches).unwrap_err().to_string();
        assert!(message.contains("series:1: ../1/0001-a.patch is another release's: say"), "{message}");
    }

    #[test]
    fn what_is_missing_twice_or_elsewhere_is_told_with_its_line() {
        for (text, said) in [
            ("# one\n0009-gone.patch\n", "series:2: cannot read 0009-gone.patch"),
            ("0001-a.patch\n0001-a.patch\n", "series:2: 0001-a.patch stands there twice"),
            ("../../x/0001-a.patch # why\n", "series:1: ../../x/0001-a.patch: a patch is in this folder"),
        ] {
            let message = read(text, &[("0001-a.patch", PATCH)]).unwrap_err().to_string();
            assert!(message.contains(said), "{said}: {message}");
        }
        let message = read("0001-a.patch\n", &[("0001-a.patch", "no patch\n")]).unwrap_err().to_string();
        assert!(message.contains("it changes no file"), "{message}");
        assert!(Series::read(Path::new("/nowhere")).unwrap().patches.is_empty());
    }

    #[test]
    fn every_patch_of_the_repository_says_what_it_is_and_stands_in_its_series() {
        let below = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let products = below(&repository().join("patches")).into_iter().filter(|path| path.is_dir());
        let mut seen = 0;
        for release in products.flat_map(|product| below(&product)) {
            let series = Series::read(&release).unwrap();
            for patch in &series.patches {
                assert!(patch.complaints.is_empty(), "{}: {:?}", patch.file.display(), patch.complaints);
            }
            for file in
                below(&release).into_iter().filter(|file| file.extension().is_some_and(|e| e == "patch"))
            {
                let listed = series
                    .patches
                    .iter()
                    .any(|patch| patch.shared.is_none() && release.join(&patch.name) == file);
                assert!(listed, "{} stands in no series", file.display());
                seen += 1;
            }
        }
        assert!(seen > 0);
    }

    #[test]
    fn a_patch_for_some_targets_is_left_out_for_others() {
        let bounded = PATCH.replace("Forwarded", "X-Targets: ppc64\nForwarded");
        let patches = [("0001-a.patch", PATCH), ("0002-b.patch", bounded.as_str())];
        let series = read("0001-a.patch\n0002-b.patch\n", &patches).unwrap();
        let chosen = |target| series.clone().chosen(&Selection::ALL, target).unwrap().names();
        assert_eq!(chosen("x86_64"), ["0001-a.patch"]);
        assert_eq!(chosen("ppc64").len(), 2);
    }
}
