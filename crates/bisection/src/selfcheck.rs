//! How often searches are right, by simulation, beside the rules of other tools.

use host::in_parallel;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Answer;
use crate::baselines::{Named, bayesect, git_bisect};
use crate::bisected::{Bisected, Drawn};
use crate::evidence::Build;
use crate::forecast::Forecast;
use crate::posterior::LAYOUT_UNKNOWN;
use crate::screening::{effects, settings_of};
use crate::search::Settings;
use crate::series::{SeriesSettings, SeriesStep, runs_for, series_step};
use crate::simulated::{Noise, Range, World, gaussian};

/// All tables.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BisectCheck {
    /// Simulated ranges of each kind.
    pub trials: u32,
    /// Seed of the simulations.
    pub seed: u64,
    /// Searches for one culprit, by rule.
    pub rows: Vec<Row>,
    /// Searches for several changes.
    pub series: Vec<SeriesRow>,
    /// Screenings of options.
    pub screenings: Vec<ScreeningRow>,
    /// Longest time that the choice of the next test took in searches of 10 000 commits, in ms.
    pub choice_ms: Option<f64>,
}

/// A part of the check. The numbers of a part do not depend on which others are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BisectPart {
    Searches,
    Series,
    Screening,
    Choice,
}

impl BisectPart {
    pub const ALL: [BisectPart; 4] =
        [BisectPart::Searches, BisectPart::Series, BisectPart::Screening, BisectPart::Choice];

    /// The word for it in arguments.
    pub fn word(self) -> &'static str {
        match self {
            BisectPart::Searches => "searches",
            BisectPart::Series => "series",
            BisectPart::Screening => "screening",
            BisectPart::Choice => "choice",
        }
    }
}

/// One rule on one kind of range.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// What the ranges are.
    pub about: String,
    /// The rule.
    pub rule: Rule,
    /// Share of the answers that are right: the culprit, or NOT REPRODUCED where there is none.
    pub right: f64,
    /// Share that names an innocent commit.
    pub wrong: f64,
    /// Share that is a set with all culprits, or with the one.
    pub set: f64,
    /// Share of sets without the culprit, and of searches that end without an answer.
    pub other: f64,
    /// Share with a culprit among the three commits that the answer holds most probable.
    pub in_three: f64,
    /// Median size of the sets.
    pub set_size: Option<f64>,
    /// Mean runs and builds of the search, and most runs.
    pub runs: f64,
    /// Most runs of the search.
    pub runs_max: u32,
    /// Mean builds of the search.
    pub builds: f64,
    /// Mean runs of comparisons before a commit is blamed, for knee's rule.
    pub compared: Option<f64>,
    /// Runs forecast, for knee's rule.
    pub forecast: Option<f64>,
}

/// The rules that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    Knee,
    /// knee that does not compare builds.
    KneeWithoutHashes,
    /// git bisect, with the mean of several runs of a build.
    GitBisect {
        /// Number of runs of each build.
        runs: u32,
    },
    Bayesect,
}

impl Rule {
    pub fn name(self) -> String {
        match self {
            Rule::Knee => "knee".to_string(),
            Rule::KneeWithoutHashes => "knee, builds not compared".to_string(),
            Rule::GitBisect { runs } => format!("git bisect, {runs} runs"),
            Rule::Bayesect => "git_bayesect".to_string(),
        }
    }
}

/// Several changes along a line of commits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesRow {
    /// What the ranges are.
    pub about: String,
    /// Share in which exactly the changes were found.
    pub exact: f64,
    /// Share with a change that is none.
    pub wrong: f64,
    /// Mean runs.
    pub runs: f64,
    /// Mean builds.
    pub builds: f64,
}

/// A screening of options, one of which matters.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScreeningRow {
    /// What the options are.
    pub about: String,
    /// Share in which exactly the culprit was found.
    pub right: f64,
    /// Mean runs.
    pub runs: f64,
    /// Most runs.
    pub runs_max: u32,
}

/// A kind of range with the rules that search it.
struct Case {
    about: String,
    range: Range,
    rules: Vec<Rule>,
    settings: Settings,
}

/// The most runs of a rule that may never stop.
const RUNS_MAX: u32 = 3000;

