//! Judges the differences between two variants: changed, the same, or not enough to tell. This is
//! the one place that decides; everything above it only words the decision.
//!
//! "The same" is two one-sided tests: the interval at twice the error probability lies within
//! the margin. Source: D. J. Schuirmann, "A Comparison of the Two One-Sided Tests
//! Procedure and the Power Approach for Assessing the Equivalence of Average
//! Bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987.

use records::Better;

use crate::comparison::Method;
use crate::drift_fit::{DriftFit, Taken};
use crate::modes::{Modes, SplitSides};
use crate::rank_sum::Shifts;
use crate::sequential::{looks, nominal, overall};
use crate::signed_rank::{Walsh, hodges_lehmann};
use crate::student::Student;

/// Fewer differences than this get no interval: even Student's would be too wide to be of use.
const STUDENT_MIN: usize = 4;

/// Fewer values of a side than this say nothing beside a drift.
pub(crate) const TAKEN_MIN: usize = 3;

/// From this number of differences on, ranks decide, and nothing is assumed about the noise.
pub(crate) const RANKS_MIN: usize = 8;

/// Probabilities with which a gate lets a harmful case go, one after the other: while a case is open at one of them, no case
/// is looked at by the next, so the time goes to the most suspicious cases first.
pub const MISSES: [f64; 3] = [0.02, 0.005, 0.001];

/// Nobody can run more blocks than this, so no such number is given as advice.
const MORE_MAX: f64 = 1e6;

/// The question put to the differences, and how sure the answer must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Probability of "changed" if nothing is different, all looks together; usually 0.05.
    pub alpha: f64,
    /// Half-width of "same", in the unit of the differences (usually logarithms).
    pub margin: f64,
    /// Whether blocks stop as soon as a look decides.
    pub sequential: bool,
    /// The largest number of blocks.
    pub cap: u32,
}

/// What the differences show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The interval excludes 0.
    Changed {
        /// Whether the interval even lies beyond the margin.
        at_least: bool,
    },
    /// The interval of the equivalence test lies within the margin.
    Same,
    /// Neither a change nor equality is shown.
    CannotTell {
        /// About how many more blocks would decide, if they resemble those so far; absent if no
        /// number can be given.
        more: Option<u32>,
    },
    /// No verdict is possible yet.
    TooFew {
        /// The number of differences from which on a verdict is possible.
        needs: u32,
    },
}

/// A decision and its evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The number of differences; with looks, of those up to the last look. Of two samples, the
    /// size of the smaller.
    pub n: usize,
    /// The difference: Hodges–Lehmann, or the mean if `method` assumes normality.
    pub estimate: Option<f64>,
    /// The interval of the difference, which excludes 0 if and only if `p` is at most `alpha`.
    pub interval: Option<(f64, f64)>,
    /// The method behind `estimate`, `interval` and `p`.
    pub method: Method,
    /// Probability of such differences if nothing is different; with looks, of such differences
    /// at any look.
    pub p: Option<f64>,
    pub decision: Decision,
    /// Whether no more blocks are needed: it is decided, or there is no further look.
    pub stop: bool,
    /// Two modes of the values, if both sides show them.
    pub modes: Option<Modes>,
}

/// Judges paired differences, one for each block, in order of execution. Values that are not
/// finite are left out.
///
/// With a fixed number of blocks, fewer than 4 get no interval. From 4 to 7, Student's t
/// decides; from 8 on, exact signed ranks. If `alpha` is too small for the ranks of this number
/// of blocks, Student's t stands in. Differences that are all equal are no sample of normal
/// noise: they get no verdict before ranks can give one.
///
/// With looks, only the differences up to the last look count. Those after it wait for the next
/// look, because a verdict between looks would be one look more. All looks together find
/// something in nothing with probability `alpha`, so a later look may also be shown instead of
/// the one that stopped. Where ranks cannot reach the level that a look may spend, Student's
/// interval is shown but decides nothing, except at the last look.
pub fn judge(differences: &[f64], rule: &Rule) -> Judgement {
    let finite: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite()).collect();
    let looks = looks(rule.cap);
    if !rule.sequential || looks.len() < 2 {
        let stop = finite.len() >= rule.cap as usize;
        let levels = Levels { changed: rule.alpha, same: 2.0 * rule.alpha };
        return Judgement { stop, ..paired(&finite, &levels, rule) };
    }
    let Some(&look) = looks.iter().rev().find(|look| **look <= finite.len()) else {
        return before_looks(&finite, looks[0], rule);
    };
    at_look(&finite[..look], Some(&look) == looks.last(), rule)
}

