//! The part of the contract that holds for the list of workloads, without running any.

use std::collections::BTreeSet;
use std::path::Path;

use workloads::{WORKLOADS, Workload};

use crate::Check;

/// The checks, by name.
pub const CHECKS: &[Check] = &[
    ("names_are_alphabetical", names_are_alphabetical),
    ("names_and_aliases_are_unique_and_found", names_are_unique),
    ("every_file_with_a_spec_is_listed", files_are_listed),
    ("every_workload_explains_itself", workloads_explain_themselves),
];

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

fn names_are_alphabetical() -> Result<(), String> {
    for pair in WORKLOADS.windows(2) {
        let (before, after) = (pair[0].name, pair[1].name);
        ensure(before < after, || format!("{after} is listed after {before}"))?;
    }
    Ok(())
}

fn names_are_unique() -> Result<(), String> {
    let mut names = BTreeSet::new();
    for workload in WORKLOADS.iter() {
        for name in workload.spec.aliases.iter().chain([&workload.name]) {
            ensure(names.insert(*name), || format!("'{name}' names two workloads"))?;
            let looked_up = Workload::find(name).map(|w| w.name);
            ensure(looked_up == Some(workload.name), || format!("'{name}' finds {looked_up:?}"))?;
        }
    }
    Ok(())
}

fn files_are_listed() -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(sources).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let listed = WORKLOADS.iter().any(|w| w.name == name);
        let declares = text.contains(" SPEC: Spec =");
        ensure(declares == listed, || {
            format!("{}: declares a SPEC: {declares}, listed in lib.rs: {listed}", path.display())
        })?;
    }
    Ok(())
}

fn workloads_explain_themselves() -> Result<(), String> {
    for workload in WORKLOADS.iter() {
        let (name, summary) = (workload.name, workload.summary());
        ensure((1..=100).contains(&summary.chars().count()), || {
            format!("{name}: the first sentence is empty or too long: {summary}")
        })?;
        ensure(workload.manual().contains("\n\n"), || format!("{name}: nothing but a summary"))?;
        ensure(!workload.spec.operation.is_empty(), || format!("{name}: no operation"))?;
        ensure(workload.spec.semantics >= 1, || format!("{name}: semantics start at 1"))?;
        for parameter in workload.parameters() {
            ensure(!parameter.about.is_empty(), || {
                format!("{name}: {}: no about", parameter.name)
            })?;
        }
    }
    Ok(())
}
