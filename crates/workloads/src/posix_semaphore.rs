//! Wait and post of a POSIX semaphore that holds 1.
//!
//! The semaphore is one word in memory. With semaphore=own, as in will-it-scale's posix_semaphore1, no task ever
//! waits and no system call is made: two atomic operations on a line of the task's own, and the curve should be straight.
//! With semaphore=shared all tasks want the same one. Operations per second then cannot grow with CPUs; what matters is
//! how far they fall as the line travels and waiters sleep and wake through futexes. Compare with pthread_mutex, which
//! sleeps later and also remembers its owner.

use std::cell::UnsafeCell;

use crate::file_lock::HOLD;
use crate::{
    Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Shared, Spec, Spin, Task,
    TaskForm, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["posix_semaphore1"],
    family: Family::UserLocks,
    operation: "one sem_wait and one sem_post, with one increment between them if tasks share the semaphore",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "semaphore",
            about: "own: each task has its own; shared: all tasks wait for one",
            default: "own",
            kind: ParameterKind::Choice(&["own", "shared"]),
        },
        HOLD,
    ],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let shared = load.values.choice("semaphore") == "shared";
    let count = if shared { 1 } else { load.tasks };
    // SAFETY: a sem_t is plain data without pointers, and so is the counter.
    let semaphores = unsafe { Shared::<Semaphore>::zeroed(count)? };
    if shared {
        semaphores[0].initialise(load.form)?;
    }
    Ok(Box::new(Setup { semaphores, shared, form: load.form, hold: load.spin("hold_ns") }))
}

/// A semaphore and what it guards, on a page of its own, which is placed near the task that initialises it.
#[repr(C, align(4096))]
struct Semaphore {
    semaphore: UnsafeCell<libc::sem_t>,
    /// A plain counter: increments are lost unless the semaphore excludes.
    count: UnsafeCell<u64>,
}

// SAFETY: a semaphore is for several tasks, and only the one that took its 1 touches `count`.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    fn initialise(&self, form: TaskForm) -> Result<(), Failure> {
        let between_processes = i32::from(form == TaskForm::Processes);
        // SAFETY: live memory that no task uses yet.
        sys("sem_init", unsafe { libc::sem_init(self.semaphore.get(), between_processes, 1) }).map(drop)
    }

    #[inline(always)]
    fn wait(&self) -> Result<(), Failure> {
        // SAFETY: initialised before its tasks run.
        sys("sem_wait", unsafe { libc::sem_wait(self.semaphore.get()) }).map(drop)
    }

    #[inline(always)]
    fn post(&self) -> Result<(), Failure> {
        // SAFETY: as above.
        sys("sem_post", unsafe { libc::sem_post(self.semaphore.get()) }).map(drop)
    }

    fn value(&self) -> Result<i32, Failure> {
        let mut value = 0;
        // SAFETY: as above; `value` is live.
        sys("sem_getvalue", unsafe { libc::sem_getvalue(self.semaphore.get(), &mut value) })?;
        Ok(value)
    }
}

struct Setup {
    semaphores: Shared<Semaphore>,
    shared: bool,
    form: TaskForm,
    hold: Spin,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        if self.shared {
            return Ok(Box::new(Waiter { semaphore: &self.semaphores[0], hold: self.hold, guards: true }));
        }
        let semaphore = &self.semaphores[index];
        semaphore.initialise(self.form)?;
        Ok(Box::new(Waiter { semaphore, hold: self.hold, guards: false }))
    }

    /// Every semaphore holds 1 again, and one that tasks share has excluded.
    fn verify(&self, operations: u64) -> Result<(), Failure> {
        for semaphore in self.semaphores.iter() {
            let value = semaphore.value()?;
            if value != 1 {
                return Err(Failure::new(format!("a semaphore holds {value} in the end, not 1")));
            }
        }
        // SAFETY: all tasks have ended.
        let counted = unsafe { *self.semaphores[0].count.get() };
        if self.shared && counted != operations {
            return Err(Failure::new(format!(
                "the semaphore did not exclude: {operations} increments were counted as {counted}"
            )));
        }
        Ok(())
    }
}

struct Waiter<'a> {
    semaphore: &'a Semaphore,
    hold: Spin,
    /// Whether it guards the counter. A semaphore of the task's own has nothing to guard.
    guards: bool,
}

impl Task for Waiter<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.semaphore.wait()?;
        if self.guards {
            // SAFETY: this task holds the semaphore's 1.
            unsafe { *self.semaphore.count.get() += 1 };
        }
        self.hold.run();
        self.semaphore.post()
    }
}
