//! A tree with patches over it: worked out in memory, written only when all of them fit.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::apply::{self, Moved};
use super::diff::{Change, Diff, FileDiff};
use crate::failure::{Failure, Kind};

/// A tree and what patches made of its files.
pub struct Overlay {
    tree: PathBuf,
    /// By path; `None`: removed.
    changed: BTreeMap<String, Option<Vec<u8>>>,
}

/// What came of a patch.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is in; hunks that fit elsewhere than they were written for.
    Applied(Vec<Moved>),
    /// Every hunk of it is in the tree already.
    Already,
    /// It does not fit, and nothing of it is in.
    Conflicts(Vec<Problem>),
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The file of the tree.
    pub path: String,
    /// Line of the patch, from 1; 0 where the whole file is meant.
    pub patch_line: usize,
    /// Why.
    pub why: String,
}

impl Overlay {
    /// The tree as it is.
    pub fn of(tree: &Path) -> Self {
        Overlay { tree: tree.to_path_buf(), changed: BTreeMap::new() }
    }

    /// Applies a patch over those that are in: all of it, or nothing.
    pub fn apply(&mut self, diff: &Diff) -> Result<Outcome> {
        match self.work_out(&diff.files)? {
            Ok((changed, moved)) => {
                self.changed.extend(changed);
                Ok(Outcome::Applied(moved))
            }
            Err(problems) => {
                let reversed: Vec<FileDiff> = diff.files.iter().map(FileDiff::reversed).collect();
                let undone = self.work_out(&reversed)?;
                Ok(if undone.is_ok() { Outcome::Already } else { Outcome::Conflicts(problems) })
            }
        }
    }

    #[allow(clippy::type_complexity)]
    fn work_out(
        &self,
        files: &[FileDiff],
    ) -> Result<std::result::Result<(BTreeMap<String, Option<Vec<u8>>>, Vec<Moved>), Vec<Problem>>> {
        let (mut changed, mut all_moved, mut problems) = (BTreeMap::new(), Vec::new(), Vec::new());
        for file in files {
            let mut problem = |patch_line, why: &str| {
                problems.push(Problem { path: file.path.clone(), patch_line, why: why.to_string() });
            };
            // A patch may change a file twice.
            let before = match changed.get(&file.path) {
                Some(known) => Clone::clone(known),
                None => self.read(&file.path)?,
            };
            match (file.change, before) {
                (Change::Made, Some(_)) => problem(0, "it is to be made, but is there"),
                (Change::Changed | Change::Removed, None) => problem(0, "it is not there"),
                (change, before) => match apply::apply(file, &before.unwrap_or_default()) {
                    Err(misfits) => misfits.iter().for_each(|misfit| problem(misfit.patch_line, &misfit.why)),
                    Ok((rest, _)) if change == Change::Removed && !rest.is_empty() => {
                        problem(0, "it is to go, but holds more than the patch knows")
                    }
                    Ok((after, moved)) => {
                        all_moved.extend(moved);
                        changed.insert(file.path.clone(), (change != Change::Removed).then_some(after));
                    }
                },
            }
        }
        Ok(if problems.is_empty() { Ok((changed, all_moved)) } else { Err(problems) })
    }

    /// A file as it is with the patches so far; `None`: not there.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        if let Some(known) = self.changed.get(path) {
            return Ok(known.clone());
        }
        let file = self.tree.join(path);
        match fs::read(&file) {
            Ok(bytes) => {
                self.inside(&file)?;
                Ok(Some(bytes))
            }
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                // A file that is to be made there must not come to lie elsewhere either.
                let near = file.ancestors().find(|place| place.exists()).unwrap_or(&self.tree);
                self.inside(near)?;
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// A link in the tree must not lead a patch out of it.
    fn inside(&self, file: &Path) -> Result<()> {
        if file.canonicalize()?.starts_with(self.tree.canonicalize()?) {
            return Ok(());
        }
        let what = format!("{} leads out of the source tree", file.display());
        Err(Failure::new(Kind::StageFailed, what)
            .next("mend the patch: it must name files of the tree")
            .into())
    }

    /// The paths of the files that differ from the tree's.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.changed.keys().map(String::as_str)
    }

    /// Writes what has changed, and reads each file back. Nothing is written where a file may not be.
    pub fn write(&self) -> Result<()> {
        for path in self.changed.keys() {
            self.writable(path)?;
        }
        for (path, bytes) in &self.changed {
            let file = self.tree.join(path);
            match bytes {
                None => {
                    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?
                }
                Some(bytes) => {
                    write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?
                }
            }
            let now = Overlay::of(&self.tree).read(path)?;
            if now != *bytes {
                let what = format!("{} was written, but holds something else", file.display());
                return Err(Failure::new(Kind::StageFailed, what).next("look at the disk; try again").into());
            }
        }
        Ok(())
    }

    fn writable(&self, path: &str) -> Result<()> {
        let file = self.tree.join(path);
        let there = file.ancestors().find(|place| place.exists()).unwrap_or(&self.tree);
        if !there.metadata()?.permissions().readonly() {
            return Ok(());
        }
        let what = format!("{} may not be written; nothing was changed", there.display());
        Err(Failure::new(Kind::StageFailed, what).next("make it writable, or use a copy").into())
    }
}

