//! How often verdicts were right on a host: equal things and things with a planted cost, compared many
//! times as `knee run --until-decided` does.

use records::HostFacts;
use schemars::JsonSchema;
use serde::Serialize;

use crate::selfcheck::{Limit, Promise, Proportion, Standing};

/// The comparisons of one workload with one planted cost.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HostCheckRow {
    /// The workload, with its work inside a lock if that is where the cost is planted.
    pub workload: String,
    /// The planted cost, as a share of an operation; 0 for equal things.
    pub planted: f64,
    /// Comparisons made.
    pub comparisons: usize,
    /// Those called changed, in either direction where nothing was planted, else slower.
    pub changed: usize,
    /// Those called the same.
    pub same: usize,
    /// Those called changed in the direction that is not there.
    pub wrong: usize,
    /// Those left open at the end.
    pub open: usize,
    /// Median of the estimated changes.
    pub estimate: Option<f64>,
    /// Mean number of blocks.
    pub blocks: f64,
    /// Blocks left out for what the host did.
    pub discarded: usize,
}

/// The results of all comparisons that check verdicts on a host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HostCheck {
    /// The host, its kernel and CPUs.
    pub host: HostFacts,
    /// Length of each run.
    pub seconds: f64,
    /// One for each workload and planted cost.
    pub rows: Vec<HostCheckRow>,
    /// What is promised, and what was found.
    pub figures: Vec<Promise>,
}

impl HostCheck {
    /// Holds the comparisons against what is promised.
    pub fn new(host: HostFacts, seconds: f64, rows: Vec<HostCheckRow>) -> HostCheck {
        let figures = PROMISES.iter().filter_map(|promise| figure(promise, &rows)).collect();
        HostCheck { host, seconds, rows, figures }
    }

    /// Whether a promise is broken, with confidence.
    pub fn missed(&self) -> bool {
        self.figures.iter().any(|figure| figure.standing == Standing::Missed)
    }
}

/// How often comparisons must, or may, call each planted cost changed.
const PROMISES: [(&str, f64, Limit); 3] = [
    ("no added cost: changed", 0.0, Limit::AtMost(0.05)),
    ("2 % added cost: found", 0.02, Limit::AtLeast(0.80)),
    ("5 % added cost: found", 0.05, Limit::AtLeast(0.99)),
];

/// A promise beside what was found; nothing if there was no such comparison.
fn figure((what, planted, limit): &(&str, f64, Limit), rows: &[HostCheckRow]) -> Option<Promise> {
    let rows = || rows.iter().filter(|row| row.planted == *planted);
    let made: usize = rows().map(|row| row.comparisons).sum();
    let changed: usize = rows().map(|row| row.changed).sum();
    let share = (made > 0).then(|| Proportion::new(changed as u32, made as u32))?;
    let what = format!("{what}, {changed} of {made}");
    Some(Promise::new(what, share.share, Some(share.interval), *limit))
}
