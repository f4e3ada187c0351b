//! The timed part: CPU time and the server's own counter around it, and what became of it all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::message::{CaveatKind, CpuTime, EndedBy, FailedKind, Measurement, OpenLoop};
use model::request::Arrival;

use crate::control::{Control, ControlError};
use crate::cpu::{self, Shared};
use crate::engine::{Engine, ErrorCode, Job, Recorder, Report, Run};
use crate::failure::Failure;
use crate::monitor::Monitor;
use crate::run::{Session, after, list};

/// Longest wait for one last answer once the user wants the run to end.
const AFTER_INTERRUPT: Duration = Duration::from_secs(2);

/// What the timed part gave.
pub struct Timed {
    report: Report,
    connections: u32,
    arrival: Arrival,
    threads: u32,
    up_at_start: u32,
    elapsed_s: f64,
    ended_by: EndedBy,
    outage_s: f64,
    client_cpu: Option<CpuTime>,
    /// `Err` where it cannot be read.
    server_cpu: Result<CpuTime, &'static str>,
    /// `None` where there is no server here, or it cannot be read.
    shared: Option<Shared>,
    has_server: bool,
    /// The server's count, and how it was restarted or lost in between.
    server_questions: Result<u64, String>,
    /// Why the server counts as lost, if it does.
    pub failure: Option<String>,
}

/// Does the timed part and waits until nothing is in flight.
pub fn timed(
    session: &mut Session<'_>,
    engine: &Engine,
    mut control: Option<&mut Control>,
    server_pid: Option<u32>,
) -> Result<Timed, Failure> {
    let load = session.request.load.clone();
    let questions_before = match &mut control {
        Some(control) => Some(
            questions(control)
                .map_err(|e| e.into_failure("reading the server's Questions", FailedKind::ServerLost))?,
        ),
        None => None,
    };
    // Before it: a server that ends in between has no CPUs any more.
    let shared = server_pid.and_then(cpu::shared_with);
    let server_cpu_before = server_pid.and_then(cpu::of_process);
    let client_cpu_before = cpu::own();
    let up_at_start = engine.progress().up;
    let start_ns = engine.clock().now_ns();
    let deadline_ns = after(start_ns, load.duration_s);
    let run = Run { base: 0, limit: load.operations, start_ns, deadline_ns };
    let mut monitor = Monitor::new(session.watch(start_ns, load.duration_s, Some(load.interval_s)));
    let report = engine.perform(&Job::Run(run), &mut |engine| monitor.tick(engine))?;
    let client_cpu_after = cpu::own();
    let server_cpu_after = server_pid.and_then(cpu::of_process);
    monitor.last_interval(engine, report.ended_ns);
    let mut failure = monitor.server_lost().map(ToString::to_string);
    let outage_s = monitor.outage_s(report.ended_ns);
    let interrupted = session.interrupted.load(Ordering::Relaxed);
    let server_questions = match (control, questions_before) {
        (Some(control), Some(before)) if failure.is_none() => {
            asked_since(control, &before, interrupted, &mut failure)
        }
        _ => Err("not read, the server is gone".into()),
    };
    Ok(Timed {
        connections: load.connections,
        arrival: load.arrival,
        threads: session.threads,
        up_at_start,
        elapsed_s: report.ended_ns.saturating_sub(start_ns) as f64 / 1e9,
        ended_by: match () {
            () if failure.is_some() => EndedBy::ServerLost,
            () if report.exhausted => EndedBy::Operations,
            () if interrupted => EndedBy::Interrupted,
            () => EndedBy::Duration,
        },
        outage_s,
        client_cpu: client_cpu_before.zip(client_cpu_after).map(|(b, a)| cpu::difference(b, a)),
        server_cpu: match (server_pid, server_cpu_before.zip(server_cpu_after)) {
            (None, _) => Err("the request names no server_pid"),
            (Some(_), None) => Err("the server's /proc/PID/stat cannot be read"),
            (Some(_), Some((before, after))) => Ok(cpu::difference(before, after)),
        },
        shared,
        has_server: is_a_server(session),
        server_questions,
        failure,
        report,
    })
}

/// The server's `Questions`, with how many of them were the control connection's.
struct Asked {
    server: u64,
    control: u64,
}

fn questions(control: &mut Control) -> Result<Asked, ControlError> {
    // The query counts itself.
    let row = control.query("SHOW GLOBAL STATUS LIKE 'Questions'")?.concat();
    let server = row.get(1).and_then(|value| value.parse().ok()).unwrap_or(0);
    Ok(Asked { server, control: control.questions() })
}

