//! `knee show`: shows a record as tables and curves, or the manual page of another name.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use answers::summary;
use anyhow::{Context, Result, anyhow, bail};
use host::terminal::talk;
use host::{given_file, unknown};
use pages::ViewFlags;
use records::Opened;
use reports::{Detail, ShownMetrics, metric_names, shown_metrics};
use store::Store;

use super::compare::curves_page;
use super::describe;
use crate::named::{self, Shown};

/// Show a record as tables and curves, or the manual page of a name
///
/// All numbers are computed again from the runs of the record. See `knee help results`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Record: `last`, a label, an id or its start, or a directory; or what else has a name
    ///
    /// Workloads, locks, mechanisms, hosts, experiments (also their files), commands, metrics, headers and loads in C
    /// have manual pages. A record comes first if the name is its label, its id or its path.
    #[arg(value_name = "NAME", default_value = "last")]
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "counters", "view", "json"])]
    svg: Option<PathBuf>,
    #[command(flatten)]
    view: ViewFlags,
}

/// Prints the record's report.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let folder = match named::shown(&arguments.which, describe::has_page, store) {
        Ok(Shown::Record(folder)) => folder,
        Ok(Shown::Page) => {
            refuse_options_of_records(arguments)?;
            describe::run(&arguments.which, arguments.view)?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(why) => return Err(unknown_name(&arguments.which, why)),
    };
    let record = store::open(&folder)?;
    check_metrics(&arguments.metrics, &record)?;
    if let Some(path) = &arguments.svg {
        let drawn = pages::svg(&curves_page(&record, &arguments.metrics)?);
        let drawn = drawn.with_context(|| {
            let id = &record.record.id;
            format!("{id} has no curve: that takes values at two CPU counts (--cpus 1..all)")
        })?;
        let written = given_file::create(path)?.write_all(drawn.as_bytes());
        written.with_context(|| format!("writing {}", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let page = || {
        let detail = Detail {
            metrics: metrics(arguments, &record),
            time: arguments.time,
            counters: arguments.counters,
        };
        Ok(pages::record(&record, &detail, ""))
    };
    arguments.view.print(|| Ok(summary(&record, &arguments.metrics)), page)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses what a manual page does not have.
fn refuse_options_of_records(arguments: &Arguments) -> Result<()> {
    let given = [
        (!arguments.metrics.is_empty(), "--metric"),
        (arguments.time, "--time"),
        (arguments.counters, "--counters"),
        (arguments.svg.is_some(), "--svg"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => {
            bail!("{flag} is for records, and {} is none: leave it out", arguments.which)
        }
        None => Ok(()),
    }
}

/// The error for a name that neither a record nor a manual page has.
fn unknown_name(name: &str, why: anyhow::Error) -> anyhow::Error {
    if name == "last" || name.contains('/') {
        return why;
    }
    let names = describe::names();
    let list = "knee list workloads|algorithms|hosts|experiments|commands|metrics";
    let names = names.iter().map(String::as_str);
    anyhow!("{why:#}; {}", unknown("manual page", name, names, list))
}

/// The requested metrics, or those that are shown without a request.
fn metrics(arguments: &Arguments, record: &Opened) -> Vec<String> {
    if !arguments.metrics.is_empty() {
        return arguments.metrics.clone();
    }
    let ShownMetrics { shown, left_out } = shown_metrics(record);
    if !left_out.is_empty() {
        talk(format_args!(
            "{} metrics, {} is shown; --metric NAME shows others: {}",
            shown.len() + left_out.len(),
            shown.join(", "),
            left_out.join(", ")
        ));
    }
    shown
}

/// Refuses metrics that no run has.
fn check_metrics(requested: &[String], record: &Opened) -> Result<()> {
    for name in requested {
        if record.runs.iter().any(|run| run.value(name).is_some()) {
            continue;
        }
        let known = metric_names(record);
        let kind = format!("metric of {}", record.record.id);
        let known = known.iter().map(String::as_str);
        bail!("{}", unknown(&kind, name, known, "knee list metrics"));
    }
    Ok(())
}
