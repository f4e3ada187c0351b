//! What is wrong with a topology wherever it runs, by line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::Result;

use super::{Node, Role, Topology, values};
use crate::failure::{Failure, Kind};
use crate::machines::name::Name;

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
/// Something wrong: where in the text, nowhere for what is not there; and what.
pub struct Problem {
    pub at: Range<usize>,
    pub what: String,
}

/// Fails where there are problems, each with file, line and the line itself.
pub fn refuse(file: &Path, text: &str, mut problems: Vec<Problem>) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    problems.sort_by_key(|problem| problem.at.start);
    let told = problems.iter().map(|problem| {
        if problem.at.is_empty() {
            return format!("{}: {}", file.display(), problem.what);
        }
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
        _ if nodes == 0 => say(0..0, "no data node: at least one [[data]] is needed".into()),
        count @ 1..=4 if nodes.is_multiple_of(count) => {}
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
    values::problems(topology, &mut say);
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
    if let Some(cpus) = node.cpus.as_ref().filter(|cpus| cpus.get_ref().is_empty()) {
        say(cpus.span(), "no CPU: leave `cpus` out for any".into());
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
