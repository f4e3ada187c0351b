//! `bench`: from a pinned release to a record, in one command.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use model::message::{Caveat, CaveatKind};
use model::record::{Header, Line, Outcome, RecordedError, SCHEMA_VERSION};
use model::request::Backend;
use xshell::{Shell, cmd};

use super::common::What;
use crate::failure::{Failure, Kind, kind_of};
use crate::home::repository;
use crate::machines::qemu_user::QemuUser;
use crate::machines::{self, Machine};
use crate::pipeline::{From, Pipeline};
use crate::stages::bench_binary::{self, BenchBinary};
use crate::stages::bundle::BENCH;
use crate::stages::deployment::{self, Deployment};
use crate::stages::record::{self, Writer};
use crate::stages::run::{self, Workload};
use crate::stages::server::{self, Server};
use crate::stages::toolchain::Toolchain;
use crate::tables::suite::{Planned, Suite};
use crate::{interrupt, process, report, ui};

/// Build, deploy and bench a product on a target; ends with a table and a record.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Where the programs come from; several by commas are benched one after the other, in one table.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "source")]
    from: Vec<From>,
    /// The machine: qemu-user.
    #[arg(long, default_value = "qemu-user")]
    on: String,
    /// The suite; see bench-suite/suites.
    #[arg(long, short, default_value = "smoke")]
    suite: String,
    /// Only these workloads of the suite: point-select, do0.
    #[arg(long, short, value_delimiter = ',')]
    workload: Vec<String>,
    /// Connections, instead of what the suite says.
    #[arg(long, short, value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Seconds of each timed part, instead of what the suite says.
    #[arg(long, value_parser = positive)]
    duration_s: Option<f64>,
    /// Where the load generator runs.
    #[arg(long, value_enum, default_value = "target")]
    client: Client,
    /// Use TCP on 127.0.0.1 instead of a UNIX socket.
    #[arg(long)]
    tcp: bool,
    /// The server's TCP port; left out: a free one.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// A further argument of the server, e.g. --server-arg=--innodb-buffer-pool-size=1073741824; read back after start.
    #[arg(long = "server-arg", value_name = "ARGUMENT")]
    server_arguments: Vec<String>,
    /// Bench the harness itself: no server, every operation completes at once.
    #[arg(long, conflicts_with_all = ["tcp", "port", "server_arguments"])]
    null: bool,
    /// Folder for records; left out: `records` in the checkout.
    #[arg(long)]
    records: Option<PathBuf>,
    /// Print the record's lines instead of the table.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask bench --target ppc64le                       the main job, everything included
  cargo xtask bench --target ppc64le --from distro         the distribution's build: nothing to compile
  cargo xtask bench --from source,distro                   both, in one table
  cargo xtask bench --workload do0 --connections 16 --duration-s 10 --client host
  cargo xtask bench --null --client host                   what the harness itself can do";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    /// On the target's machine, cross-compiled.
    Target,
    /// On this host.
    Host,
}

impl Client {
    fn name(self) -> &'static str {
        if self == Client::Host { "host" } else { "target" }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("must be a number of seconds above 0, at most 1000000".into()),
    }
}

/// Benches every build that was asked for, and prints one table.
pub fn run(args: Args) -> Result<()> {
    machines::check_name(&args.on)?;
    let plan = plan(&args)?;
    let pipeline = args.what.pipeline()?;
    let bench = Bench { args: &args, plan, pipeline };
    let mut records = Vec::new();
    let result = bench.all(&mut records);
    let lines = records.iter().map(|path| record::read(path)).collect::<Result<Vec<_>>>()?;
    if args.json {
        lines
            .iter()
            .flatten()
            .try_for_each(|line| serde_json::to_string(line).map(|text| ui::print(&text)))?;
    } else if !lines.is_empty() {
        report::print(&lines);
        let caveats: Vec<String> = lines.iter().flat_map(|record| report::caveats(record)).collect();
        let mut said: Vec<&String> = Vec::new();
        for caveat in &caveats {
            if !said.contains(&caveat) {
                ui::step("caveat", caveat);
                said.push(caveat);
            }
        }
    }
    records.iter().for_each(|path| ui::step("record", &path.display().to_string()));
    result
}

