//! Debian packages without touching the host: a private apt root for any suite and architecture.
//!
//! The mirror is the one that the machine's own apt is configured for; signatures are checked by apt as always.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xshell::{Cmd, Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, Logged};
use crate::{interrupt, stage};

const NETWORK: &str = "check the network, then run the same command again";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// `VERSION_CODENAME` of a Debian host, e.g. `bookworm`; `None` on another distribution or without apt.
pub fn codename() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_string())
    };
    (value("ID")? == "debian" && process::find_program("apt-get").is_some())
        .then(|| value("VERSION_CODENAME"))?
}

/// What the host is called, for messages.
pub fn host_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let pretty = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    pretty.map_or("an unknown system".into(), |name| name.trim_matches('"').to_string())
}

/// Base addresses of the Debian mirrors that the machine's apt is configured for, each ending in `/`.
pub fn mirrors() -> Result<Vec<String>> {
    // Asked of apt rather than read from its files, which have two formats and many places.
    let sh = Shell::new()?;
    let text =
        process::output(cmd!(sh, "apt-get update --print-uris")).context("cannot ask apt for its mirrors")?;
    Ok(mirrors_of(&text))
}

/// The base addresses in the output of `apt-get update --print-uris` that hold Debian itself.
fn mirrors_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(uri) = line.strip_prefix('\'').and_then(|rest| rest.split('\'').next()) else { continue };
        let Some((base, rest)) = uri.split_once("dists/") else { continue };
        let suite = rest.split('/').next().unwrap_or_default();
        // Third-party sources have no `-updates` and no `-security`, and are not called debian.
        let debian = base.trim_end_matches('/').ends_with("debian") || suite.ends_with("-security");
        if debian && !found.iter().any(|known| known == base) {
            found.push(base.to_string());
        }
    }
    found
}

/// Debian's name for the host's architecture, e.g. `amd64`.
pub fn host_architecture() -> Result<String> {
    let sh = Shell::new()?;
    Ok(process::output(cmd!(sh, "dpkg --print-architecture"))?.trim().to_string())
}

/// A package file that apt downloaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// An apt root of our own: its lists, its cache and its empty list of installed packages.
pub struct AptRoot {
    folder: PathBuf,
    config: PathBuf,
    log: PathBuf,
    suites: Vec<String>,
    /// Whether every list could be brought up to date.
    fresh: bool,
    _lock: fs::File,
}

