//! How the CPUs of the host are used, by /proc/stat and the processes' own files: in ticks, which is exact enough for
//! windows of a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use records::live::{CpuUse, OtherTask};

use crate::counters::ticks_per_second;

/// Reading processes takes time: a host with more is read only now and then.
const PROCESSES_MAX: usize = 400;

/// What the CPUs were used for, since the last window.
pub struct HostUse {
    last: Usage,
    ns_per_tick: u64,
}

#[derive(Default)]
struct Usage {
    cpus: CpuTicks,
    /// By process: its name and its ticks.
    processes: BTreeMap<u32, (String, u64)>,
}

/// Ticks of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTicks {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl HostUse {
    pub fn new() -> HostUse {
        HostUse { last: Usage::default(), ns_per_tick: ns_per_tick() }
    }

    /// Begins the first window.
    pub fn start(&mut self) {
        self.last = Usage::now();
    }

    /// The use of the CPUs since the last window, in which the subject, these processes, used so much.
    pub fn window(&mut self, subject: &BTreeSet<u32>, subject_ns: u64) -> CpuUse {
        let now = Usage::now();
        let cpu_use = now.since(&self.last, subject, subject_ns, self.ns_per_tick);
        self.last = now;
        cpu_use
    }
}

impl Usage {
    fn now() -> Usage {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cpus = cpu_ticks(&stat).unwrap_or_default();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let process = |number: u32| {
            let stat = fs::read(format!("/proc/{number}/stat")).ok()?;
            Some((number, process(&String::from_utf8_lossy(&stat))?))
        };
        let processes = numbers.take(PROCESSES_MAX).filter_map(process).collect();
        Usage { cpus, processes }
    }

    fn since(
        &self,
        before: &Usage,
        subject: &BTreeSet<u32>,
        subject_ns: u64,
        ns_per_tick: u64,
    ) -> CpuUse {
        let ns = |now: u64, then: u64| now.saturating_sub(then) * ns_per_tick;
        let all_ns = ns(self.cpus.all, before.cpus.all);
        let idle_ns = ns(self.cpus.idle, before.cpus.idle);
        let mut others: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, (name, ticks)) in &self.processes {
            let then = before.processes.get(number).map_or(*ticks, |(_, ticks)| *ticks);
            if !subject.contains(number) && *ticks > then {
                *others.entry(name).or_default() += ns(*ticks, then);
            }
        }
        let others = others.into_iter().map(|(name, ns)| OtherTask { name: name.to_string(), ns });
        let mut others: Vec<OtherTask> = others.collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.ns));
        CpuUse {
            subject_ns,
            idle_ns,
            others_ns: all_ns.saturating_sub(idle_ns + subject_ns),
            stolen_ns: ns(self.cpus.stolen, before.cpus.stolen),
            others,
        }
    }
}

/// The first line of /proc/stat, for all CPUs: `cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`. Guests are
/// contained in user and nice.
fn cpu_ticks(stat: &str) -> Option<CpuTicks> {
    const COUNTED: usize = 8;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks = line.split_whitespace().map_while(|word| word.parse().ok()).take(COUNTED);
    let ticks: Vec<u64> = ticks.collect();
    let [_, _, _, idle, waiting, _, _, stolen] = ticks[..] else { return None };
    Some(CpuTicks { all: ticks.iter().sum(), idle: idle + waiting, stolen })
}

/// The name and the ticks of /proc/PID/stat, fields 2, 14 and 15. The name may contain anything.
fn process(stat: &str) -> Option<(String, u64)> {
    let (before, rest) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_string();
    let mut fields = rest.split(' ').skip(14 - 3).map(|field| field.parse::<u64>().ok());
    Some((name, fields.next()?? + fields.next()??))
}

/// What the hypervisor took from all CPUs since the host was booted.
#[cfg(feature = "bpf")]
pub fn stolen_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    cpu_ticks(&stat).map_or(0, |ticks| ticks.stolen) * ns_per_tick()
}

fn ns_per_tick() -> u64 {
    1_000_000_000 / (ticks_per_second() as u64).max(1)
}

/// CPU time of this process.
pub fn own_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is live and written by the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_the_subject_nor_idle_cpus_took_is_that_of_others() {
        let usage = |all, idle, own, hog| Usage {
            cpus: CpuTicks { all, idle, stolen: 0 },
            processes: [(1, ("subject".to_string(), own)), (2, ("hog".to_string(), hog))].into(),
        };
        let (before, after) = (usage(100, 10, 5, 7), usage(300, 40, 95, 80));
        let cpu_use = after.since(&before, &BTreeSet::from([1]), 905, 10);
        assert_eq!((cpu_use.idle_ns, cpu_use.others_ns), (300, 2000 - 300 - 905));
        assert_eq!(cpu_use.others, [OtherTask { name: "hog".to_string(), ns: 730 }]);
    }

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        let stat = "cpu  1 2 3 40 5 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(cpu_ticks(stat), Some(CpuTicks { all: 72, idle: 45, stolen: 8 }));
        assert_eq!(cpu_ticks("cpu  1 2\n"), None);
        let line = "42 (a) (b c) S 1 42 42 0 -1 4 5 6 7 8 30 12 0 0 20 0 1 0 777 1 2 3";
        assert_eq!(process(line), Some(("a) (b c".to_string(), 42)));
        assert_eq!(process("42 (a) S 1"), None);
    }
}
