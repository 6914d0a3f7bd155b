//! The axioms of Armv8, in our words: "ordered before" has no cycle.

use machine::Ordering;

use crate::axioms::{Execution, Relation};
use crate::program::Barrier;

/// Whether Armv8 allows an execution. An acquire load is `ldapr`, a sequentially consistent one `ldar`; read-modify-writes
/// are exclusives.
pub fn allows(execution: &Execution) -> bool {
    observed(execution).or(&depends(execution)).or(&barred(execution)).is_acyclic()
}

fn is_acquire(execution: &Execution, event: usize) -> bool {
    use Ordering::{AcqRel, Acquire, SeqCst};
    let it = &execution.events[event];
    it.reads.is_some()
        && it.fence.is_none()
        && matches!(it.ordering, Acquire | AcqRel | SeqCst)
        && !fails(execution, event)
}

/// Whether it is a compare-exchange that failed: then it is a relaxed load.
fn fails(execution: &Execution, event: usize) -> bool {
    execution.events[event].is_of_update && !execution.happens[event + 1]
}

/// What one thread sees of another.
fn observed(execution: &Execution) -> Relation {
    let [rf, fr, co] =
        [&execution.rf, &execution.fr, &execution.co].map(|relation| execution.external(relation));
    rf.or(&fr).or(&co)
}

fn depends(execution: &Execution) -> Relation {
    let address = execution.dependency(|event| event.address);
    let data = execution.dependency(|event| event.data).or(&execution.computed());
    let control = execution.dependency(|event| event.control);
    let writes = |event: usize| execution.is_write(event);
    let own_reads_from = execution.internal(&execution.rf);
    let of_writes = execution.relation(|a, b| control.has(a, b) && writes(b));
    let behind = address.then(&execution.relation(|a, b| execution.po.has(a, b) && writes(b)));
    let forwarded = address.or(&data).then(&own_reads_from);
    let updates = execution.rmw.clone();
    let read_back = execution.relation(|a, b| {
        own_reads_from.has(a, b) && execution.events[a].is_update && is_acquire(execution, b)
    });
    address.or(&data).or(&of_writes).or(&behind).or(&forwarded).or(&updates).or(&read_back)
}

fn barred(execution: &Execution) -> Relation {
    use Ordering::{AcqRel, Acquire, Release, SeqCst};
    let any = |event: usize| execution.events[event].fence.is_none();
    let reads = |event: usize| execution.is_read(event);
    let writes = |event: usize| execution.is_write(event);
    let full = execution.fenced(Barrier::Full, any, any);
    let loads = execution.fenced(Barrier::Loads, reads, any);
    let stores = execution.fenced(Barrier::Stores, writes, writes);
    let releases = |event: usize| {
        writes(event) && matches!(execution.events[event].ordering, Release | AcqRel | SeqCst)
    };
    let is_ldar = |event: usize| {
        let it = &execution.events[event];
        is_acquire(execution, event) && (it.is_of_update || it.ordering != Acquire)
    };
    let by_kind = execution.relation(|a, b| {
        execution.po.has(a, b)
            && any(a)
            && any(b)
            && (is_acquire(execution, a) || releases(b) || releases(a) && is_ldar(b))
    });
    full.or(&loads).or(&stores).or(&by_kind)
}
