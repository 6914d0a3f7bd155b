//! The JSON of fio --output-format=json: for each job or group of jobs, the rates, latencies and CPU
//! time of one run. Source: the "JSON output" section of fio's HOWTO, and the output of 3.33.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};
use serde_json::Value;

use crate::import::json::{document, looks_like, number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "one file is one run of each job: replication needs several files of each variant",
    "jobs of one file may have run at the same time, and then they depend on each other",
    "kernel, CPUs, file system and device are not recorded",
];

/// Directions of transfer; `mixed` is all of them together (unified_rw_reporting), `sync` are fsync and its relatives.
const DIRECTIONS: [&str; 5] = ["read", "write", "trim", "mixed", "sync"];

/// Parts of a job that say how often a value lay in a range: there is no metric for a distribution.
const DISTRIBUTIONS: [(&str, &str); 7] = [
    ("bins", "bins of latencies"),
    ("iodepth_level", "distribution of depths"),
    ("iodepth_submit", "distribution of depths"),
    ("iodepth_complete", "distribution of depths"),
    ("latency_ns", "distribution of latencies"),
    ("latency_us", "distribution of latencies"),
    ("latency_ms", "distribution of latencies"),
];

/// Numbers of a job that measure nothing.
const NOT_MEASURED: [&str; 8] = [
    "groupid",
    "error",
    "eta",
    "elapsed",
    "job_start",
    "latency_target",
    "latency_percentile",
    "latency_window",
];

/// Options that only define where the job works, or how results are printed.
const NOT_OPTIONS: [&str; 9] = [
    "name",
    "directory",
    "filename",
    "numjobs",
    "thread",
    "group_reporting",
    "output",
    "description",
    "write_lat_log",
];

/// Whether a text has the version of fio that wrote it.
pub fn recognise(text: &str) -> bool {
    looks_like(text, &["fio version", "jobs"])
}

/// Reads a run for each job.
pub fn read(file: &File) -> Result<Foreign> {
    let document = document(file.text)?;
    let jobs = document.get("jobs").and_then(Value::as_array);
    let jobs = jobs.context("no \"jobs\": expected the JSON of fio --output-format=json")?;
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    let mut clones: BTreeMap<&str, u32> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        let name = text(job, "jobname");
        let name = name.with_context(|| format!("job {index} has no \"jobname\""))?;
        let same = jobs.iter().filter(|job| text(job, "jobname") == Some(name)).count();
        let number = clones.entry(name).or_default();
        let mut run = read_job(&mut foreign, &document, job, name)
            .with_context(|| format!("in the job '{name}'"))?;
        if same > 1 {
            // Rates of tasks are not summed; only a group report has the group's rate.
            run.cell.parameters.insert("job_number".to_string(), number.to_string());
            run.cell.tasks = 1;
            let lack = "jobs of one name are reported one by one, so each is a cell of its own: \
                        fio --group_reporting reports their sum";
            if !foreign.lacks.iter().any(|known| known == lack) {
                foreign.lacks.push(lack.to_string());
            }
        }
        *number += 1;
        foreign.runs.push(run);
    }
    if let Some(devices) = document.get("disk_util") {
        leave(&mut foreign, "disk_util", devices);
    }
    foreign.primary = primary(&foreign).to_string();
    Ok(foreign)
}

/// The metric that all jobs have: the rate of their only direction, or that of one of several.
fn primary(foreign: &Foreign) -> &'static str {
    let rates = [
        "operations_per_s",
        "fio.write.iops",
        "fio.read.iops",
        "fio.trim.iops",
        "fio.sync.latency_mean_ns",
    ];
    let in_all = |rate: &&&str| foreign.runs.iter().all(|run| run.values.contains_key(**rate));
    let in_some = |rate: &&&str| foreign.runs.iter().any(|run| run.values.contains_key(**rate));
    rates.iter().find(in_all).or_else(|| rates.iter().find(in_some)).unwrap_or(&rates[0])
}

