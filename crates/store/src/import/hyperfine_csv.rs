//! The CSV of hyperfine --export-csv: for each command the mean of its runs, without the runs. Source:
//! hyperfine's README and the output of 1.15.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::Better::Lower;
use records::ReplicationUnit;

use crate::import::csv::rows;
use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount};

const LACKS: &[&str] = &[
    "only means over all runs are in the file, so a command counts as a single run: --export-json has \
     the runs",
    "CPUs, tasks, host and kernel are not recorded",
];

/// The columns with their metrics; all are times in seconds.
const COLUMNS: [(&str, &str); 7] = [
    ("mean", "time.elapsed_time"),
    ("stddev", "hyperfine.stddev_s"),
    ("median", "hyperfine.median_s"),
    ("user", "time.user_time"),
    ("system", "time.system_time"),
    ("min", "hyperfine.min_s"),
    ("max", "hyperfine.max_s"),
];

/// Columns of parameters begin with this.
const PARAMETER: &str = "parameter_";

/// Whether a text begins with the line of column names.
pub fn recognise(text: &str) -> bool {
    text.starts_with("command,mean,stddev,")
}

/// Reads a run for each command.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(COLUMNS[0].1, ReplicationUnit::Sample, LACKS);
    let mut rows = rows(file.text);
    let (_, heading) = rows.next().context("line 1: expected the line of column names")??;
    ensure!(
        heading.first().is_some_and(|name| name == "command"),
        "line 1: the first column is not 'command': expected the CSV of hyperfine --export-csv"
    );
    for (name, metric) in COLUMNS {
        ensure!(heading.iter().any(|column| column == name), "line 1: there is no column {name}");
        foreign.describe(metric, "s", Lower);
    }
    for row in rows {
        let (line, fields) = row?;
        ensure!(
            fields.len() == heading.len(),
            "line {line}: {} fields, but the line of column names has {}; is the file truncated?",
            fields.len(),
            heading.len()
        );
        let mut values = BTreeMap::new();
        let mut options = BTreeMap::new();
        for (column, text) in heading.iter().zip(&fields).skip(1) {
            if let Some(parameter) = column.strip_prefix(PARAMETER) {
                options.insert(parameter.to_string(), text.clone());
            }
            let Some((_, metric)) = COLUMNS.iter().find(|(name, _)| name == column) else {
                continue;
            };
            // A single run has no deviation.
            let value = if text.is_empty() { None } else { amount(text, line, column)? };
            values.extend(value.map(|value| (metric.to_string(), value)));
        }
        let mut cell = ForeignCell::new("command");
        if !file.alone {
            // Files are compared, so commands, which all of them have, distinguish cells.
            let key = BTreeMap::from([("command".to_string(), fields[0].clone())]);
            cell.parameters = if options.is_empty() { key } else { options.clone() };
        }
        let variant = file.alone.then(|| fields[0].clone());
        foreign.runs.push(ForeignRun { variant, cell, options, values, ..ForeignRun::default() });
    }
    Ok(foreign)
}
