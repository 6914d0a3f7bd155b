//! Benchmarks of knee itself against limits: is its measured loop as fast as a bare C loop,
//! on every file system too, does it cost no more than what other tools do, does it measure a program
//! without slowing it, does it hold 4096 tasks, does it list 10 000
//! records, search the interleavings of a lock and run it at the speed of hand-written atomics,
//! compare a million samples, make a fresh file system and rebuild in a moment.
//!
//! Not tests: timings depend on the host and on what else it does, so a missed limit is said
//! in the report and is no failure. `make bench` builds knee first and runs all of this.

mod boots;
mod command;
mod comparing;
mod file_locks;
mod file_system;
mod fs_mark;
mod listing;
mod locks;
mod looking;
mod peer;
mod perf_data;
mod planted;
mod ratio;
mod rebuild;
mod report;
mod searches;
mod simulated;
mod tasks;
mod turnover;
mod xattr;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use report::{Figure, Report};

/// Measures knee against its limits.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Options {
    /// Pairs of runs for each ratio
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Length of each run of a pair
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only these: a workload of the ratios, shared_fault, fs_mark, xattr, locks, searches,
    /// simulated, command, tasks, listing, comparing, perf-data, turnover, rebuild, planted,
    /// looking or boots
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Directory whose file system the runs of a pair use. In memory, operations are cheapest,
    /// so knee's share is largest, and no run leaves work on a device to the next
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Only these kinds of file systems, where a benchmark makes some
    #[arg(long, value_delimiter = ',')]
    fs: Vec<String>,
    /// The knee to measure [default: the one beside this program]
    #[arg(long)]
    knee: Option<PathBuf>,
    /// Seed of the random order [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Time a fresh clone to its first curve too, which takes minutes
    #[arg(long)]
    fresh: bool,
    /// Only planted causes whose name has this in it
    #[arg(long)]
    planted: Vec<String>,
    /// Only these locks of ours
    #[arg(long, value_delimiter = ',')]
    lock: Vec<String>,
    /// Keep the records of planted causes here; a pair whose record is here already is explained
    /// again and not measured
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Blocks of each pair of planted causes
    #[arg(long, default_value_t = 6)]
    blocks: usize,
    /// Length of each run that is explained
    #[arg(long, default_value_t = 0.2)]
    look_seconds: f64,
    /// Keep the report in bench/results
    #[arg(long)]
    save: bool,
}

impl Options {
    /// Whether a file system of this kind is to be made.
    fn wants_fs(&self, kind: &str) -> bool {
        self.fs.is_empty() || self.fs.iter().any(|wanted| wanted == kind)
    }
}

/// What all benchmarks need.
struct Bench {
    /// The binary under test.
    knee: PathBuf,
    random: Xoshiro256PlusPlus,
}

impl Bench {
    /// knee with records, cache and state of its own below `home`.
    fn knee(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.knee);
        command.env("KNEE_RECORDS", home.join("records"));
        command.env("XDG_CACHE_HOME", home.join("cache"));
        command.env("XDG_STATE_HOME", home.join("state"));
        command
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let beside = std::env::current_exe()?.with_file_name("knee");
    let seed = options.seed.unwrap_or_else(|| jiff::Timestamp::now().as_second() as u64);
    let mut bench = Bench {
        knee: options.knee.clone().unwrap_or(beside).canonicalize().context("looking for knee")?,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
    };
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let mut report = Report::new(&options.dir, seed);
    let ratios = ratio::WORKLOADS.iter().copied().filter(|name| wanted(name));
    report.add(ratio::measure(&mut bench, &options, ratios)?);
    if wanted("shared_fault") {
        let measured = ratio::on_file_systems(&mut bench, &options);
        report.add(or_skipped("shared_fault", measured));
    }
    if wanted("fs_mark") {
        report.add(or_skipped("fs_mark", fs_mark::measure(&mut bench, &options)));
    }
    if wanted("xattr") {
        report.add(or_skipped("xattr", xattr::measure(&mut bench, &options)));
    }
    if wanted("locks") {
        report.add(locks::measure(&mut bench, &options)?);
        if options.lock.is_empty() {
            report.add(file_locks::measure(&options)?);
        }
    }
    if wanted("searches") {
        report.add(searches::measure(&bench)?);
    }
    if wanted("boots") {
        report.add(boots::measure(&bench)?);
    }
    if wanted("simulated") {
        report.add(simulated::measure(&bench)?);
    }
    if wanted("command") {
        report.add(command::measure(&mut bench, &options)?);
    }
    if wanted("tasks") {
        report.add(tasks::measure(&bench)?);
    }
    if wanted("listing") {
        report.add(listing::measure(&mut bench)?);
    }
    if wanted("comparing") {
        report.add(comparing::measure(&mut bench)?);
    }
    if wanted("perf-data") {
        report.add(perf_data::measure(&bench)?);
    }
    if wanted("turnover") {
        report.add(turnover::measure(&bench)?);
    }
    // Both for minutes, and only for who may watch the kernel.
    if options.only.iter().any(|only| only == "planted") {
        report.add(or_skipped("planted", planted::measure(&bench, &options)));
    }
    if options.only.iter().any(|only| only == "looking") {
        report.add(or_skipped("looking", looking::measure(&mut bench, &options)));
    }
    if wanted("rebuild") {
        report.add(vec![rebuild::incremental()?]);
    }
    if options.fresh {
        report.add(vec![rebuild::fresh_clone()?]);
    }
    let text = report.finish();
    print!("{text}");
    if options.save {
        eprintln!("saved as {}", report.save(&text)?.display());
    }
    Ok(())
}

/// The figures; none where something is missing, be it a program or the right to mount.
fn or_skipped(name: &str, measured: Result<Vec<Figure>>) -> Vec<Figure> {
    measured.unwrap_or_else(|why| {
        eprintln!("{name} is not measured: {why:#}");
        Vec::new()
    })
}

/// The root of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench lies in the workspace")
}

/// An empty directory in this one, removed with what is in it when dropped.
fn fresh_directory(parent: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("knee-bench-")
        .tempdir_in(parent)
        .with_context(|| format!("making a directory in {}", parent.display()))
}

/// Runs a command to its end, which must be a good one.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(output)
}
