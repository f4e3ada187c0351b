//! A thread's connections to a server, all driven by one epoll loop.
//!
//! Whatever a connection is doing, the same two things move it on: bytes that arrive
//! ([`ServerWorker::ready`]) and a look at all of them a few times a second ([`ServerWorker::sweep`]),
//! which finds replies that are late and connections that are to be made again. The timed part reads the
//! clock once an operation: one's end is the next one's beginning.

mod operations;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use mio::{Events, Poll, Registry, Token};
use model::message::FailedKind;

use super::connection::{Cause, Connection, Doing};
use super::timer::{self, Timer};
use super::{Context, ErrorCode, Job, Report, Worker};
use crate::client::{ClientError, Event, Reply, ServerError, Session};
use crate::control::Server;
use crate::failure::Failure;
use crate::transport;

/// Logins under way at a time: fewer than the queue of any server's socket holds.
const LOGINS_AT_ONCE: usize = 32;
const SWEEP_NS: u64 = 100_000_000;
/// While some connection is not up.
const BUSY_SWEEP_NS: u64 = 5_000_000;
/// How long connections that are refused at once are tried before the ramp is given up.
const REFUSED_PATIENCE_NS: u64 = 3_000_000_000;

/// A thread's connections.
pub struct ServerWorker {
    context: Context,
    server: Server,
    poll: Poll,
    registry: Registry,
    connections: Vec<Connection>,
    /// Of an open loop: connections that wait for an operation to be due, longest first.
    idle: VecDeque<usize>,
    /// Of an open loop: wakes this thread when the next operation is due.
    timer: Timer,
    reply_timeout_ns: u64,
    /// Whether connections prepare the workload's statement once they are up.
    armed: bool,
    job: JobKind,
    in_flight: u32,
    /// When a connection last came up.
    progress_ns: u64,
    next_sweep_ns: u64,
    /// Whether every connection is up and idle, or the ramp was given up.
    settled: bool,
    lost: u64,
    last_loss: Option<Cause>,
    failure: Option<Failure>,
    plugin: Option<String>,
    cipher: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum JobKind {
    Open,
    Arm,
    Run,
}

impl Worker for ServerWorker {
    fn perform(&mut self, job: &Job) -> Report {
        self.begin(job);
        let mut events = Events::with_capacity(self.connections.len().clamp(16, 1024));
        while !self.ended() {
            let now = self.context.clock.now_ns();
            if now >= self.next_sweep_ns {
                self.sweep(now);
                continue;
            }
            self.send_due(now);
            let until = if self.context.running { self.context.deadline_ns } else { u64::MAX };
            let wait = self.next_sweep_ns.min(until).saturating_sub(now).max(1_000_000);
            match self.poll.poll(&mut events, Some(Duration::from_nanos(wait))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    let detail = format!("epoll: {error}");
                    self.failure = Some(Failure::new(FailedKind::Internal, detail));
                }
                _ => {}
            }
            for event in events.iter().filter(|event| event.token() != timer::TOKEN) {
                self.ready(event.token().0, event.is_read_closed() || event.is_error());
            }
        }
        self.finish()
    }
}

impl Drop for ServerWorker {
    fn drop(&mut self) {
        self.connections.iter_mut().for_each(Connection::leave);
    }
}

impl ServerWorker {
    /// Connections that are not yet made.
    pub fn new(context: Context, server: &Server) -> io::Result<Self> {
        let poll = Poll::new()?;
        Ok(ServerWorker {
            registry: poll.registry().try_clone()?,
            timer: Timer::new(&poll)?,
            poll,
            connections: (0..context.width).map(|_| Connection::new()).collect(),
            idle: VecDeque::new(),
            context,
            reply_timeout_ns: u64::try_from(server.reply_timeout.as_nanos()).unwrap_or(u64::MAX),
            server: server.clone(),
            armed: false,
            job: JobKind::Open,
            in_flight: 0,
            progress_ns: 0,
            next_sweep_ns: 0,
            settled: false,
            lost: 0,
            last_loss: None,
            failure: None,
            plugin: None,
            cipher: None,
        })
    }

    fn begin(&mut self, job: &Job) {
        self.context.begin(job);
        let now = self.context.clock.now_ns();
        self.job = match job {
            Job::Open => JobKind::Open,
            Job::Arm => JobKind::Arm,
            Job::Run(_) => JobKind::Run,
        };
        self.armed |= !matches!(job, Job::Open);
        self.progress_ns = now;
        self.next_sweep_ns = now;
        self.settled = false;
        self.lost = 0;
        self.last_loss = None;
        self.idle.clear();
        for index in 0..self.connections.len() {
            self.connections[index].waits_for_due = false;
            if self.connections[index].doing == Doing::Idle {
                self.advance(index, now);
            }
        }
    }

