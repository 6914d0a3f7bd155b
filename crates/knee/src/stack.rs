//! A stack that is large enough. The kernel limits the first thread's (`ulimit -s`), and a command line with all its
//! help needs more than 64 KiB.

use std::panic::resume_unwind;
use std::thread::Builder;

/// What knee needs: the limit that systems usually set.
const STACK_BYTES: usize = 8 << 20;

/// Runs `work` on a stack of at least [`STACK_BYTES`]: this thread's, or another thread's if this one's is smaller. What
/// knee starts keeps the limit.
pub fn on_large_stack<T: Send + 'static>(work: fn() -> T) -> T {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live struct of the right type.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    if !known || limit.rlim_cur >= STACK_BYTES as u64 {
        return work();
    }
    let before = block_all_signals();
    let started =
        Builder::new().name("main".to_string()).stack_size(STACK_BYTES).spawn(move || {
            restore_signals(&before);
            work()
        });
    match started {
        // This thread takes no signal: all go to the other, as if it were the first.
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
        Err(_) => {
            restore_signals(&before);
            work()
        }
    }
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: plain calls on live data; a zeroed set is valid.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a mask that this process had before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
