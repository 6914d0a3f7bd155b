//! A line of builds over months: which gap between two neighbours may hold a change, what a comparison of these two says
//! today, and how often such answers were right.
//!
//!     points ──> next_suspect ──> both neighbours compared in fresh runs ──> Compared::Changed: said
//!                     ^                                                 └──> not: the host, not said
//!                     └── a gap that holds a change, or none, is known from then on
//!
//! What a line of points suggests is never said: a host that changed suggests as much. Only the comparison decides.

mod levels;
mod neighbours;
pub mod selfcheck;
mod simulated;

pub use levels::{MeasuredBuild, PairSums};

use std::ops::Range;

use analysis::{Decision, Rule, judge};
use records::Better;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::levels::levels;
use self::neighbours::{Evidence, Known, LaidOut};
use crate::gaussian::Normal;

/// Blocks in which a new point is measured.
pub const POINT_BLOCKS: u32 = 5;

/// Pairs of runs of a comparison at most.
pub const PAIRS_MAX: u32 = 80;

/// Pairs of runs of a comparison at least: what earlier points suggested, a look at the newest may exclude.
const PAIRS_LEAST: u32 = STEP_PAIRS;

/// Other layouts of both builds in which they are compared.
pub const COMPARED_LAYOUTS: u32 = 8;

/// Pairs after which a comparison is looked at, as the compiler lays both builds out.
pub const STEP_PAIRS: u32 = 2;

/// Other layouts, with a pair each, after which it is looked at.
pub const LAYOUTS_A_STEP: u32 = 2;

/// Probability from which a gap is compared: of the gap before the newest, and of others. The evidence decides about the gap of
/// the build that was measured last.
const SUSPECTED: [f64; 3] = [0.10, 0.10, 0.30];

/// How much more probable a change makes all that was measured than none, from which on it is said, if today's pairs show it by
/// themselves, too.
const SAID: f64 = 1e4;

/// Below this logarithm of a likelihood ratio, a change of the size that is looked for is excluded.
const EXCLUDED: f64 = -3.0;

/// From this logarithm on, other layouts are worth their building.
const WORTH_LAYOUTS: f64 = 0.0;

/// After so many pairs of the builds as they are, others of theirs tell more: what a layout adds does not shrink with runs.
const LAYOUTS_AFTER: u32 = 4;

/// Probability that today's pairs alone show a change where there is none, in the direction that the line suggests and in the
/// other one.
const PAIRS_ALPHA: f64 = 0.10;

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

/// A line as a watcher knows it.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// In the order of the line.
    pub builds: &'a [MeasuredBuild],
    /// What is known of the gaps between them.
    pub gaps: &'a [GapIs],
    /// The smallest change that matters, as a share.
    pub smallest: f64,
    /// Number of series of the line, which share its false alarms.
    pub series: usize,
}

/// What the points say.
struct Points {
    levels: Vec<Normal>,
    probability: Vec<f64>,
    spreads: Vec<f64>,
}

