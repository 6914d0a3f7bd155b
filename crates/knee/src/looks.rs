//! Looks between the runs of a block: which there are, and what becomes of them.

use std::collections::BTreeMap;

use records::{Look, LookKind, Record, Run, Sample, Watch, Window};

use crate::schedule::Assignment;

/// A run, or a look that explains it.
pub type Step = (Assignment, Option<LookKind>);

/// What came of a step.
pub struct Executed {
    /// The run.
    pub run: Run,
    /// Its raw values.
    pub samples: Vec<Sample>,
    /// What was seen of it.
    pub windows: Vec<Window>,
    /// Probes that could not see, and why.
    pub blind: BTreeMap<String, String>,
}

impl Executed {
    /// As a look.
    pub fn look(self, kind: LookKind, look: u32) -> Look {
        let Executed { run, windows, blind, .. } = self;
        let Run { point, block, started, outcome, warnings, .. } = run;
        Look { look, kind, point, block, started, outcome, windows, blind, warnings }
    }
}

/// The step that a look was.
pub fn step(look: &Look) -> Step {
    let assignment =
        Assignment { block: look.block, point: look.point as usize, placebo: false, repeat: 0 };
    (assignment, Some(look.kind))
}

/// What a look of this kind watches, from a worker of the process `knee`.
pub fn watch(record: &Record, kind: LookKind, knee: u32) -> Watch {
    let explain = record.experiment.explain.clone().unwrap_or_default();
    // Only time is split by samples, and each costs.
    let hertz = if kind == LookKind::Time { explain.hertz } else { 0 };
    let functions = if kind == LookKind::Counts { explain.functions } else { Vec::new() };
    Watch { kind, hertz, windows: explain.windows, knee, functions }
}
