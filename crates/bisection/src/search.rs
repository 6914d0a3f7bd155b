//! The search as a whole: the ends first, then the tests that tell most, until a change is found or what is left
//! is known. It is a function of what was built and measured, so a log of that is all that a later process needs.
//!
//!     Ends ──differ──> Change ──one is probable──────────────> Named
//!      │                 ├──no commit left to test there────> Set
//!      │                 ├──nothing tells more, or budget───> Set
//!      │                 └──two changes explain it better──> Series ──> Several
//!      └──equal, or not apart in time──> NotReproduced

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use crate::choice::{Choice, Costs, Situation};
use crate::commits::Commits;
use crate::evidence::{Build, within};
use crate::pairs::two_changes;
use crate::partition::Partition;
use crate::posterior::{LAYOUT_UNKNOWN, Posterior, posterior};
use crate::series::{Bracket, SeriesSettings, SeriesStep, runs_for, series_step};

/// How a search decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Probability that names a commit.
    pub confidence: f64,
    /// Standard errors that the ends must differ by, before anything between them is tested.
    pub ends_errors: f64,
    /// Runs of both ends without a difference after which the change counts as not reproduced.
    pub ends_runs_max: u32,
    /// A difference that is surely smaller than this is none, as a logarithm.
    pub smallest: f64,
    /// Runs after which the search ends with what it knows.
    pub runs_max: Option<u32>,
    pub costs: Costs,
    /// Fewest runs of a step.
    pub runs_min: u32,
    /// Standard deviations between builds, as shares, with prior weights.
    pub layouts: Vec<(f64, f64)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            confidence: 0.95,
            ends_errors: 3.5,
            ends_runs_max: 200,
            smallest: 0.005,
            runs_max: None,
            costs: Costs { run: 1.0, build: 0.2 },
            runs_min: 3,
            layouts: LAYOUT_UNKNOWN.to_vec(),
        }
    }
}

/// Pairs of runs of the ends before their difference is judged.
const PAIRS_FIRST: u32 = 4;
/// Standard errors beyond which a difference that is not shown is worth more runs.
const NEARLY: f64 = 2.5;
/// Two changes are searched for instead of one when they are this probable.
const TWO: f64 = 0.9;
/// Before a change is named, two must be less probable than this.
const TWO_AT_THE_END: f64 = 0.5;
/// A test is futile below this share of what one run could tell about a known pair of levels.
const FUTILE: f64 = 0.01;
/// Tested commits of a line on which several changes are searched for.
const SERIES_GRID: usize = 17;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Runs of commits, to be interleaved.
    Measure(Vec<(usize, u32)>),
    Answer(Answer),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The ends do not differ, as far as was measured.
    NotReproduced { ends: Option<Ends>, why: NotReproduced },
    /// One change.
    Named { change: usize, probability: f64 },
    /// The culprit is among these with the wanted probability; most probable first.
    Set { changes: Vec<(usize, f64)>, why: Unresolved },
    /// More than one change, each between two tested commits.
    Several { brackets: Vec<Bracket> },
}

/// Why the ends count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotReproduced {
    /// Both ends are one build.
    EqualBuilds,
    /// The difference is surely below the smallest that matters.
    Same,
    /// No difference was shown by the most runs allowed.
    NotShown,
}

/// Why one change could not be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unresolved {
    /// The commits between cannot be built or run.
    Untestable,
    /// More runs would tell too little: builds differ by more than the change does.
    Futile,
    /// The budget is used up.
    Budget,
    /// There is more than one change, on different branches.
    SeveralOnBranches,
}

/// The difference between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ends {
    /// Bad minus good, as a logarithm, with its standard error.
    pub difference: f64,
    pub error: f64,
    /// Standard deviation of a run.
    pub deviation: f64,
    /// Runs of both.
    pub runs: u32,
}

/// A search and all that it knows.
#[derive(Clone, Debug)]
pub struct Search {
    commits: Commits,
    settings: Settings,
    /// Good end, bad end, then others as they were first measured.
    builds: Vec<Build>,
    /// The build that holds the runs of each commit, by commit.
    build_of: BTreeMap<usize, usize>,
    /// The commit that a kind of build was first seen at.
    keys: BTreeMap<String, usize>,
    skipped: FixedBitSet,
    partition: Partition,
    are_ends_apart: bool,
    series: Option<SeriesSettings>,
}

impl Search {
    /// A search with a prior weight for each change: `weights[i]` is that of change i, `weights[0]` is unused.
    ///
    /// # Panics
    /// If there is no change, or no weight for each.
    pub fn new(commits: Commits, weights: Vec<f64>, settings: Settings) -> Search {
        let changes = commits.changes();
        assert!(changes > 0 && weights.len() == changes + 1, "one weight for each change");
        let mut partition = Partition::new(weights);
        let ends = [0, changes];
        ends.iter().for_each(|end| partition.split(commits.contained(*end)));
        Search {
            builds: ends.map(Build::new).to_vec(),
            build_of: ends.iter().enumerate().map(|(build, commit)| (*commit, build)).collect(),
            keys: BTreeMap::new(),
            skipped: FixedBitSet::with_capacity(changes + 1),
            partition,
            commits,
            settings,
            are_ends_apart: false,
            series: None,
        }
    }

