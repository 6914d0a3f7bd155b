//! The names of the counters, what they count, and how exactly.

use super::Better::{Lower, Neither};
use super::Metric;
use super::MetricKind::{Count, Level, Ticks, Time};
use super::Obtained::{Apportioned, Exact, Sampled};

macro_rules! counters {
    ($($name:literal, $unit:literal, $better:ident, $obtained:ident, $kind:ident, $about:literal;)*) => {
        /// Every counter, in the order of lists. `*` stands for any text without a dot.
        /// Values are differences over the run, of the whole host unless the description
        /// says measured CPUs; a second has `sysconf(_SC_CLK_TCK)` ticks.
        pub const COUNTERS: &[Metric] = &[$(Metric {
            name: $name, unit: $unit, better: $better, obtained: $obtained, kind: $kind,
            about: $about,
        },)*];
    };
}

counters! {
    "stat.ctxt", "1", Neither, Exact, Ticks, "context switches";
    "stat.intr", "1", Neither, Exact, Ticks, "interrupts served, of all kinds";
    "stat.processes", "1", Neither, Exact, Count, "processes and threads created";
    "stat.softirq", "1", Neither, Exact, Ticks, "softirqs served, of all kinds";
    "stat.*.user_ticks", "tick", Neither, Sampled, Time, "time in user mode, including guest time; stat.all: all CPUs, stat.cpus: the measured CPUs";
    "stat.*.nice_ticks", "tick", Neither, Sampled, Time, "time in user mode at low priority";
    "stat.*.system_ticks", "tick", Neither, Sampled, Time, "time in the kernel on behalf of tasks";
    "stat.*.idle_ticks", "tick", Neither, Sampled, Time, "idle time; may go down a little";
    "stat.*.iowait_ticks", "tick", Neither, Sampled, Time, "idle time while a task that last ran on the CPU waited for I/O; unreliable, may go down";
    "stat.*.irq_ticks", "tick", Neither, Sampled, Time, "time in interrupt handlers; stays 0 if the kernel charges it to tasks";
    "stat.*.softirq_ticks", "tick", Neither, Sampled, Time, "time in softirqs; partly charged to tasks, like irq_ticks";
    "stat.*.steal_ticks", "tick", Lower, Sampled, Time, "time that the hypervisor gave to others while a task was ready to run";
    "stat.*.guest_ticks", "tick", Neither, Sampled, Time, "time running virtual CPUs, part of user_ticks";
    "stat.*.guest_nice_ticks", "tick", Neither, Sampled, Time, "time running virtual CPUs at low priority, part of nice_ticks";
    "interrupts.device", "1", Neither, Exact, Ticks, "interrupts of numbered rows of /proc/interrupts: devices (on arm64 also the timer)";
    "interrupts.LOC", "1", Neither, Exact, Ticks, "local timer interrupts";
    "interrupts.RES", "1", Neither, Exact, Ticks, "rescheduling interrupts: IPIs that make a CPU check its run queue";
    "interrupts.CAL", "1", Neither, Exact, Count, "function-call interrupts; on x86 without TLB shootdowns";
    "interrupts.TLB", "1", Neither, Exact, Count, "TLB shootdowns received, without paravirtual flushes";
    "interrupts.NMI", "1", Neither, Exact, Ticks, "non-maskable interrupts: watchdog and profilers";
    "interrupts.*", "1", Neither, Exact, Ticks, "interrupts of the row of this name in /proc/interrupts";
    "softirqs.*", "1", Neither, Exact, Ticks, "softirqs of this kind";
    "frequency_mhz", "MHz", Neither, Sampled, Level, "mean of scaling_cur_freq over the measured CPUs, just after the tasks stop (a value, not a difference)";
    "vmstat.numa_*", "1", Neither, Exact, Ticks, "events of this name in /proc/vmstat; the scanner of NUMA balancing, which a timer starts, causes most";
    "vmstat.nr_*", "page", Neither, Sampled, Level, "change of the level of this name in /proc/vmstat; mostly pages; CPUs report up to a second late";
    "vmstat.*", "1", Neither, Exact, Count, "events of this name in /proc/vmstat";
    "pressure.cpu.some_us", "us", Lower, Apportioned, Time, "time in which at least one task waited for a CPU";
    "pressure.cpu.full_us", "us", Lower, Apportioned, Time, "always 0 for the whole host";
    "pressure.memory.some_us", "us", Lower, Apportioned, Time, "time in which at least one task waited for memory";
    "pressure.memory.full_us", "us", Lower, Apportioned, Time, "time in which all non-idle tasks waited for memory";
    "pressure.io.some_us", "us", Lower, Apportioned, Time, "time in which at least one task waited for I/O";
    "pressure.io.full_us", "us", Lower, Apportioned, Time, "time in which all non-idle tasks waited for I/O";
    "cgroup.throttled_periods", "1", Lower, Exact, Ticks, "periods in which the CPU quota of knee's control group, or of one above it, throttled tasks";
    "cgroup.throttled_us", "us", Lower, Exact, Time, "time for which these quotas throttled tasks, summed over CPUs and groups";
    "throttle.core", "1", Lower, Exact, Ticks, "thermal throttling events of the measured CPUs' cores";
    "throttle.package", "1", Lower, Exact, Ticks, "thermal throttling events of the package, as seen by each measured CPU";
}

/// The first entry whose name or pattern matches the name of a counter.
pub fn find_counter(name: &str) -> Option<&'static Metric> {
    COUNTERS.iter().find(|metric| match metric.name.split_once('*') {
        None => metric.name == name,
        Some((head, tail)) => name
            .strip_prefix(head)
            .and_then(|rest| rest.strip_suffix(tail))
            .is_some_and(|rest| !rest.is_empty() && !rest.contains('.')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fitting_entry_describes_a_counter() {
        assert_eq!(find_counter("stat.cpus.steal_ticks").unwrap().unit, "tick");
        assert_eq!(find_counter("vmstat.nr_dirty").unwrap().unit, "page");
        assert_eq!(find_counter("interrupts.TLB").unwrap().name, "interrupts.TLB");
        assert_eq!(find_counter("interrupts.PIN").unwrap().name, "interrupts.*");
        assert!(find_counter("vmstat.").is_none() && find_counter("stat.nothing").is_none());
    }
}
