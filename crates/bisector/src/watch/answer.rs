//! What a line says: its points, its changes, what became of them, and how often it was right.

use std::collections::{HashMap, HashSet};

use bisection::watch::{Fate, Score, is_one_sided, is_worse, score, taken_back};
use schemars::JsonSchema;
use serde::Serialize;

use super::events::{BisectedChange, ComparedGap, Point};
use super::file::Series;
use super::line::{Line, Verdict};

/// What `knee watch show` says of a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchAnswer {
    /// The file of the line.
    pub line: String,
    /// The commit that runs in every block.
    pub anchor: String,
    /// Smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// The points in the order of the history.
    pub points: Vec<WatchPoint>,
    /// The values of the points, metric by metric and case by case.
    pub series: Vec<WatchSeries>,
    /// All alarms in the order of the line, those that were not confirmed too.
    pub changes: Vec<WatchChange>,
    /// How often the alarms were right.
    pub score: Score,
    /// Whether all changes go in one direction, though there are many.
    pub one_sided: bool,
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchPoint {
    /// The commit.
    pub commit: String,
    /// First line of its message.
    pub subject: String,
    /// Day of the commit.
    pub date: String,
    /// When it was added.
    pub measured: String,
    /// The commit whose build it shares: nothing was run.
    pub same_build_as: Option<String>,
    /// The records of its runs.
    pub records: Vec<String>,
}

/// A metric of a case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchSeries {
    /// What it is.
    #[serde(flatten)]
    pub series: Series,
    /// Its value at each point; null where it has none.
    pub values: Vec<Option<WatchValue>>,
}

/// The value of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchValue {
    /// Its change against the anchor in the same blocks, as a share.
    pub change: f64,
    /// Half the width of the 95 % interval of the logarithm, for this point alone; null with a single run.
    pub half_width: Option<f64>,
    /// Runs of its build that count.
    pub runs: u32,
}

impl WatchValue {
    /// The 95 % interval of the change, as shares.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let log = self.change.ln_1p();
        self.half_width.map(|half| ((log - half).exp_m1(), (log + half).exp_m1()))
    }
}

/// An alarm, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchChange {
    /// Its name for `knee watch ack`: the start of the commit that has it.
    pub id: String,
    /// The last point without it.
    pub before: String,
    /// The first point with it.
    pub after: String,
    /// First line of the message of that commit.
    pub subject: String,
    /// What became of it.
    pub is: Fate,
    /// Whether it is for the worse in a series; true in a metric that is neither good nor bad.
    pub worse: bool,
    /// The change of each series that has it, the largest first.
    pub sizes: Vec<WatchSize>,
    /// What the points suggested, as a share.
    pub suggested: f64,
    /// Pairs of runs of the comparison.
    pub pairs: usize,
    /// Whether other layouts of both builds were compared, too.
    pub other_layouts: bool,
    /// Why there are no other layouts.
    pub no_layouts: Option<String>,
    /// When it was compared.
    pub at: String,
    /// The records of the comparison.
    pub records: Vec<String>,
    /// The reason of who accepted it, or why it could not be compared; else empty.
    pub why: String,
    /// The commit whose change took it back, or was taken back by it.
    pub gone_with: Option<String>,
    /// The commits between both points that a bisection named.
    pub bisected: Option<WatchBisected>,
    /// What differs between the hosts of both points.
    pub host: Vec<String>,
}

/// How much a series changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchSize {
    /// The series.
    pub series: String,
    /// The change, as a share, by all that was measured.
    pub change: f64,
    /// Its interval, which allows for looking after each pair.
    pub interval: (f64, f64),
    /// Whether it is for the worse.
    pub worse: bool,
}

/// What a bisection between both neighbours came to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchBisected {
    /// The bisection, for `knee bisect log`; null where there was nothing to search.
    pub bisection: Option<String>,
    /// The commits that it named.
    pub named: Vec<WatchCulprit>,
    /// What it came to, where it named none.
    pub came_to: String,
}

/// A commit that a bisection named.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchCulprit {
    /// The commit.
    pub commit: String,
    /// First line of its message.
    pub subject: String,
}

impl WatchAnswer {
    /// The changes for the worse that nobody answered.
    pub fn open(&self) -> impl Iterator<Item = &WatchChange> {
        self.changes.iter().filter(|change| change.is == Fate::Open && change.worse)
    }
}

/// Standard errors of an interval that holds whatever number of pairs made a comparison stop: a confidence sequence is about
/// this wide at 95 %.
const SEQUENTIAL: f64 = 2.8;

