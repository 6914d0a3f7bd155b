//! Call stacks as a tree with the CPU time per operation in each, for flame graphs and their differences.

use std::collections::BTreeMap;

use records::recording::Recording;
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::recording::NamedRecording;

/// Stacks below this share of the largest total are left to their callers.
const SHOWN_SHARE: f64 = 5e-4;
/// Functions in the table beside the graph.
const FUNCTIONS_MAX: usize = 20;
/// Frames of a stack that are kept, from the outermost on.
const DEPTH_MAX: usize = 64;

/// Stacks of the same load in one or several recordings.
pub struct FlameGraph {
    /// The names of the recordings: variants, or CPU counts.
    pub columns: Vec<String>,
    /// How many samples each rests on.
    pub samples: Vec<u64>,
    pub root: FlameNode,
    /// Functions by their own time.
    pub functions: Table,
}

/// A function with the callers that led to it.
pub struct FlameNode {
    pub name: String,
    /// CPU time per operation in it and in what it calls, for each column.
    pub ns: Vec<f64>,
    /// What it calls, by name.
    pub nodes: Vec<FlameNode>,
}

/// The graph; `None` where no recording has samples of a clock and a number of operations.
pub fn flame(named: &[NamedRecording]) -> Option<FlameGraph> {
    let is_known = |one: &NamedRecording| {
        one.recording.event.is_clock && one.operations.is_some_and(|operations| operations > 0)
    };
    let samples: Vec<u64> = named.iter().map(|one| one.recording.samples.len() as u64).collect();
    if named.is_empty() || !named.iter().all(is_known) || samples.iter().all(|n| *n == 0) {
        return None;
    }
    let mut root = Growing::default();
    for (column, one) in named.iter().enumerate() {
        add(&mut root, one, column, named.len());
    }
    let least = SHOWN_SHARE * root.ns.iter().copied().fold(0.0, f64::max);
    let columns: Vec<String> = named.iter().map(|one| one.name.to_string()).collect();
    let functions = functions(named, &columns);
    Some(FlameGraph { columns, samples, root: root.node("all".to_string(), least), functions })
}

/// A node while stacks are added.
#[derive(Default)]
struct Growing {
    ns: Vec<f64>,
    calls: BTreeMap<String, Growing>,
}

impl Growing {
    fn add(&mut self, column: usize, columns: usize, ns: f64) {
        self.ns.resize(columns, 0.0);
        self.ns[column] += ns;
    }

    fn node(self, name: String, least: f64) -> FlameNode {
        let is_shown = |node: &Growing| node.ns.iter().any(|ns| *ns >= least);
        let calls = self.calls.into_iter().filter(|(_, node)| is_shown(node));
        let nodes = calls.map(|(name, node)| node.node(name, least)).collect();
        FlameNode { name, ns: self.ns, nodes }
    }
}

/// Adds all stacks of a recording. Equal ones are added up first: there are many samples and few chains.
fn add(root: &mut Growing, named: &NamedRecording, column: usize, columns: usize) {
    let recording = named.recording;
    let operations = named.operations.unwrap_or(1).max(1) as f64;
    for (chain, period) in periods(recording).into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
        let ns = period as f64 / operations;
        let mut node = &mut *root;
        node.add(column, columns, ns);
        let locations = recording.chains.locations(chain as u32);
        for location in locations.iter().rev().take(DEPTH_MAX) {
            let name = &recording.function(*location).name;
            // Most names are there already.
            if !node.calls.contains_key(name) {
                node.calls.insert(name.clone(), Growing::default());
            }
            node = node.calls.get_mut(name).expect("it is there now");
            node.add(column, columns, ns);
        }
    }
}

/// The time of each chain.
fn periods(recording: &Recording) -> Vec<u64> {
    let mut periods = vec![0; recording.chains.len()];
    recording.samples.iter().for_each(|sample| periods[sample.chain as usize] += sample.period);
    periods
}

/// Functions by their own time: those that changed most if there are several columns, else the largest.
fn functions(named: &[NamedRecording], columns: &[String]) -> Table {
    let mut own: BTreeMap<String, Vec<(f64, u64)>> = BTreeMap::new();
    for (column, one) in named.iter().enumerate() {
        let recording = one.recording;
        let operations = one.operations.unwrap_or(1).max(1) as f64;
        for sample in &recording.samples {
            let Some(leaf) = recording.chains.locations(sample.chain).first() else { continue };
            let name = &recording.function(*leaf).name;
            if !own.contains_key(name) {
                own.insert(name.clone(), vec![(0.0, 0); named.len()]);
            }
            let (ns, n) = &mut own.get_mut(name).expect("it is there now")[column];
            *ns += sample.period as f64 / operations;
            *n += 1;
        }
    }
    let change = |values: &[(f64, u64)]| values[values.len() - 1].0 - values[0].0;
    let rank = |values: &[(f64, u64)]| match values.len() {
        1 => values[0].0,
        _ => change(values).abs(),
    };
    let mut rows: Vec<(String, Vec<(f64, u64)>)> = own.into_iter().collect();
    rows.sort_by(|a, b| rank(&b.1).total_cmp(&rank(&a.1)));
    rows.truncate(FUNCTIONS_MAX);
    let last = if columns.len() > 1 { "change" } else { "samples" };
    let head = columns.iter().map(|name| (name.clone(), Align::Right));
    let first = [("function".to_string(), Align::Left)].into_iter();
    let mut table = Table::new(first.chain(head).chain([(last.to_string(), Align::Right)]));
    for (name, values) in rows {
        let cells = values.iter().map(|value| with_error(*value));
        let last = match values.len() {
            1 => values[0].1.to_string(),
            _ => signed(change(&values)),
        };
        table.row([name].into_iter().chain(cells).chain([last]).collect());
    }
    table
}

/// "1.2 us ± 0.1 us": the time, and how far chance moves it when `n` samples fall on a function.
fn with_error((ns, n): (f64, u64)) -> String {
    if n == 0 {
        return "-".to_string();
    }
    let half = 1.96 * ns / (n as f64).sqrt();
    format!("{} ± {}", duration_ns(ns), duration_ns(half))
}

fn signed(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { '-' } else { '+' }, duration_ns(ns.abs()))
}