impl Watched<'_> {
    /// The gap that is to be compared next, if any.
    pub fn next_suspect(&self) -> Option<Suspect> {
        let points = self.points();
        let last = points.probability.len().checked_sub(1)?;
        let least = |gap: usize| match self.gaps[gap] {
            GapIs::UnchangedEarly => SUSPECTED_AGAIN,
            _ => SUSPECTED[(last - gap).min(SUSPECTED.len() - 1)],
        };
        let odds = |probability: f64| probability / (1.0 - probability).max(1e-12);
        let many = self.series.max(1) as f64;
        let beyond = |gap: usize| odds(points.probability[gap]) / odds(least(gap)) / many;
        let is_open =
            |gap: &usize| matches!(self.gaps[*gap], GapIs::Unknown | GapIs::UnchangedEarly);
        let matters = |gap: &usize| {
            beyond(*gap) > 1.0 && points.step(*gap).abs() >= self.smallest.ln_1p() / 2.0
        };
        let suspect =
            |gap: usize, step| Suspect { before: gap, probability: points.probability[gap], step };
        // The gap before the build that was measured last.
        let sessions = self.builds.iter().enumerate();
        let newest = sessions.max_by_key(|(_, build)| build.session).map_or(0, |(at, _)| at);
        let own = newest.checked_sub(1);
        let others = (0..=last).filter(|gap| Some(*gap) != own);
        let suspected = others.filter(is_open).filter(matters);
        if let Some(most) = suspected.max_by(|a, b| beyond(*a).total_cmp(&beyond(*b))) {
            return Some(suspect(most, points.step(most)));
        }
        let own = own.filter(|gap| self.gaps[*gap] == GapIs::Unknown)?;
        let so_far = self.comparison_with(&points, own).so_far(&[], Relinking::Possible);
        (!so_far.is_excluded).then(|| suspect(own, so_far.evidence.change.mean))
    }

    /// The probability of a change in each gap, by the points and by what is known of other gaps.
    pub fn probabilities(&self) -> Vec<f64> {
        self.points().probability
    }

    /// A comparison of the builds beside a gap, by what is known now.
    pub fn comparison(&self, gap: usize) -> Comparison {
        self.comparison_with(&self.points(), gap)
    }

    fn comparison_with(&self, points: &Points, gap: usize) -> Comparison {
        let known = neighbours::known(self.builds, &points.probability, &points.spreads, gap);
        Comparison { known, smallest: self.smallest, series: self.series }
    }

    fn points(&self) -> Points {
        let Watched { builds, gaps, smallest, .. } = *self;
        let mut places = vec![0];
        for gap in 0..gaps.len() {
            let further = match gaps[gap] {
                GapIs::Changed => SURELY,
                // Where the points still differ beside it, the host did.
                GapIs::Unchanged if has_unchanged_neighbour(gaps, gap) => 1,
                GapIs::Unchanged => 0,
                GapIs::Unknown | GapIs::UnchangedEarly => 1,
            };
            places.push(places[gap] + further);
        }
        let levels = levels(builds).builds;
        let size = WORTH * smallest.ln_1p();
        let length = builds.len().max(USUAL_LENGTH);
        let (probability, spreads) = neighbours::changes(&levels, &places, length, size);
        Points { levels, probability, spreads }
    }
}

impl Points {
    /// The step at a gap: the mean of the builds after it, up to the next likely change, less that of those before it.
    fn step(&self, gap: usize) -> f64 {
        let is_change = |at: &usize| self.probability[*at] > 0.5;
        let low = (0..gap).rev().find(is_change).map_or(0, |at| at + 1);
        let high = (gap + 1..self.probability.len())
            .find(is_change)
            .map_or(self.levels.len(), |at| at + 1);
        self.mean(gap + 1..high) - self.mean(low..gap + 1)
    }

    fn mean(&self, range: Range<usize>) -> f64 {
        self.levels[range].iter().copied().fold(Normal::unknown(), Normal::and).mean
    }
}

/// Changes that are looked for are of about this multiple of the smallest one that matters.
const WORTH: f64 = 2.0;

fn has_unchanged_neighbour(gaps: &[GapIs], gap: usize) -> bool {
    let is_unchanged = |at: usize| gaps.get(at) == Some(&GapIs::Unchanged);
    is_unchanged(gap + 1) || gap.checked_sub(1).is_some_and(is_unchanged)
}

/// A pair of runs of two neighbours: the logarithms of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedPair {
    /// 0 is the compiler's own.
    pub layout: u32,
    /// 0 is the session of the newer build's point.
    pub session: u32,
    pub older: f64,
    pub newer: f64,
}

/// Whether other layouts of both builds can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relinking {
    Possible,
    Impossible,
}

/// Where no other layouts can be had, more runs would never tell a change from what the layouts do. Then builds count as
/// this much different, as a standard deviation, and a change must be this multiple of the smallest one that matters.
const SPREAD_WITHOUT_LAYOUTS: f64 = 0.003;
const CLEAR: f64 = 1.5;

/// A comparison of two neighbours.
#[derive(Clone, Debug)]
pub struct Comparison {
    known: Known,
    smallest: f64,
    series: usize,
}

