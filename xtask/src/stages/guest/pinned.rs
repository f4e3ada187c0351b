//! Pinned source of what a guest is built from: fetched, verified, unpacked.

use std::path::Path;

use anyhow::Result;

use crate::home::Home;
use crate::stages::{fetch, source};
use crate::tables::product::Release;
use crate::{debian, ui};

/// Unpacks a release: what its archive's one folder holds comes to lie in a new folder.
pub fn unpack(home: &Home, release: &Release, into: &Path) -> Result<()> {
    let offline = home.is_offline();
    // Asking apt for its mirrors is only worth it where something is to be downloaded.
    let mirrors = if offline || debian::codename().is_none() { Vec::new() } else { debian::mirrors()? };
    let archive = fetch::fetch(home, release, &mirrors, fetch::Options { offline })?;
    ui::step("unpack", &release.archive);
    source::unpack_into(archive.path(), into).map(drop)
}