/// Whether it is not worth to go on with these differences: at the last look, Student's one-sided interval at 98 % excludes a
/// change for the worse of the margin, and the estimate is no change for the better of that size. This ends blocks, and
/// is no verdict: a verdict comes from [`judge`] alone.
pub fn is_harmless(differences: &[f64], better: Better, rule: &Rule) -> bool {
    is_harmless_at(MISSES[0], differences, better, rule)
}

/// [`is_harmless`] by a one-sided interval that misses with another probability.
pub fn is_harmless_at(miss: f64, differences: &[f64], better: Better, rule: &Rule) -> bool {
    let finite: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite()).collect();
    let last = looks(rule.cap).into_iter().rev().find(|look| *look <= finite.len());
    let student = last.and_then(|look| Student::paired(&finite[..look]));
    let Some((low, high)) = student.and_then(|student| student.interval(2.0 * miss)) else {
        return false;
    };
    let middle = (low + high) / 2.0;
    match better {
        Better::Lower => high < rule.margin && middle > -rule.margin,
        Better::Higher => low > -rule.margin && middle < rule.margin,
        Better::Neither => within((low, high), rule.margin),
    }
}

/// Judges two samples without pairs, `b` against `a`: exact rank sums from 8 values a side on,
/// Welch's t from 4. There are no looks. In the judgement, `n` is the size of the smaller sample.
pub fn judge_separate(a: &[f64], b: &[f64], rule: &Rule) -> Judgement {
    let finite = |side: &[f64]| side.iter().copied().filter(|x| x.is_finite()).collect::<Vec<_>>();
    let (a, b) = (finite(a), finite(b));
    let shifts = Shifts::new(&a, &b);
    let n = a.len().min(b.len());
    let stop = n >= rule.cap as usize;
    let (alpha, twice) = (rule.alpha, 2.0 * rule.alpha);
    let ranks = || {
        let interval = shifts.interval(alpha).filter(|_| n >= RANKS_MIN)?;
        let (estimate, same) = (shifts.estimate(), shifts.interval(twice));
        Some(Evidence { estimate, interval, same, method: Method::RankSum, p: shifts.p() })
    };
    let welch = || {
        let student = Student::welch(&a, &b).filter(|_| n >= STUDENT_MIN)?;
        Evidence::assuming_normality(&student, alpha, twice, Method::Welch)
    };
    let judged = match ranks().or_else(welch) {
        Some(evidence) => evidence.judged(n, rule),
        None => {
            // Two-sided: 2 over the number of ways to split 2 n values into halves.
            let rarest =
                |n| 2.0 * (1..=n).map(|i| f64::from(i) / f64::from(n + i)).product::<f64>();
            too_few(n, shifts.estimate(), alpha, rarest)
        }
    };
    Judgement { stop, ..judged }
}

