//! What a comparison says about the nodes whose runs one record joins.

use schemars::JsonSchema;
use serde::Serialize;

/// The nodes of a record that joins runs of several.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeSurvey {
    /// By name.
    pub nodes: Vec<ComparedNode>,
    /// Nodes whose level departs from that of the others. Blocks stay on one node, so this enters no verdict.
    pub odd: Vec<OddNode>,
    /// Contrasts in which a variant does not do the same on all nodes.
    pub disagreements: Vec<NodeDisagreement>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedNode {
    /// Name of the node.
    pub name: String,
    /// Number of its blocks that count, summed over cells.
    pub blocks: usize,
    /// How far its values lie from the mean of the nodes, as a share; the mean over cells.
    pub level: f64,
    /// Equal runs in one block there, if any block had them.
    pub equal_runs: Option<EqualRuns>,
}

/// The second of two equal runs in one block against the first: nothing, on a node that is fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EqualRuns {
    /// Number of pairs.
    pub pairs: usize,
    /// Median of the absolute change, as a share.
    pub median: f64,
    /// Mean change, as a share.
    pub change: f64,
    /// Interval of `change`; the intervals of all nodes hold together.
    pub interval: Option<(f64, f64)>,
}

/// A node whose level departs from that of the others.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OddNode {
    /// Index into the comparison's cells.
    pub cell: usize,
    /// Name of the node.
    pub node: String,
    /// Its level against the mean of the others, as a share.
    pub change: f64,
    /// Interval of `change`; the intervals of all nodes hold together.
    pub interval: (f64, f64),
    /// A node like the others would lie within plus or minus this, as a share.
    pub normal: f64,
    /// Probability that any node is as odd if all are normal, adjusted for nodes and cells.
    pub p: f64,
}

/// A contrast in which a variant does not do the same on all nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeDisagreement {
    /// Index into the comparison's cells.
    pub cell: usize,
    /// Index into the comparison's variants.
    pub variant: usize,
    /// The nodes that differ from the rest; empty where no rest agrees.
    pub nodes: Vec<NodeEffect>,
    /// What the variant does on all other nodes; where no rest agrees, the nodes with the least and the most.
    pub others: Vec<NodeEffect>,
    /// Probability of such a difference between nodes if there is none, adjusted for nodes and contrasts.
    pub p: f64,
    /// Whether there is no verdict because of this: one would hold on some nodes alone.
    pub withdrawn: bool,
}

/// What a variant does on some nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeEffect {
    /// Name of the node; empty for several.
    pub node: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// Mean change, as a share.
    pub change: f64,
    /// Interval of `change`, by Student's t; absent with one block.
    pub interval: Option<(f64, f64)>,
}
