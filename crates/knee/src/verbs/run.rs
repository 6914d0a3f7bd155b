//! `knee run`: measures workloads or experiments, stores the record, shows it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use host::Placement;
use host::stderr::{print, print_line, talk};
use plan::{commands, variants};
use records::{
    Axes, Command, CommandLine, Experiment, Form, Load, METRICS, Many, Scalar, Variant, parse,
};
use reports::Style;
use runner::{End, Measured, Options, history, new_record};
use store::Store;

use super::compare;
use crate::experiment_file;
use crate::flags::{FileSystemFlags, GuestFlags};

/// What to measure, and how.
#[derive(clap::Args)]
pub struct Arguments {
    /// Workloads, or one experiment: a TOML file or a name from `knee list experiments`
    #[arg(required_unless_present = "commands")]
    pub what: Vec<String>,
    /// Use any program as the load, run in the current directory; `{NAME}` is replaced by the
    /// values of --axis. See docs/guide/commands.md for [load.command] in an experiment
    #[arg(long = "command", value_name = "PROGRAM ARGUMENTS")]
    pub commands: Vec<String>,
    /// Values of `{NAME}` in a command, or of a parameter; several values make an axis
    #[arg(long = "axis", value_name = "NAME=VALUE[|VALUE…]", value_parser = axis)]
    axes: Vec<(String, Vec<String>)>,
    /// CPU counts: 1..all (powers of two plus topology boundaries), 1-8 (each), 4, cores, all
    #[arg(long)]
    pub cpus: Option<String>,
    /// Number of tasks at every CPU count; points with fewer tasks than CPUs are skipped
    #[arg(long, value_delimiter = ',', conflicts_with = "tasks_per_cpu")]
    tasks: Vec<u32>,
    /// Tasks per CPU [default: 1]
    #[arg(long, value_delimiter = ',')]
    tasks_per_cpu: Vec<u32>,
    /// Run tasks as processes, threads or both (processes,threads) [default: processes]
    #[arg(long = "as", value_delimiter = ',', value_parser = variants::form)]
    forms: Vec<Form>,
    /// Order in which CPUs are used: compact, cores, scatter, one-per-llc, one-per-node
    /// [default: cores]
    #[arg(long, value_delimiter = ',')]
    placement: Vec<Placement>,
    /// A variant to compare: its name and its settings, NAME='KEY=VALUE;…'; the first variant is
    /// the baseline. A KEY is a parameter, workload, as, placement, dir, fs (see --fs), fs.mkfs,
    /// fs.mount, env.NAME, sysctl.NAME, under (a wrapper command for the worker) or binary
    /// (another build of knee)
    #[arg(long = "variant", value_name = "NAME=SETTINGS", value_parser = variants::parse)]
    variants: Vec<Variant>,
    /// Run until each comparison is decided, for at most --blocks blocks [default: 60]
    #[arg(long)]
    until_decided: bool,
    /// Metric to judge variants by [default: operations_per_s; for commands wall_s]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Smallest change that matters: smaller differences count as equal [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent)]
    smallest_effect: Option<f64>,
    /// Passes over all points, each in random order [default: 5; 10 with variants]
    #[arg(long)]
    blocks: Option<u32>,
    /// Length of each run, in seconds [default: 1]
    #[arg(long, value_delimiter = ',', conflicts_with = "operations")]
    seconds: Vec<f64>,
    /// Run a fixed number of operations per task instead of --seconds
    #[arg(long, value_delimiter = ',', value_name = "PER_TASK")]
    pub operations: Vec<u64>,
    /// Directories whose file systems are measured [default: the temporary directory; for create_files and
    /// unlink, unless $TMPDIR is set, /dev/shm]
    #[arg(long, value_delimiter = ',')]
    dir: Vec<PathBuf>,
    #[command(flatten)]
    file_systems: FileSystemFlags,
    #[command(flatten)]
    guests: GuestFlags,
    /// Set a parameter of all workloads (see `knee describe`); several values make an axis
    #[arg(long = "set", value_name = "NAME=VALUE[,VALUE…]", value_parser = setting)]
    settings: Vec<(String, Vec<String>)>,
    /// Also measure the latency of single operations, in separate runs
    #[arg(long)]
    latency: bool,
    /// Seed of the random order [default: random, stored in the record]
    #[arg(long)]
    seed: Option<u64>,
    /// Time limit of a run in addition to its length, or of a --command in all [default: 600]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// How long tasks may take to stop at the end of a run [default: 10]
    #[arg(long, value_name = "SECONDS")]
    stop_grace: Option<f64>,
    /// Do the missing runs of the newest partial record of this experiment
    #[arg(long)]
    resume: bool,
    /// Print the planned runs, their duration and what they can detect, without running them
    #[arg(long, conflicts_with = "resume")]
    plan: bool,
    /// Also profile each point, in separate runs, for `knee explain last`
    #[arg(long)]
    explain: bool,
    /// Print each run as a line of JSON as soon as it is stored
    #[arg(long)]
    pub json: bool,
}

