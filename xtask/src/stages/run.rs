//! One workload: the bench binary asked, watched, and every word of it written into the record.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::message::{Failed, FailedKind, Measurement, Phase};
use model::record::Line;
use model::request::{Backend, Request};
use model::{Message, PROTOCOL_VERSION};
use rustix::process::Signal;

use crate::failure::{Failure, Kind};
use crate::process::{self, Guarded, OnOurDeath, TICK};
use crate::stages::record::Writer;
use crate::tables::suite::Planned;
use crate::ui::Progress;
use crate::{interrupt, relay, ui};

/// What loading and checking the data may take on hardware, beyond the load itself.
const BESIDES: Duration = Duration::from_secs(60);
/// How long a client may take to say its last words after the server is gone or Ctrl-C came.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// How much later than the client the nodes of a cluster may notice that one of them does not answer.
const NOTICED: Duration = Duration::from_secs(5);

/// What a workload cannot do without.
pub trait Watched {
    /// The failure of what has ended although nobody asked it to; `None` while it lives.
    fn lost(&mut self) -> Result<Option<Failure>>;
    /// The failure of a part that lives, but answers nobody; `None` where no other part says so.
    fn silent(&mut self) -> Result<Option<Failure>> {
        Ok(None)
    }
}

/// A workload to be run.
pub struct Workload<'a> {
    /// Its place in the suite.
    pub index: u32,
    /// What and how much.
    pub planned: &'a Planned,
    /// What answers.
    pub backend: Backend,
    /// `target`, `host` or a machine's name.
    pub client: &'a str,
    /// How many times slower than hardware the client runs.
    pub slowdown: f64,
    /// The client's standard error goes there.
    pub log: &'a Path,
}

/// Runs the bench binary by `command` and returns what it measured.
pub fn run(
    workload: &Workload,
    command: Command,
    watched: &mut [&mut dyn Watched],
    record: &mut Writer,
) -> Result<Measurement> {
    let planned = workload.planned;
    record.append(&Line::Workload {
        index: workload.index,
        workload: planned.workload.clone(),
        load: planned.load.clone(),
        client: workload.client.to_string(),
        transport: match &workload.backend {
            Backend::Null => "none".into(),
            Backend::Server { endpoint, .. } => endpoint.transport().into(),
            Backend::Ndb { .. } => "ndb".into(),
        },
    })?;
    let label = planned.label();
    let of = if matches!(workload.backend, Backend::Ndb { .. }) { "thread" } else { "connection" };
    ui::step("bench", &format!("{label}, {}", ui::counted(planned.load.connections.into(), of)));
    let mut load = planned.load.clone();
    // As every limit: what answers slowly has not gone.
    load.reply_timeout_s *= workload.slowdown.max(1.0);
    let request = Request {
        protocol_version: PROTOCOL_VERSION,
        backend: workload.backend.clone(),
        workload: planned.workload.clone(),
        load,
    };
    let last = Watch { workload, label: &label }.run(command, &request, watched, record)?;
    match last {
        Message::Finished(measurement) => Ok(*measurement),
        Message::Failed(failed) => {
            let failure = failure(&failed, workload, &label);
            match failed.kind {
                FailedKind::ServerLost => Err(caused(failure, watched)?.into()),
                _ => Err(failure.into()),
            }
        }
        _ => Err(Failure::new(
            Kind::StageFailed,
            format!("{label}: the load generator ended without a result"),
        )
        .log(workload.log)
        .next("read the log")
        .into()),
    }
}

