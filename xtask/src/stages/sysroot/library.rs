//! A library that is built for a sysroot: from its pinned source, by its recipe, with the target's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Sysroot, check_libraries, tree};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::Logged;
use crate::stage::{Leftover, Stage, key_of};
use crate::stages::{fetch, source};
use crate::tables::recipe::{Instructions, Recipe, Words, filled};
use crate::tables::target::Target;
use crate::{debian, ui};

/// Raised when this file builds something else by the same recipe.
const RECIPE: u32 = 1;

/// Variables of the host that would change what is built.
const NOT_OURS: [&str; 10] = [
    "AS",
    "CPPFLAGS",
    "LDFLAGS",
    "LIBS",
    "MAKEFLAGS",
    "MAKELEVEL",
    "DESTDIR",
    "CROSS_COMPILE",
    "CONFIG_SITE",
    "PKG_CONFIG_PATH",
];

/// What a finished library is known by.
#[derive(Serialize, Deserialize)]
struct Built {
    files: u64,
}

/// What a library depends on.
#[derive(Serialize)]
struct Inputs<'a> {
    sha256: &'a str,
    instructions: Instructions,
    gnu_prefix: &'a str,
    cpu_flags: &'a [String],
    base: &'a Path,
    packages: &'a [debian::Package],
    recipe: u32,
}

fn inputs<'a>(target: &'a Target, base: &'a Sysroot, recipe: &'a Recipe) -> Result<Inputs<'a>> {
    Ok(Inputs {
        sha256: &recipe.source.sha256,
        instructions: recipe.for_target(&target.words())?,
        gnu_prefix: &target.gnu_prefix,
        cpu_flags: &target.cpu.flags,
        base: base.root(),
        packages: base.packages(),
        recipe: RECIPE,
    })
}

/// Hash of all that the library depends on.
pub fn key(target: &Target, base: &Sysroot, recipe: &Recipe) -> Result<String> {
    key_of(&inputs(target, base, recipe)?)
}

/// Finds the library, or builds it; the folder that holds `usr`.
pub fn make(home: &Home, target: &Target, base: &Sysroot, recipe: &Recipe) -> Result<PathBuf> {
    let inputs = inputs(target, base, recipe)?;
    let label = format!("{}-{}-{}", recipe.name, recipe.source.version, target.name);
    let log = home.log(&format!("library-{label}"))?;
    let stage = Stage { home, name: "libraries", label, leftover: Leftover::Discard };
    let done = stage.get(&inputs, |work| {
        ui::step("library", &format!("{} {} for {}", recipe.name, recipe.source.version, target.name));
        let archive = archive(home, recipe)?;
        let build = work.join("build");
        source::unpack_into(archive.path(), &build)?;
        let builder = Builder { target, base, build: &build, root: &work.join("root"), log: &log };
        for step in &inputs.instructions.steps {
            builder.run(step)?;
        }
        let files = check(builder.root, &inputs.instructions, recipe, target, &log)?;
        crate::stage::remove(&build)?;
        Ok(Built { files })
    })?;
    Ok(done.folder.join("root"))
}

fn archive(home: &Home, recipe: &Recipe) -> Result<fetch::Archive> {
    let options = fetch::Options { offline: home.is_offline() };
    // Asking apt for its mirrors is only worth it where something is to be downloaded.
    let mirrors =
        if options.offline || debian::codename().is_none() { Vec::new() } else { debian::mirrors()? };
    fetch::fetch(home, &recipe.source, &mirrors, options)
}

struct Builder<'a> {
    target: &'a Target,
    base: &'a Sysroot,
    build: &'a Path,
    root: &'a Path,
    log: &'a Path,
}

impl Builder<'_> {
    fn run(&self, step: &[String]) -> Result<()> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let late = Words::from([
            ("destdir".into(), self.root.display().to_string()),
            ("jobs".into(), jobs.to_string()),
        ]);
        let words: Vec<String> = step
            .iter()
            .map(|word| filled(word, &late).map_err(|word| anyhow::anyhow!("no word {word}")))
            .collect::<Result<_>>()?;
        let (program, arguments) = words.split_first().context("a recipe has an empty step")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.build);
        self.environment(&mut command)?;
        let next = format!("see the log, mend the recipe in xtask/recipes, then {}", again(self.target));
        Logged { name: program, log: self.log, next: &next }.run(command)
    }

    /// The target's compiler wherever a build asks for one, and nothing of the host's.
    fn environment(&self, command: &mut Command) -> Result<()> {
        for name in NOT_OURS {
            command.env_remove(name);
        }
        // Sysroot and CPU belong to the compiler's name: as flags they are lost in some configure scripts.
        let root = format!("--sysroot={}", self.base.root().display());
        for (name, tool) in [("CC", "gcc"), ("CXX", "g++")] {
            let words = [&[self.target.tool(tool), root.clone()], self.target.cpu.flags.as_slice()].concat();
            command.env(name, words.join(" "));
        }
        for (name, tool) in
            [("AR", "ar"), ("RANLIB", "ranlib"), ("NM", "nm"), ("STRIP", "strip"), ("LD", "ld")]
        {
            command.env(name, self.target.tool(tool));
        }
        command.env("CFLAGS", "-O2").env("CXXFLAGS", "-O2").env("LC_ALL", "C");
        command.env("PKG_CONFIG_LIBDIR", std::env::join_paths(self.base.pkg_config_folders())?);
        command.env("PKG_CONFIG_SYSROOT_DIR", self.base.root());
        Ok(())
    }
}

