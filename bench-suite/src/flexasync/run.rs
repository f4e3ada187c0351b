//! The loops: tables made, threads started, phases told to all of them at once, results summed up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use model::message::{
    CaveatKind, CpuTime, DataCheck, EndedBy, FailedKind, Interval, Measurement, Phase as Told,
};
use model::request::{Backend, Flexasync};
use model::{Message, Request};
use ndbapi::{Connection, How, Kind, Session, Table};

use super::parts::{Cost, NAMES, Part};
use super::worker::{self, Outcome, Phase, Shared, Worker};
use crate::cpu;
use crate::engine::Clock;
use crate::failure::Failure;
use crate::output::{self, Output};

/// The database of the tables, which flexAsynch calls the same.
const DATABASE: &str = "TEST_DB";
/// NDB's code of a table that is not there.
const NO_SUCH_TABLE: i32 = 723;
/// How often the main thread looks around while threads work.
const TICK: Duration = Duration::from_millis(50);

/// The phases of a loop, in the order of [`NAMES`].
const LOOP: [(Kind, u32); 5] =
    [(Kind::Insert, 1), (Kind::Read, 1), (Kind::Update, 2), (Kind::Read, 2), (Kind::Delete, 2)];

/// Runs flexasync as it was asked for.
pub fn run(
    request: &Request,
    workload: &Flexasync,
    output: &mut Output,
    interrupted: &Arc<AtomicBool>,
) -> Result<Measurement, Failure> {
    let Backend::Ndb { connect_string, server_pids } = &request.backend else {
        return Err(crate::workloads::needs_sql(&request.workload));
    };
    let patience = Duration::from_secs_f64(request.load.reply_timeout_s);
    output.phase(Told::Connect);
    let connection = connect(connect_string, patience)?;
    output.phase(Told::Prepare);
    let tables = tables(workload);
    make(&connection, &tables)?;
    let shared = Shared {
        workload: workload.clone(),
        stop: AtomicBool::new(false),
        operations: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        patience,
        clock: Clock::start(),
    };
    let result = std::thread::scope(|scope| {
        let mut team = Team { shared: &shared, interrupted, tell: Vec::new(), hear: None, pids: server_pids };
        for number in 0..request.load.connections {
            let table = &tables[number as usize % tables.len()];
            let how = How {
                slots: workload.parallel,
                operations: workload.operations,
                ndb_record: workload.ndb_record,
            };
            let session =
                Session::open(&connection, table, how).map_err(|error| worker::failure(&error, 1))?;
            team.start(scope, Worker::new(number, &shared, session)?);
        }
        loops(request, output, &mut team)
    });
    // What is left of a failed run would be in the next one's way; a cluster that is gone cannot be asked.
    let dropped = drop_all(&connection, &tables);
    if result.is_ok() {
        dropped?;
    }
    result
}

fn connect(connect_string: &str, patience: Duration) -> Result<Connection, Failure> {
    let cannot = |error: ndbapi::Error| {
        let detail = format!("cannot join the cluster at {connect_string}: {error}");
        Failure::new(FailedKind::CannotConnect, detail)
    };
    let connection = Connection::connect(connect_string, patience).map_err(cannot)?;
    connection.wait_until_ready(patience).map_err(cannot)?;
    let (node, data_nodes) = (connection.node_id(), connection.data_nodes());
    output::for_people(&format!("joined {connect_string} as node {node}, {data_nodes} data nodes are up"));
    Ok(connection)
}

fn tables(workload: &Flexasync) -> Vec<Table> {
    let table = |number| Table {
        database: DATABASE.into(),
        name: format!("FLEXASYNC{number}"),
        attributes: workload.attributes,
        attribute_words: workload.attribute_words,
        load_factor: workload.load_factor,
        logging: workload.logging,
    };
    (0..workload.tables).map(table).collect()
}

fn make(connection: &Connection, tables: &[Table]) -> Result<(), Failure> {
    drop_all(connection, tables)?;
    for table in tables {
        connection.create_table(table).map_err(|error| {
            Failure::new(FailedKind::Prepare, format!("cannot create the table {}: {error}", table.name))
        })?;
    }
    Ok(())
}

