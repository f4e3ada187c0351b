//! One cell of a bench: deployed, started, verified, timed, recorded.

use std::path::PathBuf;

use anyhow::Result;
use model::facts::Facts;
use model::message::{Caveat, CaveatKind};
use model::record::{Header, Line, MachineUp, Outcome, PlacementFacts, RecordedError, SCHEMA_VERSION};
use model::request::Backend;
use xshell::{Shell, cmd};

use super::cells::Cell;
use super::client::{Generator, Up};
use super::{Args, Plan};
use crate::failure::{Failure, Kind, kind_of};
use crate::home::repository;
use crate::machines::{self, Link};
use crate::pipeline::Pipeline;
use crate::placement::{Allowed, Flags, Placement};
use crate::stages::bundle::{BENCH, Bundle};
use crate::stages::deployment::Deployed;
use crate::stages::record::{self, Writer};
use crate::stages::run::{self, Watched, Workload};
use crate::stages::server::{self, Server};
use crate::stages::toolchain::Toolchain;
use crate::{host, interrupt, process, ui};

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
        let execution =
            Execution { common: self, pipeline, plan, machine: cell.on.to_string(), bundle: Some(bundle) };
        execution.recorded(records, |record| {
            let machine = machines::open(&cell.on, &pipeline.home, toolchain, &self.args.choices)?;
            ui::step("deploy", &format!("{} on {}", bundle.manifest().label(), cell.on));
            let deployed = machine.deploy(bundle)?;
            let mut link = machine.connect(&deployed)?;
            let result = execution.on(&*link, &deployed, record);
            // A guest that died or a link that broke explains more than what it broke.
            if let Err(error) = &result
                && kind_of(error) != Some(Kind::Interrupted)
                && let Some(failure) = link.lost()?
            {
                return Err(failure.into());
            }
            result?;
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

struct Execution<'a> {
    common: &'a Common<'a>,
    pipeline: &'a Pipeline,
    plan: &'a Plan,
    machine: String,
    /// `None`: the null back-end on this host.
    bundle: Option<&'a Bundle>,
}

impl Execution<'_> {
    fn args(&self) -> &Args {
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

    fn header(&self) -> Header {
        let args = self.args();
        let manifest = self.bundle.map(Bundle::manifest);
        let bundle = manifest.filter(|_| !args.null).map(|manifest| manifest.facts.clone());
        let what =
            bundle.as_ref().map_or("null".into(), |b| format!("{}-{}-{}", b.product, b.release, b.origin));
        let target = &self.pipeline.target.name;
        let sha256 = match self.common.generator {
            Generator::Host(binary) => binary.sha256().to_string(),
            Generator::Target => manifest.and_then(|m| m.files.get(BENCH).cloned()).unwrap_or_default(),
            Generator::Away(away) => away.sha256(),
        };
        Header {
            schema_version: SCHEMA_VERSION,
            id: record::new_id(&[target, &what, &self.machine]),
            started_at: record::now(),
            portbench_version: env!("CARGO_PKG_VERSION").into(),
            portbench_commit: commit(),
            bench_binary_sha256: sha256,
            command: std::env::args().skip(1).collect(),
            target: target.clone(),
            suite: self.plan.suite.clone(),
            bundle,
            machine: host::facts(&self.machine),
            placement: PlacementFacts {
                server_cpus: args.start.server_cpus.clone(),
                client_cpus: args.client_cpus.clone(),
                numa_node: args.start.numa_node,
            },
        }
    }

    /// What happens once the machine is up.
    fn on(&self, link: &dyn Link, deployed: &Deployed, record: &mut Writer) -> Result<()> {
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
        let server = self.server(link, deployed, &placement, &client, record);
        // Only now is it known how the client reaches it; a server that did not start ran there all the same.
        self.caveats(link, &client, record)?;
        let mut server = server?;
        self.workloads(&client, Some((&mut server, link)), record)?;
        server.stop()
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

    fn client_placement(&self) -> Placement {
        Placement { cpus: self.args().client_cpus.clone(), numa_node: None }
    }

    fn workloads(
        &self,
        client: &Up,
        mut server: Option<(&mut Server, &dyn Link)>,
        record: &mut Writer,
    ) -> Result<()> {
        let args = self.args();
        // Loading and checking the data is the server's work as well: the slower machine sets the pace.
        let there = server.as_ref().map_or(1.0, |(_, link)| link.slowdown());
        let slowdown = client.slowdown().max(there);
        let log = self.pipeline.home.log(&format!("client-{}", file_stem(record)))?;
        let name = args.client.to_string();
        for (index, planned) in self.plan.workloads.iter().enumerate() {
            interrupt::check()?;
            let same_kernel = client.elsewhere().is_none();
            let backend = server.as_ref().map_or(Backend::Null, |(server, _)| Backend::Server {
                endpoint: server.endpoint(args.tcp || !same_kernel),
                account: server.account().clone(),
                server_pid: same_kernel.then(|| server.pid()),
            });
            let workload =
                Workload { index: index as u32, planned, backend, client: &name, slowdown, log: &log };
            let command = client.command(&self.client_placement());
            let mut watched: Vec<&mut dyn Watched> =
                server.iter_mut().map(|(server, _)| &mut **server as &mut dyn Watched).collect();
            run::run(&workload, command, &mut watched, record)?;
            interrupt::check()?;
        }
        Ok(())
    }

    fn server(
        &self,
        link: &dyn Link,
        deployed: &Deployed,
        placement: &Placement,
        client: &Up,
        record: &mut Writer,
    ) -> Result<Server> {
        let plan = server::Plan {
            machine: &self.machine,
            link,
            deployed,
            product: &self.pipeline.product,
            cluster: None,
            more_arguments: &self.args().start.server_arguments,
            port: self.args().start.port,
            placement,
            client: client.elsewhere(),
            data: self.args().start.data.as_deref(),
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

/// The commit of the checkout, with `-dirty` where it was changed since; `None` outside of git.
fn commit() -> Option<String> {
    let (sh, folder) = (Shell::new().ok()?, repository());
    let text =
        process::output(cmd!(sh, "git -C {folder} describe --always --dirty --abbrev=12 --match=")).ok()?;
    Some(text.trim().to_string())
}

fn file_stem(record: &Writer) -> String {
    record.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn recorded_error(error: &anyhow::Error) -> (Outcome, Option<RecordedError>) {
    let kind = kind_of(error);
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let recorded = RecordedError {
        kind: kind.map_or("bug".into(), Kind::name),
        detail: failure.map_or_else(|| format!("{error:#}"), |failure| failure.what.clone()),
        log: failure.and_then(|failure| failure.log.as_ref()).map(|log| log.display().to_string()),
    };
    let outcome = if kind == Some(Kind::Interrupted) { Outcome::Interrupted } else { Outcome::Failed };
    (outcome, Some(recorded))
}
