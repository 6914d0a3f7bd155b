//! How often the answers about curves are right, by simulation: on curves that follow a law, and on curves that follow
//! none, where the truth is known.

mod searches;
mod single_runs;
mod thresholds;

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chance::gaussian;
use crate::fit::{Fit, Known, Observation, Quantity};
use crate::knee::SHARE;
use crate::law::{Law, Parameters, closed_queue};
use crate::scaling::{FittedLaw, KneeBasis, place_knee, scaling};
use crate::sweep::Sweep;

pub use searches::SearchCheck;
pub use single_runs::SingleRunCheck;
pub use thresholds::{ThresholdCheck, ThresholdRow};

/// The answers about simulated curves.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScaleCheck {
    /// Curves of each kind.
    pub trials: u32,
    /// Seed of the simulations.
    pub seed: u64,
    /// Knees by kind of curve.
    pub knees: Vec<KneeRow>,
    /// Quantities of a law.
    pub quantities: Vec<QuantityRow>,
    /// Cliffs by size.
    pub cliffs: Vec<CliffRow>,
    /// Forecasts by what is known.
    pub forecasts: Vec<ForecastRow>,
    /// Forecasts from curves whose points ran once; null if they were left out.
    pub single_runs: Option<SingleRunCheck>,
    /// Searches for knees; null if they were left out.
    pub searches: Option<SearchCheck>,
    /// Verdicts about locks with two states; null if they were left out.
    pub thresholds: Option<ThresholdCheck>,
}

/// A part of the check. Curves and their noise do not depend on which other parts are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Knees,
    Quantities,
    Cliffs,
    Forecasts,
    Searches,
    Fragile,
}

impl Part {
    pub const ALL: [Part; 6] = [
        Part::Knees,
        Part::Quantities,
        Part::Cliffs,
        Part::Forecasts,
        Part::Searches,
        Part::Fragile,
    ];

    /// The word for it in arguments.
    pub fn word(self) -> &'static str {
        match self {
            Part::Knees => "knees",
            Part::Quantities => "quantities",
            Part::Cliffs => "cliffs",
            Part::Forecasts => "forecasts",
            Part::Searches => "searches",
            Part::Fragile => "fragile",
        }
    }
}

/// Knees of one kind of curve.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KneeRow {
    /// What the curves are.
    pub what: String,
    /// Whether the curves follow a law that is fitted.
    pub follows_a_law: bool,
    /// Share of curves whose true knee lies in the 90 % interval.
    pub inside: f64,
    /// Share of curves that some law fits.
    pub fitted: f64,
    /// Median of the interval's high end over its low end, where both lie among the measured points.
    pub width: Option<f64>,
}

/// A quantity of curves that follow the law of a lock with a hand-over.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct QuantityRow {
    /// Name of the quantity.
    pub name: String,
    /// Share of curves whose true quantity lies in the 90 % interval.
    pub inside: f64,
}

/// Cliffs of one size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CliffRow {
    /// What the curves are.
    pub what: String,
    /// Share of curves with a cliff found where it is; for smooth curves, anywhere.
    pub found: f64,
    /// Share of curves whose cliff is not found, and which a smooth law explains: nothing measured tells them apart.
    pub explained_smoothly: f64,
    /// Whether the curves have no cliff.
    pub is_smooth: bool,
}

/// Forecasts from 1 to 8 CPUs with one kind of knowledge.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForecastRow {
    /// What is known besides the curve.
    pub from: String,
    /// Shares of curves whose rate at 16, 32 and 64 CPUs, and whose knee, are forecast within 20 %.
    pub within: [f64; 4],
}

/// What simulated curves follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Queue,
    Handover,
    Universal,
    Amdahl,
    /// A lock that takes longer to pass on between sockets than within the first.
    TwoSockets,
    /// A lock and a step down.
    Step,
    /// A lock that one task alone has in its cache.
    FirstTaskApart,
    /// A lock whose waiting tasks each add 3 to 100 % of the hold.
    Crowded,
}

