//! This host: what a record says of it.

use model::CpuList;
use model::facts::{Facts, NumaNode};
use model::record::MachineFacts;

use crate::placement;

/// The facts of this host, for a record of the machine `name`.
pub fn facts(name: &str) -> MachineFacts {
    let uname = rustix::system::uname();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    MachineFacts {
        machine: name.to_string(),
        host_kernel: uname.release().to_string_lossy().into_owned(),
        host_cpu: field(&cpuinfo, &["model name", "cpu"]),
        host_cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        host_memory_bytes: field(&meminfo, &["MemTotal"]).and_then(|text| kib(&text)).unwrap_or(0),
    }
}

/// What of a machine's facts a topology is held against, of this host; programs that the host emulates see the same.
pub fn here() -> Facts {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    Facts {
        memory_bytes: field(&meminfo, &["MemTotal"]).and_then(|text| kib(&text)),
        allowed_cpus: read("/proc/self/status").and_then(|text| placement::allowed_cpus(&text)),
        numa_nodes: numa_nodes(),
        ..Facts::default()
    }
}

fn numa_nodes() -> Option<Vec<NumaNode>> {
    let mut nodes = Vec::new();
    for entry in std::fs::read_dir("/sys/devices/system/node").ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(node) = name.strip_prefix("node").and_then(|number| number.parse().ok()) else { continue };
        let list = std::fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        let cpus = CpuList::of_kernel(&list).unwrap_or_default();
        nodes.push(NumaNode { node, cpus, memory_bytes: None });
    }
    nodes.sort_by_key(|node| node.node);
    Some(nodes)
}

/// `uname -m` of this host.
pub fn uname_machine() -> String {
    rustix::system::uname().machine().to_string_lossy().into_owned()
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
