//! Gates of real repositories: drawn programs with 20 cases, whose pull requests change documents, move code, or make one
//! case 3 % slower, on runs with a noise of 3 %.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::neighbour::Neighbour;
use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

const CASES: usize = 20;
/// The slowdown that is planted where cases are timed, and where their instructions are counted.
const SLOWER: [f64; 2] = [0.03, 0.01];
/// The noise of a run that is timed.
const NOISE: f64 = 0.03;

/// What a pull request changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// A document.
    Words,
    /// Code that no case runs, between the code of the cases.
    Moved,
    /// One case.
    Slower,
}

/// A drawn program at one commit.
struct Program {
    /// Names of the cases, and the loops of a run.
    cases: Vec<(String, f64)>,
    /// Lines of a function that no case runs, and the case before which it stands.
    unused: Option<(usize, usize)>,
}

impl Program {
    fn drawn(random: &mut Xoshiro256PlusPlus) -> Program {
        const WORDS: [&str; 12] = [
            "parse", "encode", "sort", "lookup", "insert", "hash", "merge", "scan", "split",
            "join", "format", "decode",
        ];
        let name = |number: usize, random: &mut Xoshiro256PlusPlus| {
            format!("{}/{}", WORDS.choose(random).expect("there are words"), number)
        };
        let case = |number: usize| {
            let loops = 2e6 * random.random_range(0.5..2.0);
            (name(number, random), loops)
        };
        Program { cases: (0..CASES).map(case).collect(), unused: None }
    }

    /// C, each case a function of its own, which prints its time. A run takes some ms, times a factor of the noise.
    fn source(&self) -> String {
        let mut text = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n#include <time.h>\n\
            static int fixed;\nstatic double loops(double n) {\n    struct timespec now;\n    if (fixed) return n;\n    clock_gettime(CLOCK_MONOTONIC, &now);\n    \
            uint64_t x = (uint64_t)now.tv_nsec * 6364136223846793005u + (uint64_t)now.tv_sec, sum = 0;\n    \
            for (int i = 0; i < 12; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; sum += x >> 40; }\n    \
            return n * exp(NOISE * ((double)sum / (1 << 24) - 6));\n}\n\
            static volatile uint64_t sink;\n"
            .replace("NOISE", &NOISE.to_string());
        for (number, (_, loops)) in self.cases.iter().enumerate() {
            if let Some((lines, before)) = self.unused
                && before == number
            {
                text += "uint64_t unused(uint64_t x) {\n";
                (0..lines)
                    .for_each(|line| text += &format!("    x = x * {} + {line};\n", 2 * line + 3));
                text += "    return x;\n}\n";
            }
            text += &format!(
                "__attribute__((noinline)) static void case_{number}(void) {{\n    uint64_t x = {number};\n    \
                 for (uint64_t n = (uint64_t)loops({loops:.0}); n; n--) x = x * 2862933555777941757u + n;\n    sink = x;\n}}\n"
            );
        }
        text += "int main(int argc, char **argv) {\n    const char *name = argc > 1 ? argv[1] : \"\";\n    \
            struct timespec from, to;\n    fixed = argc > 2;\n    clock_gettime(CLOCK_MONOTONIC, &from);\n";
        for (number, (name, _)) in self.cases.iter().enumerate() {
            text += &format!(
                "    if (!strcmp(name, \"--list\")) {{ puts(\"{name}\"); fixed = 1; }}\n    if (!strcmp(name, \"{name}\")) case_{number}();\n"
            );
        }
        text + "    clock_gettime(CLOCK_MONOTONIC, &to);\n    \
            if (!fixed) printf(\"time: %f us\\n\", (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3);\n    \
            return 0;\n}\n"
    }
}

/// How a gate judges.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Time,
    Counts,
}

/// Gates of `--drawn` pull requests that time their cases, 10 by default, and of `--drawn-equal` that change nothing.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    judged(bench, options, By::Time)
}

/// Gates that count instructions.
pub fn measure_exact(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    judged(bench, options, By::Counts)
}

