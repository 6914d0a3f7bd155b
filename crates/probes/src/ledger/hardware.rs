//! Counters of the hardware, where a host lets one count: of all tasks on the CPUs under
//! measurement while these are not idle. They cost nothing between two edges.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use crate::perf_event::{self, Attributes};

/// What is counted, by the kernel's own numbers (enum perf_hw_id).
const EVENTS: &[(&str, u64)] = &[
    ("hardware.cycles", perf_event::COUNT_HW_CPU_CYCLES),
    ("hardware.instructions", perf_event::COUNT_HW_INSTRUCTIONS),
    ("hardware.cache_misses", perf_event::COUNT_HW_CACHE_MISSES),
];

/// Events that count, each on all CPUs.
pub struct Hardware {
    events: Vec<(&'static str, Vec<File>)>,
}

/// What each counter had counted at an edge.
pub type Counted = Vec<(&'static str, u64)>;

impl Hardware {
    /// Begins to count; also why what cannot be counted is not.
    pub fn start(cpus: &[u32]) -> (Hardware, Option<String>) {
        let (mut events, mut blind) = (Vec::new(), None);
        for (name, event) in EVENTS {
            let how = perf_event::EXCLUDE_IDLE;
            let attributes = Attributes::new(perf_event::TYPE_HARDWARE, *event, 0, how).scaled();
            let open = |cpu: &u32| perf_event::open(&attributes, (-1, *cpu as i32));
            let opened: Result<Vec<OwnedFd>, String> = cpus.iter().map(open).collect();
            match opened {
                Ok(opened) => events.push((*name, opened.into_iter().map(File::from).collect())),
                Err(why) => blind = Some(why),
            }
        }
        (Hardware { events }, blind)
    }

    /// What has been counted up to now; a counter that cannot be read is absent.
    pub fn read(&self) -> Counted {
        let sum = |(name, cpus): &(&'static str, Vec<File>)| {
            Some((*name, cpus.iter().map(read).sum::<Option<u64>>()?))
        };
        self.events.iter().filter_map(sum).collect()
    }
}

/// The value of an event, scaled by the part of the time that it had a counter of the hardware to
/// itself; see perf_event_open(2).
fn read(mut event: &File) -> Option<u64> {
    let mut words = [[0; 8]; 3];
    event.read_exact(words.as_flattened_mut()).ok()?;
    let [value, enabled, running] = words.map(u64::from_ne_bytes);
    match running {
        0 => Some(0),
        _ => u64::try_from(u128::from(value) * u128::from(enabled) / u128::from(running)).ok(),
    }
}

/// Counts between two edges.
pub fn between(before: &Counted, after: &Counted) -> impl Iterator<Item = (String, u64)> {
    let was = |name: &str| before.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
    after.iter().filter_map(move |(name, n)| Some((name.to_string(), n.saturating_sub(was(name)?))))
}
