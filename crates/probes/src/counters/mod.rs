//! Counters of the kernel, read before and after a run; their differences describe
//! what the whole host did in between. A snapshot only reads: the texts are kept and
//! parsed when two snapshots are compared, so that nothing but reads happens near
//! the release and the stop. Nothing here is per task, and nothing is a rate.
//!
//! One source is one file of this folder and one line in the list below. [`records::COUNTERS`]
//! has the names of its counters, their units and how they are obtained.

mod cgroup;
#[cfg(test)]
mod check;
mod files;
mod frequency;
mod interrupts;
mod pressure;
mod softirqs;
mod stat;
mod throttle;
mod values;
mod vmstat;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use files::{FileRead, SourceFiles};
pub use stat::ticks_per_second;
use values::CounterValues;

/// Every source, the one that must be read nearest to the run first: busy ticks and
/// interrupts continue while the others are read, the frequency falls once the tasks stop.
static SOURCES: &[CounterSource] = &[
    stat::SOURCE,
    interrupts::SOURCE,
    softirqs::SOURCE,
    frequency::SOURCE,
    vmstat::SOURCE,
    pressure::SOURCE,
    cgroup::SOURCE,
    throttle::SOURCE,
];

/// Files from which counters are read.
struct CounterSource {
    /// The first part of the names of its counters.
    name: &'static str,
    /// The files to read.
    paths: SourcePaths,
    /// Adds the counters in the files to `values`; or says why there are none.
    parse: fn(files: &SourceFiles, cpus: &[u32], values: &mut CounterValues) -> Result<(), String>,
}

/// The paths of a source's files, relative to the root.
enum SourcePaths {
    /// On every host.
    Fixed(&'static [&'static str]),
    /// For this host and these CPUs; or why there are none.
    Found(fn(root: &Path, cpus: &[u32]) -> Result<Vec<PathBuf>, String>),
}

impl SourcePaths {
    fn get(&self, root: &Path, cpus: &[u32]) -> Result<Vec<PathBuf>, String> {
        match self {
            SourcePaths::Fixed(paths) => Ok(paths.iter().map(PathBuf::from).collect()),
            SourcePaths::Found(find) => find(root, cpus),
        }
    }
}

/// The texts of all sources at one instant, not parsed yet.
pub struct Snapshot {
    cpus: Vec<u32>,
    bytes: Vec<u8>,
    sources: Vec<(&'static CounterSource, Result<Vec<FileRead>, String>)>,
}

/// What changed between two snapshots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The change of each counter, even if it is 0: an absent counter is unknown here.
    pub deltas: BTreeMap<String, i64>,
    /// Values that are not differences, from the later snapshot.
    pub gauges: BTreeMap<String, f64>,
    /// Sources, parts of sources, or single counters that could not be read, and why.
    pub unavailable: BTreeMap<String, String>,
}