/// Judges values that were taken one by one on a host that drifts, in each order in which that may have
/// been. In the judgement, `n` is the number of values of the smaller side.
///
/// If all values of one side came first, a step of the host just between the sides looks like a change
/// whatever is done, so what else may look like one gets half of `alpha`. If the order is not known, the
/// interval holds those of all orders; since they must agree, each is at twice `alpha`. Simulated
/// hosts then give a change that is none in at most 5 % of the cases (`knee selfcheck`).
///
/// Values in two modes, with equal shares of both on either side, are judged within modes.
pub fn judge_taken(orders: &[Vec<Taken>], rule: &Rule) -> Judgement {
    let Some(first) = orders.first() else { return judge_separate(&[], &[], rule) };
    let side = |is_variant: bool| -> Vec<f64> {
        first.iter().filter(|(own, _)| *own == is_variant).map(|(_, value)| *value).collect()
    };
    let (a, b) = (side(false), side(true));
    let n = a.len().min(b.len());
    if n < TAKEN_MIN {
        let decision = Decision::TooFew { needs: TAKEN_MIN as u32 };
        return Judgement { decision, ..judge_separate(&a, &b, rule) };
    }
    let split = SplitSides::new([&a, &b]);
    let within = split.as_ref().filter(|split| split.modes.judged_within);
    let one_mode = |(side, value): &Taken| {
        (*side, within.map_or(*value, |split| split.lowered(*side, *value)))
    };
    let fit = |taken: &Vec<Taken>| DriftFit::new(&taken.iter().map(one_mode).collect::<Vec<_>>());
    let fits: Option<Vec<DriftFit>> = orders.iter().map(fit).collect();
    let Some(fits) = fits else { return judge_separate(&a, &b, rule) };
    let factor = match orders {
        [taken] if is_in_sequence(taken) => 0.5,
        // The fitted drift is not quite the true one.
        [_] => 0.9,
        _ => 2.0,
    };
    let hull = |alpha: f64| {
        let intervals = fits.iter().map(|fit| fit.interval(alpha));
        intervals.reduce(|(low, high), (l, h)| (low.min(l), high.max(h)))
    };
    let mut estimates: Vec<f64> = fits.iter().map(DriftFit::estimate).collect();
    estimates.sort_by(f64::total_cmp);
    let agree = estimates[0] * estimates[estimates.len() - 1] > 0.0;
    let mean = |is_variant: bool| {
        let own = first.iter().filter(|(side, _)| *side == is_variant).map(one_mode);
        let (n, sum) = own.fold((0.0, 0.0), |(n, sum), (_, value)| (n + 1.0, sum + value));
        sum / n
    };
    let between_means = mean(true) - mean(false);
    let p = fits.iter().map(DriftFit::p).fold(0.0, f64::max) / factor;
    let alpha = (rule.alpha * factor).min(0.5);
    let Some(interval) = hull(alpha) else { return judge_separate(&a, &b, rule) };
    // Readers see the means. Where a drift explains them away, they see what is left.
    let is_inside = (interval.0..=interval.1).contains(&between_means);
    let estimate = if is_inside { between_means } else { estimates[estimates.len() / 2] };
    let evidence = Evidence {
        estimate: Some(estimate),
        interval,
        same: hull((2.0 * alpha).min(0.9)),
        method: Method::Drift,
        p: if agree { p.min(1.0) } else { 1.0 },
    };
    Judgement { modes: split.map(|split| split.modes), ..evidence.judged(n, rule) }
}

/// Whether all values of one side come before those of the other.
pub fn is_in_sequence(taken: &[Taken]) -> bool {
    taken.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() < 2
}

/// The error probabilities of the interval for "changed" and of the one for "same".
struct Levels {
    changed: f64,
    same: f64,
}

/// An interval for "changed", one for "same", and the method behind them.
struct Evidence {
    estimate: Option<f64>,
    interval: (f64, f64),
    same: Option<(f64, f64)>,
    method: Method,
    p: f64,
}

impl Evidence {
    fn ranks(walsh: &Walsh, levels: &Levels) -> Option<Evidence> {
        let interval = walsh.interval(levels.changed)?;
        let (estimate, same) = (walsh.estimate(), walsh.interval(levels.same));
        Some(Evidence { estimate, interval, same, method: Method::SignedRank, p: walsh.p() })
    }

    fn assuming_normality(
        student: &Student,
        changed: f64,
        same: f64,
        method: Method,
    ) -> Option<Evidence> {
        let interval = student.interval(changed)?;
        let (estimate, same) = (Some(student.estimate), student.interval(same));
        Some(Evidence { estimate, interval, same, method, p: student.p() })
    }

    fn judged(&self, n: usize, rule: &Rule) -> Judgement {
        let Evidence { estimate, interval, same, method, p } = *self;
        let decision = decide(n, estimate, Some(interval), same, rule);
        let (interval, p) = (Some(interval), Some(p));
        Judgement { n, estimate, interval, method, p, decision, stop: false, modes: None }
    }
}

