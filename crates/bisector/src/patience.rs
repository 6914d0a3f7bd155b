//! Comparisons on a host that others disturb: after a disturbed block they wait for a quiet moment, for a limited time,
//! and end early where hardly a block counts.

use std::fs;
use std::ops::ControlFlow;
use std::time::Duration;

use bisection::is_given_up;
use host::job_control::RunningSince;
use host::signals;
use records::{Record, Run};

/// All comparisons together wait as long as the bisection has taken so far, within these limits.
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

/// The time that may be spent waiting.
pub struct Patience {
    waited_s: f64,
}

impl Patience {
    pub fn new() -> Patience {
        Patience { waited_s: 0.0 }
    }

    /// The seconds that were waited so far.
    pub fn waited_s(&self) -> f64 {
        self.waited_s
    }

    /// The seconds left for a bisection that has taken `spent_s`. There are none if the host disturbed most blocks all along:
    /// then there is no quiet moment to wait for.
    pub fn left_s(&self, spent_s: f64, blocks: u32, disturbed: u32) -> f64 {
        let is_mostly_quiet = 2 * disturbed < blocks;
        let all = if is_mostly_quiet { spent_s.clamp(PATIENCE_S.0, PATIENCE_S.1) } else { 0.0 };
        (all - self.waited_s).max(0.0)
    }

    /// Waits until the host is quiet, for `most_s` at most.
    fn wait(&mut self, most_s: f64, tell: &mut dyn FnMut(Wait)) {
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
        let waited_s = since.elapsed().as_secs_f64();
        self.waited_s += waited_s;
        if is_told && signals::received().is_none() {
            tell(Wait::Ends { is_quiet, seconds: waited_s });
        }
    }
}

/// The blocks of one comparison as they are run.
pub struct Watch<'a> {
    patience: &'a mut Patience,
    /// Seconds that the comparison may wait.
    left_s: f64,
    /// Number of runs of a block.
    arms: usize,
    /// The runs of the block under way, and whether one of them was disturbed.
    done: usize,
    is_disturbed: bool,
    /// Whether each block counts.
    counts: Vec<bool>,
}

impl<'a> Watch<'a> {
    pub fn new(patience: &'a mut Patience, left_s: f64, arms: usize) -> Watch<'a> {
        Watch { patience, left_s, arms, done: 0, is_disturbed: false, counts: Vec::new() }
    }

    /// Takes in a run. After the last of a block that the host disturbed, waits, or breaks if hardly a block counts.
    pub fn after(
        &mut self,
        record: &Record,
        run: &Run,
        tell: &mut dyn FnMut(Wait),
    ) -> ControlFlow<()> {
        let point = record.points.get(run.point as usize);
        let is_disturbed = point.is_some_and(|point| analysis::disturbance(point, run).is_some());
        if !self.ends_block(is_disturbed) {
            return ControlFlow::Continue(());
        }
        if is_given_up(&self.counts) {
            return ControlFlow::Break(());
        }
        if self.counts.last() == Some(&false) {
            let before_s = self.patience.waited_s;
            self.patience.wait(self.left_s, tell);
            self.left_s -= self.patience.waited_s - before_s;
        }
        ControlFlow::Continue(())
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
    use super::{Busy, Patience, Ticks, Watch};

    #[test]
    fn patience_is_as_long_as_the_bisection_within_limits() {
        let patience = Patience { waited_s: 3.0 };
        let check = |spent_s, disturbed, expected| {
            assert_eq!(patience.left_s(spent_s, 10, disturbed), expected, "{spent_s} {disturbed}");
        };
        check(2.0, 0, 7.0);
        check(300.0, 4, 297.0);
        check(1e6, 0, 1797.0);
        // Never quiet so far.
        check(300.0, 5, 0.0);
    }

    #[test]
    fn a_block_with_one_disturbed_run_does_not_count() {
        let mut patience = Patience::new();
        let mut watch = Watch::new(&mut patience, 0.0, 2);
        let ends: Vec<bool> = [false, false, true, false, false, true]
            .map(|is_disturbed| watch.ends_block(is_disturbed))
            .to_vec();
        assert_eq!(ends, [false, true, false, true, false, true]);
        assert_eq!(watch.counts, [true, false, false]);
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