/// Writes a file in one go; it keeps its mode.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    aside.write_all(bytes)?;
    let mode = match fs::metadata(file) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    aside.as_file().set_permissions(mode)?;
    aside.persist(file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::diff::parse;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = folder.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    fn change(path: &str, from: &str, to: &str) -> String {
        format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{from}\n+{to}\n")
    }

    fn diff(text: &str) -> Diff {
        parse(Path::new("p"), text.as_bytes()).unwrap()
    }

    #[test]
    fn patches_lie_one_over_the_other_and_are_written_together() {
        let folder = tree(&[("sub/a", "1\n"), ("gone", "x\n")]);
        let mut overlay = Overlay::of(folder.path());
        let first = change("sub/a", "1", "2") + "--- /dev/null\n+++ b/new/n\n@@ -0,0 +1 @@\n+n\n";
        let second = change("sub/a", "2", "3") + "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
        for text in [&first, &second] {
            assert_eq!(overlay.apply(&diff(text)).unwrap(), Outcome::Applied(vec![]));
        }
        assert_eq!(fs::read_to_string(folder.path().join("sub/a")).unwrap(), "1\n", "nothing is written yet");
        overlay.write().unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("sub/a")).unwrap(), "3\n");
        assert_eq!(fs::read_to_string(folder.path().join("new/n")).unwrap(), "n\n");
        assert!(!folder.path().join("gone").exists());
        assert_eq!(
            Overlay::of(folder.path()).apply(&diff(&change("sub/a", "2", "3"))).unwrap(),
            Outcome::Already
        );
    }

    #[test]
    fn a_patch_of_which_one_file_does_not_fit_is_not_in_at_all() {
        let folder = tree(&[("a", "1\n"), ("b", "1\n")]);
        let mut overlay = Overlay::of(folder.path());
        let text = change("a", "1", "2") + &change("b", "9", "2") + &change("c", "1", "2");
        let Outcome::Conflicts(problems) = overlay.apply(&diff(&text)).unwrap() else { panic!() };
        let told: Vec<_> = problems.iter().map(|p| (p.path.as_str(), p.patch_line, p.why.as_str())).collect();
        assert_eq!(
            told,
            [("b", 8, "its lines are not there: line 1 is `1`, not `9`"), ("c", 0, "it is not there"),]
        );
        assert_eq!(overlay.paths().count(), 0);
    }

    #[test]
    fn a_file_that_may_not_be_written_is_told_before_anything_is() {
        let folder = tree(&[("a", "1\n"), ("b", "1\n")]);
        let locked = folder.path().join("b");
        let mut mode = fs::metadata(&locked).unwrap().permissions();
        mode.set_readonly(true);
        fs::set_permissions(&locked, mode).unwrap();
        let mut overlay = Overlay::of(folder.path());
        overlay.apply(&diff(&(change("a", "1", "2") + &change("b", "1", "2")))).unwrap();
        let message = overlay.write().unwrap_err().to_string();
        assert!(message.contains("b may not be written; nothing was changed"), "{message}");
        assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "1\n");
    }

    #[test]
    fn a_link_does_not_lead_out_of_the_tree() {
        let outside = tree(&[("secret", "1\n")]);
        let folder = tree(&[("a", "1\n")]);
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        let made = "--- /dev/null\n+++ b/link/new\n@@ -0,0 +1 @@\n+n\n".to_string();
        for text in [change("link/secret", "1", "2"), made] {
            let result = Overlay::of(folder.path()).apply(&diff(&text));
            assert!(result.unwrap_err().to_string().contains("leads out of the source tree"));
        }
    }

    #[test]
    fn a_folder_beneath_somebodys_repository_is_like_any_other() {
        let folder = tree(&[("outer/tree/a", "1\n"), ("outer/.git/HEAD", "ref: refs/heads/main\n")]);
        let tree = folder.path().join("outer/tree");
        let mut overlay = Overlay::of(&tree);
        overlay.apply(&diff(&change("a", "1", "2"))).unwrap();
        overlay.write().unwrap();
        assert_eq!(fs::read_to_string(tree.join("a")).unwrap(), "2\n");
        let names: Vec<_> = fs::read_dir(&tree).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["a"], "no litter");
    }
}
