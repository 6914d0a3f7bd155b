//! `knee list`: records, workloads, algorithms, hosts, experiments, commands, metrics.

use std::path::PathBuf;
use std::process::ExitCode;

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use answers::{
    AlgorithmEntry, CommandEntry, ExperimentEntry, HostEntry, ListedAlgorithms, ListedCommands,
    ListedExperiments, ListedHosts, ListedLoads, ListedMetrics, ListedWorkloads, LoadEntry,
    MetricEntry, WorkloadEntry,
};
use anyhow::{Context, Result, ensure};
use described_hosts::{DescribedHost, HOSTS};
use host::paths;
use host::terminal::{hint, one_line};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use own_loads::ListedLoad;
use pages::{Block, Page, PageKind, PageTable, Section, View, ViewFlags};
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::{COUNTERS, METRICS, Metric};
use store::{Filter, Index, Listed, Store};
use text::prose::counted;
use text::table::{Align, Table};
use workloads::{Family, WORKLOADS};

use crate::flags::{since, until};
use crate::results::result;

/// List records, loads, algorithms, hosts, experiments or metrics
///
/// Records come with what was found in them, the newest first. `knee show NAME` prints the manual page of what else is
/// listed.
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
    /// List only records for which this host made runs
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
    #[command(flatten)]
    view: ViewFlags,
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
    let view = arguments.view;
    match arguments.what {
        ListedKind::Records => records(arguments, store)?,
        ListedKind::Workloads => view.print(|| Ok(workloads_listed()), || Ok(workloads_page()))?,
        ListedKind::Loads => loads(arguments)?,
        ListedKind::Algorithms => view.print(|| Ok(algorithms()), || Ok(algorithms_page()))?,
        ListedKind::Hosts => described_hosts(view)?,
        ListedKind::Experiments => experiments(view)?,
        ListedKind::Commands => commands(view)?,
        ListedKind::Metrics => view.print(|| Ok(metrics_listed()), || Ok(metrics_page()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Records of which a list says what was found: the newest. To work it out takes a moment each, the first time.
const RESULTS_MAX: usize = 100;

/// The metrics of runs and the counters beside them.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(COUNTERS)
}

fn records(arguments: &Arguments, store: &Store) -> Result<()> {
    let mut index = Index::open(store, &paths::cache()?)?;
    let Arguments { workload, label, host, since, until, .. } = arguments;
    let is_filtered =
        [workload, label, host].iter().any(|f| f.is_some()) || since.or(*until).is_some();
    let (workload, label, host) = (workload.clone(), label.clone(), host.clone());
    let filter = Filter { workload, label, host, since: *since, until: *until };
    let mut newest = index.matching(&filter, arguments.limit);
    let judged = newest.len().min(RESULTS_MAX);
    index.add_results(&mut newest[..judged], result);
    // What cannot be read has neither workload nor time.
    let others = if is_filtered { Vec::new() } else { index.others()? };
    let count = index.count(&filter);
    let root = store.root().display();
    let page = match (count + others.len(), is_filtered) {
        (0, true) => nothing(&format!("No record in {root} matches: `knee list` shows all")),
        (0, false) => {
            nothing(&format!("No records in {root} yet. Make one with: knee run first-look"))
        }
        _ => records_page(&newest, count, &others),
    };
    arguments.view.print(|| Ok([newest, others].concat()), || Ok(page))?;
    if arguments.view.view() == View::Terminal {
        hint("more: knee list workloads|loads|algorithms|hosts|experiments|commands|metrics");
    }
    Ok(())
}

/// The page of an empty list.
fn nothing(why: &str) -> Page {
    Page { answers: vec![why.to_string()], ..Page::new("records", PageKind::List) }
}

/// The page of the newest of `count` records, and of folders that are no finished record.
fn records_page(newest: &[Listed], count: usize, others: &[Listed]) -> Page {
    let mut blocks = vec![records_table(newest)];
    if count > newest.len() {
        let older = format!("… and {} older (-n {count} lists all)", count - newest.len());
        blocks.push(Block::Text(vec![older]));
    }
    let mut page = of_blocks("records", blocks);
    if !others.is_empty() {
        let others = others.iter().map(other_sentence).collect();
        page.warnings.push(("not finished, or not readable:".to_string(), others));
    }
    page
}

/// A page of one list.
fn of_blocks(title: &str, blocks: Vec<Block>) -> Page {
    Page { sections: vec![Section::open(title, blocks)], ..Page::new(title, PageKind::List) }
}

/// Names with what they are.
fn names(rows: impl IntoIterator<Item = (String, String)>) -> Block {
    prose([""; 2], rows.into_iter().map(|(name, about)| [name, about]))
}

/// A table whose last column is prose.
fn prose<const N: usize>(
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Block {
    let mut table = Table::new(headings.map(|heading| (heading, Align::Left)));
    rows.into_iter().for_each(|row| table.row(row.into()));
    Block::Table(PageTable::of_prose(table))
}

/// Finished records, with the local time of their start; what was found and a note have rows of their own.
pub fn records_table<'a>(records: impl IntoIterator<Item = &'a Listed>) -> Block {
    let rows = |record: &Listed| {
        let texts = [&record.result, &record.note].map(|text| text.replace('\n', " "));
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        let below = texts.map(|text| [String::new(), text]);
        [record_row(record)].into_iter().chain(below).collect::<Vec<_>>()
    };
    prose([""; 2], records.into_iter().flat_map(rows))
}

fn record_row(record: &Listed) -> [String; 2] {
    let Listed { id, state, host, kernel, name, label, .. } = record;
    let runs = record.runs_in_words();
    let partial = if state == "partial" { "  partial" } else { "" };
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let local = |started: Timestamp| started.to_zoned(TimeZone::system());
    let started =
        record.started.map(|started| local(started).strftime("%Y-%m-%d %H:%M").to_string());
    let started = started.unwrap_or("-".to_string());
    [id.clone(), format!("{started:16}  {label}{name}  {runs}{partial}  {host} {kernel}")]
}

/// What is known of a folder that is no finished record.
fn other_sentence(other: &Listed) -> String {
    let Listed { id, state, reason, name, .. } = other;
    let runs = if other.planned == 0 {
        String::new()
    } else {
        format!("  {name}, {} of {}", other.runs, counted(other.planned as usize, "run"))
    };
    one_line(&format!("{id}  {state}{runs}: {reason}"))
}

fn workloads_page() -> Page {
    let mut families: Vec<Family> = WORKLOADS.iter().map(|w| w.spec.family).collect();
    families.sort();
    families.dedup();
    let widest = WORKLOADS.iter().map(|workload| workload.name.len()).max().unwrap_or_default();
    let section = |family: Family| {
        let of_family = WORKLOADS.iter().filter(|workload| workload.spec.family == family);
        let rows = of_family.map(|workload| {
            let aliases = match workload.spec.aliases {
                [] => String::new(),
                some => format!(" ({})", some.join(", ")),
            };
            // All families have their columns at the same place.
            let name = format!("  {:widest$}", workload.name);
            (name, format!("{}{aliases}", summary(workload)))
        });
        Section::open(family.title(), vec![names(rows)])
    };
    let sections = families.into_iter().map(section).collect();
    Page { sections, ..Page::new("workloads", PageKind::List) }
}

/// What a workload does; one that takes a lock or a mechanism of the list says which, since all of these do the same.
fn summary(workload: &workloads::Workload) -> String {
    let lock = workload.name.strip_prefix("lock_");
    let lock = lock.and_then(|name| LOCKS.iter().find(|lock| lock.name == name));
    match lock {
        Some(lock) => format!("Lock and unlock: {}", lock.summary()),
        None => workload.summary(),
    }
}

fn workloads_listed() -> ListedWorkloads {
    let workload = |w: &workloads::Workload| WorkloadEntry {
        name: w.name,
        family: w.spec.family.title(),
        summary: summary(w),
        aliases: w.spec.aliases,
        semantics: w.spec.semantics,
    };
    ListedWorkloads(WORKLOADS.iter().map(workload).collect())
}

fn loads(arguments: &Arguments) -> Result<()> {
    let folder = arguments.folder.as_deref();
    let folder = folder.context("name the folder: knee list loads DIR")?;
    let list = own_loads::list(folder)?;
    let load = |load: &ListedLoad| LoadEntry {
        file: load.file.clone(),
        interface: load.interface.name(),
        description: load.description.clone(),
    };
    let row = |load: &ListedLoad| {
        let name = load.file.file_name().unwrap_or_default().to_string_lossy();
        (one_line(&name), one_line(&load.description))
    };
    arguments.view.print(
        || Ok(ListedLoads(list.iter().map(load).collect())),
        || Ok(of_blocks("loads", vec![names(list.iter().map(row))])),
    )?;
    if arguments.view.view() == View::Terminal {
        hint(format_args!("run one with: knee run {}", list[0].file.display()));
    }
    Ok(())
}

fn algorithms() -> ListedAlgorithms {
    let list = LOCKS.iter().map(lock_entry).chain(MECHANISMS.iter().map(mechanism_entry));
    ListedAlgorithms(list.collect())
}

fn algorithms_page() -> Page {
    let rows = algorithms().0.into_iter().map(|one| (one.name.to_string(), one.summary));
    of_blocks("algorithms", vec![names(rows)])
}

fn described_hosts(view: ViewFlags) -> Result<()> {
    let described =
        HOSTS.iter().map(|(name, _)| described_hosts::find(name)).collect::<Result<Vec<_>>>()?;
    let row =
        |host: &DescribedHost| [host.name.clone(), counted(host.cpus(), "CPU"), host.about.clone()];
    view.print(
        || Ok(ListedHosts(described.iter().map(host_entry).collect())),
        || Ok(of_blocks("hosts", vec![prose([""; 3], described.iter().map(row))])),
    )
}

fn experiments(view: ViewFlags) -> Result<()> {
    let entry = |(name, _): &(&'static str, &str)| {
        let description = experiments::read_built_in(name)?.description;
        Ok(ExperimentEntry { name, description })
    };
    let list: Vec<ExperimentEntry> = EXPERIMENTS.iter().map(entry).collect::<Result<_>>()?;
    let row = |one: &ExperimentEntry| (one.name.to_string(), one.description.clone());
    let page = of_blocks("experiments", vec![names(list.iter().map(row))]);
    view.print(|| Ok(ListedExperiments(list)), || Ok(page))
}

fn commands(view: ViewFlags) -> Result<()> {
    let entry = |(name, _): &(&str, &str)| {
        let command = commands::read(name)?;
        let (run, primary) = (command.run.text(), command.primary().to_string());
        let name = format!("{PREFIX}{name}");
        Ok(CommandEntry { name, description: command.description, run, primary })
    };
    let list: Vec<CommandEntry> = COMMANDS.iter().map(entry).collect::<Result<_>>()?;
    let row = |one: &CommandEntry| (one.name.clone(), one.description.clone());
    let page = of_blocks("commands", vec![names(list.iter().map(row))]);
    view.print(|| Ok(ListedCommands(list)), || Ok(page))
}

fn metrics_page() -> Page {
    let row = |m: &Metric| {
        [m.name, m.unit, m.better.name(), m.obtained.name(), m.about].map(str::to_string)
    };
    let headings = ["metric", "unit", "better", "obtained", "meaning"];
    let mut page = of_blocks("metrics", vec![prose(headings, all_metrics().map(row))]);
    page.method.push("COUNTER/op is the value of a counter per operation.".to_string());
    page
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
