//! `knee compare fragile`: whether a verdict survives small changes of the load.

use std::process::ExitCode;

use answers::FragileAnswer;
use anyhow::{Context, Result, bail, ensure};
use host::terminal::{hint, talk};
use pages::ViewFlags;
use plan::OperatingPoint;
use records::{Experiment, Opened, Point, RecordState, Until};
use runner::{End, Measured, Options};
use setup::foreign::Foreign;
use store::Store;

use super::find::{find, open_foreign};
use crate::{experiment_file, named};

/// Test whether a verdict survives small changes of the load
///
/// Both sides are measured again with a task more and one less, with a little more work in each operation, and on other CPUs. The
/// answer says which kinds of change the verdict would not survive.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Record with two variants, or two of the last record's variants, or two records
    ///
    /// They are measured again: as they are, with a task more and less, with 1, 2 and 5 % more work inside and outside the
    /// lock, and on other CPUs. A record that this made is shown again [default: last].
    what: Vec<String>,
    /// Number of CPUs of the verdict [default: the most that were measured]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Blocks, each of which has both sides at every changed load
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1000))]
    blocks: u32,
    /// Length of each run, in seconds [default: as it was measured]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seed of the random order [default: random, stored in the record]
    #[arg(long)]
    seed: Option<u64>,
    /// Do the missing runs of the newest partial record of this
    #[arg(long)]
    resume: bool,
    /// Measure again what a record that is not yours measured, without asking (`knee help safety`)
    #[arg(long, hide_short_help = true)]
    yes: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// Measures around a verdict, and prints whether it survives.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let verdict = Verdict::resolve(&arguments.what, store)?;
    let is_around = verdict.look().record.record.experiment.perturbed;
    if is_around && !arguments.resume {
        show(&verdict.look().record, arguments.view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = verdict.try_map(|verdict| {
        if is_around { Ok(verdict.experiment) } else { verdict.around(arguments) }
    })?;
    let experiment = experiment_file::permitted(experiment, arguments.yes)?;
    let options = Options { resume: arguments.resume, ..Options::default() };
    let Measured { end, folder, .. } =
        runner::measure(experiment, options, store, &mut runner::go_on)?;
    let Some(folder) = folder else {
        talk("interrupted before the first run finished: no record, nothing to keep");
        return Ok(ExitCode::from(130));
    };
    let record = store::open(&folder)?;
    hint(format_args!("record {} in {}", record.record.id, folder.display()));
    if end == End::Interrupted {
        talk("interrupted: finished runs are kept; the same command with --resume does the rest");
        return Ok(ExitCode::from(130));
    }
    show(&record, arguments.view)?;
    Ok(if record.record.runs_failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(record: &Opened, view: ViewFlags) -> Result<()> {
    if record.record.state != RecordState::Whole {
        talk(format_args!("{} is not whole: some runs are missing", record.record.id));
    }
    let fragile = answers::fragile(record).map_err(anyhow::Error::msg)?;
    let answer = FragileAnswer { fragile };
    view.print(|| Ok(&answer), || Ok(pages::fragile(record, &answer.fragile)))
}

/// A verdict that was reached.
struct Verdict {
    /// The record that has the baseline.
    record: Opened,
    /// Both sides as two variants.
    experiment: Experiment,
}

impl Verdict {
    fn resolve(what: &[String], store: &Store) -> Result<Foreign<Verdict>> {
        let open = |name: &str| open_foreign(&find(name, store)?, store);
        match what {
            [] => Ok(open("last")?.map(|record| Verdict::of_variants(record, None))),
            [one] => Ok(open(one)?.map(|record| Verdict::of_variants(record, None))),
            [a, b] => {
                let has = |record: &Opened, name: &String| {
                    record.record.variants.iter().any(|variant| variant.name == *name)
                };
                if let Ok(last) = open("last")
                    && has(last.look(), a)
                    && has(last.look(), b)
                {
                    return Ok(last.map(|last| Verdict::of_variants(last, Some([a, b]))));
                }
                let sides = named::measured(a, store)?.and(named::measured(b, store)?);
                let name = a.rsplit_once(':').map_or(a.as_str(), |(record, _)| record);
                let record = open(a).or_else(|_| open(name))?;
                record.and(sides).try_map(|(record, (before, now))| {
                    Ok(Verdict { record, experiment: plan::against(before, now)? })
                })
            }
            several => bail!("{} names: a verdict is about two, A and B", several.len()),
        }
    }

    /// The verdict about the variants of a record, or about two of them.
    fn of_variants(record: Opened, names: Option<[&str; 2]>) -> Verdict {
        let mut experiment = record.record.experiment.clone();
        experiment.variants = record.record.variants.clone();
        experiment.exclusions = Vec::new();
        if let Some([a, b]) = names {
            let named = |name: &str| {
                experiment.variants.iter().find(|variant| variant.name == name).cloned()
            };
            let both = named(a).into_iter().chain(named(b));
            experiment.variants = both.collect();
        }
        experiment.variants.iter_mut().for_each(|variant| variant.factor.clear());
        Verdict { record, experiment }
    }

    /// The experiment that measures around the verdict.
    fn around(self, arguments: &Arguments) -> Result<Experiment> {
        let Verdict { record, mut experiment } = self;
        named::check_here(&record.record)?;
        let at = operating_point(&record, arguments.cpus)?;
        let operation_ns = operation_ns(&record, at).with_context(|| {
            format!(
                "{}: no run at {} CPUs tells how long an operation takes",
                record.record.id, at.cpus
            )
        })?;
        if let Some(seconds) = arguments.seconds {
            Until::Seconds(seconds).check().context("--seconds")?;
            for axes in experiment.loads.iter_mut().map(|load| &mut load.axes) {
                (axes.seconds, axes.operations_per_task) = (None, None);
            }
            experiment.axes.seconds = Some(records::Many(vec![seconds]));
            experiment.axes.operations_per_task = None;
        }
        let name = format!("fragility of {}", experiment.name);
        let around = plan::around(
            experiment,
            &OperatingPoint {
                cpus: at.cpus,
                tasks: at.tasks,
                operation_ns,
                topology: &record.record.topology,
            },
        )?;
        Ok(Experiment { name, blocks: Some(arguments.blocks), seed: arguments.seed, ..around })
    }
}

/// The point of the baseline with this number of CPUs, or with the most.
fn operating_point(record: &Opened, cpus: Option<u32>) -> Result<&Point> {
    let points = || record.record.points.iter();
    let most = points().map(|point| point.cpus).max().context("the record has no point")?;
    let wanted = cpus.unwrap_or(most);
    let at: Vec<&Point> = points().filter(|point| point.cpus == wanted).collect();
    let measured: std::collections::BTreeSet<u32> = points().map(|point| point.cpus).collect();
    ensure!(
        !at.is_empty(),
        "--cpus {wanted}: {} was measured at {measured:?} CPUs",
        record.record.id
    );
    let tasks: std::collections::BTreeSet<u32> = at.iter().map(|point| point.tasks).collect();
    ensure!(
        tasks.len() == 1,
        "{} has {tasks:?} tasks at {wanted} CPUs, and a verdict is about one number: measure with one",
        record.record.id
    );
    Ok(at[0])
}

/// The time of one operation of one task, by the runs at a point.
fn operation_ns(record: &Opened, at: &Point) -> Option<f64> {
    let index = record.record.points.iter().position(|point| std::ptr::eq(point, at))?;
    let rates: Vec<f64> =
        record.runs_of(index).filter_map(|run| run.value("operations_per_s")).collect();
    let rate = analysis::Spread::from_values(&rates)?.median;
    Some(1e9 * f64::from(at.tasks.min(at.cpus)) / rate).filter(|ns| ns.is_finite() && *ns > 0.0)
}