fn read_job(foreign: &mut Foreign, all: &Value, job: &Value, name: &str) -> Result<ForeignRun> {
    let mut options = BTreeMap::new();
    for given in [all.get("global options"), job.get("job options")].into_iter().flatten() {
        for (key, value) in given.as_object().into_iter().flatten() {
            let value = value.as_str().map_or(value.to_string(), str::to_string);
            options.insert(key.clone(), value);
        }
    }
    let jobs = options.get("numjobs").map_or(Some(1), |n| n.parse().ok());
    let tasks = jobs.context("the option numjobs is not a number")?;
    let form = if options.contains_key("thread") { Form::Threads } else { Form::Processes };
    options.retain(|key, _| !NOT_OPTIONS.contains(&key.as_str()));
    options.extend(text(all, "fio version").map(|v| ("version".to_string(), v.to_string())));
    let error = number(job, "error").filter(|code| *code != 0.0);
    let cell = ForeignCell { form, tasks, ..ForeignCell::new(format!("fio.{name}")) };
    Ok(ForeignRun {
        cell,
        options,
        values: values(foreign, job)?,
        failed: error.map(|code| format!("fio reports error {code} for the job")),
        ..ForeignRun::default()
    })
}

fn values(foreign: &mut Foreign, job: &Value) -> Result<BTreeMap<String, f64>> {
    let mut values = BTreeMap::new();
    let mut rates = Vec::new();
    for (key, value) in job.as_object().into_iter().flatten() {
        if DIRECTIONS.contains(&key.as_str()) {
            // Directions that a job does not use have zeros.
            if number(value, "total_ios") == Some(0.0) {
                continue;
            }
            rates.extend(number(value, "iops"));
            let is_old = value.get("bw_bytes").is_none();
            for (path, value) in leaves(foreign, value) {
                if let Some((name, unit, better, value)) = of_direction(&path, value, is_old) {
                    put(foreign, &mut values, format!("fio.{key}.{name}"), (unit, better, value))?;
                }
            }
        } else if let Some(value) = value.as_f64().filter(|v| v.is_finite()) {
            if let Some((name, unit)) = of_job(key) {
                put(foreign, &mut values, name, (unit, Neither, value))?;
            }
        } else if !leave_distribution(foreign, key, value) && key != "job options" {
            leave(foreign, key, value);
        }
    }
    // The rate of a single direction is that of all operations.
    if let [rate] = rates[..] {
        let total = ("1/s", Higher, rate);
        put(foreign, &mut values, "operations_per_s".to_string(), total)?;
    }
    Ok(values)
}

