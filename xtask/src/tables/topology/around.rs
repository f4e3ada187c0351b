//! What cannot work where a topology is to run, by line.

use std::collections::BTreeMap;
use std::ops::Range;

use model::facts::Facts;

use super::check::Problem;
use super::size::shown;
use super::{Node, Topology};
use crate::machines::name::Name;
use crate::tables::target::ByteOrder;

/// `SharedGlobalMemory`, `DiskPageBufferMemory` and `RedoBuffer` where a file leaves them out, in bytes.
const DEFAULTS: [u64; 3] = [128 << 20, 64 << 20, 32 << 20];
/// `DataMemory` where a file leaves it out, in bytes.
const DATA_MEMORY: u64 = 98 << 20;
/// Parts of the redo log, each with a buffer.
const LOG_PARTS: u64 = 4;

/// What is known of where a topology is to run.
#[derive(Default)]
pub struct Around {
    /// The machine of nodes that name none.
    pub on: Option<Name>,
    /// Byte order of each machine's programs, with the name of its target.
    pub byte_orders: BTreeMap<String, (ByteOrder, String)>,
    /// Facts of those machines that could be asked.
    pub facts: BTreeMap<String, Facts>,
}

impl Around {
    /// The name of a node's machine.
    pub fn machine(&self, node: &Node) -> String {
        let default = || self.on.as_ref().map(Name::to_string).unwrap_or_default();
        node.machine().map_or_else(default, String::from)
    }

    /// The host whose memory and ports a node takes: that of emulated programs is this one.
    fn host(&self, node: &Node) -> String {
        let machine = self.machine(node);
        let here = machine.parse().is_ok_and(|name: Name| name.is_this_host());
        if here { "this host".into() } else { machine }
    }
}

/// What is wrong with the file where it is to run.
pub fn problems(topology: &Topology, around: &Around) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |at: Range<usize>, what: String| found.push(Problem { at, what });
    byte_orders(topology, around, &mut say);
    reach(topology, around, &mut say);
    arbitrator(topology, around, &mut say);
    ports(topology, around, &mut say);
    for (_, node) in topology.nodes() {
        let machine = around.machine(node);
        if let Some(facts) = around.facts.get(&machine) {
            place(node, &machine, facts, &mut say);
        }
    }
    memory(topology, around, &mut say);
    found
}

/// Where a node says its machine, or the node itself.
fn machine_span(node: &Node) -> Range<usize> {
    node.machine.as_ref().map_or_else(|| node.id.span(), |machine| machine.span())
}

fn byte_orders(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    let mut first: Option<(&(ByteOrder, String), u32)> = None;
    for (_, node) in topology.nodes() {
        let machine = around.machine(node);
        let Some(found) = around.byte_orders.get(&machine) else { continue };
        match first {
            None => first = Some((found, node.id())),
            Some((known, id)) if known.0 != found.0 => say(
                machine_span(node),
                format!(
                    "mixed byte order: node {} on {machine} is {} ({}), node {id} is {} ({}); NDB's nodes must be alike",
                    node.id(),
                    found.0.name(),
                    found.1,
                    known.0.name(),
                    known.1
                ),
            ),
            Some((known, id)) if known.1 != found.1 => say(
                machine_span(node),
                format!(
                    "node {} on {machine} is {}, node {id} is {}: all nodes run one target's build",
                    node.id(),
                    found.1,
                    known.1
                ),
            ),
            Some(_) => {}
        }
    }
}

/// Nodes on this host listen on loopback, and those of a guest on its own: others do not reach them.
fn reach(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    let Some((_, first)) = topology.nodes().next() else { return };
    for (_, node) in topology.nodes() {
        let apart = around.host(node) != around.host(first);
        let by_ssh = |node: &Node| matches!(around.machine(node).parse(), Ok(Name::Ssh(_)));
        if apart && !(by_ssh(node) && by_ssh(first)) {
            let what = format!(
                "node {} on {} and node {} on {} do not reach each other: nodes of several hosts are all on ssh: machines",
                node.id(),
                around.machine(node),
                first.id(),
                around.machine(first)
            );
            say(machine_span(node), what);
        }
    }
}

