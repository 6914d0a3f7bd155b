//! Comparisons on a host that others disturb: after a disturbed block they wait for a quiet moment, for a limited time,
//! and end early where hardly a block counts.

use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

use bisection::is_given_up;
use host::job_control::RunningSince;
use host::signals;
use records::{Record, Run};

/// Unless the user says how long, all comparisons together wait as long as the bisection has taken so far, within these limits.
const PATIENCE_S: (f64, f64) = (10.0, 1800.0);
/// Time over which the use of the CPUs is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// Time between two looks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A host is quiet if other programs use less of its CPUs, as a share, and the hypervisor takes less: the limits beyond
/// which a block does not count.
const QUIET: Busy = Busy { programs: 0.02, hypervisor: 0.01 };

/// News of a wait.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// Others use this share of the CPUs; the wait ends after these seconds at the latest.
    Begins {
        busy: f64,
        most_s: f64,
    },
    Ends {
        is_quiet: bool,
        seconds: f64,
    },
}

/// Seconds that all comparisons of a bisection may wait: those that the user allows, or else as long as the bisection has
/// taken so far. None if the host disturbed most blocks all along: then there is no quiet moment to wait for.
pub fn patience_s(allowed_s: Option<f64>, spent_s: f64, blocks: u32, disturbed: u32) -> f64 {
    let (least_s, most_s) = PATIENCE_S;
    let is_mostly_quiet = 2 * disturbed < blocks;
    let unless_allowed_s = if is_mostly_quiet { spent_s.clamp(least_s, most_s) } else { 0.0 };
    allowed_s.unwrap_or(unless_allowed_s)
}

/// Waits until the host is quiet, for `most_s` at most. Returns the seconds that it took.
fn wait(most_s: f64, tell: &mut dyn FnMut(Wait)) -> f64 {
    let since = RunningSince::now();
    let mut is_told = false;
    let is_quiet = loop {
        let left_s = most_s - since.elapsed().as_secs_f64();
        if left_s <= 0.0 || signals::received().is_some() {
            break false;
        }
        let Some(busy) = look(LOOK.min(Duration::from_secs_f64(left_s))) else { break true };
        if busy.is_quiet() {
            break true;
        }
        if !is_told {
            tell(Wait::Begins { busy: busy.programs + busy.hypervisor, most_s });
            is_told = true;
        }
    };
    let seconds = since.elapsed().as_secs_f64();
    if is_told && signals::received().is_none() {
        tell(Wait::Ends { is_quiet, seconds });
    }
    seconds
}

/// The blocks of one comparison as they are run.
pub struct Watch {
    /// Seconds that the comparison may wait, and has waited.
    patience_s: f64,
    waited_s: f64,
    /// Number of runs of a block.
    arms: usize,
    /// The runs of the block under way, and whether one of them was disturbed.
    done: usize,
    is_disturbed: bool,
    /// Whether each block counts.
    counts: Vec<bool>,
    /// Blocks that must count; any number without it.
    wanted: Option<u32>,
}

impl Watch {
    pub fn new(patience_s: f64, arms: usize) -> Watch {
        Watch {
            patience_s,
            waited_s: 0.0,
            arms,
            done: 0,
            is_disturbed: false,
            counts: Vec::new(),
            wanted: None,
        }
    }

    /// Ends the comparison once this number of blocks count.
    pub fn until(self, wanted: u32) -> Watch {
        Watch { wanted: Some(wanted), ..self }
    }

    /// The seconds that were waited.
    pub fn waited_s(&self) -> f64 {
        self.waited_s
    }

    /// Takes in a run. After the last of a block that the host disturbed, waits, or breaks if hardly a block counts.
    /// Breaks, too, once enough blocks count.
    pub fn after(
        &mut self,
        record: &Record,
        run: &Run,
        tell: &mut dyn FnMut(Wait),
    ) -> ControlFlow<()> {
        let point = record.points.get(run.point as usize);
        let is_disturbed =
            point.is_some_and(|point| analysis::disturbance(record, point, run).is_some());
        if !self.ends_block(is_disturbed) {
            return ControlFlow::Continue(());
        }
        if is_given_up(&self.counts) || self.is_enough() {
            return ControlFlow::Break(());
        }
        if self.counts.last() == Some(&false) {
            self.waited_s += wait(self.patience_s - self.waited_s, tell);
        }
        ControlFlow::Continue(())
    }

