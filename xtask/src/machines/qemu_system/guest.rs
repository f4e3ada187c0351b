//! A guest from its first instruction until programs can be run in it, and to its end.

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use super::boot::{self, Plan, Ports, Started};
use super::console::{Console, Stage};
use super::folder::Folder;
use crate::failure::{Failure, Kind};
use crate::process::{self, Guarded, TICK};
use crate::{interrupt, ui};

/// How long each stage may take, after the one before, on a host that is not busy.
const LIMITS: [(Stage, Duration); 4] = [
    (Stage::Firmware, Duration::from_secs(30)),
    (Stage::Kernel, Duration::from_secs(60)),
    (Stage::Init, Duration::from_secs(60)),
    (Stage::Agent, Duration::from_secs(60)),
];
/// How long it takes until the kernel is reached on such a host: later limits grow with what it really took.
const UNTIL_KERNEL: Duration = Duration::from_secs(8);
/// How long a guest may take to end in order.
const ENDED: Duration = Duration::from_secs(30);
/// How often other ports are tried where somebody was faster.
const PORTS_TRIED: u32 = 3;

/// A running guest. Dropped, it is gone.
pub struct Guest {
    process: Guarded,
    console: Arc<Mutex<Console>>,
    reader: Option<JoinHandle<()>>,
    log: PathBuf,
    ports: Ports,
    token: String,
    nonce: String,
    memory_mib: u32,
    slowness: f64,
    started: SystemTime,
    // Last, so that the folder outlives the process.
    _folder: Folder,
}

impl Guest {
    /// Boots it; returns when its agent listens.
    pub fn boot(plan: &Plan) -> Result<Self> {
        let mut tried = 1;
        loop {
            let mut guest = Self::start(plan)?;
            let Err(error) = guest.follow(plan) else { return Ok(guest) };
            // The ports were free a moment ago.
            if tried == PORTS_TRIED || !guest.emulator_said("Could not set up host forwarding rule") {
                return Err(error);
            }
            tried += 1;
        }
    }