    /// Gives what is due to connections that wait for it, and sees to it that this thread wakes for the next.
    fn send_due(&mut self, now: u64) {
        while !self.idle.is_empty() {
            let Some(due) = self.context.peek(now) else { return };
            if due.due_ns > now {
                // No timer: the thread sleeps longer, and the operation is late. Its latency says so.
                let _ = self.timer.wake_in(due.due_ns - now);
                return;
            }
            let Some(index) = self.idle.pop_front() else { return };
            self.connections[index].waits_for_due = false;
            // One that was lost meanwhile comes back by itself.
            if self.connections[index].doing == Doing::Idle {
                self.advance(index, now);
            }
        }
        self.context.over(now);
    }

    /// Whether the job is over and nothing is in flight.
    fn ended(&mut self) -> bool {
        if self.failure.is_some() {
            return true;
        }
        match self.job {
            JobKind::Run => !self.context.running && self.in_flight == 0,
            JobKind::Open | JobKind::Arm => {
                self.settled || self.context.stop.load(std::sync::atomic::Ordering::Relaxed)
            }
        }
    }

    fn finish(&mut self) -> Report {
        let mut report = self.context.report();
        report.up = self.up();
        report.lost = self.lost;
        report.failure = self.failure.take();
        report.plugin = self.plugin.clone();
        report.cipher = self.cipher.clone();
        for connection in self.connections.iter().filter(|c| !c.is_up()) {
            *report.causes.entry(connection.cause.to_string()).or_default() += 1;
        }
        if let (true, Some(cause)) = (report.causes.is_empty(), &self.last_loss) {
            report.causes.insert(cause.to_string(), 1);
        }
        report
    }

    fn up(&self) -> u32 {
        self.connections.iter().filter(|c| c.is_up()).count() as u32
    }