/// What a comparison of two neighbours says so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedSoFar {
    /// All evidence.
    pub evidence: Evidence,
    /// Whether no more pairs are needed.
    pub stop: bool,
    /// Whether the gap holds a change.
    pub is_changed: bool,
    /// Whether it surely holds none of the size that is looked for.
    pub is_excluded: bool,
    /// Whether other layouts are worth their building.
    pub worth_layouts: bool,
}

impl Comparison {
    /// Judges the pairs, in the order of execution.
    pub fn so_far(&self, pairs: &[ComparedPair], relinking: Relinking) -> ComparedSoFar {
        let margin = self.smallest.ln_1p();
        let (spread_most, least) = match relinking {
            Relinking::Possible => (f64::INFINITY, margin),
            Relinking::Impossible => (SPREAD_WITHOUT_LAYOUTS, CLEAR * margin),
        };
        let size = LOOKED_FOR * margin;
        let evidence = neighbours::evidence(&self.known, &by_layout(pairs), size, spread_most);
        // With many series, chance has as many opportunities.
        let many = (self.series.max(1) as f64).ln();
        let change = evidence.change.mean;
        let is_enough = evidence.for_change - many >= SAID.ln() && change.abs() >= least;
        let is_changed =
            is_enough && shown(pairs, self.smallest).is_some_and(|shown| shown * change > 0.0);
        let is_excluded = evidence.for_size - many < EXCLUDED;
        let is_over =
            is_excluded && pairs.len() >= PAIRS_LEAST as usize || pairs.len() >= PAIRS_MAX as usize;
        ComparedSoFar {
            evidence,
            stop: is_changed || is_over,
            is_changed,
            is_excluded,
            worth_layouts: evidence.for_change >= WORTH_LAYOUTS
                || pairs.len() >= LAYOUTS_AFTER as usize,
        }
    }
}

/// The change that pairs show by themselves, as a logarithm: those in other layouts, if there are any, else all.
pub fn shown(pairs: &[ComparedPair], smallest: f64) -> Option<f64> {
    let has_layouts = pairs.iter().any(|pair| pair.layout > 0);
    let deciding = pairs.iter().filter(|pair| !has_layouts || pair.layout > 0);
    let differences: Vec<f64> = deciding.map(|pair| pair.newer - pair.older).collect();
    let margin = smallest.ln_1p();
    let rule = Rule { alpha: PAIRS_ALPHA, margin, sequential: true, cap: PAIRS_MAX };
    let judged = judge(&differences, &rule);
    judged.estimate.filter(|_| matches!(judged.decision, Decision::Changed { .. }))
}

/// How much more probable a change must make what was measured than none, in a line of so many series.
pub fn likelihood_ratio(series: usize) -> f64 {
    SAID * series.max(1) as f64
}

/// Changes of this multiple of the smallest one that matters are surely found.
const LOOKED_FOR: f64 = 2.4;

fn by_layout(pairs: &[ComparedPair]) -> Vec<LaidOut> {
    let mut sums: Vec<LaidOut> = Vec::new();
    for ComparedPair { layout, session, older, newer } in pairs {
        let is_own = |one: &&mut LaidOut| one.layout == *layout && one.session == *session;
        match sums.iter_mut().find(is_own) {
            Some(own) => own.pairs.add(*older, *newer),
            None => {
                let mut own =
                    LaidOut { layout: *layout, session: *session, pairs: PairSums::default() };
                own.pairs.add(*older, *newer);
                sums.push(own);
            }
        }
    }
    sums
}

/// Whether a change, as a logarithm, is for the worse; any is in a metric that is neither good nor bad.
pub fn is_worse(change: f64, better: Better) -> bool {
    match better {
        Better::Lower => change > 0.0,
        Better::Higher => change < 0.0,
        Better::Neither => true,
    }
}

