//! `knee show NAME`, where the name is that of no record: the manual page of a workload, algorithm or metric; the file of
//! an experiment, a command or a host.

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use answers::{
    AlgorithmManual, ExperimentManual, HostManual, HostNumber, ParameterEntry, UncompiledLoad,
    WorkloadManual, as_json,
};
use anyhow::{Context, Result};
use described_hosts::{DescribedHost, HOSTS, Number, Origin};
use host::pager::page;
use host::terminal::print;
use own_loads::ListedLoad;
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::{Effect, LoadInterface, Metric, OwnLoad, OwnParameter};
use runner::{effects, planned_record};
use setup::foreign::Foreign;
use text::Style;
use text::prose::reflowed;
use text::prose::wrapped;
use text::stdout_width;
use workloads::{Forms, Parameter, ParameterKind, WORKLOADS, Workload};

use crate::verbs::list::{all_metrics, host_entry, lock_entry, mechanism_entry, metric_entry};
use crate::{experiment_file, named};

/// Whether something that comes with knee has this name.
pub fn has_page(name: &str) -> bool {
    HEADERS.iter().any(|(header, _)| *header == name) || ManualEntry::find(name).is_some()
}

/// Prints the page of a name, or of a file; as JSON if asked.
pub fn run(name: &str, is_json: bool) -> Result<()> {
    if let Some((_, text)) = HEADERS.iter().find(|(header, _)| *header == name) {
        return page(text);
    }
    if own_loads::is_own_load(name) {
        return own_load(name, is_json);
    }
    let is_file = experiments::built_in(name).is_none() && named::is_experiment(name);
    let entry = if is_file {
        let text = experiment_file::read(name)?.look().clone();
        experiments::parse_at(name, &text, None)?;
        ManualEntry::Experiment(name, text)
    } else {
        ManualEntry::find(name).with_context(|| format!("{name} has no manual page"))?
    };
    if is_json { print(entry.json()?) } else { page(&entry.page(stdout_width())) }
}

/// Headers for C files, described by their own text.
const HEADERS: [(&str, &str); 3] = [
    ("knee.h", own_loads::HEADER),
    ("knee_lock.h", c_locks::HEADER),
    ("knee_kernel.h", c_locks::KERNEL_HEADER),
];

/// Compiles a load and prints what it says about itself. A load that others wrote is not compiled, as that would run
/// it: only its text is read.
fn own_load(name: &str, is_json: bool) -> Result<()> {
    let file = std::path::absolute(name).with_context(|| format!("looking for {name}"))?;
    let own = OwnLoad { file: file.clone(), ..OwnLoad::default() };
    let own = Foreign::typed(own).with_code(&file)?;
    if let Some(why) = own.why_not_own() {
        return text_of_load(name, is_json, &own_loads::look(&file)?, &why);
    }
    let own = own.permitted(false, |_| Ok(String::new()))?;
    let compiled = own_loads::compile(&own)?;
    if is_json {
        return print(as_json(&compiled)?);
    }
    let width = stdout_width();
    let mut text = format!("{}\n\n{}\n", own.name(), reflowed(&compiled.description, width));
    text += &entry("operation", &compiled.operation, width);
    text += &entry("interface", compiled.interface.name(), width);
    let verified = match compiled.interface {
        LoadInterface::WillItScale => "no: the test only counts",
        LoadInterface::Knee if compiled.verifies => "by the load itself",
        LoadInterface::Knee => "no: it has neither knee_verify nor knee_verify_all",
    };
    text += &entry("verified", verified, width);
    text += &entry("compiler", &compiled.compiler, width);
    for OwnParameter { name, default, choices, about } in &compiled.parameters {
        let values = if choices.is_empty() { "any text" } else { choices };
        let head = format!("  {name}={default}");
        text += &wrapped(&format!("{head:26} {about} ({values})"), width, 27);
    }
    page(&text)
}

/// Prints what the text of a load says, which is not compiled, and `why`.
fn text_of_load(name: &str, is_json: bool, load: &Option<ListedLoad>, why: &str) -> Result<()> {
    let ListedLoad { interface, description, .. } = load.as_ref().with_context(|| {
        format!("{why}, so it is not compiled, and its text is that of no load")
    })?;
    if is_json {
        return print(as_json(&UncompiledLoad {
            description: description.clone(),
            interface: *interface,
            not_compiled: why.to_string(),
        })?);
    }
    let width = stdout_width();
    let mut text = format!("{name}\n\n{}\n", reflowed(description, width));
    text += &entry("interface", interface.name(), width);
    let why =
        format!("no, so its parameters are unknown: {why}; knee run asks before it compiles it");
    page(&(text + &entry("compiled", &why, width)))
}

