//! `knee explain`: where the time of an operation goes, to the nanosecond, and what accounts for
//! the difference between two variants.

mod haste;
mod members;
mod operation_counts;
mod part;
mod perf_data;
mod profiled;
pub mod running;
mod samples;
mod saved_looks;
mod source_lines;
mod watched;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use explanations::ledger::LedgerPart;
use host::pager;
use host::terminal::hint;
use pages::{FormFlag, Page, View, ViewFlags, explanation, terminal};
use plan::commands;
use records::{Experiment, OperationSource, Variant};
use runner::{End, Measured, planned_record};
use setup::foreign::Foreign;
use store::Store;
use text::Style;

use self::part::ProfilePart;
pub use self::profiled::{ExplainedRecords, ProfiledRecords};

use super::run;
use crate::named::{self, NamedRecords};

/// Account for the time of an operation, or for a difference
///
/// WHAT is a workload or an experiment, which is measured first, with the flags of `knee run`;
/// or records (`last`, a label, an id, a directory) or variants of the last record, measured with
/// `knee run --explain` or `knee explain`; or, after `--`, any command; or one or two perf.data
/// files, the baseline first, with --operations for the number of operations in each.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    run: run::Arguments,
    /// Sampling frequency per CPU [default: 199]
    ///
    /// Samples attribute the time that no event attributes.
    #[arg(long, help_heading = EXPLAIN, hide_short_help = true)]
    hertz: Option<u32>,
    /// Windows to divide each profile into [default: 1]
    #[arg(long, help_heading = EXPLAIN, hide_short_help = true)]
    windows: Option<u32>,
    /// Kernel functions whose calls to count
    ///
    /// They are counted with kprobes. Sample rows of these functions then show the cost per call.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = EXPLAIN,
        hide_short_help = true
    )]
    functions: Vec<String>,
    /// Explain at 1, 2, 4 … CPUs and show which rows grow
    #[arg(long, help_heading = EXPLAIN)]
    grow: bool,
    /// Show all rows, also small ones
    #[arg(long, help_heading = EXPLAIN)]
    all: bool,
    /// Part of the profile to show
    #[arg(long, value_enum, default_value = "ledger", help_heading = EXPLAIN)]
    part: ProfilePart,
    #[command(flatten, next_help_heading = EXPLAIN)]
    form: FormFlag,
    /// Show profiles that disturbed the run too much
    ///
    /// Also compare points whose operations differ.
    #[arg(long, help_heading = EXPLAIN, hide_short_help = true)]
    force: bool,
    #[command(flatten)]
    running: running::Options,
    #[command(flatten)]
    recording: perf_data::Options,
}

/// Blocks unless the user gives their number: each has three profiled runs beside the clean one.
const BLOCKS: u32 = 5;

/// Every form of what can be explained.
const WHAT: &str = "\
What to explain: it is measured first, unless it has been.

  posix_lock_shared            workloads, or an experiment
  ./old 1000 ./new 1000        one or two programs, by path
  './prog -m 1' './prog -m 2'  quoted lines; also --command, and --
  RECORD, RECORD:VARIANT       made by this, or by run --explain
  base new                     variants of the last record
  perf.data                    one or two recordings of perf
  before.live after.live       one or two looks that --save saved";

/// What counts the operations of programs that run already.
const OPERATIONS: &str = "\n\nWith --pid, --name or --cgroup: usdt:PROVIDER:PROBE, a static tracepoint of the program; uprobe:FUNCTION;
tracepoint:SYSTEM:EVENT, an event of the kernel that its threads cause; file:PATH or file:PATH:WORD, a number in a file, or
behind a word in it, that grows; command:LINE, the same in what a command prints.";

/// The heading of the options that only this verb has.
const EXPLAIN: &str = "Ledger";

/// The verb with a short help of one screen: of the options of `knee run`, only those that say what is
/// measured.
pub fn with_short_help(verb: clap::Command) -> clap::Command {
    let shown =
        [None, Some(EXPLAIN), Some(run::LOAD), Some(running::HEADING), Some(perf_data::HEADING)];
    let what = |what: clap::Arg| {
        what.help("Workloads, programs, records, variants or perf.data")
            .long_help(WHAT)
            .required_unless_present_any(running::SUBJECTS)
    };
    let against = |against: clap::Arg| {
        against
            .value_name("FILE")
            .help("Compare with a look that --save saved")
            .long_help("Look at what --pid, --name or --cgroup names, and compare with a look that --save saved")
            .help_heading(running::HEADING)
    };
    let operations = |operations: clap::Arg| {
        let command = operations.get_long_help().map(ToString::to_string).unwrap_or_default();
        let operations = operations.value_name("WHAT").help("What counts the operations");
        let operations = operations.long_help(command + OPERATIONS);
        operations.help_heading(running::HEADING).hide_short_help(false)
    };
    let verb = verb.mut_arg("against", against).mut_arg("operations_from", operations);
    verb.mut_arg("what", what).mut_args(|argument| {
        let is_shown = argument.is_global_set() || shown.contains(&argument.get_help_heading());
        if is_shown { argument } else { argument.hide_short_help(true) }
    })
}

