//! One thread: a session of its own, and one phase after the other with its slots always full.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use model::message::FailedKind;
use model::request::{Coordinator, Flexasync, SendWhen};
use ndbapi::{Done, Error, Kind, Session, Status};

use super::rows::{Generation, Key};
use crate::engine::{Clock, ErrorCode, Recorder};
use crate::failure::Failure;
use crate::workloads::mix;

/// How often an operation that failed for the time being is tried, all in all.
const ATTEMPTS: u8 = 10;
/// The pause before a second attempt; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(2);
/// How long one wait for answers is; between two of them a thread looks whether it is to stop.
const TICK: Duration = Duration::from_millis(200);

/// NDB's code of a row that is not there.
const NO_SUCH_ROW: i32 = 626;

/// What threads share.
pub struct Shared {
    /// What is done.
    pub workload: Flexasync,
    /// Set to end phases early.
    pub stop: AtomicBool,
    /// Operations that succeeded since the timed part began, for progress.
    pub operations: AtomicU64,
    /// Operations that failed since then.
    pub errors: AtomicU64,
    /// How long no answer at all may come.
    pub patience: Duration,
    /// The clock of everything.
    pub clock: Clock,
}

/// One phase.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// What is done.
    pub kind: Kind,
    /// What the rows are written with, or must hold; 0: they must be gone.
    pub generation: Generation,
    /// Rounds of `parallel` transactions.
    pub rounds: u32,
}

/// What a phase came to on one thread.
#[derive(Default)]
pub struct Outcome {
    /// Latencies and errors.
    pub recorder: Recorder,
    /// When the last answer had come.
    pub ended_ns: u64,
    /// Whether it did not do all that it was to do.
    pub stopped: bool,
    /// Why it cannot go on.
    pub failure: Option<Failure>,
}

/// A thread of the load.
pub struct Worker<'a> {
    /// Its number.
    pub number: u32,
    /// What it shares.
    pub shared: &'a Shared,
    session: Session<'a>,
    nodes: Vec<u32>,
    turn: u32,
    /// By transaction: the partition of its rows. Hashed once, which costs as much as a tenth of an operation.
    partitions: Vec<u32>,
    /// By slot: the number of its transaction, when it was begun, how often it has failed.
    transaction: Vec<u32>,
    begun_ns: Vec<u64>,
    attempts: Vec<u8>,
    pause: Duration,
    free: Vec<u32>,
    again: Vec<u32>,
    batch: Vec<u32>,
    /// Of the batch, where the rows decide.
    places: Vec<u32>,
    done: Vec<Done>,
}

impl<'a> Worker<'a> {
    /// A thread with its session. Errors: NDB cannot say where rows are.
    pub fn new(number: u32, shared: &'a Shared, session: Session<'a>) -> Result<Self, Failure> {
        let slots = shared.workload.parallel as usize;
        Ok(Worker {
            partitions: partitions(number, &shared.workload, &session)?,
            number,
            shared,
            nodes: session.nodes(),
            session,
            turn: number,
            transaction: vec![0; slots],
            begun_ns: vec![0; slots],
            attempts: vec![0; slots],
            pause: Duration::ZERO,
            free: Vec::with_capacity(slots),
            again: Vec::with_capacity(slots),
            batch: Vec::with_capacity(slots),
            places: Vec::with_capacity(slots),
            done: Vec::with_capacity(slots),
        })
    }

    /// Does one phase.
    pub fn phase(&mut self, phase: Phase) -> Outcome {
        let mut outcome = Outcome::default();
        if let Err(failure) = self.transactions(phase, &mut outcome) {
            outcome.failure = Some(failure);
        }
        outcome.ended_ns = self.shared.clock.now_ns();
        outcome
    }

