//! Folded stacks, one a line, as programs that draw flame graphs read them: the task, then
//! functions from the outermost to the innermost, then how many samples; of two recordings, how
//! many each.

use std::collections::BTreeMap;
use std::fmt::Write;

use records::recording::Recording;

use crate::recording::{NamedRecording, task};

/// The stacks of one recording.
pub fn folded(named: &NamedRecording) -> String {
    let mut text = String::new();
    for (stack, count) in stacks(named.recording) {
        let _ = writeln!(text, "{stack} {count}");
    }
    text
}

/// The stacks of two. Samples of the second are scaled to as many operations, or as much time, as
/// the first has, or the difference would be that of the lengths.
pub fn folded_pair(named: [&NamedRecording; 2]) -> String {
    let [base, new] = named.map(|named| stacks(named.recording));
    let length = |named: &NamedRecording| {
        let (start, end) = named.recording.span_ns();
        (end - start).max(1) as f64
    };
    let per = match (named[0].operations, named[1].operations) {
        (Some(base), Some(new)) => base as f64 / new.max(1) as f64,
        _ => length(named[0]) / length(named[1]),
    };
    let mut all: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    base.iter().for_each(|(stack, count)| all.entry(stack).or_default().0 = *count);
    let scaled = |count: u64| (count as f64 * per).round() as u64;
    new.iter().for_each(|(stack, count)| all.entry(stack).or_default().1 = scaled(*count));
    let mut text = String::new();
    for (stack, (base, new)) in all {
        let _ = writeln!(text, "{stack} {base} {new}");
    }
    text
}

fn stacks(recording: &Recording) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for sample in &recording.samples {
        *counts.entry((task(recording, sample), sample.chain)).or_default() += 1;
    }
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for ((task, chain), count) in counts {
        let mut stack = safe(task);
        for location in recording.chains.locations(chain).iter().rev() {
            stack.push(';');
            stack.push_str(&safe(&recording.function(*location).name));
        }
        *stacks.entry(stack).or_default() += count;
    }
    stacks
}

/// Replaces semicolons, which separate frames.
fn safe(name: &str) -> String {
    name.replace(';', ":")
}
