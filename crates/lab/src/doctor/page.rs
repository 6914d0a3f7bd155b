//! The findings as a page: whether this host is fit to measure, then a table for each group, the worst first.

use pages::{Block, Page, PageKind, PageTable, Section};
use text::table::{Align, Table};

use super::{Finding, Group, Level};

/// The page of all findings.
pub fn page(findings: &[Finding]) -> Page {
    Page {
        answers: vec![answer(findings), summary(findings)],
        sections: Group::ALL
            .map(|group| section(group, findings))
            .into_iter()
            .chain([next(findings)])
            .collect(),
        ..Page::new("fit to measure?", PageKind::Health)
    }
}

/// Whether the host is ready, and the first of the warnings if it is not.
fn answer(findings: &[Finding]) -> String {
    let mut warnings = findings.iter().filter(|finding| finding.level == Level::Warn);
    let Some(Finding { name, found, .. }) = warnings.next() else {
        return "Ready to measure.".to_string();
    };
    match warnings.count() {
        0 => format!("Not ready to measure: fix the warning first: {name}: {found}"),
        others => {
            format!(
                "Not ready to measure: fix {} warnings first, such as {name}: {found}",
                others + 1
            )
        }
    }
}

/// "36 checks: 4 warn, 5 missing, 4 note, 23 ok".
fn summary(findings: &[Finding]) -> String {
    let of_level = |level: Level| {
        let n = findings.iter().filter(|finding| finding.level == level).count();
        (n > 0).then(|| format!("{n} {}", level.name()))
    };
    let counts: Vec<_> = Level::ALL.into_iter().filter_map(of_level).collect();
    format!("{} checks: {}", findings.len(), counts.join(", "))
}

fn section(group: Group, findings: &[Finding]) -> Section {
    let mut table = Table::new(["level", "check", "found"].map(|name| (name, Align::Left)));
    for finding in findings.iter().filter(|finding| finding.group == group) {
        table.row(vec![finding.level.name().into(), finding.name.into(), finding.found.clone()]);
        // What is fine needs no explanation.
        if finding.level != Level::Ok {
            let advice = finding.advice.iter().map(|advice| format!("-> {advice}"));
            for text in [finding.matters.to_string()].into_iter().chain(advice) {
                table.row(vec![String::new(), String::new(), text]);
            }
        }
    }
    Section::open(group.title(), vec![Block::Table(PageTable::of_prose(table))])
}

/// What to try next: commands that work on this host.
fn next(findings: &[Finding]) -> Section {
    let is_ok = |name: &str| findings.iter().any(|one| one.name == name && one.level == Level::Ok);
    let why = if ["BPF", "BTF", "this binary"].into_iter().all(is_ok) {
        [
            "knee explain posix_lock_shared --grow",
            "where the time of an operation goes, and what grows",
        ]
    } else {
        ["knee top", "what holds running programs back, as far as /proc tells"]
    };
    let mut table = Table::new([("command", Align::Left), ("what it shows", Align::Left)]);
    for row in [["knee run first-look", "how this host scales, in two minutes"], why] {
        table.row(row.map(str::to_string).into());
    }
    Section::open("What to try next here", vec![Block::Table(PageTable::of_prose(table))])
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::facts::troubled;
    use super::super::findings;
    use super::*;

    #[test]
    fn a_page_is_an_answer_and_two_tables() {
        let style = text::Style { width: 100, ..text::Style::PLAIN };
        let page = pages::terminal(&page(&findings(&troubled())), style);
        assert!(page.lines().all(|line| line.chars().count() <= 100));
        expect![[r#"
            Not ready to measure: fix 4 warnings first, such as CPU quota: 1.5 CPUs' worth of time for 4 CPUs
            36 checks: 4 warn, 5 missing, 4 note, 23 ok

            What this host allows
            level    check              found
            warn     CPU quota          1.5 CPUs' worth of time for 4 CPUs
                                        Tasks beyond the quota are stopped for the rest of each period, which
                                        looks like a lock that nobody holds.
                                        -> run outside the container, or write 'max' to cpu.max of its control
                                        group
            warn     free space         100 MiB of 1024 MiB (9 %)
                                        File systems slow down long before they are full.
                                        -> make room, or choose another --dir
            missing  hardware counters  perf_event_open: No such file or directory (os error 2)
                                        Cycles, cache misses, and samples from inside sections that disable
                                        interrupts.
                                        -> give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or use bare
                                        metal
            missing  kprobes            /sys/bus/event_source/devices/kprobe/type: No such file or directory (os
                                        error 2)
                                        Counts of any kernel function; without them, of tracepoints only.
                                        -> boot a kernel with CONFIG_KPROBE_EVENTS=y
            note     file system        tmpfs: memory, nothing is ever written out
                                        Results on files are results of this file system and its mount options.
                                        -> choose a --dir on the file system that the question is about
            ok       CPUs               all 4 online CPUs
            ok       tasks              100000 (threads-max, pid_max)
            ok       open files         unlimited
            ok       user               root
            ok       software events    of this process, kernel included
            ok       whole-host events  of every process on a CPU
            ok       tracefs            readable at /sys/kernel/tracing
            ok       BPF                a tracing program loads
            ok       this binary        built with BPF
            ok       BTF                /sys/kernel/btf/vmlinux
            ok       directory          /dev/shm is writable
            ok       leftovers          none

            What would disturb a measurement
            level    check               found
            warn     steal               3.2 % of all CPUs over 1.0 s, 0.0 % of busy time since boot
                                         Time that the hypervisor takes is missing from some tasks and not from
                                         others.
                                         -> use a dedicated host, or more and shorter runs
            warn     other processes     1.25 CPUs busy over 1.0 s: cc1plus (pid 4711) 99 %
                                         A pinned task waits for whoever else runs on its CPU.
                                         -> stop them, or measure on CPUs they do not use
            missing  governor            no frequency driver, or the hypervisor decides
                                         A governor that follows the load runs the first operations at a low
                                         frequency.
            missing  turbo               no frequency driver, or the hypervisor decides
                                         One busy CPU runs faster than many, which looks like bad scaling.
            missing  heat                no thermal counters here
                                         A core that is too hot slows down, and a longer run is hotter.
            note     virtual machine     virtualised by KVM
                                         Interrupts, page tables and spin locks work differently; others share
                                         the caches.
                                         -> do not compare with bare metal; watch steal
            note     huge pages          always
                                         Whether memory comes in huge pages depends on its fragmentation, so on
                                         history.
                                         -> echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled
            note     mitigations         vulnerable: retbleed
                                         They make each system call and interrupt cost more; compare like with
                                         like.
                                         -> keep mitigations= of the kernel command line the same
            ok       load                0.10 0.20 0.30 over 1, 5 and 15 minutes
            ok       another run         none
            ok       waiting file locks  none
            ok       SMT                 one thread per core
            ok       clock source        tsc
            ok       NUMA balancing      off
            ok       ASLR                on: fresh processes average it out
            ok       NMI watchdog        off
            ok       swap                none in use
            ok       isolated CPUs       none
            ok       irqbalance          not running

            What to try next here
            command                                what it shows
            knee run first-look                    how this host scales, in two minutes
            knee explain posix_lock_shared --grow  where the time of an operation goes, and what grows
        "#]].assert_eq(&page);
    }
}
