//! Fragility: whether a verdict would survive a small change of the load.
//!
//! A lock may sit at a threshold beyond which it collapses. There a change of a few ns in it makes a large difference,
//! and so does one task more. Such a verdict is true and misleading: the gain vanishes with other memory traffic or
//! another number of tasks. So the same comparison is measured again with slightly changed loads, and the share of
//! verdicts that flip is the answer.
//!
//!     difference D = ln(rate of B / rate of A), from pairs in blocks; zone: less, same, more
//!     fragile to a kind of change: it surely flips at half or more of the changed loads of that kind
//!     robust: over the loads of each kind, it flips with a mean probability of at most 10 %
//!
//! "Faster" and "slower" flip where less than half of the difference is left, "same" where there is a difference. Half of
//! a kind, because then a change of that kind, of those tried, flips the verdict as probably as not. Kinds are judged
//! apart, because nobody knows which will occur: how many loads of another kind were tried must not matter.

use analysis::{InTwo, Student, imbalance};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::chance::{Estimate, chi_squared, gaussian};
use crate::sweep::LEAST_NOISE;

/// A verdict that surely flips at this share of the changed loads of a kind is fragile to it.
pub const FRAGILE: f64 = 0.5;
/// A verdict that flips with at most this mean probability over each kind of change is robust.
pub const ROBUST: f64 = 0.1;

/// A kind of change of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A task more or less.
    Tasks,
    /// More work in the lock.
    Inside,
    /// More work between two operations.
    Outside,
    /// Other CPUs.
    Placement,
}

impl Change {
    pub const ALL: [Change; 4] =
        [Change::Tasks, Change::Inside, Change::Outside, Change::Placement];
}

/// Both sides of a comparison at one load.
#[derive(Clone, Debug)]
pub struct Situation {
    /// How the load differs from that at the operating point.
    pub name: String,
    pub change: Change,
    /// The logarithm of the number of tasks over that at the operating point; `None` if something else differs.
    pub load: Option<f64>,
    /// Rates of the baseline and of the other side, a pair for each block.
    pub pairs: Vec<(f64, f64)>,
}

/// Where a difference lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Zone {
    Slower,
    Same,
    Faster,
}

/// How a verdict bears small changes of the load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fragility {
    /// By which share the other side is faster at the operating point, with its 90 % interval.
    pub difference: Estimate,
    /// Where that difference lies.
    pub zone: Zone,
    /// The probability of that zone.
    pub sure: f64,
    /// The comparison at each changed load.
    pub changed: Vec<ChangedLoad>,
    /// Kinds of change of which half or more of the loads surely flip the verdict.
    pub fragile_to: Vec<Change>,
    /// Mean probability that the verdict flips, over the loads of the kind of change that flips it most.
    pub flips: f64,
    /// The answer in a word.
    pub answer: FragilityAnswer,
    /// The number of tasks at which the verdict flips, over that at the operating point; `None` if the difference does
    /// not clearly depend on it.
    pub margin: Option<Estimate>,
    /// Slow runs of both sides, if runs come in two modes.
    pub modes: Option<Modes>,
}

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FragilityAnswer {
    Robust,
    Sensitive,
    Fragile,
    /// The zone at the operating point is not known well enough.
    CannotTell,
}

/// The comparison at a changed load.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChangedLoad {
    /// How the load differs, in words.
    pub name: String,
    /// The kind of change.
    pub change: Change,
    /// By which share the other side is faster at this load, with its 90 % interval.
    pub difference: Estimate,
    /// Where that difference lies.
    pub zone: Zone,
    /// The probability that the verdict of the operating point is gone: less than half of the difference is left, or where
    /// there was none, there is one.
    pub flips: f64,
}

impl ChangedLoad {
    /// Whether more than noise flips the verdict. Where noise alone may have, more blocks tell.
    pub fn surely_flips(&self) -> bool {
        self.flips >= SURE
    }
}

/// Runs in a slow and a fast mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Modes {
    /// Slow runs of the baseline and of the other side.
    pub slow: [usize; 2],
    /// All runs of the baseline and of the other side.
    pub runs: [usize; 2],
    /// By which share fast runs are faster than slow ones.
    pub apart: f64,
    /// Probability of such unequal shares of slow runs if they do not differ.
    pub p: Option<f64>,
}

/// A verdict whose zone is less probable than this is none.
const SURE: f64 = 0.9;

