//! Several changes along a line of commits: a grid, the probability of a change between any two neighbours of it, and
//! more runs where that is unsure.
//!
//! Gaps that hold a change are halved until they are one commit wide. A change that could as well lie one tested
//! commit further gets more runs there; what stays unsure is told as a wider bracket.

use schemars::JsonSchema;
use serde::Serialize;

use crate::change_points::{ChangePoints, change_points};
use crate::evidence::Build;
use crate::posterior::Layouts;

/// How a series is searched.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSettings {
    /// Number of changes of the line.
    pub changes: usize,
    /// Commits of the grid, the ends included.
    pub grid: usize,
    /// Size of a change that is worth finding, as a logarithm.
    pub size: f64,
    /// Runs of a commit when it is first tested.
    pub runs: u32,
    /// Standard deviations between builds, as shares, with prior weights.
    pub layouts: Vec<(f64, f64)>,
}

impl SeriesSettings {
    /// The runs that a series takes at most.
    pub fn runs_most(&self) -> u32 {
        self.grid as u32 * TIMES_MAX * self.runs
    }
}

/// A step between two tested commits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bracket {
    /// The last commit that surely is without the change.
    pub without: usize,
    /// The first tested commit that surely has it: the culprit if it is the next one.
    pub with: usize,
    /// Commits from the one to the other along the line: 1 if the change is that of `with`.
    pub steps: usize,
    /// Size as a logarithm, with its standard error.
    pub size: f64,
    /// Standard error of the size, as a logarithm.
    pub error: f64,
}

/// What a series needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum SeriesStep {
    /// Commits with the runs that each needs, to be interleaved.
    Measure(Vec<(usize, u32)>),
    Done(Vec<Bracket>),
}

/// A gap that holds a change with more than this probability is halved.
const HALVED: f64 = 0.3;
/// Gaps are unsure as long as a change there has a probability above this, and below its complement.
const UNSURE: f64 = 0.042;
/// Changes less probable than this are not told.
const TOLD: f64 = 0.8;
/// Changes of fewer standard errors than this are not told, however probable a change of any size is there.
const SHOWN: f64 = 2.0;
/// A bracket holds its change with this probability, as far as the runs allow.
const HELD: f64 = 0.95;
/// A gap with less than this probability widens no bracket.
const LITTLE: f64 = (1.0 - HELD) / 10.0;
/// No commit gets more than this multiple of the first runs.
const TIMES_MAX: u32 = 12;

/// The number of runs of each commit at first, for steps of `size` and runs with this standard deviation. One commit
/// against another alone would need more, but the levels of many are compared, and unsure ones get more.
pub fn runs_for(size: f64, deviation: f64) -> u32 {
    (2.0 * (RUNS_ERRORS * deviation / size).powi(2)).ceil().clamp(3.0, 60.0) as u32
}

/// Standard errors that two commits differ by at first.
const RUNS_ERRORS: f64 = 2.0;

