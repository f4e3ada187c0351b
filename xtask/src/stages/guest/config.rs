//! Kconfig: the configuration of kernels and of busybox.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::failure::{Failure, Kind};

/// The options in a file of ours, `NAME=y` a line, without comments.
pub fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(String::from).collect()
}

/// What Kconfig reads: each option with its prefix.
pub fn file(prefix: &str, asked: &[String]) -> String {
    asked.iter().map(|option| format!("{prefix}{option}\n")).collect()
}

/// A written configuration with the options set in it that were asked for.
pub fn set(text: &str, prefix: &str, asked: &[String]) -> String {
    let name = |line: &str| {
        let rest = line.strip_prefix("# ").unwrap_or(line).strip_prefix(prefix)?;
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        Some(rest[..end].to_string())
    };
    let ours = |line: &str| {
        let name = name(line)?;
        asked.iter().find(|option| option.split('=').next() == Some(&name))
    };
    let line = |line: &str| match ours(line).map(|option| (option, option.strip_suffix("=n"))) {
        None => format!("{line}\n"),
        Some((_, Some(off))) => format!("# {prefix}{off} is not set\n"),
        Some((option, None)) => format!("{prefix}{option}\n"),
    };
    text.lines().map(line).collect()
}

/// Kconfig drops in silence what it does not know or what lacks something else: each option must have come through.
pub fn check(written: &Path, prefix: &str, asked: &[String]) -> Result<()> {
    let text = fs::read_to_string(written).with_context(|| format!("cannot read {}", written.display()))?;
    let lost = lost(&text, prefix, asked);
    if lost.is_empty() {
        return Ok(());
    }
    let what = format!("the configuration in {} does not have: {}", written.display(), lost.join(", "));
    Err(Failure::new(Kind::VerificationFailed, what)
        .next("mend the options: something else that they need is not asked for, or the name is wrong")
        .into())
}

/// The options that a configuration does not have. `NAME=n` may be left out of it.
fn lost(text: &str, prefix: &str, asked: &[String]) -> Vec<String> {
    let has = |option: &str| match option.strip_suffix("=n") {
        Some(name) => !text.lines().any(|line| line.starts_with(&format!("{prefix}{name}="))),
        None => text.lines().any(|line| line.strip_prefix(prefix) == Some(option)),
    };
    asked.iter().filter(|option| !has(option)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_kconfig_dropped_is_named() {
        let text = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_AB=y\nCONFIG_N=64\n";
        let asked = ["A=y", "B=y", "C=y", "N=64", "B=n", "A=n", "A=m"].map(String::from);
        assert_eq!(lost(text, "CONFIG_", &asked), ["B=y", "C=y", "A=n", "A=m"]);
    }

    #[test]
    fn options_are_set_where_they_stand() {
        let text = "CONFIG_A=y\n# CONFIG_B is not set\n# why\nCONFIG_AB=y\n";
        let asked = ["A=n", "B=y"].map(String::from);
        let set = set(text, "CONFIG_", &asked);
        assert_eq!(set, "# CONFIG_A is not set\nCONFIG_B=y\n# why\nCONFIG_AB=y\n");
    }

    #[test]
    fn comments_are_no_options() {
        assert_eq!(lines("# why\nA=y\n\n  B=n\n"), ["A=y", "B=n"]);
        assert_eq!(file("CONFIG_", &["A=y".into()]), "CONFIG_A=y\n");
    }
}
