//! A target: an architecture with its ABI, byte order, CPU baseline and emulator, as its file in `xtask/targets` says.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::recipe::{Recipe, Words};
use crate::home::repository;
use crate::tables::guest::Guest;

/// One file of `xtask/targets`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Rust's name for it.
    pub rust_triple: String,
    /// What the GNU tools' names begin with, without the last `-`.
    pub gnu_prefix: String,
    /// What `uname -m` says on its machines.
    pub uname_machine: String,
    /// `CMAKE_SYSTEM_PROCESSOR`.
    pub cmake_processor: String,
    /// Whether CI compiles its server, unless another target's file is all that changed: true of the hardest one.
    #[serde(default)]
    pub built_in_ci: bool,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// Bits of a pointer.
    pub pointer_bits: u32,
    /// -1: the stack grows downwards; 1: upwards.
    pub stack_direction: i32,
    /// The baseline.
    pub cpu: Cpu,
    /// What every ELF file must be.
    pub elf: Elf,
    /// How instructions beyond the baseline are found; `None`: they cannot be, and records say so.
    pub isa: Option<Isa>,
    /// Where headers and libraries come from.
    pub sysroot: Sysroot,
    /// What runs its programs here.
    pub emulator: Emulator,
    /// What the machine `qemu-system` boots; `None`: there is no such machine.
    // Where programs are run does not decide what is built: keys that hold the whole target leave it out.
    #[serde(skip_serializing)]
    pub guest: Option<Guest>,
    /// What the host needs for it.
    pub host: Host,
}

/// Byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// `little` or `big`.
    pub fn name(self) -> &'static str {
        match self {
            ByteOrder::Little => "little",
            ByteOrder::Big => "big",
        }
    }
}

/// The CPU baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cpu {
    /// For people.
    pub baseline: String,
    /// C and C++ flags.
    pub flags: Vec<String>,
    /// `-C target-cpu`.
    pub rust: String,
    /// How a machine's CPU is known to be the baseline or later before anything is copied there; `None`: only the
    /// bundle's probe tells.
    // How a machine is looked at does not decide what is built: keys leave it out.
    #[serde(skip_serializing)]
    pub cpuinfo: Option<CpuInfo>,
}

/// What `/proc/cpuinfo` says of a CPU that is the baseline or later.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CpuInfo {
    /// The field.
    pub field: String,
    /// It holds one of these words; empty: whatever it holds.
    #[serde(default)]
    pub any_of: Vec<String>,
    /// It holds all of these words.
    #[serde(default)]
    pub all_of: Vec<String>,
}

/// What every ELF file of the target must be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Elf {
    /// 32 or 64.
    pub class: u32,
    /// `e_machine`.
    pub machine: u16,
    /// Bits of `e_flags` that are compared.
    pub flags_mask: u32,
    /// Their value.
    pub flags: u32,
    /// The loader's path in the sysroot.
    pub loader: String,
    /// What `PT_INTERP` of a program must say.
    pub interpreter: String,
}

/// How the disassembler is told of the baseline and of the newest CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Isa {
    /// Options of objdump that make it know the baseline only.
    pub baseline: Vec<String>,
    /// Options that make it know everything.
    pub newest: Vec<String>,
    /// Size of an instruction word in bytes.
    pub word_bytes: u32,
    /// Files that may hold newer instructions.
    pub run_time_dispatch: Vec<RunTimeDispatch>,
}

/// A file that looks at the CPU before it uses newer instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunTimeDispatch {
    /// Its name.
    pub file: String,
    /// The only newer instructions that it may hold, by name; empty: any.
    #[serde(default)]
    pub only: Vec<String>,
    /// How it is known.
    pub why: String,
}

/// Where the sysroot comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "from", deny_unknown_fields, rename_all = "kebab-case")]
pub enum Sysroot {
    /// Debian's binary packages of another architecture.
    Debian {
        /// Debian's name for the architecture.
        architecture: String,
        /// Suites to take them from.
        suites: Vec<String>,
        /// The folder name of its libraries.
        multiarch: String,
        /// Packages; what they depend on comes too.
        packages: Vec<String>,
    },
    /// For an architecture that Debian has cross compilers for, but no packages: the compiler's own libraries, and
    /// others built here from pinned sources.
    Source {
        /// Suites of the cross compiler's packages.
        suites: Vec<String>,
        /// The folder name of its libraries.
        multiarch: String,
        /// Packages of the host's architecture that hold the target's C and C++ run-time libraries.
        packages: Vec<String>,
        /// Recipes: files of `xtask/recipes`.
        libraries: Vec<String>,
        /// Words for this target that recipes name as `{key}`.
        words: BTreeMap<String, String>,
    },
}

impl Sysroot {
    /// The folder name of its libraries.
    pub fn multiarch(&self) -> &str {
        match self {
            Sysroot::Debian { multiarch, .. } | Sysroot::Source { multiarch, .. } => multiarch,
        }
    }
}

/// The emulator of user programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Emulator {
    /// Its program.
    pub program: String,
    /// `-cpu`: the baseline.
    pub cpu: String,
    /// Lowest version that works.
    pub minimum: String,
    /// Why not lower.
    pub why: String,
    /// Debian package that holds a new enough one.
    pub package: String,
    /// Suites of that package.
    pub suites: Vec<String>,
}

