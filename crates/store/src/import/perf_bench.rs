//! The text of `perf bench`, and of hackbench, from which its messaging test comes. A log may hold several outputs.
//! Source: tools/perf/bench in Linux, and rt-tests.

use anyhow::Result;
use records::Better::Lower;
use records::{Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const LACKS: &[&str] = &[
    "one output is one run: replication needs several, in one log or in files of their own",
    "CPUs, host and kernel are not recorded",
];

const RATE: &str = "operations_per_s";
const TIME: &str = "wall_s";
const PER_OPERATION: &str = "perf-bench.time_per_operation_us";

const BENCH: &str = "# Running '";
const HACKBENCH: &str = "Running in ";

/// Whether a text has the heading of an output.
pub fn recognise(text: &str) -> bool {
    text.lines().any(is_heading)
}

fn is_heading(line: &str) -> bool {
    (line.starts_with(BENCH) && line.contains("' benchmark"))
        || (line.starts_with(HACKBENCH) && line.contains(" mode with "))
}

/// Reads a run for each output.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    foreign.describe(PER_OPERATION, "us", Lower);
    foreign.describe("perf-bench.stddev_percent", "%", Lower);
    let mut run: Option<ForeignRun> = None;
    for line in file.text.lines() {
        if is_heading(line) {
            foreign.runs.extend(run.replace(begin(line)).map(finished));
        } else if let Some(run) = &mut run
            && !read_line(run, line.trim())
        {
            foreign.leave("other lines", line);
        }
    }
    foreign.runs.extend(run.map(finished));
    let has = |metric: &str| foreign.runs.iter().any(|run| run.values.contains_key(metric));
    if !has(RATE) {
        foreign.primary = if has(TIME) { TIME } else { PER_OPERATION }.to_string();
    }
    foreign
        .metrics
        .retain(|metric, _| foreign.runs.iter().any(|run| run.values.contains_key(metric)));
    Ok(foreign)
}

/// The run of "# Running 'sched/messaging' benchmark:", or of
/// "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)".
fn begin(heading: &str) -> ForeignRun {
    if let Some(rest) = heading.strip_prefix(BENCH) {
        let name = rest.split('\'').next().unwrap_or_default();
        return ForeignRun {
            cell: ForeignCell::new(format!("perf-bench.{name}")),
            ..ForeignRun::default()
        };
    }
    let mut cell = ForeignCell::new("hackbench");
    cell.form = if heading.contains("thread") { Form::Threads } else { Form::Processes };
    let words: Vec<&str> = heading.split_whitespace().collect();
    for pair in words.windows(2) {
        match *pair {
            [number, "groups"] => {
                drop(cell.parameters.insert("groups".to_string(), number.to_string()))
            }
            ["(==", tasks] => cell.tasks = tasks.parse().unwrap_or_default(),
            _ => (),
        }
    }
    ForeignRun { cell, ..ForeignRun::default() }
}

/// Whether the line was read.
fn read_line(run: &mut ForeignRun, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut put = |metric: &str, text: &str| {
        let value =
            text.trim_end_matches("sec").parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
        run.values.extend(value.map(|value| (metric.to_string(), value)));
        value.is_some()
    };
    match words[..] {
        ["Total", "time:", seconds, "[sec]"] | ["Time:", seconds] => put(TIME, seconds),
        [value, "usecs/op"] => put(PER_OPERATION, value),
        [value, "ops/sec"] => put(RATE, &value.replace(',', "")),
        // "Averaged 1234567 operations/sec (+- 0.12%), total secs = 10".
        ["Averaged", rate, unit, "(+-", deviation, "total", "secs", "=", seconds]
            if unit.ends_with("/sec") =>
        {
            let deviation = deviation.trim_end_matches([')', ',', '%']);
            put(RATE, rate) && put("perf-bench.stddev_percent", deviation) && put(TIME, seconds)
        }
        ["#", "Executed", operations, ..] => put("operations", &operations.replace(',', "")),
        ["#", number, "groups", "==", tasks, kind, "run"] => {
            run.cell.parameters.insert("groups".to_string(), number.to_string());
            run.cell.tasks = tasks.parse().unwrap_or_default();
            run.cell.form = if kind == "threads" { Form::Threads } else { Form::Processes };
            true
        }
        ["Each", "sender", "will", "pass", messages, "messages", "of", bytes, "bytes"] => {
            run.cell.parameters.insert("messages".to_string(), messages.to_string());
            run.cell.parameters.insert("bytes".to_string(), bytes.to_string());
            true
        }
        // "# 20 sender and receiver processes per group" and the like.
        ["#", ..] => true,
        _ => false,
    }
}

fn finished(mut run: ForeignRun) -> ForeignRun {
    if run.values.is_empty() {
        run.failed = Some("the output has no result: the benchmark was interrupted".to_string());
    }
    run
}
