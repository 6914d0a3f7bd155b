//! Callers of the functions that used the time: percent, symbol, chain.

use std::collections::BTreeMap;
use std::fmt::Write;

use records::perf_data::Recording;

use super::{Told, is_idle};

/// Smaller shares of the whole are left out.
const SHARE_MIN: f64 = 0.005;

/// What a function's samples have above them.
#[derive(Default)]
struct Node {
    samples: u64,
    callers: BTreeMap<u32, Node>,
}

/// Functions by their own samples, the most first, with who called them; idle left out.
pub fn callers(told: &Told) -> String {
    let recording = told.recording;
    let mut counts = vec![0_u64; recording.chains.len()];
    let busy = recording.samples.iter().filter(|sample| !is_idle(sample));
    busy.for_each(|sample| counts[sample.chain as usize] += 1);
    let mut root = Node::default();
    for (chain, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        root.samples += count;
        add(&mut root, recording, chain as u32, *count);
    }
    let mut text = format!(
        "# {} of tasks, by function and who called it; what is below {} % is left out\n",
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
        let _ = writeln!(text, "\n{share:6.2}%  {}  {object}", function.name);
        write(&mut text, recording, node, &root, 1);
    }
    text
}

/// Adds a chain below its innermost function.
fn add(root: &mut Node, recording: &Recording, chain: u32, count: u64) {
    let mut node = root;
    for location in recording.chains.locations(chain) {
        let function = recording.locations[*location as usize].function;
        node = node.callers.entry(function).or_default();
        node.samples += count;
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
