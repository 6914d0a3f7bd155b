//! Counter: a number that all tasks add to. What a lock does to scaling, a statistic does as well.
//!
//!     word:      all CPUs write one line ──────────────────────────────> count
//!     batched:   each CPU writes its own ──once in `batch` additions──> lock, count
//!
//! Designs: `compare` loads the word and tries a compare-and-exchange until no other task came between, as
//! `atomic_add_unless` and `cmpxchg` loops do. `add` is one instruction that adds, `atomic_inc`. `batched` adds to a word
//! of the CPU's own, and moves that to the count under a lock when it has reached `batch`: `percpu_counter_add_batch`,
//! whose sum is exact, and whose count alone is near. `locked` takes the lock for each addition, as for a sum of 64 bits
//! on a machine of 32.
//!
//! Invariants: count and words of CPUs add up to the operations; at the end the lock is free.
//!
//! The first two are the storms on one word by which hosts are calibrated: what the second attempt of a
//! compare-and-exchange finds depends on how often a CPU keeps a line that others ask for.
//!
//! Linux lib/percpu_counter.c. `batched`: 2.5.69, percpu_counters, by Andrew Morton, 2003.

use machine::{Array, Atom, Line, Machine, Ordering, Region};

use super::{Mechanism, Scenario, Setting, Settings};
use crate::{Lock, Shape};

/// How a task adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// By a compare-and-exchange, as often as it takes.
    Compare,
    /// By one instruction.
    Add,
    /// To a word of the CPU's own, and seldom to the count.
    Batched,
    /// Under the lock.
    Locked,
}

/// A number that all tasks add to.
#[derive(Debug)]
pub struct Counter<L: Lock> {
    design: Design,
    batch: u64,
    work_ns: u64,
    lock: L,
    locks: Array<Line<L::Mem>>,
    count: Array<Line<Atom<u64>>>,
    own: Array<Line<Atom<u64>>>,
}

/// A task that adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adder {
    task: usize,
    /// Compare-and-exchanges that found another count than the load before.
    retries: u64,
}

impl<L: Lock> Mechanism for Counter<L> {
    const NAME: &'static str = "counter";
    type Design = Design;
    type Task = Adder;
    const OPERATION: &'static str = "an addition of 1";
    const TASKS_SHARE_CPUS: bool = true;
    const DESIGNS: &'static [(&'static str, Design)] =
        &[("compare", Design::Compare), ("add", Design::Add), ("batched", Design::Batched), ("locked", Design::Locked)];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "batch",
            about: "additions of a CPU before it moves them to the count",
            default: 32,
            min: 1,
            max: 1 << 20,
            searched: 2,
        },
        Setting::time("work_ns", "work between two operations, in ns", 0),
    ];
    const SCENARIOS: &'static [Scenario] = &[Scenario::new(2, 2), Scenario::new(3, 1)];

    fn bytes(_: &Design, tasks: usize, _: &Settings) -> usize {
        (64 << 10) + tasks * 2048
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        Counter {
            design,
            batch: settings.get("batch"),
            work_ns: settings.get("work_ns"),
            lock: L::new(region, Shape::new(tasks, 1)),
            locks: region.array("lock", 1),
            count: region.array("count", 1),
            own: region.per_cpu("own", tasks),
        }
    }

    fn start<M: Machine>(&self, _: &M, task: usize) -> Adder {
        Adder { task, retries: 0 }
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Adder) {
        let begin = m.history_mark();
        match self.design {
            Design::Compare => task.retries += self.compare(m),
            Design::Add => {
                self.count[0].fetch_add(m, 1, Ordering::Relaxed);
            }
            Design::Batched => self.add_to_own(m, task.task),
            Design::Locked => self.add_under_lock(m, 1),
        }
        m.forget_history(begin, 0);
        m.work(self.work_ns);
    }

    fn live(_: &Adder) -> u64 {
        0
    }

    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let own = self.own.iter().map(|own| own.load(m, Ordering::Relaxed));
        let sum = self.count[0].load(m, Ordering::Relaxed) + own.sum::<u64>();
        if sum != operations {
            return Err(format!("the sum is {sum} after {operations} additions"));
        }
        let is_free = self.lock.at_rest(m, &self.locks[0].0);
        is_free.then_some(()).ok_or_else(|| "the lock is not free at the end".to_string())
    }

    fn effects(task: &Adder) -> Vec<(&'static str, u64)> {
        vec![("retries", task.retries)]
    }
}

impl<L: Lock> Counter<L> {
    /// Returns how many attempts failed.
    #[inline(always)]
    fn compare<M: Machine>(&self, m: &M) -> u64 {
        let begin = m.history_mark();
        let mut seen = self.count[0].load(m, Ordering::Relaxed);
        let mut retries = 0;
        while let Err(now) =
            self.count[0].compare_exchange(m, seen, seen.wrapping_add(1), Ordering::Relaxed)
        {
            (seen, retries) = (now, retries + 1);
            m.forget_history(begin, now);
        }
        retries
    }

    /// Only the task itself writes its CPU's word.
    #[inline(always)]
    fn add_to_own<M: Machine>(&self, m: &M, task: usize) {
        let begin = m.history_mark();
        let own = self.own[task].load(m, Ordering::Relaxed) + 1;
        if own < self.batch {
            self.own[task].store(m, own, Ordering::Relaxed);
            return;
        }
        m.forget_history(begin, own);
        self.add_under_lock(m, own);
        self.own[task].store(m, 0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn add_under_lock<M: Machine>(&self, m: &M, added: u64) {
        let hold = self.lock.lock(m, &self.locks[0].0);
        let count = self.count[0].load(m, Ordering::Relaxed);
        self.count[0].store(m, count.wrapping_add(added), Ordering::Relaxed);
        self.lock.unlock(m, &self.locks[0].0, hold);
    }
}
