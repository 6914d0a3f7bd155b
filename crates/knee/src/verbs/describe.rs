//! `knee show NAME`, where the name is that of no record: the manual page of a workload, algorithm or metric; the file of
//! an experiment, a command or a host.

use algorithms::locks::{LOCKS, ListedLock};
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use answers::{
    AlgorithmManual, ExperimentManual, HostManual, HostNumber, ParameterEntry, UncompiledLoad,
    WorkloadManual, as_json,
};
use anyhow::{Context, Result, ensure};
use described_hosts::{DescribedHost, HOSTS, Number, Origin};
use host::pager;
use host::terminal::print;
use own_loads::ListedLoad;
use pages::{Block, Page, PageKind, PageTable, Section, View, ViewFlags, terminal};
use plan::commands::{self, COMMANDS, PREFIX};
use plan::experiments::{self, EXPERIMENTS};
use records::{Effect, LoadInterface, Metric, OwnLoad, OwnParameter};
use runner::{effects, planned_record};
use schemars::JsonSchema;
use serde::Serialize;
use setup::foreign::Foreign;
use text::Style;
use text::prose::wrapped;
use text::stdout_width;
use text::table::{Align, Table};
use workloads::{Forms, Parameter, ParameterKind, WORKLOADS, Workload};

use crate::verbs::list::{all_metrics, host_entry, lock_entry, mechanism_entry, metric_entry};
use crate::{experiment_file, named};

/// Whether something that comes with knee has this name.
pub fn has_page(name: &str) -> bool {
    HEADERS.iter().any(|(header, _)| *header == name) || ManualEntry::find(name).is_some()
}

/// Prints the page of a name, or a file.
pub fn run(name: &str, view: ViewFlags) -> Result<()> {
    if let Some((_, text)) = HEADERS.iter().find(|(header, _)| *header == name) {
        return file(name, text, view);
    }
    if own_loads::is_own_load(name) {
        return own_load(name, view);
    }
    let is_file = experiments::built_in(name).is_none() && named::is_experiment(name);
    let entry = if is_file {
        let text = experiment_file::read(name)?.look().clone();
        experiments::parse_at(name, &text, None)?;
        ManualEntry::Experiment(name, text)
    } else {
        ManualEntry::find(name).with_context(|| format!("{name} has no manual page"))?
    };
    entry.show(view)
}

/// Shows a file as it is, which has no other form.
fn file(name: &str, text: &str, view: ViewFlags) -> Result<()> {
    let is_possible = [View::Terminal, View::Json].contains(&view.view());
    ensure!(is_possible, "--view: {name} is a file, which is shown as it is: leave --view out");
    pager::page(text)
}

/// Shows a manual page, on a terminal in the pager.
fn manual<T: Serialize + JsonSchema>(
    view: ViewFlags,
    value: impl FnOnce() -> Result<T>,
    page: Page,
) -> Result<()> {
    match view.view() {
        View::Terminal => pager::page(&terminal(&page, Style::for_stdout())),
        _ => view.print(value, || Ok(page)),
    }
}

/// Headers for C files, described by their own text.
const HEADERS: [(&str, &str); 5] = [
    ("knee.h", own_loads::HEADER),
    ("knee_lock.h", c_locks::HEADER),
    ("knee_kernel.h", c_locks::KERNEL_HEADER),
    ("knee_kernel_tasks.h", c_locks::KERNEL_TASKS_HEADER),
    ("knee_given.h", c_locks::GIVEN_HEADER),
];

/// Compiles a load and prints what it says about itself. A load that others wrote is not compiled, as that would run
/// it: only its text is read.
fn own_load(name: &str, view: ViewFlags) -> Result<()> {
    let file = std::path::absolute(name).with_context(|| format!("looking for {name}"))?;
    let own = OwnLoad { file: file.clone(), ..OwnLoad::default() };
    let own = own_loads::with_code_of(Foreign::typed(own.clone()), &own)?;
    if let Some(why) = own.why_not_own() {
        return text_of_load(name, view, &own_loads::look(&file)?, &why);
    }
    let own = own.permitted(false, |_| Ok(String::new()))?;
    let compiled = own_loads::compile(&own)?;
    let verified = match compiled.interface {
        LoadInterface::WillItScale => "no: the test only counts",
        LoadInterface::Knee if compiled.verifies => "by the load itself",
        LoadInterface::Knee => "no: it has neither knee_verify nor knee_verify_all",
    };
    let mut page = manual_page(&own.name(), "load", &compiled.description);
    page.facts = facts([
        ("operation", &compiled.operation),
        ("interface", compiled.interface.name()),
        ("verified", verified),
        ("compiler", &compiled.compiler),
    ]);
    let row = |one: &OwnParameter| {
        let OwnParameter { name, default, choices, about } = one;
        let values = if choices.is_empty() { "any text" } else { choices };
        [format!("{name}={default}"), format!("{about} ({values})")]
    };
    page.sections.extend(parameters(compiled.parameters.iter().map(row)));
    manual(view, || Ok(compiled), page)
}

/// Prints what the text of a load says, which is not compiled, and `why`.
fn text_of_load(name: &str, view: ViewFlags, load: &Option<ListedLoad>, why: &str) -> Result<()> {
    let ListedLoad { interface, description, .. } = load.as_ref().with_context(|| {
        format!("{why}, so it is not compiled, and its text is that of no load")
    })?;
    let value = UncompiledLoad {
        description: description.clone(),
        interface: *interface,
        not_compiled: why.to_string(),
    };
    let why =
        format!("no, so its parameters are unknown: {why}; knee run asks before it compiles it");
    let mut page = manual_page(name, "load", description);
    page.facts = facts([("interface", interface.name()), ("compiled", &why)]);
    manual(view, || Ok(value), page)
}