/// How the verdict at the operating point bears the changed loads. Differences up to the share `smallest` are none.
///
/// # Errors
/// Says what is missing: pairs, or changed loads.
pub fn fragility(at: &Situation, around: &[Situation], smallest: f64) -> Result<Fragility, String> {
    let margin = (1.0 + smallest).ln();
    let here = Difference::new(at, margin)?;
    if around.is_empty() {
        return Err("no changed load was measured: there is nothing to compare with".to_string());
    }
    let there: Vec<Difference> =
        around.iter().map(|one| Difference::new(one, margin)).collect::<Result<_, _>>()?;
    let zone = here.zone();
    let changed: Vec<ChangedLoad> = around
        .iter()
        .zip(&there)
        .map(|(situation, difference)| ChangedLoad {
            name: situation.name.clone(),
            change: situation.change,
            difference: difference.share(),
            zone: difference.zone(),
            flips: 1.0 - difference.survives(&here),
        })
        .collect();
    let (fragile_to, flips) = by_kind(&changed);
    let sure = here.probability(zone);
    let answer = match flips {
        _ if sure < SURE => FragilityAnswer::CannotTell,
        _ if !fragile_to.is_empty() => FragilityAnswer::Fragile,
        flips if flips > ROBUST => FragilityAnswer::Sensitive,
        _ => FragilityAnswer::Robust,
    };
    let loads = around.iter().zip(&there).filter_map(|(one, there)| Some((one.load?, *there)));
    let loads: Vec<(f64, Difference)> = loads.chain([(0.0, here)]).collect();
    Ok(Fragility {
        difference: here.share(),
        zone,
        sure,
        changed,
        fragile_to,
        flips,
        answer,
        margin: load_margin(&here, &loads),
        modes: modes(&at.pairs),
    })
}

