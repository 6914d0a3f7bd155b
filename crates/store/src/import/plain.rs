//! Plain CSV with one value per line, written by a script or a spreadsheet, for tools without a reader
//! here. Needs the columns `variant`, `metric` and `value`; knows the columns of `knee record export --format
//! csv`, so that an exported record can be imported again.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail, ensure};
use records::{Better, DescribedMetric, Form, METRICS, Obtained, Pass, ReplicationUnit, Warning};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, count, csv};

/// Columns with a meaning. Other columns are parameters.
const COLUMNS: [&str; 20] = [
    "variant",
    "metric",
    "value",
    "block",
    "cpus",
    "tasks",
    "workload",
    "unit",
    "better",
    "record",
    "semantics",
    "as",
    "placement",
    "parameters",
    "pass",
    "dir",
    "run",
    "placebo",
    // Decided anew from the counters of each run.
    "left_out",
    "started",
];

const LACKS: &[&str] = &["host, kernel and the origin of the numbers are not recorded"];
const NO_BLOCKS: &str = "there is no column block: the file does not record which runs were made \
                         next to each other, so drift counts as a difference";
const STOPPING: &str = "whether blocks went on until decided is not recorded: if they did, these \
                        intervals are too narrow";
/// The most runs of one file: more are samples, not runs.
const RUNS_MAX: usize = 1_000_000;

/// Whether the first line names the columns that the format needs.
pub fn recognise(text: &str) -> bool {
    let Some(Ok((_, header))) = csv::rows(text).next() else { return false };
    let has = |name: &str| header.iter().any(|heading| heading.to_ascii_lowercase() == name);
    has("metric") && has("value")
}

/// Reads a run for each block, each run number, or each repetition of a metric.
pub fn read(file: &File) -> Result<Foreign> {
    let mut rows = csv::rows(file.text);
    let (_, header) = rows.next().transpose()?.context("line 1: expected a header")?;
    let header: Vec<String> = header.iter().map(|name| name.to_ascii_lowercase()).collect();
    check_header(&header)?;
    let mut reader = Reader::new();
    for row in rows {
        let (line, fields) = row?;
        reader.row(&header, line, &fields)?;
    }
    Ok(reader.finish())
}

fn check_header(header: &[String]) -> Result<()> {
    for name in ["metric", "value"] {
        ensure!(
            header.iter().any(|heading| heading == name),
            "line 1: no column {name}; expected variant, metric, value and, if known, block, \
             cpus, tasks, workload, unit, better; the file has {}",
            header.join(", ")
        );
    }
    for (at, name) in header.iter().enumerate() {
        let first = header.iter().position(|heading| heading == name);
        ensure!(first == Some(at), "line 1: there are two columns {name}");
        ensure!(!name.is_empty(), "line 1: column {} has no name", at + 1);
    }
    Ok(())
}

/// The fields that distinguish runs, if the file numbers them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RunKey {
    record: String,
    variant: Option<String>,
    cell: ForeignCell,
    block: Option<u32>,
    run: Option<u32>,
    placebo: bool,
}

