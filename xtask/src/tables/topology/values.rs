//! Values that NDB takes nowhere.

use std::ops::{Range, RangeInclusive};

use toml::Spanned;

use super::size::shown;
use super::{Initial, Size, Topology};

/// What NDB's 32-bit parameters go up to (`ConfigInfo.cpp`, as all bounds here).
const MOST: u32 = 0xffff_feff;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

impl Initial {
    /// As NDB spells it.
    pub fn name(self) -> &'static str {
        match self {
            Initial::Sparse => "SPARSE",
            Initial::Full => "FULL",
        }
    }
}

/// Says which keys have values that NDB would refuse.
pub fn problems(topology: &Topology, say: &mut impl FnMut(Range<usize>, String)) {
    for (key, value, bounds) in numbers(topology) {
        if let Some(value) = value.as_ref().filter(|value| !bounds.contains(value.get_ref())) {
            let what =
                format!("`{key}` is {}: NDB takes {} to {}", value.get_ref(), bounds.start(), bounds.end());
            say(value.span(), what);
        }
    }
    for (key, value, bounds) in sizes(topology) {
        if let Some(value) = value.as_ref().filter(|value| !bounds.contains(&value.get_ref().bytes())) {
            let [least, most] = [*bounds.start(), *bounds.end()].map(shown);
            say(value.span(), format!("`{key}` is {}: NDB takes {least} to {most}", value.get_ref()));
        }
    }
}

type Bounded<'a, T, N> = (&'static str, &'a Option<Spanned<T>>, RangeInclusive<N>);

fn numbers(topology: &Topology) -> [Bounded<'_, u32, u32>; 10] {
    let (limits, threads) = (&topology.limits, &topology.threads);
    [
        ("max-no-of-execution-threads", &threads.max_no_of_execution_threads, 2..=72),
        ("fragment-log-files", &topology.redo_log.fragment_log_files, 3..=MOST),
        ("heartbeat-db-db-ms", &limits.heartbeat_db_db_ms, 10..=MOST),
        ("heartbeat-db-api-ms", &limits.heartbeat_db_api_ms, 100..=MOST),
        ("watchdog-ms", &limits.watchdog_ms, 70..=MOST),
        ("watchdog-initial-ms", &limits.watchdog_initial_ms, 70..=MOST),
        ("deadlock-ms", &limits.deadlock_ms, 50..=MOST),
        ("arbitration-ms", &limits.arbitration_ms, 10..=MOST),
        ("connect-check-ms", &limits.connect_check_ms, 0..=MOST),
        ("start-partial-ms", &limits.start_partial_ms, 0..=MOST),
    ]
}

fn sizes(topology: &Topology) -> [Bounded<'_, Size, u64>; 6] {
    let memory = &topology.memory;
    [
        ("data-memory", &memory.data_memory, MIB..=16 * TIB),
        ("shared-global-memory", &memory.shared_global_memory, 0..=64 * TIB),
        ("transaction-memory", &memory.transaction_memory, 0..=16 * TIB),
        ("disk-page-buffer-memory", &memory.disk_page_buffer_memory, 4 * MIB..=16 * TIB),
        ("redo-buffer", &memory.redo_buffer, MIB..=u64::from(MOST)),
        ("fragment-log-file-size", &topology.redo_log.fragment_log_file_size, 4 * MIB..=1024 * MIB),
    ]
}