/// Refuses an experiment that judges by, or shows, a metric that no run can have.
fn check_metrics(experiment: &Experiment) -> Result<()> {
    let commands = commands::for_experiment(experiment, &experiment.variants)?;
    let own = || commands.values().flat_map(|command| &command.metrics).map(|m| m.name.as_str());
    for name in experiment.compare.shown.iter().chain([&experiment.compare.metric]) {
        let plain = name.strip_suffix("/op").unwrap_or(name);
        let is_known = METRICS.iter().any(|metric| metric.matches(plain));
        if is_known || own().any(|known| known == plain) || probes::counters::find(plain).is_some()
        {
            continue;
        }
        let hint = host::nearest(name, METRICS.iter().map(|metric| metric.name).chain(own()));
        bail!("no metric is called '{name}'{hint}; `knee list metrics` shows all")
    }
    Ok(())
}

fn setting(text: &str) -> Result<(String, Vec<String>)> {
    let (name, values) = text.split_once('=').context("must be NAME=VALUE")?;
    Ok((name.to_string(), values.split(',').map(str::to_string).collect()))
}

fn axis(text: &str) -> Result<(String, Vec<String>)> {
    let (name, values) = text.split_once('=').context("must be NAME='VALUE|VALUE'")?;
    Ok((name.to_string(), values.split('|').map(str::to_string).collect()))
}