struct Reader {
    foreign: Foreign,
    /// Indices of the runs of a key; several if the file does not number runs.
    runs: HashMap<RunKey, Vec<usize>>,
    /// The line with the value of a run and metric.
    lines: HashMap<(usize, String), usize>,
    missing: usize,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            foreign: Foreign::new("", ReplicationUnit::Run, LACKS),
            runs: HashMap::new(),
            lines: HashMap::new(),
            missing: 0,
        }
    }

    fn row(&mut self, header: &[String], line: usize, fields: &[String]) -> Result<()> {
        ensure!(
            fields.len() == header.len(),
            "line {line}: {} fields, but the header has {}; quote fields with commas",
            fields.len(),
            header.len()
        );
        let fields: BTreeMap<&str, &str> =
            header.iter().map(String::as_str).zip(fields.iter().map(String::as_str)).collect();
        let field = |name: &str| fields.get(name).copied().filter(|field| !field.is_empty());
        let metric = field("metric");
        let metric = metric.with_context(|| format!("line {line}: the metric has no name"))?;
        let value = value(field("value"), line)?;
        self.describe(metric, field("unit"), field("better"), line)?;
        let number = |name: &str| field(name).map(|text| count(text, line, name)).transpose();
        let key = RunKey {
            record: field("record").unwrap_or_default().to_string(),
            variant: field("variant").or(field("record")).map(str::to_string),
            cell: cell(&fields, line)?,
            block: number("block")?,
            run: number("run")?,
            placebo: field("placebo").is_some_and(|field| !["0", "false"].contains(&field)),
        };
        let started = field("started").and_then(|text| text.parse().ok());
        let at = self.run(key, metric, line, started)?;
        match (metric, value) {
            ("failed", Some(0.0)) => (),
            ("failed", Some(_)) => {
                self.foreign.runs[at].failed = Some("it failed where it was run".to_string());
            }
            (_, Some(value)) => {
                self.foreign.runs[at].values.insert(metric.to_string(), value);
            }
            (_, None) => self.missing += 1,
        }
        Ok(())
    }

    /// The run that a value belongs to: the first of its key that lacks the metric.
    fn run(
        &mut self,
        key: RunKey,
        metric: &str,
        line: usize,
        started: Option<jiff::Timestamp>,
    ) -> Result<usize> {
        let known = self.runs.entry(key.clone()).or_default();
        // Runs of a key get the values of a metric in turn, so the last one knows.
        let has = |at: &usize| self.lines.get(&(*at, metric.to_string())).copied();
        let free = known.partition_point(|at| has(at).is_some());
        if let Some(at) = known.get(free) {
            self.lines.insert((*at, metric.to_string()), line);
            return Ok(*at);
        }
        if let (Some(before), true) =
            (known.last().and_then(has), key.block.is_some() || key.run.is_some())
        {
            let whose = key.variant.as_deref().unwrap_or("the variant");
            bail!(
                "line {line}: {whose} already has {metric} of this block in line {before}: \
                 number repetitions in a column run, or mark the second with placebo"
            );
        }
        let at = self.foreign.runs.len();
        ensure!(at < RUNS_MAX, "line {line}: more than {RUNS_MAX} runs");
        known.push(at);
        self.lines.insert((at, metric.to_string()), line);
        let RunKey { record, variant, cell, block, placebo, .. } = key;
        self.foreign.runs.push(ForeignRun {
            variant,
            cell,
            series: record,
            block,
            placebo,
            started,
            ..ForeignRun::default()
        });
        Ok(at)
    }

    fn describe(
        &mut self,
        metric: &str,
        unit: Option<&str>,
        better: Option<&str>,
        line: usize,
    ) -> Result<()> {
        if metric == "failed" {
            return Ok(());
        }
        if self.foreign.primary.is_empty() || metric == "operations_per_s" {
            self.foreign.primary = metric.to_string();
        }
        if METRICS.iter().any(|known| known.matches(metric)) {
            return Ok(());
        }
        let better = match better.map(str::to_ascii_lowercase).as_deref() {
            None if unit.is_none() && is_rate(metric) => Better::Higher,
            None | Some("-" | "neither") => Better::Neither,
            Some("higher" | "more") => Better::Higher,
            Some("lower" | "less") => Better::Lower,
            Some(word) => bail!("line {line}: better is '{word}', must be higher, lower or -"),
        };
        let by_name = if is_rate(metric) { "1/s" } else { "1" };
        let unit = unit.unwrap_or(by_name).to_string();
        let new = DescribedMetric { unit, better, obtained: Obtained::Imported, kind: None };
        let known = self.foreign.metrics.entry(metric.to_string()).or_insert(new.clone());
        ensure!(
            *known == new,
            "line {line}: {metric} has unit {} and better {}, but {} and {} in a line above",
            new.unit,
            new.better.name(),
            known.unit,
            known.better.name()
        );
        Ok(())
    }

    fn finish(mut self) -> Foreign {
        self.foreign.blocks = self.foreign.runs.iter().all(|run| run.block.is_some());
        if !self.foreign.blocks {
            self.foreign.lacks.push(NO_BLOCKS.to_string());
        } else if self.runs.keys().any(|key| !key.record.is_empty()) {
            // Only knee's own export names the record.
            self.foreign.lacks.push(STOPPING.to_string());
        }
        self.foreign.note_not_finite(self.missing);
        self.note_uneven();
        self.foreign
    }

    /// Warns about guessed runs: without numbers, the n-th value of each metric is taken for the n-th
    /// run.
    fn note_uneven(&mut self) {
        let keys = self.runs.iter().filter(|(key, _)| key.block.is_none() && key.run.is_none());
        let uneven = keys.filter(|(_, runs)| {
            let values = |at: &usize| self.foreign.runs[*at].values.len();
            runs.iter().any(|at| values(at) != values(&runs[0]))
        });
        if uneven.count() > 0 {
            self.foreign.warnings.push(Warning::new(
                "some metrics have fewer values than others: which values belong to one run is a guess",
                "number the runs in a column run or block",
            ));
        }
    }
}

