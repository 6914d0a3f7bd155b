//! Which CPU counts to measure next, so that the knee of a curve is soon known as well as asked.
//!
//!     first counts, twice ──> laws hold? ── yes ──> the runs that lower the knee's variance most for their time
//!                               └─ no ──> the gaps between measured counts in which the knee lies
//!
//! Draws of the laws that may hold are curves that the runs so far allow, each with its knee. A run at n CPUs tells about
//! the knee what the rates at n tell over those curves: their covariance, against the noise of a run. The runs of a block
//! are chosen one after the other, each as if those before it had been made.
//!
//! Sources: K. Chaloner, I. Verdinelli, "Bayesian Experimental Design: A Review", Statistical Science 10, 1995 (the
//! criterion); J. Potter's square-root filter, in G. Bierman, "Factorization Methods for Discrete Sequential Estimation",
//! 1977 (draws as they would be after a run).

use std::collections::BTreeSet;

use crate::chance::{Draws, Estimate};
use crate::knee::SHARE;
use crate::scaling::{KneeBasis, place_knee};
use crate::sweep::{COUNTS_MIN, LEAST_NOISE, Sweep};

/// A search for the knee of a curve.
#[derive(Clone, Debug)]
pub struct KneeSearch {
    /// CPU counts that may be measured, ascending.
    pub counts: Vec<u32>,
    /// The counts that are measured first, the edges of the topology among them.
    pub first: Vec<u32>,
    /// The knee is known if its interval reaches no farther than this share to either side.
    pub within: f64,
}

/// The runs so far at one CPU count.
#[derive(Clone, Debug)]
pub struct TriedCount {
    pub cpus: u32,
    /// Operations per second of each run that finished.
    pub rates: Vec<f64>,
    /// Runs that failed.
    pub failed: usize,
    /// Seconds that a run takes, with all around it.
    pub seconds: f64,
}

/// What a search knows after a block.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The counts of the next block. Empty if the knee is known, or if no run can tell more.
    pub next: Vec<u32>,
    /// The knee, with an interval that also holds the one of a look before; `None` after too few runs.
    pub knee: Option<Estimate>,
}

/// Runs of each of the first counts. Two show the noise.
const FIRST_RUNS: usize = 2;
/// Runs of each count where there are too few counts for a law.
const FEW_COUNTS_RUNS: usize = 5;
/// A count at which this number of runs failed, and none finished, is given up.
const FAILED_MAX: usize = 2;
/// With fewer runs a wrong law is not told from a right one, and intervals are too narrow.
const TELLING_RUNS: usize = 40;
/// Counts of a later block: few, since each block knows more; several, so that their order is random.
const BATCH: usize = 6;

impl KneeSearch {
    /// The counts of the next block. Empty if the knee is known, or if no run can tell more.
    pub fn next(&self, tried: &[TriedCount]) -> Vec<u32> {
        self.look(tried).next
    }

    /// What the runs so far say about the knee, and which counts are to be measured next.
    pub fn look(&self, tried: &[TriedCount]) -> Look {
        let at = |cpus: u32| tried.iter().find(|one| one.cpus == cpus);
        let runs = |cpus: u32| at(cpus).map_or(0, |one| one.rates.len() + one.failed);
        let wanted = if self.counts.len() < COUNTS_MIN { FEW_COUNTS_RUNS } else { FIRST_RUNS };
        let first: Vec<u32> = self.first.iter().copied().filter(|n| runs(*n) < wanted).collect();
        if !first.is_empty() || self.counts.len() < COUNTS_MIN {
            return Look { next: first, knee: None };
        }
        let fails = |cpus: u32| {
            at(cpus).is_some_and(|one| one.rates.is_empty() && one.failed >= FAILED_MAX)
        };
        let counts = self.counts.iter().copied().filter(|cpus| !fails(*cpus)).collect();
        KneeSearch { counts, ..self.clone() }.look_at_curve(tried)
    }

