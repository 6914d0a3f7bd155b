//! /proc/interrupts: one row per interrupt, one column per CPU. Named rows (timer,
//! rescheduling, function call, TLB shootdown) are counted by name; numbered rows belong
//! to devices and are summed. On arm64 the timer is a numbered row, and the named ones are
//! `IPI0` and so on.
//!
//! The kernel counts in 32 bits per CPU and row.

use super::files::{SourceFiles, leading_numbers};
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "interrupts", paths: SourcePaths::Fixed(&["proc/interrupts"]), parse };

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    let mut lines = files.only().lines()?;
    let cpus = lines.next().map_or(0, |header| header.split_ascii_whitespace().count());
    let mut device = None;
    for line in lines {
        let Some((row, columns)) = line.split_once(':') else { continue };
        // The columns end at the description, which may begin with a number too.
        let mut counts = leading_numbers(columns.split_ascii_whitespace(), cpus).peekable();
        if counts.peek().is_none() {
            continue;
        }
        let sum: i64 = counts.sum();
        match row.trim() {
            row if row.parse::<u32>().is_ok() => *device.get_or_insert(0) += sum,
            row => values.count(format!("interrupts.{row}"), sum),
        }
    }
    device.into_iter().for_each(|sum| values.count("interrupts.device", sum));
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    const BEFORE: &str = "\
           CPU0       CPU1       CPU3
 24:          1          0          0  IO-APIC   5-edge      ACPI:Ged
 36:          0      70464          0 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          0          0          0   Non-maskable interrupts
LOC:      34318      36153        100   Local timer interrupts
RES:       5035       5323          0   Rescheduling interrupts
TLB:       8667       9081          0   TLB shootdowns
ERR:          0
";

    const AFTER: &str = "\
           CPU0       CPU1       CPU3
 24:          1          0          0  IO-APIC   5-edge      ACPI:Ged
 36:          0      70474          1 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          0          0          0   Non-maskable interrupts
LOC:      34418      36253        200   Local timer interrupts
RES:          7          0          0   Rescheduling interrupts
TLB:       8667       9181          5   TLB shootdowns
ERR:          3
";

    #[test]
    fn rows_are_summed_over_cpus_and_devices_together() {
        check(
            &SOURCE,
            &[],
            &[("proc/interrupts", BEFORE, AFTER)],
            expect![[r#"
                interrupts.ERR 3
                interrupts.LOC 300
                interrupts.NMI 0
                interrupts.TLB 105
                interrupts.device 11
                unavailable interrupts.RES: fell from 10358 to 7: reset or wrapped
            "#]],
        );
    }

    #[test]
    fn cut_and_broken_files_give_what_is_whole() {
        let broken = "CPU0 CPU1\n\nLOC: 1 2\n7\n: :\nTLB: x\nRES: 12 3";
        check(
            &SOURCE,
            &[],
            &[("proc/interrupts", "CPU0 CPU1\nLOC: 1 1\nRES: 1 1\n", broken)],
            expect![[r#"
                interrupts.LOC 1
                unavailable interrupts.RES: disappeared between the snapshots
            "#]],
        );
        check(
            &SOURCE,
            &[],
            &[("proc/interrupts", "", "CPU0")],
            expect![[r#"
                unavailable interrupts: no line could be parsed: unknown format
            "#]],
        );
    }
}
