//! Nodes of a record that joins runs of several: which are odd by their level, on which a variant does something
//! else, and how far equal runs differ on each. Only verdicts that hold on some nodes alone are withdrawn.

use std::collections::BTreeMap;

use records::Run;

use super::blocks::Block;
use super::cell::ComparedCell;
use super::columns::{finite, node_of};
use super::rules::{ALPHA, Rules};
use crate::comparison::{
    ComparedNode, Comparison, EqualRuns, NodeDisagreement, NodeEffect, NodeSurvey, OddNode, Verdict,
};
use crate::nodes::{Departure, disagreement, odd_levels};
use crate::{Spread, Student};

/// The probability that any node of a record is called odd by its level if all are normal. With
/// [`EFFECT_ALPHA`] it stays below 5 %: removing node by node costs a little for few nodes.
pub(crate) const LEVEL_ALPHA: f64 = 0.02;

/// The probability that a variant is said to do something else on any node if it does the same on all.
pub(crate) const EFFECT_ALPHA: f64 = 0.025;

/// Adds what there is to say about nodes, and withdraws verdicts that hold on some nodes alone.
pub(super) fn learn(comparison: &mut Comparison, cells: &[ComparedCell], rules: &Rules) {
    let by_node: Vec<CellByNode> =
        cells.iter().filter_map(|cell| CellByNode::new(cell, rules)).collect();
    let mut names: Vec<String> = by_node.iter().flat_map(|cell| cell.names()).collect();
    names.sort();
    names.dedup();
    if names.len() < 2 || by_node.len() < cells.len() {
        return;
    }
    let mut disagreements = Vec::new();
    let contrasts = (cells.len() * (comparison.variants.len() - 1)).max(1);
    for (cell, nodes) in by_node.iter().enumerate() {
        for variant in 1..comparison.variants.len() {
            let found = disagreement_of(nodes, cell, variant, contrasts, comparison);
            disagreements.extend(found);
        }
    }
    let odd =
        by_node.iter().enumerate().flat_map(|(cell, nodes)| odd_nodes(nodes, cell, cells.len()));
    let odd = odd.collect();
    let nodes = names.iter().map(|name| compared_node(name, &by_node, names.len())).collect();
    comparison.nodes = Some(NodeSurvey { nodes, odd, disagreements });
}

/// The blocks of one cell by node, on the scale of logarithms.
struct CellByNode {
    nodes: BTreeMap<String, NodeBlocks>,
}

/// The blocks of one cell on one node.
#[derive(Default)]
struct NodeBlocks {
    /// The baseline's values: what another variant does on a node is not the node's level.
    levels: Vec<f64>,
    /// For each variant but the first, its differences from the first.
    differences: Vec<Vec<f64>>,
    /// Differences of equal runs, the later from the earlier.
    equal: Vec<f64>,
}

impl CellByNode {
    /// `None` without blocks, and for values that have no logarithm.
    fn new(cell: &ComparedCell, rules: &Rules) -> Option<CellByNode> {
        let (record, metric) = (cell.points[0].0, cell.primary(rules));
        let arms = cell.points.len();
        let log = |run: &Run| finite(run, &metric).map(f64::ln).filter(|log| log.is_finite());
        let mut nodes: BTreeMap<String, NodeBlocks> = BTreeMap::new();
        for block in cell.blocks.as_ref()?.iter().filter(|block| block.reasons.is_empty()) {
            let Some(first) = block.runs.iter().flatten().next() else { continue };
            let node = node_of(record, first)?.to_string();
            let blocks = nodes.entry(node).or_default();
            blocks.differences.resize(arms.saturating_sub(1), Vec::new());
            blocks.add(block, log)?;
        }
        Some(CellByNode { nodes })
    }

    fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    fn name(&self, index: usize) -> String {
        self.nodes.keys().nth(index).cloned().unwrap_or_default()
    }

    fn differences(&self, variant: usize) -> Vec<Vec<f64>> {
        self.nodes.values().map(|blocks| blocks.differences[variant - 1].clone()).collect()
    }

    fn levels(&self) -> Vec<Vec<f64>> {
        self.nodes.values().map(|blocks| blocks.levels.clone()).collect()
    }
}

impl NodeBlocks {
    /// `None` if a value has no logarithm.
    fn add(&mut self, block: &Block, log: impl Fn(&Run) -> Option<f64>) -> Option<()> {
        let logs: Vec<Option<f64>> = block.runs.iter().map(|run| run.and_then(&log)).collect();
        let unknown = block.runs.iter().zip(&logs).any(|(run, log)| run.is_some() && log.is_none());
        if unknown {
            return None;
        }
        self.levels.extend(logs[0]);
        for (differences, variant) in self.differences.iter_mut().zip(&logs[1..]) {
            differences.extend(logs[0].zip(*variant).map(|(first, other)| other - first));
        }
        if let Some((arm, twin)) = block.placebo {
            self.equal.extend(logs[arm].zip(log(twin)).map(|(first, second)| second - first));
        }
        Some(())
    }
}

