//! Runs on this host: kernel settings are changed and put back, file systems are made in the measured
//! directory, and the worker is a child process.

use std::path::Path;

use anyhow::{Context, Result};
use records::{Record, Variant, Warning};
use setup::file_systems::{FileSystems, WritebackWatch};
use setup::journal::Journal;
use setup::settings;

use crate::images::Images;
use crate::places::{RunOutcome, RunRequest, process};

/// This host as a place for runs.
pub struct Local {
    file_systems: FileSystems,
    images: Images,
}

impl Local {
    /// Tries out what the runs of a record will need. Adds to its warnings.
    pub fn new(journal: &mut Journal, record: &mut Record) -> Result<Local> {
        let mut file_systems = FileSystems::new(record)?;
        file_systems.rehearse(journal, record)?;
        let mut images = Images::default();
        images.make(journal, record)?;
        Ok(Local { file_systems, images })
    }

    /// Does the run in this directory, or in the file system that is made for it below.
    fn run_on_file_system(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        request: &RunRequest,
    ) -> Result<Option<RunOutcome>> {
        let Some(file_system) = request.planned.file_system else {
            return self.run_in_directory(directory, request);
        };
        let made = match self.file_systems.provide(journal, directory, file_system)? {
            Ok(made) => made,
            Err(why) => return Ok(Some(RunOutcome::failed_to_start(&why))),
        };
        let watch = FileSystems::watch(&made);
        let outcome = self.run_in_directory(&made.root, request);
        let measured = matches!(outcome, Ok(Some(_)));
        // Even the root of a file system that has shut itself down cannot be opened.
        let unwritten = watch.map_or_else(|why| Some(format!("{why:#}")), WritebackWatch::error);
        let complaint = self.file_systems.take_back(journal, &made, measured)?;
        Ok(outcome?.map(|mut outcome| {
            outcome.invalid_because.extend([unwritten, complaint].into_iter().flatten());
            RunOutcome { file_system: Some(made.mounted), ..outcome }
        }))
    }

    fn run_in_directory(
        &self,
        directory: &Path,
        request: &RunRequest,
    ) -> Result<Option<RunOutcome>> {
        let _copy = match self.images.copy(request.record, request.planned.point, directory)? {
            Ok(copy) => copy,
            Err(why) => return Ok(Some(RunOutcome::failed_to_start(&why))),
        };
        let number = request.id.run;
        let job = request.job(directory.join(number.to_string()), std::process::id())?;
        let end = process::run(&job, request.planned.variant, request.deadline, |_| ())
            .with_context(|| format!("run {number}"))?;
        Ok((!end.interrupted).then(|| RunOutcome {
            events: end.events,
            exit: end.exit,
            invalid_because: Vec::from_iter(end.invalid_because),
            ..RunOutcome::default()
        }))
    }
}

impl Local {
    /// Does one run. Returns `None` if a signal interrupted it. An error is about the host and ends
    /// the whole execution; a failure of this run alone is in its outcome.
    pub fn run(
        &mut self,
        journal: &mut Journal,
        request: &RunRequest,
    ) -> Result<Option<RunOutcome>> {
        let directory = journal.directory(&request.planned.point.dir, &request.record.id)?;
        let warnings = apply_sysctls(journal, request.planned.variant)?;
        let outcome = self.run_on_file_system(journal, &directory, request);
        journal.put_back()?;
        Ok(outcome?.map(|outcome| RunOutcome {
            warnings: [warnings, outcome.warnings].concat(),
            ..outcome
        }))
    }

    /// Releases what was kept for later runs. Returns what was wrong with it.
    pub fn end(&mut self, journal: &mut Journal) -> Result<Vec<Warning>> {
        self.file_systems.end(journal)
    }
}

/// Gives the kernel the settings of a variant. Returns a warning for each value that it changed.
fn apply_sysctls(journal: &mut Journal, variant: Option<&Variant>) -> Result<Vec<Warning>> {
    let mut warnings = Vec::new();
    for (name, value) in variant.iter().flat_map(|variant| &variant.sysctl) {
        let actual = journal.set(&settings::path(name)?, &value.0)?;
        if actual != value.0 {
            warnings.push(Warning::new(
                format!("{name} was set to '{}' and reads '{actual}'", value.0),
                "use a value that the kernel keeps unchanged",
            ));
        }
    }
    Ok(warnings)
}