fn plan(args: &Args) -> Result<Vec<Planned>> {
    let mut plan = Suite::load(&args.suite)?.plan(&args.workload)?;
    for planned in &mut plan {
        planned.load.connections = args.connections.unwrap_or(planned.load.connections);
        planned.load.duration_s = args.duration_s.unwrap_or(planned.load.duration_s);
    }
    // The same load twice would be the same row twice.
    plan.dedup();
    Ok(plan)
}

struct Bench<'a> {
    args: &'a Args,
    plan: Vec<Planned>,
    pipeline: Pipeline,
}

impl Bench<'_> {
    /// Everything is built before anything is timed. The records' paths go to `records` even where one fails.
    fn all(&self, records: &mut Vec<PathBuf>) -> Result<()> {
        let home = &self.pipeline.home;
        let host = match self.args.client {
            Client::Host => Some(bench_binary::for_host(home)?),
            Client::Target => None,
        };
        if let (true, Some(host)) = (self.args.null, &host) {
            return self.one(&Setting { place: Place::Host(host), machine: None, deployment: None }, records);
        }
        let toolchain = self.pipeline.toolchain(if self.args.null { &[] } else { &self.args.from })?;
        let machine = QemuUser::new(&toolchain);
        if self.args.null {
            // Without a server there is nothing to deploy: the toolchain's own libraries will do.
            let place = Place::Toolchain(&toolchain, &bench_binary::for_target(home, &toolchain)?);
            return self.one(&Setting { place, machine: Some(&machine), deployment: None }, records);
        }
        let mut deployments = Vec::new();
        for (index, from) in self.args.from.iter().enumerate() {
            if !self.args.from[..index].contains(from) {
                deployments.push(deployment::make(home, &self.pipeline.bundle(&toolchain, *from)?)?);
            }
        }
        for deployment in &deployments {
            let place = host.as_ref().map_or(Place::Target(&machine, deployment), Place::Host);
            let setting = Setting { place, machine: Some(&machine), deployment: Some(deployment) };
            self.one(&setting, records)?;
        }
        Ok(())
    }

    /// One record.
    fn one(&self, setting: &Setting, records: &mut Vec<PathBuf>) -> Result<()> {
        let folder = self.args.records.clone().unwrap_or_else(|| repository().join("records"));
        let mut record = Writer::create(&folder, self.header(setting))?;
        records.push(record.path().to_path_buf());
        let result = self.workloads(setting, &mut record);
        let (outcome, error) = match &result {
            Ok(()) => (Outcome::Complete, None),
            Err(error) => recorded(error),
        };
        if outcome == Outcome::Interrupted {
            let detail = "ended by the user before its time".into();
            record.append(&Line::Caveat(Caveat { kind: CaveatKind::Interrupted, detail }))?;
        }
        record.end(outcome, error)?;
        result
    }

    fn header(&self, setting: &Setting) -> Header {
        let pipeline = &self.pipeline;
        let bundle = setting.deployment.map(|deployment| deployment.manifest().facts.clone());
        let machine = setting.machine.map_or("local", |machine| machine.name()).to_string();
        let what =
            bundle.as_ref().map_or("null".into(), |b| format!("{}-{}-{}", b.product, b.release, b.origin));
        Header {
            schema_version: SCHEMA_VERSION,
            id: record::new_id(&[&pipeline.target.name, &what, &machine]),
            started_at: record::now(),
            portbench_version: env!("CARGO_PKG_VERSION").into(),
            portbench_commit: commit(),
            bench_binary_sha256: setting.place.sha256(),
            command: std::env::args().skip(1).collect(),
            target: pipeline.target.name.clone(),
            suite: self.args.suite.clone(),
            bundle,
            machine: machines::facts(&machine, setting.machine.and_then(|machine| machine.emulator())),
        }
    }

    fn workloads(&self, setting: &Setting, record: &mut Writer) -> Result<()> {
        let mut server = match (setting.machine, setting.deployment) {
            (Some(machine), Some(deployment)) => Some(self.server(machine, deployment, record)?),
            _ => None,
        };
        let caveats = setting.machine.map(|machine| machine.caveats()).unwrap_or_default();
        for caveat in caveats.into_iter().filter(|c| server.is_some() || c.kind == CaveatKind::Emulated) {
            record.append(&Line::Caveat(caveat))?;
        }
        if matches!(setting.place, Place::Host(_)) && setting.machine.is_some() {
            let detail = "the load generator ran on the host, natively, not on the target".into();
            record.append(&Line::Caveat(Caveat { kind: CaveatKind::ClientOnHost, detail }))?;
        }
        // Loading and checking the data is the server's work as well: its machine sets the pace.
        let slowdown = setting.machine.map_or(1.0, |machine| machine.slowdown());
        let log = self.pipeline.home.log(&format!("client-{}", file_stem(record)))?;
        for (index, planned) in self.plan.iter().enumerate() {
            interrupt::check()?;
            let backend = server.as_ref().map_or(Backend::Null, |server| Backend::Server {
                endpoint: server.endpoint(self.args.tcp),
                account: server.account().clone(),
                server_pid: Some(server.pid()),
            });
            let client = self.args.client.name();
            let workload = Workload { index: index as u32, planned, backend, client, slowdown, log: &log };
            run::run(&workload, setting.place.command(), server.as_mut(), record)?;
            interrupt::check()?;
        }
        server.map_or(Ok(()), Server::stop)
    }

    fn server(&self, machine: &dyn Machine, deployment: &Deployment, record: &mut Writer) -> Result<Server> {
        let plan = server::Plan {
            machine,
            deployment,
            product: &self.pipeline.product,
            more_arguments: &self.args.server_arguments,
            port: self.args.port,
        };
        let server = server::start(&self.pipeline.home, &plan, &file_stem(record))?;
        record.append(&Line::Server(server.facts().clone()))?;
        let facts = server.facts();
        for warning in &facts.warnings {
            let detail = warning.clone();
            record.append(&Line::Caveat(Caveat { kind: CaveatKind::ServerWarning, detail }))?;
        }
        if facts.version.contains("debug") {
            let detail = format!("the server says that it is {}", facts.version);
            record.append(&Line::Caveat(Caveat { kind: CaveatKind::DebugBuild, detail }))?;
        }
        Ok(server)
    }
}

/// What one record is made on.
struct Setting<'a> {
    place: Place<'a>,
    /// The machine of server or client; `None`: the null back-end on this host.
    machine: Option<&'a dyn Machine>,
    /// What the server is started from; `None`: the null back-end.
    deployment: Option<&'a Deployment>,
}

/// Where the load generator runs.
enum Place<'a> {
    Target(&'a dyn Machine, &'a Deployment),
    Toolchain(&'a Toolchain, &'a BenchBinary),
    Host(&'a BenchBinary),
}

impl Place<'_> {
    fn command(&self) -> Command {
        match self {
            Place::Target(machine, deployment) => machine.command(deployment, &deployment.bench()),
            Place::Toolchain(toolchain, binary) => toolchain.run(binary.path()),
            Place::Host(binary) => Command::new(binary.path()),
        }
    }

    fn sha256(&self) -> String {
        match self {
            Place::Target(_, deployment) => {
                deployment.manifest().files.get(BENCH).cloned().unwrap_or_default()
            }
            Place::Toolchain(_, binary) | Place::Host(binary) => binary.sha256().to_string(),
        }
    }
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

fn recorded(error: &anyhow::Error) -> (Outcome, Option<RecordedError>) {
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
