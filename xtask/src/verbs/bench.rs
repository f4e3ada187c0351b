//! `bench`: from nothing to records and one table: every target on every machine that was named.

mod against;
mod cells;
mod client;
mod compare;
mod execute;
mod header;
mod micro;
mod serving;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;

use super::common::What;
use super::stand::Start;
use crate::failure::{Failure, Kind, kind_of};
use crate::machines::name::Name;
use crate::machines::{self, Choices};
use crate::pipeline::{From, Pipeline};
use crate::stages::record;
use crate::tables::suite::{self, Planned, Suite};
use crate::tables::topology::Topology;
use crate::{report, ui};
use model::CpuList;

use crate::patches::selection::Selection;
use cells::{Cells, State};
use client::Generator;
use execute::Common;

/// Build (where needed), deploy, start, verify and bench; one record an execution.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    what: What,
    /// The machines that servers run on, separated by commas: local, qemu-user, qemu-system, ssh:NAME.
    #[arg(
        long,
        visible_alias = "server",
        value_name = "MACHINES",
        value_delimiter = ',',
        default_value = "qemu-user"
    )]
    on: Vec<Name>,
    #[command(flatten)]
    choices: Choices,
    /// The suite of workloads; left out: the product's own.
    #[arg(long)]
    suite: Option<String>,
    /// Where the programs come from; both: a record each, side by side.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "source")]
    from: Vec<From>,
    /// Only these workloads of the suite.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Connections, instead of the suite's; of flexasync: threads.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Operations a second over all connections, due whatever the server does. Left out: the suite's; as a rule each is
    /// due when the one before it has ended.
    #[arg(long, value_name = "PER_S", value_parser = suite::rate_of_text)]
    rate: Option<f64>,
    /// How the operations of --rate are spread.
    #[arg(long, value_enum, default_value = "fixed", requires = "rate")]
    arrival: suite::Spread,
    /// Length of each timed part in seconds, instead of the suite's.
    #[arg(long, value_parser = positive)]
    duration_s: Option<f64>,
    /// Where the load generator runs: `target` (on the server's machine), `host`, or ssh:NAME.
    #[arg(long, value_name = "WHERE", default_value = "target")]
    client: Client,
    #[command(flatten)]
    start: Start,
    /// CPUs that the load generator is bound to.
    #[arg(long, value_name = "LIST")]
    client_cpus: Option<CpuList>,
    /// Use TCP instead of a UNIX socket.
    #[arg(long)]
    tcp: bool,
    /// Bench the harness itself: no server, every operation completes at once.
    #[arg(long, conflicts_with_all = ["tcp", "port", "server_arguments", "data", "server_cpus", "numa_node"])]
    null: bool,
    /// The topology of a cluster: a name, or a file; see `cargo xtask topology`. Left out: `small`.
    #[arg(long, value_name = "NAME")]
    topology: Option<String>,
    /// The program that a workload is modelled on, run with the same parameters on the same servers, in turn with it.
    #[arg(long, value_enum, conflicts_with = "null")]
    compare: Option<Original>,
    /// Other patches to compare with those of --patches: both are built and benched in turn, as one comparison.
    #[arg(long, value_name = "PATCHES", allow_hyphen_values = true, conflicts_with_all = ["compare", "null", "data"])]
    against: Option<Selection>,
    /// How often each of the two is run, of --compare or --against; left out: 5 times.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Folder for records; left out: `records` in the checkout.
    #[arg(long)]
    records: Option<PathBuf>,
    /// Print the records' lines instead of the table.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  cargo xtask bench --target ppc64le                       the main job, everything included
  cargo xtask bench --target ppc64le --from distro         the distribution's build: nothing to compile
  cargo xtask bench --from source,distro                   both, in one table
  cargo xtask bench --target ppc64 --on qemu-system        a full big-endian guest
  cargo xtask bench --target ppc64le,ppc64,x86_64 --on local,qemu-user,qemu-system
                                                           a matrix: one record a cell, one table
  cargo xtask bench --target ppc64le --server ssh:a --client ssh:b
  cargo xtask bench --workload do0 --connections 16 --duration-s 10 --client host
  cargo xtask bench --workload point-select --rate 5000 --arrival poisson
                                                           as many users would: latency from when a query was due
  cargo xtask bench --product ndb --target x86_64 --on local --compare flexAsynch
                                                           flexasync beside NDB's own flexAsynch
  cargo xtask bench --product ndb --with sql --suite sql-engines
                                                           one query on InnoDB and on NDB tables
  cargo xtask bench --product mysql --target x86_64 --on local --patches all --against none
                                                           with and without the patches, in turn, as one comparison
  cargo xtask bench --null --client host                   what the harness itself can do";

/// What is benched besides servers.
#[derive(clap::Subcommand)]
enum Other {
    Micro(micro::Args),
}

/// A program that a workload is modelled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Original {
    /// NDB's own bench, beside flexasync.
    #[value(name = "flexAsynch")]
    FlexAsynch,
}

