//! The loop that repeats an operation: the only code between the release of the
//! tasks and the operation itself, so every instruction here is measured too.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::{Failure, Spin};

/// What the runner holds in its hands while a task runs.
pub struct Control<'a> {
    /// Not zero once the tasks should stop. Shared by all, written once.
    pub stop: &'a AtomicU32,
    /// Operations done so far. On a cache line of its own: written here after each
    /// operation, read by the runner now and then.
    pub count: &'a AtomicU64,
    /// Operations after which the task is done; `u64::MAX` to run until stopped.
    pub limit: u64,
    /// Work between two operations, outside the operation (parameter `idle_ns`).
    pub idle: Spin,
}

impl Control<'_> {
    #[inline(always)]
    fn stopped(&self) -> bool {
        // Relaxed: the flag carries no data; a late look costs one operation.
        self.stop.load(Relaxed) != 0
    }
}

/// One process or thread of a workload.
pub trait Task {
    /// One operation, exactly as the workload's `operation` says. A call that waits
    /// returns its interruption as an error; the loop then looks at the stop flag.
    fn operate(&mut self) -> Result<(), Failure>;

    /// Checks the effect of this task's operations, after all tasks have stopped.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let _ = operations;
        Ok(())
    }

    /// Numbers beside the operation count that this workload wants in the record,
    /// summed over tasks: name and value.
    fn effects(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Repeats the operation until stopped or done. A provided method, so that each
    /// workload gets a loop of its own with `operate` inlined.
    fn drive(&mut self, control: &Control) -> Result<(), Failure> {
        repeat(control, || self.operate())
    }

    /// As [`Task::drive`], reporting the clock's difference around each completed
    /// operation.
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
    let mut done = 0;
    while done < control.limit && !control.stopped() {
        match operation() {
            Ok(()) => done += 1,
            // Only the runner interrupts, to have the stop flag seen.
            Err(failure) if failure.interrupted() => continue,
            Err(failure) => return Err(failure),
        }
        control.count.store(done, Relaxed);
        // Between operations: not after the last one.
        if control.idle != Spin::default() && done < control.limit && !control.stopped() {
            control.idle.run();
        }
    }
    Ok(())
}
