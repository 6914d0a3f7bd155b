//! CPUs that spin for a lock of the kernel, where no sample shows the kernel: only one of the threads that use a lock has it at a
//! time, so that those which are in the kernel besides, while others sleep in line for it, spin for it.

use std::collections::BTreeMap;

use ledger::split;
use records::live::{HolderState, HolderTime, ObservedLock, ObservedThread, ThreadState, WaitKind};

/// Where threads sleep in line for a lock for less of the time, losing a CPU now and then says nothing of spinning.
const IN_LINE_MIN: f64 = 0.1;

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
        let is_contended = contended_by_displaced(threads, lock, &waits, lengths);
        for (window, length) in lengths.iter().enumerate() {
            let in_kernel_ns = |thread: &ObservedThread| {
                let runs = ns_in(thread, &ThreadState::Running, window) as f64;
                let share = in_kernel.get(&thread.task).filter(|_| uses(thread, &waits)).copied();
                (runs * share.unwrap_or(0.0)) as u64
            };
            let parts: Vec<u64> = threads.iter().map(in_kernel_ns).collect();
            let besides = parts.iter().sum::<u64>().saturating_sub(*length);
            let contended = lock.contended_ns[window] as f64 / (*length).max(1) as f64;
            let spins = (besides as f64 * contended.min(1.0).max(is_contended)) as u64;
            if spins == 0 {
                continue;
            }
            lock.wait_ns[window] += spins;
            let more_ns = spins.min(length.saturating_sub(lock.contended_ns[window]));
            add_contended(lock, window, more_ns);
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

/// How often a lock is contended, as far as threads that lost their CPUs show it: as long as all that use it have CPUs, those
/// that want it spin, and they sleep once the thread that has it has lost its CPU. So the share of the time of lost CPUs in
/// which others sleep in line is how often such a thread had the lock.
fn contended_by_displaced(
    threads: &[ObservedThread],
    lock: &ObservedLock,
    waits: &ThreadState,
    lengths: &[u64],
) -> f64 {
    let is_displaced = |state: &ThreadState| {
        use ThreadState::{BehindOther, BehindOwn, WakeUp};
        matches!(state, BehindOwn | BehindOther(_) | WakeUp)
    };
    let users = threads.iter().filter(|thread| uses(thread, waits));
    let times = users.flat_map(|thread| &thread.states).filter(|time| is_displaced(&time.state));
    let displaced_ns: u64 = times.flat_map(|time| &time.ns).sum();
    let in_line_ns: u64 = lock.contended_ns.iter().sum();
    let in_line = in_line_ns as f64 / lengths.iter().sum::<u64>().max(1) as f64;
    if in_line < IN_LINE_MIN {
        return 0.0;
    }
    in_line_ns as f64 / displaced_ns.max(in_line_ns) as f64
}

/// Adds time in which threads spin: while they do, the thread that has the lock runs.
fn add_contended(lock: &mut ObservedLock, window: usize, ns: u64) {
    lock.contended_ns[window] += ns;
    let is_running = |time: &HolderTime| time.reason == HolderState::Running;
    if !lock.holder.iter().any(is_running) {
        let ns = vec![0; lock.contended_ns.len()];
        lock.holder.push(HolderTime { reason: HolderState::Running, by: String::new(), ns });
    }
    if let Some(running) = lock.holder.iter_mut().find(|time| is_running(time)) {
        running.ns[window] += ns;
    }
}

fn uses(thread: &ObservedThread, waits: &ThreadState) -> bool {
    thread.states.iter().any(|time| time.state == *waits)
}

fn ns_in(thread: &ObservedThread, state: &ThreadState, window: usize) -> u64 {
    thread.states.iter().find(|time| time.state == *state).map_or(0, |time| time.ns[window])
}

#[cfg(test)]
mod tests {
    use records::live::StateTime;

    use super::*;

    /// How long two threads spin in 100 ns, of which each could run for some and waits for 10: by the share of their CPU time
    /// in the kernel, and how long at least one sleeps in line.
    fn check(in_kernel: f64, could_run: u64, contended: u64, expected: u64) {
        let time = |state: ThreadState, ns: u64| StateTime { state, ns: vec![ns], times: 1 };
        let runs = 90 - could_run;
        let thread = |task: u32| ObservedThread {
            task,
            states: vec![
                time(ThreadState::Running, runs),
                time(ThreadState::BehindOwn, could_run),
                time(ThreadState::Lock(0), 10),
            ],
            ..ObservedThread::default()
        };
        let mut threads = [thread(1), thread(2)];
        let kind = WaitKind::Kernel;
        let (wait_ns, contended_ns) = (vec![20], vec![contended]);
        let mut locks = [ObservedLock { kind, wait_ns, contended_ns, ..ObservedLock::default() }];
        let shares = [(1, in_kernel), (2, in_kernel)].into();
        count_spinning(&mut threads, &mut locks, &shares, &[100]);
        let spun = |thread: &ObservedThread| runs - ns_in(thread, &ThreadState::Running, 0);
        assert_eq!(threads.iter().map(spun).sum::<u64>(), expected);
        assert_eq!(locks[0].wait_ns, [20 + expected]);
        assert_eq!(locks[0].contended_ns, [(contended + expected).min(100).max(contended)]);
        let held: u64 = locks[0].holder.iter().flat_map(|time| &time.ns).sum();
        assert_eq!(held, locks[0].contended_ns[0] - contended);
        let whole = |thread: &ObservedThread| thread.states.iter().map(|t| t.ns[0]).sum::<u64>();
        assert!(threads.iter().all(|thread| whole(thread) == 100));
    }

    #[test]
    fn threads_in_the_kernel_besides_the_one_that_has_the_lock_spin() {
        check(1.0, 0, 100, 80);
        check(0.5, 0, 100, 0);
        check(1.0, 0, 0, 0);
        check(1.0, 80, 50, 0);
    }

    #[test]
    fn those_that_lost_a_cpu_show_how_often_one_of_them_had_the_lock() {
        // Half of the time without a CPU, of 40 ns, another sleeps in line.
        check(1.0, 20, 20, 20);
        // Hardly ever: nothing is known but those that sleep.
        check(1.0, 20, 5, 2);
    }
}
