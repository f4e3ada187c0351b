//! The check of a bundle's ELF files: each must be what the target says, by its headers and by its instructions.
//!
//! Everything that is wrong is found and told at once. What the words mean (ABI bits, loader, baseline) is in the
//! target's file; nothing here knows an architecture.

mod disassembler;
mod file;
mod jump_table;
mod listing;
mod report;
mod rules;
mod scan;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tiny;
mod version;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::record::ElfFacts;

use crate::failure::{Failure, Kind};
use crate::interrupt;
use crate::process::find_program;
use crate::tables::target::{Isa, Target};

use disassembler::{Disassembler, Objdump};
use file::File;
use report::{Report, Violation};
use rules::Libraries;

/// A bundle's ELF files by their path in it.
type Files = BTreeMap<PathBuf, File>;

/// The folder of a bundle that its libraries come from; no other is searched.
pub const LIBRARIES: &str = "lib";

/// Whether a file begins as ELF files do.
pub fn is_elf(path: &Path) -> Result<bool> {
    let mut begin = Vec::new();
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(4).read_to_end(&mut begin).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(begin == b"\x7fELF")
}

/// The libraries that a program or library asks for (`DT_NEEDED`), in its order.
pub fn needed(path: &Path) -> Result<Vec<String>> {
    Ok(whole(path)?.needed)
}

/// The loader that a program asks for (`PT_INTERP`).
pub fn interpreter(path: &Path) -> Result<Option<String>> {
    Ok(whole(path)?.interpreter)
}

/// Whether an ELF file is for a target, by its headers.
pub fn is_for(path: &Path, target: &Target) -> Result<bool> {
    let file = whole(path)?;
    Ok((file.class, file.machine, file.byte_order)
        == (target.elf.class, target.elf.machine, target.byte_order))
}

fn whole(path: &Path) -> Result<File> {
    match File::read(path)? {
        Ok(file) => Ok(file),
        Err(corrupt) => {
            let what = format!("{} is not a whole ELF file: {corrupt}", path.display());
            Err(Failure::new(Kind::VerificationFailed, what).next("build or fetch it anew").into())
        }
    }
}

/// How a library is not of the target at all: class, byte order, machine, ABI. Nothing for linker scripts.
pub fn foreign(path: &Path, target: &Target) -> Result<Vec<String>> {
    if !is_elf(path)? {
        return Ok(Vec::new());
    }
    Ok(match File::read(path)? {
        Ok(file) => rules::identity(&file, target),
        Err(corrupt) => vec![format!("is not a whole ELF file: {corrupt}")],
    })
}

/// A library that says of itself what a target asks for, for the tests of others.
#[cfg(test)]
pub fn tiny_library(target: &Target) -> Vec<u8> {
    let elf = &target.elf;
    tiny::Tiny::new(elf.class, target.byte_order, elf.machine, elf.flags).bytes()
}

/// Checks every ELF file below `bundle`; what is wrong stands in the failure, all of it in `log`.
pub fn check(bundle: &Path, target: &Target, log: &Path) -> Result<ElfFacts> {
    let tool = target.tool("objdump");
    if target.isa.is_some() && find_program(&tool).is_none() {
        let what = format!("{tool} is not installed: instructions beyond the baseline could not be found");
        return Err(Failure::new(Kind::MissingPackages, what).next("cargo xtask setup").into());
    }
    check_with(bundle, target, log, &Objdump { tool, log })
}

/// [`check`], with the disassembler given.
fn check_with(
    bundle: &Path,
    target: &Target,
    log: &Path,
    disassembler: &dyn Disassembler,
) -> Result<ElfFacts> {
    let mut report = Report::new(bundle, target);
    let files = read_all(bundle, &mut report)?;
    let libraries = Libraries::of(bundle, &files)?;
    for (path, file) in &files {
        report.add(path, rules::check(path, file, target, &libraries)?);
    }
    if let Some(isa) = &target.isa {
        scan_all(bundle, target, isa, &files, disassembler, &mut report)?;
    }
    report.facts.glibc_needed = version::highest("GLIBC_", files.values().flat_map(File::versions_needed));
    report.finish(log)
}

/// Reads the headers of all ELF files; a broken one is a violation.
fn read_all(bundle: &Path, report: &mut Report) -> Result<Files> {
    let mut files = Files::new();
    for path in elf_files(bundle)? {
        interrupt::check()?;
        let name = path.strip_prefix(bundle)?.to_path_buf();
        report.facts.files += 1;
        match File::read(&path)? {
            Ok(file) => {
                files.insert(name, file);
            }
            Err(corrupt) => report.add(&name, [Violation::Other(format!("is broken: {corrupt}"))]),
        }
    }
    Ok(files)
}

/// Looks for instructions beyond the baseline in all files that are of this target at all.
fn scan_all(
    bundle: &Path,
    target: &Target,
    isa: &Isa,
    files: &Files,
    disassembler: &dyn Disassembler,
    report: &mut Report,
) -> Result<()> {
    let ours: Vec<&Path> = files
        .iter()
        .filter(|(_, file)| rules::identity(file, target).is_empty())
        .map(|(path, _)| path.as_path())
        .collect();
    let found = scan::all(bundle, &ours, isa, target.byte_order, disassembler)?;
    for (path, found) in ours.into_iter().zip(found) {
        let Some(file) = files.get(path) else { continue };
        report.instructions(path, found, rules::dispatch(isa, path, file));
    }
    report.facts.instructions_scanned = true;
    Ok(())
}

/// All ELF files below a folder, sorted; symbolic links are not followed.
fn elf_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let kind = entry.file_type().with_context(cannot)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && is_elf(&entry.path())? {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
