//! A table of a scan, as scripts and spreadsheets write it: a row for each number of CPUs, threads or clients, with a
//! rate or a time and whatever else was measured there. Columns of words say what was measured: they make cells.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use records::Better::{self, Lower};
use records::scanned::{CPUS, is_scanned};
use records::{ReplicationUnit, parse};

use crate::import::{
    File, Foreign, ForeignCell, ForeignRun, better_by_name, count, csv, metric_word, number,
};

const RATE: &str = "operations_per_s";
const TIME: &str = "time.elapsed_time";
const LACKS: &[&str] = &["host, kernel and the origin of the numbers are not recorded"];

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

/// Headings of times, with what a time of 1 is in s.
const TIMES: [(&str, f64); 9] = [
    ("time_s", 1.0),
    ("time_sec", 1.0),
    ("time_seconds", 1.0),
    ("seconds", 1.0),
    ("elapsed_s", 1.0),
    ("elapsed_sec", 1.0),
    ("runtime_s", 1.0),
    ("time_ms", 1e-3),
    ("elapsed_ms", 1e-3),
];
/// Headings of numbers that were set, not measured.
const SETTINGS: [&str; 14] = [
    "size",
    "batch",
    "batch_size",
    "block_size",
    "buffer_size",
    "value_size",
    "key_size",
    "bs",
    "capacity",
    "keys",
    "key_range",
    "iodepth",
    "depth",
    "shards",
];
/// Headings of what numbers repeats: rows of one cell are repeats anyway.
const REPEATS: [&str; 7] = ["run", "trial", "rep", "repeat", "repetition", "round", "iteration"];
/// Headings of what is compared.
const VARIANTS: [&str; 5] = ["variant", "version", "kernel", "commit", "build"];

/// Whether a column is a scan, with something measured beside it.
pub fn recognise(text: &str) -> bool {
    let (_, table) = table(text);
    let rows: Option<Vec<Vec<String>>> = csv::rows(&table).map(|row| Some(row.ok()?.1)).collect();
    let Some([header, rows @ ..]) = rows.as_deref() else { return false };
    let is_whole = rows.iter().all(|row| row.len() == header.len());
    let Some(axis) = axis(header, rows).filter(|_| is_whole && !rows.is_empty()) else {
        return false;
    };
    let columns = columns(header, axis, rows);
    columns.is_ok_and(|all| all.iter().any(|column| column.metric().is_some()))
}

/// The table without the comments above, and how many lines these are. A comment may be the header, and blanks may
/// separate the fields, as in files for gnuplot.
fn table(text: &str) -> (usize, Cow<'_, str>) {
    let mut comments = text.lines().take_while(|line| line.starts_with('#')).count();
    let is_number = |word: &str| parse::number(word).is_some();
    let fields = |line: &str| -> Vec<String> {
        let fields = line.split([',', ';', '\t', ' ']);
        fields.filter(|field| !field.is_empty()).map(str::to_string).collect()
    };
    let has_words = |line: &str| fields(line).iter().any(|field| !is_number(field));
    let has_header = text.lines().nth(comments).is_some_and(has_words);
    if !has_header && comments > 0 {
        comments -= 1;
    }
    let bytes: usize = text.split_inclusive('\n').take(comments).map(str::len).sum();
    let table = text[bytes..].trim_start_matches(['#', ' ']);
    let first = table.lines().next().unwrap_or_default();
    if first.contains([',', ';', '\t']) || first.split_whitespace().count() < 2 {
        return (comments, Cow::Borrowed(table));
    }
    let line = |line: &str| fields(line).join(",") + "\n";
    (comments, Cow::Owned(table.lines().map(line).collect()))
}

/// The column that is scanned, which has whole numbers: the first, or the only one with such a heading, unless the table is
/// of another format.
fn axis(header: &[String], rows: &[Vec<String>]) -> Option<usize> {
    let words: Vec<String> = header.iter().map(|heading| metric_word(heading)).collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let is_other = (has("metric") && has("value")) || (has("benchmark") && has("mode"));
    let is_whole = |at: usize| {
        rows.iter().all(|row| row.get(at).is_none_or(|field| count(field, 0, "").is_ok()))
    };
    let mut axes = (0..words.len()).filter(|at| is_scanned(&words[*at]) && is_whole(*at));
    let first = axes.next().filter(|_| !is_other)?;
    let has_rate = header.iter().any(|heading| rate_of(heading).is_some());
    (axes.next().is_none() || (first == 0 && has_rate)).then_some(first)
}

/// What a rate of 1 in a column is per second; `None` if the column has no rates.
fn rate_of(heading: &str) -> Option<f64> {
    factor(&RATES, heading)
}

fn factor(known: &[(&str, f64)], heading: &str) -> Option<f64> {
    let word = metric_word(heading);
    known.iter().find(|(known, _)| *known == word).map(|(_, factor)| *factor)
}

