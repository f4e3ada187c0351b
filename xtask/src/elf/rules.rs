//! What a target asks of one ELF file, given the other files of its bundle.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::file::File;
use super::report::Violation;
use super::{Files, LIBRARIES, version};
use crate::tables::target::{Isa, RunTimeDispatch, Target};

/// What a name in `DT_NEEDED` leads to.
pub enum Library<'a> {
    /// A checked file of the bundle.
    Checked(&'a File),
    /// A file of the bundle that is no whole ELF file.
    NoElf,
    /// A link out of the bundle.
    Outside,
}

/// The libraries of a bundle, by the name that programs ask for.
pub struct Libraries<'a>(BTreeMap<String, Library<'a>>);

impl<'a> Libraries<'a> {
    /// Looks up where each name in the bundle's library folder leads.
    pub fn of(bundle: &Path, files: &'a Files) -> Result<Self> {
        let root = bundle.canonicalize().with_context(|| format!("cannot read {}", bundle.display()))?;
        let mut found = BTreeMap::new();
        let folder = root.join(LIBRARIES);
        if !folder.is_dir() {
            return Ok(Libraries(found));
        }
        for entry in folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            // A link that leads nowhere is a library that is missing.
            let Ok(path) = entry.path().canonicalize() else { continue };
            let library = match path.strip_prefix(&root) {
                Err(_) => Library::Outside,
                Ok(inside) => files.get(inside).map_or(Library::NoElf, Library::Checked),
            };
            found.insert(entry.file_name().to_string_lossy().into_owned(), library);
        }
        Ok(Libraries(found))
    }
}

/// All that is wrong with one file, but for its instructions.
pub fn check(path: &Path, file: &File, target: &Target, libraries: &Libraries) -> Result<Vec<Violation>> {
    let mut wrong = identity(file, target);
    if !wrong.is_empty() {
        // A file of another architecture: what else it says means nothing here.
        return Ok(others(wrong));
    }
    if let Some(interpreter) = &file.interpreter
        && *interpreter != target.elf.interpreter
    {
        wrong.push(format!("asks for the loader {interpreter}, must be {}", target.elf.interpreter));
    }
    if file.executable_stack {
        wrong.push("asks for an executable stack".into());
    }
    wrong.extend(search(path, file));
    wrong.extend(needed(file, libraries));
    wrong.extend(versions(file, libraries));
    Ok(others(wrong))
}

fn others(wrong: Vec<String>) -> Vec<Violation> {
    wrong.into_iter().map(Violation::Other).collect()
}

/// Class, byte order, machine and ABI.
pub fn identity(file: &File, target: &Target) -> Vec<String> {
    let elf = &target.elf;
    let mut wrong = Vec::new();
    if file.class != elf.class {
        wrong.push(format!("is of {} bits, must be {}", file.class, elf.class));
    }
    if file.byte_order != target.byte_order {
        wrong.push(format!("is {} endian, must be {}", file.byte_order.name(), target.byte_order.name()));
    }
    if file.machine != elf.machine {
        wrong.push(format!("is for machine {}, must be {}", file.machine, elf.machine));
    }
    if file.machine == elf.machine && file.flags & elf.flags_mask != elf.flags {
        let flags = file.flags & elf.flags_mask;
        wrong.push(format!("has the ABI flags {flags:#x}, must be {:#x}", elf.flags));
    }
    wrong
}

/// Folders of libraries outside the bundle.
fn search<'a>(path: &'a Path, file: &'a File) -> impl Iterator<Item = String> + 'a {
    let folder = path.parent().unwrap_or(Path::new(""));
    file.search.iter().filter(move |entry| !stays_inside(folder, entry)).map(|entry| {
        format!("looks for libraries in `{entry}` (RPATH or RUNPATH), which is not in the bundle")
    })
}

/// Whether a folder in RPATH, of a file in `folder` of the bundle, is in the bundle.
fn stays_inside(folder: &Path, entry: &str) -> bool {
    let Some(rest) = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}")) else {
        return false;
    };
    if rest.contains('$') || !(rest.is_empty() || rest.starts_with('/')) {
        return false;
    }
    let mut depth = folder.components().count();
    for component in PathBuf::from(rest.trim_start_matches('/')).components() {
        match component {
            Component::ParentDir if depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            _ => depth += 1,
        }
    }
    true
}

fn needed(file: &File, libraries: &Libraries) -> Vec<String> {
    let wrong = file.needed.iter().filter_map(|name| match libraries.0.get(name) {
        Some(Library::Checked(_)) => None,
        Some(Library::NoElf) => Some(format!("needs {name}, but {LIBRARIES}/{name} is no whole ELF file")),
        Some(Library::Outside) => {
            Some(format!("needs {name}, but {LIBRARIES}/{name} leads out of the bundle"))
        }
        None => Some(format!("needs {name}, which is not in {LIBRARIES}")),
    });
    wrong.collect()
}

/// Versions that the bundle's own libraries do not have: the loader would refuse to start the program.
fn versions(file: &File, libraries: &Libraries) -> Vec<String> {
    let mut wrong = Vec::new();
    for need in &file.versions {
        let Some(Library::Checked(library)) = libraries.0.get(&need.library) else { continue };
        if !library.defined.contains(&need.version) {
            let prefix = version::prefix(&need.version);
            let has = version::highest(prefix, library.defined.iter().map(String::as_str));
            let has = has.map_or("no such version".into(), |has| format!("up to {prefix}{has}"));
            let (version, name) = (&need.version, &need.library);
            wrong.push(format!("needs {version} of {name}, but {LIBRARIES}/{name} has {has}"));
        }
    }
    wrong
}

/// The table's entry for a file that looks at the CPU before it uses newer instructions.
pub fn dispatch<'a>(isa: &'a Isa, path: &Path, file: &File) -> Option<&'a RunTimeDispatch> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    isa.run_time_dispatch.iter().find(|dispatch| {
        // A library may lie there under its real name, `libz.so.1.2.13`, and be known as `libz.so.1`.
        name.as_deref() == Some(&dispatch.file) || file.soname.as_ref() == Some(&dispatch.file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_relative_to_the_file_may_not_climb_out_of_the_bundle() {
        let inside = ["$ORIGIN", "${ORIGIN}/../lib", "$ORIGIN/.", "$ORIGIN/../lib/private"];
        let outside =
            ["", "/usr/lib", "$ORIGIN/../..", "$ORIGINAL", "$ORIGIN/../../lib", "lib", "$ORIGIN/$LIB"];
        for entry in inside {
            assert!(stays_inside(Path::new("bin"), entry), "{entry}");
        }
        for entry in outside {
            assert!(!stays_inside(Path::new("bin"), entry), "{entry}");
        }
    }
}
