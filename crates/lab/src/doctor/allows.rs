//! What this host allows: CPUs, tasks, files, observing the kernel, the directory.

use host::counted;

use super::facts::{DoctorDirectory, Facts};
use super::{Check, Verdict};

pub const CHECKS: &[Check] = &[
    Check {
        name: "CPUs",
        matters: "A curve ends at the CPUs that tasks may be pinned to.",
        judge: cpus,
    },
    Check {
        name: "CPU quota",
        matters: "Tasks beyond the quota are stopped for the rest of each period, which looks like \
                  a lock that nobody holds.",
        judge: cpu_quota,
    },
    Check {
        name: "tasks",
        matters: "A sweep starts up to 4096 processes or threads.",
        judge: tasks,
    },
    Check {
        name: "open files",
        matters: "Tasks that are threads share one table of open files.",
        judge: open_files,
    },
    Check {
        name: "user",
        matters: "Most of what explains a result is for root only.",
        judge: user,
    },
    Check {
        name: "software events",
        matters: "Samples of where CPU time goes, in the kernel as well.",
        judge: software_events,
    },
    Check {
        name: "hardware counters",
        matters: "Cycles, cache misses, and samples from inside sections that disable interrupts.",
        judge: hardware_counters,
    },
    Check {
        name: "whole-host events",
        matters: "Who else ran on a measured CPU, and what interrupted it.",
        judge: system_events,
    },
    Check {
        name: "tracefs",
        matters: "The formats of tracepoints, and the list of those that exist.",
        judge: tracefs,
    },
    Check {
        name: "BPF",
        matters: "Exact counts and times of switches, lock waits, interrupts. Without it, \
                  `knee explain --pid` looks at processes of its own user in /proc.",
        judge: bpf,
    },
    Check {
        name: "this binary",
        matters: "Without BPF, `knee explain` has only the ledger from /proc: no kernel events and \
                  no lock waits.",
        judge: this_binary,
    },
    Check {
        name: "BTF",
        matters: "One BPF program for every kernel needs the kernel's own types.",
        judge: btf,
    },
    Check {
        name: "kprobes",
        matters: "Counts of any kernel function; without them, of tracepoints only.",
        judge: kprobes,
    },
    Check {
        name: "directory",
        matters: "Workloads on files make their files there.",
        judge: directory,
    },
    Check {
        name: "file system",
        matters: "Results on files are results of this file system and its mount options.",
        judge: file_system,
    },
    Check {
        name: "free space",
        matters: "File systems slow down long before they are full.",
        judge: free_space,
    },
    Check {
        name: "leftovers",
        matters: "A killed run leaves its files; they take room and make directories longer.",
        judge: leftovers,
    },
];

/// As many tasks as a sweep may ever start.
const TASKS: u64 = 4096;

fn cpus(facts: &Facts) -> Option<Verdict> {
    let allowed = match &facts.limits.cpus_allowed {
        Ok(allowed) => allowed.len(),
        Err(why) => return Some(Verdict::missing(why)),
    };
    Some(match facts.limits.cpus_online.as_ref().map(Vec::len) {
        Some(online) if allowed < online => {
            Verdict::warn(format!("{allowed} of the {online} online CPUs"))
                .advice("taskset -pc 0-$(($(nproc --all)-1)) $$, or a wider cpuset")
        }
        Some(1) => Verdict::ok("the only online CPU"),
        Some(online) => Verdict::ok(format!("all {online} online CPUs")),
        None => Verdict::ok(format!("{}; how many are online is unknown", counted(allowed, "CPU"))),
    })
}

fn cpu_quota(facts: &Facts) -> Option<Verdict> {
    Some(match &facts.limits.cpu_quota {
        Ok(None) => Verdict::ok("none"),
        Ok(Some(quota)) if *quota >= facts.cpus() as f64 => {
            Verdict::note(format!("{quota} CPUs' worth of time, which covers those allowed"))
        }
        Ok(Some(quota)) => Verdict::warn(format!(
            "{quota} CPUs' worth of time for {}",
            counted(facts.cpus(), "CPU")
        ))
        .advice("run outside the container, or write 'max' to cpu.max of its control group"),
        Err(why) => Verdict::missing(format!("not known: {why}")),
    })
}

