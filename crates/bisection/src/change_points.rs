//! How probable a change is between any two neighbours of a line of tested commits, whatever the number of changes.
//!
//! Each level between two changes is drawn from one normal distribution, each commit changes the level with one small
//! probability. Sums over all sets of changes are exact: forwards and backwards along the line (Fearnhead 2006).

use crate::evidence::{Build, within};
use crate::posterior::Layouts;

/// Changes that are expected along a line, with prior weights: most lines have none, others may have several.
const EXPECTED: &[(f64, f64)] = &[(0.05, 0.5), (3.0, 0.5)];

/// The probability of at least one change between each tested commit and the next.
#[derive(Clone, Debug)]
pub struct ChangePoints {
    pub probability: Vec<f64>,
    /// Variance of a run.
    pub variance: f64,
}

/// A tested commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// Its place among all commits.
    pub commit: usize,
    pub mean: f64,
    /// Variance of the mean, without what builds differ by.
    pub variance: f64,
}

/// What the runs of tested commits say, in the order of the commits. `size` is that of a change worth finding, as a
/// logarithm, `changes` the number of commits of the line.
pub fn change_points(
    tested: &[Build],
    changes: usize,
    size: f64,
    layouts: &Layouts,
) -> ChangePoints {
    let (variance, _) = within(tested);
    let variance = variance.max(1e-12);
    let of_build = |build: &Build| Tested {
        commit: build.commit,
        mean: build.mean,
        variance: variance / f64::from(build.runs.max(1)),
    };
    let tested: Vec<Tested> = tested.iter().map(of_build).collect();
    let (probability, _) = changes_between(&tested, changes, size, layouts);
    ChangePoints { probability, variance }
}

/// The probability of at least one change between each tested commit and the next, and that of each spread between builds.
pub fn changes_between(
    tested: &[Tested],
    changes: usize,
    size: f64,
    layouts: &Layouts,
) -> (Vec<f64>, Vec<f64>) {
    let gaps = tested.len().saturating_sub(1);
    let lines = layouts.iter().enumerate().flat_map(|(at, (layout, layout_weight))| {
        EXPECTED.iter().map(move |(expected, weight)| {
            let share = expected / changes.max(4) as f64;
            let line = Line::new(tested, share, size, *layout);
            (at, line.changes(), (layout_weight * weight).ln())
        })
    });
    let lines: Vec<(usize, (f64, Vec<f64>), f64)> = lines.collect();
    let highest = lines.iter().map(|(_, (log, _), w)| log + w).fold(f64::NEG_INFINITY, f64::max);
    let (mut probability, mut spreads) = (vec![0.0; gaps], vec![0.0; layouts.len()]);
    for (at, (log, own), weight) in &lines {
        let weight = (log + weight - highest).exp();
        spreads[*at] += weight;
        probability.iter_mut().zip(own).for_each(|(sum, p)| *sum += weight * p);
    }
    let total: f64 = spreads.iter().sum();
    probability.iter_mut().for_each(|p| *p = (*p / total).clamp(0.0, 1.0));
    spreads.iter_mut().for_each(|p| *p /= total);
    (probability, spreads)
}

/// The sums under one spread between builds.
struct Line {
    /// Sums before each commit: weights, weighted means, weighted squares.
    weights: Vec<f64>,
    means: Vec<f64>,
    squares: Vec<f64>,
    /// The logarithm of the probability of no change before each commit, and of a change in each gap.
    unchanged: Vec<f64>,
    changed: Vec<f64>,
    /// Variance of the levels.
    spread: f64,
    constant: f64,
}

