//! Results of other tools as records. A format is one file here: a pure function from a
//! file's text to the same intermediate type, [`Foreign`]. What all formats need, reading
//! files and making a record of many, stands in `input` and `assemble`.
//!
//! No format says all that a record of knee's own says. What one lacks is part of what it
//! yields, in sentences, so that no report can promise more than the file holds.

mod assemble;
mod csv;
mod fio;
mod fs_mark;
mod hyperfine;
mod input;
mod json;
mod lkp;
mod plain;
mod stress_ng;
mod will_it_scale;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::Placement;
use records::{
    Better, DescribedMetric, Form, HostFacts, METRICS, Obtained, Pass, ReplicationUnit, Warning,
};

pub use crate::import::assemble::{Imported, Telling, assemble};
pub use crate::import::input::Input;

/// A format of another tool.
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// What its files look like, for who must name it.
    pub about: &'static str,
    /// Whether a text can be nothing else.
    recognise: fn(&str) -> bool,
    /// Reads one file.
    read: fn(&File) -> Result<Foreign>,
}

/// The formats, in the order in which they are listed.
pub const FORMATS: &[Format] = &[
    Format {
        name: "plain",
        about: "CSV with the columns variant, metric, value; also what knee export writes",
        recognise: plain::recognise,
        read: plain::read,
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
        name: "hyperfine",
        about: "the JSON of --export-json",
        recognise: hyperfine::recognise,
        read: hyperfine::read,
    },
];

impl Format {
    /// The format of this name.
    pub fn find(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The format that a text is in; none if it may be several or none.
    pub fn of(text: &str) -> Option<&'static Format> {
        let mut fits = FORMATS.iter().filter(|format| (format.recognise)(text));
        fits.next().filter(|_| fits.next().is_none())
    }

    /// Reads one file. `name` is what errors call it.
    pub fn read(&self, name: &str, file: &File) -> Result<Foreign> {
        ensure!(!file.text.trim().is_empty(), "{name} is empty: was the tool interrupted?");
        let what = || format!("reading {name} as {}", self.name);
        let mut foreign = (self.read)(file).with_context(what)?;
        foreign.make_printable();
        if foreign.runs.is_empty() {
            bail!("{name} has no results: {} expects {}", self.name, self.about);
        }
        Ok(foreign)
    }
}

/// What a reader gets of a file.
#[derive(Debug)]
pub struct File<'a> {
    /// Where it lies; some tools keep the circumstances only in the path.
    pub path: &'a Path,
    /// Its text.
    pub text: &'a str,
    /// Whether it is the only one that is imported.
    pub alone: bool,
}

/// What one file says, whatever its format.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// Its runs, in the order of the file.
    pub runs: Vec<ForeignRun>,
    /// What is known of its metrics.
    pub metrics: BTreeMap<String, DescribedMetric>,
    /// The metric that the tool is about.
    pub primary: String,
    /// What one of its runs is.
    pub unit: ReplicationUnit,
    /// Whether runs of one block belong together.
    pub blocks: bool,
    /// What the format does not tell, a sentence each.
    pub lacks: Vec<String>,
    /// Doubts about this very file.
    pub warnings: Vec<Warning>,
    /// What it tells of the computer.
    pub host: HostFacts,
}

/// One run that another tool made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForeignRun {
    /// The variant, where the file itself tells variants apart.
    pub variant: Option<String>,
    /// Which cell it belongs to: only runs of one place are ever compared.
    pub place: ForeignPlace,
    /// What else is known of how it was run; variants may differ in it.
    pub options: BTreeMap<String, String>,
    /// What its block is numbered within: blocks of different records are different.
    pub series: String,
    /// The block, where the file tells.
    pub block: Option<u32>,
    /// Whether it repeats another run to see how far equal things differ.
    pub placebo: bool,
    /// When it started, where the file tells.
    pub started: Option<jiff::Timestamp>,
    /// Values by metric; what is not there is missing.
    pub values: BTreeMap<String, f64>,
    /// Why it does not count.
    pub failed: Option<String>,
    /// Values inside the run, in order, where the file has them.
    pub samples: Vec<BTreeMap<String, f64>>,
}

