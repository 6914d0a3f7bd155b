//! Results of other tools as records. Each format is one file here: a pure function from a file's text
//! to the intermediate type [`Foreign`]. `input` reads files and `assemble` makes a record of them,
//! for all formats.
//!
//! No format has everything that knee's own records have. Each reader lists in sentences what its
//! format lacks, so that no report promises more than the file holds.

mod assemble;
mod bonnie;
mod catch2;
mod census;
mod csv;
mod fio;
mod fio_text;
mod fs_mark;
mod go_bench;
mod google_benchmark;
mod hyperfine;
mod input;
mod iozone;
mod iperf;
mod jmh;
mod json;
mod k6;
mod kernel_test_robot;
mod lines;
mod lkp;
mod lmbench;
mod load_tools;
mod memtier;
mod netperf_omni;
mod openssl_speed;
mod perf_bench;
mod perf_stat;
mod perf_stat_text;
mod pgbench;
mod pgbench_log;
mod plain;
mod pytest_benchmark;
mod redis_benchmark;
mod refusal;
mod scan;
mod stress_ng;
mod suggest;
mod sysbench;
mod tools;
mod unwrapped;
mod value;
mod will_it_scale;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::{Placement, counted};
use records::{
    Better, DescribedMetric, Form, HostFacts, METRICS, Obtained, Pass, ReplicationUnit, Warning,
    parse,
};

pub use crate::import::assemble::{Imported, Telling, assemble};
pub use crate::import::input::Input;
use crate::import::refusal::refusal;
use crate::import::suggest::Suggestion;
pub use crate::import::value::Wanted;

/// A format of another tool.
#[derive(Debug)]
pub struct Format {
    /// Name on the command line and in records.
    pub name: &'static str,
    /// Description of its files, for users who must choose a format.
    pub about: &'static str,
    /// Whether a text is certainly in this format.
    recognise: fn(&str) -> bool,
    /// Parses one file.
    read: fn(&File) -> Result<Foreign>,
}

/// The format of a tool that is a table of lines.
macro_rules! lines {
    ($name:literal, $about:literal, $tool:path) => {
        Format {
            name: $name,
            about: $about,
            recognise: |text| $tool.recognise(text),
            read: |file| $tool.read(file),
        }
    };
}

