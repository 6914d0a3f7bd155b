//! Fits `keep` and `busy` of a host to curves of additions and of compare-and-exchanges, by simulating `counter`.
//!
//! How often an owner keeps a contended line, and for how long the line is in flight, cannot be told apart by one curve:
//! CPUs that add twice whenever they have the line do as much as CPUs between which it moves in half the time. A
//! compare-and-exchange that failed succeeds next if its CPU still has the line, so both curves together decide.

use std::ops::RangeInclusive;

use anyhow::Result;
use described_hosts::DISTANCES;
use engines::simulated::{Host, NS, Options, Preemption};
use host::in_parallel;

use super::mechanisms::{part_of, run_mechanism};
use crate::subject::{MechanismDesign, Subject};

/// The designs of `counter` that write one word.
pub const STORMS: [&str; 2] = ["add", "compare"];
const SIMULATED_NS: u64 = 200_000;
/// The distance between two values that the fit tries, at last.
pub const STEP: f64 = 0.02;
/// A fit that misses by more is none.
const MISSES: f64 = 0.1;
/// In hundredths.
const KEEPS: RangeInclusive<i32> = 0..=96;
/// In hundredths: a line that is never in flight has no transfer.
const BUSY: RangeInclusive<i32> = 4..=100;

/// The time of an addition on a word that this many CPUs add to.
#[derive(Clone, Debug)]
pub struct StormPoint {
    /// `add` or `compare`.
    pub design: &'static str,
    /// The CPUs, as the host's file numbers them.
    pub cpus: Vec<usize>,
    /// From one addition of a task to its next, in ns.
    pub ns: f64,
}

/// What fits the curves of one distance.
#[derive(Clone, Debug)]
pub struct KeepFit {
    /// A name of [`DISTANCES`].
    pub distance: &'static str,
    /// Lowest, best and highest probability that fits about as well as the best.
    pub keep: [f64; 3],
    /// Lowest, best and highest share of a transfer.
    pub busy: [f64; 3],
    /// The measured points.
    pub measured: Vec<StormPoint>,
    /// The time at each point with the best values, in ns.
    pub fitted_ns: Vec<f64>,
    /// The root mean square of the logarithms of fitted over measured times.
    pub residual: f64,
}

/// The time of an addition of a simulated task, in ns.
///
/// # Errors
/// The mechanism found a fault in itself.
pub fn simulated(host: &Host, design: &str, cpus: &[usize], seed: u64) -> Result<f64> {
    let subject = Subject::Mechanism(MechanismDesign::new("counter", design)?);
    let length = SIMULATED_NS * NS;
    let options = Options {
        seed,
        warm_up: length / 10,
        length,
        preemption: Preemption::BetweenOperations,
        pinned: true,
        noise: None,
        trace: None,
    };
    let run = run_mechanism(&subject, 0, &part_of(host.clone(), cpus), cpus.len(), &options)?;
    Ok(cpus.len() as f64 * 1e9 / run.simulated.rate())
}

/// The host with these values at a distance.
fn with(host: &Host, distance: usize, keep: f64, busy: f64) -> Host {
    let mut host = host.clone();
    let per_mille = |share: f64| (share * 1000.0).round() as u32;
    let transfer = &mut host.transfers[distance];
    (transfer.keep_per_mille, transfer.busy_per_mille) = (per_mille(keep), per_mille(busy));
    host
}

/// A pair of values, in hundredths, with how far simulations are from the measured points.
struct Tried {
    keep: i32,
    busy: i32,
    error: f64,
}

