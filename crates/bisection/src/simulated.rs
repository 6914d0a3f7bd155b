//! Simulated ranges of commits, whose culprits are known.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::commits::Commits;
use crate::evidence::Build;
use crate::search::{Answer, Next, Search, Settings};

/// How runs of one build differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    Normal,
    /// Two modes: 30 % of the runs are slow. Standard deviation as asked for.
    TwoModes,
}

/// Fewest and most pairs of runs that compare a blamed commit with its parent, and standard errors that decide it.
const PAIRS: (usize, usize) = (10, 60);
const PAIRS_ERRORS: f64 = 3.0;
/// Answers that comparisons may refute before the search ends all the same.
const DOUBTED_MAX: u32 = 3;

/// A kind of range.
#[derive(Clone, Debug, Serialize)]
pub struct Range {
    pub commits: usize,
    /// Size of each change, as a share.
    pub effects: Vec<f64>,
    /// Standard deviation of a run, as a share.
    pub noise: f64,
    pub shape: Noise,
    /// Standard deviation between builds, as a share.
    pub layout: f64,
    /// Standard deviation between steps, as a share.
    pub drift: f64,
    /// Share of the commits that leave the build equal.
    pub equal: f64,
    /// Share of the commits that cannot be built; as many again lie in one block.
    pub broken: f64,
}

impl Range {
    /// 1000 commits with one change and normal noise.
    pub fn new(effect: f64, noise: f64) -> Range {
        Range {
            commits: 1000,
            effects: vec![effect],
            noise,
            shape: Noise::Normal,
            layout: 0.0,
            drift: 0.0,
            equal: 0.0,
            broken: 0.0,
        }
    }
}

/// A range drawn from its kind.
pub struct World<'a> {
    range: &'a Range,
    random: Xoshiro256PlusPlus,
    /// The culprits, in order.
    pub culprits: Vec<usize>,
    /// The commit that made the build of each.
    made_by: Vec<usize>,
    /// What the layout of each build adds.
    layouts: Vec<f64>,
    broken: BTreeSet<usize>,
}

impl World<'_> {
    pub fn new(range: &Range, seed: u64) -> World<'_> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut made_by = vec![0];
        for commit in 1..=range.commits {
            let is_equal = random.random::<f64>() < range.equal;
            made_by.push(if is_equal { made_by[commit - 1] } else { commit });
        }
        let mut culprits = BTreeSet::new();
        let makers = made_by[1..].iter().filter(|made| **made > 0).count();
        while culprits.len() < range.effects.len().min(makers) {
            let commit = random.random_range(1..=range.commits);
            if made_by[commit] == commit {
                culprits.insert(commit);
            }
        }
        let layouts = (0..=range.commits).map(|_| range.layout * gaussian(&mut random)).collect();
        let block = (range.broken * 300.0) as usize;
        let first = random.random_range(1..range.commits.saturating_sub(block).max(2));
        let is_broken = |commit: &usize| {
            block > 0
                && (random.random::<f64>() < range.broken
                    || (first..first + block).contains(commit))
        };
        let broken = (1..range.commits).filter(is_broken).collect();
        World { range, random, culprits: culprits.into_iter().collect(), made_by, layouts, broken }
    }

    /// The logarithm of a run of a commit.
    pub fn run(&mut self, commit: usize) -> f64 {
        let effects = self.culprits.iter().zip(&self.range.effects);
        let level: f64 = effects.filter(|(at, _)| **at <= commit).map(|(_, e)| e.ln_1p()).sum();
        let noise = match self.range.shape {
            Noise::Normal => gaussian(&mut self.random),
            Noise::TwoModes => {
                // A narrow core, and 30 % of the runs two deviations away.
                let is_slow = self.random.random::<f64>() < 0.3;
                let step = if is_slow { 2.13 } else { 0.0 };
                step + 0.21 * gaussian(&mut self.random)
            }
        };
        level + self.layouts[self.made_by[commit]] + self.range.noise * noise
    }

    /// Whether a commit can be built.
    pub fn can_build(&self, commit: usize) -> bool {
        !self.broken.contains(&commit)
    }

    /// Searches to the end, and never beyond a number of runs.
    pub fn search(&mut self, settings: &Settings, sees_equal_builds: bool) -> Searched {
        let commits = Commits::linear(self.range.commits);
        let weights = vec![1.0; self.range.commits + 1];
        let mut search = Search::new(commits, weights, settings.clone());
        let mut built = BTreeSet::new();
        let mut choice = Duration::ZERO;
        let (mut ends, mut doubted, mut refuting) = (0, 0, 0);
        loop {
            let since = Instant::now();
            let next = search.next_step();
            choice = choice.max(since.elapsed());
            if !search.are_ends_apart() {
                ends = search.runs();
            }
            let wanted = match next {
                Next::Answer(answer) => {
                    let runs = search.runs() - refuting;
                    let (of_others, is_borne_out) = if doubted < DOUBTED_MAX {
                        self.compared(&mut search, &answer, &mut built)
                    } else {
                        (0, true)
                    };
                    if is_borne_out {
                        let compared = refuting + of_others;
                        let builds = built.len() as u32;
                        return Searched { answer, runs, compared, builds, choice, ends };
                    }
                    doubted += 1;
                    refuting = search.runs() - runs;
                    continue;
                }
                Next::Measure(wanted) => wanted,
            };
            search.begin_step();
            let drift = self.range.drift * gaussian(&mut self.random);
            for (commit, runs) in wanted {
                if !self.can_build(commit) {
                    search.skip(commit);
                    continue;
                }
                let is_new = built.insert(commit);
                let key = self.made_by[commit].to_string();
                if is_new && sees_equal_builds && search.built(commit, &key).is_some() {
                    continue;
                }
                for _ in 0..runs {
                    search.measured(commit, drift + self.run(commit));
                }
            }
        }
    }
}

