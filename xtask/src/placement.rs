//! Placement: the CPUs and the NUMA node that a program is bound to. (Written by another hand; this is its outline.)

use std::process::Command;

/// Where on a machine a program runs; empty: wherever the kernel likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs.
    pub cpus: Option<String>,
    /// A NUMA node, for its memory.
    pub numa_node: Option<u32>,
}

/// A command of this host, placed.
pub fn command(_placement: &Placement, command: Command) -> Command {
    command
}