/// Measures if necessary, and explains.
pub fn run(mut arguments: Arguments, store: &Store) -> Result<ExitCode> {
    let against = arguments.run.against.take_if(|_| arguments.running.is_given());
    if let Some(flag) = arguments.run.only_of_run() {
        bail!(
            "{flag} is a flag of knee run: leave it out, or explain the record that knee run makes"
        );
    }
    let view = arguments.form.or_json(std::mem::take(&mut arguments.run.json));
    if arguments.running.is_given() {
        ensure!(
            arguments.run.what.is_empty() && arguments.run.commands.is_empty(),
            "--pid, --name, --cgroup and --host look at what runs already: leave out {}",
            [&arguments.run.what[..], &arguments.run.commands[..]].concat().join(" ")
        );
        let source = arguments.run.operations_from.as_deref();
        arguments.running.operations_from = source.map(OperationSource::parse).transpose()?;
        let against = against.as_ref().map(Path::new);
        return arguments.running.run(&arguments.run.seconds, against, view);
    }
    arguments.running.check_unused()?;
    if let Some(files) = saved_looks::named(&arguments.run.what)? {
        return saved_looks::run(&files, view);
    }
    if let Some(files) = named::recordings(&arguments.run.what)? {
        let operations = &arguments.run.operations;
        return perf_data::run(&files, operations, arguments.part, &arguments.recording, view);
    }
    let is_after_dashes = host::command_line().iter().any(|word| word == "--");
    take_programs(&mut arguments.run, is_after_dashes)?;
    take_program_names(&mut arguments.run, store)?;
    if arguments.run.plan {
        ensure!(
            is_measured_first(&arguments.run),
            "--plan plans a measurement, but a record is measured already: name a workload, an \
             experiment or a command"
        );
        let experiment = request(&arguments)?;
        arguments.run.view = view;
        run::show_plan(&arguments.run, experiment.look(), store)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (named, mut code) = if is_measured_first(&arguments.run) {
        measured(&arguments, store)?
    } else {
        (NamedRecords::resolve(&arguments.run.what, store)?, ExitCode::SUCCESS)
    };
    let profiled = ProfiledRecords::read(&named)?;
    if arguments.part != ProfilePart::Ledger {
        part::print_part(arguments.part, &profiled, arguments.force, view)?;
        return Ok(code);
    }
    let records = profiled.explained();
    if !arguments.force && records.is_refused()? {
        code = ExitCode::FAILURE;
    }
    if view.view() == View::Terminal {
        // The answer stands above what it rests on, which fills more than a screen.
        pager::page(&terminal(&page(&records, &arguments, view)?, Style::for_stdout()))?;
    } else {
        view.print(|| records.value(arguments.force), || page(&records, &arguments, view))?;
    }
    Ok(code)
}

/// The page of the ledgers: what changed between variants, what grows, or where the time of each point goes.
fn page(records: &ExplainedRecords, arguments: &Arguments, view: ViewFlags) -> Result<Page> {
    // A terminal and a mail show no stacks.
    let has_flames = matches!(view.view(), View::Html | View::Markdown);
    let force = arguments.force;
    let mut parts = if arguments.grow {
        records.growths(force, has_flames)
    } else if records.is_compared() {
        records.differences(force, has_flames)?
    } else {
        records.points(force, has_flames)
    };
    if arguments.all {
        parts.iter_mut().for_each(LedgerPart::unfold);
    }
    Ok(explanation(records.title(), parts))
}

/// Turns words that start programs into commands. Several commands are variants of each other.
fn take_programs(run: &mut run::Arguments, is_after_dashes: bool) -> Result<()> {
    run.commands.append(&mut named::take_programs(&mut run.what, is_after_dashes)?);
    if run.commands.len() > 1 && run.variants.is_empty() {
        let (command, variants) = commands::alternatives(&run.commands)?;
        (run.commands, run.variants) = (vec![command], variants);
    }
    Ok(())
}

/// Turns bare names of programs into commands, if they name nothing else: "explain true true".
fn take_program_names(run: &mut run::Arguments, store: &Store) -> Result<()> {
    let is_name = |word: &String| named::is_program_name(word) && !named::is_measurable(word);
    let are_names = !run.what.is_empty() && run.what.iter().all(is_name);
    if !are_names || !run.commands.is_empty() || NamedRecords::resolve(&run.what, store).is_ok() {
        return Ok(());
    }
    run.commands = std::mem::take(&mut run.what);
    take_programs(run, false)
}

/// Whether something is measured first: the words name no records.
fn is_measured_first(run: &run::Arguments) -> bool {
    let is_measurable = |word: &String| named::is_measurable(word);
    !run.commands.is_empty() || (!run.what.is_empty() && run.what.iter().all(is_measurable))
}

/// What is to be measured and profiled.
fn request(arguments: &Arguments) -> Result<Foreign<Experiment>> {
    run::request(&arguments.run)?.try_map(|experiment| with_profiles(experiment, arguments))
}

fn with_profiles(mut experiment: Experiment, arguments: &Arguments) -> Result<Experiment> {
    let is_file = |what: &String| named::is_experiment(what);
    if arguments.run.blocks.is_none() && !arguments.run.what.iter().any(is_file) {
        experiment.blocks = Some(BLOCKS);
    }
    let explain = experiment.explain.get_or_insert_default();
    explain.hertz = arguments.hertz.unwrap_or(explain.hertz);
    explain.windows = arguments.windows.unwrap_or(explain.windows);
    explain.functions.extend_from_slice(&arguments.functions);
    let all_cpus = || records::Many(vec![records::Scalar("all".to_string())]);
    // The end of a curve is where scaling has stopped.
    if arguments.run.cpus.is_none() && arguments.grow {
        let several = || records::Many(vec![records::Scalar("1..all".to_string())]);
        experiment.axes.cpus.get_or_insert_with(several);
    }
    if arguments.run.cpus.is_none() && !arguments.grow {
        experiment.axes.cpus.get_or_insert_with(all_cpus);
    }
    experiment.check()?;
    Ok(experiment)
}

/// The kernels of the runs that are known to lack kprobes: this host's, and guests' by their configurations.
fn kernels_without_kprobes(experiment: &Experiment) -> Vec<String> {
    let plain = [Variant::default()];
    let variants = if experiment.variants.is_empty() { &plain } else { &experiment.variants[..] };
    let lacking = variants.iter().filter_map(|variant| match experiment.booted(Some(variant)) {
        None => {
            let why = probes::permissions(Path::new("/")).kprobes.err()?;
            Some(format!("this kernel ({why})"))
        }
        Some(guest) => {
            let kernel = guest.kernel?;
            let config = std::fs::read_to_string(kernel.with_file_name("config")).ok()?;
            let has_them = config.lines().any(|line| line == "CONFIG_KPROBE_EVENTS=y");
            (!has_them)
                .then(|| format!("the guest's kernel {} (CONFIG_KPROBE_EVENTS)", kernel.display()))
        }
    });
    let mut kernels: Vec<String> = lacking.collect();
    kernels.dedup();
    kernels
}

/// Measures, and returns the new record.
fn measured(arguments: &Arguments, store: &Store) -> Result<(NamedRecords, ExitCode)> {
    let request = request(arguments)?;
    if arguments.grow {
        let points = planned_record(request.look().clone())?.points;
        let cpus: BTreeSet<u32> = points.iter().map(|point| point.cpus).collect();
        ensure!(
            cpus.len() > 1,
            "--grow shows what grows from one CPU count to another, but there is one: name several, such as --cpus 1,2"
        );
    }
    if !arguments.functions.is_empty() {
        kernels_without_kprobes(request.look()).iter().for_each(|kernel| {
            hint(format_args!("{kernel} has no kprobes, so it counts no calls of functions"));
        });
    }
    let (Measured { end, folder, .. }, printed) = run::measure(&arguments.run, request, store)?;
    printed?;
    let Some(folder) = folder else {
        bail!("interrupted before the first run finished: nothing to explain");
    };
    let record = store::open(&folder)?;
    hint(format_args!("record {} in {}", record.record.id, folder.display()));
    let code = match end {
        End::Interrupted => ExitCode::from(130),
        End::Complete if record.record.runs_failed > 0 => ExitCode::FAILURE,
        End::Complete => ExitCode::SUCCESS,
    };
    Ok((NamedRecords::resolve(&[folder.to_string_lossy().into_owned()], store)?, code))
}
