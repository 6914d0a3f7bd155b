//! The JSON of JMH (-rf json): for each benchmark the scores of each fork and iteration; its CSV (-rf csv) and its text, which
//! have their mean. Source: JMH's `JSONResultFormat`, and the output of 1.37.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};
use serde_json::Value;

use crate::import::{
    File, Foreign, ForeignCell, ForeignRun, count, csv, json, metric_word, number,
};

const LACKS: &[&str] = &[
    "the number of tasks is that of JMH's threads; CPUs, host and kernel are not recorded",
    "forks of one benchmark were made one after the other",
];

const NO_SCORES: &str =
    "the CSV has only the mean of each benchmark, which counts as one run: -rf json has them all";

/// Whether a text is a list with JMH's keys, or a CSV with its columns.
pub fn recognise(text: &str) -> bool {
    is_csv(text) || is_json(text) || columns(text).is_some()
}

fn is_csv(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.replace('"', "").to_ascii_lowercase().starts_with("benchmark,mode,threads,samples,score,")
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('[')
        && text.contains("\"primaryMetric\"")
        && text.contains("\"scoreUnit\"")
}

/// Reads a run for each fork of each benchmark; its iterations are samples.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    if is_csv(file.text) {
        foreign.lacks.push(NO_SCORES.to_string());
        read_csv(&mut foreign, file.text)?;
    } else if is_json(file.text) {
        read_json(&mut foreign, file.text)?;
    } else {
        foreign.lacks.push(NO_SCORES.replace("CSV", "text"));
        read_text(&mut foreign, file.text);
    }
    let has_rate = foreign.runs.iter().any(|run| run.values.contains_key("operations_per_s"));
    if !has_rate {
        foreign.primary = TIME.to_string();
    }
    Ok(foreign)
}

/// Reads the columns Benchmark, Mode, Threads, Samples, Score, Score Error, Unit, and one for each parameter.
fn read_csv(foreign: &mut Foreign, text: &str) -> Result<()> {
    let mut rows = csv::rows(text);
    let (_, header) = rows.next().transpose()?.context("expected a header")?;
    for row in rows {
        let (line, fields) = row?;
        ensure!(
            fields.len() == header.len() && fields.len() > 6,
            "line {line}: {} fields, but the header has {}; is the file truncated?",
            fields.len(),
            header.len()
        );
        let mut cell = ForeignCell::new(workload(&fields[0]));
        (cell.form, cell.tasks) = (Form::Threads, count(&fields[2], line, "Threads")?);
        cell.parameters.insert("mode".to_string(), fields[1].clone());
        for (heading, field) in header.iter().zip(&fields).skip(7) {
            let name = heading.trim_start_matches("Param:").trim();
            cell.parameters.insert(name.to_string(), field.clone());
        }
        let (name, unit, better, factor) = of_score("", &fields[6]);
        // In some languages, 0,044706 stands for 0.044706.
        let decimal = |field: &str| field.replace(',', ".");
        let score = number(&decimal(&fields[4]), line, "Score")?;
        let error = number(&decimal(&fields[5]), line, "Score Error")?;
        let deviation = format!("{name}.error");
        foreign.describe(&name, unit, better);
        foreign.describe(&deviation, unit, Neither);
        let mut run = ForeignRun { cell, ..ForeignRun::default() };
        run.values.extend(score.map(|score| (name, score * factor)));
        run.values.extend(error.map(|error| (deviation, error * factor)));
        run.failed = score.is_none().then(|| "the benchmark has no score".to_string());
        *foreign.unread.entry("numbers of samples".to_string()).or_default() += 1;
        foreign.runs.push(run);
    }
    Ok(())
}

/// The parameters that the table of a text has, from its heading `Benchmark (size) Mode Cnt Score Error Units`.
fn columns(text: &str) -> Option<Vec<&str>> {
    text.lines().find_map(heading)
}

fn heading(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.trim_start_matches("[info] ").split_whitespace().collect();
    let mode = words.iter().position(|word| *word == "Mode")?;
    let is_heading =
        words[0] == "Benchmark" && words.contains(&"Score") && words.contains(&"Units");
    is_heading.then(|| words[1..mode].iter().map(|name| name.trim_matches(['(', ')'])).collect())
}

/// Reads the rows `Bench.lock  8  avgt  25  1553.195 ± 8.505  ns/op` below a heading.
fn read_text(foreign: &mut Foreign, text: &str) {
    let mut parameters = Vec::new();
    for line in text.lines() {
        if let Some(found) = heading(line) {
            parameters = found;
        } else if let Some(run) = row(foreign, line, &parameters) {
            let same = foreign.runs.last_mut().filter(|known| {
                known.cell == run.cell
                    && run.values.keys().all(|name| !known.values.contains_key(name))
            });
            match same {
                Some(known) => known.values.extend(run.values),
                None => foreign.runs.push(run),
            }
        } else {
            foreign.leave("other lines", line);
        }
    }
}

