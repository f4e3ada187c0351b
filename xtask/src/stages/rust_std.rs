//! Rust's standard library for a target: rustup's where it is installed or can be had, else built from source.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xshell::{Shell, cmd};

use crate::debian::{self, AptRoot};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, Logged, find_program, output, shown};
use crate::stage::{Leftover, Stage};
use crate::tables::target::Target;
use crate::ui;

/// Raised when this file builds another library from the same sources.
const RECIPE: u32 = 2;

/// Debian suites that are asked for the library's source, and the package that holds it.
const SOURCE_SUITES: [&str; 4] = ["trixie-backports", "trixie", "bookworm-backports", "sid"];
const SOURCE_PACKAGE: &str = "rust-src";

/// Set to `build-std`, the library is built even where rustup has it.
const VARIABLE: &str = "PORTBENCH_RUST_STD";

/// A Rust compiler that has the target's standard library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RustStd {
    /// What cargo gets as `RUSTC`.
    pub rustc: PathBuf,
    /// Its version, e.g. `1.95.0`.
    pub version: String,
    /// `host` (the compiler's own target), `rustup` or `build-std`.
    pub from: String,
}

/// Finds or makes the standard library for the target.
pub fn make(home: &Home, target: &Target) -> Result<RustStd> {
    let rustc = Rustc::find()?;
    let triple = &target.rust_triple;
    // What the host's own programs are made with is there, whoever installed it, and is never made anew.
    let own = *triple == rustc.host;
    let build_only = !own && std::env::var_os(VARIABLE).is_some_and(|value| value == "build-std");
    let from = if own { "host" } else { "rustup" };
    let from_rustup =
        || RustStd { rustc: rustc.program.clone(), version: rustc.version.clone(), from: from.into() };
    if own && !rustc.has(triple) {
        let what = format!("Rust {} has no standard library for this host, {triple}", rustc.version);
        let next = "install it with the package that has rustc, or: rustup toolchain install stable";
        return Err(Failure::new(Kind::MissingPackages, what).next(next).into());
    }
    if !build_only && rustc.has(triple) {
        return Ok(from_rustup());
    }
    let stage = Stage {
        home,
        name: "rust-std",
        label: format!("{}-{}", target.name, rustc.version),
        leftover: Leftover::Discard,
    };
    // Where rustup can download, it is asked once; where it cannot, the library is built, and found again afterwards.
    let built = stage.folder(&(&rustc.identity, triple, RECIPE))?.exists();
    if !build_only && !built && add_by_rustup(home, triple)? && rustc.has(triple) {
        return Ok(from_rustup());
    }
    let done = stage.get(&(&rustc.identity, triple, RECIPE), |work| {
        ui::step("rust-std", &format!("building Rust {}'s standard library for {triple}", rustc.version));
        build(home, &rustc, triple, work)
    })?;
    // The wrapper names the folder it was made in, which has been renamed since.
    let wrapper = done.folder.join("bin/rustc");
    write_wrapper(&wrapper, &rustc.program, &done.folder)?;
    Ok(RustStd { rustc: wrapper, version: rustc.version, from: "build-std".into() })
}

/// What there is of Rust for the target, in words; `Err` says what is missing.
pub fn present(home: &Home, target: &Target) -> Result<std::result::Result<String, String>> {
    let rustc = Rustc::find()?;
    if rustc.has(&target.rust_triple) {
        let whose =
            if target.rust_triple == rustc.host { "with the host's own std" } else { "std by rustup" };
        return Ok(Ok(format!("Rust {}, {whose}", rustc.version)));
    }
    let label = format!("{}-{}", target.name, rustc.version);
    let stage = Stage { home, name: "rust-std", label, leftover: Leftover::Discard };
    let built = stage.peek::<()>(&(&rustc.identity, &target.rust_triple, RECIPE))?.is_some();
    let (version, triple) = (&rustc.version, &target.rust_triple);
    Ok(if built {
        Ok(format!("Rust {version}, std built from source"))
    } else {
        Err(format!("Rust {version}, no std for {triple}"))
    })
}

/// The host's compiler.
struct Rustc {
    program: PathBuf,
    version: String,
    host: String,
    sysroot: PathBuf,
    /// All that tells one compiler from another.
    identity: String,
}

impl Rustc {
    fn find() -> Result<Self> {
        // Through cargo we get the toolchain's own program, otherwise the one in $PATH.
        let named = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
        let sh = Shell::new()?;
        let identity = output(cmd!(sh, "{named} -vV"))?;
        let field = |key: &str| {
            let line = identity.lines().find_map(|line| line.strip_prefix(key));
            line.map(|value| value.trim().to_string()).with_context(|| format!("rustc -vV says no `{key}`"))
        };
        let (version, host) = (field("release:")?, field("host:")?);
        let sysroot = PathBuf::from(output(cmd!(sh, "{named} --print sysroot"))?.trim());
        // `rustc` in $PATH may be rustup's proxy, which chooses by folder: take the real one.
        let real = sysroot.join("bin/rustc");
        let program = if real.is_file() { real } else { named };
        Ok(Rustc { program, version, host, sysroot, identity })
    }

