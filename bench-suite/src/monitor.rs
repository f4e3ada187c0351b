//! What the main thread watches while the threads work: intervals, interruption, and whether the server is still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Message;
use model::message::Interval;

use crate::engine::{Engine, Progress};
use crate::output::Output;

const NS_PER_S: f64 = 1e9;
/// With nobody listening and no connection up there is nothing to wait for beyond this.
const GONE_PATIENCE_NS: u64 = 1_000_000_000;

/// Watches one job.
pub struct Monitor<'a> {
    output: &'a mut Output,
    interrupted: &'a Arc<AtomicBool>,
    connections: u32,
    reply_timeout_ns: u64,
    /// Nanoseconds between interval messages; `None` in the warm-up.
    interval_ns: Option<u64>,
    start_ns: u64,
    deadline_ns: u64,
    last: Progress,
    last_ns: u64,
    next_ns: u64,
    /// When operations last completed: a silent server answers none.
    progress_ns: u64,
    seen: u64,
    down_since_ns: Option<u64>,
    outages_ns: u64,
    lost: Option<String>,
}

/// What is to be watched.
pub struct Watch<'a> {
    /// Where intervals go.
    pub output: &'a mut Output,
    /// Whether the user wants the run to end.
    pub interrupted: &'a Arc<AtomicBool>,
    /// Connections of the load.
    pub connections: u32,
    /// How long a server may be silent, in nanoseconds.
    pub reply_timeout_ns: u64,
    /// Seconds between intervals; `None`: none are written.
    pub interval_s: Option<f64>,
    /// When the job began, by the engine's clock.
    pub start_ns: u64,
    /// When it is to end.
    pub deadline_ns: u64,
}

impl<'a> Monitor<'a> {
    /// Begins to watch.
    pub fn new(watch: Watch<'a>) -> Self {
        let interval_ns = watch.interval_s.map(|s| ((s * NS_PER_S) as u64).max(1));
        Monitor {
            output: watch.output,
            interrupted: watch.interrupted,
            connections: watch.connections,
            reply_timeout_ns: watch.reply_timeout_ns,
            interval_ns,
            next_ns: watch.start_ns + interval_ns.unwrap_or(0),
            deadline_ns: watch.deadline_ns,
            start_ns: watch.start_ns,
            last: Progress::default(),
            last_ns: watch.start_ns,
            progress_ns: watch.start_ns,
            seen: 0,
            down_since_ns: None,
            outages_ns: 0,
            lost: None,
        }
    }

    /// To be called all the while.
    pub fn tick(&mut self, engine: &Engine) {
        if self.interrupted.load(Ordering::Relaxed) {
            engine.stop();
        }
        let now = engine.clock().now_ns();
        let progress = engine.progress();
        self.watch_server(engine, progress, now);
        if let Some(every) = self.interval_ns
            && now >= self.next_ns
            && now.abs_diff(self.deadline_ns) > every / 10
        {
            // Close to the end the last interval follows at once: one long one, not a short one behind.
            self.interval(progress, now);
            self.next_ns += every * ((now - self.next_ns) / every + 1);
        }
    }

    /// Writes what remains since the last interval, once the job has ended.
    pub fn last_interval(&mut self, engine: &Engine, now: u64) {
        if self.interval_ns.is_some() && now > self.last_ns {
            self.interval(engine.progress(), now);
        }
    }

    /// Why the server counts as lost, if it does.
    pub fn server_lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Seconds in which no connection was up, until `now`.
    pub fn outage_s(&self, now: u64) -> f64 {
        let current = self.down_since_ns.map_or(0, |since| now.saturating_sub(since));
        (self.outages_ns + current) as f64 / NS_PER_S
    }

    fn watch_server(&mut self, engine: &Engine, progress: Progress, now: u64) {
        let done = progress.operations + progress.errors;
        if progress.operations != self.seen {
            self.seen = progress.operations;
            self.progress_ns = now;
        }
        if progress.up > 0 {
            if let Some(since) = self.down_since_ns.take() {
                self.outages_ns += now - since;
            }
            return;
        }
        let since = *self.down_since_ns.get_or_insert(now);
        let refused = progress.refused == self.connections;
        // Connections that were silent until they were given up: the silence began before.
        let (since, patience, why) = match refused {
            true => (since, GONE_PATIENCE_NS, "nobody listens there any more"),
            false => (since.min(self.progress_ns), self.reply_timeout_ns, "no reply"),
        };
        let silence = now.saturating_sub(since);
        if silence >= patience.min(self.reply_timeout_ns) && self.lost.is_none() {
            let seconds = silence as f64 / NS_PER_S;
            self.lost = Some(format!(
                "server lost after {done} operations: no connection is up, {why} for {seconds:.1} s; \
                 its error log may say more"
            ));
            engine.stop();
        }
    }

    fn interval(&mut self, progress: Progress, now: u64) {
        let operations = progress.operations.saturating_sub(self.last.operations);
        let seconds = (now - self.last_ns) as f64 / NS_PER_S;
        self.output.say(&Message::Interval(Interval {
            elapsed_s: (now - self.start_ns) as f64 / NS_PER_S,
            operations,
            errors: progress.errors.saturating_sub(self.last.errors),
            throughput_per_s: operations as f64 / seconds,
            connections_up: progress.up,
        }));
        self.last = progress;
        self.last_ns = now;
    }
}
