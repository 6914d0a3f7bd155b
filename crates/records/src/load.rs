//! The loads of an experiment: what tasks execute, with which parameters, over which axes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::axes::Axes;
use crate::command::Command;
use crate::own_load::OwnLoad;
use crate::scalar::{Many, Scalar};

/// One load of an experiment: what tasks execute, with which parameters, over which axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "LoadTable", into = "LoadTable")]
pub struct Load {
    /// What tasks execute.
    pub work: LoadWork,
    /// Parameters of the workload; a list makes the parameter an axis.
    pub parameters: BTreeMap<String, Many<Scalar>>,
    /// Axes that replace the experiment's.
    pub axes: Axes,
}

/// What the tasks of a load execute. A point resolves it into the [`crate::Work`] of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadWork {
    /// A workload of knee, by name or alias; `command:NAME` is a command that comes with knee.
    Workload(String),
    /// Any program.
    Command(Box<Command>),
    /// A file that the user wrote.
    Own(Box<OwnLoad>),
}

/// A workload of knee, by its name.
impl From<String> for LoadWork {
    fn from(name: String) -> LoadWork {
        LoadWork::Workload(name)
    }
}

impl From<Command> for LoadWork {
    fn from(command: Command) -> LoadWork {
        LoadWork::Command(Box::new(command))
    }
}

impl From<OwnLoad> for LoadWork {
    fn from(own: OwnLoad) -> LoadWork {
        LoadWork::Own(Box::new(own))
    }
}

/// A `[[load]]` as files have it: exactly one of `workload`, `command` and `source`.
#[derive(Serialize, Deserialize, JsonSchema)]
struct LoadTable {
    /// Name or alias of the workload; `command:NAME` is a command that comes with knee.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    workload: String,
    /// Any program, instead of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Box<Command>>,
    /// A file that the user wrote, instead of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Box<OwnLoad>>,
    /// Parameters of the workload; a list makes the parameter an axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, Many<Scalar>>,
    /// Axes that replace the experiment's.
    #[serde(default, skip_serializing_if = "Axes::is_empty")]
    axes: Axes,
}

impl TryFrom<LoadTable> for Load {
    type Error = String;

    fn try_from(table: LoadTable) -> Result<Load, String> {
        let LoadTable { workload, command, source, parameters, axes } = table;
        let work = match (workload.is_empty(), command, source) {
            (true, Some(command), None) => LoadWork::Command(command),
            (true, None, Some(own)) => LoadWork::Own(own),
            (false, None, None) => LoadWork::Workload(workload),
            (true, None, None) => {
                let none = "a [[load]] has neither workload nor command nor source";
                return Err(format!("{none}: give one of them"));
            }
            (_, _, Some(own)) => {
                return Err(format!(
                    "a [[load]] has the source {} and a workload or command: give only one of them",
                    own.file.display()
                ));
            }
            (false, Some(_), None) => {
                return Err(format!(
                    "a [[load]] has the workload {workload} and a command: give only one of them"
                ));
            }
        };
        Ok(Load { work, parameters, axes })
    }
}

impl From<Load> for LoadTable {
    fn from(load: Load) -> LoadTable {
        let (workload, command, source) = match load.work {
            LoadWork::Workload(workload) => (workload, None, None),
            LoadWork::Command(command) => (String::new(), Some(command), None),
            LoadWork::Own(own) => (String::new(), None, Some(own)),
        };
        LoadTable { workload, command, source, parameters: load.parameters, axes: load.axes }
    }
}

impl Load {
    /// A load without parameters, over the experiment's axes.
    pub fn new(work: impl Into<LoadWork>) -> Load {
        Load { work: work.into(), parameters: BTreeMap::new(), axes: Axes::default() }
    }

    /// Name in messages.
    pub fn name(&self) -> String {
        match &self.work {
            LoadWork::Workload(name) => name.clone(),
            LoadWork::Command(command) if command.name.is_empty() => {
                format!("'{}'", command.run.text())
            }
            LoadWork::Command(command) => command.name.clone(),
            LoadWork::Own(own) => own.name(),
        }
    }

    /// The workload's name, if the load is one of knee's.
    pub fn workload(&self) -> Option<&str> {
        match &self.work {
            LoadWork::Workload(name) => Some(name),
            _ => None,
        }
    }

    /// The command, if the load is one that the experiment defines.
    pub fn command(&self) -> Option<&Command> {
        match &self.work {
            LoadWork::Command(command) => Some(command),
            _ => None,
        }
    }

    /// The file that the user wrote, if the load is one.
    pub fn own(&self) -> Option<&OwnLoad> {
        match &self.work {
            LoadWork::Own(own) => Some(own),
            _ => None,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Some(command) = self.command() else { return Ok(()) };
        command.check().with_context(|| format!("in the command {}", self.name()))
    }
}
