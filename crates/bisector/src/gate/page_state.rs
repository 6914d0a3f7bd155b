//! What a slowdown may come from that no commit wrote: the kernel gave one side's runs huge pages or kept its files in memory,
//! and the other's not.

use analysis::Spread;
use records::{Opened, Run};

use super::answer::CountChange;
use crate::measurement::CASE;

/// Counters of /proc/vmstat that say so.
const COUNTERS: [&str; 6] = [
    "vmstat.thp_fault_alloc",
    "vmstat.thp_fault_fallback",
    "vmstat.thp_collapse_alloc",
    "vmstat.pgmajfault",
    "vmstat.pgpgin",
    "vmstat.workingset_refault_file",
];

/// Standard errors by which both sides must differ.
const ERRORS: f64 = 4.0;

/// Those of them that differ between the runs of base and head of a case, by a tenth or more.
pub(super) fn page_state(record: &Opened, case: &str) -> Vec<CountChange> {
    let (base, head) = (of_case(record, "base", case), of_case(record, "head", case));
    let values = |runs: &[&Run], name: &str| -> Vec<f64> {
        runs.iter().filter_map(|run| run.value(name)).collect()
    };
    let change = |name: &&str| {
        let change = differs(&values(&base, name), &values(&head, name))?;
        Some(CountChange { metric: name.to_string(), change })
    };
    COUNTERS.iter().filter_map(change).collect()
}

/// The runs of one side of a case.
pub(super) fn of_case<'a>(record: &'a Opened, side: &str, case: &str) -> Vec<&'a Run> {
    let is_own = |run: &&Run| {
        record.record.points.get(run.point as usize).is_some_and(|point| {
            let own = point.parameters.get(CASE).map_or("", String::as_str);
            point.variant == side && own == case
        })
    };
    record.runs.iter().filter(is_own).collect()
}

/// The change of a count between two samples, as a share of the first, or of the second where the first has none; `None` if
/// they hardly differ.
fn differs(base: &[f64], head: &[f64]) -> Option<f64> {
    let (old, new) = (Spread::from_values(base)?, Spread::from_values(head)?);
    let variance = |spread: &Spread, n: usize| Some(spread.stddev?.powi(2) / n as f64);
    let error = (variance(&old, base.len())? + variance(&new, head.len())?).sqrt();
    let difference = new.mean - old.mean;
    let of = if old.mean > 0.0 { old.mean } else { new.mean };
    let is_large = difference.abs() > (ERRORS * error).max(0.1 * of);
    is_large.then(|| difference / of)
}

#[cfg(test)]
mod tests {
    use super::differs;

    #[test]
    fn counts_differ_where_no_chance_makes_them() {
        let check = |base: &[f64], head: &[f64], expected: Option<f64>| {
            assert_eq!(differs(base, head), expected);
        };
        check(&[8.0; 10], &[0.0; 10], Some(-1.0));
        check(&[0.0; 10], &[8.0; 10], Some(1.0));
        check(&[0.0; 10], &[0.0; 10], None);
        check(&[100.0, 101.0, 99.0, 100.0], &[105.0, 104.0, 106.0, 105.0], None);
        check(&[0.0, 0.0, 0.0, 9.0], &[9.0, 0.0, 9.0, 0.0], None);
    }
}
