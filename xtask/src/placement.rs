//! Placement: the CPUs and the NUMA node that a program is bound to. Asked for by flags, checked against what the
//! machine allows before anything starts, and read back from the kernel after.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
pub use model::CpuList;
use model::facts::{Facts, NumaNode};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::failure::{Failure, Kind};
use crate::process;

/// The program that sets a memory policy: the system call has no safe wrapper.
const NUMACTL: &str = "numactl";

/// Where on a machine a program runs; empty: wherever the kernel likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs; left out: those that the machine allows, or those of the NUMA node.
    pub cpus: Option<CpuList>,
    /// A NUMA node that all of the program's memory comes from.
    pub numa_node: Option<u32>,
}

impl Placement {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        *self == Placement::default()
    }

    /// This placement on a machine of these facts, its CPUs spelled out.
    ///
    /// # Errors
    /// The machine has no such CPU or node, or does not let us use it.
    pub fn check(&self, facts: &Facts, machine: &str) -> Result<Placement> {
        let allowed = Allowed::of(facts);
        let mut placement = self.clone();
        if let Some(number) = self.numa_node {
            let node = allowed.nodes.iter().find(|node| node.node == number);
            let Some(node) = node else { return Err(no_node(number, machine, &allowed).into()) };
            if self.cpus.is_none() {
                placement.cpus = Some(allowed.on_node(node, machine)?);
            }
        }
        if let Some(cpus) = &placement.cpus {
            let missing = cpus.without(&allowed.cpus);
            if !missing.is_empty() {
                let what = format!("CPUs {cpus}: {machine} does not allow {missing}");
                return Err(Failure::new(Kind::Usage, what)
                    .next(format!("choose among the CPUs that it allows: {}", allowed.cpus))
                    .into());
            }
        }
        Ok(placement)
    }

    /// Whether this host has the program that binds memory, for programs that run here.
    pub fn check_tools(&self) -> Result<()> {
        if self.numa_node.is_none() || process::find_program(NUMACTL).is_some() {
            return Ok(());
        }
        let what = format!("{NUMACTL}, which binds memory to a NUMA node, is not installed");
        Err(Failure::new(Kind::MissingPackages, what)
            .next(format!("apt-get install {NUMACTL}, or ask for no NUMA node"))
            .into())
    }

    /// What is wrong with where a started program is; empty where nothing is.
    pub fn differences(&self, found: &Placed) -> Vec<String> {
        let unknown = || "cannot be read".to_string();
        let mut wrong = Vec::new();
        if let Some(wanted) = &self.cpus
            && found.cpus.as_ref() != Some(wanted)
        {
            let found = found.cpus.as_ref().map_or_else(unknown, CpuList::to_string);
            wrong.push(format!("CPUs: asked for {wanted}; those that it may run on: {found}"));
        }
        if let Some(wanted) = self.numa_node
            && !found.memory.as_ref().is_some_and(|policy| binds_to(policy, wanted))
        {
            let found = found.memory.clone().unwrap_or_else(unknown);
            wrong.push(format!("memory: asked for node {wanted}; its policy: {found}"));
        }
        wrong
    }
}

/// Where a program is, by its kernel's word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The CPUs that it may run on; `None` where that cannot be read.
    pub cpus: Option<CpuList>,
    /// Its memory policy, e.g. `default` or `bind:0`; `None` where that cannot be read, or without NUMA.
    pub memory: Option<String>,
}

impl Placed {
    /// By a process's `/proc/PID/status` and `/proc/PID/numa_maps`. The policy is that of its first mapping, the
    /// program's own file, which nobody gave one of its own.
    pub fn of(status: &str, numa_maps: &str) -> Self {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let policy = numa_maps.lines().next().and_then(|line| line.split_whitespace().nth(1));
        Placed { cpus: list.and_then(CpuList::of_kernel), memory: policy.map(String::from) }
    }
}

/// What a machine allows.
struct Allowed {
    cpus: CpuList,
    nodes: Vec<NumaNode>,
}

impl Allowed {
    /// By a machine's facts. One that does not say which of its CPUs may be used allows those that are online.
    fn of(facts: &Facts) -> Self {
        let cpus = facts.allowed_cpus.clone().or_else(|| facts.cpus_online.clone()).unwrap_or_default();
        let memory = |node: u32| facts.allowed_numa_nodes.as_ref().is_none_or(|list| list.contains(node));
        let nodes = facts.numa_nodes.iter().flatten().filter(|node| memory(node.node)).cloned().collect();
        Allowed { cpus, nodes }
    }

    /// The CPUs of a node that may be used.
    fn on_node(&self, node: &NumaNode, machine: &str) -> Result<CpuList> {
        let cpus: CpuList = node.cpus.iter().filter(|cpu| self.cpus.contains(*cpu)).collect();
        if !cpus.is_empty() {
            return Ok(cpus);
        }
        let what = format!("NUMA node {}: {machine} allows no CPU of it", node.node);
        let next = format!("name CPUs besides, among {}", self.cpus);
        Err(Failure::new(Kind::Usage, what).next(next).into())
    }
}

fn no_node(number: u32, machine: &str, allowed: &Allowed) -> Failure {
    let nodes: CpuList = allowed.nodes.iter().map(|node| node.node).collect();
    let (what, next) = match nodes.is_empty() {
        true => (format!("{machine} has no NUMA nodes"), "ask for none".to_string()),
        false => (
            format!("{machine} has no such node, or does not allow its memory"),
            format!("choose among the nodes that it allows: {nodes}"),
        ),
    };
    Failure::new(Kind::Usage, format!("NUMA node {number}: {what}")).next(next)
}

/// `bind:0`, or with a mode flag `bind=static:0`.
fn binds_to(policy: &str, node: u32) -> bool {
    let Some((mode, nodes)) = policy.split_once(':') else { return false };
    mode.split('=').next() == Some("bind") && CpuList::of_kernel(nodes) == Some(CpuList::from_iter([node]))
}

/// A command of this host, placed: through `xtask place`, which becomes the program.
pub fn command(placement: &Placement, command: Command) -> Command {
    if placement.is_empty() {
        return command;
    }
    let mut placed = Command::new("/proc/self/exe");
    placed.arg("place");
    if let Some(cpus) = &placement.cpus {
        placed.arg("--cpus").arg(cpus.to_string());
    }
    if let Some(node) = placement.numa_node {
        placed.arg("--numa-node").arg(node.to_string());
    }
    placed.arg("--").arg(command.get_program()).args(command.get_args());
    process::inherit_setting(&command, &mut placed);
    placed
}

/// `xtask place`: binds this process, then becomes the program. Returns only on failure.
pub fn become_placed(placement: &Placement, mut program: Command) -> Result<()> {
    if let Some(cpus) = &placement.cpus {
        bind(cpus)?;
    }
    if let Some(node) = placement.numa_node {
        let mut bound = Command::new(NUMACTL);
        bound.arg(format!("--membind={node}")).arg("--").arg(program.get_program()).args(program.get_args());
        program = bound;
    }
    let error = program.exec();
    Err(error).with_context(|| format!("cannot start {}", program.get_program().display()))
}

fn bind(cpus: &CpuList) -> Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        anyhow::ensure!(
            (cpu as usize) < CpuSet::MAX_CPU,
            "CPU {cpu}: only those below {} can be chosen",
            CpuSet::MAX_CPU
        );
        set.set(cpu as usize);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on the CPUs {cpus}"))
}

#[cfg(test)]
mod tests;