    /// Where the agent is reached.
    pub fn agent(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.agent))
    }

    /// Where the server's port is reached.
    pub fn server(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.server))
    }

    /// What a relay must know.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What its first process told of it.
    pub fn fact(&self, name: &str) -> Option<String> {
        self.console().fact(name).map(String::from)
    }

    /// Seconds that its clock is ahead of this host's, which it tells in whole seconds; `None`: it did not tell.
    pub fn clock_ahead_s(&self) -> Option<f64> {
        let console = self.console();
        let there: f64 = console.fact("time")?.parse().ok()?;
        let here = (self.started + console.facts_at()).duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        // What it cut off is half a second on average.
        Some(there + 0.5 - here)
    }

    /// When each stage was reached, for people.
    pub fn times(&self) -> String {
        let console = self.console();
        let at = |stage: Stage| Some((stage.name(), console.reached(stage)?));
        let told = Stage::ALL.into_iter().filter_map(at);
        told.map(|(name, at)| format!("{name} {}", ui::duration(at))).collect::<Vec<_>>().join(", ")
    }

    /// Why it is gone, or cannot be trusted any more; `None` while it lives.
    pub fn lost(&mut self) -> Result<Option<Failure>> {
        let ended = self.ended()?;
        if let Some(failure) = self.trouble() {
            return Ok(Some(failure));
        }
        Ok(ended.map(|status| {
            let what = format!("the guest ended in mid-run: {}", self.how_it_ended(status));
            self.failure(what).next("read the console's last lines; then run it again")
        }))
    }

    /// Ends it in order. What it does not say is not known, and an error.
    pub fn stop(mut self) -> Result<()> {
        if let Some(mut console) = self.process.take_stdin() {
            // It may be gone already: then it has said how, or not.
            let _ = console.write_all(format!("stop {}\n", self.nonce).as_bytes());
            self.process.wait(ENDED.mul_f64(self.slowness))?;
        }
        self.ended()?;
        if let Some(failure) = self.trouble() {
            return Err(failure.into());
        }
        let exit = self.console().exit();
        let what = match exit {
            Some(0) => return Ok(()),
            Some(code) => format!("the guest's agent ended with exit code {code}"),
            None => "the guest did not say how its agent ended: that is not known".into(),
        };
        Err(self.failure(what).next("read the console's last lines").into())
    }

    fn start(plan: &Plan) -> Result<Self> {
        let Started { process, output, ports, nonce, token, folder } = boot::start(plan)?;
        let console = Arc::new(Mutex::new(Console::new(&nonce, plan.table.firmware.as_deref())));
        let reader = follow_console(output, process::append(&plan.log)?, console.clone());
        Ok(Guest {
            process,
            console,
            reader: Some(reader),
            log: plan.log.clone(),
            ports,
            token,
            nonce,
            memory_mib: plan.table.memory_mib,
            slowness: 1.0,
            started: SystemTime::now(),
            _folder: folder,
        })
    }

    /// Waits until the agent listens, a limit for each stage.
    fn follow(&mut self, plan: &Plan) -> Result<()> {
        let begun = Instant::now();
        let mut since = Duration::ZERO;
        for (stage, limit) in LIMITS {
            if stage == Stage::Firmware && plan.table.firmware.is_none() {
                continue;
            }
            let limit = limit.mul_f64(self.slowness);
            since = self.until(plan, stage, limit, begun, since + limit)?;
            if stage == Stage::Kernel {
                self.slowness = (since.as_secs_f64() / UNTIL_KERNEL.as_secs_f64()).max(1.0);
            }
        }
        Ok(())
    }

    /// Waits for one stage; when it was reached.
    fn until(
        &mut self,
        plan: &Plan,
        stage: Stage,
        limit: Duration,
        begun: Instant,
        end: Duration,
    ) -> Result<Duration> {
        loop {
            interrupt::check()?;
            let ended = self.ended()?;
            if let Some(failure) = self.trouble() {
                return Err(failure.into());
            }
            if let Some(at) = self.console().reached(stage) {
                return Ok(at);
            }
            if let Some(status) = ended {
                let how = self.how_it_ended(status);
                let what = format!("the guest ended before it reached {}: {how}", stage.name());
                let next = match plan.parts.kernel.page_kib {
                    _ if how.contains("emory") => "choose another --guest-memory-mib: the emulator says why",
                    Some(_) => READ,
                    None => "leave --guest-kernel out, or give one that the emulator can load",
                };
                return Err(self.failure(what).next(next).into());
            }
            if begun.elapsed() > end {
                return Err(self.late(plan, stage, limit).into());
            }
            std::thread::sleep(TICK);
        }
    }

    fn late(&self, plan: &Plan, stage: Stage, limit: Duration) -> Failure {
        let (console, usual) = (&plan.table.console, plan.usual_console);
        let machine = &plan.table.machine;
        let mut what = format!("the guest did not reach {} within {}", stage.name(), ui::duration(limit));
        let silent = self.console().is_silent();
        if silent {
            what += &format!("\n  nothing at all came on its console {console}");
        }
        what += &format!("\n  expected on the console {console}: `{}`", self.expected(plan, stage));
        let next = match (console == usual, silent) {
            (false, _) => format!("leave --guest-console out: {machine} has its console at {usual}"),
            (true, true) => format!("look whether the kernel is one for {machine} with a console {console}"),
            (true, false) => "read the console's last lines; look for what else uses the CPUs".into(),
        };
        self.failure(what).next(next)
    }

    fn expected(&self, plan: &Plan, stage: Stage) -> String {
        match stage {
            Stage::Firmware => plan.table.firmware.clone().unwrap_or_default(),
            Stage::Kernel => "Linux version".into(),
            Stage::Init | Stage::Agent => format!("portbench {} {}", self.nonce, stage.name()),
        }
    }

    /// What the console tells that went wrong.
    fn trouble(&self) -> Option<Failure> {
        let trouble = self.console().trouble().cloned()?;
        let next = if trouble.memory { self.more_memory() } else { READ.into() };
        Some(self.failure(trouble.what).next(next))
    }

    fn more_memory(&self) -> String {
        format!("give it more memory than {} MiB: --guest-memory-mib", self.memory_mib)
    }

    fn failure(&self, what: String) -> Failure {
        let last = self.console().last_line();
        // The emulator's own last word may have been told already.
        let what = if last.is_empty() || what.contains(&last) {
            what
        } else {
            format!("{what}\n  last console line: {last}")
        };
        Failure::new(Kind::GuestFailed, what).log(&self.log)
    }

    fn how_it_ended(&self, status: ExitStatus) -> String {
        let how = process::ending(status);
        // The emulator's own complaint stands among the guest's words.
        let own =
            process::tail(&self.log, 20).lines().rev().find(|line| is_emulators(line)).map(String::from);
        own.map_or(how.clone(), |line| format!("{how}\n  {line}"))
    }

    fn emulator_said(&self, words: &str) -> bool {
        process::tail(&self.log, 20).lines().any(|line| is_emulators(line) && line.contains(words))
    }

    /// The emulator's end, if it has ended; then all that it said has been read.
    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let ended = self.process.ended()?;
        if ended.is_some()
            && let Some(reader) = self.reader.take()
        {
            let _ = reader.join();
        }
        Ok(ended)
    }

    fn console(&self) -> MutexGuard<'_, Console> {
        self.console.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

const READ: &str = "read the console's last lines";

/// Whether a line of the log is the emulator's own: it begins with its name, but for the command in the first line.
fn is_emulators(line: &str) -> bool {
    line.starts_with("qemu")
}

/// Everything that comes goes to the log, and into what is known of the console.
fn follow_console(mut from: PipeReader, mut log: File, console: Arc<Mutex<Console>>) -> JoinHandle<()> {
    let begun = Instant::now();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length) = from.read(&mut chunk) {
            if length == 0 {
                return;
            }
            // A full disk must not block the guest: what is read is understood all the same.
            let _ = log.write_all(&chunk[..length]);
            let mut console = console.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            console.feed(&chunk[..length], begun.elapsed());
        }
    })
}
