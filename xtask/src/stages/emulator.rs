//! The emulator of a target's programs: the host's if it is new enough, else one from Debian's backports in our cache.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use xshell::{Shell, cmd};

use crate::debian::{self, AptRoot};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{find_program, output};
use crate::stage::{Leftover, Stage};
use crate::tables::target::Target;
use crate::ui;

/// Set to a program, it is used instead of any other.
pub const VARIABLE: &str = "PORTBENCH_EMULATOR";

/// An emulator, not yet proved to work: the toolchain's probes do that.
#[derive(Clone, Debug, Serialize)]
pub struct Emulator {
    program: PathBuf,
    version: String,
    cpu: String,
}

impl Emulator {
    /// One that is not proved to work, to be tried.
    pub fn candidate(program: PathBuf, version: String, target: &Target) -> Self {
        Emulator { program, version, cpu: target.emulator.cpu.clone() }
    }

    /// Its program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its version, e.g. `10.0.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The CPU it is told to be.
    pub fn cpu(&self) -> &str {
        &self.cpu
    }
}

/// Finds an emulator for the target that is new enough, or fetches one.
pub fn find(home: &Home, target: &Target) -> Result<Emulator> {
    let emulator = |program, version| Emulator::candidate(program, version, target);
    if let Some(program) = named()? {
        let version = version_of(&program).map_err(|error| broken(&program, &error.to_string()))?;
        return Ok(emulator(program, version));
    }
    if let Some(program) = find_program(&target.emulator.program)
        && let Ok(version) = version_of(&program)
        && new_enough(&version, target)
    {
        return Ok(emulator(program, version));
    }
    let program = fetch(home, target)?;
    let version = version_of(&program).map_err(|error| broken(&program, &error.to_string()))?;
    if !new_enough(&version, target) {
        let what = format!(
            "{} in {} is version {version}, {} or newer is needed: {}",
            target.emulator.package,
            target.emulator.suites.join(", "),
            target.emulator.minimum,
            target.emulator.why
        );
        return Err(Failure::new(Kind::EmulatorBroken, what).into());
    }
    Ok(emulator(program, version))
}

/// The one that the variable names. A path is made absolute: servers start in folders of their own.
fn named() -> Result<Option<PathBuf>> {
    let Some(program) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return Ok(None) };
    if program.components().count() > 1 {
        return Ok(Some(std::path::absolute(program)?));
    }
    Ok(Some(find_program(&program.to_string_lossy()).unwrap_or(program)))
}

/// Every emulator of the target that is on this host already, with its version; `doctor` tries each.
pub fn present(home: &Home, target: &Target) -> Result<Vec<(PathBuf, Option<String>)>> {
    let named = named()?;
    let own = stage(home, target).peek::<String>(&(&target.emulator.package, &target.emulator.suites))?;
    let own = own.map(|(folder, _)| folder.join("usr/bin").join(&target.emulator.program));
    let all = named.into_iter().chain(find_program(&target.emulator.program)).chain(own);
    Ok(all.map(|program| (program.clone(), version_of(&program).ok())).collect())
}

/// Whether a version is high enough for the target.
pub fn new_enough(version: &str, target: &Target) -> bool {
    at_least(version, &target.emulator.minimum)
}

fn stage<'a>(home: &'a Home, target: &Target) -> Stage<'a> {
    Stage { home, name: "tools", label: target.emulator.package.clone(), leftover: Leftover::Discard }
}

/// The failure of an emulator that does not do its work.
pub fn broken(program: &Path, how: &str) -> Failure {
    let what = format!("the emulator {} does not work: {how}", program.display());
    let next = match std::env::var_os(VARIABLE) {
        Some(_) => format!("unset {VARIABLE}, then `cargo xtask doctor`"),
        None => "cargo xtask doctor".into(),
    };
    Failure::new(Kind::EmulatorBroken, what).next(next)
}

fn fetch(home: &Home, target: &Target) -> Result<PathBuf> {
    let wanted = &target.emulator;
    if debian::codename().is_none() {
        let what = format!(
            "no {} of version {} or newer in $PATH, which this target needs: {}",
            wanted.program, wanted.minimum, wanted.why
        );
        return Err(Failure::new(Kind::MissingPackages, what)
            .next(format!("install QEMU's user emulators, or export {VARIABLE}=/path/to/{}", wanted.program))
            .into());
    }
    let done = stage(home, target).get(&(&wanted.package, &wanted.suites), |work| {
        ui::step(
            "emulator",
            &format!("{} from {}, for portbench alone", wanted.package, wanted.suites.join(", ")),
        );
        let root = AptRoot::open(home, &debian::host_architecture()?, &wanted.suites)?;
        let deb = root.download_one(&wanted.package, None)?;
        debian::unpack(&deb, work)?;
        Ok(debian::package_of(&deb)?.version)
    })?;
    Ok(done.folder.join("usr/bin").join(&wanted.program))
}

fn version_of(program: &Path) -> Result<String> {
    let sh = Shell::new()?;
    let text = output(cmd!(sh, "{program} --version"))?;
    parse_version(&text).ok_or_else(|| {
        let first = text.lines().next().unwrap_or("nothing");
        Failure::new(Kind::EmulatorBroken, format!("it does not tell its version but `{first}`")).into()
    })
}

/// The version in `qemu-ppc64le version 10.0.2 (Debian …)`.
pub fn parse_version(text: &str) -> Option<String> {
    let after = text.lines().next()?.split("version ").nth(1)?;
    Some(after.split_whitespace().next()?.trim_end_matches(',').to_string())
}

/// Compares dotted versions number by number.
pub fn at_least(version: &str, minimum: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        text.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
    };
    numbers(version) >= numbers(minimum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(at_least("10.0.2", "10.0") && at_least("10.0", "10.0") && at_least("11.1", "10.0"));
        assert!(!at_least("7.2.19", "10.0") && !at_least("9.2", "10.0"));
    }

    #[test]
    fn the_version_is_found_in_what_qemu_says() {
        let text = "qemu-ppc64le version 7.2.19 (Debian 1:7.2+dfsg-7+deb12u15)\nCopyright …";
        assert_eq!(parse_version(text).as_deref(), Some("7.2.19"));
        assert_eq!(parse_version("hello"), None);
    }
}
