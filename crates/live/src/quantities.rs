//! What two observations have in common to compare: shares of causes and locks, what groups of threads do, the CPUs'
//! time by row, the rate; each as a series over the windows of both sides.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Series;
use ledger::{LedgerRow, WORK};
use records::Obtained;
use records::live::{Observation, ObservedThread, ThreadState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{OTHERS, idle_in, is_busy, is_storage, ledger, pooled};
use crate::cause_series::{chance_of_samples, share_of_cause};
use crate::causes::{LiveCauseKind, causes};
use crate::shares::Shares;

/// What is compared between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveQuantity {
    /// A cause: the share that it has of the time, of the CPU time or of active threads, by its kind.
    Cause,
    /// A lock that is no cause: the share of the time in which at least one thread waits for it.
    LockContended,
    /// How often threads begin to wait for a lock.
    LockWaits,
    /// Threads of a group that have a CPU.
    Running,
    /// Threads of a group that could run and have no CPU.
    CouldRun,
    /// Threads of a group that wait for locks.
    WaitingForLocks,
    /// Threads of a group that wait for storage, memory or page faults.
    WaitingForStorage,
    /// Threads of a group that wait for other threads, clients or time.
    Idle,
    /// A row of the CPUs' time.
    CpuTime,
    /// Operations, counted.
    OperationRate,
}

/// In which unit a quantity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveUnit {
    /// A share, of 1.
    Share,
    /// The mean number of threads at a time.
    Threads,
    PerSecond,
    /// CPU time for each operation.
    NsPerOperation,
    /// CPU time in each second.
    NsPerSecond,
}

/// A quantity of both sides.
pub struct Pair {
    pub quantity: LiveQuantity,
    pub name: String,
    /// The row that a row of the CPUs' time is part of.
    pub within: Option<String>,
    pub cause: Option<LiveCauseKind>,
    pub unit: LiveUnit,
    pub before: Series,
    pub after: Series,
    /// A difference below this matters to nobody, in the unit.
    pub least: f64,
    /// The whole that a difference is seen as a share of, in the unit.
    pub whole: f64,
}

/// A share of time, and a part of all CPUs' time, below which nothing is compared.
const SHARE_MIN: f64 = 0.01;
/// A number of threads at a time below which nothing is compared.
const THREADS_MIN: f64 = 0.02;
const LOCKS_MAX: usize = 8;
const GROUPS_MAX: usize = 8;
const ROWS_MAX: usize = 24;

/// All quantities of two observations that are worth a comparison.
pub fn pairs(before: &Observation, after: &Observation) -> Vec<Pair> {
    let sides = Sides { before: Side::new(before), after: Side::new(after) };
    let mut pairs: Vec<Pair> = sides.rate().into_iter().collect();
    let causes = sides.causes();
    let named: BTreeSet<String> = causes.iter().map(|cause| cause.name.clone()).collect();
    pairs.extend(causes);
    pairs.extend(sides.locks(&named));
    pairs.extend(sides.groups());
    pairs.extend(sides.rows());
    pairs
}

struct Sides<'o> {
    before: Side<'o>,
    after: Side<'o>,
}

struct Side<'o> {
    observation: &'o Observation,
    shares: Shares<'o>,
    /// The length of each window, ns.
    window_ns: Vec<f64>,
}

