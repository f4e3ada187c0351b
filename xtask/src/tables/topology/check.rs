//! What cannot work, by line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use model::facts::Facts;

use super::size::shown;
use super::{Node, Role, Topology};
use crate::failure::{Failure, Kind};
use crate::machines::name::Name;
use crate::tables::target::ByteOrder;

/// Data nodes have ids up to this one.
const LAST_DATA_ID: u32 = 144;
/// All others up to this one.
const LAST_ID: u32 = 255;
/// Keys that this program writes itself, of what other parts of the file say.
const OURS: [&str; 17] = [
    "NodeId",
    "Id",
    "HostName",
    "PortNumber",
    "ServerPort",
    "DataDir",
    "NoOfReplicas",
    "DataMemory",
    "SharedGlobalMemory",
    "TransactionMemory",
    "DiskPageBufferMemory",
    "RedoBuffer",
    "MaxNoOfExecutionThreads",
    "ThreadConfig",
    "NoOfFragmentLogFiles",
    "FragmentLogFileSize",
    "InitFragmentLogFiles",
];
/// `SharedGlobalMemory`, `DiskPageBufferMemory` and `RedoBuffer` where a file leaves them out, in bytes.
const DEFAULTS: [u64; 3] = [128 << 20, 64 << 20, 32 << 20];
/// `DataMemory` where a file leaves it out, in bytes.
const DATA_MEMORY: u64 = 98 << 20;
/// Parts of the redo log, each with a buffer.
const LOG_PARTS: u64 = 4;

/// Something wrong: where in the text, and what.
pub struct Problem {
    at: Range<usize>,
    what: String,
}

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
}

/// Fails where there are problems, each with file, line and the line itself.
pub fn refuse(file: &Path, text: &str, mut problems: Vec<Problem>) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort_by_key(|problem| problem.at.start);
    let told = problems.iter().map(|problem| {
        let line = text[..problem.at.start.min(text.len())].lines().count().max(1);
        let before = text[..problem.at.start.min(text.len())].ends_with('\n');
        let line = if before { line + 1 } else { line };
        let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
        format!("{}:{line}: {}\n  | {shown}", file.display(), problem.what)
    });
    let what = told.collect::<Vec<_>>().join("\n");
    Err(Failure::new(Kind::Usage, what).next("mend the lines shown above").into())
}

/// What is wrong with the file wherever it runs.
pub fn alone(topology: &Topology) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |at: Range<usize>, what: String| found.push(Problem { at, what });
    ids(topology, &mut say);
    let (replicas, nodes) = (&topology.replicas, topology.data.len() as u32);
    match *replicas.get_ref() {
        count @ 1..=4 if nodes.is_multiple_of(count) && nodes > 0 => {}
        count @ 1..=4 => say(
            replicas.span(),
            format!(
                "{nodes} data nodes cannot be {count} replicas: their number must be a multiple of {count}"
            ),
        ),
        count => say(replicas.span(), format!("{count} replicas: NDB has 1 to 4")),
    }
    if topology.management.is_empty() {
        say(0..0, "no management node: at least one [[management]] is needed".into());
    }
    let threads = &topology.threads;
    if let (Some(_), Some(config)) = (&threads.max_no_of_execution_threads, &threads.thread_config) {
        say(config.span(), "both `thread-config` and `max-no-of-execution-threads`: NDB takes one".into());
    }
    if let Some(config) = &threads.thread_config
        && let Some(why) = no_line_of_config_ini("ThreadConfig", &config.get_ref().as_str().into())
    {
        say(config.span(), why);
    }
    for (role, node) in topology.nodes() {
        machine_and_place(node, &mut say);
        if role == Role::Sql {
            slot(node, &mut say);
        }
    }
    let all = topology.nodes().map(|(_, node)| &node.config).chain([&topology.config]);
    for (name, value) in all.flatten() {
        if let Some(ours) = OURS.iter().find(|ours| ours.eq_ignore_ascii_case(name)) {
            say(value.span(), format!("`{ours}` is not for `config`: it follows from the rest of the file"));
        }
        if let Some(why) = no_line_of_config_ini(name, value.get_ref()) {
            say(value.span(), why);
        }
    }
    found
}

/// Why a parameter and its value are not one line of `config.ini`; more lines could say anything of any node.
fn no_line_of_config_ini(name: &str, value: &toml::Value) -> Option<String> {
    if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Some(format!("{name:?} is no parameter's name"));
    }
    match value {
        toml::Value::Array(_) | toml::Value::Table(_) => {
            Some(format!("`{name}` is one value: a number, true or false, or text"))
        }
        toml::Value::String(text) if text.chars().any(char::is_control) => {
            Some(format!("the value of `{name}` holds a line end or another control character"))
        }
        _ => None,
    }
}

