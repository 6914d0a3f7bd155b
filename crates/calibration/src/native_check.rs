//! Runs the simulated tasks natively on this host, to compare a simulation with.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::{self, Builder};
use std::time::Duration;

use algorithms::{Locks, LocksVisitor, Shape, place};
use analysis::Quartiles;
use anyhow::{Context, Result, ensure};
use host::clock::now_ns;
use host::pinned::together;
use machine::{Native, Pace, Yielding};
use studies::Subject;
use studies::simulations::{Conditions, GuardedLines, LockLoad, operation, point};

/// The ratio of a simulated rate to the native one that counts as agreement.
pub const AGREES: std::ops::RangeInclusive<f64> = 0.8..=1.25;

const REPEATS: usize = 15;
const RUN: Duration = Duration::from_millis(20);

/// A lock at one number of CPUs, simulated and native.
#[derive(Clone, Debug)]
pub struct Agreement {
    pub name: String,
    pub cpus: usize,
    /// Operations per second.
    pub native: Quartiles,
    pub simulated: f64,
    /// The simulated rate over the native ones.
    pub ratio: Quartiles,
}

impl Agreement {
    pub fn agrees(&self) -> bool {
        AGREES.contains(&self.ratio.median)
    }
}

/// The comparisons, and the transfer time of a line during the native runs.
#[derive(Clone, Debug)]
pub struct Agreements {
    pub all: Vec<Agreement>,
    /// Transfer of a modified line from the second CPU to the first, in ns; `None` with one CPU.
    pub transfer_ns: Option<Quartiles>,
}

/// Simulates locks of the list, and runs them natively on the first `counts` of these CPUs. The native runs of
/// all locks are interleaved, so that other work on this host affects all alike.
pub fn agreements(
    locks: &[Subject],
    load: LockLoad,
    conditions: &Conditions,
    counts: &[u32],
    cpus: &[u32],
) -> Result<Agreements> {
    let cases: Vec<(&Subject, usize)> = locks
        .iter()
        .flat_map(|lock| counts.iter().map(move |&count| (lock, count as usize)))
        .collect();
    let (mut rates, mut transfers) = (vec![Vec::new(); cases.len()], Vec::new());
    for _ in 0..REPEATS {
        if let (&[user, owner, ..], true) = (cpus, counts.iter().any(|&count| count > 1)) {
            transfers.extend(crate::transfer(user, owner)?);
        }
        for (&(lock, count), rates) in cases.iter().zip(&mut rates) {
            rates.push(rate(&lock.name(), load, &cpus[..count], RUN)?);
        }
    }
    let conditions = Conditions { draws: 0, ..conditions.clone() };
    let agreement = |(&(lock, cpus), rates): (&(&Subject, usize), &Vec<f64>)| {
        let simulated = point(lock, load, &conditions, cpus, cpus)?.middle.rate();
        ensure!(
            simulated > 0.0,
            "{} at {cpus} CPUs ends no operation in the simulated time: give a longer --length",
            lock.name()
        );
        let ratios: Vec<f64> = rates.iter().map(|rate| simulated / rate).collect();
        let quartiles = |values: &[f64]| Quartiles::from_values(values).context("nothing ran");
        let (native, ratio) = (quartiles(rates)?, quartiles(&ratios)?);
        Ok(Agreement { name: lock.name(), cpus, native, simulated, ratio })
    };
    let all = cases.iter().zip(&rates).map(agreement).collect::<Result<_>>()?;
    Ok(Agreements { all, transfer_ns: Quartiles::from_values(&transfers) })
}

/// Runs a lock on these CPUs, one task on each; returns the operations per second of all tasks.
fn rate(name: &str, load: LockLoad, cpus: &[u32], length: Duration) -> Result<f64> {
    let run = NativeRun { load, cpus, length };
    let shape = Shape::new(cpus.len(), load.locks);
    let rate = place(name, shape, load.region_bytes(cpus.len()), run);
    let rate = rate.with_context(|| format!("there is no lock {name:?}"))?;
    rate.flatten().with_context(|| format!("running {name} on CPUs {cpus:?}"))
}

struct NativeRun<'a> {
    load: LockLoad,
    cpus: &'a [u32],
    length: Duration,
}

impl NativeRun<'_> {
    /// Repeats an operation on each CPU until the time is over; returns operations per second.
    fn rate(&self, operate: impl Fn(&Native<Yielding>) + Sync) -> io::Result<f64> {
        let is_over = &AtomicBool::new(false);
        let begun = &AtomicUsize::new(0);
        thread::scope(|scope| {
            let tasks = Builder::new().spawn_scoped(scope, || {
                together(self.cpus, |task, meeting| {
                    let m = Native::new(task, 0).with_pace(Pace::measure(now_ns)).yielding();
                    meeting.meet();
                    let (start, mut operations) = (now_ns(), 0_u64);
                    begun.fetch_add(1, Relaxed);
                    loop {
                        operate(&m);
                        operations += 1;
                        if is_over.load(Relaxed) {
                            break;
                        }
                    }
                    (operations, now_ns() - start)
                })
            })?;
            // Measuring the speed of a CPU takes long where other programs use it.
            while begun.load(Relaxed) < self.cpus.len() && !tasks.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(self.length);
            is_over.store(true, Relaxed);
            let counts = tasks.join().expect("a task does not panic")?;
            Ok(counts.iter().map(|&(operations, ns)| operations as f64 / ns as f64 * 1e9).sum())
        })
    }
}

impl LocksVisitor for NativeRun<'_> {
    type Out = io::Result<f64>;

    fn locks<L: Locks>(self, locks: &L) -> io::Result<f64> {
        let guarded = GuardedLines::new(locks.region(), &self.load);
        self.rate(|m| operation(m, locks, &guarded, self.load))
    }
}