    fn transactions(&mut self, phase: Phase, outcome: &mut Outcome) -> Result<(), Failure> {
        let parallel = self.shared.workload.parallel;
        let all = phase.rounds * parallel;
        let (mut next, mut in_flight) = (0, 0);
        let mut heard_ns = self.shared.clock.now_ns();
        self.free.clear();
        self.free.extend((0..parallel).rev());
        self.again.clear();
        loop {
            if !self.pause.is_zero() {
                // Once for all that failed in one go, however many they are.
                std::thread::sleep(std::mem::take(&mut self.pause));
            }
            if self.shared.stop.load(Ordering::Relaxed) && next < all {
                outcome.stopped = true;
                next = all;
                self.free.append(&mut self.again);
            }
            next += self.fill(phase, all - next, next);
            if self.batch.is_empty() && in_flight == 0 {
                return Ok(());
            }
            in_flight += self.prepare(phase, outcome)?;
            if in_flight == 0 {
                continue;
            }
            let send = match self.shared.workload.send {
                SendWhen::Adaptive => ndbapi::Send::Adaptive,
                SendWhen::Forced => ndbapi::Send::Forced,
                SendWhen::NonAdaptive => ndbapi::Send::NotAdaptive,
            };
            // Half of them: the data nodes have the other half to do while these are followed by new ones. To
            // wait for all, as flexAsynch does, takes a tenth less of the client's CPU and gives fewer operations.
            let least = if next < all { in_flight.div_ceil(2) } else { in_flight };
            self.session.send_poll(TICK, least, send, &mut self.done);
            let now_ns = self.shared.clock.now_ns();
            if !self.done.is_empty() {
                heard_ns = now_ns;
                in_flight -= self.done.len() as u32;
                self.take(phase, now_ns, outcome)?;
            } else if Duration::from_nanos(now_ns - heard_ns) > self.shared.patience {
                let waited = self.shared.patience.as_secs_f64();
                let detail = format!(
                    "the data nodes have not answered for {waited} s, {in_flight} transactions are open"
                );
                return Err(Failure::new(FailedKind::ServerLost, detail));
            }
        }
    }

    /// Puts the next transactions into free slots, those that are tried again first. Returns how many are new.
    fn fill(&mut self, phase: Phase, left: u32, next: u32) -> u32 {
        self.batch.clear();
        self.batch.append(&mut self.again);
        let now_ns = self.shared.clock.now_ns();
        let mut new = 0;
        while new < left
            && let Some(slot) = self.free.pop()
        {
            self.transaction[slot as usize] = next + new;
            self.begun_ns[slot as usize] = now_ns;
            self.attempts[slot as usize] = 0;
            self.write(phase, slot);
            self.batch.push(slot);
            new += 1;
        }
        new
    }

    fn key(&self, slot: u32, operation: u32) -> Key {
        let workload = &self.shared.workload;
        let transactions = workload.transactions.wrapping_mul(workload.parallel);
        Key::of(self.number, self.transaction[slot as usize], transactions, operation, workload.operations)
    }

    fn write(&mut self, phase: Phase, slot: u32) {
        for operation in 0..self.shared.workload.operations {
            let key = self.key(slot, operation);
            let row = self.session.row_mut(slot, operation);
            match phase.kind {
                Kind::Insert | Kind::Update => key.write_all(phase.generation, row),
                Kind::Read => key.write_poisoned(row),
                Kind::Delete => key.write(row),
            }
        }
    }

