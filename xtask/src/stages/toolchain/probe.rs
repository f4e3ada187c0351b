//! The probes: small C, C++ and Rust programs, compiled for the target and run under the emulator at the baseline CPU.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xshell::{Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::process::{self, Logged, OnOurDeath};
use crate::stages::emulator::{self, Emulator};
use crate::stages::rust_std::RustStd;
use crate::stages::sysroot::Sysroot;
use crate::tables::target::Target;

const C: &str = include_str!("../../../probes/probe.c");
const CXX: &str = include_str!("../../../probes/probe.cc");
const RUST: &str = include_str!("../../../probes/probe.rs");

/// The probes' sources, part of the toolchain's identity.
pub const SOURCES: [&str; 3] = [C, CXX, RUST];

/// The C probe's program in a toolchain's folder.
pub const C_PROGRAM: &str = "probe-c";

/// The same, compiled for the host.
const HOST_PROGRAM: &str = "probe-host";

/// A probe works for a second; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// What is probed.
pub struct Parts<'a> {
    /// What the programs must be.
    pub target: &'a Target,
    /// What they are compiled against.
    pub sysroot: &'a Sysroot,
    /// What runs them.
    pub emulator: &'a Emulator,
    /// The Rust compiler.
    pub rust: &'a RustStd,
}

/// What the probes found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probed {
    /// How many times longer the emulator takes than the host for the same loop.
    pub slowdown: f64,
    /// Whether atomics of 1 to 8 bytes need `-latomic`.
    pub needs_libatomic: bool,
    /// Sizes of atomics that work, in bytes.
    pub atomic_bytes: Vec<u32>,
}

/// Runs every probe.
pub fn all(parts: &Parts, work: &Path, log: &Path) -> Result<Probed> {
    let probes = Probes { parts, work, log };
    let place = Place { target: parts.target, sysroot: parts.sysroot, emulator: parts.emulator };
    let needs_libatomic = probes.compile_c(C_PROGRAM, &[]).is_err();
    if needs_libatomic {
        probes.compile_c(C_PROGRAM, &["-latomic"])?;
    }
    probes.compile_c("probe-c16", &["-DATOMIC_16", "-latomic"])?;
    let (c, c16) = (run(&place, work, C_PROGRAM)?, run(&place, work, "probe-c16")?);
    check_facts(parts.target, &c, "C")?;
    probes.compile_cxx()?;
    let cxx = run(&place, work, "probe-cxx")?;
    expect(&cxx, "exception", "caught", "C++")?;
    expect(&cxx, "threads", "2000", "C++")?;
    probes.compile_rust()?;
    let rust = run(&place, work, "probe-rust")?;
    check_facts(parts.target, &rust, "Rust")?;
    expect(&rust, "threads", "2000", "Rust")?;
    let atomic_bytes = atomics(&c16)?;
    Ok(Probed { slowdown: probes.slowdown(&c)?, needs_libatomic, atomic_bytes })
}

/// Runs the C probe of a toolchain once more, to see that emulator and sysroot work: `libm` in it is what old emulators
/// stumble over.
pub fn one(target: &Target, sysroot: &Sysroot, emulator: &Emulator, folder: &Path) -> Result<()> {
    check_facts(target, &run(&Place { target, sysroot, emulator }, folder, C_PROGRAM)?, "C")
}

/// What a run of the C probe on a machine says of it: it is what the target promises, and that many times slower than
/// this host is now.
pub fn slowdown(target: &Target, folder: &Path, said: &str) -> Result<f64> {
    let there = Facts::parse(said);
    check_facts(target, &there, "C")?;
    compared(folder, &there)
}

/// The ratio of the probe's work there to the same work on this host now.
fn compared(folder: &Path, there: &Facts) -> Result<f64> {
    let (sh, program) = (Shell::new()?, folder.join(HOST_PROGRAM));
    let here = Facts::parse(&process::output(cmd!(sh, "{program}"))?);
    if there.get("work-result")? != here.get("work-result")? {
        let what = "the same arithmetic gives another result there than on this host";
        return Err(Failure::new(Kind::EmulatorBroken, what).next("cargo xtask doctor").into());
    }
    Ok(there.get("work-seconds")?.parse::<f64>()? / here.get("work-seconds")?.parse::<f64>()?.max(1e-6))
}

/// Where a probe is run.
struct Place<'a> {
    target: &'a Target,
    sysroot: &'a Sysroot,
    emulator: &'a Emulator,
}

struct Probes<'a> {
    parts: &'a Parts<'a>,
    work: &'a Path,
    log: &'a Path,
}

