//! Recorded operations on described hosts: each task repeats what a traced one did, and meets the others on the lines that
//! all of them use.
//!
//!     instructions ─ time of the CPU's own ─> load, store, atomic of a shared line ─> lock ─> … ─> unlock ─> …
//!
//! Task i repeats the operations of recorded task i modulo their number. Lines of its own are always there: what they cost
//! is in the time of an instruction. A lock is the simulated one of its kind, on the line where it lay; how the traced
//! tasks waited for it is left out of the recording.

use algorithms::locks::futex_mutex::FutexMutex;
use algorithms::locks::parking::ParkingMem;
use algorithms::locks::queued::{Queued, QueuedMem};
use algorithms::locks::queued_read_write::{QueuedReadWrite, QueuedReadWriteMem};
use algorithms::locks::read_write_semaphore::{ReadWriteSemaphore, ReadWriteSemaphoreMem};
use algorithms::{Hold, Lock, Shape, SharedLock};
use anyhow::{Context, Result, ensure};
use described_hosts::{Draw, Pace};
use engines::simulated::{Options, Setup, Simulated, SimulatedRun, simulate};
use machine::{Array, Atom, Line, Machine, Ordering, Region, image};
use records::operations::{
    Copies, HELD_MAX, RecordedLockKind, RecordedOperation, RecordedOperations, RecordedStep,
};

use crate::simulations::{Conditions, SimulatedPoint, draws, warm_up};

/// Spin locks on one line; more share those.
const SPIN_LOCKS: usize = 4;

image! {
    /// A line that tasks share, with what may lie on it.
    struct SharedLine {
        word: Atom<u64>,
        spin: [QueuedMem; SPIN_LOCKS],
        read_write: QueuedReadWriteMem,
        semaphore: ReadWriteSemaphoreMem,
        sleeping: ParkingMem,
    }
}

const _: () = assert!(size_of::<Line<SharedLine>>() == 64, "a line is longer than a line");

/// A recorded operation on this many CPUs, a task on each, with all draws. Of the lines in `apart` each task has its own, to
/// see what they stop.
///
/// # Errors
/// A recording that contradicts itself, or more CPUs than the host has.
pub fn point(
    recorded: &RecordedOperations,
    conditions: &Conditions,
    cpus: usize,
    apart: &[usize],
) -> Result<SimulatedPoint> {
    if let Some(why) = recorded.contradiction() {
        anyhow::bail!("the recorded operations: {why}");
    }
    let (mut runs, mut placements) = (Vec::new(), Vec::new());
    for (draw, conditions) in draws(conditions) {
        placements.push(conditions.placement);
        let once = Once { recorded, conditions: &conditions, draw, cpus, apart };
        runs.push(once.run().with_context(|| {
            format!("{} on {cpus} CPUs of {}", recorded.operation, conditions.host.name)
        })?);
    }
    let rates = runs.iter().map(SimulatedRun::rate).collect();
    let middle = runs.swap_remove(0);
    Ok(SimulatedPoint { cpus, tasks: cpus, middle, rates, placements, effects: Vec::new() })
}

/// One simulation.
struct Once<'a> {
    recorded: &'a RecordedOperations,
    conditions: &'a Conditions<'a>,
    draw: Draw,
    cpus: usize,
    /// Lines of which each task gets its own.
    apart: &'a [usize],
}

impl Once<'_> {
    fn run(&self) -> Result<SimulatedRun> {
        let Conditions { host: described, preemption, pinned, noise, seed, length, .. } =
            *self.conditions;
        ensure!(self.cpus <= described.cpus(), "{} has {} CPUs", described.name, described.cpus());
        let order = described.topology().ordered(self.conditions.placement);
        let used: Vec<usize> = order[..self.cpus].iter().map(|cpu| cpu.cpu as usize).collect();
        let (mut host, pace) =
            (described.host(self.draw), described.pace(self.draw, self.recorded.user_share));
        // The time of an instruction has accesses to lines at hand.
        (host.costs.load, host.costs.store) = (0, 0);
        // A task that waits in the kernel does so at once, and its way off the CPU is part of the time until it runs again.
        host.costs.wake_latency += host.costs.park.saturating_sub(host.costs.wake);
        host.costs.park = 0;
        host.costs.wake = host.costs.wake.saturating_sub(pace.call as u64);
        // The time of a call has its way in and out, whose instructions are among the recorded ones.
        let call = pace.call - self.recorded.call_instructions * pace.instruction;
        let lines = self.recorded.lines.len();
        let region = Region::new((1 << 20) + lines * described.cpus() * 128)?;
        let nodes: Vec<u16> = used.iter().map(|cpu| host.cpus[*cpu].node).collect();
        let memory =
            Memory::new(&region, self.recorded, described.cpus(), &used, &nodes, self.apart);
        let streams = host.costs.stream > 0;
        let task = |m: &Simulated, task: usize| {
            let operations = &self.recorded.tasks[task % self.recorded.tasks.len()];
            let mut player = Player {
                m,
                memory: &memory,
                pace,
                call,
                streams,
                task,
                held: [None; HELD_MAX],
                owed: 0,
            };
            player.start(operations);
            // Tasks that repeat one recording do not begin at the same operation.
            let first = m.random(operations.len() as u32) as usize;
            for operation in operations.iter().cycle().skip(first) {
                player.operate(operation);
                m.operation_done();
            }
        };
        let setup = Setup {
            region: &region,
            host: &host,
            tasks: self.cpus,
            cpus: &used,
            task: &task,
            ipi_handler: None,
            exclusive: false,
            fifo: false,
        };
        let warm_up = warm_up(length);
        let options = Options { seed, warm_up, length, preemption, pinned, noise, trace: None };
        Ok(simulate(&setup, &options)?)
    }
}

