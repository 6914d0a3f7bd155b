//! Several changes along a line of commits: a grid, the steps that fit it best, then their exact places.
//!
//! The fit minimises the weighted squares around piecewise constant levels plus a price for each step, exactly,
//! by dynamic programming. Brackets wider than one commit are halved; a boundary that could as well lie one
//! tested commit further gets more runs there.

use serde::Serialize;

use crate::evidence::{Build, within};

/// How a series is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesSettings {
    /// Number of changes of the line.
    pub changes: usize,
    /// Commits of the grid, the ends included.
    pub grid: usize,
    /// Runs of a commit when it is first tested.
    pub runs: u32,
    /// Variance between builds over that of runs.
    pub layout: f64,
}

impl SeriesSettings {
    /// The runs that a series takes at most: those of a grid whose every cell has a boundary that stays unsettled.
    pub fn runs_most(&self) -> u32 {
        self.grid as u32 * TIMES_MAX * self.runs
    }
}

/// A step between two tested commits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bracket {
    /// The last commit without the change.
    pub without: usize,
    /// The first tested commit with it: the culprit if it is the next one.
    pub with: usize,
    /// Size as a logarithm, with its standard error.
    pub size: f64,
    pub error: f64,
}

/// What a series needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesStep {
    /// Commits with the runs that each needs, to be interleaved.
    Measure(Vec<(usize, u32)>),
    Done(Vec<Bracket>),
}

/// A boundary is settled when moving it by one tested commit makes the fit worse by this, in units of -2 log
/// likelihood.
const SETTLED: f64 = 9.0;
/// No commit gets more than this multiple of the first runs.
const TIMES_MAX: u32 = 8;

/// The number of runs of each commit that shows steps of `size`, for runs with this standard deviation. One
/// commit against another alone would need more, but the levels of many are compared.
pub fn runs_for(size: f64, deviation: f64) -> u32 {
    (2.0 * (2.8 * deviation / size).powi(2)).ceil().clamp(3.0, 60.0) as u32
}

/// The next step. `can_test` says which commits can be tested.
pub fn series_step(
    builds: &[Build],
    settings: &SeriesSettings,
    can_test: impl Fn(usize) -> bool,
) -> SeriesStep {
    let runs_of = |commit: usize| builds.iter().find(|b| b.commit == commit).map_or(0, |b| b.runs);
    let first: Vec<(usize, u32)> = grid(settings, &can_test)
        .into_iter()
        .chain(builds.iter().map(|build| build.commit))
        .map(|commit| (commit, settings.runs.saturating_sub(runs_of(commit))))
        .filter(|(_, runs)| *runs > 0)
        .collect();
    if !first.is_empty() {
        return SeriesStep::Measure(unique(first));
    }
    let mut tested = builds.to_vec();
    tested.sort_by_key(|build| build.commit);
    let line = Line::new(&tested, settings);
    let steps = line.steps();
    let mut wanted = Vec::new();
    for bracket in line.brackets(&steps) {
        if let Some(commit) = halfway(bracket.without, bracket.with, &can_test) {
            wanted.push((commit, settings.runs));
        }
    }
    if wanted.is_empty() {
        let more = line.unsettled(&steps).into_iter();
        wanted = more
            .filter(|commit| runs_of(*commit) < TIMES_MAX * settings.runs)
            .map(|commit| (commit, settings.runs))
            .collect();
    }
    if wanted.is_empty() {
        return SeriesStep::Done(line.brackets(&steps));
    }
    SeriesStep::Measure(unique(wanted))
}

fn unique(mut wanted: Vec<(usize, u32)>) -> Vec<(usize, u32)> {
    wanted.sort_unstable();
    wanted.dedup_by_key(|(commit, _)| *commit);
    wanted
}

/// Evenly spread commits that can be tested, the ends included.
fn grid(settings: &SeriesSettings, can_test: impl Fn(usize) -> bool) -> Vec<usize> {
    let SeriesSettings { changes, grid, .. } = *settings;
    let cells = grid.clamp(2, changes + 1) - 1;
    let places = (0..=cells).map(|cell| cell * changes / cells);
    let nearest = |place: usize| {
        let off = |commit: &usize| commit.abs_diff(place);
        (0..=changes).filter(|commit| can_test(*commit)).min_by_key(off)
    };
    places.filter_map(nearest).collect()
}

/// The testable commit in the middle between two.
fn halfway(low: usize, high: usize, can_test: impl Fn(usize) -> bool) -> Option<usize> {
    let middle = usize::midpoint(low, high);
    (low + 1..high).filter(|commit| can_test(*commit)).min_by_key(|c| c.abs_diff(middle))
}

/// Tested commits in order.
struct Line<'a> {
    builds: &'a [Build],
    weights: Vec<f64>,
    /// Variance of a run.
    variance: f64,
    price: f64,
}

