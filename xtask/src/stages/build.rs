//! Configure, check what configure found, compile, install: a source tree becomes an install tree.

mod checks;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use model::record::BundleFacts;
use xshell::{Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::process::{self, Logged, find_program};
use crate::stage::{Leftover, Stage};
use crate::stages::install_tree::{InstallTree, install};
use crate::stages::source::SourceTree;
use crate::stages::toolchain::Toolchain;
use crate::tables::product::{Install, Product, Release};
use crate::ui::{self, Progress};

/// Raised when this file builds something else from the same inputs.
const RECIPE: u32 = 1;

/// Where what programs are compiled against stands in the stage's folder.
const DEVELOP: &str = "develop";

/// CMake settings of every product.
const ALWAYS: [(&str, &str); 2] = [
    ("CMAKE_EXPORT_COMPILE_COMMANDS", "ON"),
    // A bundle brings its own loader and names its libraries' folder: a path baked in could only be wrong.
    ("CMAKE_SKIP_RPATH", "ON"),
];

/// What a person chooses for a build without changing its result.
#[derive(Clone, Debug, Default)]
pub struct Options {
    launcher: Launcher,
    /// Parallel jobs; `None`: ninja decides.
    jobs: Option<u32>,
}

impl Options {
    /// Checks the choices at once, before anything is waited for or built.
    ///
    /// `launcher`: `none`, or a program such as ccache, sccache, distcc, icecc; left out: a cache if there is one.
    pub fn new(launcher: Option<&str>, jobs: Option<u32>) -> Result<Self> {
        let launcher = match launcher {
            Some("none") => Launcher::None,
            Some(name) => Launcher::Program(find_program(name).ok_or_else(|| {
                let what = format!("the compiler launcher `{name}` is not in $PATH");
                Failure::new(Kind::Usage, what).next("install it, or use --launcher none")
            })?),
            None => Launcher::CacheIfThere,
        };
        Ok(Options { launcher, jobs })
    }
}

/// The program that stands before the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Launcher {
    #[default]
    None,
    Program(PathBuf),
    /// Looked for when configure starts: on a new host the packages are installed only then.
    CacheIfThere,
}

impl Launcher {
    fn find(&self) -> Option<PathBuf> {
        match self {
            Launcher::None => None,
            Launcher::Program(program) => Some(program.clone()),
            Launcher::CacheIfThere => ["ccache", "sccache"].into_iter().find_map(find_program),
        }
    }
}

/// What is built.
pub struct Plan<'a> {
    /// With what.
    pub toolchain: &'a Toolchain,
    /// Of what.
    pub product: &'a Product,
    /// Which version.
    pub release: &'a Release,
    /// From what.
    pub source: &'a SourceTree,
}

/// Finds or makes the install tree.
pub fn make(home: &Home, plan: &Plan, options: &Options) -> Result<InstallTree> {
    let settings = settings(plan);
    let build = &plan.product.build;
    let inputs = (plan.toolchain.native_key(), plan.source.key(), &settings, &build.targets, RECIPE);
    let label = format!("{}-{}-{}", plan.product.name, plan.release.version, plan.toolchain.target().name);
    let log = home.log(&format!("build-{label}"))?;
    let builder = |work: &Path| Builder {
        plan,
        settings: &settings,
        folder: work.to_path_buf(),
        tree: work.join("cmake"),
        log: &log,
        options,
    };
    let stage = Stage { home, name: "builds", label: label.clone(), leftover: Leftover::Continue };
    let built = stage.get(&inputs, |work| {
        home.need_space(build.disk_mib << 20, &format!("building {}", plan.product.name))?;
        builder(work).configure()?;
        builder(work).check_configured()?;
        builder(work).compile()
    })?;
    // A stage of its own: to install one file more is no reason to compile.
    let stage = Stage { home, name: "installs", label, leftover: Leftover::Discard };
    let done = stage.get(&(&built.key, &plan.product.install, &plan.product.develop), |work| {
        builder(&built.folder).install(&plan.product.install, &work.join("tree"))?;
        builder(&built.folder).install(&plan.product.develop, &work.join(DEVELOP))?;
        Ok(facts(plan, &settings))
    })?;
    let own = build.library_folders.iter().map(|folder| built.folder.join("cmake").join(folder));
    Ok(InstallTree {
        folder: done.folder.join("tree"),
        key: done.key,
        library_folders: own.chain(plan.toolchain.sysroot().library_folders()).collect(),
        develop: (!plan.product.develop.is_empty()).then(|| done.folder.join(DEVELOP)),
        facts: done.receipt,
        joined: Vec::new(),
    })
}

