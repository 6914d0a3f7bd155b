//! Forecasts: rates with more CPUs than were measured, what they rest on, and how far a curve alone reaches.

mod by_slope;
mod single_runs;

use analysis::Axis;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chance::{Draws, Estimate};
use crate::cliff::cliff;
use crate::fit::{FITS_WITHOUT_NOISE, Fit, Known, Quantity};
use crate::knee::SHARE;
use crate::law::Law;
use crate::scaling::{lack_of_fit, may_hold};
use crate::sweep::{COUNTS_MIN, Sweep};
use by_slope::Slope;
use single_runs::NearLaws;

/// Rates with more CPUs than were measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Forecast {
    /// What the curve runs over: CPUs, or threads, clients, a load. All that is said of CPUs is said of it.
    pub axis: Axis,
    /// The laws that the intervals hold; the first gives the values. Where each point ran once: the laws that come near the
    /// curve, if any do; the values lie between theirs and what the slope of the last points says.
    pub laws: Vec<Law>,
    /// The rate at each requested number of CPUs.
    pub points: Vec<ForecastPoint>,
    /// The fewest CPUs with 90 % of the highest rate by these laws; infinite if they give none, or none comes near.
    pub knee: Estimate,
    /// Why intervals are those of published curves; null where repeats, or what else is known, give them.
    pub as_published: Option<AsPublished>,
    /// Whether doses beside the curve count.
    pub with_doses: bool,
    /// The quantity with which the forecast varies most; null without an interval.
    pub rests_on: Option<RestsOn>,
    /// What the lower half of the curve says about the upper.
    pub hold_out: Option<HoldOut>,
    /// Why the lower half says nothing, if so.
    pub not_held_out: Option<String>,
    /// Where each point ran once: the noise that the interval of the knee assumes, in percent; null where repeats show it,
    /// and where no law comes near.
    pub assumed_noise_percent: Option<f64>,
}

/// Why nothing but published curves says how far a forecast may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AsPublished {
    /// Each point ran once.
    RanOnce,
    /// Fewer than four counts were measured: no law is known by them.
    FewCounts,
}

/// The quantity with which a forecast varies most.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RestsOn {
    /// Name of the quantity.
    pub quantity: &'static str,
    /// The share of the variance at the most CPUs that goes with it.
    pub share: f64,
}

/// The rate at one number of CPUs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ForecastPoint {
    /// Number of CPUs.
    pub cpus: u32,
    /// Operations per second, by the laws.
    pub rate: Estimate,
    /// The measured mean, if the sweep has this number of CPUs.
    pub measured: Option<f64>,
}

/// A forecast of what was measured, from the part with at most half of the CPUs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HoldOut {
    /// The most CPUs of the part.
    pub up_to: u32,
    /// The measured numbers of CPUs beyond the part.
    pub points: Vec<HeldOutPoint>,
}

/// A forecast of a rate that was measured.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct HeldOutPoint {
    /// Number of CPUs.
    pub cpus: u32,
    /// Operations per second, by laws fitted to the part alone.
    pub rate: Estimate,
    /// The measured mean.
    pub measured: f64,
}

/// How far beyond the measured CPUs the curve alone may be extended, and with doses beside it.
const BARE: f64 = 2.0;
const WITH_DOSES: f64 = 4.0;
/// Known times contradict a curve if deviations like these have less than this probability.
const CONTRADICTS: f64 = 0.01;

