//! The loop that repeats an operation: the only code between the release of the
//! tasks and the operation itself, so every instruction here is measured too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::{Failure, Idle};

/// What the runner shares with a running task.
pub struct Control<'a> {
    /// Not zero once the tasks should stop. Shared by all tasks, written once.
    pub stop: &'a AtomicU32,
    /// Operations done so far. On a cache line of its own: the task stores it after each
    /// operation, the runner reads it now and then.
    pub count: &'a AtomicU64,
    /// Operations after which the task is done; `u64::MAX` to run until stopped.
    pub limit: u64,
    /// Work between two operations, outside the operation (parameter `idle_ns`).
    pub idle: Idle,
}

impl Control<'_> {
    #[inline(always)]
    fn stopped(&self) -> bool {
        // Relaxed: the flag carries no data; seeing it late costs one operation.
        self.stop.load(Relaxed) != 0
    }
}

/// One process or thread of a workload.
pub trait Task {
    /// Does one operation, exactly as the workload's `operation` says. A waiting call that
    /// a signal interrupts is an error; the loop then checks the stop flag.
    fn operate(&mut self) -> Result<(), Failure>;

    /// Checks the effect of this task's operations, after all tasks have stopped.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let _ = operations;
        Ok(())
    }

    /// Numbers for the record beside the operation count: name and value, to be summed
    /// over tasks.
    fn effects(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Repeats the operation until stopped or done. A provided method, so that each
    /// workload has its own loop with `operate` inlined.
    fn drive(&mut self, control: &Control) -> Result<(), Failure> {
        repeat(control, || self.operate())
    }

    /// Like [`Task::drive`], but reports the duration of each completed operation, by `clock`.
    fn drive_timed(
        &mut self,
        control: &Control,
        clock: fn() -> u64,
        report: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        repeat(control, || {
            let start = clock();
            self.operate()?;
            report(clock() - start);
            Ok(())
        })
    }
}

#[inline(always)]
fn repeat(
    control: &Control,
    mut operation: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut done, mut idle) = (0, control.idle);
    while done < control.limit && !control.stopped() {
        match operation() {
            Ok(()) => done += 1,
            // Only the runner interrupts, so that the task sees the stop flag.
            Err(failure) if failure.interrupted() => continue,
            Err(failure) => return Err(failure),
        }
        control.count.store(done, Relaxed);
        // Between operations: not after the last one.
        if idle.is_some() && done < control.limit && !control.stopped() {
            idle.run();
        }
    }
    Ok(())
}