/// The lines and locks of a simulation.
struct Memory<'a> {
    recorded: &'a RecordedOperations,
    /// The copies of each line.
    lines: Vec<Array<Line<SharedLine>>>,
    /// By line: the index of each task's copy.
    copy: Vec<Vec<usize>>,
    spin: Queued,
    read_write: QueuedReadWrite,
    semaphore: ReadWriteSemaphore,
    sleeping: FutexMutex,
    /// By lock: which of its kind it is on its line.
    slots: Vec<usize>,
    /// Whether times vary. Two tasks that take exactly as long each time find their turns at an object that lets them sleep,
    /// and then never meet there: on hosts they do, and each time costs far more than an operation.
    varies: bool,
}

impl<'a> Memory<'a> {
    fn new(
        region: &Region,
        recorded: &'a RecordedOperations,
        cpus: usize,
        used: &[usize],
        nodes: &[u16],
        apart: &[usize],
    ) -> Memory<'a> {
        let shape = Shape { tasks: used.len(), ..Shape::new(cpus, recorded.locks.len().max(1)) };
        let first_of_node =
            |node: u16| nodes.iter().position(|other| *other == node).unwrap_or_default();
        let copy = |(index, copies): (usize, Copies)| {
            let of_task = |task: usize| match copies {
                _ if apart.contains(&index) => used[task],
                Copies::One => 0,
                Copies::PerNode => used[first_of_node(nodes[task])],
                Copies::PerPair => used[task & !1],
            };
            (0..used.len()).map(of_task).collect()
        };
        let copies = || recorded.lines.iter().map(|line| line.copies).enumerate();
        let array = |(index, copies): (usize, Copies)| match copies {
            Copies::One if !apart.contains(&index) => region.array("line", 1),
            _ => region.per_cpu("line", cpus),
        };
        let slot = |number: usize| {
            let line = recorded.locks[number].line;
            recorded.locks[..number].iter().filter(|lock| lock.line == line).count() % SPIN_LOCKS
        };
        Memory {
            recorded,
            spin: Queued::new(region, shape),
            read_write: QueuedReadWrite::new(region, shape),
            semaphore: ReadWriteSemaphore::new(region, shape),
            sleeping: FutexMutex::new(region, shape),
            lines: copies().map(array).collect(),
            copy: copies().map(copy).collect(),
            slots: (0..recorded.locks.len()).map(slot).collect(),
            varies: recorded.locks.iter().any(|lock| lock.kind == RecordedLockKind::Sleeping),
        }
    }

    /// A task's copy of a line.
    #[inline]
    fn line(&self, task: usize, index: u16) -> &SharedLine {
        let index = usize::from(index);
        &self.lines[index][self.copy[index][task]].0
    }
}

/// A task that repeats recorded operations.
struct Player<'a> {
    m: &'a Simulated<'a>,
    memory: &'a Memory<'a>,
    pace: Pace,
    /// What a system call takes beside its recorded instructions, in ps.
    call: f64,
    /// Whether the memory of a node bounds what its tasks clear and copy.
    streams: bool,
    task: usize,
    /// Locks that it holds, with what they gave it, and whether to read.
    held: [Option<(u16, u32, bool)>; HELD_MAX],
    /// Time that it has not spent yet, in ps: less than a ns, or none where `call` is less.
    owed: i64,
}