/// The next step. `can_test` says which commits can be tested.
pub fn series_step(
    builds: &[Build],
    settings: &SeriesSettings,
    can_test: impl Fn(usize) -> bool,
) -> SeriesStep {
    let runs_of = |commit: usize| builds.iter().find(|b| b.commit == commit).map_or(0, |b| b.runs);
    let first: Vec<(usize, u32)> = grid(settings, &can_test)
        .into_iter()
        .chain(builds.iter().map(|build| build.commit).filter(|commit| can_test(*commit)))
        .map(|commit| (commit, settings.runs.saturating_sub(runs_of(commit))))
        .filter(|(_, runs)| *runs > 0)
        .collect();
    if !first.is_empty() {
        return SeriesStep::Measure(unique(first));
    }
    let mut tested = builds.to_vec();
    tested.sort_by_key(|build| build.commit);
    let found = change_points(&tested, settings.changes, settings.size, &settings.layouts);
    let mut wanted = Vec::new();
    for (pair, p) in tested.windows(2).zip(&found.probability) {
        let middle = halfway(pair[0].commit, pair[1].commit, &can_test);
        wanted.extend(middle.filter(|_| *p > HALVED).map(|commit| (commit, settings.runs)));
    }
    if wanted.is_empty() {
        wanted = unsure(&tested, &found, TIMES_MAX * settings.runs, &can_test)
            .map(|commit| (commit, settings.runs))
            .collect();
    }
    if wanted.is_empty() {
        return SeriesStep::Done(brackets(&tested, &found, &settings.layouts));
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

/// Commits beside gaps of which it is unsure whether they hold a change, with fewer than `runs_max` runs: of two
/// neighbours that can be tested the one with fewer runs.
fn unsure(
    tested: &[Build],
    found: &ChangePoints,
    runs_max: u32,
    can_test: impl Fn(usize) -> bool,
) -> impl Iterator<Item = usize> {
    let gaps = tested.windows(2).zip(&found.probability);
    let unsure = gaps.filter(|(_, p)| (UNSURE..1.0 - UNSURE).contains(*p));
    unsure.filter_map(move |(pair, _)| {
        let testable = pair.iter().filter(|build| can_test(build.commit));
        let fewer = testable.min_by_key(|build| build.runs)?;
        (fewer.runs < runs_max).then_some(fewer.commit)
    })
}

/// The changes that are more probable than [`TOLD`], each with the gaps that hold it.
fn brackets(tested: &[Build], found: &ChangePoints, layouts: &Layouts) -> Vec<Bracket> {
    let mut left = found.probability.clone();
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    while let Some((range, held)) = next_change(&mut left) {
        gaps.extend((held > TOLD).then_some(range));
    }
    gaps.sort_unstable();
    loop {
        let found = bracketed(tested, &gaps, found.variance, layouts);
        let shown = |bracket: &Bracket| bracket.size.abs() / bracket.error;
        let weakest =
            (0..found.len()).min_by(|a, b| shown(&found[*a]).total_cmp(&shown(&found[*b])));
        match weakest.filter(|weakest| shown(&found[*weakest]) < SHOWN) {
            Some(weakest) => drop(gaps.remove(weakest)),
            None => return found,
        }
    }
}

/// The changes in these gaps, with their sizes.
fn bracketed(
    tested: &[Build],
    gaps: &[(usize, usize)],
    variance: f64,
    layouts: &Layouts,
) -> Vec<Bracket> {
    let layout = layouts.iter().map(|(spread, weight)| weight * spread * spread).sum::<f64>();
    let weight = |build: &Build| 1.0 / (variance / f64::from(build.runs.max(1)) + layout);
    // The mean of the commits from one change to the next, and its weight.
    let level = |low: usize, high: usize| {
        let builds = &tested[low.min(high)..=high];
        let sum: f64 = builds.iter().map(weight).sum();
        (builds.iter().map(|build| weight(build) * build.mean).sum::<f64>() / sum, sum)
    };
    let bracket = |(index, (first, last)): (usize, &(usize, usize))| {
        let low = index.checked_sub(1).map_or(0, |before| gaps[before].1 + 1);
        let high = gaps.get(index + 1).map_or(tested.len() - 1, |next| next.0);
        let [before, after] = [level(low, *first), level(last + 1, high.max(last + 1))];
        Bracket {
            without: tested[*first].commit,
            with: tested[last + 1].commit,
            steps: tested[last + 1].commit - tested[*first].commit,
            size: after.0 - before.0,
            error: (1.0 / before.1 + 1.0 / after.1).sqrt(),
        }
    };
    gaps.iter().enumerate().map(bracket).collect()
}

/// The most probable change that is left, as a range of gaps with its probability, which is taken away. `None` if what
/// is left is next to nothing.
fn next_change(left: &mut [f64]) -> Option<((usize, usize), f64)> {
    let by = |a: &usize, b: &usize| left[*a].total_cmp(&left[*b]);
    let peak = (0..left.len()).max_by(by).filter(|peak| left[*peak] >= LITTLE)?;
    let (mut first, mut last, mut held) = (peak, peak, left[peak]);
    while held < HELD {
        let below = first.checked_sub(1).map_or(0.0, |gap| left[gap]);
        let above = left.get(last + 1).copied().unwrap_or(0.0);
        if below.max(above) < LITTLE {
            break;
        }
        if below > above {
            first -= 1;
        } else {
            last += 1;
        }
        held += below.max(above);
    }
    let mut taken = 1.0;
    // A second change within the range keeps what is left of its probability.
    for gap in std::iter::once(peak).chain(first..peak).chain(peak + 1..=last) {
        let share = left[gap].min(taken);
        left[gap] -= share;
        taken -= share;
    }
    Some(((first, last), held))
}

#[cfg(test)]
mod tests {
    use super::{SeriesSettings, SeriesStep, next_change, runs_for, series_step};
    use crate::evidence::Build;

    #[test]
    fn a_sure_change_is_found_behind_one_that_is_not() {
        let mut left = [0.6, 0.1, 0.0, 0.0, 0.33, 0.33, 0.33];
        let found: Vec<_> = std::iter::from_fn(|| next_change(&mut left)).collect();
        let [((0, 1), first), ((4, 6), second)] = found[..] else { panic!("{found:?}") };
        assert!(first < super::TOLD && second > super::TOLD, "{found:?}");
    }

    #[test]
    fn a_commit_that_was_measured_and_then_fails_is_not_asked_for_again() {
        let settings =
            SeriesSettings { changes: 60, grid: 9, size: 0.05, runs: 3, layouts: vec![(0.0, 1.0)] };
        let one = |commit, runs| Build { runs, squares: 1e-4, ..Build::new(commit) };
        let builds = [one(0, 3), one(60, 3), one(31, 1)];
        let SeriesStep::Measure(wanted) = series_step(&builds, &settings, |commit| commit != 31)
        else {
            panic!("nothing was asked for")
        };
        assert!(wanted.iter().all(|(commit, _)| *commit != 31), "{wanted:?}");
    }

    /// Measures without noise to speak of until done.
    fn search(level: impl Fn(usize) -> f64, broken: &[usize]) -> Vec<(usize, usize)> {
        let settings =
            SeriesSettings { changes: 60, grid: 9, size: 0.05, runs: 3, layouts: vec![(0.0, 1.0)] };
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
        assert_eq!(runs_for(0.05, 0.03), 3);
        assert_eq!(runs_for(0.05, 0.05), 8);
        assert_eq!(runs_for(1.0, 0.01), 3);
    }
}
