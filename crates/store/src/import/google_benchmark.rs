//! What Google Benchmark prints: its JSON, its CSV, and its table (--benchmark_format). Source: its user guide,
//! `console_reporter.cc` and `string_util.cc`, and the output of 1.8.

mod console;

use anyhow::{Context, Result, ensure};
use records::Better::{Higher, Lower, Neither};
use records::{Form, ReplicationUnit};
use serde_json::{Map, Value};

use crate::import::json::{document, looks_like, number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, csv, metric_word};

const LACKS: &[&str] = &[
    "an iteration is what the benchmark makes of it",
    "which CPUs the threads had, and the kernel, are not recorded",
];

const TIME: &str = "google.real_time_ns";

/// Numbers of a benchmark that measure nothing.
const NOT_MEASURED: [&str; 5] =
    ["family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads"];

/// The columns that its CSV begins with.
const COLUMNS: &str = "name,iterations,real_time,cpu_time,time_unit";
/// Endings of the names of aggregates in the CSV.
const AGGREGATES: [&str; 4] = ["_mean", "_median", "_stddev", "_cv"];

/// Whether a text is an object with its keys, or has the columns of its CSV or of its table.
pub fn recognise(text: &str) -> bool {
    is_csv(text)
        || console::is_table(text)
        || looks_like(text, &["benchmarks", "context", "real_time"])
}

fn is_csv(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(COLUMNS))
}

/// The rows of the CSV in the form of the JSON. The messages above the table are skipped.
fn from_csv(table: &str) -> Result<Value> {
    let above = table.lines().position(|line| line.starts_with(COLUMNS)).unwrap_or(0);
    let start: usize = table.split_inclusive('\n').take(above).map(str::len).sum();
    let mut rows = csv::rows(&table[start..]);
    let (_, header) = rows.next().transpose()?.context("expected a header")?;
    let mut benchmarks = Vec::new();
    for row in rows {
        let (line, fields) = row?;
        ensure!(
            fields.len() == header.len(),
            "line {}: {} fields, but the header has {}; is the file truncated?",
            line + above,
            fields.len(),
            header.len()
        );
        let value = |field: &String| match field.parse::<f64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::from(field.as_str()),
        };
        let given = header.iter().zip(&fields).filter(|(_, field)| !field.is_empty());
        let mut all: Map<String, Value> =
            given.map(|(heading, field)| (heading.clone(), value(field))).collect();
        all.insert("name".to_string(), Value::from(fields[0].as_str()));
        add_what_the_name_says(&mut all, &fields[0]);
        benchmarks.push(Value::Object(all));
    }
    Ok(Value::Object(Map::from_iter([("benchmarks".to_string(), Value::Array(benchmarks))])))
}

/// Its JSON has threads and aggregates beside the name, in which the other forms have them.
fn add_what_the_name_says(all: &mut Map<String, Value>, name: &str) {
    let threads = name.split("/threads:").nth(1).map(|rest| rest.split('/').next());
    let threads = threads.flatten().and_then(|threads| threads.parse::<u32>().ok());
    all.extend(threads.map(|threads| ("threads".to_string(), Value::from(threads))));
    if AGGREGATES.iter().any(|ending| name.ends_with(ending)) {
        all.insert("run_type".to_string(), Value::from("aggregate"));
    }
}

/// Reads a run for each repetition of each benchmark.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(TIME, ReplicationUnit::Run, LACKS);
    let document = match file.text {
        text if is_csv(text) => from_csv(text)?,
        text if console::is_table(text) => console::read(text, &mut foreign),
        text => document(text)?,
    };
    let benchmarks = document.get("benchmarks").and_then(Value::as_array);
    let benchmarks = benchmarks.context("no \"benchmarks\": expected --benchmark_format=json")?;
    if let Some(context) = document.get("context") {
        foreign.host.hostname = text(context, "host_name").map(str::to_string);
    }
    for benchmark in benchmarks {
        let name = text(benchmark, "run_name").or_else(|| text(benchmark, "name"));
        let name = name.context("a benchmark without a name")?;
        if text(benchmark, "run_type") == Some("aggregate") {
            let numbers = benchmark
                .as_object()
                .map_or(0, |all| all.values().filter(|v| v.is_number()).count());
            *foreign.unread.entry("aggregates over repetitions".to_string()).or_default() +=
                numbers;
            continue;
        }
        let run = read_one(&mut foreign, benchmark, name).with_context(|| format!("in {name}"))?;
        foreign.runs.push(run);
    }
    Ok(foreign)
}

fn read_one(foreign: &mut Foreign, benchmark: &Value, name: &str) -> Result<ForeignRun> {
    let ns = match text(benchmark, "time_unit").unwrap_or("ns") {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => anyhow::bail!("the time_unit is '{other}', must be ns, us, ms or s"),
    };
    let mut parts = name.split('/').filter(|part| !part.starts_with("threads:"));
    let mut cell = ForeignCell::new(format!("google.{}", parts.next().unwrap_or_default()));
    for (index, part) in parts.enumerate() {
        let (key, value) = match part.split_once(':') {
            Some((key, value)) => (key.to_string(), value),
            None => (format!("argument_{}", index + 1), part),
        };
        cell.parameters.insert(key, value.to_string());
    }
    (cell.form, cell.tasks) = (Form::Threads, number(benchmark, "threads").unwrap_or(1.0) as u32);
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    run.failed = text(benchmark, "error_message").map(str::to_string);
    for (key, value) in benchmark.as_object().into_iter().flatten() {
        let Some(value) = value.as_f64().filter(|v| v.is_finite()) else { continue };
        let (name, unit, better, value) = match key.as_str() {
            key if NOT_MEASURED.contains(&key) => continue,
            "real_time" => (TIME.to_string(), "ns", Lower, ns * value),
            "cpu_time" => ("google.cpu_time_ns".to_string(), "ns", Lower, ns * value),
            "iterations" => ("google.iterations".to_string(), "1", Neither, value),
            "items_per_second" => ("operations_per_s".to_string(), "1/s", Higher, value),
            "bytes_per_second" => ("google.bytes_per_s".to_string(), "B/s", Higher, value),
            key => (format!("google.{}", metric_word(key)), "1", Neither, value),
        };
        ensure!(value >= 0.0 || better == Neither, "{key} is {value}, cannot be negative");
        foreign.describe(&name, unit, better);
        run.values.insert(name, value);
    }
    Ok(run)
}
