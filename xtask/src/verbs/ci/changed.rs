//! What a change touches decides which target's server is compiled in CI: there is no time for all of them.

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::home::repository;
use crate::process;
use crate::tables::target::Target;

/// Set to a commit, what changed since then is looked at instead of the last commit alone.
const BASE: &str = "PORTBENCH_CI_BASE";
const TARGETS: &str = "xtask/targets/";

/// The target whose server is compiled.
pub fn built_target() -> Result<String> {
    let hardest =
        Target::names()?.into_iter().find(|name| Target::load(name).is_ok_and(|target| target.built_in_ci));
    let hardest = hardest.context("no file of xtask/targets says `built-in-ci = true`")?;
    let changed = only_target(&changed_files()).filter(|name| Target::load(name).is_ok());
    Ok(changed.unwrap_or(hardest))
}

/// The files that changed; none where git cannot tell, as in a clone without history.
fn changed_files() -> Vec<String> {
    let base = std::env::var(BASE).ok().filter(|base| !base.is_empty()).unwrap_or("HEAD~1".into());
    let Ok(sh) = Shell::new() else { return Vec::new() };
    let folder = repository();
    let text = process::output(cmd!(sh, "git -C {folder} diff --name-only {base} HEAD")).unwrap_or_default();
    text.lines().map(String::from).collect()
}

/// The target whose file is the only one of them that changed.
fn only_target(files: &[String]) -> Option<String> {
    let mut targets = files.iter().filter_map(|file| file.strip_prefix(TARGETS)?.strip_suffix(".toml"));
    let first = targets.next()?;
    targets.next().is_none().then(|| first.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_target_is_built_and_otherwise_the_hardest() {
        let files = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        assert_eq!(only_target(&files(&["README.md", "xtask/targets/a.toml"])).as_deref(), Some("a"));
        assert_eq!(only_target(&files(&["xtask/targets/a.toml", "xtask/targets/b.toml"])), None);
        assert_eq!(only_target(&files(&["xtask/src/main.rs"])), None);
        assert_eq!(Target::load(&built_target().unwrap()).unwrap().name, built_target().unwrap());
    }
}
