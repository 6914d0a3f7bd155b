//! The line of CSV that bonnie++ prints last, of 1.96 to 1.98. What it prints above is for people. Source: `bon_csv2html(1)`.

use anyhow::{Result, ensure};
use records::Better::{Higher, Lower, Neither};
use records::{ReplicationUnit, parse};

use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const LACKS: &[&str] = &[
    "one line is one run: replication needs several lines or files",
    "a rate of which bonnie++ prints +++ was measured in too short a time, and is missing",
    "CPUs, kernel and file system are not recorded",
];

/// What was measured, in the order of the rates: in KiB/s, then in operations/s.
const BLOCKS: [&str; 5] = ["putc", "put_block", "rewrite", "getc", "get_block"];
const FILES: [&str; 6] =
    ["seq_create", "seq_stat", "seq_delete", "random_create", "random_stat", "random_delete"];
/// Fields before the rates, between the rates of blocks and of files, and in all.
const FIRST: usize = 7;
const SETTINGS: [(usize, &str); 7] = [
    (3, "concurrency"),
    (5, "file_size"),
    (6, "chunk_size"),
    (19, "files"),
    (20, "size_max"),
    (21, "size_min"),
    (22, "directories"),
];
const FIELDS: usize = 48;

/// Whether a line is bonnie++'s.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| fields(line).is_some())
}

fn fields(line: &str) -> Option<Vec<&str>> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let is_version = ["1.96", "1.97", "1.98"].contains(&fields[0]);
    (is_version && fields.len() >= FIELDS).then_some(fields)
}

/// Reads a run for each line.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("bonnie.put_block_kb_per_s", ReplicationUnit::Run, LACKS);
    for (index, line) in file.text.lines().enumerate() {
        match fields(line) {
            Some(fields) => {
                let run = run(&mut foreign, &fields, index + 1)?;
                foreign.runs.push(run);
            }
            None => foreign.leave("other lines", line),
        }
    }
    Ok(foreign)
}

fn run(foreign: &mut Foreign, fields: &[&str], line: usize) -> Result<ForeignRun> {
    let mut run = ForeignRun { cell: ForeignCell::new("bonnie"), ..ForeignRun::default() };
    for (at, name) in SETTINGS.iter().filter(|(at, _)| !fields[*at].is_empty()) {
        run.cell.parameters.insert(name.to_string(), fields[*at].to_string());
    }
    let mut put = |name: String, unit: &str, better, field: &str, number: Option<f64>| {
        let is_missing = field.is_empty() || field.starts_with('+');
        ensure!(is_missing || number.is_some(), "line {line}: {name} is '{field}', not a number");
        foreign.describe(&name, unit, better);
        run.values.extend(number.filter(|_| !is_missing).map(|number| (name, number)));
        Ok(())
    };
    let blocks = BLOCKS.iter().enumerate().map(|(at, test)| (FIRST + 2 * at, test, "kb_per_s"));
    let seeks = [(17, &"seeks", "per_s")].into_iter();
    let files = FILES.iter().enumerate().map(|(at, test)| (24 + 2 * at, test, "per_s"));
    for (order, (at, test, ending)) in blocks.chain(seeks).chain(files).enumerate() {
        let unit = if ending == "per_s" { "1/s" } else { "KiB/s" };
        let (rate, cpu, latency) = (fields[at], fields[at + 1], fields[36 + order]);
        put(format!("bonnie.{test}_{ending}"), unit, Higher, rate, parse::number(rate))?;
        put(format!("bonnie.{test}_cpu_percent"), "%", Neither, cpu, parse::number(cpu))?;
        put(format!("bonnie.{test}_latency_us"), "us", Lower, latency, in_us(latency))?;
    }
    let others =
        [fields[2], fields[4], fields[23]].into_iter().chain(fields[FIELDS..].iter().copied());
    let others = others.collect::<Vec<_>>().join(" ");
    foreign.leave("name of the host, seed and other fields", &others);
    Ok(run)
}

fn in_us(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[digits..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(parse::number(&text[..digits])? * factor)
}
