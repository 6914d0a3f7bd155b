//! What would disturb a measurement: others on this host, settings that move while
//! it runs, and settings that make it another host than the reader thinks.

use host::counted;

use super::facts::Facts;
use super::{Check, Verdict};

pub const CHECKS: &[Check] = &[
    Check {
        name: "steal",
        matters: "Time that the hypervisor takes is missing from some tasks and not from others.",
        judge: steal,
    },
    Check {
        name: "other processes",
        matters: "A pinned task waits for whoever else runs on its CPU.",
        judge: other_processes,
    },
    Check {
        name: "load",
        matters: "The load averages tasks that come and go, which a sample of one second misses.",
        judge: load,
    },
    Check {
        name: "another run",
        matters: "Two measurements at once measure each other.",
        judge: another_run,
    },
    Check {
        name: "waiting file locks",
        matters: "Waiters of all files hang in one table of the kernel, which lock workloads use.",
        judge: waiting_file_locks,
    },
    Check {
        name: "governor",
        matters: "A governor that follows the load runs the first operations at a low frequency.",
        judge: governor,
    },
    Check {
        name: "turbo",
        matters: "One busy CPU runs faster than many, which looks like bad scaling.",
        judge: turbo,
    },
    Check {
        name: "SMT",
        matters: "Two tasks on one core get less than two cores' worth of work done.",
        judge: smt,
    },
    Check {
        name: "virtual machine",
        matters: "Interrupts, page tables and spin locks work differently; others share the caches.",
        judge: virtual_machine,
    },
    Check {
        name: "clock source",
        matters: "Other clocks cost a system call or a device access each time they are read.",
        judge: clock_source,
    },
    Check {
        name: "huge pages",
        matters: "Whether memory comes in huge pages depends on its fragmentation, so on history.",
        judge: huge_pages,
    },
    Check {
        name: "NUMA balancing",
        matters: "It unmaps pages to see who uses them, and moves them and tasks in mid-run.",
        judge: numa_balancing,
    },
    Check {
        name: "ASLR",
        matters: "Each process has another memory layout, and some are faster.",
        judge: aslr,
    },
    Check {
        name: "NMI watchdog",
        matters: "It takes one hardware counter of each CPU and interrupts it now and then.",
        judge: nmi_watchdog,
    },
    Check {
        name: "mitigations",
        matters: "They make each system call and interrupt cost more; compare like with like.",
        judge: mitigations,
    },
    Check {
        name: "swap",
        matters: "Memory that is swapped out comes back at a time of its own choice.",
        judge: swap,
    },
    Check {
        name: "heat",
        matters: "A core that is too hot slows down, and a longer run is hotter.",
        judge: heat,
    },
    Check {
        name: "isolated CPUs",
        matters: "On isolated CPUs only pinned tasks run: they are quieter than the others.",
        judge: isolated_cpus,
    },
    Check {
        name: "irqbalance",
        matters: "It moves interrupts of devices from CPU to CPU during a run.",
        judge: irqbalance,
    },
];

const NOT_SAID: &str = "this host does not say";

fn steal(facts: &Facts) -> Option<Verdict> {
    let activity = &facts.activity;
    let (Some(now), Some(since_boot)) = (activity.steal_percent, activity.steal_since_boot_percent)
    else {
        return Some(Verdict::missing(NOT_SAID));
    };
    // A host that is idle now loses nothing now; what it lost when busy tells more.
    let found = format!(
        "{now:.1} % of all CPUs over {:.1} s, {since_boot:.1} % of busy time since boot",
        activity.window_s
    );
    Some(match now.max(since_boot) {
        1.0.. => Verdict::warn(found).advice("use a dedicated host, or more and shorter runs"),
        0.1.. => Verdict::note(found),
        _ => Verdict::ok(found),
    })
}