    /// A look after the first blocks.
    fn look_at_curve(&self, tried: &[TriedCount]) -> Look {
        let runs = tried.iter().map(|one| (one.cpus, one.rates.clone()));
        let Ok(sweep) = Sweep::new(runs).and_then(Sweep::for_laws) else { return Look::default() };
        let placed = place_knee(&sweep.clone().searched());
        let knee = Some(placed.knee).filter(|_| sweep.runs() >= TELLING_RUNS);
        let next = match placed.basis {
            _ if knee.is_some_and(|knee| self.is_known(&knee)) => Vec::new(),
            KneeBasis::Law => self.most_telling(&placed.laws, &sweep, tried),
            KneeBasis::Points => self.in_gaps(&sweep, &placed.at_last_look),
        };
        Look { next, knee }
    }

    /// Whether a knee is known as well as asked: to a CPU, or to the share. How far beyond all counts it lies does not
    /// matter.
    pub fn is_known(&self, knee: &Estimate) -> bool {
        let Some((low, high)) = knee.interval else { return false };
        let most = self.counts.last().copied().map_or(1.0, f64::from);
        let (low, high) = (low.min(most), high.min(most));
        high.ceil() - low.ceil() <= 1.0 || high / low <= (1.0 + self.within).powi(2)
    }

    /// The runs that lower the variance of the knee most, for the time that they take. One of them goes where no law says.
    fn most_telling(&self, laws: &[Draws], sweep: &Sweep, tried: &[TriedCount]) -> Vec<u32> {
        let noise = sweep.noise().unwrap_or(0.0).max(LEAST_NOISE);
        let mut draws = CurveDraws::new(laws, &self.counts);
        let seconds: Vec<f64> = self.counts.iter().map(|n| seconds_of(*n, tried)).collect();
        let mut picked: Vec<u32> =
            self.widest_gap(&measured(sweep), 1.0, f64::INFINITY).into_iter().collect();
        picked.iter().filter_map(|n| self.index(*n)).for_each(|at| draws.measure(at, noise));
        while picked.len() < BATCH {
            let tells = |at: usize| draws.lowers_variance(at, noise) / seconds[at];
            let others = (0..self.counts.len()).filter(|at| !picked.contains(&self.counts[*at]));
            let best = others.max_by(|a, b| tells(*a).total_cmp(&tells(*b)));
            let Some(best) = best else { break };
            draws.measure(best, noise);
            picked.push(self.counts[best]);
        }
        picked
    }

    fn index(&self, cpus: u32) -> Option<usize> {
        self.counts.iter().position(|n| *n == cpus)
    }

    /// Counts between the measured ones where the knee may lie; else the measured ones again that place it there.
    fn in_gaps(&self, sweep: &Sweep, knee: &Estimate) -> Vec<u32> {
        const NEW: usize = 3;
        let (low, high) = knee.interval.unwrap_or((1.0, f64::INFINITY));
        let mut known = measured(sweep);
        let mut picked = Vec::new();
        while picked.len() < NEW
            && let Some(cpus) = self.widest_gap(&known, low, high)
        {
            picked.push(cpus);
            known.insert(cpus);
        }
        let points = sweep.points();
        let highest = points.iter().max_by(|a, b| a.log_rate().total_cmp(&b.log_rate()));
        picked.extend(highest.map(|point| point.cpus));
        let is_near = |cpus: u32| f64::from(cpus) >= low.floor() && f64::from(cpus) <= high;
        let mut near: Vec<(usize, u32)> = points
            .iter()
            .filter(|point| is_near(point.cpus) && !picked.contains(&point.cpus))
            .map(|point| (point.rates.len(), point.cpus))
            .collect();
        near.sort_unstable();
        let room = BATCH - picked.len();
        picked.extend(near.into_iter().take(room).map(|(_, cpus)| cpus));
        picked
    }

