//! How often each rule is right, by simulation: the rule of this tool and those of others, on
//! noise like that of measurements, where the truth is known. Ours measures blocks of both
//! variants in random order; the others measure one variant, then the other, as they do.

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::baselines::{Benchstat, beyond_larger_stddev, hyperfine, lkp, mmtests};
use crate::judge::{Decision, Rule, judge};
use crate::noise::{Noise, Runs};
use crate::sequential::{LOOKS, STUDENT_LOOKS, student_bounds};
use crate::student::Student;

/// The true changes, as shares.
pub const EFFECTS: [f64; 4] = [0.0, 0.02, 0.05, 0.10];

/// The smallest effect that our rules ask for.
pub const SMALLEST_EFFECT: f64 = 0.02;

/// What was simulated and what came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Selfcheck {
    /// Comparisons simulated for each cell.
    pub trials: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// One a rule and kind of noise.
    pub rows: Vec<Row>,
    /// What our rule promises.
    pub figures: Vec<Figure>,
}

/// A rule on a kind of noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the noise is like.
    pub noise: Noise,
    /// Name of the rule.
    pub rule: String,
    /// Whether it can say "the same".
    pub equivalence: bool,
    /// One for each of [`EFFECTS`].
    pub cells: Vec<Cell>,
}

/// A rule on a kind of noise with a true change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The true change.
    pub effect: f64,
    /// How often it said "changed", in whichever direction.
    pub changed: Share,
    /// How often it said "the same".
    pub same: Share,
    /// How often neither.
    pub cannot_tell: Share,
    /// Mean number of runs, of both variants together.
    pub runs: f64,
}

/// A share of trials with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The share.
    pub share: f64,
    /// Where the true one lies.
    pub interval: (f64, f64),
}

/// A promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is about.
    pub what: String,
    /// In shares or in runs.
    pub measured: f64,
    /// 95 % interval of the measured share; none for means.
    pub interval: Option<(f64, f64)>,
    /// What is promised.
    pub limit: Limit,
    /// How the two stand to each other.
    pub standing: Standing,
}

/// How a measured value stands to a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Within it.
    Met,
    /// Beyond it by less than chance explains: the promise lies inside the interval. A rule
    /// that spends exactly what it may measures more than that in half of all simulations.
    Near,
    /// Beyond it, with confidence.
    Missed,
}

impl Standing {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Standing::Met => "met",
            Standing::Near => "above by chance or not",
            Standing::Missed => "MISSED",
        }
    }
}

/// Which way a promise goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The measured value may not be larger.
    AtMost(f64),
    /// It may not be smaller.
    AtLeast(f64),
}

impl Selfcheck {
    /// Whether a promise is broken, with confidence.
    pub fn missed(&self) -> bool {
        self.figures.iter().any(|figure| figure.standing == Standing::Missed)
    }
}

impl Share {
    /// `hits` of `trials`, with the interval of Wilson (E. B. Wilson, "Probable Inference,
    /// the Law of Succession, and Statistical Inference", JASA 22, 1927).
    pub fn of(hits: u32, trials: u32) -> Share {
        let (n, z) = (f64::from(trials.max(1)), 1.959_964_f64);
        let share = f64::from(hits) / n;
        let center = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let variance = share * (1.0 - share) / n + z * z / (4.0 * n * n);
        let half = z * variance.sqrt() / (1.0 + z * z / n);
        Share { share, interval: ((center - half).max(0.0), (center + half).min(1.0)) }
    }
}

/// Simulates every rule on every kind of noise with every change.
pub fn selfcheck(trials: u32, seed: u64) -> Selfcheck {
    let contenders = contenders();
    let of_noise = |noise: Noise| {
        let row = move |contender| row(contender, noise, trials, seed);
        contenders.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Row> = Noise::ALL.into_iter().flat_map(of_noise).collect();
    let figures = figures(&rows);
    Selfcheck { trials, seed, rows, figures }
}

/// A rule, with a name; it takes as many runs as it wants.
struct Contender {
    name: String,
    equivalence: bool,
    decide: Box<dyn Fn(&mut Bench) -> Outcome + Sync>,
}

/// What a rule said.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Changed,
    Same,
    CannotTell,
}

/// A host with noise, on which two variants can be run.
struct Bench {
    random: Xoshiro256PlusPlus,
    noise: Runs,
    effect: f64,
    runs: u32,
}

impl Bench {
    /// The logarithm of what a run of the baseline or, with `changed`, of the other yields.
    fn run(&mut self, changed: bool) -> f64 {
        self.runs += 1;
        let effect = if changed { self.effect } else { 0.0 };
        self.noise.next(&mut self.random) + effect
    }

    /// The difference within a block, in random order.
    fn block(&mut self) -> f64 {
        let changed_first = self.random.random::<bool>();
        let (first, second) = (self.run(changed_first), self.run(!changed_first));
        if changed_first { first - second } else { second - first }
    }

    /// All runs of one variant, then all of the other.
    fn apart(&mut self, n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut side = |changed| (0..n).map(|_| self.run(changed).exp()).collect();
        (side(false), side(true))
    }
}

