//! The logs of `pgbench --log`: a line for each transaction, or for each interval (`--aggregate-interval`). Source: pgbench(1)
//! of PostgreSQL 9.6 to 17.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use records::Better::{Higher, Lower, Neither};
use records::ReplicationUnit;

use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const RATE: &str = "operations_per_s";
const LATENCY: &str = "pgbench.latency_average_ms";
const LACKS: &[&str] = &[
    "each thread of pgbench writes a log of its own: the rate is that of one file",
    "transactions, options, the server, CPUs, host and kernel are not recorded",
];
const SAMPLED: &str = "whether all transactions were logged (--sampling-rate) is not recorded: the rate is that of those logged";
const LAST: &str =
    "the length of the last interval is not recorded: the rate is that of the intervals before it";

/// Names of what stands behind an interval's latencies, each a sum over its transactions.
const SUMS: [&str; 6] = [
    "skipped_transactions",
    "retried_transactions",
    "retries",
    "serialization_failures",
    "deadlock_failures",
    "other_failures",
];

/// Whether each line is one of a log. Other tables of numbers have no times of this age.
pub fn recognise(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    let is_log = |line: &str| interval(line).is_some() || transaction(line).is_some();
    lines.peek().is_some() && lines.all(is_log)
}

/// Reads the log as one run; its seconds or intervals are samples.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    let lines = || file.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let refused = |at: usize, what: &str| format!("line {}: not {what} of pgbench --log", at + 1);
    let is_intervals = lines().next().is_some_and(|(_, line)| interval(line).is_some());
    let run = if is_intervals {
        let all =
            lines().map(|(at, line)| interval(line).with_context(|| refused(at, "an interval")));
        foreign.lacks.push(LAST.to_string());
        of_intervals(&all.collect::<Result<Vec<_>>>()?)
    } else {
        let all = lines()
            .map(|(at, line)| transaction(line).with_context(|| refused(at, "a transaction")));
        foreign.lacks.push(SAMPLED.to_string());
        of_transactions(&mut foreign, &all.collect::<Result<Vec<_>>>()?)?
    };
    for name in run.values.keys().filter(|name| *name != RATE) {
        let (unit, better) = match name.as_str() {
            name if name.ends_with("_ms") => ("ms", Lower),
            "pgbench.transactions" => ("1", Neither),
            _ => ("1", Lower),
        };
        foreign.describe(name, unit, better);
    }
    foreign.describe(RATE, "1/s", Higher);
    foreign.runs.push(run);
    Ok(foreign)
}

fn is_epoch(seconds: f64) -> bool {
    // 2001 to 2286.
    (1e9..1e10).contains(&seconds) && seconds.fract() == 0.0
}

/// The numbers of an interval: its start, transactions, and four of their latencies in us; then maybe those of the
/// schedule's lag, and counts.
fn interval(line: &str) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.iter().all(|n| n.is_finite() && *n >= 0.0))?;
    ([6, 10, 11, 15, 16].contains(&numbers.len()) && is_epoch(numbers[0])).then_some(numbers)
}

fn of_intervals(all: &[Vec<f64>]) -> ForeignRun {
    let mut run = ForeignRun { cell: ForeignCell::new("pgbench"), ..ForeignRun::default() };
    run.values = totals(all);
    let [before @ .., last] = all else { return run };
    let span = before.first().map_or(0.0, |first| last[0] - first[0]);
    if span > 0.0 {
        let done: f64 = before.iter().map(|numbers| numbers[1]).sum();
        run.values.insert(RATE.to_string(), done / span);
    }
    for (numbers, next) in all.iter().zip(all.iter().skip(1).map(Some).chain([None])) {
        let mut sample = totals(std::slice::from_ref(numbers));
        let length = next.map(|next| next[0] - numbers[0]).filter(|length| *length > 0.0);
        sample.extend(length.map(|length| (RATE.to_string(), numbers[1] / length)));
        run.samples.push(sample);
    }
    run
}

/// What intervals say together.
fn totals(all: &[Vec<f64>]) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let sum = |at: usize| all.iter().filter_map(|numbers| numbers.get(at)).sum::<f64>();
    let done = || all.iter().filter(|numbers| numbers[1] > 0.0);
    let smallest = |at: usize| done().filter_map(|n| n.get(at).copied()).reduce(f64::min);
    let largest = |at: usize| done().filter_map(|n| n.get(at).copied()).reduce(f64::max);
    let transactions = sum(1);
    let mut put = |name: &str, value: Option<f64>| {
        let value = value.filter(|value| value.is_finite());
        values.extend(value.map(|value| (format!("pgbench.{name}"), value)));
    };
    put("transactions", Some(transactions));
    let fields = all.iter().map(Vec::len).min().unwrap_or(0);
    for (at, what) in [(2, "latency"), (6, "schedule_lag")] {
        if at + 4 <= fields {
            let mean = sum(at) / transactions;
            let deviation = (sum(at + 1) / transactions - mean * mean).max(0.0).sqrt();
            put(&format!("{what}_average_ms"), Some(mean / 1e3));
            put(&format!("{what}_stddev_ms"), Some(deviation / 1e3));
            put(&format!("{what}_min_ms"), smallest(at + 2).map(|us| us / 1e3));
            put(&format!("{what}_max_ms"), largest(at + 3).map(|us| us / 1e3));
        }
    }
    for (at, name) in SUMS.iter().enumerate().filter(|(at, _)| at + 10 < fields) {
        put(name, Some(sum(at + 10)));
    }
    values
}