/// A cell of another tool's results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForeignPlace {
    /// The workload; empty where only the user can say.
    pub workload: String,
    /// Its semantic version, 0 where there is none.
    pub semantics: u32,
    /// Parameters that tell cells apart.
    pub parameters: BTreeMap<String, String>,
    /// Processes or threads.
    pub form: Form,
    /// CPUs, 0 where not told.
    pub cpus: u32,
    /// Tasks, 0 where not told.
    pub tasks: u32,
    /// How CPUs were chosen.
    pub placement: Placement,
    /// What was recorded.
    pub pass: Pass,
    /// Directory measured.
    pub dir: PathBuf,
}

impl Default for ForeignPlace {
    fn default() -> ForeignPlace {
        ForeignPlace {
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

impl ForeignPlace {
    fn at(workload: impl Into<String>) -> ForeignPlace {
        ForeignPlace { workload: workload.into(), ..ForeignPlace::default() }
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
            lacks: lacks.iter().map(|lack| lack.to_string()).collect(),
            warnings: Vec::new(),
            host: HostFacts::default(),
        }
    }

    /// Takes line ends and what else moves a cursor out of all names: they are printed.
    fn make_printable(&mut self) {
        let map = |map: &BTreeMap<String, String>| {
            map.iter().map(|(name, value)| (printable(name), printable(value))).collect()
        };
        for run in &mut self.runs {
            run.variant = run.variant.as_deref().map(printable).filter(|name| !name.is_empty());
            run.place.workload = printable(&run.place.workload);
            run.place.parameters = map(&run.place.parameters);
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

    /// Says that values are missing because they were no finite numbers.
    fn note_not_finite(&mut self, count: usize) {
        if count > 0 {
            let text = format!("values that are missing or no finite numbers: {count}");
            self.warnings.push(Warning::new(text, "look at what the tool wrote there"));
        }
    }

    /// Says what a metric is, unless it is one of knee's own.
    fn describe(&mut self, name: &str, unit: &str, better: Better) {
        if !METRICS.iter().any(|metric| metric.matches(name)) {
            let unit = unit.to_string();
            let described = DescribedMetric { unit, better, obtained: Obtained::Imported };
            self.metrics.insert(name.to_string(), described);
        }
    }
}

fn printable(text: &str) -> String {
    text.replace(char::is_control, " ").trim().to_string()
}

/// A number that tools write: missing where it is not finite, an error where it is none.
fn number(text: &str, line: usize, what: &str) -> Result<Option<f64>> {
    let value: Option<f64> = text.trim().parse().ok();
    let value = value.with_context(|| format!("line {line}: {what} is '{text}', no number"))?;
    Ok(Some(value).filter(|value| value.is_finite()))
}

/// The same, of what cannot be below zero.
fn amount(text: &str, line: usize, what: &str) -> Result<Option<f64>> {
    let value = number(text, line, what)?;
    ensure!(value.is_none_or(|v| v >= 0.0), "line {line}: {what} is {text}, cannot be negative");
    Ok(value)
}

/// A count of tasks or CPUs.
fn count(text: &str, line: usize, what: &str) -> Result<u32> {
    let count = text.trim().parse().ok();
    count.with_context(|| format!("line {line}: {what} is '{text}', must be a whole number"))
}

/// A word as part of a metric's name: `close calls per sec` is `close_calls_per_sec`.
fn metric_word(text: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let word: String = text.trim().chars().map(letter).collect();
    word.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// Which direction is better, told from how tools name their metrics.
fn better_by_name(name: &str) -> Better {
    const HIGHER: [&str; 8] =
        ["ops", "ops_per_sec", "per_sec", "throughput", "iops", "per_s", "bandwidth", "_bps"];
    const LOWER: [&str; 5] = ["latency", "latency_us", "latency_ns", "elapsed_time", "runtime"];
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match () {
        () if ends(&LOWER) => Better::Lower,
        () if ends(&HIGHER) => Better::Higher,
        () => Better::Neither,
    }
}
