//! The rules of a comparison: which metric decides, and how much evidence a verdict needs.

use std::collections::BTreeSet;

use records::{Opened, Record};

use crate::comparison::Design;
use crate::judge::Rule;

/// The probability of finding a change where there is none, for all variants of a cell together, unless the record has a
/// gate's.
pub const ALPHA: f64 = 0.05;

/// What the user may set for one comparison.
#[derive(Debug, Default)]
pub struct CompareOptions {
    /// The metric that decides; by default the experiment's.
    pub primary: Option<String>,
    /// Metrics to show besides those of the metric list that were measured.
    pub metrics: Vec<String>,
    /// The smallest change that matters; by default the experiment's.
    pub smallest_effect: Option<f64>,
    /// Compare even if workload versions or parameters differ, and judge times of emulated
    /// guests.
    pub force: bool,
    /// Earlier records of this host, which show how far it drifts.
    pub past: Vec<Opened>,
}

/// The rules that hold for all cells of a comparison.
pub(super) struct Rules {
    /// The metric that decides.
    pub primary: String,
    /// Metrics that the user asked for by name.
    pub asked: Vec<String>,
    pub smallest_effect: f64,
    /// The probability of finding a change where there is none, for all variants of a cell together.
    pub alpha: f64,
    /// Whether a cell is left alone once no change for the worse that matters is likely.
    pub spares_harmless: bool,
    /// How the runs were laid out.
    pub design: Design,
    /// The largest number of blocks.
    pub cap: u32,
    /// Whether the unit of replication is a boot, of the host or of guests.
    pub by_boot: bool,
    /// Whether times of emulated guests are judged like any others.
    pub judge_emulated: bool,
}

impl Rules {
    /// The rules that a record's own experiment sets for its variants.
    pub fn for_record(record: &Record) -> Rules {
        let judging = &record.experiment.compare;
        Rules {
            primary: judging.metric.clone(),
            asked: Vec::new(),
            smallest_effect: judging.smallest_effect,
            alpha: judging.gate.map_or(ALPHA, |gate| gate.alpha / cells(record) as f64),
            spares_harmless: judging.gate.is_some(),
            design: Design::Blocks { sequential: judging.until_decided },
            cap: record.experiment.blocks(),
            by_boot: false,
            judge_emulated: false,
        }
    }

    /// These rules, with what the user has set instead.
    pub fn with_options(self, options: &CompareOptions) -> Rules {
        Rules {
            primary: options.primary.clone().unwrap_or(self.primary),
            asked: options.metrics.clone(),
            smallest_effect: options.smallest_effect.unwrap_or(self.smallest_effect),
            judge_emulated: options.force,
            ..self
        }
    }

    /// Whether blocks go on until decided, with looks after fixed numbers of blocks.
    pub fn sequential(&self) -> bool {
        self.design == Design::Blocks { sequential: true }
    }

    /// The rule for one column of numbers.
    pub fn rule(&self, alpha: f64, margin: f64) -> Rule {
        Rule { alpha, margin, sequential: self.sequential(), cap: self.cap }
    }
}

/// The number of cells of a record.
fn cells(record: &Record) -> usize {
    let cells: BTreeSet<Option<u32>> = record.points.iter().map(|point| point.cell).collect();
    cells.len().max(1)
}
