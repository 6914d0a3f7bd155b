//! `knee explain`: where the time of an operation goes, to the nanosecond, and what accounts for
//! the difference between two variants.

mod perf_data;
mod source_lines;
mod views;

use std::path::Path;
use std::process::ExitCode;

use analysis::{Arm, match_points};
use answers::{LedgerDifference, Ledgers};
use anyhow::{Result, bail, ensure};
use host::terminal::{hint, print};
use ledger::{Explained, answer, explain};
use plan::commands;
use records::{Experiment, Opened, Point, Profile, Variant};
use runner::{End, Measured};
use setup::foreign::Foreign;
use store::Store;
use text::Style;
use views::ProfileView;
pub use views::{ProfiledPoint, flame};

use super::run;
use crate::named::{self, NamedRecords};

/// Account for the time of an operation, or for the difference between two variants.
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
    #[arg(long, help_heading = EXPLAIN)]
    hertz: Option<u32>,
    /// Windows to divide each profile into [default: 1]
    #[arg(long, help_heading = EXPLAIN)]
    windows: Option<u32>,
    /// Kernel functions whose calls to count
    ///
    /// They are counted with kprobes. Sample rows of these functions then show the cost per call.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = EXPLAIN)]
    functions: Vec<String>,
    /// Explain at 1, 2, 4 … CPUs and show which rows grow
    #[arg(long, help_heading = EXPLAIN)]
    grow: bool,
    /// Form of the report
    #[arg(long, value_enum, default_value = "ledger", help_heading = EXPLAIN)]
    view: ProfileView,
    /// Show profiles that disturbed the run too much
    ///
    /// Also compare points whose operations differ.
    #[arg(long, help_heading = EXPLAIN)]
    force: bool,
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
  perf.data                    one or two recordings of perf";

/// The heading of the options that only this verb has.
const EXPLAIN: &str = "Ledger";

/// The verb with a short help of one screen: of the options of `knee run`, only those that say what is
/// measured.
pub fn with_short_help(verb: clap::Command) -> clap::Command {
    let shown = [None, Some(EXPLAIN), Some(run::LOAD), Some(perf_data::HEADING)];
    let what = |what: clap::Arg| {
        what.help("Workloads, programs, records, variants or perf.data").long_help(WHAT)
    };
    verb.mut_arg("what", what).mut_args(|argument| {
        let is_shown = argument.is_global_set() || shown.contains(&argument.get_help_heading());
        if is_shown { argument } else { argument.hide_short_help(true) }
    })
}

