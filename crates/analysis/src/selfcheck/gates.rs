//! How often a gate is right: pull requests with 20 cases, of which one is slower or none, on noise like that of
//! measurements. Our rule measures base and head in turn; the rules of other tools compare all runs of the base with all of
//! the head, as their jobs do.

use host::in_parallel;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::Better;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Proportion, SimulatedHost};
use crate::Spread;
use crate::baselines::{Benchstat, beyond_history, criterion};
use crate::judge::{Decision, Judgement, MISSES, Rule, is_harmless_at, judge};
use crate::noise::Noise;
use crate::power::detectable;
use crate::rounds::{OpenCase, further_round};
use crate::sequential::{LOOKS, nominal};

/// Cases of a pull request.
const CASES: usize = 20;

/// What one of them is slower by, or 0.
const PLANTED: [f64; 3] = [0.0, 0.03, 0.05];

const ALPHA: f64 = 0.01;
/// What the last of eight rounds may spend.
const ALPHA_LEAST: f64 = ALPHA / 256.0;
const SMALLEST: f64 = 0.02;
const CAP: u32 = 60;

/// Runs that the budget allows: 0.1 s each, in the three quarters of 5 minutes that are not kept for other layouts.
const RUNS_MAX: u32 = 2250;
/// Runs in which cases that were set aside are looked at again: three quarters.
const REEXAMINED_MAX: u32 = 1687;

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateCheck {
    /// Number of pull requests for each rule, noise and slowdown.
    pub trials: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Cases of each pull request.
    pub cases: usize,
    /// A row for each rule, noise and slowdown.
    pub rows: Vec<GateRow>,
}

/// One rule on one kind of noise with one slowdown in one case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateRow {
    /// The kind of noise.
    pub noise: Noise,
    /// Name of the rule.
    pub rule: String,
    /// The slowdown of the first case, as a share; 0 if nothing changed.
    pub planted: f64,
    /// Pull requests in which a case that is as before was called slower or faster.
    pub false_verdict: Proportion,
    /// Pull requests in which the slower case was called slower.
    pub found: Proportion,
    /// Mean number of runs of a pull request.
    pub runs: f64,
}

/// What a rule says of a case.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    Slower,
    Faster,
    Nothing,
}

/// Whether two samples differ.
type Differs = dyn Fn(&[f64], &[f64]) -> bool + Sync;

type Decide = dyn Fn(&mut PullRequest) -> [Said; CASES] + Sync;

/// A pull request on a noisy host.
struct PullRequest {
    host: SimulatedHost,
    planted: f64,
}

impl PullRequest {
    /// The logarithm of the time of a run of a case.
    fn run(&mut self, case: usize, is_head: bool) -> f64 {
        self.host.effect = if case == 0 { self.planted.ln_1p() } else { 0.0 };
        self.host.run(is_head)
    }

    /// The times of all cases, `n` runs of each after the other: of the base, then of the head.
    fn jobs(&mut self, n: usize) -> [[Vec<f64>; CASES]; 2] {
        [false, true].map(|is_head| {
            std::array::from_fn(|case| (0..n).map(|_| self.run(case, is_head).exp()).collect())
        })
    }
}

/// Checks all rules.
pub fn gate_check(trials: u32, seed: u64) -> GateCheck {
    let rules = rules();
    let kinds: Vec<(Noise, usize, f64)> = Noise::ALL
        .into_iter()
        .flat_map(|noise| (0..rules.len()).map(move |rule| (noise, rule)))
        .flat_map(|(noise, rule)| PLANTED.map(|planted| (noise, rule, planted)))
        .collect();
    let rows = in_parallel(kinds.len(), |index| {
        let (noise, rule, planted) = kinds[index];
        let (name, decide) = &rules[rule];
        row(name, decide, (noise, planted), trials, seed)
    });
    GateCheck { trials, seed, cases: CASES, rows }
}

