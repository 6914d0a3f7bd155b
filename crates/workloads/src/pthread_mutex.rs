//! Lock and unlock of a pthread mutex that guards a counter.
//!
//! One operation locks the C library's mutex, adds 1 to a counter on the mutex's cache
//! line, works for `hold_ns` and unlocks. With mutex=shared all tasks want the same one:
//! operations per second cannot grow with CPUs, and what matters is how far they fall as
//! the line travels and waiters sleep and wake through futexes. The mutex is not handed
//! over: a woken waiter competes with newcomers, so check fairness too. With mutex=own no
//! task waits, no system call is made, and the curve should be straight. As processes
//! the mutex is process-shared, so a waiter's futex is found by its page; as threads it is
//! private, and mutex=shared is the load of will-it-scale's pthread_mutex3. (As processes,
//! each task of that has a mutex of its own.) With guards=local or guards=nothing no line
//! but the mutex's travels, and the exclusion is not verified: nothing would be lost.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;

use crate::file_lock::HOLD;
use crate::{
    Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Shared, Spec, Spin, Task,
    TaskForm,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 2,
    aliases: &[],
    family: Family::UserLocks,
    operation: "one lock, one increment (see `guards`) and one unlock of a pthread mutex",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "mutex",
            about: "shared: all tasks lock one mutex; own: each task locks its own",
            default: "shared",
            kind: ParameterKind::Choice(&["shared", "own"]),
        },
        Parameter {
            name: "guards",
            about: "counter: one that all holders increment; local: one of the task's own; nothing: no data",
            default: "counter",
            kind: ParameterKind::Choice(&["counter", "local", "nothing"]),
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
    // SAFETY: a pthread_mutex_t is plain data, valid on Linux when all zero, and so is the
    // counter; neither holds a pointer.
    let guarded = unsafe { Shared::<Guarded>::zeroed(mutexes)? };
    if mutexes == 1 {
        guarded[0].initialise(load.form)?;
    }
    Ok(Box::new(Setup { guarded, form: load.form, guards: Guards::from_load(load), hold: load.spin("hold_ns") }))
}

/// What is written while the mutex is held (parameter `guards`).
#[derive(Clone, Copy, PartialEq)]
enum Guards {
    Counter,
    Local,
    Nothing,
}

impl Guards {
    fn from_load(load: &Load) -> Guards {
        match load.values.choice("guards") {
            "counter" => Guards::Counter,
            "local" => Guards::Local,
            _ => Guards::Nothing,
        }
    }
}

/// A mutex and what it guards, on one line of a page of its own: the task that initialises
/// it gets it from the nearest memory.
#[repr(C, align(4096))]
struct Guarded {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// No real critical section touches no data. A plain counter: increments are lost
    /// unless the mutex excludes.
    count: UnsafeCell<u64>,
}

// SAFETY: a mutex is for several threads, and only its holder touches `count`.
unsafe impl Sync for Guarded {}

struct Setup {
    guarded: Shared<Guarded>,
    form: TaskForm,
    guards: Guards,
    hold: Spin,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let guarded = match &self.guarded[..] {
            [shared] => shared,
            own => {
                own[index].initialise(self.form)?;
                &own[index]
            }
        };
        Ok(Box::new(Locker { guarded, guards: self.guards, hold: self.hold, local: 0 }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let mut counted = 0;
        for guarded in self.guarded.iter() {
            guarded.lock()?;
            // SAFETY: we hold the mutex.
            counted += unsafe { *guarded.count.get() };
            guarded.unlock()?;
        }
        // Without a common counter, all that can be seen is that every mutex can be had again.
        if counted == operations || self.guards != Guards::Counter {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the mutex did not exclude: {operations} increments under it were counted as {counted}"
        )))
    }
}

struct Locker<'a> {
    guarded: &'a Guarded,
    guards: Guards,
    hold: Spin,
    /// The counter of the task's own, which needs no mutex.
    local: u64,
}

impl Task for Locker<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.guarded.lock()?;
        match self.guards {
            // SAFETY: we hold the mutex.
            Guards::Counter => unsafe { *self.guarded.count.get() += 1 },
            // SAFETY: our own. Volatile: it is written while the mutex is held.
            Guards::Local => unsafe { (&raw mut self.local).write_volatile(self.local + 1) },
            Guards::Nothing => {}
        }
        self.hold.run();
        self.guarded.unlock()
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        match self.guards {
            Guards::Local if self.local != operations => Err(Failure::new(format!(
                "{operations} operations counted, but {} increments",
                self.local
            ))),
            _ => Ok(()),
        }
    }
}

impl Guarded {
    /// Initialises the mutex for these tasks, before any of them locks it.
    fn initialise(&self, form: TaskForm) -> Result<(), Failure> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are live and initialised before their use; the mutex is
        // live, and no task uses it yet.
        unsafe {
            checked(
                "pthread_mutexattr_init",
                libc::pthread_mutexattr_init(attributes.as_mut_ptr()),
            )?;
            let shared = match form {
                TaskForm::Processes => libc::PTHREAD_PROCESS_SHARED,
                TaskForm::Threads => libc::PTHREAD_PROCESS_PRIVATE,
            };
            checked(
                "pthread_mutexattr_setpshared",
                libc::pthread_mutexattr_setpshared(attributes.as_mut_ptr(), shared),
            )?;
            checked(
                "pthread_mutex_init",
                libc::pthread_mutex_init(self.mutex.get(), attributes.as_ptr()),
            )
        }
    }

    /// No signal interrupts this wait; it ends because every holder unlocks before it stops.
    #[inline(always)]
    fn lock(&self) -> Result<(), Failure> {
        // SAFETY: the mutex was initialised before the task that locks it was made.
        checked("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(self.mutex.get()) })
    }

    #[inline(always)]
    fn unlock(&self) -> Result<(), Failure> {
        // SAFETY: the caller holds the mutex.
        checked("pthread_mutex_unlock", unsafe { libc::pthread_mutex_unlock(self.mutex.get()) })
    }
}

/// The result of a pthread call, which returns its error number.
#[inline(always)]
fn checked(what: &'static str, error: libc::c_int) -> Result<(), Failure> {
    if error == 0 {
        Ok(())
    } else {
        Err(Failure::from_error(what, io::Error::from_raw_os_error(error)))
    }
}
