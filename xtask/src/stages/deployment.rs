//! A deployment: a bundle, unpacked where a machine can run it, every file held against the manifest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage, hex};
use crate::stages::bundle::{BENCH, Bundle, LIBRARIES, Manifest};

/// A bundle, deployed.
#[derive(Clone, Debug)]
pub struct Deployment {
    folder: PathBuf,
    manifest: Manifest,
}

impl Deployment {
    /// A file of the bundle.
    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// The folder it was unpacked into.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the bundle says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The loader that starts its programs.
    pub fn loader(&self) -> PathBuf {
        self.folder.join(&self.manifest.loader)
    }

    /// The folder of its libraries.
    pub fn libraries(&self) -> PathBuf {
        self.folder.join(LIBRARIES)
    }

    /// The bench binary.
    pub fn bench(&self) -> PathBuf {
        self.folder.join(BENCH)
    }
}

/// Deploys a bundle on this host, or finds it deployed.
pub fn make(home: &Home, bundle: &Bundle) -> Result<Deployment> {
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
    Ok(Deployment { folder: done.folder, manifest: bundle.manifest().clone() })
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
