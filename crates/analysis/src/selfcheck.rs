//! How often each rule is right, by simulation: the rule of this tool and those of others, on noise
//! like that of measurements, where the true change is known. Our rule measures blocks of both
//! variants in random order. The others measure all runs of one variant, then all of the other, as
//! these tools do.

mod gates;
mod unpaired;

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::baselines::{Benchstat, beyond_larger_stddev, hyperfine, lkp, mmtests};
use crate::judge::{Decision, Rule, judge};
use crate::noise::{Noise, NoisyRuns};
use crate::sequential::{LOOKS, STUDENT_LOOKS, student_bounds};
use crate::student::Student;

pub use self::gates::{GateCheck, GateRow, gate_check};

/// The true changes that are simulated, as shares.
pub const EFFECTS: [f64; 4] = [0.0, 0.02, 0.05, 0.10];

/// The smallest effect of our rules.
pub const SMALLEST_EFFECT: f64 = 0.02;

/// The result of a self-check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Selfcheck {
    /// Number of comparisons simulated for each rule, noise and change.
    pub trials: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// One row for each rule and kind of noise.
    pub rows: Vec<RuleRow>,
    /// What our rule promises, and how often it kept it.
    #[serde(rename = "figures")]
    pub promises: Vec<Promise>,
}

/// One rule on one kind of noise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleRow {
    /// The kind of noise.
    pub noise: Noise,
    /// Name of the rule.
    pub rule: String,
    /// Whether the rule can say "the same".
    pub equivalence: bool,
    /// One cell for each of [`EFFECTS`].
    pub cells: Vec<RuleCell>,
}

/// The answers of one rule on one kind of noise with one true change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleCell {
    /// The true change.
    pub effect: f64,
    /// How often the rule said "changed", in either direction.
    pub changed: Proportion,
    /// How often it said "the same".
    pub same: Proportion,
    /// How often it said neither.
    pub cannot_tell: Proportion,
    /// Mean number of runs, of both variants together.
    pub runs: f64,
}

/// A share of trials with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proportion {
    /// The share.
    pub share: f64,
    /// Both ends of its 95 % interval.
    pub interval: (f64, f64),
}

/// A promise, with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Promise {
    /// What is promised, in a few words.
    pub what: String,
    /// A share of trials, or a number of runs.
    pub measured: f64,
    /// 95 % interval of the measured share; none for means.
    pub interval: Option<(f64, f64)>,
    /// What is promised.
    pub limit: Limit,
    /// Whether the promise is kept.
    pub standing: Standing,
}

/// Whether a measured value keeps a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The measured value is within the limit.
    Met,
    /// It is beyond the limit, but chance explains that: the limit lies inside the interval. A
    /// rule that spends exactly its error probability is beyond it in half of all simulations.
    Near,
    /// It is beyond the limit, with confidence.
    Missed,
}

impl Standing {
    /// The standing in a word or a few.
    pub fn words(self) -> &'static str {
        match self {
            Standing::Met => "met",
            Standing::Near => "beyond, perhaps by chance",
            Standing::Missed => "MISSED",
        }
    }
}

/// The limit that a promise sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The measured value may not be larger.
    AtMost(f64),
    /// The measured value may not be smaller.
    AtLeast(f64),
}

impl Selfcheck {
    /// Whether a promise is broken, with confidence.
    pub fn missed(&self) -> bool {
        self.promises.iter().any(|promise| promise.standing == Standing::Missed)
    }
}

impl Proportion {
    /// `hits` of `trials`, with Wilson's interval (E. B. Wilson, "Probable Inference, the Law of
    /// Succession, and Statistical Inference", JASA 22, 1927).
    pub fn new(hits: u32, trials: u32) -> Proportion {
        let (n, z) = (f64::from(trials.max(1)), 1.959_964_f64);
        let share = f64::from(hits) / n;
        let center = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let variance = share * (1.0 - share) / n + z * z / (4.0 * n * n);
        let half = z * variance.sqrt() / (1.0 + z * z / n);
        Proportion { share, interval: ((center - half).max(0.0), (center + half).min(1.0)) }
    }
}

/// Simulates every rule on every kind of noise, with every change.
pub fn selfcheck(trials: u32, seed: u64) -> Selfcheck {
    let simulation = VerdictSimulation::new(trials, seed);
    simulation.joined(&in_parallel(simulation.pieces(), |piece| simulation.tallies(piece)))
}