impl Counters {
    /// Notes why a counter is missing, unless all of its source is.
    fn unavailable(&mut self, name: &str, why: impl Into<String>) {
        let includes_it = |unavailable: &String| {
            name.strip_prefix(unavailable.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !self.unavailable.keys().any(includes_it) {
            self.unavailable.insert(name.to_owned(), why.into());
        }
    }
}

/// Room for all texts of a host with hundreds of CPUs: the buffer does not grow, and
/// /proc files are read with few calls.
const BUFFER_BYTES: usize = 4 << 20;

impl Snapshot {
    /// Reads all sources just before the measured part, the most urgent one last.
    /// `root` is `/`, except in tests; `cpus` are the CPUs that will be measured.
    pub fn before(root: &Path, cpus: &[u32]) -> Snapshot {
        Snapshot::take(SOURCES.iter().rev(), root, cpus)
    }

    /// Reads all sources just after the measured part, the most urgent one first.
    pub fn after(root: &Path, cpus: &[u32]) -> Snapshot {
        Snapshot::take(SOURCES.iter(), root, cpus)
    }

    fn take(
        sources: impl Iterator<Item = &'static CounterSource>,
        root: &Path,
        cpus: &[u32],
    ) -> Snapshot {
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        let read = |source: &'static CounterSource| {
            let paths = source.paths.get(root, cpus);
            (source, paths.map(|paths| files::read(root, paths, &mut bytes)))
        };
        let sources = sources.map(read).collect();
        Snapshot { cpus: cpus.to_vec(), bytes, sources }
    }

    /// The differences between this snapshot and an earlier one of the same CPUs.
    pub fn since(&self, earlier: &Snapshot) -> Counters {
        let (then, now) = (earlier.values(), self.values());
        let mut counters = Counters {
            deltas: BTreeMap::new(),
            gauges: now.gauges,
            unavailable: then.unavailable.into_iter().chain(now.unavailable).collect(),
        };
        for (name, now) in &now.counters {
            match then.counters.get(name).map(|then| now.since(then)) {
                Some(Ok(delta)) => counters.deltas.extend([(name.clone(), delta)]),
                Some(Err(why)) => counters.unavailable(name, why),
                None => counters.unavailable(name, "appeared between the snapshots"),
            }
        }
        for name in then.counters.keys().filter(|name| !now.counters.contains_key(*name)) {
            counters.unavailable(name, "disappeared between the snapshots");
        }
        counters
    }

    fn values(&self) -> CounterValues {
        let mut snapshot_values = CounterValues::default();
        for (source, reads) in &self.sources {
            let mut values = CounterValues::default();
            let parsed = reads.as_ref().map_err(String::clone).and_then(|reads| {
                (source.parse)(&SourceFiles::new(&self.bytes, reads), &self.cpus, &mut values)
            });
            match parsed {
                Err(why) => values.unavailable(source.name, why),
                Ok(()) if values.is_empty() => {
                    values.unavailable(source.name, "no line could be parsed: unknown format")
                }
                Ok(()) => {}
            }
            snapshot_values.extend(values);
        }
        snapshot_values
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tree;
    use records::find_counter;

    #[test]
    fn a_host_without_any_source_still_gives_an_answer() {
        let root = tree::fake(&[]);
        let before = Snapshot::before(root.path(), &[0]);
        let counters = Snapshot::after(root.path(), &[0]).since(&before);
        assert!(counters.deltas.is_empty() && counters.gauges.is_empty());
        let text: Vec<_> =
            counters.unavailable.iter().map(|(name, why)| format!("{name}: {why}\n")).collect();
        expect![[r#"
            cgroup: /proc/self/cgroup: No such file or directory (os error 2)
            frequency_mhz: /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq: No such file or directory (os error 2)
            interrupts: /proc/interrupts: No such file or directory (os error 2)
            pressure.cpu: /proc/pressure/cpu: No such file or directory (os error 2)
            pressure.io: /proc/pressure/io: No such file or directory (os error 2)
            pressure.memory: /proc/pressure/memory: No such file or directory (os error 2)
            softirqs: /proc/softirqs: No such file or directory (os error 2)
            stat: /proc/stat: No such file or directory (os error 2)
            throttle: /sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count: No such file or directory (os error 2)
            vmstat: /proc/vmstat: No such file or directory (os error 2)
        "#]].assert_eq(&text.concat());
    }

    #[test]
    fn this_host_counts_and_every_counter_is_named() {
        let before = Snapshot::before(Path::new("/"), &[0]);
        std::thread::sleep(std::time::Duration::from_millis(30));
        let counters = Snapshot::after(Path::new("/"), &[0]).since(&before);
        assert!(counters.deltas["stat.ctxt"] > 0);
        for name in counters.deltas.keys().chain(counters.gauges.keys()) {
            assert!(find_counter(name).is_some(), "{name} is not in records::COUNTERS");
        }
    }

    #[test]
    fn the_most_urgent_source_is_nearest_to_the_run() {
        let root = tree::fake(&[]);
        let names = |snapshot: &Snapshot| -> Vec<_> {
            snapshot.sources.iter().map(|(source, _)| source.name).collect()
        };
        assert_eq!(names(&Snapshot::before(root.path(), &[])).last(), Some(&"stat"));
        assert_eq!(names(&Snapshot::after(root.path(), &[])).first(), Some(&"stat"));
    }
}
