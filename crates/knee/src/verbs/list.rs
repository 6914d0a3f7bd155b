//! `knee list`: records, workloads, algorithms, hosts, experiments, commands, metrics.

use std::process::ExitCode;

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use anyhow::Result;
use host::paths;
use host::stderr::{print, print_line, talk};
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::{METRICS, Metric};
use reports::{counted, wrapped};
use serde_json::json;
use store::{Index, Listed, Store};
use studies::hosts::{self, DescribedHost, HOSTS};
use workloads::{Family, WORKLOADS};

/// What to list.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to list
    #[arg(value_enum, default_value = "records")]
    what: What,
    /// How many records, the newest first
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// What runs have left, the newest first
    Records,
    /// Loads that can be run
    Workloads,
    /// Locks and mechanisms that can be checked
    Algorithms,
    /// DescribedHost hosts on which algorithms can be simulated
    Hosts,
    /// Experiments that come with knee
    Experiments,
    /// Definitions of other programs that come with knee
    Commands,
    /// Numbers that a run yields
    Metrics,
}

/// Prints the list.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    match arguments.what {
        What::Records => records(arguments, store)?,
        What::Workloads if arguments.json => print_line(format_args!("{:#}", workloads_json()))?,
        What::Workloads => print(workloads_text())?,
        What::Algorithms => algorithms(arguments.json)?,
        What::Hosts => described_hosts(arguments.json)?,
        What::Experiments => experiments(arguments.json)?,
        What::Commands => commands(arguments.json)?,
        What::Metrics if arguments.json => print_line(format_args!("{:#}", metrics_json()))?,
        What::Metrics => print(metrics_text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The metrics of runs and the counters beside them.
pub fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().chain(probes::counters::CATALOGUE)
}

fn records(arguments: &Arguments, store: &Store) -> Result<()> {
    let index = Index::open(store, &paths::cache()?)?;
    let newest = index.newest(arguments.limit)?;
    if arguments.json {
        return print_line(serde_json::to_string_pretty(&newest)?);
    }
    let count = index.count()?;
    if count == 0 {
        let root = store.root().display();
        return print_line(format_args!("No records in {root} yet. Make one: knee run first-look"));
    }
    let mut text = String::new();
    for record in &newest {
        text += &record_line(record);
    }
    if count > newest.len() {
        text += &format!("… and {} older; -n {count} lists all\n", count - newest.len());
    }
    print(text)?;
    talk("also: knee list workloads | algorithms | experiments | commands | metrics");
    Ok(())
}

fn record_line(record: &Listed) -> String {
    let runs = match (record.failed, record.runs + record.failed < record.planned) {
        (0, false) => counted(record.runs as usize, "run"),
        (0, true) => format!("{} of {} runs", record.runs, record.planned),
        (failed, _) => format!("{} of {} runs, {failed} failed", record.runs, record.planned),
    };
    let Listed { id, state, host, kernel, name, .. } = record;
    let partial = if state == "partial" { "  partial" } else { "" };
    format!("{id}  {name}  {runs}{partial}  {host} {kernel}\n")
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
            text += &format!("  {:32}{}{aliases}\n", workload.name, workload.summary());
        }
    }
    text
}

fn workloads_json() -> serde_json::Value {
    let workload = |w: &workloads::Workload| {
        json!({"name": w.name, "family": w.spec.family.title(), "summary": w.summary(),
               "aliases": w.spec.aliases, "semantics": w.spec.semantics})
    };
    WORKLOADS.iter().map(workload).collect()
}

fn algorithms(as_json: bool) -> Result<()> {
    if as_json {
        let lock = |lock: &ListedLock| json!({"name": lock.name, "kind": lock.kind(), "summary": lock.summary()});
        let mechanism = |mechanism: &ListedMechanism| json!({"name": mechanism.name, "kind": "mechanism", "summary": mechanism.summary()});
        let list: Vec<_> = LOCKS.iter().map(lock).chain(MECHANISMS.iter().map(mechanism)).collect();
        return print_line(format_args!("{:#}", json!(list)));
    }
    let line = |name: &str, summary: String| format!("{name:24}{summary}\n");
    let locks = LOCKS.iter().map(|lock| line(lock.name, lock.summary()));
    let mechanisms = MECHANISMS.iter().map(|one| line(one.name, one.summary()));
    print(locks.chain(mechanisms).collect::<String>())
}

fn described_hosts(as_json: bool) -> Result<()> {
    let all = HOSTS.iter().map(|(name, _)| hosts::find(name)).collect::<Result<Vec<_>>>()?;
    if as_json {
        let one = |host: &DescribedHost| {
            let DescribedHost { name, about, sources, .. } = host;
            json!({ "name": name, "cpus": host.cpus(), "about": about, "sources": sources })
        };
        return print_line(format_args!(
            "{:#}",
            all.iter().map(one).collect::<serde_json::Value>()
        ));
    }
    let one = |host: &DescribedHost| {
        let cpus = counted(host.cpus(), "CPU");
        format!("{}, {cpus}\n{}", host.name, wrapped(&format!("    {}", host.about), 100, 4))
    };
    print(all.iter().map(one).collect::<String>())
}

fn experiments(as_json: bool) -> Result<()> {
    let mut list = Vec::new();
    let mut text = String::new();
    for (name, _) in EXPERIMENTS {
        let description = experiments::read_built_in(name)?.description;
        if as_json {
            list.push(json!({"name": name, "description": description}));
        } else {
            text += &format!("{name:16}{description}\n");
        }
    }
    match as_json {
        true => print_line(format_args!("{:#}", serde_json::Value::from(list))),
        false => print(text),
    }
}

fn commands(as_json: bool) -> Result<()> {
    let mut list = Vec::new();
    let mut text = String::new();
    for (name, _) in COMMANDS {
        let command = commands::read(name)?;
        let name = format!("{PREFIX}{name}");
        if as_json {
            list.push(json!({"name": name, "description": command.description,
                             "run": command.run.text(), "primary": command.primary()}));
        } else {
            text += &wrapped(&format!("{name:24}{}", command.description), 100, 24);
        }
    }
    match as_json {
        true => print_line(format_args!("{:#}", serde_json::Value::from(list))),
        false => print(text),
    }
}

fn metrics_text() -> String {
    let line = |name: &str, unit: &str, better: &str, obtained: &str, about: &str| {
        wrapped(&format!("{name:34} {unit:6} {better:7} {obtained:12} {about}"), 100, 63)
    };
    let metric = |m: &Metric| line(m.name, m.unit, m.better.name(), m.obtained.name(), m.about);
    let head = line("metric", "unit", "better", "obtained", "what it is");
    let per_operation = "\nA counter's name with /op behind it is the counter per operation.\n";
    head + &all_metrics().map(metric).collect::<String>() + per_operation
}

fn metrics_json() -> serde_json::Value {
    let metric = |m: &Metric| {
        json!({"name": m.name, "unit": m.unit, "better": m.better.name(),
               "obtained": m.obtained.name(), "about": m.about})
    };
    all_metrics().map(metric).collect()
}
