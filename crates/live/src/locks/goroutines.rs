//! Waits of goroutines: by the calls that queue one and make it ready, or as they were sighted.

use std::collections::HashMap;

use records::live::{Trace, Woken};

use super::LockWait;
use crate::waits::StackIndex;

/// The waits of goroutines, with process and address: from the call that queues one until another thread makes it ready.
pub(super) fn goroutine_waits<'t>(
    trace: &'t Trace,
    stacks: &StackIndex<'t>,
) -> Vec<(u32, u64, LockWait<'t>)> {
    let mut begun: HashMap<(u32, u64), (u64, u32, u64)> = HashMap::new();
    let mut waits = Vec::new();
    for event in &trace.goroutines {
        let Some(process) = trace.tasks.get(&event.task).map(|task| task.process) else { continue };
        let goroutine = (process, event.goroutine);
        if let Some(address) = event.waits_at {
            // One that got the semaphore at once is never made ready, and begins again.
            begun.insert(goroutine, (event.at_ns, event.task, address));
            continue;
        }
        let Some((from, task, address)) = begun.remove(&goroutine) else { continue };
        // In a gap it may have been made ready, and have begun to wait for something else.
        if trace.gaps_ns.iter().any(|(begin, _)| (from..event.at_ns).contains(begin)) {
            continue;
        }
        let woken =
            Woken { at_ns: event.at_ns, waker: event.task, futex: Some(address), by_signal: false };
        let wait = LockWait {
            // Tells goroutines apart; it is no thread.
            task: (event.goroutine >> 3) as u32,
            from,
            to: event.at_ns,
            awake: event.at_ns,
            woken: Some(woken),
            wait: None,
            stack: stacks.of_wait(task, from),
        };
        waits.push((process, address, wait));
    }
    waits.extend(stacks.goroutines().iter().map(|wait| {
        let (task, from, to) = (wait.number, wait.from, wait.to);
        let (awake, woken, stack) = (to, None, wait.stack);
        let of_thread = LockWait { task, from, to, awake, woken, wait: None, stack };
        (wait.process, wait.semaphore, of_thread)
    }));
    waits
}