/// The formats, in the order in which they are listed.
pub const FORMATS: &[Format] = &[
    Format {
        name: "plain",
        about: "CSV with the columns variant, metric, value; also what knee record export writes",
        recognise: plain::recognise,
        read: plain::read,
    },
    Format {
        name: "scan",
        about: "a table with a column of CPUs, threads or clients, and what was measured there",
        recognise: scan::recognise,
        read: scan::read,
    },
    Format {
        name: "will-it-scale",
        about: "the CSV of its runtest.py",
        recognise: will_it_scale::recognise,
        read: will_it_scale::read,
    },
    Format {
        name: "fs_mark",
        about: "its log or output, with the line of column names",
        recognise: fs_mark::recognise,
        read: fs_mark::read,
    },
    Format {
        name: "lkp",
        about: "a result folder, its matrix.json or stats.json",
        recognise: lkp::recognise,
        read: lkp::read,
    },
    Format {
        name: "stress-ng",
        about: "output with --metrics, or the file of --yaml",
        recognise: stress_ng::recognise,
        read: stress_ng::read,
    },
    Format {
        name: "fio",
        about: "the JSON of --output-format=json",
        recognise: fio::recognise,
        read: fio::read,
    },
    Format {
        name: "fio-text",
        about: "the text that it prints",
        recognise: fio_text::recognise,
        read: fio_text::read,
    },
    Format {
        name: "hyperfine",
        about: "the JSON of --export-json",
        recognise: hyperfine::recognise,
        read: hyperfine::read,
    },
    Format {
        name: "perf-stat",
        about: "the output of perf stat -x, or -j",
        recognise: perf_stat::recognise,
        read: perf_stat::read,
    },
    Format {
        name: "perf-stat-text",
        about: "the text that perf stat prints",
        recognise: perf_stat_text::recognise,
        read: perf_stat_text::read,
    },
    Format {
        name: "sysbench",
        about: "the text that it prints",
        recognise: sysbench::recognise,
        read: sysbench::read,
    },
    Format {
        name: "pgbench",
        about: "the text that it prints",
        recognise: pgbench::recognise,
        read: pgbench::read,
    },
    Format {
        name: "pgbench-log",
        about: "the logs of pgbench --log, of transactions or of intervals",
        recognise: pgbench_log::recognise,
        read: pgbench_log::read,
    },
    Format {
        name: "perf-bench",
        about: "the text of perf bench, or of hackbench",
        recognise: perf_bench::recognise,
        read: perf_bench::read,
    },
    Format {
        name: "go-bench",
        about: "the text of go test -bench",
        recognise: go_bench::recognise,
        read: go_bench::read,
    },
    Format {
        name: "google-benchmark",
        about: "its table, or the JSON or CSV of --benchmark_format",
        recognise: google_benchmark::recognise,
        read: google_benchmark::read,
    },
    Format {
        name: "jmh",
        about: "the JSON of -rf json, the CSV of -rf csv, or what it prints",
        recognise: jmh::recognise,
        read: jmh::read,
    },
    Format {
        name: "pytest-benchmark",
        about: "the JSON of --benchmark-json",
        recognise: pytest_benchmark::recognise,
        read: pytest_benchmark::read,
    },
    Format {
        name: "kernel-test-robot",
        about: "the mail, or its table of two commits",
        recognise: kernel_test_robot::recognise,
        read: kernel_test_robot::read,
    },
    Format {
        name: "catch2",
        about: "what its benchmarks print, or the XML of -r xml",
        recognise: catch2::recognise,
        read: catch2::read,
    },
    Format {
        name: "bonnie++",
        about: "the line of CSV that it prints last",
        recognise: bonnie::recognise,
        read: bonnie::read,
    },
    Format {
        name: "iperf",
        about: "what it or iperf3 prints, or the JSON of iperf3 -J",
        recognise: iperf::recognise,
        read: iperf::read,
    },
    Format {
        name: "iozone",
        about: "what it prints",
        recognise: iozone::recognise,
        read: iozone::read,
    },
    Format {
        name: "k6",
        about: "the end of what it prints, or its summary as JSON",
        recognise: k6::recognise,
        read: k6::read,
    },
    Format {
        name: "lmbench",
        about: "what its programs print, or a file of make results",
        recognise: lmbench::recognise,
        read: lmbench::read,
    },
    Format {
        name: "netperf-omni",
        about: "the CSV of netperf -o",
        recognise: netperf_omni::recognise,
        read: netperf_omni::read,
    },
    Format {
        name: "openssl-speed",
        about: "what it prints",
        recognise: openssl_speed::recognise,
        read: openssl_speed::read,
    },
    lines!("ab", "what it prints", tools::AB),
    lines!(
        "cargo-bench",
        "the lines `test NAME ... bench:` of libtest or criterion",
        tools::CARGO_BENCH
    ),
    lines!("coremark", "what it prints", tools::COREMARK),
    lines!("criterion", "what cargo bench prints", tools::CRITERION),
    lines!("cyclictest", "what it prints", tools::CYCLICTEST),
    lines!("db_bench", "what that of LevelDB or RocksDB prints", tools::DB_BENCH),
    lines!("dbench", "what it or tbench prints", tools::DBENCH),
    lines!("ebizzy", "what it prints", tools::EBIZZY),
    lines!("hey", "what it prints", load_tools::HEY),
    lines!("kernbench", "what it prints", tools::KERNBENCH),
    Format {
        name: "memtier",
        about: "what memtier_benchmark prints, or its JSON",
        recognise: memtier::recognise,
        read: memtier::read,
    },
    lines!("benchmark-ips", "what Ruby's benchmark-ips prints", load_tools::BENCHMARK_IPS),
    lines!("benchmark-js", "what Benchmark.js prints for each", load_tools::BENCHMARK_JS),
    lines!("mutilate", "what it prints", tools::MUTILATE),
    lines!("netperf", "its tables of streams and requests", load_tools::NETPERF),
    lines!("rados-bench", "what it prints", tools::RADOS_BENCH),
    Format {
        name: "redis-benchmark",
        about: "what it prints, or its CSV",
        recognise: redis_benchmark::recognise,
        read: redis_benchmark::read,
    },
    lines!("schbench", "what it prints since 2021", tools::SCHBENCH),
    lines!("stream", "what it prints", tools::STREAM),
    lines!("unixbench", "what it prints", tools::UNIXBENCH),
    lines!("vegeta", "what vegeta report prints", load_tools::VEGETA),
    lines!("wrk", "what it or wrk2 prints", tools::WRK),
    lines!("ycsb", "what it prints", tools::YCSB),
];

