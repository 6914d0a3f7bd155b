//! A line of builds over months: which gap between two neighbours may hold a change, what a comparison of these two says
//! today, and how often such answers were right.
//!
//!     points ──> next_suspect ──> both neighbours compared in fresh runs ──> Compared::Changed: said
//!                     ^                                                 └──> not: the host, not said
//!                     └── a gap that holds a change, or none, is known from then on
//!
//! What a line of points suggests is never said: a host that changed suggests as much. Only the comparison decides.

pub mod selfcheck;
mod simulated;

use std::ops::Range;

use analysis::{Decision, Judgement, Rule, is_harmless, judge};
use records::Better;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change_points::change_points;
use crate::evidence::Build;
use crate::posterior::LAYOUT_UNKNOWN;

/// Blocks in which a new point is measured.
pub const POINT_BLOCKS: u32 = 5;

/// Pairs of runs of a comparison at most.
pub const PAIRS_MAX: u32 = 40;

/// Other layouts of both builds in which they are compared.
pub const COMPARED_LAYOUTS: u32 = 8;

/// Pairs of the builds as they are, which end most comparisons before other layouts are built.
pub const PLAIN_PAIRS: u32 = 8;

/// Probability from which a gap is compared: of the newest gap, of the one before it, and of others. The newest point has
/// few runs for it and nothing after it, so little must suffice.
const SUSPECTED: [f64; 3] = [0.005, 0.10, 0.30];

/// Probability that a comparison calls a gap changed that is not, all its looks together. Most gaps of a line are compared
/// once, and half of what chance shows goes in the other direction.
const COMPARED_ALPHA: f64 = 0.0003;

/// A comparison ends once a change of this share of the suggested one is excluded.
const SHARE: f64 = 0.5;

/// What is said must be this much larger than the smallest change that matters: builds that differ by nothing differ by
/// about 1 %, in the mean of a few layouts still by half of that.
const CLEAR: f64 = 1.5;

/// Length for which the number of changes is expected; a longer line has more.
const USUAL_LENGTH: usize = 40;

/// Gaps between builds that surely differ are as wide as this many commits.
const SURELY: usize = 1_000_000;

/// What is known of the gap between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapIs {
    /// It was not compared.
    Unknown,
    /// A comparison found a change.
    Changed,
    /// A comparison found none.
    Unchanged,
    /// A comparison found none when few builds followed; more do now.
    UnchangedEarly,
}

/// What a gap is after comparisons that found no change there. `followed` has the number of builds after the gap when each
/// was made, `now` their number now.
pub fn unchanged(followed: &[usize], now: usize) -> GapIs {
    match followed {
        [] => GapIs::Unknown,
        [once] if *once < SUSPECTED.len() && now >= once + SUSPECTED.len() => GapIs::UnchangedEarly,
        _ => GapIs::Unchanged,
    }
}

/// Probability from which a gap is compared once more.
const SUSPECTED_AGAIN: f64 = 0.9;

/// A gap that may hold a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// The build before it, by its place in the line.
    pub before: usize,
    /// Probability of a change there, by the points alone.
    pub probability: f64,
    /// The step there, as a logarithm.
    pub step: f64,
}

/// The gap that is to be compared next, if any. `builds` has the ratio of each build to the anchor as logarithms, in the
/// order of the line, `gaps` what is known of the gaps between them, `smallest` the smallest change that matters as a share.
pub fn next_suspect(builds: &[Build], gaps: &[GapIs], smallest: f64) -> Option<Suspect> {
    let probability = probabilities(builds, gaps, smallest);
    let last = probability.len().checked_sub(1)?;
    let is_open = |gap: &usize| matches!(gaps[*gap], GapIs::Unknown | GapIs::UnchangedEarly);
    let beyond = |gap: usize| {
        let least = match gaps[gap] {
            GapIs::UnchangedEarly => SUSPECTED_AGAIN,
            _ => SUSPECTED[(last - gap).min(SUSPECTED.len() - 1)],
        };
        probability[gap] / least
    };
    let matters = |gap: &usize| {
        beyond(*gap) > 1.0 && step(builds, &probability, *gap).abs() >= smallest.ln_1p() / 2.0
    };
    let suspected = (0..=last).filter(is_open).filter(matters);
    let most = suspected.max_by(|a, b| beyond(*a).total_cmp(&beyond(*b)))?;
    let step = step(builds, &probability, most);
    Some(Suspect { before: most, probability: probability[most], step })
}

/// The probability of a change in each gap, by the points and by what is known of other gaps.
pub fn probabilities(builds: &[Build], gaps: &[GapIs], smallest: f64) -> Vec<f64> {
    let mut place = 0;
    let mut placed = builds.to_vec();
    for (at, build) in placed.iter_mut().enumerate() {
        if at > 0 {
            place += match gaps[at - 1] {
                GapIs::Changed => SURELY,
                // Where the points still differ beside it, the host did.
                GapIs::Unchanged if has_unchanged_neighbour(gaps, at - 1) => 1,
                GapIs::Unchanged => 0,
                GapIs::Unknown | GapIs::UnchangedEarly => 1,
            };
        }
        build.commit = place;
    }
    let size = WORTH * smallest.ln_1p();
    let length = builds.len().max(USUAL_LENGTH);
    change_points(&placed, length, size, LAYOUT_UNKNOWN).probability
}

