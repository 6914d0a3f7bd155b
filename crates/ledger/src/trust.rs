//! How far to trust a ledger: how much looking slowed the operations, and whether a second clock
//! agrees. That rows add up proves nothing about the rows.

use std::collections::BTreeMap;

use records::{Base, CpuState, Profile, ProfileKind, Run, Window};
use schemars::JsonSchema;
use serde::Serialize;

/// Looks that slow a point by more than this share are refused: they explain something else.
pub const COST_MAX: f64 = 0.05;

/// How far the workload's rows may be from its tasks' own clocks, as a share.
pub const CLOCK_MAX: f64 = 0.005;

/// How much slower operations were in one kind of look than in the run of the same block that was
/// not watched.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LookCost {
    /// The kind of profile.
    pub kind: ProfileKind,
    /// Number of pairs of a look and a run.
    pub pairs: usize,
    /// Median of how much longer an operation took, as a share.
    pub median: f64,
    /// Quartiles of how much longer an operation took, as a share.
    pub quartiles: (f64, f64),
    /// Number of pairs in which operations took longer by more than [`COST_MAX`].
    pub above: usize,
}

impl LookCost {
    /// Whether looking slowed the operations too much: in so many pairs that hosts which disturb runs by
    /// chance show it in one of 20 cases at most (a sign test). With fewer than five pairs, in all.
    pub fn is_too_high(&self) -> bool {
        const CHANCE_MAX: f64 = 0.05;
        let by_chance = at_least_heads(self.above, self.pairs);
        by_chance <= CHANCE_MAX || (self.pairs > 0 && self.above == self.pairs)
    }
}

/// The probability of `heads` heads or more in `throws` throws of a coin.
fn at_least_heads(heads: usize, throws: usize) -> f64 {
    let mut ways = 1.0;
    let (mut all, mut wanted) = (0.0, 0.0);
    for k in 0..=throws {
        all += ways;
        wanted += if k >= heads { ways } else { 0.0 };
        ways *= (throws - k) as f64 / (k + 1) as f64;
    }
    wanted / all
}

/// The cost of looks of one kind; `None` without pairs. `metric` is the speed of operations: a time
/// if `is_time`, else a rate.
pub fn look_cost(
    looks: &[&Profile],
    runs: &[&Run],
    kind: ProfileKind,
    metric: &str,
    is_time: bool,
) -> Option<LookCost> {
    let pair = |look: &&&Profile| {
        let clean = runs.iter().find(|run| run.block == look.block && !run.placebo)?;
        let (looked, clean) = (look.value(metric)?, clean.value(metric)?);
        let longer = if is_time { looked / clean } else { clean / looked };
        longer.is_finite().then_some(longer - 1.0)
    };
    let mut changes: Vec<f64> =
        looks.iter().filter(|look| look.kind == kind).filter_map(|look| pair(&look)).collect();
    changes.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        let rank = q * (changes.len() - 1) as f64;
        let (low, high) = (changes[rank.floor() as usize], changes[rank.ceil() as usize]);
        low + (high - low) * rank.fract()
    };
    (!changes.is_empty()).then(|| LookCost {
        kind,
        pairs: changes.len(),
        median: quantile(0.5),
        quartiles: (quantile(0.25), quantile(0.75)),
        above: changes.iter().filter(|longer| **longer > COST_MAX).count(),
    })
}

/// Whether the looks at time are consistent in themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LedgerCheck {
    /// By how much the workload's rows exceed the tasks' own CPU clocks, as a share of the clocks,
    /// all windows together. `None` without clocks.
    pub clock: Option<f64>,
    /// By how much the rows may fall short of the clocks, as a share of the clocks: the kernel
    /// charges a woken task from its wake-up, the rows from the switch.
    pub woken: f64,
    /// How often each kind of thing went wrong while watching.
    pub anomalies: BTreeMap<String, u64>,
    /// Number of context switches.
    pub switches: u64,
    /// Number of samples.
    pub samples: u64,
    /// Number of windows.
    pub windows: usize,
    /// The first law that a window breaks.
    pub broken: Option<String>,
}

impl LedgerCheck {
    /// Whether the rows agree with the tasks' clocks, as closely as they can; `None` without clocks.
    pub fn agrees(&self) -> Option<bool> {
        let clock = self.clock?;
        Some(clock <= CLOCK_MAX && clock >= -self.woken - CLOCK_MAX)
    }
}

