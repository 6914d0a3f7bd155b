//! Simulated ranges of commits, whose culprits are known.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::bisected::{Bisected, COMPARED_MAX, Comparing, Drawn, Relinked, bisected};
use crate::commits::Commits;
use crate::search::{Search, Settings};

/// How runs of one build differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    Normal,
    /// Two modes: 30 % of the runs are slow. Standard deviation as asked for.
    TwoModes,
    /// As CPU time by ticks: one run in five is lower by 6 %, when a tick of the program found it in the kernel. The standard
    /// deviation is that of the other runs.
    Ticks,
}

/// What a tick takes from a run, as a logarithm, and how often.
const TICK: f64 = 0.06;
const TICKS_SHARE: f64 = 0.2;

/// Comparisons of blamed changes with their parents, by the rule that decides real ones.
const COMPARING: Comparing = Comparing {
    margin: 0.01,
    without: false,
    relinked: Some(Relinked { layouts: 4, runs: 10 }),
    times: COMPARED_MAX,
};

/// A kind of range.
#[derive(Clone, Debug, Serialize, JsonSchema)]
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
    /// What other layouts of a commit add.
    other_layouts: BTreeMap<(usize, u32), f64>,
    broken: BTreeSet<usize>,
    /// Whether equal builds are recognised.
    sees_equal_builds: bool,
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
        World {
            range,
            random,
            culprits: culprits.into_iter().collect(),
            made_by,
            layouts,
            other_layouts: BTreeMap::new(),
            broken,
            sees_equal_builds: true,
        }
    }

    /// Bisects to the end.
    pub fn search(&mut self, settings: &Settings, sees_equal_builds: bool) -> Bisected {
        let commits = Commits::linear(self.range.commits);
        let weights = vec![1.0; self.range.commits + 1];
        let mut search = Search::new(commits, weights, settings.clone());
        self.sees_equal_builds = sees_equal_builds;
        bisected(&mut search, self, Some(COMPARING))
    }
}

impl Drawn for World<'_> {
    fn run_laid_out(&mut self, commit: usize, layout: u32) -> f64 {
        let contained = self.culprits.iter().filter(|culprit| **culprit <= commit);
        let level: f64 = contained.map(|culprit| self.size(*culprit)).sum();
        let noise = match self.range.shape {
            Noise::Normal | Noise::Ticks => gaussian(&mut self.random),
            Noise::TwoModes => two_modes(&mut self.random),
        };
        let tick = match self.range.shape {
            Noise::Ticks if self.random.random::<f64>() < TICKS_SHARE => -TICK,
            Noise::Normal | Noise::TwoModes | Noise::Ticks => 0.0,
        };
        let made_by = self.made_by[commit];
        let adds = match layout {
            0 => self.layouts[made_by],
            _ => {
                let World { range, random, .. } = self;
                let of_build = self.other_layouts.entry((made_by, layout));
                *of_build.or_insert_with(|| range.layout * gaussian(random))
            }
        };
        level + adds + tick + self.range.noise * noise
    }

    fn drift(&mut self) -> f64 {
        self.range.drift * gaussian(&mut self.random)
    }

    fn size(&self, change: usize) -> f64 {
        let culprit = self.culprits.iter().position(|culprit| *culprit == change);
        culprit.map_or(0.0, |culprit| self.range.effects[culprit].ln_1p())
    }

    fn can_build(&self, commit: usize) -> bool {
        !self.broken.contains(&commit)
    }

    fn key(&self, commit: usize) -> Option<String> {
        self.sees_equal_builds.then(|| self.made_by[commit].to_string())
    }

    fn disturbs(&mut self) -> bool {
        false
    }
}

/// A draw of standard deviation 1 with two modes: a narrow core, and 30 % of the runs two deviations away.
pub fn two_modes(random: &mut Xoshiro256PlusPlus) -> f64 {
    let is_slow = random.random::<f64>() < 0.3;
    let step = if is_slow { 2.13 } else { 0.0 };
    step + 0.21 * gaussian(random)
}

/// A draw from the standard normal distribution: Box and Muller's transformation.
pub fn gaussian(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}
