//! Virtual time: algorithms run on a host that is only described, and each access costs what
//! it would cost there.
//!
//!     Setup: region, host, tasks ──> simulate ──> Outcome: operations, ledger, hash
//!                                       │
//!     Queue (who is due) ──> a task runs, up to where somebody else is due before it
//!                              └─ World: lines (who has them), CPUs (who runs), sleepers
//!
//! Time is in whole picoseconds. Accesses happen one at a time, in the order of their times,
//! and among equals in the order in which they were asked for: the same seed gives the same
//! run on every computer, to the last bit, and a hash over all accesses tells whether it was.
//! Orderings are ignored; stores are buffered and what is locked waits for them, as on x86.
//!
//! While time passes, the algorithm's claims are checked: who is inside alone, who came first.

mod agent;
mod bandwidth;
mod coherence;
mod host;
mod invariants;
mod ledger;
mod queue;
mod tasks;
mod trace;
mod world;

use std::cell::RefCell;
use std::io;

pub use agent::{Handler, Simulated};
pub use host::{CPUS_MAX, Costs, Cpu, Guest, Host, PauseLoop, Transfer};
pub use ledger::{ROWS, Row};
use machine::Region;
pub use trace::Traced;
use world::World;

use crate::checker::{copy_region, restore_region};
use crate::steppable::{Steppable, Yielder, catch_panics};

/// Picoseconds.
pub type Time = u64;
/// A nanosecond.
pub const NS: Time = 1000;

/// What is simulated.
pub struct Setup<'a> {
    /// The memory, as all tasks find it; it is so again afterwards.
    pub region: &'a Region,
    /// The host.
    pub host: &'a Host,
    /// The number of tasks.
    pub tasks: usize,
    /// The CPUs that tasks may have, in the order in which they get them: task i has CPU
    /// `places[i % places.len()]`, at first.
    pub places: &'a [usize],
    /// What a task does: operations, for ever or so many. It owns no heap memory and holds no
    /// guard across an access.
    pub task: &'a (dyn Fn(&Simulated, usize) + 'a),
    /// What a CPU does when interrupted, also while it waits or has no task; nothing where no
    /// task interrupts others.
    pub interrupted: Option<&'a Handler<'a>>,
    /// Whether `Annotation::Enter` says that nobody else is inside.
    pub exclusive: bool,
    /// Whether those who arrive first must enter first.
    pub fifo: bool,
}

impl Setup<'_> {
    /// How many numbers `cpu` may say.
    fn numbers(&self, preemption: Preemption) -> usize {
        match preemption {
            Preemption::BetweenOperations => self.host.cpus.len(),
            Preemption::Anywhere => self.tasks,
        }
    }

    /// The CPU that `cpu` means by a number.
    fn home(&self, number: usize, preemption: Preemption) -> usize {
        match preemption {
            // What is there for each of more tasks than CPUs.
            Preemption::BetweenOperations => number % self.host.cpus.len(),
            Preemption::Anywhere => self.places[number % self.places.len()],
        }
    }
}

/// How it is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What chance depends on.
    pub seed: u64,
    /// How long nothing counts.
    pub warm_up: Time,
    /// How long it counts, after that.
    pub length: Time,
    /// Where tasks lose their CPU to others.
    pub preemption: Preemption,
    /// Whether a task stays on the CPU that it had first. If not, it may have another one of
    /// `places` whenever it wakes, and an idle CPU takes tasks of others.
    pub pinned: bool,
    /// What to write down.
    pub trace: Option<Traced>,
}

/// Where a task whose slice is over loses its CPU to others that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Between operations, where a call into the kernel ends, or where it sleeps: in the kernel,
    /// who holds or wants a spinlock is not preempted. `cpu` is the CPU.
    BetweenOperations,
    /// Anywhere, also inside: tasks are virtual CPUs, which the host takes away without
    /// asking. `cpu` is the task.
    Anywhere,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Operations of each task that ended in the window.
    pub operations: Vec<u64>,
    /// The length of the window.
    pub length: Time,
    /// Time of all tasks in the window by row, as in [`ROWS`]. They add up to tasks × length,
    /// and to what CPUs without a task spent on interrupts.
    pub rows: [Time; ROWS.len()],
    /// Time in which CPUs had no task: CPUs × length, less all rows that run.
    pub idle: Time,
    /// All accesses, looks of waiting tasks among them.
    pub accesses: u64,
    /// Equal for equal runs.
    pub hash: u64,
    /// What was to be written down.
    pub trace: Vec<String>,
}

impl Outcome {
    /// Operations per second of all tasks together.
    pub fn rate(&self) -> f64 {
        self.operations.iter().sum::<u64>() as f64 / (self.length as f64 / 1e12)
    }
}

/// Simulates.
///
/// # Errors
/// A host that contradicts itself, an algorithm that breaks its promise or panics, tasks that
/// wait for each other for ever, in words that name who waits for what.
pub fn simulate(setup: &Setup, options: &Options) -> io::Result<Outcome> {
    run(setup, options, None)
}

/// The same, but when the time is over tasks go on until they have ended, which
/// [`Simulated::is_over`] tells them to; then `last` says whether what must hold does. None of
/// that counts.
///
/// # Errors
/// Also what `last` says.
pub fn simulate_to_the_end(setup: &Setup, options: &Options, last: &Last) -> io::Result<Outcome> {
    run(setup, options, Some(last))
}