/// Kinds that follow a law.
const LAWS: [Kind; 4] = [Kind::Queue, Kind::Handover, Kind::Universal, Kind::Amdahl];

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Queue,
        Kind::Handover,
        Kind::Universal,
        Kind::Amdahl,
        Kind::TwoSockets,
        Kind::Step,
        Kind::FirstTaskApart,
    ];

    /// A description in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Kind::Queue => "one lock",
            Kind::Handover => "one lock, slower with its queue",
            Kind::Universal => "universal law",
            Kind::Amdahl => "Amdahl's law",
            Kind::TwoSockets => "one lock, slower between sockets",
            Kind::Step => "one lock, and a cliff",
            Kind::FirstTaskApart => "one lock, cheaper for one task alone",
            Kind::Crowded => "one lock, 3 to 100 % slower for each that waits",
        }
    }

    fn follows_a_law(self) -> bool {
        LAWS.contains(&self)
    }

    /// A curve of this kind.
    fn draw(self, random: &mut Xoshiro256PlusPlus) -> Curve {
        let saturation = between(random, 3.0, 60.0);
        let growth = between(random, 0.003, 0.1);
        let (sigma, kappa) = (between(random, 0.003, 0.2), between(random, 1e-5, 3e-3));
        let step = between(random, 1.05, 1.6);
        let edge = [16.0, 32.0][random.random_range(0..2)];
        let hold = 1.0 / saturation;
        let lock = move |tasks, hold: f64, growth: f64| {
            closed_queue(tasks, 1.0 - 1.0 / saturation, hold, growth * hold)
        };
        match self {
            Kind::Queue => Box::new(move |n| lock(n, hold, 0.0)),
            Kind::Handover => Box::new(move |n| lock(n, hold, growth)),
            Kind::Crowded => Box::new(move |n| lock(n, hold, 10.0 * growth)),
            Kind::Universal => {
                Box::new(move |n| n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)))
            }
            Kind::Amdahl => Box::new(move |n| n / (1.0 + sigma * (n - 1.0))),
            Kind::TwoSockets => Box::new(move |n| {
                let remote = if n > edge { 2.0 * (n - edge) / n } else { 0.0 };
                lock(n, hold * (1.0 + (step - 1.0) * remote), 0.3 * growth)
            }),
            Kind::Step => {
                Box::new(move |n| lock(n, hold, 0.3 * growth) / if n > edge { step } else { 1.0 })
            }
            Kind::FirstTaskApart => Box::new(move |n| {
                if n > 1.0 {
                    lock(n, hold, 0.3 * growth)
                } else {
                    closed_queue(n, 0.8 * (1.0 - hold), 0.3 * hold, 0.0)
                }
            }),
        }
    }
}

/// The CPUs of simulated curves, and their noise: 5 runs, normal with 3 %.
const COUNTS: [u32; 12] = [1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64];
const MOST: f64 = 64.0;
const RUNS: usize = 5;
const NOISE: f64 = 0.03;
/// That of cliffs and forecasts.
const LESS_NOISE: f64 = 0.02;

/// Simulates this number of curves of each kind, for these parts of the check.
pub fn scale_check(trials: u32, seed: u64, parts: &[Part]) -> ScaleCheck {
    let has = |part: Part| parts.contains(&part);
    let rows = |part: Part| if has(part) { trials } else { 0 };
    ScaleCheck {
        trials,
        seed,
        knees: knees(rows(Part::Knees), seed),
        quantities: quantities(rows(Part::Quantities), seed),
        cliffs: cliffs(rows(Part::Cliffs), seed),
        forecasts: forecasts(rows(Part::Forecasts), seed),
        single_runs: has(Part::Forecasts).then(|| single_runs::single_runs(trials, seed)),
        searches: has(Part::Searches).then(|| searches::searches((trials / 4).max(1), seed)),
        thresholds: has(Part::Fragile).then(|| thresholds::thresholds(4 * trials, seed)),
    }
}

fn knees(trials: u32, seed: u64) -> Vec<KneeRow> {
    if trials == 0 {
        return Vec::new();
    }
    let all = trials as usize;
    let knees = Kind::ALL.iter().enumerate().map(|(row, kind)| {
        let curve = |i| {
            let mut random = stream(seed, row, i);
            let (rate, truth) = curve_with_knee(*kind, MOST, &mut random);
            knee_of(rate, truth, &mut random)
        };
        knee_row(kind.about(), kind.follows_a_law(), &in_parallel(all, curve))
    });
    let beyond = in_parallel(all, |i| {
        let mut random = stream(seed, 50, i);
        let rate = curve_with_knee_beyond(&mut random);
        knee_of(rate, f64::INFINITY, &mut random)
    });
    knees.chain([knee_row("a law, knee beyond the CPUs", true, &beyond)]).collect()
}

