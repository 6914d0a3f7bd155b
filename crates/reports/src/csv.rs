//! A record as tidy CSV: one line a metric and run, so that any tool can group and pivot.
//!
//! | column     | what it holds                                                        |
//! | ---------- | -------------------------------------------------------------------- |
//! | record     | id of the record                                                     |
//! | host       | the host that made the run; of a fleet, the node; empty if unknown   |
//! | workload   | its name                                                             |
//! | semantics  | version of what one operation does: never compare different ones     |
//! | as         | `processes` or `threads`                                             |
//! | cpus       | CPUs used; empty if an imported result has no count                 |
//! | tasks      | tasks, pinned to them in turn; empty if unknown                     |
//! | placement  | how the CPUs were chosen                                             |
//! | parameters | all parameters, a JSON object                                        |
//! | pass       | `rate`; `latency` where each operation was timed                     |
//! | dir        | directory whose file system was measured                             |
//! | variant    | which variant of its cell it is; empty where nothing is compared     |
//! | block      | pass over all points, from 0                                         |
//! | run        | number of the run in order of execution, from 0                      |
//! | placebo    | 1 for a run that repeats another only to see how far equal things    |
//! |            | differ: leave it out of every comparison; else 0                     |
//! | left_out   | why comparisons leave the run out: what the host did to it or to     |
//! |            | another run of its block; empty if it counts                         |
//! | started    | when, in UTC (RFC 3339)                                              |
//! | metric     | name of a metric or counter; `failed` for a run that does not count  |
//! | value      | its value in base units; 1 for `failed`                              |
//!
//! What a run could not measure has no line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use records::{Opened, Outcome, Pass, Point, Run};

const HEADER: &str = "record,host,workload,semantics,as,cpus,tasks,placement,parameters,pass,dir,\
                      variant,block,run,placebo,left_out,started,metric,value";

/// Writes the header.
pub fn csv_header(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")
}

/// Writes all runs of a record.
pub fn csv(opened: &Opened, out: &mut impl Write) -> io::Result<()> {
    let left_out = analysis::left_out(opened);
    for run in &opened.runs {
        let Some(point) = opened.record.points.get(run.point as usize) else { continue };
        let why = left_out.get(&run.run).map_or("", String::as_str);
        let host = opened.record.host_of_run(run.run).unwrap_or_default();
        let place = place([&opened.record.id, host], point, run, why);
        for (metric, value) in values(run) {
            writeln!(out, "{place},{},{value}", quoted(metric))?;
        }
    }
    Ok(())
}

/// All columns before the metric.
fn place([id, host]: [&str; 2], point: &Point, run: &Run, left_out: &str) -> String {
    let parameters = serde_json::to_string(&point.parameters).expect("a map of texts is JSON");
    let fields = [
        id.to_string(),
        host.to_string(),
        point.workload.clone(),
        point.semantics.to_string(),
        point.form.name().to_string(),
        known(point.cpus),
        known(point.tasks),
        point.placement.to_string(),
        parameters,
        pass_name(point.pass).to_string(),
        point.dir.display().to_string(),
        point.variant.clone(),
        run.block.to_string(),
        run.run.to_string(),
        u8::from(run.placebo).to_string(),
        left_out.to_string(),
        run.started.to_string(),
    ];
    fields.map(|field| quoted(&field)).join(",")
}

/// A number; empty if it is 0, which means unknown.
fn known(n: u32) -> String {
    if n > 0 { n.to_string() } else { String::new() }
}

/// The word for a pass in data.
pub fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::Rate => "rate",
        Pass::Latency => "latency",
    }
}

fn values(run: &Run) -> BTreeMap<&str, f64> {
    match &run.outcome {
        Outcome::Failed { .. } => BTreeMap::from([("failed", 1.0)]),
        Outcome::Finished { metrics, counters, .. } => {
            let counters = counters.iter().map(|(name, n)| (name, n as f64));
            counters.chain(metrics.iter()).collect()
        }
    }
}

/// A field quoted as in RFC 4180.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field.to_string()
}
