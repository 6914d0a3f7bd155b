//! Algorithms on described hosts: the tasks that a lock is simulated with, and the results.
//! Neither the algorithms nor the simulator know of each other; here they meet.

pub mod decided;
pub mod keep;
mod lock_load;
pub mod mechanisms;

use std::io;

use algorithms::{Locks, LocksVisitor, Shape};
use anyhow::{Context, Result};
use engines::simulated::{
    Host, NS, Noise, Options, Preemption, ROWS, Setup, Simulated, SimulatedRun, Time, TraceWindow,
    simulate,
};
use host::{Placement, counted};

use crate::subject::Subject;
use described_hosts::{DescribedHost, Draw};
pub use lock_load::{GuardedLines, LINES_MAX, LOCKS_MAX, LockLoad, Variation, operation};
use mechanisms::{part_of, run_mechanism};

/// The row of a ledger that says how long CPUs had nothing to do, called as in ledgers of measured runs.
pub const IDLE: &str = "idle";

/// The host of a simulation, its scheduling, and its length.
#[derive(Clone, Debug)]
pub struct Conditions<'a> {
    /// The host.
    pub host: &'a DescribedHost,
    /// Which of its CPUs are used first.
    pub placement: Placement,
    /// Whether each draw has a placement of its own, one of [`DRAWN_PLACEMENTS`].
    pub any_placement: bool,
    /// Where tasks lose their CPU to others.
    pub preemption: Preemption,
    /// Whether tasks stay on their first CPU.
    pub pinned: bool,
    /// What else takes CPUs from their tasks.
    pub noise: Option<Noise>,
    /// The seed of all random choices.
    pub seed: u64,
    /// How many values to draw from the host's ranges, besides their middles.
    pub draws: u64,
    /// Simulated time that counts.
    pub length: Time,
}

impl<'a> Conditions<'a> {
    /// A host that does nothing else: tasks stay on CPUs of their own, one core after the other, and the numbers of the host
    /// are the middles of their ranges.
    pub fn new(host: &'a DescribedHost, seed: u64, length: Time) -> Conditions<'a> {
        Conditions {
            host,
            placement: Placement::Cores,
            any_placement: false,
            preemption: Preemption::BetweenOperations,
            pinned: true,
            noise: None,
            seed,
            draws: 0,
            length,
        }
    }
}

/// The placements that draws have: those that any number of CPUs can have.
const DRAWN_PLACEMENTS: [Placement; 3] = [Placement::Compact, Placement::Cores, Placement::Scatter];

/// One algorithm at all CPU counts.
pub struct SimulatedCurve {
    /// `mcs`, or `file_locks:after`.
    pub name: String,
    /// A point for each number of CPUs.
    pub points: Vec<SimulatedPoint>,
}

/// An algorithm at one CPU count.
#[derive(Clone, Debug)]
pub struct SimulatedPoint {
    /// CPUs in use.
    pub cpus: usize,
    /// Tasks on them.
    pub tasks: usize,
    /// The run with the middle values of all ranges.
    pub middle: SimulatedRun,
    /// Operations per second of each draw; the first is that of `middle`.
    pub rates: Vec<f64>,
    /// The placement of each draw.
    pub placements: Vec<Placement>,
    /// Other effects of an operation, by name, in `middle`.
    pub effects: Vec<(String, f64)>,
}

/// The rate of an algorithm as a multiple of another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRatio {
    /// With the middle values of all ranges.
    pub middle: f64,
    /// The lowest of all draws.
    pub low: f64,
    /// The highest of all draws.
    pub high: f64,
}

impl RateRatio {
    /// The interval, widened by a factor on both sides.
    pub fn widened(&self, factor: f64) -> RateRatio {
        RateRatio { low: self.low / factor, high: self.high * factor, ..*self }
    }

    /// Whether the interval contains this ratio.
    pub fn contains(&self, ratio: f64) -> bool {
        (self.low..=self.high).contains(&ratio)
    }

