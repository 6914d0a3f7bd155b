//! The runner: takes the points through their blocks, one run after the other, and keeps the result of
//! each before the next one starts. Runs take place in places: this host, or virtual machines.

mod begin;
mod clients;
mod effects;
pub mod history;
mod images;
pub mod places;
mod ports;
mod profiles;
mod programs;
pub mod progress;
mod rights;
mod session;
mod session_clock;
mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use analysis::{KernelThreads, Reduced};
use anyhow::Result;
use host::{job_control, signals};
use plan::commands::RunId;
use plan::guest_config;
use plan::schedule::{self, Assignment};
use records::{
    Command, Hypervisor, Outcome, Planned, PlannedWork, Point, Record, Run, Server, Until, Warning,
    per_operation,
};
use setup::journal::Journal;
use store::Growing;

use crate::places::guest::Guests;
use crate::places::local::Local;
use crate::places::metal::Metal;
use crate::places::{RunOutcome, RunRequest};
use crate::profiles::{Step, StepResult};
use crate::progress::Progress;
use crate::session_clock::SessionClock;
use crate::units::Units;

pub use begin::{new_record, planned_record};
pub use effects::effects;
pub use places::guest::allowed_cpus;
pub use session::{Measured, Options, measure, refusal};

/// How the runner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every planned run was executed.
    Complete,
    /// A signal asked knee to end.
    Interrupted,
}

/// What to do after a run where nothing but the record's own rules ends it.
pub fn go_on(_: &Record, _: &Run) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Is told each run once it is durable, and whether the record goes on. One type for all callers, since the functions that
/// take it are large.
pub type Finished<'a> = &'a mut dyn FnMut(&Record, &Run) -> ControlFlow<()>;

/// Executes the runs that the record lacks. `finished` is called with each run once it is durable; the record ends with
/// the block after which it breaks.
pub fn run(
    record: &mut Growing,
    journal: &mut Journal,
    metal: Option<&mut Metal>,
    progress: &mut Progress,
    finished: Finished,
) -> Result<End> {
    let mut places = Places::new(journal, metal, record)?;
    let end = match warm_up(record, &mut places, progress) {
        Ok(End::Complete) => run_blocks(record, &mut places, progress, finished),
        ended => ended,
    };
    let warnings = places.end(record)?;
    record.record.warnings.extend(warnings);
    let end = end?;
    record.complete = end == End::Complete;
    Ok(end)
}

/// The places that the runs of a record need, and their clock.
struct Places<'a> {
    journal: &'a mut Journal,
    local: Local,
    guests: Option<Guests>,
    metal: Option<&'a mut Metal>,
    clock: SessionClock,
    units: Units,
}

impl<'a> Places<'a> {
    /// Tries out all places, so that what cannot work is refused before anything is measured.
    fn new(
        journal: &'a mut Journal,
        metal: Option<&'a mut Metal>,
        record: &mut Growing,
    ) -> Result<Places<'a>> {
        let local = Local::new(journal, &mut record.record)?;
        let boots = record.read_boots()?.len() as u32;
        let guests = if guest_config::guests(&record.record).is_empty() {
            None
        } else {
            Some(Guests::new(&mut record.record, boots)?)
        };
        let (clock, units) = (SessionClock::start(), Units::default());
        let mut places = Places { journal, local, guests, metal, clock, units };
        if let Some(metal) = &mut places.metal {
            metal.begin(boots)?;
        }
        places.keep_boots(record)?;
        Ok(places)
    }

    fn run(&mut self, request: &RunRequest) -> Result<Option<RunOutcome>> {
        match self.guests.as_mut().filter(|_| request.planned.guest.is_some()) {
            Some(guests) => guests.run(request),
            None => match &mut self.metal {
                Some(metal) => metal.run(&mut self.local, self.journal, request),
                None => self.local.run(self.journal, request),
            },
        }
    }

    /// Appends the boots since the last call to the record.
    fn keep_boots(&mut self, record: &mut Growing) -> Result<()> {
        let of_guests = self.guests.iter_mut().flat_map(|guests| guests.boots());
        let of_host = self.metal.iter_mut().flat_map(|metal| metal.boots());
        of_guests.chain(of_host).try_for_each(|boot| record.append_boot(&boot))
    }

    fn end(mut self, record: &mut Growing) -> Result<Vec<Warning>> {
        let mut warnings = self.local.end(self.journal)?;
        if let Some(guests) = &mut self.guests {
            warnings.extend(guests.end());
        }
        if let Some(metal) = &mut self.metal {
            metal.end();
        }
        self.keep_boots(record)?;
        Ok(warnings)
    }
}