/// Changes that are looked for are of about this multiple of the smallest one that matters.
const WORTH: f64 = 2.0;

fn has_unchanged_neighbour(gaps: &[GapIs], gap: usize) -> bool {
    let is_unchanged = |at: usize| gaps.get(at) == Some(&GapIs::Unchanged);
    is_unchanged(gap + 1) || gap.checked_sub(1).is_some_and(is_unchanged)
}

/// The step at a gap: the mean of the builds after it, up to the next likely change, less that of those before it.
fn step(builds: &[Build], probability: &[f64], gap: usize) -> f64 {
    let is_change = |at: &usize| probability[*at] > 0.5;
    let low = (0..gap).rev().find(is_change).map_or(0, |at| at + 1);
    let high = (gap + 1..probability.len()).find(is_change).map_or(builds.len(), |at| at + 1);
    mean(builds, gap + 1..high) - mean(builds, low..gap + 1)
}

fn mean(builds: &[Build], range: Range<usize>) -> f64 {
    let runs = |build: &Build| f64::from(build.runs);
    let all: f64 = builds[range.clone()].iter().map(runs).sum();
    builds[range].iter().map(|build| runs(build) * build.mean).sum::<f64>() / all.max(1.0)
}

/// What a comparison of two neighbours says so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedSoFar {
    /// The judgement on all pairs.
    pub judged: Judgement,
    /// Whether no more pairs are needed.
    pub stop: bool,
    /// Whether the gap holds the change that the line suggests.
    pub is_changed: bool,
}

/// Judges the pairs of runs of two neighbours. `differences` has the logarithm of the later build less that of the earlier
/// one for each pair, in the order of execution; `step` is what the line suggests.
pub fn compared(differences: &[f64], step: f64, smallest: f64) -> ComparedSoFar {
    let margin = smallest.ln_1p();
    let rule = Rule { alpha: COMPARED_ALPHA, margin, sequential: true, cap: PAIRS_MAX };
    let judged = judge(differences, &rule);
    let estimate = judged.estimate.unwrap_or(0.0);
    let is_decided = matches!(judged.decision, Decision::Changed { .. });
    let is_changed = is_decided && estimate.abs() >= CLEAR * margin && estimate * step > 0.0;
    // Less would not be what the line suggests. This ends the runs, and is no verdict.
    let least = Rule { margin: margin.max(SHARE * step.abs()), ..rule };
    let towards = if step > 0.0 { Better::Lower } else { Better::Higher };
    let stop = judged.stop || is_harmless(differences, towards, &least);
    ComparedSoFar { judged, stop, is_changed }
}

/// What became of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Said, and nobody answered yet.
    Open,
    /// Said, and a later change took it back.
    GoneAgain,
    /// Said, and accepted with a reason.
    Accepted,
    /// Said, and declared to be none.
    False,
    /// Suggested by the points, not confirmed by the comparison, and not said.
    NotConfirmed,
}

/// How often the alarms of a line were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Score {
    /// Changes that were said.
    pub said: usize,
    /// Those of them that nobody declared to be none.
    pub right: usize,
    /// Those that were accepted with a reason.
    pub accepted: usize,
    /// Those that were declared to be none.
    pub declared_false: usize,
    /// What the points suggested and the comparison did not confirm.
    pub not_confirmed: usize,
}

/// Counts what became of all alarms.
pub fn score(fates: &[Fate]) -> Score {
    let count = |fate: Fate| fates.iter().filter(|one| **one == fate).count();
    let not_confirmed = count(Fate::NotConfirmed);
    let declared_false = count(Fate::False);
    let said = fates.len() - not_confirmed;
    Score {
        said,
        right: said - declared_false,
        accepted: count(Fate::Accepted),
        declared_false,
        not_confirmed,
    }
}

/// Alarms of one direction alone, from this number on, speak against the line: changes of a program go both ways.
const ONE_SIDED: usize = 6;

/// Whether all changes go in one direction, though there are many.
pub fn is_one_sided(sizes: &[f64]) -> bool {
    let up = sizes.iter().filter(|size| **size > 0.0).count();
    sizes.len() >= ONE_SIDED && (up == 0 || up == sizes.len())
}

