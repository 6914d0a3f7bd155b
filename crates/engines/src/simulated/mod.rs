//! Virtual time: algorithms run on a described host, and each access costs what it would cost
//! there.
//!
//!     Setup: region, host, tasks ──> simulate ──> SimulatedRun: operations, ledger, hash
//!                                       │
//!     EventQueue ──> a task runs, until another event is due before it
//!                      └─ World: lines (which CPU has them), CPUs (which task has them), sleepers
//!
//! Time is in whole picoseconds. Accesses happen one after the other, in the order of their times,
//! and among equal times in the order in which they were issued. So the same seed gives the same
//! run on every computer, to the last bit, and a hash of all accesses shows whether it did.
//! Orderings are ignored; stores are buffered and locked instructions wait for them, as on x86.
//!
//! A simulation also checks what the algorithm claims: mutual exclusion and the order of entry.

mod agent;
mod bandwidth;
mod coherence;
mod host;
mod idle;
mod invariants;
mod ledger;
mod queue;
mod random;
mod store_buffer;
mod tasks;
mod threads;
mod trace;
mod waiters;
mod world;

use std::cell::RefCell;
use std::io;

pub use agent::{IpiHandler, Simulated};
pub use host::{CPUS_MAX, Costs, CpuLocation, GuestCosts, Host, PauseLoopExiting, TransferCosts};
pub use ledger::{ROWS, TimeRow};
use machine::Region;
use tasks::TaskState;
use threads::Threads;
pub use trace::TraceWindow;
use world::World;

use crate::checker::{copy_region, restore_region};
use crate::steppable::catch_panics;

/// Picoseconds.
pub type Time = u64;
/// A nanosecond.
pub const NS: Time = 1000;

/// The tasks to simulate, their memory and their host.
pub struct Setup<'a> {
    /// The memory as all tasks find it. A simulation restores it at the end.
    pub region: &'a Region,
    /// The host that they run on.
    pub host: &'a Host,
    /// The number of tasks.
    pub tasks: usize,
    /// The CPUs that tasks may have, in the order in which they get them: task i starts on CPU
    /// `cpus[i % cpus.len()]`.
    pub cpus: &'a [usize],
    /// What a task does: operations, a number of them or for ever. It owns no heap memory and
    /// holds no guard across an access.
    pub task: &'a (dyn Fn(&Simulated, usize) + 'a),
    /// What a CPU does when interrupted, also while its task waits, and without a task. `None`
    /// where no task sends interrupts.
    pub ipi_handler: Option<&'a IpiHandler<'a>>,
    /// Whether `Annotation::Enter` says that no other task is inside.
    pub exclusive: bool,
    /// Whether tasks must enter in the order in which they arrived.
    pub fifo: bool,
}

impl Setup<'_> {
    /// The number of CPUs as tasks see them: the values that `cpu` may return.
    fn cpu_numbers(&self, preemption: Preemption) -> usize {
        match preemption {
            Preemption::BetweenOperations => self.host.cpus.len(),
            Preemption::Anywhere => self.tasks,
        }
    }

    /// The CPU of the host that a value of `cpu` stands for.
    fn home(&self, number: usize, preemption: Preemption) -> usize {
        match preemption {
            // Per-CPU memory may have more elements than the host has CPUs.
            Preemption::BetweenOperations => number % self.host.cpus.len(),
            Preemption::Anywhere => self.cpus[number % self.cpus.len()],
        }
    }
}

/// How long and under which scheduling to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// The time before the window, in which nothing counts.
    pub warm_up: Time,
    /// The length of the window, in which everything counts.
    pub length: Time,
    /// Where tasks lose their CPU to others.
    pub preemption: Preemption,
    /// Whether a task stays on its first CPU. If not, it may get another one of `cpus` whenever
    /// it wakes, and an idle CPU takes tasks from others.
    pub pinned: bool,
    /// What else takes CPUs from their tasks.
    pub noise: Option<Noise>,
    /// The accesses to trace.
    pub trace: Option<TraceWindow>,
}

/// What takes a CPU for a while, whatever its task does: interrupts, firmware, the host of a virtual machine. Its lengths,
/// and the intervals from its end to the next one, are exponentially distributed, on each CPU for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// The mean length.
    pub mean: Time,
    /// The mean interval.
    pub interval: Time,
}

/// Where a task whose slice has ended loses its CPU to tasks that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Between operations, at the end of a call into the kernel, or where the task sleeps: in the
    /// kernel, a task that holds or wants a spinlock is not preempted. `cpu` is the CPU.
    BetweenOperations,
    /// Anywhere, also inside a critical section: tasks are virtual CPUs, from which the host
    /// takes the CPU at any time. `cpu` is the task.
    Anywhere,
}

/// The results of a simulation.
#[derive(Clone, Debug)]
pub struct SimulatedRun {
    /// Operations of each task that ended in the window.
    pub operations: Vec<u64>,
    /// The length of the window.
    pub length: Time,
    /// Time of all tasks in the window, by row as in [`ROWS`]. It adds up to tasks × length, plus
    /// what CPUs without a task spent on interrupts.
    pub rows: [Time; ROWS.len()],
    /// Time in which CPUs had no task: CPUs × length, less all rows that run.
    pub idle: Time,
    /// How often tasks went to sleep in the window.
    pub sleeps: u64,
    /// The number of accesses, those of waiting tasks among them.
    pub accesses: u64,
    /// A hash of all accesses: equal for equal runs.
    pub hash: u64,
    /// The traced accesses, one line each.
    pub trace: Vec<String>,
}

impl SimulatedRun {
    /// Operations per second of all tasks together.
    pub fn rate(&self) -> f64 {
        self.operations.iter().sum::<u64>() as f64 / (self.length as f64 / 1e12)
    }
}

