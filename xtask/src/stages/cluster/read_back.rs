//! What the nodes really run with, by their own words and their kernels': a difference from what was asked for fails
//! the start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use model::record::{ClusterFacts, ClusterNode};

use super::node::Node;
use super::starter::Starter;
use crate::failure::{Failure, Kind};
use crate::machines::Call;
use crate::placement::{self, Placement};
use crate::process;
use crate::tables::topology::{Role, Size};

/// What a data node's log says of a setting: its name, what stands before its value, and what behind it.
const SAID: [(&str, &str, &str); 8] = [
    ("DataMemory", "-- DataMemory set to ", ""),
    ("SharedGlobalMemory", "-- SharedGlobalMemory set to ", ""),
    ("ThreadConfig", "=> parsed: ", ""),
    ("TimeBetweenWatchDogCheck", "-- WatchDog timer is set to ", ""),
    ("RedoLogBuffer", "-- RedoLogBuffer uses ", ""),
    ("DiskPageBuffer", "-- DiskPageBuffer uses ", ""),
    ("generation", "Configuration fetched from ", "generation: "),
    ("workers", "-- NDBMT: workers=", ""),
];

/// Reads back every node.
pub fn read(
    starter: &Starter,
    nodes: &[Node],
    placements: &[(u32, Placement)],
    facts: &mut ClusterFacts,
) -> Result<()> {
    let mut wrong = Vec::new();
    for node in nodes {
        let found = one(starter, node, placements, facts, &mut wrong)?;
        facts.nodes.push(found);
    }
    let first = nodes.first().context("a cluster without nodes")?;
    let shown = starter.manage(first.machine, &facts.connect_string, "show")?;
    facts.version = version(&shown).unwrap_or_default();
    let (data, replicas) = (starter.plan.topology.data.len(), facts.replicas as usize);
    let groups = groups(&shown);
    if groups.len() * replicas != data {
        wrong.push(format!(
            "NoOfReplicas: asked for {replicas}, {data} data nodes are in {} node groups",
            groups.len()
        ));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the cluster does not run with what it was asked for:\n{}",
        process::indented(&wrong.join("\n"))
    );
    let next = format!("ask in {} for what it shows, or leave it out", starter.plan.topology.file.display());
    Err(Failure::new(Kind::VerificationFailed, what).log(&first.log).next(next).into())
}

