//! The guest's first file system: busybox, our init script, the kernel's modules.
//!
//! It is the same for every boot. What differs comes in a second archive behind it, which is written for each boot.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::busybox::Busybox;
use super::cpio::Archive;
use super::kernel::Kernel;
use crate::home::Home;
use crate::stage::{Leftover, Stage};

/// Raised when this file makes another archive of the same parts.
const RECIPE: u32 = 1;

/// The guest's first process.
const INIT: &str = include_str!("../../../guest/init");

/// What differs from boot to boot.
pub struct Settings<'a> {
    /// Marks the lines of the console that are ours.
    pub nonce: &'a str,
    /// What relays must know.
    pub token: &'a str,
    /// The user id that programs run as.
    pub run_as: u32,
    /// The agent's port.
    pub port: u16,
    /// The guest's address with the length of its network's prefix.
    pub address: &'a str,
    /// The bundle's loader, by its path in the guest, as the next two are.
    pub loader: &'a Path,
    /// Its folder of libraries.
    pub libraries: &'a Path,
    /// Its bench binary, which has the agent in it.
    pub bench: &'a Path,
}

/// Finds the archive of these parts, or writes it.
pub fn make(home: &Home, label: &str, kernel: &Kernel, busybox: &Busybox) -> Result<PathBuf> {
    let stage = Stage { home, name: "initramfs", label: label.to_string(), leftover: Leftover::Discard };
    let done = stage.get(&(&kernel.key, &busybox.key, INIT, RECIPE), |work| {
        let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
        let mut archive = Archive::default();
        for folder in ["bin", "dev", "proc"] {
            archive.folder(folder, 0o755);
        }
        archive.folder("portbench", 0o700);
        archive.file("bin/busybox", 0o755, &read(&busybox.program)?);
        archive.link("bin/sh", "busybox");
        archive.file("init", 0o755, INIT.as_bytes());
        let mut names = String::new();
        for module in &kernel.modules {
            let name = module.file_name().context("a module without a name")?.to_string_lossy();
            archive.file(&format!("portbench/{name}"), 0o644, &read(module)?);
            names = names + &name + "\n";
        }
        archive.file("portbench/modules", 0o644, names.as_bytes());
        // Not compressed: an emulated CPU takes longer to unpack it than the host to read it.
        Ok(fs::write(work.join(FILE), archive.finish())?)
    })?;
    Ok(done.folder.join(FILE))
}

const FILE: &str = "initramfs.cpio";

/// The archive that comes behind the first.
pub fn settings(settings: &Settings) -> Vec<u8> {
    let mut archive = Archive::default();
    let mut text = String::new();
    for (name, value) in [
        ("NONCE", settings.nonce.to_string()),
        ("RUN_AS", settings.run_as.to_string()),
        ("PORT", settings.port.to_string()),
        ("ADDRESS", settings.address.to_string()),
        ("LOADER", settings.loader.display().to_string()),
        ("LIBRARIES", settings.libraries.display().to_string()),
        ("BENCH", settings.bench.display().to_string()),
    ] {
        text += &format!("{name}={value}\n");
    }
    archive.file("portbench/settings", 0o600, text.as_bytes());
    archive.file("portbench/token", 0o600, settings.token.as_bytes());
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_in_a_file_of_its_own_that_only_root_reads() {
        let text = settings(&Settings {
            nonce: "n1",
            token: "secret",
            run_as: 1000,
            port: 7,
            address: "10.0.2.15/24",
            loader: Path::new("/bundle/lib/ld.so"),
            libraries: Path::new("/bundle/lib"),
            bench: Path::new("/bundle/bin/x"),
        });
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("NONCE=n1\nRUN_AS=1000\nPORT=7\n") && text.contains("BENCH=/bundle/bin/x\n"));
        assert_eq!(text.matches("secret").count(), 1);
        assert_eq!(text.matches("00008180").count(), 2, "both files have mode 0600");
    }
}