impl<'o> Side<'o> {
    fn new(observation: &'o Observation) -> Side<'o> {
        let window_ns = observation.windows.iter().map(|window| window.ns as f64).collect();
        Side { observation, shares: Shares::new(observation), window_ns }
    }

    fn of_time(&self, ns: &[u64]) -> Option<Series> {
        let ns: Vec<f64> = ns.iter().map(|ns| *ns as f64).collect();
        Series::from_ratios(&ns, &self.window_ns)
    }

    fn per_second(&self, counts: &[f64]) -> Option<Series> {
        let seconds: Vec<f64> = self.window_ns.iter().map(|ns| ns / 1e9).collect();
        Series::from_ratios(counts, &seconds)
    }

    fn operations(&self) -> Option<Vec<f64>> {
        self.observation.windows.iter().map(|window| window.operations).collect()
    }

    /// In each window, the sum over all locks of a name.
    fn of_lock(&self, name: &str, of: impl Fn(&records::live::ObservedLock) -> &[u64]) -> Vec<u64> {
        let mut sums = vec![0; self.window_ns.len()];
        for lock in self.observation.locks.iter().filter(|lock| lock.name == name) {
            sums.iter_mut().zip(of(lock)).for_each(|(sum, one)| *sum += one);
        }
        sums
    }

    fn contended(&self, name: &str) -> Option<Series> {
        let lengths = self.observation.windows.iter().map(|window| window.ns);
        // Locks of one name may be contended at the same time.
        let ns = self.of_lock(name, |lock| &lock.contended_ns).into_iter().zip(lengths);
        self.of_time(&ns.map(|(ns, length)| ns.min(length)).collect::<Vec<u64>>())
    }

    /// How often threads begin to wait for a lock, if the windows have it: older files do not.
    fn waits(&self, name: &str) -> Option<Series> {
        let mut locks = self.observation.locks.iter().filter(|lock| lock.name == name);
        let is_counted = locks.all(|lock| lock.waits_begun.len() == self.window_ns.len());
        let counts = self.of_lock(name, |lock| &lock.waits_begun);
        let counts: Vec<f64> = counts.into_iter().map(|times| times as f64).collect();
        self.per_second(&counts).filter(|_| is_counted)
    }

    fn threads_of(&self, group: &str) -> impl Iterator<Item = &'o ObservedThread> {
        self.observation.threads.iter().filter(move |thread| pooled(&thread.name) == group)
    }
}