/// The simulation of all rules, as pieces of which each is simulated by itself.
struct VerdictSimulation {
    contenders: Vec<Contender>,
    trials: u32,
    seed: u64,
}

/// Parts of the trials, each with random numbers of its own, the same for all rules. Enough for all CPUs.
const PARTS: u32 = 16;

/// How often a rule gave each [`Answer`], and the number of its runs.
type Tally = [u32; 4];

impl VerdictSimulation {
    fn new(trials: u32, seed: u64) -> VerdictSimulation {
        VerdictSimulation { contenders: contenders(), trials, seed }
    }

    /// Number of pieces: each is a part of the trials on one kind of noise.
    fn pieces(&self) -> usize {
        Noise::ALL.len() * PARTS as usize
    }

    /// The tallies of a piece, for each rule and each of [`EFFECTS`].
    fn tallies(&self, piece: usize) -> Vec<Tally> {
        let (noise, part) = (Noise::ALL[piece / PARTS as usize], piece as u32 % PARTS);
        let of_rule = |contender| EFFECTS.map(|effect| self.tally(contender, noise, effect, part));
        self.contenders.iter().flat_map(of_rule).collect()
    }

    fn tally(&self, contender: &Contender, noise: Noise, effect: f64, part: u32) -> Tally {
        let which = u64::from(part) << 40 | (noise as u64) << 32 | (effect * 1000.0) as u64;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ which);
        let mut tally = [0_u32; 4];
        for _ in 0..(self.trials + part) / PARTS {
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            let (answer, runs) = trial(contender, noise, effect, random);
            tally[answer as usize] += 1;
            tally[3] += runs;
        }
        tally
    }

    /// Joins the tallies of all pieces, in order.
    fn joined(&self, pieces: &[Vec<Tally>]) -> Selfcheck {
        let of_noise = |(noise, parts): (Noise, &[Vec<Tally>])| {
            let row = |(index, contender): (usize, &Contender)| RuleRow {
                noise,
                rule: contender.name.clone(),
                equivalence: contender.equivalence,
                cells: (0..EFFECTS.len())
                    .map(|effect| self.cell(parts, index * EFFECTS.len() + effect, EFFECTS[effect]))
                    .collect(),
            };
            self.contenders.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        let parts = Noise::ALL.into_iter().zip(pieces.chunks(PARTS as usize));
        let rows: Vec<RuleRow> = parts.flat_map(of_noise).collect();
        let promises = [promises(&rows), unpaired::promises(self.trials, self.seed)].concat();
        Selfcheck { trials: self.trials, seed: self.seed, rows, promises }
    }

    fn cell(&self, parts: &[Vec<Tally>], index: usize, effect: f64) -> RuleCell {
        let sum = |what: usize| parts.iter().map(|part| part[index][what]).sum::<u32>();
        let share = |answer: Answer| Proportion::new(sum(answer as usize), self.trials);
        RuleCell {
            effect,
            changed: share(Answer::Changed),
            same: share(Answer::Same),
            cannot_tell: share(Answer::CannotTell),
            runs: f64::from(sum(3)) / f64::from(self.trials.max(1)),
        }
    }
}

/// A rule with its name. It makes as many runs as it needs.
struct Contender {
    name: String,
    equivalence: bool,
    decide: Box<Decide>,
}

type Decide = dyn Fn(&mut SimulatedHost) -> Answer + Sync;

/// The answer of a rule.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Changed,
    Same,
    CannotTell,
}

/// A host with noise, on which the baseline and a variant can be run.
struct SimulatedHost {
    random: Xoshiro256PlusPlus,
    noise: NoisyRuns,
    effect: f64,
    runs: u32,
}

impl SimulatedHost {
    /// The logarithm of the rate of a run: of the variant if `changed`, else of the baseline.
    fn run(&mut self, changed: bool) -> f64 {
        self.runs += 1;
        let effect = if changed { self.effect } else { 0.0 };
        self.noise.next(&mut self.random) + effect
    }

    /// The difference within a block of two runs in random order.
    fn block(&mut self) -> f64 {
        let changed_first = self.random.random::<bool>();
        let (first, second) = (self.run(changed_first), self.run(!changed_first));
        if changed_first { first - second } else { second - first }
    }

