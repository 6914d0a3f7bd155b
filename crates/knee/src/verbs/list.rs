//! `knee list`: records, workloads, algorithms, hosts, experiments, commands, metrics.

use std::path::PathBuf;
use std::process::ExitCode;

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use answers::{
    AlgorithmEntry, CommandEntry, ExperimentEntry, HostEntry, ListedAlgorithms, ListedCommands,
    ListedExperiments, ListedHosts, ListedLoads, ListedMetrics, ListedWorkloads, LoadEntry,
    MetricEntry, WorkloadEntry, as_json,
};
use anyhow::{Context, Result, ensure};
use described_hosts::{DescribedHost, HOSTS};
use host::paths;
use host::terminal::{hint, one_line, print};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use own_loads::ListedLoad;
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::{COUNTERS, METRICS, Metric};
use store::{Filter, Index, Listed, Store};
use text::prose::counted;
use text::prose::wrapped;
use text::stdout_width;
use workloads::{Family, WORKLOADS};

use crate::flags::{since, until};

/// What to list.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to list
    #[arg(value_enum, default_value = "records")]
    what: ListedKind,
    /// Folder whose loads to list
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Number of records to list, newest first
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
    /// List only records that have this workload or command
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// List only records with this label
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// List only records of this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// List only records that started at this time or later
    ///
    /// A date, a time or an age: 2026-11-20, 2026-11-20T12:00, 7d.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Timestamp>,
    /// List only records that started before this time
    ///
    /// With a date, records of that day are listed too.
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<Timestamp>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ListedKind {
    /// Results of runs, newest first
    Records,
    /// Built-in loads for `knee run`
    Workloads,
    /// Loads of your own in a folder: C files for `knee run`
    Loads,
    /// Locks and mechanisms for `knee check` and `knee simulate`
    Algorithms,
    /// Described hosts for `knee simulate`
    Hosts,
    /// Built-in experiments for `knee run`
    Experiments,
    /// Built-in definitions of other programs for `knee run`
    Commands,
    /// Values measured by a run
    Metrics,
}

