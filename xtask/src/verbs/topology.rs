//! `topology`: what a cluster's file says, and whether it can work.

use anyhow::Result;
use clap::Subcommand;
use std::net::{IpAddr, Ipv4Addr};

use super::cluster;
use crate::machines::Choices;
use crate::machines::name::Name;
use crate::tables::target::Target;
use crate::tables::topology::{At, Role, Topology};
use crate::ui::{self, Table};

/// List the topologies of clusters, show one with its `config.ini`, or check a file.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Print as JSON.
    #[arg(long, global = true)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask topology                                       those that ship
  cargo xtask topology show numa                             nodes, start order, connect string, config.ini
  cargo xtask topology check my.toml --target ppc64 --on qemu-user
  cargo xtask serve --product ndb --target x86_64 --on local --topology my.toml

A topology is one file: copy one of xtask/topologies and name it by its path.";

/// A factor above it is a slip of the finger.
const MOST_SLOWDOWN: f64 = 10_000.0;

#[derive(Subcommand)]
enum What {
    /// Nodes, start order, connect strings and config.ini.
    Show {
        /// A name, or a file.
        name: String,
        /// How many times slower than hardware the machines are: limits grow with it.
        #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = slowdown)]
        slowdown: f64,
    },
    /// Refuse, by line, what cannot work where it is to run.
    Check(Check),
}

#[derive(clap::Args)]
struct Check {
    /// A name, or a file.
    name: String,
    /// The target of machines that run any; see `cargo xtask targets`. Left out: this host's own.
    #[arg(long, short)]
    target: Option<String>,
    /// The machine of nodes that name none.
    #[arg(long, value_name = "MACHINE", default_value = "local")]
    on: Name,
    #[command(flatten)]
    choices: Choices,
}

fn slowdown(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1.0..=MOST_SLOWDOWN).contains(factor));
    factor.ok_or_else(|| format!("`{text}` is no factor from 1 to {MOST_SLOWDOWN}"))
}

/// Lists, shows or checks.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        None => list(args.json),
        Some(What::Show { name, slowdown }) => show(&Topology::load(&name)?, slowdown, args.json),
        Some(What::Check(check)) => run_check(&check, args.json),
    }
}

fn list(json: bool) -> Result<()> {
    let all = Topology::names()?.iter().map(|name| Topology::load(name)).collect::<Result<Vec<_>>>()?;
    if json {
        ui::print(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let mut table = Table::new(&["topology", "replicas", "data nodes", "description"]);
    for one in &all {
        let [replicas, data] = [*one.replicas.get_ref(), one.data.len() as u32].map(|n| n.to_string());
        table.row([one.name.clone(), replicas, data, one.description.clone()]);
    }
    table.print();
    Ok(())
}

/// Where nodes would be: ports and folders are chosen at a start.
fn imagined(topology: &Topology) -> Vec<At> {
    let nodes = topology.nodes().map(|(_, node)| At {
        id: node.id(),
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: node.port.as_ref().map_or("FREE".into(), |port| port.get_ref().to_string()),
        folder: format!("DATA/node-{}", node.id()),
    });
    nodes.collect()
}

fn show(topology: &Topology, slowdown: f64, json: bool) -> Result<()> {
    let at = imagined(topology);
    let (ini, connect) = (topology.config_ini(&at, slowdown), topology.connect_string(&at));
    if json {
        let order: Vec<u32> = topology.nodes().map(|(_, node)| node.id()).collect();
        let sql = topology.sql.iter().map(|node| {
            (node.get_ref().id().to_string(), format!("nodeid={},{connect}", node.get_ref().id()))
        });
        let value = serde_json::json!({
            "topology": topology, "start_order": order, "connect_string": connect, "config_ini": ini,
            "sql_connect_strings": sql.collect::<std::collections::BTreeMap<_, _>>(),
        });
        ui::print(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    ui::print(&format!("{}: {}\n\nStart order:", topology.name, topology.description));
    let mut table = Table::new(&["node", "role", "machine", "CPUs", "NUMA", "connects with"]);
    for (role, node) in topology.nodes() {
        let own = format!("nodeid={},{connect}", node.id());
        let numa = node.numa_node.as_ref().map(|n| n.get_ref().to_string());
        let index = node.numa_index.as_ref().map(|n| format!("index {}", n.get_ref()));
        table.row([
            node.id().to_string(),
            role.name().to_string(),
            node.machine().unwrap_or("--on").to_string(),
            node.cpus.as_ref().map_or("any".into(), |cpus| cpus.get_ref().to_string()),
            numa.or(index).unwrap_or("any".into()),
            if role == Role::Management { String::new() } else { own },
        ]);
    }
    table.print();
    ui::print(&format!("\nPrograms connect with: {connect}\n\nconfig.ini:\n{ini}"));
    Ok(())
}

fn run_check(check: &Check, json: bool) -> Result<()> {
    let topology = Topology::load(&check.name)?;
    let target = match &check.target {
        Some(name) => Target::load(name)?,
        None => Target::of_this_host()?,
    };
    cluster::possible(&topology, &check.on, &target, &check.choices)?;
    let around = cluster::around(&topology, &check.on, &target, &check.choices)?;
    topology.check(&around)?;
    let needs = topology.memory_bytes();
    if json {
        let value = serde_json::json!({ "topology": topology.name, "data_node_memory_bytes": needs });
        ui::print(&value.to_string());
    } else {
        let nodes = topology.nodes().count();
        ui::print(&format!(
            "{}: {nodes} nodes can work; a data node needs {} MiB at least",
            topology.name,
            needs >> 20
        ));
    }
    Ok(())
}