    /// Notes what a commit's build is. A build that another commit had, too, tells that no change between them
    /// matters. Returns that commit.
    pub fn built(&mut self, commit: usize, key: &str) -> Option<usize> {
        let first = *self.keys.entry(key.to_string()).or_insert(commit);
        if first == commit {
            return None;
        }
        let (a, b) = (self.commits.contained(first), self.commits.contained(commit));
        let differs = |change: usize| a.contains(change) != b.contains(change);
        self.partition.exclude(differs);
        if let (Some(build), false) =
            (self.build_of.get(&first), self.build_of.contains_key(&commit))
        {
            self.build_of.insert(commit, *build);
        }
        Some(first)
    }

    /// Notes that a commit cannot be tested.
    pub fn skip(&mut self, commit: usize) {
        self.skipped.insert(commit);
    }

    /// Adds the logarithm of a run's value.
    pub fn measured(&mut self, commit: usize, log: f64) {
        let build = match self.build_of.get(&commit) {
            Some(build) => *build,
            None => {
                self.partition.split(self.commits.contained(commit));
                self.builds.push(Build::new(commit));
                self.build_of.insert(commit, self.builds.len() - 1);
                self.builds.len() - 1
            }
        };
        self.builds[build].add(log);
    }

    /// Whether a commit has a build with runs, its own or an equal one.
    pub fn is_measured(&self, commit: usize) -> bool {
        self.build_of.contains_key(&commit)
    }

    /// What to do next, given all that is known.
    pub fn next_step(&mut self) -> Next {
        if self.partition.candidates() == 0 {
            let why = NotReproduced::EqualBuilds;
            return Next::Answer(Answer::NotReproduced { ends: self.ends(), why });
        }
        if !self.are_ends_apart {
            match self.verify() {
                Some(next) => return next,
                None => self.are_ends_apart = true,
            }
        }
        if let Some(settings) = self.series {
            return self.next_of_series(&settings);
        }
        self.next_of_one()
    }

    /// The ends until they are apart; `None` when they are.
    fn verify(&self) -> Option<Next> {
        let done = self.builds[0].runs.min(self.builds[1].runs);
        let pairs = |pairs| {
            let [good, bad] = [0, 1].map(|end| self.builds[end].commit);
            Some(Next::Measure(vec![(good, pairs), (bad, pairs)]))
        };
        if done < PAIRS_FIRST {
            return pairs(PAIRS_FIRST - done);
        }
        let ends = self.ends()?;
        let Settings { ends_errors, smallest, .. } = self.settings;
        let critical = with_few_runs(ends_errors, f64::from(ends.runs) - 2.0) * ends.error;
        if ends.difference.abs() > critical && ends.difference != 0.0 {
            return None;
        }
        let why = if ends.difference.abs() + critical < smallest {
            NotReproduced::Same
        } else if ends.runs >= self.ends_runs_most(&ends) {
            NotReproduced::NotShown
        } else {
            let left = self.ends_runs_most(&ends) - ends.runs;
            return pairs((done / 8).clamp(1, left.div_ceil(2)));
        };
        Some(Next::Answer(Answer::NotReproduced { ends: Some(ends), why }))
    }

    /// The most runs of both ends: twice as many where a difference shows already.
    fn ends_runs_most(&self, ends: &Ends) -> u32 {
        let most = self.settings.ends_runs_max;
        let is_near = ends.difference.abs() > NEARLY * ends.error;
        if is_near { 2 * most } else { most }
    }

    /// The difference of the ends; `None` without two runs of each.
    pub fn ends(&self) -> Option<Ends> {
        let [good, bad] = [self.builds[0], self.builds[1]];
        if good.runs.min(bad.runs) < 2 {
            return None;
        }
        let (variance, _) = within(&[good, bad]);
        let error = (variance * (1.0 / f64::from(good.runs) + 1.0 / f64::from(bad.runs))).sqrt();
        Some(Ends {
            difference: bad.mean - good.mean,
            error,
            deviation: variance.sqrt(),
            runs: good.runs + bad.runs,
        })
    }

    fn next_of_one(&mut self) -> Next {
        let posterior = self.posterior();
        let two = two_changes(&self.builds, &self.partition, &self.settings.layouts, &posterior);
        let situation = self.situation(&posterior);
        let best = posterior.best();
        let is_named = posterior.probability[best] >= self.settings.confidence
            && !situation.is_splittable(&self.partition.segments[best]);
        if two > if is_named { TWO_AT_THE_END } else { TWO } {
            if !self.commits.is_linear() {
                return self.set(&posterior, Unresolved::SeveralOnBranches);
            }
            let settings = self.series_settings(&posterior);
            self.series = Some(settings);
            return self.next_of_series(&settings);
        }
        if is_named {
            return self.found(&posterior, best);
        }
        let Some(choice) = situation.choose() else {
            return self.set(&posterior, Unresolved::Untestable);
        };
        let most = FUTILE * posterior.distance().powi(2).min(8.0) / 8.0;
        let choice = if choice.nats / f64::from(choice.runs) < most {
            // Sides so far apart that numbers cannot tell how far; otherwise nothing is left to learn.
            match situation.halving().filter(|_| posterior.distance() > 1.0) {
                Some(halving) if halving.nats > choice.nats || choice.nats < 1e-9 => halving,
                _ => return self.set(&posterior, Unresolved::Futile),
            }
        } else {
            choice
        };
        let Choice { commit, runs, .. } = choice;
        self.within_budget(&posterior, vec![(commit, runs)])
    }

