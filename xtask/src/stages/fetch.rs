//! A release's archive: from the first place that has it, verified by its pinned size and SHA-256.
//!
//! One cache for all checkouts: `downloads/<sha256>/<archive>`. Beside it lie `.part` while it comes in, `.lock`, and
//! `.verified`, which tells that this very file was hashed, so that later runs need not hash it again.

mod transfer;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::tables::product::{Locator, Release};
use crate::{interrupt, stage, ui};
use transfer::{Transfer, Trouble, length, remove};

/// How long nothing may come before another place is tried.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a broken transfer is taken up again, in each place.
const RETRIES: u32 = 2;

/// Time before a broken transfer is taken up again.
const PAUSE: Duration = Duration::from_millis(250);

/// Receipt: an archive in the cache that is what its release pins.
#[derive(Clone, Debug)]
pub struct Archive {
    path: PathBuf,
    sha256: String,
    size: u64,
    reused: bool,
}

impl Archive {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its SHA-256, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it was in the cache rather than downloaded.
    pub fn reused(&self) -> bool {
        self.reused
    }
}

/// How to fetch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Ask no server: what is not in the cache is a failure.
    pub offline: bool,
}

/// Finds the release's archive in the cache, or downloads it.
///
/// `mirrors` are the base addresses of the machine's Debian mirrors. A broken or interrupted download is taken up where
/// it stopped, by this call or the next. Fails with `CorruptDownload` where a place had something else than what is
/// pinned, with `DiskFull` where there is no room, and with `StageFailed` where no place has it.
pub fn fetch(home: &Home, release: &Release, mirrors: &[String], options: Options) -> Result<Archive> {
    let place = Place::of(home, release)?;
    if place.look()? == Cached::Trusted {
        return Ok(place.archive(true));
    }
    let _lock = stage::lock(&place.beside("lock"), &release.archive)?;
    // Another portbench may have fetched it while we waited.
    if place.settle(options)? {
        return Ok(place.archive(true));
    }
    let uris = addresses(release, mirrors);
    if options.offline {
        return Err(place.missing(&uris).into());
    }
    let left = release.size.saturating_sub(length(&place.beside("part"))?);
    home.need_space(left, &format!("the download of {}", release.archive))?;
    place.download(&uris)?;
    Ok(place.archive(false))
}

/// Hashes the archive again. One that has changed is no longer trusted, so that the next [`fetch`] replaces it.
pub fn verify(archive: &Archive) -> Result<()> {
    let found = digest(&archive.path)?;
    if found.eq_ignore_ascii_case(&archive.sha256) {
        return Ok(());
    }
    remove(&archive.path.with_added_extension("verified"))?;
    let what = format!(
        "{} has changed since it was fetched\n  expected: {}\n  found:    {}",
        archive.path.display(),
        described(archive.size, &archive.sha256),
        described(length(&archive.path)?, &found)
    );
    Err(Failure::new(Kind::CorruptDownload, what).next("cargo xtask fetch, which downloads it again").into())
}

/// Every address that the release may come from, in order, each once. A pool path without a mirror stays one, so that
/// it can be told.
fn addresses(release: &Release, mirrors: &[String]) -> Vec<Result<String, String>> {
    let mut all: Vec<Result<String, String>> = Vec::new();
    for locator in &release.locators {
        let some = match locator {
            Locator::Url(uri) => vec![Ok(uri.clone())],
            Locator::DebianPool(path) if mirrors.is_empty() => vec![Err(format!("pool/{path}"))],
            Locator::DebianPool(path) => {
                let join = |mirror: &String| Ok(format!("{}/pool/{path}", mirror.trim_end_matches('/')));
                mirrors.iter().map(join).collect()
            }
        };
        for uri in some {
            if !all.contains(&uri) {
                all.push(uri);
            }
        }
    }
    all
}

/// What the cache holds of a release.
#[derive(PartialEq, Eq)]
enum Cached {
    Nothing,
    /// The file that was verified.
    Trusted,
    /// A file of the right size that nobody has verified, e.g. one placed by hand.
    Unverified,
    OtherSize(u64),
}

/// A release's place in the cache.
struct Place<'a> {
    release: &'a Release,
    file: PathBuf,
}

