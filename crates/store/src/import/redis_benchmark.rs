//! What redis-benchmark prints, and its CSV (`--csv`): since 6.2 with a header and latencies, before with rates alone. Source:
//! its `redis-benchmark.c`.

use anyhow::{Result, ensure};
use records::Better::{Higher, Lower};
use records::ReplicationUnit;

use crate::import::tools::REDIS_BENCHMARK;
use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount, csv};

const RATE: &str = "operations_per_s";
const HEADER: &str = "\"test\",\"rps\"";
/// Tests of which some are in each output: without a header, only they tell whose it is.
const TESTS: [&str; 10] = [
    "PING_INLINE",
    "PING_MBULK",
    "PING_BULK",
    "SET",
    "GET",
    "INCR",
    "LPUSH",
    "LPOP",
    "SADD",
    "MSET",
];

/// Whether a text is its table or its CSV.
pub fn recognise(text: &str) -> bool {
    is_csv(text) || REDIS_BENCHMARK.recognise(text)
}

fn is_csv(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    let first = lines.peek().copied().unwrap_or_default();
    let is_row = |line: &str| {
        let quoted = line.trim().strip_prefix('"').and_then(|line| line.strip_suffix('"'));
        let rate = quoted.and_then(|line| line.split_once("\",\"")).map(|(_, rate)| rate);
        rate.is_some_and(|rate| rate.parse::<f64>().is_ok())
    };
    let is_known = |line: &str| TESTS.iter().any(|test| line.starts_with(&format!("\"{test}")));
    first.starts_with(HEADER) || (is_known(first) && lines.all(is_row))
}

/// Reads a run for each test.
pub fn read(file: &File) -> Result<Foreign> {
    if !is_csv(file.text) {
        return REDIS_BENCHMARK.read(file);
    }
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, REDIS_BENCHMARK.lacks);
    let mut names = vec![RATE.to_string()];
    for row in csv::rows(file.text) {
        let (line, fields) = row?;
        if fields.first().is_some_and(|first| first == "test") {
            names = fields[1..].iter().map(|heading| name(heading)).collect();
            continue;
        }
        ensure!(
            fields.len() == names.len() + 1,
            "line {line}: {} fields, expected a test and {}",
            fields.len(),
            names.join(", ")
        );
        let workload = format!("redis-benchmark.{}", fields[0]);
        let mut run = ForeignRun { cell: ForeignCell::new(workload), ..ForeignRun::default() };
        for (name, field) in names.iter().zip(&fields[1..]) {
            let better = if name == RATE { Higher } else { Lower };
            foreign.describe(name, if name == RATE { "1/s" } else { "ms" }, better);
            let value = amount(field, line, name)?;
            run.values.extend(value.map(|value| (name.clone(), value)));
        }
        foreign.runs.push(run);
    }
    Ok(foreign)
}

/// The metric below a heading, as the text calls it.
fn name(heading: &str) -> String {
    let part = heading.trim_end_matches("_latency_ms");
    match part {
        "rps" => RATE.to_string(),
        "avg" => "redis.latency_mean_ms".to_string(),
        part => format!("redis.latency_{part}_ms"),
    }
}
