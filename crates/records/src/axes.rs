//! The axes of an experiment or a load: values whose combinations are the points.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use host::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar::{Many, Scalar};
use crate::tasks::{Form, Until};

/// Values whose combinations are the points. An absent axis has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axes {
    /// Numbers of CPUs: `"1..all"` (doubling, plus the edges of the topology), `"1-8"`
    /// (each), `4`, `"cores"`, `"all"`. Default `"1..all"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Many<Scalar>>,
    /// Numbers of tasks, independent of the CPUs; points with fewer tasks than CPUs are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Many<u32>>,
    /// Tasks per CPU. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_per_cpu: Option<Many<u32>>,
    /// Processes or threads. Default processes.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub forms: Option<Many<Form>>,
    /// Which CPUs first. Default `cores`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Many<Placement>>,
    /// Directories whose file system is measured. Default: the temporary directory, or for workloads
    /// whose rate depends on files deleted there before, a tmpfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<Many<PathBuf>>,
    /// Length of a run in seconds. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Many<f64>>,
    /// Number of operations of each task, instead of `seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_task: Option<Many<u64>>,
}

impl Axes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Axes::default()
    }

    pub(crate) fn check(&self) -> Result<()> {
        let lengths = [
            ("cpus", length(&self.cpus)),
            ("tasks", length(&self.tasks)),
            ("tasks_per_cpu", length(&self.tasks_per_cpu)),
            ("as", length(&self.forms)),
            ("placement", length(&self.placement)),
            ("dir", length(&self.dir)),
            ("seconds", length(&self.seconds)),
            ("operations_per_task", length(&self.operations_per_task)),
        ];
        for (name, length) in lengths {
            ensure!(length != Some(0), "{name} is an empty list: leave it out for the default");
        }
        ensure!(
            self.tasks.is_none() || self.tasks_per_cpu.is_none(),
            "tasks and tasks_per_cpu exclude each other: give one"
        );
        ensure!(
            self.seconds.is_none() || self.operations_per_task.is_none(),
            "seconds and operations_per_task exclude each other: give one"
        );
        let tasks = self.tasks.iter().chain(&self.tasks_per_cpu).flat_map(|many| &many.0);
        for &n in tasks {
            ensure!(n > 0, "0 tasks are asked for, at least 1 is needed");
        }
        for &s in self.seconds.iter().flat_map(|many| &many.0) {
            Until::Seconds(s).check()?;
        }
        for &n in self.operations_per_task.iter().flat_map(|many| &many.0) {
            Until::OperationsPerTask(n).check()?;
        }
        Ok(())
    }

    /// These axes; for those that are absent, the axes of `outer`.
    pub fn over(&self, outer: &Axes) -> Axes {
        let own_tasks = self.tasks.is_some() || self.tasks_per_cpu.is_some();
        let own_end = self.seconds.is_some() || self.operations_per_task.is_some();
        let tasks = if own_tasks { self } else { outer };
        let end = if own_end { self } else { outer };
        Axes {
            cpus: self.cpus.clone().or_else(|| outer.cpus.clone()),
            tasks: tasks.tasks.clone(),
            tasks_per_cpu: tasks.tasks_per_cpu.clone(),
            forms: self.forms.clone().or_else(|| outer.forms.clone()),
            placement: self.placement.clone().or_else(|| outer.placement.clone()),
            dir: self.dir.clone().or_else(|| outer.dir.clone()),
            seconds: end.seconds.clone(),
            operations_per_task: end.operations_per_task.clone(),
        }
    }
}

fn length<T>(axis: &Option<Many<T>>) -> Option<usize> {
    axis.as_ref().map(|many| many.0.len())
}
