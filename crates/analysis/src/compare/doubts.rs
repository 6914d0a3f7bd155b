//! The doubts about a comparison as a whole, a sentence each.

use std::collections::BTreeSet;

use records::{Directory, Record};

use super::arm::Arm;
use super::cell::ComparedCell;
use super::rules::ALPHA;
use crate::comparison::{Comparison, Design};

/// Everything that limits what the verdicts mean. `left_out` are points of the baseline without
/// partners.
pub(super) fn doubts(
    arms: &[Arm],
    cells: &[ComparedCell],
    comparison: &Comparison,
    left_out: &[String],
) -> Vec<String> {
    let mut doubts = Vec::new();
    if comparison.design == Design::Separate {
        doubts.push(
            "the variants were not measured in turn: whatever else changed between them counts as \
             a difference too (`knee run --variant` measures them in turn)"
                .to_string(),
        );
        doubts.extend(differences(arms));
        doubts.extend(disturbed(arms, cells));
    }
    if !left_out.is_empty() {
        doubts.push(format!("left out, since some variant lacks them: {}", left_out.join("; ")));
    }
    for sentence in arms.iter().flat_map(|arm| doubts_of_record(&arm.record.record)) {
        if !doubts.contains(&sentence) {
            doubts.push(sentence);
        }
    }
    let discards = &comparison.discards;
    if discards.discarded.len() as f64 > 0.3 * discards.blocks as f64 {
        doubts.push(
            "more than 30 % of the blocks were disturbed: this host is not fit to measure on \
             right now (`knee doctor`)"
                .to_string(),
        );
    }
    if discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        doubts.push(
            "one variant was disturbed more often than chance allows: no verdict stands"
                .to_string(),
        );
    }
    if cells.is_empty() {
        doubts.push("no cell has a point of every variant".to_string());
    }
    doubts
}

/// The limitations of an imported format, and the record's own warnings.
fn doubts_of_record(record: &Record) -> Vec<String> {
    let limitations = record.source.iter().flat_map(|source| source.lacks.clone());
    let warnings = record.warnings.iter().map(|warning| match warning.advice.as_str() {
        "" => warning.text.clone(),
        advice => format!("{}: {advice}", warning.text),
    });
    limitations.chain(warnings).collect()
}

/// What differs between several records besides the variants.
fn differences(arms: &[Arm]) -> Vec<String> {
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
    let mut differences: Vec<String> = [
        difference("the hosts", &|r| r.host.hostname.clone()),
        difference("the CPU models", &|r| r.host.cpu_model.clone()),
        difference("the kernels", &|r| r.host.kernel_release.clone()),
        difference("the kernels' builds", &|r| r.host.kernel_version.clone()),
        difference("the kernels' command lines", &|r| r.host.kernel_command_line.clone()),
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
    if boots.len() > 1 && differences.is_empty() {
        differences.push(
            "the records are of different boots: whatever differs from boot to boot counts as a \
             difference too"
                .to_string(),
        );
    }
    differences
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
