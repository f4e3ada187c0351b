//! A release's source tree, unpacked from its verified archive and patched.
//!
//! Each file keeps its time, so that make and ninja do not regenerate what the release ships, and its mode.

pub mod originals;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bzip2::read::MultiBzDecoder;
use flate2::read::GzDecoder;
use liblzma::read::XzDecoder;
use serde::{Deserialize, Serialize};
use tar::EntryType;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::series::{Identity, Series};
use crate::stage::{Leftover, Stage};
use crate::stages::fetch::Archive;
use crate::tables::product::{Product, Release};
use crate::{interrupt, patches, ui};

/// Counted up when trees come out otherwise than before: older ones are not used again.
const RECIPE: u32 = 1;

/// Room that an unpacked tree takes, as a multiple of its archive's size: MariaDB's takes 6.
const GROWTH: u64 = 8;

/// The tree's place in the stage's folder, apart from the stamp.
const TREE: &str = "tree";

/// Receipt: the unpacked source of one release.
#[derive(Clone, Debug)]
pub struct SourceTree {
    folder: PathBuf,
    key: String,
    patches: Vec<String>,
}

impl SourceTree {
    /// The folder that holds the release's top-level `CMakeLists.txt`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Hash of what the tree was made of.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The patches in it, in their order, each `name sha256`.
    pub fn patches(&self) -> &[String] {
        &self.patches
    }
}

/// What a tree depends on.
#[derive(Serialize)]
struct Inputs<'a> {
    sha256: &'a str,
    recipe: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    patches: Vec<Identity<'a>>,
}

/// What the stamp keeps.
#[derive(Serialize, Deserialize)]
struct Unpacked {
    files: u64,
}

/// Finds the release's source tree with these patches, or unpacks it and applies them.
///
/// Fails with `CorruptDownload` where the archive is damaged, and with `StageFailed` where it holds anything but one
/// top-level folder, or where a patch does not apply exactly.
pub fn unpack(
    home: &Home,
    product: &Product,
    release: &Release,
    archive: &Archive,
    series: &Series,
) -> Result<SourceTree> {
    let label = format!("{}-{}", product.source(), release.version);
    let inputs = Inputs { sha256: archive.sha256(), recipe: RECIPE, patches: series.identity() };
    let stage = Stage { home, name: "sources", label: label.clone(), leftover: Leftover::Discard };
    let done = stage.get(&inputs, |work| {
        home.need_space(archive.size() * GROWTH, &format!("the source of {label}"))?;
        ui::step("unpack", &label);
        let files = unpack_into(archive.path(), &work.join(TREE))?;
        if !series.patches.is_empty() {
            ui::step("patch", &format!("{label}: series of {}", series.patches.len()));
            patches::apply_all(series, &work.join(TREE), &home.log(&format!("patch-{label}"))?)?;
        }
        Ok(Unpacked { files })
    })?;
    let patches = series.patches.iter().map(|patch| format!("{} {}", patch.name, patch.sha256)).collect();
    Ok(SourceTree { folder: done.folder.join(TREE), key: done.key, patches })
}

