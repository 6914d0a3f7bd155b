//! One execution of an experiment, from what a killed knee left behind to a finished record.

use std::path::PathBuf;

use anyhow::Result;
use host::terminal::talk;
use host::{job_control, signals};
use plan::commands;
use records::{Experiment, HostChange, Record, Run, Variant};
use setup::host_state::{self, HostWatch};
use setup::journal::Journal;
use setup::{file_systems, settings};
use store::Store;

use crate::begin::{check_capacity, new_record, open_record};
use crate::progress::Progress;
use crate::{End, programs, run};

/// How a record is begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether the device that the user named may lose all that is on it.
    pub owns_device: bool,
    /// Whether a partial record of the same experiment is continued.
    pub resume: bool,
}

/// Measures an experiment and keeps a record of it. The host is as it was before when this returns.
/// `finished` is called with each run once it is durable.
pub fn measure(
    experiment: Experiment,
    options: Options,
    store: &Store,
    finished: impl FnMut(&Run),
) -> Result<Measured> {
    // First undoes what a killed knee left, so that the record describes the host without it.
    let mut journal = Journal::open()?;
    let mut record = new_record(experiment)?;
    check_capacity(&record)?;
    let images = commands::image_directories(&record);
    file_systems::check(&mut record, &images, options.owns_device)?;
    let is_local = |variant: &&Variant| record.guest(&variant.name).is_none();
    let local: Vec<Variant> = record.variants.iter().filter(is_local).cloned().collect();
    if settings::any(&local) {
        journal.claim_settings()?;
        settings::check(&local)?;
    }
    programs::identify(&mut record)?;
    let mut growing = open_record(options.resume, store, record)?;
    let watch = HostWatch::new(&growing.record, &journal);
    let before = watch.look();
    let mut progress = Progress::start();
    // Not earlier: up to here a signal ends knee, whatever it waits for, and the next start cleans up.
    signals::catch();
    job_control::follow_terminal();
    let end = run(&mut growing, &mut journal, &mut progress, finished);
    progress.end();
    // Whatever went wrong, the finished runs are kept and the changes to the host are undone.
    let marks = watch.marks(&journal);
    let put_back = journal.close();
    let changes = host_state::changes(&before, &watch.look(), &marks);
    keep_changes(&mut growing.record, changes);
    let folder = growing.finish(jiff::Timestamp::now());
    if let (Ok(Some(folder)), false) = (&folder, end.is_ok() && put_back.is_ok()) {
        talk(format_args!("the finished runs are kept in {}", folder.display()));
    }
    // The first error explains the others.
    let end = end?;
    let folder = folder?;
    put_back?;
    Ok(Measured { end, folder })
}

/// The result of measuring.
pub struct Measured {
    /// Whether all runs were executed.
    pub end: End,
    /// The record's folder; `None` if no run was finished.
    pub folder: Option<PathBuf>,
}

/// Reports what of the host is not as before, and keeps it in the record.
fn keep_changes(record: &mut Record, changes: Vec<HostChange>) {
    changes.iter().for_each(talk);
    if let Some(session) = record.sessions.last_mut() {
        session.host_changes = Some(changes);
    }
}
