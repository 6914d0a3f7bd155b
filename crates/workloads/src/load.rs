//! One run's worth of a workload, as its `prepare` sees it.

use std::path::PathBuf;

use crate::{Failure, Spin, Values};

/// How tasks come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One process a task, each with an address space and a file table of its own.
    Processes,
    /// One thread a task, all in one process.
    Threads,
}

/// What a workload is asked to do in one run.
pub struct Load {
    /// The number of tasks, at least 1.
    pub tasks: usize,
    /// Processes or threads.
    pub form: Form,
    /// Its parameters, checked and complete.
    pub values: Values,
    /// A directory of this run's own on the file system under test: empty now,
    /// removed with all that is in it after the run.
    pub directory: PathBuf,
    /// Operations each task will do, when the run is of a fixed count.
    pub operations: Option<u64>,
    /// Turns of [`Spin`] in a nanosecond, as measured by the runner.
    pub turns_per_ns: f64,
}

impl Load {
    /// The work that a parameter in nanoseconds asks for.
    pub fn spin(&self, parameter: &str) -> Spin {
        Spin::turns((self.values.number(parameter) as f64 * self.turns_per_ns).round() as u64)
    }

    /// Where task `index` keeps what is its own.
    pub fn task_path(&self, index: usize) -> PathBuf {
        self.directory.join(format!("task-{index:04}"))
    }

    /// Makes the directory of task `index`. The runner removes it when the task ends,
    /// so the tasks clean up in parallel.
    pub fn task_directory(&self, index: usize) -> Result<PathBuf, Failure> {
        let path = self.task_path(index);
        std::fs::create_dir(&path)
            .map_err(|e| Failure::of(format!("creating directory {}", path.display()), e))?;
        Ok(path)
    }
}
