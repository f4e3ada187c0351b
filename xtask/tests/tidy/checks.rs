//! The checks: each takes a file's name or text and returns what is wrong, a sentence each.

use std::collections::BTreeSet;
use std::path::Path;

use super::rust;

/// Columns of a line of code: rustfmt's `max_width`.
const CODE_COLUMNS: usize = 110;
/// Columns of a line that a comment ends.
const COMMENT_COLUMNS: usize = 120;
/// Lines of a function, from `fn` to its brace.
const FUNCTION_LINES: usize = 75;
/// Lines of a source.
const FILE_LINES: usize = 500;
/// Bytes of any file.
const FILE_BYTES: usize = 1 << 20;
/// Files that may be large or binary.
const BINARIES: [&str; 0] = [];
/// Parts of architectures' names, lower case, besides the names of the targets' files.
const ARCHITECTURES: [&str; 18] = [
    "ppc64",
    "powerpc",
    "power7",
    "power8",
    "power9",
    "power10",
    "x86_64",
    "x86-64",
    "amd64",
    "i386",
    "i686",
    "aarch64",
    "arm64",
    "armv",
    "riscv",
    "s390",
    "loongarch",
    "loong64",
];
/// Other ways to ask for an architecture.
const ASKING: [&str; 3] = ["target_arch", "target_endian", "consts::arch"];

/// Every source says first what it is.
pub fn header(text: &str) -> Vec<String> {
    if text.starts_with("//! ") { vec![] } else { vec!["does not begin with `//! `".into()] }
}

/// Long lines. What rustfmt cannot break, a string literal, may be as long as it is.
pub fn columns(text: &str) -> Vec<String> {
    let pieces = rust::pieces(text);
    let mut wrong = Vec::new();
    // Column and number of the line that a piece begins in, counted over all pieces.
    let (mut column, mut number) = (0, 1);
    for (kind, piece) in pieces {
        for (index, part) in piece.split('\n').enumerate() {
            if index > 0 {
                (column, number) = (0, number + 1);
            }
            column += part.chars().count();
            let limit = if kind == rust::Kind::Comment { COMMENT_COLUMNS } else { CODE_COLUMNS };
            // What stands behind a long string on its line is not what makes it long.
            let word = part.trim_matches(|c: char| c.is_ascii_punctuation() || c.is_whitespace());
            if column > limit && kind != rust::Kind::Text && !word.is_empty() {
                wrong.push(format!("line {number} has {column} columns, {limit} are allowed"));
            }
        }
    }
    wrong
}

/// Long functions.
pub fn function_lines(text: &str) -> Vec<String> {
    let long = rust::functions(text).into_iter().filter(|(_, _, lines)| *lines > FUNCTION_LINES);
    long.map(|(name, at, lines)| format!("line {at}: {name} has {lines} lines, {FUNCTION_LINES} are allowed"))
        .collect()
}

/// Long sources.
pub fn file_lines(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines <= FILE_LINES { vec![] } else { vec![format!("has {lines} lines, {FILE_LINES} are allowed")] }
}

/// No architecture is known by name: not in code, and in a string only where people read it, as the default of a flag
/// or in an example of a command.
pub fn architectures(text: &str, targets: &[String]) -> Vec<String> {
    let without = rust::without_tests(text);
    let mut wrong = Vec::new();
    let mut before = "";
    for (kind, piece) in rust::pieces(&without) {
        let lower = piece.to_lowercase();
        let names = ARCHITECTURES.into_iter().chain(targets.iter().map(String::as_str));
        let named = names.chain(ASKING).find(|name| lower.contains(name));
        let for_people = match kind {
            rust::Kind::Code => false,
            rust::Kind::Comment => true,
            rust::Kind::Text => {
                before.trim_end().ends_with("default_value =") || piece.contains("cargo xtask ")
            }
        };
        if let Some(name) = named.filter(|_| !for_people) {
            let line = piece.lines().find(|line| line.to_lowercase().contains(name)).unwrap_or_default();
            wrong.push(format!("knows `{name}`, which belongs into xtask/targets: {}", line.trim()));
        }
        before = piece;
    }
    wrong
}