/// What the recipe promises is there, says its version, and is the target's; how many files there are.
fn check(root: &Path, promised: &Instructions, recipe: &Recipe, target: &Target, log: &Path) -> Result<u64> {
    let missing = promised.files.iter().filter(|name| !root.join(name).exists());
    let mut wrong: Vec<String> = missing.map(|name| format!("{name} is missing")).collect();
    for says in &promised.says {
        let text = fs::read_to_string(root.join(&says.file)).unwrap_or_default();
        if !text.contains(&says.text) {
            wrong.push(format!("{} does not say `{}`", says.file, says.text));
        }
    }
    if !wrong.is_empty() {
        let (name, version) = (&recipe.name, &recipe.source.version);
        let what = format!("{name} {version} is not what its recipe promises: {}", wrong.join("; "));
        let next = format!("mend xtask/recipes/{name}.toml, then {}", again(target));
        return Err(Failure::new(Kind::VerificationFailed, what).log(log).next(next).into());
    }
    let mut files = Vec::new();
    tree::walk(root, &mut |path| {
        files.push(path.strip_prefix(root)?.display().to_string());
        Ok(())
    })?;
    check_libraries(root, &files, target)?;
    Ok(files.len() as u64)
}

fn again(target: &Target) -> String {
    format!("cargo xtask sysroot --target {}", target.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tiny_library;
    use crate::failure::kind_of;

    /// A recipe of one library and one header, and what was built by it.
    fn built(says: &str, library: &[u8]) -> (tempfile::TempDir, Recipe) {
        let mut recipe = Recipe::load(&Recipe::names().unwrap()[0]).unwrap();
        recipe.steps.clear();
        recipe.files = vec!["{libdir}/libz.so.1".into()];
        recipe.says =
            vec![crate::tables::recipe::Says { file: "usr/z.h".into(), text: "VERSION 1.2.13".into() }];
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("usr/lib/x")).unwrap();
        fs::write(folder.path().join("usr/z.h"), says).unwrap();
        fs::write(folder.path().join("usr/lib/x/libz.so.1"), library).unwrap();
        (folder, recipe)
    }

    fn checked(folder: &Path, recipe: &Recipe, target: &Target) -> Result<u64> {
        let words = Words::from([("libdir".into(), "usr/lib/x".into())]);
        check(folder, &recipe.for_target(&words)?, recipe, target, Path::new("/log"))
    }

    fn refused(folder: &Path, recipe: &Recipe, target: &Target, says: &str) {
        let error = checked(folder, recipe, target).unwrap_err();
        assert_eq!(kind_of(&error), Some(Kind::VerificationFailed));
        assert!(error.to_string().contains(says) && error.to_string().contains("next: "), "{error}");
    }

    #[test]
    fn another_version_a_missing_file_and_a_library_of_the_host_are_refused() {
        let all: Vec<Target> =
            Target::names().unwrap().iter().map(|name| Target::load(name).unwrap()).collect();
        let (target, other) = (&all[0], &all[1]);
        let (folder, recipe) = built("#define VERSION 1.2.13", &tiny_library(target));
        assert_eq!(checked(folder.path(), &recipe, target).unwrap(), 2);
        fs::write(folder.path().join("usr/z.h"), "#define VERSION 1.3").unwrap();
        refused(folder.path(), &recipe, target, "usr/z.h does not say `VERSION 1.2.13`");
        fs::remove_file(folder.path().join("usr/lib/x/libz.so.1")).unwrap();
        refused(folder.path(), &recipe, target, "usr/lib/x/libz.so.1 is missing");
        let (folder, recipe) = built("#define VERSION 1.2.13", &tiny_library(other));
        refused(folder.path(), &recipe, target, "usr/lib/x/libz.so.1 is ");
    }

    #[test]
    fn a_build_sees_the_targets_compiler_and_no_libraries_of_the_host() {
        let target = Target::load(&Target::names().unwrap()[0]).unwrap();
        let base = Sysroot { root: "/base".into(), packages: Vec::new(), multiarch: "x".into() };
        let here = Path::new("/w");
        let builder = Builder { target: &target, base: &base, build: here, root: here, log: here };
        let mut command = Command::new("make");
        builder.environment(&mut command).unwrap();
        let value = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.expect("it is set or removed").1.map(|value| value.to_string_lossy().into_owned())
        };
        let compiler = value("CC").unwrap();
        assert!(compiler.starts_with(&format!("{} --sysroot=/base", target.tool("gcc"))), "{compiler}");
        assert!(target.cpu.flags.iter().all(|flag| compiler.ends_with(flag)), "{compiler}");
        assert_eq!(value("PKG_CONFIG_LIBDIR").unwrap(), "/base/usr/lib/x/pkgconfig:/base/usr/lib/pkgconfig");
        assert_eq!(value("PKG_CONFIG_SYSROOT_DIR").unwrap(), "/base");
        for name in NOT_OURS {
            assert_eq!(value(name), None);
        }
    }
}