fn cases() -> Vec<Case> {
    let peers = [Rule::Knee, Rule::GitBisect { runs: 10 }, Rule::Bayesect];
    let case = |about: &str, range: Range| Case {
        about: about.to_string(),
        range,
        rules: peers.to_vec(),
        settings: Settings { runs_max: Some(RUNS_MAX), ..Settings::default() },
    };
    let changed = |effect: f64, noise: f64| {
        let about = format!("{:.0} % at {:.0} %", 100.0 * effect, 100.0 * noise);
        case(&about, Range::new(effect, noise))
    };
    let base = Range::new(0.05, 0.05);
    vec![
        changed(0.05, 0.05),
        changed(0.05, 0.03),
        changed(0.02, 0.03),
        changed(0.05, 0.01),
        changed(0.5, 0.01),
        case("5 % at 5 %, two modes", Range { shape: Noise::TwoModes, ..base.clone() }),
        case("5 % at 0.5 %, by ticks", Range { shape: Noise::Ticks, ..Range::new(0.05, 0.005) }),
        case("5 % at 3 %, builds 1 %", Range { layout: 0.01, ..Range::new(0.05, 0.03) }),
        case("5 % at 1 %, builds 1 %", Range { layout: 0.01, ..Range::new(0.05, 0.01) }),
        case("5 % at 5 %, 13 % not built", Range { broken: 0.1, ..base.clone() }),
        case("no change, 5 %", Range { effects: Vec::new(), ..base.clone() }),
        case("no change, 1 %", Range { effects: Vec::new(), ..Range::new(0.0, 0.01) }),
        Case {
            rules: vec![Rule::Knee, Rule::KneeWithoutHashes, Rule::Bayesect],
            ..case("300, 60 % equal builds", Range { commits: 300, equal: 0.6, ..base.clone() })
        },
        case("two of 5 % at 5 %", Range { effects: vec![0.05; 2], ..base.clone() }),
        case("two of 3 % at 3 %", Range { effects: vec![0.03; 2], ..Range::new(0.03, 0.03) }),
    ]
}

/// Searches simulated ranges, `trials` of each kind, for these parts of the check.
pub fn bisect_check(trials: u32, seed: u64, parts: &[BisectPart]) -> BisectCheck {
    let has = |part: BisectPart| parts.contains(&part);
    let cases = if has(BisectPart::Searches) { cases() } else { Vec::new() };
    let series = if has(BisectPart::Series) { series_cases() } else { Vec::new() };
    let screened = if has(BisectPart::Screening) { &SCREENED[..] } else { &[] };
    // One after the other: each uses all CPUs, and the last is timed.
    let searches = cases.iter().flat_map(|case| case.rules.iter().map(move |rule| (case, *rule)));
    BisectCheck {
        trials,
        seed,
        rows: searches.map(|(case, rule)| row(case, rule, trials, seed)).collect(),
        series: series.iter().map(|range| series_row(range, trials, seed)).collect(),
        screenings: screened.iter().map(|size| screening_row(*size, trials, seed)).collect(),
        choice_ms: has(BisectPart::Choice).then(|| choice_ms(seed)),
    }
}

/// Sizes of the change that simulated screenings look for.
const SCREENED: [f64; 2] = [0.05, 0.0];

/// The longest choice of five searches of 10 000 commits, one after the other.
fn choice_ms(seed: u64) -> f64 {
    let range = Range { commits: 10_000, ..Range::new(0.05, 0.05) };
    let longest = (0..5).map(|trial| {
        let mut world = World::new(&range, seed_of(seed, trial));
        world.search(&Settings::default(), true).choice
    });
    longest.max().map_or(0.0, |time| 1e3 * time.as_secs_f64())
}

/// A seed for each trial, equal for all rules.
fn seed_of(seed: u64, trial: usize) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(trial as u64)
}

/// How an answer compares with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Right,
    Wrong,
    Set,
    Other,
}

/// One trial.
struct Trial {
    grade: Grade,
    set_size: Option<f64>,
    /// Whether a culprit is among the three most probable commits.
    is_in_three: bool,
    runs: u32,
    compared: u32,
    builds: u32,
}

