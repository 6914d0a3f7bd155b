//! `knee describe NAME`: the manual page of a workload, algorithm or metric; the file of an
//! experiment, a command or a host.

use std::process::ExitCode;

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use anyhow::{Context, Result};
use host::nearest;
use host::stderr::{print, print_line};
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::Metric;
use reports::wrapped;
use serde_json::json;
use studies::hosts::{self, DescribedHost, HOSTS, Number, Origin};
use workloads::{Forms, Parameter, ParameterKind, WORKLOADS, Workload};

use crate::verbs::list::all_metrics;

/// What to describe.
#[derive(clap::Args)]
pub struct Arguments {
    /// Workload, algorithm, host, experiment, command or metric to describe
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the description.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let name = arguments.name.as_str();
    let entry = ManualEntry::find(name).with_context(|| unknown(name))?;
    if arguments.json {
        print_line(entry.json()?)?;
    } else {
        print(entry.page())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Anything that has a manual page.
enum ManualEntry<'a> {
    Workload(&'static Workload),
    Lock(&'static ListedLock),
    Mechanism(&'static ListedMechanism),
    /// Name and TOML text.
    Experiment(&'a str, &'static str),
    /// The name may be that of one counter of a family.
    Metric(&'a str, &'static Metric),
    /// Name and TOML text.
    Host(&'a str, &'static str),
    /// Name and TOML text.
    Command(&'a str, &'static str),
}

impl<'a> ManualEntry<'a> {
    fn find(name: &'a str) -> Option<ManualEntry<'a>> {
        let lock = || LOCKS.iter().find(|lock| lock.name == name);
        let mechanism = || MECHANISMS.iter().find(|mechanism| mechanism.name == name);
        let metric = || all_metrics().find(|metric| metric.matches(name));
        let host = || HOSTS.iter().find(|(host, _)| *host == name);
        Workload::find(name)
            .map(ManualEntry::Workload)
            .or_else(|| lock().map(ManualEntry::Lock))
            .or_else(|| mechanism().map(ManualEntry::Mechanism))
            .or_else(|| Some(ManualEntry::Experiment(name, experiments::built_in(name)?)))
            .or_else(|| Some(ManualEntry::Metric(name, metric()?)))
            .or_else(|| Some(ManualEntry::Host(name, host()?.1)))
            .or_else(|| Some(ManualEntry::Command(name, commands::built_in(name)?)))
    }

    fn page(&self) -> String {
        match self {
            ManualEntry::Workload(workload) => workload_page(workload),
            ManualEntry::Lock(lock) => lock_page(lock),
            ManualEntry::Mechanism(mechanism) => mechanism_page(mechanism),
            ManualEntry::Metric(name, metric) => metric_page(name, metric),
            ManualEntry::Experiment(_, text)
            | ManualEntry::Host(_, text)
            | ManualEntry::Command(_, text) => text.to_string(),
        }
    }

    fn json(&self) -> Result<String> {
        Ok(match self {
            ManualEntry::Workload(workload) => format!("{:#}", workload_json(workload)),
            ManualEntry::Lock(lock) => format!("{:#}", lock_json(lock)),
            ManualEntry::Mechanism(mechanism) => format!("{:#}", mechanism_json(mechanism)),
            ManualEntry::Metric(_, metric) => format!("{:#}", metric_json(metric)),
            ManualEntry::Host(name, _) => format!("{:#}", host_json(&hosts::find(name)?)),
            ManualEntry::Experiment(name, _) => {
                serde_json::to_string_pretty(&experiments::read_built_in(name)?)?
            }
            ManualEntry::Command(name, _) => serde_json::to_string_pretty(&commands::read(name)?)?,
        })
    }
}

/// The error for a name without a manual page, with the nearest name that has one.
fn unknown(name: &str) -> String {
    let commands: Vec<String> =
        COMMANDS.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
    let names = WORKLOADS.iter().map(|workload| workload.name);
    let names = names.chain(LOCKS.iter().map(|lock| lock.name));
    let names = names.chain(MECHANISMS.iter().map(|mechanism| mechanism.name));
    let names = names.chain(HOSTS.iter().map(|(host, _)| *host));
    let names = names.chain(EXPERIMENTS.iter().map(|(experiment, _)| *experiment));
    let names = names.chain(commands.iter().map(String::as_str));
    let names = names.chain(all_metrics().map(|metric| metric.name));
    let hint = nearest(name, names);
    format!(
        "nothing is called '{name}'{hint}; see `knee list \
         workloads|algorithms|hosts|experiments|commands|metrics`"
    )
}

fn workload_page(workload: &Workload) -> String {
    let spec = workload.spec;
    let mut page = format!("{}  ({})\n\n", workload.name, spec.family.title());
    page += &format!("{}\n\n", workload.manual().trim_end());
    page += &format!("one operation   {}\n", spec.operation);
    page += &wrapped(&format!("runs as         {}", forms(&spec.forms)), 100, 16);
    if !spec.aliases.is_empty() {
        page += &format!("also called     {}\n", spec.aliases.join(", "));
    }
    for (i, need) in spec.needs.iter().enumerate() {
        page += &format!("{:16}{need}\n", if i == 0 { "needs" } else { "" });
    }
    page += &format!("semantics       version {}\n", spec.semantics);
    page += "\nparameters (--set NAME=VALUE[,VALUE…])\n";
    for parameter in workload.parameters() {
        page += &parameter_lines(parameter);
    }
    page += &format!("\n{}", wrapped(WORK_ACCURACY, 100, 0));
    page += &format!("\ntry it          knee run {} --cpus 1..all\n", workload.name);
    page
}

/// What a parameter in ns gives: each is CPU work.
const WORK_ACCURACY: &str = "Parameters in ns are CPU work. From 200 ns up its CPU time was within \
    3 % of what you ask for in 9 of 10 runs or more; interruptions and preemption come on top. Each run measures the real \
    length afterwards (metric work.NAME), and has a doubt if it is more than 5 % off.";

fn lock_page(lock: &ListedLock) -> String {
    format!(
        "{0}  ({1})\n\n{2}\n\nsearch it       knee check {0} --threads 3 --acquires 2\n\
         mutants         knee check {0} --mutants\n\
         run natively    knee run lock_{0} --cpus 1..all\n",
        lock.name,
        lock.kind(),
        lock.manual().trim_end(),
    )
}

fn mechanism_page(mechanism: &ListedMechanism) -> String {
    let workload = format!("mechanism_{}", mechanism.name);
    let natively = match Workload::find(&workload) {
        Some(_) => format!("run natively     knee run {workload} --cpus 1..all\n"),
        None => String::new(),
    };
    format!(
        "{0}  (mechanism)\n\n{1}\n\n{2}search all       knee check {0} --threads 2\n\
         search one       knee check {0}:after --threads 2 --acquires 2 --over ticket\n{3}",
        mechanism.name,
        mechanism.manual().trim_end(),
        wrapped(&format!("designs          {}", mechanism.designs().join(", ")), 100, 17),
        natively,
    )
}

fn mechanism_json(mechanism: &ListedMechanism) -> serde_json::Value {
    json!({
        "name": mechanism.name,
        "kind": "mechanism",
        "summary": mechanism.summary(),
        "manual": mechanism.manual(),
        "designs": mechanism.designs(),
    })
}

fn lock_json(lock: &ListedLock) -> serde_json::Value {
    json!({
        "name": lock.name,
        "kind": lock.kind(),
        "summary": lock.summary(),
        "manual": lock.manual(),
    })
}

/// A host as JSON, with its numbers in picoseconds or without a unit.
fn host_json(host: &DescribedHost) -> serde_json::Value {
    let number = |(name, number): (&String, &Number)| {
        let (origin, of) = match &number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at, _) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        let Number { low, middle, high, text, .. } = number;
        let number = json!({
            "low": low, "middle": middle, "high": high, "text": text, "origin": origin, "of": of,
        });
        (name.clone(), number)
    };
    let numbers: serde_json::Map<_, _> = host.numbers().iter().map(number).collect();
    let DescribedHost { name, about, sources, .. } = host;
    json!({ "name": name, "cpus": host.cpus(), "about": about, "sources": sources, "numbers": numbers })
}

fn forms(forms: &Forms) -> String {
    let name = |form: &workloads::TaskForm| match form {
        workloads::TaskForm::Processes => "processes",
        workloads::TaskForm::Threads => "threads",
    };
    match forms {
        Forms::Both => "processes, threads".to_string(),
        Forms::Noted(form, why) => format!("processes, threads; as {}: {why}", name(form)),
        Forms::Only(form, why) => format!("{} only: {why}", name(form)),
    }
}

fn parameter_lines(parameter: &Parameter) -> String {
    let values = match parameter.kind {
        ParameterKind::Number { min, max } => format!("{min} to {max}"),
        ParameterKind::Choice(words) => words.join("|"),
    };
    let head = format!("  {}={}", parameter.name, parameter.default);
    wrapped(&format!("{head:26} {} ({values})", parameter.about), 100, 27)
}

fn workload_json(workload: &Workload) -> serde_json::Value {
    let spec = workload.spec;
    let parameter = |p: &Parameter| json!({"name": p.name, "default": p.default, "about": p.about});
    json!({
        "name": workload.name,
        "family": spec.family.title(),
        "summary": workload.summary(),
        "manual": workload.manual(),
        "operation": spec.operation,
        "semantics": spec.semantics,
        "aliases": spec.aliases,
        "forms": forms(&spec.forms),
        "needs": spec.needs.iter().map(|n| n.to_string()).collect::<Vec<_>>(),
        "parameters": workload.parameters().map(parameter).collect::<Vec<_>>(),
    })
}

fn metric_page(name: &str, metric: &Metric) -> String {
    format!(
        "{name}\n\n{}\n\nunit            {}\nbetter          {}\nobtained        {}\n\n\
         show it         knee show last --metric {name}\n",
        metric.about,
        metric.unit,
        metric.better.name(),
        metric.obtained.name()
    )
}

fn metric_json(metric: &Metric) -> serde_json::Value {
    json!({
        "name": metric.name,
        "unit": metric.unit,
        "better": metric.better.name(),
        "obtained": metric.obtained.name(),
        "about": metric.about,
    })
}
