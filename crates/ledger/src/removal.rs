//! What removing a cause could gain, as far as a ledger alone tells: a bound, never an estimate.
//!
//! T ns of CPU time go into an operation, so N CPUs complete N / T. Time in which CPUs wait (idle, spinning) is there
//! because of other time. Without x ns of waiting, T falls by x at most. Without x ns of work T falls by x, and with it
//! may go all waiting, if that is for this work. It may also gain nothing, if the time is off the path that others wait for.

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::causes::Cause;
use super::difference::RowChange;
use super::{Belongs, IDLE, LOST_PARALLELISM, NO_TASK, SPINNING};

/// The most that removing a cause could gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GainBound {
    /// The share by which the rate would grow at most; `None` if the ledger sets no bound.
    pub at_most: Option<f64>,
    /// What would have to be so for the bound to be reached.
    pub if_what: GainIf,
}

/// What would have to be so for a bound to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GainIf {
    /// CPUs that wait in the row work instead.
    WaitingBecomesWork,
    /// All waiting is for the time of the row.
    AllWaitingIsForIt,
    /// Nothing waits: the time itself is gained, and no less.
    NothingWaits,
}

/// Less waiting than this share of the time is none.
const WAITING_MIN: f64 = 0.02;

/// What the slower side would gain without a cause that makes it slower. `None` for a cause that makes it faster.
pub fn gain_bound(answer: &Answer, cause: &Cause) -> Option<GainBound> {
    let bound = by_ledger(&answer.change, cause)?;
    // The other side is without it, and its runs are measured.
    let measured = answer.wall.as_ref().map(|(was, is)| is.ns / was.ns - 1.0);
    let is_most = cause.own_ns >= 0.5 * answer.change.own_ns;
    let measured = measured.filter(|_| is_most && answer.change.own_ns > 0.0).unwrap_or(0.0);
    Some(GainBound { at_most: bound.at_most.map(|most| most.max(measured)), ..bound })
}

fn by_ledger(change: &RowChange, cause: &Cause) -> Option<GainBound> {
    if cause.own_ns <= 0.0 || cause.change.belongs == Belongs::Time {
        return None;
    }
    // What others take of a time becomes less with the time.
    let all = change.after.mean - of_time(change);
    // The interval's end, so that the bound is one.
    let most = cause.change.own_interval.map_or(cause.own_ns, |(_, high)| high.max(cause.own_ns));
    let waiting = waiting(change);
    let waits = [IDLE, SPINNING, LOST_PARALLELISM];
    let is_wait = cause.path.iter().any(|name| waits.contains(&name.as_str()));
    let most = most + cause.with.iter().map(|part| part.own_ns.max(0.0)).sum::<f64>();
    let (gone, if_what) = if is_wait {
        (most, GainIf::WaitingBecomesWork)
    } else if waiting < WAITING_MIN * all {
        (most, GainIf::NothingWaits)
    } else {
        (most + waiting, GainIf::AllWaitingIsForIt)
    };
    let left = all - gone;
    Some(GainBound { at_most: (left > 0.0).then(|| all / left - 1.0), if_what })
}

/// The time of an operation after the change that belongs to time.
fn of_time(row: &RowChange) -> f64 {
    match row.belongs {
        Belongs::Time => row.after.mean,
        Belongs::Operation => row.rows.iter().map(of_time).sum(),
    }
}

/// The time of an operation in which CPUs wait that have a task, after the change.
fn waiting(row: &RowChange) -> f64 {
    match row.name.as_str() {
        NO_TASK => 0.0,
        SPINNING | LOST_PARALLELISM => row.after.mean,
        IDLE if row.rows.is_empty() => row.after.mean,
        IDLE => {
            let used = row.rows.iter().filter(|part| part.name != NO_TASK);
            used.map(|part| part.after.mean).sum()
        }
        _ => row.rows.iter().map(waiting).sum(),
    }
}

#[cfg(test)]
mod tests {
    use records::Obtained;

    use super::super::{Ledger, LedgerRow, LedgerUnit, WORK, causes, difference};
    use super::*;

    /// A ledger of these times per operation.
    fn ledger(work_ns: f64, spinning_ns: f64, idle_ns: f64) -> Ledger {
        let noise = [1.0, 1.004, 0.996, 1.002, 0.998];
        let row = |name: &str, ns: f64| {
            let ns = noise.map(|noise| (1000.0 * ns * noise) as u64).to_vec();
            LedgerRow::new(name, Obtained::Exact, ns)
        };
        let parts = vec![row("system call read", work_ns), row(SPINNING, spinning_ns)];
        let work = LedgerRow::from_parts(WORK, Obtained::Exact, parts);
        let idle = LedgerRow::from_parts(
            IDLE,
            Obtained::Exact,
            vec![row("for a lock", idle_ns), row(NO_TASK, 50.0)],
        );
        let root = LedgerRow::from_parts("all", Obtained::Exact, vec![work, idle]);
        let unit = |(block, ns): (usize, &u64)| LedgerUnit {
            operations: 1000,
            budget_ns: *ns,
            block: Some(block as u32),
        };
        Ledger::of_runs(root.ns.iter().enumerate().map(unit).collect(), root)
    }

    /// The bound of the first cause, and what the ledger must be for it.
    fn check(before: Ledger, after: Ledger, at_most: f64, if_what: GainIf) {
        let change = difference(&before, &after);
        let causes = causes(&change);
        let bound = by_ledger(&change, &causes[0]).unwrap();
        assert_eq!(bound.if_what, if_what, "{causes:?}");
        assert!((bound.at_most.unwrap() / at_most - 1.0).abs() < 0.1, "{bound:?}, not {at_most}");
    }

    #[test]
    fn waiting_may_become_work_and_work_may_be_what_all_wait_for() {
        // Of 1000 ns, 300 wait.
        let before = ledger(650.0, 0.0, 0.0);
        check(before.clone(), ledger(650.0, 300.0, 0.0), 0.43, GainIf::WaitingBecomesWork);
        check(before.clone(), ledger(650.0, 0.0, 300.0), 0.43, GainIf::WaitingBecomesWork);
        // 200 ns of work more; 150 wait, all perhaps for that.
        check(ledger(650.0, 150.0, 0.0), ledger(850.0, 150.0, 0.0), 0.5, GainIf::AllWaitingIsForIt);
        check(before, ledger(950.0, 0.0, 0.0), 0.43, GainIf::NothingWaits);
    }

    #[test]
    fn a_cause_that_makes_it_faster_has_no_gain() {
        let change = difference(&ledger(950.0, 0.0, 0.0), &ledger(650.0, 0.0, 0.0));
        assert_eq!(by_ledger(&change, &causes(&change)[0]), None);
    }
}