impl Sides<'_> {
    fn both(&self, of: impl Fn(&Side) -> Option<Series>) -> Option<(Series, Series)> {
        of(&self.before).zip(of(&self.after))
    }

    /// What both sides were found to be like, by name.
    fn names(&self, of: impl Fn(&Observation) -> Vec<String>) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = of(self.before.observation).into_iter().collect();
        names.extend(of(self.after.observation));
        names
    }

    fn rate(&self) -> Option<Pair> {
        let is_counted = |side: &Side| side.observation.operations_from.is_some();
        if !is_counted(&self.before) || !is_counted(&self.after) {
            return None;
        }
        let (before, after) = self.both(|side| side.per_second(&side.operations()?))?;
        let whole = before.mean.max(after.mean);
        let unit = LiveUnit::PerSecond;
        Some(Pair {
            whole,
            ..pair(LiveQuantity::OperationRate, "operations", unit, before, after, 0.0)
        })
    }

    fn causes(&self) -> Vec<Pair> {
        let mut known: BTreeMap<(LiveCauseKind, String), String> = BTreeMap::new();
        for side in [&self.after, &self.before] {
            for cause in causes(side.observation) {
                // Some are one thing each, whose name says how much of it there was.
                let key = if is_of_many(cause.cause) { cause.name.clone() } else { String::new() };
                known.entry((cause.cause, key)).or_insert(cause.name);
            }
        }
        let is_lock = |name: &str| {
            let sides = [&self.before, &self.after];
            sides.into_iter().any(|side| side.observation.locks.iter().any(|l| l.name == name))
        };
        let pairs = known.into_iter().filter_map(|((kind, _), name)| {
            let (before, after) = if is_lock(&name) {
                self.both(|side| side.contended(&name))?
            } else {
                self.both(|side| share_of_cause(side.observation, kind, &name))?
            };
            let pair = pair(LiveQuantity::Cause, name, LiveUnit::Share, before, after, SHARE_MIN);
            Some(Pair { cause: Some(kind), ..pair })
        });
        pairs.collect()
    }

    fn locks(&self, causes: &BTreeSet<String>) -> Vec<Pair> {
        let names = self.names(|o| o.locks.iter().map(|lock| lock.name.clone()).collect());
        let locks = names.into_iter().filter_map(|name| {
            let (before, after) = self.both(|side| side.contended(&name))?;
            let most = before.mean.max(after.mean);
            (most >= SHARE_MIN).then_some((name, before, after, most))
        });
        let mut locks: Vec<(String, Series, Series, f64)> = locks.collect();
        locks.sort_by(|a, b| b.3.total_cmp(&a.3));
        locks.truncate(LOCKS_MAX);
        let mut pairs = Vec::new();
        for (name, before, after, _) in locks {
            if let Some((before, after)) = self.both(|side| side.waits(&name)) {
                let unit = LiveUnit::PerSecond;
                pairs.push(pair(LiveQuantity::LockWaits, &name, unit, before, after, 1.0));
            }
            if !causes.contains(&name) {
                let (quantity, unit) = (LiveQuantity::LockContended, LiveUnit::Share);
                pairs.push(pair(quantity, name, unit, before, after, SHARE_MIN));
            }
        }
        pairs
    }

    /// What the threads of each name do.
    fn groups(&self) -> Vec<Pair> {
        let names = self.names(|o| o.threads.iter().map(|t| pooled(&t.name)).collect());
        let all = |side: &Side, is: &dyn Fn(&ThreadState) -> bool, group: &str| {
            side.of_time(&side.shares.ns(side.threads_of(group), is))
        };
        let busiest = |group: &String| {
            let busy = self.both(|side| all(side, &|state| idle_in(state).is_none(), group));
            busy.map_or(0.0, |(before, after)| before.mean.max(after.mean))
        };
        let mut groups: Vec<(f64, String)> =
            names.into_iter().map(|group| (busiest(&group), group)).collect();
        groups.sort_by(|a, b| b.0.total_cmp(&a.0));
        groups.truncate(GROUPS_MAX);
        let active: f64 = groups.iter().map(|(busy, _)| busy).sum();
        let mut pairs = Vec::new();
        for (_, group) in groups {
            for (quantity, is) in STATES {
                let found = self.both(|side| all(side, &is, &group));
                let Some((before, after)) = found else { continue };
                if before.mean.max(after.mean) >= THREADS_MIN {
                    let unit = LiveUnit::Threads;
                    let pair = pair(quantity, &group, unit, before, after, THREADS_MIN);
                    pairs.push(Pair { whole: active.max(1.0), ..pair });
                }
            }
        }
        pairs
    }

    /// The CPUs' time, row by row. Per operation only if both sides count operations.
    fn rows(&self) -> Vec<Pair> {
        let is_counted = self.before.operations().is_some() && self.after.operations().is_some();
        let sides = [&self.before, &self.after].map(|side| Rows::new(side, is_counted));
        let Some(whole) = sides[0].mean.zip(sides[1].mean).map(|(a, b)| a.max(b)) else {
            return Vec::new();
        };
        let unit = if is_counted { LiveUnit::NsPerOperation } else { LiveUnit::NsPerSecond };
        let mut pairs = Vec::new();
        for (within, name) in Rows::names(&sides) {
            let series = sides.each_ref().map(|side| side.series(within.as_deref(), &name));
            let [Some(before), Some(after)] = series else { continue };
            if before.mean.max(after.mean) >= SHARE_MIN * whole {
                let least = SHARE_MIN * whole;
                let pair = pair(LiveQuantity::CpuTime, name, unit, before, after, least);
                pairs.push(Pair { whole, within, ..pair });
            }
        }
        pairs.sort_by(|a, b| {
            b.before.mean.max(b.after.mean).total_cmp(&a.before.mean.max(a.after.mean))
        });
        pairs.truncate(ROWS_MAX);
        pairs
    }
}

/// Whether there may be several causes of a kind, which their names tell apart.
fn is_of_many(kind: LiveCauseKind) -> bool {
    matches!(
        kind,
        LiveCauseKind::Lock
            | LiveCauseKind::KernelLock
            | LiveCauseKind::BusyThread
            | LiveCauseKind::SharedLine
            | LiveCauseKind::GarbageCollection
    )
}

type IsState = fn(&ThreadState) -> bool;

