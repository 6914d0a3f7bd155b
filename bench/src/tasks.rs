//! The largest run: 4096 tasks start, run for 1 s and are reaped, timed from the command line
//! to the kept record.

use std::env::temp_dir;
use std::time::Instant;

use anyhow::Result;
use records::Form;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const REPEATS: usize = 5;

/// Wall times of the whole command, in both forms.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    [Form::Processes, Form::Threads].into_iter().map(|form| one_form(bench, form)).collect()
}

fn one_form(bench: &Bench, form: Form) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("4096 {}: {repeat} of {REPEATS}", form.name());
        let home = fresh_directory(&temp_dir())?;
        let mut command = bench.knee(home.path());
        command.args(["run", "getppid", "--tasks", "4096", "--cpus", "all", "--blocks", "1"]);
        command.args(["--seconds", "1", "--json", "--as", form.name(), "--dir"]).arg(home.path());
        let since = Instant::now();
        output(&mut command)?;
        values.push(since.elapsed().as_secs_f64());
    }
    Ok(Figure {
        name: format!("4096 {} started, run for 1 s, reaped", form.name()),
        unit: "s",
        limit: Limit::AtMost(5.0),
        values,
    })
}
