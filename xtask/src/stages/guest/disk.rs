//! The guest's disks: file systems in files, made without root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Cmd, Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{Logged, find_program};
use crate::stage::{Leftover, Stage};
use crate::ui;

/// Raised when this file makes another image of the same bundle.
const RECIPE: u32 = 2;

/// Bytes of the file system's blocks and of an inode, said to mke2fs. On a small disk it takes blocks of 1024 bytes,
/// whose groups have few inodes, and rounds those down to a multiple of eight: fewer in all than were asked for.
const BLOCK_BYTES: u64 = 4096;
const INODE_BYTES: u64 = 256;

/// Room in the bundle's image for what the file system itself needs, in bytes, beside a tenth of the files' size.
const SPARE_BYTES: u64 = 16 << 20;

/// Finds the read-only image of a deployed bundle, or makes it.
pub fn of_bundle(home: &Home, label: &str, key: &str, folder: &Path) -> Result<PathBuf> {
    let stage = Stage { home, name: "images", label: label.to_string(), leftover: Leftover::Discard };
    let done = stage.get(&(key, RECIPE), |work| {
        let (bytes, files) = measure(folder)?;
        home.need_space(bytes + bytes / 10 + SPARE_BYTES, "the guest's disk")?;
        ui::step("image", &format!("{label}, {} MiB", bytes >> 20));
        let image = work.join(IMAGE);
        let (sh, log) = (Shell::new()?, home.log("mke2fs")?);
        let command = filled(&sh, folder, &image, bytes + bytes / 10 + SPARE_BYTES, files)?;
        Logged { name: "mke2fs", log: &log, next: "see the log" }.run(command)
    })?;
    Ok(done.folder.join(IMAGE))
}

const IMAGE: &str = "bundle.ext4";

/// The command that makes an image of that many bytes, with room for that many files, and copies a folder into it.
fn filled<'a>(sh: &'a Shell, folder: &Path, image: &Path, bytes: u64, files: u64) -> Result<Cmd<'a>> {
    let (program, size) = (mke2fs()?, sparse(image, bytes)?);
    // A few are the file system's own.
    let [block, inode, inodes] = [BLOCK_BYTES, INODE_BYTES, files + 64].map(|number| number.to_string());
    // Read only: no journal, nothing reserved. Every file belongs to root, whoever we are.
    let words = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0"];
    Ok(cmd!(sh, "{program} {words...} -b {block} -I {inode} -N {inodes} -d {folder} {image} {size}"))
}

/// Makes an empty data disk that belongs to a user of the guest.
pub fn of_data(home: &Home, image: &Path, mib: u32, user: u32) -> Result<()> {
    let size = sparse(image, u64::from(mib) << 20)?;
    let (log, program) = (home.log("mke2fs")?, mke2fs()?);
    // The file is new and reads as zeros: nothing has to be written, now or by the guest behind a bench's back.
    let options = format!(
        "root_owner={user}:{user},lazy_itable_init=1,lazy_journal_init=1,assume_storage_prezeroed=1,nodiscard"
    );
    let sh = Shell::new()?;
    Logged { name: "mke2fs", log: &log, next: "see the log" }
        .run(cmd!(sh, "{program} -q -F -t ext4 -m 0 -N 16384 -E {options} {image} {size}"))
}

/// Often in a folder that only root's `$PATH` has.
fn mke2fs() -> Result<PathBuf> {
    let places = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].map(PathBuf::from);
    let found = find_program("mke2fs").or_else(|| places.into_iter().find(|file| file.is_file()));
    found.ok_or_else(|| {
        Failure::new(
            Kind::MissingPackages,
            "there is no mke2fs (package e2fsprogs) to make the guest's disks",
        )
        .next("cargo xtask setup")
        .into()
    })
}

/// A file of that size that takes no room yet; its size as mke2fs spells it.
fn sparse(image: &Path, bytes: u64) -> Result<String> {
    let file = File::create(image).with_context(|| format!("cannot make {}", image.display()))?;
    file.set_len(bytes).with_context(|| format!("cannot make {}", image.display()))?;
    Ok(format!("{}k", bytes >> 10))
}

/// Bytes, each file rounded up to whole blocks, and number of all that a folder holds.
fn measure(folder: &Path) -> Result<(u64, u64)> {
    let (mut bytes, mut files) = (0, 0);
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            files += 1;
            bytes += metadata.len().next_multiple_of(BLOCK_BYTES);
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok((bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn a_small_image_has_an_inode_for_every_file() {
        let folder = tempfile::tempdir().unwrap();
        let (bundle, sh) = (folder.path().join("bundle"), Shell::new().unwrap());
        fs::create_dir(&bundle).unwrap();
        (0..191).for_each(|file| fs::write(bundle.join(file.to_string()), "x").unwrap());
        // So many files on so small a disk had too few with the block size that mke2fs takes by itself.
        let image = folder.path().join("disk.ext4");
        process::output(filled(&sh, &bundle, &image, 192 << 20, 191).unwrap()).unwrap();
    }

    #[test]
    fn a_folder_is_measured_in_whole_blocks() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), vec![0; 5000]).unwrap();
        let (bytes, files) = measure(folder.path()).unwrap();
        assert_eq!(files, 2);
        assert!(bytes >= 8192 && bytes.is_multiple_of(BLOCK_BYTES), "{bytes}");
    }
}