impl AptRoot {
    /// Makes the root for an architecture and suites, and brings its lists up to date.
    pub fn open(home: &Home, architecture: &str, suites: &[String]) -> Result<Self> {
        home.may_download(&format!("packages of {architecture} from {}", suites.join(", ")))?;
        let mirrors = mirrors()?;
        if mirrors.is_empty() {
            return Err(Failure::new(Kind::StageFailed, "apt is configured with no Debian mirror")
                .next("add one to /etc/apt/sources.list.d, then run this again")
                .into());
        }
        let key = stage::key_of(&(architecture, suites, &mirrors))?;
        let folder = home.folder("apt")?.join(format!("{architecture}-{key}"));
        for part in ["state/lists/partial", "cache/archives/partial", "etc"] {
            fs::create_dir_all(folder.join(part))
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let lock = stage::lock(&folder.join("lock"), "the same packages")?;
        fs::write(folder.join("state/status"), "")?;
        fs::write(folder.join("etc/sources.list"), sources(&mirrors, suites))?;
        let config = folder.join("apt.conf");
        fs::write(&config, apt_conf(&folder, architecture))?;
        let log = home.log(&format!("apt-{architecture}"))?;
        let mut root = AptRoot { folder, config, log, suites: suites.to_vec(), fresh: true, _lock: lock };
        // A mirror may be half-way through its own update. What we need may be in the lists that did arrive.
        let sh = Shell::new()?;
        if root
            .logged(NETWORK)
            .run(root.ours(cmd!(sh, "apt-get update -o APT::Update::Error-Mode=any")))
            .is_err()
        {
            interrupt::check()?;
            root.fresh = false;
        }
        Ok(root)
    }

    fn logged<'a>(&'a self, next: &'a str) -> Logged<'a> {
        Logged { name: "apt-get", log: &self.log, next }
    }

    /// A command that works on our root, not on the host's.
    fn ours<'a>(&self, command: Cmd<'a>) -> Cmd<'a> {
        command.env("APT_CONFIG", &self.config).env("LC_ALL", "C")
    }

    /// Downloads packages and all that they depend on; the files' paths.
    pub fn download_closure(&self, packages: &[String]) -> Result<Vec<PathBuf>> {
        let sh = Shell::new()?;
        let only = ["--yes", "--no-install-recommends"];
        let download = cmd!(sh, "apt-get install {only...} --download-only {packages...}");
        self.find(self.logged("see the log").run(self.ours(download)), packages)?;
        // The cache holds other lists' packages as well: apt is asked for the names of these.
        let nowhere = "Dir::Cache::archives=/nonexistent/";
        let list = cmd!(sh, "apt-get install {only...} --print-uris -qq -o {nowhere} {packages...}");
        let names = file_names(&process::output(self.ours(list))?);
        anyhow::ensure!(!names.is_empty(), "apt named no files for {}", packages.join(" "));
        let archives = self.folder.join("cache/archives");
        Ok(names.iter().map(|name| archives.join(name)).collect())
    }

    /// Downloads one package alone, optionally the newest whose version begins with `version`.
    pub fn download_one(&self, package: &str, version: Option<&str>) -> Result<PathBuf> {
        let wanted = match version {
            None => package.to_string(),
            Some(version) => format!("{package}={}", self.version_of(package, version)?),
        };
        let folder = tempfile::tempdir_in(&self.folder)?;
        let sh = Shell::new()?;
        sh.change_dir(folder.path());
        let download = self.ours(cmd!(sh, "apt-get download {wanted}"));
        self.find(self.logged("see the log").run(download), std::slice::from_ref(&wanted))?;
        let files = sh.read_dir(folder.path())?;
        let file = files.first().with_context(|| format!("apt downloaded no file for {wanted}"))?;
        let name = file.file_name().context("a file without a name")?;
        let kept = self.folder.join("cache").join(name);
        fs::rename(file, &kept)?;
        Ok(kept)
    }

    fn version_of(&self, package: &str, version: &str) -> Result<String> {
        let sh = Shell::new()?;
        let text = process::output(self.ours(cmd!(sh, "apt-cache madison {package}")))?;
        let versions = text.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
        let begins = |v: &&str| {
            v.strip_prefix(version).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        versions.clone().find(begins).map(String::from).ok_or_else(|| {
            let all: BTreeSet<&str> = versions.collect();
            let have = all.into_iter().collect::<Vec<_>>().join(", ");
            let what = format!("no {package} {version} in {}: there is {have}", self.suites.join(", "));
            Failure::new(Kind::MissingPackages, what).log(&self.log).into()
        })
    }

    /// Turns apt's own words for a missing package into ours.
    fn find(&self, result: Result<()>, packages: &[String]) -> Result<()> {
        let Err(error) = result else { return Ok(()) };
        if !self.fresh {
            let what = format!("apt could not fetch the package lists of {}", self.suites.join(", "));
            return Err(Failure::new(Kind::StageFailed, what).log(&self.log).next(NETWORK).into());
        }
        let said = process::tail(&self.log, 12);
        let missing = said.lines().find_map(|line| {
            let rest = line.strip_prefix("E: Unable to locate package ")?;
            // The log holds earlier attempts as well, which may have asked for something else.
            let name = rest.trim();
            packages.iter().any(|package| package == name).then(|| name.to_string())
        });
        match missing {
            Some(name) => {
                let what = format!(
                    "no package `{name}` in {} (asked for {})",
                    self.suites.join(", "),
                    packages.join(" ")
                );
                Err(Failure::new(Kind::MissingPackages, what)
                    .log(&self.log)
                    .next("mend the package's name in the table that asks for it")
                    .into())
            }
            None => Err(error),
        }
    }
}