/// Marks of work that is not done.
pub fn unfinished(text: &str) -> Vec<String> {
    // Put together here, so that this file does not hold them.
    let marks = [["to", "do!("], ["unimple", "mented!("], ["FIX", "ME"], ["XX", "X"]].map(|two| two.concat());
    let mut wrong = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let found = marks.iter().filter(|mark| line.contains(mark.as_str()));
        wrong.extend(found.map(|mark| format!("line {} holds {mark}", number + 1)));
    }
    wrong
}

/// Large and binary files.
pub fn size(name: &str, bytes: &[u8]) -> Vec<String> {
    let mut wrong = Vec::new();
    if BINARIES.contains(&name) {
        return wrong;
    }
    if bytes.len() > FILE_BYTES {
        wrong.push(format!("has {} bytes, {FILE_BYTES} are allowed", bytes.len()));
    }
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
        wrong.push("is no text".into());
    }
    wrong
}

/// Markdown without what stands in code: fenced blocks and spans.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fence && !fenced {
            prose.extend(line.split('`').step_by(2));
        }
        prose.push('\n');
    }
    prose
}

/// Links to files of the repository that are not there.
pub fn links(name: &str, text: &str, names: &[String]) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let local =
        targets.filter(|to| !to.contains("://") && !to.starts_with("mailto:") && !to.starts_with('#'));
    let wrong = local.filter(|to| {
        let path = normal(&Path::new(name).with_file_name("").join(to.split('#').next().unwrap_or_default()));
        !names
            .iter()
            .any(|known| *known == path || known.starts_with(&format!("{}/", path.trim_end_matches('/'))))
    });
    wrong.map(|to| format!("links to {to}, which is no file of the repository")).collect()
}

/// A relative path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()) {
        match part.as_str() {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Words that follow `before` in a text, each as far as letters and `-` go.
fn words_after<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let rests = text.split(before).skip(1);
    let words =
        rests.map(|rest| rest.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap_or(""));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect()
}

/// Verbs that documents name and that do not exist.
pub fn verbs(text: &str, verbs: &[String]) -> Vec<String> {
    let named = words_after(text, "cargo xtask ").into_iter();
    let wrong: BTreeSet<&str> =
        named.filter(|verb| *verb != "help" && !verbs.iter().any(|v| v == verb)).collect();
    wrong.into_iter().map(|verb| format!("names the verb `{verb}`, which does not exist")).collect()
}

