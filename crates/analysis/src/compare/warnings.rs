//! The warnings about a comparison as a whole, a sentence each.

use std::collections::BTreeSet;

use records::{Directory, Record};

use super::arm::{Arm, in_guests};
use super::cell::ComparedCell;
use super::rules::ALPHA;
use crate::comparison::{Comparison, Design, TakenIn};

/// Everything that limits what the verdicts mean. `left_out` are points of the baseline without
/// partners.
pub(super) fn warnings(
    arms: &[Arm],
    cells: &[ComparedCell],
    comparison: &Comparison,
    left_out: &[String],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if comparison.design == Design::Separate {
        warnings.push(not_interleaved(arms));
        warnings.extend(far_changes(comparison));
    }
    if let Design::Unpaired { order, unit } = comparison.design {
        warnings.extend(taken_in(order, unit.noun()));
    }
    if comparison.design == Design::Boots {
        warnings.push(
            "the boots were not in turn: what changed on the host between those of one variant and \
             those of the other counts as a difference too"
                .to_string(),
        );
    }
    if !matches!(comparison.design, Design::Blocks { .. }) {
        warnings.extend(differences(arms, comparison.design));
        warnings.extend(unknown_work(arms, cells));
        warnings.extend(disturbed(arms, cells));
    }
    if !left_out.is_empty() {
        warnings.push(format!("left out, since some variant lacks them: {}", left_out.join("; ")));
    }
    for sentence in arms.iter().flat_map(|arm| warnings_of_record(&arm.record.record)) {
        if !warnings.contains(&sentence) {
            warnings.push(sentence);
        }
    }
    let discards = &comparison.discards;
    if discards.discarded.len() as f64 > 0.3 * discards.blocks as f64 {
        warnings.push(
            "more than 30 % of the blocks were disturbed: this host is not fit to measure on \
             right now (`knee doctor`)"
                .to_string(),
        );
    }
    if discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        warnings.push(
            "one variant was disturbed more often than chance allows: no verdict stands"
                .to_string(),
        );
    }
    if cells.is_empty() {
        warnings.push("no cell has a point of every variant".to_string());
    }
    warnings
}

/// Why there is no verdict, and how to get one.
fn not_interleaved(arms: &[Arm]) -> String {
    let is_foreign = |arm: &Arm| arm.record.record.source.is_some();
    let planned =
        |arm: &Arm| (arm.record.record.points.clone(), arm.record.record.variants.clone());
    let hosts: BTreeSet<&Option<String>> =
        arms.iter().map(|arm| &arm.record.record.host.hostname).collect();
    let remedy = match arms {
        _ if hosts.len() > 1 || arms.iter().any(is_foreign) => String::new(),
        _ if in_guests(arms) => {
            "; `knee run --variant NAME='kernel=…'` boots the guests in turn".to_string()
        }
        _ if arms.iter().any(|arm| arm.record.record.id.contains(',')) => {
            "; four sessions of each or more, in turn, would give one".to_string()
        }
        [a, b] if planned(a) != planned(b) => {
            let [a, b] = [a, b].map(|arm| arm.record.record.id.as_str());
            format!("; `knee run {b} --against {a}` measures both again, in turn")
        }
        _ => "; `knee run --variant` measures variants in turn".to_string(),
    };
    format!(
        "not interleaved: host drift not excluded. The intervals hold the chance of sampling only; \
         the speed of a host also changes from one session to the next, by an amount that no number \
         of runs in these sessions shows{remedy}"
    )
}

/// That a change so large has a verdict all the same, if one has.
fn far_changes(comparison: &Comparison) -> Option<String> {
    let firsts = comparison.cells.iter().filter_map(|cell| cell.metrics.first());
    let mut contrasts = firsts.flat_map(|metric| &metric.contrasts);
    contrasts.any(|contrast| contrast.verdict.is_change()).then(|| {
        "a change by a factor of two or more, beyond the scatter of both sides, has its verdict all the \
         same: no host is known to drift so far by itself"
            .to_string()
    })
}

/// What the order of values without pairs cannot exclude.
fn taken_in(order: TakenIn, noun: &str) -> Option<String> {
    let remedy = format!("{noun}s of both taken in turn exclude that");
    match order {
        TakenIn::Turn => None,
        TakenIn::Sequence => Some(format!(
            "the {noun}s of one variant all came before those of the other: intervals allow for a drift of \
             the host like that within each side, but a step just between the sides would look like a \
             change; {remedy}"
        )),
        TakenIn::UnknownOrder => Some(format!(
            "the order of the {noun}s is not known: a verdict holds whether one side came first or both in \
             turn, but a step of the host just between the sides would look like a change; {remedy}"
        )),
    }
}