/// Forecasts the rates at these numbers of CPUs.
///
/// # Errors
/// Says why not: no law fits repeated runs, or the curve alone does not reach that far.
pub fn forecast(sweep: &Sweep, known: &[Known], cpus: &[u32]) -> Result<Forecast, String> {
    let most = cpus.iter().copied().max().unwrap_or(0);
    let measured = sweep.most_cpus();
    let knows_both = [Quantity::Hold, Quantity::Handover]
        .iter()
        .all(|quantity| known.iter().any(|one| one.quantity == *quantity));
    let (reach, what) =
        if sweep.has_doses() { (WITH_DOSES, "a curve with doses") } else { (BARE, "a curve") };
    if !knows_both && f64::from(most) > reach * measured {
        let axis = sweep.axis();
        return Err(format!(
            "{}: {what} up to {} says nothing beyond {}; more {} measured, \
             or both the time that the lock is held and what each waiting task adds, reach farther",
            axis.counted(most),
            axis.counted(measured),
            reach * measured,
            axis.name()
        ));
    }
    let laws = ForecastLaws::new(sweep, known)?;
    let all = laws.draws();
    let (hold_out, not_held_out) = match hold_out(sweep, known) {
        Ok(held_out) => (Some(held_out), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Forecast {
        axis: sweep.axis().clone(),
        laws: all.iter().map(|draws| draws.fit.law).collect(),
        points: cpus.iter().map(|&cpus| point(sweep, &laws, cpus)).collect(),
        knee: knee(all),
        as_published: laws.as_published(sweep),
        with_doses: sweep.has_doses(),
        rests_on: all.first().and_then(|first| rests_on(first, most)),
        hold_out,
        not_held_out,
        assumed_noise_percent: laws.assumed_noise().map(|noise| 100.0 * noise),
    })
}

/// The rate at a number of CPUs, beside the measured one.
fn point(sweep: &Sweep, laws: &ForecastLaws, cpus: u32) -> ForecastPoint {
    let measured = sweep.points().iter().find(|point| point.cpus == cpus);
    let measured = measured.map(|point| point.log_rate().exp());
    ForecastPoint { cpus, rate: laws.rate(cpus), measured }
}

/// The knee by all laws that may hold.
fn knee(all: &[Draws]) -> Estimate {
    let knees = all.iter().map(|draws| draws.estimate(|fit| fit.law.knee(&fit.parameters, SHARE)));
    knees.reduce(Estimate::hull).unwrap_or(Estimate { value: f64::INFINITY, interval: None })
}

/// Draws of the laws that may hold. With known quantities or doses that is the law that has them, if it fits.
fn candidates(sweep: &Sweep, known: &[Known]) -> Result<Vec<Draws>, String> {
    let mut observed = sweep.observations();
    let freedom = sweep.freedom();
    if known.is_empty() && !sweep.has_doses() {
        if let Some(cliff) = cliff(sweep) {
            return Err(format!(
                "a cliff between {}: no law says how the curve goes on after it; measure with more {}",
                sweep.axis().many(&format!("{} and {}", cliff.before, cliff.after)),
                sweep.axis().name()
            ));
        }
        let all = may_hold(&observed, freedom);
        let why = "no law fits the curve, so none says how it goes on";
        return if all.is_empty() { Err(why.to_string()) } else { Ok(all) };
    }
    if freedom == 0 {
        // Without repeats the points count as if they had this noise, beside what is known.
        observed.iter_mut().for_each(|one| one.deviation = FITS_WITHOUT_NOISE);
    }
    if sweep.has_doses() {
        observed.extend(sweep.dosed_observations());
    }
    let fit = Fit::new(Law::Handover, &observed, known);
    let squares = fit.squares / (observed.len() + known.len() - 3) as f64;
    let p = lack_of_fit(&fit, observed.len() + known.len(), freedom);
    if p.map_or(squares > 4.0, |p| p < CONTRADICTS) {
        let alone = Fit::new(Law::Handover, &observed, &[]).parameters;
        let us = |quantity: Quantity| 1e6 * quantity.log(&alone).exp();
        return Err(format!(
            "a lock with these {} does not give this curve{}; by the curve alone it is held for {:.3} us, and {:.4} us \
             longer for each task that waits",
            if known.is_empty() { "doses" } else { "times" },
            p.map_or("", |p| if p < 0.001 { " (p < 0.001)" } else { " (p < 0.01)" }),
            us(Quantity::Hold),
            us(Quantity::Handover)
        ));
    }
    let freedom = if freedom > 0 { freedom } else { observed.len() };
    Ok(vec![Draws::new(fit, &observed, known, freedom)])
}

/// The laws that a forecast follows.
enum ForecastLaws {
    /// Repeats show the noise, or it is assumed beside what is known.
    Alike(Vec<Draws>, Option<f64>),
    /// Nothing shows the noise, or too few counts a law: the laws that come near, if any do, and the slope at the end.
    Single(Option<NearLaws>, Slope),
}

impl ForecastLaws {
    fn new(sweep: &Sweep, known: &[Known]) -> Result<ForecastLaws, String> {
        let knows_more = !known.is_empty() || sweep.has_doses();
        if sweep.points().len() < COUNTS_MIN {
            let few = || ForecastLaws::Single(None, Slope::new(sweep));
            return if knows_more { Err(sweep.clone().for_laws().unwrap_err()) } else { Ok(few()) };
        }
        if sweep.freedom() > 0 || knows_more {
            let assumed = Some(FITS_WITHOUT_NOISE).filter(|_| sweep.freedom() == 0);
            return candidates(sweep, known).map(|all| ForecastLaws::Alike(all, assumed));
        }
        Ok(ForecastLaws::Single(NearLaws::new(sweep), Slope::new(sweep)))
    }

    fn as_published(&self, sweep: &Sweep) -> Option<AsPublished> {
        let has_few = sweep.points().len() < COUNTS_MIN;
        let why = if has_few { AsPublished::FewCounts } else { AsPublished::RanOnce };
        matches!(self, ForecastLaws::Single(..)).then_some(why)
    }

    fn draws(&self) -> &[Draws] {
        match self {
            ForecastLaws::Alike(all, _) => all,
            ForecastLaws::Single(near, _) => near.as_ref().map_or(&[], |near| &near.draws),
        }
    }

    fn rate(&self, cpus: u32) -> Estimate {
        let cpus = f64::from(cpus);
        match self {
            ForecastLaws::Alike(all, _) => {
                let rates = all.iter().map(|draws| draws.estimate(|fit| fit.rate(cpus)));
                rates.reduce(Estimate::hull).expect("a forecast has a law")
            }
            ForecastLaws::Single(near, slope) => {
                let by_slope = slope.rate(cpus);
                let Some(near) = near else { return by_slope };
                // On published curves laws that come near are as far off as the slope, to other sides.
                let moved = ((near.log_rate(cpus) - by_slope.value.ln()) / 2.0).exp();
                by_slope.map(|rate| rate * moved)
            }
        }
    }

    fn assumed_noise(&self) -> Option<f64> {
        match self {
            ForecastLaws::Alike(_, assumed) => *assumed,
            ForecastLaws::Single(near, _) => near.as_ref().map(|near| near.noise),
        }
    }
}

fn hold_out(sweep: &Sweep, known: &[Known]) -> Result<HoldOut, String> {
    let half = (sweep.most_cpus() / 2.0).floor() as u32;
    let part = sweep.up_to(half)?.for_laws()?;
    let laws = ForecastLaws::new(&part, known)?;
    let beyond = sweep.points().iter().filter(|measured| measured.cpus > half);
    let points = beyond.map(|point| HeldOutPoint {
        cpus: point.cpus,
        rate: laws.rate(point.cpus),
        measured: point.log_rate().exp(),
    });
    Ok(HoldOut { up_to: half, points: points.collect() })
}

/// A quantity of a law, by its name.
type Named = (&'static str, fn(&Fit) -> f64);

/// The quantity that goes most with the rate at this number of CPUs, over all draws.
fn rests_on(draws: &Draws, cpus: u32) -> Option<RestsOn> {
    let quantities: [Named; 3] = match draws.fit.law {
        Law::Queue | Law::Handover => [
            ("the time that the lock is held", |fit| Quantity::Hold.log(&fit.parameters)),
            ("the hand-over per waiting task", |fit| Quantity::Handover.log(&fit.parameters)),
            ("the time of one operation alone", |fit| fit.parameters[0]),
        ],
        _ => [
            ("the serial share", |fit| fit.parameters[1]),
            ("kappa", |fit| fit.parameters[2]),
            ("the time of one operation alone", |fit| fit.parameters[0]),
        ],
    };
    let used = if draws.fit.law == Law::Queue || draws.fit.law == Law::Amdahl {
        [0, 2, 2]
    } else {
        [0, 1, 2]
    };
    let rates: Vec<f64> = draws.drawn().iter().map(|fit| fit.rate(f64::from(cpus)).ln()).collect();
    let shares = used.map(|index| {
        let (name, of) = quantities[index];
        let values: Vec<f64> = draws.drawn().iter().map(of).collect();
        RestsOn { quantity: name, share: correlation(&values, &rates).powi(2) }
    });
    let known = shares.into_iter().filter(|one| one.share.is_finite());
    known.max_by(|a, b| a.share.total_cmp(&b.share))
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: fn(f64, f64) -> f64| {
        a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum::<f64>()
    };
    sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::closed_queue;

    fn sweep(counts: &[u32]) -> Sweep {
        let runs = counts.iter().map(|&cpus| {
            let rate = closed_queue(f64::from(cpus), 950.0, 50.0, 1.0);
            (cpus, [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * rate).to_vec())
        });
        Sweep::new(runs).unwrap()
    }

    #[test]
    fn a_bare_curve_reaches_twice_its_cpus() {
        let sweep = sweep(&[1, 2, 3, 4, 6, 8]);
        assert!(forecast(&sweep, &[], &[16]).is_ok());
        let why = forecast(&sweep, &[], &[17]).unwrap_err();
        assert!(why.starts_with("17 CPUs: a curve up to 8 CPUs says nothing beyond 16"), "{why}");
    }

    #[test]
    fn known_times_carry_a_forecast_to_64_cpus() {
        let sweep = sweep(&[1, 2, 3, 4, 6, 8]);
        let known = [
            Known { quantity: Quantity::Hold, log: 50_f64.ln(), deviation: 0.05 },
            Known { quantity: Quantity::Handover, log: 0.0, deviation: 0.2 },
        ];
        let found = forecast(&sweep, &known, &[64]).unwrap();
        let (truth, rate) = (closed_queue(64.0, 950.0, 50.0, 1.0), found.points[0].rate);
        let (low, high) = rate.interval.unwrap();
        assert!(low < truth && truth < high && high / low < 1.7, "{truth} {rate:?}");
        let RestsOn { quantity, share } = found.rests_on.unwrap();
        assert_eq!(quantity, "the hand-over per waiting task");
        assert!((0.5..=1.0).contains(&share));
        assert_eq!(found.hold_out.unwrap().up_to, 4);
    }

    /// pgbench -S of 1 to 128 clients on 8 CPUs (publications/forecasts/curves.toml).
    #[test]
    fn single_runs_that_no_law_comes_near_are_forecast_by_their_slope() {
        let rates = [33_055, 57_692, 91_116, 153_627, 139_496, 145_031, 139_974, 106_439];
        let runs = (0..8).zip(rates).map(|(log, rate)| (1 << log, vec![f64::from(rate)]));
        let found = forecast(&Sweep::new(runs).unwrap(), &[], &[256]).unwrap();
        assert!(
            found.as_published == Some(AsPublished::RanOnce)
                && found.laws.is_empty()
                && found.knee.value.is_infinite()
        );
        let (low, high) = found.points[0].rate.interval.unwrap();
        assert!(low < 82_784.0 && 82_784.0 < high && high < 2.5 * low, "{low} {high}");
    }

    #[test]
    fn a_curve_with_a_cliff_is_refused() {
        let runs = [1, 2, 3, 4, 6, 8, 12, 16].map(|cpus| {
            let rate = closed_queue(f64::from(cpus), 950.0, 50.0, 1.0);
            let rate = rate * if cpus > 8 { 0.7 } else { 1.0 };
            (cpus, [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * rate).to_vec())
        });
        let why = forecast(&Sweep::new(runs).unwrap(), &[], &[32]).unwrap_err();
        assert!(why.starts_with("a cliff between 8 and 12 CPUs"), "{why}");
    }

    #[test]
    fn times_that_contradict_the_curve_and_one_time_alone_are_refused() {
        let sweep = sweep(&[1, 2, 3, 4, 6, 8]);
        let hold = |ns: f64| Known { quantity: Quantity::Hold, log: ns.ln(), deviation: 0.05 };
        let why = forecast(&sweep, &[hold(600.0)], &[12]).unwrap_err();
        assert!(why.starts_with("a lock with these times does not give this curve"), "{why}");
        let why = forecast(&sweep, &[hold(50.0)], &[64]).unwrap_err();
        assert!(why.contains("both the time that the lock is held and"), "{why}");
        assert!(forecast(&sweep, &[hold(50.0)], &[16]).is_ok());
    }
}