impl Format {
    /// The format of this name.
    pub fn find(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The format of a file's text. `name` is its name in errors.
    ///
    /// # Errors
    /// No format recognises it, or several do.
    pub fn of(name: &str, text: &str) -> Result<&'static Format> {
        ensure!(!text.trim().is_empty(), "{name} is empty: was the tool interrupted?");
        let mut found: Vec<&Format> = FORMATS.iter().filter(|f| (f.recognise)(text)).collect();
        if found.len() > 1 {
            // What perf stat prints may stand below the output of the program that it counted.
            found.retain(|format| format.name != "perf-stat-text");
        }
        match found[..] {
            [format] => Ok(format),
            [one, other, ..] => bail!(
                "{name} has the output of {} and of {}: say with --format which one to read",
                one.name,
                other.name
            ),
            [] => bail!(not_read(name, text)),
        }
    }

    /// Parses one file. `name` is its name in errors.
    pub fn read(&self, name: &str, file: &File) -> Result<Foreign> {
        ensure!(!file.text.trim().is_empty(), "{name} is empty: was the tool interrupted?");
        let what = || format!("reading {name} as {}", self.name);
        let mut foreign = (self.read)(file).with_context(what)?;
        foreign.make_printable();
        if let Some(what) = census::unread(file.text, &foreign) {
            foreign.warnings.push(Warning::new(
                format!("read from {name}: only {}", printable(&what)),
                "--value 'TEXT {}' reads other numbers of a file",
            ));
        }
        foreign.warn_of_unread(name);
        if foreign.runs.is_empty() {
            bail!("{name} has no results: {} expects {}", self.name, self.about);
        }
        Ok(foreign)
    }
}

/// Why a file is in no format, and what to do with it.
fn not_read(name: &str, text: &str) -> String {
    let suggestion = Suggestion::for_text(text);
    match refusal(text) {
        Some(refusal) if refusal.has_remedy => format!("{name} {}", refusal.why),
        Some(refusal) => format!("{name} {}{}", refusal.why, suggestion.advice(name)),
        None => {
            let telling = Some(suggestion.telling.clone()).filter(|telling| !telling.is_empty());
            let telling = telling.map(|telling| format!(": {telling}")).unwrap_or_default();
            let advice = suggestion.advice(name);
            let advice =
                if advice.is_empty() { "\n  it has no numbers".to_string() } else { advice };
            format!(
                "the format of {name} was not recognised{telling}{advice}\n\n  or name its format: `--format help` lists all"
            )
        }
    }
}

/// The file that a reader parses.
#[derive(Debug)]
pub struct File<'a> {
    /// Path of the file; some tools record the circumstances only in the path.
    pub path: &'a Path,
    /// Text of the file.
    pub text: &'a str,
    /// Whether it is the only imported file.
    pub alone: bool,
    /// The numbers that the user points at; none for a format that finds them itself.
    pub values: &'a [Wanted],
}