fn machine_and_place(node: &Node, say: &mut impl FnMut(Range<usize>, String)) {
    if let Some(machine) = &node.machine
        && let Err(error) = machine.get_ref().parse::<Name>()
    {
        say(machine.span(), error);
    }
    if let (Some(_), Some(index)) = (&node.numa_node, &node.numa_index) {
        say(index.span(), "both `numa-node` and `numa-index`: give one".into());
    }
    if let Some(port) = node.port.as_ref().filter(|port| *port.get_ref() == 0) {
        say(port.span(), "port 0: leave `port` out for a free one".into());
    }
}

/// A slot is no process of ours: there is nothing to place.
fn slot(node: &Node, say: &mut impl FnMut(Range<usize>, String)) {
    let cpus = node.cpus.as_ref().map(toml::Spanned::span);
    let numa = node.numa_node.as_ref().or(node.numa_index.as_ref()).map(toml::Spanned::span);
    let port = node.port.as_ref().map(toml::Spanned::span);
    if let Some(at) = cpus.or(numa).or(port) {
        let what = "[[sql]] is the slot of a server that you start yourself: nothing is placed there; the server of \
                    --with sql is placed by --server-cpus, --numa-node and --port";
        say(at, what.into());
    }
}

fn ids(topology: &Topology, say: &mut impl FnMut(Range<usize>, String)) {
    let mut seen: BTreeMap<u32, Role> = BTreeMap::new();
    for (role, node) in topology.nodes() {
        let (id, at) = (node.id(), node.id.span());
        let last = if role == Role::Data { LAST_DATA_ID } else { LAST_ID };
        if !(1..=last).contains(&id) {
            say(at, format!("node id {id}: a {} node's id is 1 to {last}", role.name()));
        } else if let Some(other) = seen.insert(id, role) {
            say(at, format!("node id {id} is given twice: a {} node has it already", other.name()));
        }
    }
    let (first, slots) = (*topology.api.first_id.get_ref(), *topology.api.slots.get_ref());
    let at = topology.api.first_id.span();
    if slots == 0 {
        say(topology.api.slots.span(), "no slot: no program could connect".into());
    } else if first == 0 || first.saturating_add(slots - 1) > LAST_ID {
        say(at, format!("api slots {first} to {}: ids are 1 to {LAST_ID}", first.saturating_add(slots - 1)));
    } else if let Some((id, role)) = seen.iter().find(|(id, _)| topology.api_ids().contains(id)) {
        say(at, format!("node id {id} is given twice: a {} node has it already", role.name()));
    }
}

/// What is wrong with the file where it is to run.
pub fn around(topology: &Topology, around: &Around) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |at: Range<usize>, what: String| found.push(Problem { at, what });
    byte_orders(topology, around, &mut say);
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

/// With two replicas, half of the data nodes asks the arbitrator whether it may go on: its host must not die with them.
fn arbitrator(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    if *topology.replicas.get_ref() < 2 || topology.arbitrator_on_data_host {
        return;
    }
    // The first is the arbitrator; the others are for when it is gone.
    for node in topology.management.iter().take(1).map(|node| node.get_ref()) {
        let machine = around.machine(node);
        let data = topology.data.iter().find(|data| around.machine(data.get_ref()) == machine);
        if let Some(data) = data {
            let what = format!(
                "the arbitrator (node {}) is on {machine}, the host of data node {}: if it dies, the other replica \
                 stops as well; move it, or say `arbitrator-on-data-host = true`",
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
        let machine = around.machine(node);
        if let Some(other) = seen.insert((machine.clone(), *port.get_ref()), node.id()) {
            say(
                port.span(),
                format!("port {} is given twice on {machine}: node {other} has it", port.get_ref()),
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

/// What the data nodes of each machine need together, at least.
fn memory(topology: &Topology, around: &Around, say: &mut impl FnMut(Range<usize>, String)) {
    let each = topology.memory_bytes();
    let at = topology.memory.data_memory.as_ref().map_or(0..0, |size| size.span());
    let mut by_machine: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for node in topology.data.iter().map(|node| node.get_ref()) {
        by_machine.entry(around.machine(node)).or_default().push(node.id());
    }
    for (machine, nodes) in by_machine {
        let Some(there) = around.facts.get(&machine).and_then(|facts| facts.memory_bytes) else { continue };
        let needed = each.saturating_mul(nodes.len() as u64);
        if needed > there {
            let ids = nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ");
            say(
                at.clone(),
                format!(
                    "data nodes {ids} need {} on {machine}, which has {}: {} each",
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