fn other_processes(facts: &Facts) -> Option<Verdict> {
    let activity = &facts.activity;
    let Some(cpus) = activity.others_cpus else {
        return Some(Verdict::missing(NOT_SAID));
    };
    let name = |busy: &probes::BusyProcess| {
        format!("{} (pid {}) {:.0} %", busy.name, busy.process_id, busy.percent)
    };
    let names: Vec<_> = activity.busiest.iter().map(name).collect();
    let named = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    let found = format!("{cpus:.2} CPUs busy over {:.1} s{named}", activity.window_s);
    Some(match cpus {
        0.5.. => Verdict::warn(found).advice("stop them, or measure on CPUs they do not use"),
        0.05.. => Verdict::note(found),
        _ => Verdict::ok(found),
    })
}

fn load(facts: &Facts) -> Option<Verdict> {
    let Some([one, five, fifteen]) = facts.activity.load else {
        return Some(Verdict::missing(NOT_SAID));
    };
    let found = format!("{one:.2} {five:.2} {fifteen:.2} over 1, 5 and 15 minutes");
    Some(match one {
        _ if one >= facts.cpus() as f64 / 2.0 => {
            Verdict::warn(found).advice("wait until the host is idle: uptime")
        }
        0.5.. => Verdict::note(found),
        _ => Verdict::ok(found),
    })
}

fn another_run(facts: &Facts) -> Option<Verdict> {
    let others = &facts.activity.namesakes;
    if others.is_empty() {
        return Some(Verdict::ok("none"));
    }
    let own_user = facts.permissions.user_id;
    let of_user = |user: Option<u32>| match user {
        Some(user) if user == own_user => "yours".to_string(),
        Some(user) => format!("of user {user}"),
        None => "of an unknown user".to_string(),
    };
    let names: Vec<String> = others
        .iter()
        .map(|other| format!("{} ({})", other.process_id, of_user(other.user)))
        .collect();
    let own: Vec<String> = others
        .iter()
        .filter(|other| other.user == Some(own_user))
        .map(|other| other.process_id.to_string())
        .collect();
    let advice = match own.len() {
        0 => "wait for them, or ask their users".to_string(),
        n if n == others.len() => format!("wait for them, or end them: kill {}", own.join(" ")),
        _ => format!("wait for them, or end yours: kill {}", own.join(" ")),
    };
    Some(Verdict::warn(format!("processes of the same name: {}", names.join(", "))).advice(advice))
}

fn waiting_file_locks(facts: &Facts) -> Option<Verdict> {
    Some(match facts.activity.waiting_for_file_locks {
        None => Verdict::missing(NOT_SAID),
        Some(0) => Verdict::ok("none"),
        Some(n) => Verdict::warn(format!("{} waiting", counted(n, "task")))
            .advice("see who: lslocks -o COMMAND,PID,BLOCKER,PATH"),
    })
}

fn governor(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("frequency.governor") {
        None => Verdict::missing("no frequency driver, or the hypervisor decides"),
        Some("performance") => Verdict::ok("performance"),
        Some(governor) => {
            Verdict::warn(governor).advice("sudo cpupower frequency-set -g performance")
        }
    })
}

fn turbo(facts: &Facts) -> Option<Verdict> {
    let (boost, no_turbo) = (facts.knob("frequency.boost"), facts.knob("frequency.no_turbo"));
    Some(match (boost, no_turbo) {
        (_, Some("0")) => Verdict::warn("on")
            .advice("echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"),
        (Some("1"), None) => {
            Verdict::warn("on").advice("echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost")
        }
        (None, None) => Verdict::missing("no frequency driver, or the hypervisor decides"),
        _ => Verdict::ok("off"),
    })
}

fn smt(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("smt.active") {
        None => Verdict::missing(NOT_SAID),
        Some("0") => Verdict::ok("one thread per core"),
        Some(_) => Verdict::note("several threads a core")
            .advice("placement 'cores' uses second threads last; a note in the curve marks them"),
    })
}

