//! `knee check --memory rc11` beside GenMC (Kokologiannakis and Vafeiadis, github.com/MPI-SWS/genmc) on the same C files, where a
//! `genmc` is installed: verdicts, and what both take from start to end, compiling included. GenMC takes whole programs:
//! `bench/genmc/knee_lock.h` makes one of each file. It has no thread-local nodes, so these are an array there.

use std::env::temp_dir;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory};

const HEADER: &str = include_str!("../genmc/knee_lock.h");
const LOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/c_locks/tests/locks");

/// A file of crates/c_locks/tests/locks with flags, tasks and acquires.
type Case = (&'static str, &'static str, u32, u32);

const CASES: [Case; 14] = [
    ("ticket.c", "", 2, 2),
    ("ticket.c", "", 3, 2),
    ("mcs.c", "", 2, 2),
    ("mcs.c", "", 3, 1),
    ("mcs.c", "", 3, 2),
    ("mcs_orders.c", "", 2, 2),
    ("mcs_orders.c", "-DPUBLISH=relaxed", 2, 1),
    ("mcs_orders.c", "-DLOOK=relaxed", 2, 1),
    ("mcs_orders.c", "-DAWAIT=relaxed", 2, 1),
    ("hand_over.c", "", 2, 1),
    ("hand_over.c", "-DRELAXED_STORE", 2, 1),
    ("hand_over.c", "-DRELAXED_LOAD", 2, 1),
    ("hand_over.c", "-DPLAIN", 2, 1),
    ("phase_fair.c", "", 2, 1),
];

/// The case whose time has a limit: the others are over in less than a second, most of it compiling.
const MCS: usize = 4;

/// Whether both find a fault, or both none; and how long knee takes over GenMC.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let found = Command::new("genmc").arg("--version").output();
    ensure!(
        found.is_ok(),
        "there is no genmc in PATH: build github.com/MPI-SWS/genmc, and put it there"
    );
    let home = fresh_directory(&temp_dir())?;
    let (mut alike, mut ratios) = (Vec::new(), Vec::new());
    for (file, flags, tasks, acquires) in CASES {
        let (by_knee, knee_s) =
            timed(&mut knee(bench, home.path(), (file, flags, tasks, acquires)))?;
        let (genmc_holds, genmc_s) = by_genmc(home.path(), (file, flags, tasks, acquires))?;
        let knee_holds = match by_knee.status.code() {
            Some(0) => Some(true),
            Some(1) => Some(false),
            _ => None,
        };
        let word = |holds| if holds { "holds" } else { "wrong" };
        eprintln!(
            "genmc, {file} {flags} {tasks}x{acquires}: knee {} {knee_s:.2} s, GenMC {} {genmc_s:.2} s",
            knee_holds.map_or("no verdict", word),
            word(genmc_holds)
        );
        alike.push(f64::from(knee_holds == Some(genmc_holds)));
        ratios.push(knee_s / genmc_s);
    }
    let share = alike.iter().sum::<f64>() / alike.len() as f64;
    let figure = |name: &str, limit, values| Figure {
        name: format!("genmc: {name}"),
        unit: "",
        limit,
        values,
    };
    Ok(vec![
        figure("the same verdict, share", Limit::AtLeast(1.0), vec![share]),
        figure("time of knee over GenMC's, mcs.c 3x2", Limit::AtMost(1.0), vec![ratios[MCS]]),
        figure("time of knee over GenMC's", Limit::None, ratios),
    ])
}

fn knee(bench: &Bench, home: &Path, (file, flags, tasks, acquires): Case) -> Command {
    let mut knee = bench.knee(home);
    knee.args(["check", "-q", "--memory", "rc11", "--cflags", flags])
        .arg(Path::new(LOCKS).join(file));
    knee.args(["--threads", &tasks.to_string(), "--acquires", &acquires.to_string()]);
    knee
}

fn genmc(
    home: &Path,
    (file, flags, tasks, acquires): Case,
    extra: Option<&str>,
) -> Result<Command> {
    let text = fs::read_to_string(Path::new(LOCKS).join(file)).with_context(|| file.to_string())?;
    let text = text.replace(
        "static _Thread_local struct mcs_node node;",
        "static struct mcs_node nodes[TASKS];",
    );
    let text = text.replace("&node)", "&nodes[knee_me])");
    let prepares = if text.contains("KNEE_PREPARE") { "-DPREPARES" } else { "-DPREPARES_NOTHING" };
    fs::write(home.join(file), text)?;
    fs::write(home.join("knee_lock.h"), HEADER)?;
    let mut genmc = Command::new("genmc");
    genmc.args(extra);
    genmc
        .args(["--rc11", "--disable-estimation", "--check-liveness", "--"])
        .arg(format!("-I{}", home.display()));
    genmc.args([
        format!("-DTASKS={tasks}"),
        format!("-DACQUIRES={acquires}"),
        prepares.to_string(),
    ]);
    genmc.args(flags.split_whitespace()).arg(home.join(file));
    Ok(genmc)
}

/// Whether GenMC finds no fault, and how long it takes. Where it says so, without what unordered writes do not go with.
fn by_genmc(home: &Path, case: Case) -> Result<(bool, f64)> {
    for extra in [None, Some("--disable-ipr")] {
        let mut command = genmc(home, case, extra)?;
        let (output, seconds) = timed(&mut command)?;
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        let holds = told.contains("No errors were detected");
        if holds || told.contains("Error: ") {
            return Ok((holds, seconds));
        }
        ensure!(told.contains("-disable-ipr"), "{command:?}: {told}");
    }
    bail!("genmc has no verdict on {case:?}")
}

/// The output of a command, and how long it took, in seconds.
fn timed(command: &mut Command) -> Result<(Output, f64)> {
    let began = Instant::now();
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    Ok((output, began.elapsed().as_secs_f64()))
}
