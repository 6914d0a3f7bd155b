//! How often `knee scale forecast` is right about published curves: `publications/forecasts/curves.toml`, which has the rule,
//! and two files of curves that lie beside it. `--set first` looks at the half that is for mending, `--set second` at the
//! other. Each curve is forecast once more from the last three of its points, as from a curve that has no more.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use laws::{Sweep, forecast};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use crate::Options;
use crate::report::{Figure, Limit};

const CURVES: &str = include_str!("../../publications/forecasts/curves.toml");
const OPERATIONS: &str = include_str!("../../publications/operations/curves.toml");
const WORDS: &str = include_str!("../../publications/contended-words/curves.toml");

/// The seed by which curves are halved; named before any forecast was made.
const SEED: u64 = 20_261_130;
/// The logarithm that stands for a σ or κ of 0.
const LOWEST: f64 = -22.0;
/// Points of a short curve.
const FEW: usize = 3;
/// A curve alone is forecast up to so many times its counts.
const REACH: u32 = 2;

#[derive(Deserialize)]
struct Table {
    curve: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    counts: Vec<u32>,
    rates: Vec<f64>,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    curve: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Words {
    curve: Vec<Word>,
}

#[derive(Deserialize)]
struct Word {
    machine: String,
    operation: String,
    threads: Vec<u32>,
    ns: Vec<f64>,
}

/// A curve with its points in order of their counts.
struct Curve {
    name: String,
    points: Vec<(u32, f64)>,
}

/// What is forecast from what.
struct Case<'a> {
    name: &'a str,
    kept: &'a [(u32, f64)],
    target: (u32, f64),
}

/// How far each forecast of a case is off, as the absolute logarithm of forecast over published rate.
struct Graded {
    /// Whether the truth lies in the interval; `None` without one.
    is_inside: Option<bool>,
    /// The upper end of the interval over the lower.
    width: Option<f64>,
    off: f64,
    off_last: f64,
    off_universal: f64,
}

/// Forecasts the curves of one half, or of both.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let curves = curves()?;
    let cases: Vec<Case> = curves.iter().filter_map(Curve::case).collect();
    let (first, second) = halves(cases);
    let mut figures = Vec::new();
    for (half, cases) in [("first", first), ("second", second)] {
        if options.set.as_ref().is_none_or(|set| set == half) {
            figures.extend(figures_of(&format!("{half} half"), &cases));
            let short: Vec<Case> = cases.iter().filter_map(Case::cut_short).collect();
            figures.extend(figures_of(&format!("{half} half, three points"), &short));
        }
    }
    Ok(figures)
}

/// All curves, sorted by their names.
fn curves() -> Result<Vec<Curve>> {
    let own: Table = toml::from_str(CURVES).context("reading the curves")?;
    let operations: BTreeMap<String, Operation> =
        toml::from_str(OPERATIONS).context("reading the operations")?;
    let words: Words = toml::from_str(WORDS).context("reading the words")?;
    let mut all: Vec<Curve> = Vec::new();
    let mut add = |name: String, points: Vec<(u32, f64)>| all.push(Curve::new(name, points));
    for row in own.curve {
        add(row.name, row.counts.into_iter().zip(row.rates).collect());
    }
    for (name, operation) in operations {
        let point = |(cpus, rate): (String, f64)| Ok((cpus.parse().context("a count")?, rate));
        add(name, operation.curve.into_iter().map(point).collect::<Result<_>>()?);
    }
    for word in words.curve {
        let rates = word.threads.iter().zip(&word.ns);
        let points = rates.map(|(&threads, ns)| (threads, f64::from(threads) * 1e9 / ns));
        add(format!("{} {}", word.machine, word.operation), points.collect());
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The half for mending and the half for the score.
fn halves(mut cases: Vec<Case>) -> (Vec<Case>, Vec<Case>) {
    cases.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(SEED));
    let second = cases.split_off(cases.len().div_ceil(2));
    (cases, second)
}

impl Curve {
    fn new(name: String, mut points: Vec<(u32, f64)>) -> Curve {
        points.sort_by_key(|(count, _)| *count);
        Curve { name, points }
    }

    /// Rules 1 and 2 of the file.
    fn case(&self) -> Option<Case<'_>> {
        let (most, _) = self.points.last()?;
        let kept = self.points.partition_point(|(count, _)| 2 * count <= *most);
        let (kept, beyond) = self.points.split_at(kept);
        let reach = REACH * kept.last()?.0;
        let target = *beyond.iter().rfind(|(count, _)| *count <= reach)?;
        (kept.len() >= 3).then_some(Case { name: &self.name, kept, target })
    }
}

