//! Writing a release's patches: files whole or not at all, the series last.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::diff;
use super::series::{Patch, Series};
use super::tree::Commit;
use crate::failure::{Failure, Kind};

/// A patch that is to be in a series.
pub struct Entry {
    /// How the series names it.
    pub entry: String,
    /// Behind the `#`, for a patch that is another release's file.
    pub reason: Option<String>,
    /// What its file is to hold; `None`: what it holds.
    pub text: Option<String>,
}

impl Entry {
    /// A patch that stays as it is.
    pub fn kept(patch: &Patch) -> Self {
        let other = || {
            let release = patch.file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            format!("../{release}/{}", patch.name)
        };
        let entry = if patch.shared.is_some() { other() } else { patch.name.clone() };
        Entry { entry, reason: patch.shared.clone(), text: None }
    }
}

/// Writes these patches as a release's series; files of the folder that no series names any more are removed.
pub fn series(folder: &Path, entries: &[Entry]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let own = |name: &str| entries.iter().any(|entry| entry.entry == name);
    let mut gone = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".patch") && !own(&name) {
            used_elsewhere(folder, &name)?;
            gone.push(file.path());
        }
    }
    for entry in entries {
        if let Some(text) = &entry.text {
            whole(&folder.join(&entry.entry), text)?;
        }
    }
    let line = |entry: &Entry| match &entry.reason {
        Some(reason) => format!("{} # {reason}\n", entry.entry),
        None => format!("{}\n", entry.entry),
    };
    whole(&folder.join("series"), &(remarks(folder) + &entries.iter().map(line).collect::<String>()))?;
    gone.iter().try_for_each(|file| {
        fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))
    })
}

/// The remarks at the head of a series.
fn remarks(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("series")).unwrap_or_default();
    let head = text.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#'));
    head.map(|line| format!("{line}\n")).collect()
}