    /// The runs, unless they exceed the budget.
    fn within_budget(&self, posterior: &Posterior, wanted: Vec<(usize, u32)>) -> Next {
        let more: u32 = wanted.iter().map(|(_, runs)| runs).sum();
        match self.settings.runs_max {
            Some(most) if self.runs() + more > most => self.set(posterior, Unresolved::Budget),
            _ => Next::Measure(wanted),
        }
    }

    /// The answer for a segment that nothing can split.
    fn found(&self, posterior: &Posterior, segment: usize) -> Next {
        match self.partition.segments[segment].changes[..] {
            [change] => {
                let probability = posterior.probability[segment];
                Next::Answer(Answer::Named { change, probability })
            }
            _ => self.set(posterior, Unresolved::Untestable),
        }
    }

    fn set(&self, posterior: &Posterior, why: Unresolved) -> Next {
        let mut changes = self.probabilities(posterior);
        changes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut sum, mut size) = (0.0, 0);
        while size < changes.len() && sum < self.settings.confidence {
            sum += changes[size].1;
            size += 1;
        }
        changes.truncate(size);
        Next::Answer(Answer::Set { changes, why })
    }

    /// The probability of each candidate.
    pub fn probabilities(&self, posterior: &Posterior) -> Vec<(usize, f64)> {
        let segments = self.partition.segments.iter().zip(&posterior.probability);
        let changes = segments.flat_map(|(segment, p)| {
            let share = p / segment.weight;
            segment.changes.iter().map(move |c| (*c, share * self.partition.weight_of(*c)))
        });
        changes.collect()
    }

    fn series_settings(&self, posterior: &Posterior) -> SeriesSettings {
        let deviation = posterior.variance.sqrt();
        let runs = runs_for(posterior.difference().abs() / 2.0, deviation);
        let changes = self.commits.changes();
        SeriesSettings { changes, grid: SERIES_GRID, runs, layout: 0.0 }
    }

    fn next_of_series(&self, settings: &SeriesSettings) -> Next {
        // An equal build has no runs of its own.
        let own = |commit: &usize| {
            self.build_of.get(commit).is_none_or(|build| self.builds[*build].commit == *commit)
        };
        let can_test = |commit: usize| !self.skipped.contains(commit) && own(&commit);
        match series_step(&self.builds, settings, can_test) {
            SeriesStep::Done(brackets) => Next::Answer(Answer::Several { brackets }),
            SeriesStep::Measure(wanted) => {
                let more: u32 = wanted.iter().map(|(_, runs)| runs).sum();
                match self.settings.runs_max {
                    Some(most) if self.runs() + more > most => {
                        self.set(&self.posterior(), Unresolved::Budget)
                    }
                    _ => Next::Measure(wanted),
                }
            }
        }
    }

    fn situation<'a>(&'a self, posterior: &'a Posterior) -> Situation<'a> {
        Situation {
            commits: &self.commits,
            builds: &self.builds,
            partition: &self.partition,
            posterior,
            skipped: &self.skipped,
            costs: self.settings.costs,
            runs_min: self.settings.runs_min,
        }
    }

    /// How probable each candidate is, given one change. Both ends must have runs.
    pub fn posterior(&self) -> Posterior {
        posterior(&self.builds, &self.partition, &self.settings.layouts)
    }

    /// All runs so far.
    pub fn runs(&self) -> u32 {
        self.builds.iter().map(|build| build.runs).sum()
    }

    /// What was measured, by build.
    pub fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// The candidates that are left.
    pub fn candidates(&self) -> usize {
        self.partition.candidates()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the cost of a build or a run, once they are known from experience.
    pub fn set_costs(&mut self, costs: Costs) {
        self.settings.costs = costs;
    }

    /// Ends the search where more runs than this would be needed.
    pub fn set_runs_max(&mut self, runs: u32) {
        self.settings.runs_max = Some(runs);
    }

    /// Whether the difference of the ends is shown.
    pub fn are_ends_apart(&self) -> bool {
        self.are_ends_apart
    }

    pub fn commits(&self) -> &Commits {
        &self.commits
    }
}

/// The quantile of Student's t that is as rare as `errors` of a normal distribution: Cornish and Fisher's
/// expansion.
fn with_few_runs(errors: f64, freedom: f64) -> f64 {
    let square = errors * errors;
    let first = (square + 1.0) / (4.0 * freedom);
    let second = (5.0 * square * square + 16.0 * square + 3.0) / (96.0 * freedom * freedom);
    errors * (1.0 + first + second)
}

#[cfg(test)]
mod tests;