/// Judges paired differences at given levels, as if there were no looks.
fn paired(differences: &[f64], levels: &Levels, rule: &Rule) -> Judgement {
    let n = differences.len();
    let ranks = || Evidence::ranks(&Walsh::new(differences), levels).filter(|_| n >= RANKS_MIN);
    let student = || {
        let student = Student::paired(differences).filter(|_| n >= STUDENT_MIN)?;
        Evidence::assuming_normality(&student, levels.changed, levels.same, Method::Student)
    };
    match ranks().or_else(student) {
        Some(evidence) => evidence.judged(n, rule),
        None => {
            let rarest = |n| 2.0 * 0.5_f64.powi(n);
            too_few(n, hodges_lehmann(differences), levels.changed, rarest)
        }
    }
}

/// Judges the differences up to a look, at the level that this look may spend.
fn at_look(differences: &[f64], last: bool, rule: &Rule) -> Judgement {
    let n = differences.len();
    let levels = Levels { changed: nominal(n, rule.alpha), same: nominal(n, 2.0 * rule.alpha) };
    let mut judged = paired(differences, &levels, rule);
    match judged.method {
        Method::SignedRank => judged.method = Method::SignedRankSequential,
        // Here ranks have no interval for "changed", but may have one for "same".
        _ if !last => {
            let walsh = Walsh::new(differences);
            judged.estimate = walsh.estimate();
            let same = walsh.interval(levels.same);
            let undecided =
                Decision::CannotTell { more: more(n, judged.estimate, judged.interval, rule) };
            let is_same = same.is_some_and(|interval| within(interval, rule.margin));
            judged.decision = if is_same { Decision::Same } else { undecided };
        }
        _ => {}
    }
    judged.p = judged.p.map(|p| overall(n, p));
    let decided = matches!(judged.decision, Decision::Same | Decision::Changed { .. });
    judged.stop = decided || last;
    judged
}

/// Too few differences for the first look: an interval at that look's level, but no verdict.
fn before_looks(differences: &[f64], first: usize, rule: &Rule) -> Judgement {
    let level = |alpha: f64| nominal(first, alpha);
    let levels = Levels { changed: level(rule.alpha), same: level(2.0 * rule.alpha) };
    let judged = paired(differences, &levels, rule);
    let p = judged.p.map(|p| overall(first, p));
    Judgement { p, decision: Decision::TooFew { needs: first as u32 }, stop: false, ..judged }
}

/// Decides by both intervals. "Same" comes first: a change that is real but too small to matter is
/// the same.
fn decide(
    n: usize,
    estimate: Option<f64>,
    interval: Option<(f64, f64)>,
    same: Option<(f64, f64)>,
    rule: &Rule,
) -> Decision {
    if same.is_some_and(|interval| within(interval, rule.margin)) {
        return Decision::Same;
    }
    match interval {
        Some((low, high)) if low > 0.0 || high < 0.0 => {
            Decision::Changed { at_least: low > rule.margin || high < -rule.margin }
        }
        _ => Decision::CannotTell { more: more(n, estimate, interval, rule) },
    }
}

fn within((low, high): (f64, f64), margin: f64) -> bool {
    -margin < low && high < margin
}

/// How many more blocks make the half-width of the interval half of the estimate, or of the margin
/// if that is larger: widths shrink with the square root of the number.
fn more(n: usize, estimate: Option<f64>, interval: Option<(f64, f64)>, rule: &Rule) -> Option<u32> {
    let (low, high) = interval?;
    let half = high / 2.0 - low / 2.0;
    let wanted = estimate?.abs().max(rule.margin) / 2.0;
    let more = n as f64 * ((half / wanted).powi(2) - 1.0);
    (more.is_finite() && more <= MORE_MAX).then(|| more.ceil().max(1.0) as u32)
}

/// A judgement without an interval, with the number of differences that one needs. `rarest` is the
/// probability of the most one-sided outcome of a number of differences.
fn too_few(n: usize, estimate: Option<f64>, level: f64, rarest: impl Fn(i32) -> f64) -> Judgement {
    let ranks = || (RANKS_MIN as i32..64).find(|n| rarest(*n) <= level).unwrap_or(64);
    let needs = if n < STUDENT_MIN { STUDENT_MIN as u32 } else { ranks() as u32 };
    Judgement {
        n,
        estimate,
        interval: None,
        method: Method::None,
        p: None,
        decision: Decision::TooFew { needs },
        stop: false,
        modes: None,
    }
}

#[cfg(test)]
mod tests;
