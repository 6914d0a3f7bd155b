//! `knee describe NAME`: the manual page of a workload, an algorithm, an experiment, a command or a metric;
//! the file of a host.

use std::process::ExitCode;

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use anyhow::{Result, bail};
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
    /// A workload, algorithm, host, experiment, command or metric
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the description.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let name = arguments.name.as_str();
    if let Some(workload) = Workload::find(name) {
        if arguments.json {
            print_line(format_args!("{:#}", workload_json(workload)))?;
        } else {
            print(workload_page(workload))?;
        }
    } else if let Some(lock) = LOCKS.iter().find(|lock| lock.name == name) {
        if arguments.json {
            print_line(format_args!("{:#}", lock_json(lock)))?;
        } else {
            print(lock_page(lock))?;
        }
    } else if let Some(mechanism) = MECHANISMS.iter().find(|one| one.name == name) {
        if arguments.json {
            print_line(format_args!("{:#}", mechanism_json(mechanism)))?;
        } else {
            print(mechanism_page(mechanism))?;
        }
    } else if let Some(text) = experiments::built_in(name) {
        if arguments.json {
            print_line(serde_json::to_string_pretty(&experiments::read_built_in(name)?)?)?;
        } else {
            print(text)?;
        }
    } else if let Some(metric) = all_metrics().find(|m| m.matches(name)) {
        if arguments.json {
            print_line(format_args!("{:#}", metric_json(metric)))?;
        } else {
            print(metric_page(name, metric))?;
        }
    } else if let Some((_, text)) = HOSTS.iter().find(|(host, _)| *host == name) {
        if arguments.json {
            print_line(format_args!("{:#}", host_json(&hosts::find(name)?)))?;
        } else {
            print(text)?;
        }
    } else if let Some(text) = commands::built_in(name) {
        if arguments.json {
            print_line(serde_json::to_string_pretty(&commands::read(name)?)?)?;
        } else {
            print(text)?;
        }
    } else {
        let commands: Vec<String> =
            COMMANDS.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
        let commands = commands.iter().map(String::as_str);
        let workloads = WORKLOADS.iter().map(|w| w.name);
        let experiments = EXPERIMENTS.iter().map(|(n, _)| *n);
        let metrics = all_metrics().map(|m| m.name);
        let locks = LOCKS.iter().map(|lock| lock.name);
        let locks = locks.chain(MECHANISMS.iter().map(|one| one.name));
        let locks = locks.chain(HOSTS.iter().map(|(host, _)| *host));
        let known = workloads.chain(locks).chain(experiments).chain(commands).chain(metrics);
        let hint = nearest(name, known);
        bail!(
            "nothing is called '{name}'{hint}; `knee list workloads|algorithms|experiments|commands|metrics`"
        );
    }
    Ok(ExitCode::SUCCESS)
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
    page += &format!("\ntry it          knee run {} --cpus 1..all\n", workload.name);
    page
}

fn lock_page(lock: &ListedLock) -> String {
    format!(
        "{0}  ({1})\n\n{2}\n\nsearch it       knee check {0} --threads 3 --acquires 2\n\
         its mutants     knee check {0} --mutants\n\
         natively        knee run lock_{0} --cpus 1..all\n",
        lock.name,
        lock.kind(),
        lock.manual().trim_end(),
    )
}

fn mechanism_page(mechanism: &ListedMechanism) -> String {
    let workload = format!("mechanism_{}", mechanism.name);
    let natively = match Workload::find(&workload) {
        Some(_) => format!("natively         knee run {workload} --cpus 1..all\n"),
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

/// Its numbers in picoseconds, or without a unit.
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