fn row(
    name: &str,
    decide: &Decide,
    (noise, planted): (Noise, f64),
    trials: u32,
    seed: u64,
) -> GateRow {
    let which = (noise as u64) << 32 | (planted * 1000.0) as u64;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ which);
    let (mut wrong, mut found, mut runs) = (0, 0, 0);
    for _ in 0..trials {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(random.random());
        let noise = noise.start(&mut random);
        let host = SimulatedHost { random, noise, effect: 0.0, runs: 0 };
        let mut request = PullRequest { host, planted };
        let said = decide(&mut request);
        let unchanged = if planted > 0.0 { &said[1..] } else { &said[..] };
        wrong += u32::from(unchanged.iter().any(|said| *said != Said::Nothing));
        found += u32::from(planted > 0.0 && said[0] == Said::Slower);
        runs += u64::from(request.host.runs);
    }
    GateRow {
        noise,
        rule: name.to_string(),
        planted,
        false_verdict: Proportion::new(wrong, trials),
        found: Proportion::new(found, trials),
        runs: runs as f64 / f64::from(trials.max(1)),
    }
}

/// All rules, ours first.
fn rules() -> Vec<(&'static str, Box<Decide>)> {
    let benchstat = Benchstat::new(10);
    let by_jobs = |n: usize, differs: Box<Differs>| -> Box<Decide> {
        Box::new(move |request| {
            let [base, head] = request.jobs(n);
            std::array::from_fn(|case| said(&base[case], &head[case], &differs))
        })
    };
    vec![
        ("knee gate", Box::new(ours) as Box<Decide>),
        ("benchstat 10v10", by_jobs(10, Box::new(move |a, b| benchstat.changed(a, b)))),
        ("criterion, 10 samples", by_jobs(10, Box::new(criterion))),
        ("one run, beyond 5 %", by_jobs(1, Box::new(|a, b| (b[0] / a[0]).ln().abs() > 0.05))),
        ("one run, beyond history", Box::new(one_against_history)),
    ]
}

fn said(base: &[f64], head: &[f64], differs: &dyn Fn(&[f64], &[f64]) -> bool) -> Said {
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    match (differs(base, head), mean(head) > mean(base)) {
        (false, _) => Said::Nothing,
        (true, true) => Said::Slower,
        (true, false) => Said::Faster,
    }
}

/// One run of each commit: the change between the newest two against the changes of 30 earlier ones.
fn one_against_history(request: &mut PullRequest) -> [Said; CASES] {
    let earlier: Vec<[Vec<f64>; CASES]> = (0..15)
        .flat_map(|_| {
            let planted = std::mem::take(&mut request.planted);
            let jobs = request.jobs(1);
            request.planted = planted;
            jobs
        })
        .collect();
    // What is kept of earlier commits costs this one nothing.
    request.host.runs = 0;
    let [base, head] = request.jobs(1);
    std::array::from_fn(|case| {
        let history: Vec<f64> = earlier.iter().map(|job| job[case][0]).collect();
        said(&base[case], &head[case], &|a, b| beyond_history(&history, a[0], b[0]))
    })
}

/// The rule that decides about the cases of a gate: half of the error for all of them, half of the rest for each further
/// round of blocks of those that stay open.
fn ours(request: &mut PullRequest) -> [Said; CASES] {
    let mut said = [Said::Nothing; CASES];
    let margin = SMALLEST.ln_1p();
    let mut alpha = ALPHA / 2.0;
    let all: Vec<usize> = (0..CASES).collect();
    let mut could_see = [None; CASES];
    let mut open = Vec::new();
    for (number, case) in judged_in_turn(request, &all, 1, alpha).into_iter().enumerate() {
        said[number] = case.said(margin);
        could_see[number] = case.could_see(alpha / CASES as f64);
        open.extend(case.worth_more(margin).map(|worse_by| (number, worse_by)));
    }
    while alpha > ALPHA_LEAST && request.host.runs < RUNS_MAX {
        alpha /= 2.0;
        let cases = open.iter().map(|(number, worse_by)| OpenCase {
            worse_by: *worse_by,
            could_see: could_see[*number],
        });
        let cases: Vec<OpenCase> = cases.collect();
        let left = f64::from(RUNS_MAX - request.host.runs);
        let Some(round) = further_round(&cases, SMALLEST, left) else { break };
        let numbers: Vec<usize> = round.cases.iter().map(|place| open[*place].0).collect();
        open.retain(|(number, _)| !numbers.contains(number));
        let judged = judged_in_turn(request, &numbers, round.runs, alpha);
        for (number, case) in numbers.into_iter().zip(judged) {
            if case.said(margin) != Said::Nothing {
                said[number] = case.said(margin);
            }
            open.extend(case.worth_more(margin).map(|worse_by| (number, worse_by)));
        }
    }
    said
}

