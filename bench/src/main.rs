//! Benchmarks of knee itself, each against a limit: the measured loop against a bare C loop and
//! against other tools, the slowdown of a measured program, 4096 tasks, a list of 10 000 records,
//! the search of a lock's interleavings, locks against hand-written atomics, the comparison of a
//! million samples, a record of 100 000 runs, the time to make a fresh file system, and the time to rebuild knee.
//!
//! These are not tests: timings depend on the host and its other load, so the report shows a
//! missed limit but the exit status is 0. `make bench` builds knee and runs all benchmarks.

mod agreement;
mod at_home;
mod bisect;
mod boots;
mod c_files;
mod ceilings;
mod command;
mod comparing;
mod decoys;
mod file_locks;
mod file_system;
mod fleet;
mod forecasts;
mod fragile;
mod fs_mark;
mod gain;
mod gates;
mod genmc;
mod large;
mod listing;
mod locks;
mod looking;
mod months;
mod neighbour;
mod operations;
mod own_loads;
mod pairs;
mod peer;
mod perf_data;
mod planted;
mod ratio;
mod rebuild;
mod report;
mod searches;
mod servers;
mod shared_lines;
mod simulated;
mod tasks;
mod turnover;
mod watched;
mod words;
mod xattr;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use report::{Figure, Report};

/// Measure knee against its limits.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Options {
    /// Pairs of runs for each ratio
    #[arg(long, default_value_t = 10)]
    pairs: usize,
    /// Metric that bisected projects are judged by: time.user_time where other programs share the host
    #[arg(long, default_value = "wall_s")]
    metric: String,
    /// Length of each run of a pair, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Run only these: a workload of the ratios, shared_fault, fs_mark, xattr, locks, searches,
    /// simulated, command, tasks, listing, comparing, large, perf-data, turnover, rebuild, planted,
    /// looking, boots, agreement, at-home, gain, decoys, fleet, forecasts, fragile, own-loads, pairs, c-files, servers,
    /// shared-lines, ceilings, operations, gates, exact-gates, genmc, months, words or bisect
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Directory for the files of the runs. In memory, operations are cheapest, so knee's overhead
    /// is the largest share, and no run leaves writeback for the next
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    /// Make only these kinds of file systems
    #[arg(long, value_delimiter = ',')]
    fs: Vec<String>,
    /// Binary of knee to measure [default: the one next to this program]
    #[arg(long)]
    knee: Option<PathBuf>,
    /// Seed of the random order [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Also time a fresh clone up to its first curve, which takes minutes
    #[arg(long)]
    fresh: bool,
    /// Run only planted causes whose name contains this
    #[arg(long)]
    planted: Vec<String>,
    /// Draw this number from --seed: of pairs of programs, instead of the planted causes of the file, of servers, or of pull requests
    #[arg(long, default_value_t = 0)]
    drawn: usize,
    /// And this number of pairs of programs that do the same, or of pull requests that make nothing slower
    #[arg(long, default_value_t = 0)]
    drawn_equal: usize,
    /// Only measure the servers with their limits and without, to see that these limit them
    #[arg(long)]
    verify: bool,
    /// Run this one of the servers until Ctrl-C, and print what is true of it
    #[arg(long, value_name = "INDEX")]
    show: Option<usize>,
    /// Have nobody (65534) run the servers and knee
    #[arg(long)]
    unprivileged: bool,
    /// How long knee looks at each server, in seconds
    #[arg(long, default_value_t = 10.0)]
    attach_seconds: f64,
    /// Keep all CPUs busy a third of the time meanwhile, in bursts
    #[arg(long)]
    neighbour: bool,
    /// Explain drawn pairs from two recordings of perf each, instead of measuring them
    #[arg(long)]
    from_perf: bool,
    /// Run only these of knee's locks
    #[arg(long, value_delimiter = ',')]
    lock: Vec<String>,
    /// Keep the records of planted causes in this directory; a pair already recorded there is
    /// explained again without a new measurement. Of servers, keep source, truth and answer; of at-home the host model, traces
    /// and rates
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Blocks per pair of planted causes
    #[arg(long, default_value_t = 6)]
    blocks: usize,
    /// Length of each profiled run, in seconds
    #[arg(long, default_value_t = 0.2)]
    look_seconds: f64,
    /// Folder of will-it-scale, for own-loads, where --pairs is how often both programs are started at most, and
    /// --seconds how long each runs in one start
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Run only these tests of will-it-scale: mmap2, or some of its cases, as mmap2:threads, mmap2:threads:2. For at-home: only
    /// these workloads
    #[arg(long, value_delimiter = ',')]
    test: Vec<String>,
    /// Kernels to boot for at-home, ceilings and operations: 6.1=FILE, 6.12=FILE
    #[arg(long, value_name = "NAME=FILE", value_delimiter = ',', value_parser = named_file)]
    kernel: Vec<(String, PathBuf)>,
    /// Only the published rates of this set, for operations and forecasts: first or second
    #[arg(long)]
    set: Option<String>,
    /// Save the report in bench/reports, which git ignores
    #[arg(long)]
    save: bool,
}

fn named_file(text: &str) -> Result<(String, PathBuf)> {
    let (name, file) = text.split_once('=').context("must be NAME=FILE")?;
    Ok((name.to_string(), PathBuf::from(file)))
}

impl Options {
    /// Whether a benchmark should make a file system of this kind.
    fn wants_fs(&self, kind: &str) -> bool {
        self.fs.is_empty() || self.fs.iter().any(|named| named == kind)
    }

