//! A stage's result lives in a folder named after a hash of its inputs, with a stamp that holds its receipt.
//!
//! Nothing is made twice, nothing stale is reused: other inputs are another folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::home::Home;
use crate::{interrupt, ui};

const STAMP: &str = "stamp.json";

/// How a stage treats what an interrupted attempt left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// Begin anew: the folder is made aside and renamed into place when it is whole.
    Discard,
    /// Go on: the tool that fills the folder (ninja, cargo) knows what is done.
    Continue,
}

/// A stage to be made, or found made.
pub struct Stage<'a> {
    /// Where.
    pub home: &'a Home,
    /// The stage's name, which is also the folder that holds its results.
    pub name: &'static str,
    /// What a person recognises the result by, e.g. `mariadb-10.11.18-ppc64le`.
    pub label: String,
    /// What to do with an interrupted attempt.
    pub leftover: Leftover,
}

/// What stands in the stamp.
#[derive(Serialize, Deserialize)]
struct Stamp<R> {
    inputs: serde_json::Value,
    receipt: R,
}

/// A stage that is done.
#[derive(Debug)]
pub struct Done<R> {
    /// Its folder.
    pub folder: PathBuf,
    /// Hash of its inputs.
    pub key: String,
    /// What it is known by.
    pub receipt: R,
    /// Whether it was found rather than made.
    pub reused: bool,
}

/// Hash of any value, 16 hexadecimal digits: enough to name folders, not a signature.
pub fn key_of(inputs: &impl Serialize) -> Result<String> {
    let text = serde_json::to_vec(inputs)?;
    Ok(hex(&Sha256::digest(&text))[..16].to_string())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Stage<'_> {
    /// The folder for these inputs.
    pub fn folder(&self, inputs: &impl Serialize) -> Result<PathBuf> {
        Ok(self.home.folder(self.name)?.join(format!("{}-{}", self.label, key_of(inputs)?)))
    }

    /// Finds the result for `inputs`, or lets `make` fill a folder and stamps it.
    pub fn get<I: Serialize, R: Serialize + DeserializeOwned>(
        self,
        inputs: &I,
        make: impl FnOnce(&Path) -> Result<R>,
    ) -> Result<Done<R>> {
        let key = key_of(inputs)?;
        let folder = self.folder(inputs)?;
        if let Some(receipt) = read_stamp(&folder)? {
            return Ok(Done { folder, key, receipt, reused: true });
        }
        let _lock = lock(&folder.with_added_extension("lock"), &self.label)?;
        // Somebody may have made it while we waited.
        if let Some(receipt) = read_stamp(&folder)? {
            return Ok(Done { folder, key, receipt, reused: true });
        }
        let work = match self.leftover {
            Leftover::Continue => folder.clone(),
            Leftover::Discard => folder.with_added_extension("partial"),
        };
        if self.leftover == Leftover::Discard {
            remove(&work)?;
            remove(&folder)?;
        }
        fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
        let receipt = make(&work)?;
        let stamp = Stamp { inputs: serde_json::to_value(inputs)?, receipt };
        write_stamp(&work, &stamp)?;
        if work != folder {
            fs::rename(&work, &folder).with_context(|| format!("cannot place {}", folder.display()))?;
        }
        Ok(Done { folder, key, receipt: stamp.receipt, reused: false })
    }

    /// The result for `inputs`, if it has been made.
    pub fn peek<R: DeserializeOwned>(&self, inputs: &impl Serialize) -> Result<Option<(PathBuf, R)>> {
        let folder = self.folder(inputs)?;
        Ok(read_stamp(&folder)?.map(|receipt| (folder, receipt)))
    }

    /// Forgets the result for `inputs`, so that the next `get` makes it anew.
    pub fn forget(&self, inputs: &impl Serialize) -> Result<()> {
        let folder = self.folder(inputs)?;
        let _lock = lock(&folder.with_added_extension("lock"), &self.label)?;
        remove(&folder)
    }
}

fn read_stamp<R: DeserializeOwned>(folder: &Path) -> Result<Option<R>> {
    match fs::read(folder.join(STAMP)) {
        // A stamp that an older portbench wrote and this one cannot read: made anew.
        Ok(text) => Ok(serde_json::from_slice::<Stamp<R>>(&text).ok().map(|stamp| stamp.receipt)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read the stamp in {}", folder.display())),
    }
}

fn write_stamp<R: Serialize>(folder: &Path, stamp: &Stamp<R>) -> Result<()> {
    // Renamed into place: a stamp is whole or absent, even if the disk fills or the power goes.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, stamp)?;
    file.as_file().sync_all()?;
    file.persist(folder.join(STAMP))?;
    Ok(())
}

/// Removes a folder that may not be there.
pub fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Waits until no other portbench works on the same thing. The lock ends with the value, or with the process.
pub fn lock(path: &Path, what: &str) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut said = false;
    while file.try_lock().is_err() {
        interrupt::check()?;
        if !said {
            ui::step("wait", &format!("another portbench works on {what}"));
            said = true;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        (tempfile::tempdir_in(folder.path()).unwrap(), Home::at(folder.keep()))
    }

    fn stage(home: &Home, leftover: Leftover) -> Stage<'_> {
        Stage { home, name: "things", label: "thing".into(), leftover }
    }

    #[test]
    fn made_once_and_then_found() {
        let (_keep, home) = home();
        let first = stage(&home, Leftover::Discard).get(&1, |_| Ok(7)).unwrap();
        let second =
            stage(&home, Leftover::Discard).get(&1, |_| -> Result<i32> { panic!("made twice") }).unwrap();
        assert_eq!((first.reused, second.reused, second.receipt), (false, true, 7));
        assert_eq!(first.folder, second.folder);
    }

    #[test]
    fn other_inputs_are_another_folder() {
        let (_keep, home) = home();
        let one = stage(&home, Leftover::Discard).get(&1, |_| Ok(1)).unwrap();
        let two = stage(&home, Leftover::Discard).get(&2, |_| Ok(2)).unwrap();
        assert_ne!(one.folder, two.folder);
    }

    #[test]
    fn a_failed_attempt_is_not_found_again() {
        let (_keep, home) = home();
        let failed = stage(&home, Leftover::Discard).get(&1, |work| -> Result<i32> {
            fs::write(work.join("half"), "")?;
            anyhow::bail!("no")
        });
        assert!(failed.is_err());
        let done = stage(&home, Leftover::Discard).get(&1, |work| Ok(work.join("half").exists())).unwrap();
        assert!(!done.receipt, "a discarded attempt's files were still there");
    }

    #[test]
    fn an_attempt_that_continues_finds_its_files() {
        let (_keep, home) = home();
        let failed = stage(&home, Leftover::Continue).get(&1, |work| -> Result<bool> {
            fs::write(work.join("half"), "")?;
            anyhow::bail!("no")
        });
        assert!(failed.is_err());
        let done = stage(&home, Leftover::Continue).get(&1, |work| Ok(work.join("half").exists())).unwrap();
        assert!(done.receipt);
    }
}
