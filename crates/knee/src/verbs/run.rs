//! `knee run`: measures workloads or experiments, stores the record, shows it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use host::Placement;
use host::terminal::{hint, print, print_line, talk};
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
    /// Workloads, or one experiment
    ///
    /// An experiment is a TOML file or a name from `knee list experiments`; `knee list workloads` and
    /// `knee list commands` show the others.
    #[arg(required_unless_present = "commands")]
    pub what: Vec<String>,
    /// Use any program as the load
    ///
    /// It runs in the current directory. `{NAME}` is replaced by the values of --axis. See
    /// docs/guide/commands.md for [load.command] in an experiment.
    #[arg(long = "command", value_name = "LINE", help_heading = LOAD)]
    pub commands: Vec<String>,
    /// Values of `{NAME}` or of a parameter: NAME='1|2'
    ///
    /// Several values make an axis.
    #[arg(long = "axis", value_name = "NAME=VALUES", value_parser = axis, help_heading = LOAD)]
    axes: Vec<(String, Vec<String>)>,
    /// Set a parameter of all workloads: NAME=1,2
    ///
    /// `knee describe` shows the parameters of a workload. Several values make an axis.
    #[arg(long = "set", value_name = "NAME=VALUES", value_parser = setting, help_heading = LOAD)]
    settings: Vec<(String, Vec<String>)>,
    /// CPU counts: 1..all, 1-8, 4, cores or all
    ///
    /// 1..all takes powers of two and the boundaries of the topology, 1-8 each count.
    #[arg(long, help_heading = LOAD)]
    pub cpus: Option<String>,
    /// Number of tasks at every CPU count
    ///
    /// Points with fewer tasks than CPUs are skipped.
    #[arg(long, value_delimiter = ',', conflicts_with = "tasks_per_cpu", help_heading = LOAD)]
    tasks: Vec<u32>,
    /// Tasks per CPU [default: 1]
    #[arg(long, value_delimiter = ',', hide_short_help = true, help_heading = LOAD)]
    tasks_per_cpu: Vec<u32>,
    /// Run tasks as processes, threads or both (processes,threads) [default: processes]
    #[arg(
        long = "as",
        value_delimiter = ',',
        value_parser = variants::form,
        hide_short_help = true,
        help_heading = LOAD
    )]
    forms: Vec<Form>,
    /// Order in which CPUs are used: compact, cores, scatter, one-per-llc, one-per-node
    /// [default: cores]
    #[arg(long, value_delimiter = ',', hide_short_help = true, help_heading = LOAD)]
    placement: Vec<Placement>,
    /// Directories to measure in [default: temporary]
    ///
    /// Their file systems are what file operations measure. The default is $TMPDIR or /tmp.
    #[arg(long, value_delimiter = ',', help_heading = LOAD)]
    dir: Vec<PathBuf>,
    /// Length of each run, in seconds [default: 1]
    #[arg(long, value_delimiter = ',', conflicts_with = "operations", help_heading = RUNS)]
    seconds: Vec<f64>,
    /// Run a fixed number of operations per task instead of --seconds
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PER_TASK",
        hide_short_help = true,
        help_heading = RUNS
    )]
    pub operations: Vec<u64>,
    /// Passes over all points [default: 5, variants 10]
    ///
    /// Each pass takes the points in random order. The default is 5, or 10 with variants.
    #[arg(long, help_heading = RUNS)]
    blocks: Option<u32>,
    /// Also measure latency, in separate runs
    #[arg(long, help_heading = RUNS)]
    latency: bool,
    /// Also profile each point, for `knee explain`
    ///
    /// Profiles are runs of their own.
    #[arg(long, help_heading = RUNS)]
    explain: bool,
    /// Print the planned runs and what they can detect
    ///
    /// Also prints how long they take. Measures nothing.
    #[arg(long, conflicts_with = "resume", help_heading = RUNS)]
    plan: bool,
    /// Do the missing runs of the newest partial record
    ///
    /// The record must be of this experiment.
    #[arg(long, help_heading = RUNS)]
    resume: bool,
    /// Seed of the random order [default: random, stored in the record]
    #[arg(long, hide_short_help = true, help_heading = RUNS)]
    seed: Option<u64>,
    /// Time limit of a run in addition to its length, or of a --command in all [default: 600]
    #[arg(long, value_name = "SECONDS", hide_short_help = true, help_heading = RUNS)]
    timeout: Option<f64>,
    /// How long tasks may take to stop at the end of a run [default: 10]
    #[arg(long, value_name = "SECONDS", hide_short_help = true, help_heading = RUNS)]
    stop_grace: Option<f64>,
    /// Print each run as a line of JSON when it is stored
    #[arg(long, help_heading = RUNS)]
    pub json: bool,
    /// A variant to compare: NAME='KEY=VALUE;…'
    ///
    /// The first variant is the baseline. A KEY is a parameter, workload, as, placement, dir, fs (see
    /// --fs), fs.mkfs, fs.mount, env.NAME, sysctl.NAME, under (a wrapper command for the worker) or
    /// binary (another build of knee).
    #[arg(
        long = "variant",
        value_name = "NAME=SETTINGS",
        value_parser = variants::parse,
        help_heading = COMPARISON
    )]
    variants: Vec<Variant>,
    /// Run until each comparison is decided
    ///
    /// At most --blocks blocks [default: 60].
    #[arg(long, help_heading = COMPARISON)]
    until_decided: bool,
    /// Metric to judge variants by
    ///
    /// The default is operations_per_s, for commands wall_s.
    #[arg(long, value_name = "NAME", help_heading = COMPARISON)]
    metric: Option<String>,
    /// Smallest change that matters: smaller differences count as equal [default: 2%]
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = parse::percent,
        hide_short_help = true,
        help_heading = COMPARISON
    )]
    smallest_effect: Option<f64>,
    #[command(flatten)]
    file_systems: FileSystemFlags,
    #[command(flatten)]
    guests: GuestFlags,
}

/// Headings of the help, which group the options.
pub const LOAD: &str = "Load";
const RUNS: &str = "Runs";
const COMPARISON: &str = "Comparison";

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
    hint(format_args!("record {} in {}", record.record.id, folder.display()));
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
