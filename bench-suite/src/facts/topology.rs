//! Sockets, cores, threads of cores, NUMA nodes: `/sys/devices/system/cpu` and `/sys/devices/system/node`.

use std::collections::BTreeSet;

use model::CpuList;
use model::facts::{Facts, NumaNode};

use super::Tree;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// Reads them.
pub fn read(tree: &Tree, facts: &mut Facts) {
    facts.smt_control = tree.text(&format!("{CPU}/smt/control"));
    facts.numa_nodes = numa_nodes(tree);
    let Some(online) = online(tree) else { return };
    let cores: BTreeSet<String> = online.iter().filter_map(|cpu| siblings(tree, cpu)).collect();
    let threads = cores.iter().filter_map(|list| CpuList::of_kernel(list)).map(|list| list.count() as u32);
    facts.threads_per_core = threads.max();
    facts.cores = (!cores.is_empty()).then_some(cores.len() as u32);
    let package = |cpu| tree.number(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"));
    // A kernel that does not know says -1, which is no number here.
    let packages: BTreeSet<u64> = online.iter().filter_map(package).collect();
    facts.sockets = (!packages.is_empty()).then_some(packages.len() as u32);
    facts.cpus_online = Some(online);
}

/// CPUs that are online.
pub fn online(tree: &Tree) -> Option<CpuList> {
    CpuList::of_kernel(&tree.text(&format!("{CPU}/online"))?)
}

/// The threads of a CPU's core that are online, itself among them.
fn siblings(tree: &Tree, cpu: u32) -> Option<String> {
    let of = |name: &str| tree.text(&format!("{CPU}/cpu{cpu}/topology/{name}"));
    // The first name is the newer one.
    of("core_cpus_list").or_else(|| of("thread_siblings_list"))
}

/// All threads of the cores that some CPUs belong to; at least those CPUs.
pub fn with_siblings(tree: &Tree, cpus: &CpuList) -> CpuList {
    let of_core = |cpu| {
        let list = siblings(tree, cpu).and_then(|list| CpuList::of_kernel(&list)).unwrap_or_default();
        list.iter().chain([cpu]).collect::<Vec<u32>>()
    };
    cpus.iter().flat_map(of_core).collect()
}

fn numa_nodes(tree: &Tree) -> Option<Vec<NumaNode>> {
    let mut numbers: Vec<u32> = tree.names(NODE, "node").iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    let node = |node| {
        let text = |name: &str| tree.text(&format!("{NODE}/node{node}/{name}")).unwrap_or_default();
        NumaNode {
            node,
            cpus: CpuList::of_kernel(&text("cpulist")).unwrap_or_default(),
            memory_bytes: memory(&text("meminfo")),
        }
    };
    (!numbers.is_empty()).then(|| numbers.into_iter().map(node).collect())
}

/// `Node 0 MemTotal:       65699584 kB`
fn memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    Some(line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    fn facts(files: &[(&str, &str)]) -> Facts {
        let (_folder, tree) = tree(files);
        let mut facts = Facts::default();
        read(&tree, &mut facts);
        facts
    }

    fn cpu(number: u32, socket: &str, siblings: &str) -> [(String, String); 2] {
        let folder = format!("{CPU}/cpu{number}/topology");
        [
            (format!("{folder}/physical_package_id"), format!("{socket}\n")),
            (format!("{folder}/thread_siblings_list"), format!("{siblings}\n")),
        ]
    }

    fn sample(online: &str, cpus: &[[(String, String); 2]], more: &[(&str, &str)]) -> Facts {
        let path = format!("{CPU}/online");
        let mut files = vec![(path.as_str(), online)];
        files.extend(cpus.iter().flatten().map(|(path, text)| (path.as_str(), text.as_str())));
        files.extend(more);
        facts(&files)
    }

    /// Two POWER8 chips, cores 0-7 and 8-15 at SMT8 and SMT 2 of 8: numbers have gaps where threads are offline.
    #[test]
    fn power_in_smt_modes_has_numbers_with_gaps() {
        let cpus: Vec<_> =
            (0..8).map(|n| cpu(n, "0", "0-7")).chain([8, 9].map(|n| cpu(n, "1", "8-9"))).collect();
        let nodes = [
            ("sys/devices/system/cpu/smt/control", "8\n"),
            ("sys/devices/system/node/node0/cpulist", "0-7\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemTotal:       65699584 kB\nNode 0 MemFree: 1 kB\n",
            ),
            ("sys/devices/system/node/node8/cpulist", "8-9\n"),
            ("sys/devices/system/node/node252/cpulist", "\n"),
            ("sys/devices/system/node/possible", "0-255\n"),
        ];
        let facts = sample("0-9\n", &cpus, &nodes);
        assert_eq!((facts.sockets, facts.cores, facts.threads_per_core), (Some(2), Some(2), Some(8)));
        assert_eq!(facts.smt_control.as_deref(), Some("8"));
        assert_eq!(facts.cpus_online.unwrap().to_string(), "0-9");
        let nodes = facts.numa_nodes.unwrap();
        let seen: Vec<(u32, String)> = nodes.iter().map(|n| (n.node, n.cpus.to_string())).collect();
        assert_eq!(seen, [(0, "0-7".into()), (8, "8-9".into()), (252, String::new())]);
        assert_eq!((nodes[0].memory_bytes, nodes[1].memory_bytes), (Some(65_699_584 << 10), None));
    }

    /// As x86 numbers them: the second threads of all cores come after the first ones.
    #[test]
    fn x86_numbers_second_threads_after_the_first() {
        let cpus: Vec<_> =
            [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")].map(|(n, list)| cpu(n, "0", list)).into();
        let facts = sample("0-3\n", &cpus, &[("sys/devices/system/cpu/smt/control", "on\n")]);
        assert_eq!((facts.sockets, facts.cores, facts.threads_per_core), (Some(1), Some(2), Some(2)));
        assert_eq!(facts.numa_nodes, None);
    }

    #[test]
    fn a_kernel_that_does_not_know_its_sockets_has_none() {
        let facts = sample("0\n", &[cpu(0, "-1", "0")], &[]);
        assert_eq!((facts.sockets, facts.cores, facts.threads_per_core), (None, Some(1), Some(1)));
        assert_eq!(sample("0\n", &[], &[]).cores, None);
    }

    #[test]
    fn the_threads_of_a_core_are_found_from_any_of_them() {
        let cpus: Vec<_> = [(0, "0,2"), (2, "0,2")].map(|(n, list)| cpu(n, "0", list)).into();
        let files: Vec<(&str, &str)> =
            cpus.iter().flatten().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_folder, tree) = tree(&files);
        assert_eq!(with_siblings(&tree, &CpuList::from_iter([2])).to_string(), "0,2");
        assert_eq!(with_siblings(&tree, &CpuList::from_iter([9])).to_string(), "9");
    }
}
