//! Which events are counted, by which program, and whether continuously or in bursts.
//!
//! Counting each of an event that operations cause millions of times a second takes a tenth of
//! their rate; the tracepoint of system calls even lengthens the way into the kernel. So events
//! that turn out to be frequent are counted only in short bursts:
//!
//!     trial  [snapshot ─── burst ───────── burst ────── burst ─── snapshot]
//!
//! The trial, before the first window, shows how frequent each event is. A burst attaches the
//! programs, takes a snapshot of each CPU, waits, takes another, and detaches.

use records::Bursts;

use super::raw::{self, LedgerSnapshot};
use super::sampling_schedule;

/// A BPF program that counts events.
#[derive(Debug)]
pub struct LedgerCounter {
    /// The prefix of the names of its counts.
    pub prefix: &'static str,
    pub program: &'static str,
}

const fn counter(prefix: &'static str, program: &'static str) -> LedgerCounter {
    LedgerCounter { prefix, program }
}

/// All counters. Waits for locks are counted where they are timed.
pub const COUNTERS: &[LedgerCounter] = &[
    counter("syscall", "count_sys_enter"),
    counter("fault.user", "count_page_fault_user"),
    counter("fault.kernel", "count_page_fault_kernel"),
    counter("tlb", "count_tlb_flush"),
    counter("file_lock.posix", "count_posix_lock_inode"),
    counter("file_lock.flock", "count_flock_lock_inode"),
    counter("file_lock.lease", "count_generic_add_lease"),
    counter("journal.start", "count_jbd2_handle_start"),
    counter("journal.commit", "count_jbd2_start_commit"),
    counter("xfs_log.reserve", "count_xfs_log_reserve"),
    counter("xfs_log.force", "count_xfs_log_force"),
    counter("btrfs.commit", "count_btrfs_transaction_commit"),
    counter("ipi.call_many", "count_ipi_send_cpumask"),
    counter("ipi.", "count_ipi_send_cpu"),
    counter("migration", "count_sched_migrate_task"),
    counter("wake_up", "count_sched_waking"),
];

impl LedgerCounter {
    /// The counter that makes the count of this name.
    pub fn for_count(name: &str) -> Option<&'static LedgerCounter> {
        COUNTERS.iter().find(|counter| name.starts_with(counter.prefix))
    }

    /// The prefix of a group of counts that reports add up: either the whole group is counted in
    /// bursts, or none of it.
    fn group(&self) -> &'static str {
        if self.prefix.starts_with("fault.") { "fault." } else { self.prefix }
    }
}

/// The rate of events per CPU above which they are counted in bursts: 100 000 per second, which
/// at 60 to 100 ns each take at most 1 % of the time.
const FREQUENT_PER_NS: f64 = 100e-6;

/// The operations per CPU in a burst below which nothing is counted in bursts: operations cut off
/// at its ends would be too large a part of it.
const OPERATIONS_MIN: f64 = 10.0;

/// The counters of events so frequent in the trial, between these snapshots, that they are counted
/// in bursts. Operations had been running for `after_ns` when the trial began.
pub fn frequent(
    before: &LedgerSnapshot,
    after: &LedgerSnapshot,
    after_ns: u64,
) -> Vec<&'static LedgerCounter> {
    let trial = raw::bursts([(before, after)].into_iter(), |_| true);
    let cpus = before.len().max(1) as f64;
    let operations_per_ns = raw::operations(before) as f64 / cpus / after_ns.max(1) as f64;
    choose(&trial, operations_per_ns)
}

fn choose(trial: &Bursts, operations_per_ns: f64) -> Vec<&'static LedgerCounter> {
    if operations_per_ns * (sampling_schedule::BURST_NS as f64) < OPERATIONS_MIN {
        return Vec::new();
    }
    let is_frequent = |counter: &&LedgerCounter| {
        // "syscalls" is the sum of the counts of single calls, which are there too.
        let counts = trial.counts.iter().filter(|(name, _)| *name != "syscalls");
        let times: u64 = counts
            .filter(|(name, _)| {
                LedgerCounter::for_count(name).is_some_and(|c| c.group() == counter.group())
            })
            .map(|(_, n)| n)
            .sum();
        // If fast operations did none in the trial, other tasks had the CPUs: how frequent the
        // event is remains unknown.
        trial.operations == 0
            || times as f64 / trial.operations as f64 * operations_per_ns > FREQUENT_PER_NS
    };
    COUNTERS.iter().filter(is_frequent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_operation_does_is_counted_in_bursts_if_operations_are_short() {
        let trial = |operations, counts: &[(&str, u64)]| Bursts {
            number: 1,
            ns: 2_000_000,
            operations,
            counts: counts.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
        };
        let chosen = |trial: &Bursts, ns_per_operation: f64| -> Vec<&str> {
            choose(trial, 1.0 / ns_per_operation).iter().map(|counter| counter.prefix).collect()
        };
        let calls = [("syscall.fcntl", 4000), ("syscalls", 4000), ("fault.user", 3)];
        assert_eq!(chosen(&trial(2000, &calls), 1000.0), ["syscall"]);
        let faults = [("fault.kernel", 0), ("fault.user", 2000), ("syscalls", 0)];
        assert_eq!(chosen(&trial(2000, &faults), 1000.0), ["fault.user", "fault.kernel"]);
        // An operation of 1 s, however often it calls; one of 100 us that calls once.
        assert!(chosen(&trial(0, &calls), 1e9).is_empty());
        assert!(chosen(&trial(20, &[("syscall.read", 20)]), 1e5).is_empty());
        // Short operations, none of which was done during the trial.
        assert_eq!(chosen(&trial(0, &[]), 1000.0).len(), COUNTERS.len());
    }

    #[test]
    fn each_count_has_one_counter() {
        for (name, program) in [
            ("syscalls", "count_sys_enter"),
            ("syscall.getppid", "count_sys_enter"),
            ("ipi.call_many", "count_ipi_send_cpumask"),
            ("ipi.reschedule", "count_ipi_send_cpu"),
            ("tlb_pages.switch", "count_tlb_flush"),
        ] {
            assert_eq!(LedgerCounter::for_count(name).unwrap().program, program);
        }
    }
}