impl Case<'_> {
    /// The last points alone, for the same target.
    fn cut_short(&self) -> Option<Self> {
        let first = self.kept.len().checked_sub(FEW).filter(|first| *first > 0)?;
        Some(Case { kept: &self.kept[first..], ..*self })
    }

    fn grade(&self) -> Graded {
        let (count, truth) = self.target;
        let off = |rate: f64| (rate / truth).ln().abs();
        let (most, last) = self.kept[self.kept.len() - 1];
        let runs = self.kept.iter().map(|(count, rate)| (*count, vec![*rate]));
        let made = Sweep::new(runs).and_then(|sweep| forecast(&sweep, &[], &[count]));
        let rate = made.as_ref().ok().map(|made| made.points[0].rate);
        let interval = rate.and_then(|rate| rate.interval);
        let graded = Graded {
            is_inside: interval.map(|(low, high)| (low..=high).contains(&truth)),
            width: interval.map(|(low, high)| high / low),
            off: off(rate.map_or(last, |rate| rate.value)),
            off_last: off(last),
            off_universal: off(universal_law(self.kept, f64::from(count))),
        };
        let told = match (&made, rate) {
            (Err(why), _) => format!("none: {why}"),
            (Ok(_), Some(rate)) => format!("{:.4} {:?}", rate.value, interval),
            (Ok(_), None) => "none".to_string(),
        };
        eprintln!(
            "forecasts, {}: {} points to {most}, {count}: {truth:.4} is {told}; off {:.3}, last {:.3}, universal {:.3}{}",
            self.name,
            self.kept.len(),
            graded.off,
            graded.off_last,
            graded.off_universal,
            if graded.is_inside == Some(false) { ", OUTSIDE" } else { "" }
        );
        graded
    }
}

fn figures_of(set: &str, cases: &[Case]) -> Vec<Figure> {
    let all: Vec<Graded> = cases.iter().map(Case::grade).collect();
    let share = |of: &dyn Fn(&Graded) -> bool| {
        all.iter().filter(|one| of(one)).count() as f64 / all.len().max(1) as f64
    };
    let mean =
        |of: &dyn Fn(&Graded) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
    let figure = |what: &str, limit: Limit, values: Vec<f64>| Figure {
        name: format!("forecasts, {set} of {}: {what}", all.len()),
        unit: "",
        limit,
        values,
    };
    let errors = |what: &str, of: &dyn Fn(&Graded) -> f64| {
        let median =
            figure(&format!("{what}, median off"), Limit::None, all.iter().map(of).collect());
        [figure(&format!("{what}, mean off"), Limit::None, vec![mean(of)]), median]
    };
    let mut figures = vec![
        figure(
            "with an interval",
            Limit::AtLeast(1.0),
            vec![share(&|one| one.is_inside.is_some())],
        ),
        figure(
            "truth inside",
            Limit::AtLeast(0.85),
            vec![share(&|one| one.is_inside == Some(true))],
        ),
        figure(
            "nearer than the last point",
            Limit::None,
            vec![share(&|one| one.off < one.off_last)],
        ),
        figure(
            "nearer than the universal law",
            Limit::None,
            vec![share(&|one| one.off < one.off_universal)],
        ),
        figure(
            "upper end over lower",
            Limit::None,
            all.iter().filter_map(|one| one.width).collect(),
        ),
    ];
    figures.extend(errors("forecast", &|one| one.off));
    figures.extend(errors("as the last point", &|one| one.off_last));
    figures.extend(errors("universal law", &|one| one.off_universal));
    figures
}

/// The universal scalability law at `count`, by least squares of the rates: of each σ and κ the best λ is known, and σ and κ
/// are looked for on a grid that becomes finer around its best place.
fn universal_law(points: &[(u32, f64)], count: f64) -> f64 {
    let shape =
        |n: f64, sigma: f64, kappa: f64| n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    let fit = |sigma: f64, kappa: f64| {
        let (mut both, mut squared) = (0.0, 0.0);
        for (n, rate) in points {
            let at = shape(f64::from(*n), sigma, kappa);
            both += at * rate;
            squared += at * at;
        }
        let lambda = both / squared;
        let left =
            |(n, rate): &(u32, f64)| (rate - lambda * shape(f64::from(*n), sigma, kappa)).powi(2);
        (points.iter().map(left).sum::<f64>(), lambda)
    };
    let value = |log: f64| if log <= LOWEST { 0.0 } else { log.exp() };
    let (mut best, mut step) = ((LOWEST, LOWEST), 1.0);
    let around = |middle: f64, step: f64, reach: i32| {
        (-reach..=reach).map(move |index| (middle + step * f64::from(index)).clamp(LOWEST, 4.0))
    };
    let mut reach = 26;
    while step > 1e-4 {
        let (sigma, kappa) = best;
        let grid = around(sigma, step, reach)
            .flat_map(|sigma| around(kappa, step, reach).map(move |kappa| (sigma, kappa)));
        let squares = |at: &(f64, f64)| fit(value(at.0), value(at.1)).0;
        best = grid.min_by(|a, b| squares(a).total_cmp(&squares(b))).unwrap_or(best);
        (step, reach) = (step / 2.0, 4);
    }
    let (sigma, kappa) = (value(best.0), value(best.1));
    fit(sigma, kappa).1 * shape(count, sigma, kappa)
}
