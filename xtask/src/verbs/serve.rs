//! `serve`: a server of a deployment, left up until Ctrl-C.

use std::time::Duration;

use anyhow::Result;
use model::request::Endpoint;

use super::cluster::Machines;
use super::stand::{Stand, Start};
use crate::failure::Failure;
use crate::machines::{self, Call, Link};
use crate::pipeline::Pipeline;
use crate::stages::cluster;
use crate::stages::deployment::Deployed;
use crate::stages::run::Watched;
use crate::stages::server::{self, Server};
use crate::tables::product::Product;
use crate::tables::topology::Topology;
use crate::{interrupt, process, ui};

/// Build (where needed), deploy, start a server and leave it up until Ctrl-C.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask serve --target x86_64 --on local --port 3307\n  cargo xtask serve --target ppc64 --on qemu-system --from source\n  cargo xtask serve --product ndb --target x86_64 --on local --topology numa\n  cargo xtask serve --product ndb --with sql --target x86_64 --on local\n\nThe password is made anew each time; it goes by the environment variable MYSQL_PWD."
)]
pub struct Args {
    #[command(flatten)]
    stand: Stand,
    #[command(flatten)]
    start: Start,
    /// Print how to connect as one line of JSON, password included; of a cluster its facts, then those of its SQL node.
    #[arg(long)]
    json: bool,
    /// The topology of a cluster: a name, or a file; see `cargo xtask topology`. Left out: `small`.
    #[arg(long, value_name = "NAME")]
    topology: Option<String>,
}

/// Starts it, says how to reach it, waits.
pub fn run(args: Args) -> Result<()> {
    let pipeline = args.stand.pipeline()?;
    if pipeline.product.cluster.is_some() {
        return serve_cluster(&args);
    }
    if args.topology.is_some() {
        pipeline.product.cluster()?;
    }
    let mut standing = args.stand.up()?;
    let started = args.stand.serve(standing.parts(), &args.start, None, "serve");
    let mut server = machines::explained(started, || standing.link.lost())?;
    let (pipeline, deployed, link) = standing.parts();
    announce(&args, &pipeline.product, (deployed, link), &server)?;
    let result = until_lost(args.json, || server.lost()).and_then(|()| server.stop());
    machines::explained(result, || standing.link.lost())?;
    standing.link.stop()
}

/// Says how a server is reached.
fn announce(
    args: &Args,
    product: &Product,
    (deployed, link): (&Deployed, &dyn Link),
    server: &Server,
) -> Result<()> {
    let (tcp, account) = (server.endpoint(true), server.account());
    let Endpoint::Tcp { address, port } = tcp else { anyhow::bail!("a TCP endpoint is none") };
    if args.json {
        let value = serde_json::json!({
            "machine": args.stand.on.to_string(), "host": address, "port": port, "socket": server.socket(),
            "user": account.user, "password": account.password, "version": server.facts().version,
            "data": server.data(), "log": server.log(), "pid": server.pid(),
        });
        ui::print(&value.to_string());
    } else {
        ui::step("ready", &format!("{} on {}", server.facts().version, args.stand.on));
        ui::print(&format!("export MYSQL_PWD={}", account.password));
        // The bundle's own client where its programs run here; else the one that this host has.
        let line = if link.is_here() {
            process::quoted(&link.line(&server::client(deployed, server)))
        } else {
            let client = product.server()?.client.rsplit('/').next().unwrap_or_default();
            format!("{client} --host={address} --port={port} --user={}", account.user)
        };
        ui::print(&line);
    }
    Ok(())
}

/// Waits for Ctrl-C; an error where what is served ends before.
fn until_lost(json: bool, mut lost: impl FnMut() -> Result<Option<Failure>>) -> Result<()> {
    if !json {
        ui::step("serve", "until Ctrl-C");
    }
    while !interrupt::requested() {
        std::thread::sleep(process::TICK);
        if let Some(failure) = lost()? {
            return Err(failure.into());
        }
    }
    Ok(())
}

/// A cluster instead of a server.
fn serve_cluster(args: &Args) -> Result<()> {
    let pipeline = args.stand.pipeline()?;
    if pipeline.product.server().is_err() {
        args.start.of_cluster()?;
    }
    let topology = Topology::of(args.topology.as_deref())?;
    let (on, choices) = (&args.stand.on, args.stand.choices());
    super::cluster::possible(&topology, on, &pipeline.target, choices)?;
    let around = super::cluster::around(&topology, on, &pipeline.target, choices)?;
    topology.check(&around)?;
    let names = super::cluster::names(&topology, on)?;
    if args.start.data.is_some() {
        names.iter().try_for_each(machines::keeps_data)?;
    }
    let (pipeline, toolchain, bundle) = args.stand.build(&names)?;
    let mut machines = Machines::up(&pipeline, (&toolchain, &bundle), &topology, on, choices)?;
    let result = until_ctrl_c(args, &pipeline, &machines, &topology);
    machines::explained(result, || machines.lost())?;
    machines.stop()
}

fn until_ctrl_c(args: &Args, pipeline: &Pipeline, machines: &Machines, topology: &Topology) -> Result<()> {
    let plan = machines.plan(topology, &pipeline.product, args.start.data.as_deref());
    let log_name = format!("serve-{}", std::process::id());
    let mut cluster = cluster::start(&pipeline.home, &plan, &log_name)?;
    let facts = cluster.facts();
    if args.json {
        ui::print(&serde_json::to_string(facts)?);
    } else {
        let nodes = ui::counted(u64::from(cluster.data_nodes()), "data node");
        let took = ui::duration(Duration::from_secs_f64(facts.started_s));
        ui::step("ready", &format!("{}, {nodes}, started in {took}", facts.version));
        ui::print(&format!("export NDB_CONNECTSTRING={}", cluster.connect_string()));
        for (name, deployed, link) in machines.all() {
            let client = Call::of(deployed, &pipeline.product.cluster()?.client);
            let line = process::quoted(&link.line(&client.args(["-e", "show"])));
            ui::print(&format!("{line}  # on {name}"));
        }
    }
    let mut server = match pipeline.product.server() {
        Ok(_) => Some(sql_node(args, pipeline, machines, cluster.connect_string())?),
        Err(_) => None,
    };
    until_lost(args.json, || match cluster.lost()? {
        None => server.as_mut().map_or(Ok(None), Server::lost),
        lost => Ok(lost),
    })?;
    server.map_or(Ok(()), Server::stop)?;
    cluster.stop()
}

/// An SQL node on the first machine.
fn sql_node(args: &Args, pipeline: &Pipeline, machines: &Machines, connect: &str) -> Result<Server> {
    let Some((_, deployed, link)) = machines.all().first() else { anyhow::bail!("a topology has a machine") };
    let server = args.stand.serve((pipeline, deployed, &**link), &args.start, Some(connect), "serve")?;
    announce(args, &pipeline.product, (deployed, &**link), &server)?;
    Ok(server)
}
