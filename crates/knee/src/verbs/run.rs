//! `knee run`: measures workloads or experiments, stores the record, shows it.

mod against;
mod dose;
mod elsewhere;
mod metal;
mod on;
mod server;
mod value;

pub(super) use self::value::better;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::as_json_line;
use anyhow::{Context, Result, bail, ensure};
use host::Placement;
use host::terminal::{hint, print, talk};
use pages::{View, ViewFlags};
use plan::{commands, experiments, variants};
use records::{
    Axes, Command, CommandLine, Experiment, Form, Load, METRICS, Many, Opened, PointOrder,
    ProgramProbe, Scalar, Success, Variant, check_label, parse,
};
use reports::{Plan, plan_answer};
use runner::{End, Measured, Options, effects, history, new_record, refusal};
use setup::foreign::{Foreign, Permitted};
use store::Store;

use super::compare;
use crate::defaults::Defaults;
use crate::experiment_file;
use crate::flags::{
    AdaptiveFlags, Building, FailIf, FileSystemFlags, GuestFlags, OnFlags, seconds,
};
use crate::named;

/// Measure how workloads scale with CPUs
///
/// Each run is a process of its own with pinned tasks. A block runs every point once, in random order, so that a host that
/// drifts moves all of them. The record keeps each value of each run, and `knee show` prints it again. See `knee help run`.
#[derive(clap::Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub what: Arguments,
    /// Form of what is printed at the end: terminal, mail, markdown, html, json [default: terminal]
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        hide_possible_values = true,
        conflicts_with = "json",
        hide_short_help = true,
        help_heading = RUNS
    )]
    view: Option<View>,
    #[command(flatten)]
    on: OnFlags,
}

