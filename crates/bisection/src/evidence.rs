//! What was measured: runs as logarithms of the metric, summed up by build and step. The runs of a step follow each
//! other at once, so a host that drifts between steps moves them together.

use schemars::JsonSchema;
use serde::Serialize;

/// The runs of one build. Equal builds of several commits are one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Build {
    /// The commit that it was first built for.
    pub commit: usize,
    /// 0 as the commit is built; others are linked in other layouts.
    #[serde(skip_serializing_if = "is_plain")]
    pub layout: u32,
    /// Number of runs.
    pub runs: u32,
    /// Mean of the logarithms.
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    pub squares: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_plain(layout: &u32) -> bool {
    *layout == 0
}

impl Build {
    /// A build without runs.
    pub fn new(commit: usize) -> Build {
        Build { commit, layout: 0, runs: 0, mean: 0.0, squares: 0.0 }
    }

    /// Adds the logarithm of a run's value.
    pub fn add(&mut self, log: f64) {
        self.runs += 1;
        let before = log - self.mean;
        self.mean += before / f64::from(self.runs);
        self.squares += before * (log - self.mean);
    }

    /// The weight of its mean in runs: `layout` is the variance between builds over that of runs.
    pub fn weight(&self, layout: f64) -> f64 {
        1.0 / (layout + 1.0 / f64::from(self.runs))
    }
}

/// The pooled variance of single runs within their builds and its degrees of freedom.
pub fn within(builds: &[Build]) -> (f64, u32) {
    let freedom: u32 = builds.iter().map(|build| build.runs.saturating_sub(1)).sum();
    let squares: f64 = builds.iter().map(|build| build.squares).sum();
    (squares / f64::from(freedom.max(1)), freedom)
}

/// The runs of one build in one step.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub build: usize,
    pub step: usize,
    /// Their sums; the commit is that of the build.
    pub sums: Build,
}

/// All runs.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    builds: Vec<Build>,
    cells: Vec<Cell>,
    steps: usize,
}

impl Evidence {
    /// Builds without runs.
    pub fn new(commits: &[usize]) -> Evidence {
        let builds = commits.iter().map(|commit| Build::new(*commit)).collect();
        Evidence { builds, ..Evidence::default() }
    }

    /// Adds a build without runs; returns its index.
    pub fn push(&mut self, commit: usize) -> usize {
        self.push_laid_out(commit, 0)
    }

    /// Adds a build without runs that was linked in a layout of its own; returns its index.
    pub fn push_laid_out(&mut self, commit: usize, layout: u32) -> usize {
        self.builds.push(Build { layout, ..Build::new(commit) });
        self.builds.len() - 1
    }

    /// The runs to come are of a new step.
    pub fn begin_step(&mut self) {
        self.steps += 1;
    }

    /// Adds the logarithm of a run's value.
    pub fn add(&mut self, build: usize, log: f64) {
        self.builds[build].add(log);
        let step = self.steps;
        let own = |cell: &&mut Cell| cell.step == step && cell.build == build;
        match self.cells.iter_mut().rev().take_while(|cell| cell.step == step).find(own) {
            Some(cell) => cell.sums.add(log),
            None => {
                let mut sums = Build::new(self.builds[build].commit);
                sums.add(log);
                self.cells.push(Cell { build, step, sums });
            }
        }
    }

    /// The runs by build, whenever they were made.
    pub fn builds(&self) -> &[Build] {
        &self.builds
    }

    /// All cells, those of a step next to each other.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells of each step.
    pub fn by_step(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.step == b.step)
    }

    /// All runs.
    pub fn runs(&self) -> u32 {
        self.builds.iter().map(|build| build.runs).sum()
    }

    /// The variance of a run without what moves all runs of a step, and its degrees of freedom. Where a step has several
    /// builds, the differences of their means tell, too: those of builds 0 and 1, which steps have together most often.
    pub fn variance(&self) -> (f64, u32) {
        let mut squares: f64 = self.cells.iter().map(|cell| cell.sums.squares).sum();
        let mut freedom: u32 = self.cells.iter().map(|cell| cell.sums.runs - 1).sum();
        let pairs: Vec<(f64, f64)> =
            self.pairs().map(|pair| (pair.weight(), pair.difference())).collect();
        let weight: f64 = pairs.iter().map(|(weight, _)| weight).sum();
        let mean =
            pairs.iter().map(|(weight, difference)| weight * difference).sum::<f64>() / weight;
        if pairs.len() > 1 {
            squares += pairs.iter().map(|(weight, d)| weight * (d - mean).powi(2)).sum::<f64>();
            freedom += pairs.len() as u32 - 1;
        }
        (squares / f64::from(freedom.max(1)), freedom)
    }

    /// Runs of the steps after the last one that has runs of both ends.
    pub fn runs_since_pair(&self) -> u32 {
        self.by_step().fold(0, |since, cells| {
            let has = |build: usize| cells.iter().any(|cell| cell.build == build);
            let runs: u32 = cells.iter().map(|cell| cell.sums.runs).sum();
            if has(0) && has(1) { 0 } else { since + runs }
        })
    }

    /// The steps that have runs of both ends.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.by_step().filter_map(|cells| {
            let of = |build: usize| cells.iter().find(|cell| cell.build == build);
            Some(Pair { ends: [of(0)?.sums, of(1)?.sums] })
        })
    }
}

/// The runs of both ends in one step.
pub struct Pair {
    pub ends: [Build; 2],
}

impl Pair {
    /// Bad minus good.
    pub fn difference(&self) -> f64 {
        self.ends[1].mean - self.ends[0].mean
    }

    /// The weight of the difference, in runs.
    pub fn weight(&self) -> f64 {
        let [good, bad] = self.ends.map(|end| f64::from(end.runs));
        good * bad / (good + bad)
    }
}

#[cfg(test)]
mod tests {
    use super::{Build, Evidence, within};

    #[test]
    fn runs_add_up() {
        let mut build = Build::new(3);
        [1.0, 2.0, 6.0].iter().for_each(|value| build.add(*value));
        assert_eq!((build.runs, build.mean, build.squares), (3, 3.0, 14.0));
        assert_eq!(within(&[build, Build::new(4)]), (7.0, 2));
        assert_eq!(build.weight(0.0), 3.0);
        assert!((build.weight(1.0) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn what_moves_a_step_is_no_noise_of_runs() {
        let mut evidence = Evidence::new(&[0, 9]);
        for (step, drift) in [0.0, 5.0, -3.0, 1.0].into_iter().enumerate() {
            evidence.begin_step();
            evidence.add(0, drift);
            evidence.add(1, drift + 1.0 + if step % 2 == 0 { 0.1 } else { -0.1 });
        }
        let (variance, freedom) = evidence.variance();
        // Half the variance of the differences.
        assert!((variance - 0.02 / 3.0).abs() < 1e-12 && freedom == 3, "{variance}");
        assert_eq!((evidence.by_step().count(), evidence.runs()), (4, 8));
        evidence.begin_step();
        evidence.add(1, 0.0);
        assert_eq!(evidence.runs_since_pair(), 1);
    }
}
