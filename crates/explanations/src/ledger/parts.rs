//! What a page shows of a ledger: the answer, its causes, and the rows as a tree with a value for each side.

use text::table::Table;

use crate::ledger::numbers::Unit;
use crate::recording::FlameGraph;

/// What a ledger, or another view of a profile, says. All texts are sentences without line breaks.
#[derive(Default)]
pub struct LedgerPart {
    pub title: String,
    /// Where the time goes, or what changed, in a sentence.
    pub answer: String,
    /// Causes and what they rest on, a paragraph each.
    pub causes: Vec<String>,
    pub tree: Option<LedgerTree>,
    /// Tables with their captions.
    pub tables: Vec<(String, Table)>,
    /// How far to trust it.
    pub notes: Vec<String>,
    /// The stacks of the workload's own CPU time, which those who have the samples add.
    pub flame: Option<FlameGraph>,
}

/// Rows that add up to their parents, with a value for each side or CPU count.
pub struct LedgerTree {
    /// What is divided: "time per operation, ns".
    pub heading: String,
    /// The names of the values.
    pub columns: Vec<String>,
    /// The names of what is known of each row beside its values.
    pub details: Vec<String>,
    pub root: LedgerNode,
}

/// A row of a ledger.
pub struct LedgerNode {
    pub name: String,
    /// Time per operation in ns, for each column.
    pub ns: Vec<f64>,
    /// The values as text, for each column.
    pub values: Vec<String>,
    /// For each of the tree's details; may be empty.
    pub details: Vec<String>,
    /// What made the change, between two columns.
    pub change: Option<NodeChange>,
    /// Whether its rows are left out unless the reader asks for them.
    pub is_folded: bool,
    pub rows: Vec<LedgerNode>,
}

/// What made the change of a row.
#[derive(Clone, Copy)]
pub struct NodeChange {
    /// Half the width of the change's 95 % interval, where it is known.
    pub half_ns: Option<f64>,
    /// The parts by count and by cost, which add up to the change; absent where events were not counted.
    pub parts_ns: Option<(f64, f64)>,
}

impl LedgerTree {
    /// A tree with these names of values and details.
    pub fn new<const N: usize>(
        heading: String,
        columns: Vec<String>,
        details: [&str; N],
        root: LedgerNode,
    ) -> LedgerTree {
        LedgerTree { heading, columns, details: details.map(str::to_string).into(), root }
    }
}

impl LedgerPart {
    /// Shows all rows, also those that were put together.
    pub fn unfold(&mut self) {
        self.tree.iter_mut().for_each(|tree| tree.root.unfold());
    }
}

impl LedgerNode {
    fn unfold(&mut self) {
        self.is_folded = false;
        self.rows.iter_mut().for_each(LedgerNode::unfold);
    }

    /// A row with its values in a unit, without rows below it.
    pub fn leaf(name: String, ns: Vec<f64>, unit: Unit, details: Vec<String>) -> LedgerNode {
        let values = ns.iter().map(|ns| unit.text(*ns)).collect();
        LedgerNode { name, values, ns, details, change: None, is_folded: false, rows: Vec::new() }
    }
}
