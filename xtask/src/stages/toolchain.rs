//! A target's toolchain: compiler, sysroot, emulator, Rust std; each one probed by running what it makes.
//!
//! No probe passed, no toolchain; no toolchain, no configure.

mod probe;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use xshell::{Shell, cmd};

pub use probe::Probed;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, output};
use crate::stage::{Leftover, Stage, key_of};
use crate::stages::emulator::{self, Emulator};
use crate::stages::rust_std::{self, RustStd};
use crate::stages::sysroot::{self, Sysroot};
use crate::tables::target::Target;
use crate::ui;

/// Raised when probes or the CMake file change.
const RECIPE: u32 = 2;
const STAGE: &str = "toolchains";

/// A toolchain whose probes have passed.
#[derive(Clone, Debug)]
pub struct Toolchain {
    target: Target,
    sysroot: Sysroot,
    emulator: Emulator,
    rust: RustStd,
    folder: PathBuf,
    key: String,
    native_key: String,
    compiler: String,
    probed: Probed,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    probed: Probed,
}

impl Toolchain {
    /// The target it makes programs for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its sysroot.
    pub fn sysroot(&self) -> &Sysroot {
        &self.sysroot
    }

    /// Its emulator.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Its Rust compiler.
    pub fn rust(&self) -> &RustStd {
        &self.rust
    }

    /// Hash of all that it is made of.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Hash of what C and C++ programs are made with: what a build folder is named by. Rust is not in it, so that a
    /// new rustc does not compile a server anew.
    pub fn native_key(&self) -> &str {
        &self.native_key
    }

    /// First line of the C compiler's `--version`.
    pub fn compiler(&self) -> &str {
        &self.compiler
    }

    /// What the probes found.
    pub fn probed(&self) -> &Probed {
        &self.probed
    }

    /// The file that CMake gets.
    pub fn cmake_file(&self) -> PathBuf {
        self.folder.join("toolchain.cmake")
    }

    /// A small program of the target that says what it runs on and how fast that is.
    pub fn probe_program(&self) -> PathBuf {
        self.folder.join(probe::C_PROGRAM)
    }

    /// What that program said on a machine, checked: how many times slower than this host it is.
    pub fn slowdown(&self, said: &str) -> Result<f64> {
        probe::slowdown(&self.target, &self.folder, said)
    }

    /// A command of `cargo` that compiles for the target with this toolchain.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(process::cargo());
        let triple = self.target.rust_triple.to_uppercase().replace('-', "_");
        cargo.env("RUSTC", &self.rust.rustc).env_remove("RUSTFLAGS").env_remove("RUSTC_WRAPPER");
        cargo.env(format!("CARGO_TARGET_{triple}_LINKER"), self.target.tool("gcc"));
        // What the crate `cc` compiles for the target.
        let name = self.target.rust_triple.replace('-', "_");
        let sysroot = format!("--sysroot={}", self.sysroot.root().display());
        cargo
            .env(format!("CC_{name}"), self.target.tool("gcc"))
            .env(format!("CXX_{name}"), self.target.tool("g++"));
        let native = format!("{} {sysroot}", self.target.cpu.flags.join(" "));
        cargo.env(format!("CFLAGS_{name}"), &native).env(format!("CXXFLAGS_{name}"), &native);
        let flags = [format!("-Ctarget-cpu={}", self.target.cpu.rust), format!("-Clink-arg={sysroot}")];
        // This form of the variable survives paths with spaces.
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        cargo
    }
}

/// How a program of the target is started with libraries from `folders`: emulator, loader, library path.
///
/// The program's own loader is named instead of giving the emulator a root folder (`-L`), which would shadow every
/// path of the host that also exists there.
pub fn run_prefix(emulator: &Emulator, loader: &Path, folders: &[PathBuf]) -> Vec<OsString> {
    let joined: Vec<OsString> = folders.iter().map(|folder| folder.clone().into_os_string()).collect();
    vec![
        emulator.program().into(),
        "-cpu".into(),
        emulator.cpu().into(),
        loader.into(),
        "--library-path".into(),
        joined.join(std::ffi::OsStr::new(":")),
    ]
}