fn virtual_machine(facts: &Facts) -> Option<Verdict> {
    Some(match &facts.host.hypervisor {
        None => Verdict::ok("no sign of one"),
        Some(name) => Verdict::note(format!("virtualised by {name}"))
            .advice("do not compare with bare metal; watch steal"),
    })
}

fn clock_source(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("clocksource") {
        None => Verdict::missing(NOT_SAID),
        // Each is read in user space: x86, arm64, POWER, s390, RISC-V.
        Some(name @ ("tsc" | "arch_sys_counter" | "timebase" | "tod" | "riscv_clocksource")) => {
            Verdict::ok(name)
        }
        // These too, with a page that the hypervisor keeps up to date.
        Some(name @ ("kvm-clock" | "hyperv_clocksource_tsc_page")) => Verdict::note(name),
        Some(name) => Verdict::warn(name).advice(
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
    })
}

fn huge_pages(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("thp.enabled") {
        None => Verdict::ok("not in this kernel"),
        Some("always") => Verdict::note("always")
            .advice("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(enabled) => Verdict::ok(enabled),
    })
}

fn numa_balancing(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("numa_balancing") {
        None => Verdict::ok("not in this kernel"),
        Some("0") => Verdict::ok("off"),
        Some(_) => Verdict::warn("on").advice("sudo sysctl kernel.numa_balancing=0"),
    })
}

fn aslr(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("randomize_va_space") {
        None => Verdict::missing(NOT_SAID),
        Some("0") => Verdict::note("off: every run has the same layout, lucky or not")
            .advice("sudo sysctl kernel.randomize_va_space=2"),
        Some(_) => Verdict::ok("on: fresh processes average it out"),
    })
}

fn nmi_watchdog(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("nmi_watchdog") {
        None => Verdict::ok("not in this kernel"),
        Some("0") => Verdict::ok("off"),
        Some(_) => Verdict::note("on").advice("sudo sysctl kernel.nmi_watchdog=0"),
    })
}

fn mitigations(facts: &Facts) -> Option<Verdict> {
    let knobs = facts.host.knobs.iter();
    let mut known =
        knobs.filter_map(|(name, state)| Some((name.strip_prefix("mitigation.")?, state)));
    let (mut active, mut vulnerable) = (Vec::new(), Vec::new());
    known.by_ref().for_each(|(name, state)| match state {
        state if state.starts_with("Not affected") => {}
        state if state.starts_with("Vulnerable") => vulnerable.push(name),
        _ => active.push(name),
    });
    let list = |what: &str, names: &[&str]| {
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let lists: Vec<_> = [list("active:", &active), list("vulnerable:", &vulnerable)]
        .into_iter()
        .flatten()
        .collect();
    Some(if lists.is_empty() {
        Verdict::ok("none needed")
    } else {
        Verdict::note(lists.join("; "))
            .advice("keep mitigations= of the kernel command line the same")
    })
}

fn swap(facts: &Facts) -> Option<Verdict> {
    Some(match facts.activity.swap_used_bytes {
        None => Verdict::missing(NOT_SAID),
        Some(0) => Verdict::ok("none in use"),
        Some(bytes) => Verdict::note(format!("{} MiB in use", bytes.div_ceil(1 << 20)))
            .advice("sudo swapoff -a && sudo swapon -a, with enough memory free"),
    })
}

fn heat(facts: &Facts) -> Option<Verdict> {
    Some(match facts.activity.throttled {
        None => Verdict::missing("no thermal counters here"),
        Some(0) => Verdict::ok("no core has been slowed since boot"),
        Some(n) => Verdict::warn(format!("cores have been slowed {n} times since boot"))
            .advice("improve the cooling, or fix a lower frequency: cpupower frequency-set -u"),
    })
}

fn isolated_cpus(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("cpus.isolated") {
        None => Verdict::ok("none"),
        Some(cpus) => Verdict::note(format!("CPUs {cpus}"))
            .advice("measure on these only, or on none of them: a curve must not cross over"),
    })
}

