//! The loop: threads that share nothing hot, each with its own connections, numbers, histogram and counters.
//!
//! In a closed loop the next operation is due when the one before it has ended; in an open one by its schedule.
//!
//! A thread does one [`Job`] after another, each to its very end: when a job has ended, nothing is in
//! flight.

mod connection;
mod counters;
mod null;
mod numbers;
mod recorder;
mod schedule;
mod server;
mod timer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::message::FailedKind;
use model::request::Load;

pub use counters::{Counters, Progress};
pub use numbers::{Numbers, WARMUP_BASE, shares};
pub use recorder::{ErrorCode, Recorder};
use schedule::{Due, Schedule};

use crate::control::Server;
use crate::failure::Failure;
use crate::workloads::Workload;

/// How often the caller's tick runs while threads work.
const TICK: Duration = Duration::from_millis(20);

/// Nanoseconds since the engine was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins to count.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Nanoseconds since then.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        let elapsed = self.0.elapsed();
        elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())
    }
}

/// What all threads are told to do; each does its share.
#[derive(Clone, Debug)]
pub enum Job {
    /// Connect and log in.
    Open,
    /// Prepare the workload's statement on every connection.
    Arm,
    /// Do operations.
    Run(Run),
}

/// Operations to be done.
#[derive(Clone, Debug)]
pub struct Run {
    /// Added to each operation's number.
    pub base: u64,
    /// Operations of all threads together.
    pub limit: Option<u64>,
    /// When an open loop's first operation is due, by the engine's clock.
    pub start_ns: u64,
    /// When to stop, by the engine's clock.
    pub deadline_ns: u64,
}

/// What a thread says when its job has ended.
#[derive(Debug, Default)]
pub struct Report {
    /// What it recorded, from when operations were due.
    pub recorder: Recorder,
    /// The same from when they were sent; of an open loop.
    pub service: Option<Recorder>,
    /// Operations due at once that waited for a connection, at most.
    pub backlog_max: u64,
    /// Operations due and not sent at the end.
    pub unsent: u64,
    /// Operations begun.
    pub sent: u64,
    /// Commands sent for them.
    pub questions: u64,
    /// When its last operation had ended.
    pub ended_ns: u64,
    /// Whether its share of a limited number of operations was done.
    pub exhausted: bool,
    /// Connections that are up.
    pub up: u32,
    /// Connections lost in this job.
    pub lost: u64,
    /// Why connections are not up, or were lost, with how many.
    pub causes: BTreeMap<String, u32>,
    /// What makes going on pointless.
    pub failure: Option<Failure>,
    /// The authentication plugin that was used.
    pub plugin: Option<String>,
    /// The TLS cipher of connection 0: `Some("")` for none.
    pub cipher: Option<String>,
}

impl Report {
    fn merge(&mut self, other: Report) {
        self.recorder.merge(&other.recorder);
        if let Some(service) = other.service {
            self.service.get_or_insert_default().merge(&service);
        }
        self.backlog_max += other.backlog_max;
        self.unsent += other.unsent;
        self.sent += other.sent;
        self.questions += other.questions;
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.exhausted &= other.exhausted;
        self.up += other.up;
        self.lost += other.lost;
        for (cause, count) in other.causes {
            *self.causes.entry(cause).or_default() += count;
        }
        self.failure = self.failure.take().or(other.failure);
        self.plugin = self.plugin.take().or(other.plugin);
        self.cipher = self.cipher.take().or(other.cipher);
    }
}

/// A thread's part of a back-end.
trait Worker: Send {
    /// Does its share of a job, to the end.
    fn perform(&mut self, job: &Job) -> Report;
}

/// What answers the operations.
pub enum Backend {
    /// Nobody.
    Null,
    /// A server.
    Server(Server),
}

