//! The cheapest system call: asks for the parent's process id.
//!
//! It touches nothing that tasks share, so its curve is the straightest that a host can
//! show. Whatever bends it (frequency, hyperthreads, another guest on the host) bends
//! every other curve too: read it first.

use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, TaskForm, each_task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["getppid1"],
    family: Family::Baseline,
    operation: "one getppid() call",
    forms: Forms::Both,
    parameters: &[],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let form = load.form;
    let worker = std::process::id() as i32;
    each_task(move |_| {
        let parent = match form {
            TaskForm::Processes => worker,
            // SAFETY: no preconditions.
            TaskForm::Threads => unsafe { libc::getppid() },
        };
        Ok(Caller { parent, answer: parent })
    })
}

struct Caller {
    parent: i32,
    answer: i32,
}

impl Task for Caller {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: no preconditions.
        self.answer = unsafe { libc::getppid() };
        Ok(())
    }

    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        if self.answer == self.parent {
            return Ok(());
        }
        Err(Failure::new(format!("getppid() returned {}, not {}", self.answer, self.parent)))
    }
}
