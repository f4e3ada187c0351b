//! A file's hunks, applied exactly: every line of context must be there. Line ends are the file's own.

use super::diff::{FileDiff, Hunk, without_return};

/// A hunk that fits elsewhere than it was written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The file.
    pub path: String,
    /// Line that it was written for, from 1.
    pub from: usize,
    /// Line that it fits at, from 1.
    pub to: usize,
    /// The function it landed in, by its first line; empty where there is none.
    pub function: String,
}

/// A hunk that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Line of the patch file that the hunk begins at.
    pub patch_line: usize,
    /// Why.
    pub why: String,
}

/// A text as lines with their ends.
struct Text<'a> {
    lines: Vec<&'a [u8]>,
}

impl<'a> Text<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Text { lines: bytes.split_inclusive(|byte| *byte == b'\n').collect() }
    }

    /// A line without its end.
    fn bare(&self, at: usize) -> &'a [u8] {
        let line = self.lines[at];
        without_return(line.strip_suffix(b"\n").unwrap_or(line))
    }

    /// The end that a new line gets here: that of the line before, or else of the one behind.
    fn end(&self, at: usize) -> &'static [u8] {
        let near = at.checked_sub(1).or(Some(at)).and_then(|near| self.lines.get(near));
        if near.is_some_and(|line| line.ends_with(b"\r\n")) { b"\r\n" } else { b"\n" }
    }

    /// Whether a hunk's old lines stand at `at`.
    fn fits(&self, hunk: &Hunk, at: usize) -> bool {
        let end = at + hunk.old.len();
        if end > self.lines.len() {
            return false;
        }
        let unended = end == self.lines.len() && self.lines.last().is_some_and(|line| !line.ends_with(b"\n"));
        let same = (at..end).zip(&hunk.old).all(|(at, line)| self.bare(at) == line.as_slice());
        // A patch that says that the file ends without a line end fits no other place.
        same && (!hunk.unended.0 || unended)
    }

    /// Where a hunk fits: at the expected line, or else at the only other place.
    fn place(&self, hunk: &Hunk, expected: usize, from: usize) -> Result<usize, String> {
        if hunk.old.is_empty() {
            return if expected <= self.lines.len() {
                Ok(expected)
            } else {
                Err("the file is shorter".into())
            };
        }
        if expected >= from && self.fits(hunk, expected) {
            return Ok(expected);
        }
        let all: Vec<usize> = (from..self.lines.len()).filter(|at| self.fits(hunk, *at)).collect();
        match all.as_slice() {
            [one] => Ok(*one),
            [] => Err(self.nearest(hunk, expected)),
            several => {
                let lines: Vec<String> = several.iter().map(|at| (at + 1).to_string()).collect();
                Err(format!(
                    "its lines have moved and are found more than once: at lines {}",
                    lines.join(", ")
                ))
            }
        }
    }

    /// What is at the expected place instead.
    fn nearest(&self, hunk: &Hunk, expected: usize) -> String {
        let differs = |(at, line): (usize, &Vec<u8>)| {
            let found = (at < self.lines.len()).then(|| self.bare(at));
            (found != Some(line.as_slice())).then(|| (at, line.clone(), found.map(<[u8]>::to_vec)))
        };
        let show = |line: &[u8]| format!("`{}`", String::from_utf8_lossy(line).trim());
        match (expected..).zip(&hunk.old).find_map(differs) {
            Some((at, wanted, Some(found))) => {
                format!("its lines are not there: line {} is {}, not {}", at + 1, show(&found), show(&wanted))
            }
            Some((at, wanted, None)) => {
                format!("its lines are not there: the file ends before line {}, {}", at + 1, show(&wanted))
            }
            None => "its lines are not there".into(),
        }
    }

    /// The first line of the function that a line is in.
    fn function(&self, at: usize) -> String {
        let heads =
            |line: &&[u8]| line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        let named = |line: &&[u8]| line.contains(&b'(') && !line.ends_with(b":");
        let lines = (0..at.min(self.lines.len())).rev().map(|at| self.bare(at));
        let head = lines.into_iter().find(|line| heads(line) && named(line));
        head.map(|line| String::from_utf8_lossy(line).trim().to_string()).unwrap_or_default()
    }
}

/// The file with every hunk in it, and which of them have moved.
pub fn apply(diff: &FileDiff, before: &[u8]) -> Result<(Vec<u8>, Vec<Moved>), Vec<Misfit>> {
    let text = Text::of(before);
    let (mut after, mut moved, mut misfits) = (Vec::with_capacity(before.len()), Vec::new(), Vec::new());
    let (mut done, mut offset) = (0, 0_isize);
    for hunk in &diff.hunks {
        let written_for = hunk.old_start.saturating_sub(usize::from(!hunk.old.is_empty()));
        let expected = written_for.saturating_add_signed(offset);
        match text.place(hunk, expected, done) {
            Ok(at) => {
                if at != written_for {
                    let function = text.function(at + hunk.old.len() / 2 + 1);
                    moved.push(Moved {
                        path: diff.path.clone(),
                        from: written_for + 1,
                        to: at + 1,
                        function,
                    });
                }
                offset = at as isize - written_for as isize;
                after.extend(text.lines[done..at].concat());
                replace(&text, hunk, at, &mut after);
                done = at + hunk.old.len();
            }
            Err(why) => misfits.push(Misfit { patch_line: hunk.line, why }),
        }
    }
    if !misfits.is_empty() {
        return Err(misfits);
    }
    after.extend(text.lines[done..].concat());
    Ok((after, moved))
}

