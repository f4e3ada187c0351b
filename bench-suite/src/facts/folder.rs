//! What I/O a folder bears, tried out in it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::facts::FolderFacts;
use rustix::fs::OFlags;

use super::{Tree, program};

/// A block that every device and file system takes: at least as large as any sector and as any base page.
const BLOCK_BYTES: usize = 64 << 10;

/// Tries `folder` out. The file that this needs is removed again.
///
/// # Errors
/// The folder is not there, or may not be written.
pub fn probe(folder: &Path) -> io::Result<FolderFacts> {
    let folder = folder.canonicalize()?;
    let statfs = rustix::fs::statfs(&folder)?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let direct = direct_io(&folder)?;
    // What the host's kernel has is no use to a program under an emulator.
    let kernel = program::seen_through().is_none().then(Tree::of_machine);
    Ok(FolderFacts {
        file_system: file_system(&mounts, &folder).unwrap_or_else(|| format!("{:#x}", statfs.f_type)),
        direct_io: direct.is_ok(),
        direct_io_error: direct.err().map(|error| error.to_string()),
        free_bytes: statfs.f_bavail.saturating_mul(statfs.f_bsize as u64),
        native_aio: kernel.as_ref().and_then(native_aio),
        io_uring: kernel.as_ref().and_then(io_uring),
    })
}

/// The type of the file system that holds a path: of the mount with the longest mount point above it, the last of
/// several.
fn file_system(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        // 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/root rw
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(before.split(' ').nth(4)?));
        path.starts_with(&point).then(|| (point, after.split(' ').next().unwrap_or_default().to_string()))
    });
    mounts.max_by_key(|(point, _)| point.components().count()).map(|(_, name)| name)
}

/// Mount points have white space and `\` as octal numbers.
fn unescaped(point: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")]
        .into_iter()
        .fold(point.to_string(), |text, (from, to)| text.replace(from, to))
}

/// Writes a block past the page cache. The outer error is that of a folder that cannot be written at all.
fn direct_io(folder: &Path) -> io::Result<io::Result<()>> {
    let path = folder.join(format!(".portbench-probe-{}", std::process::id()));
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    options.open(&path)?;
    let flags = OFlags::DIRECT.bits() as i32;
    let result = options.custom_flags(flags).open(&path).and_then(|mut file| {
        let buffer = vec![0; 2 * BLOCK_BYTES];
        let at = buffer.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        file.write_all(&buffer[at..at + BLOCK_BYTES])
    });
    std::fs::remove_file(&path)?;
    Ok(result)
}

/// Native AIO has its limit in `/proc` where the kernel was built with it.
fn native_aio(tree: &Tree) -> Option<bool> {
    // Without /proc nothing can be said.
    tree.text("proc/sys/kernel/osrelease")?;
    Some(tree.number("proc/sys/fs/aio-max-nr").is_some_and(|most| most > 0))
}

/// io_uring, by its switch (Linux 6.6 and later); before that, by the kernel's list of symbols.
fn io_uring(tree: &Tree) -> Option<String> {
    let word = match tree.text("proc/sys/kernel/io_uring_disabled") {
        Some(text) => match text.as_str() {
            "0" => "enabled",
            "1" => "restricted",
            _ => "disabled",
        },
        // The list shows names to everybody, addresses to root only. The system call has a name in every kernel, what
        // closes a ring only where there are rings.
        None => match tree.text("proc/kallsyms")?.contains(" io_uring_release") {
            true => "enabled",
            false => "absent",
        },
    };
    Some(word.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    const MOUNTS: &str = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                          23 22 0:21 / /proc rw shared:2 - proc proc rw\n\
                          24 22 0:30 / /mnt/a\\040b rw - xfs /dev/vdb rw\n\
                          25 24 0:31 / /mnt/a\\040b/run rw shared:9 master:1 - tmpfs tmpfs rw\n\
                          26 22 0:32 / /data rw - btrfs /dev/vdc rw\n\
                          27 22 0:33 / /data rw - 9p host rw,trans=virtio\n";

    #[test]
    fn a_folder_is_on_the_nearest_mount_above_it() {
        let on = |path: &str| file_system(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(on("/mnt/a b/data"), "xfs");
        assert_eq!(on("/mnt/a b/run/data"), "tmpfs");
        assert_eq!(on("/mnt/a bc"), "ext4");
        assert_eq!(on("/data/x"), "9p", "the last mount hides the one before");
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn a_folder_is_tried_out_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let facts = probe(folder.path()).unwrap();
        assert!(facts.direct_io != facts.direct_io_error.is_some(), "{facts:?}");
        assert!(!facts.file_system.is_empty() && facts.free_bytes > 0, "{facts:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(probe(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_kernels_switches_are_read() {
        let of = |files: &[(&str, &str)]| {
            let (_folder, tree) = tree(files);
            (native_aio(&tree), io_uring(&tree))
        };
        let release = ("proc/sys/kernel/osrelease", "6.1.0\n");
        assert_eq!(of(&[]), (None, None));
        let modern =
            [release, ("proc/sys/fs/aio-max-nr", "65536\n"), ("proc/sys/kernel/io_uring_disabled", "2\n")];
        assert_eq!(of(&modern), (Some(true), Some("disabled".into())));
        let small = [release, ("proc/kallsyms", "0000000000000000 W sys_io_uring_setup\n")];
        assert_eq!(of(&small), (Some(false), Some("absent".into())));
        let older = [release, ("proc/kallsyms", "0000000000000000 t io_uring_release\n")];
        assert_eq!(of(&older), (Some(false), Some("enabled".into())));
    }
}