fn settings(plan: &Plan) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        ALWAYS.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    all.extend(plan.product.build.cmake.clone());
    // Given as CMAKE_<LANG>_FLAGS they reach every compile command; in a toolchain file some products lose them.
    let flags = plan.toolchain.target().cpu.flags.join(" ");
    for language in ["C", "CXX", "ASM"] {
        all.insert(format!("CMAKE_{language}_FLAGS"), flags.clone());
    }
    all
}

fn facts(plan: &Plan, settings: &BTreeMap<String, String>) -> BundleFacts {
    BundleFacts {
        product: plan.product.name.clone(),
        release: plan.release.version.clone(),
        origin: "source".into(),
        source_sha256: Some(plan.release.sha256.clone()),
        patches: plan.source.patches().to_vec(),
        cpu_flags: plan.toolchain.target().cpu.flags.clone(),
        cmake: settings.clone(),
        compiler: Some(plan.toolchain.compiler().to_string()),
        packages: plan.toolchain.sysroot().packages().iter().map(ToString::to_string).collect(),
        ..BundleFacts::default()
    }
}

struct Builder<'a> {
    plan: &'a Plan<'a>,
    settings: &'a BTreeMap<String, String>,
    folder: PathBuf,
    tree: PathBuf,
    log: &'a Path,
    options: &'a Options,
}

