//! Algorithms on described hosts: which tasks a lock is timed with, and what comes of it.
//! Neither the algorithms nor the engine know of each other; here they meet.

pub mod mechanisms;

use std::io;

use algorithms::locks::{self, Visitor};
use algorithms::{Lock, Shape, SharedLock};
use analysis::ledger::IDLE;
use anyhow::{Context, Result};
use engines::simulated::{
    NS, Options, Outcome, Preemption, ROWS, Setup, Simulated, Time, Traced, simulate,
};
use machine::{Machine, Note, Region};
use records::Placement;

use crate::hosts::{Described, Draw};

/// Memory of a region: enough for the tables of every algorithm at the most tasks.
pub const REGION_BYTES: usize = 1 << 20;

/// What each task does, again and again: takes the lock, works, lets go, works.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// ns of work outside.
    pub work_ns: u64,
    /// ns of work inside.
    pub hold_ns: u64,
    /// How many of 100 take a read-write lock to read.
    pub reads: u32,
}

/// Where and for how long.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The host.
    pub host: &'a Described,
    /// Which of its CPUs are used first.
    pub placement: Placement,
    /// Where tasks lose their CPU.
    pub preemption: Preemption,
    /// Whether they stay on the one that they had first.
    pub pinned: bool,
    /// What chance depends on.
    pub seed: u64,
    /// Values of the host's ranges beside the middle ones.
    pub draws: u64,
    /// Simulated time that counts.
    pub length: Time,
}

/// An algorithm at so many CPUs.
#[derive(Clone, Debug)]
pub struct Point {
    /// CPUs in use.
    pub cpus: usize,
    /// Tasks on them.
    pub tasks: usize,
    /// Of the middle values of all ranges.
    pub middle: Outcome,
    /// Operations per second of each draw, the middle one first.
    pub rates: Vec<f64>,
    /// What an operation did beside, by name, of the middle values.
    pub effects: Vec<(&'static str, f64)>,
}

impl Point {
    /// The lowest and the highest rate of all draws.
    pub fn range(&self) -> (f64, f64) {
        let low = self.rates.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.rates.iter().copied().fold(0.0, f64::max))
    }

    /// Time of CPUs per operation by row, and the idle rest, in ns; nothing without operations.
    pub fn ns_per_operation(&self) -> Option<Vec<(&'static str, f64)>> {
        let operations: u64 = self.middle.operations.iter().sum();
        let each = |time: Time| time as f64 / NS as f64 / operations as f64;
        let rows = ROWS.iter().zip(self.middle.rows).filter(|(row, _)| row.runs());
        let rows = rows.map(|(row, time)| (row.name(), each(time)));
        (operations > 0).then(|| rows.chain([(IDLE, each(self.middle.idle))]).collect())
    }
}

/// Simulates a lock at so many CPUs, with as many tasks or more.
pub fn point(name: &str, load: Load, place: &Place, cpus: usize, tasks: usize) -> Result<Point> {
    let mut outcomes = Vec::new();
    for (draw, seed) in draws(place) {
        let times = Times { seed, length: place.length, trace: None };
        outcomes.push(once(name, load, place, draw, cpus, tasks, times)?);
    }
    let rates = outcomes.iter().map(Outcome::rate).collect();
    Ok(Point { cpus, tasks, middle: outcomes.swap_remove(0), rates, effects: Vec::new() })
}

/// Which value of each range, and with which seed: the middle first.
fn draws(place: &Place) -> impl Iterator<Item = (Draw, u64)> {
    let seed = place.seed;
    (0..=place.draws).map(move |draw| match draw {
        0 => (Draw::Middle, seed),
        draw => (Draw::Any(seed ^ draw), seed ^ draw),
    })
}

/// Simulates a lock with one value of each range.
pub fn drawn(
    name: &str,
    load: Load,
    place: &Place,
    draw: Draw,
    cpus: usize,
    tasks: usize,
) -> Result<Outcome> {
    let times = Times { seed: place.seed, length: place.length, trace: None };
    once(name, load, place, draw, cpus, tasks, times)
}

