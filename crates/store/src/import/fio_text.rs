//! The text that fio 2 and 3 print: for each job or group of jobs its rates, latencies and CPU time, as the JSON has them,
//! but rounded. Source: "Interpreting the output" of fio's HOWTO, and outputs of 2.2 to 3.28.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::ReplicationUnit;
use records::parse;

use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const RATE: &str = "operations_per_s";
const LACKS: &[&str] = &[
    "rates are rounded to three digits, which --output-format=json has in full",
    "one file is one run of each job: replication needs several files of each variant",
    "jobs of one file may have run at the same time, and then they depend on each other",
    "kernel, CPUs, file system and device are not recorded",
];

/// Whether a text has the first line of a job's results.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| job(line).is_some())
}

/// Name, number of jobs and error of the line `NAME: (groupid=0, jobs=1): err= 0: pid=7: DATE`.
fn job(line: &str) -> Option<(&str, u32, u32)> {
    let (name, rest) = line.split_once(": (groupid=")?;
    let (_, rest) = rest.split_once("jobs=")?;
    let (jobs, rest) = rest.split_once("): err=")?;
    let error = rest.trim_start().split(':').next()?;
    Some((name.trim(), jobs.trim().parse().ok()?, error.trim().parse().ok()?))
}

struct Reader {
    foreign: Foreign,
    /// Options of each job, from the lines above all results.
    options: BTreeMap<String, BTreeMap<String, String>>,
    /// The direction whose lines follow.
    direction: &'static str,
    /// What percentiles are of, and how many ns their unit has.
    percentiles: (&'static str, f64),
}

/// Reads a run for each job.
pub fn read(file: &File) -> Result<Foreign> {
    let mut reader = Reader {
        foreign: Foreign::new(RATE, ReplicationUnit::Run, LACKS),
        options: BTreeMap::new(),
        direction: "",
        percentiles: ("completion", 1.0),
    };
    for line in file.text.lines() {
        reader.line(line);
    }
    let mut foreign = reader.foreign;
    for run in &mut foreign.runs {
        let iops = |direction: &str| run.values.get(&format!("fio.{direction}.iops")).copied();
        let rates: Vec<f64> =
            ["read", "write", "trim", "mixed"].into_iter().filter_map(iops).collect();
        // The rate of a single direction is that of all operations.
        if let [rate] = rates[..] {
            run.values.insert(RATE.to_string(), rate);
        }
    }
    tell_clones_apart(&mut foreign);
    let rates = [RATE, "fio.write.iops", "fio.read.iops"];
    let has = |rate: &&str| foreign.runs.iter().all(|run| run.values.contains_key(*rate));
    foreign.primary = rates.into_iter().find(has).unwrap_or(RATE).to_string();
    ensure!(foreign.runs.iter().any(|run| !run.values.is_empty()), "no job has a result");
    Ok(foreign)
}

/// Jobs of one name that are reported one by one are cells of their own.
fn tell_clones_apart(foreign: &mut Foreign) {
    let mut all: BTreeMap<String, u32> = BTreeMap::new();
    for run in &foreign.runs {
        *all.entry(run.cell.workload.clone()).or_default() += 1;
    }
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for run in foreign.runs.iter_mut().filter(|run| all[&run.cell.workload] > 1) {
        let number = seen.entry(run.cell.workload.clone()).or_default();
        run.cell.parameters.insert("job_number".to_string(), number.to_string());
        *number += 1;
    }
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        if let Some((name, jobs, error)) = job(line) {
            self.begin(name, jobs, error);
            let rest = line.replacen(&format!("jobs={jobs}"), "", 1).replacen(name, "", 1);
            self.foreign.leave("groups, processes and dates", &rest.replace('=', " "));
        } else if self.foreign.runs.is_empty() {
            self.option_line(text);
        } else if text.starts_with("Run status group") || text.starts_with("Disk stats") {
            // What follows is of all jobs.
            self.direction = "summary";
        } else if self.direction == "summary" {
            self.foreign.leave("totals of groups and disks", &text.replace(['=', '(', '-'], " "));
        } else if !self.result(text) {
            self.foreign.leave("distributions and other lines", &text.replace('=', " "));
        }
    }

