//! A whole bisection whose runs are drawn: the search, then comparisons of what it blames. As in a real one, their runs are
//! evidence, which may send the search on, and those that the host disturbed are made again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use analysis::sequential::LOOKS;
use analysis::{ALPHA, Decision, Rule, blocks_at_most, judge};

use crate::answer::Answer;
use crate::search::{Next, Search};

/// Answers after which the search takes the runs of comparisons as evidence; the one after them stands as it is.
pub const COMPARED_ANSWERS_MAX: u32 = 3;
/// A comparison that the host disturbed is made this often at most.
pub const COMPARED_MAX: u32 = 3;

/// A comparison is given up where no more than so many of its latest blocks count, of so many.
const COUNT_LEAST: (usize, usize) = (1, 20);

/// Whether a comparison is not worth going on with: whether each of its blocks counts, in order. Blocks that the host
/// disturbs do not.
pub fn is_given_up(counts: &[bool]) -> bool {
    let (most, of) = COUNT_LEAST;
    let latest = counts.len().checked_sub(of).map(|first| &counts[first..]);
    latest.is_some_and(|latest| latest.iter().filter(|counts| **counts).count() <= most)
}

/// A range of commits whose runs are drawn.
pub trait Drawn {
    /// The logarithm of a run of a commit that was linked in a layout: 0 as it is built.
    fn run_laid_out(&mut self, commit: usize, layout: u32) -> f64;
    /// What moves all runs of a step.
    fn drift(&mut self) -> f64;
    /// The size of a change, as a logarithm.
    fn size(&self, change: usize) -> f64;
    fn can_build(&self, commit: usize) -> bool;
    /// What the build of a commit is: equal for equal builds; `None` if builds are not compared.
    fn key(&self, commit: usize) -> Option<String>;
    /// Whether the host disturbs a block of a comparison.
    fn disturbs(&mut self) -> bool;

    /// The logarithm of a run of a commit as it is built.
    fn run(&mut self, commit: usize) -> f64 {
        self.run_laid_out(commit, 0)
    }
}

/// What is compared before a commit is blamed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparing {
    /// A change below this, as a logarithm, is none.
    pub margin: f64,
    /// Whether the bad end is compared with and without the change.
    pub without: bool,
    /// How a change that was borne out is measured in other layouts of the code; `None` if it is not.
    pub relinked: Option<Relinked>,
    /// How often a comparison is made at most, where the host disturbs it.
    pub times: u32,
}

/// Other layouts of a change and of its parent, and runs of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relinked {
    pub layouts: u32,
    pub runs: u32,
}

/// The undisturbed runs that say something about a layout, of those that are wanted.
pub fn least_counted(wanted: u32) -> u32 {
    wanted.div_ceil(2)
}

/// Standard errors by which a layout must show less than half of a change, to speak against it by itself.
const LAYOUT_ERRORS: f64 = 3.0;

/// Whether other layouts bear a change out: `changes` has what each shows, with its standard error, and `found` is the
/// change as it is to be. On average they must show half of it, and none may surely show less.
pub fn is_in_layouts(changes: &[(f64, f64)], found: f64) -> bool {
    let half = found.abs() / 2.0;
    let towards = |(size, _): &(f64, f64)| size * found.signum();
    let mean = changes.iter().map(towards).sum::<f64>() / changes.len().max(1) as f64;
    let lacks_it = |one: &(f64, f64)| towards(one) + LAYOUT_ERRORS * one.1 < half;
    mean > half && !changes.iter().any(lacks_it)
}

/// What a bisection took, and came to.
#[derive(Clone, Debug)]
pub struct Bisected {
    pub answer: Answer,
    /// Runs that the search asked for.
    pub runs: u32,
    /// Runs of comparisons.
    pub compared: u32,
    /// Builds of the search, and those that comparisons needed beside them.
    pub builds: u32,
    pub compared_builds: u32,
    /// Runs of both ends before they were apart.
    pub ends: u32,
    /// The longest time that it took to choose what to do next.
    pub choice: Duration,
}

