//! Other activity on this host: which processes use the CPUs while knee does not measure,
//! what the hypervisor steals, and traces of earlier trouble (swap, heat, waiting locks).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::counters::ticks_per_second;
use crate::tree;

/// Activity during a window of time, and counts up to its end. What cannot be read is
/// absent.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// The length of the window.
    pub window_s: f64,
    /// CPU time that the hypervisor gave to others, as a share of all CPUs' time. An idle
    /// host has none to lose: then this is 0 whatever the hypervisor does.
    pub steal_percent: Option<f64>,
    /// CPU time that the hypervisor gave to others since boot, as a share of the time in
    /// which CPUs wanted to run.
    pub steal_since_boot_percent: Option<f64>,
    /// CPU time used by everything but this process, in CPUs: 2.0 is two CPUs' worth.
    pub others_cpus: Option<f64>,
    /// The busiest other processes and kernel threads, busiest first.
    pub busiest: Vec<BusyProcess>,
    /// The load averages over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Bytes of memory swapped out.
    pub swap_used_bytes: Option<u64>,
    /// Thermal throttling events of all cores, since their CPUs came online.
    pub throttled: Option<u64>,
    /// Tasks waiting for a file lock.
    pub waiting_for_file_locks: Option<usize>,
    /// Other processes with the name of this one.
    pub namesakes: Vec<Namesake>,
}

/// Another process with the name of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namesake {
    pub process_id: u32,
    /// Its effective user; unknown if it has just ended.
    pub user: Option<u32>,
}

/// A process, and its CPU time as a share of one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyProcess {
    pub process_id: u32,
    /// As in /proc/PID/comm.
    pub name: String,
    /// 100 is one whole CPU.
    pub percent: f64,
}

/// Watches the host for this time. `root` is `/`, except in tests.
pub fn activity(root: &Path, window: Duration) -> Activity {
    let own_id = std::process::id();
    let (start, before) = (Instant::now(), CpuUsage::now(root));
    sleep(window);
    let window_s = start.elapsed().as_secs_f64();
    let after = CpuUsage::now(root);
    Activity {
        load: load(root),
        swap_used_bytes: swap_used_bytes(root),
        throttled: throttled(root),
        waiting_for_file_locks: waiting_for_file_locks(root),
        namesakes: namesakes(root, &after.processes, own_id)
            .into_iter()
            // The knee that started this one waits for it.
            .filter(|one| one.process_id != std::os::unix::process::parent_id())
            .collect(),
        ..between(&before, &after, own_id, window_s)
    }
}

/// CPU time used up to one instant, in ticks since boot.
#[derive(Debug, Default)]
struct CpuUsage {
    all_cpus: Option<CpuTicks>,
    processes: BTreeMap<ProcessIdentity, ProcessUsage>,
}

