//! Simulated lines of points, whose changes are known.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{
    COMPARED_LAYOUTS, ComparedPair, Comparison, GapIs, LAYOUTS_A_STEP, MeasuredBuild, POINT_BLOCKS,
    PairSums, Relinking, STEP_PAIRS, Watched, unchanged,
};
use crate::simulated::{gaussian, two_modes};

/// A kind of line.
#[derive(Clone, Debug)]
pub struct LineKind {
    pub points: usize,
    /// What changes the program: the point that has it first, and its size as a share.
    pub changes: Vec<(usize, f64)>,
    /// A step of the host before a point, as a share.
    pub host_step: Option<(usize, f64)>,
    /// Standard deviation of the host's drift from one point to the next, as a share.
    pub host_drift: f64,
    /// Standard deviation between builds, and between layouts of one, as a share.
    pub layout: f64,
    /// Whether 30 % of the runs are of a slow mode, with the same standard deviation.
    pub two_modes: bool,
    /// Series of the line, of which this is one.
    pub series: usize,
}

/// Standard deviation of a run, as a share.
const NOISE: f64 = 0.03;
/// Part of what the host does that a build shows more or less of than others, as a standard deviation.
const RESPONSE: f64 = 0.04;
/// Layouts of a build: the compiler's own, and those in which neighbours are compared.
const LAYOUTS: usize = 1 + COMPARED_LAYOUTS as usize;
/// The smallest change that matters.
pub const SMALLEST: f64 = 0.02;

/// A line on a noisy host.
pub struct World {
    random: Xoshiro256PlusPlus,
    /// Level of each build and layout, as a logarithm; the anchor's is the last.
    levels: Vec<[f64; LAYOUTS]>,
    /// What the host does to a build when each point is measured, beside the share that a build shows of it.
    host: Vec<f64>,
    response: Vec<f64>,
    two_modes: bool,
    /// Number of runs so far.
    pub runs: u32,
}

impl World {
    pub fn new(kind: &LineKind, seed: u64) -> World {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let level = |point: usize| -> f64 {
            kind.changes.iter().filter(|(at, _)| point >= *at).map(|(_, size)| size.ln_1p()).sum()
        };
        let anchor = kind.points;
        let mut levels = Vec::new();
        for point in 0..=anchor {
            let level = if point == anchor { 0.0 } else { level(point) };
            levels.push(std::array::from_fn(|_| level + kind.layout * gaussian(&mut random)));
        }
        let response = (0..=anchor).map(|_| 1.0 + RESPONSE * gaussian(&mut random)).collect();
        let mut drift = 0.0;
        let mut host = Vec::new();
        for point in 0..kind.points {
            drift += kind.host_drift * gaussian(&mut random);
            let step = kind.host_step.filter(|(at, _)| point >= *at);
            host.push(drift + step.map_or(0.0, |(_, size)| size.ln_1p()));
        }
        World { random, levels, host, response, two_modes: kind.two_modes, runs: 0 }
    }

    pub fn points(&self) -> usize {
        self.host.len()
    }

    fn anchor(&self) -> usize {
        self.host.len()
    }

    /// The logarithm of a run's time, when point `now` is the newest.
    fn run(&mut self, build: usize, layout: usize, now: usize) -> f64 {
        self.runs += 1;
        let noise =
            if self.two_modes { two_modes(&mut self.random) } else { gaussian(&mut self.random) };
        self.levels[build][layout] + self.host[now] * self.response[build] + NOISE * noise
    }

    /// The runs of a new point alone, on absolute values.
    pub fn alone(&mut self, point: usize) -> Vec<f64> {
        (0..POINT_BLOCKS).map(|_| self.run(point, 0, point)).collect()
    }
}

/// A watcher at work.
pub struct Watcher {
    pub builds: Vec<MeasuredBuild>,
    gaps: Vec<Gap>,
    /// Runs of comparisons when the newest point came.
    pub compared_runs: u32,
    /// Comparisons in all.
    pub compared: u32,
    series: usize,
}

/// What a watcher knows of a gap.
#[derive(Clone, Default)]
struct Gap {
    is_changed: bool,
    /// How many builds followed it when it was found unchanged.
    followed: Vec<usize>,
}

impl Watcher {
    /// The watcher of one of so many series.
    pub fn new(series: usize) -> Watcher {
        Watcher { builds: Vec::new(), gaps: Vec::new(), compared_runs: 0, compared: 0, series }
    }

    /// Measures the next point, and compares what is suspected then.
    pub fn add(&mut self, world: &mut World) {
        let point = self.builds.len();
        if point > 0 {
            self.gaps.push(Gap::default());
        }
        let mut beside_anchor = PairSums::default();
        for _ in 0..POINT_BLOCKS {
            let anchor = world.run(world.anchor(), 0, point);
            beside_anchor.add(anchor, world.run(point, 0, point));
        }
        self.builds.push(MeasuredBuild { session: point, beside_anchor });
        let before = world.runs;
        loop {
            let known = self.known();
            let watched = Watched {
                builds: &self.builds,
                gaps: &known,
                smallest: SMALLEST,
                series: self.series,
            };
            let Some(suspect) = watched.next_suspect() else { break };
            self.compared += 1;
            let gap = suspect.before;
            let is_changed = compare(world, &watched.comparison(gap), gap, point);
            self.gaps[gap].is_changed = is_changed;
            self.gaps[gap].followed.push(point - gap);
        }
        self.compared_runs = world.runs - before;
    }

    fn known(&self) -> Vec<GapIs> {
        let of = |(at, gap): (usize, &Gap)| {
            if gap.is_changed {
                GapIs::Changed
            } else {
                unchanged(&gap.followed, self.builds.len() - 1 - at)
            }
        };
        self.gaps.iter().enumerate().map(of).collect()
    }

    /// The points that begin a new level.
    pub fn changes(&self) -> Vec<usize> {
        let is_changed = |gap: &usize| self.gaps[*gap].is_changed;
        (0..self.gaps.len()).filter(is_changed).map(|gap| gap + 1).collect()
    }
}

/// Compares two neighbours as the watcher does: as they are, and once that is worth it, in other layouts.
fn compare(world: &mut World, comparison: &Comparison, before: usize, now: usize) -> bool {
    let session = u32::from(now != before + 1);
    let mut pairs: Vec<ComparedPair> = Vec::new();
    let mut next_layout = 0;
    loop {
        let so_far = comparison.so_far(&pairs, Relinking::Possible);
        if so_far.stop {
            return so_far.is_changed;
        }
        let in_layouts = next_layout > 0 || so_far.worth_layouts;
        for _ in 0..if in_layouts { LAYOUTS_A_STEP } else { STEP_PAIRS } {
            next_layout = if in_layouts { next_layout % COMPARED_LAYOUTS + 1 } else { 0 };
            let layout = next_layout as usize;
            let older = world.run(before, layout, now);
            let newer = world.run(before + 1, layout, now);
            pairs.push(ComparedPair { layout: next_layout, session, older, newer });
        }
    }
}
