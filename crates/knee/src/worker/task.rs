//! The life of one task, the same as a process and as a thread.

use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use probes::affinity;
use probes::ledger::Marker;
use records::{Form, Job, Pass, TaskReport, Until, Usage};
use workloads::{Control, Failure, Load, Prepared, Task};

use super::board::{Board, Phase};
use super::durations;
use super::priority::Policy;
use super::usage;
use crate::clock::now_ns;

/// What a task is born with.
pub struct Birth<'a> {
    /// The job of the run.
    pub job: &'a Job,
    /// The load made from it.
    pub load: &'a Load,
    /// The workload's common preparation.
    pub prepared: &'a dyn Prepared,
    /// The way to speak to the worker.
    pub board: &'a Board,
    /// Where reports go: an append-only file in memory.
    pub reports: &'a fs::File,
    /// The scheduling policy that the worker was started with.
    pub policy: Policy,
    /// Where a run is watched, what tells its tasks from others.
    pub marker: Option<Marker>,
}

/// Lives the whole life of task `index`. Whatever happens, it arrives at each stage that the
/// worker waits for, or has said that it failed.
pub fn live(birth: &Birth, index: usize) {
    let cpus = &birth.job.cpus;
    let mut report =
        TaskReport { task: index as u32, cpu: cpus[index % cpus.len()], ..TaskReport::default() };
    let lived = catch_unwind(AssertUnwindSafe(|| live_through(birth, index, &mut report)));
    let failure = match lived {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure.to_string()),
        Err(panic) => Some(format!("knee's own mistake, a panic: {}", panic_text(&*panic))),
    };
    let failed = failure.is_some();
    report.failure = failure;
    let line = serde_json::to_string(&report).expect("reports are plain data");
    // One write: appends of several processes do not mix.
    let written = { birth.reports }.write_all(format!("{line}\n").as_bytes());
    if failed || written.is_err() {
        birth.board.fail();
    }
    birth.board.arrive(3);
}

fn live_through(birth: &Birth, index: usize, report: &mut TaskReport) -> Result<(), Failure> {
    let board = birth.board;
    board.introduce(index);
    pin(report.cpu)?;
    if !birth.policy.is_default() {
        birth.policy.apply()?;
    }
    if let Some(marker) = birth.marker {
        marker.mark().map_err(|e| Failure::from_error("marking the task for the ledger", e))?;
    }
    let mut task = birth.prepared.task(index)?;
    board.arrive(1);
    if board.next_phase(Phase::Wait) == Phase::Abort {
        return Ok(());
    }
    let driven = drive(birth, index, &mut *task, report).and_then(|()| still_pinned(report.cpu));
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
    // Each task removes what is its own, in parallel; the worker removes the rest.
    if !birth.job.keep {
        let _ = fs::remove_dir_all(birth.load.task_path(index));
    }
    Ok(())
}

/// The measured part.
fn drive(
    birth: &Birth,
    index: usize,
    task: &mut dyn Task,
    report: &mut TaskReport,
) -> Result<(), Failure> {
    let board = birth.board;
    let control = Control {
        stop: board.stop_flag(),
        count: board.count(index),
        limit: match birth.job.until {
            Until::Seconds(_) | Until::End => u64::MAX,
            Until::OperationsPerTask(n) => n,
        },
        idle: birth.load.spin("idle_ns"),
    };
    let mut histogram = (birth.job.pass == Pass::Latency).then(durations::histogram);
    let started_ns = now_ns();
    let before = own_usage(birth.job.form);
    let driven = match &mut histogram {
        None => task.drive(&control),
        Some(histogram) => task.drive_timed(&control, now_ns, &mut |ns| {
            histogram.saturating_record(ns);
        }),
    };
    let stopped_ns = now_ns();
    report.usage = usage::between(&before, &own_usage(birth.job.form));
    report.operations = control.count.load(std::sync::atomic::Ordering::Relaxed);
    report.start_ns = started_ns - board.released_ns();
    report.stop_ns = stopped_ns - board.released_ns();
    report.durations = histogram.as_ref().map(durations::buckets).unwrap_or_default();
    driven
}

fn own_usage(form: Form) -> Usage {
    match form {
        Form::Processes => usage::of_process(),
        Form::Threads => usage::of_thread(),
    }
}

/// Pins the calling thread to one CPU.
fn pin(cpu: u32) -> Result<(), Failure> {
    affinity::set(&[cpu]).map_err(|e| Failure::from_error(format!("pinning to CPU {cpu}"), e))
}

/// Whether the calling thread was on this CPU all the time. The kernel lets the tasks of a CPU
/// that goes offline run anywhere, and does not take that back when it comes online again.
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
