//! What was measured of one build: runs as logarithms of the metric, summed up.

use serde::Serialize;

/// The runs of one build. Equal builds of several commits are one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Build {
    /// The commit that it was first built for.
    pub commit: usize,
    pub runs: u32,
    /// Mean of the logarithms.
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    pub squares: f64,
}

impl Build {
    /// A build without runs.
    pub fn new(commit: usize) -> Build {
        Build { commit, runs: 0, mean: 0.0, squares: 0.0 }
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

#[cfg(test)]
mod tests {
    use super::{Build, within};

    #[test]
    fn runs_add_up() {
        let mut build = Build::new(3);
        [1.0, 2.0, 6.0].iter().for_each(|value| build.add(*value));
        assert_eq!((build.runs, build.mean, build.squares), (3, 3.0, 14.0));
        assert_eq!(within(&[build, Build::new(4)]), (7.0, 2));
        assert_eq!(build.weight(0.0), 3.0);
        assert!((build.weight(1.0) - 0.75).abs() < 1e-12);
    }
}