fn tasks(facts: &Facts) -> Option<Verdict> {
    let limits = &facts.limits;
    // RLIMIT_NPROC does not bind root.
    let of_user = limits.tasks_of_user.soft.filter(|_| facts.permissions.user_id != 0);
    let of_group = limits.tasks_of_group.as_ref().ok().copied().flatten();
    let bounds = [
        (of_user, "RLIMIT_NPROC", "ulimit -u unlimited"),
        (of_group, "pids.max", "write 'max' to pids.max of the control group"),
        (limits.tasks_of_host, "threads-max, pid_max", "sysctl kernel.pid_max=4194304"),
    ];
    let tightest =
        bounds.into_iter().filter_map(|(n, name, advice)| Some((n?, name, advice))).min();
    Some(match tightest {
        None => Verdict::ok("no limit is known"),
        Some((n, name, _)) if n >= TASKS => Verdict::ok(format!("{n} ({name})")),
        Some((n, name, advice)) => Verdict::warn(format!("{n} ({name})")).advice(advice),
    })
}

/// Some workloads open two files a task, and the worker has some for itself.
const OPEN_FILES: u64 = 2 * TASKS + 64;

fn open_files(facts: &Facts) -> Option<Verdict> {
    Some(match facts.limits.open_files.hard {
        None => Verdict::ok("unlimited"),
        Some(hard) if hard >= OPEN_FILES => Verdict::ok(format!("up to {hard}")),
        Some(hard) => Verdict::note(format!("up to {hard}"))
            .advice(format!("ulimit -Hn {OPEN_FILES}, or run tasks as processes")),
    })
}

fn user(facts: &Facts) -> Option<Verdict> {
    Some(match facts.permissions.user_id {
        0 => Verdict::ok("root"),
        id => Verdict::note(format!("user {id}, not root")).advice("sudo knee doctor, to compare"),
    })
}

/// What a trial says.
fn trial(tried: &Result<(), String>, works: &str, advice: &str) -> Verdict {
    match tried {
        Ok(()) => Verdict::ok(works),
        Err(why) => Verdict::missing(why).advice(advice),
    }
}

const PARANOID: &str = "sudo sysctl kernel.perf_event_paranoid=-1, or run as root";

fn software_events(facts: &Facts) -> Option<Verdict> {
    Some(trial(&facts.permissions.perf_software, "of this process, kernel included", PARANOID))
}

fn hardware_counters(facts: &Facts) -> Option<Verdict> {
    let advice = match facts.host.hypervisor {
        Some(_) => "give the virtual machine a PMU (QEMU: -cpu host,pmu=on), or use bare metal",
        None => PARANOID,
    };
    Some(trial(&facts.permissions.perf_hardware, "cycles can be counted", advice))
}

fn system_events(facts: &Facts) -> Option<Verdict> {
    Some(trial(&facts.permissions.perf_system, "of every process on a CPU", PARANOID))
}

fn tracefs(facts: &Facts) -> Option<Verdict> {
    Some(match &facts.permissions.tracefs {
        Ok(mount_point) => Verdict::ok(format!("readable at {}", mount_point.display())),
        Err(why) => {
            Verdict::missing(why).advice("as root: mount -t tracefs tracefs /sys/kernel/tracing")
        }
    })
}

fn bpf(facts: &Facts) -> Option<Verdict> {
    let advice = "run as root, outside the container; CAP_BPF and CAP_PERFMON would do";
    Some(trial(&facts.permissions.bpf, "a tracing program loads", advice))
}

fn this_binary(facts: &Facts) -> Option<Verdict> {
    Some(if facts.built_with_bpf {
        Verdict::ok("built with BPF")
    } else {
        Verdict::missing("built without BPF").advice("make setup && make build")
    })
}

fn btf(facts: &Facts) -> Option<Verdict> {
    let advice = "boot a kernel with CONFIG_DEBUG_INFO_BTF=y";
    Some(trial(&facts.permissions.btf, "/sys/kernel/btf/vmlinux", advice))
}

fn kprobes(facts: &Facts) -> Option<Verdict> {
    let advice = "boot a kernel with CONFIG_KPROBE_EVENTS=y";
    Some(trial(&facts.permissions.kprobes, "this kernel has them", advice))
}

fn directory(facts: &Facts) -> Option<Verdict> {
    let place = facts.directory.as_ref()?;
    Some(match &place.writable {
        Ok(()) => Verdict::ok(format!("{} is writable", place.facts.path.display())),
        Err(why) => Verdict::warn(why).advice("choose another --dir"),
    })
}

