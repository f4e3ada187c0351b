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
pub fn install() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
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
