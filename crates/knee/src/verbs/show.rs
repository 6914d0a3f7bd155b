//! `knee show`: a record as tables and curves.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail};
use host::nearest;
use host::stderr::{print, talk};
use records::{Opened, Outcome};
use reports::{Detail, Style, detailed, summary};
use store::Store;

use super::find::find;

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// A record: `last`, its id or the start of it, or its folder
    #[arg(default_value = "last")]
    which: String,
    /// Show these metrics instead of operations per second; NAME/op counts it per operation
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Also show all that time(1) tells
    #[arg(long)]
    time: bool,
    /// Also show what the kernel counted for each operation
    #[arg(long)]
    counters: bool,
    /// Print a summary of each cell as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the record's report.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let record = store::open(&find(&arguments.which, store)?)?;
    check_metrics(&arguments.metrics, &record)?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&summary(&record, &arguments.metrics))? + "\n"
    } else {
        let detail = Detail {
            metrics: metrics(arguments, &record),
            time: arguments.time,
            counters: arguments.counters,
        };
        detailed(&record, &detail, &Style::for_stdout())
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// What was asked for; of another tool's results all, if they are few, or else what the tool is
/// about.
fn metrics(arguments: &Arguments, record: &Opened) -> Vec<String> {
    const FEW: usize = 4;
    if record.record.source.is_none() || !arguments.metrics.is_empty() {
        return arguments.metrics.clone();
    }
    let primary = record.record.experiment.compare.metric.clone();
    let mut all: Vec<String> = names(record).into_iter().filter(|n| !n.ends_with("/op")).collect();
    if all.len() > FEW {
        talk(format_args!("{} metrics; --metric NAME shows others: {}", all.len(), all.join(", ")));
        all.retain(|name| *name == primary);
    }
    all.sort_by_key(|name| *name != primary);
    all
}

/// Refuses a metric that no run has.
fn check_metrics(asked: &[String], record: &Opened) -> Result<()> {
    for name in asked {
        if record.runs.iter().any(|run| run.value(name).is_some()) {
            continue;
        }
        let known = names(record);
        let hint = nearest(name, known.iter().map(String::as_str));
        bail!(
            "no run of {} has the metric '{name}'{hint}; `knee list metrics` shows all",
            record.record.id
        );
    }
    Ok(())
}

/// All that can be asked for in this record.
fn names(record: &Opened) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for run in &record.runs {
        if let Outcome::Finished { metrics, counters, .. } = &run.outcome {
            names.extend(metrics.keys().cloned());
            names.extend(counters.keys().flat_map(|name| [name.clone(), format!("{name}/op")]));
        }
    }
    names
}