/// Steps of a workflow that name a job of `ci` that does not exist; `source` is that of the verb.
pub fn jobs(text: &str, source: &str) -> Vec<String> {
    let kebab = |variant: &str| {
        let split = variant.char_indices().map(|(at, c)| {
            let dash = if at > 0 && c.is_ascii_uppercase() { "-" } else { "" };
            format!("{dash}{}", c.to_ascii_lowercase())
        });
        split.collect::<String>()
    };
    let list = source.split("enum Job {").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
    let variants = list.lines().filter_map(|line| line.trim().strip_suffix(','));
    let known: Vec<String> = variants.filter(|line| !line.starts_with('/')).map(kebab).collect();
    let named = text
        .lines()
        .filter_map(|line| line.split_once("cargo xtask ci "))
        .flat_map(|(_, rest)| rest.split(' '));
    let wrong = named.filter(|job| !known.iter().any(|known| known == job));
    wrong.map(|job| format!("names the job `{job}`, there are {}", known.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(part: &str, wrong: Vec<String>) {
        assert!(wrong.iter().any(|sentence| sentence.contains(part)), "{part} in {wrong:?}");
    }

    const NOTHING: Vec<String> = Vec::new();

    #[test]
    fn a_source_that_does_not_say_what_it_is_is_found() {
        finds("does not begin", header("use std::fs;\n"));
        assert_eq!(header("//! A source.\n"), NOTHING);
    }

    #[test]
    fn long_lines_are_found_but_not_long_strings() {
        let long = "x".repeat(CODE_COLUMNS);
        finds("line 2 has 113 columns, 110", columns(&format!("a\n{long} + y\n").replace(" + ", "+ ")));
        finds("line 1 has 123 columns, 120", columns(&format!("// {}\n", "x".repeat(COMMENT_COLUMNS))));
        finds("line 1", columns(&format!("f(\"{long}\", code);\n")));
        assert_eq!(columns(&format!("f(\"{long}\"),\n// {long}\n")), NOTHING);
    }

    #[test]
    fn a_long_function_and_a_long_file_are_found() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2));
        finds("line 1: f has 76 lines", function_lines(&function(FUNCTION_LINES + 1)));
        assert_eq!(function_lines(&function(FUNCTION_LINES)), NOTHING);
        finds("has 501 lines", file_lines(&"\n".repeat(FILE_LINES + 1)));
        assert_eq!(file_lines(&"\n".repeat(FILE_LINES)), NOTHING);
    }

    #[test]
    fn code_that_knows_an_architecture_is_found() {
        let check = |text: &str| architectures(text, &["new64".to_string()]);
        for bad in [
            "if target.name == \"ppc64le\" {",
            "match name { \"new64\" => 1 }",
            "if cfg!(target_arch = \"mips\") {",
            "#[cfg(target_endian = \"big\")]",
            "let power8 = true;",
            "flag.contains(r#\"-mcpu=POWER9\"#)",
            "std::env::consts::ARCH",
        ] {
            finds("belongs into xtask/targets", check(bad));
        }
        let good = "// ppc64le\n#[arg(default_value = \"ppc64le\")]\nnext(\"cargo xtask bench --target ppc64le\")\n\
                    #[cfg(test)]\nmod tests {\n    f(\"ppc64le\");\n}\n";
        assert_eq!(check(good), NOTHING);
    }

    #[test]
    fn unfinished_work_is_found() {
        finds("line 2", unfinished(&format!("a\n{}do!()", "to")));
        finds("line 1", unfinished(&format!("// FIX{}", "ME: later")));
        assert_eq!(unfinished("done"), NOTHING);
    }

    #[test]
    fn large_and_binary_files_are_found() {
        finds("bytes", size("x", &vec![b'x'; FILE_BYTES + 1]));
        finds("no text", size("x", b"\x7fELF\0"));
        finds("no text", size("x", b"\xff"));
        assert_eq!(size("x", b"text"), NOTHING);
    }

    #[test]
    fn a_dead_link_is_found() {
        let names = ["ci/README.md".to_string(), "xtask/src/main.rs".into(), "A.md".into()];
        let text = "[a](../A.md#top) [b](https://x.example/) [c](#here) [d](../xtask/src) `[e](no)`\n```\n[f](no)\n```\n";
        assert_eq!(links("ci/README.md", text, &names), NOTHING);
        finds("links to A.md", links("ci/README.md", "see [it](A.md)", &names));
        finds("links to xtask/sr", links("A.md", "see [it](xtask/sr)", &names));
    }

    #[test]
    fn a_verb_and_a_job_that_do_not_exist_are_found() {
        let known = ["bench".to_string(), "ci".into()];
        assert_eq!(
            verbs("`cargo xtask bench`, cargo xtask ci JOB, cargo xtask --help, cargo xtask VERB", &known),
            NOTHING
        );
        finds("the verb `compare`", verbs("run `cargo xtask compare a b`", &known));
        let source = "enum Job {\n    /// Lint, all.\n    Lint,\n    EndToEnd,\n}\n";
        assert_eq!(jobs("- run: cargo xtask ci lint end-to-end\n", source), NOTHING);
        finds("the job `unit`", jobs("- run: cargo xtask ci unit\n", source));
    }
}
