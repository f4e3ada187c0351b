//! One cell of a bench: deployed, started, verified, timed, recorded.

use std::path::PathBuf;

use anyhow::Result;
use model::facts::Facts;
use model::message::{Caveat, CaveatKind};
use model::record::{Line, MachineUp, Outcome};
use model::request::Backend;

use super::cells::{self, Cell};
use super::client::{Generator, Up};
use super::header::{file_stem, recorded_error};
use super::serving::{self, Serving};
use super::{Args, Plan};
use crate::home::repository;
use crate::machines::{self, Link};
use crate::pipeline::Pipeline;
use crate::placement::{Allowed, Flags, Placement};
use crate::stages::bundle::Bundle;
use crate::stages::cluster;
use crate::stages::deployment::Deployed;
use crate::stages::record::Writer;
use crate::stages::run;
use crate::stages::server::{self, Server};
use crate::stages::toolchain::Toolchain;
use crate::tables::suite::Planned;
use crate::tables::topology::Topology;
use crate::verbs::cluster::{self as cluster_of, Machines};
use crate::{interrupt, ui};

/// The flags that place a load generator.
const CLIENT_FLAGS: Flags = Flags { cpus: "--client-cpus", numa_node: "--numa-node" };

/// What every execution of a command shares.
pub struct Common<'a> {
    /// The flags.
    pub args: &'a Args,
    /// The load generator.
    pub generator: &'a Generator,
}

impl Common<'_> {
    /// Executes a cell. The record's path goes to `records` even where the execution fails.
    pub fn cell(
        &self,
        pipeline: &Pipeline,
        plan: &Plan,
        cell: &Cell,
        (toolchain, bundle): &(Toolchain, Bundle),
        records: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let is_cluster = pipeline.product.cluster.is_some() && !self.args.null;
        let topology = if is_cluster { Some(Topology::of(self.args.topology.as_deref())?) } else { None };
        // Where the first node is, which need not be where `--on` says.
        let machines = cells::machines_of(topology.as_ref(), pipeline, &cell.on)?;
        let machine = machines.first().unwrap_or(&cell.on).to_string();
        let execution = Execution { common: self, pipeline, plan, machine, bundle: Some(bundle) };
        if is_cluster {
            return execution
                .recorded(records, |record| execution.on_cluster(cell, (toolchain, bundle), record));
        }
        execution.recorded(records, |record| {
            let machine = machines::open(&cell.on, &pipeline.home, toolchain, &self.args.choices)?;
            ui::step("deploy", &format!("{} on {}", bundle.manifest().label(), cell.on));
            let deployed = machine.deploy(bundle)?;
            let mut link = machine.connect(&deployed)?;
            let result = execution.on(&*link, &deployed, None, record);
            machines::explained(result, || link.lost())?;
            link.stop()
        })
    }

    /// The null back-end on this host: neither machine nor bundle.
    pub fn null_on_host(&self, pipeline: &Pipeline, plan: &Plan, records: &mut Vec<PathBuf>) -> Result<()> {
        let Generator::Host(binary) = self.generator else {
            anyhow::bail!("no load generator for this host")
        };
        let execution = Execution { common: self, pipeline, plan, machine: "local".into(), bundle: None };
        execution.recorded(records, |record| execution.workloads(&Up::Host(binary, true), None, record))
    }
}

/// One execution, which is one record.
pub(super) struct Execution<'a> {
    pub(super) common: &'a Common<'a>,
    pub(super) pipeline: &'a Pipeline,
    pub(super) plan: &'a Plan,
    pub(super) machine: String,
    /// `None`: the null back-end on this host.
    pub(super) bundle: Option<&'a Bundle>,
}