/// Unpacks an archive so that what its one top-level folder holds comes to lie in `tree`. Returns how many files.
pub fn unpack_into(archive: &Path, tree: &Path) -> Result<u64> {
    let packed = Packed::of(archive)?;
    let aside = tree.with_added_extension("unpacked");
    fs::create_dir_all(&aside).with_context(|| format!("cannot make {}", aside.display()))?;
    let file = File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    let size = file.metadata()?.len();
    // The clone shares its position with the file that is read: that is how far we are.
    let mut position = file.try_clone()?;
    let mut progress = ui::Progress::bytes("unpack", size);
    let files = unpack_entries(packed.reader(file), archive, &aside, || {
        progress.at(position.stream_position().unwrap_or(0), size);
    });
    progress.finish();
    let files = files?;
    let top = only_folder(archive, &aside)?;
    fs::rename(&top, tree).with_context(|| format!("cannot place {}", tree.display()))?;
    fs::remove_dir(&aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    Ok(files)
}

/// How an archive is packed.
#[derive(Clone, Copy)]
enum Packed {
    Gzip,
    Bzip2,
    Xz,
}

impl Packed {
    fn of(archive: &Path) -> Result<Self> {
        let name = archive.to_string_lossy();
        let all = [(".tar.gz", Packed::Gzip), (".tar.bz2", Packed::Bzip2), (".tar.xz", Packed::Xz)];
        let found = all.into_iter().find(|(end, _)| name.ends_with(end));
        found.map(|(_, packed)| packed).ok_or_else(|| {
            let known = all.map(|(end, _)| end).join(", ");
            let what = format!("cannot unpack {name}: only {known} are known");
            Failure::new(Kind::StageFailed, what).next("pin an archive of one of these kinds").into()
        })
    }

    fn reader(self, file: File) -> Box<dyn Read> {
        let file = io::BufReader::with_capacity(1 << 18, file);
        match self {
            Packed::Gzip => Box::new(GzDecoder::new(file)),
            Packed::Bzip2 => Box::new(MultiBzDecoder::new(file)),
            Packed::Xz => Box::new(XzDecoder::new(file)),
        }
    }
}

fn unpack_entries(unpacked: impl Read, archive: &Path, into: &Path, mut each: impl FnMut()) -> Result<u64> {
    let mut reader = tar::Archive::new(unpacked);
    reader.set_preserve_mtime(true);
    let mut folders = Vec::new();
    let mut files = 0;
    for entry in reader.entries().map_err(|error| unreadable(archive, error))? {
        interrupt::check()?;
        each();
        let mut entry = entry.map_err(|error| unreadable(archive, error))?;
        refuse_escape(archive, &entry.path()?)?;
        if entry.header().entry_type() == EntryType::Directory {
            folders.push(entry);
            continue;
        }
        place(archive, &mut entry, into)?;
        files += 1;
    }
    // Last, and the deepest first: files that come to a folder would change its time, and its mode may forbid them.
    folders.sort_by(|a, b| b.path_bytes().cmp(&a.path_bytes()));
    for mut entry in folders {
        place(archive, &mut entry, into)?;
        keep_time(&entry, into)?;
    }
    // The checksum stands behind the last entry.
    io::copy(&mut reader.into_inner(), &mut io::sink()).map_err(|error| damaged(archive, &error))?;
    Ok(files)
}

fn place<R: Read>(archive: &Path, entry: &mut tar::Entry<'_, R>, into: &Path) -> Result<()> {
    let path = entry.path()?.into_owned();
    match entry.unpack_in(into) {
        Ok(true) => Ok(()),
        Ok(false) => Err(escape(archive, &path).into()),
        Err(error) if is_damage(&error) => Err(damaged(archive, &error).into()),
        Err(error) => {
            Err(error).with_context(|| format!("cannot unpack {} into {}", path.display(), into.display()))
        }
    }
}

/// Sets a folder's time, which the crate sets for files only.
fn keep_time<R: Read>(entry: &tar::Entry<'_, R>, into: &Path) -> Result<()> {
    let folder = into.join(entry.path()?);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.header().mtime()?);
    let set = || File::open(&folder)?.set_modified(time);
    set().with_context(|| format!("cannot set the time of {}", folder.display()))
}

fn refuse_escape(archive: &Path, path: &Path) -> Result<()> {
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if inside { Ok(()) } else { Err(escape(archive, path).into()) }
}

fn escape(archive: &Path, path: &Path) -> Failure {
    let what = format!("{} holds {}, which leaves the source folder", archive.display(), path.display());
    Failure::new(Kind::StageFailed, what).next("do not use this archive: report it to where it comes from")
}

/// An error while the next entry is looked for: the archive's, unless the operating system says otherwise.
fn unreadable(archive: &Path, error: io::Error) -> anyhow::Error {
    if is_the_system(&error) {
        return anyhow::Error::from(error).context(format!("cannot read {}", archive.display()));
    }
    damaged(archive, &error).into()
}

/// Whether an error while a file is written comes from the archive that it is read from.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    !is_the_system(error) && matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Whether the operating system's error lies under this one.
fn is_the_system(error: &io::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(this) = cause {
        if this.downcast_ref::<io::Error>().is_some_and(|io| io.raw_os_error().is_some()) {
            return true;
        }
        cause = this.source();
    }
    false
}

fn damaged(archive: &Path, error: &io::Error) -> Failure {
    let what = format!("{} is damaged: {error}", archive.display());
    Failure::new(Kind::CorruptDownload, what).next("cargo xtask fetch --verify, then cargo xtask fetch")
}

/// The one folder that `folder`, into which `archive` was unpacked, holds.
fn only_folder(archive: &Path, folder: &Path) -> Result<PathBuf> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    let all = read().with_context(|| format!("cannot read {}", folder.display()))?;
    match all.as_slice() {
        [one] if one.is_dir() && !one.is_symlink() => Ok(one.clone()),
        _ => Err(Failure::new(
            Kind::StageFailed,
            format!("{} holds {} files and folders at its top, not one folder", archive.display(), all.len()),
        )
        .next("pin the release's own source archive")
        .into()),
    }
}

#[cfg(test)]
mod tests;