/// Whether a metric without a unit is a rate by its name.
fn is_rate(metric: &str) -> bool {
    const ENDINGS: [&str; 3] = ["_per_s", "_per_sec", "/s"];
    const NAMES: [&str; 4] = ["tps", "qps", "rps", "iops"];
    let name = metric.to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || NAMES.contains(&&name[..])
}

/// Parses a value; `None` if it is missing or not finite.
fn value(text: Option<&str>, line: usize) -> Result<Option<f64>> {
    let missing = ["na", "n/a", "-", "null", "none"];
    match text.filter(|text| !missing.contains(&text.to_ascii_lowercase().as_str())) {
        Some(text) => super::number(text, line, "value"),
        None => Ok(None),
    }
}

fn cell(fields: &BTreeMap<&str, &str>, line: usize) -> Result<ForeignCell> {
    let field = |name: &str| fields.get(name).copied().filter(|field| !field.is_empty());
    let number = |name: &str| field(name).map_or(Ok(0), |text| count(text, line, name));
    let mut parameters: BTreeMap<String, String> = match field("parameters") {
        Some(text) => serde_json::from_str(text).ok().with_context(|| {
            format!("line {line}: parameters is '{text}', must be a JSON object of strings")
        })?,
        None => BTreeMap::new(),
    };
    // In what knee exported, the host says where a run was made, which makes no other cell of it.
    let is_exported = fields.contains_key("record");
    let is_known = |name: &str| COLUMNS.contains(&name) || (name == "host" && is_exported);
    let others = fields.iter().filter(|(name, _)| !is_known(name));
    parameters.extend(others.map(|(name, value)| (name.to_string(), value.to_string())));
    let form = match field("as") {
        None | Some("processes") => Form::Processes,
        Some("threads") => Form::Threads,
        Some(word) => bail!("line {line}: as is '{word}', must be processes or threads"),
    };
    let pass = match field("pass") {
        None | Some("rate") => Pass::Rate,
        Some("latency") => Pass::Latency,
        Some(word) => bail!("line {line}: pass is '{word}', must be rate or latency"),
    };
    let placement = field("placement").map_or(Ok(Default::default()), str::parse);
    Ok(ForeignCell {
        workload: field("workload").unwrap_or_default().to_string(),
        semantics: number("semantics")?,
        parameters,
        form,
        cpus: number("cpus")?,
        tasks: number("tasks")?,
        placement: placement.with_context(|| format!("line {line}"))?,
        pass,
        dir: field("dir").unwrap_or_default().into(),
    })
}
