//! This host: kernel settings are changed and put back, file systems made in the measured
//! directory, and the worker is a child process.

use std::path::Path;

use anyhow::{Context, Result};
use records::{Boot, Record, Variant, Warning};

use super::{Came, Place, Wanted, process};
use crate::file_systems::{FileSystems, Images, Watch};
use crate::leftovers::Journal;
use crate::settings;

/// What runs are set up with.
pub struct Local {
    file_systems: FileSystems,
    images: Images,
}

impl Local {
    /// Tries what the runs of a record will need. Adds to its warnings.
    pub fn new(journal: &mut Journal, record: &mut Record) -> Result<Local> {
        let mut file_systems = FileSystems::new(record)?;
        file_systems.rehearse(journal, record)?;
        let mut images = Images::default();
        images.make(journal, record)?;
        Ok(Local { file_systems, images })
    }

    /// The run in this directory, or in the file system that is made for it below.
    fn provided(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &Wanted,
    ) -> Result<Option<Came>> {
        let variant = wanted.variant();
        let Some(asked) = variant.and_then(|variant| variant.file_system.as_ref()) else {
            return self.in_directory(directory, wanted);
        };
        let made = match self.file_systems.provide(journal, directory, asked)? {
            Ok(made) => made,
            Err(why) => return Ok(Some(Came::refused(format!("{why:#}")))),
        };
        let watch = FileSystems::watch(&made);
        let came = self.in_directory(&made.root, wanted);
        let measured = matches!(came, Ok(Some(_)));
        // Even the root of a file system that has shut itself down cannot be opened.
        let unwritten = watch.map_or_else(|why| Some(format!("{why:#}")), Watch::error);
        let complaint = self.file_systems.take_back(journal, &made, measured)?;
        Ok(came?.map(|mut came| {
            came.spoilt.extend([unwritten, complaint].into_iter().flatten());
            Came { file_system: Some(made.mounted), ..came }
        }))
    }

    fn in_directory(&self, directory: &Path, wanted: &Wanted) -> Result<Option<Came>> {
        let _copy = match self.images.copy(wanted.record, wanted.point, directory)? {
            Ok(copy) => copy,
            Err(why) => return Ok(Some(Came::refused(format!("{why:#}")))),
        };
        let number = wanted.moment.run;
        let job = wanted.job(directory.join(number.to_string()), std::process::id())?;
        let done = process::run(&job, wanted.variant(), wanted.deadline, |_| ())
            .with_context(|| format!("run {number}"))?;
        Ok((!done.interrupted).then(|| Came {
            events: done.events,
            death: done.death,
            spoilt: Vec::new(),
            warnings: Vec::new(),
            file_system: None,
            boot: None,
        }))
    }
}

impl Place for Local {
    fn run(&mut self, journal: &mut Journal, wanted: &Wanted) -> Result<Option<Came>> {
        let directory = journal.directory(&wanted.point.dir, &wanted.record.id)?;
        let doubts = set(journal, wanted.variant())?;
        let came = self.provided(journal, &directory, wanted);
        journal.put_back()?;
        Ok(came?.map(|came| Came { warnings: [doubts, came.warnings].concat(), ..came }))
    }

    fn boots(&mut self) -> Vec<Boot> {
        Vec::new()
    }

    fn end(&mut self, journal: &mut Journal) -> Result<Vec<Warning>> {
        self.file_systems.end(journal)
    }
}

/// Gives the kernel the settings of a variant; what it took differently is a doubt.
pub fn set(journal: &mut Journal, variant: Option<&Variant>) -> Result<Vec<Warning>> {
    let mut doubts = Vec::new();
    for (name, value) in variant.iter().flat_map(|variant| &variant.sysctl) {
        let set = journal.set(&settings::path(name)?, &value.0)?;
        if set != value.0 {
            doubts.push(Warning::new(
                format!("{name} was to be '{}' and reads '{set}'", value.0),
                "ask for a value that the kernel takes as it is",
            ));
        }
    }
    Ok(doubts)
}