impl Line {
    fn new(tested: &[Tested], share: f64, size: f64, layout: f64) -> Line {
        let weight = |build: &Tested| 1.0 / (build.variance + layout * layout);
        let total: f64 = tested.iter().map(weight).sum();
        let origin = tested.iter().map(|build| weight(build) * build.mean).sum::<f64>() / total;
        let between = tested.iter().map(|build| weight(build) * (build.mean - origin).powi(2));
        let spread = between.sum::<f64>() / total + size * size;
        let mut line = Line {
            weights: vec![0.0],
            means: vec![0.0],
            squares: vec![0.0],
            unchanged: vec![0.0],
            changed: Vec::new(),
            spread,
            constant: tested.iter().map(|build| 0.5 * weight(build).ln()).sum(),
        };
        for build in tested {
            let (w, mean) = (weight(build), build.mean - origin);
            line.weights.push(line.weights[line.weights.len() - 1] + w);
            line.means.push(line.means[line.means.len() - 1] + w * mean);
            line.squares.push(line.squares[line.squares.len() - 1] + w * mean * mean);
        }
        let stays = (-share).ln_1p();
        for pair in tested.windows(2) {
            let stays = stays * (pair[1].commit - pair[0].commit) as f64;
            line.unchanged.push(line.unchanged[line.unchanged.len() - 1] + stays);
            line.changed.push((-stays.exp_m1()).ln());
        }
        line
    }

    /// The logarithm of the probability of the runs of `low..high`, on one level.
    fn level(&self, low: usize, high: usize) -> f64 {
        let weight = self.weights[high] - self.weights[low];
        let sum = self.means[high] - self.means[low];
        let squares = self.squares[high] - self.squares[low];
        let shrunk = self.spread * sum * sum / (1.0 + self.spread * weight);
        let unchanged = self.unchanged[high - 1] - self.unchanged[low];
        -0.5 * (squares - shrunk) - 0.5 * (self.spread * weight).ln_1p() + unchanged
    }

    /// The logarithm of the probability of all runs, and the probability of a change in each gap.
    fn changes(&self) -> (f64, Vec<f64>) {
        let n = self.weights.len() - 1;
        let before = |low: usize| if low == 0 { 0.0 } else { self.changed[low - 1] };
        let mut forward = vec![0.0; n + 1];
        for high in 1..=n {
            let ways = (0..high).map(|low| forward[low] + before(low) + self.level(low, high));
            forward[high] = log_sum(ways.collect());
        }
        let mut backward = vec![0.0; n + 1];
        for low in (0..n).rev() {
            let after = |high: usize| if high == n { 0.0 } else { self.changed[high - 1] };
            let ways =
                (low + 1..=n).map(|high| self.level(low, high) + after(high) + backward[high]);
            backward[low] = log_sum(ways.collect());
        }
        let all = forward[n];
        let one = |at: usize| (forward[at] + self.changed[at - 1] + backward[at] - all).exp();
        (all + self.constant, (1..n).map(one).collect())
    }
}

fn log_sum(logs: Vec<f64>) -> f64 {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    highest + logs.iter().map(|log| (log - highest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::change_points;
    use crate::evidence::Build;
    use crate::posterior::LAYOUT_UNKNOWN;

    fn probabilities(levels: &[f64]) -> Vec<f64> {
        let build = |(index, level): (usize, &f64)| {
            let mut build = Build::new(10 * index);
            [-0.01, 0.01, 0.0, 0.005].iter().for_each(|noise| build.add(level + noise));
            build
        };
        let tested: Vec<Build> = levels.iter().enumerate().map(build).collect();
        change_points(&tested, 100, 0.05, LAYOUT_UNKNOWN).probability
    }

    #[test]
    fn changes_are_probable_where_levels_differ_and_nowhere_else() {
        let found = probabilities(&[0.0, 0.0, 0.0, 0.06, 0.06, 0.06, 0.0, 0.0, 0.0]);
        for (gap, p) in found.iter().enumerate() {
            assert!(if gap == 2 || gap == 5 { *p > 0.95 } else { *p < 0.1 }, "{gap}: {found:?}");
        }
        let none = probabilities(&[0.0; 9]);
        assert!(none.iter().all(|p| *p < 0.02), "{none:?}");
    }

    #[test]
    fn a_commit_with_both_neighbours_alike_leaves_both_gaps_unsure() {
        // Its level lies between the two sides.
        let found = probabilities(&[0.0, 0.0, 0.0, 0.03, 0.06, 0.06, 0.06]);
        assert!(found[2] + found[3] > 0.9, "{found:?}");
    }
}