/// Goes on with a search to the end of the bisection.
pub fn bisected(
    search: &mut Search,
    world: &mut impl Drawn,
    comparing: Option<Comparing>,
) -> Bisected {
    let mut builds = Builds::new(search);
    let mut choice = Duration::ZERO;
    let (mut ends, mut answers, mut taken, mut compared) = (search.runs(), 0, 0, 0);
    let mut blamed = Vec::new();
    loop {
        let since = Instant::now();
        let next = search.next_step();
        choice = choice.max(since.elapsed());
        if !search.are_ends_apart() {
            ends = search.runs();
        }
        let answer = match next {
            Next::Measure(wanted) => {
                measure(search, world, &wanted, &mut builds);
                continue;
            }
            Next::Answer(answer) => answer,
        };
        let runs = search.runs() - taken;
        let evidence = match comparing {
            Some(comparing) if answers == 0 || answer.blamed() != blamed => {
                let mut blame = Blame { search, world, builds: &mut builds, comparing, runs: 0 };
                let evidence = blame.compare(&answer);
                compared += blame.runs;
                evidence
            }
            _ => Vec::new(),
        };
        if evidence.is_empty() || answers == COMPARED_ANSWERS_MAX {
            let (builds, compared_builds) = (builds.of_search, builds.of_comparisons);
            return Bisected { answer, runs, compared, builds, compared_builds, ends, choice };
        }
        for compared in &evidence {
            compared.tell(search);
        }
        blamed = answer.blamed();
        answers += 1;
        taken = search.runs() - runs;
    }
}

/// Commits that are built.
struct Builds {
    done: BTreeSet<usize>,
    of_search: u32,
    of_comparisons: u32,
}

impl Builds {
    fn new(search: &Search) -> Builds {
        let done: BTreeSet<usize> = search.builds().iter().map(|build| build.commit).collect();
        Builds { of_search: done.len() as u32, of_comparisons: 0, done }
    }
}

/// One step of a search.
fn measure(
    search: &mut Search,
    world: &mut impl Drawn,
    wanted: &[(usize, u32)],
    builds: &mut Builds,
) {
    search.begin_step();
    let drift = world.drift();
    for &(commit, runs) in wanted {
        if !world.can_build(commit) {
            search.skip(commit);
            continue;
        }
        let is_new = builds.done.insert(commit);
        builds.of_search += u32::from(is_new);
        let key = world.key(commit).filter(|_| is_new);
        if key.is_some_and(|key| search.built(commit, &key).is_some()) {
            continue;
        }
        for _ in 0..runs {
            search.measured(commit, drift + world.run(commit));
        }
    }
}

/// Comparisons of what an answer blames.
struct Blame<'a, W> {
    search: &'a mut Search,
    world: &'a mut W,
    builds: &'a mut Builds,
    comparing: Comparing,
    runs: u32,
}

/// A comparison: commits with their layouts, and the logarithms of their runs.
struct Compared(Vec<(usize, u32, Vec<f64>)>);