/// Fits `keep` and `busy` of a distance: on a grid of tenths, then on one of [`STEP`] around the best.
///
/// # Errors
/// A simulation failed.
pub fn fit(host: &Host, distance: &'static str, measured: Vec<StormPoint>) -> Result<KeepFit> {
    let index = index(distance);
    let times = |keep: f64, busy: f64| -> Result<Vec<f64>> {
        let host = with(host, index, keep, busy);
        measured.iter().map(|point| simulated(&host, point.design, &point.cpus, 1)).collect()
    };
    let error = |times: &[f64]| {
        let squares = times.iter().zip(&measured).map(|(ns, point)| (ns / point.ns).ln().powi(2));
        (squares.sum::<f64>() / times.len() as f64).sqrt()
    };
    let share = |hundredths: i32| f64::from(hundredths) / 100.0;
    let search = |keeps: Vec<i32>, all_busy: &[i32]| -> Result<Vec<Tried>> {
        let pair = |part: usize| (keeps[part / all_busy.len()], all_busy[part % all_busy.len()]);
        let tried = in_parallel(keeps.len() * all_busy.len(), |part| {
            let (keep, busy) = pair(part);
            anyhow::Ok(Tried { keep, busy, error: error(&times(share(keep), share(busy))?) })
        });
        tried.into_iter().collect()
    };
    let best = |tried: &[Tried]| {
        let best = tried.iter().min_by(|a, b| a.error.total_cmp(&b.error));
        best.map(|one| (one.keep, one.busy, one.error)).expect("a grid has points")
    };
    let coarse =
        search((0..=9).map(|keep| 10 * keep).collect(), &BUSY.step_by(12).collect::<Vec<_>>())?;
    let (keep, busy, _) = best(&coarse);
    let around = |middle: i32, all: RangeInclusive<i32>| -> Vec<i32> {
        let near = (-6..=6).map(|steps| middle + 2 * steps);
        near.filter(|value| all.contains(value)).collect()
    };
    let fine = search(around(keep, KEEPS), &around(busy, BUSY))?;
    let (keep, busy, residual) = best(&fine);
    // What another seed does to the error of the best.
    let near = fine.iter().filter(|one| one.error <= 1.1 * residual + 0.005);
    let (mut keeps, mut all_busy) = ([keep - 2, keep, keep + 2], [busy - 2, busy, busy + 2]);
    for one in near {
        (keeps[0], keeps[2]) = (keeps[0].min(one.keep), keeps[2].max(one.keep));
        (all_busy[0], all_busy[2]) = (all_busy[0].min(one.busy), all_busy[2].max(one.busy));
    }
    Ok(KeepFit {
        distance,
        keep: keeps.map(|keep| share(keep.clamp(*KEEPS.start(), *KEEPS.end()))),
        busy: all_busy.map(|busy| share(busy.clamp(*BUSY.start(), *BUSY.end()))),
        fitted_ns: times(share(keep), share(busy))?,
        measured,
        residual,
    })
}

fn index(distance: &str) -> usize {
    DISTANCES.iter().position(|known| *known == distance).expect("a name of DISTANCES")
}

impl KeepFit {
    /// Gives the host the best values.
    pub fn apply(&self, host: &mut Host) {
        *host = with(host, index(self.distance), self.keep[1], self.busy[1]);
    }

    /// How it was found, for the host's file.
    pub fn how(&self) -> String {
        let counts = self.measured.iter().map(|point| point.cpus.len());
        let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
        let cpus = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        format!(
            "fit to additions and compare-and-exchanges of {cpus} CPUs, which it misses by {:.0} %",
            100.0 * self.residual
        )
    }

    /// The fit in lines of text: its values, then what was measured and fitted at each point.
    pub fn lines(&self) -> Vec<String> {
        let KeepFit { distance, keep, busy, residual, .. } = self;
        let head = format!(
            "{distance}: keep {:.2} ({:.2}..{:.2}), busy {:.2} ({:.2}..{:.2}); it misses by {:.1} % (root mean square)",
            keep[1],
            keep[0],
            keep[2],
            busy[1],
            busy[0],
            busy[2],
            100.0 * residual
        );
        let point = |(point, fitted): (&StormPoint, &f64)| {
            let StormPoint { design, cpus, ns } = point;
            let off = 100.0 * (fitted / ns - 1.0);
            let cpus = cpus.len();
            format!(
                "  {design:7} {cpus:3} CPUs: {ns:7.1} ns measured, {fitted:7.1} ns fitted, {off:+.0} %"
            )
        };
        [head].into_iter().chain(self.measured.iter().zip(&self.fitted_ns).map(point)).collect()
    }

    /// Whether the model cannot have these curves.
    pub fn misses(&self) -> bool {
        self.residual > MISSES
    }

    /// What the fit cannot say: where it misses, and where it rests on two CPUs.
    pub fn why_weak(&self) -> Option<String> {
        let KeepFit { distance, residual, .. } = self;
        if self.misses() {
            return Some(format!(
                "{distance}: the fit misses by {:.0} %, so keep and busy stay those of two CPUs that add",
                100.0 * residual
            ));
        }
        let most = self.measured.iter().map(|point| point.cpus.len()).max().unwrap_or(0);
        (most < 3).then(|| {
            format!(
                "{distance}: only 2 CPUs are at this distance, so two times fit two numbers: nothing says \
                 whether they hold for more CPUs"
            )
        })
    }
}
