//! The search as a whole: the ends first, then the tests that tell most, until a change is found or what is left
//! is known. It is a function of what was built and measured, so a log of that is all that a later process needs.
//!
//!     Ends ──differ──> Change ──one is probable──────────────> Named
//!      │                 ├──no commit left to test there────> Set
//!      │                 ├──nothing tells more, or budget───> Set
//!      │                 └──two changes explain it better──> Series ──> Several
//!      └──equal, or not apart in time──> NotReproduced
//!
//! On a graph, several changes are searched for along first parents.

mod ends;

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, NotReproduced, Unresolved};
use crate::choice::{Choice, Costs, Situation};
use crate::commits::Commits;
use crate::evidence::{Build, Evidence};
use crate::forecast::Forecast;
use crate::ground::Ground;
use crate::pairs::two_changes;
use crate::partition::Partition;
use crate::posterior::{Grounds, LAYOUT_UNKNOWN, Posterior, posterior};
use crate::series::{SeriesSettings, SeriesStep, runs_for, series_step};

/// How a search decides.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Probability that names a commit, or that a set holds the culprit with.
    pub confidence: f64,
    /// Whether a comparison with its parent must bear out what is named.
    #[serde(default = "yes")]
    pub compares: bool,
    /// Standard errors that the ends must differ by, before anything between them is tested. Before anything is blamed,
    /// all runs together must show more.
    pub ends_errors: f64,
    /// Runs of both ends that should show the difference; up to twice as many where it may still show.
    pub ends_runs_max: u32,
    /// A difference that is surely smaller than this is none, as a logarithm.
    pub smallest: f64,
    /// Runs after which the search ends with what it knows.
    pub runs_max: Option<u32>,
    /// What a run and a build cost.
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
            compares: true,
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

fn yes() -> bool {
    true
}

impl Settings {
    /// The probability from which on a commit is named. A comparison bears an innocent commit out once in forty times, so
    /// one that is to follow makes up for twice the warning, and takes fewer runs than the search would.
    fn named_from(&self) -> f64 {
        let twice_the_warning = 1.0 - 2.0 * (1.0 - self.confidence);
        if self.compares { twice_the_warning.max(0.5) } else { self.confidence }
    }
}