/// The contents of one file, in any format.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// The runs, in the order of the file.
    pub runs: Vec<ForeignRun>,
    /// Descriptions of the metrics, by name.
    pub metrics: BTreeMap<String, DescribedMetric>,
    /// The main metric of the tool.
    pub primary: String,
    /// What one run of the file is.
    pub unit: ReplicationUnit,
    /// Whether runs of one block belong together.
    pub blocks: bool,
    /// Whether each run is a session of its own; otherwise the file is one.
    pub runs_alone: bool,
    /// What the format does not record, one sentence each.
    pub lacks: Vec<String>,
    /// Numbers of the file that the record does not hold: what they are, and how many.
    pub unread: BTreeMap<String, usize>,
    /// Warnings about this file.
    pub warnings: Vec<Warning>,
    /// Facts about the host that the file records.
    pub host: HostFacts,
}

/// One run that another tool made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignRun {
    /// The variant, if the file itself distinguishes variants.
    pub variant: Option<String>,
    /// The cell: only runs of the same cell are compared.
    pub cell: ForeignCell,
    /// Other options of the run; variants may differ in them.
    pub options: BTreeMap<String, String>,
    /// The series that numbers the block: equal numbers in different series are different blocks.
    pub series: String,
    /// The block, if the file records it.
    pub block: Option<u32>,
    /// Whether it repeats another run to show how far equal variants differ.
    pub placebo: bool,
    /// When it started, if the file records it.
    pub started: Option<jiff::Timestamp>,
    /// Values by metric; a missing value has no entry.
    pub values: BTreeMap<String, f64>,
    /// Why the run does not count.
    pub failed: Option<String>,
    /// Values inside the run, in order, if the file has them.
    pub samples: Vec<BTreeMap<String, f64>>,
}

/// A cell of another tool's results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForeignCell {
    /// The workload; empty if the file does not name it.
    pub workload: String,
    /// Semantic version of the workload, 0 if it has none.
    pub semantics: u32,
    /// Parameters that distinguish cells.
    pub parameters: BTreeMap<String, String>,
    /// Processes or threads.
    pub form: Form,
    /// Number of CPUs, 0 if not recorded.
    pub cpus: u32,
    /// Number of tasks, 0 if not recorded.
    pub tasks: u32,
    /// How CPUs were chosen.
    pub placement: Placement,
    /// What was recorded.
    pub pass: Pass,
    /// The measured directory.
    pub dir: PathBuf,
}

impl Default for ForeignCell {
    fn default() -> ForeignCell {
        ForeignCell {
            workload: String::new(),
            semantics: 0,
            parameters: BTreeMap::new(),
            form: Form::Processes,
            cpus: 0,
            tasks: 0,
            placement: Placement::default(),
            pass: Pass::Rate,
            dir: PathBuf::new(),
        }
    }
}

impl ForeignCell {
    fn new(workload: impl Into<String>) -> ForeignCell {
        ForeignCell { workload: workload.into(), ..ForeignCell::default() }
    }
}

impl Foreign {
    fn new(primary: &str, unit: ReplicationUnit, lacks: &[&str]) -> Foreign {
        Foreign {
            runs: Vec::new(),
            metrics: BTreeMap::new(),
            primary: primary.to_string(),
            unit,
            blocks: false,
            runs_alone: false,
            lacks: lacks.iter().map(|lack| lack.to_string()).collect(),
            unread: BTreeMap::new(),
            warnings: Vec::new(),
            host: HostFacts::default(),
        }
    }

