//! What a thread lets others see while it works: plain stores to its own cache lines, never read-modify-write.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// One thread's progress. A cache line has 128 bytes on POWER.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    operations: AtomicU64,
    errors: AtomicU64,
    up: AtomicU32,
    refused: AtomicU32,
}

/// What counters say, of one thread or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operations that succeeded in this job.
    pub operations: u64,
    /// Operations that failed in this job.
    pub errors: u64,
    /// Connections that are up.
    pub up: u32,
    /// Connections that are down because nobody listened when they were last tried.
    pub refused: u32,
}

impl Counters {
    /// Operations that succeeded so far.
    #[inline]
    pub fn set_operations(&self, count: u64) {
        self.operations.store(count, Relaxed);
    }

    /// Operations that failed so far.
    pub fn set_errors(&self, count: u64) {
        self.errors.store(count, Relaxed);
    }

    /// Connections that are up.
    pub fn set_up(&self, count: u32) {
        self.up.store(count, Relaxed);
    }

    /// Connections that were refused.
    pub fn set_refused(&self, count: u32) {
        self.refused.store(count, Relaxed);
    }

    /// Adds this thread's progress to `total`.
    pub fn add_to(&self, total: &mut Progress) {
        total.operations += self.operations.load(Relaxed);
        total.errors += self.errors.load(Relaxed);
        total.up += self.up.load(Relaxed);
        total.refused += self.refused.load(Relaxed);
    }
}
