//! Hardware counters, where the host has and permits them. They count all tasks on the measured
//! CPUs while these are not idle, and cost nothing between two snapshots.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;

use crate::perf_event::{self, EventAttributes};

/// The events with generic numbers of the kernel (enum perf_hw_id).
const EVENTS: &[(&str, u64)] = &[
    ("hardware.cycles", perf_event::COUNT_HW_CPU_CYCLES),
    ("hardware.instructions", perf_event::COUNT_HW_INSTRUCTIONS),
    ("hardware.cache_misses", perf_event::COUNT_HW_CACHE_MISSES),
];

/// Loads whose line came from another core's cache: the vendor's name, the family, models (empty: all),
/// and the event with its mask. From the vendors' tables in Linux, tools/perf/pmu-events/arch/x86: Intel
/// since Skylake-SP has MEM_LOAD_L3_HIT_RETIRED.XSNP_HITM (later XSNP_FWD), within the package; AMD since
/// Zen 3 has LS_DMND_FILLS_FROM_SYS from caches of other core complexes, on this node and on others.
const TRANSFERS: &[(&str, u32, &[u32], u64)] = &[
    ("GenuineIntel", 6, &[0x55, 0x6a, 0x6c, 0x8f, 0xcf], 0x04d2),
    ("AuthenticAMD", 0x19, &[], 0x1443),
    ("AuthenticAMD", 0x1a, &[], 0x1443),
];

/// Running counters: one event for each measured CPU.
pub struct HardwareCounters {
    events: Vec<(&'static str, Vec<File>)>,
}

/// The values of the counters at a snapshot.
pub type HardwareCounts = Vec<(&'static str, u64)>;

impl HardwareCounters {
    /// Starts the counters; also returns why some could not be started.
    pub fn start(cpus: &[u32]) -> (HardwareCounters, Option<String>) {
        let (mut events, mut unavailable) = (Vec::new(), None);
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let general = EVENTS.iter().map(|(name, event)| (*name, perf_event::TYPE_HARDWARE, *event));
        let transfers = transfers(&cpuinfo);
        let transfers = transfers
            .map(|event| ("hardware.lines_from_other_caches", perf_event::TYPE_RAW, event));
        for (name, kind, event) in general.chain(transfers) {
            let attributes =
                EventAttributes::new(kind, event, 0, perf_event::EXCLUDE_IDLE).scaled();
            let open = |cpu: &u32| perf_event::open(&attributes, (-1, *cpu as i32));
            let opened: Result<Vec<OwnedFd>, String> = cpus.iter().map(open).collect();
            match opened {
                Ok(opened) => events.push((name, opened.into_iter().map(File::from).collect())),
                Err(why) => unavailable = Some(why),
            }
        }
        (HardwareCounters { events }, unavailable)
    }

    /// The values of the counters now; a counter that cannot be read is absent.
    pub fn read(&self) -> HardwareCounts {
        let sum = |(name, cpus): &(&'static str, Vec<File>)| {
            Some((*name, cpus.iter().map(read).sum::<Option<u64>>()?))
        };
        self.events.iter().filter_map(sum).collect()
    }
}

/// The event that counts lines from other caches on the CPU that /proc/cpuinfo describes.
fn transfers(cpuinfo: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split('\t').next() == Some(name))?;
        line.split_once(": ").map(|(_, value)| value)
    };
    let vendor = field("vendor_id")?;
    let [family, model] = ["cpu family", "model"].map(|name| field(name)?.parse().ok());
    let (family, model): (u32, u32) = (family?, model?);
    let matches_cpu = |(v, f, models, _): &&(&str, u32, &[u32], u64)| {
        *v == vendor && *f == family && (models.is_empty() || models.contains(&model))
    };
    TRANSFERS.iter().find(matches_cpu).map(|(.., event)| *event)
}

/// The value of an event, scaled up for the time in which it had no hardware counter; see
/// perf_event_open(2).
fn read(mut event: &File) -> Option<u64> {
    let mut words = [[0; 8]; 3];
    event.read_exact(words.as_flattened_mut()).ok()?;
    let [value, enabled, running] = words.map(u64::from_ne_bytes);
    match running {
        0 => Some(0),
        _ => u64::try_from(u128::from(value) * u128::from(enabled) / u128::from(running)).ok(),
    }
}

/// Counts between two snapshots.
pub fn between(
    before: &HardwareCounts,
    after: &HardwareCounts,
) -> impl Iterator<Item = (String, u64)> {
    let count_before =
        |name: &str| before.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
    after.iter().filter_map(move |(name, count)| {
        Some((name.to_string(), count.saturating_sub(count_before(name)?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_of_transfers_is_that_of_the_cpu() {
        let check = |vendor: &str, family: u32, model: u32, expected: Option<u64>| {
            let cpuinfo = format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
                 model name\t: whatever\n"
            );
            assert_eq!(transfers(&cpuinfo), expected);
        };
        check("GenuineIntel", 6, 106, Some(0x04d2));
        check("GenuineIntel", 6, 60, None);
        check("AuthenticAMD", 25, 1, Some(0x1443));
        check("AuthenticAMD", 23, 49, None);
        assert_eq!(transfers(""), None);
    }
}