/// A thread's own things, and what it needs of others'.
struct Context {
    workload: Arc<dyn Workload>,
    clock: Clock,
    stop: Arc<AtomicBool>,
    counters: Arc<Counters>,
    /// Number of this thread's first connection, of all.
    first: u32,
    /// This thread's connections.
    width: u32,
    /// Connections of all threads.
    stride: u32,
    load: Load,
    numbers: Numbers,
    /// Of an open loop.
    schedule: Option<Schedule>,
    /// Of an open loop: what is due next.
    pending: Option<Due>,
    base: u64,
    recorder: Recorder,
    /// From when operations were sent, of an open loop.
    service: Option<Recorder>,
    backlog_max: u64,
    unsent: u64,
    deadline_ns: u64,
    /// Whether operations are still to be sent.
    running: bool,
    exhausted: bool,
    sent: u64,
    /// Commands of an operation.
    commands: u32,
    questions: u64,
}

impl Context {
    fn begin(&mut self, job: &Job) {
        self.recorder = Recorder::default();
        (self.schedule, self.pending, self.service) = (None, None, None);
        (self.backlog_max, self.unsent) = (0, 0);
        self.counters.set_operations(0);
        self.counters.set_errors(0);
        (self.sent, self.questions) = (0, 0);
        self.exhausted = false;
        self.running = false;
        if let Job::Run(run) = job {
            let (first, width, stride) = (self.first, self.width, self.stride);
            self.numbers = Numbers::new(first.into(), width.into(), stride.into(), run.base, run.limit);
            let share = f64::from(width) / f64::from(stride);
            self.schedule = Schedule::new(self.load.arrival, run.start_ns, share, self.load.seed);
            self.service = self.schedule.is_some().then(Recorder::default);
            self.base = run.base;
            self.deadline_ns = run.deadline_ns;
            self.running = true;
        }
    }

    /// The next operation, unless the job is over or none is due yet.
    #[inline]
    fn next_operation(&mut self, now_ns: u64) -> Option<Due> {
        let due = self.peek(now_ns)?;
        if due.due_ns > now_ns {
            return None;
        }
        self.pending = None;
        self.sent += 1;
        if let Some(schedule) = &self.schedule {
            self.backlog_max = self.backlog_max.max(schedule.within(now_ns - due.due_ns));
        }
        Some(due)
    }

    /// What is to be sent next, be it due or not; `None` when the job is over.
    #[inline]
    fn peek(&mut self, now_ns: u64) -> Option<Due> {
        if self.over(now_ns) {
            return None;
        }
        if self.pending.is_none() {
            self.pending = self.draw(now_ns);
            if self.pending.is_none() {
                self.running = false;
                self.exhausted = true;
            }
        }
        self.pending
    }

    #[inline]
    fn draw(&mut self, now_ns: u64) -> Option<Due> {
        let number = self.numbers.next()?;
        let base = self.base;
        let due_ns = self.schedule.as_mut().map_or(now_ns, |schedule| schedule.due_ns(number - base));
        Some(Due { number, due_ns })
    }

    /// Whether no more operations are to be sent.
    #[inline]
    fn over(&mut self, now_ns: u64) -> bool {
        if self.running && (now_ns >= self.deadline_ns || self.stop.load(Ordering::Relaxed)) {
            self.running = false;
            self.count_unsent(now_ns.min(self.deadline_ns));
        }
        !self.running
    }

    /// What was due until then and waits for a connection.
    fn count_unsent(&mut self, until_ns: u64) {
        let next = self.pending.take().or_else(|| self.schedule.is_some().then(|| self.draw(until_ns))?);
        if let (Some(schedule), Some(next)) = (&self.schedule, next)
            && next.due_ns < until_ns
        {
            self.unsent = 1 + schedule.within(until_ns - next.due_ns);
        }
    }

    /// An operation ended that was due and sent at these times.
    #[inline]
    fn succeeded(&mut self, now_ns: u64, due_ns: u64, sent_ns: u64) {
        self.recorder.success(now_ns - due_ns);
        if let Some(service) = &mut self.service {
            service.success(now_ns - sent_ns);
        }
        self.counters.set_operations(self.recorder.operations());
    }