fn quantities(trials: u32, seed: u64) -> Vec<QuantityRow> {
    if trials == 0 {
        return Vec::new();
    }
    let inside = in_parallel(trials as usize, |i| quantities_of(&mut stream(seed, 100, i)));
    let names = ["held", "outside", "hand-over per waiting task", "highest rate"];
    let rows = names.iter().enumerate().map(|(index, name)| QuantityRow {
        name: name.to_string(),
        inside: share(inside.iter().map(|one| one[index])),
    });
    rows.collect()
}

fn forecasts(trials: u32, seed: u64) -> Vec<ForecastRow> {
    if trials == 0 {
        return Vec::new();
    }
    let forecasts = in_parallel(trials as usize, |i| forecasts_of(&mut stream(seed, 200, i)));
    let known = [
        "the universal law",
        "the curve",
        "the curve and doses",
        "the curve and the hold, to 5 %",
        "the curve, the hold and doses",
        "the curve, the hold and the hand-over, to 20 %",
    ];
    let rows = known.iter().enumerate().map(|(index, from)| ForecastRow {
        from: from.to_string(),
        within: [0, 1, 2, 3].map(|what| share(forecasts.iter().map(|one| one[index][what]))),
    });
    rows.collect()
}

/// Random numbers of one trial of one row of a table.
fn stream(seed: u64, row: usize, index: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ (row as u64 + 1) << 40 ^ (index as u64) << 8)
}

fn share(of: impl Iterator<Item = bool>) -> f64 {
    let (all, held) = of.fold((0, 0), |(all, held), is| (all + 1, held + u32::from(is)));
    f64::from(held) / f64::from(all)
}

/// A number whose logarithm is anywhere between both with equal chance.
fn between(random: &mut Xoshiro256PlusPlus, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.random())
}

/// Runs of a curve.
fn measured(
    rate: impl Fn(f64) -> f64,
    counts: &[u32],
    noise: f64,
    random: &mut Xoshiro256PlusPlus,
) -> Sweep {
    let runs = |&cpus: &u32| {
        let rate = rate(f64::from(cpus));
        (cpus, (0..RUNS).map(|_| rate * (noise * gaussian(random)).exp()).collect())
    };
    Sweep::new(counts.iter().map(runs).collect::<Vec<_>>()).expect("simulated rates are positive")
}

/// A simulated curve: its rate by the number of CPUs.
type Curve = Box<dyn Fn(f64) -> f64>;

/// A curve of this kind whose knee lies among the CPUs up to `most`, and that knee.
fn curve_with_knee(kind: Kind, most: f64, random: &mut Xoshiro256PlusPlus) -> (Curve, f64) {
    loop {
        let rate = kind.draw(random);
        let truth = true_knee(&rate, most);
        if truth.is_finite() {
            return (rate, truth);
        }
    }
}

/// A curve by a law whose knee lies beyond the measured CPUs.
fn curve_with_knee_beyond(random: &mut Xoshiro256PlusPlus) -> Curve {
    loop {
        let kind = LAWS[random.random_range(0..LAWS.len())];
        let rate = kind.draw(random);
        if true_knee(&rate, MOST).is_infinite() {
            return rate;
        }
    }
}

/// Whether the true knee is in the interval, whether a law fits, and how wide the interval is.
fn knee_of(rate: Curve, truth: f64, random: &mut Xoshiro256PlusPlus) -> (bool, bool, Option<f64>) {
    let found = place_knee(&measured(rate, &COUNTS, NOISE, random));
    let (low, high) = found.knee.interval.expect("there is noise");
    let is_inside = low <= truth && truth <= high;
    let width = (high.is_finite() && low.is_finite()).then(|| high / low);
    (is_inside, found.basis == KneeBasis::Law, width)
}