/// Checks the looks at time.
pub fn check_ledger(looks: &[&Profile]) -> LedgerCheck {
    let timed = looks.iter().filter(|look| look.kind == ProfileKind::Time && look.finished());
    let windows: Vec<&Window> = timed.flat_map(|look| &look.windows).collect();
    let mut anomalies = BTreeMap::new();
    for (what, times) in windows.iter().flat_map(|window| &window.anomalies) {
        *anomalies.entry(what.clone()).or_default() += times;
    }
    let clocks: Option<u64> = windows.iter().map(|window| window.task_clock_ns).sum();
    // Stolen time is on no task's clock.
    let is_work = |base, state| base == Base::Work && state != CpuState::Steal;
    let work: u64 = windows.iter().map(|window| window.time_ns(is_work)).sum();
    let woken: u64 = windows.iter().map(|window| window.woken_ns).sum();
    let is_switch = |slice: &&records::Slice| slice.state == CpuState::Rest;
    let switches = windows.iter().flat_map(|w| w.slices()).filter(is_switch);
    let samples = windows.iter().filter_map(|window| window.samples.as_ref());
    LedgerCheck {
        woken: woken as f64 / clocks.unwrap_or(0).max(1) as f64,
        clock: clocks.filter(|ns| *ns > 0).map(|ns| work as f64 / ns as f64 - 1.0),
        anomalies,
        switches: switches.map(|slice| slice.entries).sum(),
        samples: samples.flat_map(|s| &s.stacks).map(|stack| stack.count).sum(),
        windows: windows.len(),
        broken: windows.iter().find_map(|window| window.broken_law()),
    }
}

#[cfg(test)]
mod tests {
    use records::{Outcome, Unavailable, Values};

    use super::*;

    fn outcome(rate: f64) -> Outcome {
        Outcome::Finished {
            metrics: [("operations_per_s", rate)].into_iter().collect(),
            counters: Values::new(),
            unavailable: Unavailable::default(),
            warmup: None,
        }
    }

    #[test]
    fn looks_are_compared_with_the_run_of_their_block() {
        let started = jiff::Timestamp::UNIX_EPOCH;
        let look = |block, rate| Profile {
            number: block,
            kind: ProfileKind::Time,
            point: 0,
            block,
            started,
            outcome: outcome(rate),
            windows: Vec::new(),
            unavailable_probes: BTreeMap::new(),
            warnings: Vec::new(),
        };
        let run = |block, rate| Run {
            run: block,
            point: 0,
            block,
            placebo: false,
            started,
            file_system: None,
            boot: None,
            repeat: 0,
            outcome: outcome(rate),
            warnings: Vec::new(),
        };
        let looks = [look(0, 100.0), look(1, 80.0), look(2, 100.0), look(7, 1.0)];
        let runs = [run(0, 100.0), run(1, 100.0), run(2, 110.0)];
        let looks: Vec<&Profile> = looks.iter().collect();
        let runs: Vec<&Run> = runs.iter().collect();
        let cost = look_cost(&looks, &runs, ProfileKind::Time, "operations_per_s", false).unwrap();
        assert_eq!(cost.pairs, 3);
        assert!((cost.median - 0.1).abs() < 1e-12 && cost.above == 2);
        let (low, high) = cost.quartiles;
        assert!((low - 0.05).abs() < 1e-12 && (high - 0.175).abs() < 1e-12);
        let names = look_cost(&looks, &runs, ProfileKind::Names, "operations_per_s", false);
        assert_eq!(names, None);
    }

    #[test]
    fn a_few_slow_runs_refuse_nothing() {
        let check = |above, pairs, expected| {
            let cost = LookCost {
                kind: ProfileKind::Time,
                pairs,
                median: 0.1,
                quartiles: (0.06, 0.2),
                above,
            };
            assert_eq!(cost.is_too_high(), expected, "{above} of {pairs}");
        };
        check(4, 5, false);
        check(5, 5, true);
        check(3, 3, true);
        check(2, 3, false);
        // 1 of 20 cases: 15 of 20 heads come in 2.1 %, 14 in 5.8 %.
        check(15, 20, true);
        check(14, 20, false);
        check(0, 0, false);
    }
}
