//! The rate at which more CPUs stop to help: a line goes from CPU to CPU one transfer after the other, so operations that
//! each need it k times are at least k transfers apart. What the holder of a lock does while others wait is serial, too.
//!
//!     highest: the line's least transfers, each between the nearest CPUs; locks held, at four instructions a cycle
//!     lowest:  each access a transfer from the farthest CPU; of a lock, also all that waiting may add
//!
//! Both hold of one line that all CPUs need. Where each object has a line of its own, different CPUs may hold different
//! ones, and only the line that is needed most counts.

use answers::{Ceiling, ConflictLine, LockWait, OneLine};
use described_hosts::DescribedHost;

/// Lines that an operation needs less often do not decide.
const LEAST: f64 = 0.05;

/// Instructions that no CPU passes in a cycle, in the kernel.
const INSTRUCTIONS_A_CYCLE: f64 = 4.0;

/// The clock of a host whose file has none.
const GHZ: f64 = 4.0;

/// Instructions a ns where memory is slow.
const SLOW_INSTRUCTIONS_A_NS: f64 = 1.0;

/// Instructions of a section that is too short to be measured: those of one burst.
const SHORT_SECTION: f64 = 64.0;

/// Transfers that each taking of a contended spin lock adds: a waiter enters the queue and tells the one before it, reads
/// the word and writes it; the holder gets it back to release it, and the next waiter is told.
const OF_A_TAKING: f64 = 6.0;

/// The bounds of the rate on a host; `None` if no line is needed by all.
pub fn ceiling(lines: &[ConflictLine], host: &DescribedHost) -> Option<Ceiling> {
    let times = Times::of(host)?;
    let needed = || lines.iter().filter(|line| line.one_line.transfers[0] >= LEAST);
    let fastest = |line: &ConflictLine| times.fastest_ns(&line.one_line);
    let highest = needed().max_by(|a, b| fastest(a).total_cmp(&fastest(b)))?;
    let all: f64 = lines.iter().map(transfers_by_turns).sum();
    let slowest =
        |line: &ConflictLine| times.slowest_ns(&line.one_line, all - transfers_by_turns(line));
    let lowest = needed().max_by(|a, b| slowest(a).total_cmp(&slowest(b)))?;
    Some(Ceiling {
        host: host.name.clone(),
        member: highest.member.clone(),
        transfers: highest.one_line.transfers,
        transfer_ns: [times.nearest, times.farthest],
        held_instructions: highest.one_line.held,
        slowest_member: lowest.member.clone(),
        operations_per_s: [1e9 / slowest(lowest), 1e9 / fastest(highest)],
        meets: None,
    })
}

/// Transfers of a row's lines as operations took turns: what a lock's new holder may have to get.
fn transfers_by_turns(line: &ConflictLine) -> f64 {
    line.owned + line.copied
}

/// What things take on a host, in ns.
struct Times {
    nearest: f64,
    farthest: f64,
    instruction: f64,
    /// From waking a task that sleeps to its first instruction, at most.
    wake: f64,
}

impl Times {
    /// A transfer is that of an atomic instruction on a line that another core has modified. Where cores have two threads,
    /// every second access may come from the other one.
    fn of(host: &DescribedHost) -> Option<Times> {
        // From picoseconds.
        let ns = |name: &str| {
            let number = host.numbers().get(name)?;
            Some([number.low / 1000.0, number.high / 1000.0])
        };
        let at = |distance: &str| ns(&format!("transfer.{distance}.atomic_modified"));
        let node = at("node")?;
        let nearest = at("core").map_or(node[0], |core| (core[0] + node[0]) / 2.0);
        let farthest = ["hop1", "hop2", "hop3"].into_iter().filter_map(at);
        Some(Times {
            nearest,
            farthest: farthest.map(|[_, high]| high).fold(node[1], f64::max),
            instruction: 1.0 / (INSTRUCTIONS_A_CYCLE * host.ghz.unwrap_or(GHZ)),
            wake: ["wake", "wake_each", "wake_latency", "switch"]
                .into_iter()
                .filter_map(|cost| Some(ns(&format!("costs.{cost}"))?[1]))
                .sum(),
        })
    }

    /// How far apart operations are at least that all need a line.
    fn fastest_ns(&self, line: &OneLine) -> f64 {
        line.transfers[0] * self.nearest + line.held * self.instruction
    }

    /// How far apart they are at most. `others` are the transfers of other lines, which the holder of a lock may need.
    fn slowest_ns(&self, line: &OneLine, others: f64) -> f64 {
        let spun = |takings: f64| {
            let instructions = line.held + SHORT_SECTION * takings;
            (OF_A_TAKING * takings + others) * self.farthest + instructions / SLOW_INSTRUCTIONS_A_NS
        };
        // A semaphore is taken and given back by an atomic each.
        let slept = line.atomics / 2.0;
        match line.wait {
            LockWait::None => (line.writes + line.reads) * self.farthest,
            LockWait::FallsBack => (OF_A_TAKING * line.atomics + line.reads) * self.farthest,
            LockWait::Spins => spun(line.atomics),
            LockWait::Sleeps => spun(slept) + slept * self.wake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> Times {
        Times::of(&described_hosts::find("icelake-2s").unwrap()).unwrap()
    }

    fn line(wait: LockWait) -> OneLine {
        OneLine { transfers: [2.0, 4.0], reads: 1.0, writes: 4.0, atomics: 2.0, held: 1000.0, wait }
    }

    #[test]
    fn the_nearest_transfers_are_between_threads_and_the_farthest_between_nodes() {
        let Times { nearest, farthest, .. } = times();
        assert_eq!([nearest, farthest], [36.0, 158.0]);
        let without_threads = Times::of(&described_hosts::find("skylake-2s").unwrap()).unwrap();
        assert_eq!(without_threads.nearest, 50.0);
    }

    #[test]
    fn a_lock_is_held_at_four_instructions_a_cycle_at_best() {
        let ns = times().fastest_ns(&line(LockWait::Spins));
        assert!((ns - (72.0 + 1000.0 / 10.4)).abs() < 1e-9, "{ns}");
    }

    #[test]
    fn waiting_adds_what_a_lock_may_cost() {
        let ns = |wait| times().slowest_ns(&line(wait), 3.0);
        assert_eq!(ns(LockWait::None), 5.0 * 158.0);
        assert_eq!(ns(LockWait::FallsBack), 13.0 * 158.0);
        assert_eq!(ns(LockWait::Spins), 15.0 * 158.0 + 1128.0);
        assert!(ns(LockWait::Sleeps) > 9.0 * 158.0 + 1064.0 + 6000.0);
    }
}