/// A line of a transaction.
struct Transaction<'a> {
    client: &'a str,
    script: &'a str,
    /// `None` if it was skipped or failed; then the word that says so.
    latency_us: Result<f64, &'a str>,
    /// When it ended, since 1970.
    ended_us: f64,
    lag_us: Option<f64>,
    retries: Option<f64>,
}

fn transaction(line: &str) -> Option<Transaction<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [client, number, latency, script, seconds, us, rest @ ..] = &words[..] else {
        return None;
    };
    let count = |word: &str| word.parse::<u64>().ok().map(|count| count as f64);
    let (seconds, us) = (count(seconds)?, count(us)?);
    let numbers: Option<Vec<f64>> = rest.iter().map(|word| count(word)).collect();
    let numbers = numbers.filter(|numbers| numbers.len() <= 2)?;
    let is_line = [client, number, script].iter().all(|word| count(word).is_some());
    let latency_us = match count(latency) {
        Some(us) => Ok(us),
        None if latency.chars().all(|c| c.is_ascii_lowercase()) => Err(*latency),
        None => return None,
    };
    (is_line && is_epoch(seconds) && us < 1e6).then_some(Transaction {
        client,
        script,
        latency_us,
        ended_us: seconds * 1e6 + us,
        lag_us: numbers.first().copied(),
        retries: numbers.get(1).copied(),
    })
}

fn of_transactions(foreign: &mut Foreign, all: &[Transaction]) -> Result<ForeignRun> {
    let clients: BTreeSet<&str> = all.iter().map(|one| one.client).collect();
    let scripts: BTreeSet<&str> = all.iter().map(|one| one.script).collect();
    let cell = ForeignCell { tasks: clients.len() as u32, ..ForeignCell::new("pgbench") };
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    let done = || all.iter().filter_map(|one| Some((one, one.latency_us.ok()?)));
    let mut latencies: Vec<f64> = done().map(|(_, us)| us / 1e3).collect();
    ensure!(!latencies.is_empty(), "no transaction succeeded");
    latencies.sort_by(f64::total_cmp);
    let start = done().map(|(one, us)| one.ended_us - us).fold(f64::INFINITY, f64::min);
    let end = done().map(|(one, _)| one.ended_us).fold(0.0, f64::max);
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let average = mean(&latencies);
    let squares: Vec<f64> = latencies.iter().map(|ms| (ms - average).powi(2)).collect();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share).round() as usize];
    let mut put = |name: &str, value: f64| run.values.insert(format!("pgbench.{name}"), value);
    put("transactions", latencies.len() as f64);
    put("latency_average_ms", average);
    put("latency_stddev_ms", mean(&squares).sqrt());
    for (name, share) in [("min", 0.0), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)] {
        put(&format!("latency_{name}_ms"), at(share));
    }
    let lags: Vec<f64> = all.iter().filter_map(|one| Some(one.lag_us? / 1e3)).collect();
    if !lags.is_empty() {
        put("schedule_lag_average_ms", mean(&lags));
        put("schedule_lag_max_ms", lags.iter().copied().fold(0.0, f64::max));
    }
    let retries: Vec<f64> = all.iter().filter_map(|one| one.retries).collect();
    if !retries.is_empty() {
        put("retries", retries.iter().sum());
    }
    for word in all.iter().filter_map(|one| one.latency_us.err()) {
        *run.values.entry(format!("pgbench.{word}_transactions")).or_default() += 1.0;
    }
    if scripts.len() > 1 {
        for script in scripts {
            let of: Vec<f64> =
                done().filter(|(one, _)| one.script == script).map(|(_, us)| us / 1e3).collect();
            let name = format!("pgbench.script_{script}_latency_average_ms");
            run.values.extend(Some((name, mean(&of))).filter(|_| !of.is_empty()));
        }
    }
    if end > start {
        run.values.insert(RATE.to_string(), latencies.len() as f64 * 1e6 / (end - start));
    }
    run.samples = seconds(done(), start, end);
    // Its number, script and time, in two words.
    let told = "single transactions, but for rates and latencies".to_string();
    *foreign.unread.entry(told).or_default() += 4 * all.len();
    Ok(run)
}

/// Rate and mean latency of each whole second; none if a damaged time makes them too many.
fn seconds<'a>(
    done: impl Iterator<Item = (&'a Transaction<'a>, f64)>,
    start: f64,
    end: f64,
) -> Vec<BTreeMap<String, f64>> {
    const MOST: usize = 1 << 20;
    let whole = Some(((end - start) / 1e6) as usize).filter(|whole| *whole <= MOST);
    let mut sums = vec![(0.0, 0.0); whole.unwrap_or(0)];
    for (one, us) in done {
        if let Some((count, sum)) = sums.get_mut(((one.ended_us - start) / 1e6) as usize) {
            *count += 1.0;
            *sum += us / 1e3;
        }
    }
    let sample = |(count, sum): (f64, f64)| {
        let mut sample = BTreeMap::from([(RATE.to_string(), count)]);
        sample.extend((count > 0.0).then(|| (LATENCY.to_string(), sum / count)));
        sample
    };
    sums.into_iter().map(sample).collect()
}
