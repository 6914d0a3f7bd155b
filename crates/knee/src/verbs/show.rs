//! `knee show`: shows a record as tables and curves.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use host::nearest;
use host::terminal::{print, talk};
use records::{Opened, Outcome};
use reports::{Detail, detailed, summary, svg};
use store::Store;
use text::Style;

use super::find::find;

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Record to show: `last`, a label, an id or its start, or a directory
    #[arg(default_value = "last")]
    which: String,
    /// Show these metrics instead of operations per second; NAME/op is a counter per operation
    #[arg(long = "metric", value_name = "NAME", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Also show the resource usage of runs, as time(1) does
    #[arg(long)]
    time: bool,
    /// Also show the kernel's counters per operation
    #[arg(long)]
    counters: bool,
    /// Draw the curves into this file as SVG, of the metrics of --metric or of what decides
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "counters", "json"])]
    svg: Option<PathBuf>,
    /// Print a summary of each cell as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the record's report.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let record = store::open(&find(&arguments.which, store)?)?;
    check_metrics(&arguments.metrics, &record)?;
    if let Some(path) = &arguments.svg {
        let drawn = svg(&record, &arguments.metrics);
        let drawn = drawn.with_context(|| {
            let id = &record.record.id;
            format!("{id} has no curve: that takes values at two CPU counts (--cpus 1..all)")
        })?;
        fs::write(path, drawn).with_context(|| format!("writing {}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
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

/// The requested metrics. For imported results without a request: all metrics if there are few,
/// otherwise the tool's primary metric.
fn metrics(arguments: &Arguments, record: &Opened) -> Vec<String> {
    const FEW: usize = 4;
    if record.record.source.is_none() || !arguments.metrics.is_empty() {
        return arguments.metrics.clone();
    }
    let primary = record.record.experiment.compare.metric.clone();
    let mut shown: Vec<String> =
        names(record).into_iter().filter(|n| !n.ends_with("/op")).collect();
    if shown.len() > FEW {
        let (count, list) = (shown.len(), shown.join(", "));
        talk(format_args!(
            "{count} metrics, {primary} is shown; --metric NAME shows others: {list}"
        ));
        shown.retain(|name| *name == primary);
    }
    shown.sort_by_key(|name| *name != primary);
    shown
}

/// Refuses metrics that no run has.
fn check_metrics(requested: &[String], record: &Opened) -> Result<()> {
    for name in requested {
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

/// The names of all metrics and counters in a record.
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
