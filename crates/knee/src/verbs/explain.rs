//! `knee explain`: where the time of an operation goes, to the nanosecond, and what makes the
//! difference between two.

use std::process::ExitCode;

use analysis::ledger::{Explained, explain};
use anyhow::{Result, ensure};
use records::{Look, Opened, Store};

use super::compare::Named;
use super::run::{self, Measured};
use crate::reports::{self, Style};
use crate::runner::End;
use crate::talk::{print, talk};
use crate::{commands, experiments, names};

/// What to explain, and how.
///
/// WHAT may be a workload or an experiment, which is measured first, with the flags of `knee run`;
/// or records (`last`, an id, a folder) or variants of the last record that were measured with
/// `knee run --explain` or by this verb. After `--`, any command.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    run: run::Arguments,
    /// Samples a second and CPU that split what no event divides [default: 199]
    #[arg(long)]
    hertz: Option<u32>,
    /// Windows that each look is divided into [default: 1]
    #[arg(long)]
    windows: Option<u32>,
    /// Explain at 1, 2, 4 … CPUs and say which rows grow
    #[arg(long)]
    grow: bool,
    /// Show also what looking changed too much, and compare although operations differ
    #[arg(long)]
    force: bool,
}

/// Measures where it must, and explains.
pub fn run(mut arguments: Arguments, store: &Store) -> Result<ExitCode> {
    let json = std::mem::take(&mut arguments.run.json);
    take_command(&mut arguments.run);
    let (named, mut code) = match is_measured_first(&arguments.run) {
        true => measured(&arguments, store)?,
        false => (Named::resolve(&arguments.run.what, store)?, ExitCode::SUCCESS),
    };
    let looks: Vec<Vec<Look>> = named.records.iter().map(Opened::looks).collect::<Result<_>>()?;
    for (record, looks) in named.records.iter().zip(&looks) {
        ensure!(
            !looks.is_empty(),
            "{} has no looks: measure again with `knee run … --explain`, or name a workload here",
            record.record.id
        );
    }
    let mut explained: Vec<(&Opened, Explained)> = Vec::new();
    for (record, looks) in named.records.iter().zip(&looks) {
        let points = 0..record.record.points.len();
        explained.extend(points.map(|point| (record, explain(record, looks, point))));
    }
    let refused = explained.iter().any(|(_, explained)| explained.refused().is_some());
    if refused && !arguments.force {
        code = ExitCode::FAILURE;
    }
    if json {
        let values: Vec<_> = explained.iter().map(|(_, explained)| explained).collect();
        print(serde_json::to_string_pretty(&values)? + "\n")?;
        return Ok(code);
    }
    let style = Style::of_stdout();
    let texts = explained
        .iter()
        .map(|(record, explained)| reports::explained(record, explained, arguments.force, style));
    print(texts.collect::<Vec<_>>().join("\n"))?;
    Ok(code)
}

/// What follows `--` is a command, not a name.
fn take_command(run: &mut run::Arguments) {
    if std::env::args().any(|word| word == "--") && !run.what.is_empty() {
        let words = std::mem::take(&mut run.what);
        let words: Vec<String> = words.iter().map(|word| reports::quoted(word)).collect();
        run.commands.push(words.join(" "));
    }
}

/// Whether the words name loads rather than records.
fn is_measured_first(run: &run::Arguments) -> bool {
    let is_load = |name: &String| {
        experiments::is_experiment(name)
            || name.starts_with(commands::PREFIX)
            || names::workload(name).is_ok()
    };
    !run.commands.is_empty() || (!run.what.is_empty() && run.what.iter().all(is_load))
}

/// Measures, and names the new record.
fn measured(arguments: &Arguments, store: &Store) -> Result<(Named, ExitCode)> {
    let mut experiment = run::experiment(&arguments.run)?;
    let explain = experiment.explain.get_or_insert_default();
    explain.hertz = arguments.hertz.unwrap_or(explain.hertz);
    explain.windows = arguments.windows.unwrap_or(explain.windows);
    let all = || records::Many(vec![records::Word("all".to_string())]);
    // Of a curve the end is what one wants to understand.
    if arguments.run.cpus.is_none() && !arguments.grow {
        experiment.axes.cpus.get_or_insert_with(all);
    }
    experiment.check()?;
    let Measured { end, folder, printed } = run::measure(&arguments.run, experiment, store)?;
    printed?;
    let Some(folder) = folder else {
        anyhow::bail!("interrupted before the first run was over: nothing to explain");
    };
    let record = Opened::open(&folder)?;
    talk(format_args!("record {} in {}", record.record.id, folder.display()));
    let code = match end {
        End::Interrupted => ExitCode::from(130),
        End::Complete if record.record.runs_failed > 0 => ExitCode::FAILURE,
        End::Complete => ExitCode::SUCCESS,
    };
    Ok((Named::resolve(&[folder.to_string_lossy().into_owned()], store)?, code))
}
