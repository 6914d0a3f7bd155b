//! `knee fleet`: cuts an experiment into chunks for many hosts, shows how far they are, collects them.

mod status;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{CollectedRecord, as_json_line};
use anyhow::{Context, Result, bail, ensure};
use fleet::{Collected, Folder, Plan};
use host::counted;
use host::terminal::{hint, print, print_line, talk};
use pages::ViewFlags;
use records::check_label;
use setup::own_file;
use store::Store;

use super::{chunk, run};
use crate::experiment_file;
use crate::flags::{CutFlags, check_can_be_cut};

/// Measure one experiment on many hosts
///
/// An experiment is cut into chunks of whole blocks, which hosts take from a directory that they share. `knee run --on
/// ssh:a,b` and `--on slurm` take all these steps at once. See `knee help fleet`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(clap::Subcommand)]
enum FleetAction {
    Plan(Box<PlanArguments>),
    /// Show how many chunks are done, and which hosts cannot take any
    ///
    /// Reads the files alone, and asks no scheduler how far jobs are.
    Status {
        /// Directory of the fleet
        directory: PathBuf,
        #[command(flatten)]
        view: ViewFlags,
    },
    Collect(CollectArguments),
    Chunk(chunk::Arguments),
}

/// Cut an experiment into chunks of whole blocks
///
/// Hosts that share a directory measure them:
///
///     knee fleet plan exp.toml /shared/exp            # the last word is the new directory
///     knee fleet chunk /shared/exp                          # on each host: chunk after chunk
///     sbatch --array=0-59 --exclusive --requeue --wrap 'knee fleet chunk /shared/exp $SLURM_ARRAY_TASK_ID'
///     knee fleet status /shared/exp
///     knee fleet collect /shared/exp
///
/// Every variant of a block runs on the same host, so no difference between hosts enters a comparison.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
struct PlanArguments {
    #[command(flatten)]
    cut: CutFlags,
    /// Measure one variant twice in every block
    ///
    /// `knee compare` then says of each host how far equal runs differ there.
    #[arg(long)]
    equal_runs: bool,
    #[command(flatten)]
    run: run::Arguments,
}

/// Join the runs of all chunks into one record for each kind of host
///
/// Hosts are of one kind if their processor, topology and kernel are equal.
#[derive(clap::Args)]
struct CollectArguments {
    /// Directory of the fleet
    directory: PathBuf,
    /// Collect what is done, although chunks are missing
    #[arg(long)]
    partial: bool,
    /// Label of the records
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Whether this host measures chunks.
    pub fn measures(&self) -> bool {
        matches!(self.action, FleetAction::Chunk(_))
    }
}

/// Plans, shows or collects a fleet, or measures chunks of one.
pub fn run(arguments: Arguments, store: &Store) -> Result<ExitCode> {
    match arguments.action {
        FleetAction::Plan(arguments) => make_plan(*arguments, store),
        FleetAction::Status { directory, view } => status::status(&directory, view),
        FleetAction::Collect(arguments) => collect(&arguments, store),
        FleetAction::Chunk(arguments) => chunk::run(&arguments),
    }
}

const FILE_SYSTEMS_ON: &str = "Where file systems are made: loop or ram [default: loop]";

/// The help of `knee fleet plan`, without the flags of `knee run` that it refuses.
pub fn with_help_of_plan(plan: clap::Command) -> clap::Command {
    plan.mut_args(|argument| {
        let is_refused = run::NOT_OF_PLANS.contains(&argument.get_id().as_str());
        let argument = if is_refused { argument.hide(true) } else { argument };
        // Which hosts measure is known to whoever starts chunks there.
        let is_place = argument.get_id() == "on";
        if is_place { argument.help(FILE_SYSTEMS_ON).long_help(FILE_SYSTEMS_ON) } else { argument }
    })
}

