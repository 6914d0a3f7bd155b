//! The JSON of fio --output-format=json: for each job or group of jobs, the rates, latencies and CPU
//! time of one run. Source: the "JSON output" section of fio's HOWTO, and the output of 3.33.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};
use serde_json::Value;

use crate::import::json::{document, looks_like, number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const LACKS: &[&str] = &[
    "one file is one run of each job: replication needs several files of each variant",
    "jobs of one file may have run at the same time, and then they depend on each other",
    "kernel, CPUs, file system and device are not recorded",
];

/// Directions of transfer.
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

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
    foreign.primary = primary(&foreign).to_string();
    Ok(foreign)
}

/// The metric that all jobs have: the rate of their only direction, or that of one of several.
fn primary(foreign: &Foreign) -> &'static str {
    let rates = ["operations_per_s", "fio.write.iops", "fio.read.iops", "fio.trim.iops"];
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
    let mut put = |name: String, unit: &str, better: Better, value: Option<f64>| {
        let Some(value) = value else { return Ok(()) };
        ensure!(value >= 0.0, "{name} is {value}, cannot be negative");
        foreign.describe(&name, unit, better);
        values.insert(name, value);
        Ok(())
    };
    let mut rates = Vec::new();
    for direction in DIRECTIONS {
        // Directions that a job does not use have zeros.
        let used = |stats: &&Value| number(stats, "total_ios") != Some(0.0);
        let Some(stats) = job.get(direction).filter(used) else {
            continue;
        };
        let rate = number(stats, "iops");
        rates.push(rate);
        let name = |rest: &str| format!("fio.{direction}.{rest}");
        put(name("iops"), "1/s", Higher, rate)?;
        put(name("bytes_per_s"), "B/s", Higher, number(stats, "bw_bytes"))?;
        let latency = stats.get("lat_ns").filter(|lat| number(lat, "N") != Some(0.0));
        for (key, unit) in [("mean", "ns"), ("stddev", "ns"), ("max", "ns")] {
            let value = latency.and_then(|latency| number(latency, key));
            put(name(&format!("latency_{key}_ns")), unit, Lower, value)?;
        }
        // Percentiles are of the completion latency unless the job asked otherwise.
        let kinds = [("clat_ns", "completion"), ("lat_ns", "latency")];
        for (key, kind) in kinds {
            let percentiles = stats.get(key).and_then(|latency| latency.get("percentile"));
            for (key, short) in [("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p999")]
            {
                let value = percentiles.and_then(|percentiles| number(percentiles, key));
                put(name(&format!("{kind}_{short}_ns")), "ns", Lower, value)?;
            }
        }
    }
    // The rate of a single direction is that of all operations.
    let total = if let [rate] = rates[..] { rate } else { None };
    put("operations_per_s".to_string(), "1/s", Higher, total)?;
    put("fio.user_percent".to_string(), "%", Neither, number(job, "usr_cpu"))?;
    put("fio.system_percent".to_string(), "%", Neither, number(job, "sys_cpu"))?;
    put("fio.context_switches".to_string(), "1", Neither, number(job, "ctx"))?;
    put("time.major_page_faults".to_string(), "1", Neither, number(job, "majf"))?;
    put("time.minor_page_faults".to_string(), "1", Neither, number(job, "minf"))?;
    Ok(values)
}