/// What to measure, and how.
#[derive(clap::Args)]
pub struct Arguments {
    /// Workloads, files in C, or one experiment
    ///
    /// An experiment is a TOML file or a name from `knee list experiments`; `knee list workloads` and
    /// `knee list commands` show the others. A file such as my_load.c (`knee new load`), or a test of
    /// will-it-scale, is compiled and measured as a workload is.
    #[arg(required_unless_present_any = ["commands", "against"])]
    pub what: Vec<String>,
    /// Use any program as the load
    ///
    /// It runs in the current directory. `{NAME}` is replaced by the values of --axis. See
    /// `knee help commands` for [load.command] in an experiment.
    #[arg(long = "command", value_name = "LINE", help_heading = LOAD)]
    pub commands: Vec<String>,
    /// Run a program before each run of a --command
    ///
    /// It is not measured. Several run in this order.
    #[arg(
        long,
        value_name = "LINE",
        requires = "commands",
        hide_short_help = true,
        help_heading = LOAD
    )]
    prepare: Vec<String>,
    /// Let a shell interpret --command and --prepare
    #[arg(long, requires = "commands", hide_short_help = true, help_heading = LOAD)]
    shell: bool,
    /// Count runs of a --command whatever their exit status
    #[arg(long, requires = "commands", hide_short_help = true, help_heading = LOAD)]
    ignore_failure: bool,
    /// More words for the compiler of a load's file
    ///
    /// They follow -O2 -g -pthread, as in --cflags '-O3 -lfoo'. CC and CXX name another compiler.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true, hide_short_help = true, help_heading = LOAD)]
    cflags: Option<String>,
    /// Values of `{NAME}` or of a parameter: NAME=1,2
    ///
    /// Several values make an axis. 1..8 is 1, 2, 4, 8; 1..81*3 multiplies by 3; 1..8:2 takes steps of 2; 1-4 is
    /// each number. Values with commas are separated by |: 'a,b|c', 'a,b|'.
    #[arg(long = "axis", value_name = "NAME=VALUES", value_parser = parse::axis, help_heading = LOAD)]
    axes: Vec<(String, Vec<String>)>,
    /// Set a parameter of all workloads: NAME=1,2
    ///
    /// `knee show` shows the parameters of a workload. Several values make an axis, written as
    /// for --axis.
    #[arg(long = "set", value_name = "NAME=VALUES", value_parser = parse::axis, help_heading = LOAD)]
    settings: Vec<(String, Vec<String>)>,
    /// Add time inside or outside the lock: inside=0,200ns,600ns
    ///
    /// The doses are points of the plan: they are added to hold_ns (inside) or idle_ns (outside). From three
    /// doses on, `knee scale` says how serial that time is and what less of it would gain. inside takes a
    /// workload that can hold its lock longer. mutex, rwsem and spinlock lengthen the hold of kernel locks of
    /// that kind whenever a task waited for one, by BPF; 100us at most.
    #[arg(long = "dose", value_name = "WHERE=TIMES", value_parser = dose::parse, help_heading = LOAD, hide_short_help = true)]
    doses: Vec<dose::Dose>,
    /// CPU counts: 1..all, 1-8, 4, cores, all or adaptive
    ///
    /// 1..all takes powers of two and the boundaries of the topology, 1-8 each count, 1..8:2 steps. adaptive begins with
    /// those of 1..all, and goes on with the counts that tell most about the knee for their time.
    #[arg(long, help_heading = LOAD)]
    pub cpus: Option<String>,
    #[command(flatten, next_help_heading = LOAD)]
    adaptive: AdaptiveFlags,
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
    /// Their file systems are what file operations measure. The default is $TMPDIR or /tmp; for
    /// create_files and unlink, unless $TMPDIR is set, /dev/shm.
    #[arg(long, value_delimiter = ',', help_heading = LOAD)]
    dir: Vec<PathBuf>,
    /// Length of each run, in seconds [default: 1]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = seconds,
        conflicts_with = "operations",
        help_heading = RUNS
    )]
    pub seconds: Vec<f64>,
    /// Number of operations per task, instead of --seconds
    ///
    /// For a command, how many operations each of its runs does.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        hide_short_help = true,
        help_heading = RUNS
    )]
    pub operations: Vec<u64>,
    /// Where to learn how many operations a run of a command did
    ///
    /// Text of its output around `{}`, such as 'ops: {}', or a regular expression with one group;
    /// 'stderr:…' reads standard error. Or a place in a program whose passes are counted:
    /// 'uprobe:[PROGRAM:]FUNCTION' or 'usdt:[PROGRAM:]PROVIDER:NAME'. Without PROGRAM it is the command's
    /// own. This needs root, counts all processes on the measured CPUs that run this file, and a pass takes
    /// about 1 us longer.
    #[arg(
        long,
        value_name = "PATTERN",
        conflicts_with = "operations",
        hide_short_help = true,
        help_heading = RUNS
    )]
    pub operations_from: Option<String>,
    #[command(flatten)]
    pub value: value::ValueFlags,
    #[command(flatten)]
    server: server::ServerFlags,
    /// Passes over all points [default: 5, variants 10]
    ///
    /// Each pass runs each point once, in random order. The default is 5, or 10 with variants.
    #[arg(long, alias = "runs", help_heading = RUNS)]
    pub blocks: Option<u32>,
    /// Sweep up and down in turn instead of in random order
    ///
    /// Every other block goes from the most CPUs down. Below the table, knee says whether rates depend on the
    /// way: what a run leaves behind is then the host's state, since tasks are fresh.
    #[arg(long, hide_short_help = true, help_heading = RUNS)]
    up_down: bool,
    /// Run each point this often before the first block
    ///
    /// Nothing of these runs is kept. By default there are none.
    #[arg(long, value_name = "RUNS", hide_short_help = true, help_heading = RUNS)]
    warmup: Option<u32>,
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
    pub plan: bool,
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
    #[arg(long, help_heading = RUNS, hide_short_help = true)]
    pub json: bool,
    /// Name the record, as a label
    ///
    /// The label can be used wherever a record is named.
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = RUNS)]
    label: Option<String>,
    /// Attach a note to the record
    #[arg(long, value_name = "TEXT", hide_short_help = true, help_heading = RUNS)]
    note: Option<String>,
    /// Run what files that are not yours decide, or reboot for --on metal, without asking (`knee help safety`)
    #[arg(long, hide_short_help = true, help_heading = RUNS)]
    yes: bool,
    /// A variant to compare: NAME='KEY=VALUE;…'
    ///
    /// The first variant is the baseline. A KEY is a parameter, workload, as, placement, dir, fs (see
    /// --fs), fs.mkfs, fs.mount, env.NAME, sysctl.NAME, the path of a file of /sys, daemon (a program
    /// that runs beside its runs; with daemon.ready and daemon.stop), under (a wrapper command for the
    /// worker) or binary (another build of knee).
    #[arg(
        long = "variant",
        value_name = "SETTINGS",
        value_parser = variants::parse,
        help_heading = COMPARISON
    )]
    pub variants: Vec<Variant>,
    /// Measure again what a record measured, to compare
    ///
    /// It is measured in turn with what the other arguments change of it, or with another record named
    /// instead of a workload. RECORD:VARIANT if it has several.
    #[arg(long, value_name = "RECORD", conflicts_with = "resume", help_heading = COMPARISON)]
    pub against: Option<String>,
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
    #[command(flatten, next_help_heading = COMPARISON)]
    fail_if: FailIf,
    #[command(flatten)]
    file_systems: FileSystemFlags,
    #[command(flatten)]
    guests: GuestFlags,
    /// In which form the end of a run, or a plan, is shown.
    #[arg(skip)]
    pub view: ViewFlags,
    /// Flags that come from the user's defaults.
    #[arg(skip)]
    pub defaults: Defaults,
}

