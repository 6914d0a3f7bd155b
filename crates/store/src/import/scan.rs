//! A table of a scan, as scripts and spreadsheets write it: a row for each number of CPUs, threads or clients, and behind
//! it a rate and whatever else was measured there.

use anyhow::{Context, Result, bail, ensure};
use records::ReplicationUnit;

use crate::import::{
    File, Foreign, ForeignCell, ForeignRun, better_by_name, count, csv, metric_word, number,
    written_number,
};

const RATE: &str = "operations_per_s";
const LACKS: &[&str] = &["host, kernel and the origin of the numbers are not recorded"];

/// Headings of the first column that stand for CPUs; knee's own records have these, too.
const CPUS: [&str; 6] = ["cpu", "cpus", "core", "cores", "ncpus", "nproc"];
/// Other headings of the first column. The curve keeps their name.
const SCANNED: [&str; 16] = [
    "threads",
    "nthreads",
    "num_threads",
    "tasks",
    "procs",
    "processes",
    "clients",
    "connections",
    "users",
    "workers",
    "jobs",
    "goroutines",
    "concurrency",
    "parallelism",
    "senders",
    "readers",
];

/// Headings of rates, with what a rate of 1 is per second.
const RATES: [(&str, f64); 18] = [
    ("tps", 1.0),
    ("qps", 1.0),
    ("rps", 1.0),
    ("iops", 1.0),
    ("ops", 1.0),
    ("ops_s", 1.0),
    ("rate", 1.0),
    ("throughput", 1.0),
    ("requests_s", 1.0),
    ("req_s", 1.0),
    ("operations_s", 1.0),
    ("transactions_s", 1.0),
    ("operations_per_s", 1.0),
    ("ops_per_s", 1.0),
    ("kops", 1e3),
    ("kops_s", 1e3),
    ("mops", 1e6),
    ("mops_s", 1e6),
];

/// Whether the first column is a scan, and all the other fields are numbers.
pub fn recognise(text: &str) -> bool {
    let mut rows = csv::rows(behind_comments(text).1).map_while(Result::ok);
    let Some((_, header)) = rows.next() else { return false };
    let is_number =
        |field: &String| field.trim().is_empty() || written_number(field.trim()).is_some();
    let mut data = rows.map(|(_, fields)| fields).peekable();
    is_scan(&header)
        && data.peek().is_some()
        && data.all(|fields| fields.len() == header.len() && fields.iter().all(is_number))
}

/// The number of lines before the header that begin with `#`, and the text behind them.
fn behind_comments(text: &str) -> (usize, &str) {
    let comments = text.lines().take_while(|line| line.starts_with('#')).count();
    let bytes: usize = text.split_inclusive('\n').take(comments).map(str::len).sum();
    (comments, &text[bytes..])
}

fn is_scan(header: &[String]) -> bool {
    let first = metric_word(&header[0]);
    let is_known = CPUS.contains(&&first[..]) || SCANNED.contains(&&first[..]);
    is_known && header.iter().skip(1).any(|heading| rate_of(heading).is_some())
}

/// What a rate of 1 in a column is per second; `None` if the column has no rates.
fn rate_of(heading: &str) -> Option<f64> {
    let word = metric_word(heading);
    RATES.iter().find(|(known, _)| *known == word).map(|(_, per_s)| *per_s)
}

/// Reads a run for each row. Rows with the same number are repeats.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    let (comments, table) = behind_comments(file.text);
    let mut rows = csv::rows(table);
    let (_, header) = rows.next().transpose()?.context("expected a header")?;
    if !is_scan(&header) {
        bail!(
            "the header: expected the number of CPUs, threads or clients in the first column, and a column `tps` or `ops/s`; \
             the file has {}",
            header.join(", ")
        );
    }
    let columns = columns(&header)?;
    for Column { metric, .. } in columns.iter().filter(|column| column.metric != RATE) {
        foreign.describe(metric, "", better_by_name(metric));
    }
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    for row in rows {
        let (line, fields) = row?;
        let line = line + comments;
        ensure!(
            fields.len() == header.len(),
            "line {line}: {} fields, but the header has {}; is the file truncated?",
            fields.len(),
            header.len()
        );
        let mut run = ForeignRun {
            cell: cell(&stem, &header[0], &fields[0], line)?,
            ..ForeignRun::default()
        };
        for (Column { metric, factor }, field) in columns.iter().zip(&fields[1..]) {
            if !field.trim().is_empty() {
                let value = number(field, line, metric)?;
                run.values.extend(value.map(|value| (metric.clone(), value * factor)));
            }
        }
        if !run.values.contains_key(RATE) {
            run.failed = Some("the row has no rate".to_string());
        }
        foreign.runs.push(run);
    }
    Ok(foreign)
}

/// The metric of a column, and what its numbers are multiplied by.
struct Column {
    metric: String,
    factor: f64,
}

/// The columns behind the first. The first of the rates is that of the operations.
fn columns(header: &[String]) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for (at, heading) in header.iter().enumerate().skip(1) {
        let word = metric_word(heading);
        ensure!(!word.is_empty(), "the header: column {} has no name", at + 1);
        let rate = rate_of(heading).filter(|_| columns.iter().all(|column| column.metric != RATE));
        let column = match rate {
            Some(factor) => Column { metric: RATE.to_string(), factor },
            None => Column { metric: word, factor: 1.0 },
        };
        let is_twice = columns.iter().any(|known| known.metric == column.metric);
        ensure!(!is_twice, "the header: there are two columns {heading}");
        columns.push(column);
    }
    Ok(columns)
}

fn cell(workload: &str, heading: &str, field: &str, line: usize) -> Result<ForeignCell> {
    let at = count(field, line, heading)?;
    let cell = ForeignCell::new(workload);
    let word = metric_word(heading);
    Ok(if CPUS.contains(&&word[..]) {
        ForeignCell { cpus: at, tasks: at, ..cell }
    } else {
        ForeignCell { parameters: [(word, at.to_string())].into(), ..cell }
    })
}