    fn begin(&mut self, name: &str, jobs: u32, error: u32) {
        let cell = ForeignCell { tasks: jobs, ..ForeignCell::new(format!("fio.{name}")) };
        let options = self.options.get(name).cloned().unwrap_or_default();
        let failed = (error != 0).then(|| format!("fio reports error {error} for the job"));
        self.foreign.runs.push(ForeignRun { cell, options, failed, ..ForeignRun::default() });
        self.direction = "";
    }

    /// `NAME: (g=0): rw=read, bs=4K, ioengine=libaio, iodepth=8`
    fn option_line(&mut self, text: &str) {
        let parts = text
            .split_once(": (g=")
            .and_then(|(name, rest)| Some((name, rest.split_once("): ")?.1)));
        let Some((name, rest)) = parts else {
            self.foreign.leave("lines above the jobs", &text.replace('-', " "));
            return;
        };
        *self.foreign.unread.entry("lines above the jobs".to_string()).or_default() += 1;
        let known = ["rw", "ioengine", "iodepth"];
        let mut options: BTreeMap<String, String> = pairs(rest)
            .filter(|(key, _)| known.contains(key))
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        let block = rest.split_once("bs=").and_then(|(_, rest)| rest.split_once(", ioengine"));
        options.extend(block.map(|(block, _)| ("bs".to_string(), block.to_string())));
        self.options.insert(name.to_string(), options);
    }

