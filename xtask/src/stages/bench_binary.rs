//! The bench binary: the load generator, compiled for the target or for the host.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::home::{Home, repository};
use crate::process::{self, Logged};
use crate::stage::{hex, key_of};
use crate::stages::toolchain::Toolchain;
use crate::ui;

const PACKAGE: &str = "bench-suite";

/// A bench binary.
#[derive(Clone, Debug)]
pub struct BenchBinary {
    path: PathBuf,
    sha256: String,
}

impl BenchBinary {
    /// The program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its SHA-256.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// Compiles it for a target. Cargo knows what has changed.
///
/// `ndb`: what libndbclient's install tree holds for development; with it the load generator speaks the NDB API.
pub fn for_target(home: &Home, toolchain: &Toolchain, ndb: Option<&Path>) -> Result<BenchBinary> {
    let triple = &toolchain.target().rust_triple;
    let kind = if ndb.is_some() { "-ndb" } else { "" };
    let folder = target_folder(home, &format!("{}{kind}-{}", toolchain.target().name, toolchain.key()))?;
    let mut cargo = toolchain.cargo();
    cargo.args(["build", "--target", triple]);
    if let Some(ndb) = ndb {
        cargo.args(["--features", "ndb"]).env("PORTBENCH_NDB", ndb);
    }
    compile(home, cargo, &folder, &toolchain.target().name)?;
    finished(folder.join(triple).join("release").join(PACKAGE))
}

/// Compiles it with functions of a product's own sources in it: `sources` holds them as `released` and `patched`.
pub fn with_sources(home: &Home, toolchain: &Toolchain, sources: &Path) -> Result<BenchBinary> {
    let triple = &toolchain.target().rust_triple;
    let folder = target_folder(home, &format!("{}-micro-{}", toolchain.target().name, toolchain.key()))?;
    let mut cargo = toolchain.cargo();
    cargo.args(["build", "--target", triple, "--features", "micro"]);
    cargo.env("PORTBENCH_SOURCES", sources).env("PORTBENCH_TOOLCHAIN_FILE", toolchain.cmake_file());
    compile(home, cargo, &folder, &toolchain.target().name)?;
    finished(folder.join(triple).join("release").join(PACKAGE))
}

/// Compiles it for this host.
pub fn for_host(home: &Home) -> Result<BenchBinary> {
    let folder = target_folder(home, "host")?;
    let mut cargo = Command::new(process::cargo());
    cargo.arg("build").env_remove("RUSTFLAGS");
    compile(home, cargo, &folder, "host")?;
    finished(folder.join("release").join(PACKAGE))
}

/// Where cargo works: a folder a checkout. Cargo takes two checkouts' packages for the same, and files of the other one
/// that are older than what it made for up to date.
fn target_folder(home: &Home, name: &str) -> Result<PathBuf> {
    Ok(home.folder("cargo")?.join(format!("{name}-{}", key_of(&repository())?)))
}

fn compile(home: &Home, mut cargo: Command, folder: &Path, name: &str) -> Result<()> {
    cargo.args(["--release", "--locked", "--package", PACKAGE, "--bin", PACKAGE, "--target-dir"]).arg(folder);
    cargo.current_dir(repository());
    let log = home.log(&format!("bench-suite-{name}"))?;
    let mut said = false;
    Logged { name: "cargo", log: &log, next: "see the log" }.run_watched(cargo, |line| {
        if !said && line.trim_start().starts_with("Compiling") {
            ui::step("bench", &format!("compiling the load generator for {name}"));
            said = true;
        }
    })
}

fn finished(path: PathBuf) -> Result<BenchBinary> {
    let bytes = std::fs::read(&path).with_context(|| format!("cargo made no {}", path.display()))?;
    Ok(BenchBinary { sha256: hex(&Sha256::digest(&bytes)), path })
}