/// Process id and start time. An id alone may be reused; together they are unique.
type ProcessIdentity = (u32, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessUsage {
    name: String,
    ticks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTicks {
    busy: u64,
    idle: u64,
    steal: u64,
}

impl CpuUsage {
    fn now(root: &Path) -> CpuUsage {
        let all_cpus = tree::value(root, "proc/stat").and_then(|stat| cpu_ticks(&stat));
        let entries = fs::read_dir(root.join("proc")).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let process = |id| process(&tree::value(root, &format!("proc/{id}/stat"))?);
        CpuUsage { all_cpus, processes: ids.filter_map(process).collect() }
    }
}

fn cpu_ticks(stat: &str) -> Option<CpuTicks> {
    let columns = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns: Vec<u64> = columns.split_whitespace().map_while(|c| c.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = columns[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq;
    Some(CpuTicks { busy, idle: idle + iowait, steal })
}

/// Parses /proc/PID/stat. The name may contain anything, even parentheses: the last one
/// closes it (proc_pid_stat(5)).
fn process(stat: &str) -> Option<(ProcessIdentity, ProcessUsage)> {
    let (id, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    // The first field after the name is number 3 of the manual page.
    let fields: Vec<_> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    Some(((id.parse().ok()?, field(22)?), ProcessUsage { name: name.to_owned(), ticks }))
}

/// How many processes are named.
const BUSIEST: usize = 3;

fn between(before: &CpuUsage, after: &CpuUsage, own_id: u32, window_s: f64) -> Activity {
    let tick_s = 1.0 / ticks_per_second() as f64;
    let used = |(identity, now): (&ProcessIdentity, &ProcessUsage)| {
        let then = before.processes.get(identity).map_or(0, |process| process.ticks);
        let used_s = now.ticks.saturating_sub(then) as f64 * tick_s;
        BusyProcess {
            process_id: identity.0,
            name: now.name.clone(),
            percent: used_s / window_s * 100.0,
        }
    };
    let (own, mut others): (Vec<_>, Vec<_>) =
        after.processes.iter().map(used).partition(|busy| busy.process_id == own_id);
    others.retain(|busy| busy.percent > 0.0);
    others.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    others.truncate(BUSIEST);

    let ticks = before.all_cpus.zip(after.all_cpus);
    let busy_ticks = ticks.map(|(then, now)| now.busy.saturating_sub(then.busy));
    let own_cpus: f64 = own.iter().map(|busy| busy.percent / 100.0).sum();
    // Not the sum over processes: only the total includes short-lived ones.
    let others_cpus =
        busy_ticks.map(|ticks| (ticks as f64 * tick_s / window_s - own_cpus).max(0.0));
    Activity {
        window_s,
        steal_percent: ticks.and_then(|(then, now)| steal_percent(then, now)),
        steal_since_boot_percent: after
            .all_cpus
            .and_then(|ticks| percent(ticks.steal, ticks.busy + ticks.steal)),
        others_cpus,
        busiest: others,
        ..Activity::default()
    }
}

fn steal_percent(then: CpuTicks, now: CpuTicks) -> Option<f64> {
    let total = |ticks: CpuTicks| ticks.busy + ticks.idle + ticks.steal;
    percent(now.steal.saturating_sub(then.steal), total(now).checked_sub(total(then))?)
}

/// `part` as a percentage of `whole`, unless that is 0.
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

fn namesakes(
    root: &Path,
    processes: &BTreeMap<ProcessIdentity, ProcessUsage>,
    own_id: u32,
) -> Vec<Namesake> {
    let own = processes.iter().find(|((id, _), _)| *id == own_id);
    let own_name = own.map(|(_, process)| &process.name);
    let namesake = |(identity, process): (&ProcessIdentity, &ProcessUsage)| {
        let (process_id, _) = *identity;
        let user = || fs::metadata(root.join(format!("proc/{process_id}"))).ok().map(|m| m.uid());
        (process_id != own_id && Some(&process.name) == own_name)
            .then(|| Namesake { process_id, user: user() })
    };
    processes.iter().filter_map(namesake).collect()
}

fn load(root: &Path) -> Option<[f64; 3]> {
    let text = tree::value(root, "proc/loadavg")?;
    let mut loads = text.split(' ').map_while(|load| load.parse().ok());
    Some([loads.next()?, loads.next()?, loads.next()?])
}

fn swap_used_bytes(root: &Path) -> Option<u64> {
    let memory = tree::value(root, "proc/meminfo")?;
    let kib = |name: &str| {
        let rest = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some(kib("SwapTotal")?.saturating_sub(kib("SwapFree")?) * 1024)
}

/// The sum over all CPUs that have the counter; absent if none has.
fn throttled(root: &Path) -> Option<u64> {
    let entries = fs::read_dir(root.join("sys/devices/system/cpu")).ok()?.flatten();
    let counts =
        entries.filter_map(|cpu| tree::number(&cpu.path(), "thermal_throttle/core_throttle_count"));
    counts.reduce(|a, b| a + b)
}

/// The number of waiting requests in /proc/locks, which an arrow marks below the lock that
/// they wait for.
fn waiting_for_file_locks(root: &Path) -> Option<usize> {
    let locks = tree::text(root, "proc/locks").ok()?;
    Some(locks.lines().filter(|line| line.contains(" -> ")).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 100;

    fn usage(all_cpus: [u64; 3], processes: &[(u32, &str, u64)]) -> CpuUsage {
        let [busy, idle, steal] = all_cpus;
        let process = |&(id, name, ticks): &(u32, &str, u64)| {
            ((id, 5), ProcessUsage { name: name.to_owned(), ticks })
        };
        let processes = processes.iter().map(process).collect();
        CpuUsage { all_cpus: Some(CpuTicks { busy, idle, steal }), processes }
    }

    #[test]
    fn the_busiest_others_are_named_and_the_own_time_is_not_theirs() {
        let hertz = ticks_per_second() as u64;
        let before = usage([0, 0, 0], &[(OWN, "knee", 0), (1, "init", 9), (2, "cc1", 0)]);
        let after = usage(
            [2 * hertz, hertz, hertz],
            &[(OWN, "knee", hertz / 2), (1, "init", 9), (2, "cc1", hertz), (3, "ld", hertz / 4)],
        );
        let activity = between(&before, &after, OWN, 1.0);
        assert_eq!(activity.steal_percent, Some(25.0));
        assert_eq!(activity.steal_since_boot_percent, Some(100.0 / 3.0));
        assert_eq!(activity.others_cpus, Some(1.5));
        let names: Vec<_> = activity.busiest.iter().map(|b| (b.name.as_str(), b.percent)).collect();
        assert_eq!(names, [("cc1", 100.0), ("ld", 25.0)]);
        assert_eq!(
            namesakes(
                tree::fake(&[]).path(),
                &usage([0; 3], &[(OWN, "knee", 0), (7, "knee", 0)]).processes,
                OWN
            ),
            [Namesake { process_id: 7, user: None }]
        );
    }

    #[test]
    fn a_name_may_contain_anything() {
        let line = "42 (a) (b c) S 1 42 42 0 -1 4 5 6 7 8 30 12 0 0 20 0 1 0 777 1 2 3";
        let expected = ((42, 777), ProcessUsage { name: "a) (b c".to_owned(), ticks: 42 });
        assert_eq!(process(line), Some(expected));
        assert_eq!(process("42 (a) S 1"), None);
        assert_eq!(process(""), None);
    }

    #[test]
    fn what_is_not_there_is_absent() {
        let activity = activity(tree::fake(&[]).path(), Duration::ZERO);
        assert_eq!(activity.steal_percent, None);
        assert_eq!(activity.others_cpus, None);
        assert_eq!(activity.throttled, None);
        assert_eq!(activity.waiting_for_file_locks, None);
    }

    #[test]
    fn traces_of_earlier_trouble_are_counted() {
        let root = tree::fake(&[
            ("proc/loadavg", "0.50 0.25 0.10 1/87 6506\n"),
            ("proc/meminfo", "SwapTotal: 1000 kB\nSwapFree:  900 kB\n"),
            (
                "proc/locks",
                "1: POSIX  ADVISORY  WRITE 1 0:1:2 0 EOF\n1: -> POSIX ADVISORY WRITE 2 0:1:2 0 EOF\n",
            ),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
            ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"),
        ]);
        let activity = activity(root.path(), Duration::ZERO);
        assert_eq!(activity.load, Some([0.5, 0.25, 0.1]));
        assert_eq!(activity.swap_used_bytes, Some(100 << 10));
        assert_eq!(activity.throttled, Some(7));
        assert_eq!(activity.waiting_for_file_locks, Some(1));
    }
}
