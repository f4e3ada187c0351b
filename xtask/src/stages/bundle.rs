//! The bundle: what is deployed, in one file. Every ELF file in it has been checked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::record::BundleFacts;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage, hex, remove};
use crate::stages::bench_binary::BenchBinary;
use crate::stages::install_tree::InstallTree;
use crate::stages::toolchain::Toolchain;
use crate::tables::product::Product;
use crate::tables::target::Target;
use crate::{elf, interrupt, ui};

/// Raised when this file makes another bundle of the same parts.
const RECIPE: u32 = 1;

/// Where the bench binary stands in a bundle.
pub const BENCH: &str = "bin/bench-suite";
/// Where the program that says what a machine is stands in a bundle.
pub const PROBE: &str = "bin/probe";
/// Where programs stand in a bundle whose libraries it brings: what is run, and a product's own tests.
const PROGRAMS: [&str; 2] = ["bin", "tests"];
/// Where libraries and the loader stand in a bundle.
pub const LIBRARIES: &str = "lib";
/// The manifest's name in a bundle.
pub const MANIFEST: &str = "manifest.json";

/// A bundle whose ELF files have been checked.
#[derive(Clone, Debug)]
pub struct Bundle {
    file: PathBuf,
    key: String,
    manifest: Manifest,
}

/// What a bundle says of itself, in its `manifest.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The target's name.
    pub target: String,
    /// Path of the SQL server in the bundle; empty where it has none.
    pub server: String,
    /// Path of the loader in the bundle.
    pub loader: String,
    /// What it is made of.
    pub facts: BundleFacts,
    /// SHA-256 of every other file, by path.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// What a person calls it, e.g. `mariadb 10.11.18 (source)`.
    pub fn label(&self) -> String {
        let facts = &self.facts;
        let words = [facts.product.as_str(), facts.release.as_str()];
        let name = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        format!("{name} ({}) for {}", facts.origin, self.target)
    }
}

impl Bundle {
    /// The `.tar.zst` file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Hash of its parts.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// Finds the bundle of these parts, or makes it.
pub fn make(
    home: &Home,
    toolchain: &Toolchain,
    product: &Product,
    tree: &InstallTree,
    bench: &BenchBinary,
) -> Result<Bundle> {
    let target = toolchain.target();
    let facts = tree.facts();
    let label = format!("{}-{}-{}-{}", facts.product, file_name(&facts.release), target.name, facts.origin);
    let stage = Stage { home, name: "bundles", label: label.clone(), leftover: Leftover::Discard };
    // The target's table decides what is checked: with other rules, the check is made again.
    let inputs = (tree.key(), bench.sha256(), toolchain.native_key(), target, &product.server, RECIPE);
    let key = crate::stage::key_of(&inputs)?;
    let name = format!("{label}.tar.zst");
    let done = stage.get(&inputs, |work| {
        ui::step("bundle", &name);
        home.need_space(1 << 29, "a bundle")?;
        let root = work.join("tree");
        gather(&root, toolchain, tree, bench)?;
        let elf = elf::check(&root, target, &home.log(&format!("elf-{label}"))?)?;
        let manifest = manifest(&root, target, product, tree, elf, &key)?;
        fs::write(root.join(MANIFEST), serde_json::to_string_pretty(&manifest)?)?;
        pack(&root, &work.join(&name))?;
        remove(&root)?;
        Ok(manifest)
    })?;
    Ok(Bundle { file: done.folder.join(name), key: done.key, manifest: done.receipt })
}

/// A version as part of a file name: Debian's hold colons and tildes.
fn file_name(version: &str) -> String {
    version.replace(|c: char| !(c.is_ascii_alphanumeric() || ".-+".contains(c)), "_")
}

fn gather(root: &Path, toolchain: &Toolchain, tree: &InstallTree, bench: &BenchBinary) -> Result<()> {
    let target = toolchain.target();
    for folder in tree.folders() {
        copy_all(folder, root)?;
    }
    fs::create_dir_all(root.join("bin"))?;
    fs::copy(toolchain.probe_program(), root.join(PROBE))?;
    fs::copy(bench.path(), root.join(BENCH))?;
    let libraries = root.join(LIBRARIES);
    fs::create_dir_all(&libraries)?;
    let loader = loader_name(target);
    let mut wanted: Vec<String> = vec![loader];
    for folder in PROGRAMS.iter().map(|name| root.join(name)).filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let file = entry?.path();
            if elf::is_elf(&file)? {
                wanted.extend(elf::needed(&file)?);
            }
        }
    }
    while let Some(name) = wanted.pop() {
        let to = libraries.join(&name);
        if to.exists() {
            continue;
        }
        let from = tree.library_folders().iter().map(|folder| folder.join(&name)).find(|path| path.exists());
        let from = from.ok_or_else(|| {
            let folders: Vec<String> =
                tree.library_folders().iter().map(|f| f.display().to_string()).collect();
            Failure::new(
                Kind::VerificationFailed,
                format!("the library {name} is in none of {}", folders.join(", ")),
            )
            .next(format!("add its package to xtask/targets/{}.toml or the product's file", target.name))
        })?;
        fs::copy(&from, &to)?;
        wanted.extend(elf::needed(&to)?);
    }
    Ok(())
}

fn loader_name(target: &Target) -> String {
    Path::new(&target.elf.loader).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for (path, relative) in files_below(from)? {
        let target = to.join(relative);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    Ok(())
}

/// Every file below a folder: its path, and its path within.
fn files_below(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                found.push((path, relative));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn manifest(
    root: &Path,
    target: &Target,
    product: &Product,
    tree: &InstallTree,
    elf: model::record::ElfFacts,
    key: &str,
) -> Result<Manifest> {
    let facts = BundleFacts { hash: key.to_string(), elf, ..tree.facts().clone() };
    let mut files = BTreeMap::new();
    for (path, relative) in files_below(root)? {
        files.insert(relative, hex(&Sha256::digest(fs::read(path)?)));
    }
    let loader = format!("{LIBRARIES}/{}", loader_name(target));
    let server = product.server().map(|server| server.program.clone()).unwrap_or_default();
    Ok(Manifest { target: target.name.clone(), server, loader, facts, files })
}

fn pack(root: &Path, file: &Path) -> Result<()> {
    let out = File::create(file).with_context(|| format!("cannot make {}", file.display()))?;
    let mut archive = tar::Builder::new(zstd::Encoder::new(out, 6)?);
    archive.mode(tar::HeaderMode::Deterministic);
    for (path, relative) in files_below(root)? {
        interrupt::check()?;
        archive.append_path_with_name(&path, &relative)?;
    }
    archive.into_inner()?.finish()?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_versions_become_file_names() {
        assert_eq!(file_name("1:10.11.18-0+deb12u1~x"), "1_10.11.18-0+deb12u1_x");
    }

    #[test]
    fn a_packed_tree_unpacks_to_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/x"), "program").unwrap();
        let file = folder.path().join("b.tar.zst");
        pack(&root, &file).unwrap();
        let out = folder.path().join("out");
        tar::Archive::new(zstd::Decoder::new(File::open(&file).unwrap()).unwrap()).unpack(&out).unwrap();
        assert_eq!(fs::read_to_string(out.join("bin/x")).unwrap(), "program");
    }
}