    /// Looks at every connection: late replies, connections to be made, and whether to go on at all.
    fn sweep(&mut self, now: u64) {
        self.context.over(now);
        let logging_in = |c: &Connection| c.doing == Doing::LoggingIn;
        let mut logins = self.connections.iter().filter(|c| logging_in(c)).count();
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            match connection.doing {
                Doing::Idle => {}
                Doing::Down if connection.retry_at_ns <= now && logins < LOGINS_AT_ONCE => {
                    logins += 1;
                    self.open(index, now);
                }
                Doing::Down => {}
                _ if now.saturating_sub(connection.since_ns) > self.reply_timeout_ns => {
                    self.lose(index, Cause::Timeout, now);
                }
                _ => {}
            }
        }
        let refused = self.connections.iter().filter(|c| c.cause == Cause::Refused && !c.is_up());
        self.context.counters.set_refused(refused.count() as u32);
        self.context.counters.set_up(self.up());
        self.settled = self.connections.iter().all(|c| c.doing == Doing::Idle);
        let quiet = match self.job {
            JobKind::Run => self.connections.iter().all(Connection::is_up),
            JobKind::Open | JobKind::Arm => self.settled,
        };
        self.next_sweep_ns = now + if quiet { SWEEP_NS } else { BUSY_SWEEP_NS };
        if self.job != JobKind::Run {
            self.settled |= self.is_stuck(now);
        }
    }

    /// The ramp ends when nothing has come up for a while: shorter if nobody listens or the server is full.
    fn is_stuck(&self, now: u64) -> bool {
        let quick = |c: &Connection| {
            c.doing == Doing::Idle
                || matches!(c.cause, Cause::Refused | Cause::Client(ClientError::Refused(_)))
        };
        let patience = match self.connections.iter().all(quick) {
            true => self.reply_timeout_ns.min(REFUSED_PATIENCE_NS),
            false => self.reply_timeout_ns,
        };
        // The time-out of a login that hangs comes first, so that its cause is known.
        now.saturating_sub(self.progress_ns) > patience + 2 * BUSY_SWEEP_NS
    }

    fn open(&mut self, index: usize, now: u64) {
        let account = &self.server.account;
        let session =
            Session::new(&account.user, &account.password, transport::channel(&self.server.endpoint));
        let connection = &mut self.connections[index];
        connection.since_ns = now;
        let opened = connection.open(&self.server.endpoint, session, &self.registry, Token(index));
        if let Err(cause) = opened {
            connection.close(cause, now);
        }
    }

    /// The connection is gone; an operation in flight has failed.
    fn lose(&mut self, index: usize, cause: Cause, now: u64) {
        let connection = &mut self.connections[index];
        match connection.doing {
            Doing::Busy => {
                self.in_flight -= 1;
                self.context.failed(cause.code());
            }
            // What failed has been counted; what was to be tried again has not.
            Doing::RollingBack => {
                self.in_flight -= 1;
                if connection.again {
                    self.context.failed(cause.code());
                }
            }
            _ => {}
        }
        if connection.is_up() {
            self.lost += 1;
            self.last_loss = Some(cause.clone());
        } else if let (JobKind::Open, Cause::Client(error)) = (self.job, &cause) {
            let failure = Failure::login(&self.server.account.user, connection.session.plugin(), error);
            if matches!(failure.kind, FailedKind::Authentication | FailedKind::Protocol) {
                self.failure = Some(failure);
            }
        }
        connection.close(cause, now);
        self.next_sweep_ns = now + BUSY_SWEEP_NS;
    }

    /// The socket has bytes for us, or room for ours.
    #[inline]
    fn ready(&mut self, index: usize, to_the_end: bool) {
        if let Err(cause) = self.move_bytes(index, to_the_end) {
            let now = self.context.clock.now_ns();
            self.lose(index, cause, now);
        }
    }

    #[inline]
    fn move_bytes(&mut self, index: usize, to_the_end: bool) -> Result<(), Cause> {
        loop {
            let connection = &mut self.connections[index];
            if connection.doing == Doing::Down {
                return Ok(());
            }
            connection.write(&self.registry, Token(index))?;
            let before = connection.session.space().len();
            let more = connection.read()?;
            let got = more || connection.session.space().len() != before;
            while self.handle(index)? {}
            self.connections[index].write(&self.registry, Token(index))?;
            // Edge-triggered: after the end was announced nothing else will be, so read up to it.
            let ended = !(more || to_the_end && got);
            if ended {
                return Ok(());
            }
        }
    }

    /// Takes one event of the conversation. Whether there was one.
    #[inline]
    fn handle(&mut self, index: usize) -> Result<bool, Cause> {
        let connection = &mut self.connections[index];
        let doing = connection.doing;
        let number = connection.number;
        let reply = match connection.session.next_event()? {
            None => return Ok(false),
            Some(Event::Reply(reply)) => reply,
            Some(Event::LoggedIn) => {
                self.came_up(index);
                return Ok(true);
            }
        };
        let now = self.context.clock.now_ns();
        match (doing, reply) {
            (Doing::Busy, Reply::Error(error)) => {
                self.refused(index, error.code);
                self.take_back(index, now)?;
                return Ok(true);
            }
            (Doing::Busy, reply) if self.context.workload.check(number, connection.step, &reply) => {
                connection.step += 1;
                if connection.step < self.context.commands {
                    self.ask(index, now)?;
                    return Ok(true);
                }
                self.context.succeeded(now, connection.due_ns, connection.sent_ns);
            }
            (Doing::Busy, _) => {
                self.context.failed(ErrorCode::WrongAnswer);
                self.take_back(index, now)?;
                return Ok(true);
            }
            (Doing::Inspecting, reply) => self.cipher = Some(cipher(&reply)),
            (Doing::Preparing, Reply::Prepared(prepared)) => {
                connection.statements.push(prepared.statement);
            }
            (Doing::RollingBack, Reply::Error(error)) => return Err(ClientError::Refused(error).into()),
            (_, Reply::Error(error)) => {
                self.cannot_prepare(&error);
                return Err(ClientError::Refused(error).into());
            }
            _ => {}
        }
        self.ended_operation(index, doing, now);
        Ok(true)
    }

    fn came_up(&mut self, index: usize) {
        let now = self.context.clock.now_ns();
        let connection = &mut self.connections[index];
        connection.came_up();
        connection.doing = Doing::Idle;
        if self.plugin.is_none() {
            self.plugin = Some(connection.session.plugin().into());
        }
        self.progress_ns = now;
        // The next ones need not wait.
        self.next_sweep_ns = now;
        self.advance(index, now);
    }

    fn cannot_prepare(&mut self, error: &ServerError) {
        if self.job == JobKind::Run {
            return;
        }
        let (kind, cure) = match error.code {
            1461 => (FailedKind::Limit, "; raise max_prepared_stmt_count"),
            _ => (FailedKind::Prepare, ""),
        };
        let detail = format!("cannot prepare the workload's statement: {error}{cure}");
        self.failure = Some(Failure::new(kind, detail));
    }

    /// Gives an idle connection its next thing to do, if there is one.
    #[inline]
    fn advance(&mut self, index: usize, now: u64) {
        if let Err(cause) = self.try_advance(index, now) {
            self.lose(index, cause, now);
        }
    }

    #[inline]
    fn try_advance(&mut self, index: usize, now: u64) -> Result<(), Cause> {
        let connection = &mut self.connections[index];
        let wanted = self.context.workload.statements();
        connection.since_ns = now;
        if index == 0 && self.context.first == 0 && self.cipher.is_none() {
            connection.session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
            connection.doing = Doing::Inspecting;
        } else if let (true, Some(sql)) = (self.armed, wanted.get(connection.statements.len())) {
            connection.session.prepare(sql)?;
            connection.doing = Doing::Preparing;
        } else if std::mem::take(&mut connection.again) {
            return self.begin_operation(index, now);
        } else if let Some(due) = self.context.next_operation(now) {
            connection.number = due.number;
            connection.due_ns = due.due_ns;
            connection.sent_ns = now;
            connection.retries = 0;
            return self.begin_operation(index, now);
        } else {
            if self.context.running && !connection.waits_for_due {
                connection.waits_for_due = true;
                self.idle.push_back(index);
            }
            return Ok(());
        }
        connection.write(&self.registry, Token(index))
    }
}

/// The cipher in the reply; empty for none.
fn cipher(reply: &Reply<'_>) -> String {
    let Reply::Rows(rows) = reply else { return String::new() };
    let row = rows.decode().ok().and_then(|rows| rows.into_iter().next());
    row.and_then(|row| row.0.get(1).map(ToString::to_string)).unwrap_or_default()
}
