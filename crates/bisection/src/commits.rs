//! The commits of a range as a graph: which of them contain which change.

use fixedbitset::FixedBitSet;

/// The commits between a good and a bad commit, numbered so that parents come before their children.
/// Number 0 is the good end, which contains none of the changes; the last is the bad end. Change i is
/// what commit i made.
#[derive(Clone, Debug)]
pub struct Commits {
    /// The changes that each commit contains, its own included.
    contained: Vec<FixedBitSet>,
    /// The first parent of each commit; 0 for the good end and for parents outside the range.
    first_parents: Vec<usize>,
    is_linear: bool,
}

impl Commits {
    /// A line of commits: each contains all changes before it.
    pub fn linear(changes: usize) -> Commits {
        let chain: Vec<Vec<usize>> = (0..changes).map(|parent| vec![parent]).collect();
        Commits::from_parents(&chain)
    }

    /// A graph. `parents[i]` holds the parents of commit i + 1; those outside the range are left out or 0.
    ///
    /// # Panics
    /// If a parent does not come before its child.
    pub fn from_parents(parents: &[Vec<usize>]) -> Commits {
        let size = parents.len() + 1;
        let mut contained = vec![FixedBitSet::with_capacity(size)];
        let mut first_parents = vec![0];
        for (index, parents) in parents.iter().enumerate() {
            let commit = index + 1;
            let mut changes = FixedBitSet::with_capacity(size);
            for &parent in parents {
                assert!(parent < commit, "parents come before their children");
                changes.union_with(&contained[parent]);
            }
            changes.insert(commit);
            contained.push(changes);
            first_parents.push(parents.first().copied().unwrap_or(0));
        }
        let is_linear = parents.iter().enumerate().all(|(index, parents)| parents[..] == [index]);
        Commits { contained, first_parents, is_linear }
    }

    /// The number of changes, which is also the number of the bad end.
    pub fn changes(&self) -> usize {
        self.contained.len() - 1
    }

    /// Whether a commit contains a change.
    pub fn contains(&self, commit: usize, change: usize) -> bool {
        self.contained[commit].contains(change)
    }

    /// All changes that a commit contains.
    pub fn contained(&self, commit: usize) -> &FixedBitSet {
        &self.contained[commit]
    }

    /// The first parent of a commit; 0 if that lies outside the range.
    pub fn first_parent(&self, commit: usize) -> usize {
        self.first_parents[commit]
    }

    /// The commits that lead from the good end to the bad one by first parents: all of a line.
    pub fn first_parent_line(&self) -> Vec<usize> {
        let last = Some(self.changes());
        let before = |commit: &usize| (*commit > 0).then(|| self.first_parents[*commit]);
        let mut line: Vec<usize> = std::iter::successors(last, before).collect();
        line.reverse();
        line
    }

    /// Whether each commit contains all changes before it.
    pub fn is_linear(&self) -> bool {
        self.is_linear
    }
}

#[cfg(test)]
mod tests {
    use super::Commits;

    #[test]
    fn a_merge_contains_both_branches() {
        // 1 ─ 3 ─┐
        //  └─ 2 ─ 4
        let commits = Commits::from_parents(&[vec![0], vec![1], vec![1], vec![3, 2]]);
        assert!(!commits.is_linear() && commits.contains(4, 2) && commits.contains(4, 3));
        assert_eq!((commits.first_parent(4), commits.first_parent(1)), (3, 0));
        assert_eq!(commits.first_parent_line(), [0, 1, 3, 4]);
        assert!(!commits.contains(3, 2) && commits.contains(3, 1) && !commits.contains(0, 1));
        assert!(Commits::linear(5).is_linear() && Commits::linear(5).contains(4, 1));
    }
}
