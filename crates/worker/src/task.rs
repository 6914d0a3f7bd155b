//! One task from its start to its end, the same as a process and as a thread.

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use host::affinity;
use host::clock::now_ns;
use host::marks::Marks;
use probes::ledger::Marker;
use probes::lock_delay::LockDelay;
use probes::{AllocationCounter, CountFrom};
use records::{Form, Job, Pass, TaskReport, Until, Usage};
use workloads::{Control, Failure, Idle, Load, Prepared, Task};

use crate::board::{Board, Phase};
use crate::priority::SchedulingPolicy;
use crate::scratch::Scratch;
use crate::{durations, usage};

/// What each task of a run is given.
pub struct TaskContext<'a> {
    pub job: &'a Job,
    /// The directory of the run.
    pub scratch: &'a Scratch,
    /// Shared with the worker.
    pub board: &'a Board,
    /// An append-only file in memory that the tasks' reports go to.
    pub reports: &'a fs::File,
    /// The scheduling policy that the worker was started with.
    pub policy: SchedulingPolicy,
    /// Marks the tasks for the probes, in a profile.
    pub marker: Option<Marker>,
    /// Delays kernel locks of the tasks, where the point asks for it.
    pub delay: Option<LockDelay>,
}

/// A workload of this binary, ready to run.
pub struct Native<'a> {
    /// The load made from the job.
    pub load: &'a Load,
    /// The workload's common preparation.
    pub prepared: &'a dyn Prepared,
}

/// Runs task `index` from its start to its end. Whatever happens, it arrives at each stage that the
/// worker waits for, or reports that it failed.
pub fn run(context: &TaskContext, native: &Native, index: usize) {
    let cpus = &context.job.cpus;
    let mut report =
        TaskReport { task: index as u32, cpu: cpus[index % cpus.len()], ..TaskReport::default() };
    let result = catch_unwind(AssertUnwindSafe(|| run_phases(context, native, index, &mut report)));
    let failure = match result {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure.to_string()),
        Err(panic) => Some(format!("a bug in knee: the task panicked: {}", panic_text(&*panic))),
    };
    let failed = failure.is_some();
    report.failure = failure;
    let line = serde_json::to_string(&report).expect("reports are plain data");
    // One write: appends of several processes do not mix.
    let written = { context.reports }.write_all(format!("{line}\n").as_bytes());
    if failed || written.is_err() {
        context.board.fail();
    }
    context.board.arrive(3);
}

fn run_phases(
    context: &TaskContext,
    native: &Native,
    index: usize,
    report: &mut TaskReport,
) -> Result<(), Failure> {
    let board = context.board;
    board.register(index);
    pin(report.cpu)?;
    if !context.policy.is_default() {
        context.policy.apply()?;
    }
    if let Some(marker) = context.marker {
        marker.mark().map_err(|e| Failure::from_error("marking the task for the ledger", e))?;
    }
    // Before the task may start helpers, which are counted with it.
    let counter = context.job.allocations.then(|| AllocationCounter::new(CountFrom::Start));
    let counter = counter.and_then(Result::ok);
    let mut task = native.prepared.task(index)?;
    let armed = context.job.traced.then(Marks::arm).transpose();
    let marks = armed.map_err(|e| Failure::from_error("mapping the page of marks", e))?;
    board.arrive(1);
    if board.next_phase(Phase::Wait) == Phase::Abort {
        return Ok(());
    }
    let idle = native.load.idle(index);
    let driven = match marks {
        Some(marks) => drive_windows(context, (index, marks), &mut *task, report),
        None => {
            counter.iter().try_for_each(AllocationCounter::start).map_err(Failure::new)?;
            let driven = drive(context, idle, index, &mut *task, report);
            report.allocations = counter.as_ref().map(allocated).transpose()?;
            driven
        }
    };
    let driven = driven.and_then(|()| still_pinned(report.cpu));
    if driven.is_err() {
        board.fail();
    }
    board.arrive(2);
    driven?;
    if board.next_phase(Phase::Run) == Phase::Abort {
        return Ok(());
    }
    task.verify(report.operations)?;
    report.effects = task.effects().into_iter().map(|(k, v)| (k.to_string(), v)).collect();
    drop(task);
    // The tasks remove their own files in parallel; the worker removes the rest.
    if !context.job.keep
        && let Some(name) = native.load.task_path(index).file_name()
    {
        context.scratch.remove_entry(name);
    }
    Ok(())
}