fn judged(bench: &mut Bench, options: &Options, by: By) -> Result<Vec<Figure>> {
    let seed = options.seed.context("gates are drawn from a seed: --seed N")?;
    let drawn = if options.drawn + options.drawn_equal > 0 { options.drawn } else { 10 };
    let _neighbour = options.neighbour.then(|| Neighbour::start(seed));
    let (mut wrong, mut found, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..drawn + options.drawn_equal {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed << 16 | number as u64);
        let changes = [Change::Words, Change::Moved, Change::Slower, Change::Slower];
        let changes = if number < drawn { &changes[..] } else { &changes[..2] };
        let change = changes.choose(&mut random).copied().context("there are changes")?;
        let home = fresh_directory(&std::env::temp_dir())?;
        let slower = commit(home.path(), change, by, &mut random)?;
        let since = Instant::now();
        let answer = gated(bench, home.path(), by)?;
        let took = since.elapsed().as_secs_f64();
        let said = |is: &str| -> Vec<&str> {
            let cases = ["cases", "counted"].map(|list| answer[list].as_array());
            let cases = cases.into_iter().flatten().flatten();
            cases.filter(|case| case["is"] == is).filter_map(|case| case["case"].as_str()).collect()
        };
        let (worse, better) = match by {
            By::Time => (said("worse"), said("better")),
            By::Counts => (said("more"), said("less")),
        };
        let is_wrong = worse.iter().chain(&better).any(|case| Some(*case) != slower.as_deref());
        wrong.push(f64::from(is_wrong));
        if let Some(slower) = &slower {
            found.push(f64::from(worse.contains(&slower.as_str())));
            seconds.push(took);
        }
        let (runs, disturbed) = (&answer["runs"], &answer["disturbed"]);
        println!(
            "gate {seed}/{number} {change:?} {}: slower {worse:?}, faster {better:?}, cannot tell {:?}; {runs} runs, \
             {disturbed} blocks disturbed, {took:.0} s",
            slower.as_deref().unwrap_or("-"),
            said("cannot_tell")
        );
    }
    let share = |name: &str, values: Vec<f64>, limit| {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let name = format!("{name} ({} pull requests)", values.len());
        Figure { name, unit: "", limit, values: vec![mean] }
    };
    let (what, limit_s) = match by {
        By::Time => ("gates", 300.0),
        By::Counts => ("gates by counts", 60.0),
    };
    let time = Figure {
        name: format!("{what} of 20 cases, one of them slower: time"),
        unit: "s",
        limit: Limit::AtMost(limit_s),
        values: seconds,
    };
    let least = if by == By::Time { 0.95 } else { 1.0 };
    let size = 100.0 * SLOWER[by as usize];
    Ok(vec![
        share(&format!("{what} with a false verdict"), wrong, Limit::AtMost(0.01)),
        share(&format!("{what}: {size} % that are found"), found, Limit::AtLeast(least)),
        time,
    ])
}

/// Makes a repository with two commits in a folder. The case that is slower in the second.
fn commit(
    home: &Path,
    change: Change,
    by: By,
    random: &mut Xoshiro256PlusPlus,
) -> Result<Option<String>> {
    let folder = home.join("repository");
    fs::create_dir_all(&folder)?;
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
        output(git.args(words).current_dir(&folder)).map(drop)
    };
    let mut program = Program::drawn(random);
    fs::write(folder.join("bench.c"), program.source())?;
    git(&["init", "-q"])?;
    git(&["add", "."])?;
    git(&["commit", "-qm", "base"])?;
    git(&["tag", "base"])?;
    let slower = random.random_range(0..CASES);
    match change {
        Change::Words => fs::write(folder.join("README.md"), "Words.\n")?,
        Change::Moved => {
            program.unused = Some((random.random_range(1..200), random.random_range(0..CASES)));
        }
        Change::Slower => program.cases[slower].1 *= 1.0 + SLOWER[by as usize],
    }
    fs::write(folder.join("bench.c"), program.source())?;
    git(&["add", "."])?;
    git(&["commit", "-qm", "head"])?;
    Ok((change == Change::Slower).then(|| program.cases[slower].0.clone()))
}

fn gated(bench: &Bench, home: &Path, by: By) -> Result<Value> {
    let mut gate = bench.knee(home);
    gate.args(["gate", "--json", "--base", "base", "--cpus", "1"]);
    match by {
        By::Time => {
            gate.args(["--budget", "5m", "--command", "./bench {case}", "--value", "time: {} us"])
        }
        By::Counts => gate.args(["--exact", "--command", "./bench {case} fixed"]),
    };
    gate.args(["--build", "cc -O1 -o bench bench.c -lm"]);
    gate.args(["--cases", "./bench --list"]).arg("--git").arg(home.join("repository"));
    let output = gate.output().context("starting knee gate")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        matches!(output.status.code(), Some(0 | 3)),
        "knee gate ended with {}: {said}",
        output.status
    );
    serde_json::from_slice(&output.stdout).context("reading the answer of knee gate")
}