/// Executes the runs of which nothing is kept. Whether one fails does not matter: the run that counts says
/// so too.
fn warm_up(record: &mut Growing, places: &mut Places, progress: &mut Progress) -> Result<End> {
    for number in 0..record.record.experiment.warmup_runs {
        progress.warm_up(&record.record, number);
        for point in 0..record.record.points.len() {
            let assignment = Assignment { block: 0, point, placebo: false, repeat: 0 };
            let step = Step { assignment, profile: None };
            let ended = signals::received().is_some();
            if ended || execute(record, places, progress, step)?.is_none() {
                return Ok(End::Interrupted);
            }
        }
    }
    Ok(End::Complete)
}

/// Executes block after block, until nothing is left to do.
fn run_blocks(
    record: &mut Growing,
    places: &mut Places,
    progress: &mut Progress,
    finished: Finished,
) -> Result<End> {
    let mut runs: Vec<Run> =
        record.read_runs()?.iter().map(|run| deciding_part(&record.record, run)).collect();
    let mut profiled: BTreeSet<Step> =
        record.read_profiles()?.iter().map(Step::for_profile).collect();
    let only = record.record.blocks.clone();
    let last = only.as_ref().map_or(u32::MAX, |blocks| blocks.iter().copied().max().unwrap_or(0));
    for block in (0..=last).filter(|n| only.as_ref().is_none_or(|only| only.contains(n))) {
        let before: Vec<&Run> = runs.iter().filter(|run| run.block < block).collect();
        let planned = schedule::block(&record.record, &before, block);
        if planned.is_empty() {
            break;
        }
        let executed: BTreeSet<Step> = runs.iter().map(Step::for_run).collect();
        let steps = |assignment| {
            let steps = schedule::steps(&record.record, assignment).into_iter();
            steps.map(move |profile| Step { assignment, profile })
        };
        let left = planned.into_iter().flat_map(steps);
        let left: Vec<Step> =
            left.filter(|step| !executed.contains(step) && !profiled.contains(step)).collect();
        let to_run: Vec<Assignment> = left.iter().map(|step| step.assignment).collect();
        progress.block(&record.record, block, &to_run);
        let mut is_last = false;
        for step in left {
            if signals::received().is_some() {
                return Ok(End::Interrupted);
            }
            if schedule::ends_within_block(&record.record, &runs.iter().collect::<Vec<_>>(), block)
            {
                is_last = true;
                break;
            }
            let Some(result) = execute(record, places, progress, step)? else {
                return Ok(End::Interrupted);
            };
            if let Some(kind) = step.profile {
                let number = profiled.len() as u32;
                record.append_profile(&result.into_profile(kind, number))?;
                profiled.insert(step);
                progress.profiled();
                continue;
            }
            let (run, samples) = (result.run, result.samples);
            record.append(&run, samples)?;
            is_last |= finished(&record.record, &run).is_break();
            progress.finished(&record.record, &run);
            runs.push(deciding_part(&record.record, &run));
        }
        if is_last {
            break;
        }
    }
    Ok(End::Complete)
}

/// The part of a run that later blocks are planned by.
fn deciding_part(record: &Record, run: &Run) -> Run {
    let point = record.points.get(run.point as usize);
    let decides = point.map_or(record.experiment.compare.metric.clone(), |p| record.deciding(p));
    analysis::deciding_part(run, &decides)
}