    /// The rates of all runs of the baseline, then of all runs of the variant.
    fn unpaired(&mut self, n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut side = |changed| (0..n).map(|_| self.run(changed).exp()).collect();
        (side(false), side(true))
    }
}

/// All rules, ours first.
fn contenders() -> Vec<Contender> {
    let mut contenders = vec![
        Contender { name: "knee".into(), equivalence: true, decide: Box::new(ours) },
        Contender { name: "knee, Student".into(), equivalence: true, decide: student() },
    ];
    for n in [3, 5, 10] {
        contenders.push(unpaired(&format!("lkp {n}v{n}"), n, |a, b| lkp(a, b, 1.01)));
    }
    contenders.push(unpaired("lkp 3v3, 5 % class", 3, |a, b| lkp(a, b, 1.05)));
    contenders.push(unpaired("larger stddev 5v5", 5, beyond_larger_stddev));
    contenders.push(unpaired("hyperfine 10v10", 10, hyperfine));
    contenders.push(unpaired("mmtests 10v10", 10, mmtests));
    for n in [10, 20] {
        let benchstat = Benchstat::new(n);
        let changed = move |a: &[f64], b: &[f64]| benchstat.changed(a, b);
        contenders.push(unpaired(&format!("benchstat {n}v{n}"), n, changed));
    }
    let name = "benchstat, rerun".to_string();
    contenders.push(Contender { name, equivalence: false, decide: rerun() });
    contenders
}

/// The rule that decides our verdicts, at each look.
fn ours(host: &mut SimulatedHost) -> Answer {
    let margin = SMALLEST_EFFECT.ln_1p();
    let rule = Rule { alpha: 0.05, margin, sequential: true, cap: 60 };
    let mut differences = Vec::new();
    for look in LOOKS {
        differences.extend((differences.len()..look).map(|_| host.block()));
        match judge(&differences, &rule).decision {
            Decision::Changed { .. } => return Answer::Changed,
            Decision::Same => return Answer::Same,
            _ => {}
        }
    }
    Answer::CannotTell
}

/// Our rule with Student's t instead of ranks, from five blocks on.
fn student() -> Box<Decide> {
    let margin = SMALLEST_EFFECT.ln_1p();
    let bounds = student_bounds();
    Box::new(move |host| {
        let mut differences = Vec::new();
        for (look, (changed, same)) in STUDENT_LOOKS.into_iter().zip(&bounds) {
            differences.extend((differences.len()..look).map(|_| host.block()));
            let Some(student) = Student::paired(&differences) else { continue };
            let (distance, error) = (student.estimate.abs(), student.error);
            if distance + same * error < margin {
                return Answer::Same;
            }
            if distance > changed * error {
                return Answer::Changed;
            }
        }
        Answer::CannotTell
    })
}

/// A rule that compares `n` runs of the baseline with `n` runs of the variant.
fn unpaired(
    name: &str,
    n: usize,
    changed: impl Fn(&[f64], &[f64]) -> bool + Sync + 'static,
) -> Contender {
    let decide = move |host: &mut SimulatedHost| {
        let (a, b) = host.unpaired(n);
        if changed(&a, &b) { Answer::Changed } else { Answer::CannotTell }
    };
    Contender { name: name.into(), equivalence: false, decide: Box::new(decide) }
}

/// benchstat with 6 runs of each variant, and two more of each until it finds something or has 60.
fn rerun() -> Box<Decide> {
    let tests: Vec<Benchstat> = (6..=60).step_by(2).map(Benchstat::new).collect();
    Box::new(move |host| {
        let (mut a, mut b, mut above) = (Vec::new(), Vec::new(), 0);
        for (test, n) in tests.iter().zip((6..=60).step_by(2)) {
            let (more_a, more_b) = host.unpaired(n - a.len());
            let count = |a: &[f64], b: &[f64]| -> usize {
                a.iter().map(|a| b.iter().filter(|b| *b > a).count()).sum()
            };
            above += count(&more_a, &b) + count(&a, &more_b) + count(&more_a, &more_b);
            a.extend(more_a);
            b.extend(more_b);
            if test.changed_at(above, n * n) {
                return Answer::Changed;
            }
        }
        Answer::CannotTell
    })
}

fn trial(
    contender: &Contender,
    noise: Noise,
    effect: f64,
    mut random: Xoshiro256PlusPlus,
) -> (Answer, u32) {
    let noise = noise.start(&mut random);
    let mut host = SimulatedHost { random, noise, effect: effect.ln_1p(), runs: 0 };
    let answer = (contender.decide)(&mut host);
    (answer, host.runs)
}

