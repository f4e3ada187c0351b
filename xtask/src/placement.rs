//! Placement: the CPUs and the NUMA node that a program is bound to. (Written by another hand; this is its outline.)

use std::process::Command;

use anyhow::Result;
use model::message::Facts;

/// A list of CPUs.
pub type CpuList = String;

/// Where on a machine a program runs; empty: wherever the kernel likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs.
    pub cpus: Option<CpuList>,
    /// A NUMA node, for its memory.
    pub numa_node: Option<u32>,
}

impl Placement {
    /// Checks it.
    pub fn check(&self, _facts: &Facts, _machine: &str) -> Result<()> {
        Ok(())
    }
}

/// A command of this host, placed.
pub fn command(_placement: &Placement, command: Command) -> Command {
    command
}