/// Executes one step. Returns `None` if a signal interrupted it.
fn execute(
    record: &mut Growing,
    places: &mut Places,
    progress: &Progress,
    step: Step,
) -> Result<Option<StepResult>> {
    let Assignment { block, point: index, placebo, repeat } = step.assignment;
    let number = record.next_run();
    let mut stopped = None;
    let (started, mut outcome) = loop {
        progress.running(&record.record, index as u32);
        let (started, stops) = (places.clock.now(), job_control::stops());
        let planned = record.record.planned(&record.record.points[index])?;
        let outcome = places.run(&RunRequest {
            record: &record.record,
            planned: &planned,
            id: RunId { block, run: number, seed: record.record.seed },
            placebo,
            profile: step.profile,
            deadline: deadline(&record.record, &planned),
        });
        places.keep_boots(record)?;
        let Some(outcome) = outcome? else { return Ok(None) };
        if stops == job_control::stops() {
            break (started, outcome);
        }
        // Its times include the stop.
        progress.say("knee was stopped and continued: the run that was under way starts again");
        stopped = Some(stopped_warning());
    };
    let Record { points, commands, metrics, .. } = &mut record.record;
    let command = commands.get(&points[index].workload);
    let extracts = command.map_or(&[][..], |command| &command.metrics);
    places.units.settle(extracts, metrics, &mut outcome.events);
    let point = &record.record.points[index];
    let loads_modules = record.record.planned(point)?.loads_modules();
    let kernel_threads =
        if loads_modules { KernelThreads::OfLoad } else { KernelThreads::OfOthers };
    let reduced = analysis::reduce(point, kernel_threads, &outcome.events, &outcome.exit);
    let counts = record.record.hypervisor.as_ref().is_some_and(Hypervisor::counts_instructions);
    let reduced =
        if counts && outcome.boot.is_some() { reduced.with_instructions() } else { reduced };
    let reduced = outcome.invalid_because.into_iter().fold(reduced, Reduced::invalidated);
    let run = Run {
        run: number,
        point: index as u32,
        block,
        placebo,
        repeat,
        started,
        file_system: outcome.file_system,
        boot: outcome.boot,
        outcome: require_deciding_metric(&record.record, point, reduced.outcome, &reduced.missing),
        warnings: [outcome.warnings, reduced.warnings, Vec::from_iter(stopped)].concat(),
    };
    let Reduced { samples, windows, unavailable_probes, .. } = reduced;
    Ok(Some(StepResult { run, samples, windows, unavailable_probes }))
}

/// The mark of a run whose first attempt does not count.
fn stopped_warning() -> Warning {
    Warning::new(
        "knee was stopped (Ctrl-Z) during the run and continued: what it had measured was discarded, \
         and the run repeated",
        "let knee run through where the runs of a block must lie close in time",
    )
}

/// Fails a command's run that lacks the metric that decides; `missing` says why.
fn require_deciding_metric(
    record: &Record,
    point: &Point,
    outcome: Outcome,
    missing: &BTreeMap<String, String>,
) -> Outcome {
    let deciding = record.deciding(point);
    let Outcome::Finished { metrics, counters, unavailable, .. } = &outcome else {
        return outcome;
    };
    let is_present = metrics.contains_key(&deciding) || counters.contains_key(&deciding);
    if point.command.is_none() || is_present {
        return outcome;
    }
    let reason = match missing.get(&deciding) {
        Some(why) => why.clone(),
        None => {
            let why = unavailable.get(per_operation(&deciding).0);
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            format!("the run has no {deciding}, the metric that decides (--metric){why}")
        }
    };
    Outcome::Failed { reason }
}

/// How long a worker may take: the run itself, the grace period at its end, and some time to set up,
/// verify and clean up, which is longer with many tasks.
fn deadline(record: &Record, planned: &Planned) -> Duration {
    let (timeout_s, stop_grace_s) = (record.experiment.timeout_s, record.experiment.stop_grace_s);
    let run_s = match planned.point.until {
        Until::Seconds(seconds) => seconds,
        Until::OperationsPerTask(_) => 0.0,
        // The worker itself limits each of its programs.
        Until::End => match planned.work {
            PlannedWork::Command(command) => programs_s(command),
            PlannedWork::Workload | PlannedWork::Own(_) => 0.0,
        },
    };
    let around_s = timeout_s + 0.01 * planned.point.tasks as f64;
    Duration::from_secs_f64(run_s + stop_grace_s + around_s)
}

/// How long all programs of one run of a command may take together.
fn programs_s(command: &Command) -> f64 {
    let own_s = command.timeout_s * (1 + command.prepare.len() + command.cleanup.len()) as f64;
    let server_s = |server: &Server| {
        let starts_s = server.ready_timeout_s * (1 + server.setup.len()) as f64;
        starts_s + server.warmup_s + server.drain_s + 2.0 * server.stop_timeout_s
    };
    own_s + command.server.as_ref().map_or(0.0, server_s)
}
