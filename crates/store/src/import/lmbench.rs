//! What lmbench's programs print, alone or in a file of `make results`: lines such as `Simple read: 0.35 microseconds`, and
//! lists of two numbers below a heading. Source: the programs of lmbench 2 and 3, and files of their results.

use anyhow::Result;
use records::Better::{self, Higher, Lower, Neither};
use records::{ReplicationUnit, parse};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "each value is lmbench's own choice of several: replication needs several files",
    "CPUs and settings of the host are not read",
];

/// Units at the end of a line, as ends of names.
const UNITS: [(&str, &str, &str, Better); 8] = [
    ("microseconds", "us", "us", Lower),
    ("nanoseconds", "ns", "ns", Lower),
    ("milliseconds", "ms", "ms", Lower),
    ("seconds", "s", "s", Lower),
    ("MB/sec", "mb_per_s", "MB/s", Higher),
    ("KB/sec", "kb_per_s", "KB/s", Higher),
    ("MB/s", "mb_per_s", "MB/s", Higher),
    ("KB/s", "kb_per_s", "KB/s", Higher),
];

/// Starts of lines that no other tool prints.
const OWN: [&str; 9] = [
    "Simple syscall: ",
    "Simple read: ",
    "Select on ",
    "Signal handler ",
    "Process fork+",
    "Pipe latency: ",
    "AF_UNIX sock stream ",
    "Pagefaults on ",
    "Protection fault: ",
];

/// Whether a text has a result that only lmbench has.
pub fn recognise(text: &str) -> bool {
    let is_own = |line: &str| {
        OWN.iter().any(|start| line.starts_with(start)) && single(line).is_some()
            || heading(line).is_some_and(|list| matches!(list.kind, Kind::Mappings))
    };
    text.lines().any(is_own) || (text.starts_with("[lmbench") && text.lines().any(is_result))
}

fn is_result(line: &str) -> bool {
    single(line).is_some()
}

/// Reads a run of all single results, and one for each line of a list.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("lmbench.simple_syscall_us", ReplicationUnit::Run, LACKS);
    let mut run = blank();
    let mut list: Option<List> = None;
    for line in file.text.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            foreign.leave("descriptions of the host", line);
        } else if let Some((name, value, unit, better)) = single(line) {
            list = None;
            foreign.describe(&name, unit, better);
            if run.values.contains_key(&name) {
                foreign.runs.push(std::mem::replace(&mut run, blank()));
            }
            run.values.insert(name, value);
        } else if let Some(next) = heading(line) {
            let before = list.take();
            list = Some(next.below(before));
            let overhead = list.as_ref().and_then(|list| Some((list, list.overhead?)));
            foreign.runs.extend(overhead.map(|(list, value)| {
                let cell = list.cell("processes", "0");
                row(cell, &[("lmbench.context_switch_overhead_us", value)])
            }));
        } else if let Some(run) = list.as_ref().and_then(|list| list.row(line)) {
            foreign.runs.push(run);
        } else if let Some(run) = files(line) {
            foreign.runs.push(run);
        } else {
            let is_words = line.starts_with(|c: char| c.is_alphabetic() || c == '"');
            list = list.filter(|_| !is_words);
            foreign.leave("other lines", line);
        }
    }
    foreign.runs.extend(Some(run).filter(|run| !run.values.is_empty()));
    for (name, unit, better) in LISTED {
        if foreign.runs.iter().any(|run| run.values.contains_key(name)) {
            foreign.describe(name, unit, better);
        }
    }
    if !foreign.metrics.contains_key(&foreign.primary) {
        let first = foreign.runs.iter().flat_map(|run| run.values.keys()).next();
        foreign.primary = first.cloned().unwrap_or_default();
    }
    Ok(foreign)
}

/// Metrics of the lists.
const LISTED: [(&str, &str, Better); 8] = [
    (BANDWIDTH, "MB/s", Higher),
    ("lmbench.mmap_us", "us", Lower),
    ("lmbench.load_latency_ns", "ns", Lower),
    ("lmbench.context_switch_us", "us", Lower),
    ("lmbench.context_switch_overhead_us", "us", Lower),
    ("lmbench.files", "1", Neither),
    ("lmbench.files_created_per_s", "1/s", Higher),
    ("lmbench.files_deleted_per_s", "1/s", Higher),
];
const BANDWIDTH: &str = "lmbench.mb_per_s";

fn blank() -> ForeignRun {
    ForeignRun { cell: ForeignCell::new("lmbench"), ..ForeignRun::default() }
}

fn row(cell: ForeignCell, values: &[(&str, f64)]) -> ForeignRun {
    let values = values.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    ForeignRun { cell, values, ..ForeignRun::default() }
}

