//! The text of `perf bench`, and of hackbench, from which its messaging test comes. A log may hold several outputs.
//! Source: tools/perf/bench in Linux, and rt-tests.

use std::collections::BTreeMap;

use anyhow::Result;
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "one output is one run: replication needs several, in one log or in files of their own",
    "CPUs, host and kernel are not recorded",
];

const RATE: &str = "operations_per_s";
const TIME: &str = "wall_s";
const PER_OPERATION: &str = "perf-bench.time_per_operation_us";

/// The rate that perf averages over threads.
const PER_THREAD: &str = "perf-bench.operations_per_s_and_thread";
const BYTES: &str = "perf-bench.bytes_per_s";
const WAKING: &str = "perf-bench.time_ms";
const CYCLES: &str = "perf-bench.cycles_per_byte";
const DEVIATION: &str = "perf-bench.stddev_percent";

/// Metrics of lines, with unit and direction.
const METRICS: [(&str, &str, Better); 6] = [
    (PER_OPERATION, "us", Lower),
    (DEVIATION, "%", Lower),
    (PER_THREAD, "1/s", Higher),
    (BYTES, "B/s", Higher),
    (WAKING, "ms", Lower),
    (CYCLES, "1", Lower),
];

/// perf prints powers of 1024.
const RATES: [(&str, f64); 4] = [
    ("B/sec", 1.0),
    ("KB/sec", 1024.0),
    ("MB/sec", 1024.0 * 1024.0),
    ("GB/sec", 1024.0 * 1024.0 * 1024.0),
];

/// What `perf bench syscall` says of each call.
const CALLS: &str = "# Executed ";
const FUNCTION: &str = "# function '";
const SYSCALL: &str = "perf-bench.syscall";
const HACKBENCH: &str = "Running in ";

/// Whether a text has the heading of an output.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| is_heading(line) || is_of_call(line))
}

fn is_of_call(line: &str) -> bool {
    line.starts_with(CALLS) && line.trim_end().ends_with("() calls")
}

/// The name in `# Running 'sched/pipe' benchmark:`, or in `# Running sched/pipe benchmark...` of `perf bench all`.
fn benchmark(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Running ")?;
    let (name, _) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once("' benchmark")?,
        None => rest.split_once(" benchmark...")?,
    };
    Some(name)
}

fn is_heading(line: &str) -> bool {
    benchmark(line).is_some() || (line.starts_with(HACKBENCH) && line.contains(" mode with "))
}

/// Reads a run for each output.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    for (metric, unit, better) in METRICS {
        foreign.describe(metric, unit, better);
    }
    let mut run: Option<ForeignRun> = None;
    for line in file.text.lines() {
        if is_heading(line) {
            foreign.runs.extend(run.replace(begin(line)).map(finished));
            continue;
        }
        // A benchmark may have a part for each of several functions or calls.
        let is_part = is_of_call(line) || line.starts_with(FUNCTION);
        if is_part && run.as_ref().is_none_or(|run| !run.values.is_empty()) {
            let cell =
                run.as_ref().map_or_else(|| ForeignCell::new(SYSCALL), |run| run.cell.clone());
            let next = ForeignRun { cell, ..ForeignRun::default() };
            foreign.runs.extend(run.replace(next).map(finished));
        }
        let is_read = run.as_mut().is_some_and(|run| {
            read_line(run, line.trim()) || read_row(&mut foreign, run, line.trim())
        });
        if !is_read {
            foreign.leave("other lines", line);
        }
    }
    foreign.runs.extend(run.map(finished));
    let has = |metric: &str| foreign.runs.iter().any(|run| run.values.contains_key(metric));
    let known = [RATE, PER_THREAD, TIME, PER_OPERATION, BYTES, WAKING];
    let first = known.into_iter().find(|metric| has(metric));
    foreign.primary = first.unwrap_or(RATE).to_string();
    foreign
        .metrics
        .retain(|metric, _| foreign.runs.iter().any(|run| run.values.contains_key(metric)));
    Ok(foreign)
}