fn one(
    starter: &Starter,
    node: &Node,
    placements: &[(u32, Placement)],
    facts: &ClusterFacts,
    wrong: &mut Vec<String>,
) -> Result<ClusterNode> {
    let at = starter.folders.of(node.id)?;
    let pid = starter.ask(node.machine, &Call::shell(r#"cat "$1/pid""#, std::slice::from_ref(&at.folder)))?;
    let pid: u32 = pid.trim().parse().with_context(|| format!("no process id: {}", pid.trim()))?;
    let status = starter.ask(node.machine, &Call::shell(r#"cat "/proc/$1/status""#, &[pid.to_string()]))?;
    let first = Call::shell(r#"head -n 1 "/proc/$1/numa_maps" 2>/dev/null || true"#, &[pid.to_string()]);
    let numa_maps = Some(starter.ask(node.machine, &first)?).filter(|text| !text.is_empty());
    let asked = placements.iter().find(|(id, _)| *id == node.id).map(|(_, placement)| placement.clone());
    let placed = asked.unwrap_or_default().differences(&status, numa_maps.as_deref());
    wrong.extend(placed.into_iter().map(|what| format!("{}: {what}", node.name())));
    let mut effective = BTreeMap::new();
    if node.role == Role::Data {
        effective = said(&node.log);
        let nodes = starter.plan.topology.data.iter().map(|known| known.get_ref());
        let table = nodes.into_iter().find(|known| known.id() == node.id).context("an unknown node")?;
        let asked = starter.plan.topology.asked(table, starter.slowdown);
        let configured = configured(starter, node, facts, &asked)?;
        let found = differences(&asked, &configured, &effective);
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", node.name())));
        // What the log says is what came of a setting: that goes before the setting itself.
        effective = configured.into_iter().chain(effective).collect();
    }
    Ok(ClusterNode {
        node_id: node.id,
        node_role: node.role.name().into(),
        machine: starter.plan.machines[node.machine].name.clone(),
        pid,
        listens: format!("{}:{}", at.host, at.port),
        effective,
        allowed_cpus: placement::allowed_cpus(&status),
        memory_policy: numa_maps.as_deref().and_then(placement::memory_policy),
        log: node.log.display().to_string(),
    })
}

/// What a data node's log says that it runs with.
fn said(log: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        for (name, before, further) in SAID {
            let value = line.split_once(before).map(|(_, rest)| rest);
            let value = value.and_then(|rest| match further {
                "" => Some(rest),
                further => rest.split_once(further).map(|(_, rest)| rest),
            });
            if let Some(value) = value {
                found.insert(name.to_string(), value.trim().to_string());
            }
        }
    }
    found
}

/// The settings of a data node by its own copy of the configuration, each of those that were asked for.
fn configured(
    starter: &Starter,
    node: &Node,
    facts: &ClusterFacts,
    asked: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>> {
    let names: Vec<&str> = asked.keys().map(String::as_str).collect();
    let call = Call::of(starter.plan.machines[node.machine].deployed, &starter.table.config).args([
        "--no-defaults".to_string(),
        format!("--ndb-connectstring={}", facts.connect_string),
        format!("--config_from_node={}", node.id),
        format!("--nodeid={}", node.id),
        "--fields=\t".into(),
        format!("--query={}", names.join(",")),
    ]);
    let said = starter.ask(node.machine, &call)?;
    let values: Vec<&str> = said.trim_end_matches('\n').split('\t').collect();
    if values.len() != names.len() {
        anyhow::bail!("{}: {} settings were asked for, it says {said:?}", node.name(), names.len());
    }
    Ok(names.into_iter().zip(values).map(|(name, value)| (name.to_string(), value.to_string())).collect())
}

/// Whether a value, as NDB's own tool says it, is the one that was written: numbers are said in full.
fn same(written: &str, said: &str) -> bool {
    let number = match written.to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" => Some(1),
        "false" | "no" | "n" => Some(0),
        _ => written.to_ascii_uppercase().parse::<Size>().ok().map(|size| size.bytes()),
    };
    written.eq_ignore_ascii_case(said) || number.is_some_and(|number| said.parse() == Ok(number))
}

/// Where what was asked for differs from what a node is configured with and from what its log says came of it.
fn differences(
    asked: &BTreeMap<String, String>,
    configured: &BTreeMap<String, String>,
    said: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, wanted) in asked {
        let found = configured.get(name).map_or("nothing", String::as_str);
        if !same(wanted, found) {
            wrong.push(format!("{name}: asked for {wanted}, runs with {found}"));
        }
    }
    let mut hold = |name: &str, wanted: &str, as_said: String| match said.get(name) {
        Some(found) if *found == as_said => {}
        Some(found) => wrong.push(format!("{name}: asked for {wanted}, its log says {found}")),
        None => wrong.push(format!("{name}: asked for {wanted}, the log does not say what it runs with")),
    };
    // A fresh configuration is the first one: a management node's copy of an older one has a higher number.
    hold("generation", "1", "1".into());
    for name in ["DataMemory", "SharedGlobalMemory"] {
        if let Some(wanted) = asked.get(name)
            && let Ok(size) = wanted.parse::<Size>()
        {
            hold(name, wanted, format!("{} MB", size.bytes() >> 20));
        }
    }
    if let Some(wanted) = asked.get("TimeBetweenWatchDogCheck") {
        hold("TimeBetweenWatchDogCheck", wanted, format!("{wanted} ms"));
    }
    wrong
}

/// The version, by the management client's `show`.
fn version(shown: &str) -> Option<String> {
    let line = shown.lines().find(|line| line.contains("Nodegroup:"))?;
    line.split_once('(')?.1.split(',').next().map(|text| text.trim().to_string())
}

/// The node groups, by the management client's `show`.
fn groups(shown: &str) -> BTreeSet<String> {
    let group = |line: &str| {
        let rest = line.split_once("Nodegroup: ")?.1;
        Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
    };
    shown.lines().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let alike = [
            ("200M", "209715200"),
            ("true", "1"),
            ("SPARSE", "sparse"),
            ("5000", "5000"),
            ("1g", "1073741824"),
        ];
        assert!(alike.iter().all(|(written, said)| same(written, said)));
        let unlike = [("200M", "200"), ("5000", "50000"), ("true", "0"), ("5000", ""), ("main,ldm", "main")];
        assert!(unlike.iter().all(|(written, said)| !same(written, said)));
    }

    #[test]
    fn a_difference_of_either_kind_is_told() {
        let asked = map(&[
            ("DataMemory", "200M"),
            ("HeartbeatIntervalDbDb", "5000"),
            ("MaxNoOfExecutionThreads", "4"),
        ]);
        let right = map(&[
            ("DataMemory", "209715200"),
            ("HeartbeatIntervalDbDb", "5000"),
            ("MaxNoOfExecutionThreads", "4"),
        ]);
        let said = map(&[("generation", "1"), ("DataMemory", "200 MB")]);
        assert!(differences(&asked, &right, &said).is_empty());
        let other = map(&[("DataMemory", "209715200"), ("MaxNoOfExecutionThreads", "2")]);
        let older = map(&[("generation", "3"), ("DataMemory", "80 MB")]);
        assert_eq!(
            differences(&asked, &other, &older),
            [
                "HeartbeatIntervalDbDb: asked for 5000, runs with nothing",
                "MaxNoOfExecutionThreads: asked for 4, runs with 2",
                "generation: asked for 1, its log says 3",
                "DataMemory: asked for 200M, its log says 80 MB",
            ]
        );
    }
}
