//! Placement: the CPUs and the NUMA node that a program is bound to. Asked for by flags, checked against what the
//! machine allows before anything starts, and read back from the kernel after.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use model::CpuList;
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

/// What a machine allows; of its facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    cpus: CpuList,
    nodes: Vec<NumaNode>,
}

impl Allowed {
    /// Of a machine's facts, as `bench-suite facts` prints them there. A machine that does not say which of its CPUs
    /// may be used allows those that are online.
    pub fn of(facts: &Facts) -> Self {
        let cpus = facts.allowed_cpus.clone().or_else(|| facts.cpus_online.clone()).unwrap_or_default();
        let memory = |node: u32| facts.allowed_numa_nodes.as_ref().is_none_or(|list| list.contains(node));
        let nodes = facts.numa_nodes.iter().flatten().filter(|node| memory(node.node)).cloned().collect();
        Allowed { cpus, nodes }
    }

    fn nodes(&self) -> CpuList {
        self.nodes.iter().map(|node| node.node).collect()
    }
}

impl Placement {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        *self == Placement::default()
    }

    /// This placement on a machine, its CPUs spelled out. `flags` are those that asked for it, `machine` is where.
    ///
    /// # Errors
    /// The machine has no such CPU or node, or does not let us use it.
    pub fn on(&self, machine: &str, flags: Flags, allowed: &Allowed) -> Result<Placement> {
        let mut placement = self.clone();
        if let Some(number) = self.numa_node {
            let node = allowed.nodes.iter().find(|node| node.node == number);
            let Some(node) = node else { return Err(no_node(number, machine, flags, allowed).into()) };
            if self.cpus.is_none() {
                placement.cpus = Some(on_node(node, machine, flags, allowed)?);
            }
        }
        if let Some(cpus) = &placement.cpus {
            let missing = cpus.without(&allowed.cpus);
            if !missing.is_empty() {
                let what = format!("{} {cpus}: {machine} does not allow CPU {missing}", flags.cpus);
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

    /// What is wrong with a started program's placement; empty where nothing is. `status` is the text of its
    /// `/proc/PID/status`, `numa_maps` that of its `/proc/PID/numa_maps`, where the machine has one.
    pub fn differences(&self, status: &str, numa_maps: Option<&str>) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(wanted) = &self.cpus {
            match allowed_cpus(status) {
                Some(found) if found == *wanted => {}
                Some(found) => wrong.push(format!("CPUs: asked for {wanted}, may run on {found}")),
                None => wrong.push(format!("CPUs: asked for {wanted}, what it may run on cannot be read")),
            }
        }
        if let Some(wanted) = self.numa_node {
            match numa_maps.and_then(memory_policy) {
                Some(found) if binds_to(&found, wanted) => {}
                Some(found) => wrong.push(format!("memory: asked for node {wanted}, the policy is {found}")),
                None => wrong.push(format!("memory: asked for node {wanted}, the policy cannot be read")),
            }
        }
        wrong
    }
}

/// The flags that asked for a placement, as messages name them.
#[derive(Clone, Copy, Debug)]
pub struct Flags {
    /// E.g. `--server-cpus`.
    pub cpus: &'static str,
    /// E.g. `--numa-node`.
    pub numa_node: &'static str,
}

fn no_node(number: u32, machine: &str, flags: Flags, allowed: &Allowed) -> Failure {
    let (nodes, flag) = (allowed.nodes(), flags.numa_node);
    let failure = |what: String| Failure::new(Kind::Usage, what);
    match nodes.is_empty() {
        true => {
            failure(format!("{flag} {number}: {machine} has no NUMA nodes")).next(format!("leave {flag} out"))
        }
        false => {
            failure(format!("{flag} {number}: {machine} has no such node, or does not allow its memory"))
                .next(format!("choose among the nodes that it allows: {nodes}"))
        }
    }
}

/// The CPUs of a node that may be used.
fn on_node(node: &NumaNode, machine: &str, flags: Flags, allowed: &Allowed) -> Result<CpuList> {
    let cpus: CpuList = node.cpus.iter().filter(|cpu| allowed.cpus.contains(*cpu)).collect();
    if !cpus.is_empty() {
        return Ok(cpus);
    }
    let what = format!("{} {}: {machine} allows no CPU of that node", flags.numa_node, node.node);
    Err(Failure::new(Kind::Usage, what)
        .next(format!("name CPUs by {}, among {}", flags.cpus, allowed.cpus))
        .into())
}

/// The CPUs that a process may run on, by its `/proc/PID/status`.
pub fn allowed_cpus(status: &str) -> Option<CpuList> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuList::of_kernel(list)
}

/// A process's memory policy, by its `/proc/PID/numa_maps`: that of its first mapping, the program's own file, which
/// nobody gave one of its own.
pub fn memory_policy(numa_maps: &str) -> Option<String> {
    numa_maps.lines().next()?.split_whitespace().nth(1).map(String::from)
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
