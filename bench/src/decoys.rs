//! Whether doses find the serial one of four sections: threads pass through four, one of which is locked. A dose in each
//! says how serial it is.

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use laws::{DoseResponse, Dosed};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::report::{Figure, Limit};
use crate::{Bench, Options};

const CASES: usize = 30;
const SECTIONS: usize = 4;
const BLOCKS: usize = 6;
/// Doses in ns: up to some twice a section, so that the locked one becomes what limits the program.
const DOSES_NS: [f64; 3] = [400.0, 1000.0, 2000.0];
const RUN: Duration = Duration::from_millis(60);

/// Four sections, one of them serial.
#[derive(Clone, Debug)]
struct Case {
    /// Mean ns of each.
    sections_ns: [f64; SECTIONS],
    serial: usize,
}

impl Case {
    fn draw(random: &mut Xoshiro256PlusPlus) -> Case {
        let serial = random.random_range(0..SECTIONS);
        let mut sections_ns = [0.0; SECTIONS];
        for (index, ns) in sections_ns.iter_mut().enumerate() {
            // The lock is held for a quarter to a half of the time.
            let (low, high) = if index == serial { (800.0, 1600.0) } else { (300.0, 800.0) };
            *ns = random.random_range(low..high);
        }
        Case { sections_ns, serial }
    }

    /// Operations per second of all threads, with this much more in one section.
    fn rate(&self, dosed: Option<(usize, f64)>, ns_per_turn: f64, seed: u64) -> f64 {
        let threads = available_parallelism().map_or(2, usize::from).min(2);
        let mut turns = self.sections_ns.map(|ns| ns / ns_per_turn);
        if let Some((section, ns)) = dosed {
            turns[section] += ns / ns_per_turn;
        }
        let (lock, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (all, start) = (AtomicU64::new(0), Barrier::new(threads + 1));
        let task = |thread: u64| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ thread);
            let mut done = 0;
            start.wait();
            while !stop.load(Ordering::Relaxed) {
                for (section, turns) in turns.iter().enumerate() {
                    // Outside of the lock the work varies, as it does in programs.
                    if section == self.serial {
                        acquire(&lock);
                        work(*turns);
                        lock.store(false, Ordering::Release);
                    } else {
                        work(-turns * (1.0 - random.random::<f64>()).ln());
                    }
                }
                done += 1;
            }
            all.fetch_add(done, Ordering::Relaxed);
        };
        let seconds = std::thread::scope(|scope| {
            for thread in 0..threads as u64 {
                let task = &task;
                scope.spawn(move || {
                    // Where this is refused, threads run where the kernel lets them.
                    let _ = host::affinity::set(&[thread as u32]);
                    task(thread);
                });
            }
            start.wait();
            let since = Instant::now();
            std::thread::sleep(RUN);
            stop.store(true, Ordering::Relaxed);
            since.elapsed().as_secs_f64()
        });
        all.load(Ordering::Relaxed) as f64 / seconds
    }

    /// How serial each section is, by doses in it.
    fn serial(&self, ns_per_turn: f64, random: &mut Xoshiro256PlusPlus) -> Result<Vec<f64>> {
        let mut plan: Vec<Option<(usize, f64)>> = vec![None];
        for section in 0..SECTIONS {
            plan.extend(DOSES_NS.map(|ns| Some((section, ns))));
        }
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); plan.len()];
        let mut order: Vec<usize> = (0..plan.len()).collect();
        for _ in 0..BLOCKS {
            order.shuffle(random);
            for &at in &order {
                rates[at].push(self.rate(plan[at], ns_per_turn, random.random()));
            }
        }
        let of_section = |section: usize| {
            let is_own = |at: &usize| plan[*at].is_none_or(|(own, _)| own == section);
            let dosed = (0..plan.len()).filter(is_own).map(|at| Dosed {
                dose_ns: plan[at].map_or(0.0, |(_, ns)| ns),
                rates: rates[at].clone(),
            });
            let response =
                DoseResponse::new(2, &dosed.collect::<Vec<_>>()).map_err(|why| anyhow!(why))?;
            Ok(response.serial().map_or(0.0, |serial| serial.value))
        };
        (0..SECTIONS).map(of_section).collect()
    }
}

/// How often the most serial section, by doses, is the locked one.
pub fn measure(bench: &mut Bench, _: &Options) -> Result<Vec<Figure>> {
    let ns_per_turn = calibrated();
    let (mut found, mut of_serial, mut of_decoys) = (Vec::new(), Vec::new(), Vec::new());
    for index in 1..=CASES {
        let case = Case::draw(&mut bench.random);
        let serial = case.serial(ns_per_turn, &mut bench.random)?;
        let most = (0..SECTIONS).max_by(|a, b| serial[*a].total_cmp(&serial[*b])).unwrap_or(0);
        let shown: Vec<String> =
            serial.iter().map(|share| format!("{:.0} %", 100.0 * share)).collect();
        eprintln!("decoys, {index} of {CASES}: {case:?}: serial to {}", shown.join(", "));
        found.push(f64::from(u8::from(most == case.serial)));
        of_serial.push(serial[case.serial]);
        of_decoys.extend((0..SECTIONS).filter(|at| *at != case.serial).map(|at| serial[at]));
    }
    let figure =
        |name: &str, limit, values| Figure { name: name.to_string(), unit: "", limit, values };
    let share = found.iter().sum::<f64>() / CASES as f64;
    Ok(vec![
        figure(
            "serial section found among 3 decoys: share of 30 programs",
            Limit::AtLeast(1.0),
            vec![share],
        ),
        figure("how serial the locked section is, by doses", Limit::None, of_serial),
        figure("how serial decoys are, by doses", Limit::None, of_decoys),
    ])
}

fn acquire(lock: &AtomicBool) {
    while lock.swap(true, Ordering::Acquire) {
        while lock.load(Ordering::Relaxed) {
            spin_loop();
        }
    }
}

/// Some turns of a chain of multiplications.
fn work(turns: f64) {
    let mut value = 1_u64;
    for _ in 0..turns as u64 {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    black_box(value);
}

/// ns of one turn of work: the median of several.
fn calibrated() -> f64 {
    const TURNS: f64 = 1e6;
    let mut all: Vec<f64> = (0..9)
        .map(|_| {
            let since = Instant::now();
            work(TURNS);
            1e9 * since.elapsed().as_secs_f64() / TURNS
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
