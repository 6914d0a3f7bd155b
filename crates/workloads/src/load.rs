//! One run of a workload, as its `prepare` sees it.

use std::path::PathBuf;

use machine::Pace;

use crate::{Idle, Spin, Values};

/// Whether tasks are processes or threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskForm {
    /// One process per task, each with its own address space and file table.
    Processes,
    /// One thread per task, all in one process.
    Threads,
}

/// What a workload must do in one run.
pub struct Load {
    /// The number of tasks, at least 1.
    pub tasks: usize,
    pub form: TaskForm,
    /// Its parameters, checked and complete.
    pub values: Values,
    /// A directory for this run alone, on the file system under test: empty before the
    /// run, removed with its contents afterwards.
    pub directory: PathBuf,
    /// Operations of each task, in a run of a fixed count.
    pub operations: Option<u64>,
    /// How long work takes on the CPUs of the run; measured only if a parameter asks for work.
    pub pace: Pace,
}

impl Load {
    /// The work that a parameter gives in nanoseconds.
    pub fn spin(&self, parameter: &str) -> Spin {
        match self.values.number(parameter) {
            0 => Spin::default(),
            ns => Spin::new(self.pace.turns(ns)),
        }
    }

    /// The work of a task between its operations.
    pub fn idle(&self, task: usize) -> Idle {
        Idle::new(self.spin("idle_ns"), self.values.varies("idle_ns"), task)
    }

    /// The path of the file or directory of task `index` alone, which the task creates. The
    /// runner removes a directory there when the task ends, so that tasks clean up in parallel.
    pub fn task_path(&self, index: usize) -> PathBuf {
        self.directory.join(format!("task-{index:04}"))
    }

    /// [`Load::task_path`] of every task.
    pub fn task_paths(&self) -> Vec<PathBuf> {
        (0..self.tasks).map(|index| self.task_path(index)).collect()
    }
}
