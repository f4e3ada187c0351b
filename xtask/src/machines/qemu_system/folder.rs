//! A guest's files on this host: removed with it. What a killed portbench left is removed by the next.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::stage;

/// A folder of a guest that lives.
pub struct Folder {
    folder: tempfile::TempDir,
    // The lock says that somebody lives here.
    _lock: File,
}

const PREFIX: &str = "guest-";
const LOCK: &str = "lock";

impl Folder {
    /// Makes one in the folder of all that runs.
    pub fn make(run: &Path) -> Result<Self> {
        sweep(run)?;
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(run)
            .with_context(|| format!("cannot make a folder in {}", run.display()))?;
        let lock = File::create(folder.path().join(LOCK))?;
        lock.lock()?;
        Ok(Folder { folder, _lock: lock })
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Removes the folders that nobody lives in.
fn sweep(run: &Path) -> Result<()> {
    for entry in fs::read_dir(run).with_context(|| format!("cannot read {}", run.display()))? {
        let path = entry?.path();
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        // One without a lock has just been made.
        if ours && File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            stage::remove(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_nobody_lives_in_is_removed_and_no_other() {
        let run = tempfile::tempdir().unwrap();
        let alive = Folder::make(run.path()).unwrap();
        let made = |name: &str, locked: bool| {
            let folder = run.path().join(name);
            fs::create_dir(&folder).unwrap();
            if locked {
                fs::write(folder.join(LOCK), "").unwrap();
            }
            folder
        };
        let (dead, young, other) = (made("guest-a", true), made("guest-b", false), made("data-c", true));
        sweep(run.path()).unwrap();
        assert!(!dead.exists() && young.exists() && other.exists() && alive.file(LOCK).exists());
    }
}