/// What our rule promises, with how often it kept it.
fn promises(rows: &[RuleRow]) -> Vec<Promise> {
    use Limit::{AtLeast, AtMost};
    use Noise::{Bimodal, Drifting, Gaussian, HeavyTailed};
    let changed = |what: &str, noise: Noise, effect: usize, limit: Limit| {
        let share = ours_on(rows, noise).cells[effect].changed;
        Promise::new(what, share.share, Some(share.interval), limit)
    };
    let runs = ours_on(rows, Gaussian).cells[2].runs;
    // If the change is exactly the smallest effect, "same" is a false finding too.
    let same = ours_on(rows, Gaussian).cells[1].same;
    vec![
        changed("normal, no difference: changed", Gaussian, 0, AtMost(0.05)),
        changed("normal, 2 % different: changed", Gaussian, 1, AtLeast(0.85)),
        Promise::new("normal, 2 % different: same", same.share, Some(same.interval), AtMost(0.05)),
        changed("normal, 5 % different: changed", Gaussian, 2, AtLeast(0.999)),
        Promise::new("normal, 5 % different: mean runs", runs, None, AtMost(28.0)),
        changed("bimodal, no difference: changed", Bimodal, 0, AtMost(0.05)),
        changed("bimodal, 5 % different: changed", Bimodal, 2, AtLeast(0.99)),
        changed("heavy tails, no difference: changed", HeavyTailed, 0, AtMost(0.05)),
        changed("drift, no difference: changed", Drifting, 0, AtMost(0.05)),
    ]
}

fn ours_on(rows: &[RuleRow], noise: Noise) -> &RuleRow {
    let ours = rows.iter().find(|row| row.noise == noise && row.rule == "knee");
    ours.expect("our rule is simulated on all noise")
}

impl Promise {
    /// A promise, judged by a measured value and its interval.
    pub fn new(
        what: impl Into<String>,
        measured: f64,
        interval: Option<(f64, f64)>,
        limit: Limit,
    ) -> Promise {
        let (low, high) = interval.unwrap_or((measured, measured));
        let (is_met, may_be_met) = match limit {
            Limit::AtMost(most) => (measured <= most, low <= most),
            Limit::AtLeast(least) => (measured >= least, high >= least),
        };
        let standing = if is_met {
            Standing::Met
        } else if may_be_met {
            Standing::Near
        } else {
            Standing::Missed
        };
        Promise { what: what.into(), measured, interval, limit, standing }
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
        assert!(!check.missed(), "{:?}", check.promises);
    }

    #[test]
    fn a_promise_is_missed_when_the_interval_excludes_it() {
        let standing = |hits, limit| {
            let share = Proportion::new(hits, 4000);
            Promise::new("", share.share, Some(share.interval), limit).standing
        };
        assert_eq!(standing(200, Limit::AtMost(0.05)), Standing::Met);
        assert_eq!(standing(204, Limit::AtMost(0.05)), Standing::Near);
        assert_eq!(standing(260, Limit::AtMost(0.05)), Standing::Missed);
        assert_eq!(standing(3400, Limit::AtLeast(0.85)), Standing::Met);
        assert_eq!(standing(3380, Limit::AtLeast(0.85)), Standing::Near);
        assert_eq!(standing(3300, Limit::AtLeast(0.85)), Standing::Missed);
        let runs = Promise::new("", 28.1, None, Limit::AtMost(28.0));
        assert_eq!(runs.standing, Standing::Missed);
    }

    #[test]
    fn the_same_seed_gives_the_same_table() {
        assert_eq!(selfcheck(10, 4), selfcheck(10, 4));
        assert_ne!(selfcheck(10, 4).rows, selfcheck(10, 5).rows);
    }

    #[test]
    fn shares_have_intervals_even_at_the_ends() {
        let no_hit = Proportion::new(0, 4000);
        assert!(no_hit.interval.0 < 1e-12 && (0.0008..0.0012).contains(&no_hit.interval.1));
        let half = Proportion::new(50, 100);
        assert!((half.interval.0 - 0.4038).abs() < 1e-3 && (half.interval.1 - 0.5962).abs() < 1e-3);
        assert_eq!(Proportion::new(0, 0).share, 0.0);
    }
}
