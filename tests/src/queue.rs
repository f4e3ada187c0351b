//! The repository's patches, in a folder that a test may change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Call, call};

/// A copy of them.
pub struct Queue {
    /// Holds it, and what a test puts beside it.
    pub folder: tempfile::TempDir,
}

impl Queue {
    /// Copies them.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../patches"), &folder.path().join("patches"));
        Queue { folder }
    }

    /// A file of it, e.g. `mysql/9.7.2/series`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("patches").join(name)
    }

    /// Changes a file of it, which must have `from`.
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.file(name)).expect("a file of the queue");
        assert!(text.contains(from), "{name} has no {from}");
        fs::write(self.file(name), text.replace(from, to)).expect("a changed file");
    }

    /// `xtask` on these patches.
    pub fn call(&self, words: &str) -> Call {
        let all: Vec<&str> = words.split(' ').collect();
        call(&all).env("PORTBENCH_PATCHES", self.folder.path().join("patches"))
    }

    /// `xtask patch` on them.
    pub fn patch(&self, words: &str) -> Call {
        self.call(&format!("patch {words}"))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}
