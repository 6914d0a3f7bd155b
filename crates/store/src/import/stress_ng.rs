//! Metrics of stress-ng: the table of --metrics ("metrc" lines, "info" in old versions), and the file of
//! --yaml. Each stressor is a workload; each table or document is a run. Source: stress-ng(1), and the
//! output of 0.15.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use records::Better::{Higher, Lower, Neither};
use records::{HostFacts, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount, better_by_name, metric_word};

const LACKS: &[&str] = &[
    "a bogo operation depends on the version of the stressor: compare only results of one version of \
     stress-ng",
    "operations/s divides by the mean of the instances' times, not by the time until the last \
     instance stopped",
    "stressors of one run may have run at the same time, and then they depend on each other",
    "the CPUs of the instances are not recorded",
];

/// The columns of the table by their keys in the YAML file, with their metrics.
const COLUMNS: [(&str, &str); 8] = [
    ("bogo-ops", "operations"),
    ("wall-clock-time", "stress-ng.real_time_s"),
    ("user-time", "time.user_time"),
    ("system-time", "time.system_time"),
    ("bogo-ops-per-second-real-time", "operations_per_s"),
    ("bogo-ops-per-second-usr-sys-time", PER_CPU_SECOND),
    ("cpu-usage-per-instance", "stress-ng.cpu_percent_per_instance"),
    ("max-rss", "time.maximum_resident_set_size"),
];
const PER_CPU_SECOND: &str = "stress-ng.operations_per_cpu_s";
/// Columns that every version prints.
const COLUMNS_MIN: usize = 6;

/// Whether a text has the table, or the stressors of the YAML file.
pub fn recognise(text: &str) -> bool {
    is_yaml(text)
        || text.lines().any(|line| message(line).is_some_and(|(_, words)| is_heading(words)))
}

fn is_yaml(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "metrics:")
        && text.lines().any(|line| line.trim_start().starts_with("- stressor:"))
}

fn is_heading(words: &str) -> bool {
    words.starts_with("stressor ") && words.contains("bogo ops")
}

/// The message of a log line without its prefix: `stress-ng: metrc: [77] MESSAGE`, and whether it is one of metrics.
fn message(line: &str) -> Option<(bool, &str)> {
    let (_, rest) = line.split_once("stress-ng: ")?;
    let (kind, rest) = rest.split_once(':')?;
    let rest = rest.trim_start();
    let without_id = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let words = without_id.map_or(rest, |(_, words)| words);
    ["metrc", "info"].contains(&kind).then(|| (kind == "metrc", words.trim()))
}

/// Reads a run for each stressor of each table.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    foreign.describe("stress-ng.real_time_s", "s", Neither);
    foreign.describe(PER_CPU_SECOND, "1/s", Higher);
    foreign.describe("stress-ng.cpu_percent_per_instance", "%", Neither);
    let mut reader = Reader { foreign, ..Reader::new() };
    if is_yaml(file.text) {
        reader.yaml(file.text)?;
    } else {
        reader.log(file.text)?;
    }
    Ok(reader.finish())
}

