//! What stress-ng measures: the table that --metrics prints ("metrc" lines, "info" in old
//! versions), and the file of --yaml. Each stressor is a workload; each table or document a
//! run. Source: stress-ng(1), and what 0.15 writes.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use records::Better::{Lower, Neither};
use records::{HostFacts, ReplicationUnit};

use crate::import::{File, Foreign, ForeignPlace, ForeignRun, amount, better_by_name, metric_word};

const LACKS: &[&str] = &[
    "a bogo operation is whatever this version of the stressor does: compare results of one \
     version of stress-ng only",
    "operations/s divides by the mean of the instances' times, not by the time until the last \
     one stopped",
    "stressors of one run may have run at the same time, and then depend on each other",
    "which CPUs the instances ran on is not told",
];

/// The columns of the table, and the keys that the YAML file has for them.
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

/// Whether it has the table or the stressors of the YAML file.
pub fn recognise(text: &str) -> bool {
    is_yaml(text) || text.lines().any(|line| said(line).is_some_and(is_heading))
}

fn is_yaml(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "metrics:")
        && text.lines().any(|line| line.trim_start().starts_with("- stressor:"))
}

fn is_heading(words: &str) -> bool {
    words.starts_with("stressor ") && words.contains("bogo ops")
}

/// What a line of the log says, without who says it: `stress-ng: metrc: [77] WORDS`.
fn said(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("stress-ng: ")?;
    let (kind, rest) = rest.split_once(':')?;
    let rest = rest.trim_start();
    let without_id = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let words = without_id.map_or(rest, |(_, words)| words);
    ["metrc", "info"].contains(&kind).then(|| words.trim())
}

/// A run for each stressor of each table.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    foreign.describe("stress-ng.real_time_s", "s", Neither);
    foreign.describe(PER_CPU_SECOND, "1/s", records::Better::Higher);
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
    /// Where the runs of the table under way begin.
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
        let mut in_table = false;
        for (index, line) in text.lines().enumerate() {
            let Some(words) = said(line) else { continue };
            if let Some(hogs) = words.strip_prefix("dispatching hogs:") {
                self.announce(hogs);
                in_table = false;
            } else if is_heading(words) {
                (in_table, self.miscellaneous) = (true, false);
                self.table = self.foreign.runs.len();
            } else if words.starts_with("miscellaneous metrics:") {
                self.miscellaneous = true;
            } else if in_table {
                self.words(words, index + 1)?;
            }
        }
        Ok(())
    }

    /// "1 getrandom, 2 close".
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

    fn words(&mut self, words: &str, line: usize) -> Result<()> {
        let fields: Vec<&str> = words.split_whitespace().collect();
        let [name, numbers @ ..] = &fields[..] else { return Ok(()) };
        if numbers.first().is_none_or(|field| field.parse::<f64>().is_err()) {
            // Units below the headings, or talk.
            return Ok(());
        }
        if self.miscellaneous {
            return self.other(name, numbers, line);
        }
        ensure!(
            numbers.len() >= COLUMNS_MIN,
            "line {line}: {} numbers of {name}, expected {COLUMNS_MIN} or more; is it cut off?",
            numbers.len()
        );
        self.begin(name, line)?;
        for ((_, metric), field) in COLUMNS.iter().zip(numbers) {
            self.put(metric, field, line)?;
        }
        Ok(())
    }

    /// "close 1358756.32 close calls per sec (geometric mean of 2 instances)".
    fn other(&mut self, name: &str, fields: &[&str], line: usize) -> Result<()> {
        let words = fields[1..].join(" ");
        let what = words.split('(').next().unwrap_or_default();
        let place = workload(name);
        let of_stressor = |run: &ForeignRun| run.place.workload == place;
        // Put into the last run of the table, which is where put() writes.
        let Some(at) = self.foreign.runs[self.table..].iter().position(of_stressor) else {
            bail!("line {line}: {name} is not in the table above; is the log cut?");
        };
        let last = self.foreign.runs.len() - 1;
        self.foreign.runs.swap(self.table + at, last);
        let put = self.put(&format!("stress-ng.{}", metric_word(what)), fields[0], line);
        self.foreign.runs.swap(self.table + at, last);
        put
    }

    fn begin(&mut self, name: &str, line: usize) -> Result<()> {
        let mut place = ForeignPlace::at(workload(name));
        place.tasks = self.instances.get(name).copied().unwrap_or_default();
        let mut known = self.foreign.runs[self.table..].iter();
        ensure!(
            known.all(|run| run.place.workload != place.workload),
            "line {line}: {name} is in this table already"
        );
        self.foreign.runs.push(ForeignRun { place, ..ForeignRun::default() });
        Ok(())
    }

    /// Adds a value to the last run.
    fn put(&mut self, metric: &str, text: &str, line: usize) -> Result<()> {
        let value = amount(text, line, metric)?;
        self.missing += value.is_none() as usize;
        if !COLUMNS.iter().any(|(_, known)| *known == metric) {
            let lower = metric.contains("nanosec") || metric.contains("latency");
            let better = if lower { Lower } else { better_by_name(metric) };
            self.foreign.describe(metric, "1", better);
        }
        if let (Some(run), Some(value)) = (self.foreign.runs.last_mut(), value) {
            let new = run.values.insert(metric.to_string(), value).is_none();
            ensure!(new, "line {line}: {metric} of {} is there already", run.place.workload);
        }
        Ok(())
    }

    /// The few forms of YAML that stress-ng writes: sections, a list of maps, scalars.
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
            let of = |name: &str| run.values.get(name).copied().unwrap_or_default();
            // Nothing divided by no CPU time is written as 0.
            if of("time.user_time") + of("time.system_time") <= 0.0 {
                run.values.remove(PER_CPU_SECOND);
            }
        }
        self.foreign.note_not_finite(self.missing);
        self.foreign
    }
}

/// Prefixed: knee has workloads of its own called pipe or futex.
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