/// What a task has allocated.
fn allocated(counter: &AllocationCounter) -> Result<[u64; 2], Failure> {
    let counts = counter.stop().and_then(|()| counter.counts()).map_err(Failure::new)?;
    Ok([counts.slab, counts.pages])
}

/// The measured part.
fn drive(
    context: &TaskContext,
    idle: Idle,
    index: usize,
    task: &mut dyn Task,
    report: &mut TaskReport,
) -> Result<(), Failure> {
    let board = context.board;
    let control = Control {
        stop: board.stop_flag(),
        count: board.count(index),
        limit: match context.job.until {
            Until::Seconds(_) | Until::End => u64::MAX,
            Until::OperationsPerTask(n) => n,
        },
        idle,
    };
    let mut histogram = (context.job.pass == Pass::Latency).then(durations::histogram);
    let started_ns = now_ns();
    let before = own_usage(context.job.form);
    let driven = match &mut histogram {
        None => task.drive(&control),
        Some(histogram) => task.drive_timed(&control, now_ns, &mut |ns| {
            histogram.saturating_record(ns);
        }),
    };
    let stopped_ns = now_ns();
    report.usage = usage::between(&before, &own_usage(context.job.form));
    report.operations = control.count.load(Relaxed);
    report.start_ns = started_ns - board.released_ns();
    report.stop_ns = stopped_ns - board.released_ns();
    report.durations = histogram.as_ref().map(durations::buckets).unwrap_or_default();
    driven
}

/// The traced part: a warm-up of a quarter of the operations, a window of as many, and one of twice as many, which must
/// have twice the accesses: else the operation is not in a steady state.
fn drive_windows(
    context: &TaskContext,
    (index, marks): (usize, Marks),
    task: &mut dyn Task,
    report: &mut TaskReport,
) -> Result<(), Failure> {
    let (board, mut done) = (context.board, 0);
    let Until::OperationsPerTask(all) = context.job.until else {
        return Err(Failure::new("a traced run has a number of operations"));
    };
    let (stop, idle) = (board.stop_flag(), Idle::default());
    let quarter = (all / 4).max(1);
    for (window, operations) in [(0, quarter), (1, quarter), (2, 2 * quarter)] {
        for _ in 0..operations {
            let count = AtomicU64::new(0);
            marks.window(window);
            let driven = task.drive(&Control { stop, count: &count, limit: 1, idle });
            marks.window(0);
            driven?;
            done += count.load(Relaxed);
            report.operations = done;
            // QEMU goes on with the next vCPU: the tasks' operations take turns.
            std::hint::spin_loop();
        }
    }
    board.count(index).store(done, Relaxed);
    report.stop_ns = now_ns() - board.released_ns();
    Ok(())
}

fn own_usage(form: Form) -> Usage {
    match form {
        Form::Processes => usage::process(),
        Form::Threads => usage::thread(),
    }
}

/// Pins the calling thread to one CPU.
fn pin(cpu: u32) -> Result<(), Failure> {
    affinity::set(&[cpu]).map_err(|e| Failure::from_error(format!("pinning to CPU {cpu}"), e))
}

/// Fails if the calling thread is no longer pinned to this CPU. When a CPU goes offline, the kernel
/// lets its tasks run anywhere, and does not restore their affinity when it comes back.
fn still_pinned(cpu: u32) -> Result<(), Failure> {
    let cpus = affinity::get().map_err(|e| Failure::from_error("sched_getaffinity", e))?;
    if cpus != [cpu] {
        return Err(Failure::new(format!(
            "no longer pinned to CPU {cpu}: it was offline for a while, or somebody changed the \
             task's affinity or cpuset; measure again"
        )));
    }
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
