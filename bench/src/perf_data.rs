//! Reading what perf recorded: a recording of all CPUs with call chains, made here by perf, to a
//! ledger; and `perf report --stdio` on the same file, in turns.

use std::env::temp_dir;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const SAMPLES: f64 = 100_000.0;
const REPEATS: usize = 10;
/// perf takes seconds.
const REPEATS_OF_PERF: usize = 3;
/// Samples a second and CPU that are asked for.
const HERTZ: u32 = 9999;

/// Wall time and memory of `knee explain`, and how much longer perf takes. Times are scaled to
/// 100 000 samples, since no recording has exactly as many.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    if Command::new("perf").arg("--version").output().is_err() {
        eprintln!("perf-data: skipped, there is no perf (apt install linux-perf)");
        return Ok(Vec::new());
    }
    let home = fresh_directory(&temp_dir())?;
    let file = home.path().join("perf.data");
    record(&file)?;
    let samples = samples(bench, home.path(), &file)?;
    eprintln!("perf-data: {samples} samples, {} bytes", std::fs::metadata(&file)?.len());
    let mut times = Vec::new();
    let mut memory = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("perf-data: {repeat} of {REPEATS}");
        let (ms, bytes) = timed(bench.knee(home.path()).arg("explain").arg(&file))?;
        times.push(ms / samples * SAMPLES);
        memory.push(bytes / 1e6);
    }
    let mut of_perf = Vec::new();
    for repeat in 1..=REPEATS_OF_PERF {
        eprintln!("perf-data: perf report {repeat} of {REPEATS_OF_PERF}");
        let mut report = Command::new("perf");
        of_perf.push(
            timed(report.args(["report", "--stdio", "-i"]).arg(&file))?.0 / samples * SAMPLES,
        );
    }
    let knee = median(&times);
    let ratios = of_perf.iter().map(|ms| ms / knee).collect();
    let figure = |what: &str, unit, limit, values| Figure {
        name: format!("100 000 samples with call chains, {what}"),
        unit,
        limit,
        values,
    };
    Ok(vec![
        figure("to a ledger", "ms", Limit::AtMost(200.0), times),
        figure("largest memory", "MB", Limit::AtMost(200.0), memory),
        figure("perf report --stdio", "ms", Limit::None, of_perf),
        figure("perf / knee", "", Limit::AtLeast(6.0), ratios),
    ])
}

/// What keeps the CPUs busy: one task in one call, and short programs one after the other, since it
/// is programs and different chains that make a recording dear to read.
const LOADS: [&str; 2] = [
    "exec dd if=/dev/zero of=/dev/null bs=512",
    "while :; do ls -lR /etc /usr/lib | sort | md5sum; find /usr/share -name '*.gz' | wc -l; done",
];

/// Records all CPUs for as long as gives that many samples, with both loads on each.
fn record(file: &Path) -> Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    let seconds = (SAMPLES / f64::from(HERTZ) / cpus as f64).max(1.0);
    let start = |load: &&str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", load]).stdout(Stdio::null()).stderr(Stdio::null());
        shell.process_group(0).spawn().context("starting a load")
    };
    let loads = LOADS.iter().cycle().take(LOADS.len() * cpus);
    let loads = loads.map(start).collect::<Result<Vec<_>>>()?;
    let recorded = output(
        Command::new("perf")
            .args(["record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", &HERTZ.to_string(), "-o"])
            .arg(file)
            .args(["--", "sleep", &format!("{seconds:.2}")]),
    );
    for mut load in loads {
        // SAFETY: a signal to the group that the load was started as.
        unsafe { libc::kill(-(load.id() as i32), libc::SIGKILL) };
        load.wait()?;
    }
    recorded.map(|_| ())
}

/// How many samples knee finds in it.
fn samples(bench: &Bench, home: &Path, file: &Path) -> Result<f64> {
    let said = output(bench.knee(home).arg("explain").arg(file).arg("--json"))?.stdout;
    let json: serde_json::Value = serde_json::from_slice(&said)?;
    json["recorded"]["samples"].as_f64().filter(|n| *n > 0.0).context("a number of samples")
}

/// Wall time in ms and largest memory in bytes of a command, whose output nobody reads.
pub fn timed(command: &mut Command) -> Result<(f64, f64)> {
    let since = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut status = 0;
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: waits for our own child, which nothing else waits for, into live memory.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    ensure!(waited == child.id() as i32, "waiting: {}", std::io::Error::last_os_error());
    let ms = since.elapsed().as_secs_f64() * 1e3;
    ensure!(ExitStatus::from_raw(status).success(), "{command:?} failed");
    Ok((ms, usage.ru_maxrss as f64 * 1024.0))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