/// What became of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Said, and nobody answered yet.
    Open,
    /// Said, and a later change took it back.
    GoneAgain,
    /// Parts of a sum changed in both directions, and the sum did not: cost moved, and nothing is open.
    Moved,
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

    const NOISE: [f64; 5] = [-0.03, 0.03, 0.0, 0.02, -0.02];

    /// Builds of these levels on a host that does this beside, in their sessions.
    fn line(levels: &[f64], host: impl Fn(usize) -> f64) -> Vec<MeasuredBuild> {
        let build = |(session, level): (usize, &f64)| {
            let mut beside_anchor = PairSums::default();
            for (at, noise) in NOISE.iter().enumerate() {
                let anchor = host(session) + NOISE[(at + 2) % 5];
                beside_anchor.add(anchor, host(session) + level + noise);
            }
            MeasuredBuild { session, beside_anchor }
        };
        levels.iter().enumerate().map(build).collect()
    }

    fn suspect(levels: &[f64], known: &[(usize, GapIs)]) -> Option<Suspect> {
        let builds = line(levels, |_| 0.0);
        let mut gaps = vec![GapIs::Unknown; builds.len() - 1];
        known.iter().for_each(|(gap, is)| gaps[*gap] = *is);
        Watched { builds: &builds, gaps: &gaps, smallest: 0.02, series: 1 }.next_suspect()
    }

    #[test]
    fn a_step_is_suspected_at_once_and_then_known() {
        let mut levels = vec![0.0; 12];
        assert_eq!(suspect(&levels, &[]), None);
        levels.push(0.06);
        let found = suspect(&levels, &[]).unwrap();
        assert!(found.before == 11 && (found.step - 0.06).abs() < 0.02, "{found:?}");
        assert_eq!(suspect(&levels, &[(11, GapIs::Changed)]), None);
        // It goes on, and goes away again.
        levels.extend([0.06; 5]);
        assert_eq!(suspect(&levels, &[(11, GapIs::Changed)]), None);
        levels.extend([0.0; 3]);
        let found = suspect(&levels, &[(11, GapIs::Changed)]).unwrap();
        assert!(found.before == 17 && (found.step + 0.06).abs() < 0.02, "{found:?}");
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

    /// What pairs say of the newest gap: whether they end, and whether it is changed.
    fn compared(levels: &[f64], host: impl Fn(usize) -> f64, pairs: (usize, f64)) -> (bool, bool) {
        let builds = line(levels, &host);
        let gaps = vec![GapIs::Unknown; builds.len() - 1];
        let watched = Watched { builds: &builds, gaps: &gaps, smallest: 0.02, series: 1 };
        let gap = builds.len() - 2;
        let pair = |at: usize| {
            let older = host(gap + 1) + levels[gap] + NOISE[at % 5];
            let newer = older + pairs.1 + NOISE[(at + 3) % 5] / 2.0;
            ComparedPair { layout: 0, session: 0, older, newer }
        };
        let pairs: Vec<ComparedPair> = (0..pairs.0).map(pair).collect();
        let so_far = watched.comparison(gap).so_far(&pairs, Relinking::Possible);
        (so_far.stop, so_far.is_changed)
    }

    #[test]
    fn a_comparison_ends_once_a_change_is_shown_or_excluded() {
        let levels = [[0.0; 15].as_slice(), &[0.06]].concat();
        let steady = |_| 0.0;
        assert_eq!(compared(&levels, steady, (4, 0.06)), (false, false));
        assert_eq!(compared(&levels, steady, (20, 0.06)), (true, true));
        assert_eq!(compared(&levels, steady, (20, 0.0)), (true, false));
        // Too small to matter.
        assert_eq!(compared(&[0.01; 16], steady, (60, 0.01)), (true, false));
    }

    #[test]
    fn a_host_that_steps_is_no_change_whatever_the_line_of_earlier_days_says() {
        // The anchor ran too early in its session to see it: only the new build did, and the pairs show nothing.
        let levels = [[0.0; 15].as_slice(), &[0.06]].concat();
        assert_eq!(compared(&levels, |_| 0.0, (12, 0.0)), (true, false));
        let steps = |session| if session == 15 { 0.06 } else { 0.0 };
        assert_eq!(compared(&[0.0; 16], steps, (12, 0.0)), (true, false));
        assert!(suspect(&[0.0; 16], &[]).is_none());
    }

    #[test]
    fn many_series_share_the_false_alarms_of_a_line() {
        assert!((likelihood_ratio(100) / likelihood_ratio(1) - 100.0).abs() < 1e-9);
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
