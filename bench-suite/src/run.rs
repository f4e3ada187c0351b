//! One run: its phases in their order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::message::{CaveatKind, DataCheck, EndedBy, FailedKind, Measurement, Phase};
use model::{Message, Request, request};

use crate::control::{Control, Server};
use crate::engine::{Backend, Engine, Job, Report, Run, WARMUP_BASE};
use crate::failure::Failure;
use crate::measure::{self, Timed};
use crate::monitor::{Monitor, Watch};
use crate::output::{self, Output};
use crate::workloads::{self, Workload};
use crate::{flexasync, preflight, transport};

/// A run in progress.
pub struct Session<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// Where messages go.
    pub output: &'a mut Output,
    /// Whether the user wants it to end.
    pub interrupted: &'a Arc<AtomicBool>,
    /// Client threads.
    pub threads: u32,
    /// What is done.
    pub workload: Arc<dyn Workload>,
}

/// Does what was asked for.
pub fn run(
    request: &Request,
    output: &mut Output,
    interrupted: &Arc<AtomicBool>,
) -> Result<Measurement, Failure> {
    if let request::Workload::Flexasync(workload) = &request.workload {
        return flexasync::run(request, workload, output, interrupted);
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let load = &request.load;
    let mut session = Session {
        request,
        output,
        interrupted,
        threads: load.threads.unwrap_or(cores.min(load.connections)),
        workload: workloads::make(&request.workload, load.seed)?,
    };
    match &request.backend {
        request::Backend::Null => session.against_null(),
        request::Backend::Server { endpoint, account, server_pid } => {
            let server = Server {
                endpoint: endpoint.clone(),
                account: account.clone(),
                reply_timeout: Duration::from_secs_f64(load.reply_timeout_s),
            };
            session.against_server(&server, *server_pid)
        }
        request::Backend::Ndb { .. } => Err(workloads::needs_sql(&request.workload)),
    }
}

impl Session<'_> {
    fn against_null(&mut self) -> Result<Measurement, Failure> {
        let engine = self.engine(&Backend::Null)?;
        self.warm_up(&engine)?;
        let timed = self.timed(&engine, None, None)?;
        something(self.finish(timed, &Report::default(), "none").0)
    }

    fn against_server(&mut self, server: &Server, server_pid: Option<u32>) -> Result<Measurement, Failure> {
        let (mut control, engine, opened) = self.connect(server)?;
        self.output.phase(Phase::Prepare);
        self.workload.prepare(&mut control)?;
        self.verify(Phase::VerifyBefore, &mut control)?;
        self.arm(&engine)?;
        self.warm_up(&engine)?;
        let timed = self.timed(&engine, Some(&mut control), server_pid)?;
        let failure = timed.failure.clone();
        let (measurement, wrong) = self.finish(timed, &opened, server.endpoint.transport());
        if let Some(detail) = failure {
            return Err(Failure::new(FailedKind::ServerLost, detail).with_partial(measurement));
        }
        let measurement = something(measurement)?;
        if measurement.ended_by == EndedBy::Interrupted {
            let detail = "the data was not checked after the timed part, which was interrupted";
            self.output.caveat(CaveatKind::NotChecked, detail);
        } else if let Err(mut failure) = self.verify(Phase::VerifyAfter, &mut control) {
            if failure.kind == FailedKind::Interrupted {
                failure.detail = "interrupted while the data was checked after the timed part".into();
            }
            return Err(failure.with_partial(measurement));
        }
        match wrong {
            0 => Ok(measurement),
            _ => {
                let detail = format!("{wrong} operations were answered with wrong data");
                Err(Failure::new(FailedKind::WrongData, detail).with_partial(measurement))
            }
        }
    }

    fn engine(&self, backend: &Backend) -> Result<Engine, Failure> {
        Engine::start(backend, &self.workload, &self.request.load, self.threads)
    }

    /// Logs in with all connections, after computing that it can work.
    fn connect(&mut self, server: &Server) -> Result<(Control, Engine, Report), Failure> {
        self.output.phase(Phase::Connect);
        let connections = self.request.load.connections;
        preflight::raise_file_limit(connections, self.threads)?;
        let mut control = Control::connect(server, self.interrupted)?;
        let place = transport::describe(&server.endpoint);
        output::for_people(&format!("connected to {place} ({})", control.server_version()));
        let statements = self.workload.statements().len() as u64;
        preflight::check_server(&mut control, connections, statements)?;
        let engine = self.engine(&Backend::Server(server.clone()))?;
        let opened = engine.perform(&Job::Open, &mut |engine| self.stop_if_interrupted(engine))?;
        self.all_up(&opened, &place)?;
        Ok((control, engine, opened))
    }

    fn all_up(&self, report: &Report, place: &str) -> Result<(), Failure> {
        let connections = self.request.load.connections;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        if report.up == connections {
            return Ok(());
        }
        let causes = list(&report.causes);
        let full = ["error 1040", "error 1203", "error 1226"].iter().any(|e| causes.contains(e));
        let kind = if full { FailedKind::Limit } else { FailedKind::CannotConnect };
        let detail = format!("{} of {connections} connected to {place}; the rest: {causes}", report.up);
        Err(Failure::new(kind, detail))
    }

    fn stop_if_interrupted(&self, engine: &Engine) {
        if self.interrupted.load(Ordering::Relaxed) {
            engine.stop();
        }
    }

    fn arm(&mut self, engine: &Engine) -> Result<(), Failure> {
        if self.workload.statements().is_empty() {
            return Ok(());
        }
        let armed = engine.perform(&Job::Arm, &mut |engine| self.stop_if_interrupted(engine))?;
        self.all_up(&armed, "the server and prepared its statements")
    }

    fn verify(&mut self, phase: Phase, control: &mut Control) -> Result<(), Failure> {
        self.output.phase(phase);
        let checks = self.workload.verify(control)?;
        self.output.say(&Message::Verified { phase, checks: checks.clone() });
        let wrong: Vec<&DataCheck> = checks.iter().filter(|check| !check.passed()).collect();
        match wrong.first() {
            None => Ok(()),
            Some(first) => {
                let detail = format!(
                    "{} of {} checks of the data failed, the first: {}: expected {}, found {}; to load \
                     the data anew run: DROP DATABASE portbench",
                    wrong.len(),
                    checks.len(),
                    first.check,
                    first.expected,
                    first.found
                );
                Err(Failure::new(FailedKind::WrongData, detail))
            }
        }
    }

    fn warm_up(&mut self, engine: &Engine) -> Result<(), Failure> {
        let warmup_s = self.request.load.warmup_s;
        if warmup_s <= 0.0 {
            return Ok(());
        }
        self.output.phase(Phase::Warmup);
        let start_ns = engine.clock().now_ns();
        let run = Run { base: WARMUP_BASE, limit: None, start_ns, deadline_ns: after(start_ns, warmup_s) };
        let mut monitor = Monitor::new(self.watch(start_ns, warmup_s, None));
        engine.perform(&Job::Run(run), &mut |engine| monitor.tick(engine))?;
        let lost = monitor.server_lost().map(ToString::to_string);
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        match lost {
            Some(detail) => Err(Failure::new(FailedKind::ServerLost, detail)),
            None => Ok(()),
        }
    }

    /// What the main thread watches in a job that begins at `start_ns`.
    pub fn watch(&mut self, start_ns: u64, job_s: f64, interval_s: Option<f64>) -> Watch<'_> {
        Watch {
            output: self.output,
            interrupted: self.interrupted,
            connections: self.request.load.connections,
            reply_timeout_ns: (self.request.load.reply_timeout_s * 1e9) as u64,
            interval_s,
            start_ns,
            deadline_ns: after(start_ns, job_s),
        }
    }

    fn timed(
        &mut self,
        engine: &Engine,
        control: Option<&mut Control>,
        server_pid: Option<u32>,
    ) -> Result<Timed, Failure> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        self.output.phase(Phase::Measure);
        measure::timed(self, engine, control, server_pid)
    }

    /// Caveats and the measurement, with the number of wrong answers in it.
    fn finish(&mut self, timed: Timed, opened: &Report, transport: &str) -> (Measurement, u64) {
        for (kind, detail) in timed.caveats() {
            self.output.caveat(kind, detail);
        }
        if opened.cipher.as_deref().is_some_and(|cipher| !cipher.is_empty()) {
            let detail = "the server encrypts connections that did not ask for it";
            self.output.caveat(CaveatKind::SettingDiffers, detail);
        }
        let wrong = timed.wrong_answers();
        (timed.into_measurement(opened, transport), wrong)
    }
}

