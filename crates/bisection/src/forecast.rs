//! How many runs and builds a search will take, before it starts.

use schemars::JsonSchema;
use serde::Serialize;

/// What a search takes on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Forecast {
    /// Runs of the search, without comparisons of what it blames.
    pub runs: f64,
    /// Builds of the search.
    pub builds: f64,
    /// Size of the change in standard deviations of a run.
    pub distance: f64,
}

impl Forecast {
    /// For a number of candidates and a distance, as fitted to simulated searches.
    pub fn new(candidates: usize, distance: f64, runs_min: u32) -> Forecast {
        let candidates = candidates.max(1) as f64;
        let halvings = candidates.log2().ceil() + 2.0;
        let builds = (halvings + 12.0 / distance.powf(1.5)).min(candidates + 1.0);
        let by_noise = (8.0 * (20.0 * candidates).ln() + 64.0) / distance.powi(2);
        // The two ends take four pairs, and each halving its fewest runs.
        let by_halving = 8.0 + (halvings - 2.0) * f64::from(runs_min);
        Forecast { runs: by_noise.max(by_halving), builds, distance }
    }
}

#[cfg(test)]
mod tests {
    use super::Forecast;

    #[test]
    fn halving_the_distance_takes_four_times_the_runs() {
        let [one, half] = [1.0, 0.5].map(|distance| Forecast::new(1000, distance, 3));
        assert!((one.runs - 143.2).abs() < 0.1 && (half.runs / one.runs - 4.0).abs() < 1e-9);
        assert!((one.builds - 24.0).abs() < 0.1, "{}", one.builds);
        assert!((Forecast::new(1000, 40.0, 3).runs - 38.0).abs() < 0.1);
        assert!(Forecast::new(3, 0.1, 3).builds <= 4.0);
    }
}