impl<'a> Place<'a> {
    fn of(home: &Home, release: &'a Release) -> Result<Self> {
        let folder = home.folder("downloads")?.join(&release.sha256);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Place { release, file: folder.join(&release.archive) })
    }

    fn archive(&self, reused: bool) -> Archive {
        let Release { sha256, size, .. } = self.release;
        Archive { path: self.file.clone(), sha256: sha256.clone(), size: *size, reused }
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.file.with_added_extension(extension)
    }

    fn look(&self) -> Result<Cached> {
        let metadata = match fs::metadata(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Cached::Nothing),
            metadata => metadata.with_context(|| format!("cannot read {}", self.file.display()))?,
        };
        if metadata.len() != self.release.size {
            return Ok(Cached::OtherSize(metadata.len()));
        }
        // Without a readable mark the file is hashed, and marked anew.
        let mark = fs::read_to_string(self.beside("verified")).unwrap_or_default();
        Ok(if mark == mark_of(&metadata) { Cached::Trusted } else { Cached::Unverified })
    }

    /// Whether the cache holds the archive. A file that is not the archive makes room for it, unless it could not be
    /// replaced.
    fn settle(&self, options: Options) -> Result<bool> {
        let found = match self.look()? {
            Cached::Nothing => return Ok(false),
            Cached::Trusted => return Ok(true),
            Cached::OtherSize(size) => format!("{size} bytes"),
            Cached::Unverified => {
                let found = digest(&self.file)?;
                if self.is_pinned(&found) {
                    self.mark()?;
                    return Ok(true);
                }
                described(self.release.size, &found)
            }
        };
        let what = format!("{} is not what is pinned: it has {found}", self.file.display());
        if options.offline {
            let expected = described(self.release.size, &self.release.sha256);
            return Err(Failure::new(Kind::CorruptDownload, format!("{what}\n  expected: {expected}"))
                .next("run it without --offline, or place the right file there by hand")
                .into());
        }
        ui::warn(&format!("{what}; it is downloaded again"));
        remove(&self.file)?;
        Ok(false)
    }

    fn is_pinned(&self, sha256: &str) -> bool {
        sha256.eq_ignore_ascii_case(&self.release.sha256)
    }

    /// Remembers that the file as it lies there was hashed.
    fn mark(&self) -> Result<()> {
        let path = self.beside("verified");
        let write = || fs::write(&path, mark_of(&fs::metadata(&self.file)?));
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Tries each address until one has the archive.
    fn download(&self, uris: &[Result<String, String>]) -> Result<()> {
        let mut reasons = String::new();
        let mut kind = Kind::StageFailed;
        for uri in uris {
            let (from, trouble) = match uri {
                Err(path) => (path.clone(), Trouble::Unavailable("this machine has no Debian mirror".into())),
                Ok(uri) => match self.download_from(uri) {
                    Ok(()) => return self.put(),
                    Err(trouble) => (shown(uri), trouble),
                },
            };
            let reason = match trouble {
                Trouble::Ours(error) => return Err(error),
                Trouble::Unavailable(reason) | Trouble::Broken(reason) => reason,
                Trouble::Wrong(reason) => {
                    // Told even if another place has the right one: somebody should look into this one.
                    ui::warn(&format!("{from}: {reason}, which is not what is pinned"));
                    kind = Kind::CorruptDownload;
                    reason
                }
            };
            write!(reasons, "\n  {from}: {reason}")?;
        }
        let archive = &self.release.archive;
        let what = if kind == Kind::CorruptDownload {
            let expected = described(self.release.size, &self.release.sha256);
            format!("cannot download {archive}: what came is not what is pinned\n  expected: {expected}")
        } else {
            format!("cannot download {archive}")
        };
        let next = format!("check the network, or place the file by hand at {}", self.file.display());
        Err(Failure::new(kind, what + &reasons).next(next).into())
    }

    /// Fills the partial file from one place until it is what is pinned.
    fn download_from(&self, uri: &str) -> Result<(), Trouble> {
        ui::step("fetch", &shown(uri));
        let part = self.beside("part");
        for tried in 0.. {
            let resumed = length(&part)? > 0;
            let trouble = match self.transfer(uri, &part).and_then(|()| self.check(&part)) {
                Ok(()) => break,
                Err(trouble) => trouble,
            };
            let again = match &trouble {
                Trouble::Broken(_) => true,
                // What an earlier attempt, perhaps from another place, had left may be at fault.
                Trouble::Wrong(_) => resumed && length(&part)? == 0,
                Trouble::Unavailable(_) | Trouble::Ours(_) => false,
            };
            if !again || tried == RETRIES {
                return Err(trouble);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn transfer(&self, uri: &str, part: &Path) -> Result<(), Trouble> {
        let size = self.release.size;
        let mut progress = ui::Progress::bytes("fetch", size);
        let done = Transfer { uri, part, size, patience: PATIENCE }.run(&mut progress);
        progress.finish();
        done
    }

    /// Hashes the whole partial file; a wrong one is removed.
    fn check(&self, part: &Path) -> Result<(), Trouble> {
        let found = digest(part)?;
        if self.is_pinned(&found) {
            return Ok(());
        }
        remove(part)?;
        Err(Trouble::Wrong(format!("has {}", described(self.release.size, &found))))
    }

    /// The partial file is what is pinned: to its place with it.
    fn put(&self) -> Result<()> {
        let part = self.beside("part");
        // On the disk before the name says so: the mark must not vouch for what a power cut has emptied.
        let rename = || File::open(&part)?.sync_all().and_then(|()| fs::rename(&part, &self.file));
        rename().with_context(|| format!("cannot place {}", self.file.display()))?;
        self.mark()
    }

    fn missing(&self, uris: &[Result<String, String>]) -> Failure {
        let mut what =
            format!("{} is not in the cache, and --offline forbids to download it", self.release.archive);
        for uri in uris.iter().flatten() {
            what += &format!("\n  it can be had from {}", shown(uri));
        }
        Failure::new(Kind::StageFailed, what)
            .next(format!("run it once without --offline, or place the file at {}", self.file.display()))
    }
}

/// What tells this very file from one that was put in its place or written to.
fn mark_of(metadata: &Metadata) -> String {
    format!("{} bytes, modified at {}.{:09}\n", metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn described(size: u64, sha256: &str) -> String {
    format!("{size} bytes, SHA-256 {sha256}")
}

/// A file's SHA-256.
fn digest(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    loop {
        interrupt::check()?;
        match file.read(&mut chunk).with_context(|| format!("cannot read {}", path.display()))? {
            0 => return Ok(stage::hex(&hash.finalize())),
            n => hash.update(&chunk[..n]),
        }
    }
}

/// An address as it may stand in a log: without the name and password that it may hold.
fn shown(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.into() };
    let host = rest.split('/').next().unwrap_or_default();
    let secret = host.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[secret..])
}