    /// The middle of the widest gap between measured counts that touches this range.
    fn widest_gap(&self, measured: &BTreeSet<u32>, low: f64, high: f64) -> Option<u32> {
        let counts: Vec<f64> = measured.iter().copied().map(f64::from).collect();
        let gaps = counts.windows(2).filter(|gap| gap[1] >= low && gap[0] <= high);
        let middle = |gap: &[f64]| {
            let middle = (gap[0] * gap[1]).sqrt();
            let inside = self.counts.iter().copied().filter(|n| {
                let n = f64::from(*n);
                gap[0] < n && n < gap[1]
            });
            let off = |n: &u32| (f64::from(*n) / middle).ln().abs();
            let nearest = inside.min_by(|a, b| off(a).total_cmp(&off(b)))?;
            Some((gap[1] / gap[0], nearest))
        };
        let widest = gaps.filter_map(middle).max_by(|a, b| a.0.total_cmp(&b.0));
        widest.map(|(_, cpus)| cpus)
    }
}

fn measured(sweep: &Sweep) -> BTreeSet<u32> {
    sweep.points().iter().map(|point| point.cpus).collect()
}

/// Seconds of a run at this count: those of the nearest count that was tried.
fn seconds_of(cpus: u32, tried: &[TriedCount]) -> f64 {
    let off = |one: &TriedCount| (f64::from(one.cpus) / f64::from(cpus)).ln().abs();
    let nearest = tried.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.map_or(1.0, |one| one.seconds).max(1e-3)
}

/// Curves that the runs so far allow: logarithms of knees and of rates, as deviations from their means.
struct CurveDraws {
    knees: Vec<f64>,
    /// By count, then by curve.
    rates: Vec<Vec<f64>>,
}

impl CurveDraws {
    fn new(laws: &[Draws], counts: &[u32]) -> CurveDraws {
        let most = counts.last().copied().map_or(1.0, f64::from);
        let fits: Vec<_> = laws.iter().flat_map(|law| law.drawn()).collect();
        // Beyond the counts it does not matter how far.
        let knee = |fit: &&crate::fit::Fit| {
            fit.law.knee(&fit.parameters, SHARE).clamp(1.0, 1.5 * most).ln()
        };
        let rate =
            |cpus: &u32| centred(fits.iter().map(|fit| fit.rate(f64::from(*cpus)).ln()).collect());
        CurveDraws {
            knees: centred(fits.iter().map(knee).collect()),
            rates: counts.iter().map(rate).collect(),
        }
    }

    /// By how much a run at this count lowers the variance of the knee.
    fn lowers_variance(&self, at: usize, noise: f64) -> f64 {
        let rates = &self.rates[at];
        product(rates, &self.knees).powi(2) / (product(rates, rates) + noise * noise)
    }

    /// The curves as they would be after a run at this count.
    fn measure(&mut self, at: usize, noise: f64) {
        let measured = self.rates[at].clone();
        let (variance, of_run) = (product(&measured, &measured), noise * noise);
        let all = variance + of_run;
        let share = 1.0 / (1.0 + (of_run / all).sqrt());
        let update = |values: &mut Vec<f64>| {
            let gain = share * product(values, &measured) / all;
            values.iter_mut().zip(&measured).for_each(|(value, one)| *value -= gain * one);
        };
        self.rates.iter_mut().for_each(update);
        update(&mut self.knees);
    }
}

fn centred(mut values: Vec<f64>) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter_mut().for_each(|value| *value -= mean);
    values
}