    /// Whether to run the benchmark `name` if it runs by default.
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.names(name)
    }

    /// Whether `--only` has this name.
    fn names(&self, name: &str) -> bool {
        self.only.iter().any(|named| named == name)
    }
}

/// The state shared by all benchmarks.
struct Bench {
    /// The binary under test.
    knee: PathBuf,
    random: Xoshiro256PlusPlus,
}

impl Bench {
    /// A command that runs knee with separate records, cache and state below `home`.
    fn knee(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.knee);
        command.env("KNEE_RECORDS", home.join("records"));
        command.env("XDG_CACHE_HOME", home.join("cache"));
        command.env("XDG_STATE_HOME", home.join("state"));
        command
    }
}

/// A benchmark with a name for `--only`.
struct Benchmark {
    name: &'static str,
    /// Runs only if `--only` names it: it takes minutes.
    on_request: bool,
    /// A failure is reported and the other benchmarks go on: a program or a privilege may be
    /// missing.
    may_fail: bool,
    measure: Measure,
}

type Measure = fn(&mut Bench, &Options) -> Result<Vec<Figure>>;

/// All benchmarks in the order of the report, except the ratios and the fresh clone.
const BENCHMARKS: &[Benchmark] = &[
    may_fail("shared_fault", ratio::on_file_systems),
    may_fail("fs_mark", fs_mark::measure),
    may_fail("xattr", xattr::measure),
    required("locks", all_locks),
    required("searches", |bench, _| searches::measure(bench)),
    required("boots", |bench, _| boots::measure(bench)),
    required("simulated", |bench, _| simulated::measure(bench)),
    required("command", command::measure),
    required("tasks", |bench, _| tasks::measure(bench)),
    required("listing", |bench, _| listing::measure(bench)),
    required("comparing", |bench, _| comparing::measure(bench)),
    required("large", |bench, _| large::measure(bench)),
    required("perf-data", |bench, _| perf_data::measure(bench)),
    required("turnover", |bench, _| turnover::measure(bench)),
    on_request("agreement", agreement::measure),
    on_request("at-home", at_home::measure),
    on_request("bisect", bisect::measure),
    on_request("c-files", c_files::measure),
    on_request("ceilings", ceilings::measure),
    on_request("operations", operations::measure),
    on_request("fleet", fleet::measure),
    on_request("forecasts", |_, options| forecasts::measure(options)),
    on_request("gain", gain::measure),
    on_request("gates", gates::measure),
    on_request("genmc", |bench, _| genmc::measure(bench)),
    on_request("exact-gates", gates::measure_exact),
    on_request("decoys", decoys::measure),
    on_request("fragile", fragile::measure),
    on_request("planted", planted::measure),
    on_request("looking", looking::measure),
    on_request("months", |bench, _| months::measure(bench)),
    on_request("own-loads", own_loads::measure),
    on_request("pairs", pairs::measure),
    on_request("servers", servers::measure),
    on_request("shared-lines", shared_lines::measure),
    on_request("watched", watched::measure),
    on_request("words", |bench, _| words::measure(bench)),
    required("rebuild", |_, _| Ok(vec![rebuild::incremental()?])),
];

const fn required(name: &'static str, measure: Measure) -> Benchmark {
    Benchmark { name, on_request: false, may_fail: false, measure }
}

const fn may_fail(name: &'static str, measure: Measure) -> Benchmark {
    Benchmark { name, on_request: false, may_fail: true, measure }
}

const fn on_request(name: &'static str, measure: Measure) -> Benchmark {
    Benchmark { name, on_request: true, may_fail: true, measure }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let beside = std::env::current_exe()?.with_file_name("knee");
    let seed = options.seed.unwrap_or_else(|| jiff::Timestamp::now().as_second() as u64);
    let mut bench = Bench {
        knee: match options.knee.clone().unwrap_or(beside) {
            // These ask nothing of knee.
            path if options.verify || options.show.is_some() => path,
            path => path.canonicalize().context("looking for knee")?,
        },
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
    };
    let mut report = Report::new(&options.dir, seed);
    let ratios = ratio::WORKLOADS.iter().copied().filter(|name| options.wants(name));
    report.add(ratio::measure(&mut bench, &options, ratios)?);
    for benchmark in BENCHMARKS {
        report.add(benchmark.run(&mut bench, &options)?);
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

impl Benchmark {
    /// The figures, if the benchmark is wanted and can run here.
    fn run(&self, bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
        let name = self.name;
        let is_wanted = if self.on_request { options.names(name) } else { options.wants(name) };
        if !is_wanted {
            return Ok(Vec::new());
        }
        match (self.measure)(bench, options) {
            Err(why) if self.may_fail => {
                eprintln!("{name} is not measured: {why:#}");
                Ok(Vec::new())
            }
            // A seed may draw nothing of a kind: then that figure has no values.
            figures => figures.map(|mut figures| {
                figures.retain(|figure| !figure.values.is_empty());
                figures
            }),
        }
    }
}

/// The locks, and unless `--lock` picks some, the file locks.
fn all_locks(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = locks::measure(bench, options)?;
    if options.lock.is_empty() {
        figures.extend(file_locks::measure(options)?);
    }
    Ok(figures)
}

/// The root of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench lies in the workspace")
}

/// Makes an empty directory in `parent`, removed with its contents when dropped.
fn fresh_directory(parent: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("knee-bench-")
        .tempdir_in(parent)
        .with_context(|| format!("making a directory in {}", parent.display()))
}

/// Runs a command to its end; an error if it fails.
fn output(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {stderr}", output.status);
    Ok(output)
}
