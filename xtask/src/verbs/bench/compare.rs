//! flexasync and NDB's own flexAsynch, in turn, with the same parameters on the same cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use model::record::{Compared, Line};
use model::request::{Coordinator, Flexasync, SendWhen, Workload};

use super::client::Up;
use super::execute::Execution;
use super::header::file_stem;
use super::serving::Serving;
use crate::failure::{Failure, Kind};
use crate::machines::{self, Call};
use crate::stages::deployment::Deployed;
use crate::stages::record::Writer;
use crate::tables::suite::Planned;
use crate::{interrupt, stages, ui};

/// The program in a bundle.
const PROGRAM: &str = "bin/flexAsynch";
/// Loops of each run, where the suite leaves it to the time.
const LOOPS: u32 = 3;

/// Makes a workload do just what the original can do as well: a number of loops, and no warm-up.
pub fn as_the_original_does(planned: &mut Planned) -> Result<()> {
    let Workload::Flexasync(flexasync) = &mut planned.workload else {
        let what = format!("--compare flexAsynch: {} is another workload", planned.workload.label());
        return Err(Failure::new(Kind::Usage, what).next("add --workload flexasync").into());
    };
    flexasync.loops.get_or_insert(LOOPS);
    planned.load.warmup_s = 0.0;
    if !matches!(flexasync.coordinator, Coordinator::Key | Coordinator::Any) || flexasync.tables != 1 {
        let what = "flexAsynch has one table and no -local where it does all phases";
        return Err(Failure::new(Kind::Usage, what)
            .next("choose a suite with `coordinator` key or any")
            .into());
    }
    Ok(())
}

impl Execution<'_> {
    /// Each workload and its original in turn, each first every other time.
    pub(super) fn compared(
        &self,
        client: &Up,
        serving: &mut Serving,
        deployed: &Deployed,
        record: &mut Writer,
    ) -> Result<()> {
        let log = self.pipeline.home.log(&format!("client-{}", file_stem(record)))?;
        let connect_string = serving.cluster.as_ref().map(|c| c.connect_string().to_string());
        let connect_string = connect_string.unwrap_or_default();
        let mut index = 0;
        for planned in &self.plan.workloads {
            let Workload::Flexasync(flexasync) = &planned.workload else { continue };
            let call = |short| Call {
                placement: self.client_placement(),
                ..original(deployed, &connect_string, flexasync, planned.load.connections, short)
            };
            let loops = flexasync.loops.unwrap_or(LOOPS);
            let longest = Duration::from_secs_f64(flexasync.longest_s(loops, planned.load.connections));
            let start = original_run(serving, &call(true), &log, longest)?;
            for turn in 0..self.args().repeat() {
                let ours_first = turn % 2 == 0;
                for ours in [ours_first, !ours_first] {
                    interrupt::check()?;
                    if ours {
                        self.workload(index, planned, client, Some(serving), record)?;
                        continue;
                    }
                    ui::step("bench", &format!("flexAsynch, {} of {}", turn + 1, self.args().repeat()));
                    let ran = original_run(serving, &call(false), &log, longest)?;
                    record.append(&Line::Compared { index, ran: without_start(ran, &start) })?;
                }
                index += 1;
            }
        }
        Ok(())
    }
}

/// Runs it; where a node went away meanwhile, that is why it failed.
fn original_run(serving: &mut Serving, call: &Call, log: &Path, longest: Duration) -> Result<Compared> {
    let ran = stages::original::run(serving.link, call, log, longest, &mut serving.watched());
    let mut watched = serving.watched();
    machines::explained(ran, || stages::run::first_lost(&mut watched))
}

/// What it cost without joining the cluster, making tables and leaving, which a run of next to nothing shows.
fn without_start(mut ran: Compared, start: &Compared) -> Compared {
    ran.cpu_s = ran.cpu_s.zip(start.cpu_s).map(|(all, start)| (all - start).max(0.0));
    ran
}

/// flexAsynch with a workload's parameters; `short`: the least that it can do, which shows what its start costs.
fn original(
    deployed: &Deployed,
    connect_string: &str,
    flexasync: &Flexasync,
    threads: u32,
    short: bool,
) -> Call {
    let (transactions, loops) =
        if short { (1, 1) } else { (flexasync.transactions, flexasync.loops.unwrap_or(LOOPS)) };
    let numbers = [
        ("-t", threads),
        ("-p", flexasync.parallel),
        ("-o", transactions),
        ("-c", flexasync.operations),
        ("-a", flexasync.attributes),
        ("-s", flexasync.attribute_words),
        ("-l", loops),
        ("-load_factor", flexasync.load_factor),
    ];
    let mut words: Vec<String> =
        numbers.iter().flat_map(|(flag, value)| [flag.to_string(), value.to_string()]).collect();
    let switches = [
        ("-ndbrecord", flexasync.ndb_record),
        ("-no_hint", flexasync.coordinator == Coordinator::Any),
        ("-temp", !flexasync.logging),
        ("-force", flexasync.send == SendWhen::Forced),
        ("-non_adaptive", flexasync.send == SendWhen::NonAdaptive),
    ];
    words.extend(switches.iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_string()));
    let mut call = Call::of(deployed, PROGRAM).args(words);
    call.environment.push(("NDB_CONNECTSTRING".into(), connect_string.into()));
    call
}