struct Reader {
    foreign: Foreign,
    /// Instances of each stressor, as the log announces them.
    instances: BTreeMap<String, u32>,
    /// Index of the first run of the current table.
    table: usize,
    miscellaneous: bool,
    missing: usize,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            foreign: Foreign::new("operations_per_s", ReplicationUnit::Run, &[]),
            instances: BTreeMap::new(),
            table: 0,
            miscellaneous: false,
            missing: 0,
        }
    }

    fn log(&mut self, text: &str) -> Result<()> {
        // Since 2023 a summary follows, which is no part of the table.
        let (mut in_table, mut has_kind) = (false, false);
        for (index, line) in text.lines().enumerate() {
            let Some((is_metric, words)) = message(line) else {
                self.foreign.leave("other lines", line);
                continue;
            };
            if has_kind && !is_metric && self.summary(words) {
                in_table = false;
                continue;
            }
            if let Some(hogs) = words.strip_prefix("dispatching hogs:") {
                self.announce(hogs);
                in_table = false;
            } else if is_heading(words) {
                (in_table, has_kind, self.miscellaneous) = (true, is_metric, false);
                self.table = self.foreign.runs.len();
            } else if words.starts_with("miscellaneous metrics:") {
                self.miscellaneous = true;
            } else if !in_table || !self.words(words, index + 1)? {
                self.foreign.leave("other lines", words);
            }
        }
        Ok(())
    }

    /// Reads a line of the summary, `failed: 1: futex (1)` or `metrics untrustworthy: 1: futex (1)`; returns whether
    /// it is one.
    fn summary(&mut self, words: &str) -> bool {
        let Some((what, rest)) = words.split_once(": ") else { return false };
        let why = match what {
            "failed" => "stress-ng reports a failure",
            "metrics untrustworthy" => "stress-ng says that its metrics are untrustworthy",
            "skipped" | "passed" => return true,
            _ => return false,
        };
        let named = rest.split_once(": ").map(|(_, names)| names).unwrap_or_default();
        let names = named.split_whitespace().filter(|word| !word.starts_with('('));
        let failed: Vec<String> = names.map(workload).collect();
        for run in &mut self.foreign.runs[self.table..] {
            if failed.contains(&run.cell.workload) {
                run.failed = Some(why.to_string());
            }
        }
        true
    }

    /// Reads the announced instances: "1 getrandom, 2 close".
    fn announce(&mut self, hogs: &str) {
        self.instances.clear();
        for hog in hogs.split(',') {
            if let Some((count, name)) = hog.trim().split_once(' ')
                && let Ok(count) = count.parse()
            {
                self.instances.insert(name.trim().to_string(), count);
            }
        }
    }

    /// Reads a row of the table; returns whether it is one.
    fn words(&mut self, words: &str, line: usize) -> Result<bool> {
        let fields: Vec<&str> = words.split_whitespace().collect();
        let is_number = |field: &&str| field.parse::<f64>().is_ok();
        let [name, numbers @ ..] = &fields[..] else { return Ok(true) };
        if !numbers.first().is_some_and(is_number) {
            // Units below the headings, or messages.
            return Ok(false);
        }
        // Before 2022, a stressor's own metrics stand below its row.
        if self.miscellaneous || numbers.get(1).is_some_and(|field| !is_number(field)) {
            self.other(name, numbers, line)?;
            return Ok(true);
        }
        ensure!(
            numbers.len() >= COLUMNS_MIN,
            "line {line}: {} numbers of {name}, expected {COLUMNS_MIN} or more; is the file truncated?",
            numbers.len()
        );
        self.begin(name, line)?;
        for ((_, metric), field) in COLUMNS.iter().zip(numbers) {
            self.put(metric, field, line)?;
        }
        Ok(true)
    }

    /// Reads a further metric: "close 1358756.32 close calls per sec (geometric mean of 2 instances)".
    fn other(&mut self, name: &str, fields: &[&str], line: usize) -> Result<()> {
        let words = fields[1..].join(" ").replace("/sec", " per sec");
        let what = words.split('(').next().unwrap_or_default().trim();
        let cell = workload(name);
        let of_stressor = |run: &ForeignRun| run.cell.workload == cell;
        // Swap it with the last run, which is where put() writes.
        let Some(at) = self.foreign.runs[self.table..].iter().position(of_stressor) else {
            bail!("line {line}: {name} is not in the table above; is the file truncated?");
        };
        let last = self.foreign.runs.len() - 1;
        self.foreign.runs.swap(self.table + at, last);
        // A stressor may print a metric of one name for each of its kinds.
        let base = format!("stress-ng.{}", metric_word(what));
        let known = &self.foreign.runs[last].values;
        let names = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}_{n}") });
        let metric = names.into_iter().find(|name| !known.contains_key(name)).unwrap_or(base);
        let put = self.put(&metric, fields[0], line);
        self.foreign.runs.swap(self.table + at, last);
        put
    }

    fn begin(&mut self, name: &str, line: usize) -> Result<()> {
        let mut cell = ForeignCell::new(workload(name));
        cell.tasks = self.instances.get(name).copied().unwrap_or_default();
        let mut known = self.foreign.runs[self.table..].iter();
        ensure!(
            known.all(|run| run.cell.workload != cell.workload),
            "line {line}: {name} is already in this table"
        );
        self.foreign.runs.push(ForeignRun { cell, ..ForeignRun::default() });
        Ok(())
    }

    /// Adds a value to the last run.
    fn put(&mut self, metric: &str, text: &str, line: usize) -> Result<()> {
        let value = amount(text, line, metric)?;
        self.missing += value.is_none() as usize;
        if !COLUMNS.iter().any(|(_, known)| *known == metric) {
            let lower = metric.contains("nanosec") || metric.contains("latency");
            let better = match unit(metric) {
                _ if lower => Lower,
                "1" => better_by_name(metric),
                _ => Higher,
            };
            self.foreign.describe(metric, unit(metric), better);
        }
        if let (Some(run), Some(value)) = (self.foreign.runs.last_mut(), value) {
            let new = run.values.insert(metric.to_string(), value).is_none();
            ensure!(new, "line {line}: {} already has a value of {metric}", run.cell.workload);
        }
        Ok(())
    }

    /// Reads the subset of YAML that stress-ng writes: sections, a list of maps, scalars.
    fn yaml(&mut self, text: &str) -> Result<()> {
        let mut section = "";
        let mut version = None;
        for (index, line) in text.lines().enumerate() {
            let (trimmed, line) = (line.trim(), index + 1);
            if trimmed == "---" {
                self.table = self.foreign.runs.len();
                continue;
            }
            let Some((key, value)) = trimmed.split_once(':') else { continue };
            let value = value.trim().trim_matches('\'');
            match (section, key.trim_start_matches("- ")) {
                (_, name) if value.is_empty() => section = name,
                ("system-info", "stress-ng-version") => version = Some(value.to_string()),
                ("system-info", key) => host(&mut self.foreign.host, key, value),
                ("metrics", "stressor") => {
                    self.begin(value, line)?;
                    if let (Some(run), Some(version)) = (self.foreign.runs.last_mut(), &version) {
                        run.options.insert("version".to_string(), version.clone());
                    }
                }
                ("metrics", key) if self.table < self.foreign.runs.len() => {
                    let known = COLUMNS.iter().find(|(name, _)| *name == key);
                    let other = format!("stress-ng.{}", metric_word(key));
                    self.put(known.map_or(&other, |(_, metric)| metric), value, line)?;
                }
                _ => (),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Foreign {
        for run in &mut self.foreign.runs {
            let value = |name: &str| run.values.get(name).copied().unwrap_or_default();
            // Without CPU time stress-ng writes the rate per CPU second as 0.
            if value("time.user_time") + value("time.system_time") <= 0.0 {
                run.values.remove(PER_CPU_SECOND);
            }
        }
        self.foreign.note_not_finite(self.missing);
        self.foreign
    }
}

/// The unit in the name of a stressor's own metric, such as "nanosecs per futex wake" or "MB per sec memory rate".
fn unit(metric: &str) -> &'static str {
    let words = metric.trim_start_matches("stress-ng.");
    let known = [
        ("nanosec", "ns"),
        ("microsec", "us"),
        ("millisec", "ms"),
        ("mb_per_sec", "MB/s"),
        ("gb_per_sec", "GB/s"),
    ];
    let is_part = |part: &str| words.starts_with(part) || words.ends_with(part);
    let of_start = known.iter().find(|(part, _)| is_part(part));
    of_start.map_or_else(|| if words.contains("per_sec") { "1/s" } else { "1" }, |(_, unit)| unit)
}

/// The workload of a stressor. The prefix distinguishes it from knee's own workloads, such as futex.
fn workload(stressor: &str) -> String {
    format!("stress-ng.{stressor}")
}

fn host(host: &mut HostFacts, key: &str, value: &str) {
    let value = Some(value.to_string());
    match key {
        "hostname" => host.hostname = value,
        "release" => host.kernel_release = value,
        "machine" => host.architecture = value,
        "totalram" => host.memory_bytes = value.and_then(|bytes| bytes.parse().ok()),
        _ => (),
    }
}
