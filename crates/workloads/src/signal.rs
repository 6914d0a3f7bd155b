//! A signal that the task sends to itself and handles.
//!
//! One operation is tgkill(), the delivery on the way out of the kernel, the handler and
//! sigreturn: two system calls and a signal frame. Each signal takes the sighand lock,
//! which all threads of a process share, and is charged to RLIMIT_SIGPENDING in one
//! counter for all processes of a user. So the curve of threads bends early, at the lock,
//! and that of processes later, at the counter. The load of will-it-scale's signal1, with
//! SIGUSR2.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::{mem, process, ptr};

use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["signal1"],
    family: Family::Scheduling,
    operation: "one signal that the task sends to itself and handles",
    forms: Forms::Both,
    parameters: &[],
    needs: &[],
    prepare,
};

/// Not SIGUSR1, by which the runner interrupts tasks.
const SIGNAL: libc::c_int = libc::SIGUSR2;

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Setup { _handler: Handler::install()? }))
}

struct Setup {
    /// Installed before the tasks exist: threads share it, processes inherit it.
    _handler: Handler,
}

impl Prepared for Setup {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        // SAFETY: no preconditions.
        let thread = unsafe { libc::gettid() };
        let handled_before = HANDLED.with(|n| n.load(Relaxed));
        Ok(Box::new(Sender { process: process::id() as i32, thread, handled_before }))
    }
}

struct Sender {
    process: i32,
    thread: i32,
    handled_before: u64,
}

impl Task for Sender {
    /// A signal that a thread sends to itself is handled before the call returns.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: the signal has a handler as long as a task exists.
        sys("tgkill", unsafe { libc::syscall(libc::SYS_tgkill, self.process, self.thread, SIGNAL) })
            .map(drop)
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let handled = HANDLED.with(|n| n.load(Relaxed)) - self.handled_before;
        if handled == operations {
            return Ok(());
        }
        Err(Failure::new(format!("{operations} signals sent, {handled} handled")))
    }
}

thread_local! {
    /// Signals handled by this thread. Initialised at compile time and without a destructor,
    /// so that a handler may touch it; atomic, because a handler runs between any two
    /// instructions.
    static HANDLED: AtomicU64 = const { AtomicU64::new(0) };
}

extern "C" fn handle(_: libc::c_int) {
    // A load and a store suffice: the handler never interrupts itself.
    HANDLED.with(|n| n.store(n.load(Relaxed) + 1, Relaxed));
}

/// The process-wide handler, installed as long as a value of this type exists. Dropping
/// the last one restores the action that the first one replaced.
struct Handler;

struct Installed {
    users: usize,
    before: libc::sigaction,
}

static INSTALLED: Mutex<Option<Installed>> = Mutex::new(None);

impl Handler {
    fn install() -> Result<Handler, Failure> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *installed {
            Some(installed) => installed.users += 1,
            None => *installed = Some(Installed { users: 1, before: replace()? }),
        }
        Ok(Handler)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let mut slot = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        let installed = slot.as_mut().expect("a handler that lives is installed");
        installed.users -= 1;
        if installed.users == 0 {
            // SAFETY: the kernel reads an action that it once wrote.
            unsafe { libc::sigaction(SIGNAL, &installed.before, ptr::null_mut()) };
            *slot = None;
        }
    }
}

/// Makes `handle` the handler; returns the action that it replaces.
fn replace() -> Result<libc::sigaction, Failure> {
    // SAFETY: sigaction is plain data; zero is the default action and an empty mask.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `handle` only touches an atomic of its thread, so it may run anywhere.
    sys("sigaction", unsafe { libc::sigaction(SIGNAL, &action, &mut before) })?;
    Ok(before)
}
