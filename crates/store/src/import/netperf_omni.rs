//! The CSV of netperf's omni tests (`-o`): below the line that names the test, a line of headings and one of values. Source:
//! netperf's `nettest_omni.c`.

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{ReplicationUnit, parse};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "one output is one run: replication needs several files",
    "both hosts, their CPUs and kernels are not recorded",
];
const RATE: &str = "operations_per_s";
const THROUGHPUT: &str = "Throughput";
const UNITS: &str = "Throughput Units";

/// Whether a line has the headings of throughput.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| headings(line).is_some())
}

fn headings(line: &str) -> Option<Vec<&str>> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    (fields.contains(&THROUGHPUT) && fields.contains(&UNITS)).then_some(fields)
}

/// Reads a run for each line of values.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("", ReplicationUnit::Run, LACKS);
    let mut workload = "netperf".to_string();
    let mut lines = file.text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some((test, _)) = line.split_once(" TEST from ") {
            workload = format!("netperf.{}", metric_word(test.trim_start_matches("MIGRATED ")));
        }
        let Some(headings) = headings(line) else {
            foreign.leave("other lines", line);
            continue;
        };
        let values = lines.next().map(|(_, line)| line.split(',').map(str::trim).collect());
        let values: Vec<&str> = values.with_context(|| format!("line {}: no values", at + 2))?;
        ensure!(
            values.len() == headings.len(),
            "line {}: {} fields, but the header has {}; is the file truncated?",
            at + 2,
            values.len(),
            headings.len()
        );
        let run = run(&mut foreign, &workload, &headings, &values);
        foreign.runs.push(run);
    }
    let first = foreign.runs.first().map(|run| run.values.contains_key(RATE));
    foreign.primary = if first == Some(true) { RATE } else { "netperf.throughput" }.to_string();
    Ok(foreign)
}

fn run(foreign: &mut Foreign, workload: &str, headings: &[&str], values: &[&str]) -> ForeignRun {
    let mut run = ForeignRun { cell: ForeignCell::new(workload), ..ForeignRun::default() };
    let all = || headings.iter().zip(values);
    let unit = all().find(|(heading, _)| **heading == UNITS).map_or("", |(_, unit)| *unit);
    for (heading, value) in all().filter(|(heading, _)| **heading != UNITS) {
        let Some(number) = parse::number(value) else {
            run.cell.parameters.insert(metric_word(heading), value.to_string());
            continue;
        };
        let (name, unit, better): (String, &str, Better) = match *heading {
            THROUGHPUT if unit == "Trans/s" => (RATE.to_string(), "1/s", Higher),
            THROUGHPUT => ("netperf.throughput".to_string(), unit, Higher),
            _ if heading.ends_with("Microseconds") => (called(heading), "us", Lower),
            _ => (called(heading), "1", Neither),
        };
        foreign.describe(&name, unit, better);
        run.values.insert(name, number);
    }
    run
}

fn called(heading: &str) -> String {
    format!("netperf.{}", metric_word(heading))
}
