//! A point with everything that its names stand for, looked up once: variant, guest, file system and
//! command.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::axes::Axes;
use crate::command::Command;
use crate::experiment::Variant;
use crate::file_system::FileSystem;
use crate::guest::Guest;
use crate::load::{Load, LoadWork};
use crate::own_load::OwnLoad;
use crate::record::{Point, Record};
use crate::scalar::Many;

/// A point with the definitions that its runs are set up from.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The point.
    pub point: &'a Point,
    /// The variant, if variants are compared.
    pub variant: Option<&'a Variant>,
    /// The virtual machine that the runs are made in.
    pub guest: Option<Guest>,
    /// The file system that is made for the runs.
    pub file_system: Option<&'a FileSystem>,
    /// What tasks execute.
    pub work: PlannedWork<'a>,
}

impl Planned<'_> {
    /// Whether its command loads kernel modules, whose threads are the load and which log what they do.
    pub fn loads_modules(&self) -> bool {
        matches!(self.work, PlannedWork::Command(command) if !command.modules.is_empty())
    }
}

/// What the tasks of a point execute.
#[derive(Clone, Copy, Debug)]
pub enum PlannedWork<'a> {
    /// The workload of knee that the point names.
    Workload,
    /// Any program.
    Command(&'a Command),
    /// A load that the user wrote.
    Own(&'a OwnLoad),
}

/// What times are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitOfWork {
    /// An operation.
    Operation,
    /// A whole run of a command whose operations are not counted.
    Run,
}

impl UnitOfWork {
    /// "operation" or "run".
    pub fn name(self) -> &'static str {
        match self {
            UnitOfWork::Operation => "operation",
            UnitOfWork::Run => "run",
        }
    }
}

impl Record {
    /// Looks up the definitions that a point's runs are set up from.
    pub fn planned<'a>(&'a self, point: &'a Point) -> Result<Planned<'a>> {
        Ok(Planned {
            point,
            variant: self.variant(point),
            guest: self.guest(&point.variant),
            file_system: self.file_system(point),
            work: match (self.command(point)?, self.own_load(&point.workload)) {
                (Some(command), _) => PlannedWork::Command(command),
                (None, Some(own)) => PlannedWork::Own(own),
                (None, None) => PlannedWork::Workload,
            },
        })
    }

    /// The variant of a point, if variants are compared.
    pub fn variant(&self, point: &Point) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == point.variant)
    }

    /// The file system that is made for the runs of a point.
    pub fn file_system(&self, point: &Point) -> Option<&FileSystem> {
        Variant::file_system_of(point, &self.variants)
    }

    /// The command that the runs of a point execute; `None` if the workload is knee's own.
    pub fn command(&self, point: &Point) -> Result<Option<&Command>> {
        if point.command.is_none() {
            return Ok(None);
        }
        let command = self.commands.get(&point.workload);
        let missing = || format!("the record does not define the command {}", point.workload);
        command.map(Some).with_context(missing)
    }

    /// The load that the user wrote and that points name so; `None` for all others.
    pub fn own_load(&self, workload: &str) -> Option<&OwnLoad> {
        self.experiment.own_loads().find(|own| own.name() == workload)
    }

    /// What the time of a point is divided by.
    pub fn unit_of_work(&self, point: &Point) -> UnitOfWork {
        match self.command(point) {
            Ok(Some(command)) if command.operations.is_none() => UnitOfWork::Run,
            _ => UnitOfWork::Operation,
        }
    }

    /// Directories of all points, each once.
    pub fn point_directories(&self) -> Vec<&Path> {
        let directories: BTreeSet<&Path> = self.points.iter().map(|p| p.dir.as_path()).collect();
        directories.into_iter().collect()
    }
}

impl Variant {
    /// The file system that is made for the runs of a point, if its variant asks for one.
    pub fn file_system_of<'a>(point: &Point, variants: &'a [Variant]) -> Option<&'a FileSystem> {
        variants.iter().find(|variant| variant.name == point.variant)?.file_system.as_ref()
    }

    /// A load and its axes with the variant's changes.
    pub fn apply(&self, load: &Load, axes: &Axes) -> (Load, Axes) {
        let own =
            self.parameters.iter().map(|(name, value)| (name.clone(), Many(vec![value.clone()])));
        let parameters = load.parameters.clone().into_iter().chain(own).collect();
        let work = self.workload.clone().map_or_else(|| load.work.clone(), LoadWork::Workload);
        let load = Load { work, parameters, axes: load.axes.clone() };
        let axes = Axes {
            forms: self.form.map(|form| Many(vec![form])).or_else(|| axes.forms.clone()),
            placement: self.placement.map(|p| Many(vec![p])).or_else(|| axes.placement.clone()),
            dir: self.dir.clone().map(|dir| Many(vec![dir])).or_else(|| axes.dir.clone()),
            ..axes.clone()
        };
        (load, axes)
    }
}
