//! The folders of one running server: its data, and a short one for its socket.
//!
//! They go with the value. What a killed portbench left is found by the next one, which removes it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const PREFIX: &str = "data-";
/// In a data folder: locked while its portbench lives.
const LOCK: &str = "portbench.lock";
/// In a data folder: a link to the socket's folder, so that both are removed together.
const SOCKETS: &str = "portbench.sockets";

/// A server's folders.
pub struct Place {
    data: tempfile::TempDir,
    sockets: tempfile::TempDir,
    _lock: File,
}

impl Place {
    /// Makes the folders below `run`, and removes those that nobody owns any more.
    pub fn make(run: &Path) -> Result<Self> {
        sweep(run);
        let data = tempfile::Builder::new().prefix(PREFIX).tempdir_in(run)?;
        let lock = File::create(data.path().join(LOCK))?;
        lock.try_lock().context("a new folder is locked by somebody else")?;
        let sockets = socket_folder()?;
        symlink(sockets.path(), data.path().join(SOCKETS))?;
        Ok(Place { data, sockets, _lock: lock })
    }

    /// The folder for data.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// The socket's path.
    pub fn socket(&self) -> PathBuf {
        self.sockets.path().join("s")
    }
}

/// A short private folder: the path of a UNIX socket may have at most 107 bytes.
fn socket_folder() -> Result<tempfile::TempDir> {
    let wanted = std::env::temp_dir();
    // A long $TMPDIR would leave no room for the socket's name.
    let folder = if wanted.as_os_str().len() < 60 { wanted } else { PathBuf::from("/tmp") };
    Ok(tempfile::Builder::new().prefix("portbench-").tempdir_in(folder)?)
}

/// Removes the folders of portbenchs that were killed. What cannot be removed is not worth failing for.
fn sweep(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let data = entry.path();
        let mine = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // Without a lock file it is being made this very moment.
        let Ok(lock) = File::open(data.join(LOCK)) else { continue };
        if !mine || lock.try_lock().is_err() {
            continue;
        }
        if let Ok(sockets) = fs::read_link(data.join(SOCKETS)) {
            let _ = fs::remove_dir_all(sockets);
        }
        let _ = fs::remove_dir_all(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_portbench_left_is_removed_and_what_lives_is_kept() {
        let run = tempfile::tempdir().unwrap();
        let living = Place::make(run.path()).unwrap();
        let killed = Place::make(run.path()).unwrap();
        let (data, socket) = (killed.data().to_path_buf(), killed.socket());
        // As a kill does: the lock ends, the folders stay.
        let Place { data: kept, sockets, _lock } = killed;
        let (_, folder) = (kept.keep(), sockets.keep());
        drop(_lock);
        assert!(data.exists() && folder.exists() && socket.starts_with(&folder));
        let third = Place::make(run.path()).unwrap();
        assert!(!data.exists() && !folder.exists(), "left behind");
        assert!(living.data().exists() && third.data().exists());
    }
}
