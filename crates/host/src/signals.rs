//! Signals: their names, and those that ask knee to end (Ctrl-C, SIGTERM, SIGHUP).

use std::marker::PhantomData;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// From now on, a signal that asks knee to end only sets a flag and interrupts system calls that
/// wait. Signals that were ignored at the start stay ignored: SIGHUP by `nohup`, SIGINT by a
/// shell's `&` in a script.
pub fn catch() {
    extern "C" fn remember(signal: i32) {
        RECEIVED.store(signal, Relaxed);
    }
    for signal in ENDS.into_iter().filter(|signal| !is_ignored(*signal)) {
        // SAFETY: the struct is plain data; the handler stores to an atomic, which is safe
        // in a handler. No SA_RESTART, so that waiting calls return.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
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

/// Waits so long, or until a signal asks knee to end. Returns whether one did.
pub fn wait(length: Duration) -> bool {
    let began = Instant::now();
    while received().is_none() {
        let Some(left) = length.checked_sub(began.elapsed()) else { return false };
        sleep(left.min(Duration::from_millis(100)));
    }
    true
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

/// The signals that ask knee to end.
const ENDS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// While it lives, signals that ask knee to end do not reach the thread that made it, nor threads that it starts.
pub struct Held {
    before: libc::sigset_t,
    /// A mask belongs to its thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Held {
    /// Holds them from now on.
    #[expect(clippy::new_without_default, reason = "it changes the thread")]
    pub fn new() -> Held {
        // The kernel keeps a blocked signal even if it is ignored.
        let heeded: Vec<i32> = ENDS.into_iter().filter(|signal| !is_ignored(*signal)).collect();
        Held { before: block(&heeded), of_this_thread: PhantomData }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask of this thread from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Whether a signal has asked knee to end, or waits to do so because it is held or blocked.
pub fn ask_to_end() -> bool {
    // SAFETY: plain calls on live data; a zeroed set is valid.
    let is_pending = || unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending);
        ENDS.iter().any(|&signal| libc::sigismember(&pending, signal) == 1 && !is_ignored(signal))
    };
    received().is_some() || is_pending()
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a plain call that fills live plain data.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
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