/// What happens, access by access, in the middle of a run.
pub fn trace(
    name: &str,
    load: Load,
    place: &Place,
    cpus: usize,
    accesses: usize,
) -> Result<Vec<String>> {
    let traced = Traced { from: warm_up(place.length), accesses };
    let times = Times { seed: place.seed, length: place.length, trace: Some(traced) };
    Ok(once(name, load, place, Draw::Middle, cpus, cpus, times)?.trace)
}

#[derive(Clone, Copy)]
struct Times {
    seed: u64,
    length: Time,
    trace: Option<Traced>,
}

/// Before that time, caches are cold and queues are empty.
fn warm_up(length: Time) -> Time {
    length / 10
}

fn once(
    name: &str,
    load: Load,
    place: &Place,
    draw: Draw,
    cpus: usize,
    tasks: usize,
    times: Times,
) -> Result<Outcome> {
    let order = place.host.topology().ordered(place.placement);
    let places: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
    let options = Options {
        seed: times.seed,
        warm_up: warm_up(times.length),
        length: times.length,
        preemption: place.preemption,
        pinned: place.pinned,
        trace: times.trace,
    };
    let host = place.host.host(draw);
    let all = place.host.cpus();
    let shape = Shape {
        cpus: if place.preemption == Preemption::Anywhere { tasks } else { all },
        locks: 1,
    };
    let act = |tasks_of: &Tasks| {
        let setup = Setup {
            region: tasks_of.region,
            host: &host,
            tasks,
            places: &places,
            task: tasks_of.task,
            interrupted: None,
            exclusive: true,
            fifo: tasks_of.fifo,
        };
        simulate(&setup, &options)
    };
    let done = locks::visit(name, LockTasks { load, shape, act });
    let done =
        done.with_context(|| format!("no lock is called {name:?}: see knee list algorithms"))?;
    done.with_context(|| format!("{name} with {tasks} tasks on {cpus} CPUs of {}", place.host.name))
}

/// An operation: takes the lock, works, lets go, works.
#[inline(always)]
pub fn exclusive<L: Lock, M: Machine>(m: &M, lock: &L, at: &L::Mem, load: Load) {
    let hold = lock.lock(m, at);
    m.note(Note::Enter);
    m.work(load.hold_ns);
    m.note(Note::Leave);
    lock.unlock(m, at, hold);
    m.work(load.work_ns);
}

/// The same with a read-write lock.
#[inline(always)]
pub fn sharing<L: SharedLock, M: Machine>(m: &M, lock: &L, at: &L::Mem, load: Load) {
    if m.random(100) < load.reads {
        let hold = lock.read_lock(m, at);
        m.note(Note::EnterShared);
        m.work(load.hold_ns);
        m.note(Note::LeaveShared);
        lock.read_unlock(m, at, hold);
    } else {
        let hold = lock.write_lock(m, at);
        m.note(Note::Enter);
        m.work(load.hold_ns);
        m.note(Note::Leave);
        lock.write_unlock(m, at, hold);
    }
    m.work(load.work_ns);
}

/// The tasks of an algorithm, at their start.
struct Tasks<'a> {
    region: &'a Region,
    task: &'a dyn Fn(&Simulated, usize),
    fifo: bool,
}

struct LockTasks<F> {
    load: Load,
    shape: Shape,
    act: F,
}

impl<R, F: FnOnce(&Tasks) -> io::Result<R>> Visitor for LockTasks<F> {
    type Out = io::Result<R>;

    fn lock<L: Lock>(self) -> io::Result<R> {
        let region = &Region::new(REGION_BYTES)?;
        let lock = L::new(region, self.shape);
        let at = &region.array::<L::Mem>("lock", 1)[0];
        let task = &|m: &Simulated, _: usize| loop {
            exclusive(m, &lock, at, self.load);
            m.operation_done();
        };
        (self.act)(&Tasks { region, task, fifo: L::FIFO })
    }

    fn shared<L: SharedLock>(self) -> io::Result<R> {
        let region = &Region::new(REGION_BYTES)?;
        let lock = L::new(region, self.shape);
        let at = &region.array::<L::Mem>("lock", 1)[0];
        let task = &|m: &Simulated, _: usize| loop {
            sharing(m, &lock, at, self.load);
            m.operation_done();
        };
        (self.act)(&Tasks { region, task, fifo: false })
    }
}