/// Headings of the help, which group the options.
pub const LOAD: &str = "Load";
const RUNS: &str = "Runs";
const COMPARISON: &str = "Comparison";

/// Flags that plans of a fleet refuse, by the names of the fields.
pub const NOT_OF_PLANS: &[&str] = &[
    "against",
    "fail_if",
    "plan",
    "resume",
    "json",
    "label",
    "note",
    "i_own_this_device",
    // Of one host.
    "server_pid",
    "client_on",
    "server_address",
    // Decided after each block, or compiled: no chunk can do that alone.
    "until_decided",
    "budget",
    "knee_within",
    "cflags",
    // Of a kernel that a host boots itself.
    "initrd",
];

impl Arguments {
    /// A flag that was given and that only `knee run` knows.
    pub fn only_of_run(&self) -> Option<&'static str> {
        let fail_if = self.fail_if.is_given().then_some("--fail-if");
        let hosts = self.file_systems.hosts().map(|_| "--on ssh:… or slurm");
        let hosts = hosts.or(self.file_systems.is_metal().then_some("--on metal"));
        self.against.as_ref().map(|_| "--against").or(fail_if).or(hosts)
    }

    /// A flag that was given and that means something only where runs are made at once.
    pub fn only_of_measuring(&self) -> Option<&'static str> {
        let given = [
            (self.plan, "--plan"),
            (self.resume, "--resume"),
            (self.json, "--json"),
            (self.label.is_some(), "--label"),
            (self.note.is_some(), "--note"),
            (self.file_systems.i_own_this_device, "--i-own-this-device"),
        ];
        given.iter().find_map(|(given, flag)| given.then_some(*flag)).or(self.server.given())
    }

    /// Whether files that are not the user's are run without asking.
    pub fn is_yes(&self) -> bool {
        self.yes
    }
}

/// Refuses an experiment that judges by, or shows, a metric that no run can have.
fn check_metrics(experiment: &Experiment) -> Result<()> {
    let commands = commands::for_experiment(experiment, &experiment.variants)?;
    let own = || commands.values().flat_map(|command| &command.metrics).map(|m| m.name.as_str());
    for name in experiment.compare.shown.iter().chain([&experiment.compare.metric]) {
        let (plain, _) = records::per_operation(name);
        if records::find_metric(plain).is_some() || own().any(|known| known == plain) {
            continue;
        }
        let known = METRICS.iter().map(|metric| metric.name).chain(own());
        bail!("{}", host::unknown("metric", name, known, "knee list metrics"))
    }
    Ok(())
}

