//! Whether one change explains the runs, or two do better.

use crate::evidence::Build;
use crate::partition::{Partition, Segment};
use crate::posterior::{Ground, Layouts, Posterior, Sums, ratios};

/// Prior odds of two changes against one.
const ODDS: f64 = 0.05;

/// Most segments of which pairs are compared.
const SEGMENTS_MAX: usize = 80;

/// The probability of two changes, against one. `one` is the posterior of one change.
pub fn two_changes(
    builds: &[Build],
    partition: &Partition,
    layouts: &Layouts,
    one: &Posterior,
) -> f64 {
    // On a graph there may be thousands; two changes in small ones are improbable.
    let mut segments: Vec<&Segment> = partition.segments.iter().collect();
    segments.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    segments.truncate(SEGMENTS_MAX);
    let total: f64 = segments.iter().map(|segment| segment.weight).sum();
    // The level between lies anywhere near the two.
    let spread = one.distance().powi(2).max(1.0);
    let mut logs = Vec::new();
    for (layout, prior) in ratios(builds, layouts) {
        let ground = Ground::new(builds, layout);
        for (a, first) in segments.iter().enumerate() {
            for second in &segments[a + 1..] {
                let groups = [&first.contained, &second.contained];
                let Some(log) = log_pair(&ground, groups, spread) else { continue };
                let prior = 2.0 * prior * ODDS * first.weight * second.weight / (total * total);
                logs.push(log + prior.ln());
            }
        }
    }
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !highest.is_finite() {
        return 0.0;
    }
    let two = highest + logs.iter().map(|log| (log - highest).exp()).sum::<f64>().ln();
    1.0 / (1.0 + (one.evidence - two).exp())
}

/// The logarithm of the runs' probability under two changes; `None` if no build tells them from one change.
fn log_pair(ground: &Ground, contained: [&Vec<bool>; 2], spread: f64) -> Option<f64> {
    let mut sums = [Sums::default(); 4];
    let sides = contained[0].iter().zip(contained[1]);
    for (point, (first, second)) in ground.points().iter().zip(sides) {
        sums[usize::from(*first) + 2 * usize::from(*second)].add(*point);
    }
    let [neither, first, second, both] = sums;
    let between: Vec<&Sums> = [&first, &second].into_iter().filter(|s| s.weight > 0.0).collect();
    if between.is_empty() {
        return None;
    }
    let middle = (neither.mean() + both.mean()) / 2.0;
    let mut squares = neither.squares() + both.squares();
    let mut penalty = 0.0;
    for sums in between {
        let shrunk = 1.0 + sums.weight * spread;
        squares += sums.squares() + (sums.mean() - middle).powi(2) * sums.weight / shrunk;
        penalty += 0.5 * shrunk.ln();
    }
    Some(ground.log_evidence(squares, &[neither, both]) - penalty)
}

#[cfg(test)]
mod tests {
    use super::two_changes;
    use crate::commits::Commits;
    use crate::evidence::Build;
    use crate::partition::Partition;
    use crate::posterior::{LAYOUT_UNKNOWN, posterior};

    fn probability_of_two(levels: &[(usize, f64)]) -> f64 {
        let commits = Commits::linear(10);
        let mut partition = Partition::new(vec![1.0; 11]);
        let mut builds = Vec::new();
        for (commit, level) in levels {
            let mut build = Build::new(*commit);
            [-0.01, 0.0, 0.01, 0.0].iter().for_each(|noise| build.add(level + noise));
            builds.push(build);
            partition.split(commits.contained(*commit));
        }
        let one = posterior(&builds, &partition, LAYOUT_UNKNOWN);
        two_changes(&builds, &partition, LAYOUT_UNKNOWN, &one)
    }

    #[test]
    fn a_level_between_needs_two_changes() {
        let two = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.05), (4, 0.05), (6, 0.05)]);
        assert!(two > 0.9, "{two}");
        let one = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.1), (4, 0.0), (6, 0.1)]);
        assert!(one < 0.05, "{one}");
    }
}
