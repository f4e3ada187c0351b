//! A product: its releases and how it is fetched, built, started, as its file in `xtask/products` says.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::failure::unknown;
use crate::home::repository;
use crate::tables::target::{ByteOrder, Target};

/// One file of `xtask/products`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Product {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Licence of the product, as SPDX has it: what patches to it follow.
    pub licence: String,
    /// Releases; the first is the default.
    pub release: Vec<Release>,
    /// How it is built.
    pub build: Build,
    /// What of it is installed.
    pub install: Vec<Install>,
    /// How a data folder is made and the server started.
    pub server: Server,
    /// The distribution's own packages of it.
    pub distro: Distro,
}

/// One pinned version.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Release {
    /// Its version.
    pub version: String,
    /// File name of the archive.
    pub archive: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Where to get it, in order.
    pub locators: Vec<Locator>,
}

/// A place to get an archive from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Locator {
    /// A path in the pool of the machine's Debian mirror.
    DebianPool(String),
    /// An address.
    Url(String),
}

/// How a product is configured and compiled.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Build {
    /// Debian packages that the host needs for it.
    pub host_packages: Vec<String>,
    /// Space that source and build take, in MiB.
    pub disk_mib: u64,
    /// Ninja's targets.
    pub targets: Vec<String>,
    /// CMake settings.
    pub cmake: BTreeMap<String, String>,
    /// Generated headers to be checked after configure.
    pub config_header: Vec<ConfigHeader>,
}

/// What a generated header must say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigHeader {
    /// Path in the build folder.
    pub file: String,
    /// Macros that must be defined, e.g. functions that every Linux has: an empty answer means a broken emulator.
    pub defined: Vec<String>,
    /// Macros and their values; `{pointer-bytes}` and `{stack-direction}` stand for the target's.
    pub equal: BTreeMap<String, String>,
    /// The macro that is defined on big-endian targets only.
    pub big_endian: Option<String>,
}

/// A file or folder to install.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Install {
    /// Path in the build folder (`{build}/…`) or the source tree (`{source}/…`).
    pub from: String,
    /// Path in the install tree; a folder where `from` is one.
    pub to: String,
}

/// How a server is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// The program, in the install tree.
    pub program: String,
    /// Its command-line client, in the install tree: asks the server for its settings.
    pub client: String,
    /// Lines of the SQL files that hold this are left out.
    pub bootstrap_without: Option<String>,
    /// Statements before the files, when a data folder is made.
    pub bootstrap_first: Vec<String>,
    /// SQL files in the install tree that make a data folder's system tables.
    pub bootstrap: Vec<String>,
    /// Arguments of every start.
    pub arguments: Vec<String>,
    /// Further arguments on a machine that has neither native AIO nor io_uring.
    pub simulated_io_arguments: Vec<String>,
    /// Variables that are read back once the server is ready, and recorded.
    pub settings: Vec<String>,
}

/// The distribution's packages of a product.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Distro {
    /// Packages that hold the server.
    pub packages: Vec<String>,
    /// What is taken from them, `from` being a path in the packages.
    pub install: Vec<Install>,
}

impl Product {
    /// Reads the product `name`.
    pub fn load(name: &str) -> Result<Self> {
        let mut product: Product = super::load(&repository().join("xtask/products"), "product", name)?;
        product.name = name.to_string();
        Ok(product)
    }

    /// The names of all products.
    pub fn names() -> Result<Vec<String>> {
        super::names(&repository().join("xtask/products"))
    }

    /// The release `version`, or the first.
    pub fn release(&self, version: Option<&str>) -> Result<&Release> {
        let known: Vec<String> = self.release.iter().map(|r| r.version.clone()).collect();
        let wanted = version.unwrap_or(known.first().map_or("", String::as_str));
        let found = self.release.iter().find(|release| release.version == wanted);
        found.ok_or_else(|| unknown(&format!("release of {}", self.name), wanted, &known).into())
    }
}

impl ConfigHeader {
    /// The macros with the values that `target` wants; `None`: must not be defined.
    pub fn expected(&self, target: &Target) -> BTreeMap<String, Option<String>> {
        let fill = |value: &str| {
            value
                .replace("{pointer-bytes}", &(target.pointer_bits / 8).to_string())
                .replace("{stack-direction}", &target.stack_direction.to_string())
        };
        let mut all: BTreeMap<String, Option<String>> =
            self.equal.iter().map(|(name, value)| (name.clone(), Some(fill(value)))).collect();
        if let Some(name) = &self.big_endian {
            all.insert(name.clone(), (target.byte_order == ByteOrder::Big).then(|| "1".to_string()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_file_can_be_read_and_pins_its_releases() {
        for name in Product::names().unwrap() {
            let product = Product::load(&name).unwrap();
            assert!(!product.release.is_empty(), "{name} has no release");
            for release in &product.release {
                assert_eq!(release.sha256.len(), 64, "{name} {}", release.version);
                assert!(release.size > 0 && !release.locators.is_empty());
            }
        }
    }

    #[test]
    fn an_unknown_release_is_answered_with_the_known_ones() {
        let message = Product::load("mariadb").unwrap().release(Some("10.11.81")).unwrap_err().to_string();
        assert!(message.contains("did you mean 10.11.18"), "{message}");
    }
}