    fn is_enough(&self) -> bool {
        let counted = self.counts.iter().filter(|counts| **counts).count();
        self.wanted.is_some_and(|wanted| counted >= wanted as usize)
    }

    /// Takes in whether the host disturbed a run. Whether it is the last of its block.
    fn ends_block(&mut self, is_disturbed: bool) -> bool {
        self.done += 1;
        self.is_disturbed |= is_disturbed;
        let is_last = self.done == self.arms;
        if is_last {
            self.counts.push(!std::mem::take(&mut self.is_disturbed));
            self.done = 0;
        }
        is_last
    }
}

/// The shares of all CPUs that others use.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Busy {
    programs: f64,
    hypervisor: f64,
}

impl Busy {
    fn is_quiet(self) -> bool {
        self.programs <= QUIET.programs && self.hypervisor <= QUIET.hypervisor
    }
}

/// What others use for some time, in which knee sleeps; `None` if the kernel does not say.
fn look(time: Duration) -> Option<Busy> {
    let ticks = || Ticks::parse(&fs::read_to_string("/proc/stat").ok()?);
    let before = ticks()?;
    let since = RunningSince::now();
    while since.elapsed() < time && signals::received().is_none() {
        std::thread::sleep(POLL_INTERVAL.min(time));
    }
    ticks()?.since(before)
}

/// Ticks of all CPUs together.
#[derive(Clone, Copy)]
struct Ticks {
    user: u64,
    steal: u64,
    all: u64,
}

impl Ticks {
    /// From the text of /proc/stat.
    fn parse(text: &str) -> Option<Ticks> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let numbers: Option<Vec<u64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal, then guests, which user holds.
        let numbers = numbers.filter(|numbers| numbers.len() >= 8)?;
        Some(Ticks {
            user: numbers[0] + numbers[1],
            steal: numbers[7],
            all: numbers[..8].iter().sum(),
        })
    }

    fn since(self, before: Ticks) -> Option<Busy> {
        let all = self.all.checked_sub(before.all).filter(|ticks| *ticks > 0)? as f64;
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / all;
        Some(Busy {
            programs: share(self.user, before.user),
            hypervisor: share(self.steal, before.steal),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, Ticks, Watch, patience_s};

    #[test]
    fn patience_is_as_long_as_the_bisection_within_limits_unless_the_user_allows_another() {
        let check = |allowed_s, spent_s, disturbed, expected| {
            let found = patience_s(allowed_s, spent_s, 10, disturbed);
            assert_eq!(found, expected, "{allowed_s:?} {spent_s} {disturbed}");
        };
        check(None, 2.0, 0, 10.0);
        check(None, 300.0, 4, 300.0);
        check(None, 1e6, 0, 1800.0);
        // Never quiet so far.
        check(None, 300.0, 5, 0.0);
        check(Some(5.0), 300.0, 5, 5.0);
        check(Some(0.0), 300.0, 0, 0.0);
    }

    #[test]
    fn a_block_with_one_disturbed_run_does_not_count() {
        let mut watch = Watch::new(0.0, 2);
        let ends: Vec<bool> = [false, false, true, false, false, true]
            .map(|is_disturbed| watch.ends_block(is_disturbed))
            .to_vec();
        assert_eq!(ends, [false, true, false, true, false, true]);
        assert_eq!(watch.counts, [true, false, false]);
        assert!(!watch.is_enough() && watch.until(1).is_enough());
    }

    #[test]
    fn others_are_what_runs_in_user_mode_and_what_the_hypervisor_takes() {
        let ticks = |text: &str| Ticks::parse(text).unwrap();
        let before = ticks("cpu  100 0 50 1000 0 0 0 10 0 0\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = ticks("cpu  140 10 90 1200 0 0 0 20 30 0\n");
        let busy = after.since(before).unwrap();
        assert_eq!(busy, Busy { programs: 50.0 / 300.0, hypervisor: 10.0 / 300.0 });
        assert!(!busy.is_quiet() && Busy { programs: 0.02, hypervisor: 0.0 }.is_quiet());
        assert!(before.since(after).is_none() && Ticks::parse("cpu  1 2 x\n").is_none());
    }
}
