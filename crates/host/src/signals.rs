//! Signals: their names, and those that ask knee to end (Ctrl-C, SIGTERM, SIGHUP).

use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// From now on, a signal that asks knee to end only sets a flag and interrupts system calls that
/// wait. Signals that were ignored at the start stay ignored: SIGHUP by `nohup`, SIGINT by a
/// shell's `&` in a script.
pub fn catch() {
    extern "C" fn remember(signal: i32) {
        RECEIVED.store(signal, Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the struct is plain data; the handler stores to an atomic, which is safe
        // in a handler. No SA_RESTART, so that waiting calls return.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            action = std::mem::zeroed();
            action.sa_sigaction = remember as extern "C" fn(i32) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// The signal that asked knee to end, if one did.
pub fn received() -> Option<i32> {
    match RECEIVED.load(Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}

/// Blocks signals in the calling thread. Returns the mask from before.
pub fn block(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: plain calls on live data; a zeroed set is valid.
    unsafe {
        let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
        before
    }
}

/// The name of a signal, such as `SIGKILL`.
pub fn name(signal: i32) -> String {
    let known = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGHUP => "SIGHUP",
        libc::SIGILL => "SIGILL",
        libc::SIGINT => "SIGINT",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return format!("signal {signal}"),
    };
    known.to_string()
}