/// Measures if necessary, and explains.
pub fn run(mut arguments: Arguments, store: &Store) -> Result<ExitCode> {
    if let Some(flag) = arguments.run.only_of_run() {
        bail!(
            "{flag} is a flag of knee run: leave it out, or explain the record that knee run makes"
        );
    }
    let json = std::mem::take(&mut arguments.run.json);
    if let Some(files) = named::recordings(&arguments.run.what)? {
        return perf_data::run(
            &files,
            &arguments.run.operations,
            json,
            arguments.view,
            &arguments.recording,
        );
    }
    let is_after_dashes = host::command_line().iter().any(|word| word == "--");
    take_programs(&mut arguments.run, is_after_dashes)?;
    if arguments.run.plan {
        ensure!(
            is_measured_first(&arguments.run),
            "--plan plans a measurement, but a record is measured already: name a workload, an \
             experiment or a command"
        );
        let experiment = request(&arguments)?;
        arguments.run.json = json;
        run::show_plan(&arguments.run, experiment.look(), store)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (named, mut code) = if is_measured_first(&arguments.run) {
        measured(&arguments, store)?
    } else {
        (NamedRecords::resolve(&arguments.run.what, store)?, ExitCode::SUCCESS)
    };
    let looks: Vec<Vec<Profile>> =
        named.records.iter().map(store::profiles).collect::<Result<_>>()?;
    if arguments.view != ProfileView::Ledger {
        ensure!(!json, "--view {} has no JSON form: leave --json out", arguments.view.name());
        print(view(&arguments, &named, &looks)?)?;
        return Ok(code);
    }
    let explained = explained(&named, &looks);
    let arms = named.arms();
    if !arguments.force && is_refused(&named, &arms, &explained)? {
        code = ExitCode::FAILURE;
    }
    let text = match arms.len() {
        _ if json => as_json(&named, &arms, &explained, arguments.force)?,
        _ if arguments.grow => grown(&named, &explained, arguments.force),
        0 | 1 => alone(&named, &explained, arguments.force),
        _ => differences(&named, &arms, &explained, arguments.force)?,
    };
    print(text)?;
    Ok(code)
}

/// The points of all records, explained by their profiles.
pub fn explained(named: &NamedRecords, looks: &[Vec<Profile>]) -> Vec<Vec<Explained>> {
    let of_record = |(record, looks): (&Opened, &Vec<Profile>)| {
        let points = 0..record.record.points.len();
        points.map(|point| explain(record, looks, point)).collect()
    };
    let mut explained = named.records.iter().zip(looks).map(of_record).collect::<Vec<_>>();
    source_lines::add(&mut explained);
    explained
}

/// A view other than the ledger: of each point, or of the first variant against each other one.
fn view(arguments: &Arguments, named: &NamedRecords, looks: &[Vec<Profile>]) -> Result<String> {
    let (view, style) = (arguments.view, Style::for_stdout());
    let arms = named.arms();
    if arms.len() < 2 || !view.is_of_pairs() {
        let points = named.records.iter().zip(looks).flat_map(|(record, looks)| {
            (0..record.record.points.len()).map(|point| ProfiledPoint::new(record, looks, point))
        });
        return views::of_points(view, &points.collect::<Vec<_>>(), style);
    }
    let profiled = |(record, point): (&Opened, usize)| {
        let index = named.records.iter().position(|r| std::ptr::eq(r, record)).unwrap_or(0);
        ProfiledPoint::new(&named.records[index], &looks[index], point)
    };
    let mut pairs = Vec::new();
    for cell in match_points(&arms, arguments.force).map_err(anyhow::Error::msg)? {
        pairs.extend(cell[1..].iter().map(|other| [profiled(cell[0]), profiled(*other)]));
    }
    views::of_pairs(view, &pairs, style)
}

/// The ledgers of all points, and the changes between variants.
fn as_json(
    named: &NamedRecords,
    arms: &[Arm],
    explained: &[Vec<Explained>],
    force: bool,
) -> Result<String> {
    let points: Vec<&Explained> = explained.iter().flatten().collect();
    let pairs = pairs(named, arms, explained, force)?;
    let differences = pairs.iter().filter_map(|(before, after)| {
        let per = explanations::ledger::unit_of_work(after);
        let (before, after) = ((before.name, before.explained), (after.name, after.explained));
        LedgerDifference::new(before, after, per.to_string(), force)
    });
    answers::as_json(&Ledgers { points, differences: differences.collect() })
}

/// The report of each point, uncompared.
fn alone(named: &NamedRecords, explained: &[Vec<Explained>], force: bool) -> String {
    let style = Style::for_stdout();
    let report = |(record, explained): (&Opened, &Vec<Explained>)| {
        let texts =
            explained.iter().map(|e| explanations::ledger::explained(record, e, force, style));
        texts.collect::<Vec<_>>().join("\n")
    };
    named.records.iter().zip(explained).map(report).collect::<Vec<_>>().join("\n")
}

/// For each load, how its rows grow with the number of CPUs.
fn grown(named: &NamedRecords, explained: &[Vec<Explained>], force: bool) -> String {
    let style = Style::for_stdout();
    let loads = over_cpus(named, explained);
    let texts =
        loads.iter().map(|(record, same)| explanations::ledger::growth(record, same, force, style));
    texts.collect::<Vec<_>>().join("\n")
}

/// The points of each load, which differ only in their CPUs.
pub fn over_cpus<'a>(
    named: &'a NamedRecords,
    explained: &'a [Vec<Explained>],
) -> Vec<(&'a Opened, Vec<&'a Explained>)> {
    let mut loads = Vec::new();
    for (record, explained) in named.records.iter().zip(explained) {
        let points = &record.record.points;
        let mut left: Vec<&Explained> = explained.iter().collect();
        while let Some(first) = left.first().map(|e| &points[e.point]) {
            let (same, rest) =
                left.into_iter().partition(|e| differ_in_cpus_alone(first, &points[e.point]));
            left = rest;
            loads.push((record, same));
        }
    }
    loads
}