fn odd_nodes(nodes: &CellByNode, cell: usize, cells: usize) -> Vec<OddNode> {
    let odd = |departure: Departure| OddNode {
        cell,
        node: nodes.name(departure.node),
        change: departure.distance.exp_m1(),
        interval: (departure.interval.0.exp_m1(), departure.interval.1.exp_m1()),
        normal: departure.normal.exp_m1(),
        p: (departure.p * cells as f64).min(1.0),
    };
    odd_levels(&nodes.levels(), LEVEL_ALPHA / cells as f64).into_iter().map(odd).collect()
}

/// Where a variant does not do the same on all nodes. Withdraws its verdict if that holds on some alone.
fn disagreement_of(
    nodes: &CellByNode,
    cell: usize,
    variant: usize,
    contrasts: usize,
    comparison: &mut Comparison,
) -> Option<NodeDisagreement> {
    let differences = nodes.differences(variant);
    let margin = comparison.smallest_effect.ln_1p();
    let found = disagreement(&differences, EFFECT_ALPHA / contrasts as f64, margin)?;
    let effect = |index: &usize| effect(nodes.name(*index), 1, &differences[*index]);
    let mut present: Vec<usize> =
        (0..differences.len()).filter(|node| !differences[*node].is_empty()).collect();
    let named: Vec<usize> = found.departures.iter().map(|departure| departure.node).collect();
    let others = if named.is_empty() {
        present.sort_by(|a, b| mean(&differences[*a]).total_cmp(&mean(&differences[*b])));
        [present.first(), present.last()].into_iter().flatten().map(effect).collect()
    } else {
        present.retain(|node| !named.contains(node));
        let rest: Vec<f64> = present.iter().flat_map(|node| &differences[*node]).copied().collect();
        let name = if let [one] = present[..] { nodes.name(one) } else { String::new() };
        vec![self::effect(name, present.len(), &rest)]
    };
    let mut disagreement = NodeDisagreement {
        cell,
        variant,
        nodes: named.iter().map(effect).collect(),
        others,
        p: (found.p * contrasts as f64).min(1.0),
        withdrawn: false,
    };
    let effects = disagreement.nodes.iter().chain(&disagreement.others);
    let changes: Vec<f64> = effects.map(|effect| effect.change).collect();
    disagreement.withdrawn = withdraw(comparison, cell, variant, &changes);
    Some(disagreement)
}

fn effect(node: String, nodes: usize, differences: &[f64]) -> NodeEffect {
    let interval = Student::paired(differences).and_then(|student| student.interval(ALPHA));
    NodeEffect {
        node,
        nodes,
        blocks: differences.len(),
        change: mean(differences).exp_m1(),
        interval: interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
    }
}

/// Withdraws a verdict unless it is a change that all nodes show alike, by more than what matters. Returns
/// whether there is none because of the nodes; more blocks would not help then.
fn withdraw(comparison: &mut Comparison, cell: usize, variant: usize, changes: &[f64]) -> bool {
    let least = comparison.smallest_effect;
    let all_alike = changes.iter().all(|c| *c >= least) || changes.iter().all(|c| *c <= -least);
    let Some(metric) = comparison.cells[cell].metrics.first_mut() else { return false };
    let contrast = &mut metric.contrasts[variant - 1];
    let stands = match contrast.verdict {
        Verdict::Same | Verdict::CannotTell { .. } => false,
        Verdict::NotInterleaved | Verdict::Unjudged { .. } => true,
        _ => all_alike,
    };
    if stands {
        return false;
    }
    let why = "the variant does not do the same on all nodes, and an average would hide it";
    contrast.verdict = Verdict::CannotTell { more: None, why: why.to_string() };
    contrast.p = None;
    // A band says where curves diverge, which would be a verdict.
    comparison.curves.retain(|curve| !curve.cells.contains(&cell));
    true
}

fn compared_node(name: &str, cells: &[CellByNode], nodes: usize) -> ComparedNode {
    let own = || cells.iter().filter_map(|cell| cell.nodes.get(name));
    let level = |cell: &CellByNode| {
        let levels = cell.nodes.values().filter(|blocks| !blocks.levels.is_empty());
        let all: Vec<f64> = levels.map(|blocks| mean(&blocks.levels)).collect();
        let own = cell.nodes.get(name).filter(|blocks| !blocks.levels.is_empty())?;
        Some(mean(&own.levels) - mean(&all))
    };
    let levels: Vec<f64> = cells.iter().filter_map(level).collect();
    let equal: Vec<f64> = own().flat_map(|blocks| &blocks.equal).copied().collect();
    ComparedNode {
        name: name.to_string(),
        blocks: own().map(|blocks| blocks.levels.len()).sum(),
        level: if levels.is_empty() { 0.0 } else { mean(&levels).exp_m1() },
        equal_runs: equal_runs(&equal, nodes),
    }
}

fn equal_runs(differences: &[f64], nodes: usize) -> Option<EqualRuns> {
    let far: Vec<f64> = differences.iter().map(|d| d.exp_m1().abs()).collect();
    let median = Spread::from_values(&far)?.median;
    let student = Student::paired(differences);
    let interval = student.and_then(|student| student.interval(ALPHA / nodes as f64));
    Some(EqualRuns {
        pairs: differences.len(),
        median,
        change: mean(differences).exp_m1(),
        interval: interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
