//! One execution of an experiment, from what a killed knee left behind to a finished record.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use host::job_control;
use host::signals::{self, Held};
use host::terminal::talk;
use plan::commands;
use records::{Experiment, HostChange, Record, Variant};
use setup::foreign::Permitted;
use setup::host_state::{self, HostWatch};
use setup::journal::Journal;
use setup::metal::{Arrival, KernelBoot};
use setup::{file_systems, settings};
use store::{Growing, Store};

use crate::begin::{Resume, check_capacity, new_record, open_record};
use crate::places::metal::Metal;
use crate::progress::Progress;
use crate::{End, Finished, clients, programs, rights, run};

/// How a record is begun.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the device that the user named may lose all that is on it.
    pub owns_device: bool,
    /// Whether a partial record of the same experiment is continued.
    pub resume: bool,
    /// The user's name for the record, if it gets one.
    pub label: Option<String>,
    /// What the user wants to remember about the record.
    pub note: Option<String>,
    /// The blocks to measure, where other records measure the rest; absent for all.
    pub blocks: Option<Vec<u32>>,
    /// Kernels that this host boots for the runs; absent where it must not reboot.
    pub metal: Option<Arrived>,
    /// Words of the command line that come from the user's defaults: the record states them too.
    pub defaults: Vec<String>,
}

/// The reboot that knee asked for before this session, if there was one.
pub type Arrived = Option<Arrival>;

/// Measures an experiment and keeps a record of it. The host is as it was before when this returns.
/// `finished` is called with each run once it is durable; the record ends with the block after which it breaks.
pub fn measure(
    experiment: Permitted<Experiment>,
    options: Options,
    store: &Store,
    finished: Finished,
) -> Result<Measured> {
    let experiment = own_loads::compile_all(experiment)?.into_inner();
    // First undoes what a killed knee left, so that the record describes the host without it.
    let mut journal = Journal::open()?;
    ensure!(
        options.metal.is_some() || !experiment.has_metal(),
        "this host has to boot the kernels of {}: knee run --on metal does that, on a host of one's own",
        experiment.name
    );
    let mut metal = options.metal.map(Metal::new);
    let mut record = new_record(experiment)?;
    for session in &mut record.sessions {
        session.command.extend_from_slice(&options.defaults);
    }
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
    clients::ask(&mut record)?;
    record.label = options.label.unwrap_or_default();
    record.note = options.note.unwrap_or_default();
    record.blocks = options.blocks;
    let resume = match &metal {
        Some(metal) if metal.is_resumed() => Resume::IfThere,
        _ if options.resume => Resume::Needed,
        _ => Resume::No,
    };
    // Up to here a signal ends knee, whatever it waits for. A record that has begun is ended in order.
    let held = Held::new();
    let mut growing = open_record(resume, store, record)?;
    let watch = HostWatch::new(&growing.record, &journal);
    let before = watch.look();
    let mut progress = Progress::start();
    signals::catch();
    drop(held);
    job_control::follow_terminal();
    let end = run(&mut growing, &mut journal, metal.as_mut(), &mut progress, finished);
    progress.end();
    // Whatever went wrong, the finished runs are kept and the changes to the host are undone.
    let marks = watch.marks(&journal);
    let put_back = journal.close();
    let changes = host_state::changes(&before, &watch.look(), &marks);
    keep_changes(&mut growing.record, changes);
    let safe = SafeRuns::new(&growing);
    let finished = growing.finish(jiff::Timestamp::now());
    let all_is_well = end.is_ok() && put_back.is_ok() && finished.is_ok();
    if !all_is_well && let Some(sentence) = safe.sentence(&finished) {
        talk(sentence);
    }
    // What went wrong first is the cause of what went wrong later.
    let end = end?;
    let folder = finished?;
    put_back?;
    let next_boot = metal.and_then(|metal| metal.needed().cloned());
    Ok(Measured { end, folder, next_boot })
}

/// Why this host or user could not run what a record plans, as far as that shows without changing
/// anything; adds warnings about the host to the record. `None` if nothing speaks against it.
pub fn refusal(record: &mut Record, options: &Options) -> Option<String> {
    let images = commands::image_directories(record);
    let checked = check_capacity(record)
        .and_then(|()| rights::check(record))
        .and_then(|()| file_systems::check(record, &images, options.owns_device));
    checked.err().map(|why| format!("{why:#}"))
}

/// The result of measuring.
pub struct Measured {
    /// Whether all runs were executed.
    pub end: End,
    /// The record's folder; `None` if no run was finished.
    pub folder: Option<PathBuf>,
    /// The boot that the missing runs need; the host is to be rebooted and the record resumed.
    pub next_boot: Option<KernelBoot>,
}

/// The runs that are durable, whatever goes wrong afterwards.
struct SafeRuns {
    done: u32,
    planned: Option<u32>,
    folder: PathBuf,
}

impl SafeRuns {
    fn new(growing: &Growing) -> SafeRuns {
        let planned = growing.record.runs_planned();
        SafeRuns { done: growing.next_run(), planned, folder: growing.folder().to_path_buf() }
    }

    /// What is safe, where it lies, and how to go on; `None` if there is no run to keep.
    fn sentence(&self, finished: &Result<Option<PathBuf>>) -> Option<String> {
        let SafeRuns { done, planned, folder } = self;
        let (folder, first) = match finished {
            Ok(finished) => (finished.as_ref()?, ""),
            Err(_) if *done == 0 => return None,
            Err(_) => (folder, ", although the record could not be finished"),
        };
        let done = match planned {
            Some(planned) => format!("{done} of {planned}"),
            None => done.to_string(),
        };
        Some(format!(
            "{done} runs are safe in {}{first}. Mend the error below, then the same \
             command with --resume does the rest",
            folder.display()
        ))
    }
}

/// Reports what of the host is not as before, and keeps it in the record.
fn keep_changes(record: &mut Record, changes: Vec<HostChange>) {
    changes.iter().for_each(talk);
    if let Some(session) = record.sessions.last_mut() {
        session.host_changes = Some(changes);
    }
}