impl Builder<'_> {
    fn logged<'a>(&'a self, name: &'a str) -> Logged<'a> {
        Logged { name, log: self.log, next: "see the log; the same command goes on from here" }
    }

    /// The folder is named after all inputs, so a finished configure in it is ours and still right.
    fn configured(&self) -> PathBuf {
        self.tree.join("portbench-configured")
    }

    fn configure(&self) -> Result<()> {
        if self.configured().exists() {
            return Ok(());
        }
        let launcher = self.options.launcher.find();
        let cached =
            launcher.as_ref().map_or("no compiler cache".into(), |l| format!("through {}", l.display()));
        ui::step("configure", &format!("{} {}, {cached}", self.plan.product.name, self.plan.release.version));
        crate::stage::remove(&self.tree)?;
        let shell = Shell::new()?;
        // By a name that says nothing of its patches: what no patch touches is then compiled by the same command as in
        // another series' build, and a compiler cache has it.
        let (source, tree) = (self.folder.join("source"), &self.tree);
        crate::stage::remove(&source)?;
        symlink(self.plan.source.folder(), &source)
            .with_context(|| format!("cannot make {}", source.display()))?;
        // The build keeps its own: a toolchain's folder may go, and this one be continued.
        let toolchain = self.folder.join("toolchain.cmake");
        fs::write(&toolchain, self.toolchain_text()?)?;
        let mut settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
        if let Some(program) = launcher {
            let setting = |language| format!("-DCMAKE_{language}_COMPILER_LAUNCHER={}", program.display());
            settings.extend(["C", "CXX"].map(setting));
        }
        let command = cmd!(
            shell,
            "cmake -G Ninja -S {source} -B {tree} -DCMAKE_TOOLCHAIN_FILE={toolchain} {settings...}"
        );
        self.logged("cmake").run(self.environment(command.into())?)
    }

    /// pkg-config sees the target's libraries and nothing of the host's.
    fn environment(&self, mut command: Command) -> Result<Command> {
        let sysroot = self.plan.toolchain.sysroot();
        command.env("PKG_CONFIG_LIBDIR", std::env::join_paths(sysroot.pkg_config_folders())?);
        command.env("PKG_CONFIG_SYSROOT_DIR", sysroot.root()).env_remove("PKG_CONFIG_PATH");
        // Folders are named by hashes: without these a compiler cache would never find a file again.
        if let Some(home) = self.cache_root() {
            command.env("CCACHE_BASEDIR", home).env("CCACHE_NOHASHDIR", "1");
            // The compiler's own list of headers is enough: no run of the preprocessor before each compilation.
            command.env("CCACHE_DEPEND", "1");
        }
        for name in ["CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"] {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("NINJA_STATUS", "[%f/%t] ");
        Ok(command)
    }

    /// The folder that holds sources and builds alike.
    fn cache_root(&self) -> Option<&Path> {
        self.tree.ancestors().find(|folder| self.plan.source.folder().starts_with(folder))
    }

    /// The toolchain's file; programs that the build starts find the build's own libraries as well.
    fn toolchain_text(&self) -> Result<String> {
        let text = fs::read_to_string(self.plan.toolchain.cmake_file())?;
        let folders = self.plan.product.build.library_folders.iter().map(|folder| self.tree.join(folder));
        let folders: String = folders.map(|folder| format!("{}:", folder.display())).collect();
        Ok(text.replace("--library-path;", &format!("--library-path;{folders}")))
    }

    fn check_configured(&self) -> Result<()> {
        let target = self.plan.toolchain.target();
        let mut wrong = Vec::new();
        for header in &self.plan.product.build.config_header {
            wrong.extend(checks::header(&self.tree.join(&header.file), header, target)?);
        }
        wrong.extend(checks::compile_commands(&self.tree.join("compile_commands.json"), &target.cpu.flags)?);
        wrong.extend(checks::cache(
            &self.tree.join("CMakeCache.txt"),
            self.plan.product.build.config_cache.as_ref(),
            self.plan.toolchain.sysroot().root(),
        )?);
        if wrong.is_empty() {
            fs::write(self.configured(), "")?;
            return Ok(());
        }
        let _ = fs::remove_file(self.configured());
        let what = format!(
            "configure's result does not fit {}:\n{}",
            target.name,
            process::indented(&wrong.join("\n"))
        );
        Err(Failure::new(Kind::VerificationFailed, what).log(self.log).next("cargo xtask doctor").into())
    }

    fn compile(&self) -> Result<()> {
        ui::step("compile", &self.plan.product.build.targets.join(" "));
        if let Err(error) = self.ninja(self.options.jobs) {
            let tail = process::tail(self.log, 40);
            let raced =
                tail.contains("No such file or directory") && !tail.contains("loading shared libraries");
            if !raced || crate::interrupt::requested() {
                return Err(error);
            }
            // A generated header that a parallel step wanted too early is there now.
            ui::warn("a file was missing in mid-build; trying once more, one step at a time");
            self.ninja(Some(1))?;
        }
        Ok(())
    }

    fn ninja(&self, jobs: Option<u32>) -> Result<()> {
        let shell = Shell::new()?;
        let (tree, targets) = (&self.tree, &self.plan.product.build.targets);
        let jobs: Vec<String> = jobs.iter().map(|n| format!("-j{n}")).collect();
        let command = cmd!(shell, "ninja -C {tree} {jobs...} {targets...}");
        let mut progress = Progress::steps("compile", 0);
        let result = self.logged("ninja").run_watched(self.environment(command.into())?, |line| {
            if let Some((done, total)) = steps(line) {
                progress.at(done, total);
            }
        });
        progress.finish();
        result
    }

    fn install(&self, list: &[Install], to: &Path) -> Result<()> {
        let places = [("build", self.tree.as_path()), ("source", self.plan.source.folder())];
        install(list, &places, to)?;
        let (sh, strip) = (Shell::new()?, self.plan.toolchain.target().tool("strip"));
        for program in executables(&to.join("bin"))? {
            // Symbols stay, for profiles; the debug information stays in the build folder.
            process::output(cmd!(sh, "{strip} --strip-debug {program}"))?;
        }
        Ok(())
    }
}

fn executables(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect())
}

/// `[done/total]` at the beginning of a line of ninja's.
fn steps(line: &str) -> Option<(u64, u64)> {
    let (done, total) = line.strip_prefix('[')?.split_once(']')?.0.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninjas_status_is_read() {
        assert_eq!(steps("[12/928] Building CXX object x.o"), Some((12, 928)));
        assert_eq!(steps("[x/928] y"), None);
        assert_eq!(steps("FAILED: x.o"), None);
    }

    #[test]
    fn a_launcher_that_is_not_there_is_a_usage_error() {
        let error = Options::new(Some("no-such-cache"), None).unwrap_err();
        assert_eq!(crate::failure::kind_of(&error), Some(Kind::Usage));
        assert_eq!(Options::new(Some("none"), None).unwrap().launcher, Launcher::None);
    }
}