/// Finds or makes the target's toolchain, probed.
pub fn make(home: &Home, target: &Target) -> Result<Toolchain> {
    let sysroot = sysroot::make(home, target, false)?;
    let emulator = emulator::find(home, target)?;
    let rust = rust_std::make(home, target)?;
    let compiler = compiler_version(target)?;
    // What makes another program, or another verdict of the probes; not what only checks or describes.
    let made_for =
        (&target.rust_triple, &target.gnu_prefix, &target.cmake_processor, &target.cpu, &target.elf.loader);
    let promised = (target.byte_order, target.pointer_bits);
    let native_key = key_of(&(made_for, promised, sysroot.root(), sysroot.packages(), &emulator, &compiler))?;
    let inputs = (&native_key, &rust, probe::SOURCES, RECIPE);
    let stage = Stage { home, name: STAGE, label: target.name.clone(), leftover: Leftover::Discard };
    let parts = probe::Parts { target, sysroot: &sysroot, emulator: &emulator, rust: &rust };
    let done = stage.get(&inputs, |work| {
        ui::step(
            "toolchain",
            &format!("probing {compiler} and Rust {} on {}", rust.version, emulator.version()),
        );
        let probed = probe::all(&parts, work, &home.log(&format!("toolchain-{}", target.name))?)?;
        fs::write(work.join("toolchain.cmake"), cmake_text(&parts, &probed))?;
        Ok(Receipt { probed })
    })?;
    if done.reused {
        // A tool that worked last week may be broken today: one probe is run again, which takes a twentieth
        // of a second.
        probe::one(target, &sysroot, &emulator, &done.folder)?;
    }
    let (folder, key, probed) = (done.folder, done.key, done.receipt.probed);
    let target = target.clone();
    Ok(Toolchain { target, sysroot, emulator, rust, folder, key, native_key, compiler, probed })
}

/// Tries an emulator on the floating-point probe of a toolchain made earlier, at the baseline CPU; `None`: none was
/// made.
pub fn try_emulator(
    home: &Home,
    target: &Target,
    sysroot: &Sysroot,
    emulator: &Emulator,
) -> Option<Result<()>> {
    let toolchains = fs::read_dir(home.root().join(STAGE)).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mine = format!("{}-", target.name);
    let made = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&mine))
            && path.join(probe::C_PROGRAM).exists()
    };
    let folder = toolchains.into_iter().find(made)?;
    Some(probe::one(target, sysroot, emulator, &folder))
}

fn compiler_version(target: &Target) -> Result<String> {
    let name = target.tool("gcc");
    let sh = Shell::new()?;
    let text = output(cmd!(sh, "{name} --version")).map_err(|_| {
        Failure::new(Kind::MissingPackages, format!("the compiler {name} is missing or does not start"))
            .next(format!("cargo xtask setup --target {}", target.name))
    })?;
    Ok(text.lines().next().unwrap_or_default().to_string())
}

/// The toolchain file. CPU flags are not in it: given here they are lost in some products' configure.
fn cmake_text(parts: &probe::Parts, probed: &Probed) -> String {
    let target = parts.target;
    let root = parts.sysroot.root().display().to_string();
    let loader = parts.sysroot.root().join(&target.elf.loader);
    let prefix = run_prefix(parts.emulator, &loader, &parts.sysroot.library_folders());
    let prefix: Vec<String> = prefix.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut text = format!(
        "set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR {})\nset(CMAKE_C_COMPILER {})\n\
         set(CMAKE_CXX_COMPILER {})\nset(CMAKE_SYSROOT \"{root}\")\n",
        target.cmake_processor,
        target.tool("gcc"),
        target.tool("g++"),
    );
    let multiarch =
        parts.sysroot.library_folders().first().and_then(|f| f.file_name().map(|n| n.to_os_string()));
    if let Some(name) = multiarch {
        text += &format!("set(CMAKE_LIBRARY_ARCHITECTURE {})\n", name.to_string_lossy());
    }
    text += &format!("set(CMAKE_CROSSCOMPILING_EMULATOR \"{}\")\n", prefix.join(";"));
    text += "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)\n";
    for kind in ["LIBRARY", "INCLUDE", "PACKAGE"] {
        text += &format!("set(CMAKE_FIND_ROOT_PATH_MODE_{kind} ONLY)\n");
    }
    if probed.needs_libatomic {
        text += "link_libraries(-latomic)\n";
    }
    text
}