impl Probes<'_> {
    fn logged<'a>(&'a self, name: &'a str) -> Logged<'a> {
        Logged { name, log: self.log, next: "cargo xtask doctor" }
    }

    /// Compiles a C or C++ probe into `program`.
    fn compile(&self, tool: &str, source: &str, text: &str, program: &str, more: &[&str]) -> Result<()> {
        let (source, program) = (self.work.join(source), self.work.join(program));
        std::fs::write(&source, text)?;
        let (sh, compiler) = (Shell::new()?, self.parts.target.tool(tool));
        let (sysroot, flags) = (self.parts.sysroot.root(), &self.parts.target.cpu.flags);
        let command = cmd!(
            sh,
            "{compiler} --sysroot={sysroot} {flags...} -O2 -pthread {source} -o {program} {more...} -lm"
        );
        self.logged(&compiler).run(command)
    }

    fn compile_c(&self, program: &str, more: &[&str]) -> Result<()> {
        self.compile("gcc", "probe.c", C, program, more)
    }

    fn compile_cxx(&self) -> Result<()> {
        self.compile("g++", "probe.cc", CXX, "probe-cxx", &[])
    }

    fn compile_rust(&self) -> Result<()> {
        let (source, program) = (self.work.join("probe.rs"), self.work.join("probe-rust"));
        std::fs::write(&source, RUST)?;
        let (sh, rustc, target) = (Shell::new()?, &self.parts.rust.rustc, self.parts.target);
        let (triple, cpu, linker) = (&target.rust_triple, &target.cpu.rust, target.tool("gcc"));
        let sysroot = format!("--sysroot={}", self.parts.sysroot.root().display());
        let command = cmd!(
            sh,
            "{rustc} --edition=2021 -O -Cpanic=abort --target {triple} -Ctarget-cpu={cpu} -Clinker={linker} -Clink-arg={sysroot}
             {source} -o {program}"
        );
        self.logged("the Rust compiler").run(command)
    }

    /// The same program for the host, to know how much slower the emulator is.
    fn slowdown(&self, emulated: &Facts) -> Result<f64> {
        let (sh, source, program) = (Shell::new()?, self.work.join("probe.c"), self.work.join(HOST_PROGRAM));
        self.logged("the host's C compiler").run(cmd!(sh, "cc -O2 {source} -o {program} -lm"))?;
        compared(self.work, emulated)
    }
}

/// What a probe printed: one `name value` a line.
pub struct Facts(Vec<(String, String)>);

impl Facts {
    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.rsplit_once(' '));
        Facts(pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    fn get(&self, name: &str) -> Result<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.with_context(|| format!("a probe did not print `{name}`"))
    }
}

fn run(parts: &Place, folder: &Path, program: &str) -> Result<Facts> {
    let root = parts.sysroot.root();
    let loader = root.join(&parts.target.elf.loader);
    let mut words: Vec<OsString> =
        super::run_prefix(parts.emulator, &loader, &parts.sysroot.library_folders());
    words.push(folder.join(program).into());
    let text = captured(parts, &words, program)?;
    Ok(Facts::parse(&text))
}

/// Runs the program and takes its output; whatever goes wrong is the emulator's, for the compiler has done its part.
fn captured(parts: &Place, words: &[OsString], name: &str) -> Result<String> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let pasted = process::shown(&command);
    let (reader, writer) = std::io::pipe()?;
    let stdio = [Stdio::null(), writer.try_clone()?.into(), writer.into()];
    let mut child = process::spawn_with(name, command, OnOurDeath::Kill, stdio)?;
    let lines = process::lines_of(reader);
    let until = Instant::now() + LIMIT;
    let mut text = Vec::new();
    loop {
        match lines.recv_timeout(process::TICK) {
            Ok(line) => text.push(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(_) if Instant::now() < until => crate::interrupt::check()?,
            Err(_) => break,
        }
    }
    let text = text.join("\n");
    let how = match child.wait(Duration::from_secs(2))? {
        Some(status) if status.success() => return Ok(text),
        Some(status) => process::ending(status),
        None => format!("no end after {} s", LIMIT.as_secs()),
    };
    let what =
        format!("{name} at CPU {}: {how}\n{}\n  $ {pasted}", parts.emulator.cpu(), process::indented(&text));
    Err(emulator::broken(parts.emulator.program(), &what).into())
}

fn expect(facts: &Facts, name: &str, wanted: &str, language: &str) -> Result<()> {
    let found = facts.get(name)?;
    if found == wanted {
        return Ok(());
    }
    let what = format!("the {language} probe says {name} {found}, the target's file {wanted}");
    Err(Failure::new(Kind::VerificationFailed, what).next("cargo xtask doctor").into())
}

fn check_facts(target: &Target, facts: &Facts, language: &str) -> Result<()> {
    expect(facts, "byte-order", target.byte_order.name(), language)?;
    expect(facts, "pointer-bits", &target.pointer_bits.to_string(), language)
}

fn atomics(facts: &Facts) -> Result<Vec<u32>> {
    for bytes in [1, 2, 4, 8, 16] {
        expect(facts, &format!("atomic {bytes}"), "1", "C")?;
    }
    Ok(vec![1, 2, 4, 8, 16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_output_is_read_by_name() {
        let facts = Facts::parse("byte-order little\natomic 16 1\nwork-seconds 0.25\n");
        assert_eq!(facts.get("atomic 16").unwrap(), "1");
        assert!(facts.get("missing").is_err());
    }

    #[test]
    fn a_big_endian_answer_for_a_little_endian_target_is_refused() {
        let target = Target::load("ppc64le").unwrap();
        let facts = Facts::parse("byte-order big\npointer-bits 64\n");
        assert!(check_facts(&target, &facts, "C").unwrap_err().to_string().contains("byte-order big"));
    }

    #[test]
    fn a_failed_atomic_is_refused() {
        let facts = Facts::parse("atomic 1 1\natomic 2 1\natomic 4 0\natomic 8 1\natomic 16 1\n");
        assert!(atomics(&facts).unwrap_err().to_string().contains("atomic 4"));
    }
}
