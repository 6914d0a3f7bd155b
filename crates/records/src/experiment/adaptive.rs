//! A search for the knees of curves: CPU counts are chosen while measuring, those first that tell most.

use anyhow::{Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Experiment, Judging, PointOrder};

/// When a search for knees ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adaptive {
    /// Seconds that all runs may take together, with what is around them.
    pub budget_s: f64,
    /// The interval of a knee may reach this share to either side: 0.1 is 10 %.
    pub knee_within: f64,
}

impl Default for Adaptive {
    fn default() -> Adaptive {
        Adaptive { budget_s: 600.0, knee_within: 0.1 }
    }
}

impl Adaptive {
    /// Refuses what a search for the knee of one curve cannot hold.
    pub fn check(&self, experiment: &Experiment) -> Result<()> {
        let Adaptive { budget_s, knee_within } = self;
        ensure!(*budget_s > 0.0 && *budget_s < 1e9, "budget_s is {budget_s}, must be above 0 s");
        ensure!(
            *knee_within > 0.0 && *knee_within < 1.0,
            "knee_within is {knee_within}, must be a share such as 0.1"
        );
        let loads = &experiment.loads;
        let axes = || loads.iter().map(|load| &load.axes).chain([&experiment.axes]);
        ensure!(
            axes().all(|axes| axes.cpus.is_none()),
            "a search chooses the CPU counts itself: leave cpus out"
        );
        ensure!(
            axes().all(|axes| axes.tasks.is_none() && axes.tasks_per_cpu.is_none()),
            "a search is for curves of one task a CPU: leave tasks and tasks_per_cpu out"
        );
        ensure!(
            experiment.variants.len() < 2,
            "a search is for the knee of each curve by itself: compare variants at CPU counts that you \
             name (--cpus 1..all)"
        );
        ensure!(
            loads.iter().all(|load| {
                load.command().is_none()
                    && load.workload().is_none_or(|name| !name.starts_with("command:"))
            }),
            "a search is for workloads of knee: give the CPU counts of commands (--cpus 1..all)"
        );
        ensure!(
            !experiment.latency && experiment.explain.is_none(),
            "a search measures rates alone: add latencies and profiles at the CPU counts that it finds"
        );
        ensure!(
            experiment.compare.order != PointOrder::UpDown,
            "the blocks of a search are in random order: leave up_down out"
        );
        ensure!(
            experiment.compare.metric == Judging::default().metric,
            "a search is for the knee of operations_per_s: leave the metric out"
        );
        Ok(())
    }
}
