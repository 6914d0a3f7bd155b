//! Callers of the functions that used the time: percent, symbol, chain.

use std::collections::BTreeMap;
use std::fmt::Write;

use perf_data::Recording;

use crate::quantity::{duration_ns, short};
use crate::recording::{NamedRecording, is_idle};

/// Smaller shares of the whole are left out.
const SHARE_MIN: f64 = 0.005;

/// What a function's samples have above them.
#[derive(Default)]
struct Node {
    samples: u64,
    /// What they stand for.
    periods: u64,
    callers: BTreeMap<u32, Node>,
}

/// Functions by their own samples, the most first, with who called them; idle left out.
pub fn callers(told: &NamedRecording) -> String {
    let recording = told.recording;
    let mut sums = vec![(0_u64, 0_u64); recording.chains.len()];
    for sample in recording.samples.iter().filter(|sample| !is_idle(sample)) {
        let (samples, periods) = &mut sums[sample.chain as usize];
        *samples += 1;
        *periods += sample.period;
    }
    let mut root = Node::default();
    for (chain, sum) in sums.into_iter().enumerate().filter(|(_, (samples, _))| *samples > 0) {
        add(&mut root, recording, chain as u32, sum);
    }
    let per = if told.operations.is_some() { "; time per operation" } else { "" };
    let mut text = format!(
        "# {} of tasks, by function and who called it{per}; what is below {} % is left out\n",
        super::super::prose::counted(root.samples as usize, "sample"),
        100.0 * SHARE_MIN
    );
    for (function, node) in sorted(&root) {
        if !is_shown(node, &root) {
            break;
        }
        let function = &recording.functions[function as usize];
        let object = recording.object_name(function.object);
        let share = 100.0 * node.samples as f64 / root.samples as f64;
        let each = each(told, node).map_or_else(String::new, |each| format!("{each:>9}  "));
        let _ = writeln!(text, "\n{share:6.2}%  {each}{}  {object}", function.name);
        write(&mut text, recording, node, &root, 1);
    }
    text
}

/// What a function's samples stand for, per operation, where those were counted.
fn each(told: &NamedRecording, node: &Node) -> Option<String> {
    let value = node.periods as f64 / told.operations?.max(1) as f64;
    Some(if told.recording.event.is_clock { duration_ns(value) } else { short(value) })
}

/// Adds a chain below its innermost function.
fn add(root: &mut Node, recording: &Recording, chain: u32, (samples, periods): (u64, u64)) {
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

fn sorted(node: &Node) -> Vec<(u32, &Node)> {
    let mut callers: Vec<(u32, &Node)> = node.callers.iter().map(|(f, node)| (*f, node)).collect();
    callers.sort_by_key(|(function, node)| (std::cmp::Reverse(node.samples), *function));
    callers
}

fn is_shown(node: &Node, root: &Node) -> bool {
    node.samples as f64 >= SHARE_MIN * root.samples as f64
}

/// Writes callers. One that is the only caller is indented no deeper and needs no percentage.
fn write(text: &mut String, recording: &Recording, node: &Node, root: &Node, depth: usize) {
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
