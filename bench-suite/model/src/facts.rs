//! Facts of a machine, read on the machine itself by the bench binary.
//!
//! What a kernel or an emulator does not tell is `None`, never a guess. Under an emulator of single programs
//! (`qemu-user`) most of them are facts of the *host*: [`Facts::seen_through`] says so, field by field below.

use serde::{Deserialize, Serialize};

use crate::cpus::CpuList;

/// Facts of the machine and of the program's place on it.
///
/// Three kinds, where [`Facts::seen_through`] names an emulator. Of the *program*, and so of the target: `machine`,
/// `byte_order`, `pointer_bits`, `page_bytes`, `libc`. Of the program's *process* on the host, and true: `cpus`,
/// `allowed_cpus`, `allowed_numa_nodes`, `memory_policy`. Of the *host*, and no property of the target: all others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// `uname -m`; an emulator answers for the target.
    pub machine: String,
    /// `uname -r`. Under qemu-user this is the host's kernel.
    pub kernel: String,
    /// Byte order of the running program: `little` or `big`.
    pub byte_order: String,
    /// Bits of a pointer.
    pub pointer_bits: u32,
    /// Base page size that the program sees. Under qemu-user the emulator's choice, not that of a kernel of the target.
    pub page_bytes: u64,
    /// CPU as `/proc/cpuinfo` names it; `None` where it does not. Under qemu-user this is the host's.
    pub cpu_model: Option<String>,
    /// CPUs the program may use.
    pub cpus: u32,
    /// C library and version, e.g. `glibc 2.36`; `None` where unknown.
    pub libc: Option<String>,
    /// The emulator, by its program's name, that runs this program and passes the host's `/proc` and `/sys` on; `None`
    /// where the program sees the kernel that the machine runs, be the whole machine emulated or not.
    pub seen_through: Option<String>,
    /// What the machine calls itself: firmware's product name or the device tree's model.
    pub platform: Option<String>,
    /// CPU packages with a CPU that is online.
    pub sockets: Option<u32>,
    /// Cores with a CPU that is online.
    pub cores: Option<u32>,
    /// CPUs that are online.
    pub cpus_online: Option<CpuList>,
    /// Most threads of one core that are online: 1 where SMT is off.
    pub threads_per_core: Option<u32>,
    /// SMT as the kernel was told: `on`, `off`, `forceoff`, `notsupported`, `notimplemented`, or a number of threads.
    pub smt_control: Option<String>,
    /// NUMA nodes.
    pub numa_nodes: Option<Vec<NumaNode>>,
    /// Frequency governor; several, with commas, where CPUs differ. `None` where the kernel does not set the frequency.
    pub frequency_governor: Option<String>,
    /// Highest frequency that the kernel may set.
    pub frequency_max_hz: Option<u64>,
    /// Frequency of the first CPU when this was read, as `/proc/cpuinfo` has it.
    pub frequency_now_hz: Option<u64>,
    /// Frequency of POWER's time base, which its clocks count.
    pub timebase_hz: Option<u64>,
    /// The kernel's clock source, e.g. `tsc` or `timebase`.
    pub clock_source: Option<String>,
    /// Huge page sizes, smallest first.
    pub huge_pages: Option<Vec<HugePages>>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// CPUs that this process may run on.
    pub allowed_cpus: Option<CpuList>,
    /// NUMA nodes whose memory this process may use.
    pub allowed_numa_nodes: Option<CpuList>,
    /// This process's memory policy as the kernel writes it: `default`, `bind:0`, …; `None` without NUMA.
    pub memory_policy: Option<String>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NumaNode {
    /// Its number; numbers may have gaps.
    pub node: u32,
    /// Its CPUs; none on a node of memory only.
    pub cpus: CpuList,
    /// Its memory.
    pub memory_bytes: Option<u64>,
}

/// A size of huge pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HugePages {
    /// The size.
    pub huge_page_bytes: u64,
    /// Pages set aside.
    pub reserved: u64,
    /// Those of them that nobody uses.
    pub free: u64,
}

/// What I/O a folder bears: where a server's data will be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FolderFacts {
    /// Its file system, as the kernel names it: `ext4`, `tmpfs`, `9p`, …; its magic number where it is not mounted by
    /// name.
    pub file_system: String,
    /// Whether a file there can be written past the page cache (`O_DIRECT`).
    pub direct_io: bool,
    /// Why not; `None` where it can.
    pub direct_io_error: Option<String>,
    /// Bytes free for this user.
    pub free_bytes: u64,
    /// Whether the kernel has native AIO; `None` where that is not known, as under qemu-user, which has none itself.
    pub native_aio: Option<bool>,
    /// Whether the kernel has io_uring: `enabled`, `restricted` (to a group), `disabled`, `absent`; `None` where that
    /// is not known. The server's own word, `io_method`, is what counts.
    pub io_uring: Option<String>,
}
