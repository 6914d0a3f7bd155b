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
use crate::evidence::{Build, Evidence, Pair};
use crate::forecast::Forecast;
use crate::pairs::two_changes;
use crate::partition::Partition;
use crate::posterior::{LAYOUT_UNKNOWN, Posterior, posterior};
use crate::series::{Bracket, SeriesSettings, SeriesStep, runs_for, series_step};

/// How a search decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Probability that names a commit.
    pub confidence: f64,
    /// Standard errors that the ends must differ by, before anything between them is tested. Before anything is blamed,
    /// all runs together must show more.
    pub ends_errors: f64,
    /// Runs of both ends that should show the difference; up to twice as many where it may still show.
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
            ends_errors: 2.75,
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
/// Standard errors beyond which a change that is not sure yet is worth the most runs.
const NEARLY: f64 = 2.5;
/// The ends count as equal when their difference is below a line over the share of `ends_runs_max` that was run: it
/// begins at this share and rises by this number of standard errors for each further `ends_runs_max` (a triangular
/// test). A change that would show 4.7 standard errors at `ends_runs_max` is lost so once in thousands.
const HOPE_START: f64 = 0.4;
const HOPE_SLOPE: f64 = 2.0;
/// Standard errors below which a difference that was shown counts as lost: it was luck, or needs more runs of the ends.
const LOST: f64 = 1.5;
/// Standard errors that the sides must differ by, by all runs, before anything is blamed.
const SURE: f64 = 3.5;
/// Degrees of freedom that the spread of runs is known by, before a bound on runs is derived from it.
const BOUND_FREEDOM: u32 = 20;
/// Standard errors that the distance may be off by when the most runs of a search are derived: 95 %, one-sided.
const DISTANCE_ERRORS: f64 = 1.645;
/// The longest of forty searches takes about this multiple of the mean.
const LONGEST: f64 = 2.5;
/// Two changes are searched for instead of one when they are this probable.
const TWO: f64 = 0.9;
/// Before a change is named, two must be less probable than this.
const TWO_AT_THE_END: f64 = 0.9;
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

impl Answer {
    /// The changes that the answer names.
    pub fn blamed(&self) -> Vec<usize> {
        match self {
            Answer::Named { change, .. } => vec![*change],
            Answer::Several { brackets } => {
                let is_one = |bracket: &&Bracket| bracket.with == bracket.without + 1;
                brackets.iter().filter(is_one).map(|bracket| bracket.with).collect()
            }
            Answer::Set { .. } | Answer::NotReproduced { .. } => Vec::new(),
        }
    }

    /// Whether one of several changes raises the metric. `None` for a change that is alone: the ends tell.
    pub fn raises(&self, change: usize) -> Option<bool> {
        let Answer::Several { brackets } = self else { return None };
        let own = brackets.iter().find(|bracket| bracket.with == change)?;
        Some(own.size > 0.0)
    }
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
    /// The ends differed at first, by luck: with the runs of the search they do not.
    Lost,
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
    /// As many runs were made as the longest searches take at this distance of the ends.
    Bound,
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
    /// Degrees of freedom of the standard error.
    pub freedom: u32,
}

