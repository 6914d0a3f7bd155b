//! A suspect where user code takes longer and no event says why: a cache line that tasks take from each
//! other. The code waits at the instruction that touches the line, or at one that needs its result.
//!
//! Samples cannot tell this from more work at the same place: they come some instructions late, so even
//! a loop that waits for nothing has most of its samples on one instruction. Only without other
//! tasks beside it would the waiting vanish.

use std::collections::BTreeMap;

use records::{Base, CpuMode, CpuState, Profile, ProfileKind, SampledStacks, Window};
use schemars::JsonSchema;
use serde::Serialize;

/// The instruction of a function that most of its samples in user mode are on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HotInstruction {
    /// The file of the code.
    pub object: String,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Number of its samples.
    pub samples: u64,
    /// Number of all samples of the function.
    pub of: u64,
    /// File and line of the source, as "queue.c:42", if anything tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl HotInstruction {
    /// The share of the function's samples that is on it.
    pub fn share(&self) -> f64 {
        self.samples as f64 / self.of.max(1) as f64
    }

    /// Whether there are enough samples to name it.
    pub fn is_clear(&self) -> bool {
        const SAMPLES_MIN: u64 = 40;
        self.of >= SAMPLES_MIN
    }
}

/// User code that may wait for a cache line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SharedLine {
    /// The function.
    pub function: String,
    /// The instruction that most of its samples are on.
    pub at: HotInstruction,
}

/// Tasks run at the same time if at least two CPUs work for this share of the time.
const BUSY_MIN: f64 = 0.3;

/// The hottest instruction of each function of the workload's user code.
pub(super) fn hot_instructions(looks: &[&Profile]) -> BTreeMap<String, HotInstruction> {
    let mut places: BTreeMap<String, BTreeMap<(String, u64), u64>> = BTreeMap::new();
    for samples in windows(looks).filter_map(|window| window.samples.as_ref()) {
        for (function, object, offset, count) in user_samples(samples) {
            let place = (object.to_string(), offset);
            *places.entry(function.to_string()).or_default().entry(place).or_default() += count;
        }
    }
    let hottest = |places: BTreeMap<(String, u64), u64>| {
        let of = places.values().sum();
        let hottest = places.into_iter().max_by_key(|(_, samples)| *samples);
        let ((object, offset), samples) = hottest.unwrap_or_default();
        HotInstruction { object, offset, samples, of, source: None }
    };
    places.into_iter().map(|(function, places)| (function, hottest(places))).collect()
}

/// Function, file, offset and number of the samples of user code.
fn user_samples(samples: &SampledStacks) -> impl Iterator<Item = (&str, &str, u64, u64)> {
    let is_user = |base: Base, state: CpuState, mode: CpuMode| {
        base == Base::Work && state == CpuState::Rest && mode == CpuMode::User
    };
    samples.stacks.iter().filter(move |s| is_user(s.base, s.state, s.mode)).filter_map(|stack| {
        let index = *stack.frames.get(stack.kernel_frames as usize)? as usize;
        let object = samples.objects.get(index).map_or("", String::as_str);
        Some((samples.functions.get(index)?.as_str(), object, stack.offset, stack.count))
    })
}

/// Whether tasks of the workload ran on several CPUs at the same time.
pub(super) fn ran_in_parallel(looks: &[&Profile]) -> bool {
    let is_parallel = |window: &Window| {
        let busy = window.cpus.iter().filter(|cpu| {
            let work = cpu.slices.iter().filter(|slice| slice.base == Base::Work);
            let work_ns: u64 = work.map(|slice| slice.ns).sum();
            work_ns as f64 >= BUSY_MIN * cpu.length_ns as f64
        });
        busy.count() >= 2
    };
    windows(looks).any(is_parallel)
}

fn windows<'a>(looks: &'a [&Profile]) -> impl Iterator<Item = &'a Window> {
    let timing = looks.iter().filter(|look| look.kind == ProfileKind::Time && look.finished());
    timing.flat_map(|look| &look.windows)
}
