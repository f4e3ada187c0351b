//! A patch file: its header, and the hunks of each file that it changes.

use std::path::Path;

use crate::failure::{Failure, Kind};

/// A patch, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The lines before the first file.
    pub header: String,
    /// What it does to each file, in its order.
    pub files: Vec<FileDiff>,
}

/// What a patch does to one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileDiff {
    /// Path in the tree.
    pub path: String,
    /// Whether the file is made, changed or removed.
    pub change: Change,
    /// What is replaced where, in order.
    pub hunks: Vec<Hunk>,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Made,
    /// It stays, with other lines.
    #[default]
    Changed,
    /// It goes.
    Removed,
}

/// Lines that are replaced by others. Lines are without their ends, so that both kinds of ends fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hunk {
    /// Line of the patch file that it begins at, from 1.
    pub line: usize,
    /// Line of the old file that it is written for, from 1; 0 in a file that is made.
    pub old_start: usize,
    /// What is there: context and what goes.
    pub old: Vec<Vec<u8>>,
    /// What comes: context and what is new. `Some` is the line of `old` that it is.
    pub new: Vec<(Vec<u8>, Option<usize>)>,
    /// Whether the old and the new text end the file without a line end.
    pub unended: (bool, bool),
}

/// Reads a patch. `name` is for messages.
///
/// Fails with `Usage` where it is no unified diff, or of a kind that cannot be applied exactly: binary files, renames.
pub fn parse(name: &Path, bytes: &[u8]) -> Result<Diff, Failure> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').map(without_return).collect();
    let wrong = |at: usize, what: &str| {
        Failure::new(Kind::Usage, format!("{}:{}: {what}", name.display(), at + 1))
            .next("mend the line; `cargo xtask patch refresh` writes patches that are right")
    };
    let mut files: Vec<FileDiff> = Vec::new();
    let mut header_ends = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if let Some(what) = unsupported(line).filter(|_| at_file_header(&lines, at)) {
            return Err(wrong(at, what));
        }
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if line.starts_with(b"--- ") && next.starts_with(b"+++ ") {
            header_ends.get_or_insert(at);
            files.push(file(line, next).ok_or_else(|| wrong(at, "no path inside the tree"))?);
            at += 2;
        } else if line.starts_with(b"@@ ") {
            let file = files.last_mut().ok_or_else(|| wrong(at, "a hunk before any file's name"))?;
            let (hunk, ends) = hunk(&lines, at).map_err(|(line, what)| wrong(line, &what))?;
            file.hunks.push(hunk);
            at = ends;
        } else {
            at += 1;
        }
    }
    if let Some(empty) = files.iter().find(|file| file.hunks.is_empty() && file.change == Change::Changed) {
        return Err(wrong(0, &format!("{} has no hunk", empty.path)));
    }
    let header_ends = header_ends.ok_or_else(|| wrong(0, "it changes no file"))?;
    let header = lines[..header_ends].iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
    Ok(Diff { header: header.join("\n"), files })
}

/// A line without the carriage return that may end it.
pub fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Lines of git's extended headers stand between `diff --git` and `---`; anywhere else they are words.
fn at_file_header(lines: &[&[u8]], at: usize) -> bool {
    lines[..=at].iter().rev().take(6).any(|line| line.starts_with(b"diff --git "))
}

fn unsupported(line: &[u8]) -> Option<&'static str> {
    if line.starts_with(b"GIT binary patch") || line.starts_with(b"Binary files ") {
        return Some("a binary file: only text is patched");
    }
    if line.starts_with(b"rename from ") || line.starts_with(b"copy from ") {
        return Some("a file that is renamed or copied: make the patch with --no-renames");
    }
    None
}

/// `--- a/path` and `+++ b/path`; one of them may be /dev/null.
fn file(old: &[u8], new: &[u8]) -> Option<FileDiff> {
    let path = |line: &[u8], prefix: &str| {
        let text = String::from_utf8_lossy(&line[4..]).into_owned();
        let text = text.split('\t').next().unwrap_or_default().trim().to_string();
        if text == "/dev/null" { None } else { Some(text.strip_prefix(prefix).unwrap_or(&text).to_string()) }
    };
    let (old, new) = (path(old, "a/"), path(new, "b/"));
    let change = match (&old, &new) {
        (None, Some(_)) => Change::Made,
        (Some(_), None) => Change::Removed,
        _ => Change::Changed,
    };
    let path = new.or(old)?;
    let inside = !path.is_empty() && !path.starts_with('/') && !path.split('/').any(|part| part == "..");
    inside.then_some(FileDiff { path, change, hunks: Vec::new() })
}