/// What threads of a group may do.
const STATES: [(LiveQuantity, IsState); 5] = [
    (LiveQuantity::Running, |state| *state == ThreadState::Running),
    (LiveQuantity::CouldRun, |state| is_busy(state) && *state != ThreadState::Running),
    (LiveQuantity::WaitingForLocks, |state| matches!(state, ThreadState::Lock(_))),
    (LiveQuantity::WaitingForStorage, is_storage),
    (LiveQuantity::Idle, |state| idle_in(state).is_some()),
];

fn pair(
    quantity: LiveQuantity,
    name: impl Into<String>,
    unit: LiveUnit,
    before: Series,
    after: Series,
    least: f64,
) -> Pair {
    Pair {
        quantity,
        name: name.into(),
        within: None,
        cause: None,
        unit,
        before,
        after,
        least,
        whole: 1.0,
    }
}

/// The rows of one side's CPU time.
struct Rows {
    root: LedgerRow,
    /// What a window's times are divided by.
    divisors: Vec<f64>,
    /// Time of all CPUs per operation or second.
    mean: Option<f64>,
    /// Number of samples of the threads.
    samples: u64,
}

impl Rows {
    fn new(side: &Side, is_counted: bool) -> Rows {
        let root = ledger(side.observation, is_counted).root;
        // Without operations, the windows are stretched to a second each.
        let divisors = side.operations().filter(|_| is_counted);
        let divisors = divisors.unwrap_or_else(|| vec![1.0; root.ns.len()]);
        let samples = side.observation.threads.iter().flat_map(|thread| &thread.samples);
        let samples = samples.map(|sample| sample.times).sum();
        let mean = mean_of(&root.ns, &divisors).map(|series| series.mean);
        Rows { root, divisors, mean, samples }
    }

    /// The names of rows that either side has, below the root and in its parts, each with the row that it is part of.
    fn names(sides: &[Rows; 2]) -> BTreeSet<(Option<String>, String)> {
        fn add(
            row: &LedgerRow,
            within: Option<&str>,
            names: &mut BTreeSet<(Option<String>, String)>,
        ) {
            for part in &row.rows {
                names.insert((within.map(str::to_string), part.name.clone()));
                // Which other programs come and go says nothing about this one.
                if part.name != OTHERS {
                    add(part, Some(&part.name), names);
                }
            }
        }
        let mut names = BTreeSet::new();
        sides.iter().for_each(|side| add(&side.root, None, &mut names));
        names
    }

    /// A row over the windows; one that this side does not have took no time. `None` if it would be divided by samples, and
    /// there are none.
    fn series(&self, within: Option<&str>, name: &str) -> Option<Series> {
        let work = self.root.part(WORK)?;
        let is_of_work = within.is_some_and(|within| within == WORK || work.part(within).is_some());
        let row = found(&self.root, within, name);
        let zeros = vec![0; self.divisors.len()];
        let series = mean_of(row.map_or(&zeros, |row| &row.ns), &self.divisors)?;
        let is_sampled = row.map_or(is_of_work, |row| row.obtained == Obtained::Sampled);
        if !is_sampled {
            return Some(series);
        }
        let samples = row.and_then(|row| row.samples).unwrap_or(0);
        let share_error = (self.samples > 0).then(|| chance_of_samples(samples, self.samples))?;
        let of_work = mean_of(&work.ns, &self.divisors)?.mean;
        Some(series.with_error(of_work * share_error))
    }
}

fn mean_of(ns: &[u64], divisors: &[f64]) -> Option<Series> {
    let ns: Vec<f64> = ns.iter().map(|ns| *ns as f64).collect();
    Series::from_ratios(&ns, divisors)
}

/// The row of a name in the row `within`, or below the root.
fn found<'r>(row: &'r LedgerRow, within: Option<&str>, name: &str) -> Option<&'r LedgerRow> {
    let Some(within) = within else { return row.part(name) };
    row.rows.iter().find_map(|part| {
        if part.name == within { part.part(name) } else { found(part, Some(within), name) }
    })
}