/// All rules, ours first.
fn contenders() -> Vec<Contender> {
    let mut all = vec![
        Contender { name: "knee".into(), equivalence: true, decide: Box::new(ours) },
        Contender { name: "knee, Student".into(), equivalence: true, decide: student() },
    ];
    for n in [3, 5, 10] {
        all.push(apart(&format!("lkp {n}v{n}"), n, |a, b| lkp(a, b, 1.01)));
    }
    all.push(apart("lkp 3v3, 5 % class", 3, |a, b| lkp(a, b, 1.05)));
    all.push(apart("larger stddev 5v5", 5, beyond_larger_stddev));
    all.push(apart("hyperfine 10v10", 10, hyperfine));
    all.push(apart("mmtests 10v10", 10, mmtests));
    for n in [10, 20] {
        let benchstat = Benchstat::of(n);
        let changed = move |a: &[f64], b: &[f64]| benchstat.changed(a, b);
        all.push(apart(&format!("benchstat {n}v{n}"), n, changed));
    }
    all.push(Contender { name: "benchstat, rerun".into(), equivalence: false, decide: rerun() });
    all
}

/// The rule that decides verdicts, at each look.
fn ours(bench: &mut Bench) -> Outcome {
    let margin = SMALLEST_EFFECT.ln_1p();
    let rule = Rule { alpha: 0.05, margin, sequential: true, cap: 60 };
    let mut differences = Vec::new();
    for look in LOOKS {
        differences.extend((differences.len()..look).map(|_| bench.block()));
        match judge(&differences, &rule).decision {
            Decision::Changed { .. } => return Outcome::Changed,
            Decision::Same => return Outcome::Same,
            _ => {}
        }
    }
    Outcome::CannotTell
}

/// The same with Student's t, from five blocks on.
fn student() -> Box<dyn Fn(&mut Bench) -> Outcome + Sync> {
    let margin = SMALLEST_EFFECT.ln_1p();
    let bounds = student_bounds();
    Box::new(move |bench| {
        let mut differences = Vec::new();
        for (look, (changed, same)) in STUDENT_LOOKS.into_iter().zip(&bounds) {
            differences.extend((differences.len()..look).map(|_| bench.block()));
            let Some(student) = Student::paired(&differences) else { continue };
            let (off, error) = (student.estimate.abs(), student.error);
            if off + same * error < margin {
                return Outcome::Same;
            }
            if off > changed * error {
                return Outcome::Changed;
            }
        }
        Outcome::CannotTell
    })
}

/// A rule that compares `n` runs with `n` runs.
fn apart(
    name: &str,
    n: usize,
    changed: impl Fn(&[f64], &[f64]) -> bool + Sync + 'static,
) -> Contender {
    let decide = move |bench: &mut Bench| {
        let (a, b) = bench.apart(n);
        if changed(&a, &b) { Outcome::Changed } else { Outcome::CannotTell }
    };
    Contender { name: name.into(), equivalence: false, decide: Box::new(decide) }
}

/// benchstat with 6 of each, and two more of each until it finds something or has 60.
fn rerun() -> Box<dyn Fn(&mut Bench) -> Outcome + Sync> {
    let tests: Vec<Benchstat> = (6..=60).step_by(2).map(Benchstat::of).collect();
    Box::new(move |bench| {
        let (mut a, mut b, mut above) = (Vec::new(), Vec::new(), 0);
        for (test, n) in tests.iter().zip((6..=60).step_by(2)) {
            let (more_a, more_b) = bench.apart(n - a.len());
            let count = |a: &[f64], b: &[f64]| -> usize {
                a.iter().map(|a| b.iter().filter(|b| *b > a).count()).sum()
            };
            above += count(&more_a, &b) + count(&a, &more_b) + count(&more_a, &more_b);
            a.extend(more_a);
            b.extend(more_b);
            if test.changed_at(above, n * n) {
                return Outcome::Changed;
            }
        }
        Outcome::CannotTell
    })
}

fn row(contender: &Contender, noise: Noise, trials: u32, seed: u64) -> Row {
    let cell = |effect: f64| cell(contender, noise, effect, trials, seed);
    let cells = EFFECTS.into_iter().map(cell).collect();
    Row { noise, rule: contender.name.clone(), equivalence: contender.equivalence, cells }
}

fn cell(contender: &Contender, noise: Noise, effect: f64, trials: u32, seed: u64) -> Cell {
    // Enough parts for all CPUs; each has random numbers of its own, the same for all rules.
    const PARTS: u32 = 16;
    let part = |part: usize| {
        let part = part as u32;
        let which = u64::from(part) << 40 | (noise as u64) << 32 | (effect * 1000.0) as u64;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ which);
        let mut tally = [0_u32; 4];
        for _ in 0..(trials + part) / PARTS {
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            let (outcome, runs) = trial(contender, noise, effect, random);
            tally[outcome as usize] += 1;
            tally[3] += runs;
        }
        tally
    };
    let parts = in_parallel(PARTS as usize, part);
    let sum = |i: usize| parts.iter().map(|tally| tally[i]).sum::<u32>();
    let share = |outcome: Outcome| Share::of(sum(outcome as usize), trials);
    Cell {
        effect,
        changed: share(Outcome::Changed),
        same: share(Outcome::Same),
        cannot_tell: share(Outcome::CannotTell),
        runs: f64::from(sum(3)) / f64::from(trials.max(1)),
    }
}

