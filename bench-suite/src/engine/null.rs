//! The null back-end: each operation is chosen, encoded, recorded and counted, and nobody answers. What
//! remains is what the harness itself costs.

use std::hint::black_box;
use std::time::Duration;

use super::{Context, Job, Report, Worker};

/// A thread's share of the loops.
pub struct NullWorker {
    context: Context,
    packet: Vec<u8>,
    /// What a server might have called them.
    statements: Vec<u32>,
}

impl NullWorker {
    /// A worker that nobody answers.
    pub fn new(context: Context) -> Self {
        context.counters.set_up(context.width);
        let statements = (1..=context.workload.statements().len() as u32).collect();
        NullWorker { context, packet: Vec::with_capacity(256), statements }
    }
}

impl Worker for NullWorker {
    fn perform(&mut self, job: &Job) -> Report {
        let context = &mut self.context;
        context.begin(job);
        let mut now = context.clock.now_ns();
        while context.running {
            let Some(due) = context.next_operation(now) else {
                let next = context.peek(now).map_or(now, |due| due.due_ns.min(context.deadline_ns));
                std::thread::sleep(Duration::from_nanos(next - now));
                now = context.clock.now_ns();
                continue;
            };
            for step in 0..context.commands {
                self.packet.clear();
                self.packet.extend_from_slice(&[0; 4]);
                context.workload.encode(due.number, step, &self.statements, &mut self.packet);
                let length = (self.packet.len() - 4) as u32;
                self.packet[..3].copy_from_slice(&length.to_le_bytes()[..3]);
                black_box(&self.packet);
            }
            context.questions += u64::from(context.commands);
            let end = context.clock.now_ns();
            context.succeeded(end, due.due_ns, now);
            now = end;
        }
        let mut report = context.report();
        report.up = context.width;
        report
    }
}