/// Degrees of freedom that the spread of runs is known by, before a bound on runs is derived from it.
const BOUND_FREEDOM: u32 = 20;
/// Standard errors that the distance may be off by when the most runs of a search are derived: 95 %, one-sided.
const DISTANCE_ERRORS: f64 = 1.645;
/// The longest of forty searches takes about this multiple of the mean.
const LONGEST: f64 = 2.5;
/// Two changes are searched for, instead of one searched on or named, when they are this probable.
const TWO: f64 = 0.9;
/// A test is futile below this share of what one run could tell about a known pair of levels.
const FUTILE: f64 = 0.01;
/// Tested commits of a line on which several changes are searched for.
const SERIES_GRID: usize = 17;
/// A line of no more commits, the ends included, has no place for two changes.
const LINE_LEAST: usize = 2;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Runs of commits, to be interleaved.
    Measure(Vec<(usize, u32)>),
    Answer(Answer),
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

    /// Adds the logarithm of a run's value, of a commit as it is built.
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

    /// Adds the logarithm of a run's value, of a commit that was linked in a layout: 0 as it is built. All layouts have the
    /// level of the commit, but each adds something of its own.
    pub fn measured_in(&mut self, layout: u32, commit: usize, log: f64) {
        if layout == 0 {
            return self.measured(commit, log);
        }
        let is_it = |build: &Build| (build.commit, build.layout) == (commit, layout);
        let known = self.builds().iter().position(is_it);
        let build = known.unwrap_or_else(|| {
            self.partition.split(self.commits.contained(commit));
            self.evidence.push_laid_out(commit, layout)
        });
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

    /// The runs that the search never exceeds while it is sure that there is one change. Several changes may take more.
    pub fn bound(&self) -> Option<u32> {
        self.bound
    }

    fn next_of_one(&mut self) -> Next {
        let grounds = Grounds::new(&self.evidence, &self.settings.layouts);
        let posterior = posterior(&grounds, &self.partition);
        let is_sure = self.is_sure(&posterior);
        if is_sure && self.bound.is_none() && self.evidence.variance().1 >= BOUND_FREEDOM {
            self.derive_bound(&posterior);
        }
        let two = two_changes(&grounds, &self.partition, &posterior);
        let situation = self.situation(&posterior);
        let best = posterior.best();
        let is_named = posterior.probability[best] >= self.settings.named_from()
            && !situation.is_splittable(&self.partition.segments[best]);
        if !is_sure && let Some(next) = self.doubted(&posterior, is_named) {
            return next;
        }
        if two > TWO {
            let line = self.commits.first_parent_line();
            if line.len() <= LINE_LEAST {
                return self.set(&posterior, Unresolved::SeveralOnBranches);
            }
            let settings = self.series_settings(&posterior, line.len() - 1);
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
                _ => {
                    let beside = self.beside_ends(&posterior, situation.runs());
                    return match beside.filter(|_| self.evidence.runs_since_pair() > 0) {
                        Some(wanted) => self.within_budget(&posterior, wanted),
                        None => self.set(&posterior, Unresolved::Futile),
                    };
                }
            }
        } else {
            choice
        };
        let Choice { commit, runs, beside, .. } = choice;
        let wanted = std::iter::once(commit).chain(beside).map(|commit| (commit, runs));
        let mut wanted: Vec<(usize, u32)> = wanted.collect();
        if posterior.scatters_much() && self.runs_apart_from_ends_are_many() {
            self.add_ends(&mut wanted);
        }
        self.within_budget(&posterior, wanted)
    }

    /// Whether most runs were made in steps after the last one of both ends: what looks like builds that differ may be a host
    /// that drifts.
    fn runs_apart_from_ends_are_many(&self) -> bool {
        2 * self.evidence.runs_since_pair() > self.runs()
    }

    /// Runs of both ends in turn with the most probable commit and its parent; `None` if these cannot be tested.
    fn beside_ends(&self, posterior: &Posterior, runs: u32) -> Option<Vec<(usize, u32)>> {
        let by = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let (change, _) = self.probabilities(posterior).into_iter().max_by(by)?;
        let pair = [self.commits.first_parent(change), change];
        let mut wanted: Vec<(usize, u32)> =
            pair.iter().filter(|c| !self.skipped.contains(**c)).map(|c| (*c, runs)).collect();
        let is_apart = wanted.len() == pair.len();
        self.add_ends(&mut wanted);
        is_apart.then_some(wanted)
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

    fn series_settings(&self, posterior: &Posterior, changes: usize) -> SeriesSettings {
        let deviation = posterior.variance.sqrt();
        let size = posterior.difference().abs() / 2.0;
        SeriesSettings {
            changes,
            grid: SERIES_GRID,
            size,
            // The search has told much already: half of what a line without runs needs.
            runs: runs_for(size, deviation).div_ceil(2).max(3),
            layouts: self.settings.layouts.clone(),
        }
    }

    /// The next step of a search for several changes along the line of first parents, on which each merge is one step.
    fn next_of_series(&self, settings: &SeriesSettings) -> Next {
        let line = self.commits.first_parent_line();
        // An equal build has no runs of its own.
        let own = |commit: &usize| {
            self.build_of.get(commit).is_none_or(|build| self.builds()[*build].commit == *commit)
        };
        let can_test = |place: usize| !self.skipped.contains(line[place]) && own(&line[place]);
        let posterior = self.posterior();
        let on_line = |build: &Build| {
            let commit = line.binary_search(&build.commit).ok().filter(|_| build.layout == 0)?;
            Some(Build { commit, ..*build })
        };
        let builds: Vec<Build> =
            self.without_drift(&posterior).iter().filter_map(on_line).collect();
        match series_step(&builds, settings, can_test) {
            SeriesStep::Done(mut brackets) => {
                for bracket in &mut brackets {
                    [bracket.without, bracket.with] =
                        [bracket.without, bracket.with].map(|place| line[place]);
                }
                Next::Answer(Answer::Several { brackets })
            }
            SeriesStep::Measure(wanted) => {
                let mut wanted: Vec<(usize, u32)> =
                    wanted.into_iter().map(|(place, runs)| (line[place], runs)).collect();
                if posterior.drifts_much() {
                    self.add_ends(&mut wanted);
                }
                self.within_budget(&posterior, wanted)
            }
        }
    }

    /// The builds, their levels as compared within steps where the host drifts: with as many runs as would tell as much
    /// without drift.
    fn without_drift(&self, posterior: &Posterior) -> Vec<Build> {
        if !posterior.drifts_much() {
            return self.builds().to_vec();
        }
        let (variance, _) = self.evidence.variance();
        let levels = Ground::new(&self.evidence, 0.0, posterior.drift).levels();
        let level = |(build, (mean, share)): (&Build, (f64, f64))| {
            let runs = (1.0 / share).round().clamp(1.0, f64::from(build.runs.max(1))) as u32;
            Build { mean, runs, squares: f64::from(runs - 1) * variance, ..*build }
        };
        self.builds().iter().zip(levels).map(level).collect()
    }

    /// Both ends beside what is wanted: what the host does to a step shows by them.
    fn add_ends(&self, wanted: &mut Vec<(usize, u32)>) {
        let runs = wanted.iter().map(|(_, runs)| *runs).max().unwrap_or(1);
        for end in [0, self.commits.changes()] {
            if wanted.iter().all(|(commit, _)| *commit != end) {
                wanted.push((end, runs));
            }
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
        posterior(&Grounds::new(&self.evidence, &self.settings.layouts), &self.partition)
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

    /// This number of runs to come are those of a comparison, which follow each other at once. They are beyond what the
    /// search may take.
    pub fn begin_comparison(&mut self, runs: u32) {
        self.begin_step();
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

#[cfg(test)]
mod tests;