/// Infinite where it lies beyond the measured CPUs.
fn true_knee(rate: &dyn Fn(f64) -> f64, most_cpus: f64) -> f64 {
    let counts = std::iter::successors(Some(1.0_f64), |n| Some((n * 1.01).max(n + 1.0).floor()));
    let highest = counts.take_while(|n| *n < 1e5).map(rate).fold(0.0, f64::max);
    let has = |n: &u32| rate(f64::from(*n)) >= SHARE * highest;
    match (1..=most_cpus as u32).find(has) {
        None => f64::INFINITY,
        Some(1) => 1.0,
        Some(at) => {
            let (low, high) = (f64::from(at - 1), f64::from(at));
            let part = (SHARE * highest / rate(low)).ln() / (rate(high) / rate(low)).ln();
            low * (high / low).powf(part)
        }
    }
}

fn knee_row(
    what: &'static str,
    follows_a_law: bool,
    found: &[(bool, bool, Option<f64>)],
) -> KneeRow {
    let mut widths: Vec<f64> = found.iter().filter_map(|one| one.2).collect();
    widths.sort_by(f64::total_cmp);
    KneeRow {
        what: what.to_string(),
        follows_a_law,
        inside: share(found.iter().map(|one| one.0)),
        fitted: share(found.iter().map(|one| one.1)),
        width: widths.get(widths.len() / 2).copied(),
    }
}

/// Parameters of a lock: saturated by 3 to 60 tasks, and four of ten with no growth.
fn lock(random: &mut Xoshiro256PlusPlus) -> Parameters {
    let share = 1.0 / between(random, 3.0, 60.0);
    let has_growth = random.random::<f64>() >= 0.4;
    let growth = if has_growth { between(random, 0.003, 0.1) } else { 1e-5 };
    [0.0, share.ln(), growth.ln(), 0.0]
}

/// Whether each true quantity is in its interval, by draws of the true law.
fn quantities_of(random: &mut Xoshiro256PlusPlus) -> [bool; 4] {
    let truth = lock(random);
    let rate = |tasks: f64| Law::Handover.rate(&truth, tasks);
    let sweep = measured(rate, &COUNTS, NOISE, random);
    let observed = sweep.observations();
    let fit = Fit::new(Law::Handover, &observed, &[]);
    let draws = crate::chance::Draws::new(fit, &observed, &[], sweep.freedom());
    let of: [fn(&Parameters) -> f64; 4] = [
        |p| Quantity::Hold.log(p),
        |p| p[0].exp() - Quantity::Hold.log(p).exp(),
        |p| Quantity::Handover.log(p),
        |p| Law::Handover.maximum(p).0,
    ];
    of.map(|of| {
        let truth = of(&truth);
        let (low, high) =
            draws.estimate(|fit| of(&fit.parameters)).interval.expect("there is noise");
        let tolerance = 1e-9 * truth.abs();
        low - tolerance <= truth && truth <= high + tolerance
    })
}