fn irqbalance(facts: &Facts) -> Option<Verdict> {
    Some(match facts.knob("irqbalance") {
        None => Verdict::missing("only this container's processes are visible"),
        Some("running") => Verdict::note("running").advice("sudo systemctl stop irqbalance"),
        Some(state) => Verdict::ok(state),
    })
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::super::facts::{quiet, troubled};
    use super::*;

    fn judge(change: impl FnOnce(&mut Facts), name: &str, expected: &str) {
        let mut facts = quiet();
        change(&mut facts);
        check(CHECKS, name, &facts, expected);
    }

    fn knob(name: &str, value: &str, check: &str, expected: &str) {
        judge(|f| drop(f.host.knobs.insert(name.into(), value.into())), check, expected);
    }

    #[test]
    fn others_on_the_host_are_named() {
        let facts = troubled();
        check(
            CHECKS,
            "steal",
            &facts,
            "warn: 3.2 % of all CPUs over 1.0 s, 0.0 % of busy time since boot",
        );
        let busy = "warn: 1.25 CPUs busy over 1.0 s: cc1plus (pid 4711) 99 %";
        check(CHECKS, "other processes", &facts, busy);
        let of = |process_id, user| probes::Namesake { process_id, user };
        let same = "warn: processes of the same name: 12 (yours), 13 (of user 1000)";
        judge(
            |f| f.activity.namesakes = vec![of(12, Some(0)), of(13, Some(1000))],
            "another run",
            same,
        );
        judge(
            |f| f.activity.waiting_for_file_locks = Some(2),
            "waiting file locks",
            "warn: 2 tasks waiting",
        );
        let load = "warn: 2.50 0.00 0.00 over 1, 5 and 15 minutes";
        judge(|f| f.activity.load = Some([2.5, 0.0, 0.0]), "load", load);
    }

    #[test]
    fn a_quiet_host_disturbs_nothing() {
        for check in CHECKS {
            let verdict = (check.judge)(&quiet()).unwrap();
            assert_eq!(verdict.level, super::super::Level::Ok, "{}", check.name);
        }
    }

    #[test]
    fn frequencies_that_move_are_a_warning_and_hidden_ones_are_missing() {
        knob("frequency.governor", "schedutil", "governor", "warn: schedutil");
        knob("frequency.no_turbo", "0", "turbo", "warn: on");
        knob("frequency.boost", "1", "turbo", "warn: on");
        knob("frequency.no_turbo", "1", "turbo", "ok: off");
        let hidden = "missing: no frequency driver, or the hypervisor decides";
        check(CHECKS, "turbo", &troubled(), hidden);
        check(CHECKS, "governor", &troubled(), hidden);
    }

    #[test]
    fn settings_that_make_another_host_are_told() {
        knob("clocksource", "hpet", "clock source", "warn: hpet");
        knob("clocksource", "kvm-clock", "clock source", "note: kvm-clock");
        knob("cpus.isolated", "2-3", "isolated CPUs", "note: CPUs 2-3");
        knob("irqbalance", "running", "irqbalance", "note: running");
        knob("mitigation.l1tf", "Not affected", "mitigations", "ok: none needed");
        knob("mitigation.mds", "Mitigation: x", "mitigations", "note: active: mds");
        knob("nmi_watchdog", "1", "NMI watchdog", "note: on");
        knob("numa_balancing", "1", "NUMA balancing", "warn: on");
        knob("smt.active", "1", "SMT", "note: several threads a core");
        judge(
            |f| f.activity.throttled = Some(7),
            "heat",
            "warn: cores have been slowed 7 times since boot",
        );
        judge(|f| f.activity.swap_used_bytes = Some(1), "swap", "note: 1 MiB in use");
    }
}
