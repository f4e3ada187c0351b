//! The tables: targets, recipes, products, suites. People write them, so every mistake is answered with file and line.

pub mod guest;
pub mod machines;
pub mod product;
pub mod recipe;
pub mod suite;
pub mod target;
pub mod topology;

use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::failure::{Failure, Kind, nearest, unknown};

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

/// The text of a file that a person named; `next`: what to do where it is none.
///
/// # Errors
/// A pipe or a device is refused too: reading it may never end.
pub fn text_of(file: &Path, next: &str) -> Result<String> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::new(Kind::Usage, format!("cannot read {}: {why}", file.display())).next(next)
    };
    let kind = std::fs::metadata(file).map_err(|error| refused(&error))?;
    if !kind.is_file() {
        return Err(refused(&"it is no regular file").into());
    }
    Ok(std::fs::read_to_string(file).map_err(|error| refused(&error))?)
}

/// Reads one table file.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(file, &text).map_err(Into::into)
}

/// Reads the text of a table file: what is wrong is answered with file, line and, for a misspelt key, the nearest one.
pub fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> std::result::Result<T, Failure> {
    toml::from_str(text).map_err(|error| {
        let whole = error.span().is_none_or(|span| span.start == 0);
        if whole && error.message().starts_with("missing field") {
            // It is missing everywhere, not in the first line.
            let what = format!("{}: {}", file.display(), error.message());
            return Failure::new(Kind::Usage, what).next("add it to the file");
        }
        let near = unknown_key(error.message()).map(|(key, known)| nearest(&key, &known)).unwrap_or_default();
        let hint = near.first().map(|key| format!("did you mean `{key}`?\n")).unwrap_or_default();
        // The parser's own message shows line, column and the line itself.
        let what = format!("{}: {error}{hint}", file.display());
        Failure::new(Kind::Usage, what.trim_end()).next("mend the line shown above")
    })
}

/// The key that a table may not have, and those that it may, of the parser's message.
pub fn unknown_key(message: &str) -> Option<(String, Vec<String>)> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2).map(String::from);
    Some((names.next()?, names.collect()))
}