/// A measurement of at least one operation that does not contradict itself.
fn something(measurement: Measurement) -> Result<Measurement, Failure> {
    if let Some(wrong) = model::check::measurement(&measurement).first() {
        let detail = format!("the measurement contradicts itself, a bug in bench-suite: {wrong}");
        return Err(Failure::new(FailedKind::Internal, detail).with_partial(measurement));
    }
    if measurement.operations > 0 || measurement.errors.contains_key("wrong-answer") {
        return Ok(measurement);
    }
    let failure = match measurement.ended_by {
        EndedBy::Interrupted => Failure::interrupted(),
        _ => Failure::new(
            FailedKind::NothingSucceeded,
            format!(
                "no operation succeeded in {:.3} s (errors: {:?}); if none failed, raise duration_s",
                measurement.elapsed_s, measurement.errors
            ),
        ),
    };
    Err(failure.with_partial(measurement))
}

/// The engine's clock `seconds` after `start_ns`.
pub fn after(start_ns: u64, seconds: f64) -> u64 {
    start_ns.saturating_add((seconds * 1e9) as u64)
}

/// Causes with their numbers, as text.
pub fn list(causes: &BTreeMap<String, u32>) -> String {
    let parts: Vec<String> = causes.iter().map(|(cause, n)| format!("{n} × {cause}")).collect();
    parts.join(", ")
}