impl Line {
    /// The whole line as an answer.
    pub fn answer(&self, name: &str, anchor: &str) -> WatchAnswer {
        let changes = self.changes();
        let fates: Vec<Fate> = changes.iter().map(|change| change.is).collect();
        let said = changes.iter().filter(|change| change.is != Fate::NotConfirmed);
        let sizes: Vec<f64> =
            said.filter_map(|change| change.sizes.first()).map(|size| size.change).collect();
        let series = host::in_parallel(self.series.len(), |series| WatchSeries {
            series: self.series[series].clone(),
            values: self.values(series),
        });
        WatchAnswer {
            line: name.to_string(),
            anchor: anchor.to_string(),
            smallest_effect: self.smallest,
            points: self.points.iter().map(|point| self.watch_point(point)).collect(),
            series,
            changes,
            score: score(&fates),
            one_sided: is_one_sided(&sizes),
        }
    }

    fn watch_point(&self, point: &Point) -> WatchPoint {
        let measured = self.with_key(&point.key).filter(|_| point.records.is_empty());
        WatchPoint {
            commit: point.commit.clone(),
            subject: point.subject.clone(),
            date: point.date.clone(),
            measured: point.at.to_string(),
            same_build_as: measured.map(|point| point.commit.clone()),
            records: point.records.clone(),
        }
    }

    fn values(&self, series: usize) -> Vec<Option<WatchValue>> {
        // Student's quantile is the same for all points of a line but a few.
        let mut quantiles: Vec<(u32, Option<f64>)> = Vec::new();
        let mut quantile = |runs: u32| {
            if let Some((_, known)) = quantiles.iter().find(|(of, _)| *of == runs) {
                return *known;
            }
            let found = analysis::student_quantile(f64::from(runs.saturating_sub(1)), 0.05);
            quantiles.push((runs, found));
            found
        };
        let value = |point: &Point| {
            let ratios = self.runs(&point.key, series)?.differences;
            let runs = f64::from(ratios.runs);
            let error = (ratios.squares / (runs - 1.0).max(1.0) / runs).sqrt();
            let half_width = quantile(ratios.runs).filter(|_| ratios.runs > 1);
            Some(WatchValue {
                change: ratios.mean.exp_m1(),
                half_width: half_width.map(|quantile| quantile * error),
                runs: ratios.runs,
            })
        };
        self.points.iter().map(value).collect()
    }

    /// All alarms with what became of them, in the order of the line. What changed between two neighbours is one change,
    /// however many series show it.
    pub fn changes(&self) -> Vec<WatchChange> {
        let confirmed = self.confirmed();
        let taken = self.taken_back(&confirmed);
        let mut changes: Vec<WatchChange> = Vec::new();
        for (at, (comparison, verdicts)) in confirmed.iter().enumerate() {
            let gap = &self.compared[*comparison];
            let ack = self.ack(gap);
            let gone_with = taken[at].map(|by| self.compared[confirmed[by].0].after.clone());
            let fate = match (ack, &gone_with) {
                (Some(ack), _) if ack.is_false => Fate::False,
                (Some(_), _) => Fate::Accepted,
                (None, Some(_)) => Fate::GoneAgain,
                (None, None) if self.is_moved(*comparison, verdicts) => Fate::Moved,
                (None, None) => Fate::Open,
            };
            let why = ack.map(|ack| ack.why.clone()).unwrap_or_default();
            let change = self.change(*comparison, fate, why, verdicts);
            changes.push(WatchChange { gone_with, ..change });
        }
        changes.extend(self.refuted().into_iter().map(|at| {
            let why = self.compared[at].failed.clone().unwrap_or_default();
            self.change(at, Fate::NotConfirmed, why, &[])
        }));
        changes.sort_by_key(|change| self.place(&change.after));
        changes
    }

    /// The last comparisons of two neighbours, of those that found nothing in any series.
    fn refuted(&self) -> Vec<usize> {
        let gap = |comparison: usize| {
            let gap = &self.compared[comparison];
            (gap.before.as_str(), gap.after.as_str())
        };
        let last: HashMap<_, _> = (0..self.compared.len()).map(|at| (gap(at), at)).collect();
        let changed = self.verdicts.iter().filter(|verdict| verdict.change.is_some());
        let changed: HashSet<_> = changed.map(|verdict| gap(verdict.comparison)).collect();
        let is_refuted = |at: &usize| last[&gap(*at)] == *at && !changed.contains(&gap(*at));
        (0..self.compared.len()).filter(is_refuted).collect()
    }