/// What must hold at the end.
pub type Last<'a> = dyn Fn() -> Result<(), String> + 'a;

fn run(setup: &Setup, options: &Options, last: Option<&Last>) -> io::Result<Outcome> {
    if let Some(why) = setup.host.contradiction() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let before = copy_region(setup.region);
    // Nothing happens after the window, but to come to an end.
    let over = if last.is_some() { Time::MAX } else { options.warm_up + options.length };
    let world = RefCell::new(World::new(setup, options, over));
    let ended = start(setup, options, &world)
        .and_then(|mut threads| {
            let passed = catch_panics(|| {
                pass(&mut threads, &world);
                blocked(setup, &world.borrow())
            });
            passed.unwrap_or_else(|why| Err(fault(why)))
        })
        .and_then(|()| last.map_or(Ok(()), |last| last().map_err(fault)));
    restore_region(setup.region, &before);
    ended?;
    let mut world = world.into_inner();
    world.close();
    Ok(outcome(setup, options, world))
}

/// When it stops, it tells who goes on.
type Thread<'a> = Steppable<'a, (), Option<u16>>;

fn start<'a>(
    setup: &'a Setup<'a>,
    options: &Options,
    world: &'a RefCell<World>,
) -> io::Result<Vec<Thread<'a>>> {
    let view = |task: usize, number: usize| {
        let home = setup.home(number, options.preemption);
        (task as u16, number, usize::from(setup.host.cpus[home].node))
    };
    let number = |task: usize| match options.preemption {
        Preemption::BetweenOperations => setup.places[task % setup.places.len()],
        Preemption::Anywhere => task,
    };
    // A virtual CPU keeps its number, wherever it is.
    let moves = !options.pinned && options.preemption == Preemption::BetweenOperations;
    let all = world.borrow().tasks.len();
    let workers = (0..setup.tasks).map(|task| view(task, number(task)));
    let handlers = (setup.tasks..all).map(|task| view(task, task - setup.tasks));
    let base = setup.region.start() as usize;
    let thread = |(task, cpu, node): (u16, usize, usize)| {
        let handler = setup.interrupted;
        let body = move |yielder: &Yielder<(), Option<u16>>| {
            let m = Simulated { yielder, world, task, moves, cpu, node, base, handler };
            // Not before its time.
            drop(m.stop(None));
            match usize::from(task) < setup.tasks {
                true => (setup.task)(&m, task.into()),
                false => unreachable!("a CPU without a task only handles interrupts"),
            }
            // Its last work takes time too.
            drop(m.turn(world.borrow_mut()));
        };
        Ok(Steppable::start(body, ())?.0)
    };
    workers.chain(handlers).map(thread).collect()
}

/// Lets time pass, until all tasks have ended, or it is over.
fn pass(threads: &mut [Thread], world: &RefCell<World>) {
    let mut next = world.borrow_mut().pass();
    while let Some(task) = next {
        next = threads[usize::from(task)].resume(()).unwrap_or_else(|| {
            let mut world = world.borrow_mut();
            world.end(task);
            world.pass()
        });
    }
}

fn fault(why: String) -> io::Error {
    io::Error::other(why)
}

/// Where nobody is due any more, everybody has ended, or waits for what nobody will do.
fn blocked(setup: &Setup, world: &World) -> io::Result<()> {
    if !world.queue.is_empty() {
        return Ok(());
    }
    let waits = world.tasks[..world.workers].iter().enumerate().filter_map(|(i, task)| {
        let (verb, offset) = match task.doing {
            tasks::Doing::Ended => return None,
            tasks::Doing::Watching(watch) | tasks::Doing::Looking(watch) => {
                ("waits at", watch.word.offset)
            }
            tasks::Doing::Asleep { offset } => ("sleeps on", offset),
            tasks::Doing::Running | tasks::Doing::Asking(_) | tasks::Doing::Ready(_) => {
                unreachable!("task {i} is due")
            }
        };
        Some(format!("t{i} {verb} {}", setup.region.name(offset as usize)))
    });
    let waits: Vec<String> = waits.collect();
    match waits.is_empty() {
        true => Ok(()),
        false => Err(fault(format!("nobody can go on: {}", waits.join("; ")))),
    }
}

fn outcome(setup: &Setup, options: &Options, world: World) -> Outcome {
    let mut rows = [0; ROWS.len()];
    for (i, task) in world.tasks.iter().enumerate() {
        for ((row, sum), time) in ROWS.iter().zip(&mut rows).zip(task.account.rows()) {
            // Who handles interrupts where no task is only counts while it does.
            *sum += if i < setup.tasks || row.runs() { time } else { 0 };
        }
    }
    let ran: Time = ROWS.iter().zip(rows).filter(|(row, _)| row.runs()).map(|(_, time)| time).sum();
    // A host whose CPUs are interrupted has them all in its sum.
    let cpus = match setup.interrupted {
        Some(_) => setup.host.cpus.len(),
        None => setup.places.len().min(setup.tasks),
    } as u64;
    let trace = world.trace.map(|trace| trace.told(setup.region)).unwrap_or_default();
    Outcome {
        operations: world.tasks[..setup.tasks].iter().map(|task| task.operations).collect(),
        length: options.length,
        rows,
        idle: cpus * options.length - ran,
        accesses: world.accesses,
        hash: world.hash,
        trace,
    }
}
