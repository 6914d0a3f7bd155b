//! /proc/softirqs: softirqs by kind, one column per CPU, summed over all CPUs.

use super::files::{SourceFiles, leading_numbers};
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "softirqs", paths: SourcePaths::Fixed(&["proc/softirqs"]), parse };

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    for (kind, columns) in files.only().entries(':')? {
        let mut counts = leading_numbers(columns.split_ascii_whitespace(), usize::MAX).peekable();
        if counts.peek().is_some() {
            values.count(format!("softirqs.{}", kind.trim()), counts.sum());
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
    fn kinds_are_summed_over_cpus() {
        let before = "      CPU0 CPU1\n   HI:    0    0\nTIMER: 8594 10361\n  RCU: 1 1\n";
        let after = "      CPU0 CPU1\n   HI:    0    0\nTIMER: 8694 10371\n  RCU: 5 1\n";
        check(
            &SOURCE,
            &[],
            &[("proc/softirqs", before, after)],
            expect![[r#"
                softirqs.HI 0
                softirqs.RCU 4
                softirqs.TIMER 110
            "#]],
        );
    }

    #[test]
    fn garbage_is_unavailable() {
        check(
            &SOURCE,
            &[],
            &[("proc/softirqs", "CPU0\n", "TIMER: x\nRCU: 12")],
            expect![[r#"
                unavailable softirqs: no line could be parsed: unknown format
            "#]],
        );
    }
}