/// A page with the text of a manual.
fn manual_page(name: &str, kind: &str, text: &str) -> Page {
    let blocks = vec![Block::Manual(text.trim_end().to_string())];
    Page {
        answers: vec![format!("{name}  ({kind})")],
        sections: vec![Section::open("Manual", blocks)],
        ..Page::new(name, PageKind::Manual)
    }
}

fn facts<const N: usize>(facts: [(&str, &str); N]) -> Vec<(String, String)> {
    facts.map(|(label, value)| (label.to_string(), value.to_string())).into()
}

/// The parameters of a load, if it has any: names with defaults, and what they mean.
fn parameters(rows: impl Iterator<Item = [String; 2]>) -> Option<Section> {
    let mut table = Table::new(["parameter", "meaning"].map(|heading| (heading, Align::Left)));
    rows.for_each(|row| table.row(row.into()));
    let has_rows = !table.rows().is_empty();
    let blocks = vec![Block::Table(PageTable::of_prose(table))];
    has_rows.then(|| Section::open("Parameters (--set NAME=VALUE[,VALUE…])", blocks))
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

    fn show(&self, view: ViewFlags) -> Result<()> {
        let is_json = view.view() == View::Json;
        match self {
            ManualEntry::Workload(one) => {
                manual(view, || Ok(workload_manual(one)), workload_page(one))
            }
            ManualEntry::Lock(lock) => manual(view, || Ok(lock_manual(lock)), lock_page(lock)),
            ManualEntry::Mechanism(one) => {
                manual(view, || Ok(mechanism_manual(one)), mechanism_page(one))
            }
            ManualEntry::Metric(name, metric) => {
                manual(view, || Ok(metric_entry(metric)), metric_page(name, metric))
            }
            ManualEntry::Host(name, _) if is_json => {
                print(as_json(&host_manual(&described_hosts::find(name)?))?)
            }
            ManualEntry::Experiment(name, text) if is_json => {
                print(as_json(&experiment_manual(name, text)?)?)
            }
            ManualEntry::Command(name, _) if is_json => print(as_json(&commands::read(name)?)?),
            ManualEntry::Experiment(name, text) => {
                file(name, &experiment_page(name, text, stdout_width()), view)
            }
            ManualEntry::Host(name, text) | ManualEntry::Command(name, text) => {
                file(name, text, view)
            }
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

fn workload_page(workload: &Workload) -> Page {
    let spec = workload.spec;
    let mut page = manual_page(workload.name, spec.family.title(), &workload.manual());
    page.facts = facts([("one operation", spec.operation), ("runs as", &forms(&spec.forms))]);
    if !spec.aliases.is_empty() {
        page.facts.extend(facts([("also called", &spec.aliases.join(", "))]));
    }
    for (i, need) in spec.needs.iter().enumerate() {
        page.facts.extend(facts([(if i == 0 { "needs" } else { "" }, &need.to_string())]));
    }
    page.facts.extend(facts([
        ("semantics", &format!("version {}", spec.semantics)),
        ("try it", &format!("knee run {} --cpus 1..all", workload.name)),
    ]));
    page.sections.extend(parameters(workload.parameters().map(parameter_row)));
    page.method.push(WORK_ACCURACY.to_string());
    page
}

/// What a parameter in ns gives: each is CPU work.
const WORK_ACCURACY: &str = "Parameters in ns are CPU work. From 200 ns up its CPU time was within \
    3 % of what you ask for in 9 of 10 runs or more; interruptions and preemption come on top. Each run measures the real \
    length afterwards (metric work.NAME), and has a warning if it is more than 5 % off.";

fn lock_page(lock: &ListedLock) -> Page {
    let name = lock.name;
    let facts = facts([
        ("search it", &format!("knee check {name} --threads 3 --acquires 2")),
        ("mutants", &format!("knee check {name} --mutants")),
        ("run natively", &format!("knee run lock_{name} --cpus 1..all")),
    ]);
    Page { facts, ..manual_page(name, lock.kind(), &lock.manual()) }
}

fn mechanism_page(mechanism: &ListedMechanism) -> Page {
    let name = mechanism.name;
    let mut page = manual_page(name, "mechanism", &mechanism.manual());
    page.facts = facts([
        ("designs", &mechanism.designs().join(", ")),
        ("search all", &format!("knee check {name} --threads 2")),
        ("search one", &format!("knee check {name}:after --threads 2 --acquires 2 --over ticket")),
    ]);
    let workload = format!("mechanism_{name}");
    if Workload::find(&workload).is_some() {
        let run = format!("knee run {workload} --cpus 1..all");
        page.facts.extend(facts([("run natively", &run)]));
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

/// A described host as data.
pub fn host_manual(host: &DescribedHost) -> HostManual {
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

fn parameter_row(parameter: &Parameter) -> [String; 2] {
    let values = match parameter.kind {
        ParameterKind::Number { min, max } => format!("{min} to {max}"),
        ParameterKind::Varying { min, max } => format!("{min} to {max}, also with ~exp"),
        ParameterKind::Choice(words) => words.join("|"),
    };
    let Parameter { name, default, about, .. } = parameter;
    [format!("{name}={default}"), format!("{about} ({values})")]
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

fn metric_page(name: &str, metric: &Metric) -> Page {
    let facts = facts([
        ("unit", metric.unit),
        ("better", metric.better.name()),
        ("obtained", metric.obtained.name()),
        ("kind", metric.kind.in_words()),
        ("show it", &format!("knee show last --metric {name}")),
    ]);
    Page { facts, ..manual_page(name, "metric", metric.about) }
}
