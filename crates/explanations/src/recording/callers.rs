//! Callers of the functions that used the time: percent, symbol, chain.

use std::collections::BTreeMap;
use std::fmt::Write;

use records::recording::Recording;
use text::prose::counted;
use text::quantity::{duration_ns, short};

use crate::recording::{NamedRecording, is_idle};

/// Smaller shares of the whole are left out.
const SHARE_MIN: f64 = 0.005;

/// A function in the tree of callers, with the samples that have it in this place.
#[derive(Default)]
struct CallerNode {
    samples: u64,
    /// Sum of the samples' periods.
    periods: u64,
    callers: BTreeMap<u32, CallerNode>,
}

/// Functions by their own samples, the most first, with their callers; without idle.
pub fn callers(named: &NamedRecording) -> String {
    let recording = named.recording;
    let mut sums = vec![(0_u64, 0_u64); recording.chains.len()];
    for sample in recording.samples.iter().filter(|sample| !is_idle(sample)) {
        let (samples, periods) = &mut sums[sample.chain as usize];
        *samples += 1;
        *periods += sample.period;
    }
    let mut root = CallerNode::default();
    for (chain, sum) in sums.into_iter().enumerate().filter(|(_, (samples, _))| *samples > 0) {
        add(&mut root, recording, chain as u32, sum);
    }
    let per = if named.operations.is_some() { "; time per operation" } else { "" };
    let mut text = format!(
        "# {} of tasks, by function and caller{per}; entries below {} % are left out\n",
        counted(root.samples as usize, "sample"),
        100.0 * SHARE_MIN
    );
    for (function, node) in sorted(&root) {
        if !is_shown(node, &root) {
            break;
        }
        let function = &recording.functions[function as usize];
        let object = recording.object_name(function.object);
        let share = 100.0 * node.samples as f64 / root.samples as f64;
        let each = each(named, node).map_or_else(String::new, |each| format!("{each:>9}  "));
        let _ = writeln!(text, "\n{share:6.2}%  {each}{}  {object}", function.name);
        write(&mut text, recording, node, &root, 1);
    }
    text
}

/// Time or events of a function per operation; `None` if operations are unknown.
fn each(named: &NamedRecording, node: &CallerNode) -> Option<String> {
    let value = node.periods as f64 / named.operations?.max(1) as f64;
    Some(if named.recording.event.is_clock { duration_ns(value) } else { short(value) })
}

/// Adds a chain below its innermost function.
fn add(root: &mut CallerNode, recording: &Recording, chain: u32, (samples, periods): (u64, u64)) {
    let mut node = root;
    node.samples += samples;
    node.periods += periods;
    for location in recording.chains.locations(chain) {
        let function = recording.locations[*location as usize].function;
        node = node.callers.entry(function).or_default();
        node.samples += samples;
        node.periods += periods;
    }
}

fn sorted(node: &CallerNode) -> Vec<(u32, &CallerNode)> {
    let mut callers: Vec<(u32, &CallerNode)> =
        node.callers.iter().map(|(f, node)| (*f, node)).collect();
    callers.sort_by_key(|(function, node)| (std::cmp::Reverse(node.samples), *function));
    callers
}

fn is_shown(node: &CallerNode, root: &CallerNode) -> bool {
    node.samples as f64 >= SHARE_MIN * root.samples as f64
}

/// Writes callers. One that is the only caller is indented no deeper and needs no percentage.
fn write(
    text: &mut String,
    recording: &Recording,
    node: &CallerNode,
    root: &CallerNode,
    depth: usize,
) {
    /// Deeper is off the screen.
    const DEPTH_MAX: usize = 40;
    let mut node = node;
    loop {
        let callers = sorted(node);
        let [(function, only)] = &callers[..] else { break };
        if only.samples != node.samples {
            break;
        }
        let name = &recording.functions[*function as usize].name;
        let _ = writeln!(text, "{:indent$}{name}", "", indent = 7 + 2 * depth);
        node = only;
    }
    if depth == DEPTH_MAX {
        return;
    }
    for (function, caller) in sorted(node).into_iter().take_while(|(_, node)| is_shown(node, root))
    {
        let share = 100.0 * caller.samples as f64 / root.samples as f64;
        let name = &recording.functions[function as usize].name;
        let _ = writeln!(text, "{:indent$}--{share:.2}%--{name}", "", indent = 7 + 2 * depth);
        write(text, recording, caller, root, depth + 1);
    }
}
