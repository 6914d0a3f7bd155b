//! The text that sysbench prints: sections of `name: value`. A log may hold the outputs of several runs.
//! Source: sysbench's README and the output of 1.0.20.

use std::collections::BTreeMap;

use anyhow::Result;
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, count, metric_word};

const LACKS: &[&str] = &[
    "what an event is depends on the test: compare only results of one test with the same options",
    "one output is one run: replication needs several, in one log or in files of their own",
    "options of the test, CPUs, host and kernel are not recorded",
];

/// The first word of each output.
const HEADING: &str = "sysbench ";

/// The section that every test prints.
const GENERAL: &str = "sysbench.general_statistics.";

/// Whether a text has the heading and the section that every test prints.
pub fn recognise(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has(HEADING) && has("General statistics:")
}

/// Reads a run for each output.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    let mut run: Option<Reading> = None;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with(HEADING) {
            finish(&mut foreign, run.replace(Reading::new(line)));
        } else if let Some(run) = &mut run {
            run.line(line, index + 1)?;
        }
    }
    finish(&mut foreign, run);
    Ok(foreign)
}

/// One output so far.
#[derive(Default)]
struct Reading {
    version: String,
    test: String,
    section: String,
    threads: u32,
    /// Name, unit and value of each number.
    numbers: Vec<(String, &'static str, f64)>,
}

impl Reading {
    fn new(heading: &str) -> Reading {
        let version = heading.split_whitespace().nth(1).unwrap_or_default().to_string();
        Reading { version, ..Reading::default() }
    }

    fn line(&mut self, line: &str, number: usize) -> Result<()> {
        let Some((name, text)) = line.split_once(": ").or_else(|| line.trim_end().split_once(':'))
        else {
            return Ok(());
        };
        let (name, text) = (name.trim(), text.trim());
        if name == "Number of threads" {
            self.threads = count(text, number, name)?;
        } else if text.is_empty() {
            self.section = metric_word(name);
            self.test = test_of(&self.section).unwrap_or(&self.test).to_string();
        } else if line.starts_with(char::is_whitespace) && !self.section.is_empty() {
            self.number(name, text);
        } else if name == "Total operations" {
            // The memory test prints its rate outside of sections.
            self.test = "memory".to_string();
            self.rate("memory", text);
        }
        Ok(())
    }

    /// A number of a section: `2412`, `1.0074s`, `1234 (123.4 per sec.)`, or `1206.0/49.0`, of which the
    /// first is the mean over threads.
    fn number(&mut self, name: &str, text: &str) {
        let first = text.split([' ', '/']).next().unwrap_or_default();
        let is_seconds = first.ends_with('s') && name.contains("time");
        let value = first.trim_end_matches('s').parse::<f64>().ok().filter(|v| v.is_finite());
        let Some(value) = value.filter(|value| *value >= 0.0) else { return };
        let unit = match (self.section.as_str(), name) {
            (section, _) if section.starts_with("latency_ms") => "ms",
            _ if is_seconds || name.starts_with("execution time") => "s",
            _ if name.contains("MiB/s") => "MiB/s",
            _ if name.ends_with("/s") || name.contains("per second") => "1/s",
            _ => "1",
        };
        // "events (avg/stddev)" is the mean.
        let name = name.split(" (").next().unwrap_or(name);
        let word = metric_word(&name.replace("MiB/s", "mib_per_s").replace("/s", "_per_s"));
        self.numbers.push((format!("sysbench.{}.{word}", self.section), unit, value));
        self.rate(&format!("{}.{word}", self.section), text);
    }

    /// The rate in parentheses: `3982494 (3979420.03 per second)`.
    fn rate(&mut self, name: &str, text: &str) {
        let rate = text.split_once('(').and_then(|(_, rest)| rest.split_once(" per sec"));
        let rate = rate.and_then(|(rate, _)| rate.parse::<f64>().ok()).filter(|r| r.is_finite());
        self.numbers.extend(rate.map(|rate| (format!("sysbench.{name}_per_s"), "1/s", rate)));
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, ..)| known == name).map(|(.., value)| *value)
    }
}

/// The test that prints a section.
fn test_of(section: &str) -> Option<&'static str> {
    match section {
        "cpu_speed" => Some("cpu"),
        "file_operations" => Some("fileio"),
        "sql_statistics" => Some("oltp"),
        _ => None,
    }
}

/// Adds the run of an output. An output without events was interrupted.
fn finish(foreign: &mut Foreign, run: Option<Reading>) {
    let Some(run) = run else { return };
    let events = run.value(&format!("{GENERAL}total_number_of_events"));
    let seconds = run.value(&format!("{GENERAL}total_time")).filter(|s| *s > 0.0);
    let mut values = BTreeMap::new();
    // Its general numbers have names of knee's.
    let own = run.numbers.iter().filter(|(name, ..)| !name.starts_with(GENERAL));
    for (name, unit, value) in own {
        foreign.describe(name, unit, direction(name));
        values.insert(name.clone(), *value);
    }
    values.extend(events.map(|events| ("operations".to_string(), events)));
    let rate = events.zip(seconds).map(|(events, seconds)| events / seconds);
    values.extend(rate.map(|rate| ("operations_per_s".to_string(), rate)));
    values.extend(seconds.map(|seconds| ("wall_s".to_string(), seconds)));
    let test =
        if run.test.is_empty() { "sysbench".into() } else { format!("sysbench.{}", run.test) };
    let cell = ForeignCell { form: Form::Threads, tasks: run.threads, ..ForeignCell::new(test) };
    foreign.runs.push(ForeignRun {
        cell,
        options: BTreeMap::from([("version".to_string(), run.version)]),
        values,
        failed: rate.is_none().then(|| "the output has no total number of events".to_string()),
        ..ForeignRun::default()
    });
}

fn direction(metric: &str) -> Better {
    match metric {
        _ if metric.contains(".latency_ms.") => Lower,
        _ if metric.ends_with("per_s") || metric.ends_with("per_second") => Higher,
        _ => Neither,
    }
}