/// Reads a run for each row. Rows with the same number are repeats.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    let (comments, table) = table(file.text);
    let mut rows = csv::rows(&table);
    let (_, header) = rows.next().transpose()?.context("expected a header")?;
    let mut numbered = Vec::new();
    for row in rows {
        let (line, fields) = row?;
        ensure!(
            fields.len() == header.len(),
            "line {}: {} fields, but the header has {}; is the file truncated?",
            line + comments,
            fields.len(),
            header.len()
        );
        numbered.push((line + comments, fields));
    }
    let fields: Vec<Vec<String>> = numbered.iter().map(|(_, fields)| fields.clone()).collect();
    let Some(axis) = axis(&header, &fields) else {
        bail!(
            "the header: expected a column with the number of CPUs, threads or clients, and a column such as `tps` or \
             `ops/s`; the file has {}",
            header.join(", ")
        );
    };
    let columns = columns(&header, axis, &fields)?;
    for (metric, _, better) in columns.iter().filter_map(Column::metric) {
        foreign.describe(metric, "", better);
    }
    foreign.primary = primary(&columns).to_string();
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    for (line, fields) in numbered {
        let mut run = ForeignRun {
            cell: cell(&stem, &header[axis], &fields[axis], line)?,
            ..ForeignRun::default()
        };
        for (column, field) in columns.iter().zip(&fields) {
            match column {
                Column::Axis => (),
                Column::Metric(..) if is_missing(field.trim()) => (),
                Column::Metric(metric, factor, _) => {
                    let value = number(field, line, metric)?;
                    run.values.extend(value.map(|value| (metric.clone(), value * factor)));
                }
                Column::Parameter(name) => {
                    run.cell.parameters.insert(name.clone(), field.trim().to_string());
                }
                Column::Variant => run.variant = Some(field.trim().to_string()),
                Column::Left(what) => foreign.leave(what, field),
            }
        }
        if foreign.primary == RATE && !run.values.contains_key(RATE) {
            run.failed = Some("the row has no rate".to_string());
        }
        foreign.runs.push(run);
    }
    Ok(foreign)
}

/// What a column has.
enum Column {
    Axis,
    /// A metric, what its numbers are multiplied by, and its direction.
    Metric(String, f64, Better),
    Parameter(String),
    Variant,
    /// What neither was measured nor tells rows apart.
    Left(String),
}

impl Column {
    fn metric(&self) -> Option<(&String, f64, Better)> {
        let Column::Metric(name, factor, better) = self else { return None };
        Some((name, *factor, *better))
    }
}

/// The main metric: the rate, else the time, else the first.
fn primary(columns: &[Column]) -> &str {
    let metrics = || columns.iter().filter_map(Column::metric).map(|(name, ..)| &name[..]);
    let known = [RATE, TIME].into_iter().find(|known| metrics().any(|name| name == *known));
    known.or_else(|| metrics().next()).unwrap_or(RATE)
}

/// The columns. The first of the rates is that of the operations.
fn columns(header: &[String], axis: usize, rows: &[Vec<String>]) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for (at, heading) in header.iter().enumerate() {
        let word = metric_word(heading);
        ensure!(!word.is_empty(), "the header: column {} has no name", at + 1);
        let fields: Vec<&str> = rows.iter().map(|row| row[at].trim()).collect();
        let known = |metric: &str| {
            columns.iter().filter_map(Column::metric).any(|(name, ..)| name == metric)
        };
        let column = if at == axis {
            Column::Axis
        } else if VARIANTS.contains(&&word[..]) {
            Column::Variant
        } else if REPEATS.contains(&&word[..]) {
            Column::Left(format!("column {heading}"))
        } else if let Some(factor) = rate_of(heading).filter(|_| !known(RATE)) {
            Column::Metric(RATE.to_string(), factor, Better::Higher)
        } else if let Some(factor) = factor(&TIMES, heading).filter(|_| !known(TIME)) {
            Column::Metric(TIME.to_string(), factor, Lower)
        } else {
            other(word, heading, &fields, at < axis)
        };
        let is_twice = column.metric().is_some_and(|(name, ..)| known(name));
        ensure!(!is_twice, "the header: there are two columns {heading}");
        columns.push(column);
    }
    Ok(columns)
}

/// A column without a known heading: words and whole numbers before the axis tell rows apart, other numbers are measured.
fn other(word: String, heading: &str, fields: &[&str], is_before: bool) -> Column {
    let numbers: Option<Vec<f64>> =
        fields.iter().filter(|field| !is_missing(field)).map(|field| numeric(field)).collect();
    let is_time =
        |field: &&&str| field.contains(':') && field.starts_with(|c: char| c.is_ascii_digit());
    match numbers {
        Some(numbers) => {
            let is_whole = numbers.iter().all(|number| number.fract() == 0.0);
            if SETTINGS.contains(&&word[..]) || (is_before && is_whole) {
                return Column::Parameter(word);
            }
            let better = better_by_name(&word);
            Column::Metric(word, 1.0, better)
        }
        None if fields.iter().filter(is_time).count() == fields.len() => {
            Column::Left(format!("column {heading}"))
        }
        None => Column::Parameter(word),
    }
}

/// Whether a field says that there is no number.
fn is_missing(field: &str) -> bool {
    ["", "-", "na", "n/a", "null", "none"].contains(&&field.to_ascii_lowercase()[..])
}

/// A number, also one that is not finite.
fn numeric(field: &str) -> Option<f64> {
    parse::number(field).or_else(|| field.parse().ok())
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
