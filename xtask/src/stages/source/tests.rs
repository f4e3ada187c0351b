//! Archives made on the spot, unpacked.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;
use crate::failure::kind_of;

/// One entry: its kind, path, content (of a link: where it leads) and mode.
type Item = (EntryType, &'static str, &'static str, u32);

const RELEASE: [Item; 5] = [
    (EntryType::Directory, "db-1.0/", "", 0o755),
    (EntryType::Regular, "db-1.0/configure", "#!/bin/sh\n", 0o755),
    (EntryType::Directory, "db-1.0/sql/", "", 0o555),
    (EntryType::Regular, "db-1.0/sql/lex.h", "made by a tool\n", 0o640),
    (EntryType::Symlink, "db-1.0/README", "sql/lex.h", 0o777),
];

const MODIFIED: u64 = 1_700_000_000;

fn tar_gz(items: &[Item]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, path, content, mode) in items {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_mtime(MODIFIED);
        // Written as it is: the crate would refuse to make an archive with `..` in it.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        let body = if *kind == EntryType::Regular { content.as_bytes() } else { b"" };
        if *kind == EntryType::Symlink {
            header.set_link_name(content).unwrap();
        }
        header.set_size(body.len() as u64);
        header.set_cksum();
        builder.append(&header, body).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Unpacks these bytes; what comes of it lies in the folder's `tree`.
fn unpacked(bytes: &[u8]) -> (TempDir, Result<u64>) {
    unpacked_as("db.tar.gz", bytes)
}

fn unpacked_as(name: &str, bytes: &[u8]) -> (TempDir, Result<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join(name);
    fs::write(&archive, bytes).unwrap();
    let result = unpack_into(&archive, &folder.path().join("tree"));
    (folder, result)
}

fn refused(bytes: &[u8], kind: Kind, says: &str) {
    let (folder, result) = unpacked(bytes);
    let error = result.unwrap_err();
    assert_eq!(kind_of(&error), Some(kind), "{error:#}");
    assert!(error.to_string().contains(says), "{error:#}");
    assert!(!folder.path().join("tree").exists());
}

#[test]
fn times_modes_and_links_are_kept_and_the_top_folder_is_not() {
    let (folder, result) = unpacked(&tar_gz(&RELEASE));
    assert_eq!(result.unwrap(), 3);
    let tree = folder.path().join("tree");
    for (path, mode) in [("configure", 0o755), ("sql/lex.h", 0o640), ("sql", 0o555), (".", 0o755)] {
        let metadata = fs::metadata(tree.join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{path}");
        let time = metadata.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(time, Duration::from_secs(MODIFIED), "{path}");
    }
    assert_eq!(fs::read_link(tree.join("README")).unwrap(), Path::new("sql/lex.h"));
    assert_eq!(fs::read_to_string(tree.join("README")).unwrap(), "made by a tool\n");
    // So that whoever is not root can remove the temporary folder.
    fs::set_permissions(tree.join("sql"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn archives_that_are_packed_otherwise_come_out_the_same_and_damage_is_seen() {
    let mut tar = Vec::new();
    GzDecoder::new(&tar_gz(&RELEASE)[..]).read_to_end(&mut tar).unwrap();
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    bz2.write_all(&tar).unwrap();
    xz.write_all(&tar).unwrap();
    for (name, whole) in [("db.tar.bz2", bz2.finish().unwrap()), ("db.tar.xz", xz.finish().unwrap())] {
        let (folder, result) = unpacked_as(name, &whole);
        assert_eq!(result.unwrap(), 3, "{name}");
        assert_eq!(fs::read_to_string(folder.path().join("tree/README")).unwrap(), "made by a tool\n");
        fs::set_permissions(folder.path().join("tree/sql"), fs::Permissions::from_mode(0o755)).unwrap();
        for bad in [&whole[..whole.len() / 2], &whole[..whole.len() - 3], b"<html>not an archive</html>"] {
            let error = unpacked_as(name, bad).1.unwrap_err();
            assert_eq!(kind_of(&error), Some(Kind::CorruptDownload), "{name}: {error:#}");
        }
    }
    let message = unpacked_as("db.zip", b"PK").1.unwrap_err().to_string();
    assert!(message.contains(".tar.gz, .tar.bz2, .tar.xz"), "{message}");
}

#[test]
fn a_path_that_leaves_the_folder_is_refused() {
    for path in ["db-1.0/../../evil", "/tmp/evil"] {
        let items = [RELEASE[0], (EntryType::Regular, path, "x", 0o644)];
        refused(&tar_gz(&items), Kind::StageFailed, "leaves the source folder");
    }
}

#[test]
fn nothing_is_written_through_a_link_that_leaves_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let target: &'static str = Box::leak(outside.path().display().to_string().into_boxed_str());
    let items = [
        RELEASE[0],
        (EntryType::Symlink, "db-1.0/out", target, 0o777),
        (EntryType::Regular, "db-1.0/out/evil", "x", 0o644),
    ];
    assert!(unpacked(&tar_gz(&items)).1.is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn more_than_one_top_folder_is_refused() {
    let items = [RELEASE[1], (EntryType::Regular, "other", "x", 0o644)];
    refused(&tar_gz(&items), Kind::StageFailed, "holds 2 files and folders at its top");
}

#[test]
fn a_damaged_archive_says_so() {
    let whole = tar_gz(&RELEASE);
    refused(&whole[..whole.len() / 2], Kind::CorruptDownload, "is damaged");
    refused(b"<html>not an archive</html>", Kind::CorruptDownload, "is damaged");
    // The checksum at the end counts too.
    let mut flipped = whole.clone();
    let at = flipped.len() - 6;
    flipped[at] ^= 1;
    refused(&flipped, Kind::CorruptDownload, "is damaged");
}
