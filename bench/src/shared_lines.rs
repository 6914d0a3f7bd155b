//! Whether `knee conflicts --user` finds the line that a program's threads share: programs in C, drawn from the seed, half
//! of them with a planted line and half without. What is right follows from how a program is made.

use std::env::temp_dir;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory};

/// Programs of a score. Scores to be reported are of seeds that were named before: 42001 to 42003.
const PROGRAMS: usize = 60;

/// Steps of a thread where time is measured, and such programs.
const LONG: u32 = 3_000_000;
const LONG_PROGRAMS: usize = 6;

/// The largest slowdown of a program whose accesses are watched.
const SLOWDOWN_MAX: f64 = 60.0;

const PRELUDE: &str = include_str!("../lines/prelude.c");

/// A kind of program: its name, its step, and whether CPUs need the same bytes of the planted line.
struct Kind {
    name: &'static str,
    step: &'static str,
    sharing: &'static str,
    /// A part of the name that the planted line must have; what lies on the heap has no name.
    named: &'static str,
}

macro_rules! kind {
    ($name:literal, $sharing:literal, $named:literal) => {
        Kind {
            name: $name,
            step: include_str!(concat!("../lines/", $name, ".c")),
            sharing: $sharing,
            named: $named,
        }
    };
}

static KINDS: [Kind; 10] = [
    kind!("counters", "false", "planted"),
    kind!("settings", "false", "planted"),
    kind!("total", "true", "planted"),
    kind!("mutex", "true", "planted"),
    kind!("readers", "true", "planted"),
    kind!("references", "true", "planted"),
    kind!("stack", "true", "planted"),
    kind!("heap", "false", ""),
    kind!("flag", "true", "planted"),
    kind!("spin", "true", "planted"),
];

/// A drawn program.
struct Drawn {
    kind: &'static Kind,
    is_shared: bool,
    threads: u32,
    iterations: u32,
    size: u32,
    level: &'static str,
}

impl Drawn {
    fn draw(random: &mut Xoshiro256PlusPlus, is_shared: bool) -> Drawn {
        Drawn {
            kind: KINDS.choose(random).expect("there are kinds"),
            is_shared,
            threads: random.random_range(2..=6),
            iterations: random.random_range(2000..=20_000),
            size: 1 << random.random_range(3..=7),
            level: ["-O1", "-O2", "-O3"].choose(random).expect("there are levels"),
        }
    }

    fn name(&self) -> String {
        let shared = if self.is_shared { "shared" } else { "own" };
        let Drawn { kind, threads, iterations, size, level, .. } = self;
        format!("{}, {shared}, {threads} threads × {iterations}, {size} bytes, {level}", kind.name)
    }

    fn compile(&self, home: &Path) -> Result<()> {
        fs::write(home.join("program.c"), format!("{PRELUDE}\n{}", self.kind.step))?;
        let mut compiler = Command::new("cc");
        compiler.args([self.level, "-pthread", "-o", "program", "program.c"]).current_dir(home);
        for (name, value) in [
            ("SHARED", u32::from(self.is_shared)),
            ("THREADS", self.threads),
            ("ITERATIONS", self.iterations),
            ("SIZE", self.size),
        ] {
            compiler.arg(format!("-D{name}={value}"));
        }
        let output = compiler.output().context("starting cc")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "compiling {}: {said}", self.name());
        Ok(())
    }

    /// Whether a row is the planted line.
    fn is_planted(&self, row: &Value) -> bool {
        let is_named = row["member"].as_str().is_some_and(|name| name.contains(self.kind.named));
        row["sharing"] == self.kind.sharing && is_named
    }
}

/// The rows of drawn programs, against what is right.
pub fn measure(bench: &mut Bench, _: &Options) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let (mut found, mut accused, mut others) = (0, 0, 0);
    let mut seconds = Vec::new();
    for number in 0..PROGRAMS {
        let drawn = Drawn::draw(&mut bench.random, number % 2 == 0);
        drawn.compile(home.path())?;
        let since = Instant::now();
        let rows = rows(bench, home.path())?;
        seconds.push(since.elapsed().as_secs_f64());
        let is_found = rows.iter().any(|row| drawn.is_planted(row));
        found += u32::from(drawn.is_shared && is_found);
        accused += u32::from(!drawn.is_shared && !rows.is_empty());
        others += rows.iter().filter(|row| drawn.is_shared && !drawn.is_planted(row)).count();
        eprintln!("shared-lines, {}: {} rows", drawn.name(), rows.len());
        if drawn.is_shared != is_found || (!drawn.is_shared && !rows.is_empty()) {
            let brief = |row: &Value| {
                format!("  {} {} {}", row["member"], row["sharing"], row["transfers"])
            };
            rows.iter().map(brief).for_each(|text| eprintln!("{text}"));
        }
    }
    let slowdowns = slowdowns(bench, home.path())?;
    let planted = PROGRAMS.div_ceil(2) as f64;
    let figure = |what: &str, unit, limit, values| Figure {
        name: format!("shared-lines: {what}"),
        unit,
        limit,
        values,
    };
    Ok(vec![
        figure(
            "planted lines found, share",
            "",
            Limit::AtLeast(0.98),
            vec![f64::from(found) / planted],
        ),
        figure("healthy programs accused", "", Limit::AtMost(0.0), vec![f64::from(accused)]),
        figure("rows beside a planted line", "", Limit::None, vec![others as f64]),
        figure(
            "long programs: whole answer / program alone",
            "",
            Limit::AtMost(SLOWDOWN_MAX),
            slowdowns,
        ),
        figure("whole answer", "s", Limit::None, seconds),
    ])
}

/// How many times as long programs take that run long enough for it to matter.
fn slowdowns(bench: &mut Bench, home: &Path) -> Result<Vec<f64>> {
    let one = |bench: &mut Bench| -> Result<f64> {
        let drawn = Drawn::draw(&mut bench.random, true);
        Drawn { iterations: LONG, ..drawn }.compile(home)?;
        let since = Instant::now();
        let status = Command::new("./program").current_dir(home).status()?;
        ensure!(status.success(), "the program failed");
        let alone_s = since.elapsed().as_secs_f64();
        let since = Instant::now();
        rows(bench, home)?;
        Ok(since.elapsed().as_secs_f64() / alone_s)
    };
    (0..LONG_PROGRAMS).map(|_| one(bench)).collect()
}

/// The rows that matter, as the answer says.
fn rows(bench: &Bench, home: &Path) -> Result<Vec<Value>> {
    let mut command = bench.knee(home);
    let output =
        command.args(["conflicts", "--user", "./program", "--json"]).current_dir(home).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("reading what knee says: {said}"))?;
    let traced = &answer["traced"][0];
    let least = traced["least_transfers"].as_f64().context("the answer says what matters")?;
    let lines = traced["lines"].as_array().context("the answer has lines")?;
    let matters = |row: &&Value| row["transfers"][0].as_f64().is_some_and(|n| n >= least);
    Ok(lines.iter().filter(matters).cloned().collect())
}
