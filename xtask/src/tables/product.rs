//! A product: its releases and how it is fetched, built, started, as its file in `xtask/products` says.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind, unknown};
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
    /// Where a patch is sent, in words.
    #[serde(default)]
    pub upstream: Option<String>,
    /// The product whose releases these are, where one archive, and one patched tree, serves both.
    #[serde(default)]
    pub source_of: Option<String>,
    /// Releases; the first is the default. Those of the other product where there is one.
    #[serde(default)]
    pub release: Vec<Release>,
    /// How it is built.
    pub build: Build,
    /// What of it is installed.
    pub install: Vec<Install>,
    /// What programs that are compiled against it need, e.g. the load generator against libndbclient; not deployed.
    #[serde(default)]
    pub develop: Vec<Install>,
    /// The suite that `bench` runs unless another is named.
    #[serde(default = "smoke")]
    pub suite: String,
    /// What else is built and installed where it is asked for by name.
    #[serde(default)]
    pub part: BTreeMap<String, Part>,
    /// How a data folder is made and the SQL server started.
    #[serde(default)]
    pub server: Option<Server>,
    /// The programs of a cluster, where the product is one.
    #[serde(default)]
    pub cluster: Option<Cluster>,
    /// The distribution's own packages of it.
    #[serde(default)]
    pub distro: Option<Distro>,
    /// Products that are its parts as they were asked for; not in the file.
    #[serde(skip)]
    pub joined: Vec<Product>,
}

fn smoke() -> String {
    "smoke".into()
}

/// What `--with NAME` adds to a product.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Part {
    /// One line for people.
    pub description: String,
    /// Another product of the same source, whose own build this part is.
    #[serde(default)]
    pub product: Option<String>,
    /// Ninja's targets.
    #[serde(default)]
    pub targets: Vec<String>,
    /// What of it is installed; an entry with `{target}` stands for one of each target.
    #[serde(default)]
    pub install: Vec<Install>,
}

impl Part {
    /// What of it is installed, entry by entry.
    fn installed(&self) -> Vec<Install> {
        let each = |entry: &Install, target: &String| Install {
            from: entry.from.replace("{target}", target),
            or: entry.or.as_ref().map(|path| path.replace("{target}", target)),
            to: entry.to.replace("{target}", target),
        };
        let all = self.install.iter().flat_map(|entry| match entry.to.contains("{target}") {
            true => self.targets.iter().map(|target| each(entry, target)).collect(),
            false => vec![entry.clone()],
        });
        all.collect()
    }
}

/// The programs of a cluster, by their paths in the install tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The management node.
    pub management: String,
    /// A data node.
    pub data: String,
    /// The management client.
    pub client: String,
    /// Says what a data node is configured with.
    pub config: String,
    /// Further arguments of an SQL server that is a node of a cluster.
    pub server_arguments: Vec<String>,
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
    /// Folders of the build folder that hold libraries which its programs, also those that run in the build, need.
    #[serde(default)]
    pub library_folders: Vec<String>,
    /// CMake settings; with `source-of` those of the other product stand before them.
    pub cmake: BTreeMap<String, String>,
    /// Generated headers to be checked after configure; with `source-of` those of the other product, if there are none.
    #[serde(default)]
    pub config_header: Vec<ConfigHeader>,
    /// What configure must have found out; with `source-of` what the other product says, if there is nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_cache: Option<ConfigCache>,
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
    #[serde(default)]
    pub big_endian: Option<String>,
    /// Macros of which one must be defined, e.g. the spin hint of each family of CPUs.
    #[serde(default)]
    pub any_of: Vec<Vec<String>>,
}

/// What `CMakeCache.txt` must say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConfigCache {
    /// Results of probes that must be true and that no header shows: they reach the compiler as its flags.
    pub defined: Vec<String>,
}