/// Simulates up to the end of the window.
///
/// # Errors
/// A host that contradicts itself; an algorithm that breaks its claims or panics; tasks that wait
/// for each other for ever: the error names their words.
pub fn simulate(setup: &Setup, options: &Options) -> io::Result<SimulatedRun> {
    run(setup, options, None)
}

/// Simulates until all tasks have ended, which they should once [`Simulated::is_over`] says so.
/// What they do after the window does not count. Then calls `final_check`.
///
/// # Errors
/// Those of [`simulate`] and of `final_check`.
pub fn simulate_to_completion(
    setup: &Setup,
    options: &Options,
    final_check: &FinalCheck,
) -> io::Result<SimulatedRun> {
    run(setup, options, Some(final_check))
}

/// Checks the memory once all tasks have ended.
pub type FinalCheck<'a> = dyn Fn() -> Result<(), String> + 'a;

fn run(
    setup: &Setup,
    options: &Options,
    final_check: Option<&FinalCheck>,
) -> io::Result<SimulatedRun> {
    if let Some(why) = setup.host.contradiction() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let before = copy_region(setup.region);
    // Without a final check nothing needs to happen after the window.
    let end = if final_check.is_some() { Time::MAX } else { options.warm_up + options.length };
    let world = RefCell::new(World::new(setup, options, end));
    let count = world.borrow().tasks.len();
    let result = Threads::new(count)
        .and_then(|threads| {
            let result = catch_panics(|| {
                run_tasks(setup, options, &threads, &world);
                check_blocked(setup, &world.borrow())
            });
            result.unwrap_or_else(|why| Err(fault(why.to_string())))
        })
        .and_then(|()| final_check.map_or(Ok(()), |check| check().map_err(fault)));
    restore_region(setup.region, &before);
    result?;
    let mut world = world.into_inner();
    world.close_accounts();
    Ok(summary(setup, options, world))
}

/// Runs all tasks until they have ended, or the time is over.
fn run_tasks<'a>(
    setup: &'a Setup<'a>,
    options: &Options,
    threads: &'a Threads,
    world: &'a RefCell<World>,
) {
    // A virtual CPU keeps its number, wherever it runs.
    let moves = !options.pinned && options.preemption == Preemption::BetweenOperations;
    let number = |task: usize| match options.preemption {
        _ if task >= setup.tasks => task - setup.tasks,
        Preemption::BetweenOperations => setup.cpus[task % setup.cpus.len()],
        Preemption::Anywhere => task,
    };
    let base = setup.region.start() as usize;
    let body = |task: u16| {
        let cpu = number(task.into());
        let node = usize::from(setup.host.cpus[setup.home(cpu, options.preemption)].node);
        let ipi_handler = setup.ipi_handler;
        let m = Simulated { threads, world, task, moves, cpu, node, base, ipi_handler };
        drop(m.continues());
        if usize::from(task) < setup.tasks {
            (setup.task)(&m, task.into());
        } else {
            unreachable!("a CPU without a task only handles interrupts");
        }
        // Its last work takes time too.
        drop(m.turn(world.borrow_mut()));
        let mut world = world.borrow_mut();
        world.end(task);
        world.advance()
    };
    let first = world.borrow_mut().advance();
    if let Some(first) = first {
        threads.run(first, &body);
    }
}

fn fault(why: String) -> io::Error {
    io::Error::other(why)
}

/// Fails if no event is left and tasks still wait.
fn check_blocked(setup: &Setup, world: &World) -> io::Result<()> {
    if !world.queue.is_empty() {
        return Ok(());
    }
    let waits = world.tasks[..world.task_count].iter().enumerate().filter_map(|(i, task)| {
        let (verb, offset) = match task.state {
            TaskState::Ended => return None,
            TaskState::Waiting(wait) | TaskState::Rechecking(wait) => {
                ("waits for", wait.word.offset)
            }
            TaskState::Asleep { offset } => ("sleeps on", offset),
            TaskState::Running
            | TaskState::Requesting(_)
            | TaskState::FallingAsleep { .. }
            | TaskState::Ready(_) => unreachable!("task {i} is due"),
        };
        Some(format!("t{i} {verb} {}", setup.region.name(offset as usize)))
    });
    let waits: Vec<String> = waits.collect();
    if waits.is_empty() {
        return Ok(());
    }
    Err(fault(format!("deadlock: {}", waits.join("; "))))
}

fn summary(setup: &Setup, options: &Options, world: World) -> SimulatedRun {
    let mut rows = [0; ROWS.len()];
    for (i, task) in world.tasks.iter().enumerate() {
        for ((row, sum), time) in ROWS.iter().zip(&mut rows).zip(task.account.rows()) {
            // The interrupt handler of a CPU without a task counts only while it runs.
            *sum += if i < setup.tasks || row.runs() { time } else { 0 };
        }
    }
    let busy: Time =
        ROWS.iter().zip(rows).filter(|(row, _)| row.runs()).map(|(_, time)| time).sum();
    // With interrupts, CPUs without a task are busy too, so all CPUs count.
    let cpus = match setup.ipi_handler {
        Some(_) => setup.host.cpus.len(),
        None => setup.cpus.len().min(setup.tasks),
    } as u64;
    let trace = world.trace.map(|trace| trace.lines(setup.region)).unwrap_or_default();
    SimulatedRun {
        operations: world.tasks[..setup.tasks].iter().map(|task| task.operations).collect(),
        length: options.length,
        rows,
        idle: cpus * options.length - busy,
        sleeps: world.sleeps,
        accesses: world.accesses,
        hash: world.hash,
        trace,
    }
}