/// The run of "# Running 'sched/messaging' benchmark:", or of
/// "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)".
fn begin(heading: &str) -> ForeignRun {
    if let Some(name) = benchmark(heading) {
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
        // "Averaged 1234567 operations/sec (+- 0.12%), total secs = 10": the mean over threads.
        ["Averaged", rate, unit, "(+-", deviation, "total", "secs", "=", seconds]
            if unit.ends_with("/sec") =>
        {
            let deviation = deviation.trim_end_matches([')', ',', '%']);
            put(PER_THREAD, rate) && put(DEVIATION, deviation) && put(TIME, seconds) && sum(run)
        }
        ["#", "function", name, ..] => {
            let name = name.trim_matches('\'').to_string();
            run.cell.parameters.insert("function".to_string(), name);
            true
        }
        ["#", "Executed", operations, call, "calls"] => {
            let call = call.trim_end_matches("()").to_string();
            run.cell.parameters.insert("call".to_string(), call);
            put("operations", &operations.replace(',', ""))
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
        ["#", senders, "sender", ..] => {
            run.cell.parameters.insert("senders_per_group".to_string(), senders.to_string());
            true
        }
        ["#", "Copying", size, "bytes", ..] => {
            run.cell.parameters.insert("size".to_string(), size.to_string());
            true
        }
        _ => read_measured(run, line, &words),
    }
}

/// Reads a line of `perf bench futex` or `perf bench mem`; returns whether it is one.
fn read_measured(run: &mut ForeignRun, line: &str, words: &[&str]) -> bool {
    let finite = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    match *words {
        // "Run summary [PID 3042]: 8 threads, each operating on 1024 futexes for 10 secs."
        ["Run", "summary", ..] => {
            let at = words.iter().position(|word| word.starts_with("threads"));
            let threads = at.and_then(|at| words[at.checked_sub(1)?].parse().ok());
            (run.cell.tasks, run.cell.form) = (threads.unwrap_or_default(), Form::Threads);
            // Its other numbers are options.
            false
        }
        // "Avg per-thread latency (waking 1/8 threads) in 0.0112 ms (+-21.72%)"; "[Run 1]: …" are single ones.
        [.., "in", value, "ms", deviation] if deviation.starts_with("(+-") => {
            let Some(value) = finite(value) else { return false };
            if line.starts_with("[Run") {
                run.samples.push(BTreeMap::from([(WAKING.to_string(), value)]));
            } else {
                let deviation = finite(deviation.trim_matches(['(', '+', '-', '%', ')']));
                run.values.extend(deviation.map(|one| (DEVIATION.to_string(), one)));
                run.values.insert(WAKING.to_string(), value);
            }
            true
        }
        [value, "cycles/byte"] => {
            run.values.extend(finite(value).map(|one| (CYCLES.to_string(), one)));
            true
        }
        [value, unit] => {
            let rate = finite(value).zip(rate_of(unit)).map(|(value, factor)| value * factor);
            run.values.extend(rate.map(|rate| (BYTES.to_string(), rate)));
            rate.is_some()
        }
        _ => false,
    }
}

/// Adds the rate of all threads, which is that of one times their number.
fn sum(run: &mut ForeignRun) -> bool {
    if let Some(rate) = run.values.get(PER_THREAD)
        && run.cell.tasks > 0
    {
        run.values.insert(RATE.to_string(), rate * f64::from(run.cell.tasks));
    }
    true
}

fn rate_of(unit: &str) -> Option<f64> {
    RATES.iter().find(|(known, _)| known.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor)
}

/// Reads a row of `perf bench numa`: "main,  6.801, secs,  runtime-max/thread"; returns whether it is one.
fn read_row(foreign: &mut Foreign, run: &mut ForeignRun, line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let ["main", value, unit, name] = fields[..] else { return false };
    let Some(value) = value.parse::<f64>().ok().filter(|value| value.is_finite()) else {
        return false;
    };
    let (unit, better) = match unit {
        "secs" => ("s", Lower),
        "nsecs" => ("ns", Lower),
        "GB/sec" => ("GB/s", Higher),
        unit => (unit, Neither),
    };
    let metric = format!("perf-bench.{}", metric_word(name));
    foreign.describe(&metric, unit, better);
    run.values.insert(metric, value);
    true
}

fn finished(mut run: ForeignRun) -> ForeignRun {
    if run.values.is_empty() {
        let reason = "the output has no result that is known: was the benchmark interrupted?";
        run.failed = Some(reason.to_string());
    }
    run
}
