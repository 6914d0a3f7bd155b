//! The programs of the host that use its CPUs most, by what /proc says of each process: in ticks, which is exact enough for
//! seconds.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use crate::counters::ticks_per_second;

/// Processes with their CPU time, as they were read last.
pub struct Busiest {
    at: Instant,
    processes: BTreeMap<u32, ProcessTime>,
}

/// CPU time of a process so far, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessTime {
    name: String,
    ticks: u64,
    threads: u64,
    /// When it was started, in ticks since the host was booted: its number may be another's later.
    started: u64,
}

/// A process, with the CPUs that it used for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyProcess {
    pub process: u32,
    pub name: String,
    /// CPU time over time.
    pub cpus: f64,
    pub threads: u64,
}

impl Busiest {
    /// Reads the CPU time of all processes.
    pub fn begin() -> Busiest {
        Busiest { at: Instant::now(), processes: read() }
    }

    /// What each process but this one used since the last call, the busiest first. What has come since counts whole.
    pub fn since_last(&mut self) -> Vec<BusyProcess> {
        let now = Busiest::begin();
        let seconds = now.at.duration_since(self.at).as_secs_f64();
        let used = used(&self.processes, &now.processes, seconds * ticks_per_second() as f64);
        *self = now;
        used
    }
}

fn used(
    before: &BTreeMap<u32, ProcessTime>,
    now: &BTreeMap<u32, ProcessTime>,
    ticks: f64,
) -> Vec<BusyProcess> {
    let own = std::process::id();
    let others = now.iter().filter(|(process, _)| **process != own);
    let mut used: Vec<BusyProcess> = others
        .map(|(process, time)| {
            let then = before.get(process).filter(|then| then.started == time.started);
            let since = time.ticks.saturating_sub(then.map_or(0, |then| then.ticks));
            BusyProcess {
                process: *process,
                name: time.name.clone(),
                cpus: since as f64 / ticks.max(1.0),
                threads: time.threads,
            }
        })
        .collect();
    used.sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then_with(|| a.process.cmp(&b.process)));
    used
}

fn read() -> BTreeMap<u32, ProcessTime> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let process = |number: u32| {
        let stat = fs::read(format!("/proc/{number}/stat")).ok()?;
        Some((number, process(&String::from_utf8_lossy(&stat))?))
    };
    numbers.filter_map(process).collect()
}

/// The name and fields 14, 15, 20 and 22 of /proc/PID/stat. The name may contain anything. Threads of the kernel have no
/// memory (field 23), and are left out.
fn process(stat: &str) -> Option<ProcessTime> {
    let (before, rest) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_string();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    (field(23)? > 0).then_some(ProcessTime {
        name,
        ticks: field(14)? + field(15)?,
        threads: field(20)?,
        started: field(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ticks: u64, started: u64) -> ProcessTime {
        ProcessTime { name: "server".to_string(), ticks, threads: 4, started }
    }

    #[test]
    fn processes_are_listed_by_what_they_used_meanwhile() {
        let before = [(1 << 30, time(100, 5)), (2 << 30, time(900, 5))].into();
        let now = [(1 << 30, time(150, 5)), (2 << 30, time(20, 7)), (3 << 30, time(30, 8))].into();
        let used = used(&before, &now, 100.0);
        let listed: Vec<(u32, f64)> = used.iter().map(|busy| (busy.process, busy.cpus)).collect();
        assert_eq!(listed, [(1 << 30, 0.5), (3 << 30, 0.3), (2 << 30, 0.2)]);
    }

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        let line = "42 (a) (b c) S 1 42 42 0 -1 4 5 6 7 8 30 12 0 0 20 0 3 0 777 4096 2 3";
        let expected =
            ProcessTime { name: "a) (b c".to_string(), ticks: 42, threads: 3, started: 777 };
        assert_eq!(process(line), Some(expected));
        let of_kernel = line.replace(" 4096 ", " 0 ");
        assert_eq!(process(&of_kernel), None);
        assert_eq!(process("42 (a) S 1"), None);
    }
}