/// Measures, keeps and shows.
pub fn run(arguments: RunArguments, store: &Store) -> Result<ExitCode> {
    let RunArguments { what: mut arguments, view, on: elsewhere } = arguments;
    arguments.json |= view == Some(View::Json);
    arguments.view = view.unwrap_or(View::Terminal).into();
    let (arguments, elsewhere) = (&arguments, &elsewhere);
    elsewhere.check(arguments.file_systems.hosts())?;
    let Defaults { words, file } = &arguments.defaults;
    if !words.is_empty() {
        talk(format_args!("defaults of {}: {}", file.display(), words.join(" ")));
    }
    let request = match &arguments.against {
        Some(record) => against::request(arguments, record, store)?,
        None => request(arguments)?,
    };
    check_metrics(request.look())?;
    compare::layout(request.look())?;
    on::check_kernels(request.look(), arguments.file_systems.hosts())?;
    if arguments.plan {
        show_plan(arguments, request.look(), store)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.file_systems.is_metal() {
        return metal::run(arguments, elsewhere, request, store);
    }
    if let Some(place) = arguments.file_systems.hosts() {
        return on::run(arguments, elsewhere, place, request, store);
    }
    let (Measured { end, folder, .. }, printed) = measure(arguments, request, store)?;
    conclude(arguments, end, folder.as_deref(), printed)
}

/// Prints what would be run, and runs nothing.
pub fn show_plan(arguments: &Arguments, experiment: &Experiment, store: &Store) -> Result<()> {
    let mut record = new_record(experiment.clone())?;
    let refusal = refusal(&mut record, &options(arguments)?);
    let past = history::past_runs(&record, store)?;
    let effects = effects(&record)?;
    let plan = Plan { record: &record, past: &past, effects: &effects, refusal };
    let view = if arguments.json { View::Json.into() } else { arguments.view };
    view.print(|| Ok(plan_answer(&plan)), || Ok(pages::plan(&plan)))
}

fn options(arguments: &Arguments) -> Result<Options> {
    arguments.label.iter().try_for_each(|label| check_label(label))?;
    Ok(Options {
        owns_device: arguments.file_systems.i_own_this_device,
        resume: arguments.resume,
        label: arguments.label.clone(),
        note: arguments.note.clone(),
        blocks: None,
        metal: None,
        defaults: arguments.defaults.words.clone(),
    })
}

/// Measures, and with `--json` prints each run. Asks first if others than the user decided what is run. The second
/// result is an error of printing, which does not stop the measurement.
pub fn measure(
    arguments: &Arguments,
    experiment: Foreign<Experiment>,
    store: &Store,
) -> Result<(Measured, Result<()>)> {
    let options = options(arguments)?;
    measure_with(arguments, experiment_file::permitted(experiment, arguments.yes)?, options, store)
}

fn measure_with(
    arguments: &Arguments,
    experiment: Permitted<Experiment>,
    options: Options,
    store: &Store,
) -> Result<(Measured, Result<()>)> {
    let mut printed = Ok(());
    let measured = runner::measure(experiment, options, store, &mut |_, run| {
        if arguments.json && printed.is_ok() {
            printed = as_json_line(run).and_then(print);
        }
        ControlFlow::Continue(())
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
        printed = compare::print_conclusion(&record, arguments.view);
    }
    ended(arguments, end, folder, (&record, printed))
}

/// Says where a record is that was shown; `printed` is the result of showing it.
fn ended(
    arguments: &Arguments,
    end: End,
    folder: &Path,
    (record, printed): (&Opened, Result<()>),
) -> Result<ExitCode> {
    hint(format_args!("record {} in {}", record.record.id, folder.display()));
    if record.runs.iter().any(|run| run.finished()) {
        // Records lie in a folder of the store, those of two letters together.
        let records = folder.ancestors().nth(2).unwrap_or(folder);
        let page = compare::page_command(std::slice::from_ref(&record.record.id), records);
        hint(format_args!("as a page: {page}"));
    }
    if end == End::Interrupted {
        talk("interrupted: finished runs are kept; the same command with --resume does the rest");
        return Ok(ExitCode::from(130));
    }
    printed?;
    let failed = record.record.runs_failed > 0;
    let changes = record.record.sessions.last().and_then(|session| session.host_changes.as_ref());
    let left_behind = changes.is_some_and(|changes| changes.iter().any(|change| change.by_knee));
    if failed || left_behind {
        return Ok(ExitCode::FAILURE);
    }
    if !arguments.fail_if.is_given() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(arguments.fail_if.status(&compare::of_record(record)?))
}

/// The experiment that the arguments describe: one from a file, changed by flags, or one made
/// from flags alone.
pub fn request(arguments: &Arguments) -> Result<Foreign<Experiment>> {
    let (named, size) = as_named(arguments)?;
    with_known_code(named.try_map(|experiment| changed(experiment, size, arguments))?)
}

/// An experiment with what is known of the code of its loads, without compiling it.
fn with_known_code(experiment: Foreign<Experiment>) -> Result<Foreign<Experiment>> {
    own_loads::with_code(experiment)?.try_map(|mut experiment| {
        own_loads::add_known(&mut experiment)?;
        Ok(experiment)
    })
}

/// The experiment of a file, or one of workloads, as it is without flags; and the `--size` of file
/// systems, unless it is the size of the experiment.
fn as_named(arguments: &Arguments) -> Result<(Foreign<Experiment>, Option<&str>)> {
    let size = arguments.file_systems.size();
    match arguments.what.as_slice() {
        [one] if named::is_experiment(one) => {
            let text = experiment_file::read(one)?;
            let (experiment, bytes) = experiments::parse_at(one, text.look(), size)?;
            Ok((text.map(|_| experiment), bytes))
        }
        names => Ok((Foreign::typed(of_workloads(names)?), size)),
    }
}

/// An experiment with the changes that the flags ask for; `bytes` is the size of file systems.
fn changed(
    mut experiment: Experiment,
    bytes: Option<&str>,
    arguments: &Arguments,
) -> Result<Experiment> {
    add_commands(&mut experiment, arguments)?;
    ensure!(
        !experiment.loads.iter().all(is_command) || arguments.seconds.is_empty(),
        "--seconds does not apply to a command, which runs to its own end: pass its length as a \
         {{NAME}} with --axis"
    );
    count_operations(&mut experiment, arguments)?;
    arguments.server.apply(&mut experiment)?;
    arguments.value.apply(&mut experiment)?;
    let many = |values: &Vec<u32>| (!values.is_empty()).then(|| Many(values.clone()));
    arguments.adaptive.apply(arguments.cpus.as_deref(), &mut experiment)?;
    let counts = arguments.cpus.as_ref().filter(|_| experiment.adaptive.is_none());
    let flags = Axes {
        cpus: counts.map(|c| Many(vec![Scalar(c.clone())])),
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
    change_loads(&mut experiment, &flags, arguments)?;
    experiment.variants.extend(arguments.variants.iter().cloned());
    let yes = arguments.yes;
    let building = if arguments.plan { Building::Refused } else { Building::Allowed { yes } };
    arguments.guests.apply(&mut experiment, arguments.file_systems.is_metal(), building)?;
    arguments.file_systems.apply(&mut experiment, bytes)?;
    let compare = &mut experiment.compare;
    compare.until_decided |= arguments.until_decided;
    compare.metric = arguments.metric.clone().unwrap_or_else(|| compare.metric.clone());
    compare.smallest_effect = arguments.smallest_effect.unwrap_or(compare.smallest_effect);
    if arguments.up_down {
        compare.order = PointOrder::UpDown;
    }
    experiment.blocks = arguments.blocks.or(experiment.blocks);
    // The record states the number: defaults may differ between versions of knee.
    experiment.blocks = Some(experiment.blocks());
    experiment.warmup_runs = arguments.warmup.unwrap_or(experiment.warmup_runs);
    experiment.latency |= arguments.latency;
    if arguments.explain {
        experiment.explain.get_or_insert_default();
    }
    experiment.seed = arguments.seed.or(experiment.seed);
    experiment.timeout_s = arguments.timeout.unwrap_or(experiment.timeout_s);
    experiment.stop_grace_s = arguments.stop_grace.unwrap_or(experiment.stop_grace_s);
    add_compiler_flags(&mut experiment, arguments)?;
    experiment.check()?;
    Ok(experiment)
}

/// Gives the words of `--cflags` to the loads that are compiled.
fn add_compiler_flags(experiment: &mut Experiment, arguments: &Arguments) -> Result<()> {
    let Some(text) = &arguments.cflags else { return Ok(()) };
    let words = shlex::split(text).with_context(|| format!("--cflags '{text}': unclosed quote"))?;
    let mut own = experiment.own_loads_mut().peekable();
    ensure!(
        own.peek().is_some(),
        "--cflags is for loads that are compiled: name a file such as my_load.c"
    );
    own.for_each(|own| own.flags.extend(words.iter().cloned()));
    Ok(())
}

/// Says how many operations the runs of commands do.
fn count_operations(experiment: &mut Experiment, arguments: &Arguments) -> Result<()> {
    let from = arguments.operations_from.as_deref();
    let probe = from.filter(|from| ProgramProbe::is_meant(from));
    let probe = probe.map(ProgramProbe::parse).transpose()?;
    let output = from.filter(|_| probe.is_none()).map(commands::operations_from).transpose()?;
    let mut commands = experiment.commands_mut().peekable();
    ensure!(
        from.is_none() || commands.peek().is_some(),
        "--operations-from counts operations of a command: name one with --command"
    );
    for command in commands {
        if let Some(probe) = &probe {
            command.operations = Some(Scalar(probe.to_string()));
        }
        if let Some(extract) = &output {
            command.operations = Some(Scalar(extract.name.clone()));
            command.metrics.push(extract.clone());
        }
        match arguments.operations[..] {
            [] => (),
            [n] => command.operations = Some(Scalar(n.to_string())),
            _ => {
                bail!("--operations has several numbers, but a run of a command does one: name one")
            }
        }
    }
    Ok(())
}

/// Applies the flags that concern all loads.
fn change_loads(experiment: &mut Experiment, flags: &Axes, arguments: &Arguments) -> Result<()> {
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
        for dose in &arguments.doses {
            dose.add_to(load)?;
        }
    }
    Ok(())
}

fn is_command(load: &Load) -> bool {
    matches!(commands::for_load(load), Ok(Some(_)))
}

fn of_workloads(names: &[String]) -> Result<Experiment> {
    let mut loads = Vec::new();
    for name in names {
        ensure!(
            !named::is_experiment(name),
            "{name} is an experiment: run it alone, or name workloads only"
        );
        loads.push(named::load(name)?);
    }
    let name = loads.iter().map(Load::name).collect::<Vec<_>>().join(" ");
    Ok(Experiment { name, loads, ..Experiment::default() })
}

/// Adds the `--command`s as loads. They run in the current directory, as any program named on
/// the command line does; commands of an experiment run in their scratch directory.
fn add_commands(experiment: &mut Experiment, arguments: &Arguments) -> Result<()> {
    for line in &arguments.commands {
        let here = std::env::current_dir().context("looking for the current directory")?;
        let command = Command {
            run: CommandLine::Text(line.clone()),
            prepare: arguments.prepare.iter().cloned().map(CommandLine::Text).collect(),
            shell: arguments.shell,
            success: if arguments.ignore_failure {
                Success::ANY
            } else {
                Command::default().success
            },
            directory: Some(here.to_string_lossy().into_owned()),
            timeout_s: arguments.timeout.unwrap_or(Command::default().timeout_s),
            ..Command::default()
        };
        let named = commands::for_load(&Load::new(command))?;
        let named = named.context("a load with a command is one")?;
        let name = [experiment.name.as_str(), &named.name];
        experiment.name = name.join(" ").trim().to_string();
        experiment.loads.push(Load::new(named));
    }
    Ok(())
}
