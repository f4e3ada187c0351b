//! An NDB Cluster of a topology: folders made, nodes started, all of them up, read back, watched, and stopped whatever
//! happens.

mod causes;
mod diagnose;
mod folders;
mod node;
mod read_back;
mod starter;

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use model::record::{ClusterFacts, ClusterNode};

use crate::failure::Failure;
use crate::home::Home;
use crate::machines::Link;
use crate::process::TICK;
use crate::stages::deployment::Deployed;
use crate::stages::run::Watched;
use crate::tables::product::Product;
use crate::tables::topology::{Role, Topology};
use crate::{process, relay, ui};

use folders::Folders;
use node::Node;
use starter::Starter;

/// How long the other nodes get to say what they know once one has ended.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// A machine that nodes run on.
pub struct Place<'a> {
    /// Its name, as `--on` has it.
    pub name: String,
    /// What runs programs there.
    pub link: &'a dyn Link,
    /// The bundle there.
    pub deployed: &'a Deployed,
}

/// What a cluster is started from.
pub struct Plan<'a> {
    /// The machines. The first is that of nodes that name none.
    pub machines: Vec<Place<'a>>,
    /// The nodes.
    pub topology: &'a Topology,
    /// The programs.
    pub product: &'a Product,
    /// A folder of the user's on each machine for its nodes' data, which stays; `None`: folders that go.
    pub data: Option<&'a Path>,
}

impl Plan<'_> {
    /// The machine of a node: an index.
    fn machine_of(&self, node: &crate::tables::topology::Node) -> Option<usize> {
        match node.machine() {
            None => Some(0),
            Some(name) => self.machines.iter().position(|machine| machine.name == name),
        }
    }
}

/// A running cluster. Dropped, it is gone.
pub struct Cluster {
    // The order matters: data nodes end before management nodes, folders outlive both.
    nodes: Vec<Node>,
    facts: ClusterFacts,
    stop: starter::Stop,
    errors: diagnose::ErrorLogs,
    _folders: Folders,
}

impl Cluster {
    /// What programs on the nodes' machines connect with.
    pub fn connect_string(&self) -> &str {
        &self.facts.connect_string
    }

    /// What it says of itself.
    pub fn facts(&self) -> &ClusterFacts {
        &self.facts
    }

    /// The process ids of the data nodes, where all nodes are on one machine: elsewhere a number means another process.
    pub fn data_node_pids(&self) -> Vec<u32> {
        let nodes = &self.facts.nodes;
        if nodes.iter().any(|node| node.machine != nodes[0].machine) {
            return Vec::new();
        }
        self.data().map(|node| node.pid).collect()
    }

    /// How many data nodes it has.
    pub fn data_nodes(&self) -> u32 {
        self.data().count() as u32
    }

    fn data(&self) -> impl Iterator<Item = &ClusterNode> {
        self.facts.nodes.iter().filter(|node| node.node_role == Role::Data.name())
    }

    /// Asks it to end in order, waits, and ends what does not. A node that crashes meanwhile is told.
    pub fn stop(mut self) -> Result<()> {
        match self.lost()? {
            Some(failure) => Err(failure.into()),
            None => self.stop.run(&mut self.nodes),
        }
    }
}

impl Watched for Cluster {
    fn lost(&mut self) -> Result<Option<Failure>> {
        let Some((index, status)) = ended(&mut self.nodes)? else { return Ok(None) };
        if let Some(failure) = relay::failure(status, &self.nodes[index].log) {
            return Ok(Some(failure));
        }
        last_words(&mut self.nodes)?;
        Ok(Some(diagnose::failure(&mut self.nodes, &mut self.errors, diagnose::When::Running)?))
    }

    fn silent(&mut self) -> Result<Option<Failure>> {
        diagnose::silent(&mut self.nodes)
    }
}

/// The first node that has ended, and how.
fn ended(nodes: &mut [Node]) -> Result<Option<(usize, ExitStatus)>> {
    for (index, node) in nodes.iter_mut().enumerate() {
        if let Some(status) = node.look()? {
            return Ok(Some((index, status)));
        }
    }
    Ok(None)
}

/// Lets the others say what they know of a node that has ended.
fn last_words(nodes: &mut [Node]) -> Result<()> {
    let until = Instant::now() + LAST_WORDS;
    while Instant::now() < until {
        let mut living = false;
        for node in nodes.iter_mut() {
            living |= node.look()?.is_none() && node.role == Role::Data;
        }
        if !living {
            break;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Starts a cluster; returns when all data nodes say that they have started, and run with what they were asked for.
pub fn start(home: &Home, plan: &Plan, log_name: &str) -> Result<Cluster> {
    let table = plan.product.cluster()?;
    let log = home.log(&format!("cluster-{log_name}"))?;
    std::fs::write(&log, "")?;
    let folders = Folders::make(plan, &log)?;
    let slowdown = plan.machines.iter().map(|machine| machine.link.slowdown()).fold(1.0, f64::max);
    let starter = Starter { home, table, plan, folders: &folders, log: &log, log_name, slowdown };
    let names: Vec<&str> = plan.machines.iter().map(|machine| machine.name.as_str()).collect();
    ui::step("cluster", &format!("starting {} on {}", plan.topology.name, names.join(", ")));
    let (nodes, facts, errors) = starter.run()?;
    let stop = starter.stop(&facts);
    Ok(Cluster { nodes, facts, stop, errors, _folders: folders })
}

/// The last lines of a log for a message.
fn tail(log: &Path, lines: usize) -> String {
    process::indented(&process::tail(log, lines))
}
