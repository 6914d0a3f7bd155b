//! Whether `knee check FILE.c` tells right from wrong: queues and locks in C, drawn from the seed, with and without one fault,
//! each compiled by gcc -O2, gcc -O3 and clang -O2. What is right follows from how a file is made.

mod drawn;

use std::env::temp_dir;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory};
use drawn::Drawn;

/// Files of a score. Scores to be reported are of seeds that were named before: 39001 to 39005, and 39006, which nobody
/// has seen yet.
const FILES: usize = 60;

/// The largest share of files and compilers that may be left unchecked.
const NOT_CHECKED_MAX: f64 = 0.1;

/// A compiler, and the level of its optimisation.
const COMPILERS: [(&str, &str); 3] = [("gcc", "-O2"), ("gcc", "-O3"), ("clang", "-O2")];

#[derive(Debug, Default)]
struct Score {
    searches: u32,
    wrongly_held: u32,
    wrongly_at_fault: u32,
    not_checked: u32,
    seconds: f64,
}

/// The verdicts of drawn files, against what is right. With `--records DIR` the files that were judged otherwise are kept there.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let mut score = Score::default();
    for index in 1..=FILES {
        let drawn = Drawn::draw(&mut bench.random);
        let file = home.path().join(format!("{:02}_{}.c", index, drawn.name()));
        fs::write(&file, drawn.text()).with_context(|| format!("writing {}", file.display()))?;
        for (compiler, level) in COMPILERS {
            let checked = check(bench, home.path(), &file, &drawn, (compiler, level))?;
            let verdict = checked["verdict"].as_str().context("a check has no verdict")?;
            let is_otherwise = score.add(&checked, verdict, drawn.is_right());
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            eprintln!("c-files, {name}, {compiler} {level}: {verdict}");
            if is_otherwise {
                eprintln!("  {checked:#}");
            }
            if let Some(keep) = options.records.as_ref().filter(|_| is_otherwise) {
                fs::create_dir_all(keep).context("making the folder for files")?;
                fs::copy(&file, keep.join(&*name)).context("keeping a file")?;
            }
        }
    }
    Ok(score.figures())
}

impl Score {
    /// Counts a verdict. Returns whether it is other than it should be.
    fn add(&mut self, checked: &Value, verdict: &str, is_right: bool) -> bool {
        let (held, at_fault) = (verdict == "holds", verdict == "wrong");
        self.searches += 1;
        self.seconds += checked["seconds"].as_f64().unwrap_or_default();
        self.wrongly_held += u32::from(held && !is_right);
        self.wrongly_at_fault += u32::from(at_fault && is_right);
        self.not_checked += u32::from(!held && !at_fault);
        held != is_right
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |what: &str, unit, limit, value| Figure {
            name: format!("c-files: {what}"),
            unit,
            limit,
            values: vec![value],
        };
        let not_checked = f64::from(self.not_checked) / f64::from(self.searches.max(1));
        vec![
            figure("searches", "", Limit::None, self.searches.into()),
            figure("wrong 'holds'", "", Limit::AtMost(0.0), self.wrongly_held.into()),
            figure("wrong 'WRONG'", "", Limit::AtMost(0.0), self.wrongly_at_fault.into()),
            figure("not checked, share", "", Limit::AtMost(NOT_CHECKED_MAX), not_checked),
            figure("searching", "s", Limit::None, self.seconds),
        ]
    }
}

fn check(
    bench: &Bench,
    home: &Path,
    file: &Path,
    drawn: &Drawn,
    (compiler, level): (&str, &str),
) -> Result<Value> {
    let mut command = bench.knee(home);
    command.env("CC", compiler).arg("check").arg(file).args(["--json", "--cflags", level]);
    command.args(["--memory", "x86", "--states", "3000000"]);
    command.args(["--threads", &drawn.tasks().to_string()]);
    command.args(["--acquires", &drawn.operations().to_string()]);
    let output = command.output().context("starting knee")?;
    let all: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("reading what it says: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    match all.as_array().and_then(|all| all.first()) {
        Some(checked) => Ok(checked.clone()),
        None => bail!("no file was checked"),
    }
}