/// Where the load generator runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Client {
    /// On the server's machine.
    Target,
    /// On this host, compiled for it.
    Host,
    /// On a machine of its own.
    Ssh(Name),
}

impl FromStr for Client {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "target" => Ok(Client::Target),
            "host" => Ok(Client::Host),
            _ if text.starts_with("ssh:") => text.parse().map(Client::Ssh),
            _ => Err("must be `target`, `host` or `ssh:NAME`".into()),
        }
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Client::Target => f.write_str("target"),
            Client::Host => f.write_str("host"),
            Client::Ssh(name) => name.fmt(f),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("must be a number of seconds above 0, at most 1000000".into()),
    }
}

/// Benches every cell of the matrix that was asked for, and prints one table.
pub fn run(args: Args) -> Result<()> {
    if let Some(Other::Micro(args)) = &args.other {
        return micro::run(args);
    }
    refuse_shared_data(&args)?;
    against::refuse(&args)?;
    let mut cells = Cells::new(&args)?;
    let plans = cells.pipelines.iter().map(|pipeline| plan(&args, pipeline)).collect::<Result<Vec<_>>>()?;
    let mut records = Vec::new();
    let result = execute(&args, &plans, &mut cells, &mut records);
    show(&args, &cells, &records)?;
    result?;
    cells.verdict()
}

/// Everything is built before anything is timed.
fn execute(args: &Args, plans: &[Plan], cells: &mut Cells, records: &mut Vec<PathBuf>) -> Result<()> {
    let home = cells.pipelines[0].home.clone();
    let generator = Generator::prepare(args, &home)?;
    let common = Common { args, generator: &generator };
    if args.null && args.client == Client::Host {
        cells.all.clear();
        return common.null_on_host(&cells.pipelines[0], &plans[0], records);
    }
    cells.prepare(&args.choices)?;
    for index in 0..cells.all.len() {
        let cell = &cells.all[index];
        let State::Ready(parts) = &cell.state else { continue };
        let before = records.len();
        let result =
            common.cell(&cells.pipelines[cell.pipeline], &plans[cell.pipeline], cell, parts, records);
        cells.all[index].recorded = records.len() > before;
        match result {
            Ok(()) => cells.all[index].state = State::Done,
            Err(error) if kind_of(&error) == Some(Kind::Interrupted) => return Err(error),
            Err(error) => cells.failed(index, error),
        }
    }
    Ok(())
}

/// The table, or the lines, and the caveats behind them.
fn show(args: &Args, cells: &Cells, records: &[PathBuf]) -> Result<()> {
    let lines = records.iter().map(|path| record::read(path)).collect::<Result<Vec<_>>>()?;
    if args.json {
        lines
            .iter()
            .flatten()
            .try_for_each(|line| serde_json::to_string(line).map(|text| ui::print(&text)))?;
    } else {
        match &args.against {
            Some(_) => against::print(cells, &lines),
            None => report::print(&lines, &cells.without_record()),
        }
        let mut said: Vec<String> = Vec::new();
        for caveat in lines.iter().flat_map(|record| report::caveats(record)) {
            if !said.contains(&caveat) {
                ui::step("caveat", &caveat);
                said.push(caveat);
            }
        }
    }
    records.iter().for_each(|path| ui::step("record", &path.display().to_string()));
    Ok(())
}

impl Args {
    /// How often each of two is run.
    fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(5)
    }
}

/// What is run of a product.
struct Plan {
    /// The suite's name.
    suite: String,
    /// Its workloads, with what the flags say.
    workloads: Vec<Planned>,
}

fn plan(args: &Args, pipeline: &Pipeline) -> Result<Plan> {
    let suite = args.suite.clone().unwrap_or_else(|| pipeline.product.suite.clone());
    let mut workloads = Suite::load(&suite)?.plan(&args.workload)?;
    for planned in &mut workloads {
        planned.connect(args.connections)?;
        planned.arrive(args.arrival.arrival(args.rate))?;
        planned.load.duration_s = args.duration_s.unwrap_or(planned.load.duration_s);
    }
    if let Some(topology) = &args.topology {
        Topology::load(topology)?;
    }
    // The same load twice would be the same row twice.
    workloads.dedup();
    if pipeline.product.cluster.is_some()
        && workloads.iter().all(|planned| serving::is_of_ndb(&planned.workload))
    {
        args.start.of_cluster()?;
    }
    for planned in &mut workloads {
        serving::fits(args, &pipeline.product, &planned.workload)?;
        if args.compare.is_some() {
            compare::as_the_original_does(planned)?;
        }
    }
    Ok(Plan { suite, workloads })
}

/// One data folder is one server's.
fn refuse_shared_data(args: &Args) -> Result<()> {
    args.on.iter().filter(|_| args.start.data.is_some()).try_for_each(machines::keeps_data)?;
    let several = args.what.count() > 1 || args.on.len() > 1 || args.from.len() > 1;
    if args.start.data.is_some() && several {
        return Err(Failure::new(Kind::Usage, "--data is one folder, but several servers were asked for")
            .next("bench them one after the other, each with the same --data")
            .into());
    }
    Ok(())
}
