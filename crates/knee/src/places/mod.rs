//! Where runs happen: one place a file. A place sets up what the run's variant asks for, does the
//! job, puts everything back, and gives what the worker said and how it ended.
//!
//!     runner ── Wanted ──> Place ── Job ──> worker
//!            <── Came ───        <─ events ─
//!
//! A worker is the same process everywhere (`process.rs`): here a child of knee, in a guest a
//! child of its init, which is knee too.

pub mod guest;
pub mod local;
pub mod process;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use records::{
    Boot, Event, Job, LookKind, Mounted, Native, PROTOCOL, Point, Record, Variant, Warning, Work,
};

use crate::commands::{self, Moment};
use crate::leftovers::Journal;
use crate::looks;

/// A place.
pub trait Place {
    /// Does one run; nothing if a signal cut it off. An error is about the place and ends all;
    /// what befell only this run is in what came of it.
    fn run(&mut self, journal: &mut Journal, wanted: &Wanted) -> Result<Option<Came>>;

    /// What is to be written down about boots since this was last asked.
    fn boots(&mut self) -> Vec<Boot>;

    /// After the last run: gives back what was kept for later ones. What was wrong with it is
    /// returned.
    fn end(&mut self, journal: &mut Journal) -> Result<Vec<Warning>>;
}

/// A run to do.
pub struct Wanted<'a> {
    /// The record it is for.
    pub record: &'a Record,
    /// What it is a run of.
    pub point: &'a Point,
    /// Its block, its number, the seed.
    pub moment: Moment,
    /// Whether it repeats another of its block: then it shares no boot with that.
    pub placebo: bool,
    /// What is watched meanwhile, if it is a look.
    pub look: Option<LookKind>,
    /// How long its worker may take.
    pub deadline: Duration,
}

/// What came of a run.
pub struct Came {
    /// What its worker said.
    pub events: Vec<Event>,
    /// How its worker ended, to follow "the worker …".
    pub death: String,
    /// Why it does not count, whatever its worker said.
    pub spoilt: Vec<String>,
    /// Doubts that the worker knows nothing of.
    pub warnings: Vec<Warning>,
    /// The file system that was made for it.
    pub file_system: Option<Mounted>,
    /// The boot that it ran in.
    pub boot: Option<u32>,
}

impl Came {
    /// What comes of a run that could not be begun.
    pub fn refused(why: String) -> Came {
        Came {
            events: vec![Event::Failed { reason: why }],
            death: String::new(),
            spoilt: Vec::new(),
            warnings: Vec::new(),
            file_system: None,
            boot: None,
        }
    }
}

impl<'a> Wanted<'a> {
    /// The variant that its point is of.
    pub fn variant(&self) -> Option<&'a Variant> {
        self.record.variants.iter().find(|variant| variant.name == self.point.variant)
    }

    /// Its job, with this directory to make and to remove, done by a worker of the process `knee`.
    pub fn job(&self, scratch: PathBuf, knee: u32) -> Result<Job> {
        let Wanted { record, point, moment, .. } = *self;
        let work = match commands::of_point(record, point)? {
            Some(command) => Work::Command(commands::errand(command, point, &scratch, moment)?),
            None => Work::Workload(Native {
                name: point.workload.clone(),
                semantics: point.semantics,
                parameters: point.parameters.clone(),
            }),
        };
        Ok(Job {
            protocol: PROTOCOL,
            work,
            form: point.form,
            tasks: point.tasks,
            cpus: point.cpu_list.clone(),
            until: point.until,
            pass: point.pass,
            watch: self.look.map(|kind| looks::watch(record, kind, knee)),
            scratch,
            keep: false,
            stop_grace_s: record.experiment.stop_grace_s,
        })
    }
}