/// What others than the control connection asked since `before`. A server that is gone is a failure, one
/// that was restarted has a new counter.
fn asked_since(
    control: &mut Control,
    before: &Asked,
    interrupted: bool,
    failure: &mut Option<String>,
) -> Result<u64, String> {
    if interrupted {
        control.ignore_interrupts(AFTER_INTERRUPT);
    }
    let error = match questions(control) {
        Ok(after) => {
            let own = after.control - before.control;
            let asked = after.server.checked_sub(before.server).and_then(|n| n.checked_sub(own));
            return asked.ok_or_else(|| "the server's counter went backwards".to_string());
        }
        Err(error) => error.to_string(),
    };
    if interrupted {
        return Err(error);
    }
    match control.reconnect() {
        Ok(()) => Err(format!("the control connection was lost in the run ({error})")),
        Err(gone) => {
            *failure = Some(format!("the server went away in the timed part: {gone}"));
            Err(error)
        }
    }
}

impl Timed {
    /// Operations whose replies were well formed and wrong.
    pub fn wrong_answers(&self) -> u64 {
        self.report.recorder.errors_of(ErrorCode::WrongAnswer)
    }

    /// What a reader of the result must know.
    pub fn caveats(&self) -> Vec<(CaveatKind, String)> {
        let mut caveats = Vec::new();
        let errors = self.report.recorder.error_count();
        if errors > 0 {
            let list: Vec<String> = self
                .report
                .recorder
                .errors()
                .iter()
                .map(|(code, count)| format!("{count} × {code}"))
                .collect();
            caveats.push((CaveatKind::Errors, format!("operations failed: {}", list.join(", "))));
        }
        if self.report.lost > 0 || self.report.up < self.connections {
            caveats.push((CaveatKind::ConnectionsLost, self.losses()));
        }
        if self.ended_by == EndedBy::Interrupted {
            let detail = format!("interrupted after {:.1} s of the timed part", self.elapsed_s);
            caveats.push((CaveatKind::Interrupted, detail));
        }
        if let (Some(rate), true) = (self.arrival.rate_per_s(), self.is_behind()) {
            let detail = format!(
                "of {rate} operations a second {:.0} were done; {} were due and not sent at the end",
                self.report.recorder.operations() as f64 / self.elapsed_s,
                self.report.unsent
            );
            caveats.push((CaveatKind::RateNotReached, detail));
        }
        if self.client_cpu.is_none() {
            caveats.push((CaveatKind::NotChecked, "the client's CPU time cannot be read".into()));
        }
        if self.has_server {
            self.server_caveats(&mut caveats);
        }
        caveats
    }

    /// Whether more than one in a hundred operations that were due was never sent.
    fn is_behind(&self) -> bool {
        self.report.unsent > (self.report.sent + self.report.unsent) / 100
    }

    fn losses(&self) -> String {
        format!(
            "connections were lost {} times, {} of {} are up at the end, none was up for {:.1} s; causes: {}",
            self.report.lost,
            self.report.up,
            self.connections,
            self.outage_s,
            list(&self.report.causes)
        )
    }

    fn server_caveats(&self, caveats: &mut Vec<(CaveatKind, String)>) {
        match &self.server_questions {
            Ok(server) if *server == self.report.questions => {}
            Ok(server) => caveats.push((
                CaveatKind::CountDiffers,
                format!("the server counted {server} questions, the client sent {}", self.report.questions),
            )),
            Err(why) => caveats.push((CaveatKind::NotChecked, format!("server's Questions: {why}"))),
        }
        if let Err(why) = self.server_cpu {
            caveats.push((CaveatKind::NotChecked, format!("server's CPU time: {why}")));
        }
        let detail = match self.shared {
            Some(Shared::Cpus) => "client and server may run on the same CPUs",
            Some(Shared::Cores) => "client and server run on different threads of the same cores",
            Some(Shared::Nothing) | None => return,
        };
        caveats.push((CaveatKind::SharedCpus, detail.into()));
    }

    /// The measurement, as the host keeps it.
    pub fn into_measurement(self, opened: &Report, transport: &str) -> Measurement {
        let operations = self.report.recorder.operations();
        Measurement {
            transport: transport.into(),
            authentication: opened.plugin.clone(),
            tls_cipher: opened.cipher.clone().filter(|cipher| !cipher.is_empty()),
            connections: self.connections,
            connections_up_at_start: self.up_at_start,
            connections_up_at_end: self.report.up,
            threads: self.threads,
            elapsed_s: self.elapsed_s,
            operations,
            throughput_per_s: (operations > 0).then(|| operations as f64 / self.elapsed_s),
            latency: self.report.recorder.latency(),
            open_loop: self.arrival.rate_per_s().map(|target_rate_per_s| {
                Box::new(OpenLoop {
                    target_rate_per_s,
                    service: self.report.service.as_ref().and_then(Recorder::latency),
                    backlog_max: self.report.backlog_max,
                    unsent: self.report.unsent,
                })
            }),
            client_cpu: self.client_cpu.unwrap_or(CpuTime { user_s: 0.0, system_s: 0.0 }),
            server_cpu: self.server_cpu.ok(),
            server_questions: self.server_questions.ok(),
            client_questions: self.report.questions,
            errors: self.report.recorder.errors(),
            retries: self.report.recorder.retries(),
            ended_by: self.ended_by,
        }
    }
}

fn is_a_server(session: &Session<'_>) -> bool {
    !matches!(session.request.backend, model::request::Backend::Null)
}