impl Player<'_> {
    /// Waits for a random part of an operation.
    fn start(&mut self, operations: &[RecordedOperation]) {
        let instructions = operations.first().map_or(0, RecordedOperation::instructions);
        let ns = (instructions as f64 * self.pace.instruction / 1000.0) as u32;
        self.m.work(u64::from(self.m.random(ns.max(1))));
    }

    fn operate(&mut self, operation: &RecordedOperation) {
        let Pace { fault, sleep, own_line, copied_line, .. } = self.pace;
        let streamed = if self.streams { operation.streamed_lines } else { 0 };
        let copied = operation.copied_lines.saturating_sub(streamed);
        let lines = f64::from(operation.own_lines) * own_line + f64::from(copied) * copied_line;
        let is_entry = |(_, step): &&(u32, RecordedStep)| *step == RecordedStep::Enter;
        let in_steps = operation.steps.iter().filter(is_entry).count() as u32;
        let calls = operation.entries.saturating_sub(operation.faults + in_steps);
        let entries = f64::from(calls) * self.call + f64::from(operation.faults) * fault;
        self.owed += (lines + entries + f64::from(operation.sleeps) * sleep) as i64;
        if streamed > 0 {
            self.spend();
            self.m.stream(streamed, (f64::from(streamed) * copied_line) as u64);
        }
        for (after, step) in &operation.steps {
            self.owed += (f64::from(*after) * self.pace.instruction) as i64;
            match step {
                RecordedStep::OwnAtomic => self.owed += self.pace.atomic as i64,
                RecordedStep::Enter => self.owed += self.call as i64,
                shared => {
                    self.spend();
                    self.step(*shared);
                }
            }
        }
        self.owed += (f64::from(operation.then) * self.pace.instruction) as i64;
        self.spend();
    }

    fn spend(&mut self) {
        let ns = (self.owed / 1000).max(0) as u64;
        self.owed -= 1000 * ns as i64;
        if ns > 0 {
            self.m.work(if self.memory.varies { self.varied(ns) } else { ns });
        }
    }

    /// Between half and one and a half times as long.
    fn varied(&self, ns: u64) -> u64 {
        let bound = u32::try_from(ns).unwrap_or(u32::MAX).saturating_add(1);
        ns / 2 + u64::from(self.m.random(bound))
    }

    fn step(&mut self, step: RecordedStep) {
        let m = self.m;
        let word = |line: u16| &self.memory.line(self.task, line).word;
        match step {
            RecordedStep::Load(line) => {
                word(line).load(m, Ordering::Relaxed);
            }
            RecordedStep::Store(line) => word(line).store(m, 1, Ordering::Relaxed),
            RecordedStep::Atomic(line) => {
                word(line).fetch_add(m, 1, Ordering::AcqRel);
            }
            RecordedStep::Compare(line) => {
                let word = word(line);
                let mut seen = word.load(m, Ordering::Relaxed);
                while let Err(now) =
                    word.compare_exchange(m, seen, seen.wrapping_add(1), Ordering::AcqRel)
                {
                    seen = now;
                }
            }
            RecordedStep::OwnAtomic | RecordedStep::Enter => (),
            RecordedStep::Lock(lock) => self.lock(lock, false),
            RecordedStep::LockShared(lock) => self.lock(lock, true),
            RecordedStep::Unlock(lock) => self.unlock(lock),
        }
    }

    fn lock(&mut self, lock: u16, shared: bool) {
        let Memory { recorded, slots, spin, read_write, semaphore, sleeping, .. } = self.memory;
        let of = &recorded.locks[usize::from(lock)];
        let line = self.memory.line(self.task, of.line);
        let Hold(given) = match (of.kind, shared) {
            (RecordedLockKind::Spin | RecordedLockKind::Mutex, _) => {
                spin.lock(self.m, &line.spin[slots[usize::from(lock)]])
            }
            (RecordedLockKind::ReadWriteSpin, false) => {
                read_write.write_lock(self.m, &line.read_write)
            }
            (RecordedLockKind::ReadWriteSpin, true) => {
                read_write.read_lock(self.m, &line.read_write)
            }
            (RecordedLockKind::Semaphore, false) => semaphore.write_lock(self.m, &line.semaphore),
            (RecordedLockKind::Semaphore, true) => semaphore.read_lock(self.m, &line.semaphore),
            (RecordedLockKind::Sleeping, _) => sleeping.lock(self.m, &line.sleeping),
        };
        if let Some(free) = self.held.iter_mut().find(|held| held.is_none()) {
            *free = Some((lock, given, shared));
        }
    }

    fn unlock(&mut self, lock: u16) {
        let Memory { recorded, slots, spin, read_write, semaphore, sleeping, .. } = self.memory;
        let of = &recorded.locks[usize::from(lock)];
        let line = self.memory.line(self.task, of.line);
        let mut held = self.held.iter_mut();
        let taken = held.find(|held| held.is_some_and(|(number, ..)| number == lock));
        let Some((_, given, shared)) = taken.and_then(Option::take) else { return };
        let hold = Hold(given);
        match (of.kind, shared) {
            (RecordedLockKind::Spin | RecordedLockKind::Mutex, _) => {
                spin.unlock(self.m, &line.spin[slots[usize::from(lock)]], hold);
            }
            (RecordedLockKind::ReadWriteSpin, false) => {
                read_write.write_unlock(self.m, &line.read_write, hold);
            }
            (RecordedLockKind::ReadWriteSpin, true) => {
                read_write.read_unlock(self.m, &line.read_write, hold);
            }
            (RecordedLockKind::Semaphore, false) => {
                semaphore.write_unlock(self.m, &line.semaphore, hold);
            }
            (RecordedLockKind::Semaphore, true) => {
                semaphore.read_unlock(self.m, &line.semaphore, hold);
            }
            (RecordedLockKind::Sleeping, _) => sleeping.unlock(self.m, &line.sleeping, hold),
        }
    }
}