    fn failed(&mut self, code: ErrorCode) {
        self.recorder.error(code);
        self.counters.set_errors(self.recorder.error_count());
    }

    fn report(&mut self) -> Report {
        Report {
            recorder: std::mem::take(&mut self.recorder),
            service: self.service.take(),
            backlog_max: self.backlog_max,
            unsent: self.unsent,
            sent: self.sent,
            questions: self.questions,
            ended_ns: self.clock.now_ns(),
            exhausted: self.exhausted,
            ..Report::default()
        }
    }
}

/// The threads.
pub struct Engine {
    jobs: Vec<Sender<Job>>,
    reports: Receiver<Report>,
    counters: Vec<Arc<Counters>>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Engine {
    /// Lets the threads end their jobs and leave the server politely.
    fn drop(&mut self) {
        self.stop();
        self.jobs.clear();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Engine {
    /// Starts `threads` threads for the load's connections. They end when the engine is dropped.
    pub fn start(
        backend: &Backend,
        workload: &Arc<dyn Workload>,
        load: &Load,
        threads: u32,
    ) -> Result<Self, Failure> {
        let clock = Clock::start();
        let stop = Arc::new(AtomicBool::new(false));
        let (report_to, reports) = mpsc::channel();
        let mut engine = Engine { jobs: vec![], reports, counters: vec![], stop, clock, threads: vec![] };
        for (index, (first, width)) in shares(load.connections, threads).into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            let context = Context {
                workload: workload.clone(),
                clock,
                stop: engine.stop.clone(),
                counters: counters.clone(),
                first,
                width,
                stride: load.connections,
                load: load.clone(),
                numbers: Numbers::new(0, 1, 1, 0, Some(0)),
                schedule: None,
                pending: None,
                base: 0,
                recorder: Recorder::default(),
                service: None,
                backlog_max: 0,
                unsent: 0,
                deadline_ns: 0,
                running: false,
                exhausted: false,
                sent: 0,
                commands: workload.commands(),
                questions: 0,
            };
            let worker: Box<dyn Worker> = match backend {
                Backend::Null => Box::new(null::NullWorker::new(context)),
                Backend::Server(server) => {
                    Box::new(server::ServerWorker::new(context, server).map_err(cannot_start)?)
                }
            };
            let (jobs, to_do) = mpsc::channel();
            let report_to = report_to.clone();
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || work(worker, &to_do, &report_to))
                .map_err(cannot_start)?;
            engine.threads.push(thread);
            engine.jobs.push(jobs);
            engine.counters.push(counters);
        }
        Ok(engine)
    }

    /// The clock that deadlines are given by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends the current job early; what is in flight is waited for.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What the threads have done of the current job.
    pub fn progress(&self) -> Progress {
        let mut total = Progress::default();
        self.counters.iter().for_each(|counters| counters.add_to(&mut total));
        total
    }

    /// Does a job with all threads and waits for it, calling `tick` all the while.
    pub fn perform(&self, job: &Job, tick: &mut dyn FnMut(&Engine)) -> Result<Report, Failure> {
        self.stop.store(false, Ordering::Relaxed);
        for jobs in &self.jobs {
            jobs.send(job.clone()).map_err(|_| a_thread_died())?;
        }
        let mut total = Report { exhausted: true, ..Report::default() };
        let mut missing = self.jobs.len();
        while missing > 0 {
            match self.reports.recv_timeout(TICK) {
                Ok(report) => {
                    total.merge(report);
                    missing -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(a_thread_died()),
            }
            tick(self);
        }
        match total.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(total),
        }
    }
}

fn work(mut worker: Box<dyn Worker>, jobs: &Receiver<Job>, reports: &Sender<Report>) {
    while let Ok(job) = jobs.recv() {
        if reports.send(worker.perform(&job)).is_err() {
            return;
        }
    }
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::new(FailedKind::Limit, format!("cannot start a client thread: {error}"))
}

fn a_thread_died() -> Failure {
    Failure::new(FailedKind::Internal, "a client thread died; see its message on standard error")
}