    /// Whether one of both is faster in every draw.
    pub fn is_clear(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

impl SimulatedPoint {
    /// The lowest and the highest rate of all draws.
    pub fn range(&self) -> (f64, f64) {
        lowest_and_highest(self.rates.iter().copied())
    }

    /// The rate as a multiple of another algorithm's at the same point, draw by draw: what a draw does to both
    /// cancels.
    pub fn ratio_to(&self, other: &SimulatedPoint) -> RateRatio {
        let ratios = self.rates.iter().zip(&other.rates).map(|(own, other)| own / other);
        let (low, high) = lowest_and_highest(ratios);
        RateRatio { middle: self.rates[0] / other.rates[0], low, high }
    }

    /// The multiples of another algorithm's rates with each placement that draws had: with some clearly more than 1,
    /// with others clearly less. Empty if the placement does not decide which is faster.
    pub fn decided_by_placement(&self, other: &SimulatedPoint) -> Vec<(Placement, RateRatio)> {
        let ratio = |placement: &Placement| {
            let ratios = self.rates.iter().zip(&other.rates).zip(&self.placements);
            let ratios = ratios.filter(|(_, of)| *of == placement);
            let ratios = ratios.map(|((own, other), _)| own / other);
            let middle = ratios.clone().next()?;
            let (low, high) = lowest_and_highest(ratios);
            Some((*placement, RateRatio { middle, low, high }))
        };
        let all: Vec<_> = DRAWN_PLACEMENTS.iter().filter_map(ratio).collect();
        let has = |is_so: fn(&RateRatio) -> bool| all.iter().any(|(_, ratio)| is_so(ratio));
        let decides = has(|ratio| ratio.low > 1.0) && has(|ratio| ratio.high < 1.0);
        if decides { all } else { Vec::new() }
    }

    /// How often tasks went to sleep for each operation. `None` without operations.
    pub fn sleeps_per_operation(&self) -> Option<f64> {
        let operations: u64 = self.middle.operations.iter().sum();
        (operations > 0).then(|| self.middle.sleeps as f64 / operations as f64)
    }

    /// CPU time per operation in ns, by row and with the idle rest. `None` without operations.
    pub fn ns_per_operation(&self) -> Option<Vec<(&'static str, f64)>> {
        let operations: u64 = self.middle.operations.iter().sum();
        let per_operation = |time: Time| time as f64 / NS as f64 / operations as f64;
        let rows = ROWS.iter().zip(self.middle.rows).filter(|(row, _)| row.runs());
        let rows = rows.map(|(row, time)| (row.name(), per_operation(time)));
        let idle = (IDLE, per_operation(self.middle.idle));
        (operations > 0).then(|| rows.chain([idle]).collect())
    }
}

fn lowest_and_highest(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
}

/// What is simulated once.
pub struct OneDraw<'a> {
    /// What each task does; a mechanism has only the work of it.
    pub load: LockLoad,
    /// The host, its scheduling, and the length.
    pub conditions: &'a Conditions<'a>,
    /// The values of the host's ranges.
    pub draw: Draw,
    /// CPUs in use.
    pub cpus: usize,
    /// Tasks on them.
    pub tasks: usize,
}

/// Simulates on this many CPUs, with as many tasks or more, and with all draws.
pub fn point(
    subject: &Subject,
    load: LockLoad,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> Result<SimulatedPoint> {
    let (mut runs, mut placements) = (Vec::new(), Vec::new());
    for (draw, conditions) in draws(conditions) {
        placements.push(conditions.placement);
        runs.push(run(
            subject,
            &OneDraw { load, conditions: &conditions, draw, cpus, tasks },
            None,
        )?);
    }
    let rates = runs.iter().map(|(run, _)| run.rate()).collect();
    let (middle, effects) = runs.swap_remove(0);
    let effects = effects.into_iter().map(|(name, each)| (name.to_string(), each)).collect();
    Ok(SimulatedPoint { cpus, tasks, middle, rates, placements, effects })
}

/// Simulates with one draw from the host's ranges.
pub fn draw(subject: &Subject, simulated: &OneDraw) -> Result<SimulatedRun> {
    Ok(run(subject, simulated, None)?.0)
}

/// The first accesses in the window of a simulation, one line each.
pub fn trace(
    subject: &Subject,
    load: LockLoad,
    conditions: &Conditions,
    cpus: usize,
    accesses: usize,
) -> Result<Vec<String>> {
    let window = TraceWindow { from: warm_up(conditions.length), accesses };
    let once = OneDraw { load, conditions, draw: Draw::Middle, cpus, tasks: cpus };
    Ok(run(subject, &once, Some(window))?.0.trace)
}

/// All draws from the host's ranges, each with its seed and, if asked for, its placement; the middle comes first.
pub(crate) fn draws<'a>(
    conditions: &'a Conditions,
) -> impl Iterator<Item = (Draw, Conditions<'a>)> {
    let seed = conditions.seed;
    (0..=conditions.draws).map(move |number| {
        let drawn = DRAWN_PLACEMENTS[number as usize % DRAWN_PLACEMENTS.len()];
        let placement =
            if conditions.any_placement && number > 0 { drawn } else { conditions.placement };
        let draw = if number == 0 { Draw::Middle } else { Draw::Any(seed ^ number) };
        (draw, Conditions { seed: seed ^ number, placement, ..conditions.clone() })
    })
}

/// The time in which caches are cold and queues empty.
pub(crate) fn warm_up(length: Time) -> Time {
    length / 10
}

/// Other effects of an operation, by name.
type Effects = Vec<(&'static str, f64)>;

fn run(
    subject: &Subject,
    once: &OneDraw,
    trace: Option<TraceWindow>,
) -> Result<(SimulatedRun, Effects)> {
    let OneDraw { load, conditions, draw, cpus, tasks } = *once;
    let Conditions { host: described, preemption, pinned, noise, seed, length, .. } = *conditions;
    let order = described.topology().ordered(conditions.placement);
    let used: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
    let warm_up = warm_up(length);
    let options = Options { seed, warm_up, length, preemption, pinned, noise, trace };
    let host = described.host(draw);
    if !subject.is_lock() {
        let host = part_of(host, &used);
        let run = run_mechanism(subject, load.work_ns, &host, tasks, &options);
        let place = || format!("{} of {}", counted(cpus, "CPU"), described.name);
        return run.with_context(place).map(|run| (run.simulated, run.effects));
    }
    let cpu_numbers = if preemption == Preemption::Anywhere { tasks } else { described.cpus() };
    let shape = Shape { tasks, ..Shape::new(cpu_numbers, load.locks) };
    let simulation = Simulation { load, host: &host, tasks, cpus: &used, options: &options };
    let simulated = subject.with_locks(shape, load.region_bytes(cpu_numbers), simulation);
    let simulated = simulated.and_then(|result| Ok(result?)).with_context(|| {
        let (tasks, cpus) = (counted(tasks, "task"), counted(cpus, "CPU"));
        format!("{} with {tasks} on {cpus} of {}", subject.name(), described.name)
    })?;
    Ok((simulated, Vec::new()))
}

struct Simulation<'a> {
    load: LockLoad,
    host: &'a Host,
    tasks: usize,
    cpus: &'a [usize],
    options: &'a Options,
}

impl LocksVisitor for Simulation<'_> {
    type Out = io::Result<SimulatedRun>;

    fn locks<L: Locks>(self, locks: &L) -> Self::Out {
        let Simulation { load, host, tasks, cpus, options } = self;
        let data = GuardedLines::new(locks.region(), &load);
        let operate = |m: &Simulated| operation(m, locks, &data, load);
        // The engine knows of one lock.
        let exclusive = load.locks == 1;
        let setup = Setup {
            region: locks.region(),
            host,
            tasks,
            cpus,
            task: &|m, _| repeat(m, load, operate),
            ipi_handler: None,
            exclusive,
            fifo: locks.properties().fifo && exclusive,
        };
        simulate(&setup, options)
    }
}

/// A task: starts in its time, and operates until the simulation is over.
fn repeat(m: &Simulated, load: LockLoad, operate: impl Fn(&Simulated)) {
    load.start(m);
    loop {
        operate(m);
        m.operation_done();
    }
}