impl Compared {
    /// Its runs are evidence for the search.
    fn tell(&self, search: &mut Search) {
        search.begin_comparison(self.0.iter().map(|(_, _, logs)| logs.len() as u32).sum());
        for (commit, layout, logs) in &self.0 {
            logs.iter().for_each(|log| search.measured_in(*layout, *commit, *log));
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Found {
    Changed {
        is_higher: bool,
    },
    /// No difference is shown by as many blocks as are allowed, or the builds are shown to be the same.
    NotShown,
    /// Too few blocks were left undisturbed.
    Disturbed,
}

impl<W: Drawn> Blame<'_, W> {
    /// Compares each blamed change with its parent, and, if that bears it out, in other layouts. Returns the runs that are
    /// evidence: those of other layouts only if they do not bear the change out.
    fn compare(&mut self, answer: &Answer) -> Vec<Compared> {
        let last = self.search.commits().changes();
        let is_higher = self.search.ends().is_some_and(|ends| ends.difference > 0.0);
        let mut evidence = Vec::new();
        for change in answer.blamed() {
            let parent = self.search.commits().first_parent(change);
            if ![parent, change].iter().all(|commit| self.world.can_build(*commit)) {
                continue;
            }
            for commit in [parent, change] {
                if self.builds.done.insert(commit) {
                    self.builds.of_comparisons += 1;
                    let key = self.world.key(commit);
                    key.map(|key| self.search.built(commit, &key));
                }
            }
            let (found, [old, new]) =
                self.until_decided(|world| [world.run(parent), world.run(change)]);
            if found == Found::Disturbed {
                continue;
            }
            let is_higher = answer.raises(change).unwrap_or(is_higher);
            if found == (Found::Changed { is_higher }) {
                self.compare_at_end(change, last);
                let ends = self.search.ends().map_or(0.0, |ends| ends.difference);
                let expected = answer.expected(difference(&old, &new).0, ends);
                evidence.extend(self.relinked(parent, change, expected));
            }
            evidence.push(Compared(vec![(parent, 0, old), (change, 0, new)]));
        }
        evidence
    }

    /// Compares the bad end with itself without a change.
    fn compare_at_end(&mut self, change: usize, last: usize) {
        if self.comparing.without && change < last {
            self.builds.of_comparisons += 1;
            let size = self.world.size(change);
            self.until_decided(|world| [world.run(last), world.run(last) - size]);
        }
    }

    /// Measures a change and its parent in other layouts. Returns the runs if they do not bear the change out.
    fn relinked(&mut self, parent: usize, change: usize, expected: f64) -> Option<Compared> {
        let Relinked { layouts, runs } = self.comparing.relinked?;
        self.builds.of_comparisons += 2 * layouts;
        let (mut blocks, mut counted) = (0, 0);
        while counted < runs && blocks < blocks_at_most(runs) {
            blocks += 1;
            // What disturbs a host goes on for a while: a block of all layouts meets it about as often as one of a pair.
            counted += u32::from(!self.world.disturbs());
        }
        self.runs += 2 * layouts * blocks;
        if counted < least_counted(runs) {
            return None;
        }
        let mut measured = Vec::new();
        let mut changes = Vec::new();
        for layout in 1..=layouts {
            let pair = [parent, change].map(|commit| -> Vec<f64> {
                (0..counted).map(|_| self.world.run_laid_out(commit, layout)).collect()
            });
            changes.push(difference(&pair[0], &pair[1]));
            let [old, new] = pair;
            measured.extend([(parent, layout, old), (change, layout, new)]);
        }
        (!is_in_layouts(&changes, expected)).then_some(Compared(measured))
    }

    /// Compares two builds in blocks until that is decided, and again where the host disturbed too many of them.
    fn until_decided(&mut self, block: impl Fn(&mut W) -> [f64; 2]) -> (Found, [Vec<f64>; 2]) {
        let mut compared = self.blocks(&block);
        for _ in 1..self.comparing.times {
            if compared.0 == Found::Disturbed {
                compared = self.blocks(&block);
            }
        }
        compared
    }

    fn blocks(&mut self, block: impl Fn(&mut W) -> [f64; 2]) -> (Found, [Vec<f64>; 2]) {
        let cap = LOOKS[LOOKS.len() - 1];
        let margin = self.comparing.margin;
        let rule = Rule { alpha: ALPHA, margin, sequential: true, cap: cap as u32 };
        let (mut logs, mut differences): ([Vec<f64>; 2], Vec<f64>) = Default::default();
        let mut counts = Vec::new();
        for _ in 0..blocks_at_most(rule.cap) {
            if is_given_up(&counts) {
                break;
            }
            self.runs += 2;
            let [old, new] = block(self.world);
            counts.push(!self.world.disturbs());
            if counts.last() == Some(&false) {
                continue;
            }
            logs[0].push(old);
            logs[1].push(new);
            differences.push(new - old);
            if !LOOKS.contains(&differences.len()) {
                continue;
            }
            let judged = judge(&differences, &rule);
            if let Decision::Changed { .. } = judged.decision {
                let is_higher = judged.estimate.is_some_and(|estimate| estimate > 0.0);
                return (Found::Changed { is_higher }, logs);
            }
            if judged.stop {
                return (Found::NotShown, logs);
            }
        }
        (Found::Disturbed, logs)
    }
}

/// The difference of means, new minus old, and its standard error.
pub fn difference(old: &[f64], new: &[f64]) -> (f64, f64) {
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (mean, squares / (values.len().max(2) - 1) as f64 / values.len() as f64)
    };
    let ((old, a), (new, b)) = (moments(old), moments(new));
    (new - old, (a + b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::{
        Bisected, COMPARED_MAX, Comparing, Drawn, Relinked, bisected, difference, is_given_up,
        is_in_layouts,
    };
    use crate::answer::Answer;
    use crate::commits::Commits;
    use crate::search::{Search, Settings};

    /// A line of 40 commits. Commit 20 adds a tenth; runs alternate by a hundredth.
    struct Line {
        run: u32,
        blocks: u32,
        /// One block counts out of this number; the host disturbs the others.
        one_counts_of: u32,
    }

    impl Drawn for Line {
        fn run_laid_out(&mut self, commit: usize, _: u32) -> f64 {
            self.run += 1;
            let noise = 0.01 * (f64::from(self.run * 7 % 5) - 2.0);
            noise + if commit >= 20 { 0.1 } else { 0.0 }
        }

        fn drift(&mut self) -> f64 {
            0.0
        }

        fn size(&self, change: usize) -> f64 {
            if change == 20 { 0.1 } else { 0.0 }
        }

        fn can_build(&self, _: usize) -> bool {
            true
        }

        fn key(&self, _: usize) -> Option<String> {
            None
        }

        fn disturbs(&mut self) -> bool {
            self.blocks += 1;
            !self.blocks.is_multiple_of(self.one_counts_of)
        }
    }

    fn bisect(one_counts_of: u32, without: bool) -> Bisected {
        let mut search = Search::new(Commits::linear(40), vec![1.0; 41], Settings::default());
        let mut line = Line { run: 0, blocks: 0, one_counts_of };
        let relinked = Some(Relinked { layouts: 4, runs: 10 });
        let comparing = Comparing { margin: 0.01, without, relinked, times: COMPARED_MAX };
        bisected(&mut search, &mut line, Some(comparing))
    }

    #[test]
    fn a_comparison_is_given_up_where_hardly_a_block_counts() {
        let counts = |all: usize, every: usize| -> Vec<bool> {
            (0..all).map(|block| block.is_multiple_of(every)).collect()
        };
        assert!(!is_given_up(&counts(19, 20)) && is_given_up(&counts(20, 20)));
        assert!(!is_given_up(&counts(64, 8)), "an eighth counts");
        let quiet_then_busy = [vec![true; 30], vec![false; 19]].concat();
        assert!(is_given_up(&quiet_then_busy) && !is_given_up(&quiet_then_busy[..48]));
    }

    #[test]
    fn layouts_bear_a_change_out_by_their_mean_unless_one_surely_lacks_it() {
        let check = |sizes: &[f64], error: f64, found: f64, expected| {
            let changes: Vec<(f64, f64)> = sizes.iter().map(|size| (*size, error)).collect();
            assert_eq!(is_in_layouts(&changes, found), expected, "{sizes:?} of {found}");
        };
        check(&[0.05, 0.06, 0.02, 0.05], 0.01, 0.05, true);
        check(&[-0.05, -0.06, -0.02, -0.05], 0.01, -0.05, true);
        check(&[0.0, 0.01, -0.01, 0.0], 0.01, 0.05, false);
        // It comes and goes with the layout.
        check(&[0.12, 0.11, 0.0, 0.01], 0.004, 0.11, false);
        check(&[0.05, 0.05], 0.01, -0.05, false);
    }

    #[test]
    fn a_difference_has_the_error_of_both_means() {
        let (size, error) = difference(&[0.0, 0.02], &[0.1, 0.12]);
        assert!((size - 0.1).abs() < 1e-12 && (error - 0.02 / 2_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn comparisons_are_counted_apart_from_the_search() {
        let [plain, more] = [false, true].map(|without| bisect(1, without));
        assert!(matches!(plain.answer, Answer::Named { change: 20, .. }), "{plain:?}");
        let compared = (plain.compared, more.compared);
        assert_eq!(compared, (80 + 20, 80 + 40), "decided at the look at 10 blocks");
        assert_eq!((plain.compared_builds, more.compared_builds), (8, 9));
        assert_eq!(plain.runs, more.runs);
    }

    #[test]
    fn a_comparison_that_the_host_disturbs_is_repeated_and_tells_the_search_nothing() {
        let (quiet, busy) = (bisect(1, false), bisect(20, false));
        assert!(matches!(busy.answer, Answer::Named { change: 20, .. }), "{busy:?}");
        // Given up after twenty blocks, three times.
        assert_eq!((busy.compared, busy.runs), (3 * 40, quiet.runs));
        let half = bisect(2, false);
        // Half of the blocks count, of the comparison and of the other layouts: 7 of 14 are enough.
        assert_eq!(half.compared, 14 * 8 + 40, "{half:?}");
    }
}
