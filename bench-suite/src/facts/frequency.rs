//! Frequency: `/sys/devices/system/cpu/cpu*/cpufreq`. Virtual machines mostly have none.

use std::collections::BTreeSet;

use model::facts::Facts;

use super::Tree;
use super::topology::online;

/// Reads governor and limit over all CPUs that are online.
pub fn read(tree: &Tree, facts: &mut Facts) {
    let Some(online) = online(tree) else { return };
    let path = |cpu: u32, name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}");
    let governors: BTreeSet<String> =
        online.iter().filter_map(|cpu| tree.text(&path(cpu, "scaling_governor"))).collect();
    facts.frequency_governor =
        (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(","));
    // In kHz.
    let highest = online.iter().filter_map(|cpu| tree.number(&path(cpu, "cpuinfo_max_freq"))).max();
    facts.frequency_max_hz = highest.map(|khz| khz * 1000);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::tree;

    fn facts(governors: [&str; 2]) -> Facts {
        let (_folder, tree) = tree(&[
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governors[0]),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", governors[1]),
            ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3690000\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "3800000\n"),
        ]);
        let mut facts = Facts::default();
        read(&tree, &mut facts);
        facts
    }

    #[test]
    fn the_governor_is_told_and_where_cpus_differ_all_of_them() {
        let facts = |governors| facts(governors);
        assert_eq!(facts(["performance\n"; 2]).frequency_governor.as_deref(), Some("performance"));
        let mixed = facts(["powersave\n", "performance\n"]);
        assert_eq!(mixed.frequency_governor.as_deref(), Some("performance,powersave"));
        assert_eq!(mixed.frequency_max_hz, Some(3_800_000_000));
    }
}
