//! `knee bisect screen`: which of several options move a metric, from runs in which all are varied at once.

use std::process::ExitCode;

use answers::{ScreenedCell, ScreenedOption, Screening, as_json_line};
use anyhow::{Context, Result, bail, ensure};
use bisection::{effects, settings_of};
use bisector::{check_metric, check_record};
use host::terminal::{hint, print, talk};
use pages::{FormFlag, View};
use plan::variants;
use records::{Experiment, Opened, Variant};
use runner::{End, Measured};
use store::Store;

use super::run;

/// Find out which of several options move a metric
///
///     knee bisect screen --command './app bench {cache} {threads}' --option cache=on,off --option threads=1,4
///     knee bisect screen posix_lock_shared --option as=processes,threads --option placement=compact,scatter
///
/// Every option is on in half of the settings, and every two options together in a quarter, so each run tells about every
/// option: 12 options need 16 settings. Effects that two options have only together are not seen.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
pub struct Arguments {
    /// Option to vary, with its two values: KEY=A,B
    ///
    /// KEY is what --variant takes: a parameter or a `{NAME}` of --command, as, placement, dir, fs.mount, env.NAME,
    /// sysctl.NAME and others.
    #[arg(long = "option", value_name = "KEY=A,B", value_parser = option, required = true, help_heading = SCREENING)]
    options: Vec<ScreenedOption>,
    #[command(flatten)]
    form: FormFlag,
    #[command(flatten)]
    run: run::Arguments,
}

const SCREENING: &str = "Screening";

/// The verb with a short help of one screen.
pub fn with_short_help(verb: clap::Command) -> clap::Command {
    let shown = [None, Some(SCREENING), Some(run::LOAD)];
    verb.mut_args(|argument| {
        let is_shown = argument.is_global_set() || shown.contains(&argument.get_help_heading());
        if is_shown { argument } else { argument.hide_short_help(true) }
    })
}

/// Blocks unless the user gives their number.
const BLOCKS: u32 = 5;
/// More options than this are a mistake in a list.
const OPTIONS_MAX: usize = 63;

fn option(text: &str) -> Result<ScreenedOption> {
    let (key, values) = text.split_once('=').context("must be KEY=A,B")?;
    let (first, second) = values.split_once(',').context("must have two values: KEY=A,B")?;
    ensure!(!key.is_empty() && first != second, "must have a KEY and two different values");
    Ok(ScreenedOption { key: key.to_string(), values: [first.to_string(), second.to_string()] })
}

/// Measures all settings and prints the effect of each option.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    if let Some(flag) = arguments.run.only_of_run() {
        bail!("{flag} is a flag of knee run: leave it out");
    }
    ensure!(
        arguments.run.variants.is_empty(),
        "--variant does not go with --option: give each KEY=VALUE as an option with two values"
    );
    ensure!(
        arguments.options.len() <= OPTIONS_MAX,
        "at most {OPTIONS_MAX} options can be screened"
    );
    let settings = settings_of(arguments.options.len());
    let experiment = run::request(&arguments.run)?
        .try_map(|experiment| screened(experiment, arguments, &settings))?;
    if arguments.run.plan {
        run::show_plan(&arguments.run, experiment.look(), store)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (measured, _) = run::measure(&arguments.run, experiment, store)?;
    let Measured { end, folder, .. } = measured;
    let Some(folder) = folder else {
        talk("interrupted before the first run finished: nothing to keep");
        return Ok(ExitCode::from(130));
    };
    let record = store::open(&folder)?;
    if end == End::Interrupted {
        talk("interrupted: the same command with --resume does the rest");
        return Ok(ExitCode::from(130));
    }
    check_record(&record.record, &record.record.experiment.compare.metric)?;
    show(&record, arguments, &settings)?;
    hint(format_args!("record {} in {}", record.record.id, folder.display()));
    Ok(if record.record.runs_failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the effect of each option, by the runs of a record.
fn show(record: &Opened, arguments: &Arguments, settings: &[Vec<bool>]) -> Result<()> {
    let cells = cells(record, settings);
    let (view, options) = (arguments.form.or_json(arguments.run.json), &arguments.options[..]);
    // One line, as of the runs before it.
    if view.view() == View::Json {
        let record = record.record.id.as_str();
        return print(as_json_line(&Screening { record, options, cells: &cells })?);
    }
    view.print_page(|| Ok(pages::screening(&record.record.experiment.name, options, &cells)))
}

/// An experiment with all settings as its variants.
fn screened(
    experiment: Experiment,
    arguments: &Arguments,
    settings: &[Vec<bool>],
) -> Result<Experiment> {
    // A file system that --fs makes, or a kernel, is there in all settings.
    let base = match &experiment.variants[..] {
        [] => Variant::default(),
        [only] => only.clone(),
        several => bail!(
            "{} and {} exclude each other: give them as an option, such as --option fs=ext4,xfs",
            several[0].name,
            several[1].name
        ),
    };
    let experiment = Experiment {
        variants: designed(&arguments.options, settings, &base)?,
        blocks: Some(arguments.run.blocks.unwrap_or(BLOCKS)),
        ..experiment
    };
    let mut experiment = experiment;
    if let Some(metric) = arguments.run.value.metric() {
        experiment.compare.metric = metric;
    }
    experiment.check()?;
    check_emulation(&experiment)?;
    Ok(experiment)
}

/// Refuses a metric that means nothing in guests that would be emulated.
fn check_emulation(experiment: &Experiment) -> Result<()> {
    let guests = experiment.variants.iter().map(|variant| experiment.guest(Some(variant)));
    let guest = guests.flatten().next();
    guest.map_or(Ok(()), |guest| check_metric(&guest, &experiment.compare.metric))
}

/// The settings as variants.
fn designed(
    options: &[ScreenedOption],
    settings: &[Vec<bool>],
    base: &Variant,
) -> Result<Vec<Variant>> {
    let variant = |(number, row): (usize, &Vec<bool>)| {
        let values = options.iter().zip(row).map(|(option, is_second)| {
            format!("{}={}", option.key, option.values[usize::from(*is_second)])
        });
        let values = values.collect::<Vec<_>>().join(";");
        variants::parse_over(base.clone(), &format!("setting-{number:02}={values}"))
    };
    settings.iter().enumerate().map(variant).collect()
}

/// The effects in each cell of a record.
fn cells(record: &Opened, settings: &[Vec<bool>]) -> Vec<ScreenedCell> {
    let points = &record.record.points;
    let mut numbers: Vec<Option<u32>> = points.iter().map(|point| point.cell).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let cell = |number: Option<u32>| {
        let of_cell = |index: &usize| points[*index].cell == number;
        let indexes: Vec<usize> = (0..points.len()).filter(of_cell).collect();
        let first = &points[*indexes.first()?];
        let metric = record.record.deciding(first);
        let runs = |index: usize| -> Vec<f64> {
            let finished = record.runs_of(index).filter(|run| !run.placebo);
            finished
                .filter_map(|run| run.value(&metric).filter(|v| *v > 0.0))
                .map(f64::ln)
                .collect()
        };
        let mut logs = vec![Vec::new(); settings.len()];
        for index in indexes {
            let number = points[index].variant.strip_prefix("setting-")?.parse::<usize>().ok()?;
            *logs.get_mut(number)? = runs(index);
        }
        let title =
            format!("{}, {}", first.workload, text::prose::counted(first.cpus as usize, "CPU"));
        let runs = logs.iter().map(Vec::len).sum();
        Some(ScreenedCell { title, metric, runs, effects: effects(settings, &logs) })
    };
    numbers.into_iter().filter_map(cell).collect()
}