impl Execution<'_> {
    pub(super) fn args(&self) -> &Args {
        self.common.args
    }

    /// One record: its header, what `execute` writes, its end.
    fn recorded(
        &self,
        records: &mut Vec<PathBuf>,
        execute: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<()> {
        let folder = self.args().records.clone().unwrap_or_else(|| repository().join("records"));
        let mut record = Writer::create(&folder, self.header())?;
        records.push(record.path().to_path_buf());
        let result = execute(&mut record);
        let (outcome, error) = match &result {
            Ok(()) => (Outcome::Complete, None),
            Err(error) => recorded_error(error),
        };
        if outcome == Outcome::Interrupted {
            caveat(&mut record, CaveatKind::Interrupted, "ended by the user before its time")?;
        }
        record.end(outcome, error)?;
        result
    }

    /// The same where a cluster answers, whose nodes may be on several machines; the first has the SQL server as well.
    fn on_cluster(&self, cell: &Cell, parts: (&Toolchain, &Bundle), record: &mut Writer) -> Result<()> {
        let (args, on) = (self.args(), &cell.on);
        let topology = self.topology()?;
        topology.check(&cluster_of::around(&topology, on, &self.pipeline.target, &args.choices)?)?;
        let mut machines = Machines::up(self.pipeline, parts, &topology, on, &args.choices)?;
        let result = self.cluster_up(&machines, &topology, record);
        machines::explained(result, || machines.lost())?;
        machines.stop()
    }

    fn cluster_up(&self, machines: &Machines, topology: &Topology, record: &mut Writer) -> Result<()> {
        let product = &self.pipeline.product;
        let Some((_, deployed, link)) = machines.all().first() else {
            anyhow::bail!("a topology has a machine")
        };
        for (name, deployed, link) in machines.all().iter().skip(1) {
            self.machine_up(&**link, deployed, name, "server", record)?;
        }
        let plan = machines.plan(topology, product, self.args().start.data.as_deref());
        self.on(&**link, deployed, Some(&plan), record)
    }

    fn topology(&self) -> Result<Topology> {
        Topology::of(self.args().topology.as_deref())
    }

    /// What happens once the machine is up.
    fn on(
        &self,
        link: &dyn Link,
        deployed: &Deployed,
        cluster: Option<&cluster::Plan>,
        record: &mut Writer,
    ) -> Result<()> {
        let args = self.args();
        let facts = self.machine_up(link, deployed, &self.machine, "server", record)?;
        let placement = Placement { cpus: args.start.server_cpus.clone(), numa_node: args.start.numa_node };
        let placement = machines::place_server(&placement, link, &self.machine, &facts)?;
        let client = self.common.generator.up(args, link, deployed)?;
        let mut client_facts = facts;
        if let Up::Away(link, deployed, name) = &client {
            client_facts = self.machine_up(&**link, deployed, name, "client", record)?;
        }
        if !matches!(client, Up::Host(..)) {
            self.client_placement().on(
                &args.client.to_string(),
                CLIENT_FLAGS,
                &Allowed::of(&client_facts),
            )?;
        }
        if args.null {
            self.caveats(link, &client, record)?;
            return self.workloads(&client, None, record);
        }
        let mut serving = Serving { link, server: None, cluster: None };
        let started = self.serve(&mut serving, deployed, (&placement, &client), cluster, record);
        // Only now is it known how the client reaches it; a server that did not start ran there all the same.
        self.caveats(link, &client, record)?;
        started?;
        let worked = match args.compare {
            Some(_) => self.compared(&client, &mut serving, deployed, record),
            None => self.workloads(&client, Some(&mut serving), record),
        };
        // Data that is kept must be whole though somebody pressed Ctrl-C.
        if worked.is_ok() || interrupt::requested() {
            let stopped = serving.stop();
            return worked.and(stopped);
        }
        worked
    }

    /// Starts what the workloads need: the cluster first, then the server, which may be a node of it.
    fn serve(
        &self,
        serving: &mut Serving,
        deployed: &Deployed,
        (placement, client): (&Placement, &Up),
        cluster: Option<&cluster::Plan>,
        record: &mut Writer,
    ) -> Result<()> {
        if let Some(plan) = cluster {
            let cluster = cluster::start(&self.pipeline.home, plan, &file_stem(record))?;
            record.append(&Line::Cluster(Box::new(cluster.facts().clone())))?;
            serving.cluster = Some(cluster);
        }
        if self.plan.workloads.iter().any(|planned| !serving::is_of_ndb(&planned.workload)) {
            let joins = serving.cluster.as_ref().map(|cluster| cluster.connect_string().to_string());
            serving.server =
                Some(self.server((serving.link, deployed), placement, client, joins.as_deref(), record)?);
        }
        Ok(())
    }

    /// What a reader must know of the machines.
    fn caveats(&self, link: &dyn Link, client: &Up, record: &mut Writer) -> Result<()> {
        let null = self.args().null;
        for found in link.caveats().into_iter().filter(|c| !null || c.kind == CaveatKind::Emulated) {
            record.append(&Line::Caveat(found))?;
        }
        match client {
            Up::Host(..) if link.emulator().is_some() || !link.is_here() => {
                let detail = "the load generator ran on the host, natively, not on the target";
                caveat(record, CaveatKind::ClientOnHost, detail)
            }
            _ => Ok(()),
        }
    }

    /// Asks the machine what it is, and writes that down.
    fn machine_up(
        &self,
        link: &dyn Link,
        deployed: &Deployed,
        name: &str,
        role: &str,
        record: &mut Writer,
    ) -> Result<Facts> {
        let log = self.pipeline.home.log(&format!("client-{}", file_stem(record)))?;
        let facts = machines::facts(link, deployed, &log)?;
        record.append(&Line::Machine(Box::new(MachineUp {
            machine: name.to_string(),
            role: role.to_string(),
            emulator: link.emulator(),
            clock_ahead_s: link.clock_ahead_s(),
            facts: facts.clone(),
        })))?;
        Ok(facts)
    }

    pub(super) fn client_placement(&self) -> Placement {
        Placement { cpus: self.args().client_cpus.clone(), numa_node: None }
    }

    fn workloads(&self, client: &Up, mut serving: Option<&mut Serving>, record: &mut Writer) -> Result<()> {
        for (index, planned) in self.plan.workloads.iter().enumerate() {
            self.workload(index as u32, planned, client, serving.as_deref_mut(), record)?;
        }
        Ok(())
    }

    /// One workload, once.
    pub(super) fn workload(
        &self,
        index: u32,
        planned: &Planned,
        client: &Up,
        serving: Option<&mut Serving>,
        record: &mut Writer,
    ) -> Result<()> {
        interrupt::check()?;
        let args = self.args();
        // Loading and checking the data is the server's work as well: the slower machine sets the pace.
        let there = serving.as_ref().map_or(1.0, |serving| serving.link.slowdown());
        let log = self.pipeline.home.log(&format!("client-{}", file_stem(record)))?;
        let same_kernel = client.elsewhere().is_none();
        let backend = match &serving {
            None => Backend::Null,
            Some(serving) => serving.backend(&planned.workload, args.tcp, same_kernel)?,
        };
        let workload = run::Workload {
            index,
            planned,
            backend,
            client: &args.client.to_string(),
            slowdown: client.slowdown().max(there),
            log: &log,
        };
        let command = client.command(&self.client_placement());
        let mut watched = serving.map(Serving::watched).unwrap_or_default();
        run::run(&workload, command, &mut watched, record)?;
        interrupt::check()
    }

    fn server(
        &self,
        (link, deployed): (&dyn Link, &Deployed),
        placement: &Placement,
        client: &Up,
        cluster: Option<&str>,
        record: &mut Writer,
    ) -> Result<Server> {
        let data = self.args().start.data_of(cluster);
        let plan = server::Plan {
            machine: &self.machine,
            link,
            deployed,
            product: &self.pipeline.product,
            cluster,
            more_arguments: &self.args().start.server_arguments,
            port: self.args().start.port,
            placement,
            client: client.elsewhere(),
            data: data.as_deref(),
        };
        let server = server::start(&self.pipeline.home, &plan, &file_stem(record))?;
        record.append(&Line::Server(server.facts().clone()))?;
        for warning in &server.facts().warnings {
            caveat(record, CaveatKind::ServerWarning, warning)?;
        }
        if let Some(why) = &server.facts().io_fallback {
            caveat(record, CaveatKind::FallbackIo, why)?;
        }
        let version = &server.facts().version;
        if version.contains("debug") {
            caveat(record, CaveatKind::DebugBuild, &format!("the server says that it is {version}"))?;
        }
        Ok(server)
    }
}

fn caveat(record: &mut Writer, kind: CaveatKind, detail: &str) -> Result<()> {
    record.append(&Line::Caveat(Caveat { kind, detail: detail.into() }))
}
