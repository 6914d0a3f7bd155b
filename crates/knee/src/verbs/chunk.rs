//! `knee fleet chunk`: measures chunks of a fleet on this host.

mod relay;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use fleet::{Folder, HostCheck, Measurer, Member, Outcome, Owner, Plan, Share, Work};
use host::signals;
use host::terminal::{print_line, talk};
use records::{Experiment, Load};
use runner::{End, Options, measure, planned_record};
use setup::foreign::Permitted;
use store::Store;

use crate::experiment_file;

/// Measure chunks of a fleet that `knee fleet plan` made, until all are done
///
///     knee fleet chunk /shared/exp          # whatever is free; takes over what dead hosts left
///     knee fleet chunk /shared/exp 7        # chunk 7 alone, for schedulers; does nothing if it is done
///     knee fleet chunk /shared/exp --check  # say whether this host can measure, and measure nothing
///
/// Whole blocks are kept when a host dies or a signal ends this. Run one at a time on a host.
///
/// Exit status: 0 done; 1 some runs failed, or another host is measuring the chunk; 2 this host cannot
/// measure it; 130 interrupted, whole blocks are kept.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Directory of the fleet
    directory: PathBuf,
    /// Number of the chunk, from 0 [default: all that are not done]
    number: Option<usize>,
    /// Only check that this host fits the plan and can write there; knee fleet status shows the answer too
    #[arg(long, conflicts_with = "number")]
    check: bool,
    /// Run a plan that is not yours without asking (`knee help safety`)
    #[arg(long)]
    yes: bool,
    /// Go on with this claim of the chunk after a boot, as the job does that knee submits for it
    #[arg(long, value_name = "CLAIM", requires = "number", hide_short_help = true)]
    go_on: Option<u32>,
}

/// Measures one chunk, or chunk after chunk.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Opened { folder, plan, experiment } = open(arguments)?;
    if let Some(number) = arguments.number {
        ensure!(
            number < plan.chunks.len(),
            "there is no chunk {number}: the plan has 0 to {}",
            plan.chunks.len() - 1
        );
    }
    if arguments.check {
        let check = ThisHost { folder, goes_on: false, experiment }.check(&plan)?;
        print_line(format_args!("{} can take chunks of this plan", check.host))?;
        return Ok(ExitCode::SUCCESS);
    }
    let goes_on = arguments.go_on.is_some();
    let this_host = ThisHost { folder: folder.clone(), goes_on, experiment };
    let mut member = Member::new(folder, plan, Owner::new(), this_host);
    // Between chunks nothing else would notice a signal.
    signals::catch();
    let work = match (arguments.go_on, arguments.number) {
        (Some(claim), Some(number)) => member.go_on(number, claim)?,
        (_, number) => member.work(number)?,
    };
    Ok(match work {
        Work::Done | Work::PassedOn => ExitCode::SUCCESS,
        Work::SomeFailed | Work::Busy => ExitCode::FAILURE,
        Work::Interrupted => {
            talk("interrupted: what is whole is kept; knee fleet chunk goes on with the rest");
            ExitCode::from(130)
        }
    })
}

/// The directory of a fleet, its plan, and what may be run of it.
struct Opened {
    folder: Folder,
    plan: Plan,
    experiment: Option<Permitted<Experiment>>,
}

/// Opens the directory. Asks first if the plan is of an experiment and not the user's own.
fn open(arguments: &Arguments) -> Result<Opened> {
    let path = arguments.directory.join("plan.json");
    // Refuses what is no directory of a fleet, and a plan that is no file there.
    Folder::open(&arguments.directory)?;
    let text = experiment_file::read(&path.to_string_lossy())?;
    let (folder, plan) = Folder::with_plan(&arguments.directory, text.look())?;
    // A check starts no program.
    let experiment = if arguments.check {
        None
    } else {
        let experiment = text.map(|_| plan.experiment.clone());
        Some(experiment_file::permitted(experiment, arguments.yes)?)
    };
    Ok(Opened { folder, plan, experiment })
}

/// Why this host cannot take chunks of a plan, and what to do; `None` if it can.
pub fn refusal(plan: &Plan) -> Result<Option<String>> {
    let experiment = &plan.experiment;
    let commands = experiment.loads.iter().filter_map(Load::command);
    let mut directories = commands.filter_map(|command| command.directory.as_deref());
    // Names of axes in braces are known for each point only, and other paths begin in the scratch directory.
    let is_plain = |path: &str| path.starts_with('/') && !path.contains('{');
    let missing = directories.find(|path| is_plain(path) && !Path::new(path).is_dir());
    if let Some(path) = missing {
        return Ok(Some(format!(
            "it has no directory {path}, in which the command runs: plan in a directory that all hosts \
             have, such as /tmp"
        )));
    }
    let mut record = planned_record(experiment.clone())?;
    let why = plan.refusal(env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, &record);
    Ok(why.or_else(|| runner::refusal(&mut record, &Options::default())))
}

/// Measures where this process runs.
struct ThisHost {
    folder: Folder,
    /// Whether an earlier process began the chunk, before a boot.
    goes_on: bool,
    /// The experiment of the plan, if that may be run.
    experiment: Option<Permitted<Experiment>>,
}

impl ThisHost {
    /// Looks whether this host can measure the plan, and keeps the answer for others to see.
    fn check(&self, plan: &Plan) -> Result<HostCheck> {
        let refusal = refusal(plan)
            .unwrap_or_else(|why| Some(format!("the experiment cannot be planned there: {why:#}")));
        let check = HostCheck::new(&Owner::new().host, &self.folder, refusal);
        let kept = self.folder.keep_check(&check);
        check.warnings.iter().for_each(|warning| talk(format_args!("{}: {warning}", check.host)));
        if !check.problems.is_empty() {
            bail!("{} cannot measure this plan: {}", check.host, check.problems.join("; "));
        }
        kept.map(|()| check)
    }
}

impl Measurer for ThisHost {
    fn check_fit(&mut self, plan: &Plan) -> Result<()> {
        self.check(plan).map(drop)
    }

    fn measure(&mut self, _: &Plan, folder: &Folder, share: &Share) -> Result<Outcome> {
        let experiment = self.experiment.clone().context("the plan was only looked at")?;
        measure_share(experiment, folder, share, self.goes_on)
    }
}

fn measure_share(
    experiment: Permitted<Experiment>,
    folder: &Folder,
    share: &Share,
    goes_on: bool,
) -> Result<Outcome> {
    let store = Store::at(folder.records_of(share.chunk, share.claim));
    let metal =
        if experiment.has_metal() { Some(relay::arrive(folder, share, goes_on)?) } else { None };
    let options = Options { blocks: Some(share.blocks.clone()), metal, ..Options::default() };
    let (mut runs, mut any_failed, mut unwritten) = (0, false, Ok(()));
    let measured = measure(experiment, options, &store, &mut |_, run| {
        runs += 1;
        any_failed |= !run.finished();
        unwritten = folder.beat(share.chunk, share.claim, runs);
        ControlFlow::Continue(())
    })?;
    // Without beats the chunk is measured all the same; another host may have begun it too.
    if let Err(why) = unwritten {
        talk(format_args!("{why:#}"));
    }
    // A boot that is needed ends the session as a signal does.
    let passed_on = match measured.next_boot.filter(|_| signals::received().is_none()) {
        Some(boot) => relay::pass_on(folder, share, boot).map(|()| true)?,
        None => false,
    };
    let is_interrupted = measured.end == End::Interrupted && !passed_on;
    Ok(Outcome { is_interrupted, any_failed, passed_on })
}
