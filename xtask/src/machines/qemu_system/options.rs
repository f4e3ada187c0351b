//! What a person chooses of a guest.

use std::path::PathBuf;

use model::CpuList;
use model::facts::{Facts, NumaNode};

use crate::tables::guest::Guest;

/// What the machine `qemu-system` is booted with; what is left out is as the target's file says.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// qemu-system: the guest's kernel, by its name in the target's file, e.g. 64k.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// qemu-system: a kernel of your own, with virtio and ext4 built in.
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub guest_kernel: Option<PathBuf>,
    /// qemu-system: the guest's memory in MiB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub guest_memory_mib: Option<u32>,
    /// qemu-system: the guest's CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub guest_cpus: Option<u32>,
    /// qemu-system: the kernel's name of the console.
    #[arg(long, value_name = "NAME")]
    pub guest_console: Option<String>,
    /// qemu-system: size in MiB of the disk for data folders; it takes room as it is filled.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(16..))]
    pub guest_disk_mib: Option<u32>,
}

impl Options {
    /// The guest's table with what these say in its place.
    pub fn over(&self, table: &Guest) -> Guest {
        let mut table = table.clone();
        table.memory_mib = self.guest_memory_mib.unwrap_or(table.memory_mib);
        table.cpus = self.guest_cpus.unwrap_or(table.cpus);
        table.console = self.guest_console.clone().unwrap_or(table.console);
        table
    }

    /// What a guest will see of itself: one NUMA node with everything.
    pub fn facts(&self, table: &Guest) -> Facts {
        let table = self.over(table);
        let (cpus, memory) = ((0..table.cpus).collect::<CpuList>(), u64::from(table.memory_mib) << 20);
        Facts {
            memory_bytes: Some(memory),
            allowed_cpus: Some(cpus.clone()),
            numa_nodes: Some(vec![NumaNode { node: 0, cpus, memory_bytes: Some(memory) }]),
            ..Facts::default()
        }
    }
}