/// Prints the list.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    ensure!(
        arguments.folder.is_none() || matches!(arguments.what, ListedKind::Loads),
        "only `knee list loads` takes a folder"
    );
    match arguments.what {
        ListedKind::Loads => loads(arguments)?,
        ListedKind::Records => records(arguments, store)?,
        ListedKind::Workloads if arguments.json => print(as_json(&workloads_listed())?)?,
        ListedKind::Workloads => print(workloads_text())?,
        ListedKind::Algorithms => algorithms(arguments.json)?,
        ListedKind::Hosts => described_hosts(arguments.json)?,
        ListedKind::Experiments => experiments(arguments.json)?,
        ListedKind::Commands => commands(arguments.json)?,
        ListedKind::Metrics if arguments.json => print(as_json(&metrics_listed())?)?,
        ListedKind::Metrics => print(metrics_text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The metrics of runs and the counters beside them.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(COUNTERS)
}

fn records(arguments: &Arguments, store: &Store) -> Result<()> {
    let index = Index::open(store, &paths::cache()?)?;
    let Arguments { workload, label, host, since, until, .. } = arguments;
    let is_filtered =
        [workload, label, host].iter().any(|f| f.is_some()) || since.or(*until).is_some();
    let (workload, label, host) = (workload.clone(), label.clone(), host.clone());
    let filter = Filter { workload, label, host, since: *since, until: *until };
    let newest = index.matching(&filter, arguments.limit);
    // What cannot be read has neither workload nor time.
    let others = if is_filtered { Vec::new() } else { index.others()? };
    if arguments.json {
        return print(as_json(&[newest, others].concat())?);
    }
    let count = index.count(&filter);
    if count + others.len() == 0 {
        let root = store.root().display();
        let text = if is_filtered {
            format!("No record in {root} matches: `knee list` shows all")
        } else {
            format!("No records in {root} yet. Make one with: knee run first-look")
        };
        return print(wrapped(&text, stdout_width(), 0));
    }
    let mut text: String = newest.iter().map(record_line).collect();
    if count > newest.len() {
        text += &format!("… and {} older (-n {count} lists all)\n", count - newest.len());
    }
    if !others.is_empty() {
        text += "not finished, or not readable:\n";
        text += &others.iter().map(other_lines).collect::<String>();
    }
    print(text)?;
    hint("see also: knee list workloads|loads|algorithms|hosts|experiments|commands|metrics");
    Ok(())
}

/// The line of a finished record, with the local time of its start; a note has a line of its own.
pub fn record_line(record: &Listed) -> String {
    let planned = counted(record.planned as usize, "run");
    let runs = match (record.failed, record.runs + record.failed < record.planned) {
        (0, false) => counted(record.runs as usize, "run"),
        (0, true) => format!("{} of {planned}", record.runs),
        (failed, _) => format!("{} of {planned}, {failed} failed", record.runs),
    };
    let Listed { id, state, host, kernel, name, label, note, .. } = record;
    let partial = if state == "partial" { "  partial" } else { "" };
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let local = |started: Timestamp| started.to_zoned(TimeZone::system());
    let started =
        record.started.map(|started| local(started).strftime("%Y-%m-%d %H:%M").to_string());
    let started = started.unwrap_or("-".to_string());
    let line = format!("{id}  {started}  {label}{name}  {runs}{partial}  {host} {kernel}");
    let note = match note.as_str() {
        "" => String::new(),
        note => wrapped(&format!("    {}", note.replace('\n', " ")), stdout_width(), 4),
    };
    wrapped(&one_line(&line), stdout_width(), 4) + &note
}

/// The lines of a folder that is no finished record.
fn other_lines(other: &Listed) -> String {
    let Listed { id, state, reason, name, .. } = other;
    let runs = if other.planned == 0 {
        String::new()
    } else {
        format!("  {name}, {} of {}", other.runs, counted(other.planned as usize, "run"))
    };
    wrapped(&one_line(&format!("{id}  {state}{runs}: {reason}")), stdout_width(), 4)
}

/// A name, and beside it, from the same column on, the words about it. A long name has a line of its own.
fn entry(name: &str, column: usize, about: &str) -> String {
    if about.trim().is_empty() {
        return format!("{name}\n");
    }
    let lines = wrapped(&format!("{:1$}{about}", "", column + 2), stdout_width(), column + 2);
    match name.chars().count() {
        0 => lines,
        length if length > column => format!("{name}\n{lines}"),
        length => format!("{name}{}", &lines[length..]),
    }
}

fn workloads_text() -> String {
    let mut families: Vec<Family> = WORKLOADS.iter().map(|w| w.spec.family).collect();
    families.sort();
    families.dedup();
    let mut text = String::new();
    for family in families {
        text += &format!("{}\n", family.title());
        for workload in WORKLOADS.iter().filter(|w| w.spec.family == family) {
            let aliases = match workload.spec.aliases {
                [] => String::new(),
                some => format!(" ({})", some.join(", ")),
            };
            let about = format!("{}{aliases}", workload.summary());
            text += &entry(&format!("  {}", workload.name), 32, &about);
        }
    }
    text
}

fn workloads_listed() -> ListedWorkloads {
    let workload = |w: &workloads::Workload| WorkloadEntry {
        name: w.name,
        family: w.spec.family.title(),
        summary: w.summary(),
        aliases: w.spec.aliases,
        semantics: w.spec.semantics,
    };
    ListedWorkloads(WORKLOADS.iter().map(workload).collect())
}

fn loads(arguments: &Arguments) -> Result<()> {
    let folder = arguments.folder.as_deref();
    let folder = folder.context("name the folder: knee list loads DIR")?;
    let list = own_loads::list(folder)?;
    if arguments.json {
        let load = |load: ListedLoad| LoadEntry {
            file: load.file,
            interface: load.interface.name(),
            description: load.description,
        };
        return print(as_json(&ListedLoads(list.into_iter().map(load).collect()))?);
    }
    let line = |load: &ListedLoad| {
        let name = load.file.file_name().unwrap_or_default().to_string_lossy();
        entry(&one_line(&name), 22, &one_line(&load.description))
    };
    let text: String = list.iter().map(line).collect();
    print(text)?;
    hint(format_args!("run one with: knee run {}", list[0].file.display()));
    Ok(())
}

fn algorithms(is_json: bool) -> Result<()> {
    if is_json {
        let list = LOCKS.iter().map(lock_entry).chain(MECHANISMS.iter().map(mechanism_entry));
        return print(as_json(&ListedAlgorithms(list.collect()))?);
    }
    let line = |name: &str, summary: String| entry(name, 22, &summary);
    let locks = LOCKS.iter().map(|lock| line(lock.name, lock.summary()));
    let mechanisms = MECHANISMS.iter().map(|one| line(one.name, one.summary()));
    print(locks.chain(mechanisms).collect::<String>())
}

fn described_hosts(is_json: bool) -> Result<()> {
    let described =
        HOSTS.iter().map(|(name, _)| described_hosts::find(name)).collect::<Result<Vec<_>>>()?;
    if is_json {
        return print(as_json(&ListedHosts(described.iter().map(host_entry).collect()))?);
    }
    let host_text = |host: &DescribedHost| {
        let cpus = counted(host.cpus(), "CPU");
        format!(
            "{}, {cpus}\n{}",
            host.name,
            wrapped(&format!("    {}", host.about), stdout_width(), 4)
        )
    };
    print(described.iter().map(host_text).collect::<String>())
}

fn experiments(is_json: bool) -> Result<()> {
    let mut list = Vec::new();
    let mut text = String::new();
    for (name, _) in EXPERIMENTS {
        let description = experiments::read_built_in(name)?.description;
        if is_json {
            list.push(ExperimentEntry { name, description });
        } else {
            text += &entry(name, 22, &description);
        }
    }
    if is_json { print(as_json(&ListedExperiments(list))?) } else { print(text) }
}

fn commands(is_json: bool) -> Result<()> {
    let mut list = Vec::new();
    let mut text = String::new();
    for (name, _) in COMMANDS {
        let command = commands::read(name)?;
        let name = format!("{PREFIX}{name}");
        if is_json {
            let (run, primary) = (command.run.text(), command.primary().to_string());
            list.push(CommandEntry { name, description: command.description, run, primary });
        } else {
            text += &entry(&name, 22, &command.description);
        }
    }
    if is_json { print(as_json(&ListedCommands(list))?) } else { print(text) }
}

fn metrics_text() -> String {
    let line = |name: &str, unit: &str, better: &str, obtained: &str, about: &str| {
        let head = format!("{name:34} {unit:6} {better:7} {obtained:12}");
        if stdout_width() < 100 {
            return format!("{}\n{}", head.trim_end(), entry("", 2, about));
        }
        entry(&head, 61, about)
    };
    let metric = |m: &Metric| line(m.name, m.unit, m.better.name(), m.obtained.name(), m.about);
    let head = line("metric", "unit", "better", "obtained", "meaning");
    let per_operation = "\nCOUNTER/op is the value of a counter per operation.\n";
    head + &all_metrics().map(metric).collect::<String>() + per_operation
}

fn metrics_listed() -> ListedMetrics {
    ListedMetrics(all_metrics().map(metric_entry).collect())
}

/// A lock as data.
pub fn lock_entry(lock: &ListedLock) -> AlgorithmEntry {
    AlgorithmEntry { name: lock.name, kind: lock.kind(), summary: lock.summary() }
}

/// A mechanism as data.
pub fn mechanism_entry(mechanism: &ListedMechanism) -> AlgorithmEntry {
    AlgorithmEntry { name: mechanism.name, kind: "mechanism", summary: mechanism.summary() }
}

/// A described host as data, without its numbers.
pub fn host_entry(host: &DescribedHost) -> HostEntry {
    let DescribedHost { name, about, sources, .. } = host;
    HostEntry {
        name: name.clone(),
        cpus: host.cpus(),
        about: about.clone(),
        sources: sources.clone(),
    }
}

/// A metric as data.
pub fn metric_entry(metric: &Metric) -> MetricEntry {
    MetricEntry {
        name: metric.name,
        unit: metric.unit,
        better: metric.better.name(),
        obtained: metric.obtained.name(),
        kind: metric.kind.name(),
        about: metric.about,
    }
}
