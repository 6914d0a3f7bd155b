//! How many CPUs the workload of a recording keeps busy at once. The other CPUs are idle because it has no task
//! for them: longer operations leave them idle for longer, and nothing waits for that.

use std::collections::BTreeMap;

use records::recording::{PerfSample, Recording};

use super::parts::Parts;
use super::{Base, GAP, RecordingQuestion, base};

/// As many CPUs are used as this share of the slices keeps busy: a program also starts and ends.
const USED_SHARE: f64 = 0.1;
/// A parent and its child may both run for a moment: that is no CPU more.
const MOMENT: f64 = 0.25;

/// CPUs that the workload keeps busy at once.
pub(super) fn cpus_used(recording: &Recording, question: &RecordingQuestion) -> u32 {
    let parts = Parts::new(recording);
    let lengths = parts.slices();
    let mut busy_ns = vec![0; lengths.len()];
    let is_work = |sample: &PerfSample| base(recording, question, sample) == Base::Work;
    let mut seen_until: BTreeMap<u32, u64> = BTreeMap::new();
    for sample in &recording.samples {
        let from = seen_until.insert(sample.cpu, sample.time_ns).unwrap_or(parts.start);
        let from = from.max(sample.time_ns.saturating_sub(sample.period.saturating_mul(GAP)));
        if is_work(sample) {
            parts.each_slice(from, sample.time_ns, |slice, ns| busy_ns[slice] += ns);
        }
    }
    let share = |(busy, length): (u64, &u64)| busy as f64 / (*length).max(1) as f64;
    let mut busy: Vec<f64> = busy_ns.into_iter().zip(&lengths).map(share).collect();
    busy.sort_by(|a, b| b.total_cmp(a));
    let busy = busy[(USED_SHARE * busy.len() as f64) as usize];
    (busy - MOMENT).ceil().max(0.0) as u32
}
