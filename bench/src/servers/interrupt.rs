//! Ctrl-C ends a wait with an error, so that everything that was started is stopped and removed on the way out.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How long a signal may go unnoticed.
const STEP: Duration = Duration::from_millis(20);

extern "C" fn interrupt(_: libc::c_int) {
    IS_INTERRUPTED.store(true, Relaxed);
}

/// From here on, SIGINT, SIGTERM and SIGHUP end the next pause.
pub fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = interrupt as extern "C" fn(libc::c_int);
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Whether a signal came.
pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Relaxed)
}

/// Waits as long as no signal comes.
pub fn pause(duration: Duration) -> Result<()> {
    let since = Instant::now();
    while since.elapsed() < duration {
        ensure!(!is_interrupted(), "interrupted");
        sleep(STEP.min(duration - since.elapsed().min(duration)));
    }
    Ok(())
}
