//! A record that was read back with its runs, for analysis and reports. Crate `store` opens it.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::record::Record;
use crate::run::Run;

/// A record with its runs.
#[derive(Debug)]
pub struct Opened {
    /// The folder it was read from.
    pub folder: PathBuf,
    /// The record.
    pub record: Record,
    /// The record's runs, in order of execution.
    pub runs: Runs,
}

impl Opened {
    /// The runs of one point, in order of execution.
    pub fn runs_of(&self, point: usize) -> impl Iterator<Item = &Run> {
        self.runs.positions(point).iter().map(|at| &self.runs.list[*at])
    }

    /// The runs of several points, in order of execution.
    pub fn runs_of_all(&self, points: &[usize]) -> impl Iterator<Item = &Run> {
        let all = points.iter().flat_map(|point| self.runs.positions(*point));
        let mut positions: Vec<usize> = all.copied().collect();
        positions.sort_unstable();
        positions.dedup();
        positions.into_iter().map(|at| &self.runs.list[at])
    }
}

/// Runs in order of execution, which are found by their point without looking at all of them: a record
/// may have thousands of points.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    list: Vec<Run>,
    /// Positions in `list`, sorted by point; made when they are asked for first.
    by_point: OnceLock<Vec<usize>>,
}

impl Runs {
    /// The positions of a point's runs, ascending.
    fn positions(&self, point: usize) -> &[usize] {
        let point_at = |at: usize| self.list[at].point as usize;
        let sorted = self.by_point.get_or_init(|| {
            let mut positions: Vec<usize> = (0..self.list.len()).collect();
            // A stable sort keeps the order of execution.
            positions.sort_by_key(|at| point_at(*at));
            positions
        });
        let from = sorted.partition_point(|at| point_at(*at) < point);
        let length = sorted[from..].partition_point(|at| point_at(*at) == point);
        &sorted[from..from + length]
    }
}

impl From<Vec<Run>> for Runs {
    fn from(list: Vec<Run>) -> Runs {
        Runs { list, by_point: OnceLock::new() }
    }
}

impl Deref for Runs {
    type Target = Vec<Run>;

    fn deref(&self) -> &Vec<Run> {
        &self.list
    }
}

impl DerefMut for Runs {
    /// Whoever changes runs may change their points.
    fn deref_mut(&mut self) -> &mut Vec<Run> {
        self.by_point.take();
        &mut self.list
    }
}

impl PartialEq for Runs {
    fn eq(&self, other: &Runs) -> bool {
        self.list == other.list
    }
}

impl IntoIterator for Runs {
    type Item = Run;
    type IntoIter = std::vec::IntoIter<Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Runs {
    type Item = &'a Run;
    type IntoIter = std::slice::Iter<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a mut Runs {
    type Item = &'a mut Run;
    type IntoIter = std::slice::IterMut<'a, Run>;

    fn into_iter(self) -> Self::IntoIter {
        self.deref_mut().iter_mut()
    }
}