/// With two replicas, half of the data nodes asks the arbitrator whether it may go on: its host must not die with them.
fn arbitrator(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    if *topology.replicas.get_ref() < 2 || topology.arbitrator_on_data_host {
        return;
    }
    // The first is the arbitrator; the others are for when it is gone.
    for node in topology.management.iter().take(1).map(|node| node.get_ref()) {
        let host = around.host(node);
        let data = topology.data.iter().find(|data| around.host(data.get_ref()) == host);
        if let Some(data) = data {
            let what = format!(
                "the arbitrator (node {}) is on {host}, as data node {}: if the host dies, the other replica stops as \
                 well; move it, or say `arbitrator-on-data-host = true`",
                node.id(),
                data.get_ref().id()
            );
            say(machine_span(node), what);
        }
    }
}

fn ports(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    let mut seen: BTreeMap<(String, u16), u32> = BTreeMap::new();
    for (_, node) in topology.nodes() {
        let Some(port) = &node.port else { continue };
        let host = around.host(node);
        if let Some(other) = seen.insert((host.clone(), *port.get_ref()), node.id()) {
            say(
                port.span(),
                format!("port {} is given twice on {host}: node {other} has it", port.get_ref()),
            );
        }
    }
}

fn place(node: &Node, machine: &str, facts: &Facts, say: &mut impl FnMut(Range<usize>, String)) {
    let allowed = facts.allowed_cpus.as_ref().or(facts.cpus_online.as_ref());
    if let (Some(cpus), Some(allowed)) = (&node.cpus, allowed) {
        let missing = cpus.get_ref().without(allowed);
        if !missing.is_empty() {
            say(
                cpus.span(),
                format!("{machine} has no CPU {missing}, or does not allow it; it allows {allowed}"),
            );
        }
    }
    let nodes = facts.numa_nodes.as_deref().unwrap_or_default();
    if let Some(wanted) = &node.numa_node
        && !nodes.iter().any(|known| known.node == *wanted.get_ref())
    {
        let known: Vec<String> = nodes.iter().map(|known| known.node.to_string()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        say(wanted.span(), format!("{machine} has no NUMA node {}; it has {known}", wanted.get_ref()));
    }
}

/// What the data nodes of each host need together, at least.
fn memory(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    let each = topology.memory_bytes();
    let at = topology.memory.data_memory.as_ref().map_or(0..0, |size| size.span());
    let mut by_host: BTreeMap<String, (String, Vec<u32>)> = BTreeMap::new();
    for node in topology.data.iter().map(|node| node.get_ref()) {
        let one = by_host.entry(around.host(node)).or_insert_with(|| (around.machine(node), Vec::new()));
        one.1.push(node.id());
    }
    for (host, (machine, nodes)) in by_host {
        let Some(there) = around.facts.get(&machine).and_then(|facts| facts.memory_bytes) else { continue };
        let needed = each.saturating_mul(nodes.len() as u64);
        if needed > there {
            let ids = nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ");
            say(
                at.clone(),
                format!(
                    "data nodes {ids} need {} on {host}, which has {}: {} each",
                    shown(needed),
                    shown(there),
                    shown(each)
                ),
            );
        }
    }
}

impl Topology {
    /// Memory that a data node takes at least, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let memory = &self.memory;
        let bytes = |size: &Option<toml::Spanned<super::Size>>, default: u64| {
            size.as_ref().map_or(default, |size| size.get_ref().bytes())
        };
        let [shared, pages, redo] = DEFAULTS;
        let all = [
            bytes(&memory.data_memory, DATA_MEMORY),
            bytes(&memory.shared_global_memory, shared),
            bytes(&memory.disk_page_buffer_memory, pages),
            bytes(&memory.redo_buffer, redo).saturating_mul(LOG_PARTS),
            bytes(&memory.transaction_memory, 0),
        ];
        all.into_iter().fold(0, u64::saturating_add)
    }
}
