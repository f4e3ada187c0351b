//! Where a bundle runs. Each kind of machine is one module.

pub mod qemu_user;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use model::message::Caveat;
use model::record::{EmulatorFacts, MachineFacts};

use crate::failure::unknown;
use crate::stages::deployment::Deployment;

/// The kinds of machine there are.
pub const NAMES: [&str; 1] = ["qemu-user"];

/// What the pipeline needs of a machine.
pub trait Machine {
    /// Its name, as `--on` has it.
    fn name(&self) -> &str;
    /// A command that runs a program of the deployment there.
    fn command(&self, deployment: &Deployment, program: &Path) -> Command;
    /// How many times slower than the host it is, at least 1: limits are scaled by it.
    fn slowdown(&self) -> f64;
    /// Its emulator.
    fn emulator(&self) -> Option<EmulatorFacts>;
    /// What every record of it must warn of.
    fn caveats(&self) -> Vec<Caveat>;
}

/// A time limit, scaled by how slow the machine was measured to be.
pub fn limit(machine: &dyn Machine, on_hardware: Duration) -> Duration {
    on_hardware.mul_f64(machine.slowdown().max(1.0))
}

/// Answers an unknown machine with the nearest names.
pub fn check_name(name: &str) -> Result<()> {
    let known: Vec<String> = NAMES.iter().map(|n| n.to_string()).collect();
    if known.iter().any(|n| n == name) { Ok(()) } else { Err(unknown("machine", name, &known).into()) }
}

/// The facts of a machine and of the host it runs on.
pub fn facts(name: &str, emulator: Option<EmulatorFacts>) -> MachineFacts {
    let uname = rustix::system::uname();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    MachineFacts {
        machine: name.to_string(),
        emulator,
        host_kernel: uname.release().to_string_lossy().into_owned(),
        host_cpu: field(&cpuinfo, &["model name", "cpu"]),
        host_cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        host_memory_bytes: field(&meminfo, &["MemTotal"]).and_then(|text| kib(&text)).unwrap_or(0),
    }
}

/// Free memory of the host in bytes, as the kernel estimates it.
pub fn available_memory_bytes() -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, &["MemAvailable"]).and_then(|text| kib(&text))
}

fn field(text: &str, names: &[&str]) -> Option<String> {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim().to_string())
    };
    text.lines().find_map(value)
}

fn kib(text: &str) -> Option<u64> {
    Some(text.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_fields_are_read_on_x86_and_power() {
        assert_eq!(
            field("processor\t: 0\nmodel name\t: X 1\n", &["model name", "cpu"]).as_deref(),
            Some("X 1")
        );
        assert_eq!(field("cpu\t\t: POWER8 (raw)\n", &["model name", "cpu"]).as_deref(), Some("POWER8 (raw)"));
        assert_eq!(kib("2048 kB"), Some(2 << 20));
    }
}