/// What the host needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Host {
    /// Debian packages.
    pub packages: Vec<String>,
}

impl Target {
    /// Reads the target `name`.
    pub fn load(name: &str) -> Result<Self> {
        let mut target: Target = super::load(&repository().join("xtask/targets"), "target", name)?;
        target.name = name.to_string();
        Ok(target)
    }

    /// The target that this host is of.
    pub fn of_this_host() -> Result<Self> {
        let here = crate::host::uname_machine();
        let all = Self::names()?.iter().map(|name| Self::load(name)).collect::<Result<Vec<_>>>()?;
        all.into_iter().find(|target| target.uname_machine == here).ok_or_else(|| {
            crate::failure::Failure::new(
                crate::failure::Kind::Usage,
                format!("this host ({here}) is no target"),
            )
            .next("name one with --target; see cargo xtask targets")
            .into()
        })
    }

    /// The names of all targets.
    pub fn names() -> Result<Vec<String>> {
        super::names(&repository().join("xtask/targets"))
    }

    /// The libraries that are built for its sysroot.
    pub fn recipes(&self) -> Result<Vec<Recipe>> {
        match &self.sysroot {
            Sysroot::Debian { .. } => Ok(Vec::new()),
            Sysroot::Source { libraries, .. } => libraries.iter().map(|name| Recipe::load(name)).collect(),
        }
    }

    /// What the words of recipes in braces stand for.
    pub fn words(&self) -> Words {
        let mut words = Words::from([
            ("host".into(), self.gnu_prefix.clone()),
            ("libdir".into(), format!("usr/lib/{}", self.sysroot.multiarch())),
        ]);
        if let Sysroot::Source { words: own, .. } = &self.sysroot {
            words.extend(own.clone());
        }
        words
    }

    /// A GNU tool of the target, e.g. `powerpc64le-linux-gnu-gcc`.
    pub fn tool(&self, tool: &str) -> String {
        format!("{}-{tool}", self.gnu_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_file_can_be_read() {
        for name in Target::names().unwrap() {
            let target = Target::load(&name).unwrap();
            assert!(!target.cpu.flags.is_empty(), "{name} has no CPU flags");
        }
    }

    #[test]
    fn every_target_file_is_complete() {
        for name in Target::names().unwrap() {
            let target = Target::load(&name).unwrap();
            let texts = [
                &target.description,
                &target.rust_triple,
                &target.gnu_prefix,
                &target.cmake_processor,
                &target.uname_machine,
                &target.cpu.baseline,
                &target.cpu.rust,
                &target.elf.loader,
                &target.emulator.program,
                &target.emulator.cpu,
                &target.emulator.minimum,
                &target.emulator.why,
                &target.emulator.package,
            ];
            assert!(texts.iter().all(|text| !text.trim().is_empty()), "{name}: an empty value");
            assert_eq!(target.pointer_bits, target.elf.class, "{name}");
            assert_eq!(target.elf.flags & !target.elf.flags_mask, 0, "{name}: flags outside the mask");
            assert!(target.elf.interpreter.starts_with('/') && !target.elf.loader.starts_with('/'), "{name}");
            assert_eq!(file_name(&target.elf.loader), file_name(&target.elf.interpreter), "{name}");
            assert!(!target.host.packages.is_empty() && !target.emulator.suites.is_empty(), "{name}");
            let dispatch = target.isa.iter().flat_map(|isa| &isa.run_time_dispatch);
            assert!(dispatch.into_iter().all(|entry| entry.why.len() > 20), "{name}: a reason is missing");
            // Every step of every recipe can be told for it.
            let words = target.words();
            for recipe in target.recipes().unwrap() {
                recipe.for_target(&words).unwrap();
            }
        }
    }

    fn file_name(path: &str) -> &str {
        path.rsplit('/').next().unwrap()
    }

    #[test]
    fn no_two_targets_are_the_same() {
        let all: Vec<Target> =
            Target::names().unwrap().iter().map(|name| Target::load(name).unwrap()).collect();
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(one.rust_triple, other.rust_triple);
                assert_ne!(one.gnu_prefix, other.gnu_prefix);
                assert_ne!(one.uname_machine, other.uname_machine);
                assert_ne!(one.sysroot.multiarch(), other.sysroot.multiarch());
                // What a file says of itself tells the two apart.
                let identity = |t: &Target| (t.elf.class, t.byte_order, t.elf.machine, t.elf.flags);
                assert_ne!(identity(one), identity(other), "{} and {}", one.name, other.name);
            }
        }
    }

    #[test]
    fn a_misspelt_target_is_answered_with_the_nearest() {
        let message = Target::load("ppc64el").unwrap_err().to_string();
        assert!(message.contains("did you mean ppc64le"), "{message}");
    }

    #[test]
    fn a_misspelt_key_is_answered_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, "description = \"x\"\nrust-tripel = \"y\"\n").unwrap();
        let message = super::super::read::<Target>(&file).unwrap_err().to_string();
        assert!(
            message.contains("x.toml")
                && message.contains("line 2")
                && message.contains("did you mean `rust-triple`?"),
            "{message}"
        );
    }
}
