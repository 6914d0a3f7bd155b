//! The samples of looks as a recording, so that the views of recordings can show them. Looks keep
//! only the number of equal samples, without times. Here each task's samples follow one another, and
//! each sample stands for its share of the exact time that it splits.

use std::collections::{BTreeMap, HashMap};

use records::recording::{Function, Location, Object, Origin, PerfSample, Recording, SampledEvent};
use records::{Base, CpuState, Profile, ProfileKind, SampledStacks, Stack, Window};

use super::super::split;

/// The samples of looks at time as a recording, and the operations completed during these looks.
/// `None` without samples. `workload` is the name for the workload's tasks.
pub fn recording_from_looks(
    looks: &[&Profile],
    workload: &str,
    origin: Origin,
) -> Option<(Recording, u64)> {
    let times = looks.iter().filter(|look| look.kind == ProfileKind::Time && look.finished());
    let windows: Vec<(&Window, &SampledStacks)> = times
        .flat_map(|look| &look.windows)
        .filter_map(|window| Some((window, window.samples.as_ref()?)))
        .collect();
    let hertz = windows.first().map(|(_, samples)| u64::from(samples.hertz))?;
    let mut builder = RecordingBuilder::new(workload, origin, hertz);
    windows.iter().try_for_each(|(window, samples)| builder.add(window, samples))?;
    builder.recording.samples.sort_by_key(|sample| sample.time_ns);
    let operations = windows.iter().map(|(window, _)| window.operations).sum();
    (!builder.recording.samples.is_empty()).then_some((builder.recording, operations))
}

/// A recording as it grows.
struct RecordingBuilder {
    recording: Recording,
    objects: HashMap<String, u32>,
    functions: HashMap<(String, u32), u32>,
    chains: HashMap<(Vec<u32>, u32), u32>,
    /// Time of the last sample of each task.
    last_ns: [u64; Base::ALL.len()],
}

impl RecordingBuilder {
    fn new(workload: &str, origin: Origin, hertz: u64) -> RecordingBuilder {
        let tasks = ["idle", workload, "other tasks", "knee"].map(str::to_string).to_vec();
        let event =
            SampledEvent { name: "cpu-clock".to_string(), is_clock: true, hertz: Some(hertz) };
        let recording = Recording { origin, event, all_cpus: true, tasks, ..Recording::default() };
        let mut builder = RecordingBuilder {
            recording,
            objects: HashMap::new(),
            functions: HashMap::new(),
            chains: HashMap::new(),
            last_ns: [0; Base::ALL.len()],
        };
        builder.object("[kernel]");
        builder
    }

    /// Adds a window. The time of each base in each state is split among its samples.
    fn add(&mut self, window: &Window, samples: &SampledStacks) -> Option<()> {
        let mut groups: BTreeMap<(Base, CpuState), Vec<&Stack>> = BTreeMap::new();
        for stack in &samples.stacks {
            groups.entry((stack.base, stack.state)).or_default().push(stack);
        }
        for ((base, state), stacks) in groups {
            let ns = window.time_ns(|b, s| (b, s) == (base, state));
            let count: u64 = stacks.iter().map(|stack| stack.count).sum();
            let mut periods = split(ns, &vec![1; usize::try_from(count).ok()?]).into_iter();
            for stack in stacks {
                let chain = self.chain(samples, stack)?;
                for period in periods.by_ref().take(stack.count as usize) {
                    self.sample(base, stack, chain, period);
                }
            }
        }
        Some(())
    }

    fn sample(&mut self, base: Base, stack: &Stack, chain: u32, period: u64) {
        let task = Base::ALL.iter().position(|other| *other == base).unwrap_or_default();
        self.last_ns[task] += period;
        self.recording.samples.push(PerfSample {
            time_ns: self.last_ns[task],
            cpu: 0,
            pid: task as i32,
            tid: task as i32,
            task: task as u32,
            chain,
            period,
            mode: stack.mode,
        });
    }

    fn chain(&mut self, samples: &SampledStacks, stack: &Stack) -> Option<u32> {
        let frames = stack.frames.iter();
        let locations: Vec<u32> = frames.map(|frame| self.function(samples, *frame)).collect();
        let kernel = stack.kernel_frames.min(locations.len() as u32);
        let key = (locations, kernel);
        if let Some(chain) = self.chains.get(&key) {
            return Some(*chain);
        }
        let chain = self.recording.chains.push(key.0.iter().copied(), kernel)?;
        self.chains.insert(key, chain);
        Some(chain)
    }

    /// The location of a function. Looks know no locations within functions.
    fn function(&mut self, samples: &SampledStacks, frame: u32) -> u32 {
        let name = samples.functions.get(frame as usize).map_or("[unknown]", String::as_str);
        let object = samples.objects.get(frame as usize).map_or("", String::as_str);
        let object = self.object(if object.is_empty() { "[kernel]" } else { object });
        let key = (name.to_string(), object);
        if let Some(index) = self.functions.get(&key) {
            return *index;
        }
        let index = self.recording.functions.len() as u32;
        let known = !name.contains("+0x") && !name.starts_with('[');
        self.recording.functions.push(Function { name: name.to_string(), object, known });
        let (address, function) = (0, index);
        let location = Location { object, address, function, after_system_call: false };
        self.recording.locations.push(location);
        self.functions.insert(key, index);
        index
    }

    fn object(&mut self, path: &str) -> u32 {
        let next = self.recording.objects.len() as u32;
        let index = *self.objects.entry(path.to_string()).or_insert(next);
        if index == next {
            let object = Object { path: path.to_string(), build_id: Vec::new() };
            self.recording.objects.push(object);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_for_all_the_time_that_they_split() {
        let lines = include_str!("../build/recorded.ndjson").lines();
        let looks: Vec<Profile> = lines.map(|line| Profile::read(line).unwrap()).collect();
        let borrowed: Vec<&Profile> = looks.iter().collect();
        let (recording, operations) =
            recording_from_looks(&borrowed, "posix_lock_shared", Origin::default()).unwrap();
        let windows = looks.iter().flat_map(|look| &look.windows);
        let sampled: Vec<&Window> = windows.filter(|window| window.samples.is_some()).collect();
        assert_eq!(operations, sampled.iter().map(|window| window.operations).sum::<u64>());
        let count = |samples: &SampledStacks| samples.stacks.iter().map(|s| s.count).sum::<u64>();
        let counts = sampled.iter().filter_map(|window| window.samples.as_ref()).map(count);
        assert_eq!(recording.samples.len() as u64, counts.sum::<u64>());
        let rest = |window: &&Window| {
            window.time_ns(|base, state| (base, state) == (Base::Work, CpuState::Rest))
        };
        // In these looks one sample of the workload was taken in a softirq.
        let softirq = sampled[1].time_ns(|b, s| (b, s) == (Base::Work, CpuState::SoftirqTimer));
        let of_work = recording.samples.iter().filter(|sample| sample.task == 1);
        let periods: u64 = of_work.map(|sample| sample.period).sum();
        assert_eq!(periods, sampled.iter().map(rest).sum::<u64>() + softirq);
        assert!(recording.samples.is_sorted_by_key(|sample| sample.time_ns));
    }
}