/// Whether two points are the same load at different CPU counts, with equal numbers of tasks or
/// of tasks per CPU.
fn differ_in_cpus_alone(a: &Point, b: &Point) -> bool {
    let load =
        |point: &Point| Point { cpus: 0, cpu_list: vec![], tasks: 0, cell: None, ..point.clone() };
    let per_cpu = |tasks: &Point, cpus: &Point| u64::from(tasks.tasks) * u64::from(cpus.cpus);
    load(a) == load(b) && (a.tasks == b.tasks || per_cpu(a, b) == per_cpu(b, a))
}

/// The first arm against each other arm, cell by cell.
fn differences(
    named: &NamedRecords,
    arms: &[Arm],
    explained: &[Vec<Explained>],
    force: bool,
) -> Result<String> {
    let style = Style::for_stdout();
    let pairs = pairs(named, arms, explained, force)?;
    let texts = pairs
        .iter()
        .map(|(before, after)| explanations::ledger::difference(before, after, force, style));
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// The baseline paired with each other variant, for every point that they share; empty if there
/// is only one variant.
pub fn pairs<'a>(
    named: &'a NamedRecords,
    arms: &'a [Arm],
    explained: &'a [Vec<Explained>],
    force: bool,
) -> Result<Vec<(explanations::ledger::LedgerSide<'a>, explanations::ledger::LedgerSide<'a>)>> {
    if arms.len() < 2 {
        return Ok(Vec::new());
    }
    let side = |arm: &'a Arm, (record, point): (&Opened, usize)| {
        let index = named.records.iter().position(|r| std::ptr::eq(r, record)).unwrap_or(0);
        let (record, explained) = (&named.records[index], &explained[index][point]);
        explanations::ledger::LedgerSide { name: arm.name, record, explained }
    };
    let mut pairs = Vec::new();
    for cell in match_points(arms, force).map_err(anyhow::Error::msg)? {
        for (arm, point) in arms.iter().zip(&cell).skip(1) {
            pairs.push((side(&arms[0], cell[0]), side(arm, *point)));
        }
    }
    Ok(pairs)
}

/// Whether profiling cost so much that a ledger, or the answer about two, is refused.
fn is_refused(named: &NamedRecords, arms: &[Arm], explained: &[Vec<Explained>]) -> Result<bool> {
    if arms.len() < 2 {
        return Ok(explained.iter().flatten().any(|explained| explained.refused().is_some()));
    }
    let pairs = pairs(named, arms, explained, false)?;
    let answers = pairs.iter().filter_map(|(a, b)| answer(a.explained, b.explained, false));
    Ok(answers.into_iter().any(|answer| answer.refused))
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

/// Whether something is measured first: the words name no records.
fn is_measured_first(run: &run::Arguments) -> bool {
    let is_measurable = |word: &String| named::is_measurable(word);
    !run.commands.is_empty() || (!run.what.is_empty() && run.what.iter().all(is_measurable))
}

/// What is to be measured and profiled.
fn request(arguments: &Arguments) -> Result<Foreign<Experiment>> {
    run::request(&arguments.run)?.try_map(|experiment| profiled(experiment, arguments))
}

fn profiled(mut experiment: Experiment, arguments: &Arguments) -> Result<Experiment> {
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
