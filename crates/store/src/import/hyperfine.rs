//! The JSON of hyperfine --export-json: for each command the times of all its runs. A single file
//! compares its commands; several files are compared with each other. Source: hyperfine's README and
//! the output of 1.15; memory since 1.18.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use records::{ReplicationUnit, Warning, scanned};
use serde_json::Value;

use crate::import::json::{document, looks_like, number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const TIME: &str = "time.elapsed_time";
const MEMORY: &str = "time.maximum_resident_set_size";

const LACKS: &[&str] = &[
    "all runs of one command come before those of the next: changes on the host between them count \
     as a difference between commands",
    "user and system time are means over all runs, so they are left out unless there is one run",
    "CPUs, tasks, host and kernel are not recorded",
];

/// What hyperfine derives from all runs of a command. CPU times of single runs are not in the file.
const MEANS: [&str; 7] = ["mean", "stddev", "median", "user", "system", "min", "max"];

/// Whether a text has results with commands and times.
pub fn recognise(text: &str) -> bool {
    looks_like(text, &["results", "command", "times"]) && !looks_like(text, &["fio version"])
}

/// Reads a run for each time.
pub fn read(file: &File) -> Result<Foreign> {
    let document = document(file.text)?;
    let results = document.get("results").and_then(Value::as_array);
    let results =
        results.context("no \"results\": expected the JSON of hyperfine --export-json")?;
    let mut foreign = Foreign::new(TIME, ReplicationUnit::Run, LACKS);
    let is_scan = is_scan(results);
    for (index, result) in results.iter().enumerate() {
        let command = text(result, "command");
        let command = command.with_context(|| format!("result {index} has no \"command\""))?;
        // A name from --command-name replaces the command.
        // The commands of one file are its variants, unless they scan a parameter.
        let are_variants = file.alone && !is_scan;
        read_result(&mut foreign, result, command, are_variants)
            .with_context(|| format!("in the result of '{command}'"))?;
    }
    Ok(foreign)
}

/// Whether the results differ in the number of one parameter, as those of --parameter-scan: a curve over it.
fn is_scan(results: &[Value]) -> bool {
    let all: Vec<BTreeMap<String, String>> = results.iter().map(parameters).collect();
    let Some(names) = all.first().map(|first| first.keys().collect::<Vec<_>>()) else {
        return false;
    };
    let is_alike = all.iter().all(|one| one.keys().collect::<Vec<_>>() == names);
    let numbers: BTreeSet<&String> = all.iter().flat_map(BTreeMap::values).collect();
    let are_numbers = numbers.iter().all(|text| text.parse::<f64>().is_ok());
    let has_enough = |name: &String| numbers.len() >= scanned::numbers_min(name);
    is_alike && names.len() == 1 && are_numbers && names.iter().all(|name| has_enough(name))
}

fn read_result(
    foreign: &mut Foreign,
    result: &Value,
    command: &str,
    are_variants: bool,
) -> Result<()> {
    let times = result.get("times").and_then(Value::as_array);
    let times = times.context("no \"times\": export with a hyperfine that keeps all runs")?;
    let codes = list(result, "exit_codes", times.len())?;
    let memory = list(result, "memory_usage_byte", times.len())?;
    let options = parameters(result);
    let mut cell = ForeignCell::new("command");
    let mut missing = 0;
    if !are_variants {
        // Files are compared, so commands, which all of them have, distinguish cells.
        let key = BTreeMap::from([("command".to_string(), command.to_string())]);
        cell.parameters = if options.is_empty() { key } else { options.clone() };
    }
    for (index, time) in times.iter().enumerate() {
        let mut values = BTreeMap::new();
        match time.as_f64().filter(|time| time.is_finite()) {
            Some(time) => {
                ensure!(time >= 0.0, "time {index} is {time}, cannot be negative");
                values.insert(TIME.to_string(), time);
            }
            None => missing += 1,
        }
        let bytes = memory.and_then(|list| list[index].as_f64());
        values.extend(bytes.map(|bytes| (MEMORY.to_string(), bytes / 1024.0)));
        if times.len() == 1 {
            let cpu = [("user", "time.user_time"), ("system", "time.system_time")];
            values.extend(
                cpu.iter().filter_map(|(key, name)| Some((name.to_string(), number(result, key)?))),
            );
        }
        foreign.runs.push(ForeignRun {
            variant: are_variants.then(|| command.to_string()),
            cell: cell.clone(),
            options: options.clone(),
            values,
            failed: codes.and_then(|codes| failure(&codes[index])),
            ..ForeignRun::default()
        });
    }
    if times.len() > 1 {
        let numbers = MEANS.iter().filter(|key| number(result, key).is_some()).count();
        *foreign.unread.entry("means and extremes over all runs".to_string()).or_default() +=
            numbers;
    }
    if times.is_empty() {
        let warning = Warning::new(format!("'{command}' has no runs"), "run it again");
        foreign.warnings.push(warning);
    }
    foreign.note_not_finite(missing);
    Ok(())
}

/// A list with an entry for each run, if the result has it.
fn list<'a>(result: &'a Value, key: &str, runs: usize) -> Result<Option<&'a Vec<Value>>> {
    let list = result.get(key).and_then(Value::as_array);
    if let Some(list) = list {
        ensure!(list.len() == runs, "{} {key} for {runs} times: was the file edited?", list.len());
    }
    Ok(list)
}

fn failure(code: &Value) -> Option<String> {
    match code.as_i64() {
        Some(0) => None,
        Some(code) => Some(format!("the command ended with exit code {code}")),
        None => Some("the command was ended by a signal".to_string()),
    }
}

fn parameters(result: &Value) -> BTreeMap<String, String> {
    let Some(parameters) = result.get("parameters").and_then(Value::as_object) else {
        return BTreeMap::new();
    };
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_string);
    parameters.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}