impl Line<'_> {
    fn new<'a>(builds: &'a [Build], settings: &SeriesSettings) -> Line<'a> {
        let (variance, _) = within(builds);
        Line {
            builds,
            weights: builds.iter().map(|build| build.weight(settings.layout)).collect(),
            variance: variance.max(f64::MIN_POSITIVE),
            price: 2.0 * (settings.changes as f64).ln() + 4.0,
        }
    }

    /// Weighted squares of commits `low..high` around their mean, in units of -2 log likelihood.
    fn squares(&self, low: usize, high: usize) -> f64 {
        let points = || self.builds[low..high].iter().zip(&self.weights[low..high]);
        let mean = self.mean(low, high);
        points().map(|(b, w)| w * (b.mean - mean).powi(2)).sum::<f64>() / self.variance
    }

    fn mean(&self, low: usize, high: usize) -> f64 {
        let points = || self.builds[low..high].iter().zip(&self.weights[low..high]);
        points().map(|(b, w)| w * b.mean).sum::<f64>() / self.weight(low, high)
    }

    fn weight(&self, low: usize, high: usize) -> f64 {
        self.weights[low..high].iter().sum()
    }

    /// The starts of all levels but the first, in the best fit.
    fn steps(&self) -> Vec<usize> {
        let n = self.builds.len();
        // The cheapest fit of the first `high` commits, and the start of its last level.
        let mut best = vec![(-self.price, 0)];
        for high in 1..=n {
            let cost = |low: usize| best[low].0 + self.price + self.squares(low, high);
            let low = (0..high).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0);
            best.push((cost(low), low));
        }
        let mut steps = Vec::new();
        let mut at = best[n].1;
        while at > 0 {
            steps.push(at);
            at = best[at].1;
        }
        steps.reverse();
        steps
    }

    /// The level around a step: from the step before it to the one after it.
    fn around(&self, steps: &[usize], index: usize) -> (usize, usize) {
        let low = if index == 0 { 0 } else { steps[index - 1] };
        (low, steps.get(index + 1).copied().unwrap_or(self.builds.len()))
    }

    fn brackets(&self, steps: &[usize]) -> Vec<Bracket> {
        let bracket = |(index, &step): (usize, &usize)| {
            let (low, high) = self.around(steps, index);
            let weights = [self.weight(low, step), self.weight(step, high)];
            Bracket {
                without: self.builds[step - 1].commit,
                with: self.builds[step].commit,
                size: self.mean(step, high) - self.mean(low, step),
                error: (self.variance * (1.0 / weights[0] + 1.0 / weights[1])).sqrt(),
            }
        };
        steps.iter().enumerate().map(bracket).collect()
    }

    /// Commits beside boundaries that could lie on their other side as well.
    fn unsettled(&self, steps: &[usize]) -> Vec<usize> {
        let mut commits = Vec::new();
        for (index, &step) in steps.iter().enumerate() {
            let (low, high) = self.around(steps, index);
            let fit = |step: usize| self.squares(low, step) + self.squares(step, high);
            let now = fit(step);
            if step > low + 1 && fit(step - 1) - now < SETTLED {
                commits.push(self.builds[step - 1].commit);
            }
            if step + 1 < high && fit(step + 1) - now < SETTLED {
                commits.push(self.builds[step].commit);
            }
        }
        commits
    }
}

#[cfg(test)]
mod tests {
    use super::{SeriesSettings, SeriesStep, runs_for, series_step};
    use crate::evidence::Build;

    /// Measures without noise to speak of until done.
    fn search(level: impl Fn(usize) -> f64, broken: &[usize]) -> Vec<(usize, usize)> {
        let settings = SeriesSettings { changes: 60, grid: 9, runs: 3, layout: 0.0 };
        let mut builds: Vec<Build> = Vec::new();
        for _ in 0..100 {
            match series_step(&builds, &settings, |commit| !broken.contains(&commit)) {
                SeriesStep::Done(found) => {
                    return found.iter().map(|step| (step.without, step.with)).collect();
                }
                SeriesStep::Measure(commits) => {
                    for (commit, runs) in commits {
                        let known = builds.iter().position(|build| build.commit == commit);
                        let at = known.unwrap_or_else(|| {
                            builds.push(Build::new(commit));
                            builds.len() - 1
                        });
                        for run in 0..runs {
                            builds[at].add(level(commit) + 1e-4 * f64::from(run % 3));
                        }
                    }
                }
            }
        }
        panic!("the search does not end");
    }

    #[test]
    fn cancelling_changes_are_both_found() {
        let level = |commit| if (20..44).contains(&commit) { 0.05 } else { 0.0 };
        assert_eq!(search(level, &[]), [(19, 20), (43, 44)]);
        assert_eq!(search(|_| 0.0, &[]), []);
    }

    #[test]
    fn commits_that_cannot_be_tested_leave_a_bracket() {
        let level = |commit| if commit >= 30 { 0.05 } else { 0.0 };
        assert_eq!(search(level, &[29, 30, 31]), [(28, 32)]);
    }

    #[test]
    fn smaller_steps_need_more_runs() {
        assert_eq!(runs_for(0.05, 0.03), 6);
        assert_eq!(runs_for(1.0, 0.01), 3);
    }
}
