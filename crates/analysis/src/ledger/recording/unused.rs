//! How many CPUs the workload of a recording keeps busy at once. The other CPUs are idle because it has no task
//! for them: longer operations leave them idle for longer, and nothing waits for that.

use records::recording::{PerfSample, Recording};

use super::{Base, GAP, RecordingQuestion, base, each_window};

/// Slices of the recording, each as busy as all its CPUs together.
const SLICES: u64 = 100;
/// As many CPUs are used as this share of the slices keeps busy: a program also starts and ends.
const USED_SHARE: f64 = 0.1;
/// A parent and its child may both run for a moment: that is no CPU more.
const MOMENT: f64 = 0.25;

/// CPUs that the workload keeps busy at once.
pub(super) fn cpus_used(recording: &Recording, question: &RecordingQuestion) -> u32 {
    let (start, end) = recording.span_ns();
    let slice_ns = (end - start) / SLICES;
    if slice_ns == 0 {
        return 0;
    }
    let ends: Vec<u64> = (1..=SLICES).map(|slice| start + slice * slice_ns).collect();
    let mut busy_ns = vec![0; ends.len()];
    let is_work = |sample: &&PerfSample| base(recording, question, sample) == Base::Work;
    let mut seen_until: std::collections::BTreeMap<u32, u64> = Default::default();
    for sample in &recording.samples {
        let from = seen_until.insert(sample.cpu, sample.time_ns).unwrap_or(start);
        let from = from.max(sample.time_ns.saturating_sub(sample.period.saturating_mul(GAP)));
        if is_work(&sample) {
            each_window(&ends, from, sample.time_ns, |slice, ns| busy_ns[slice] += ns);
        }
    }
    busy_ns.sort_unstable_by(|a, b| b.cmp(a));
    let busy = busy_ns[(USED_SHARE * SLICES as f64) as usize] as f64 / slice_ns as f64;
    (busy - MOMENT).ceil().max(0.0) as u32
}
