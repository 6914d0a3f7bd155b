//! The changes that may be the culprit, in segments: changes that no tested commit tells apart.

use fixedbitset::FixedBitSet;

/// All candidates.
#[derive(Clone, Debug)]
pub struct Partition {
    pub segments: Vec<Segment>,
    /// Prior weight by change; 0 for what cannot be the culprit.
    weights: Vec<f64>,
}

/// Changes that are contained in the same tested builds.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The changes, in order.
    pub changes: Vec<usize>,
    /// Sum of their prior weights.
    pub weight: f64,
    /// Whether each tested build contains them, in the order of the builds.
    pub contained: Vec<bool>,
}

impl Partition {
    /// One segment with all changes, from 1, that have a weight.
    pub fn new(weights: Vec<f64>) -> Partition {
        let changes: Vec<usize> =
            (1..weights.len()).filter(|change| weights[*change] > 0.0).collect();
        let weight = changes.iter().map(|change| weights[*change]).sum();
        let all = Segment { changes, weight, contained: Vec::new() };
        Partition { segments: vec![all], weights }
    }

    /// The prior weight of a change.
    pub fn weight_of(&self, change: usize) -> f64 {
        self.weights[change]
    }

    /// Splits the segments by a newly tested build.
    pub fn split(&mut self, contained: &FixedBitSet) {
        let segments = std::mem::take(&mut self.segments);
        for segment in segments {
            let (with, without): (Vec<usize>, Vec<usize>) =
                segment.changes.iter().partition(|change| contained.contains(**change));
            for (changes, is_contained) in [(with, true), (without, false)] {
                if changes.is_empty() {
                    continue;
                }
                let weight = changes.iter().map(|change| self.weights[*change]).sum();
                let in_builds = [&segment.contained[..], &[is_contained]].concat();
                self.segments.push(Segment { changes, weight, contained: in_builds });
            }
        }
    }

    /// Removes changes that cannot be the culprit.
    pub fn exclude(&mut self, is_innocent: impl Fn(usize) -> bool) {
        for segment in &mut self.segments {
            segment.changes.retain(|change| !is_innocent(*change));
            segment.weight = segment.changes.iter().map(|change| self.weights[*change]).sum();
        }
        self.segments.retain(|segment| !segment.changes.is_empty());
        for (change, weight) in self.weights.iter_mut().enumerate() {
            if is_innocent(change) {
                *weight = 0.0;
            }
        }
    }

    /// The number of candidates.
    pub fn candidates(&self) -> usize {
        self.segments.iter().map(|segment| segment.changes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Partition;
    use crate::commits::Commits;

    #[test]
    fn tests_split_segments_and_equal_builds_empty_them() {
        let commits = Commits::linear(6);
        let mut partition = Partition::new(vec![1.0; 7]);
        partition.split(commits.contained(0));
        partition.split(commits.contained(4));
        let changes: Vec<_> = partition.segments.iter().map(|s| s.changes.clone()).collect();
        assert_eq!(changes, [vec![1, 2, 3, 4], vec![5, 6]]);
        assert_eq!(partition.segments[0].contained, [false, true]);
        partition.exclude(|change| change > 3);
        assert_eq!((partition.candidates(), partition.segments.len()), (3, 1));
    }
}