fn file_system(facts: &Facts) -> Option<Verdict> {
    let place = facts.directory.as_ref()?;
    let Some(kind) = &place.facts.file_system else {
        return Some(Verdict::missing("its mount was not found"));
    };
    let found = describe(place, kind);
    Some(match kind.as_str() {
        "tmpfs" | "ramfs" => Verdict::note(format!("{found}: memory, nothing is ever written out"))
            .advice("choose a --dir on the file system that the question is about"),
        "nfs" | "nfs4" | "cifs" | "fuse" | "9p" | "virtiofs" => {
            Verdict::note(format!("{found}: a server or another process does part of the work"))
        }
        "overlay" => Verdict::note(format!("{found}: the directory below it does the work"))
            .advice("choose a --dir on a volume of the container"),
        _ => Verdict::ok(found),
    })
}

/// Type, source, and the device below as far as it tells.
fn describe(place: &DoctorDirectory, kind: &str) -> String {
    let source = place.facts.source.as_ref().filter(|source| *source != kind);
    let source = source.map(|source| format!(" on {source}")).unwrap_or_default();
    let model = place.facts.device.get("model").map(|model| format!(" ({model})"));
    let scheduler =
        place.facts.device.get("scheduler").map(|scheduler| format!(", I/O scheduler {scheduler}"));
    [kind.to_owned(), source, model.unwrap_or_default(), scheduler.unwrap_or_default()].concat()
}

/// Shares of a file system below which its free space is a worry.
const ROOM_PERCENT: u64 = 10;

fn free_space(facts: &Facts) -> Option<Verdict> {
    let place = &facts.directory.as_ref()?.facts;
    let (Some(free), Some(total)) = (place.bytes_free, place.bytes_total) else {
        return Some(Verdict::missing("the file system does not tell"));
    };
    let percent = (free * 100).checked_div(total)?;
    let found = format!("{} MiB of {} MiB ({percent} %)", free >> 20, total >> 20);
    Some(match percent {
        ..ROOM_PERCENT => Verdict::warn(found).advice("make room, or choose another --dir"),
        _ => Verdict::ok(found),
    })
}

fn leftovers(facts: &Facts) -> Option<Verdict> {
    let place = facts.directory.as_ref()?;
    Some(match &place.leftovers[..] {
        [] => Verdict::ok("none"),
        [first, ..] => Verdict::warn(format!("{} directories of runs", place.leftovers.len()))
            .advice(format!("when no run is going on: rm -r {} ...", first.display())),
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

    #[test]
    fn cpus_that_may_not_be_used_are_a_warning() {
        judge(|_| {}, "CPUs", "ok: all 4 online CPUs");
        judge(|f| f.limits.cpus_allowed = Ok(vec![1]), "CPUs", "warn: 1 of the 4 online CPUs");
        judge(|f| f.limits.cpus_allowed = Err("no".into()), "CPUs", "missing: no");
        judge(|_| {}, "CPU quota", "ok: none");
        judge(
            |f| f.limits.cpu_quota = Ok(Some(0.5)),
            "CPU quota",
            "warn: 0.5 CPUs' worth of time for 4 CPUs",
        );
        judge(
            |f| f.limits.cpu_quota = Ok(Some(8.0)),
            "CPU quota",
            "note: 8 CPUs' worth of time, which covers those allowed",
        );
    }

    #[test]
    fn the_tightest_limit_of_tasks_binds() {
        judge(|_| {}, "tasks", "ok: 100000 (threads-max, pid_max)");
        judge(|f| f.limits.tasks_of_group = Ok(Some(500)), "tasks", "warn: 500 (pids.max)");
        let limit = probes::Limit { soft: Some(1000), hard: None };
        judge(
            |f| (f.limits.tasks_of_user, f.permissions.user_id) = (limit, 1000),
            "tasks",
            "warn: 1000 (RLIMIT_NPROC)",
        );
        judge(|f| f.limits.tasks_of_user = limit, "tasks", "ok: 100000 (threads-max, pid_max)");
    }

    #[test]
    fn what_cannot_be_opened_is_missing_with_the_reason() {
        judge(|_| {}, "hardware counters", "ok: cycles can be counted");
        judge(|f| f.permissions.bpf = Err("bpf: EPERM".into()), "BPF", "missing: bpf: EPERM");
        judge(
            |f| f.permissions.tracefs = Err("not mounted".into()),
            "tracefs",
            "missing: not mounted",
        );
    }

    #[test]
    fn a_directory_is_judged_only_when_one_is_given() {
        judge(|_| {}, "file system", "nothing");
        let facts = troubled();
        check(CHECKS, "directory", &facts, "ok: /dev/shm is writable");
        check(CHECKS, "file system", &facts, "note: tmpfs: memory, nothing is ever written out");
        check(CHECKS, "free space", &facts, "warn: 100 MiB of 1024 MiB (9 %)");
        check(CHECKS, "leftovers", &facts, "ok: none");
    }
}
