//! What is counted, by which program, and whether all the time or in bursts.
//!
//! An event that operations cause millions of times a second costs a tenth of them when each is
//! counted; the tracepoint of system calls makes even the way into the kernel a longer one. So
//! what turns out to be frequent is counted in short bursts only:
//!
//!     trial  [edge ──── burst ───────── burst ────── burst ─── edge]
//!
//! The trial tells how frequent each event is, before the first window begins. A
//! burst attaches, takes a snapshot of each CPU, waits, takes another, detaches.

use records::Bursts;

use super::moments;
use super::raw::{self, Edge};

/// A counter.
#[derive(Debug)]
pub struct Counter {
    /// The start of the names of its counts.
    pub names: &'static str,
    /// What counts.
    pub program: &'static str,
}

const fn counter(names: &'static str, program: &'static str) -> Counter {
    Counter { names, program }
}

/// All of them. Waits for locks are counted where they are timed.
pub const COUNTERS: &[Counter] = &[
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

impl Counter {
    /// The one that makes a count of this name.
    pub fn of(name: &str) -> Option<&'static Counter> {
        COUNTERS.iter().find(|counter| name.starts_with(counter.names))
    }

    /// The start of the names of all that it is added up with: that is counted in bursts together,
    /// or not at all.
    fn together(&self) -> &'static str {
        if self.names.starts_with("fault.") { "fault." } else { self.names }
    }
}

/// Events of a CPU in a nanosecond above which they are counted in bursts: 100 000 a second, which
/// at 60 to 100 ns each are at most 1 % of the time.
const FREQUENT_PER_NS: f64 = 100e-6;

/// Operations of a CPU in a burst below which nothing is counted in bursts: what an edge cuts
/// off would be too large a part of what a burst holds.
const OPERATIONS_MIN: f64 = 10.0;

/// The counters of what is so frequent, by the trial between two edges, that it is counted in bursts. `after_ns`: how long operations had been done when the trial began.
pub fn frequent(before: &Edge, after: &Edge, after_ns: u64) -> Vec<&'static Counter> {
    let trial = raw::bursts([(before, after)].into_iter(), |_| true);
    let cpus = before.len().max(1) as f64;
    let operations_per_ns = raw::operations(before) as f64 / cpus / after_ns.max(1) as f64;
    choose(&trial, operations_per_ns)
}

fn choose(trial: &Bursts, operations_per_ns: f64) -> Vec<&'static Counter> {
    if operations_per_ns * (moments::BURST_NS as f64) < OPERATIONS_MIN {
        return Vec::new();
    }
    let is_frequent = |counter: &&Counter| {
        // The sum of all calls stands beside them.
        let counts = trial.counts.iter().filter(|(name, _)| *name != "syscalls");
        let times: u64 = counts
            .filter(|(name, _)| {
                Counter::of(name).is_some_and(|c| c.together() == counter.together())
            })
            .map(|(_, n)| n)
            .sum();
        // Operations are fast, but none was done in the trial: something else had the CPUs, and
        // nothing is known of them.
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
            choose(trial, 1.0 / ns_per_operation).iter().map(|counter| counter.names).collect()
        };
        let calls = [("syscall.fcntl", 4000), ("syscalls", 4000), ("fault.user", 3)];
        assert_eq!(chosen(&trial(2000, &calls), 1000.0), ["syscall"]);
        let faults = [("fault.kernel", 0), ("fault.user", 2000), ("syscalls", 0)];
        assert_eq!(chosen(&trial(2000, &faults), 1000.0), ["fault.user", "fault.kernel"]);
        // An operation of a second, however often it calls; one of 100 us that calls once.
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
            assert_eq!(Counter::of(name).unwrap().program, program);
        }
    }
}
