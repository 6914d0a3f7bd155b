//! What `openssl speed` prints: bytes per second of each algorithm over sizes of blocks, and operations per second of each
//! key. Source: `apps/speed.c`, and outputs of 1.0 to 4.0.

use anyhow::Result;
use records::Better::{Higher, Lower};
use records::ReplicationUnit;

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const BYTES: &str = "openssl.bytes_per_s";
const LACKS: &[&str] = &[
    "one output is one run: replication needs several files",
    "CPUs, host and kernel are not recorded",
];
const NO_SIZES: &str =
    "the sizes of blocks are not in the output: they are taken as openssl's own, 16 to 16384 bytes";
/// What openssl measures unless it is told otherwise.
const SIZES: [u32; 6] = [16, 64, 256, 1024, 8192, 16384];

/// Whether a text has openssl's options and a table.
pub fn recognise(text: &str) -> bool {
    let is_openssl = text.contains("options:") && text.contains("compiler:");
    is_openssl && text.lines().any(|line| !speeds(line).is_empty() || headings(line).is_some())
}

/// Reads a run for each algorithm and size, and for each key.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(BYTES, ReplicationUnit::Run, LACKS);
    let mut sizes: Option<Vec<u32>> = None;
    let mut columns: Vec<String> = Vec::new();
    for line in file.text.lines() {
        let speeds = speeds(line);
        if let Some(told) = sizes_in(line) {
            sizes = Some(told);
        } else if let Some(found) = headings(line) {
            columns = found;
        } else if !speeds.is_empty() {
            let told = sizes.clone().filter(|sizes| sizes.len() == speeds.len());
            if told.is_none() && !foreign.lacks.iter().any(|lack| lack == NO_SIZES) {
                foreign.lacks.push(NO_SIZES.to_string());
            }
            let sizes = told.unwrap_or_else(|| SIZES.to_vec());
            read_speeds(&mut foreign, line, &speeds, &sizes);
        } else if !read_key(&mut foreign, line, &columns) {
            foreign.leave("other lines", line);
        }
    }
    if !foreign.metrics.contains_key(BYTES) {
        let first = foreign.metrics.keys().find(|name| name.ends_with("_per_s"));
        foreign.primary = first.cloned().unwrap_or_else(|| BYTES.to_string());
    }
    Ok(foreign)
}

/// The sizes of the line `type   16 bytes   64 bytes …`, or of one child's `Got: +H:16:64 …`.
fn sizes_in(line: &str) -> Option<Vec<u32>> {
    if let Some(rest) = line.strip_prefix("Got: +H:").or_else(|| line.strip_prefix("+H:")) {
        let sizes = rest.split_whitespace().next()?;
        return sizes.split(':').map(|size| size.parse().ok()).collect();
    }
    let rest = line.strip_prefix("type ")?;
    let sizes = rest.split("bytes").map(str::trim).filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok()).collect()
}

/// The numbers of a line such as `sha256   771620.33k  2473074.16k …`, in bytes per second.
fn speeds(line: &str) -> Vec<f64> {
    let words = line.split_whitespace().rev();
    let number = |word: &str| word.strip_suffix('k')?.parse::<f64>().ok();
    let mut speeds: Vec<f64> = words.map_while(number).map(|speed| speed * 1000.0).collect();
    speeds.reverse();
    let is_named = line.split_whitespace().count() > speeds.len();
    if is_named { speeds } else { Vec::new() }
}

fn read_speeds(foreign: &mut Foreign, line: &str, speeds: &[f64], sizes: &[u32]) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = words[..words.len() - speeds.len()].join(" ");
    foreign.describe(BYTES, "B/s", Higher);
    for (speed, size) in speeds.iter().zip(sizes) {
        let mut run = ForeignRun {
            cell: ForeignCell::new(format!("openssl.{name}")),
            ..ForeignRun::default()
        };
        run.cell.parameters.insert("block_bytes".to_string(), size.to_string());
        run.values.insert(BYTES.to_string(), *speed);
        foreign.runs.push(run);
    }
    let more = speeds.len().saturating_sub(sizes.len());
    if more > 0 {
        *foreign.unread.entry("speeds of unknown sizes".to_string()).or_default() += more;
    }
}

/// The columns of the line `sign    verify    sign/s verify/s`, or `op      op/s`.
fn headings(line: &str) -> Option<Vec<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_heading = |word: &&str| word.chars().all(|c| c.is_alphabetic() || "/.".contains(c));
    let has_rate = words.iter().any(|word| word.ends_with("/s"));
    let is_whole = words.len() > 1 && words.len().is_multiple_of(2) && words.iter().all(is_heading);
    (has_rate && is_whole).then(|| words.iter().map(|word| word.to_string()).collect())
}

/// Reads a line such as `rsa 4096 bits 0.000510s 0.000008s   1959.9 129694.5`; returns whether it is one.
fn read_key(foreign: &mut Foreign, line: &str, columns: &[String]) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    if columns.is_empty() || words.len() <= columns.len() {
        return false;
    }
    let (name, fields) = words.split_at(words.len() - columns.len());
    let number = |(field, column): (&&str, &String)| {
        let is_rate = column.ends_with("/s");
        let number = if is_rate { Some(*field) } else { field.strip_suffix('s') };
        number.and_then(|number| number.parse::<f64>().ok())
    };
    let numbers: Option<Vec<f64>> = fields.iter().zip(columns).map(number).collect();
    let Some(numbers) = numbers else { return false };
    let cell = ForeignCell::new(format!("openssl.{}", name.join(" ")));
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    for (column, value) in columns.iter().zip(numbers) {
        let (name, unit, better) = match column.strip_suffix("/s") {
            Some(what) => (format!("openssl.{}_per_s", metric_word(what)), "1/s", Higher),
            None => (format!("openssl.{}_time_s", metric_word(column)), "s", Lower),
        };
        foreign.describe(&name, unit, better);
        run.values.insert(name, value);
    }
    foreign.runs.push(run);
    true
}