    /// Prepares the batch. Returns how many of it are in flight; the rest waits for another try.
    fn prepare(&mut self, phase: Phase, outcome: &mut Outcome) -> Result<u32, Failure> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        let batch = std::mem::take(&mut self.batch);
        let (prepared, error) = match self.node() {
            Some(node) => self.session.prepare(phase.kind, node, &batch),
            None => {
                let partition = |slot: &u32| self.partitions[self.transaction[*slot as usize] as usize];
                self.places.clear();
                self.places.extend(batch.iter().map(partition));
                let places = ndbapi::Coordinator::InPartition(&self.places);
                self.session.prepare(phase.kind, places, &batch)
            }
        };
        let result = match error {
            None => Ok(()),
            Some(error) => {
                let refused = batch[prepared];
                self.again.extend_from_slice(&batch[prepared + 1..]);
                self.failed(refused, &error, outcome)
            }
        };
        self.batch = batch;
        result.map(|()| prepared as u32)
    }

    /// Where the coordinators of a batch are, unless each is where its rows are.
    fn node(&mut self) -> Option<ndbapi::Coordinator<'static>> {
        let count = self.nodes.len();
        let on = |at: u32| Some(ndbapi::Coordinator::OnNode(self.nodes[at as usize % count]));
        match self.shared.workload.coordinator {
            Coordinator::Key => None,
            Coordinator::Thread if count > 0 => on(self.number),
            Coordinator::RoundRobin | Coordinator::Random if count > 0 => {
                self.turn = self.turn.wrapping_add(1);
                let random = self.shared.workload.coordinator == Coordinator::Random;
                on(if random { mix(self.turn.into()) as u32 } else { self.turn })
            }
            _ => Some(ndbapi::Coordinator::Anywhere),
        }
    }

    /// Books what is done.
    fn take(&mut self, phase: Phase, now_ns: u64, outcome: &mut Outcome) -> Result<(), Failure> {
        let done = std::mem::take(&mut self.done);
        let mut succeeded = 0;
        let mut result = Ok(());
        for ended in &done {
            let slot = ended.slot;
            let gone = phase.generation == 0;
            let as_wanted = if gone { ended.code() == NO_SUCH_ROW } else { ended.committed() };
            if as_wanted {
                let latency_ns = now_ns - self.begun_ns[slot as usize];
                succeeded += self.answered(phase, slot, latency_ns, outcome);
                self.free.push(slot);
            } else if ended.committed() {
                outcome.recorder.error(ErrorCode::WrongAnswer);
                self.free.push(slot);
            } else if result.is_ok() {
                let error = self.session.explain(ended.code());
                result = self.failed(slot, &error, outcome);
            }
        }
        self.done = done;
        // The look for what was deleted is no work that is timed.
        if phase.generation != 0 || phase.kind != Kind::Read {
            self.shared.operations.fetch_add(succeeded, Ordering::Relaxed);
        }
        result
    }

    /// Books a transaction that was answered as it must be; returns how many of its operations were right.
    fn answered(&mut self, phase: Phase, slot: u32, latency_ns: u64, outcome: &mut Outcome) -> u64 {
        let mut right = 0;
        for operation in 0..self.shared.workload.operations {
            let row = self.session.row(slot, operation);
            let wrong = match (phase.kind, phase.generation) {
                // One row that is gone gives the transaction its code, whatever became of the others.
                (Kind::Read, 0) => !Key::is_untouched(row),
                (Kind::Read, generation) => !self.key(slot, operation).is(generation, row),
                _ => false,
            };
            if wrong {
                outcome.recorder.error(ErrorCode::WrongAnswer);
            } else {
                outcome.recorder.success(latency_ns);
                right += 1;
            }
        }
        right
    }

    /// A transaction that failed: tried again where that may help, up to a limit.
    fn failed(&mut self, slot: u32, error: &Error, outcome: &mut Outcome) -> Result<(), Failure> {
        self.shared.errors.fetch_add(self.shared.workload.operations.into(), Ordering::Relaxed);
        for _ in 0..self.shared.workload.operations {
            outcome.recorder.error(ErrorCode::Server(u16::try_from(error.code).unwrap_or(u16::MAX)));
        }
        let attempts = &mut self.attempts[slot as usize];
        *attempts += 1;
        if error.status == Status::Temporary && *attempts < ATTEMPTS && !error.is_of_nodes() {
            self.pause = self.pause.max(PAUSE * 2_u32.pow(u32::from(*attempts) - 1));
            self.again.push(slot);
            return Ok(());
        }
        Err(failure(error, *attempts))
    }
}

/// The partitions of a thread's transactions, where they decide.
fn partitions(number: u32, workload: &Flexasync, session: &Session<'_>) -> Result<Vec<u32>, Failure> {
    if workload.coordinator != Coordinator::Key {
        return Ok(Vec::new());
    }
    let transactions = workload.transactions.wrapping_mul(workload.parallel);
    let unknown = || Failure::new(FailedKind::Prepare, "NDB cannot say which partition a row is in");
    let partition = |transaction| {
        let key = Key::of(number, transaction, transactions, 0, workload.operations);
        session.partition(key.distribution).ok_or_else(unknown)
    };
    (0..transactions).map(partition).collect()
}

/// Why a run cannot go on.
pub fn failure(error: &Error, attempts: u8) -> Failure {
    let kind = match error.code {
        _ if error.is_of_nodes() => FailedKind::ServerLost,
        _ if error.is_of_space() => FailedKind::Full,
        626 | 630 => FailedKind::WrongData,
        _ => FailedKind::Refused,
    };
    let tried = if attempts > 1 { format!(", tried {attempts} times") } else { String::new() };
    Failure::new(kind, format!("{error}{tried}"))
}