fn row(foreign: &mut Foreign, line: &str, parameters: &[&str]) -> Option<ForeignRun> {
    let words: Vec<&str> = line.trim_start_matches("[info] ").split_whitespace().collect();
    let modes = ["thrpt", "avgt", "sample", "ss", "all"];
    let mode = words.iter().position(|word| modes.contains(word))?;
    if mode != parameters.len() + 1 {
        return None;
    }
    let (name, secondary) = words[0].split_once(':').unwrap_or((words[0], ""));
    let mut cell = ForeignCell::new(workload(name));
    cell.form = Form::Threads;
    cell.parameters.insert("mode".to_string(), words[mode].to_string());
    for (parameter, value) in parameters.iter().zip(&words[1..mode]) {
        cell.parameters.insert(parameter.to_string(), value.to_string());
    }
    // Cnt and Error are missing where there is one iteration.
    let decimal = |word: &&str| word.replace(',', ".").parse::<f64>().ok();
    let numbers: Vec<f64> = words[mode + 1..words.len() - 1].iter().filter_map(decimal).collect();
    let has_error = words.iter().any(|word| ["±", "?", "+-"].contains(word));
    let (score, error) = match (numbers.as_slice(), has_error) {
        ([.., score, error], true) => (*score, Some(*error)),
        ([.., score], false) => (*score, None),
        _ => return None,
    };
    let counts = numbers.len() - 1 - usize::from(error.is_some());
    *foreign.unread.entry("numbers of samples".to_string()).or_default() += counts;
    let (name, unit, better, factor) = of_score(secondary, words.last()?);
    foreign.describe(&name, unit, better);
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    if let Some(error) = error {
        let deviation = format!("{name}.error");
        foreign.describe(&deviation, unit, Neither);
        run.values.insert(deviation, error * factor);
    }
    run.values.insert(name, score * factor);
    Some(run)
}

fn read_json(foreign: &mut Foreign, text: &str) -> Result<()> {
    let benchmarks: Vec<Value> =
        serde_json::from_str(text).context("expected the JSON of jmh -rf json")?;
    for benchmark in &benchmarks {
        let name = json::text(benchmark, "benchmark").context("an entry without \"benchmark\"")?;
        read_one(foreign, benchmark, name).with_context(|| format!("in {name}"))?;
    }
    Ok(())
}

/// The class and method of a name such as org.example.Bench.lock.
fn workload(name: &str) -> String {
    let short: Vec<&str> = name.rsplit('.').take(2).collect();
    format!("jmh.{}", short.into_iter().rev().collect::<Vec<_>>().join("."))
}

const TIME: &str = "jmh.time_per_operation_ns";

fn read_one(foreign: &mut Foreign, benchmark: &Value, name: &str) -> Result<()> {
    let mut cell = ForeignCell::new(workload(name));
    (cell.form, cell.tasks) =
        (Form::Threads, json::number(benchmark, "threads").unwrap_or(1.0) as u32);
    for (key, value) in benchmark.get("params").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or(value.to_string(), str::to_string);
        cell.parameters.insert(key.clone(), value);
    }
    let mode = json::text(benchmark, "mode").unwrap_or_default();
    cell.parameters.insert("mode".to_string(), mode.to_string());
    let primary = benchmark.get("primaryMetric").context("no \"primaryMetric\"")?;
    let secondary = benchmark.get("secondaryMetrics").and_then(Value::as_object);
    let metrics = std::iter::once(("", primary));
    let metrics: Vec<(&str, &Value)> = metrics
        .chain(secondary.into_iter().flatten().map(|(key, value)| (key.as_str(), value)))
        .collect();
    let mut runs: Vec<ForeignRun> = Vec::new();
    for (key, metric) in metrics {
        let (name, unit, better, factor) =
            of_score(key, json::text(metric, "scoreUnit").unwrap_or_default());
        let forks: Vec<Vec<f64>> = metric
            .get("rawData")
            .and_then(|data| serde_json::from_value(data.clone()).ok())
            .unwrap_or_else(|| vec![json::number(metric, "score").into_iter().collect()]);
        let derived = ["scoreError", "scorePercentiles", "scoreConfidence"];
        let derived =
            derived.iter().filter_map(|key| metric.get(*key)).map(json::numbers).sum::<usize>();
        *foreign
            .unread
            .entry("errors and percentiles that JMH derives".to_string())
            .or_default() += derived;
        foreign.describe(&name, unit, better);
        for (fork, iterations) in
            forks.iter().enumerate().filter(|(_, iterations)| !iterations.is_empty())
        {
            if runs.len() <= fork {
                runs.resize(fork + 1, ForeignRun { cell: cell.clone(), ..ForeignRun::default() });
            }
            let values: Vec<f64> = iterations.iter().map(|one| one * factor).collect();
            let run = &mut runs[fork];
            run.values.insert(name.clone(), values.iter().sum::<f64>() / values.len() as f64);
            run.samples.resize(run.samples.len().max(values.len()), BTreeMap::new());
            for (sample, value) in run.samples.iter_mut().zip(values) {
                sample.insert(name.clone(), value);
            }
        }
    }
    foreign.runs.extend(runs);
    Ok(())
}

/// The metric of a score, and what makes its unit of JMH's: a rate in 1/s, a time per operation in ns, or another.
fn of_score(key: &str, unit: &str) -> (String, &'static str, Better, f64) {
    let per_s = |unit: &str| match unit {
        "s" => Some(1.0),
        "ms" => Some(1e3),
        "us" => Some(1e6),
        "ns" => Some(1e9),
        "min" => Some(1.0 / 60.0),
        _ => None,
    };
    let own = |rest: &str| match key {
        "" => rest.to_string(),
        key => format!("jmh.{}", metric_word(key)),
    };
    if let Some(per_s) = unit.strip_prefix("ops/").and_then(per_s) {
        return (own("operations_per_s"), "1/s", Higher, per_s);
    }
    if let Some(per_s) = unit.strip_suffix("/op").and_then(per_s) {
        return (own(TIME), "ns", Lower, 1e9 / per_s);
    }
    let unit = if unit == "B/op" { "B" } else { "1" };
    (own("jmh.score"), unit, Neither, 1.0)
}