    /// Reads a line of a job; returns whether it is one.
    fn result(&mut self, text: &str) -> bool {
        let words = text.split([' ', ':', '(']).next().unwrap_or_default();
        let direction =
            ["read", "write", "trim", "mixed"].into_iter().find(|known| *known == words);
        if let Some(direction) = direction.filter(|_| text.to_ascii_lowercase().contains("iops=")) {
            self.direction = direction;
            return self.rates(text);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (kind, unit) = kind.split_once('(').unwrap_or((kind, ""));
        let unit = unit.trim_end_matches(')').trim();
        match kind.trim() {
            "slat" | "clat" | "lat" if rest.contains("avg=") && !self.direction.is_empty() => {
                self.latencies(kind.trim(), unit, rest)
            }
            "clat percentiles" | "lat percentiles" if !self.direction.is_empty() => {
                let of = if kind.starts_with("clat") { "completion" } else { "latency" };
                self.percentiles = (of, ns(unit));
                true
            }
            "bw" if rest.contains("avg=") => self.range("bytes_per_s", "B/s", bytes(unit), rest),
            "iops" if rest.contains("avg=") => self.range("iops", "1/s", Some(1.0), rest),
            "cpu" => self.cpu(rest),
            _ if text.starts_with('|') => self.percentiles(text),
            _ => false,
        }
    }

    fn put(&mut self, name: String, unit: &str, better: Better, value: Option<f64>) {
        let Some(value) = value else { return };
        self.foreign.describe(&name, unit, better);
        if let Some(run) = self.foreign.runs.last_mut() {
            run.values.insert(name, value);
        }
    }

    fn rates(&mut self, text: &str) -> bool {
        let direction = self.direction;
        let rest = text.split_once(':').map_or("", |(_, rest)| rest);
        for (key, value) in pairs(rest) {
            match key.to_ascii_lowercase().as_str() {
                "iops" => {
                    self.put(format!("fio.{direction}.iops"), "1/s", Higher, parse::number(value));
                }
                "bw" => {
                    let first = value.split(['(', ' ']).next().unwrap_or_default();
                    self.put(format!("fio.{direction}.bytes_per_s"), "B/s", Higher, amount(first));
                    // (90.8MB/s)(1024MiB/11821msec); 0 zone resets
                    let mut groups = value.split('(').skip(1);
                    let again = groups.next().map_or("", |again| again.trim_end_matches(')'));
                    self.foreign.leave("rates in another unit", again);
                    let done =
                        groups.next().and_then(|done| done.split(')').next()?.split_once('/'));
                    if let Some((done, time)) = done {
                        self.put(format!("fio.{direction}.bytes"), "B", Neither, amount(done));
                        let ms = time.strip_suffix("msec").and_then(parse::number);
                        self.put(format!("fio.{direction}.runtime_ms"), "ms", Neither, ms);
                    }
                    self.foreign.leave("zone resets", value.split(';').nth(1).unwrap_or_default());
                }
                "io" => self.put(format!("fio.{direction}.bytes"), "B", Neither, amount(value)),
                "runt" => {
                    let ms = value.strip_suffix("msec").and_then(parse::number);
                    self.put(format!("fio.{direction}.runtime_ms"), "ms", Neither, ms);
                }
                _ => self.foreign.leave("other numbers", value),
            }
        }
        true
    }

    fn latencies(&mut self, kind: &str, unit: &str, rest: &str) -> bool {
        let kind = match kind {
            "lat" => "latency",
            "clat" => "completion",
            _ => "submission",
        };
        for (key, value) in pairs(rest) {
            let value = parse::number(value).map(|value| value * ns(unit));
            let name = format!("fio.{}.{kind}_{}_ns", self.direction, spelt(key));
            self.put(name, "ns", Lower, value);
        }
        true
    }

    /// Extremes and mean of a rate over the run's intervals.
    fn range(&mut self, what: &str, unit: &str, factor: Option<f64>, rest: &str) -> bool {
        let Some(factor) = factor.filter(|_| !self.direction.is_empty()) else { return false };
        for (key, value) in pairs(rest) {
            match (key, value.strip_suffix('%')) {
                ("per", Some(percent)) => {
                    let name = format!("fio.{}.bw_agg_percent", self.direction);
                    self.put(name, "%", Neither, parse::number(percent));
                }
                ("samples", _) => {
                    let name = format!("fio.{}.{what}_samples", self.direction);
                    self.put(name, "1", Neither, parse::number(value));
                }
                _ => {
                    let name = format!("fio.{}.{what}_{}", self.direction, short(key));
                    let value = parse::number(value).map(|value| value * factor);
                    self.put(name, unit, Neither, value);
                }
            }
        }
        true
    }

    fn cpu(&mut self, rest: &str) -> bool {
        for (key, value) in pairs(rest) {
            let (name, unit) = match key {
                "usr" => ("fio.user_percent", "%"),
                "sys" => ("fio.system_percent", "%"),
                "ctx" => ("fio.context_switches", "1"),
                "majf" => ("time.major_page_faults", "1"),
                "minf" => ("time.minor_page_faults", "1"),
                _ => continue,
            };
            let value = parse::number(value.trim_end_matches('%'));
            self.put(name.to_string(), unit, Neither, value);
        }
        true
    }

    /// `|  1.00th=[   71],  5.00th=[   81],`
    fn percentiles(&mut self, text: &str) -> bool {
        let (of, unit) = self.percentiles;
        for part in text.trim_start_matches('|').split(']') {
            let Some((percent, value)) = part.split_once("th=[") else { continue };
            let percent = percent.trim_start_matches([',', ' ']);
            let percent = percent.trim_end_matches('0').trim_end_matches('.').replace('.', "");
            let value = parse::number(value.trim()).map(|value| value * unit);
            self.put(format!("fio.{}.{of}_p{percent}_ns", self.direction), "ns", Lower, value);
        }
        true
    }
}

/// The parts `key=value` of a line, between commas.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(", ").filter_map(|part| part.split_once('='));
    parts.map(|(key, value)| (key.trim(), value.trim().trim_end_matches(',')))
}

fn spelt(key: &str) -> &str {
    match key {
        "avg" => "mean",
        "stdev" => "stddev",
        other => other,
    }
}

fn short(key: &str) -> &str {
    match key {
        "avg" => "mean",
        "stdev" => "dev",
        other => other,
    }
}

/// How many ns a unit of time has.
fn ns(unit: &str) -> f64 {
    match unit {
        "usec" => 1e3,
        "msec" => 1e6,
        "sec" => 1e9,
        _ => 1.0,
    }
}

/// How many bytes a unit has. fio 2 calls 1024 bytes a KB.
fn bytes(unit: &str) -> Option<f64> {
    let unit: String = unit.trim_end_matches("/s").split_whitespace().collect();
    Some(match unit.as_str() {
        "B" => 1.0,
        "KiB" | "KB" | "K" => 1024.0,
        "MiB" | "MB" | "M" => 1024.0 * 1024.0,
        "GiB" | "GB" | "G" => 1024.0 * 1024.0 * 1024.0,
        "TiB" | "TB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// An amount with its unit: 1752.1MB, 86.6MiB/s.
fn amount(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    Some(number.parse::<f64>().ok()? * bytes(unit)?)
}