/// A file or folder to install.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Install {
    /// Path in the build folder (`{build}/…`) or the source tree (`{source}/…`).
    pub from: String,
    /// Where other releases have it: taken where `from` is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub or: Option<String>,
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
    /// The argument that lets the server make its data folder by itself; left out: from the SQL files below.
    #[serde(default)]
    pub initialize: Option<String>,
    /// Lines of the SQL files that hold this are left out.
    pub bootstrap_without: Option<String>,
    /// Statements before the files, when a data folder is made.
    #[serde(default)]
    pub bootstrap_first: Vec<String>,
    /// SQL files in the install tree that make a data folder's system tables.
    #[serde(default)]
    pub bootstrap: Vec<String>,
    /// Arguments of every start.
    pub arguments: Vec<String>,
    /// Further arguments on a machine that has neither native AIO nor io_uring.
    pub simulated_io_arguments: Vec<String>,
    /// Variables that are read back once the server is ready, and recorded.
    pub settings: Vec<String>,
    /// Parts of warnings that every build gives, a native one too, and that say nothing of this one: not recorded.
    #[serde(default)]
    pub usual_warnings: Vec<String>,
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
        if let Some(other) = &product.source_of {
            let other = Product::load(other)?;
            product.inherit(other);
        }
        Ok(product)
    }

    /// Takes over from the product that shares the source what holds for both.
    fn inherit(&mut self, other: Product) {
        self.release = other.release;
        let mut cmake = other.build.cmake;
        cmake.append(&mut self.build.cmake);
        self.build.cmake = cmake;
        if self.build.library_folders.is_empty() {
            self.build.library_folders = other.build.library_folders;
        }
        if self.build.config_header.is_empty() {
            self.build.config_header = other.build.config_header;
        }
        self.build.config_cache = self.build.config_cache.take().or(other.build.config_cache);
        self.server = self.server.take().or(other.server);
    }

    /// With these parts, which are built and installed like the rest.
    pub fn with(mut self, parts: &[String]) -> Result<Self> {
        let known: Vec<String> = self.part.keys().cloned().collect();
        for name in parts {
            let part = self.part.get(name);
            let part = part.ok_or_else(|| unknown(&format!("part of {}", self.name), name, &known))?;
            self.build.targets.extend(part.targets.clone());
            self.install.extend(part.installed());
            if let Some(product) = &part.product {
                self.joined.push(Product::load(product)?);
            }
        }
        Ok(self)
    }

    /// Its SQL server; an error where none is installed.
    pub fn server(&self) -> Result<&Server> {
        let installed = |server: &&Server| {
            let own = self.install.iter().chain(self.joined.iter().flat_map(|product| &product.install));
            let mut all = own.chain(self.distro.iter().flat_map(|distro| &distro.install));
            all.any(|entry| entry.to == server.program)
        };
        self.server.as_ref().filter(installed).ok_or_else(|| {
            let what = format!("{} has no SQL server as it was asked for", self.name);
            let parts = self.part.iter().find(|(_, part)| part.product.as_deref() == Some(self.source()));
            let next = match parts {
                Some((name, _)) => format!("add --with {name}"),
                None => "choose a product that has one: cargo xtask products".into(),
            };
            Failure::new(Kind::Usage, what).next(next).into()
        })
    }

    /// The programs of a cluster; an error where it is none.
    pub fn cluster(&self) -> Result<&Cluster> {
        self.cluster.as_ref().ok_or_else(|| {
            Failure::new(Kind::Usage, format!("{} is no cluster: it has no topology", self.name))
                .next("use --product ndb, or leave --topology out")
                .into()
        })
    }

    /// The distribution's packages of it; an error where there are none.
    pub fn distro(&self) -> Result<&Distro> {
        self.distro.as_ref().ok_or_else(|| {
            let what = format!("no distribution has packages of {}", self.name);
            Failure::new(Kind::Usage, what).next("use --from source").into()
        })
    }

    /// The name that its source tree and its patches go by.
    pub fn source(&self) -> &str {
        self.source_of.as_deref().unwrap_or(&self.name)
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