/// The kinds of change that surely flip a verdict at half or more of their loads, and the mean probability of a flip over
/// those of the kind that flips it most.
fn by_kind(changed: &[ChangedLoad]) -> (Vec<Change>, f64) {
    let (mut fragile_to, mut most) = (Vec::new(), 0.0_f64);
    for kind in Change::ALL {
        let of_kind: Vec<_> = changed.iter().filter(|one| one.change == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let all = of_kind.len() as f64;
        if of_kind.iter().filter(|one| one.surely_flips()).count() as f64 >= FRAGILE * all {
            fragile_to.push(kind);
        }
        most = most.max(of_kind.iter().map(|one| one.flips).sum::<f64>() / all);
    }
    (fragile_to, most)
}

/// A difference of logarithms, and within which none counts.
#[derive(Clone, Copy, Debug)]
struct Difference {
    student: Student,
    margin: f64,
}

impl Difference {
    fn new(situation: &Situation, margin: f64) -> Result<Difference, String> {
        const PAIRS_MIN: usize = 3;
        let is_usable = |rate: f64| rate.is_finite() && rate > 0.0;
        let pairs = situation.pairs.iter().filter(|(a, b)| is_usable(*a) && is_usable(*b));
        let differences: Vec<f64> = pairs.map(|(a, b)| (b / a).ln()).collect();
        if differences.len() < PAIRS_MIN {
            return Err(format!(
                "{}: {} blocks in which both sides have a rate, and it takes {PAIRS_MIN}: --blocks 5",
                situation.name,
                differences.len()
            ));
        }
        let estimate = differences.iter().sum::<f64>() / differences.len() as f64;
        let freedom = differences.len() as f64 - 1.0;
        // Values without any noise were written with few digits.
        let exact = Student { estimate, error: LEAST_NOISE, freedom };
        let student = Student::paired(&differences).unwrap_or(exact);
        Ok(Difference {
            student: Student { error: student.error.max(LEAST_NOISE), ..student },
            margin,
        })
    }

    fn zone(&self) -> Zone {
        match self.student.estimate {
            d if d > self.margin => Zone::Faster,
            d if d < -self.margin => Zone::Slower,
            _ => Zone::Same,
        }
    }

    /// The probability that the true difference lies in a zone.
    fn probability(&self, zone: Zone) -> f64 {
        let Student { estimate, error, freedom } = self.student;
        let Ok(law) = StudentsT::new(0.0, 1.0, freedom) else { return 0.0 };
        let below = |limit: f64| law.cdf((limit - estimate) / error);
        match zone {
            Zone::Slower => below(-self.margin),
            Zone::Same => below(self.margin) - below(-self.margin),
            Zone::Faster => 1.0 - below(self.margin),
        }
    }

    /// The differences within which a verdict survives.
    fn survival(&self) -> (f64, f64) {
        let half = self.student.estimate / 2.0;
        match self.zone() {
            Zone::Faster => (half.max(self.margin), f64::INFINITY),
            Zone::Slower => (f64::NEG_INFINITY, half.min(-self.margin)),
            Zone::Same => (-self.margin, self.margin),
        }
    }

    /// The probability that the verdict at the operating point survives here.
    fn survives(&self, at: &Difference) -> f64 {
        let Student { estimate, error, freedom } = self.student;
        let Ok(law) = StudentsT::new(0.0, 1.0, freedom) else { return 0.0 };
        let (low, high) = at.survival();
        let below = |limit: f64| match limit {
            limit if limit.is_infinite() => f64::from(u8::from(limit > 0.0)),
            limit => law.cdf((limit - estimate) / error),
        };
        below(high) - below(low)
    }

    fn share(&self) -> Estimate {
        let interval = self.student.interval(0.1);
        Estimate { value: self.student.estimate, interval }.map(|log| log.exp() - 1.0)
    }
}

/// The load at which the verdict flips, by a straight line over the logarithm of the load. `None` if the
/// line may be level.
fn load_margin(here: &Difference, loads: &[(f64, Difference)]) -> Option<Estimate> {
    const DRAWS: usize = 400;
    /// Farther than this the line says nothing.
    const FARTHEST: f64 = 4.0;
    if loads.len() < 3 {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let flip = |logs: &[f64]| {
        let (level, slope) = line(loads, logs);
        let (low, high) = here.survival();
        let limits = [low, high].into_iter().filter(|limit| limit.is_finite());
        let flips = limits.map(|limit| (limit - level) / slope);
        let nearest = flips.min_by(|a, b| a.abs().total_cmp(&b.abs()))?;
        Some((nearest, slope))
    };
    let logs: Vec<f64> = loads.iter().map(|(_, one)| one.student.estimate).collect();
    let (value, slope) = flip(&logs)?;
    let mut drawn: Vec<(f64, f64)> = (0..DRAWS)
        .filter_map(|_| {
            let noisy = loads.iter().map(|(_, one)| {
                let freedom = one.student.freedom as usize;
                // Tails like those of Student's t: the noise is known from few blocks.
                let scale = (freedom as f64 / chi_squared(&mut random, freedom)).sqrt();
                one.student.estimate + scale * one.student.error * gaussian(&mut random)
            });
            flip(&noisy.collect::<Vec<f64>>())
        })
        .collect();
    let against = drawn.iter().filter(|(_, one)| one * slope <= 0.0).count();
    if drawn.is_empty() || against as f64 > 0.05 * drawn.len() as f64 || value.abs() > FARTHEST {
        return None;
    }
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| drawn[((share * drawn.len() as f64) as usize).min(drawn.len() - 1)].0;
    Some(Estimate { value, interval: Some((at(0.05), at(0.95))) }.map(f64::exp))
}

/// The straight line nearest to differences over loads, weighted by their errors: its level at the operating point, and
/// its slope.
fn line(loads: &[(f64, Difference)], logs: &[f64]) -> (f64, f64) {
    let (mut matrix, mut right) = ([[0.0; 2]; 2], [0.0; 2]);
    for ((load, one), log) in loads.iter().zip(logs) {
        let weight = one.student.error.powi(-2);
        let powers = [1.0, *load];
        for a in 0..2 {
            right[a] += weight * powers[a] * log;
            for b in 0..2 {
                matrix[a][b] += weight * powers[a] * powers[b];
            }
        }
    }
    let [level, slope] = crate::fit::solve(matrix, right);
    (level, slope)
}

/// Two modes of the runs of both sides together: a gap in the logarithms of rates that is far wider than the spread on
/// either side of it.
fn modes(pairs: &[(f64, f64)]) -> Option<Modes> {
    /// Gap over the spread within modes. By simulation: `knee selfcheck --scale`.
    const APART: f64 = 5.0;
    /// Modes nearer than this do not matter.
    const LEAST: f64 = 0.05;
    const EACH_MIN: usize = 2;
    let sides: [Vec<f64>; 2] = [
        pairs.iter().map(|pair| pair.0.ln()).collect(),
        pairs.iter().map(|pair| pair.1.ln()).collect(),
    ];
    let all = sides.iter().map(|side| InTwo::new(side, EACH_MIN)).collect::<Vec<_>>();
    // One side shows the modes; where both do, the one with the wider gap.
    let gaps =
        all.into_iter().flatten().filter(|split| split.gap > APART * split.spread.max(LEAST_NOISE));
    let split = gaps.max_by(|a, b| a.gap.total_cmp(&b.gap)).filter(|split| split.gap > LEAST)?;
    let slow = [0, 1].map(|side| sides[side].iter().filter(|log| **log < split.at).count());
    let runs = [0, 1].map(|side| sides[side].len());
    Some(Modes { slow, runs, apart: split.apart.exp() - 1.0, p: imbalance(&slow, &runs) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five blocks in which B is faster by this share, with noise of 1 %.
    fn situation(name: &str, load: Option<f64>, faster: f64) -> Situation {
        let noise = [0.99, 1.01, 1.0, 1.005, 0.995];
        let pairs = noise.map(|noise| (1000.0, 1000.0 * (1.0 + faster) * noise));
        Situation { name: name.to_string(), change: Change::Tasks, load, pairs: pairs.to_vec() }
    }

    #[test]
    fn a_gain_that_half_of_a_kind_of_change_takes_is_fragile_to_it() {
        use Change::{Inside, Placement, Tasks};
        let check = |around: &[(Change, f64)], answer: FragilityAnswer, to: &[Change]| {
            let changed = |(change, faster): &(Change, f64)| Situation {
                change: *change,
                ..situation("changed", None, *faster)
            };
            let around: Vec<Situation> = around.iter().map(changed).collect();
            let found = fragility(&situation("at", None, 0.5), &around, 0.02).unwrap();
            assert_eq!((found.answer, found.zone), (answer, Zone::Faster), "{found:?}");
            assert_eq!(found.fragile_to, to);
        };
        let kept = [(Tasks, 0.5), (Tasks, 0.45), (Inside, 0.6), (Inside, 0.4), (Inside, 0.5)];
        check(&kept, FragilityAnswer::Robust, &[]);
        // One of three: it may well survive.
        check(&[&kept[..4], &[(Inside, 0.0)]].concat(), FragilityAnswer::Sensitive, &[]);
        check(&[&kept[1..], &[(Tasks, 0.0)]].concat(), FragilityAnswer::Fragile, &[Tasks]);
        // However many loads of other kinds do not flip it.
        let other_cpus = [&kept[..], &kept[..], &[(Placement, 0.0)]].concat();
        check(&other_cpus, FragilityAnswer::Fragile, &[Placement]);
    }

    #[test]
    fn a_verdict_within_its_noise_is_none_to_begin_with() {
        let around = [situation("changed", None, 0.02)];
        let found = fragility(&situation("at", None, 0.02), &around, 0.02).unwrap();
        assert_eq!(found.answer, FragilityAnswer::CannotTell);
    }

    #[test]
    fn the_margin_is_where_the_line_has_half_of_the_difference() {
        let at = |tasks: f64, faster: f64| situation("tasks", Some((tasks / 10.0).ln()), faster);
        let around = [at(9.0, 0.20), at(11.0, 0.12)];
        let found = fragility(&situation("at", Some(0.0), 0.16), &around, 0.02).unwrap();
        let margin = found.margin.unwrap();
        let (low, high) = margin.interval.unwrap();
        // 4 percent points for each task, of which half of 16 may go.
        assert!((1.15..1.25).contains(&margin.value) && low < 1.2 && high > 1.2, "{margin:?}");
        let level = [at(9.0, 0.16), at(11.0, 0.16)];
        assert_eq!(
            fragility(&situation("at", Some(0.0), 0.16), &level, 0.02).unwrap().margin,
            None
        );
    }

    #[test]
    fn fewer_slow_runs_are_told_from_a_gain() {
        let slow = [true, true, false, true, true, false, true, true];
        let pair = |(index, slow): (usize, bool)| {
            let noise = 1.0 + 0.002 * index as f64;
            (if slow { 500.0 } else { 1000.0 } * noise, 1000.0 * noise)
        };
        let pairs: Vec<(f64, f64)> = slow.into_iter().enumerate().map(pair).collect();
        let found = modes(&pairs).unwrap();
        assert_eq!((found.slow, found.runs), ([6, 0], [8, 8]));
        assert!((found.apart - 1.0).abs() < 0.02 && found.p.unwrap() < 0.01, "{found:?}");
        assert_eq!(modes(&situation("at", None, 0.5).pairs), None);
    }

    #[test]
    fn what_is_missing_is_said() {
        let few = Situation { pairs: vec![(1.0, 2.0); 2], ..situation("at", None, 0.0) };
        let why = fragility(&few, &[], 0.02).unwrap_err();
        assert!(why.starts_with("at: 2 blocks in which both sides have a rate"), "{why}");
        let zeros = Situation { pairs: vec![(0.0, 2.0); 5], ..situation("zero", None, 0.0) };
        assert!(
            fragility(&situation("at", None, 0.1), &[zeros], 0.02)
                .unwrap_err()
                .starts_with("zero: 0")
        );
        assert!(fragility(&situation("at", None, 0.1), &[], 0.02).is_err());
    }
}
