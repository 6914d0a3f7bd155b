//! The rules of Armv8: an order of all accesses exists in which each core's own order is kept as far as barriers, acquires,
//! releases and dependencies ask for it, and in which what one core sees of another's writes, all others see too (multicopy
//! atomic). It exists if "ordered before" has no cycle:
//!
//!     of one core    fences; a load-acquire before what follows; what comes before a store-release; a store-release before a
//!                    later load-acquire (not `ldapr`); address dependencies; data and control dependencies to stores; an
//!                    address before all later stores; the read of a read-modify-write before its write
//!     between cores  a write before its readers, a read before later writes of what it read, writes of a location in order
//!
//! A read-modify-write is taken for a loop of load- and store-exclusive, which orders no more than one instruction of LSE does.

use super::{Barrier, Bits, Event, Executions, Kind, Strength, set};

/// Events of its own task that come before a new event, which is not added yet.
pub fn before(executions: &Executions, event: &Event) -> Bits {
    let mut before = event.address;
    let writes = event.kind == Kind::Write;
    let mut last: Option<(u8, usize)> = None;
    for (id, earlier) in executions.of_task(event.task) {
        before |= Bits::from(is_ordered(earlier, event)) << id;
        if writes {
            // Its address might have been the same.
            before |= earlier.address;
        }
        last = last.max(Some((earlier.local, id)));
    }
    if writes {
        before |= event.data | event.control;
        if let (true, Some((_, read))) = (event.is_update, last) {
            before |= 1 << read;
        }
    }
    for id in set(event.from) {
        let source = &executions.events[id];
        if source.task == event.task {
            before |= source.address | source.data;
            let acquires = matches!(event.strength, Strength::Acquire | Strength::AcquirePc);
            before |= Bits::from(source.is_update && acquires) << id;
        }
    }
    before
}

/// Whether two events of a task are ordered by what they are.
fn is_ordered(earlier: &Event, later: &Event) -> bool {
    use Barrier::{Full, Loads, Stores};
    match (earlier.kind, later.kind) {
        (Kind::Fence(Full), _) | (_, Kind::Fence(Full)) => true,
        (Kind::Fence(_), Kind::Fence(_)) => false,
        (Kind::Fence(Loads), _) => true,
        (Kind::Fence(Stores), kind) => kind == Kind::Write,
        (kind, Kind::Fence(Loads)) => kind == Kind::Read,
        (kind, Kind::Fence(Stores)) => kind == Kind::Write,
        (Kind::Fence(_), _) | (_, Kind::Fence(_)) => false,
        _ => {
            let acquired = matches!(earlier.strength, Strength::Acquire | Strength::AcquirePc);
            let released = later.strength == Strength::Release;
            let in_order =
                earlier.strength == Strength::Release && later.strength == Strength::Acquire;
            acquired || released || in_order
        }
    }
}

/// All events that are ordered before these, and they themselves.
pub fn ancestors(executions: &Executions, events: Bits) -> Bits {
    let (mut all, mut left) = (events, events);
    while left != 0 {
        let id = left.trailing_zeros() as usize;
        left &= left - 1;
        let new = (executions.events[id].before | executions.external_before(id)) & !all;
        all |= new;
        left |= new;
    }
    all
}

/// Whether an execution is allowed, that was so before these events, the last of their task.
pub fn is_allowed(executions: &Executions, new: Bits) -> bool {
    let after = set(new).fold(0, |after, id| after | executions.external_after(id));
    let after = after | executions.read_by_others(new);
    after & !new == 0 || ancestors(executions, new) & after & !new == 0
}

/// Events of its own task that the rules order before an event.
pub fn before_of_own(executions: &Executions, id: usize) -> Bits {
    let task = executions.events[id].task;
    let own = executions.of_task(task).fold(0, |all: Bits, (id, _)| all | 1 << id);
    let mut all = executions.events[id].before & own;
    let mut left = all;
    while left != 0 {
        let id = left.trailing_zeros() as usize;
        left &= left - 1;
        let new = executions.events[id].before & own & !all;
        all |= new;
        left |= new;
    }
    all
}

/// Events that come before all that this task will ever do.
pub fn before_all(executions: &Executions, task: u8) -> Bits {
    let orders = |event: &Event| match event.kind {
        Kind::Fence(barrier) => matches!(barrier, Barrier::Full | Barrier::Loads),
        Kind::Read => matches!(event.strength, Strength::Acquire | Strength::AcquirePc),
        Kind::Write => false,
    };
    let ordering = executions.of_task(task).filter(|(_, event)| orders(event));
    ancestors(executions, ordering.fold(0, |all, (id, _)| all | 1 << id))
}
