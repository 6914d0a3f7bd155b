//! /proc/stat: the CPUs' time by state, in ticks, and the numbers of context switches,
//! forks and interrupts (proc_stat(5)).

use super::files::{SourceFiles, leading_numbers};
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "stat", paths: SourcePaths::Fixed(&["proc/stat"]), parse };

/// The columns of a CPU's line.
const COLUMNS: [&str; 10] =
    ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

/// Columns that the kernel computes from the time since the CPU went idle, and may correct
/// downwards later (torvalds/linux:Documentation/filesystems/proc.rst).
const MAY_FALL: [&str; 2] = ["idle", "iowait"];

/// The number of /proc/stat ticks in one second.
pub fn ticks_per_second() -> i64 {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }
}

fn parse(files: &SourceFiles, cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    let (mut total_line, mut measured) = (Vec::new(), Vec::new());
    for line in files.only().lines()? {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => total_line.push(columns(words)),
            Some(name @ ("ctxt" | "intr" | "processes" | "softirq")) => {
                let total = leading_numbers(words, 1).next();
                total.into_iter().for_each(|total| values.count(format!("stat.{name}"), total));
            }
            Some(name) if is_one_of(cpus, name) => measured.push(columns(words)),
            _ => {}
        }
    }
    for (name, expected, lines) in [("all", 1, total_line), ("cpus", cpus.len(), measured)] {
        if lines.len() == expected {
            add_ticks(values, name, &lines);
        } else {
            let why = format!("/proc/stat has {} of {expected} lines", lines.len());
            values.unavailable(format!("stat.{name}"), why);
        }
    }
    Ok(())
}

fn is_one_of(cpus: &[u32], name: &str) -> bool {
    let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
    number.is_some_and(|number| cpus.contains(&number))
}

fn columns<'a>(words: impl Iterator<Item = &'a str>) -> Vec<i64> {
    leading_numbers(words, COLUMNS.len()).collect()
}

/// Adds the sum over CPUs of each column; old kernels have fewer columns.
fn add_ticks(values: &mut CounterValues, scope: &str, cpus: &[Vec<i64>]) {
    if cpus.is_empty() {
        return;
    }
    for (column, name) in COLUMNS.iter().enumerate() {
        let Some(sum) = cpus.iter().map(|cpu| cpu.get(column).copied()).sum::<Option<i64>>() else {
            break;
        };
        let metric = format!("stat.{scope}.{name}_ticks");
        if MAY_FALL.contains(name) {
            values.level(metric, sum);
        } else {
            values.count(metric, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    const BEFORE: &str = "\
cpu  100 0 200 3000 5 0 1 2 0 0
cpu0 50 0 100 1500 5 0 1 2 0 0
cpu1 25 0 50 750 0 0 0 0 0 0
cpu2 25 0 50 750 0 0 0 0 0 0
intr 1000 1 2 3
ctxt 5000
btime 1795175684
processes 600
procs_running 1
procs_blocked 0
softirq 700 1 2
";

    const AFTER: &str = "\
cpu  160 0 260 2995 4 0 1 12 0 0
cpu0 60 0 110 1495 4 0 1 2 0 0
cpu1 50 0 75 750 0 0 0 5 0 0
cpu2 50 0 75 750 0 0 0 5 0 0
intr 1100 1 2 3
ctxt 5500
btime 1795175684
processes 600
procs_running 2
procs_blocked 0
softirq 690 1 2
";

    #[test]
    fn ticks_are_summed_over_all_and_over_the_measured_cpus() {
        check(
            &SOURCE,
            &[1, 2],
            &[("proc/stat", BEFORE, AFTER)],
            expect![[r#"
                stat.all.guest_nice_ticks 0
                stat.all.guest_ticks 0
                stat.all.idle_ticks -5
                stat.all.iowait_ticks -1
                stat.all.irq_ticks 0
                stat.all.nice_ticks 0
                stat.all.softirq_ticks 0
                stat.all.steal_ticks 10
                stat.all.system_ticks 60
                stat.all.user_ticks 60
                stat.cpus.guest_nice_ticks 0
                stat.cpus.guest_ticks 0
                stat.cpus.idle_ticks 0
                stat.cpus.iowait_ticks 0
                stat.cpus.irq_ticks 0
                stat.cpus.nice_ticks 0
                stat.cpus.softirq_ticks 0
                stat.cpus.steal_ticks 10
                stat.cpus.system_ticks 50
                stat.cpus.user_ticks 50
                stat.ctxt 500
                stat.intr 100
                stat.processes 0
                unavailable stat.softirq: fell from 700 to 690: reset or wrapped
            "#]],
        );
    }

    #[test]
    fn a_measured_cpu_that_is_offline_is_no_zero() {
        check(
            &SOURCE,
            &[1, 7],
            &[("proc/stat", "cpu 1 1\ncpu1 1 1\nctxt 1\n", "cpu 2 1\ncpu1 2 1\nctxt 3\n")],
            expect![[r#"
                stat.all.nice_ticks 0
                stat.all.user_ticks 1
                stat.ctxt 2
                unavailable stat.cpus: /proc/stat has 1 of 2 lines
            "#]],
        );
    }

    #[test]
    fn a_cut_file_gives_what_is_whole() {
        check(
            &SOURCE,
            &[0],
            &[("proc/stat", "cpu 1 2 x\ncpu0\nctxt 100\n", "cpu 5 2 9\ncpu0\nctxt 20")],
            expect![[r#"
                stat.all.nice_ticks 0
                stat.all.user_ticks 4
                unavailable stat.all.system_ticks: appeared between the snapshots
                unavailable stat.ctxt: disappeared between the snapshots
            "#]],
        );
    }

    #[test]
    fn garbage_is_unavailable() {
        check(
            &SOURCE,
            &[],
            &[("proc/stat", "\u{1}\n\n", "ctxt\n99999999999999999999\n")],
            expect![[r#"
                unavailable stat.all: /proc/stat has 0 of 1 lines
            "#]],
        );
    }
}
