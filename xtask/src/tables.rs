//! The tables: targets, products, suites. Files that people write, so every mistake is answered with file and line.

pub mod guest;
pub mod product;
pub mod suite;
pub mod target;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::failure::{Failure, Kind, unknown};

/// The names of all tables in a folder, sorted: `NAME.toml` is `NAME`.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml")
            && let Some(stem) = path.file_stem().and_then(|s| s.to_str())
        {
            names.push(stem.to_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads the table `name` of a folder; an unknown name gets the nearest ones.
pub fn load<T: DeserializeOwned>(folder: &Path, what: &str, name: &str) -> Result<T> {
    let known = names(folder)?;
    if !known.iter().any(|n| n == name) {
        return Err(unknown(what, name, &known).into());
    }
    read(&folder.join(format!("{name}.toml")))
}

/// Reads one table file.
pub fn read<T: DeserializeOwned>(file: &PathBuf) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).map_err(|error| {
        // The parser's own message shows line, column and the line itself.
        Failure::new(Kind::Usage, format!("{}: {error}", file.display()))
            .next("mend the line shown above")
            .into()
    })
}
