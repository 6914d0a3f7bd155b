//! Nodes that stand out among those that measured one experiment: by their level, and by what a variant
//! does there. Two questions, two measures of what is normal:
//!
//!     level     Nodes that look alike still differ. A node is odd if it lies farther from the others than these
//!               lie from each other: leave-one-out t, repeated without the node that stands out most (generalized
//!               extreme studentized deviate), so that two odd nodes do not hide each other.
//!     effect    On nodes that are alike, a variant does the same. A node stands out if its differences lie
//!               farther from those of the others than differences vary from block to block.
//!
//! Both hold their error probability for all nodes together; normality is assumed. Source: B. Rosner, "Percentage
//! Points for a Generalized ESD Many-Outlier Procedure", Technometrics 25, 1983.

use crate::student::{Student, quantile};

/// A node that stands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// Index of the node.
    pub node: usize,
    /// How far its mean lies from that of the nodes that do not stand out.
    pub distance: f64,
    /// Interval of `distance`; all such intervals hold together.
    pub interval: (f64, f64),
    /// A node like the others would lie within plus or minus this; 0 where nodes should be equal.
    pub normal: f64,
    /// Probability that any node lies this far out if none is odd.
    pub p: f64,
}

/// What a variant does on nodes, where it does not do the same on all.
#[derive(Clone, Debug, PartialEq)]
pub struct Disagreement {
    /// The nodes that differ from the rest; empty where no rest agrees.
    pub departures: Vec<Departure>,
    /// Probability of such a node if the variant does the same on all.
    pub p: f64,
}

/// At most this share of the nodes is odd; if more stand out, there is no rest to depart from.
const ODD_SHARE: f64 = 1.0 / 3.0;

/// The nodes whose level is odd, the farthest first. `levels` has the levels of each node's blocks. `alpha`
/// is the probability that any node is named if none is odd. Needs three nodes: of two, either may be odd.
pub fn odd_levels(levels: &[Vec<f64>], alpha: f64) -> Vec<Departure> {
    let nodes = weighted(levels);
    let mut rest: Vec<NodeLevel> = nodes.clone();
    let (mut removed, mut named, mut p_named) = (Vec::new(), 0, Vec::new());
    for step in 1..=most_odd(nodes.len()) {
        let Some((farthest, p)) = farthest_level(&rest) else { break };
        removed.push(rest.remove(farthest));
        p_named.push(p);
        if p <= alpha {
            named = step;
        }
    }
    rest.extend(removed.split_off(named));
    // A node that another hid is as improbable as what was seen once the other was out of the way.
    let p = |step: usize| p_named[step..named].iter().copied().fold(1.0, f64::min);
    let named = removed.iter().enumerate();
    named.filter_map(|(step, node)| level_departure(node, &rest, p(step), alpha)).collect()
}

/// Where the variant does not do the same on all nodes. `differences` has those of each node's blocks; a node
/// counts only if it lies farther than `margin` from the others. `None` if none does, or if no node has two
/// blocks.
pub fn disagreement(differences: &[Vec<f64>], alpha: f64, margin: f64) -> Option<Disagreement> {
    let effects = NodeEffects::new(differences)?;
    let mut rest: Vec<usize> = (0..differences.len()).filter(|n| effects.count(*n) > 0.0).collect();
    let (all, mut named) = (rest.len(), Vec::new());
    let mut p_first = None;
    while rest.len() >= 2 {
        let Some((farthest, p)) = effects.farthest(&rest) else { break };
        let far = effects.difference(rest[farthest], &rest)?.estimate.abs();
        if p > alpha || far <= margin {
            break;
        }
        p_first = p_first.or(Some(p));
        named.push((rest.remove(farthest), p));
    }
    let p = p_first?;
    let departure = |&(node, p): &(usize, f64)| {
        let student = effects.difference(node, &rest)?;
        let interval = student.interval(alpha / all as f64)?;
        Some(Departure { node, distance: student.estimate, interval, normal: 0.0, p })
    };
    let has_rest = all > 2 && named.len() <= most_odd(all);
    let departures = named.iter().filter(|_| has_rest).filter_map(departure).collect();
    Some(Disagreement { departures, p })
}

/// How many of so many nodes may be odd.
fn most_odd(nodes: usize) -> usize {
    if nodes < 3 { 0 } else { ((nodes as f64 * ODD_SHARE) as usize).max(1) }
}

/// The level of one node: the mean of its blocks, and how much it weighs among the nodes.
#[derive(Clone, Copy)]
struct NodeLevel {
    node: usize,
    mean: f64,
    weight: f64,
    /// Variance of the mean by its blocks alone, if blocks were repeated.
    own_variance: f64,
}

/// The nodes with a level. A node with fewer blocks is less sure of its mean, and weighs less: by the variance
/// between nodes and that of its mean.
fn weighted(levels: &[Vec<f64>]) -> Vec<NodeLevel> {
    let present = || levels.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty());
    let variance = within(levels).map_or(0.0, |(variance, _)| variance);
    let own = |blocks: &[f64]| variance / blocks.len() as f64;
    let means: Vec<f64> = present().map(|(_, blocks)| mean(blocks)).collect();
    let n = means.len() as f64;
    let middle = mean(&means);
    let between = means.iter().map(|m| (m - middle).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let average_own = present().map(|(_, blocks)| own(blocks)).sum::<f64>() / n.max(1.0);
    let between = (between - average_own).max(0.0);
    let level = |((node, blocks), mean): ((usize, &Vec<f64>), &f64)| {
        let whole = between + own(blocks);
        let weight = if whole > 0.0 { 1.0 / whole } else { 1.0 };
        NodeLevel { node, mean: *mean, weight, own_variance: own(blocks) }
    };
    present().zip(&means).map(level).collect()
}