impl World<'_> {
    /// Compares blamed changes with their parents, as is done before a commit is blamed. The runs of a comparison that does
    /// not bear its change out are evidence for the search. Returns the runs of the others, and whether the answer stands.
    fn compared(
        &mut self,
        search: &mut Search,
        answer: &Answer,
        built: &mut BTreeSet<usize>,
    ) -> (u32, bool) {
        let (mut runs, mut stands) = (0, true);
        let is_higher = search.ends().is_some_and(|ends| ends.difference > 0.0);
        for change in answer.blamed() {
            let pair = [change - 1, change];
            if !pair.iter().all(|commit| self.can_build(*commit)) {
                continue;
            }
            let mut logs: [Vec<f64>; 2] = Default::default();
            while logs[0].len() < PAIRS.0 || (logs[0].len() < PAIRS.1 && !is_apart(&logs)) {
                for (commit, logs) in pair.iter().zip(&mut logs) {
                    logs.push(self.run(*commit));
                }
            }
            let is_named = matches!(answer, Answer::Named { .. });
            if is_apart(&logs) && (!is_named || (difference(&logs).0 > 0.0) == is_higher) {
                runs += 2 * logs[0].len() as u32;
                continue;
            }
            stands = false;
            search.begin_step();
            for (commit, logs) in pair.iter().zip(&logs) {
                if built.insert(*commit) {
                    search.built(*commit, &self.made_by[*commit].to_string());
                }
                logs.iter().for_each(|log| search.measured(*commit, *log));
            }
            search.grant(2 * logs[0].len() as u32);
        }
        (runs, stands)
    }
}

/// The mean difference of pairs and its standard error.
fn difference([old, new]: &[Vec<f64>; 2]) -> (f64, f64) {
    let mut all = Build::new(0);
    old.iter().zip(new).for_each(|(old, new)| all.add(new - old));
    let runs = f64::from(all.runs);
    (all.mean, (all.squares / (runs - 1.0) / runs).sqrt())
}

fn is_apart(logs: &[Vec<f64>; 2]) -> bool {
    let (mean, error) = difference(logs);
    mean.abs() > PAIRS_ERRORS * error
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Searched {
    pub answer: Answer,
    /// Runs of the search.
    pub runs: u32,
    /// Runs of comparisons of blamed commits with their parents.
    pub compared: u32,
    pub builds: u32,
    /// Runs of both ends before they were apart.
    pub ends: u32,
    /// The longest time that it took to choose what to do next.
    pub choice: Duration,
}

/// A draw from the standard normal distribution: Box and Muller's transformation.
pub fn gaussian(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}
