//! Events as a line takes them. What a line needs of each alone is made where it is read, on all CPUs: a file of months
//! has millions of runs.

use std::collections::HashMap;

use bisection::watch::{ComparedPair, PairSums};

use super::events::{BisectedChange, ComparedGap, LineEvent, PairOfRuns, Point};
use super::file::Series;

/// An event, summed up.
pub enum SummedEvent {
    Begun,
    /// A point without its values, and the sums of its runs in each series of the line, by its place.
    Point(Box<Point>, Vec<Option<PairSums>>),
    /// A comparison, and the series that it judges.
    Compared(Box<ComparedGap>, Vec<Shown>),
    Bisected(Box<BisectedChange>),
}

/// A series that a comparison judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// By its place among those of the line.
    pub series: usize,
    /// Whether the pairs show a change by themselves.
    pub is_shown: bool,
}

/// How the events of a line are summed up.
pub struct Summing {
    names: Vec<String>,
    places: HashMap<String, usize>,
    smallest: f64,
}

impl Summing {
    pub fn new(series: &[Series], smallest: f64) -> Summing {
        let names: Vec<String> = series.iter().map(|series| series.name.clone()).collect();
        let places = names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Summing { names, places, smallest }
    }

    pub fn event(&self, event: LineEvent) -> SummedEvent {
        match event {
            LineEvent::Begun(_) => SummedEvent::Begun,
            LineEvent::Point(point) => self.point(point),
            LineEvent::Compared(gap) => {
                let shown = self.shown(&gap);
                SummedEvent::Compared(gap, shown)
            }
            LineEvent::Bisected(bisected) => SummedEvent::Bisected(bisected),
        }
    }

    fn point(&self, mut point: Box<Point>) -> SummedEvent {
        let mut sums = vec![None; self.places.len()];
        for (name, runs) in std::mem::take(&mut point.values) {
            let has_runs = !runs.ratios.is_empty() && !runs.anchor.is_empty();
            if let Some(place) = self.places.get(&name).filter(|_| has_runs) {
                sums[*place] = Some(runs.sums());
            }
        }
        SummedEvent::Point(point, sums)
    }

    /// The series that a comparison judges: the one that suggested it, and those of its pairs.
    fn shown(&self, gap: &ComparedGap) -> Vec<Shown> {
        let of_pairs = gap.pairs.iter().flat_map(|pair| pair.values.keys());
        let names = of_pairs.chain([&gap.series]);
        let mut judged: Vec<usize> =
            names.filter_map(|name| self.places.get(name)).copied().collect();
        judged.sort_unstable();
        judged.dedup();
        let shown = |series: usize| {
            let pairs = gap.pairs_of(&self.names[series]);
            let is_shown = bisection::watch::shown(&pairs, self.smallest).is_some();
            Shown { series, is_shown }
        };
        judged.into_iter().map(shown).collect()
    }
}

impl ComparedGap {
    /// The pairs of a series.
    pub fn pairs_of(&self, series: &str) -> Vec<ComparedPair> {
        let session = u32::from(!self.at_once);
        let of_pair = |pair: &PairOfRuns| {
            let (older, newer) = *pair.values.get(series)?;
            Some(ComparedPair { layout: pair.layout, session, older, newer })
        };
        self.pairs.iter().filter_map(of_pair).collect()
    }
}