/// The differences of a case so far, and what they show.
struct Case {
    number: usize,
    differences: Vec<f64>,
    judged: Judgement,
    /// Whether it is harmless, at each probability of a miss.
    harmless: [bool; MISSES.len()],
}

impl Case {
    fn said(&self, margin: f64) -> Said {
        let estimate = self.judged.estimate.unwrap_or(0.0);
        match self.judged.decision {
            Decision::Changed { .. } if estimate >= margin => Said::Slower,
            Decision::Changed { .. } if estimate < 0.0 => Said::Faster,
            _ => Said::Nothing,
        }
    }

    /// How much slower it seems, if a further round may show it to be: it is neither told nor harmless, or it is slower by
    /// less than what matters as it seems, and by more as it may be.
    fn worth_more(&self, margin: f64) -> Option<f64> {
        let estimate = self.judged.estimate.unwrap_or(0.0);
        let is_open = match self.judged.decision {
            Decision::Changed { .. } => {
                let high = self.judged.interval.map_or(0.0, |(_, high)| high);
                (0.0..margin).contains(&estimate) && high >= margin
            }
            Decision::CannotTell { .. } => !self.harmless[0],
            Decision::Same | Decision::TooFew { .. } => false,
        };
        is_open.then_some(estimate)
    }

    /// The smallest change that all blocks find in four of five gates.
    fn could_see(&self, alpha: f64) -> Option<f64> {
        let deviation = Spread::from_values(&self.differences)?.stddev?;
        detectable(CAP as usize, deviation / 2.0_f64.sqrt(), nominal(CAP as usize, alpha))
    }
}

/// Runs cases in turn, `runs` for each value, until each is judged, harmless or at its last look.
fn judged_in_turn(request: &mut PullRequest, cases: &[usize], runs: u32, alpha: f64) -> Vec<Case> {
    let alpha = alpha / cases.len().max(1) as f64;
    let rule = Rule { alpha, margin: SMALLEST.ln_1p(), sequential: true, cap: CAP };
    let begun = |number: &usize| Case {
        number: *number,
        differences: Vec::new(),
        judged: judge(&[], &rule),
        harmless: [false; MISSES.len()],
    };
    let mut cases: Vec<Case> = cases.iter().map(begun).collect();
    while request.host.runs < RUNS_MAX {
        let levels = if request.host.runs < REEXAMINED_MAX { MISSES.len() } else { 1 };
        let is_open = |case: &Case, level: usize| !case.judged.stop && !case.harmless[level];
        let level = (0..levels).find(|level| cases.iter().any(|case| is_open(case, *level)));
        let Some(level) = level else { break };
        let mut open: Vec<&mut Case> =
            cases.iter_mut().filter(|case| is_open(case, level)).collect();
        open.shuffle(&mut request.host.random);
        for case in open {
            let mut order = [vec![false; runs as usize], vec![true; runs as usize]].concat();
            order.shuffle(&mut request.host.random);
            let sum = order.into_iter().map(|is_head| {
                let value = request.run(case.number, is_head);
                if is_head { value } else { -value }
            });
            case.differences.push(sum.sum::<f64>() / f64::from(runs));
            if LOOKS.contains(&case.differences.len()) {
                case.judged = judge(&case.differences, &rule);
                case.harmless = MISSES
                    .map(|miss| is_harmless_at(miss, &case.differences, Better::Lower, &rule));
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::gate_check;

    #[test]
    fn a_gate_keeps_its_promises_in_a_small_simulation() {
        let (trials, seed) = (100, 3);
        println!("seed {seed}");
        let check = gate_check(trials, seed);
        for row in check.rows.iter().filter(|row| row.rule == "knee gate") {
            assert!(row.false_verdict.interval.0 <= 0.01, "{row:?}");
            assert!(row.planted < 0.04 || row.found.interval.1 >= 0.95, "{row:?}");
        }
    }
}