/// Refuses to remove a file that another release's series names.
fn used_elsewhere(folder: &Path, name: &str) -> Result<()> {
    let (Some(product), Some(release)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let entry = format!("../{}/{name}", release.to_string_lossy());
    for other in fs::read_dir(product)? {
        let series = other?.path().join("series");
        let text = fs::read_to_string(&series).unwrap_or_default();
        if text.lines().any(|line| line.split('#').next().unwrap_or_default().trim() == entry) {
            let what = format!("{name} is not removed: {} names it", series.display());
            return Err(Failure::new(Kind::Usage, what).next("take it out of that series first").into());
        }
    }
    Ok(())
}

/// Writes a file in one go.
pub fn whole(file: &Path, text: &str) -> Result<()> {
    let write = || -> Result<()> {
        let mut aside = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(Path::new(".")))?;
        aside.write_all(text.as_bytes())?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        aside.as_file().set_permissions(mode)?;
        aside.persist(file)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// The patches that commits are, as entries; patches that say the same as before are left as they are.
///
/// `left_out`: patches that are no commit and stay where they are.
pub fn entries(old: &Series, commits: &[Commit], left_out: &[String], today: &str) -> Result<Vec<Entry>> {
    let last = old.patches.iter().filter_map(|patch| numbered(&patch.name)).max().unwrap_or(0);
    let mut numbers = last + 1..;
    let mut all: Vec<Entry> = Vec::new();
    for commit in commits {
        let known =
            commit.name.as_ref().and_then(|name| old.patches.iter().find(|patch| patch.name == *name));
        let text = format!("{}\n---\n{}", header(commit, today), commit.diff);
        let made = diff::parse(Path::new(commit.name.as_deref().unwrap_or("a commit")), text.as_bytes())?;
        let Some(patch) = known else {
            let number = numbers.next().unwrap_or(last);
            let subject = super::header::read(&made.header, &[]).0.subject().to_string();
            let entry =
                commit.name.clone().unwrap_or_else(|| format!("{number:04}-{}.patch", slug(&subject)));
            all.push(Entry { entry, reason: None, text: Some(text) });
            continue;
        };
        let same = patch.diff.files == made.files && words(&patch.diff.header) == words(&made.header);
        all.push(if same {
            Entry::kept(patch)
        } else {
            Entry { entry: patch.name.clone(), reason: None, text: Some(updated(&text, today)) }
        });
    }
    for (at, patch) in old.patches.iter().enumerate().filter(|(_, patch)| left_out.contains(&patch.name)) {
        // Behind the patch that it stood behind.
        let before = old.patches[..at].iter().rev().map(|patch| Entry::kept(patch).entry);
        let place = before.filter_map(|name| all.iter().position(|entry| entry.entry == name)).next();
        all.insert(place.map_or(0, |place| place + 1), Entry::kept(patch));
    }
    Ok(all)
}

fn words(header: &str) -> Vec<&str> {
    header.lines().take_while(|line| !line.starts_with("---")).map(str::trim_end).collect()
}

fn numbered(name: &str) -> Option<u32> {
    name.split_once('-')?.0.parse().ok()
}

/// A commit's message as a header: one that is a header already, or a person's words.
fn header(commit: &Commit, today: &str) -> String {
    if commit.message.starts_with("Description:") || commit.message.starts_with("Subject:") {
        return commit.message.clone();
    }
    let mut lines = commit.message.lines();
    let mut text = format!("Description: {}\n", lines.next().unwrap_or_default());
    lines.filter(|line| !line.trim().is_empty()).for_each(|line| text += &format!(" {}\n", line.trim()));
    text + &format!("Author: {}\nForwarded: no\nLast-Update: {today}", commit.author)
}

/// With today as the day of the last change.
fn updated(text: &str, today: &str) -> String {
    let mut in_header = true;
    let line = |line: &str| {
        in_header &= !line.starts_with("---");
        match line.starts_with("Last-Update:") && in_header {
            true => format!("Last-Update: {today}\n"),
            false => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

fn slug(subject: &str) -> String {
    let plain: String =
        subject.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).take(8).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(name: Option<&str>, message: &str, diff: &str) -> Commit {
        Commit {
            name: name.map(String::from),
            message: message.into(),
            author: "A <a@example.org>".into(),
            diff: diff.into(),
        }
    }

    const DIFF: &str = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-1\n+2\n";
    const HEADER: &str = "Description: x\nAuthor: A\nForwarded: no\nLast-Update: 2020-01-01";

    #[test]
    fn commits_become_patches_and_what_is_the_same_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("series"), "# ours\n0001-x.patch\n0002-gone.patch\n").unwrap();
        fs::write(path.join("0001-x.patch"), format!("{HEADER}\n---\n{DIFF}")).unwrap();
        fs::write(path.join("0002-gone.patch"), format!("{HEADER}\n---\n{DIFF}")).unwrap();
        let old = Series::read(path).unwrap();
        let by_hand = commit(None, "Mend the timer!\n\nIt ran backwards.", DIFF);
        let commits = [commit(Some("0001-x.patch"), HEADER, DIFF), by_hand];
        let kept = entries(&old, &commits, &["0002-gone.patch".into()], "2026-12-01").unwrap();
        let kept: Vec<&str> = kept.iter().map(|entry| entry.entry.as_str()).collect();
        assert_eq!(kept, ["0001-x.patch", "0002-gone.patch", "0003-mend-the-timer.patch"]);
        series(path, &entries(&old, &commits, &[], "2026-12-01").unwrap()).unwrap();
        let list = fs::read_to_string(path.join("series")).unwrap();
        assert_eq!(list, "# ours\n0001-x.patch\n0003-mend-the-timer.patch\n");
        assert!(!path.join("0002-gone.patch").exists());
        let new = Series::read(path).unwrap();
        assert_eq!(new.patches[0].sha256, old.patches[0].sha256);
        let header = &new.patches[1].header;
        assert_eq!(
            (header.subject(), header.last_update.as_deref()),
            ("Mend the timer!", Some("2026-12-01"))
        );
        assert!(new.patches[1].complaints.is_empty(), "{:?}", new.patches[1].complaints);
        let changed = [commit(Some("0001-x.patch"), HEADER, &DIFF.replace("+2", "+3"))];
        let texts = entries(&old, &changed, &[], "2026-12-01").unwrap();
        assert!(
            texts[0].text.as_ref().unwrap().contains("Last-Update: 2026-12-01\n---"),
            "{:?}",
            texts[0].text
        );
    }

    #[test]
    fn a_file_that_another_release_uses_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        fs::write(one.join("0001-x.patch"), format!("{HEADER}\n---\n{DIFF}")).unwrap();
        fs::write(two.join("series"), "../1/0001-x.patch # same lines\n").unwrap();
        let message = series(&one, &[]).unwrap_err().to_string();
        assert!(message.contains("0001-x.patch is not removed"), "{message}");
        assert!(one.join("0001-x.patch").exists() && !one.join("series").exists(), "nothing was changed");
    }
}
