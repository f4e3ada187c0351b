//! A deployment: a bundle, put where a machine can run it, every file held against the manifest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage, hex};
use crate::stages::bundle::{Bundle, LIBRARIES, Manifest};

/// A bundle, deployed on a machine.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// What the bundle says of itself.
    pub manifest: Manifest,
    /// The bundle's files on this host.
    pub copy: PathBuf,
    /// The bundle's files on the machine.
    pub root: PathBuf,
    /// The machine's folder below which data folders are made.
    pub runs: PathBuf,
}

impl Deployed {
    /// A file of the bundle, as the machine names it.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The loader that starts its programs, as the machine names it.
    pub fn loader(&self) -> PathBuf {
        self.root.join(&self.manifest.loader)
    }

    /// The folder of its libraries, as the machine names it.
    pub fn libraries(&self) -> PathBuf {
        self.root.join(LIBRARIES)
    }
}

/// Unpacks a bundle on this host, or finds it unpacked: what machines copy from, and what `local` and `qemu-user` run.
pub fn unpack(home: &Home, bundle: &Bundle) -> Result<PathBuf> {
    let facts = &bundle.manifest().facts;
    let label = format!("{}-{}-{}", facts.product, bundle.manifest().target, facts.origin);
    let stage = Stage { home, name: "deployments", label, leftover: Leftover::Discard };
    let done = stage.get(&bundle.key(), |work| {
        let file =
            File::open(bundle.file()).with_context(|| format!("cannot read {}", bundle.file().display()))?;
        tar::Archive::new(zstd::Decoder::new(file)?)
            .unpack(work)
            .with_context(|| format!("cannot unpack {} into {}", bundle.file().display(), work.display()))?;
        Ok(())
    })?;
    // Each time, though it was there before: what is benched must be what was built.
    verify(&done.folder, bundle)?;
    Ok(done.folder)
}

fn verify(folder: &Path, bundle: &Bundle) -> Result<()> {
    for (path, expected) in &bundle.manifest().files {
        let found = fs::read(folder.join(path)).map(|bytes| hex(&Sha256::digest(&bytes)));
        if found.as_ref().ok() != Some(expected) {
            let what = format!("{path} in {} is not what the bundle's manifest says", folder.display());
            return Err(Failure::new(Kind::VerificationFailed, what)
                .next(format!("rm -r {}, then run the same command again", folder.display()))
                .into());
        }
    }
    Ok(())
}