fn row(case: &Case, rule: Rule, trials: u32, seed: u64) -> Row {
    let done = in_parallel(trials as usize, |trial| {
        let world = World::new(&case.range, seed_of(seed, trial));
        search_by(rule, world, case)
    });
    let share = |grade: Grade| {
        done.iter().filter(|trial| trial.grade == grade).count() as f64 / f64::from(trials)
    };
    let mean = |of: fn(&Trial) -> u32| {
        done.iter().map(|trial| f64::from(of(trial))).sum::<f64>() / f64::from(trials)
    };
    let mut sizes: Vec<f64> = done.iter().filter_map(|trial| trial.set_size).collect();
    sizes.sort_by(f64::total_cmp);
    let distance = case.range.effects.first().map(|effect| effect.ln_1p().abs() / case.range.noise);
    let forecast = distance.filter(|_| rule == Rule::Knee && case.range.effects.len() == 1);
    Row {
        about: case.about.clone(),
        rule,
        right: share(Grade::Right),
        wrong: share(Grade::Wrong),
        set: share(Grade::Set),
        other: share(Grade::Other),
        in_three: done.iter().filter(|trial| trial.is_in_three).count() as f64 / f64::from(trials),
        set_size: sizes.get(sizes.len() / 2).copied(),
        runs: mean(|trial| trial.runs),
        runs_max: done.iter().map(|trial| trial.runs).max().unwrap_or(0),
        builds: mean(|trial| trial.builds),
        compared: [Rule::Knee, Rule::KneeWithoutHashes]
            .contains(&rule)
            .then(|| mean(|trial| trial.compared)),
        forecast: forecast
            .map(|d| Forecast::new(case.range.commits, d, case.settings.runs_min).runs),
    }
}

fn search_by(rule: Rule, mut world: World, case: &Case) -> Trial {
    let changes = case.range.commits;
    let named = |Named { change, runs, builds }, world: &World| {
        let grade = match change {
            Some(change) if world.culprits.contains(&change) => Grade::Right,
            Some(_) => Grade::Wrong,
            None => Grade::Other,
        };
        Trial {
            grade,
            set_size: None,
            is_in_three: grade == Grade::Right,
            runs,
            compared: 0,
            builds,
        }
    };
    match rule {
        Rule::GitBisect { runs } => {
            let found = git_bisect(changes, runs, |commit| world.run(commit));
            named(found, &world)
        }
        Rule::Bayesect => {
            let found = bayesect(changes, 5, RUNS_MAX, |commit| world.run(commit));
            named(found, &world)
        }
        Rule::Knee | Rule::KneeWithoutHashes => {
            let found = world.search(&case.settings, rule == Rule::Knee);
            let (grade, set_size) = graded(&found.answer, &world);
            let is_in_three = is_in_three(&found.answer, &world);
            let Bisected { runs, compared, builds, .. } = found;
            Trial { grade, set_size, is_in_three, runs, compared, builds }
        }
    }
}

/// Whether a culprit is among the three commits that an answer holds most probable.
fn is_in_three(answer: &Answer, world: &World) -> bool {
    match answer {
        Answer::Named { change, .. } => world.culprits.contains(change),
        Answer::Set { changes, .. } => {
            changes.iter().take(3).any(|(change, _)| world.culprits.contains(change))
        }
        Answer::NotReproduced { .. } | Answer::Several { .. } => {
            graded(answer, world).0 == Grade::Right
        }
    }
}

/// Compares an answer with the culprits. Naming one of two is right; a set must have one of them.
fn graded(answer: &Answer, world: &World) -> (Grade, Option<f64>) {
    match answer {
        Answer::NotReproduced { .. } if world.culprits.is_empty() => (Grade::Right, None),
        Answer::NotReproduced { .. } => (Grade::Other, None),
        Answer::Named { change, .. } if world.culprits.contains(change) => (Grade::Right, None),
        Answer::Named { .. } => (Grade::Wrong, None),
        Answer::Set { changes, .. } => {
            let has_one = changes.iter().any(|(change, _)| world.culprits.contains(change));
            let grade = if has_one { Grade::Set } else { Grade::Other };
            (grade, Some(changes.len() as f64))
        }
        Answer::Several { brackets } => {
            let holds = |culprit: &usize| {
                brackets.iter().any(|b| b.without < *culprit && *culprit <= b.with)
            };
            let innocent = brackets.iter().any(|b| {
                !world.culprits.iter().any(|culprit| b.without < *culprit && *culprit <= b.with)
            });
            let exact = brackets.iter().all(|b| b.steps == 1);
            let grade = match (innocent, world.culprits.iter().all(holds), exact) {
                (true, _, _) => Grade::Wrong,
                (false, true, true) => Grade::Right,
                (false, true, false) => Grade::Set,
                (false, false, _) => Grade::Other,
            };
            (grade, None)
        }
    }
}

fn series_cases() -> Vec<(String, Range)> {
    let line =
        |effects: Vec<f64>, noise: f64| Range { commits: 200, effects, ..Range::new(0.0, noise) };
    vec![
        ("3 of -3 % at 2 %".to_string(), line(vec![-0.03; 3], 0.02)),
        ("3 of -5 % at 3 %".to_string(), line(vec![-0.05; 3], 0.03)),
        ("-5 % and +5 % at 3 %".to_string(), line(vec![-0.05, 0.05], 0.03)),
        ("no change, 3 %".to_string(), line(Vec::new(), 0.03)),
    ]
}