fn drop_all(connection: &Connection, tables: &[Table]) -> Result<(), Failure> {
    for table in tables {
        match connection.drop_table(table) {
            Err(error) if error.code != NO_SUCH_TABLE => {
                let detail = format!("cannot drop the table {}: {error}", table.name);
                return Err(Failure::new(FailedKind::Prepare, detail));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What the loops came to.
#[derive(Default)]
struct Sum {
    parts: [Part; 5],
    left: Part,
    loops: u32,
}

impl Sum {
    fn total(&self) -> Part {
        let mut total = Part::default();
        self.parts.iter().for_each(|part| total.merge(part));
        total
    }

    /// Every row that was to be read was right, and every key that was deleted is gone.
    fn checks(&self) -> Vec<DataCheck> {
        let check = |check: &str, found: u64, expected: u64| DataCheck {
            check: check.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        };
        let inserted = self.parts[0].operations();
        vec![
            check("rows right after insert", self.parts[1].operations(), inserted),
            check("rows right after update", self.parts[3].operations(), inserted),
            check("keys gone after delete", self.left.operations(), inserted),
        ]
    }
}

fn loops(request: &Request, output: &mut Output, team: &mut Team) -> Result<Measurement, Failure> {
    let (workload, load) = (&team.shared.workload, &request.load);
    let threads = load.connections;
    let rounds = workload.transactions;
    output.phase(Told::VerifyBefore);
    let mut small = Sum::default();
    team.one_loop(1, &mut small, &mut |_| ())?;
    verified(output, Told::VerifyBefore, &small, team)?;
    if load.warmup_s > 0.0 {
        output.phase(Told::Warmup);
        let until = Instant::now() + Duration::from_secs_f64(load.warmup_s);
        while Instant::now() < until && !team.is_interrupted() {
            team.one_loop(rounds, &mut Sum::default(), &mut |_| ())?;
        }
    }
    if team.is_interrupted() {
        return Err(Failure::interrupted());
    }
    output.phase(Told::Measure);
    let mut sum = Sum::default();
    let ended = measure(request, output, team, &mut sum);
    let ended_by = ended.as_ref().copied().unwrap_or(EndedBy::ServerLost);
    for (name, part) in NAMES.iter().zip(&sum.parts) {
        if let Some(measured) = part.measurement(threads, ended_by) {
            output.say(&Message::Part { part: (*name).into(), measured: Box::new(measured) });
        }
    }
    let total = sum.total();
    if let Some(failures) = total.failures() {
        output.caveat(CaveatKind::Errors, format!("operations failed: {failures}"));
    }
    let measurement = total.measurement(threads, ended_by);
    let with = |failure: Failure| match &measurement {
        Some(measurement) => failure.with_partial(measurement.clone()),
        None => failure,
    };
    ended.map_err(&with)?;
    if ended_by == EndedBy::Interrupted {
        let detail = "interrupted in a loop, whose rows were not all checked";
        output.caveat(CaveatKind::NotChecked, detail);
    } else {
        output.phase(Told::VerifyAfter);
        verified(output, Told::VerifyAfter, &sum, team).map_err(&with)?;
    }
    measurement.clone().ok_or_else(Failure::interrupted)
}

/// The timed loops, until their number or the time is reached.
fn measure(
    request: &Request,
    output: &mut Output,
    team: &mut Team,
    sum: &mut Sum,
) -> Result<EndedBy, Failure> {
    let (workload, load) = (&team.shared.workload, &request.load);
    let begun = Instant::now();
    let mut progress =
        Intervals { output, every_s: load.interval_s, begun, last: begun, operations: 0, errors: 0 };
    team.shared.operations.store(0, Ordering::Relaxed);
    team.shared.errors.store(0, Ordering::Relaxed);
    let threads = load.connections;
    loop {
        team.one_loop(workload.transactions, sum, &mut |done| progress.tick(done, threads))?;
        if team.is_interrupted() {
            return Ok(EndedBy::Interrupted);
        }
        match workload.loops {
            Some(loops) if sum.loops >= loops => return Ok(EndedBy::Operations),
            None if begun.elapsed().as_secs_f64() >= load.duration_s => return Ok(EndedBy::Duration),
            _ => {}
        }
    }
}

fn verified(output: &mut Output, phase: Told, sum: &Sum, team: &Team) -> Result<(), Failure> {
    if team.is_interrupted() {
        return Err(Failure::interrupted());
    }
    let checks = sum.checks();
    output.say(&Message::Verified { phase, checks: checks.clone() });
    let wrong: u64 = sum.parts.iter().chain([&sum.left]).map(Part::wrong).sum();
    match checks.iter().find(|check| !check.passed()) {
        None => Ok(()),
        Some(first) => {
            let detail = format!(
                "{}: {} of {}; {wrong} rows were read that nobody wrote",
                first.check, first.found, first.expected
            );
            Err(Failure::new(FailedKind::WrongData, detail))
        }
    }
}

/// Progress while the timed loops run.
struct Intervals<'a> {
    output: &'a mut Output,
    every_s: f64,
    begun: Instant,
    last: Instant,
    operations: u64,
    errors: u64,
}

impl Intervals<'_> {
    fn tick(&mut self, (operations, errors): (u64, u64), threads: u32) {
        let since_s = self.last.elapsed().as_secs_f64();
        if since_s < self.every_s {
            return;
        }
        let done = operations - self.operations;
        self.output.say(&Message::Interval(Interval {
            elapsed_s: self.begun.elapsed().as_secs_f64(),
            operations: done,
            errors: errors - self.errors,
            throughput_per_s: done as f64 / since_s,
            connections_up: threads,
        }));
        self.last = Instant::now();
        self.operations = operations;
        self.errors = errors;
    }
}

/// The threads, and how they are spoken to.
struct Team<'a> {
    shared: &'a Shared,
    interrupted: &'a AtomicBool,
    tell: Vec<Sender<Phase>>,
    hear: Option<(Sender<Outcome>, Receiver<Outcome>)>,
    pids: &'a [u32],
}

impl<'a> Team<'a> {
    fn start<'s>(&mut self, scope: &'s std::thread::Scope<'s, '_>, mut worker: Worker<'a>)
    where
        'a: 's,
    {
        let (tell, told) = mpsc::channel::<Phase>();
        let answer = self.hear.get_or_insert_with(mpsc::channel).0.clone();
        self.tell.push(tell);
        // It ends when nobody can tell it anything any more.
        scope.spawn(move || {
            for phase in told {
                if answer.send(worker.phase(phase)).is_err() {
                    break;
                }
            }
        });
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// All phases once, and a look for what was deleted.
    fn one_loop(
        &mut self,
        rounds: u32,
        sum: &mut Sum,
        tick: &mut dyn FnMut((u64, u64)),
    ) -> Result<(), Failure> {
        for (at, (kind, generation)) in LOOP.into_iter().enumerate() {
            let stopped = self.phase(Phase { kind, generation, rounds }, &mut sum.parts[at], tick)?;
            if stopped {
                return Ok(());
            }
        }
        self.phase(Phase { kind: Kind::Read, generation: 0, rounds }, &mut sum.left, &mut |_| ())?;
        sum.loops += 1;
        Ok(())
    }

    /// One phase on all threads at once. Returns whether it was stopped before its end.
    fn phase(
        &mut self,
        phase: Phase,
        part: &mut Part,
        tick: &mut dyn FnMut((u64, u64)),
    ) -> Result<bool, Failure> {
        let cpu = (cpu::own(), self.server_cpu());
        let begun_ns = self.shared.clock.now_ns();
        for tell in &self.tell {
            // A thread that has ended does not answer either.
            let _ = tell.send(phase);
        }
        let mut outcomes = Vec::new();
        while outcomes.len() < self.tell.len() {
            let Some((_, hear)) = &self.hear else { break };
            match hear.recv_timeout(TICK) {
                Ok(outcome) => {
                    if outcome.failure.is_some() {
                        self.shared.stop.store(true, Ordering::Relaxed);
                    }
                    outcomes.push(outcome);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_interrupted() {
                self.shared.stop.store(true, Ordering::Relaxed);
            }
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            tick((count(&self.shared.operations), count(&self.shared.errors)));
        }
        let ended_ns = outcomes.iter().map(|outcome| outcome.ended_ns).max().unwrap_or(begun_ns);
        let difference =
            |before: Option<CpuTime>, after: Option<CpuTime>| Some(cpu::difference(before?, after?));
        let cost = Cost {
            elapsed_s: (ended_ns - begun_ns) as f64 / 1e9,
            client: difference(cpu.0, cpu::own()),
            server: difference(cpu.1, self.server_cpu()),
        };
        part.add(&outcomes, &cost);
        let stopped = outcomes.iter().any(|outcome| outcome.stopped);
        match outcomes.into_iter().find_map(|outcome| outcome.failure) {
            Some(failure) => Err(failure),
            None => Ok(stopped),
        }
    }

    /// CPU time of all data nodes; `None` where one cannot be read.
    fn server_cpu(&self) -> Option<CpuTime> {
        let each = self.pids.iter().map(|pid| cpu::of_process(*pid)).collect::<Option<Vec<_>>>()?;
        let sum = |of: fn(&CpuTime) -> f64| each.iter().map(of).sum();
        (!each.is_empty())
            .then(|| CpuTime { user_s: sum(|cpu| cpu.user_s), system_s: sum(|cpu| cpu.system_s) })
    }
}
