//! Facts about the host for the record: its identity, and the settings that are known to
//! affect performance. All are read from files, so that tests can use a recorded tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use records::HostFacts;

use crate::spinlocks::spinlocks;
use crate::tree::{chosen, value};

/// Settings that are one file each: the name in records, and the file.
const KNOBS: &[(&str, &str)] = &[
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpuidle.driver", "sys/devices/system/cpu/cpuidle/current_driver"),
    ("cpuidle.governor", "sys/devices/system/cpu/cpuidle/current_governor"),
    ("cpus.isolated", "sys/devices/system/cpu/isolated"),
    ("cpus.nohz_full", "sys/devices/system/cpu/nohz_full"),
    ("cpus.online", "sys/devices/system/cpu/online"),
    ("dirty.background_bytes", "proc/sys/vm/dirty_background_bytes"),
    ("dirty.background_ratio", "proc/sys/vm/dirty_background_ratio"),
    ("dirty.bytes", "proc/sys/vm/dirty_bytes"),
    ("dirty.expire_centisecs", "proc/sys/vm/dirty_expire_centisecs"),
    ("dirty.ratio", "proc/sys/vm/dirty_ratio"),
    ("dirty.writeback_centisecs", "proc/sys/vm/dirty_writeback_centisecs"),
    ("frequency.boost", "sys/devices/system/cpu/cpufreq/boost"),
    ("frequency.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("frequency.pstate_status", "sys/devices/system/cpu/intel_pstate/status"),
    ("kptr_restrict", "proc/sys/kernel/kptr_restrict"),
    ("lockdown", "sys/kernel/security/lockdown"),
    ("nmi_watchdog", "proc/sys/kernel/nmi_watchdog"),
    ("numa_balancing", "proc/sys/kernel/numa_balancing"),
    ("overcommit_memory", "proc/sys/vm/overcommit_memory"),
    ("perf_event_paranoid", "proc/sys/kernel/perf_event_paranoid"),
    ("randomize_va_space", "proc/sys/kernel/randomize_va_space"),
    ("sched.autogroup_enabled", "proc/sys/kernel/sched_autogroup_enabled"),
    ("sched.base_slice_ns", "sys/kernel/debug/sched/base_slice_ns"),
    ("sched.cfs_bandwidth_slice_us", "proc/sys/kernel/sched_cfs_bandwidth_slice_us"),
    ("sched.features", "sys/kernel/debug/sched/features"),
    ("sched.migration_cost_ns", "sys/kernel/debug/sched/migration_cost_ns"),
    ("smt.active", "sys/devices/system/cpu/smt/active"),
    ("smt.control", "sys/devices/system/cpu/smt/control"),
    ("split_lock_mitigate", "proc/sys/kernel/split_lock_mitigate"),
    ("swappiness", "proc/sys/vm/swappiness"),
    ("tainted", "proc/sys/kernel/tainted"),
    ("thp.defrag", "sys/kernel/mm/transparent_hugepage/defrag"),
    ("thp.enabled", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("thp.shmem_enabled", "sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    ("timer_migration", "proc/sys/kernel/timer_migration"),
    ("unprivileged_bpf_disabled", "proc/sys/kernel/unprivileged_bpf_disabled"),
    ("watchdog", "proc/sys/kernel/watchdog"),
    ("zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode"),
];

/// Settings of each frequency policy.
const FREQUENCY_KNOBS: &[(&str, &str)] = &[
    ("frequency.driver", "scaling_driver"),
    ("frequency.energy_preference", "energy_performance_preference"),
    ("frequency.governor", "scaling_governor"),
    ("frequency.max_khz", "scaling_max_freq"),
    ("frequency.min_khz", "scaling_min_freq"),
];

/// The host that the files below `root` describe, which is `/` except in tests.
pub fn host(root: &Path) -> HostFacts {
    let processor = value(root, "proc/cpuinfo").unwrap_or_default();
    HostFacts {
        hostname: value(root, "proc/sys/kernel/hostname"),
        kernel_release: value(root, "proc/sys/kernel/osrelease"),
        kernel_version: value(root, "proc/version"),
        architecture: value(root, "proc/sys/kernel/arch")
            .or_else(|| Some(std::env::consts::ARCH.to_owned())),
        kernel_command_line: value(root, "proc/cmdline"),
        cpu_model: cpu_model(&processor),
        microcode: field(&processor, "microcode").map(str::to_owned),
        memory_bytes: memory_bytes(root),
        boot_id: value(root, "proc/sys/kernel/random/boot_id"),
        hypervisor: hypervisor(root, &processor),
        knobs: knobs(root),
    }
}

/// The first value of a field of /proc/cpuinfo.
fn field<'a>(processor: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = processor.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim())
}

/// The CPU model. x86 and others give a name, arm64 two numbers; POWER calls it `cpu`.
fn cpu_model(processor: &str) -> Option<String> {
    let arm = || {
        let implementer = field(processor, "CPU implementer")?;
        let part = field(processor, "CPU part")?;
        Some(format!("implementer {implementer} part {part}"))
    };
    let named = field(processor, "model name").or_else(|| field(processor, "cpu"));
    named.map(str::to_owned).or_else(arm)
}

fn memory_bytes(root: &Path) -> Option<u64> {
    let memory = value(root, "proc/meminfo")?;
    let kib: u64 = field(&memory, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The hypervisor of this host, if it is a virtual machine. x86 CPUs have a flag for that;
/// the name is a guess from what the hypervisor offers.
fn hypervisor(root: &Path, processor: &str) -> Option<String> {
    let named = value(root, "sys/hypervisor/type")
        .or_else(|| value(root, "proc/device-tree/hypervisor/compatible"))
        .or_else(|| by_clocksource(root));
    let flagged =
        field(processor, "flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor"));
    let vendor = value(root, "sys/class/dmi/id/sys_vendor");
    match vendor {
        _ if named.is_some() => named,
        Some(vendor) if flagged || vendor == "QEMU" => Some(vendor),
        None if flagged => Some("unnamed".to_owned()),
        _ => None,
    }
}

fn by_clocksource(root: &Path) -> Option<String> {
    let available =
        value(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    let hypervisors = [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen")];
    let offered = hypervisors.iter().find(|(source, _)| available.contains(source));
    offered.map(|(_, name)| (*name).to_owned())
}

fn knobs(root: &Path) -> BTreeMap<String, String> {
    let mut knobs = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        value.map(|value| knobs.insert(name.to_owned(), value));
    };
    for (name, path) in KNOBS {
        add(name, value(root, path).map(chosen));
    }
    for (name, file) in FREQUENCY_KNOBS {
        add(name, frequency_knob(root, file));
    }
    for (name, state) in vulnerabilities(root) {
        add(&format!("mitigation.{name}"), Some(state));
    }
    add("preemption", preemption(root));
    add("irqbalance", irqbalance(root));
    add("spinlocks", spinlocks(root));
    knobs
}

/// The values of a setting in all frequency policies, each once.
fn frequency_knob(root: &Path, file: &str) -> Option<String> {
    let directory = "sys/devices/system/cpu/cpufreq";
    let policies = names(root, directory).into_iter().filter(|name| name.starts_with("policy"));
    let values: BTreeSet<_> =
        policies.filter_map(|name| value(root, &format!("{directory}/{name}/{file}"))).collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
}

fn vulnerabilities(root: &Path) -> Vec<(String, String)> {
    let directory = "sys/devices/system/cpu/vulnerabilities";
    let state = |name: String| value(root, &format!("{directory}/{name}")).map(|s| (name, s));
    names(root, directory).into_iter().filter_map(state).collect()
}

/// The preemption model in force, if debugfs shows it; otherwise the model that the kernel
/// was built for, and the one that the command line requests.
fn preemption(root: &Path) -> Option<String> {
    if let Some(modes) = value(root, "sys/kernel/debug/sched/preempt") {
        // The model in force is in parentheses: none voluntary (full).
        let choice = modes.split(['(', ')']).nth(1);
        return Some(choice.unwrap_or(&modes).to_owned());
    }
    let version = value(root, "proc/version")?;
    let built = version.split(' ').find(|word| word.starts_with("PREEMPT"));
    let command_line = value(root, "proc/cmdline").unwrap_or_default();
    let requested = command_line.split(' ').find(|word| word.starts_with("preempt="));
    Some([built, requested].into_iter().flatten().collect::<Vec<_>>().join(" "))
        .filter(|text| !text.is_empty())
}

/// Whether irqbalance runs. Known only where all processes are visible, not inside a
/// container.
fn irqbalance(root: &Path) -> Option<String> {
    (value(root, "proc/2/comm")? == "kthreadd").then_some(())?;
    let is_number = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut processes = names(root, "proc").into_iter().filter(is_number);
    let running = processes
        .any(|id| value(root, &format!("proc/{id}/comm")).as_deref() == Some("irqbalance"));
    Some(if running { "running" } else { "not running" }.to_owned())
}

/// The sorted names in a directory; empty if it cannot be read.
fn names(root: &Path, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::tree;

    fn check(files: &[(&str, &str)], expected: Expect) {
        let mut host = host(tree::fake(files).path());
        if !files.iter().any(|(path, _)| path.ends_with("arch")) {
            host.architecture = None;
        }
        expected.assert_debug_eq(&host);
    }

    #[test]
    fn a_host_is_what_its_files_say() {
        check(
            &[
                ("proc/sys/kernel/hostname", "vm\n"),
                ("proc/sys/kernel/osrelease", "6.18.44\n"),
                ("proc/sys/kernel/arch", "x86_64\n"),
                ("proc/sys/kernel/random/boot_id", "0d7d2b1e-0000\n"),
                ("proc/version", "Linux version 6.18.44 (gcc) #1 SMP PREEMPT_DYNAMIC @0\n"),
                ("proc/cmdline", "quiet preempt=full\n"),
                (
                    "proc/cpuinfo",
                    "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nmicrocode\t: 0x1000065\n\
                     flags\t\t: fpu hypervisor lm\n\nprocessor\t: 1\nmodel name\t: other\n",
                ),
                ("proc/meminfo", "MemTotal:       24684092 kB\nMemFree: 1 kB\n"),
                ("proc/2/comm", "kthreadd\n"),
                ("proc/77/comm", "irqbalance\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("sys/devices/system/cpu/isolated", "\n"),
                ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
                (
                    "sys/devices/system/clocksource/clocksource0/available_clocksource",
                    "tsc kvm-clock \n",
                ),
            ],
            expect![[r#"
                HostFacts {
                    hostname: Some(
                        "vm",
                    ),
                    kernel_release: Some(
                        "6.18.44",
                    ),
                    kernel_version: Some(
                        "Linux version 6.18.44 (gcc) #1 SMP PREEMPT_DYNAMIC @0",
                    ),
                    architecture: Some(
                        "x86_64",
                    ),
                    kernel_command_line: Some(
                        "quiet preempt=full",
                    ),
                    cpu_model: Some(
                        "AMD EPYC",
                    ),
                    microcode: Some(
                        "0x1000065",
                    ),
                    memory_bytes: Some(
                        25276510208,
                    ),
                    boot_id: Some(
                        "0d7d2b1e-0000",
                    ),
                    hypervisor: Some(
                        "KVM",
                    ),
                    knobs: {
                        "frequency.governor": "performance, powersave",
                        "irqbalance": "running",
                        "mitigation.meltdown": "Not affected",
                        "preemption": "PREEMPT_DYNAMIC preempt=full",
                        "thp.enabled": "madvise",
                    },
                }
            "#]],
        );
    }

    #[test]
    fn an_arm_host_in_a_container_says_less() {
        check(
            &[
                ("proc/version", "Linux version 6.1 #1 SMP\n"),
                ("proc/1/comm", "sh\n"),
                ("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"),
                ("proc/meminfo", "MemTotal: many kB\n"),
                ("sys/kernel/debug/sched/preempt", "none (voluntary) full\n"),
            ],
            expect![[r#"
                HostFacts {
                    hostname: None,
                    kernel_release: None,
                    kernel_version: Some(
                        "Linux version 6.1 #1 SMP",
                    ),
                    architecture: None,
                    kernel_command_line: None,
                    cpu_model: Some(
                        "implementer 0x41 part 0xd0c",
                    ),
                    microcode: None,
                    memory_bytes: None,
                    boot_id: None,
                    hypervisor: None,
                    knobs: {
                        "preemption": "voluntary",
                    },
                }
            "#]],
        );
    }

    #[test]
    fn this_host_has_a_kernel() {
        assert!(host(Path::new("/")).kernel_release.is_some());
    }
}
