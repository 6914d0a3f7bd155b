//! Runs the simulated tasks natively on this host, to compare a simulation with.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Builder};
use std::time::Duration;

use algorithms::locks::{self, Visitor};
use algorithms::{Lock, Shape, SharedLock};
use analysis::Quartiles;
use anyhow::{Context, Result};
use host::clock::now_ns;
use host::pinned::together;
use machine::{Native, Pace, Region, Yielding};
use studies::simulations::{
    Conditions, Guarded, LockLoad, exclusive_operation, lock_point, sharing_operation,
};

/// The ratio of a simulated rate to the native one that counts as agreement.
pub const AGREES: std::ops::RangeInclusive<f64> = 0.8..=1.25;

const REPEATS: usize = 15;
const RUN: Duration = Duration::from_millis(20);
/// Time before each run for measuring the speed of its CPUs.
const SPEED_TAKES: Duration = Duration::from_millis(10);

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

/// Simulates locks, and runs them natively on the first `counts` of these CPUs. The native runs of
/// all locks are interleaved, so that other work on this host affects all alike.
pub fn agreements(
    names: &[&str],
    load: LockLoad,
    conditions: &Conditions,
    counts: &[u32],
    cpus: &[u32],
) -> Result<Agreements> {
    let cases: Vec<(&str, usize)> = names
        .iter()
        .flat_map(|name| counts.iter().map(move |&count| (*name, count as usize)))
        .collect();
    let (mut rates, mut transfers) = (vec![Vec::new(); cases.len()], Vec::new());
    for _ in 0..REPEATS {
        if let (&[user, owner, ..], true) = (cpus, counts.iter().any(|&count| count > 1)) {
            transfers.extend(crate::transfer(user, owner)?);
        }
        for (&(name, count), rates) in cases.iter().zip(&mut rates) {
            rates.push(rate(name, load, &cpus[..count], RUN)?);
        }
    }
    let conditions = Conditions { draws: 0, ..conditions.clone() };
    let agreement = |(&(name, cpus), rates): (&(&str, usize), &Vec<f64>)| {
        let simulated = lock_point(name, load, &conditions, cpus, cpus)?.middle.rate();
        let ratios: Vec<f64> = rates.iter().map(|rate| simulated / rate).collect();
        let quartiles = |values: &[f64]| Quartiles::from_values(values).context("nothing ran");
        let (native, ratio) = (quartiles(rates)?, quartiles(&ratios)?);
        Ok(Agreement { name: name.to_string(), cpus, native, simulated, ratio })
    };
    let all = cases.iter().zip(&rates).map(agreement).collect::<Result<_>>()?;
    Ok(Agreements { all, transfer_ns: Quartiles::from_values(&transfers) })
}

/// Runs a lock on these CPUs, one task on each; returns the operations per second of all tasks.
fn rate(name: &str, load: LockLoad, cpus: &[u32], length: Duration) -> Result<f64> {
    let run = NativeRun { load, cpus, length };
    let rate = locks::visit(name, run).with_context(|| format!("there is no lock {name:?}"))?;
    rate.with_context(|| format!("running {name} on CPUs {cpus:?}"))
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
        thread::scope(|scope| {
            let tasks = Builder::new().spawn_scoped(scope, || {
                together(self.cpus, |task, meeting| {
                    let m = Native::new(task, 0).with_pace(Pace::measure(now_ns)).yielding();
                    meeting.meet();
                    let (start, mut operations) = (now_ns(), 0_u64);
                    while !is_over.load(Relaxed) {
                        operate(&m);
                        operations += 1;
                    }
                    (operations, now_ns() - start)
                })
            })?;
            thread::sleep(SPEED_TAKES + self.length);
            is_over.store(true, Relaxed);
            let counts = tasks.join().expect("a task does not panic")?;
            Ok(counts.iter().map(|&(operations, ns)| operations as f64 / ns as f64 * 1e9).sum())
        })
    }

    fn shape(&self) -> Shape {
        Shape::new(self.cpus.len(), self.load.locks)
    }
}

impl Visitor for NativeRun<'_> {
    type Out = io::Result<f64>;

    fn lock<L: Lock>(self) -> io::Result<f64> {
        let bytes = self.load.region_bytes(self.cpus.len()) + L::more_bytes(self.shape());
        let region = &Region::new(bytes)?;
        let lock = L::new(region, self.shape());
        let guarded = Guarded::new(region, &self.load);
        guarded.prepare(|mem| lock.prepare(mem));
        self.rate(|m| exclusive_operation(m, &lock, &guarded, self.load))
    }

    fn shared<L: SharedLock>(self) -> io::Result<f64> {
        let bytes = self.load.region_bytes(self.cpus.len()) + L::more_bytes(self.shape());
        let region = &Region::new(bytes)?;
        let lock = L::new(region, self.shape());
        let guarded = Guarded::new(region, &self.load);
        guarded.prepare(|mem| lock.prepare(mem));
        self.rate(|m| sharing_operation(m, &lock, &guarded, self.load))
    }
}