/// Why the first of them that is gone is gone.
pub fn first_lost(watched: &mut [&mut dyn Watched]) -> Result<Option<Failure>> {
    for one in watched {
        if let Some(failure) = one.lost()? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

/// Why the client lost what it talked to, where others of a cluster notice the same a moment later.
fn caused(failure: Failure, watched: &mut [&mut dyn Watched]) -> Result<Failure> {
    let until = Instant::now() + NOTICED;
    while Instant::now() < until && !interrupt::requested() {
        for one in watched.iter_mut() {
            if let Some(cause) = one.lost()?.map_or_else(|| one.silent(), |lost| Ok(Some(lost)))? {
                let what = format!("{}\nin consequence: {}", cause.what, failure.what);
                return Ok(Failure { what, ..cause });
            }
        }
        std::thread::sleep(TICK);
    }
    Ok(failure)
}

struct Watch<'a> {
    workload: &'a Workload<'a>,
    label: &'a str,
}

impl Watch<'_> {
    /// Starts the client, hands it the request, and follows it to its last message.
    fn run(
        &self,
        command: Command,
        request: &Request,
        watched: &mut [&mut dyn Watched],
        record: &mut Writer,
    ) -> Result<Message> {
        let (reader, writer) = std::io::pipe()?;
        let log = process::append(self.workload.log)?;
        let mut client = process::spawn_with(
            "the load generator",
            command,
            OnOurDeath::Kill,
            [Stdio::piped(), writer.into(), log.into()],
        )?;
        // A client that cannot even start closes the pipe: its own message below says more than EPIPE.
        if let Some(mut stdin) = client.take_stdin() {
            let _ = stdin.write_all(&serde_json::to_vec(request)?);
        }
        let lines = process::lines_of(reader);
        let load = &request.load;
        let mut progress = Progress::seconds("measure", load.duration_s.ceil() as u64);
        let mut until = Instant::now() + self.limit(request);
        let (mut told, mut lost) = (false, None);
        let mut last = None;
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => {
                    let message = self.message(&line)?;
                    if let Message::Interval(interval) = &message {
                        progress.at(interval.elapsed_s as u64, load.duration_s.ceil() as u64);
                    }
                    record.append(&Line::Message { index: self.workload.index, said: message.clone() })?;
                    last = Some(message);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::requested() && !told {
                told = true;
                client.signal(Signal::INT);
                until = until.min(Instant::now() + LAST_WORDS);
            }
            if lost.is_none() {
                lost = first_lost(watched)?;
                if lost.is_some() {
                    until = until.min(Instant::now() + LAST_WORDS);
                }
            }
            if Instant::now() > until {
                break;
            }
        }
        progress.finish();
        // The server may have gone together with the client's last words.
        if lost.is_none() {
            lost = first_lost(watched)?;
        }
        self.verdict(client, last, lost)
    }

    fn limit(&self, request: &Request) -> Duration {
        let slowdown = self.workload.slowdown.max(1.0);
        let timed = match &request.workload {
            // Its length is that of its loops, not a time.
            model::request::Workload::Flexasync(flexasync) if flexasync.loops.is_some() => {
                let loops = flexasync.loops.unwrap_or(1);
                flexasync.longest_s(loops, request.load.connections) * slowdown
            }
            _ => request.load.duration_s,
        };
        let load = request.load.warmup_s + timed + request.load.reply_timeout_s;
        Duration::from_secs_f64(load) + BESIDES.mul_f64(slowdown)
    }

    fn message(&self, line: &str) -> Result<Message> {
        serde_json::from_str(line).map_err(|error| {
            let what =
                format!("{}: the load generator said what is no message: {error}\n  | {line}", self.label);
            Failure::new(Kind::StageFailed, what)
                .log(self.workload.log)
                .next("is it of the same checkout?")
                .into()
        })
    }

    fn verdict(&self, mut client: Guarded, last: Option<Message>, lost: Option<Failure>) -> Result<Message> {
        let status = client.wait(Duration::from_secs(2))?;
        if let Some(failure) = lost {
            return Err(failure.into());
        }
        let over = matches!(last, Some(Message::Finished(_) | Message::Failed(_)));
        if over {
            return last.context("no last message");
        }
        interrupt::check()?;
        if let Some(failure) = status.and_then(|status| relay::failure(status, self.workload.log)) {
            return Err(failure.into());
        }
        let how = match status {
            Some(status) => format!("the load generator ended without a result: {}", process::ending(status)),
            None => "the load generator did not end in its time and was killed".into(),
        };
        let tail = process::indented(&process::tail(self.workload.log, 8));
        Err(Failure::new(Kind::StageFailed, format!("{}: {how}\n{tail}", self.label))
            .log(self.workload.log)
            .next("read the log; then run it again")
            .into())
    }
}

/// The client's own words, as one of our failures.
fn failure(failed: &Failed, workload: &Workload, label: &str) -> Failure {
    let kind = match failed.kind {
        FailedKind::BadRequest => Kind::Usage,
        FailedKind::WrongData => Kind::WrongData,
        FailedKind::ServerLost => Kind::ServerLost,
        FailedKind::Interrupted => Kind::Interrupted,
        FailedKind::CannotConnect
        | FailedKind::Authentication
        | FailedKind::Limit
        | FailedKind::Full
        | FailedKind::Prepare
        | FailedKind::Refused
        | FailedKind::Protocol
        | FailedKind::NothingSucceeded
        | FailedKind::Internal => Kind::StageFailed,
    };
    let phase = failed.phase.map(|phase| format!(" ({})", phase_name(phase))).unwrap_or_default();
    let next = match (failed.kind, &failed.partial) {
        (FailedKind::Limit, _) => {
            "fewer --connections, or a higher limit of the server by --server-arg=--NAME=VALUE"
        }
        (FailedKind::Full, _) => {
            "give the data nodes more memory (`data-memory` of the topology), or the suite fewer rows"
        }
        (FailedKind::Interrupted, None) => "run it again: nothing was measured yet",
        (_, Some(_)) => "the record holds what was measured until then: cargo xtask show",
        (_, None) => "read the log; then run it again",
    };
    Failure::new(kind, format!("{label}{phase}: {}", failed.detail)).log(workload.log).next(next)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Connect => "connecting",
        Phase::Prepare => "preparing the data",
        Phase::VerifyBefore => "verifying the data before timing",
        Phase::Warmup => "warming up",
        Phase::Measure => "measuring",
        Phase::VerifyAfter => "verifying the data after timing",
    }
}
