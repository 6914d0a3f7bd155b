//! Results of lkp-tests: for each stat, matrix.json has one value per run of a commit, and stats.json
//! has the value of one run. Only the path records the job, the host and the kernel.
//! Source: the documented layout of its result store; nothing of it is copied.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use records::{METRICS, ReplicationUnit, Warning};
use serde_json::Value;

use crate::import::json::document;
use crate::import::{File, Foreign, ForeignCell, ForeignRun, better_by_name};

const LACKS: &[&str] = &[
    "missing stats of a run are filled with zeros: a zero may be a missing value",
    "the order of runs is not recorded, and variants were not interleaved: changes on the host \
     between runs count as a difference",
    "whether each run had a boot of its own is not recorded: each counts as a run",
    "monitors ran during the measured runs, and their cost is not recorded",
];

/// First parts of names that have another meaning in knee's records.
const TAKEN: [&str; 8] =
    ["stat", "interrupts", "softirqs", "vmstat", "pressure", "cgroup", "throttle", "latency"];

/// Endings of the names of a benchmark's main stat, best first.
const HEADLINES: [&str; 6] = [
    ".per_process_ops",
    ".per_thread_ops",
    ".ops_per_sec",
    ".files_per_sec",
    ".throughput",
    ".ops",
];

/// Whether a text is an object that has only lists of numbers, or only numbers.
pub fn recognise(text: &str) -> bool {
    if !text.trim_start().starts_with('{') {
        return false;
    }
    let Ok(document) = document(text) else { return false };
    let Some(stats) = document.as_object().filter(|stats| !stats.is_empty()) else { return false };
    let is_plain = |value: &Value| value.is_number() || value.is_null() || value.is_string();
    let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(is_plain));
    stats.keys().all(|name| name == "stats_source" || name.contains('.'))
        && (stats.values().all(is_list) || stats.values().all(is_plain))
}

/// Reads a run for each column of the matrix.
pub fn read(file: &File) -> Result<Foreign> {
    let document = document(file.text)?;
    let stats = document.as_object().context("expected an object of stats by name")?;
    let lists = stats.values().any(Value::is_array);
    let runs = if lists { columns(stats)? } else { 1 };
    let circumstances = Circumstances::from_path(file.path);
    let mut foreign = Foreign::new("", ReplicationUnit::Run, LACKS);
    foreign.runs_alone = true;
    let names: Vec<&str> = stats.keys().map(String::as_str).collect();
    let headline = headline(&names);
    let workload = circumstances.workload.or_else(|| first_part(headline));
    let mut cell = ForeignCell::new(format!("lkp.{}", workload.unwrap_or("job")));
    cell.parameters = circumstances.parameters;
    foreign.host.hostname = circumstances.host;
    let run = ForeignRun { variant: circumstances.commit, cell, ..ForeignRun::default() };
    foreign.runs = vec![run; runs];
    let mut ragged = Vec::new();
    for (stat, values) in stats.iter().filter(|(stat, _)| *stat != "stats_source") {
        let single = [values.clone()];
        let values = values.as_array().map_or(&single[..], |list| &list[..]);
        if values.len() == runs {
            put(&mut foreign, stat, values);
        } else {
            ragged.push(stat.as_str());
        }
    }
    foreign.primary = name(headline);
    if !ragged.is_empty() {
        foreign.warnings.push(Warning::new(
            format!(
                "stats left out because their number of values differs from the number of runs \
                 ({runs}): {}, such as {}",
                ragged.len(),
                ragged[0]
            ),
            "import the stats.json of each run",
        ));
    }
    Ok(foreign)
}