/// A search and all that it knows.
#[derive(Clone, Debug)]
pub struct Search {
    commits: Commits,
    settings: Settings,
    /// Good end, bad end, then others as they were first measured.
    evidence: Evidence,
    /// The build that holds the runs of each commit, by commit.
    build_of: BTreeMap<usize, usize>,
    /// The commit that a kind of build was first seen at.
    keys: BTreeMap<String, usize>,
    skipped: FixedBitSet,
    partition: Partition,
    are_ends_apart: bool,
    /// Runs that no search exceeds, once the ends were apart.
    bound: Option<u32>,
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
            evidence: Evidence::new(&ends),
            build_of: ends.iter().enumerate().map(|(build, commit)| (*commit, build)).collect(),
            keys: BTreeMap::new(),
            skipped: FixedBitSet::with_capacity(changes + 1),
            partition,
            commits,
            settings,
            are_ends_apart: false,
            bound: None,
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
                let build = self.evidence.push(commit);
                self.build_of.insert(commit, build);
                build
            }
        };
        self.evidence.add(build, log);
    }

    /// The runs to come follow each other at once.
    pub fn begin_step(&mut self) {
        self.evidence.begin_step();
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
        if let Some(settings) = self.series.clone() {
            return self.next_of_series(&settings);
        }
        self.next_of_one()
    }

    /// The ends until they are apart; `None` when they are.
    fn verify(&self) -> Option<Next> {
        let done = self.builds()[0].runs.min(self.builds()[1].runs);
        if done < PAIRS_FIRST {
            return Some(self.pairs_of_ends(PAIRS_FIRST - done));
        }
        let ends = self.ends()?;
        let Settings { ends_errors, smallest, .. } = self.settings;
        let critical = with_few_runs(ends_errors, f64::from(ends.freedom)) * ends.error;
        if ends.difference.abs() > critical && ends.difference != 0.0 {
            return None;
        }
        let surely = with_few_runs(SURE, f64::from(ends.freedom)) * ends.error;
        if ends.difference.abs() + surely < smallest {
            let why = NotReproduced::Same;
            return Some(Next::Answer(Answer::NotReproduced { ends: Some(ends), why }));
        }
        let share = f64::from(self.runs()) / f64::from(self.settings.ends_runs_max.max(1));
        let hope = HOPE_SLOPE * (share - HOPE_START);
        let is_hopeless = ends.difference.abs() < hope * ends.error;
        let most = if is_hopeless { self.runs() } else { 2 * self.settings.ends_runs_max };
        let most = most.min(self.settings.runs_max.unwrap_or(u32::MAX));
        Some(self.more_of_ends(&ends, most, NotReproduced::NotShown))
    }

    /// Runs of both ends in turn.
    fn pairs_of_ends(&self, pairs: u32) -> Next {
        let [good, bad] = [0, 1].map(|end| self.builds()[end].commit);
        Next::Measure(vec![(good, pairs), (bad, pairs)])
    }

    /// More runs of the ends, or the answer that as many as allowed show no difference.
    fn more_of_ends(&self, ends: &Ends, most: u32, why: NotReproduced) -> Next {
        if self.runs() >= most {
            return Next::Answer(Answer::NotReproduced { ends: Some(*ends), why });
        }
        let left = most - self.runs();
        self.pairs_of_ends((ends.runs / 16).clamp(1, left.div_ceil(2)))
    }

    /// The most runs without a change that is sure: the more standard errors show, the longer it may still become sure.
    fn unsure_runs_most(&self, errors: f64) -> u32 {
        let times = match errors {
            errors if errors < LOST => 1,
            errors if errors < NEARLY => 3,
            _ => 5,
        };
        times * self.settings.ends_runs_max
    }

    /// A bound on all runs, once it is sure that there is a change: what the longest searches take at the smallest
    /// distance that its size and the spread of runs leave open.
    fn derive_bound(&mut self, posterior: &Posterior) {
        let (_, freedom) = self.evidence.variance();
        let [of_size, of_spread] = [posterior.errors().powi(-2), 0.5 / f64::from(freedom.max(1))];
        let share = 1.0 - DISTANCE_ERRORS * (of_size + of_spread).sqrt();
        let distance = posterior.distance() * share.max(0.2);
        let longest = Forecast::new(self.candidates(), distance, self.settings.runs_min).runs;
        self.bound = Some(self.runs() + (LONGEST * longest).min(1e6) as u32);
    }

    /// Whether all runs together show a change.
    fn is_sure(&self, posterior: &Posterior) -> bool {
        let (_, freedom) = self.evidence.variance();
        posterior.errors() > with_few_runs(SURE, f64::from(freedom))
    }

    /// The runs that the search never exceeds while it is sure that there is one change. Several changes may take more.
    pub fn bound(&self) -> Option<u32> {
        self.bound
    }

    /// What to do about a difference that may have been luck: nothing while it may still show.
    fn doubted(&self, posterior: &Posterior, is_named: bool) -> Option<Next> {
        let ends = self.ends()?;
        // Two builds may differ by their layouts alone. That is no luck, so the search goes on.
        let of_ends = (ends.difference.abs() / ends.error).min(NEARLY - 0.1);
        let errors = posterior.errors().max(of_ends);
        let most = self.unsure_runs_most(errors);
        let is_lost = errors < LOST || self.runs() >= most;
        (is_lost || is_named).then(|| match self.more_of_ends(&ends, most, NotReproduced::Lost) {
            Next::Measure(wanted) => self.within_budget(posterior, wanted),
            answer => answer,
        })
    }

    /// The difference of the ends; `None` without two runs of each.
    pub fn ends(&self) -> Option<Ends> {
        let pairs: Vec<Pair> = self.evidence.pairs().collect();
        let weight: f64 = pairs.iter().map(Pair::weight).sum();
        let runs: u32 = pairs.iter().flat_map(|pair| pair.ends).map(|end| end.runs).sum();
        if runs < 4 {
            return None;
        }
        let (variance, freedom) = self.evidence.variance();
        let difference =
            pairs.iter().map(|pair| pair.weight() * pair.difference()).sum::<f64>() / weight;
        let error = (variance / weight).sqrt();
        Some(Ends { difference, error, deviation: variance.sqrt(), runs, freedom })
    }

    fn next_of_one(&mut self) -> Next {
        let posterior = self.posterior();
        let is_sure = self.is_sure(&posterior);
        if is_sure && self.bound.is_none() && self.evidence.variance().1 >= BOUND_FREEDOM {
            self.derive_bound(&posterior);
        }
        let two = two_changes(&self.evidence, &self.partition, &self.settings.layouts, &posterior);
        let situation = self.situation(&posterior);
        let best = posterior.best();
        let is_named = posterior.probability[best] >= self.settings.confidence
            && !situation.is_splittable(&self.partition.segments[best]);
        if !is_sure && let Some(next) = self.doubted(&posterior, is_named) {
            return next;
        }
        if two > if is_named { TWO_AT_THE_END } else { TWO } {
            if !self.commits.is_linear() {
                return self.set(&posterior, Unresolved::SeveralOnBranches);
            }
            let settings = self.series_settings(&posterior);
            let most = self.runs() + settings.runs_most();
            self.bound = Some(self.bound.map_or(most, |bound| bound.max(most)));
            let next = self.next_of_series(&settings);
            self.series = Some(settings);
            return next;
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
        let Choice { commit, runs, beside, .. } = choice;
        let wanted = std::iter::once(commit).chain(beside).map(|commit| (commit, runs));
        self.within_budget(&posterior, wanted.collect())
    }

    /// The runs, unless they exceed the budget.
    fn within_budget(&self, posterior: &Posterior, wanted: Vec<(usize, u32)>) -> Next {
        let more: u32 = wanted.iter().map(|(_, runs)| runs).sum();
        let all = self.runs() + more;
        let exceeds = |most: Option<u32>| most.is_some_and(|most| all > most);
        if exceeds(self.settings.runs_max) {
            return self.set(posterior, Unresolved::Budget);
        }
        // Without a change that is sure, the ends decide.
        if !exceeds(self.bound) || !self.is_sure(posterior) {
            return Next::Measure(wanted);
        }
        self.set(posterior, Unresolved::Bound)
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
        let size = posterior.difference().abs() / 2.0;
        SeriesSettings {
            changes: self.commits.changes(),
            grid: SERIES_GRID,
            size,
            // The search has told much already: half of what a line without runs needs.
            runs: runs_for(size, deviation).div_ceil(2).max(3),
            layouts: self.settings.layouts.clone(),
        }
    }

    fn next_of_series(&self, settings: &SeriesSettings) -> Next {
        // An equal build has no runs of its own.
        let own = |commit: &usize| {
            self.build_of.get(commit).is_none_or(|build| self.builds()[*build].commit == *commit)
        };
        let can_test = |commit: usize| !self.skipped.contains(commit) && own(&commit);
        match series_step(self.builds(), settings, can_test) {
            SeriesStep::Done(brackets) => Next::Answer(Answer::Several { brackets }),
            SeriesStep::Measure(wanted) => self.within_budget(&self.posterior(), wanted),
        }
    }

    fn situation<'a>(&'a self, posterior: &'a Posterior) -> Situation<'a> {
        Situation {
            commits: &self.commits,
            evidence: &self.evidence,
            partition: &self.partition,
            posterior,
            skipped: &self.skipped,
            costs: self.settings.costs,
            runs_min: self.settings.runs_min,
        }
    }

    /// How probable each candidate is, given one change. Both ends must have runs.
    pub fn posterior(&self) -> Posterior {
        posterior(&self.evidence, &self.partition, &self.settings.layouts)
    }

    /// All runs so far.
    pub fn runs(&self) -> u32 {
        self.evidence.runs()
    }

    /// What was measured, by build.
    pub fn builds(&self) -> &[Build] {
        self.evidence.builds()
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
    pub fn set_runs_max(&mut self, runs: Option<u32>) {
        self.settings.runs_max = runs;
    }

    /// Allows more runs than were derived: those of comparisons, which the search did not ask for.
    pub fn grant(&mut self, runs: u32) {
        self.bound = self.bound.map(|bound| bound + runs);
        self.settings.runs_max = self.settings.runs_max.map(|most| most + runs);
    }

    /// The variance of a run and its degrees of freedom.
    pub fn variance(&self) -> (f64, u32) {
        self.evidence.variance()
    }

    /// The changes of a segment with their weights.
    pub(crate) fn changes_of(&self, segment: usize) -> Vec<(usize, f64)> {
        let changes = self.partition.segments[segment].changes.iter();
        changes.map(|change| (*change, self.partition.weight_of(*change))).collect()
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