fn make_plan(mut arguments: PlanArguments, store: &Store) -> Result<ExitCode> {
    if let Some(flag) = arguments.run.only_of_run().or(arguments.run.only_of_measuring()) {
        bail!("{flag} is a flag of knee run: leave it out");
    }
    let enough = arguments.run.what.len() > usize::from(arguments.run.commands.is_empty());
    let directory = arguments.run.what.pop().filter(|_| enough);
    let directory = directory.context(
        "no directory: knee fleet plan EXPERIMENT DIR, where DIR is new and all hosts share it",
    )?;
    let directory = std::path::absolute(PathBuf::from(directory))?;
    let experiment = run::request(&arguments.run)?.try_map(|mut experiment| {
        if arguments.equal_runs {
            ensure!(
                experiment.variants.len() > 1,
                "--equal-runs measures a variant twice in each block, but there are no variants: name some with \
                 --variant"
            );
            experiment.compare.placebo = 1.0;
        }
        Ok(experiment)
    })?;
    check_can_be_cut(experiment.look())?;
    // The plan will be the user's own file: nobody is asked about it again.
    let experiment = experiment_file::permitted(experiment, arguments.run.is_yes())?;
    let plan = arguments.cut.plan(experiment, store, None)?;
    Folder::create(&directory, &plan)?;
    say_planned(&plan, &directory)
}

fn say_planned(plan: &Plan, directory: &Path) -> Result<ExitCode> {
    let (chunk, place) = (plan.chunks[0], directory.display());
    let length = match chunk.estimated_s {
        s if s > 0.0 => format!(", about {s:.0} s each"),
        _ => String::new(),
    };
    let are_equal = plan.chunks.iter().all(|other| other.blocks == chunk.blocks);
    print_line(format_args!(
        "{} of {}{}{length}, in {place}",
        counted(plan.chunks.len(), "chunk"),
        if are_equal { "" } else { "at most " },
        counted(chunk.blocks as usize, "block"),
    ))?;
    hint(format_args!("on each host: knee fleet chunk {place}"));
    hint(format_args!("then: knee fleet collect {place}"));
    Ok(ExitCode::SUCCESS)
}

/// Says why there are several records, if there are: how the hosts of each differ from those of the others.
pub fn say_kinds(collected: &[Collected]) {
    if collected.len() > 1 {
        talk("hosts of several kinds: each kind has a record and a verdict of its own");
    }
    for one in collected.iter().filter(|one| !one.differs.is_empty()) {
        let nodes = Vec::from_iter(one.nodes.iter().map(String::as_str)).join(", ");
        talk(format_args!("{} of {nodes}: hosts differ in {}", one.id, one.differs));
    }
}

fn collect(arguments: &CollectArguments, store: &Store) -> Result<ExitCode> {
    let label = arguments.label.clone().unwrap_or_default();
    arguments.label.iter().try_for_each(|label| check_label(label))?;
    let (folder, plan) = Folder::open(&arguments.directory)?;
    let others = own_file::why_others_can_rename_in(folder.root())?;
    let others = others.map(|why| format!("{} {why}", folder.root().display()));
    let partial = arguments.partial;
    let collected = fleet::collect(&folder, &plan, store, &label, partial, others.as_deref())?;
    for one in &collected {
        let nodes: Vec<&str> = one.nodes.iter().map(String::as_str).collect();
        if arguments.json {
            print(as_json_line(&CollectedRecord {
                record: one.id.clone(),
                folder: one.folder.clone(),
                nodes: one.nodes.iter().cloned().collect(),
                blocks: one.blocks,
                runs: one.runs,
            })?)?;
            continue;
        }
        print_line(format_args!(
            "{}: {} in {} of {}: {}",
            one.id,
            counted(one.runs as usize, "run"),
            counted(one.blocks, "block"),
            counted(nodes.len(), "node"),
            nodes.join(", ")
        ))?;
    }
    say_kinds(&collected);
    for one in &collected {
        hint(format_args!("knee compare {}", one.id));
    }
    Ok(ExitCode::SUCCESS)
}