/// `Pipe latency: 5.1 microseconds`, as the name of a metric, its value, unit and direction.
fn single(line: &str) -> Option<(String, f64, &'static str, Better)> {
    let (name, rest) = line.rsplit_once(':')?;
    let mut words = rest.split_whitespace();
    let (value, unit) = (parse::number(words.next()?)?, words.next()?);
    let (_, ending, unit, better) = UNITS.iter().find(|(known, ..)| *known == unit)?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic()) && words.next().is_none();
    // The path of a file is the user's.
    let name = name.split_whitespace().filter(|word| !word.starts_with('/'));
    let name = metric_word(&name.collect::<Vec<_>>().join(" "));
    is_name.then(|| (format!("lmbench.{name}_{ending}"), value, *unit, *better))
}

/// A list of numbers below a heading.
struct List {
    kind: Kind,
    workload: String,
    /// What the heading says of each line: the stride, or the size of the processes.
    parameter: Option<(&'static str, String)>,
    overhead: Option<f64>,
}

enum Kind {
    Bandwidth,
    Mappings,
    Loads,
    Contexts,
    Files,
}

/// The list that a line begins.
fn heading(line: &str) -> Option<List> {
    let (is_quoted, text) = match line.strip_prefix('"') {
        Some(text) => (true, text),
        None => (false, line),
    };
    let list = |kind, workload: &str| List {
        kind,
        workload: format!("lmbench.{}", metric_word(workload)),
        parameter: None,
        overhead: None,
    };
    if let Some(stride) = text.strip_prefix("stride=").filter(|_| is_quoted) {
        let parameter = Some(("stride", stride.trim().to_string()));
        return Some(List { parameter, ..list(Kind::Loads, "load latency") });
    }
    if let Some(size) = text.strip_prefix("size=").filter(|_| is_quoted) {
        let (size, overhead) = size.split_once(" ovr=").unwrap_or((size, ""));
        let parameter = Some(("size", size.trim().to_string()));
        let overhead = parse::number(overhead.trim());
        return Some(List { parameter, overhead, ..list(Kind::Contexts, "context switch") });
    }
    let lower = text.to_ascii_lowercase();
    let is_bandwidth = text.ends_with("bandwidth") || lower.contains("bcopy");
    let is_list = is_quoted || text.starts_with("Memory ");
    match lower.as_str() {
        _ if text.contains(':') => None,
        "mappings" => Some(list(Kind::Mappings, "mappings")),
        "file system latency" => Some(list(Kind::Files, "file system")),
        "memory load latency" | "random load latency" => Some(list(Kind::Loads, text)),
        _ if text.starts_with("Socket bandwidth using ") => Some(list(Kind::Bandwidth, text)),
        _ if is_list && is_bandwidth => Some(list(Kind::Bandwidth, text)),
        _ => None,
    }
}

impl List {
    /// A stride stands below the heading that names its list.
    fn below(self, before: Option<List>) -> List {
        match before {
            Some(before) if matches!((&self.kind, &before.kind), (Kind::Loads, Kind::Loads)) => {
                List { workload: before.workload, ..self }
            }
            _ => self,
        }
    }

    fn cell(&self, name: &str, at: &str) -> ForeignCell {
        let mut cell = ForeignCell::new(self.workload.clone());
        let parameter = self.parameter.iter().map(|(name, value)| (*name, value.clone()));
        let all = parameter.chain([(name, at.to_string())]);
        cell.parameters = all.map(|(name, value)| (name.to_string(), value)).collect();
        cell
    }

    /// A line of the list: what it is at, and its value.
    fn row(&self, line: &str) -> Option<ForeignRun> {
        let mut words = line.split_whitespace();
        let (at, value) = (words.next()?, parse::number(words.next()?)?);
        parse::number(at)?;
        let is_end = match words.next() {
            None => true,
            Some(unit) => unit == "MB/sec" && words.next().is_none(),
        };
        let (name, metric) = match self.kind {
            Kind::Bandwidth => ("size_mb", BANDWIDTH),
            Kind::Mappings => ("size_mb", "lmbench.mmap_us"),
            Kind::Loads => ("size_mb", "lmbench.load_latency_ns"),
            Kind::Contexts => ("processes", "lmbench.context_switch_us"),
            Kind::Files => return None,
        };
        is_end.then(|| row(self.cell(name, at), &[(metric, value)]))
    }
}

/// A line of lat_fs: the size of files, their number, and how many of them are created and deleted in a second.
fn files(line: &str) -> Option<ForeignRun> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [size, files, created, deleted] = words[..] else { return None };
    let is_size = size.strip_suffix('k').is_some_and(|number| number.parse::<u32>().is_ok());
    let values = [parse::number(files)?, parse::number(created)?, parse::number(deleted)?];
    let mut cell = ForeignCell::new("lmbench.file_system");
    cell.parameters.insert("size".to_string(), size.to_string());
    let names = ["lmbench.files", "lmbench.files_created_per_s", "lmbench.files_deleted_per_s"];
    let values: Vec<(&str, f64)> = names.into_iter().zip(values).collect();
    is_size.then(|| row(cell, &values))
}