/// Unit, direction and value of a metric.
type Measured = (&'static str, Better, f64);

fn put(
    foreign: &mut Foreign,
    values: &mut BTreeMap<String, f64>,
    name: String,
    (unit, better, value): Measured,
) -> Result<()> {
    ensure!(value >= 0.0, "{name} is {value}, cannot be negative");
    foreign.describe(&name, unit, better);
    values.insert(name, value);
    Ok(())
}

/// The metric of a number of a job itself.
fn of_job(key: &str) -> Option<(String, &'static str)> {
    let known = [
        ("usr_cpu", "fio.user_percent", "%"),
        ("sys_cpu", "fio.system_percent", "%"),
        ("ctx", "fio.context_switches", "1"),
        ("majf", "time.major_page_faults", "1"),
        ("minf", "time.minor_page_faults", "1"),
        ("job_runtime", "fio.job_runtime_ms", "ms"),
    ];
    let found = known.into_iter().find(|(known, ..)| *known == key);
    let other =
        || (!NOT_MEASURED.contains(&key)).then(|| (format!("fio.{}", metric_word(key)), "1"));
    found.map(|(_, name, unit)| (name.to_string(), unit)).or_else(other)
}

/// The metric of a number of a direction, by its keys. fio 2 has latencies in microseconds, and rates in KiB/s and
/// amounts in KiB only.
fn of_direction(
    path: &[&str],
    value: f64,
    is_old: bool,
) -> Option<(String, &'static str, Better, f64)> {
    const KIB: f64 = 1024.0;
    Some(match path {
        ["iops"] => ("iops".to_string(), "1/s", Higher, value),
        ["bw_bytes"] => ("bytes_per_s".to_string(), "B/s", Higher, value),
        // Beside the same in bytes.
        ["bw" | "io_kbytes"] if !is_old => return None,
        ["bw"] => ("bytes_per_s".to_string(), "B/s", Higher, value * KIB),
        ["bw_min" | "bw_max" | "bw_mean" | "bw_dev"] => {
            (format!("bytes_per_s_{}", &path[0][3..]), "B/s", Neither, value * KIB)
        }
        ["bw_agg"] => ("bw_agg_percent".to_string(), "%", Neither, value),
        ["io_bytes"] if is_old => ("bytes".to_string(), "B", Neither, value * KIB),
        ["io_bytes"] => ("bytes".to_string(), "B", Neither, value),
        ["runtime"] => ("runtime_ms".to_string(), "ms", Neither, value),
        [kind @ ("lat" | "clat" | "slat"), rest @ ..] => latency(kind, rest, value, 1000.0)?,
        [kind @ ("lat_ns" | "clat_ns" | "slat_ns"), rest @ ..] => {
            latency(kind.trim_end_matches("_ns"), rest, value, 1.0)?
        }
        _ => (metric_word(&path.join(".")), "1", Neither, value),
    })
}

/// A number of a latency, such as `["percentile", "99.900000"]`, in units of so many ns.
fn latency(
    kind: &str,
    path: &[&str],
    value: f64,
    unit_ns: f64,
) -> Option<(String, &'static str, Better, f64)> {
    let kind = match kind {
        "lat" => "latency",
        "clat" => "completion",
        _ => "submission",
    };
    let short = match path {
        ["N"] => return Some((format!("{kind}_n"), "1", Neither, value)),
        ["percentile", percent] => {
            format!("p{}", percent.trim_end_matches('0').trim_end_matches('.').replace('.', ""))
        }
        path => metric_word(&path.join(".")),
    };
    Some((format!("{kind}_{short}_ns"), "ns", Lower, value * unit_ns))
}

/// Counts the numbers of a part that is not read.
fn leave(foreign: &mut Foreign, what: &str, part: &Value) {
    let numbers = leaves(foreign, part).len();
    if numbers > 0 {
        *foreign.unread.entry(what.to_string()).or_default() += numbers;
    }
}

/// Counts the numbers of a distribution; returns whether the part is one.
fn leave_distribution(foreign: &mut Foreign, key: &str, part: &Value) -> bool {
    let known = DISTRIBUTIONS.iter().find(|(distribution, _)| *distribution == key);
    if let Some((_, what)) = known {
        let numbers = part.as_object().map_or(0, serde_json::Map::len);
        *foreign.unread.entry(what.to_string()).or_default() += numbers;
    }
    known.is_some()
}

/// The numbers below a value with their keys; what is a distribution is only counted.
fn leaves<'a>(foreign: &mut Foreign, value: &'a Value) -> Vec<(Vec<&'a str>, f64)> {
    let mut leaves = Vec::new();
    let mut open = vec![(Vec::new(), value)];
    while let Some((path, value)) = open.pop() {
        let parts: Vec<(&str, &Value)> = match value {
            Value::Object(parts) => parts.iter().map(|(key, part)| (key.as_str(), part)).collect(),
            Value::Array(parts) => parts.iter().map(|part| ("", part)).collect(),
            leaf => {
                leaves.extend(leaf.as_f64().filter(|v| v.is_finite()).map(|v| (path, v)));
                continue;
            }
        };
        // Latencies that were not measured have zeros.
        if ["N", "max"].iter().any(|key| number(value, key) == Some(0.0)) {
            continue;
        }
        for (key, part) in parts {
            if !leave_distribution(foreign, key, part) {
                open.push(([&path[..], &[key]].concat(), part));
            }
        }
    }
    leaves
}
