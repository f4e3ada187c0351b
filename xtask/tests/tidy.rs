//! Tidy: what holds for every file of the repository, as a test. Each check is a function of a file's name and text
//! that returns what is wrong, a sentence each; and each has a test that shows it a bad sample.
//!
//! The files are those that git tracks, and those that it would track after `git add`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "tidy/checks.rs"]
mod checks;
#[path = "tidy/rust.rs"]
mod rust;

/// The repository as it is on disk.
struct Repository {
    root: PathBuf,
    names: Vec<String>,
}

impl Repository {
    fn open() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask stands in the repository")
            .to_path_buf();
        let mut names = git(&root, &["--cached", "--others", "--exclude-standard"]);
        names.retain(|name| root.join(name).is_file());
        assert!(names.len() > 50, "git lists only {} files in {}", names.len(), root.display());
        Repository { root, names }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Files whose names begin and end so, with their text.
    fn texts(&self, begin: &str, end: &str) -> Vec<(&str, String)> {
        let fits = self.names.iter().filter(|name| name.starts_with(begin) && name.ends_with(end));
        fits.map(|name| (name.as_str(), String::from_utf8_lossy(&self.bytes(name)).into_owned())).collect()
    }

    /// File names of the tables in a folder, or of the modules, without their ends.
    fn stems(&self, folder: &str, end: &str) -> Vec<String> {
        let names = self.names.iter().filter_map(|name| name.strip_prefix(folder)?.strip_suffix(end));
        names.filter(|stem| !stem.contains('/')).map(String::from).collect()
    }

    /// Whether a source is compiled for tests only.
    fn is_test(&self, name: &str, sources: &[(&str, String)]) -> bool {
        sources.iter().any(|(parent, text)| {
            let root = parent.ends_with("/main.rs") || parent.ends_with("/lib.rs");
            let folder = if root {
                parent.rsplit_once('/').map_or("", |(folder, _)| folder)
            } else {
                &parent[..parent.len() - 3]
            };
            let within = |module: &str| {
                let rest = name.strip_prefix(&format!("{folder}/{module}"));
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            rust::test_modules(text).into_iter().any(within)
        })
    }
}

fn git(root: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).args(arguments).output();
    let output = output.expect("tidy needs git");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("file names are UTF-8");
    text.split('\0').filter(|name| !name.is_empty()).map(String::from).collect()
}

/// Fails with everything that a check says of some files.
#[track_caller]
fn expect_tidy<'a>(said: impl IntoIterator<Item = (&'a str, Vec<String>)>) {
    let lines = said
        .into_iter()
        .flat_map(|(name, wrong)| wrong.into_iter().map(move |what| format!("{name}: {what}")));
    let lines: Vec<String> = lines.collect();
    assert!(lines.is_empty(), "{} things are not tidy:\n{}", lines.len(), lines.join("\n"));
}

/// Fails with what a check says of each file whose name begins and ends so.
#[track_caller]
fn expect_each(begin: &str, end: &str, check: impl Fn(&str) -> Vec<String>) {
    let repository = Repository::open();
    expect_tidy(repository.texts(begin, end).into_iter().map(|(name, text)| (name, check(&text))));
}

#[test]
fn every_source_says_what_it_is() {
    expect_each("", ".rs", checks::header);
}

#[test]
fn lines_functions_and_sources_are_short() {
    expect_each("", ".rs", checks::columns);
    expect_each("", ".rs", checks::function_lines);
    expect_each("", ".rs", checks::file_lines);
}

#[test]
fn only_the_targets_files_know_architectures() {
    let repository = Repository::open();
    let targets = repository.stems("xtask/targets/", ".toml");
    let sources = repository.texts("xtask/src/", ".rs");
    assert!(!targets.is_empty() && !sources.is_empty());
    let shipped = sources.iter().filter(|(name, _)| !repository.is_test(name, &sources));
    expect_tidy(shipped.map(|(name, text)| (*name, checks::architectures(text, &targets))));
}

#[test]
fn nothing_is_left_unfinished() {
    for end in [".rs", ".toml", ".md", ".yml", "Containerfile"] {
        expect_each("", end, checks::unfinished);
    }
}

#[test]
fn files_are_small_and_text() {
    let repository = Repository::open();
    expect_tidy(
        repository.names.iter().map(|name| (name.as_str(), checks::size(name, &repository.bytes(name)))),
    );
}

#[test]
fn the_lock_file_is_committed() {
    let repository = Repository::open();
    assert_eq!(git(&repository.root, &["--cached", "--", "Cargo.lock"]), ["Cargo.lock"]);
}

#[test]
fn documents_link_to_what_is_there() {
    let repository = Repository::open();
    let documents = repository.texts("", ".md");
    expect_tidy(documents.iter().map(|(name, text)| (*name, checks::links(name, text, &repository.names))));
}

#[test]
fn documents_and_workflows_name_verbs_that_exist() {
    let repository = Repository::open();
    let mut verbs = repository.stems("xtask/src/verbs/", ".rs");
    verbs.retain(|verb| verb != "common" && verb != "guard");
    assert!(verbs.iter().any(|verb| verb == "bench"), "{verbs:?}");
    for (begin, end) in [("", ".md"), ("ci/", "")] {
        expect_each(begin, end, |text| checks::verbs(text, &verbs));
    }
    let source = repository.texts("xtask/src/verbs/ci.rs", "").pop().expect("the verb ci").1;
    expect_each("ci/", ".yml", |text| checks::jobs(text, &source));
}