/// The mean product: a covariance of centred values.
fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::closed_queue;

    fn search(most: u32) -> KneeSearch {
        let first = std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n <= most);
        KneeSearch { counts: (1..=most).collect(), first: first.collect(), within: 0.1 }
    }

    /// Runs a search to its end on a curve whose runs differ by up to 2 %. The number of runs at each count.
    fn searched(search: &KneeSearch, rate: impl Fn(f64) -> f64) -> Vec<TriedCount> {
        let mut tried: Vec<TriedCount> = Vec::new();
        for block in 0..40 {
            let counts = search.next(&tried);
            if counts.is_empty() {
                return tried;
            }
            for (index, cpus) in counts.into_iter().enumerate() {
                let noise = [-0.02, 0.0, 0.01, 0.02, -0.01][(3 * block + 2 * index) % 5];
                let rate = rate(f64::from(cpus)) * (1.0 + noise);
                match tried.iter_mut().find(|one| one.cpus == cpus) {
                    Some(one) => one.rates.push(rate),
                    None => {
                        tried.push(TriedCount { cpus, rates: vec![rate], failed: 0, seconds: 1.0 })
                    }
                }
            }
        }
        panic!("no end: {tried:?}");
    }

    fn knee(tried: &[TriedCount]) -> Estimate {
        let runs = tried.iter().map(|one| (one.cpus, one.rates.clone()));
        place_knee(&Sweep::new(runs).unwrap()).knee
    }

    #[test]
    fn a_search_ends_with_a_knee_as_narrow_as_asked() {
        let search = search(64);
        let tried = searched(&search, |n| closed_queue(n, 950.0, 50.0, 0.5));
        let found = knee(&tried);
        assert!(search.is_known(&found), "{found:?}");
        let truth =
            crate::Law::Handover.knee(&[1000_f64.ln(), 0.05_f64.ln(), 0.01_f64.ln(), 0.0], SHARE);
        assert!((found.value / truth).ln().abs() < 0.15, "{found:?}, not {truth}");
        let runs: usize = tried.iter().map(|one| one.rates.len()).sum();
        assert!(runs < 160, "{runs} runs");
    }

    #[test]
    fn where_no_law_holds_the_knee_is_closed_in_upon() {
        let search = search(64);
        let rate = |n: f64| if n <= 21.0 { n } else { 21.5 };
        let tried = searched(&search, rate);
        let found = knee(&tried);
        let (low, high) = found.interval.unwrap();
        assert!(low <= 19.4 && 19.3 <= high && search.is_known(&found), "{found:?}");
    }

    #[test]
    fn a_line_needs_few_runs_and_few_counts_no_law() {
        let tried = searched(&search(64), |n| n);
        assert!(tried.iter().map(|one| one.rates.len()).sum::<usize>() < 50, "{tried:?}");
        let tried = searched(&search(2), |n| n.sqrt());
        let runs: Vec<(u32, usize)> = tried.iter().map(|one| (one.cpus, one.rates.len())).collect();
        assert_eq!(runs, [(1, 5), (2, 5)]);
    }

    #[test]
    fn expensive_counts_are_measured_less_and_rates_of_zero_end_the_search() {
        let search = search(64);
        let runs_at = |cost: fn(u32) -> f64| {
            let curve = |n: u32| closed_queue(f64::from(n), 950.0, 50.0, 0.5);
            let tried = search.first.iter().map(|&cpus| TriedCount {
                cpus,
                rates: [0.97, 1.03].map(|share| share * curve(cpus)).to_vec(),
                failed: 0,
                seconds: cost(cpus),
            });
            let next = search.next(&tried.collect::<Vec<_>>());
            next.iter().filter(|cpus| **cpus > 12).count()
        };
        assert!(runs_at(|_| 1.0) > runs_at(|cpus| if cpus > 12 { 1e6 } else { 1.0 }));
        let of = |rates: Vec<f64>, failed| {
            let tried =
                |&cpus: &u32| TriedCount { cpus, rates: rates.clone(), failed, seconds: 1.0 };
            search.next(&search.first.iter().map(tried).collect::<Vec<_>>())
        };
        assert!(of(vec![0.0; 2], 0).is_empty());
        assert!(of(Vec::new(), 2).is_empty());
        assert_eq!(of(Vec::new(), 1), search.first);
    }
}
