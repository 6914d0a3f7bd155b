//! Searches for knees, against sweeps of every CPU count: how many runs they take until the knee is as well known.

use host::in_parallel;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Kind, NOISE, RUNS, curve_with_knee, measured, share, stream};
use crate::adaptive::{KneeSearch, TriedCount};
use crate::chance::{Estimate, gaussian};
use crate::scaling::place_knee;
use crate::sweep::Sweep;

/// Searches for knees, each on a curve of its own.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchCheck {
    /// Number of curves.
    pub curves: u32,
    /// Runs of a sweep of all counts.
    pub sweep_runs: u32,
    /// Share of curves whose knee is as well known after half of these runs.
    pub within_half: f64,
    /// Runs until then, over those of the sweep: the median, and what 90 % of the curves take at most.
    pub runs: (f64, f64),
    /// Share of knees in the 90 % interval, by the search and by the sweep.
    pub inside: (f64, f64),
    /// Median distance of the knee from the truth in percent, by the search and by the sweep.
    pub off_percent: (f64, f64),
}

/// The most CPUs of a curve.
const MOST: u32 = 64;
/// Sweeps of a curve. The interval of one may be narrow or wide by chance, so a search ends at the median.
const SWEEPS: usize = 7;

/// One search and the first sweep beside it.
struct Searched {
    /// Runs of the search over those of the sweep.
    runs: f64,
    search: Estimate,
    sweep: Estimate,
    truth: f64,
}

/// Searches for the knee of this number of curves, of all kinds in turn.
pub fn searches(curves: u32, seed: u64) -> SearchCheck {
    let searched = in_parallel(curves as usize, |index| {
        let kind = Kind::ALL[index % Kind::ALL.len()];
        search(kind, &mut stream(seed, 400, index))
    });
    let is_inside = |estimate: &Estimate, truth: f64| {
        estimate.interval.is_some_and(|(low, high)| low <= truth && truth <= high)
    };
    let off =
        |estimate: &Estimate, truth: f64| 100.0 * ((estimate.value / truth).ln().abs().exp() - 1.0);
    let runs = sorted(searched.iter().map(|one| one.runs));
    let median = |of: fn(&Searched) -> Estimate| {
        let off = sorted(searched.iter().map(|one| off(&of(one), one.truth)));
        off[off.len() / 2]
    };
    let inside = |of: fn(&Searched) -> Estimate| {
        share(searched.iter().map(|one| is_inside(&of(one), one.truth)))
    };
    SearchCheck {
        curves,
        sweep_runs: MOST * RUNS as u32,
        within_half: share(searched.iter().map(|one| one.runs <= 0.5)),
        runs: (runs[runs.len() / 2], runs[(9 * runs.len()).div_ceil(10) - 1]),
        inside: (inside(|one| one.search), inside(|one| one.sweep)),
        off_percent: (median(|one| one.search), median(|one| one.sweep)),
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Sweeps a curve at all counts, several times; then searches until the interval is as narrow as those of half of the
/// sweeps, or the knee is known to a CPU.
fn search(kind: Kind, random: &mut Xoshiro256PlusPlus) -> Searched {
    let (rate, truth) = curve_with_knee(kind, f64::from(MOST), random);
    let counts: Vec<u32> = (1..=MOST).collect();
    let mut sweeps =
        [(); SWEEPS].map(|()| place_knee(&measured(&rate, &counts, NOISE, random)).knee);
    let sweep = sweeps[0];
    sweeps.sort_by(|a, b| width(a).total_cmp(&width(b)));
    let as_known = width(&sweeps[SWEEPS / 2]);
    let first = counts.iter().copied().filter(|n| n.is_power_of_two()).collect();
    let search = KneeSearch { counts, first, within: 0.0 };
    let mut tried: Vec<TriedCount> = Vec::new();
    let all = (MOST as usize * RUNS) as f64;
    loop {
        let runs: usize = tried.iter().map(|one| one.rates.len()).sum();
        let look = search.look(&tried);
        let is_known =
            look.knee.is_some_and(|knee| look.next.is_empty() || width(&knee) <= as_known);
        if is_known || runs as f64 >= all {
            let search = knee(&tried).expect("the first blocks have runs");
            return Searched { runs: runs as f64 / all, search, sweep, truth };
        }
        look.next.into_iter().for_each(|cpus| run(&mut tried, cpus, &rate, random));
    }
}

fn run(
    tried: &mut Vec<TriedCount>,
    cpus: u32,
    rate: impl Fn(f64) -> f64,
    random: &mut Xoshiro256PlusPlus,
) {
    let rate = rate(f64::from(cpus)) * (NOISE * gaussian(random)).exp();
    match tried.iter_mut().find(|one| one.cpus == cpus) {
        Some(one) => one.rates.push(rate),
        None => tried.push(TriedCount { cpus, rates: vec![rate], failed: 0, seconds: 1.0 }),
    }
}

/// The knee by the runs so far, if there are enough for an interval.
fn knee(tried: &[TriedCount]) -> Option<Estimate> {
    let runs = tried.iter().map(|one| (one.cpus, one.rates.clone()));
    let sweep = Sweep::new(runs).ok().filter(|sweep| sweep.freedom() > 0)?;
    Some(place_knee(&sweep.searched()).knee)
}

/// High over low end, as far as CPUs go.
fn width(knee: &Estimate) -> f64 {
    let most = f64::from(MOST);
    knee.interval.map_or(f64::INFINITY, |(low, high)| high.min(most) / low.min(most))
}