/// Anything that has a manual page.
enum ManualEntry<'a> {
    Workload(&'static Workload),
    Lock(&'static ListedLock),
    Mechanism(&'static ListedMechanism),
    /// Name or file, and TOML text.
    Experiment(&'a str, String),
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
        let experiment =
            || Some(ManualEntry::Experiment(name, experiments::built_in(name)?.to_string()));
        let host = || HOSTS.iter().find(|(host, _)| *host == name);
        Workload::find(name)
            .map(ManualEntry::Workload)
            .or_else(|| lock().map(ManualEntry::Lock))
            .or_else(|| mechanism().map(ManualEntry::Mechanism))
            .or_else(experiment)
            .or_else(|| Some(ManualEntry::Metric(name, metric()?)))
            .or_else(|| Some(ManualEntry::Host(name, host()?.1)))
            .or_else(|| Some(ManualEntry::Command(name, commands::built_in(name)?)))
    }

    /// The page in lines of at most `width` columns, except the files of experiments, hosts and commands.
    fn page(&self, width: usize) -> String {
        match self {
            ManualEntry::Workload(workload) => workload_page(workload, width),
            ManualEntry::Lock(lock) => lock_page(lock, width),
            ManualEntry::Mechanism(mechanism) => mechanism_page(mechanism, width),
            ManualEntry::Metric(name, metric) => metric_page(name, metric, width),
            ManualEntry::Experiment(name, text) => experiment_page(name, text, width),
            ManualEntry::Host(_, text) | ManualEntry::Command(_, text) => text.to_string(),
        }
    }

    fn json(&self) -> Result<String> {
        match self {
            ManualEntry::Workload(workload) => as_json(&workload_manual(workload)),
            ManualEntry::Lock(lock) => as_json(&lock_manual(lock)),
            ManualEntry::Mechanism(mechanism) => as_json(&mechanism_manual(mechanism)),
            ManualEntry::Metric(_, metric) => as_json(&metric_entry(metric)),
            ManualEntry::Host(name, _) => as_json(&host_manual(&described_hosts::find(name)?)),
            ManualEntry::Experiment(name, text) => as_json(&experiment_manual(name, text)?),
            ManualEntry::Command(name, _) => as_json(&commands::read(name)?),
        }
    }
}

/// The names of everything that comes with knee and has a page.
pub fn names() -> Vec<String> {
    let commands = COMMANDS.iter().map(|(name, _)| format!("{PREFIX}{name}"));
    let names = WORKLOADS.iter().map(|workload| workload.name);
    let names = names.chain(LOCKS.iter().map(|lock| lock.name));
    let names = names.chain(MECHANISMS.iter().map(|mechanism| mechanism.name));
    let names = names.chain(HOSTS.iter().map(|(host, _)| *host));
    let names = names.chain(EXPERIMENTS.iter().map(|(experiment, _)| *experiment));
    let names = names.chain(all_metrics().map(|metric| metric.name));
    names.map(str::to_string).chain(commands).collect()
}

/// The file, and what it would run on this host: a reader decides by this page whether to run it.
fn experiment_page(name: &str, text: &str, width: usize) -> String {
    let effects = match experiment_effects(name, text) {
        Ok(effects) => reports::effects(&effects, &Style::for_stdout()),
        Err(why) => {
            let text =
                format!("this host cannot run it, so only the file says what it runs: {why:#}");
            wrapped(&text, width, 0)
        }
    };
    format!("{}\n\n{effects}", text.trim_end())
}

fn experiment_manual(name: &str, text: &str) -> Result<ExperimentManual> {
    let experiment = experiments::parse_at(name, text, None)?.0;
    Ok(ExperimentManual { experiment, effects: experiment_effects(name, text).ok() })
}

/// What an experiment at the size as written would start and change on this host.
fn experiment_effects(name: &str, text: &str) -> Result<Vec<Effect>> {
    effects(&planned_record(experiments::parse_at(name, text, None)?.0)?)
}

fn workload_page(workload: &Workload, width: usize) -> String {
    let spec = workload.spec;
    let mut page = format!("{}  ({})\n\n", workload.name, spec.family.title());
    page += &format!("{}\n", reflowed(workload.manual().trim_end(), width));
    page += &entry("one operation", spec.operation, width);
    page += &entry("runs as", &forms(&spec.forms), width);
    if !spec.aliases.is_empty() {
        page += &entry("also called", &spec.aliases.join(", "), width);
    }
    for (i, need) in spec.needs.iter().enumerate() {
        page += &entry(if i == 0 { "needs" } else { "" }, &need.to_string(), width);
    }
    page += &entry("semantics", &format!("version {}", spec.semantics), width);
    page += "\nparameters (--set NAME=VALUE[,VALUE…])\n";
    for parameter in workload.parameters() {
        page += &parameter_lines(parameter, width);
    }
    page += &format!("\n{}\n", wrapped(WORK_ACCURACY, width, 0));
    page + &entry("try it", &format!("knee run {} --cpus 1..all", workload.name), width)
}

/// What a parameter in ns gives: each is CPU work.
const WORK_ACCURACY: &str = "Parameters in ns are CPU work. From 200 ns up its CPU time was within \
    3 % of what you ask for in 9 of 10 runs or more; interruptions and preemption come on top. Each run measures the real \
    length afterwards (metric work.NAME), and has a doubt if it is more than 5 % off.";

/// A line of a page: what it says, and below each other the words about it.
fn entry(title: &str, text: &str, width: usize) -> String {
    // The title's own spaces are no place to break a line.
    let lines = wrapped(&format!("{:17}{text}", ""), width, 17);
    format!("{title:17}{}", lines.trim_start_matches(' '))
}

fn lock_page(lock: &ListedLock, width: usize) -> String {
    let name = lock.name;
    let manual = reflowed(lock.manual().trim_end(), width);
    let mut page = format!("{name}  ({})\n\n{manual}\n", lock.kind());
    page += &entry("search it", &format!("knee check {name} --threads 3 --acquires 2"), width);
    page += &entry("mutants", &format!("knee check {name} --mutants"), width);
    page + &entry("run natively", &format!("knee run lock_{name} --cpus 1..all"), width)
}

fn mechanism_page(mechanism: &ListedMechanism, width: usize) -> String {
    let name = mechanism.name;
    let manual = reflowed(mechanism.manual().trim_end(), width);
    let mut page = format!("{name}  (mechanism)\n\n{manual}\n");
    page += &entry("designs", &mechanism.designs().join(", "), width);
    page += &entry("search all", &format!("knee check {name} --threads 2"), width);
    let one = format!("knee check {name}:after --threads 2 --acquires 2 --over ticket");
    page += &entry("search one", &one, width);
    let workload = format!("mechanism_{name}");
    if Workload::find(&workload).is_some() {
        page += &entry("run natively", &format!("knee run {workload} --cpus 1..all"), width);
    }
    page
}

fn mechanism_manual(mechanism: &ListedMechanism) -> AlgorithmManual {
    AlgorithmManual {
        entry: mechanism_entry(mechanism),
        manual: mechanism.manual(),
        designs: Some(mechanism.designs()),
    }
}

fn lock_manual(lock: &ListedLock) -> AlgorithmManual {
    AlgorithmManual { entry: lock_entry(lock), manual: lock.manual(), designs: None }
}

fn host_manual(host: &DescribedHost) -> HostManual {
    let number = |(name, number): (&String, &Number)| {
        let (origin, of) = match &number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at, _) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        let Number { low, middle, high, text, .. } = number;
        let (low, middle, high, text) = (*low, *middle, *high, text.clone());
        (name.clone(), HostNumber { low, middle, high, text, origin, of: of.clone() })
    };
    HostManual { entry: host_entry(host), numbers: host.numbers().iter().map(number).collect() }
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

fn parameter_lines(parameter: &Parameter, width: usize) -> String {
    let values = match parameter.kind {
        ParameterKind::Number { min, max } => format!("{min} to {max}"),
        ParameterKind::Varying { min, max } => format!("{min} to {max}, also with ~exp"),
        ParameterKind::Choice(words) => words.join("|"),
    };
    let head = format!("  {}={}", parameter.name, parameter.default);
    wrapped(&format!("{head:26} {} ({values})", parameter.about), width, 27)
}

fn workload_manual(workload: &Workload) -> WorkloadManual {
    let spec = workload.spec;
    let parameter =
        |p: &Parameter| ParameterEntry { name: p.name, default: p.default, about: p.about };
    WorkloadManual {
        name: workload.name,
        family: spec.family.title(),
        summary: workload.summary(),
        manual: workload.manual(),
        operation: spec.operation,
        semantics: spec.semantics,
        aliases: spec.aliases,
        forms: forms(&spec.forms),
        needs: spec.needs.iter().map(|need| need.to_string()).collect(),
        parameters: workload.parameters().map(parameter).collect(),
    }
}

fn metric_page(name: &str, metric: &Metric, width: usize) -> String {
    let mut page = format!("{name}\n\n{}\n", reflowed(metric.about, width));
    page += &entry("unit", metric.unit, width);
    page += &entry("better", metric.better.name(), width);
    page += &entry("obtained", metric.obtained.name(), width);
    page += &entry("kind", metric.kind.in_words(), width);
    page += "\n";
    page + &entry("show it", &format!("knee show last --metric {name}"), width)
}