fn series_row((about, range): &(String, Range), trials: u32, seed: u64) -> SeriesRow {
    // What the user asks to see: the size of the smallest change.
    let size = range.effects.first().map_or(0.05, |effect| effect.ln_1p().abs());
    let settings = SeriesSettings {
        changes: range.commits,
        grid: 33,
        size,
        runs: runs_for(size, range.noise),
        layouts: LAYOUT_UNKNOWN.to_vec(),
    };
    let done = in_parallel(trials as usize, |trial| {
        let mut world = World::new(range, seed_of(seed, trial));
        let mut builds: Vec<Build> = Vec::new();
        loop {
            let wanted = match series_step(&builds, &settings, |_| true) {
                SeriesStep::Measure(wanted) => wanted,
                SeriesStep::Done(found) => {
                    let found: Vec<usize> = found.iter().map(|bracket| bracket.with).collect();
                    let is_wrong = found.iter().any(|at| !world.culprits.contains(at));
                    let runs: u32 = builds.iter().map(|build| build.runs).sum();
                    return (found == world.culprits, is_wrong, runs, builds.len());
                }
            };
            for (commit, runs) in wanted {
                let at = builds.iter().position(|build| build.commit == commit);
                let at = at.unwrap_or_else(|| {
                    builds.push(Build::new(commit));
                    builds.len() - 1
                });
                (0..runs).for_each(|_| builds[at].add(world.run(commit)));
            }
        }
    });
    type Found = (bool, bool, u32, usize);
    let share = |of: &dyn Fn(&Found) -> f64| done.iter().map(of).sum::<f64>() / f64::from(trials);
    SeriesRow {
        about: about.clone(),
        exact: share(&|trial| f64::from(u8::from(trial.0))),
        wrong: share(&|trial| f64::from(u8::from(trial.1))),
        runs: share(&|trial| f64::from(trial.2)),
        builds: share(&|trial| trial.3 as f64),
    }
}

/// Groups of options, and noise of a run.
const OPTIONS: usize = 12;
const NOISE: f64 = 0.03;
const REPEATS_MAX: usize = 5;

fn screening_row(size: f64, trials: u32, seed: u64) -> ScreeningRow {
    let settings = settings_of(OPTIONS);
    let done = in_parallel(trials as usize, |trial| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed_of(seed, trial));
        let culprit = trial % OPTIONS;
        let mut logs: Vec<Vec<f64>> = vec![Vec::new(); settings.len()];
        let mut found = Vec::new();
        for repeat in 1..=REPEATS_MAX {
            for (row, logs) in settings.iter().zip(&mut logs) {
                let level = if row[culprit] { size.ln_1p() } else { 0.0 };
                logs.push(level + NOISE * gaussian(&mut random));
            }
            let Some(effects) = effects(&settings, &logs) else { continue };
            found = (0..OPTIONS).filter(|option| effects[*option].is_shown()).collect();
            if repeat >= 4 && !found.is_empty() {
                break;
            }
        }
        let expected = if size > 0.0 { vec![culprit] } else { Vec::new() };
        let runs = logs.iter().map(Vec::len).sum::<usize>() as u32;
        (found == expected, runs)
    });
    let right = done.iter().filter(|(right, _)| *right).count() as f64 / f64::from(trials);
    ScreeningRow {
        about: format!("{OPTIONS} options, one of {:.0} % at 3 %", 100.0 * size),
        right,
        runs: done.iter().map(|(_, runs)| f64::from(*runs)).sum::<f64>() / f64::from(trials),
        runs_max: done.iter().map(|(_, runs)| *runs).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{BisectPart, Rule, bisect_check, cases, row};

    #[test]
    fn a_few_searches_of_each_kind_end_as_they_should() {
        let check = bisect_check(4, 1, &BisectPart::ALL);
        for row in check.rows.iter().filter(|row| row.rule == Rule::Knee) {
            assert!(row.right + row.set > 0.7, "{row:?}");
            assert!(row.wrong < 0.4, "{row:?}");
        }
        assert!(check.screenings[0].right > 0.7 && check.series[0].exact > 0.5, "{check:?}");
        let again = || row(&cases()[1], Rule::Knee, 4, 9);
        assert_eq!(again(), again(), "equal seeds give equal rows");
    }
}
