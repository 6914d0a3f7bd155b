//! The CSV of will-it-scale's runtest.py, for its plotter and for whatever reads it:
//!
//!     tasks,processes,processes_idle,threads,threads_idle,linear
//!     0,0,100,0,100,0
//!     1,1200000,0.00,1150000,0.00,1200000
//!
//! A value that is missing is -1, the format's own word for a run that failed: it has no
//! empty fields, and 0 would be a result. `linear` starts from the better form at the
//! fewest tasks.

use analysis::{Curve, CurveCell, curves};
use records::{Form, Opened, Pass};

use crate::curve_table::RATE;
use crate::loads::{lanes, loads, operation, parameters};

const HEADER: &str = "tasks,processes,processes_idle,threads,threads_idle,linear\n\
                      0,0,100,0,100,0\n";

/// One CSV file, and the title that the plotter wants beside it.
#[derive(Debug)]
pub struct WillItScale {
    /// Name of the file, without its ending.
    pub name: String,
    /// The workload.
    pub workload: String,
    /// The text.
    pub csv: String,
    /// What one operation is.
    pub title: String,
}

/// The files of a record: one for each load, counted in tasks.
pub fn will_it_scale(opened: &Opened) -> Vec<WillItScale> {
    let curves = curves(opened);
    let rates = loads(&curves).into_iter().filter(|load| load[0].point.pass == Pass::Rate);
    let lanes = rates.flat_map(|load| lanes(&load));
    // Where tasks stay the same, there is no axis to write.
    let lanes = lanes.filter(|lane| lane[0].tasks_per_cpu.is_some() || lane[0].point.cpus == 0);
    let mut files: Vec<WillItScale> = Vec::new();
    for lane in lanes {
        let point = lane[0].point;
        let variant = Some(point.variant.clone()).filter(|name| !name.is_empty());
        let words = [vec![point.workload.clone()], parameters(point), Vec::from_iter(variant)];
        // It becomes the name of a file.
        let name = words.concat().join("-").replace('/', "_");
        let title = operation(&opened.record, point).unwrap_or(&point.workload);
        files.push(WillItScale {
            name: unlike(&files, name),
            workload: point.workload.clone(),
            csv: text(&lane),
            title: title.to_string(),
        });
    }
    files
}

/// A name that no file has yet: loads may differ in what names do not tell.
fn unlike(files: &[WillItScale], name: String) -> String {
    let taken = |name: &String| files.iter().any(|file| file.name == *name);
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.clone()).chain(numbered).find(|n| !taken(n)).unwrap_or_default()
}

fn text(lane: &[&Curve]) -> String {
    let cells = || lane.iter().flat_map(|curve| &curve.cells);
    let mut counts: Vec<u32> = cells().map(|cell| cell.point.tasks).collect();
    counts.sort();
    counts.dedup();
    let first = cells().filter(|cell| cell.point.tasks == counts[0]);
    let best = first.filter_map(|cell| mean(cell, RATE)).fold(0.0, f64::max);
    let per_task = best / f64::from(counts[0]);
    let cell = |form: Form, tasks: u32| {
        let of_form = lane.iter().filter(|curve| curve.point.form == form);
        of_form.flat_map(|curve| &curve.cells).find(|cell| cell.point.tasks == tasks)
    };
    let mut text = HEADER.to_string();
    for tasks in counts {
        let rate = |form| cell(form, tasks).and_then(|cell| mean(cell, RATE)).unwrap_or(-1.0);
        let idle = |form| cell(form, tasks).and_then(host_idle_percent).unwrap_or(-1.0);
        text += &format!(
            "{tasks},{:.0},{:.2},{:.0},{:.2},{:.0}\n",
            rate(Form::Processes),
            idle(Form::Processes),
            rate(Form::Threads),
            idle(Form::Threads),
            per_task * f64::from(tasks)
        );
    }
    text
}

/// Idle share of the whole host, as will-it-scale prints it, not of the CPUs used.
fn host_idle_percent(cell: &CurveCell) -> Option<f64> {
    let ticks = |kinds: &[&str]| {
        kinds.iter().map(|kind| mean(cell, &format!("stat.all.{kind}_ticks"))).sum::<Option<f64>>()
    };
    let idle = ticks(&["idle", "iowait"])?;
    let busy = ticks(&["user", "nice", "system", "irq", "softirq", "steal"])?;
    (idle + busy > 0.0).then(|| 100.0 * idle / (idle + busy))
}

fn mean(cell: &CurveCell, metric: &str) -> Option<f64> {
    cell.spread(metric).map(|spread| spread.mean)
}