    /// Replaces control characters in all names, because they are printed.
    fn make_printable(&mut self) {
        let map = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, value)| (printable(name), printable(value))).collect()
        };
        for run in &mut self.runs {
            run.variant = run.variant.as_deref().map(printable).filter(|name| !name.is_empty());
            run.cell.workload = printable(&run.cell.workload);
            run.cell.parameters = map(&run.cell.parameters);
            run.options = map(&run.options);
            if run.values.keys().any(|name| printable(name) != *name) {
                let values = std::mem::take(&mut run.values).into_iter();
                run.values = values.map(|(name, value)| (printable(&name), value)).collect();
            }
        }
        let metrics = std::mem::take(&mut self.metrics).into_iter();
        self.metrics = metrics.map(|(name, about)| (printable(&name), about)).collect();
        self.primary = printable(&self.primary);
    }

    /// Says of a line that is not read how many numbers it has, unless it has none.
    fn leave(&mut self, what: &str, line: &str) {
        let numbers = numbers_in(line);
        if numbers > 0 {
            *self.unread.entry(what.to_string()).or_default() += numbers;
        }
    }

    fn warn_of_unread(&mut self, file: &str) {
        /// More are counted and not named.
        const NAMED: usize = 6;
        if self.unread.is_empty() {
            return;
        }
        let named = self.unread.iter().take(NAMED);
        let mut named: Vec<String> = named
            .map(|(what, n)| format!("{} ({})", printable(what), counted(*n, "number")))
            .collect();
        if self.unread.len() > NAMED {
            let more: usize = self.unread.values().skip(NAMED).sum();
            named.push(format!("{} more", counted(more, "number")));
        }
        let text = format!("not read from {file}: {}", named.join(", "));
        self.warnings.push(Warning::new(text, "the file itself has them"));
    }

    /// Adds a warning about values that are missing because they were not finite numbers.
    fn note_not_finite(&mut self, count: usize) {
        if count > 0 {
            let text = format!("values that are missing or not finite: {count}");
            self.warnings.push(Warning::new(text, "check what the tool wrote in their place"));
        }
    }

    /// Describes a metric, unless it is one of knee's own.
    fn describe(&mut self, name: &str, unit: &str, better: Better) {
        if !METRICS.iter().any(|metric| metric.matches(name)) {
            let unit = unit.to_string();
            let described =
                DescribedMetric { unit, better, obtained: Obtained::Imported, kind: None };
            self.metrics.insert(name.to_string(), described);
        }
    }
}

fn printable(text: &str) -> String {
    text.replace(char::is_control, " ").trim().to_string()
}

/// How many of a line's words are numbers, maybe with a unit: "12.5ms", "(4.0/s)".
fn numbers_in(line: &str) -> usize {
    let is_number = |word: &&str| {
        let word = word.trim_start_matches(['(', '[', '+', '-', '<', '=']);
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    line.split([' ', '\t', ',', ';', '/', ':', '|']).filter(is_number).count()
}

/// Parses a number of a tool: `None` if it is not finite, an error if it is not a number.
fn number(text: &str, line: usize, what: &str) -> Result<Option<f64>> {
    let value: Option<f64> = text.trim().parse().ok().or_else(|| parse::number(text.trim()));
    let value = value.with_context(|| format!("line {line}: {what} is '{text}', not a number"))?;
    Ok(Some(value).filter(|value| value.is_finite()))
}

/// Parses a number that cannot be negative.
fn amount(text: &str, line: usize, what: &str) -> Result<Option<f64>> {
    let value = number(text, line, what)?;
    ensure!(value.is_none_or(|v| v >= 0.0), "line {line}: {what} is {text}, cannot be negative");
    Ok(value)
}

/// Parses a count of tasks or CPUs.
fn count(text: &str, line: usize, what: &str) -> Result<u32> {
    let is_whole = |n: &f64| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n);
    let written = || parse::number(text.trim()).filter(is_whole).map(|n| n as u32);
    let count = text.trim().parse().ok().or_else(written);
    count.with_context(|| format!("line {line}: {what} is '{text}', must be a whole number"))
}

/// Words as a part of a metric's name: `close calls per sec` becomes `close_calls_per_sec`.
fn metric_word(text: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let word: String = text.trim().chars().map(letter).collect();
    word.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// Which direction is better, guessed from the metric's name.
fn better_by_name(name: &str) -> Better {
    const HIGHER: [&str; 8] =
        ["ops", "ops_per_sec", "per_sec", "throughput", "iops", "per_s", "bandwidth", "_bps"];
    const LOWER: [&str; 5] = ["latency", "latency_us", "latency_ns", "elapsed_time", "runtime"];
    let has_ending = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if has_ending(&LOWER) {
        Better::Lower
    } else if has_ending(&HIGHER) {
        Better::Higher
    } else {
        Better::Neither
    }
}
