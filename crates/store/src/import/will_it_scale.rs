//! The CSV of will-it-scale's runtest.py: for each number of tasks a row with rates and the host's idle
//! share, for processes and for threads. -1 stands for a run that failed.
//! Source: runtest.py of will-it-scale, as of 2026; nothing of it is copied.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::{Better, Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, count, csv, number};

const HEADER: [&str; 6] =
    ["tasks", "processes", "processes_idle", "threads", "threads_idle", "linear"];
const RATE: &str = "operations_per_s";
const IDLE: &str = "will-it-scale.idle_percent";

const LACKS: &[&str] = &[
    "each rate is one average over some seconds of one run: without several files of each variant \
     there is no replication and no verdict",
    "which CPUs the tasks had is not recorded: runtest.py gives each a CPU of its own",
    "the idle share is that of the whole host, including the warm-up",
    "the name of the test is only in the name of the file",
];

/// Whether the first line is that of runtest.py, or stands below its command.
pub fn recognise(text: &str) -> bool {
    const ABOVE_MAX: usize = 3;
    text.lines().take(ABOVE_MAX + 1).any(is_heading)
}

fn is_heading(line: &str) -> bool {
    line.trim_end().starts_with("tasks,processes,")
}

/// Reads a run for each row and form.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Sample, LACKS);
    foreign.describe(IDLE, "%", Better::Neither);
    let above = file.text.lines().position(is_heading).unwrap_or(0);
    let table: usize = file.text.split_inclusive('\n').take(above).map(str::len).sum();
    file.text.lines().take(above).for_each(|line| foreign.leave("lines above the table", line));
    let mut rows = csv::rows(&file.text[table..]);
    let expected = || format!("line 1: expected the columns {}", HEADER.join(","));
    let (_, header) = rows.next().transpose()?.with_context(expected)?;
    let column = |name: &str| header.iter().position(|heading| heading == name);
    let tasks_at = column("tasks").with_context(expected)?;
    let forms = [(Form::Processes, "processes"), (Form::Threads, "threads")];
    let forms = forms.map(|(form, name)| (form, column(name), column(&format!("{name}_idle"))));
    ensure!(forms.iter().any(|(_, rate, _)| rate.is_some()), "{}", expected());
    let mut seen = BTreeMap::new();
    for row in rows {
        let (line, fields) = row?;
        let line = line + above;
        ensure!(
            fields.len() == header.len(),
            "line {line}: {} fields, but the header has {}; is the file truncated?",
            fields.len(),
            header.len()
        );
        let tasks = count(&fields[tasks_at], line, "tasks")?;
        if let Some(before) = seen.insert(tasks, line) {
            anyhow::bail!("line {line}: {tasks} tasks are already in line {before}");
        }
        // The row of 0 tasks only starts the plot's lines at the origin.
        for (form, rate, idle) in forms.iter().filter(|_| tasks > 0) {
            let Some(rate) = rate else { continue };
            let rate = value(&fields[*rate], line, form.name())?;
            let idle = idle.map(|at| value(&fields[at], line, "idle")).transpose()?;
            foreign.runs.push(run(file, *form, tasks, rate, idle.flatten()));
        }
    }
    // A form without any rate was not run: runtest.py then has zeros or -1 in all rows.
    let has_run = |form| {
        let rates = foreign.runs.iter().filter(|run| run.cell.form == form && run.failed.is_none());
        rates.filter_map(|run| run.values.get(RATE)).any(|rate| *rate > 0.0)
    };
    let (processes, threads) = (has_run(Form::Processes), has_run(Form::Threads));
    foreign.runs.retain(|run| if run.cell.form == Form::Processes { processes } else { threads });
    for (form, was_run) in [("processes", processes), ("threads", threads)] {
        if !was_run {
            foreign.lacks.push(format!("it has no rate of {form}: these were not run"));
        }
    }
    Ok(foreign)
}

/// Parses a value; `None` for -1, which means that the run failed.
fn value(text: &str, line: usize, what: &str) -> Result<Option<f64>> {
    let value = number(text, line, what)?;
    ensure!(
        value.is_none_or(|v| v >= 0.0 || v == -1.0),
        "line {line}: {what} is {text}, must be -1 (failed) or not negative"
    );
    Ok(value.filter(|v| *v >= 0.0))
}

fn run(file: &File, form: Form, tasks: u32, rate: Option<f64>, idle: Option<f64>) -> ForeignRun {
    let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
    let workload = format!("will-it-scale.{stem}");
    let values = [(RATE, rate), (IDLE, idle)];
    let values = values.into_iter().filter_map(|(name, v)| Some((name.to_string(), v?)));
    ForeignRun {
        cell: ForeignCell { form, tasks, cpus: tasks, ..ForeignCell::new(workload) },
        values: values.collect(),
        failed: rate.is_none().then(|| "will-it-scale wrote -1: the run failed".to_string()),
        ..ForeignRun::default()
    }
}
