//! The text that pgbench prints. A log may hold the outputs of several runs. Source: pgbench(1) of PostgreSQL 9.6 to 17.

use std::collections::BTreeMap;

use anyhow::Result;
use records::Better::{Higher, Lower, Neither};
use records::{Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount, count};

const LACKS: &[&str] = &[
    "one output is one run: replication needs several, in one log or in files of their own",
    "the server, its settings, CPUs, host and kernel are not recorded",
];

const RATE: &str = "operations_per_s";
const TYPE: &str = "transaction type: ";

/// Metrics by the words before their value, with unit and direction.
const METRICS: [(&str, &str, &str, records::Better); 6] = [
    ("latency average", "pgbench.latency_average_ms", "ms", Lower),
    ("latency stddev", "pgbench.latency_stddev_ms", "ms", Lower),
    ("initial connection time", "pgbench.initial_connection_ms", "ms", Neither),
    ("number of failed transactions", "pgbench.failed_transactions", "1", Lower),
    ("number of transactions skipped", "pgbench.skipped_transactions", "1", Lower),
    ("number of transactions retried", "pgbench.retried_transactions", "1", Lower),
];

/// Whether a text has the lines that every output has.
pub fn recognise(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has(TYPE) && has("number of clients: ")
}

/// Reads a run for each output.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    for (_, metric, unit, better) in METRICS {
        foreign.describe(metric, unit, better);
    }
    foreign.describe("pgbench.tps_with_connecting", "1/s", Higher);
    let mut run = ForeignRun::default();
    for (index, line) in file.text.lines().enumerate() {
        // Progress comes before the type.
        let begins = line.starts_with("pgbench (") || line.starts_with("starting vacuum");
        if begins && !run.cell.workload.is_empty() {
            finish(&mut foreign, std::mem::take(&mut run));
        }
        if let Some(kind) = line.strip_prefix(TYPE) {
            if !run.cell.workload.is_empty() {
                finish(&mut foreign, std::mem::take(&mut run));
            }
            let kind = kind.trim_start_matches("<builtin: ").trim_end_matches('>');
            run.cell =
                ForeignCell { form: Form::Threads, ..ForeignCell::new(format!("pgbench.{kind}")) };
        } else if !begins && !read_line(&mut run, line, index + 1)? {
            foreign.leave("statistics of single scripts or statements", line);
        }
    }
    finish(&mut foreign, run);
    foreign
        .metrics
        .retain(|metric, _| foreign.runs.iter().any(|run| run.values.contains_key(metric)));
    Ok(foreign)
}

/// Whether the line was read.
fn read_line(run: &mut ForeignRun, line: &str, number: usize) -> Result<bool> {
    if let Some(progress) = line.strip_prefix("progress: ") {
        run.samples.push(progress_values(progress));
        return Ok(true);
    }
    let Some((name, text)) = line.split_once(" = ").or_else(|| line.split_once(": ")) else {
        return Ok(false);
    };
    let first = text.split([' ', '/']).next().unwrap_or_default();
    let mut put = |metric: &str| -> Result<()> {
        let value = amount(first, number, name)?;
        run.values.extend(value.map(|value| (metric.to_string(), value)));
        Ok(())
    };
    if let Some((_, metric, ..)) = METRICS.iter().find(|(words, ..)| *words == name) {
        put(metric)?;
        return Ok(true);
    }
    match name {
        "tps" if text.contains("including") => put("pgbench.tps_with_connecting")?,
        "tps" => put(RATE)?,
        "number of transactions actually processed" => put("operations")?,
        "number of clients" => run.cell.tasks = count(first, number, name)?,
        "scaling factor"
        | "query mode"
        | "number of threads"
        | "duration"
        | "number of transactions per client"
        | "maximum number of tries" => {
            let parameter = name.trim_start_matches("number of ").replace(' ', "_");
            run.cell.parameters.insert(parameter, text.to_string());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// "5.0 s, 1234.5 tps, lat 0.810 ms stddev 0.100, 0 failed".
fn progress_values(text: &str) -> BTreeMap<String, f64> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let [a, b] = *pair else { return None };
        match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(value), _) if ["s", "tps", "failed"].contains(&b) => Some((b, value)),
            (_, Ok(value)) if ["lat", "stddev"].contains(&a) => Some((a, value)),
            _ => None,
        }
    });
    let name = |word: &str| match word {
        "s" => "pgbench.progress.time_s".to_string(),
        "lat" | "stddev" => format!("pgbench.progress.{word}_ms"),
        word => format!("pgbench.progress.{word}"),
    };
    pairs.filter(|(_, value)| value.is_finite()).map(|(word, value)| (name(word), value)).collect()
}

fn finish(foreign: &mut Foreign, mut run: ForeignRun) {
    if run.cell.workload.is_empty() {
        return;
    }
    if !run.values.contains_key(RATE) {
        run.failed = Some("the output has no tps: pgbench was interrupted".to_string());
    }
    foreign.runs.push(run);
}
