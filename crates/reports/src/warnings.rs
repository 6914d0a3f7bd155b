//! The end of a report: warnings, what failed, and what could not be
//! read. A warning about many runs appears once.

use std::collections::BTreeMap;

use records::{HostChange, Opened, Outcome, Run, Warning};
use text::Style;
use text::prose::{counted, counted_or_unknown, wrapped};

use crate::loads::parameters;

/// What to look at in sources that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSources {
    /// Only those that the usual tables need.
    OfTables,
    /// All of them.
    All,
}

/// Headings with warnings, what failed, and what could not be read. Lists may be empty.
pub fn warning_lists(opened: &Opened, missing: MissingSources) -> [(&'static str, Vec<String>); 3] {
    let of_record = opened.record.warnings.iter().map(|warning| said(warning, ""));
    let sessions = opened.record.sessions.iter();
    let of_host = sessions
        .flat_map(|session| session.host_changes.iter().flatten())
        .map(HostChange::to_string);
    let warnings = warnings_of_runs(opened).into_iter().chain(of_record).chain(of_host).collect();
    let unavailable = unavailable(&opened.runs, missing);
    [("Warnings", warnings), ("Failed runs", failures(opened)), ("Not measured", unavailable)]
}

/// Warnings about single runs and why runs failed, to stand below what is said about the record.
pub fn warnings_about_runs(opened: &Opened, style: Style) -> String {
    let warnings = warnings_of_runs(opened);
    sections(&[("Warnings about runs", warnings), ("Failed runs", failures(opened))], style)
}

fn sections(entries: &[(&str, Vec<String>)], style: Style) -> String {
    let mut text = String::new();
    for (title, entries) in entries.iter().filter(|(_, entries)| !entries.is_empty()) {
        text += &format!("\n{}\n", style.bold(title));
        for entry in entries {
            text += &wrapped(&format!("  - {entry}"), style.width, 4);
        }
    }
    text
}

/// Warnings of runs by what to do about them.
fn warnings_of_runs(opened: &Opened) -> Vec<String> {
    let mut groups: Vec<(&str, &Warning, Vec<u32>)> = Vec::new();
    for run in &opened.runs {
        for warning in &run.warnings {
            let key = if warning.advice.is_empty() { &warning.text } else { &warning.advice };
            match groups.iter_mut().find(|(known, ..)| known == key) {
                Some((_, worst, runs)) => {
                    if warning.amount > worst.amount {
                        *worst = warning;
                    }
                    runs.push(run.run);
                }
                None => groups.push((key, warning, vec![run.run])),
            }
        }
    }
    let of_runs = groups.into_iter().map(|(_, warning, mut runs)| {
        runs.dedup();
        let at_most = if warning.amount.is_some() && runs.len() > 1 { "at most, " } else { "" };
        let all = counted(opened.runs.len(), "run");
        let share = format!(" ({at_most}in {} of {all})", runs.len());
        said(warning, &share)
    });
    of_runs.collect()
}

fn said(warning: &Warning, share: &str) -> String {
    let advice = if warning.advice.is_empty() { "" } else { ": " };
    format!("{}{share}{advice}{}", warning.text, warning.advice)
}

/// Reasons, the points they befell, and how often.
fn failures(opened: &Opened) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in &opened.runs {
        let Outcome::Failed { reason } = &run.outcome else { continue };
        match groups.iter_mut().find(|(known, _)| known == reason) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((reason, vec![run])),
        }
    }
    let said = |(reason, runs): (&str, Vec<&Run>)| {
        let mut places: Vec<String> = runs.iter().map(|run| place(opened, run)).collect();
        places.sort();
        places.dedup();
        format!("{} of {}: {reason}", counted(runs.len(), "run"), places.join("; "))
    };
    groups.into_iter().map(said).collect()
}

fn place(opened: &Opened, run: &Run) -> String {
    let point = opened.record.points.get(run.point as usize);
    point.map_or("an unknown point".to_string(), |point| {
        let cpus = counted_or_unknown(point.cpus, "CPU");
        let variant = match point.variant.as_str() {
            "" => String::new(),
            name => format!(" `{name}`"),
        };
        if point.command.is_some() {
            let load = [vec![point.workload.clone()], parameters(point)].concat().join(" ");
            return format!("{load}{variant} on {cpus}");
        }
        format!("{}{variant} as {} on {cpus}", point.workload, point.form.name())
    })
}

fn unavailable(runs: &[Run], missing: MissingSources) -> Vec<String> {
    let mut sources = BTreeMap::new();
    for run in runs {
        if let Outcome::Finished { unavailable, .. } = &run.outcome {
            sources.extend(unavailable.iter());
        }
    }
    // Where the share of idle time comes from.
    let needed =
        |source: &str| missing == MissingSources::All || ["stat", "stat.cpus"].contains(&source);
    let sources = sources.into_iter().filter(|(source, _)| needed(source));
    sources.map(|(source, why)| format!("{source}: {why}")).collect()
}
