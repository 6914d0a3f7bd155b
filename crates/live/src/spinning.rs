//! CPUs that spin for a lock of the kernel, where no sample shows the kernel: only one of the threads that use a lock has it at a
//! time, so that those which are in the kernel besides, while others sleep in line for it, spin for it.

use std::collections::BTreeMap;

use ledger::split;
use records::live::{ObservedLock, ObservedThread, ThreadState, WaitKind};

/// Counts spinning as waiting, as in each window, whose lengths these are, so many of the threads that use a lock were in the
/// kernel at a time; of each, the share of its CPU time in the kernel is known.
pub fn count_spinning(
    threads: &mut [ObservedThread],
    locks: &mut [ObservedLock],
    in_kernel: &BTreeMap<u32, f64>,
    lengths: &[u64],
) {
    let of_kernel = |lock: &&mut ObservedLock| lock.kind == WaitKind::Kernel;
    for (index, lock) in locks.iter_mut().enumerate().filter(|(_, lock)| of_kernel(lock)) {
        let waits = ThreadState::Lock(index);
        for (window, length) in lengths.iter().enumerate() {
            let in_kernel_ns = |thread: &ObservedThread| {
                let runs = ns_in(thread, &ThreadState::Running, window) as f64;
                let uses = thread.states.iter().any(|time| time.state == waits);
                let share = in_kernel.get(&thread.task).filter(|_| uses).copied();
                (runs * share.unwrap_or(0.0)) as u64
            };
            let parts: Vec<u64> = threads.iter().map(in_kernel_ns).collect();
            let besides = parts.iter().sum::<u64>().saturating_sub(*length);
            let contended = lock.contended_ns[window] as f64 / (*length).max(1) as f64;
            let spins = (besides as f64 * contended.min(1.0)) as u64;
            if spins == 0 {
                continue;
            }
            lock.wait_ns[window] += spins;
            for (thread, ns) in threads.iter_mut().zip(split(spins, &parts)) {
                for time in &mut thread.states {
                    match &time.state {
                        ThreadState::Running => {
                            time.ns[window] = time.ns[window].saturating_sub(ns)
                        }
                        state if *state == waits => time.ns[window] += ns,
                        _ => {}
                    }
                }
            }
        }
    }
}

fn ns_in(thread: &ObservedThread, state: &ThreadState, window: usize) -> u64 {
    thread.states.iter().find(|time| time.state == *state).map_or(0, |time| time.ns[window])
}

#[cfg(test)]
mod tests {
    use records::live::StateTime;

    use super::*;

    #[test]
    fn threads_in_the_kernel_besides_the_one_that_has_the_lock_spin() {
        let check = |in_kernel: f64, contended: u64, expected: u64| {
            let time = |state: ThreadState, ns: u64| StateTime { state, ns: vec![ns], times: 1 };
            let thread = |task: u32| ObservedThread {
                task,
                states: vec![time(ThreadState::Running, 90), time(ThreadState::Lock(0), 10)],
                ..ObservedThread::default()
            };
            let mut threads = [thread(1), thread(2)];
            let kind = WaitKind::Kernel;
            let (wait_ns, contended_ns) = (vec![20], vec![contended]);
            let mut locks =
                [ObservedLock { kind, wait_ns, contended_ns, ..ObservedLock::default() }];
            let shares = [(1, in_kernel), (2, in_kernel)].into();
            count_spinning(&mut threads, &mut locks, &shares, &[100]);
            let spun = |thread: &ObservedThread| 90 - ns_in(thread, &ThreadState::Running, 0);
            assert_eq!(threads.iter().map(spun).sum::<u64>(), expected);
            assert_eq!(locks[0].wait_ns, [20 + expected]);
            let whole =
                |thread: &ObservedThread| thread.states.iter().map(|t| t.ns[0]).sum::<u64>();
            assert!(threads.iter().all(|thread| whole(thread) == 100));
        };
        check(1.0, 100, 80);
        check(1.0, 50, 40);
        check(0.5, 100, 0);
        check(1.0, 0, 0);
    }
}
