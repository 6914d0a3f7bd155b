//! Job control: when the terminal stops this process (Ctrl-Z), its descendants stop with it, though they
//! are in process groups of their own, and continue with it (`fg`, `bg`).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::descendants;
use crate::signals::block;

/// Raised when a stop begins and when it has ended.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// How long this process has been stopped in all, in ns.
static STOPPED_NS: AtomicU64 = AtomicU64::new(0);

/// Held while a child starts and while this process is stopped, so that each child is there in time to
/// be stopped too, or starts afterwards.
static STARTING: Mutex<()> = Mutex::new(());

/// What to do before this process stops, and when it goes on.
type Around = (fn(), fn());

static AROUND: Mutex<Option<Around>> = Mutex::new(None);

/// From now on, `before` is called when the terminal stops this process, and `after` when it goes on.
pub fn around_stops(before: fn(), after: fn()) {
    *AROUND.lock().unwrap_or_else(PoisonError::into_inner) = Some((before, after));
    follow_terminal();
}

/// Starts a child by `start`, which a stop does not interrupt.
pub fn start_child<T>(start: impl FnOnce() -> T) -> T {
    let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    start()
}

/// A number that has changed if this process was stopped meanwhile.
pub fn stops() -> u64 {
    CHANGES.load(SeqCst)
}

/// Whether this process is about to stop, or has just gone on.
pub fn is_stopping() -> bool {
    stops() % 2 == 1
}

/// From now on, SIGTSTP stops all descendants before it stops this process. A thread waits for the
/// signal, so this works whatever the other threads do. To be called before there are other threads:
/// they must not take the signal.
pub fn follow_terminal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(start);
}

fn start() {
    // SAFETY: a null action only asks; zeroed data is valid.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGTSTP, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    };
    if ignored {
        return;
    }
    let before = block(&[libc::SIGTSTP]);
    let started = thread::Builder::new().name("job-control".to_string()).spawn(follow);
    if started.is_err() {
        // Then only this process stops.
        // SAFETY: the mask of this thread from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    }
}

fn follow() {
    let mut signal = 0;
    // SAFETY: plain calls on live data; a zeroed set is valid. The signal is blocked in all threads;
    // unblocked in this one, its default action stops the process until SIGCONT, unless no shell could
    // continue it (its group is orphaned).
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTSTP);
        while libc::sigwait(&set, &mut signal) == 0 {
            CHANGES.fetch_add(1, SeqCst);
            let since = Instant::now();
            let held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            let stopped = descendants::stop();
            let around = *AROUND.lock().unwrap_or_else(PoisonError::into_inner);
            around.inspect(|(before, _)| before());
            libc::kill(libc::getpid(), libc::SIGTSTP);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            around.inspect(|(_, after)| after());
            descendants::resume(&stopped);
            drop(held);
            STOPPED_NS.fetch_add(since.elapsed().as_nanos() as u64, SeqCst);
            CHANGES.fetch_add(1, SeqCst);
        }
    }
}

/// A moment, and the time since then in which this process was not stopped.
#[derive(Clone, Copy)]
pub struct RunningSince {
    at: Instant,
    stopped_ns: u64,
}

impl RunningSince {
    pub fn now() -> RunningSince {
        RunningSince { at: Instant::now(), stopped_ns: STOPPED_NS.load(SeqCst) }
    }

    pub fn elapsed(&self) -> Duration {
        let stopped_ns = STOPPED_NS.load(SeqCst) - self.stopped_ns;
        self.at.elapsed().saturating_sub(Duration::from_nanos(stopped_ns))
    }
}