/// The node farthest from all others, and the probability that any of these nodes lies as far out.
fn farthest_level(nodes: &[NodeLevel]) -> Option<(usize, f64)> {
    let others = |node: usize| -> Vec<NodeLevel> {
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != node);
        others.map(|(_, node)| *node).collect()
    };
    let distance = |node: usize| Center::new(&others(node))?.distance_of(&nodes[node]);
    let distances = (0..nodes.len()).filter_map(|node| Some((node, distance(node)?)));
    let ratio = |student: &Student| (student.estimate / student.error).abs();
    let (node, far) = distances.max_by(|(_, a), (_, b)| ratio(a).total_cmp(&ratio(b)))?;
    Some((node, (far.p() * nodes.len() as f64).min(1.0)))
}

/// The middle of some nodes, and how far they scatter.
struct Center {
    mean: f64,
    weight: f64,
    /// Variance of a node of weight 1.
    variance: f64,
    freedom: f64,
}

impl Center {
    /// `None` for fewer than two nodes.
    fn new(nodes: &[NodeLevel]) -> Option<Center> {
        let freedom = nodes.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
        let weight: f64 = nodes.iter().map(|node| node.weight).sum();
        let mean = nodes.iter().map(|node| node.weight * node.mean).sum::<f64>() / weight;
        let squares: f64 = nodes.iter().map(|n| n.weight * (n.mean - mean).powi(2)).sum();
        Some(Center { mean, weight, variance: squares / freedom, freedom })
    }

    /// How far one more node lies from the middle, with the error of a node like these.
    fn distance_of(&self, node: &NodeLevel) -> Option<Student> {
        let error = (self.variance * (1.0 / node.weight + 1.0 / self.weight)).sqrt();
        Student { estimate: node.mean - self.mean, error, freedom: self.freedom }.checked()
    }
}

/// How far a node that stands out lies from the rest. Its own mean is as sure as its blocks make it.
fn level_departure(node: &NodeLevel, rest: &[NodeLevel], p: f64, alpha: f64) -> Option<Departure> {
    let center = Center::new(rest)?;
    let distance = center.distance_of(node)?;
    let each = alpha / (rest.len() + 1) as f64;
    let error = (node.own_variance + center.variance / center.weight).sqrt();
    let interval = Student { error, ..distance }.checked()?.interval(each)?;
    let normal = quantile(center.freedom, each)? * distance.error;
    Some(Departure { node: node.node, distance: distance.estimate, interval, normal, p })
}

/// Differences by node, and how far they vary from block to block within a node.
struct NodeEffects<'a> {
    differences: &'a [Vec<f64>],
    variance: f64,
    freedom: f64,
}

impl<'a> NodeEffects<'a> {
    fn new(differences: &'a [Vec<f64>]) -> Option<NodeEffects<'a>> {
        let (variance, freedom) = within(differences)?;
        Some(NodeEffects { differences, variance, freedom })
    }

    fn count(&self, node: usize) -> f64 {
        self.differences[node].len() as f64
    }

    /// The node of `nodes` that stands out most, as an index into it, and the probability that any does so.
    fn farthest(&self, nodes: &[usize]) -> Option<(usize, f64)> {
        let p = |index: usize| Some(self.difference(nodes[index], nodes)?.p());
        let ranked = (0..nodes.len()).filter_map(|index| Some((index, p(index)?)));
        // Far out, p underflows to 0 for several: the ratio still tells which is farthest.
        let ratio = |index: usize| {
            let student = self.difference(nodes[index], nodes);
            student.map_or(0.0, |s| -(s.estimate / s.error).abs())
        };
        let (index, p) =
            ranked.min_by(|a, b| a.1.total_cmp(&b.1).then(ratio(a.0).total_cmp(&ratio(b.0))))?;
        Some((index, (p * nodes.len() as f64).min(1.0)))
    }

    /// The mean of a node minus that of the others among `nodes`.
    fn difference(&self, node: usize, nodes: &[usize]) -> Option<Student> {
        let others = || nodes.iter().filter(|other| **other != node);
        let n: f64 = others().map(|other| self.count(*other)).sum();
        let sum: f64 = others().flat_map(|other| &self.differences[*other]).sum();
        // A node whose own blocks scatter more is less sure of its mean than others of theirs.
        let own = spread(&self.differences[node]).unwrap_or(0.0).max(self.variance);
        let error = (own / self.count(node) + self.variance / n).sqrt();
        let estimate = mean(&self.differences[node]) - sum / n;
        Student { estimate, error, freedom: self.freedom }.checked()
    }
}

/// The variance of values within their groups, and its degrees of freedom. `None` without repetition, and for
/// values that do not vary.
fn within(groups: &[Vec<f64>]) -> Option<(f64, f64)> {
    let squares = |group: &Vec<f64>| group.iter().map(|v| (v - mean(group)).powi(2)).sum::<f64>();
    let freedom: f64 = groups.iter().map(|group| group.len().saturating_sub(1) as f64).sum();
    let variance = groups.iter().map(squares).sum::<f64>() / freedom;
    (freedom > 0.0 && variance > 0.0 && variance.is_finite()).then_some((variance, freedom))
}

fn spread(values: &[f64]) -> Option<f64> {
    within(&[values.to_vec()]).map(|(variance, _)| variance)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