fn trial(
    contender: &Contender,
    noise: Noise,
    effect: f64,
    mut random: Xoshiro256PlusPlus,
) -> (Outcome, u32) {
    let noise = noise.start(&mut random);
    let mut bench = Bench { random, noise, effect: effect.ln_1p(), runs: 0 };
    let outcome = (contender.decide)(&mut bench);
    (outcome, bench.runs)
}

/// What our rule promises, beside what it did.
fn figures(rows: &[Row]) -> Vec<Figure> {
    use Limit::{AtLeast, AtMost};
    use Noise::{Bimodal, Drifting, Gaussian, HeavyTailed};
    let changed = |what: &str, noise: Noise, effect: usize, limit: Limit| {
        let share = ours_on(rows, noise).cells[effect].changed;
        Figure::new(what, share.share, Some(share.interval), limit)
    };
    let runs = ours_on(rows, Gaussian).cells[2].runs;
    // Of a change that is just as large as matters, "same" is the other false finding.
    let same = ours_on(rows, Gaussian).cells[1].same;
    vec![
        changed("bell-shaped, nothing different: changed", Gaussian, 0, AtMost(0.05)),
        changed("bell-shaped, 2 % different: changed", Gaussian, 1, AtLeast(0.85)),
        Figure::new(
            "bell-shaped, 2 % different: same",
            same.share,
            Some(same.interval),
            AtMost(0.05),
        ),
        changed("bell-shaped, 5 % different: changed", Gaussian, 2, AtLeast(0.999)),
        Figure::new("bell-shaped, 5 % different: mean runs", runs, None, AtMost(28.0)),
        changed("two modes, nothing different: changed", Bimodal, 0, AtMost(0.05)),
        changed("two modes, 5 % different: changed", Bimodal, 2, AtLeast(0.99)),
        changed("far values, nothing different: changed", HeavyTailed, 0, AtMost(0.05)),
        changed("drift, nothing different: changed", Drifting, 0, AtMost(0.05)),
    ]
}

fn ours_on(rows: &[Row], noise: Noise) -> &Row {
    let ours = rows.iter().find(|row| row.noise == noise && row.rule == "knee");
    ours.expect("our rule is simulated on all noise")
}

impl Figure {
    /// A measured value beside what is promised.
    pub fn new(
        what: impl Into<String>,
        measured: f64,
        interval: Option<(f64, f64)>,
        limit: Limit,
    ) -> Figure {
        let (low, high) = interval.unwrap_or((measured, measured));
        let (is_met, may_be) = match limit {
            Limit::AtMost(most) => (measured <= most, low <= most),
            Limit::AtLeast(least) => (measured >= least, high >= least),
        };
        let standing = match (is_met, may_be) {
            (true, _) => Standing::Met,
            (false, true) => Standing::Near,
            (false, false) => Standing::Missed,
        };
        Figure { what: what.into(), measured, interval, limit, standing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_rule_keeps_its_promises_in_a_small_simulation() {
        let (trials, seed) = (400, 1);
        println!("seed {seed}");
        let check = selfcheck(trials, seed);
        assert_eq!(check.rows.len(), 4 * contenders().len());
        assert!(!check.missed(), "{:?}", check.figures);
    }

    #[test]
    fn a_promise_is_missed_when_the_interval_excludes_it() {
        let standing = |hits, limit| {
            let share = Share::of(hits, 4000);
            Figure::new("", share.share, Some(share.interval), limit).standing
        };
        assert_eq!(standing(200, Limit::AtMost(0.05)), Standing::Met);
        assert_eq!(standing(204, Limit::AtMost(0.05)), Standing::Near);
        assert_eq!(standing(260, Limit::AtMost(0.05)), Standing::Missed);
        assert_eq!(standing(3400, Limit::AtLeast(0.85)), Standing::Met);
        assert_eq!(standing(3380, Limit::AtLeast(0.85)), Standing::Near);
        assert_eq!(standing(3300, Limit::AtLeast(0.85)), Standing::Missed);
        let runs = Figure::new("", 28.1, None, Limit::AtMost(28.0));
        assert_eq!(runs.standing, Standing::Missed);
    }

    #[test]
    fn the_same_seed_gives_the_same_table() {
        assert_eq!(selfcheck(10, 4), selfcheck(10, 4));
        assert_ne!(selfcheck(10, 4).rows, selfcheck(10, 5).rows);
    }

    #[test]
    fn shares_have_intervals_even_at_the_ends() {
        let none = Share::of(0, 4000);
        assert!(none.interval.0 < 1e-12 && (0.0008..0.0012).contains(&none.interval.1));
        let half = Share::of(50, 100);
        assert!((half.interval.0 - 0.4038).abs() < 1e-3 && (half.interval.1 - 0.5962).abs() < 1e-3);
        assert_eq!(Share::of(0, 0).share, 0.0);
    }
}
