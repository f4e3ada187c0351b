//! Pinned source of what a guest is built from: fetched, verified, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::debian;
use crate::home::Home;
use crate::process::Logged;
use crate::stages::fetch::{self, Options};
use crate::tables::product::Release;
use crate::ui;

/// Unpacks a release into a new folder; the folder that its archive holds.
pub fn unpack(home: &Home, release: &Release, into: &Path, log: &Path) -> Result<PathBuf> {
    let offline = home.is_offline();
    // Asking apt for its mirrors is only worth it where something is to be downloaded.
    let mirrors = if offline || debian::codename().is_none() { Vec::new() } else { debian::mirrors()? };
    let archive = fetch::fetch(home, release, &mirrors, Options { offline })?;
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    ui::step("unpack", &release.archive);
    let (sh, file) = (Shell::new()?, archive.path());
    // GNU tar finds out how it is compressed.
    let next = "cargo xtask setup";
    Logged { name: "tar", log, next }
        .run(cmd!(sh, "tar --extract --no-same-owner --directory {into} --file {file}"))?;
    let mut folders = Vec::new();
    for entry in fs::read_dir(into)? {
        folders.push(entry?.path());
    }
    match folders.as_slice() {
        [one] if one.is_dir() => Ok(one.clone()),
        _ => anyhow::bail!("{} does not hold one folder", release.archive),
    }
}