fn replace(text: &Text, hunk: &Hunk, at: usize, after: &mut Vec<u8>) {
    let last = hunk.new.len().saturating_sub(1);
    for (number, (line, context)) in hunk.new.iter().enumerate() {
        match context {
            // As it stands in the file, end and all.
            Some(old) if !(hunk.unended.0 && number < last) => after.extend(text.lines[at + old]),
            _ => {
                after.extend(line);
                if !(number == last && hunk.unended.1) {
                    after.extend(text.end(at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::diff::parse;
    use super::*;

    fn diff(text: &str) -> FileDiff {
        let text = format!("--- a/f.c\n+++ b/f.c\n{text}");
        parse(Path::new("p"), text.as_bytes()).unwrap().files.remove(0)
    }

    const HUNK: &str = "@@ -2,3 +2,3 @@\n one\n-two\n+2\n three\n";

    fn applied(diff: &FileDiff, before: &str) -> Result<(String, Vec<Moved>), Vec<Misfit>> {
        apply(diff, before.as_bytes()).map(|(after, moved)| (String::from_utf8(after).unwrap(), moved))
    }

    #[test]
    fn a_hunk_replaces_its_lines_and_is_undone_by_its_reverse() {
        let (before, after) = ("zero\none\ntwo\nthree\nfour\n", "zero\none\n2\nthree\nfour\n");
        assert_eq!(applied(&diff(HUNK), before).unwrap(), (after.into(), vec![]));
        assert_eq!(applied(&diff(HUNK).reversed(), after).unwrap().0, before);
    }

    #[test]
    fn line_ends_of_the_file_are_kept_whatever_the_patch_has() {
        let before = "zero\r\none\r\ntwo\r\nthree\r\n";
        assert_eq!(applied(&diff(HUNK), before).unwrap().0, "zero\r\none\r\n2\r\nthree\r\n");
        let windows = diff(&HUNK.replace('\n', "\r\n"));
        assert_eq!(applied(&windows, "zero\none\ntwo\nthree\n").unwrap().0, "zero\none\n2\nthree\n");
    }

    #[test]
    fn a_hunk_that_moved_is_told_with_the_function_it_landed_in() {
        let before = "int other(void)\n{\n}\nint f(int a)\n{\n\n one\none\ntwo\nthree\n}\n";
        let (_, moved) = applied(&diff(HUNK), before).unwrap();
        assert_eq!(moved, [Moved { path: "f.c".into(), from: 2, to: 8, function: "int f(int a)".into() }]);
    }

    #[test]
    fn no_fuzz() {
        let misfits = applied(&diff(HUNK), "zero\none\ntwo\nTHREE\n").unwrap_err();
        assert_eq!(misfits[0].patch_line, 3);
        assert_eq!(misfits[0].why, "its lines are not there: line 4 is `THREE`, not `three`");
        let misfits = applied(&diff(HUNK), "zero\none\n").unwrap_err();
        assert!(misfits[0].why.contains("the file ends before line 3, `two`"), "{misfits:?}");
    }

    #[test]
    fn a_moved_hunk_that_fits_twice_is_refused() {
        let misfits = applied(&diff(HUNK), "-\n-\none\ntwo\nthree\none\ntwo\nthree\n").unwrap_err();
        assert!(misfits[0].why.contains("more than once: at lines 3, 6"), "{misfits:?}");
    }

    #[test]
    fn a_file_without_a_last_line_end_gets_one_or_keeps_none_as_the_patch_says() {
        let end = "\\ No newline at end of file\n";
        let adds = diff(&format!("@@ -1 +1,2 @@\n-a\n{end}+a\n+b\n"));
        assert_eq!(applied(&adds, "a").unwrap().0, "a\nb\n");
        assert!(applied(&adds, "a\n").is_err());
        let keeps = diff(&format!("@@ -1 +1 @@\n-a\n{end}+b\n{end}"));
        assert_eq!(applied(&keeps, "a").unwrap().0, "b");
        let context = diff(&format!("@@ -1,2 +1,3 @@\n a\n+x\n b\n{end}"));
        assert_eq!(applied(&context, "a\nb").unwrap().0, "a\nx\nb");
    }

    #[test]
    fn later_hunks_follow_the_earlier_ones() {
        let two = diff("@@ -1 +1,2 @@\n a\n+b\n@@ -3 +4 @@\n-c\n+C\n");
        assert_eq!(applied(&two, "x\na\ny\nc\n").unwrap().1.len(), 2);
        assert_eq!(applied(&two, "a\ny\nc\n").unwrap().0, "a\nb\ny\nC\n");
    }
}
