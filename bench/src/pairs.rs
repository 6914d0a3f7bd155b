//! Everyday pairs: programs in two forms, of which one planted thing differs, or nothing. Scored is what `knee explain`
//! says of each: is its first cause the planted one, is its time that of runs without knee beside it, do its bounds of gain
//! hold, and does it call nothing the same that is not.
//!
//! The seed draws kinds and sizes. Rules must not be tuned on a seed that they are scored on.

mod drawn;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output, workspace};
use drawn::{EverydayPair, drawn};

/// Pairs that are drawn, unless `--drawn` says how many.
const PAIRS: usize = 40;
/// Runs without knee of each side, before it and after it.
const CLEAN: usize = 5;
/// How far a told time may be from that of clean runs.
const TIME_MAX: f64 = 0.10;

/// What knee said of a pair, against the truth.
struct PairScore {
    /// Whether the first cause is the planted one, or whether none was named where nothing was planted.
    is_right: bool,
    /// The largest distance of a told time from that of clean runs, as a share.
    time_off: f64,
    /// The largest distance of clean runs after knee's from those before, as a share: what the host does to equal runs.
    clean_off: f64,
    /// Whether the bound of the first cause is at least the measured gain; nothing where there is no bound.
    bound_holds: Option<bool>,
    /// Whether it says "the same" beside an interval that excludes 0.
    is_same_wrong: bool,
    seconds: f64,
}

/// Scores the pairs of the seed.
pub fn measure(_: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let seed = options.seed.context("pairs need a --seed, so that their score can be repeated")?;
    let knee = match &options.knee {
        Some(knee) => knee.canonicalize()?,
        None => std::env::current_exe()?.with_file_name("knee"),
    };
    let program = built()?;
    let number = if options.drawn > 0 { options.drawn } else { PAIRS };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pairs = drawn(&mut random, number, &program);
    let mut scores = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        if !options.planted.is_empty()
            && !options.planted.iter().any(|name| pair.name.contains(name))
        {
            continue;
        }
        eprintln!(
            "pair {} of {number}: {}: {} | {}",
            index + 1,
            pair.name,
            pair.lines[0],
            pair.lines[1]
        );
        match scored(&knee, pair) {
            Ok(score) => scores.push(score),
            Err(why) => {
                eprintln!("    failed: {why:#}");
                scores.push(PairScore {
                    is_right: false,
                    time_off: f64::INFINITY,
                    clean_off: f64::INFINITY,
                    bound_holds: None,
                    is_same_wrong: false,
                    seconds: f64::NAN,
                });
            }
        }
    }
    Ok(figures(seed, &scores))
}

fn built() -> Result<PathBuf> {
    let folder = workspace().join("target/bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let program = folder.join("everyday");
    let flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let source = workspace().join("bench/pairs/everyday.c");
    output(Command::new("cc").args(flags).arg(&program).arg(source))?;
    Ok(program)
}

fn scored(knee: &Path, pair: &EverydayPair) -> Result<PairScore> {
    let home = fresh_directory(Path::new("/dev/shm"))?;
    let before = clean_runs(pair, home.path())?;
    let mut explain = Command::new(knee);
    explain.env("KNEE_RECORDS", home.path().join("records")).current_dir(home.path());
    let flags = pair.lines.iter().flat_map(|line| ["--command", line]);
    let start = Instant::now();
    let said = explain.arg("explain").args(flags).args(["--yes", "--json"]).output()?;
    let seconds = start.elapsed().as_secs_f64();
    let after = clean_runs(pair, home.path())?;
    let why = String::from_utf8_lossy(&said.stderr);
    let json: Value = serde_json::from_slice(&said.stdout)
        .with_context(|| format!("no JSON, but: {}", why.lines().last().unwrap_or_default()))?;
    let mut last = Command::new(knee);
    last.env("KNEE_RECORDS", home.path().join("records"));
    let text = last.args(["explain", "last", "--no-pager"]).output()?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    score(pair, &json, &text, [before, after], seconds)
}

/// Seconds of each side, run in turn without knee, their output to a file in memory.
fn clean_runs(pair: &EverydayPair, home: &Path) -> Result<[Vec<f64>; 2]> {
    let mut clean = [Vec::new(), Vec::new()];
    for _ in 0..CLEAN {
        for (line, seconds) in pair.lines.iter().zip(&mut clean) {
            let words = text_words(line);
            let printed = File::create(home.join("printed"))?;
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).stdin(Stdio::null()).stdout(printed).current_dir(home);
            let start = Instant::now();
            let status = command.status().with_context(|| format!("starting {line}"))?;
            seconds.push(start.elapsed().as_secs_f64());
            ensure!(status.success(), "{line} ended with {status}");
        }
    }
    Ok(clean)
}

