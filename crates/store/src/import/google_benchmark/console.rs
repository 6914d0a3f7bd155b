//! The table that Google Benchmark prints on a terminal:
//!
//!     Benchmark            Time       CPU   Iterations UserCounters...
//!     BM_Copy/64        28.9 ns   28.8 ns     23853124 bytes_per_second=2.2G/s
//!
//! With `--benchmark_counters_tabular` each counter is a column with a heading of its own.

use serde_json::{Map, Value};

use super::add_what_the_name_says;
use crate::import::Foreign;

const HEADINGS: [&str; 4] = ["Benchmark", "Time", "CPU", "Iterations"];
const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
/// Prefixes of its counters, with what they multiply by.
const PREFIXES: [(&str, f64); 12] = [
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("m", 1e-3),
    ("u", 1e-6),
    ("n", 1e-9),
    ("", 1.0),
];

/// Whether a text has the headings of the table.
pub fn is_table(text: &str) -> bool {
    text.lines().any(|line| columns(line).is_some())
}

/// The headings of the counters, if a line has the headings of the table.
fn columns(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let counters = words.strip_prefix(&HEADINGS)?;
    Some(counters.iter().copied().filter(|heading| *heading != "UserCounters...").collect())
}

/// The table in the form of the JSON. What is no row of it is told as not read.
pub fn read(text: &str, foreign: &mut Foreign) -> Value {
    let (mut counters, mut benchmarks) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(headings) = columns(line) {
            counters = headings;
        } else if let Some((benchmark, label)) = row(line, &counters) {
            benchmarks.push(Value::Object(benchmark));
            foreign.leave("labels", &label);
        } else if let Some((name, _)) = line.split_once(" ERROR OCCURRED: ") {
            let (name, message) = (name.trim(), line.trim());
            let failed = [("name", name), ("error_message", message)];
            let failed = failed.map(|(key, text)| (key.to_string(), Value::from(text)));
            benchmarks.push(Value::Object(Map::from_iter(failed)));
        } else {
            foreign.leave("other lines", line);
        }
    }
    Value::Object(Map::from_iter([("benchmarks".to_string(), Value::Array(benchmarks))]))
}

/// A benchmark, if a line is one: a name, which may have blanks, two times with their units, the iterations, and counters.
/// With it the words that are no counter.
fn row(line: &str, headings: &[&str]) -> Option<(Map<String, Value>, String)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_time = |at: usize| {
        let number = words[at].parse::<f64>().ok();
        number.filter(|_| UNITS.contains(&words[at + 1]))
    };
    let times = |at: usize| Some((at, is_time(at)?, is_time(at + 2)?));
    let (at, real, cpu) = (1..words.len().saturating_sub(4)).find_map(times)?;
    let iterations = words[at + 4].parse::<u64>().ok()?;
    // Both have one unit.
    words[at + 1].eq(words[at + 3]).then_some(())?;
    let name = words[..at].join(" ");
    let mut all = Map::new();
    add_what_the_name_says(&mut all, &name);
    all.insert("name".to_string(), Value::from(name));
    all.insert("time_unit".to_string(), Value::from(words[at + 1]));
    all.insert("real_time".to_string(), Value::from(real));
    all.insert("cpu_time".to_string(), Value::from(cpu));
    all.insert("iterations".to_string(), Value::from(iterations));
    let (mut headings, mut label) = (headings.iter(), String::new());
    for word in &words[at + 5..] {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (Some(name), value),
            None => (headings.next().copied(), *word),
        };
        match name.zip(counter(value)) {
            Some((name, value)) => _ = all.insert(name.to_string(), Value::from(value)),
            None => label += &format!(" {word}"),
        }
    }
    Some((all, label))
}

/// The value of a counter, such as 2.2G/s.
fn counter(text: &str) -> Option<f64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let value = |(prefix, times): &(&str, f64)| {
        Some(text.strip_suffix(prefix)?.parse::<f64>().ok()? * times)
    };
    PREFIXES.iter().find_map(value)
}
