//! Profiles between the runs of a block: which there are, and how they are kept.

use std::collections::BTreeMap;

use plan::schedule::Assignment;
use records::{Look, LookKind, Record, Run, Sample, Watch, Window};

/// A run, or a profile that explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Which run of the block.
    pub assignment: Assignment,
    /// What is watched, if it is a profile.
    pub profile: Option<LookKind>,
}

impl Step {
    /// The step of a run.
    pub fn for_run(run: &Run) -> Step {
        let Run { block, placebo, repeat, .. } = *run;
        let assignment = Assignment { block, point: run.point as usize, placebo, repeat };
        Step { assignment, profile: None }
    }

    /// The step of a profile.
    pub fn for_profile(look: &Look) -> Step {
        let point = look.point as usize;
        let assignment = Assignment { block: look.block, point, placebo: false, repeat: 0 };
        Step { assignment, profile: Some(look.kind) }
    }
}

/// The result of a step.
pub struct StepResult {
    /// The run.
    pub run: Run,
    /// Its raw values.
    pub samples: Vec<Sample>,
    /// What the probes saw of it.
    pub windows: Vec<Window>,
    /// Probes that could not see, and why.
    pub blind: BTreeMap<String, String>,
}

impl StepResult {
    /// The result as a profile.
    pub fn into_profile(self, kind: LookKind, look: u32) -> Look {
        let StepResult { run, windows, blind, .. } = self;
        let Run { point, block, started, outcome, warnings, .. } = run;
        Look { look, kind, point, block, started, outcome, windows, blind, warnings }
    }
}

/// What a profile of this kind watches, from a worker of the process `knee`.
pub fn watch(record: &Record, kind: LookKind, knee: u32) -> Watch {
    let explain = record.experiment.explain.clone().unwrap_or_default();
    // Only time is split by samples, and each costs.
    let hertz = if kind == LookKind::Time { explain.hertz } else { 0 };
    let functions = if kind == LookKind::Counts { explain.functions } else { Vec::new() };
    Watch { kind, hertz, windows: explain.windows, knee, functions }
}