fn sources(mirrors: &[String], suites: &[String]) -> String {
    let signed = if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
    // Point releases only: a security archive's indexes for other architectures are not always whole.
    let main = mirrors.iter().find(|mirror| !mirror.trim_end_matches('/').ends_with("-security"));
    let lines =
        suites.iter().flat_map(|suite| main.map(|mirror| format!("deb {signed}{mirror} {suite} main\n")));
    lines.collect()
}

fn apt_conf(folder: &Path, architecture: &str) -> String {
    let at = |part: &str| folder.join(part).display().to_string();
    // Names are from apt.conf(5). The sandbox user could not read a folder below a private home.
    format!(
        "Dir::State \"{}\";\nDir::State::status \"{}\";\nDir::Cache \"{}\";\nDir::Etc::sourcelist \"{}\";\n\
         Dir::Etc::sourceparts \"/dev/null\";\nDir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\nAPT::Architecture \"{architecture}\";\n\
         APT::Architectures {{ \"{architecture}\"; }};\nAPT::Sandbox::User \"root\";\n\
         APT::Keep-Downloaded-Packages \"true\";\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n",
        at("state"),
        at("state/status"),
        at("cache"),
        at("etc/sources.list"),
    )
}

/// File names in the output of `apt-get install --print-uris`: `'URI' NAME SIZE HASH`.
fn file_names(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|l| l.starts_with('\''))
        .filter_map(|l| l.split(' ').nth(1))
        .map(String::from)
        .collect()
}

/// Name and version of a package file.
pub fn package_of(deb: &Path) -> Result<Package> {
    let sh = Shell::new()?;
    let format = "--showformat=${Package} ${Version}";
    let text = process::output(cmd!(sh, "dpkg-deb --show {format} {deb}"))?;
    let (name, version) = text.trim().split_once(' ').context("dpkg-deb named no package and version")?;
    Ok(Package { name: name.into(), version: version.into() })
}

/// The packages that a package file depends on, each by its first alternative and without versions.
pub fn depends_of(deb: &Path) -> Result<Vec<String>> {
    let sh = Shell::new()?;
    let text = process::output(cmd!(sh, "dpkg-deb --field {deb} Depends"))?;
    let names = text.split(',').filter_map(|one| one.split_whitespace().next());
    Ok(names.map(String::from).collect())
}

/// Unpacks a package file into a folder; nothing of it is run.
pub fn unpack(deb: &Path, folder: &Path) -> Result<()> {
    let sh = Shell::new()?;
    process::output(cmd!(sh, "dpkg-deb --extract {deb} {folder}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_those_that_hold_debian() {
        let text = "'http://m.example/debian/dists/bookworm/InRelease' m_dists_bookworm_InRelease 0 \n\
                    'http://m.example/debian/dists/bookworm-updates/InRelease' x 0 \n\
                    'http://s.example/debian-security/dists/bookworm-security/InRelease' y 0 \n\
                    'https://deb.other.example/node_20.x/dists/nodistro/InRelease' z 0 \n";
        assert_eq!(mirrors_of(text), ["http://m.example/debian/", "http://s.example/debian-security/"]);
    }

    #[test]
    fn suites_come_from_the_main_mirror() {
        let mirrors = ["http://s/debian-security/".to_string(), "http://m/debian/".into()];
        let text = sources(&mirrors, &["bookworm".into(), "sid".into()]);
        assert!(text.contains("http://m/debian/ bookworm main") && text.contains("/ sid main"), "{text}");
        assert!(!text.contains("security"), "{text}");
    }

    #[test]
    fn file_names_are_read_from_print_uris() {
        let text = "'http://m/pool/a_1%253a2_all.deb' a_1%3a2_all.deb 12 SHA256:0\nReading…\n";
        assert_eq!(file_names(text).into_iter().collect::<Vec<_>>(), ["a_1%3a2_all.deb"]);
    }
}