/// Cliffs of 5, 10 and 20 % anywhere from the fifth point on, of 10 % at the last, and smooth curves by laws and by none.
fn cliffs(trials: u32, seed: u64) -> Vec<CliffRow> {
    if trials == 0 {
        return Vec::new();
    }
    let kinds = [
        (0.05, false, &LAWS[..]),
        (0.1, false, &LAWS[..]),
        (0.1, true, &LAWS[..]),
        (0.2, false, &LAWS[..]),
        (0.0, false, &LAWS[..]),
        (0.0, false, &[Kind::FirstTaskApart]),
        (0.0, false, &[Kind::Crowded]),
    ];
    let row = |(index, (drop, is_last, kinds)): (usize, (f64, bool, &[Kind]))| {
        let found = in_parallel(trials as usize, |i| {
            looked_for_cliff(kinds, drop, is_last, &mut stream(seed, 299 + index, i))
        });
        let what = match (drop, is_last) {
            (0.0, _) if kinds.len() == 1 => format!("{}, smooth", kinds[0].about()),
            (0.0, _) => "smooth curves".to_string(),
            (_, true) => format!("a cliff of {:.0} % at the last point", 100.0 * drop),
            (_, false) => format!("a cliff of {:.0} %", 100.0 * drop),
        };
        let is = |what: CliffAnswer| share(found.iter().map(|one| *one == what));
        CliffRow {
            what,
            found: is(CliffAnswer::Found),
            explained_smoothly: is(CliffAnswer::ExplainedSmoothly),
            is_smooth: drop == 0.0,
        }
    };
    kinds.into_iter().enumerate().map(row).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum CliffAnswer {
    Found,
    ExplainedSmoothly,
    Missed,
}

fn looked_for_cliff(
    kinds: &[Kind],
    drop: f64,
    is_last: bool,
    random: &mut Xoshiro256PlusPlus,
) -> CliffAnswer {
    /// A smooth law explains a curve if its deviations have this probability.
    const EXPLAINS: f64 = 0.05;
    let rate = kinds[random.random_range(0..kinds.len())].draw(random);
    let last = COUNTS.len() - 1;
    let edge = f64::from(COUNTS[if is_last { last } else { random.random_range(4..=last) }]);
    let rate = |n: f64| rate(n) * if n >= edge { 1.0 - drop } else { 1.0 };
    let found = scaling(&measured(rate, &COUNTS, LESS_NOISE, random));
    let explains = |law: &FittedLaw| law.lack_of_fit.is_some_and(|p| p >= EXPLAINS);
    match found.cliff {
        Some(cliff) if drop == 0.0 || cliff.after == edge => CliffAnswer::Found,
        _ if found.laws.iter().any(explains) => CliffAnswer::ExplainedSmoothly,
        _ => CliffAnswer::Missed,
    }
}

/// For each kind of knowledge, whether the rates at 16, 32 and 64 CPUs and the knee are within 20 % of the truth.
fn forecasts_of(random: &mut Xoshiro256PlusPlus) -> [[bool; 4]; 6] {
    let truth = lock(random);
    let rate = |tasks: f64| Law::Handover.rate(&truth, tasks);
    let observed = measured(rate, &[1, 2, 3, 4, 6, 8], LESS_NOISE, random).observations();
    let mut known = |quantity: Quantity, deviation: f64| Known {
        quantity,
        log: quantity.log(&truth) + deviation * gaussian(random),
        deviation,
    };
    let (hold, handover) = (known(Quantity::Hold, 0.05), known(Quantity::Handover, 0.2));
    let with_doses = [&observed[..], &doses_of(&truth, random)].concat();
    let fits = [
        Fit::new(Law::Universal, &observed, &[]),
        Fit::new(Law::Handover, &observed, &[]),
        Fit::new(Law::Handover, &with_doses, &[]),
        Fit::new(Law::Handover, &observed, &[hold]),
        Fit::new(Law::Handover, &with_doses, &[hold]),
        Fit::new(Law::Handover, &observed, &[hold, handover]),
    ];
    let is_near = |ratio: f64| (1.0 / 1.2..=1.2).contains(&ratio);
    let knee = Law::Handover.knee(&truth, SHARE);
    fits.map(|fit| {
        let [a, b, c] = [16.0, 32.0, 64.0].map(|tasks| is_near(fit.rate(tasks) / rate(tasks)));
        [a, b, c, is_near(fit.law.knee(&fit.parameters, SHARE) / knee)]
    })
}

/// Doses in the lock of an eighth, a third and all of the time outside, at 4 and 8 CPUs.
fn doses_of(truth: &Parameters, random: &mut Xoshiro256PlusPlus) -> Vec<Observation> {
    let outside = truth[0].exp() - Quantity::Hold.log(truth).exp();
    let mut doses = Vec::new();
    for tasks in [4.0, 8.0] {
        for share in [0.125, 1.0 / 3.0, 1.0] {
            let dose = share * outside;
            let deviation = LESS_NOISE / (RUNS as f64).sqrt();
            let rate = Law::Handover.dosed_rate(truth, tasks, dose);
            let log_rate = rate.ln() + deviation * gaussian(random);
            doses.push(Observation { tasks, log_rate, deviation, steps: 0.0, dose });
        }
    }
    doses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_contain_the_truth_and_a_seed_repeats() {
        let check = scale_check(4, 5, &[Part::Knees, Part::Forecasts]);
        for row in &check.knees {
            assert!(row.inside >= 0.75, "{row:?}");
        }
        let [universal, .., with_both] = &check.forecasts[..] else { panic!("{check:?}") };
        assert!(with_both.within[2] > universal.within[2] + 0.4, "{check:?}");
        let again = || format!("{:?}", scale_check(1, 5, &Part::ALL));
        assert_eq!(again(), again());
    }
}
