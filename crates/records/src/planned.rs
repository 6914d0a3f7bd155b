//! What a point stands for, looked up once: its variant, guest, file system and command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::command::Command;
use crate::experiment::{Axes, Load, Many, Scalar, Variant};
use crate::file_system::FileSystem;
use crate::guest::Guest;
use crate::record::{Point, Record};

/// A point with all that its runs are set up with.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The point.
    pub point: &'a Point,
    /// Its variant, where variants are compared.
    pub variant: Option<&'a Variant>,
    /// The virtual machine that its runs are made in.
    pub guest: Option<Guest>,
    /// The file system that is made for its runs.
    pub file_system: Option<&'a FileSystem>,
    /// The command that its runs execute; none where the workload is knee's own.
    pub command: Option<&'a Command>,
}

impl Record {
    /// A point with all that its runs are set up with.
    pub fn planned<'a>(&'a self, point: &'a Point) -> Result<Planned<'a>> {
        Ok(Planned {
            point,
            variant: self.variant(point),
            guest: self.guest(&point.variant),
            file_system: self.file_system(point),
            command: self.command(point)?,
        })
    }

    /// The variant that a point is of.
    pub fn variant(&self, point: &Point) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == point.variant)
    }

    /// The file system that is made for the runs of a point.
    pub fn file_system(&self, point: &Point) -> Option<&FileSystem> {
        Variant::file_system_of(point, &self.variants)
    }

    /// The command that the runs of a point execute; none where the workload is knee's own.
    pub fn command(&self, point: &Point) -> Result<Option<&Command>> {
        if point.command.is_none() {
            return Ok(None);
        }
        let command = self.commands.get(&point.workload);
        let lost = || format!("the record does not say what the command {} is", point.workload);
        command.map(Some).with_context(lost)
    }

    /// Directories of all points, each once.
    pub fn point_directories(&self) -> Vec<&Path> {
        let directories: BTreeSet<&Path> = self.points.iter().map(|p| p.dir.as_path()).collect();
        directories.into_iter().collect()
    }
}

impl Variant {
    /// The file system that is made for the runs of a point of one of these variants.
    pub fn file_system_of<'a>(point: &Point, variants: &'a [Variant]) -> Option<&'a FileSystem> {
        variants.iter().find(|variant| variant.name == point.variant)?.file_system.as_ref()
    }

    /// A load and its axes as the variant has them.
    pub fn apply(&self, load: &Load, axes: &Axes) -> (Load, Axes) {
        let one = |words: &BTreeMap<String, Scalar>| -> BTreeMap<String, Many<Scalar>> {
            words.iter().map(|(name, word)| (name.clone(), Many(vec![word.clone()]))).collect()
        };
        let parameters = load.parameters.clone().into_iter().chain(one(&self.parameters)).collect();
        let (workload, command) = match &self.workload {
            Some(workload) => (workload.clone(), None),
            None => (load.workload.clone(), load.command.clone()),
        };
        let load = Load { workload, command, parameters, axes: load.axes.clone() };
        let axes = Axes {
            forms: self.form.map(|form| Many(vec![form])).or_else(|| axes.forms.clone()),
            placement: self.placement.map(|p| Many(vec![p])).or_else(|| axes.placement.clone()),
            dir: self.dir.clone().map(|dir| Many(vec![dir])).or_else(|| axes.dir.clone()),
            ..axes.clone()
        };
        (load, axes)
    }
}
