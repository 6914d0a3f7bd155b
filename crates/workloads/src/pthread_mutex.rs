//! Lock and unlock of a pthread mutex, with a counter behind it.
//!
//! One operation locks the C library's mutex, adds 1 to a counter on the line of the
//! mutex, works for `hold_ns` and unlocks. With mutex=shared all tasks want the same one:
//! operations per second cannot grow with CPUs, and what matters is how far they fall as
//! the line travels and waiters sleep and wake through futexes. Nobody hands the mutex
//! on: a sleeper that was woken competes with whoever comes along, so read fairness too.
//! With mutex=own nobody waits, no system call is made, and the curve should be straight.
//! The mutex is process-shared in both forms, so both run the same code; as threads,
//! mutex=shared is the load of will-it-scale's pthread_mutex3.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

use crate::file_lock::HOLD;
use crate::{Failure, Family, Forms, Kind, Load, Parameter, Prepared, Shared, Spec, Spin, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pthread_mutex3"],
    family: Family::UserLocks,
    operation: "one lock, one count and one unlock of a pthread mutex",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "mutex",
            about: "shared: all tasks lock one mutex; own: each task locks one of its own",
            default: "shared",
            kind: Kind::Choice(&["shared", "own"]),
        },
        HOLD,
    ],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let mutexes = match load.values.choice("mutex") {
        "shared" => 1,
        _ => load.tasks,
    };
    // SAFETY: a pthread_mutex_t is plain data and all zero a valid one on Linux, as is
    // the counter; neither holds a pointer.
    let guarded = unsafe { Shared::<Guarded>::zeroed(mutexes)? };
    if mutexes == 1 {
        guarded[0].make()?;
    }
    Ok(Box::new(Prepare { guarded, hold: load.spin("hold_ns") }))
}

/// A mutex and what it guards, on one line of a page of its own: the task that makes it
/// gets it from the nearest memory.
#[repr(C, align(4096))]
struct Guarded {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// A critical section that touches no data would be nobody's. A plain counter: turns
    /// get lost unless the mutex excludes.
    count: UnsafeCell<u64>,
}

// SAFETY: the mutex is made for several threads, and only its holder touches `count`.
unsafe impl Sync for Guarded {}

struct Prepare {
    guarded: Shared<Guarded>,
    hold: Spin,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let guarded = match &self.guarded[..] {
            [shared] => shared,
            own => {
                own[index].make()?;
                &own[index]
            }
        };
        Ok(Box::new(Locker { guarded, hold: self.hold }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let mut counted = 0;
        for guarded in self.guarded.iter() {
            guarded.lock()?;
            // SAFETY: we hold the mutex.
            counted += unsafe { *guarded.count.get() };
            guarded.unlock()?;
        }
        if counted == operations {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the mutex did not exclude: {operations} turns inside it were counted as {counted}"
        )))
    }
}

struct Locker<'a> {
    guarded: &'a Guarded,
    hold: Spin,
}

impl Task for Locker<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.guarded.lock()?;
        // SAFETY: we hold the mutex.
        unsafe { *self.guarded.count.get() += 1 };
        self.hold.run();
        self.guarded.unlock()
    }
}

impl Guarded {
    /// Makes the mutex, before anybody locks it.
    fn make(&self) -> Result<(), Failure> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are live and initialised before their use; the mutex is
        // live, and nobody uses it yet.
        unsafe {
            done("pthread_mutexattr_init", libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
            let shared = libc::PTHREAD_PROCESS_SHARED;
            done(
                "pthread_mutexattr_setpshared",
                libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), shared),
            )?;
            done(
                "pthread_mutex_init",
                libc::pthread_mutex_init(self.mutex.get(), attributes.as_ptr()),
            )
        }
    }

    /// No signal cuts this wait short; it ends because every holder unlocks before it
    /// stops.
    #[inline(always)]
    fn lock(&self) -> Result<(), Failure> {
        // SAFETY: the mutex was made before the task that locks it.
        done("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(self.mutex.get()) })
    }

    #[inline(always)]
    fn unlock(&self) -> Result<(), Failure> {
        // SAFETY: the caller holds the mutex.
        done("pthread_mutex_unlock", unsafe { libc::pthread_mutex_unlock(self.mutex.get()) })
    }
}

/// The result of a pthread call, which returns its error number.
#[inline(always)]
fn done(what: &'static str, error: libc::c_int) -> Result<(), Failure> {
    if error == 0 { Ok(()) } else { Err(Failure::of(what, io::Error::from_raw_os_error(error))) }
}