/// For each change of a line, in its order, which later one took it back: after it the level is what it was before the first,
/// within the smallest change that matters.
pub fn taken_back(sizes: &[f64], smallest: f64) -> Vec<Option<usize>> {
    let margin = smallest.ln_1p();
    let mut by: Vec<Option<usize>> = vec![None; sizes.len()];
    for first in 0..sizes.len() {
        if by.contains(&Some(first)) {
            continue;
        }
        let mut level = sizes[first];
        for (later, size) in sizes.iter().enumerate().skip(first + 1) {
            level += size;
            if level.abs() < margin {
                by[first] = Some(later);
                break;
            }
        }
    }
    by
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(levels: &[f64]) -> Vec<Build> {
        let build = |(index, level): (usize, &f64)| {
            let mut build = Build::new(index);
            [-0.03, 0.03, 0.0, 0.02, -0.02].iter().for_each(|noise| build.add(level + noise));
            build
        };
        levels.iter().enumerate().map(build).collect()
    }

    fn suspect(levels: &[f64], known: &[(usize, GapIs)]) -> Option<Suspect> {
        let builds = line(levels);
        let mut gaps = vec![GapIs::Unknown; builds.len() - 1];
        known.iter().for_each(|(gap, is)| gaps[*gap] = *is);
        next_suspect(&builds, &gaps, 0.02)
    }

    #[test]
    fn a_step_is_suspected_at_once_and_then_known() {
        let mut levels = vec![0.0; 12];
        assert_eq!(suspect(&levels, &[]), None);
        levels.push(0.06);
        let found = suspect(&levels, &[]).unwrap();
        assert!(found.before == 11 && (found.step - 0.06).abs() < 1e-9, "{found:?}");
        assert_eq!(suspect(&levels, &[(11, GapIs::Changed)]), None);
        // If it is not there, the point before it may be in between.
        let unchanged = [(11, GapIs::Unchanged), (10, GapIs::Unchanged)];
        assert_eq!(suspect(&levels, &unchanged[..1]).map(|found| found.before), Some(10));
        assert_eq!(suspect(&levels, &unchanged), None);
        // It goes on, and goes away again.
        levels.extend([0.06; 5]);
        assert_eq!(suspect(&levels, &[(11, GapIs::Changed)]), None);
        levels.extend([0.0; 3]);
        let found = suspect(&levels, &[(11, GapIs::Changed)]).unwrap();
        assert!(found.before == 17 && (found.step + 0.06).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_gap_is_compared_once_more_when_more_builds_follow_it() {
        let check = |followed: &[usize], now, expected| {
            assert_eq!(unchanged(followed, now), expected, "{followed:?} {now}");
        };
        check(&[], 5, GapIs::Unknown);
        check(&[1], 3, GapIs::Unchanged);
        check(&[1], 4, GapIs::UnchangedEarly);
        check(&[5], 20, GapIs::Unchanged);
        check(&[1, 4], 20, GapIs::Unchanged);
        let levels = [[0.0; 10], [0.06; 10]].concat();
        let again = [(9, GapIs::UnchangedEarly)];
        assert_eq!(suspect(&levels, &again).map(|found| found.before), Some(9));
    }

    #[test]
    fn what_is_not_between_these_two_is_looked_for_beside_them() {
        // The point between both levels could belong to either.
        let levels = [[0.0; 8].as_slice(), &[0.03], &[0.06; 8]].concat();
        let first = suspect(&levels, &[]).unwrap().before;
        assert!(first == 7 || first == 8, "{first}");
        let second = suspect(&levels, &[(first, GapIs::Unchanged)]).unwrap().before;
        assert_eq!(first + second, 15);
        let both = [(7, GapIs::Unchanged), (8, GapIs::Unchanged)];
        assert_eq!(suspect(&levels, &both), None, "the host changed there");
    }

    #[test]
    fn a_comparison_ends_once_what_the_line_suggests_is_shown_or_excluded() {
        let noise = |pair: usize| [0.01, -0.02, 0.02, -0.01, 0.0][pair % 5];
        let pairs =
            |n: usize, level: f64| (0..n).map(|pair| level + noise(pair)).collect::<Vec<_>>();
        let check = |n, level, step, expected: (bool, bool)| {
            let so_far = compared(&pairs(n, level), step, 0.02);
            assert_eq!((so_far.stop, so_far.is_changed), expected, "{n} {level}: {so_far:?}");
        };
        check(7, 0.05, 0.05, (false, false));
        check(8, 0.0, 0.05, (true, false));
        check(20, 0.05, 0.05, (true, true));
        // In the other direction, or too small to matter.
        check(20, 0.05, -0.05, (true, false));
        check(60, 0.015, 0.03, (true, false));
    }

    #[test]
    fn changes_that_went_away_again_are_paired() {
        assert_eq!(taken_back(&[0.05, -0.05, 0.04], 0.02), [Some(1), None, None]);
        assert_eq!(taken_back(&[0.05, 0.03, -0.08], 0.02), [Some(2), None, None]);
        assert_eq!(taken_back(&[0.05, 0.04], 0.02), [None, None]);
    }

    #[test]
    fn the_score_counts_what_was_said() {
        use Fate::{Accepted, False, GoneAgain, NotConfirmed, Open};
        let score = score(&[Open, Accepted, False, NotConfirmed, GoneAgain]);
        assert_eq!((score.right, score.said, score.not_confirmed), (3, 4, 1));
        assert!(is_one_sided(&[0.1; 6]) && !is_one_sided(&[0.1; 5]));
        assert!(!is_one_sided(&[0.1, 0.1, 0.1, -0.1, 0.1, 0.1]));
    }
}