/// `@@ -1,3 +1,4 @@ section` and its lines; where the next thing begins.
fn hunk(lines: &[&[u8]], at: usize) -> Result<(Hunk, usize), (usize, String)> {
    let text = String::from_utf8_lossy(lines[at]).into_owned();
    let range = |sign: char| {
        let word = text.split(' ').find_map(|word| word.strip_prefix(sign))?;
        let (start, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let (old_range, new_range) = match (range('-'), range('+')) {
        (Some(old), Some(new)) => (old, new),
        _ => return Err((at, "not the head of a hunk".into())),
    };
    let mut hunk = Hunk { line: at + 1, old_start: old_range.0, ..Hunk::default() };
    let mut next = at + 1;
    let mut last = b' ';
    while hunk.old.len() < old_range.1 || hunk.new.len() < new_range.1 {
        let Some(line) = lines.get(next) else {
            return Err((at, "the hunk is shorter than its head says".into()));
        };
        // An empty line of context, of which an editor took the blank away.
        let (sign, rest) = line.split_first().map_or((b' ', &line[..0]), |(sign, rest)| (*sign, rest));
        match sign {
            b' ' => {
                hunk.new.push((rest.to_vec(), Some(hunk.old.len())));
                hunk.old.push(rest.to_vec());
            }
            b'-' => hunk.old.push(rest.to_vec()),
            b'+' => hunk.new.push((rest.to_vec(), None)),
            b'\\' => mark_unended(&mut hunk, last),
            _ => return Err((next, "a line of a hunk begins with a blank, `+` or `-`".into())),
        }
        last = sign;
        next += 1;
    }
    if lines.get(next).is_some_and(|line| line.starts_with(b"\\")) {
        mark_unended(&mut hunk, last);
        next += 1;
    }
    if hunk.old.len() != old_range.1 || hunk.new.len() != new_range.1 {
        return Err((at, "the hunk has other lines than its head says".into()));
    }
    Ok((hunk, next))
}

fn mark_unended(hunk: &mut Hunk, last: u8) {
    hunk.unended.0 |= last != b'+';
    hunk.unended.1 |= last != b'-';
}

impl Hunk {
    /// The hunk that undoes it.
    pub fn reversed(&self) -> Hunk {
        let old = self.new.iter().map(|(line, _)| line.clone()).collect();
        let context = |at: usize| self.new.iter().position(|(_, from)| *from == Some(at));
        let new = self.old.iter().enumerate().map(|(at, line)| (line.clone(), context(at))).collect();
        Hunk { old, new, unended: (self.unended.1, self.unended.0), ..*self }
    }
}

impl FileDiff {
    /// What undoes it. Line numbers stay those of the old file: near enough to find the place.
    pub fn reversed(&self) -> FileDiff {
        let change = match self.change {
            Change::Made => Change::Removed,
            Change::Changed => Change::Changed,
            Change::Removed => Change::Made,
        };
        FileDiff { path: self.path.clone(), change, hunks: self.hunks.iter().map(Hunk::reversed).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Description: x\n y\n---\n--- a/sub/f\t2026\n+++ b/sub/f\n@@ -3,3 +3,4 @@ void f()\n one\n-two\n+2\n+zwei\n three\n";

    fn parsed(text: &str) -> Result<Diff, String> {
        parse(Path::new("p.patch"), text.as_bytes()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn header_files_and_hunks_are_read() {
        let diff = parsed(PATCH).unwrap();
        assert_eq!(diff.header, "Description: x\n y\n---");
        assert_eq!((diff.files[0].path.as_str(), diff.files[0].change), ("sub/f", Change::Changed));
        let hunk = &diff.files[0].hunks[0];
        assert_eq!((hunk.line, hunk.old_start, hunk.old.len(), hunk.new.len()), (6, 3, 3, 4));
        assert_eq!(hunk.reversed().reversed(), *hunk);
        assert_eq!(parsed(&PATCH.replace('\n', "\r\n")).unwrap().files, diff.files, "either line end");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (from, to, said) in [
            ("-3,3", "-3,4", "p.patch:6: the hunk"),
            (" three\n", "", "p.patch:6: the hunk is shorter"),
            ("+zwei", "zwei", "p.patch:10: a line of a hunk begins"),
            ("b/sub/f", "b/../f", "p.patch:4: no path inside the tree"),
            ("@@ -3,3 +3,4 @@", "@@ nonsense @@", "p.patch:6: not the head of a hunk"),
        ] {
            let message = parsed(&PATCH.replace(from, to)).unwrap_err();
            assert!(message.contains(said), "{said}: {message}");
        }
        assert!(parsed("just words\n").unwrap_err().contains("it changes no file"));
        let renamed = "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n";
        assert!(parsed(renamed).unwrap_err().contains("p.patch:3: a file that is renamed"));
    }

    #[test]
    fn files_that_come_and_go_are_known() {
        let made = "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        let diff = parsed(made).unwrap();
        assert_eq!((diff.files[0].change, diff.files[0].hunks[0].unended), (Change::Made, (false, true)));
        assert_eq!(diff.files[0].reversed().change, Change::Removed);
    }
}