    /// For each change, in the order of the line, the one that took it back, or that it took back: in the series where it was
    /// the largest.
    fn taken_back(&self, confirmed: &[(usize, Vec<&Verdict>)]) -> Vec<Option<usize>> {
        let mut by: Vec<Option<usize>> = vec![None; confirmed.len()];
        for series in 0..self.series.len() {
            let own = |(at, (_, verdicts)): (usize, &(usize, Vec<&Verdict>))| {
                let verdict = verdicts.iter().find(|verdict| verdict.series == series)?;
                let is_largest = largest(verdicts).is_some_and(|most| most.series == series);
                Some((at, is_largest, verdict.size()))
            };
            let own: Vec<(usize, bool, f64)> =
                confirmed.iter().enumerate().filter_map(own).collect();
            let sizes: Vec<f64> = own.iter().map(|(_, _, size)| *size).collect();
            for (first, later) in taken_back(&sizes, self.smallest).into_iter().enumerate() {
                let Some(later) = later else { continue };
                for (this, other) in [(first, later), (later, first)] {
                    if own[this].1 {
                        by[own[this].0] = Some(own[other].0);
                    }
                }
            }
        }
        by
    }

    /// Whether only parts of a sum changed, in both directions, and the sum did not.
    fn is_moved(&self, comparison: usize, verdicts: &[&Verdict]) -> bool {
        let sum_of = |verdict: &&Verdict| self.series[verdict.series].part_of.as_deref();
        let Some(sum) = verdicts.first().and_then(sum_of) else { return false };
        let are_parts = verdicts.iter().all(|verdict| sum_of(verdict) == Some(sum));
        let total: f64 = self.compared[comparison].mean_change(sum).unwrap_or(f64::INFINITY);
        let sizes = verdicts.iter().map(|verdict| verdict.size());
        let (up, down) =
            sizes.fold((false, false), |(up, down), size| (up || size > 0.0, down || size < 0.0));
        are_parts && up && down && total.abs() < self.smallest.ln_1p()
    }

    fn change(
        &self,
        comparison: usize,
        is: Fate,
        why: String,
        verdicts: &[&Verdict],
    ) -> WatchChange {
        let gap = &self.compared[comparison];
        let mut sizes: Vec<WatchSize> = verdicts.iter().map(|verdict| self.size(verdict)).collect();
        sizes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
        let after = self.point(&gap.after);
        WatchChange {
            id: gap.after.chars().take(12).collect(),
            before: gap.before.clone(),
            after: gap.after.clone(),
            subject: after.map(|point| point.subject.clone()).unwrap_or_default(),
            is,
            worse: sizes.iter().any(|size| size.worse),
            sizes,
            suggested: gap.step.exp_m1(),
            pairs: gap.pairs.len(),
            other_layouts: gap.pairs.iter().any(|pair| pair.layout > 0),
            no_layouts: gap.no_layouts.clone(),
            at: gap.at.to_string(),
            records: gap.records.clone(),
            why,
            gone_with: None,
            bisected: self.bisection(gap).and_then(told),
            host: self.host_changes(&gap.before, &gap.after),
        }
    }

    fn size(&self, verdict: &Verdict) -> WatchSize {
        let (mean, deviation) = verdict.change.unwrap_or_default();
        let half = SEQUENTIAL * deviation;
        let series = &self.series[verdict.series];
        WatchSize {
            series: series.name.clone(),
            change: mean.exp_m1(),
            interval: ((mean - half).exp_m1(), (mean + half).exp_m1()),
            worse: is_worse(mean, series.better),
        }
    }
}

impl Verdict {
    /// The change that it found, as a logarithm.
    fn size(&self) -> f64 {
        self.change.map_or(0.0, |(mean, _)| mean)
    }
}

fn largest<'a>(verdicts: &[&'a Verdict]) -> Option<&'a Verdict> {
    let size = |verdict: &&&Verdict| verdict.size().abs();
    verdicts.iter().max_by(|a, b| size(a).total_cmp(&size(b))).copied()
}

fn told(bisected: &BisectedChange) -> Option<WatchBisected> {
    let named = bisected.named.as_ref()?;
    let culprit = |(commit, subject): &(String, String)| WatchCulprit {
        commit: commit.clone(),
        subject: subject.clone(),
    };
    Some(WatchBisected {
        bisection: bisected.bisection.clone(),
        named: named.iter().map(culprit).collect(),
        came_to: bisected.came_to.clone(),
    })
}

impl ComparedGap {
    /// The mean difference of the pairs of a series, as a logarithm.
    fn mean_change(&self, series: &str) -> Option<f64> {
        let pairs = self.pairs.iter().filter_map(|pair| pair.values.get(series));
        let differences: Vec<f64> = pairs.map(|(older, newer)| newer - older).collect();
        let n = differences.len();
        (n > 0).then(|| differences.iter().sum::<f64>() / n as f64)
    }
}