/// Measures, keeps and shows.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let experiment = experiment(arguments)?;
    check_metrics(&experiment)?;
    compare::layout(&experiment)?;
    if arguments.plan {
        let record = new_record(experiment)?;
        let past = history::past_runs(&record, store)?;
        print(reports::plan(&record, &past, &Style::for_stdout()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (Measured { end, folder }, printed) = measure(arguments, experiment, store)?;
    conclude(arguments, end, folder.as_deref(), printed)
}

/// Measures, and with `--json` prints each run. The second result is an error of printing, which
/// does not stop the measurement.
pub fn measure(
    arguments: &Arguments,
    experiment: Experiment,
    store: &Store,
) -> Result<(Measured, Result<()>)> {
    let options =
        Options { owns_device: arguments.file_systems.i_own_this_device, resume: arguments.resume };
    let mut printed = Ok(());
    let measured = runner::measure(experiment, options, store, |run| {
        if arguments.json && printed.is_ok() {
            printed = print_line(serde_json::to_string(run).expect("runs are plain data"));
        }
    })?;
    Ok((measured, printed))
}

/// Shows the record and says where it is; `printed` is the result of printing its runs.
fn conclude(
    arguments: &Arguments,
    end: End,
    folder: Option<&Path>,
    mut printed: Result<()>,
) -> Result<ExitCode> {
    let Some(folder) = folder else {
        talk("interrupted before the first run finished: no record, nothing to keep");
        return Ok(ExitCode::from(130));
    };
    let record = store::open(folder)?;
    if !arguments.json {
        let style = Style::for_stdout();
        let layout = compare::layout(&record.record.experiment)?;
        printed = print(match record.record.variants.len() {
            0 | 1 if compare::needs_pairs(layout) => reports::scaling(&record, &style),
            _ => compare::of_record(&record, style)?,
        });
    }
    talk(format_args!("record {} in {}", record.record.id, folder.display()));
    if end == End::Interrupted {
        talk("interrupted: finished runs are kept; the same command with --resume does the rest");
        return Ok(ExitCode::from(130));
    }
    printed?;
    let failed = record.record.runs_failed > 0;
    let changes = record.record.sessions.last().and_then(|session| session.host_changes.as_ref());
    let left_behind = changes.is_some_and(|changes| changes.iter().any(|change| change.by_knee));
    Ok(if failed || left_behind { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The experiment that the arguments describe: one from a file, changed by flags, or one made
/// from flags alone.
pub fn experiment(arguments: &Arguments) -> Result<Experiment> {
    let (mut experiment, bytes) = match arguments.what.as_slice() {
        [one] if experiment_file::is_experiment(one) => {
            experiment_file::read_at(one, arguments.file_systems.size())?
        }
        names => (of_workloads(names)?, arguments.file_systems.size()),
    };
    add_commands(&mut experiment, arguments)?;
    ensure!(
        !experiment.loads.iter().all(is_command)
            || (arguments.seconds.is_empty() && arguments.operations.is_empty()),
        "--seconds and --operations do not apply to a command, which runs to its own end: pass \
         its length as a {{NAME}} with --axis"
    );
    let many = |values: &Vec<u32>| (!values.is_empty()).then(|| Many(values.clone()));
    let flags = Axes {
        cpus: arguments.cpus.as_ref().map(|c| Many(vec![Scalar(c.clone())])),
        tasks: many(&arguments.tasks),
        tasks_per_cpu: many(&arguments.tasks_per_cpu),
        forms: (!arguments.forms.is_empty()).then(|| Many(arguments.forms.clone())),
        placement: (!arguments.placement.is_empty()).then(|| Many(arguments.placement.clone())),
        dir: (!arguments.dir.is_empty()).then(|| Many(arguments.dir.clone())),
        seconds: (!arguments.seconds.is_empty()).then(|| Many(arguments.seconds.clone())),
        operations_per_task: (!arguments.operations.is_empty())
            .then(|| Many(arguments.operations.clone())),
    };
    experiment.axes = flags.over(&experiment.axes);
    change_loads(&mut experiment, &flags, arguments);
    experiment.variants.extend(arguments.variants.iter().cloned());
    arguments.guests.apply(&mut experiment)?;
    arguments.file_systems.apply(&mut experiment, bytes)?;
    let compare = &mut experiment.compare;
    compare.until_decided |= arguments.until_decided;
    compare.metric = arguments.metric.clone().unwrap_or_else(|| compare.metric.clone());
    compare.smallest_effect = arguments.smallest_effect.unwrap_or(compare.smallest_effect);
    experiment.blocks = arguments.blocks.or(experiment.blocks);
    // The record states the number: defaults may differ between versions of knee.
    experiment.blocks = Some(experiment.blocks());
    experiment.latency |= arguments.latency;
    if arguments.explain {
        experiment.explain.get_or_insert_default();
    }
    experiment.seed = arguments.seed.or(experiment.seed);
    experiment.timeout_s = arguments.timeout.unwrap_or(experiment.timeout_s);
    experiment.stop_grace_s = arguments.stop_grace.unwrap_or(experiment.stop_grace_s);
    experiment.check()?;
    Ok(experiment)
}

/// Applies the flags that concern all loads.
fn change_loads(experiment: &mut Experiment, flags: &Axes, arguments: &Arguments) {
    let any_command = experiment.loads.iter().any(is_command);
    for load in &mut experiment.loads {
        load.axes = flags.over(&load.axes);
        // --axis is for commands only, if there are any.
        let takes_axes = is_command(load) || !any_command;
        let axes = arguments.axes.iter().filter(|_| takes_axes);
        for (name, values) in arguments.settings.iter().chain(axes) {
            let words = values.iter().cloned().map(Scalar).collect();
            load.parameters.insert(name.clone(), Many(words));
        }
    }
}

fn is_command(load: &Load) -> bool {
    matches!(commands::for_load(load), Ok(Some(_)))
}

fn of_workloads(names: &[String]) -> Result<Experiment> {
    let mut loads = Vec::new();
    for name in names {
        ensure!(
            !experiment_file::is_experiment(name),
            "{name} is an experiment: run it alone, or name workloads only"
        );
        let workload = if name.starts_with(commands::PREFIX) {
            commands::read(name).map(|_| name.clone())?
        } else {
            plan::workload(name)?.name.to_string()
        };
        loads.push(Load { workload, ..Load::default() });
    }
    let name = loads.iter().map(|l| l.workload.as_str()).collect::<Vec<_>>().join(" ");
    Ok(Experiment { name, loads, ..Experiment::default() })
}

/// Adds the `--command`s as loads. They run in the current directory, as any program named on
/// the command line does; commands of an experiment run in their scratch directory.
fn add_commands(experiment: &mut Experiment, arguments: &Arguments) -> Result<()> {
    for line in &arguments.commands {
        let here = std::env::current_dir().context("looking for the current directory")?;
        let command = Command {
            run: CommandLine::Text(line.clone()),
            directory: Some(here.to_string_lossy().into_owned()),
            timeout_s: arguments.timeout.unwrap_or(Command::default().timeout_s),
            ..Command::default()
        };
        let load = Load { command: Some(command), ..Load::default() };
        let named = commands::for_load(&load)?.context("a load with a command is one")?;
        let name = [experiment.name.as_str(), &named.name];
        experiment.name = name.join(" ").trim().to_string();
        experiment.loads.push(Load { command: Some(named), ..load });
    }
    Ok(())
}
