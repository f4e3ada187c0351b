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
const NOT_OURS: [&str; 12] = [
    "AS",
    "CFLAGS",
    "CPPFLAGS",
    "CXXFLAGS",
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
        let files = builder.check(&inputs.instructions, recipe)?;
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

    /// What the recipe promises is there, says its version, and is the target's; how many files there are.
    fn check(&self, promised: &Instructions, recipe: &Recipe) -> Result<u64> {
        let mut wrong = Vec::new();
        for name in promised.files.iter().filter(|name| !self.root.join(name).exists()) {
            wrong.push(format!("{name} is missing"));
        }
        for says in &promised.says {
            let text = fs::read_to_string(self.root.join(&says.file)).unwrap_or_default();
            if !text.contains(&says.text) {
                wrong.push(format!("{} does not say `{}`", says.file, says.text));
            }
        }
        if !wrong.is_empty() {
            let what = format!(
                "{} {} is not what its recipe promises: {}",
                recipe.name,
                recipe.source.version,
                wrong.join("; ")
            );
            return Err(Failure::new(Kind::VerificationFailed, what)
                .log(self.log)
                .next(format!("mend xtask/recipes/{}.toml, then {}", recipe.name, again(self.target)))
                .into());
        }
        let mut files = Vec::new();
        tree::walk(self.root, &mut |path| {
            files.push(path.strip_prefix(self.root)?.display().to_string());
            Ok(())
        })?;
        check_libraries(self.root, &files, self.target)?;
        Ok(files.len() as u64)
    }
}

fn again(target: &Target) -> String {
    format!("cargo xtask sysroot --target {}", target.name)
}
