//! Whether one change explains the runs, or two do better.

use crate::ground::{Ground, sum_of};
use crate::partition::{Partition, Segment};
use crate::posterior::{Grounds, Posterior};

/// Prior odds of two changes against one.
const ODDS: f64 = 0.05;

/// Most segments of which pairs are compared.
const SEGMENTS_MAX: usize = 80;

/// The probability of two changes, against one. `one` is the posterior of one change.
pub(crate) fn two_changes(grounds: &Grounds, partition: &Partition, one: &Posterior) -> f64 {
    // On a graph there may be thousands; two changes in small ones are improbable.
    let mut segments: Vec<&Segment> = partition.segments.iter().collect();
    segments.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    segments.truncate(SEGMENTS_MAX);
    let total: f64 = segments.iter().map(|segment| segment.weight).sum();
    // The level between lies anywhere near the two.
    let spread = one.distance().powi(2).max(1.0);
    let log_shares: Vec<f64> =
        segments.iter().map(|segment| (segment.weight / total).ln()).collect();
    let mut logs = Vec::new();
    // A drift says nothing about levels between, unlike a layout.
    let is_likely = |drift: f64| one.drifts.iter().any(|(known, p)| *known == drift && *p > 0.05);
    for (spreads, ground) in grounds.0.iter().filter(|(spreads, _)| is_likely(spreads.drift)) {
        let log_prior = (2.0 * spreads.weight * ODDS).ln();
        let sums = PairSums::new(ground, &segments);
        for a in 0..segments.len() {
            for b in a + 1..segments.len() {
                let Some(log) = sums.log_evidence(a, b, spread) else { continue };
                logs.push(log + log_prior + log_shares[a] + log_shares[b]);
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
    ground: &'a Ground,
    segments: &'a [&'a Segment],
    /// The precision between the builds of two segments, and between those of one and all.
    between: Vec<f64>,
    with_all: Vec<f64>,
    information: Vec<f64>,
    all: (f64, f64),
}

impl<'a> PairSums<'a> {
    fn new(ground: &'a Ground, segments: &'a [&'a Segment]) -> PairSums<'a> {
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
        let precision = [
            [self.all.0 - 2.0 * ao + oo, ai - oi, ao - ai - oo + oi],
            [ai - oi, ii, oi - ii],
            [ao - ai - oo + oi, oi - ii, oo - 2.0 * oi + ii],
        ];
        let [o, i] = [self.information[outer], self.information[inner]];
        self.log_of(precision, [self.all.1 - o, i, o - i], spread)
    }

    /// Builds exist with each change alone.
    fn apart(&self, first: &[bool], second: &[bool], spread: f64) -> f64 {
        let group = |in_first: bool, in_second: bool| -> Vec<bool> {
            first.iter().zip(second).map(|(x, y)| *x == in_first && *y == in_second).collect()
        };
        let groups =
            [group(false, false), group(true, true), group(true, false), group(false, true)];
        let precision =
            groups.each_ref().map(|a| groups.each_ref().map(|b| self.ground.group_sums(a, b)));
        let information = groups.each_ref().map(|group| self.ground.group_information(group));
        self.log_of(precision, information, spread)
    }

    /// Levels of builds with neither change, with both, then with one: these have the middle of the first two as their
    /// mean and `spread` as their variance.
    fn log_of<const N: usize>(
        &self,
        mut precision: [[f64; N]; N],
        information: [f64; N],
        spread: f64,
    ) -> f64 {
        for level in 2..N {
            let off = |at: usize| match at {
                0 | 1 => -0.5,
                at if at == level => 1.0,
                _ => 0.0,
            };
            for (row, entries) in precision.iter_mut().enumerate() {
                let prior = |column: usize| off(row) * off(column) / spread;
                entries.iter_mut().enumerate().for_each(|(column, entry)| *entry += prior(column));
            }
        }
        let (explained, determinant) = best_levels(&precision, information);
        let log_levels = (determinant * spread.powi(N as i32 - 2)).ln();
        self.ground.log_evidence(explained, log_levels)
    }
}

/// What the best levels explain of the squares, and the determinant of their precision: with Cholesky's factor L and the
/// information h, |L^-1 h|^2 and the product of the squares on the diagonal of L. There are thousands of pairs, so nothing
/// is allocated.
fn best_levels<const N: usize>(precision: &[[f64; N]; N], information: [f64; N]) -> (f64, f64) {
    let mut factor = [[0.0; N]; N];
    let mut solved = [0.0; N];
    let (mut explained, mut determinant) = (0.0, 1.0);
    for i in 0..N {
        for j in 0..i {
            let known: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            factor[i][j] = (precision[i][j] - known) / factor[j][j];
        }
        let known: f64 = factor[i][..i].iter().map(|entry| entry * entry).sum();
        let square = (precision[i][i] - known).max(1e-60);
        factor[i][i] = square.sqrt();
        let known: f64 =
            factor[i][..i].iter().zip(&solved).map(|(entry, known)| entry * known).sum();
        solved[i] = (information[i] - known) / factor[i][i];
        explained += solved[i] * solved[i];
        determinant *= square;
    }
    (explained, determinant)
}

#[cfg(test)]
mod tests {
    use super::{best_levels, two_changes};
    use crate::commits::Commits;
    use crate::evidence::Evidence;
    use crate::ground::inverted;
    use crate::partition::Partition;
    use crate::posterior::{Grounds, LAYOUT_UNKNOWN, posterior};

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
        let grounds = Grounds::new(&evidence, LAYOUT_UNKNOWN);
        two_changes(&grounds, &partition, &posterior(&grounds, &partition))
    }

    #[test]
    fn a_level_between_needs_two_changes() {
        let two = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.05), (4, 0.05), (6, 0.05)]);
        assert!(two > 0.9, "{two}");
        let one = probability_of_two(&[(0, 0.0), (10, 0.1), (5, 0.1), (4, 0.0), (6, 0.1)]);
        assert!(one < 0.05, "{one}");
    }

    #[test]
    fn the_best_levels_are_those_of_the_inverse() {
        let (precision, information) =
            ([[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]], [1.0, -2.0, 0.5]);
        let (inverse, log_determinant) = inverted(&precision.concat(), 3);
        let by_inverse: f64 =
            (0..9).map(|at| inverse[at] * information[at / 3] * information[at % 3]).sum();
        let (explained, determinant) = best_levels(&precision, information);
        assert!(
            (explained - by_inverse).abs() < 1e-12
                && (determinant.ln() - log_determinant).abs() < 1e-12
        );
    }
}
