//! SIGINT and SIGTERM: the first asks the run to end and keep its results, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What an interrupted program exits with.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Watches for the signals; the flag says that one came.
pub fn watch() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag not yet set and sets it, the second finds it set.
        flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED.into(), interrupted.clone())?;
        flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}
