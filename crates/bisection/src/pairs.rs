//! Whether one change explains the runs, or two do better.

use crate::evidence::Evidence;
use crate::ground::{Ground, inverted, sum_of};
use crate::partition::{Partition, Segment};
use crate::posterior::{Layouts, Posterior, spreads};

/// Prior odds of two changes against one.
const ODDS: f64 = 0.05;

/// Most segments of which pairs are compared.
const SEGMENTS_MAX: usize = 80;

/// The probability of two changes, against one. `one` is the posterior of one change.
pub fn two_changes(
    evidence: &Evidence,
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
    // A drift says nothing about levels between, unlike a layout.
    let is_likely = |drift: f64| one.drifts.iter().any(|(known, p)| *known == drift && *p > 0.05);
    for spreads in spreads(evidence, layouts).iter().filter(|spreads| is_likely(spreads.drift)) {
        let sums = PairSums::new(Ground::new(evidence, spreads.layout, spreads.drift), &segments);
        for (a, first) in segments.iter().enumerate() {
            for (b, second) in segments.iter().enumerate().skip(a + 1) {
                let Some(log) = sums.log_evidence(a, b, spread) else { continue };
                let prior =
                    2.0 * spreads.weight * ODDS * first.weight * second.weight / (total * total);
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

/// Sums over the builds that contain the changes of segments.
struct PairSums<'a> {
    ground: Ground,
    segments: &'a [&'a Segment],
    /// The precision between the builds of two segments, and between those of one and all.
    between: Vec<f64>,
    with_all: Vec<f64>,
    information: Vec<f64>,
    all: (f64, f64),
}

impl<'a> PairSums<'a> {
    fn new(ground: Ground, segments: &'a [&'a Segment]) -> PairSums<'a> {
        let everything = vec![true; segments.first().map_or(0, |segment| segment.contained.len())];
        let rows: Vec<Vec<f64>> =
            segments.iter().map(|segment| ground.row_sums(&segment.contained)).collect();
        let mut between = vec![0.0; segments.len() * segments.len()];
        for a in 0..segments.len() {
            for (b, second) in segments.iter().enumerate().skip(a) {
                let of_both = sum_of(&rows[a], &second.contained);
                between[a * segments.len() + b] = of_both;
                between[b * segments.len() + a] = of_both;
            }
        }
        let with_all = rows.iter().map(|row| row.iter().sum()).collect();
        let information =
            segments.iter().map(|segment| ground.group_information(&segment.contained)).collect();
        let all =
            (ground.group_sums(&everything, &everything), ground.group_information(&everything));
        PairSums { between, with_all, information, all, ground, segments }
    }

    /// The logarithm of the runs' probability under two changes; `None` if no build tells them from one change. The
    /// level of builds with one of both lies near the middle of the others.
    fn log_evidence(&self, a: usize, b: usize, spread: f64) -> Option<f64> {
        let [first, second] = [a, b].map(|index| &self.segments[index].contained);
        let pairs = || first.iter().zip(second);
        let [has_first, has_second] =
            [pairs().any(|(x, y)| *x && !*y), pairs().any(|(x, y)| *y && !*x)];
        match (has_first, has_second) {
            (false, false) => None,
            (true, false) => Some(self.nested(a, b, spread)),
            (false, true) => Some(self.nested(b, a, spread)),
            (true, true) => Some(self.apart(first, second, spread)),
        }
    }

    /// All builds with the change of segment `inner` have that of `outer`, too.
    fn nested(&self, outer: usize, inner: usize, spread: f64) -> f64 {
        let at = |a: usize, b: usize| self.between[a * self.segments.len() + b];
        let [oo, oi, ii] = [at(outer, outer), at(outer, inner), at(inner, inner)];
        let [ao, ai] = [self.with_all[outer], self.with_all[inner]];
        // Neither, both, only the outer one.
        let neither = [self.all.0 - 2.0 * ao + oo, ai - oi, ao - ai - oo + oi];
        let both = [ai - oi, ii, oi - ii];
        let one = [ao - ai - oo + oi, oi - ii, oo - 2.0 * oi + ii];
        let precision = [neither, both, one].concat();
        let [o, i] = [self.information[outer], self.information[inner]];
        self.log_of(precision, &[self.all.1 - o, i, o - i], spread)
    }

    /// Builds exist with each change alone.
    fn apart(&self, first: &[bool], second: &[bool], spread: f64) -> f64 {
        let group = |in_first: bool, in_second: bool| -> Vec<bool> {
            first.iter().zip(second).map(|(x, y)| *x == in_first && *y == in_second).collect()
        };
        let groups =
            [group(false, false), group(true, true), group(true, false), group(false, true)];
        let sums = groups.iter().flat_map(|a| groups.iter().map(|b| self.ground.group_sums(a, b)));
        let information: Vec<f64> =
            groups.iter().map(|group| self.ground.group_information(group)).collect();
        self.log_of(sums.collect(), &information, spread)
    }

    /// Levels of builds with neither change, with both, then with one: these have the middle of the first two as their
    /// mean and `spread` as their variance.
    fn log_of(&self, mut precision: Vec<f64>, information: &[f64], spread: f64) -> f64 {
        let n = information.len();
        for level in 2..n {
            let off = |at: usize| match at {
                0 | 1 => -0.5,
                at if at == level => 1.0,
                _ => 0.0,
            };
            (0..n * n).for_each(|at| precision[at] += off(at / n) * off(at % n) / spread);
        }
        let (inverse, log_determinant) = inverted(&precision, n);
        let explained: f64 =
            (0..n * n).map(|at| inverse[at] * information[at / n] * information[at % n]).sum();
        let log_levels = log_determinant + (n - 2) as f64 * spread.ln();
        self.ground.log_evidence(explained, log_levels)
    }
}

#[cfg(test)]
mod tests {
    use super::two_changes;
    use crate::commits::Commits;
    use crate::evidence::Evidence;
    use crate::partition::Partition;
    use crate::posterior::{LAYOUT_UNKNOWN, posterior};

    fn probability_of_two(levels: &[(usize, f64)]) -> f64 {
        let commits = Commits::linear(10);
        let mut partition = Partition::new(vec![1.0; 11]);
        let mut evidence = Evidence::default();
        evidence.begin_step();
        for (commit, level) in levels {
            let build = evidence.push(*commit);
            [-0.01, 0.0, 0.01, 0.0].iter().for_each(|noise| evidence.add(build, level + noise));
            partition.split(commits.contained(*commit));
        }
        let one = posterior(&evidence, &partition, LAYOUT_UNKNOWN);
        two_changes(&evidence, &partition, LAYOUT_UNKNOWN, &one)
    }

    #[test]
    fn a_level_between_needs_two_changes() {
        let two = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.05), (4, 0.05), (6, 0.05)]);
        assert!(two > 0.9, "{two}");
        let one = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.1), (4, 0.0), (6, 0.1)]);
        assert!(one < 0.05, "{one}");
    }
}
