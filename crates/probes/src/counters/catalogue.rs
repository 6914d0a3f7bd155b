//! What the counters are called, what they count, and how well.

use records::Better::{Lower, Neither};
use records::Metric;
use records::Obtained::{Apportioned, Exact, Sampled};

macro_rules! catalogue {
    ($($name:literal, $unit:literal, $better:ident, $obtained:ident, $about:literal;)*) => {
        /// Every counter, in the order in which they are listed. `*` stands for any
        /// text without a dot. Differences over the run, of the whole host unless it
        /// says measured CPUs; `tick` is [`super::ticks_per_second`] to the second.
        pub const CATALOGUE: &[Metric] = &[$(Metric {
            name: $name, unit: $unit, better: $better, obtained: $obtained, about: $about,
        },)*];
    };
}

catalogue! {
    "stat.ctxt", "1", Neither, Exact, "context switches";
    "stat.intr", "1", Neither, Exact, "interrupts served, of all kinds";
    "stat.processes", "1", Neither, Exact, "processes and threads created";
    "stat.softirq", "1", Neither, Exact, "softirqs served, of all kinds";
    "stat.*.user_ticks", "tick", Neither, Sampled, "time in user mode, guest time included; stat.all: all CPUs, stat.cpus: the measured ones";
    "stat.*.nice_ticks", "tick", Neither, Sampled, "time in user mode at low priority";
    "stat.*.system_ticks", "tick", Neither, Sampled, "time in the kernel for tasks";
    "stat.*.idle_ticks", "tick", Neither, Sampled, "time idle; may go down a little";
    "stat.*.iowait_ticks", "tick", Neither, Sampled, "time idle while a task that ran here waited for I/O; unreliable, may go down";
    "stat.*.irq_ticks", "tick", Neither, Sampled, "time in interrupt handlers; stays 0 where the kernel charges it to the task";
    "stat.*.softirq_ticks", "tick", Neither, Sampled, "time in softirqs; partly charged to tasks as above";
    "stat.*.steal_ticks", "tick", Lower, Sampled, "time that the hypervisor gave to others although a task was ready";
    "stat.*.guest_ticks", "tick", Neither, Sampled, "time running virtual CPUs, part of user";
    "stat.*.guest_nice_ticks", "tick", Neither, Sampled, "time running virtual CPUs at low priority, part of nice";
    "interrupts.device", "1", Neither, Exact, "interrupts of numbered rows: devices (on arm64 the timer too)";
    "interrupts.LOC", "1", Neither, Exact, "local timer interrupts";
    "interrupts.RES", "1", Neither, Exact, "rescheduling interrupts: a CPU told another to look at its queue";
    "interrupts.CAL", "1", Neither, Exact, "function-call interrupts, without TLB shootdowns on x86";
    "interrupts.TLB", "1", Neither, Exact, "TLB shootdowns received; paravirtual flushes are not in it";
    "interrupts.NMI", "1", Neither, Exact, "non-maskable interrupts: watchdog and profilers";
    "interrupts.*", "1", Neither, Exact, "interrupts of the row of this name in /proc/interrupts";
    "softirqs.*", "1", Neither, Exact, "softirqs of this kind";
    "frequency_mhz", "MHz", Neither, Sampled, "mean of scaling_cur_freq over the measured CPUs, just after the stop (a value, not a difference)";
    "vmstat.nr_*", "page", Neither, Sampled, "level of this name in /proc/vmstat, up or down; mostly pages; CPUs report up to a second late";
    "vmstat.*", "1", Neither, Exact, "event of this name in /proc/vmstat";
    "pressure.cpu.some_us", "us", Lower, Apportioned, "time in which some task waited for a CPU";
    "pressure.cpu.full_us", "us", Lower, Apportioned, "always 0 for the whole host";
    "pressure.memory.some_us", "us", Lower, Apportioned, "time in which some task waited for memory";
    "pressure.memory.full_us", "us", Lower, Apportioned, "time in which all tasks that could run waited for memory";
    "pressure.io.some_us", "us", Lower, Apportioned, "time in which some task waited for I/O";
    "pressure.io.full_us", "us", Lower, Apportioned, "time in which all tasks that could run waited for I/O";
    "cgroup.throttled_periods", "1", Lower, Exact, "periods in which the quota of the own control group, or one above, stopped tasks";
    "cgroup.throttled_us", "us", Lower, Exact, "time for which that quota stopped tasks, summed over CPUs and groups";
    "throttle.core", "1", Lower, Exact, "times that heat slowed a measured CPU's core";
    "throttle.package", "1", Lower, Exact, "times that heat slowed the package, as seen by each measured CPU";
}

/// The first entry that a counter's name fits.
pub fn find(name: &str) -> Option<&'static Metric> {
    CATALOGUE.iter().find(|metric| match metric.name.split_once('*') {
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
        assert_eq!(find("stat.cpus.steal_ticks").unwrap().unit, "tick");
        assert_eq!(find("vmstat.nr_dirty").unwrap().unit, "page");
        assert_eq!(find("interrupts.TLB").unwrap().name, "interrupts.TLB");
        assert_eq!(find("interrupts.PIN").unwrap().name, "interrupts.*");
        assert!(find("vmstat.").is_none() && find("stat.nothing").is_none());
    }
}
