//! What looking costs: how much longer operations are while `knee explain` watches, against clean
//! runs of the same block; and beside it `perf record -g -F 999`, in pairs of the same length.

use std::env::temp_dir;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use records::{Profile, ProfileKind, Run, Until};

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output, ratio};

/// Pairs, where `--pairs` asks for fewer.
const PAIRS_MIN: usize = 15;

/// A workload, its tasks per CPU and what the look at time may cost.
const CASES: &[(&str, u32, f64)] = &[
    ("getppid", 1, 0.015),
    ("posix_lock_own", 1, 0.015),
    ("create_files", 1, 0.015),
    ("posix_lock_ranges", 1, 0.03),
    ("posix_lock_shared", 1, 0.03),
    ("page_fault_shared_file", 1, 0.03),
    ("posix_lock_shared", 8, 0.06),
    ("page_fault_shared_file", 8, 0.06),
];

/// What a look that counts may cost.
const COUNTS_MAX: f64 = 0.05;

/// Costs of both looks and of perf on each workload, all CPUs busy.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (workload, per_cpu, limit) in CASES {
        eprintln!("looking at {workload}, {per_cpu} tasks per CPU");
        let name = format!("{workload}, {per_cpu} a CPU");
        let figure = |what: &str, limit, values| Figure {
            name: format!("{name}: {what}"),
            unit: "",
            limit,
            values,
        };
        let [time, counts] = of_knee(bench, options, workload, *per_cpu)?;
        figures.push(figure("look at time, longer by", Limit::AtMost(*limit), time));
        figures.push(figure("look at counts, longer by", Limit::AtMost(COUNTS_MAX), counts));
        match of_perf(bench, options, workload, *per_cpu) {
            Ok(costs) => figures.push(figure("perf record, longer by", Limit::None, costs)),
            Err(why) => eprintln!("perf is not measured: {why:#}"),
        }
    }
    Ok(figures)
}

fn pairs(options: &Options) -> usize {
    options.pairs.max(PAIRS_MIN)
}

/// How much longer an operation took in each look, than in the clean run of its block.
fn of_knee(
    bench: &Bench,
    options: &Options,
    workload: &str,
    per_cpu: u32,
) -> Result<[Vec<f64>; 2]> {
    let home = fresh_directory(&temp_dir())?;
    let file = home.path().join("looking.toml");
    let experiment = format!(
        "blocks = {}\n[axes]\ncpus = \"all\"\ntasks_per_cpu = {per_cpu}\nseconds = {}\ndir = {:?}\n\
         [explain]\nlooks = [\"time\", \"counts\"]\n[[load]]\nworkload = \"{workload}\"\n",
        pairs(options),
        options.look_seconds,
        options.dir,
    );
    std::fs::write(&file, experiment)?;
    let mut command = bench.knee(home.path());
    output(command.args(["run", "--yes", "--json"]).arg(&file))?;
    let opened = store::open(&crate::planted::only_record(home.path())?)?;
    let looks = store::profiles(&opened)?;
    let runs: Vec<&Run> = opened.runs_of(0).collect();
    Ok([ProfileKind::Time, ProfileKind::Counts].map(|kind| costs(&looks, &runs, kind)))
}

fn costs(looks: &[Profile], runs: &[&Run], kind: ProfileKind) -> Vec<f64> {
    const RATE: &str = "operations_per_s";
    let cost = |look: &Profile| {
        let clean = runs.iter().find(|run| run.block == look.block && !run.placebo)?;
        Some(clean.value(RATE)? / look.value(RATE)? - 1.0)
    };
    looks.iter().filter(|look| look.kind == kind).filter_map(cost).collect()
}

/// The costs of perf, which watches all CPUs.
fn of_perf(bench: &mut Bench, options: &Options, workload: &str, per_cpu: u32) -> Result<Vec<f64>> {
    let mut costs = Vec::new();
    for _ in 0..pairs(options) {
        let home = fresh_directory(&options.dir)?;
        let first: bool = bench.random.random();
        let mut rates = [0.0; 2];
        for watched in [first, !first] {
            let perf = if watched { Some(Perf::start(home.path())?) } else { None };
            let scratch = fresh_directory(&options.dir)?;
            let cpus = std::thread::available_parallelism()?.get() as u32;
            let until = Until::Seconds(options.look_seconds);
            let mut job = ratio::job(workload, &[], cpus, until, scratch.path());
            job.tasks = cpus * per_cpu;
            let ran = ratio::Ran::by(&bench.knee, &job)?;
            rates[usize::from(watched)] = ran.operations as f64 / ran.wall_ns as f64;
            perf.map_or(Ok(()), Perf::end)?;
        }
        costs.push(rates[0] / rates[1] - 1.0);
    }
    Ok(costs)
}

/// perf while it records.
struct Perf(Child);

impl Perf {
    fn start(folder: &Path) -> Result<Perf> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-g", "-F", "999", "-o"]).arg(folder.join("perf.data"));
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = quiet.spawn().context("starting perf")?;
        // Until it has opened its events.
        sleep(Duration::from_millis(150));
        Ok(Perf(child))
    }

    fn end(mut self) -> Result<()> {
        let ended = self.0.try_wait()?;
        ensure!(ended.is_none(), "perf ended with {ended:?}: may it watch here?");
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        self.0.wait()?;
        Ok(())
    }
}