/// The words of a line, in which only single quotes hold words together.
fn text_words(line: &str) -> Vec<String> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().expect("it has one").push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn score(
    pair: &EverydayPair,
    json: &Value,
    text: &str,
    runs: [[Vec<f64>; 2]; 2],
    seconds: f64,
) -> Result<PairScore> {
    let [before, after] = &runs;
    let [first, last] = [before, after].map(|runs| [0, 1].map(|side| median(runs[side].clone())));
    let clean = [0, 1].map(|side| median([&before[side][..], &after[side]].concat()));
    let clean_off = [0, 1].map(|side| (last[side] / first[side] - 1.0).abs());

    let difference = json["differences"].get(0).context("no difference")?;
    let causes = difference["causes"].as_array().context("no causes")?;
    let first = causes.first().map(path).unwrap_or_default();
    let is_planted = |truth: &&str| first.contains(*truth);
    let is_equal = pair.truths.is_empty();
    let is_right = if is_equal { causes.is_empty() } else { pair.truths.iter().any(is_planted) };
    let told = [0, 1].map(|side| difference["wall"][side]["ns"].as_f64().unwrap_or(f64::NAN) / 1e9);
    let off = |side: usize| (told[side] / clean[side] - 1.0).abs();
    let time_off = off(0).max(off(1));
    let time_off = if time_off.is_nan() { f64::INFINITY } else { time_off };
    let gain = clean[1] / clean[0] - 1.0;
    let most = difference["gains_without_causes"].get(0).map(|bound| bound["at_most"].as_f64());
    let bound_holds = most.flatten().map(|most| 1.0 + most >= 0.95 * (1.0 + gain));
    let interval = &difference["change"]["own_interval"];
    let excludes_0 =
        interval[0].as_f64() > Some(0.0) || interval[1].as_f64().is_some_and(|h| h < 0.0);
    let is_same_wrong = excludes_0 && text.contains("take the same time");
    let answer =
        text.lines().skip(1).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    eprintln!(
        "    {} first: {first:?}; told {:.4} -> {:.4} s, clean {:.4} -> {:.4} s ({:.1} %; before and after it {:.1} %); bound {most:?}, gain {gain:.2}; {seconds:.1} s",
        if is_right { "right," } else { "WRONG," },
        told[0],
        told[1],
        clean[0],
        clean[1],
        100.0 * time_off,
        100.0 * clean_off[0].max(clean_off[1]),
    );
    eprintln!("    {answer}");
    let clean_off = clean_off[0].max(clean_off[1]);
    Ok(PairScore { is_right, time_off, clean_off, bound_holds, is_same_wrong, seconds })
}

fn path(cause: &Value) -> String {
    let names = cause["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(" > ")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

fn figures(seed: u64, scores: &[PairScore]) -> Vec<Figure> {
    let share = |name: &str, limit, right: &dyn Fn(&PairScore) -> Option<bool>| {
        let values: Vec<bool> = scores.iter().filter_map(right).collect();
        let count = values.iter().filter(|right| **right).count();
        let name = format!("pairs, seed {seed}: {name} ({count} of {})", values.len());
        let values = vec![count as f64 / values.len().max(1) as f64];
        Figure { name, unit: "", limit, values }
    };
    let seconds: Vec<f64> =
        scores.iter().map(|score| score.seconds).filter(|s| s.is_finite()).collect();
    vec![
        share("first cause right, or none where none is", Limit::AtLeast(0.95), &|s| {
            Some(s.is_right)
        }),
        share("time within 10 % of clean runs", Limit::AtLeast(0.95), &|s| {
            Some(s.time_off <= TIME_MAX)
        }),
        share("clean runs after within 10 % of those before", Limit::None, &|s| {
            Some(s.clean_off <= TIME_MAX)
        }),
        share("time within 10 % where clean runs are", Limit::AtLeast(0.95), &|s| {
            (s.clean_off <= TIME_MAX).then_some(s.time_off <= TIME_MAX)
        }),
        share("bound of the gain holds", Limit::AtLeast(1.0), &|s| s.bound_holds),
        share("\"the same\" beside an interval without 0", Limit::AtMost(0.0), &|s| {
            Some(s.is_same_wrong)
        }),
        Figure {
            name: format!("pairs, seed {seed}: explain"),
            unit: "s",
            limit: Limit::AtMost(10.0),
            values: seconds,
        },
    ]
}
