//! The axioms of the Linux kernel's memory model, in our words, of marked accesses, without RCU and locks.

use machine::Ordering;

use crate::axioms::{Execution, Relation};
use crate::program::Barrier;

/// Whether the kernel's model allows an execution. A sequentially consistent read-modify-write is fully ordered.
pub fn allows(execution: &Execution) -> bool {
    is_allowed(execution, true)
}

/// Whether the model of Linux 6.2 allows it, which had neither `rmw-sequence` nor `carry-dep`.
pub fn allows_until_6_2(execution: &Execution) -> bool {
    is_allowed(execution, false)
}

fn is_allowed(execution: &Execution, passes_on: bool) -> bool {
    let model = Model::new(execution, passes_on);
    model.happens.is_acyclic()
        && model.propagates.then(&model.strong).then(&model.happens.closed().maybe()).is_acyclic()
}

struct Model {
    strong: Relation,
    propagates: Relation,
    happens: Relation,
}

impl Model {
    /// With `passes_on`, updates pass the order of what they update on, and plain accesses their dependencies.
    fn new(execution: &Execution, passes_on: bool) -> Model {
        use Ordering::{Acquire, Release};
        let po = &execution.po;
        let (reads, writes) =
            (|event: usize| execution.is_read(event), |event: usize| execution.is_write(event));
        let memory = |event: usize| reads(event) || writes(event);
        let strong = strong(execution);
        let is = |event: usize, ordering| execution.events[event].ordering == ordering;
        let fails = |event: usize| {
            execution.events[event].is_of_update && reads(event) && !execution.happens[event + 1]
        };
        let release =
            execution.relation(|a, b| po.has(a, b) && memory(a) && writes(b) && is(b, Release));
        let acquire = execution
            .relation(|a, b| po.has(a, b) && reads(a) && !fails(a) && is(a, Acquire) && memory(b));
        let store_fence = execution.fenced(Barrier::Stores, writes, writes);
        let load_fence = execution.fenced(Barrier::Loads, reads, reads);
        let fence = strong.or(&release).or(&acquire).or(&store_fence).or(&load_fence);
        let overwrite = execution.co.or(&execution.fr);
        let reads_from_other = execution.external(&execution.rf);
        let kept = depends(execution, passes_on).or(&execution.internal(&overwrite)).or(&fence);
        let identity = execution.relation(|a, b| a == b);
        let updates = execution.rf.then(&execution.rmw).closed().maybe();
        let sequence = if passes_on { updates } else { identity };
        let cumulative =
            reads_from_other.maybe().then(&strong.or(&release)).or(&store_fence).then(&sequence);
        let propagates = execution
            .external(&overwrite)
            .maybe()
            .then(&cumulative.closed().maybe())
            .then(&reads_from_other.maybe());
        let within = execution
            .relation(|a, b| a != b && propagates.has(a, b) && !execution.is_external(a, b));
        let happens = kept.or(&reads_from_other).or(&within);
        Model { strong, propagates, happens }
    }
}

/// Full fences, and read-modify-writes that are fully ordered.
fn strong(execution: &Execution) -> Relation {
    let memory = |event: usize| execution.is_read(event) || execution.is_write(event);
    let fenced = execution.fenced(Barrier::Full, memory, memory);
    let is_full = |event: usize| {
        let it = &execution.events[event];
        let read = if it.is_update { event - 1 } else { event };
        it.is_of_update && it.ordering == Ordering::SeqCst && execution.happens[read + 1]
    };
    let po = &execution.po;
    let around = execution.relation(|a, b| {
        let is_own = execution.rmw.has(a, b);
        po.has(a, b) && memory(a) && memory(b) && !is_own && (is_full(a) || is_full(b))
    });
    let across = execution.relation(|a, b| {
        let within = |e: usize| is_full(e) && po.has(a, e) && po.has(e, b);
        memory(a) && memory(b) && (0..execution.events.len()).any(within)
    });
    fenced.or(&around).or(&across)
}

fn depends(execution: &Execution, passes_on: bool) -> Relation {
    let own_reads_from = execution.internal(&execution.rf);
    let [address, data, control] = [
        execution.dependency(|event| event.address),
        execution.dependency(|event| event.data),
        execution.dependency(|event| event.control),
    ];
    let data = data.or(&execution.computed());
    // A value that is written and read back keeps what it depends on.
    let own_reads =
        if passes_on { own_reads_from.clone() } else { execution.relation(|_, _| false) };
    let carried = data.then(&own_reads).closed().maybe();
    let [address, data, control] =
        [address, data, control].map(|dependency| carried.then(&dependency));
    let either = address.or(&data);
    let to_writes =
        execution.relation(|a, b| execution.is_write(b) && (either.has(a, b) || control.has(a, b)));
    let to_reads = execution.relation(|a, b| execution.is_read(b) && address.has(a, b));
    to_writes.or(&to_reads).or(&either.then(&own_reads_from))
}