    fn has(&self, triple: &str) -> bool {
        let folder = self.sysroot.join("lib/rustlib").join(triple).join("lib");
        fs::read_dir(folder).is_ok_and(|mut files| {
            files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libstd-")))
        })
    }
}

fn add_by_rustup(home: &Home, triple: &str) -> Result<bool> {
    if find_program("rustup").is_none() || home.may_download("a target of rustup").is_err() {
        return Ok(false);
    }
    ui::step("rust-std", &format!("asking rustup for {triple}"));
    let log = home.log("rustup")?;
    let sh = Shell::new()?;
    let add = cmd!(sh, "rustup target add {triple}");
    let result = Logged { name: "rustup", log: &log, next: "see the log" }.run(add);
    crate::interrupt::check()?;
    Ok(result.is_ok())
}

/// Builds std into `work`, laid out as a sysroot: the host's own libraries as links, the target's beside them.
fn build(home: &Home, rustc: &Rustc, triple: &str, work: &Path) -> Result<()> {
    let source = library_source(home, rustc)?;
    let rustlib = work.join("lib/rustlib");
    fs::create_dir_all(rustlib.join("src/rust"))?;
    symlink(rustc.sysroot.join("lib/rustlib").join(&rustc.host), rustlib.join(&rustc.host))?;
    symlink(&source, rustlib.join("src/rust/library"))?;
    let wrapper = work.join("bin/rustc");
    write_wrapper(&wrapper, &rustc.program, work)?;

    // Any crate will do: std is built for it. It aborts at a panic, as the bench binary does: the library must be built
    // for the one way or the other.
    let scratch = tempfile::tempdir_in(home.root())?;
    fs::create_dir_all(scratch.path().join("src"))?;
    let manifest = "[package]\nname = \"nothing\"\nedition = \"2021\"\n\
                    [profile.release]\npanic = \"abort\"\n[workspace]\n";
    fs::write(scratch.path().join("Cargo.toml"), manifest)?;
    fs::write(scratch.path().join("src/lib.rs"), "#![no_std]\n")?;
    let log = home.log(&format!("rust-std-{triple}"))?;
    let (sh, cargo) = (Shell::new()?, process::cargo());
    sh.change_dir(scratch.path());
    let std = "-Zbuild-std=std,panic_abort";
    let build = cmd!(sh, "{cargo} build --release {std} --target {triple} --target-dir target")
        .env("RUSTC", &wrapper)
        .env_remove("RUSTFLAGS")
        // Bitcode beside the machine code, so that the bench binary can be optimised across crates.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Cembed-bitcode=yes")
        // The only place that asks a stable compiler for an unstable feature.
        .env("RUSTC_BOOTSTRAP", "1");
    let next = format!("see the log, or try: rustup target add {triple}");
    Logged { name: "cargo", log: &log, next: &next }.run(build)?;

    let libraries = rustlib.join(triple).join("lib");
    fs::create_dir_all(&libraries)?;
    for entry in fs::read_dir(scratch.path().join("target").join(triple).join("release/deps"))? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let library = name.ends_with(".rlib") || name.ends_with(".rmeta");
        if library && !name.starts_with("libnothing") {
            fs::copy(&file, libraries.join(&name))?;
        }
    }
    Ok(())
}

/// The standard library's source of exactly this compiler.
fn library_source(home: &Home, rustc: &Rustc) -> Result<PathBuf> {
    let own = rustc.sysroot.join("lib/rustlib/src/rust/library");
    if own.join("std").is_dir() {
        return Ok(own);
    }
    if debian::codename().is_none() {
        let what = format!("the source of Rust {}'s standard library is missing", rustc.version);
        return Err(Failure::new(Kind::MissingPackages, what).next("rustup component add rust-src").into());
    }
    let label = format!("{SOURCE_PACKAGE}-{}", rustc.version);
    let done =
        Stage { home, name: "tools", label, leftover: Leftover::Discard }.get(&rustc.version, |work| {
            let suites = SOURCE_SUITES.map(String::from);
            let root = AptRoot::open(home, &debian::host_architecture()?, &suites)?;
            debian::unpack(&root.download_one(SOURCE_PACKAGE, Some(&rustc.version))?, work)
        })?;
    let library = done.folder.join(format!("usr/src/rustc-{}/library", rustc.version));
    anyhow::ensure!(library.join("std").is_dir(), "{SOURCE_PACKAGE} holds no {}", library.display());
    Ok(library)
}

/// A `rustc` that knows our sysroot, without writing into rustup's.
fn write_wrapper(wrapper: &Path, rustc: &Path, sysroot: &Path) -> Result<()> {
    let mut command = Command::new(rustc);
    command.arg("--sysroot").arg(sysroot);
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", shown(&command));
    if fs::read_to_string(wrapper).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(wrapper.parent().context("a wrapper in no folder")?)?;
    fs::write(wrapper, text).with_context(|| format!("cannot write {}", wrapper.display()))?;
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
