//! /proc/vmstat: events of memory management (faults, reclaim, migration, huge
//! pages) and levels (`nr_*`). Kernels differ in what they have, so every line is
//! taken by its own name. The kernel sums events over CPUs when they are read; levels may
//! lag by a second, as each CPU adds its own changes only now and then (mm/vmstat.c).

use super::files::SourceFiles;
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "vmstat", paths: SourcePaths::Fixed(&["proc/vmstat"]), parse };

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    for (name, number) in files.only().entries(' ')? {
        if let Ok(number) = number.parse() {
            // Not only `nr_*` are levels, and events have 64 bits, so that none wraps.
            values.level(format!("vmstat.{name}"), number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    #[test]
    fn levels_go_down_and_new_counters_are_left_out() {
        check(
            &SOURCE,
            &[],
            &[(
                "proc/vmstat",
                "nr_free_pages 1154460\npgfault 100\nthp_split_page 3\n",
                "nr_free_pages 1154000\npgfault 1600\nthp_split_page 3\nnew_counter 7\n",
            )],
            expect![[r#"
                vmstat.nr_free_pages -460
                vmstat.pgfault 1500
                vmstat.thp_split_page 0
                unavailable vmstat.new_counter: appeared between the snapshots
            "#]],
        );
    }

    #[test]
    fn garbage_is_unavailable() {
        check(
            &SOURCE,
            &[],
            &[("proc/vmstat", "pgfault 1\n", "pgfault\npgfault x\n")],
            expect![[r#"
                unavailable vmstat: no line could be parsed: unknown format
            "#]],
        );
    }
}
