//! The host's packages: what is missing, and how it gets here.

use std::path::Path;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, Logged, find_program};
use crate::tables::product::Product;
use crate::tables::recipe::Recipe;
use crate::tables::target::Target;
use crate::{debian, ui};

/// Debian packages that every pipeline needs, with why.
const ALWAYS: [(&str, &str); 1] = [("ca-certificates", "downloads over https")];

/// Debian packages that the unit tests need, with why.
pub const FOR_UNIT_TESTS: [(&str, &str); 2] = [
    ("e2fsprogs", "a guest's disk, made and filled"),
    ("libclang1-14", "the bindings of the NDB API, made anew and compared"),
];

/// Debian packages that the end-to-end tests need beyond what they test, with why.
pub const FOR_TESTS: [(&str, &str); 5] = [
    ("openssh-client", "machines reached by ssh"),
    ("openssh-server", "the machine that is reached"),
    ("iproute2", "a link that is cut"),
    ("numactl", "nodes of a cluster that are bound to a NUMA node"),
    ("util-linux", "networks and file systems of a test's own"),
];

/// The Debian packages that target and product need on the host.
pub fn packages(target: &Target, product: Option<&Product>) -> Result<Vec<String>> {
    let mut all: Vec<String> = ALWAYS.iter().map(|(name, _)| name.to_string()).collect();
    all.extend(target.host.packages.iter().cloned());
    all.extend(target.recipes()?.into_iter().flat_map(|recipe| recipe.host_packages));
    all.extend(product.iter().flat_map(|product| product.build.host_packages.iter().cloned()));
    all.sort();
    all.dedup();
    Ok(all)
}

/// Those of `packages` that are not installed.
pub fn missing(packages: &[String]) -> Result<Vec<String>> {
    let sh = Shell::new()?;
    let mut absent = Vec::new();
    for package in packages {
        let format = "--showformat=${db:Status-Status}";
        // It fails for a package that it has never heard of: then it says nothing.
        let status = cmd!(sh, "dpkg-query --show {format} {package}")
            .quiet()
            .ignore_status()
            .ignore_stderr()
            .read()?;
        if status != "installed" {
            absent.push(package.clone());
        }
    }
    Ok(absent)
}

/// The commands that would install `packages`, each as words.
pub fn commands(packages: &[String], prefix: &[&str]) -> Vec<Vec<String>> {
    let words = |rest: &[&str]| prefix.iter().chain(rest).map(|w| w.to_string()).collect::<Vec<String>>();
    let mut install = words(&["apt-get", "install", "--yes", "--no-install-recommends"]);
    install.extend(packages.iter().cloned());
    vec![words(&["apt-get", "update"]), install]
}

/// Makes sure that the host has what target and product need: installs it where that is allowed.
pub fn ensure(home: &Home, target: &Target, product: Option<&Product>) -> Result<()> {
    let wanted = packages(target, product)?;
    if debian::codename().is_none() {
        return on_another_distribution(target, product, &wanted);
    }
    ensure_packages(home, &wanted)
}

/// Makes sure that the host has these Debian packages. Elsewhere their programs must be there: whoever needs one tells.
pub fn ensure_packages(home: &Home, wanted: &[String]) -> Result<()> {
    if debian::codename().is_none() {
        return Ok(());
    }
    let absent = missing(wanted)?;
    if absent.is_empty() {
        return Ok(());
    }
    home.may_download(&format!("packages of this host ({})", absent.join(" ")))?;
    let prefix: &[&str] = match privilege() {
        Privilege::Root => &[],
        Privilege::Sudo => &["sudo", "-n"],
        Privilege::None => return Err(not_allowed(&absent).into()),
    };
    ui::step("setup", &format!("installing {}", absent.join(" ")));
    let (sh, log) = (Shell::new()?, home.log("setup")?);
    for words in commands(&absent, prefix) {
        let (program, arguments) = words.split_first().context("an empty command")?;
        let command =
            cmd!(sh, "{program} {arguments...}").env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        let next = "check the network and apt's sources, then run the same command again";
        if let Err(error) = (Logged { name: "apt-get", log: &log, next }).run(command) {
            return Err(missing_in_archive(&log).unwrap_or(error));
        }
    }
    Ok(())
}

/// apt's words for a package that no configured source has.
fn missing_in_archive(log: &Path) -> Option<anyhow::Error> {
    let tail = process::tail(log, 8);
    let name = tail.lines().find_map(|line| line.strip_prefix("E: Unable to locate package "))?;
    let what = format!("no configured apt source has the package `{}`", name.trim());
    Some(
        Failure::new(Kind::MissingPackages, what)
            .log(log)
            .next("add Debian's own sources for this release to apt")
            .into(),
    )
}

fn not_allowed(absent: &[String]) -> Failure {
    let commands: Vec<String> = commands(absent, &["sudo"]).iter().map(|words| words.join(" ")).collect();
    let what = format!(
        "packages are missing and neither root nor password-less sudo is at hand: {}",
        absent.join(" ")
    );
    Failure::new(Kind::MissingPackages, what)
        .next(format!("run, then repeat the command:\n  {}", commands.join("\n  ")))
}

/// Elsewhere we do not guess package names: programs are looked for, and named with Debian's package for orientation.
fn on_another_distribution(target: &Target, product: Option<&Product>, packages: &[String]) -> Result<()> {
    let mut programs = vec![target.tool("gcc"), target.tool("g++"), target.tool("objdump")];
    if product.is_some() {
        programs.extend(["cmake", "ninja", "bison", "pkg-config"].map(String::from));
    }
    programs.extend(target.recipes()?.iter().flat_map(Recipe::programs).map(String::from));
    programs.sort();
    programs.dedup();
    let absent: Vec<String> = programs.into_iter().filter(|name| find_program(name).is_none()).collect();
    if absent.is_empty() {
        return Ok(());
    }
    let what = format!(
        "this is {}, not Debian: these programs are missing: {}",
        debian::host_name(),
        absent.join(" ")
    );
    Err(Failure::new(Kind::MissingPackages, what)
        .next(format!("install what your distribution has for Debian's {}", packages.join(" ")))
        .into())
}

/// How packages can be installed from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// We are root.
    Root,
    /// sudo works without a password.
    Sudo,
    /// Not at all.
    None,
}

/// Finds out how packages can be installed.
pub fn privilege() -> Privilege {
    if rustix::process::geteuid().is_root() {
        return Privilege::Root;
    }
    let sudo = |sh: Shell| cmd!(sh, "sudo -n true").quiet().ignore_stderr().run();
    if Shell::new().and_then(sudo).is_ok() { Privilege::Sudo } else { Privilege::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rights_the_message_is_what_to_run() {
        let failure = not_allowed(&["cmake".into(), "bison".into()]);
        assert_eq!(failure.kind.exit_code(), 3);
        let text = failure.to_string();
        assert!(text.contains("sudo apt-get install --yes --no-install-recommends cmake bison"), "{text}");
    }
}
