//! A line of a benchmark over years: `knee watch` reads it, judges all its comparisons and draws its page.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const POINTS: usize = 10_000;
const CASES: usize = 10;
const METRICS: usize = 10;
const RUNS: usize = 5;
/// Every so many points, chance or the host suggests a change of a case, and a comparison refutes it.
const SUSPICION_EVERY: usize = 5;
/// Every so many points, all metrics of a case change by this, up and down in turns.
const CHANGE_EVERY: usize = 250;
const CHANGE: f64 = 0.05;
const PAIRS: usize = 16;
const NOISE: f64 = 0.02;
const REPEATS: usize = 5;

/// Wall times of `knee watch` on a long line of many series.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let home = fresh_directory(&std::env::temp_dir())?;
    eprintln!("writing {POINTS} points of {} series", CASES * METRICS);
    write_line(home.path(), &mut bench.random)?;
    let mut values = Vec::new();
    for _ in 0..REPEATS {
        let mut command = bench.knee(home.path());
        command.args(["watch", "line.toml", "--html", "page.html"]).current_dir(home.path());
        let since = Instant::now();
        let said = output(&mut command)?.stdout;
        values.push(since.elapsed().as_secs_f64());
        let said = String::from_utf8_lossy(&said);
        ensure!(said.contains("This line was right in"), "{said}");
    }
    Ok(vec![Figure {
        name: format!(
            "a line of {POINTS} points of {} series read, judged and drawn",
            CASES * METRICS
        ),
        unit: "s",
        limit: Limit::AtMost(2.0),
        values,
    }])
}

fn commit(point: usize) -> String {
    format!("{point:040x}")
}

/// What a case is at a point, as a logarithm.
fn level(case: usize, point: usize) -> f64 {
    let changes = point / CHANGE_EVERY;
    let of_case = |change: &usize| change % CASES == case;
    let sign = |change: usize| if change / CASES % 2 == 1 { CHANGE } else { -CHANGE };
    (1..=changes).filter(of_case).map(sign).sum()
}

fn write_line(home: &Path, random: &mut Xoshiro256PlusPlus) -> Result<()> {
    let cases: Vec<String> = (0..CASES).map(|case| format!("\"case{case}\"")).collect();
    let mut text = format!(
        "git = \".\"\nanchor = \"{}\"\nbuild = \"make\"\ncommand = \"bench {{case}}\"\ncase = [{}]\nsmallest_effect = 0.02\n",
        commit(0),
        cases.join(", ")
    );
    for metric in 1..METRICS {
        write!(text, "\n[[metrics]]\nname = \"metric{metric}\"\nvalue = \"{metric}: {{}}\"\n")?;
    }
    fs::write(home.join("line.toml"), text)?;
    let mut file = BufWriter::new(File::create(home.join("line.points.ndjson"))?);
    let mut experiment: Vec<String> = [
        ("anchor", commit(0).as_str()),
        ("build", "make"),
        ("command", "bench {case}"),
        ("cpus", "all"),
        ("higher_is_better", "false"),
        ("metric", ""),
        ("product", ""),
        ("value", ""),
    ]
    .map(|(name, value)| format!("\"{name}\":\"{value}\""))
    .to_vec();
    experiment.extend(
        (1..METRICS).map(|metric| format!("\"metric metric{metric}\":\"lower {metric}: {{}}\"")),
    );
    writeln!(
        file,
        "{{\"event\":\"begun\",\"version\":2,\"knee\":\"0\",\"at\":\"2026-01-01T00:00:00Z\",\"experiment\":{{{}}},\
         \"anchor_key\":\"anchor\"}}",
        experiment.join(",")
    )?;
    for point in 0..POINTS {
        write_point(&mut file, point, random)?;
        let case = point / CHANGE_EVERY % CASES;
        if point > 0 && point % CHANGE_EVERY == 0 {
            write_compared(&mut file, point, case, random)?;
        } else if point % SUSPICION_EVERY == 1 && point > 1 {
            write_compared(&mut file, point, point / SUSPICION_EVERY % CASES, random)?;
        }
    }
    Ok(file.flush()?)
}

fn series(case: usize, metric: usize) -> String {
    match metric {
        0 => format!("case{case} wall_s"),
        metric => format!("case{case} metric{metric}"),
    }
}

fn noise(random: &mut Xoshiro256PlusPlus) -> f64 {
    // Nearly normal, and quick to draw.
    let sum: f64 = (0..4).map(|_| random.random::<f64>()).sum();
    NOISE * (sum - 2.0) * 3_f64.sqrt()
}

fn write_point(file: &mut impl Write, point: usize, random: &mut Xoshiro256PlusPlus) -> Result<()> {
    let after = match point {
        0 => "null".to_string(),
        point => format!("\"{}\"", commit(point - 1)),
    };
    write!(
        file,
        "{{\"event\":\"point\",\"commit\":\"{0}\",\"subject\":\"Change number {point}\",\"date\":\"2026-01-01\",\
         \"after\":{after},\"at\":\"2026-01-01T00:00:00Z\",\"key\":\"{point}\",\"records\":[\"record {point}\"],\"values\":{{",
        commit(point)
    )?;
    for case in 0..CASES {
        for metric in 0..METRICS {
            let comma = if case + metric > 0 { "," } else { "" };
            write!(file, "{comma}\"{}\":{{\"anchor\":[", series(case, metric))?;
            let anchor: Vec<f64> = (0..RUNS).map(|_| noise(random)).collect();
            for (at, log) in anchor.iter().enumerate() {
                write!(file, "{}{log:.6}", if at > 0 { "," } else { "" })?;
            }
            write!(file, "],\"ratios\":[")?;
            for (at, log) in anchor.iter().enumerate() {
                let ratio = level(case, point) + noise(random) - log;
                write!(file, "{}{ratio:.6}", if at > 0 { "," } else { "" })?;
            }
            write!(file, "]}}")?;
        }
    }
    Ok(writeln!(file, "}},\"disturbed\":0,\"host\":null}}")?)
}

fn write_compared(
    file: &mut impl Write,
    point: usize,
    case: usize,
    random: &mut Xoshiro256PlusPlus,
) -> Result<()> {
    write!(
        file,
        "{{\"event\":\"compared\",\"series\":\"{}\",\"before\":\"{}\",\"after\":\"{}\",\"at\":\"2026-01-01T00:00:00Z\",\
         \"step\":{},\"probability\":0.5,\"followed\":1,\"at_once\":true,\"pairs\":[",
        series(case, 0),
        commit(point - 1),
        commit(point),
        level(case, point) - level(case, point - 1) + noise(random) / 2.0
    )?;
    for pair in 0..PAIRS {
        let comma = if pair > 0 { "," } else { "" };
        write!(file, "{comma}{{\"layout\":{},\"values\":{{", 1 + pair % 8)?;
        for metric in 0..METRICS {
            let comma = if metric > 0 { "," } else { "" };
            let older = level(case, point - 1) + noise(random);
            let newer = level(case, point) + noise(random);
            write!(file, "{comma}\"{}\":[{older:.6},{newer:.6}]", series(case, metric))?;
        }
        write!(file, "}}}}")?;
    }
    Ok(writeln!(file, "],\"records\":[\"record of {point}\"]}}")?)
}
