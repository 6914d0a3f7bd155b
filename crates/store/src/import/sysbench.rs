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

/// What stands before the version in the first line of each output.
const HEADING: &str = "sysbench ";

/// The section that every test prints.
const GENERAL: &str = "sysbench.general_statistics.";
const GENERAL_SECTION: &str = "general_statistics";
const EVENTS: &str = "total_number_of_events";
const SECONDS: &str = "total_time";

/// What stands before the results.
const STARTED: [&str; 3] = ["Threads started!", "General statistics:", OLD_GENERAL];
/// The section that every test prints in 0.4.
const OLD_GENERAL: &str = "Test execution summary:";

/// The sections of latencies in 0.5, and in 0.4.
const RESPONSE_TIMES: [&str; 2] = ["response_time", "per_request_statistics"];

/// Whether a text has the section that every test prints.
pub fn recognise(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    (has("General statistics:") || has(OLD_GENERAL)) && text.contains("total number of events:")
}

/// Whether a line is the first of an output; scripts may write something before it.
fn is_heading(line: &str) -> bool {
    let at = line.find(HEADING).filter(|at| *at == 0 || line[..*at].ends_with(' '));
    at.is_some_and(|at| line[at + HEADING.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// Reads a run for each output.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    // A log without its first lines is of one output.
    let has_heading = file.text.lines().any(is_heading);
    let mut run = (!has_heading).then(Reading::default);
    for (index, line) in file.text.lines().enumerate() {
        if is_heading(line) {
            finish(&mut foreign, run.replace(Reading::new(line)));
            continue;
        }
        let is_read = run.as_mut().map_or(Ok(false), |run| run.line(line, index + 1))?;
        if !is_read {
            foreign.leave("other lines", line);
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
    has_started: bool,
    /// What --report-interval printed.
    intervals: Vec<BTreeMap<String, f64>>,
}

impl Reading {
    fn new(heading: &str) -> Reading {
        // 0.5 has a colon behind it.
        let after = heading.split_once(HEADING).map_or("", |(_, after)| after);
        let version = after.split_whitespace().next().unwrap_or_default();
        let version = version.trim_end_matches(':').to_string();
        Reading { version, ..Reading::default() }
    }

    /// Whether the line was read, or has nothing to read.
    fn line(&mut self, line: &str, number: usize) -> Result<bool> {
        if line.starts_with('[') {
            let interval = interval(line);
            let is_read = !interval.is_empty();
            self.intervals.extend(Some(interval).filter(|_| is_read));
            return Ok(is_read);
        }
        // Options of the test come first.
        self.has_started |= STARTED.iter().any(|start| line.starts_with(start));
        let Some((name, text)) = line.split_once(": ").or_else(|| line.trim_end().split_once(':'))
        else {
            return Ok(!self.has_started);
        };
        let (name, text) = (name.trim(), text.trim());
        if name == "Number of threads" {
            self.threads = count(text, number, name)?;
        } else if text.is_empty() {
            let is_general = name == OLD_GENERAL.trim_end_matches(':');
            self.section = if is_general { GENERAL_SECTION.into() } else { metric_word(name) };
            self.test = test_of(&self.section).unwrap_or(&self.test).to_string();
        } else if line.starts_with(char::is_whitespace) && !self.section.is_empty() {
            return Ok(self.number(name, text));
        } else if name == "Total operations" {
            // The memory test prints its rate outside of sections.
            self.test = "memory".to_string();
            self.rate("memory", text);
        } else if name == "Operations performed" {
            // 0.4 prints a line of its own.
            self.test = "fileio".to_string();
            return Ok(false);
        } else {
            return Ok(!self.has_started);
        }
        Ok(true)
    }

    /// A number of a section: `2412`, `1.0074s`, `1234 (123.4 per sec.)`, or `1206.0/49.0`, of which the
    /// first is the mean over threads.
    /// Returns whether it is one.
    fn number(&mut self, name: &str, text: &str) -> bool {
        let first = text.split([' ', '/']).next().unwrap_or_default();
        let is_seconds = first.ends_with('s') && name.contains("time");
        let number = first.trim_end_matches("ms").trim_end_matches('s');
        let value = number.parse::<f64>().ok().filter(|v| v.is_finite());
        let Some(value) = value.filter(|value| *value >= 0.0) else { return false };
        let unit = match (self.section.as_str(), name) {
            (section, _)
                if section.starts_with("latency_ms") || RESPONSE_TIMES.contains(&section) =>
            {
                "ms"
            }
            _ if is_seconds
                || name.starts_with("total time taken")
                || name.starts_with("execution time") =>
            {
                "s"
            }
            _ if name.contains("MiB/s") => "MiB/s",
            _ if name.ends_with("/s") || name.contains("per second") => "1/s",
            _ => "1",
        };
        // "events (avg/stddev)" is the mean.
        let name = name.split(" (").next().unwrap_or(name);
        let word = metric_word(&name.replace("MiB/s", "mib_per_s").replace("/s", "_per_s"));
        // 0.5 has "approx.  99 percentile", and its own word for a latency.
        let word = word.trim_start_matches("approx_").to_string();
        let is_latency = RESPONSE_TIMES.contains(&&self.section[..]);
        let section = if is_latency { "latency_ms" } else { &self.section };
        let name = format!("{section}.{word}");
        self.numbers.push((format!("sysbench.{name}"), unit, value));
        // Mean and deviation over threads.
        let deviation = text.split_once('/').and_then(|(_, rest)| rest.parse::<f64>().ok());
        let deviation = deviation.filter(|deviation| deviation.is_finite());
        self.numbers.extend(deviation.map(|one| (format!("sysbench.{name}_stddev"), unit, one)));
        self.rate(&name, text);
        true
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

/// The values of a line of --report-interval. 1.0 prints
/// `[ 1s ] thds: 4 tps: 1000.00 qps: 16000.00 (r/w/o: 14000.00/0.00/2000.00) lat (ms,95%): 5.10 err/s: 0.00`,
/// 0.5 prints `[  10s] threads: 8, tps: 501.10, reads/s: 7015.40, response time: 21.10ms (99%)`.
fn interval(line: &str) -> BTreeMap<String, f64> {
    let Some((time, rest)) = line.trim_start_matches('[').split_once(']') else {
        return BTreeMap::new();
    };
    let time = time.trim().trim_end_matches('s').parse::<f64>().ok();
    let mut values = BTreeMap::from_iter(time.map(|s| ("sysbench.interval.time_s".to_string(), s)));
    let mut name = String::new();
    for word in rest.replace(['(', ')', ','], " ").split_whitespace() {
        let numbers: Vec<f64> = word
            .split('/')
            .map_while(|part| part.trim_end_matches("ms").parse().ok())
            .filter(|value: &f64| value.is_finite())
            .collect();
        match &numbers[..] {
            [] => name += &format!("{word} "),
            [value] => {
                let metric = metric_word(&name.replace("/s", "_per_s"));
                values.insert(format!("sysbench.interval.{metric}"), *value);
                name.clear();
            }
            parts => {
                let kinds = metric_word(&name);
                for (kind, value) in kinds.split('_').zip(parts) {
                    values.insert(format!("sysbench.interval.{kind}"), *value);
                }
                name.clear();
            }
        }
    }
    values
}

/// The test that prints a section.
fn test_of(section: &str) -> Option<&'static str> {
    match section {
        "cpu_speed" => Some("cpu"),
        "file_operations" => Some("fileio"),
        "sql_statistics" | "oltp_test_statistics" => Some("oltp"),
        _ => None,
    }
}

/// Adds the run of an output. An output without events was interrupted.
fn finish(foreign: &mut Foreign, run: Option<Reading>) {
    // `prepare` and `cleanup` start nothing.
    let Some(run) = run.filter(|run| run.has_started) else { return };
    let events = run.value(&format!("{GENERAL}{EVENTS}"));
    let seconds = run.value(&format!("{GENERAL}{SECONDS}")).filter(|s| *s > 0.0);
    let mut values = BTreeMap::new();
    // Its general numbers have names of knee's.
    let is_general = |name: &str| {
        name.strip_prefix(GENERAL).is_some_and(|rest| [EVENTS, SECONDS].contains(&rest))
    };
    let own = run.numbers.iter().filter(|(name, ..)| !is_general(name));
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
        options: BTreeMap::from_iter(
            Some(("version".to_string(), run.version)).filter(|(_, version)| !version.is_empty()),
        ),
        values,
        failed: rate.is_none().then(|| "the output has no total number of events".to_string()),
        samples: run.intervals,
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
