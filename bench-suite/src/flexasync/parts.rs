//! What the phases measured, summed up over the loops.

use model::message::{CpuTime, EndedBy, Measurement};

use super::worker::Outcome;
use crate::engine::Recorder;

/// The phases of a loop by their names, in their order.
pub const NAMES: [&str; 5] = ["insert", "read", "update", "read-updated", "delete"];

/// One phase, over all loops and threads.
#[derive(Default)]
pub struct Part {
    recorder: Recorder,
    elapsed_s: f64,
    client_cpu: (f64, f64),
    server_cpu: Option<(f64, f64)>,
}

/// What a phase took.
pub struct Cost {
    /// Seconds on the clock.
    pub elapsed_s: f64,
    /// CPU time of this process.
    pub client: Option<CpuTime>,
    /// CPU time of the data nodes; `None` where it cannot be read.
    pub server: Option<CpuTime>,
}

impl Part {
    /// Adds what a phase came to.
    pub fn add(&mut self, outcomes: &[Outcome], cost: &Cost) {
        outcomes.iter().for_each(|outcome| self.recorder.merge(&outcome.recorder));
        self.elapsed_s += cost.elapsed_s;
        if let Some(cpu) = cost.client {
            self.client_cpu = (self.client_cpu.0 + cpu.user_s, self.client_cpu.1 + cpu.system_s);
        }
        if let Some(cpu) = cost.server {
            let (user, system) = self.server_cpu.unwrap_or_default();
            self.server_cpu = Some((user + cpu.user_s, system + cpu.system_s));
        }
    }

    /// Adds another phase's sums.
    pub fn merge(&mut self, other: &Part) {
        self.recorder.merge(&other.recorder);
        self.elapsed_s += other.elapsed_s;
        self.client_cpu = (self.client_cpu.0 + other.client_cpu.0, self.client_cpu.1 + other.client_cpu.1);
        if let Some((user, system)) = other.server_cpu {
            let sum = self.server_cpu.unwrap_or_default();
            self.server_cpu = Some((sum.0 + user, sum.1 + system));
        }
    }

    /// Operations that succeeded.
    pub fn operations(&self) -> u64 {
        self.recorder.operations()
    }

    /// Rows that were read and were not what had been written.
    pub fn wrong(&self) -> u64 {
        self.recorder.errors_of(crate::engine::ErrorCode::WrongAnswer)
    }

    /// Failed operations, as a caveat lists them; `None`: there were none.
    pub fn failures(&self) -> Option<String> {
        let list: Vec<String> =
            self.recorder.errors().iter().map(|(code, count)| format!("{count} × {code}")).collect();
        (!list.is_empty()).then(|| list.join(", "))
    }

    /// The measurement, as the host keeps it; `None` where nothing was tried.
    pub fn measurement(&self, threads: u32, ended_by: EndedBy) -> Option<Measurement> {
        let (operations, failed) = (self.recorder.operations(), self.recorder.error_count());
        if operations + failed == 0 || self.elapsed_s <= 0.0 {
            return None;
        }
        let cpu = |(user_s, system_s)| CpuTime { user_s, system_s };
        Some(Measurement {
            transport: "ndb".into(),
            authentication: None,
            tls_cipher: None,
            connections: threads,
            connections_up_at_start: threads,
            connections_up_at_end: threads,
            threads,
            elapsed_s: self.elapsed_s,
            operations,
            throughput_per_s: (operations > 0).then(|| operations as f64 / self.elapsed_s),
            latency: self.recorder.latency(),
            open_loop: None,
            client_cpu: cpu(self.client_cpu),
            server_cpu: self.server_cpu.map(cpu),
            server_questions: None,
            client_questions: operations + failed,
            errors: self.recorder.errors(),
            retries: self.recorder.retries(),
            ended_by,
        })
    }
}
