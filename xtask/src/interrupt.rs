//! Ctrl-C and SIGTERM: the first asks everything to end in order, the second ends at once.
//!
//! Children that take long live in process groups of their own: the terminal's Ctrl-C reaches only this process, which
//! then decides.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Failure, Kind};

/// Whether a program in the foreground has Ctrl-C for itself.
static IGNORED: AtomicBool = AtomicBool::new(false);
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Starts to listen. Called once, first thing.
///
/// A hang-up that is ignored already, as `nohup` has it, stays ignored: the terminal may go.
pub fn install() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let heard: &[i32] =
        if ignored(&status, SIGHUP) { &[SIGINT, SIGTERM] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let mut signals = Signals::new(heard)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && IGNORED.load(Ordering::SeqCst) {
                continue;
            }
            if SIGNALS.fetch_add(1, Ordering::SeqCst) > 0 {
                // The kernel ends our children with us: each asked for that when it started (see `process::guard`).
                std::process::exit(Kind::Interrupted.exit_code().into());
            }
            // Standard error may be a pipe whose reader has gone: this thread must live on all the same.
            let _ = writeln!(std::io::stderr(), "interrupted: ending in order (again to end at once)");
        }
    });
    Ok(())
}

/// While it lives, Ctrl-C is for the program in the foreground alone.
pub struct Ignored(());

impl Ignored {
    /// Begins to ignore it.
    pub fn begin() -> Self {
        IGNORED.store(true, Ordering::SeqCst);
        Ignored(())
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        IGNORED.store(false, Ordering::SeqCst);
    }
}

/// Whether a signal has come.
pub fn requested() -> bool {
    SIGNALS.load(Ordering::SeqCst) > 0
}

/// Stops a stage at a point where nothing is half done.
pub fn check() -> Result<()> {
    if requested() { Err(failure().into()) } else { Ok(()) }
}

/// The failure that stands for it.
pub fn failure() -> Failure {
    Failure::new(Kind::Interrupted, "interrupted").next("run the same command again: what was made is kept")
}

/// Whether a process ignores a signal, by its `/proc/PID/status`: bit 0 of the mask is signal 1.
fn ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_is_seen() {
        let status = |mask: &str| format!("Name:\txtask\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignored(&status("0000000000001001"), SIGHUP));
        assert!(!ignored(&status("0000000000001000"), SIGHUP));
        assert!(ignored(&status("0000000000000002"), SIGINT));
        assert!(!ignored("", SIGHUP));
    }
}