/// The number of runs of a matrix: that of its sources, else the most common length of its stats.
fn columns(stats: &serde_json::Map<String, Value>) -> Result<usize> {
    let length = |value: &Value| value.as_array().map(Vec::len);
    if let Some(runs) = stats.get("stats_source").and_then(length).filter(|runs| *runs > 0) {
        return Ok(runs);
    }
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for length in stats.values().filter_map(length) {
        *lengths.entry(length).or_default() += 1;
    }
    let most = lengths.iter().max_by_key(|(_, count)| **count).map(|(length, _)| *length);
    let runs = most.filter(|runs| *runs > 0).context("no stat has a value")?;
    ensure!(runs <= 100_000, "a stat has {runs} values: no lkp result has that many runs");
    Ok(runs)
}

fn put(foreign: &mut Foreign, stat: &str, values: &[Value]) {
    let mut name = name(stat);
    // The job's own time and that of its program may both be there.
    if foreign.runs.iter().any(|run| run.values.contains_key(&name)) {
        name = format!("lkp.{stat}");
    }
    let mut known = false;
    for (run, value) in foreign.runs.iter_mut().zip(values) {
        if let Some(value) = value.as_f64().filter(|value| value.is_finite()) {
            run.values.insert(name.clone(), value);
            known = true;
        }
    }
    if known {
        foreign.describe(&name, "1", better_by_name(&name));
    }
}

/// The name of a stat in a record. Stats of time(1) have knee's own names.
pub fn name(stat: &str) -> String {
    let time_stat = stat.find("time.").filter(|at| *at == 0 || stat[..*at].ends_with('.'));
    if let Some(own) = time_stat.map(|at| &stat[at..])
        && METRICS.iter().any(|metric| metric.name == own)
    {
        return own.to_string();
    }
    let taken = first_part(stat).is_some_and(|part| TAKEN.contains(&part))
        || METRICS.iter().any(|metric| metric.matches(stat));
    if taken { format!("lkp.{stat}") } else { stat.to_string() }
}

fn first_part(stat: &str) -> Option<&str> {
    stat.split('.').next().filter(|part| !part.is_empty())
}

/// The main stat of the benchmark.
pub fn headline<'a>(names: &[&'a str]) -> &'a str {
    let ending = |ending: &&str| names.iter().find(|name| name.ends_with(*ending));
    let elapsed = || names.iter().find(|name| name.ends_with("time.elapsed_time"));
    let first = || names.iter().find(|name| **name != "stats_source");
    let main_stat = HEADLINES.iter().find_map(ending).or_else(elapsed).or_else(first);
    main_stat.copied().unwrap_or_default()
}

/// The facts in the path of a result store:
/// `result/TEST/PARAMETERS/MACHINE/ROOTFS/KCONFIG/COMPILER/COMMIT[/RUN]/FILE`.
#[derive(Debug, Default)]
struct Circumstances<'a> {
    workload: Option<&'a str>,
    parameters: BTreeMap<String, String>,
    host: Option<String>,
    commit: Option<String>,
}

impl Circumstances<'_> {
    fn from_path(path: &Path) -> Circumstances<'_> {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let mut folders = &parts[..parts.len().saturating_sub(1)];
        let is_run = |name: &&str| name.len() < 7 && name.chars().all(|c| c.is_ascii_digit());
        if folders.last().is_some_and(is_run) {
            folders = &folders[..folders.len() - 1];
        }
        let is_name = |name: &&&str| ![".", "..", "/"].contains(*name);
        let commit = folders.last().filter(is_name).map(|name| name.to_string());
        let start = folders.len().checked_sub(8).filter(|at| folders[*at] == "result");
        let Some(start) = start else { return Circumstances { commit, ..Default::default() } };
        let [test, parameters, machine, rootfs, kconfig, compiler] =
            [1, 2, 3, 4, 5, 6].map(|n| folders[start + n]);
        let named =
            [("job", parameters), ("rootfs", rootfs), ("kconfig", kconfig), ("compiler", compiler)];
        Circumstances {
            workload: Some(test),
            parameters: named.map(|(name, value)| (name.to_string(), value.to_string())).into(),
            host: Some(machine.to_string()),
            commit,
        }
    }
}