/// The limitations of an imported format, and the record's own warnings.
fn warnings_of_record(record: &Record) -> Vec<String> {
    let limitations = record.source.iter().flat_map(|source| source.lacks.clone());
    let warnings = record.warnings.iter().map(|warning| match warning.advice.as_str() {
        "" => warning.text.clone(),
        advice => format!("{}: {advice}", warning.text),
    });
    limitations.chain(warnings).collect()
}

/// What differs between several records besides the variants.
fn differences(arms: &[Arm], design: Design) -> Vec<String> {
    let records = || arms.iter().map(|arm| &arm.record.record);
    let difference = |what: &str, value: &dyn Fn(&Record) -> Option<String>| {
        let values: BTreeSet<String> = records().filter_map(value).collect();
        (values.len() > 1).then(|| {
            let values = values.into_iter().collect::<Vec<_>>().join(" and ");
            format!("{what} differ ({values}): this difference is part of what is compared")
        })
    };
    let mounts = |record: &Record| {
        let mount = |d: &Directory| {
            let options = d.mount_options.as_deref().unwrap_or_default();
            format!("{} {} {options}", d.path.display(), d.file_system.as_deref().unwrap_or("-"))
        };
        Some(record.directories.iter().map(mount).collect::<Vec<_>>().join(", "))
    };
    let clients = |record: &Record| {
        let clients = record.clients.values();
        let named = clients.map(|host| format!("{}, {} CPUs", host.hostname, host.cpus));
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| named.join("; "))
    };
    let mut differences: Vec<String> = [
        difference("the hosts", &|r| r.host.hostname.clone()),
        difference("the CPU models", &|r| r.host.cpu_model.clone()),
        difference("the kernels", &|r| r.host.kernel_release.clone()),
        difference("the kernels' builds", &|r| r.host.kernel_version.clone()),
        difference("the kernels' command lines", &|r| r.host.kernel_command_line.clone()),
        difference("the clients' hosts", &clients),
        difference("the directories", &mounts),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names: BTreeSet<&String> = records().flat_map(|record| record.host.knobs.keys()).collect();
    for name in names {
        differences.extend(difference(&format!("the settings of {name}"), &|r| {
            r.host.knobs.get(name).cloned()
        }));
    }
    let boots: BTreeSet<&str> =
        records().flat_map(|r| r.sessions.iter().map(|s| s.boot_id.as_str())).collect();
    if boots.len() > 1 && differences.is_empty() && design == Design::Separate {
        differences.push(
            "the records are of different boots: whatever differs from boot to boot counts as a \
             difference too"
                .to_string(),
        );
    }
    differences
}

/// Arms whose runs worked for a time that they did not measure, as those of older versions did. The work
/// of such versions took up to twice as long as it does now.
fn unknown_work(arms: &[Arm], cells: &[ComparedCell]) -> Vec<String> {
    let unknown = |(number, arm): (usize, &Arm)| {
        let works = |cell: &&ComparedCell| {
            let (record, index) = cell.points[number];
            let asked = record.record.points[index].parameters.iter();
            let mut work = asked.filter(|(name, ns)| name.ends_with("_ns") && *ns != "0");
            let run = cell.sides[number].first();
            run.is_some_and(|run| {
                work.any(|(name, _)| run.value(&format!("work.{name}")).is_none())
            })
        };
        cells.iter().find(works)?;
        Some(format!(
            "`{}` did not measure how long the work of its parameters took: with other versions of knee, \
             that work can be of another length",
            arm.name
        ))
    };
    let unknown: Vec<String> = arms.iter().enumerate().filter_map(unknown).collect();
    if unknown.len() < arms.len() { unknown } else { Vec::new() }
}

/// How many runs of each arm were left out, without blocks.
fn disturbed(arms: &[Arm], cells: &[ComparedCell]) -> Vec<String> {
    let sentence = |(number, arm): (usize, &Arm)| {
        let left_out = || cells.iter().flat_map(move |cell| &cell.disturbed[number]);
        let (_, why) = left_out().next()?;
        let kept: usize = cells.iter().map(|cell| cell.sides[number].len()).sum();
        let n = left_out().count();
        let (runs, were) = (host::counted(n + kept, "run"), if n == 1 { "was" } else { "were" });
        let name = arm.name;
        Some(format!("{n} of {runs} of `{name}` {were} disturbed and left out (the first: {why})"))
    };
    arms.iter().enumerate().filter_map(sentence).collect()
}
