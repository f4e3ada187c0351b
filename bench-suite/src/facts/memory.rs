//! Memory: how much, in pages of which sizes, and what of it this process may use.

use model::CpuList;
use model::facts::{Facts, HugePages};

use super::Tree;

const HUGE: &str = "sys/kernel/mm/hugepages";

/// Reads it, and the CPUs that this process may use, which stand in the same file.
pub fn read(tree: &Tree, facts: &mut Facts) {
    facts.memory_bytes = tree.text("proc/meminfo").and_then(|text| total(&text));
    facts.huge_pages = huge_pages(tree);
    let enabled = tree.text("sys/kernel/mm/transparent_hugepage/enabled");
    facts.transparent_huge_pages = enabled.and_then(|text| chosen(&text));
    let status = tree.text("proc/self/status").unwrap_or_default();
    facts.allowed_cpus = allowed(&status, "Cpus_allowed_list:");
    facts.allowed_numa_nodes = allowed(&status, "Mems_allowed_list:");
    facts.memory_policy = tree.text("proc/self/numa_maps").and_then(|text| policy(&text));
}

/// `MemTotal:       131072 kB`
fn total(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn huge_pages(tree: &Tree) -> Option<Vec<HugePages>> {
    let size = |name: &String| name.strip_suffix("kB")?.parse::<u64>().ok();
    let mut sizes: Vec<u64> = tree.names(HUGE, "hugepages-").iter().filter_map(size).collect();
    sizes.sort_unstable();
    let pages = |kib: u64| {
        let count = |name: &str| tree.number(&format!("{HUGE}/hugepages-{kib}kB/{name}")).unwrap_or(0);
        HugePages {
            huge_page_bytes: kib * 1024,
            reserved: count("nr_hugepages"),
            free: count("free_hugepages"),
        }
    };
    (!sizes.is_empty()).then(|| sizes.into_iter().map(pages).collect())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_string()))
}

/// A list in `/proc/PID/status`.
pub fn allowed(status: &str, name: &str) -> Option<CpuList> {
    status.lines().find_map(|line| line.strip_prefix(name)).and_then(CpuList::of_kernel)
}

/// The process's policy: that of its first mapping, the program's own file, which nobody gave one of its own.
fn policy(numa_maps: &str) -> Option<String> {
    numa_maps.lines().next()?.split_whitespace().nth(1).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    /// As POWER's hash MMU has them; its base pages have 64 KiB.
    #[test]
    fn memory_and_pages_are_read() {
        let (_folder, tree) = tree(&[
            ("proc/meminfo", "MemTotal:        2093056 kB\nMemFree:         1 kB\n"),
            ("sys/kernel/mm/hugepages/hugepages-16777216kB/nr_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-16777216kB/free_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-16384kB/nr_hugepages", "64\n"),
            ("sys/kernel/mm/hugepages/hugepages-16384kB/free_hugepages", "60\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            (
                "proc/self/status",
                "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0,8\n",
            ),
            ("proc/self/numa_maps", "10000000 bind:0 file=/bin/x mapped=48 N0=48 kernelpagesize_kB=64\n"),
        ]);
        let mut facts = Facts::default();
        read(&tree, &mut facts);
        assert_eq!(facts.memory_bytes, Some(2_093_056 << 10));
        let pages: Vec<(u64, u64, u64)> =
            facts.huge_pages.unwrap().iter().map(|p| (p.huge_page_bytes, p.reserved, p.free)).collect();
        assert_eq!(pages, [(16 << 20, 64, 60), (16 << 30, 0, 0)]);
        assert_eq!(facts.transparent_huge_pages.as_deref(), Some("madvise"));
        assert_eq!(facts.allowed_cpus.unwrap().to_string(), "0-7");
        assert_eq!(facts.allowed_numa_nodes.unwrap().to_string(), "0,8");
        assert_eq!(facts.memory_policy.as_deref(), Some("bind:0"));
    }

    #[test]
    fn what_reads_otherwise_is_not_known() {
        assert_eq!(total("MemTotal: many kB\n"), None);
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(allowed("Name:\tx\n", "Cpus_allowed_list:"), None);
        assert_eq!(policy(""), None);
    }
}
