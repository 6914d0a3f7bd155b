//! The kernel's allocations for the tasks of a run, as metrics.

use probes::{AllocationCounter, AllocationCounts, CountFrom};
use records::{ALLOCATIONS, Measured, TaskReport};

/// The allocations of all tasks.
pub fn of_tasks(reports: &[TaskReport]) -> Result<AllocationCounts, String> {
    let mut sum = AllocationCounts::default();
    for report in reports {
        let Some([slab, pages]) = report.allocations else {
            // The task's own attempt had this reason, too.
            AllocationCounter::new(CountFrom::Start)?;
            return Err("of loads that you wrote, they are not counted".to_string());
        };
        sum.slab += slab;
        sum.pages += pages;
    }
    Ok(sum)
}

/// Adds the counts to what was measured, or why there are none.
pub fn put(measured: &mut Measured, counts: Result<AllocationCounts, String>) {
    match counts {
        Ok(AllocationCounts { slab, pages }) => {
            for (name, count) in ALLOCATIONS.into_iter().zip([slab, pages]) {
                measured.gauges.insert(name.to_string(), count as f64);
            }
        }
        Err(why) => {
            let missing = ALLOCATIONS.map(|name| (name.to_string(), why.clone()));
            measured.unavailable.extend(missing);
        }
    }
}
