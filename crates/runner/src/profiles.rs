//! Profiles between the runs of a block: which there are, and how they are kept.

use std::collections::BTreeMap;

use plan::schedule::Assignment;
use records::{Profile, ProfileJob, ProfileKind, Record, Run, Sample, Window};

/// A run, or a profile that explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// Which run of the block.
    pub assignment: Assignment,
    /// What is watched, if it is a profile.
    pub profile: Option<ProfileKind>,
}

impl Step {
    /// The step of a run.
    pub fn for_run(run: &Run) -> Step {
        let Run { block, placebo, repeat, .. } = *run;
        let assignment = Assignment { block, point: run.point as usize, placebo, repeat };
        Step { assignment, profile: None }
    }

    /// The step of a profile.
    pub fn for_profile(profile: &Profile) -> Step {
        let point = profile.point as usize;
        let assignment = Assignment { block: profile.block, point, placebo: false, repeat: 0 };
        Step { assignment, profile: Some(profile.kind) }
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
    pub unavailable_probes: BTreeMap<String, String>,
}

impl StepResult {
    /// The result as a profile.
    pub fn into_profile(self, kind: ProfileKind, number: u32) -> Profile {
        let StepResult { run, windows, unavailable_probes, .. } = self;
        let Run { point, block, started, outcome, warnings, .. } = run;
        Profile {
            number,
            kind,
            point,
            block,
            started,
            outcome,
            windows,
            unavailable_probes,
            warnings,
        }
    }
}

/// What a worker of the process `knee` does for a profile of this kind.
pub fn profile_job(record: &Record, kind: ProfileKind, knee: u32) -> ProfileJob {
    let explain = record.experiment.explain.clone().unwrap_or_default();
    // Only time is split by samples, and each costs.
    let hertz = if kind == ProfileKind::Time { explain.hertz } else { 0 };
    let functions = if kind == ProfileKind::Counts { explain.functions } else { Vec::new() };
    ProfileJob { kind, hertz, windows: explain.windows, knee, functions }
}
