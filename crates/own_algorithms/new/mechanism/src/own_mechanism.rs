//! own_mechanism: a counter to start from. Each operation adds 1; a few also read the sum.
//!
//!     before:   lock ──> count + 1 ──> unlock              one count, on a line that all CPUs write
//!     after:    own count + 1                              a count for each CPU, which its task alone writes
//!               read: all counts, one after the other      so readers pay for what writers save
//!
//! Invariants: the sum at the end is that of all operations; a task never reads a smaller sum than it read before.
//!
//! This comment is the manual page. Replace the mechanism by your own, keep the type's name, and run `make check`.

use own_algorithms::locks::ticket::{Ticket, TicketMem};
use own_algorithms::machine::{Array, Atom, Field, Line, Machine, Ordering, Region, image};
use own_algorithms::{Equivalent, Lock, Mechanism, Setting, Settings, Shape};

image! {
    /// The count of `before`, and its lock. All memory starts as zero.
    struct LockedCount {
        lock: TicketMem,
        count: Field<u64>,
    }
}

/// All that differs between the designs.
#[derive(Clone, Copy, PartialEq)]
pub enum Design {
    OneCount,
    CountPerCpu,
}

/// What all tasks share.
pub struct OwnMechanism {
    design: Design,
    read_one_in: u32,
    lock: Ticket,
    one: Array<Line<LockedCount>>,
    per_cpu: Array<Line<Atom<u64>>>,
}

/// What a task keeps from one operation to the next.
#[derive(Clone, Copy)]
pub struct Task {
    cpu: usize,
    /// The largest sum that it has read.
    seen: u64,
    reads: u64,
}

impl Mechanism for OwnMechanism {
    const NAME: &'static str = "own_mechanism";
    const OPERATION: &'static str = "1 added to the counter";
    type Design = Design;
    /// First the design that does not scale.
    const DESIGNS: &'static [(&'static str, Design)] =
        &[("before", Design::OneCount), ("after", Design::CountPerCpu)];
    const SETTINGS: &'static [Setting] = &[Setting {
        name: "read_one_in",
        about: "one operation in this many also reads the sum",
        default: 1000,
        min: 1,
        max: 1_000_000,
        // Under the checker, as small as possible without hiding anything: each operation may read or not.
        searched: 2,
    }];
    /// Mutants that break nothing, each with the reason.
    const EQUIVALENT: &'static [Equivalent] = &[];
    type Task = Task;

    fn bytes(tasks: usize, _: &Settings) -> usize {
        (64 << 10) + tasks * 1024
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> OwnMechanism {
        OwnMechanism {
            design,
            read_one_in: settings.get("read_one_in") as u32,
            lock: Ticket::new(region, Shape::new(tasks, 1)),
            one: region.array("one", 1),
            per_cpu: region.per_cpu("per_cpu", tasks),
        }
    }

    fn start<M: Machine>(&self, _: &M, task: usize) -> Task {
        Task { cpu: task, seen: 0, reads: 0 }
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Task) {
        // For the checker: what went before no longer matters, but for the number that is named.
        let begin = m.history_mark();
        self.add(m, task.cpu);
        m.forget_history(begin, task.seen);
        if m.chance(self.read_one_in) {
            let sum = self.sum(m);
            assert!(sum >= task.seen, "a task has read {}, and then {sum}", task.seen);
            task.seen = sum;
            task.reads += 1;
        }
    }

    /// What a task still knows between two operations and needs for the next.
    fn live(task: &Task) -> u64 {
        task.seen
    }

    /// What must hold when all tasks have finished.
    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let sum = self.sum(m);
        if sum != operations {
            return Err(format!("the sum is {sum} after {operations} operations"));
        }
        if !self.lock.at_rest(m, &self.one[0].0.lock) {
            return Err("the lock is not free at the end".to_string());
        }
        Ok(())
    }

    /// Counts for reports: what a task did besides its operations.
    fn effects(task: &Task) -> Vec<(&'static str, u64)> {
        vec![("reads", task.reads)]
    }
}

impl OwnMechanism {
    #[inline(always)]
    fn add<M: Machine>(&self, m: &M, cpu: usize) {
        if self.design == Design::OneCount {
            let LockedCount { lock, count } = &self.one[0].0;
            let hold = self.lock.lock(m, lock);
            count.set(m, count.get(m) + 1);
            self.lock.unlock(m, lock, hold);
            return;
        }
        // Relaxed: nobody else writes this count, and it guards nothing.
        let own = &self.per_cpu[cpu].0;
        let count = own.load(m, Ordering::Relaxed);
        own.store(m, count + 1, Ordering::Relaxed);
    }

    #[inline(always)]
    fn sum<M: Machine>(&self, m: &M) -> u64 {
        if self.design == Design::OneCount {
            let LockedCount { lock, count } = &self.one[0].0;
            let hold = self.lock.lock(m, lock);
            let sum = count.get(m);
            self.lock.unlock(m, lock, hold);
            return sum;
        }
        self.per_cpu.iter().map(|own| own.0.load(m, Ordering::Relaxed)).sum()
    }
}
