//! The output of perf stat -x, (any separator of one character) and -j: a line for each event. Outputs that
//! were appended to one file are runs of their own. Source: "CSV FORMAT" and "JSON FORMAT" of
//! perf-stat(1), and the output of 6.1.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use records::Better::Neither;
use records::{ReplicationUnit, Warning};
use serde_json::Value;

use crate::import::json::{number as json_number, text as json_text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word, number};

const LACKS: &[&str] = &[
    "which command was counted, and on which CPUs, is not recorded",
    "with -r, each value is the mean of the repeats, so that they count as one run",
];

/// What perf writes in place of a value.
pub const NO_VALUE: [&str; 2] = ["<not counted>", "<not supported>"];

/// Events whose value says how long the command took, the best first.
const TIMES: [&str; 2] = ["perf.duration_time", "perf.task_clock"];

/// What perf computes from several events.
pub const DERIVED: &str = "metrics that perf derives";
/// What it says of each event beside its value.
const RUNNING: &str = "how long events were counted";

/// When an interval of -I ended, since the start of the run.
const INTERVAL: &str = "perf.interval_end_s";

/// Separators that people give -x. Blanks are none but behind the time of -I.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];
const BLANK: char = ' ';

/// Whether a text has a line of an event.
pub fn recognise(text: &str) -> bool {
    // Scripts write the version or the command above.
    const ABOVE_MAX: usize = 3;
    let mut lines = text.lines().filter(|line| !is_heading(line)).take(ABOVE_MAX + 1);
    lines.any(is_event)
}

fn is_event(line: &str) -> bool {
    let (interval, rest) = of_interval(line);
    is_json(line) || interval.is_some() || separator(rest).is_some()
}

fn is_heading(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn is_json(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"counter-value\"") && line.contains("\"event\"")
}

/// The end of the interval in s that a line of perf stat -I begins with, and the rest.
fn of_interval(line: &str) -> (Option<f64>, &str) {
    let rest = line.trim_start();
    let found = SEPARATORS.into_iter().chain([BLANK]).find_map(|separator| {
        let (time, rest) = rest.split_once(separator)?;
        // perf prints nanoseconds; a value of an event has no such number of decimals.
        let (_, decimals) = time.split_once('.')?;
        (decimals.len() == 9 && is_between(separator, rest))
            .then(|| Some((time.parse().ok()?, rest)))?
    });
    found.map_or((None, line), |(time, rest)| (Some(time), rest))
}

/// The separator of a line with value, unit, event, maybe the deviation of repeats, run time and share of
/// the time.
fn separator(line: &str) -> Option<char> {
    SEPARATORS.into_iter().find(|separator| is_between(*separator, line))
}

fn is_between(separator: char, line: &str) -> bool {
    let fields: Vec<&str> = line.split(separator).collect();
    let is_value = |text: &str| NO_VALUE.contains(&text) || text.parse::<f64>().is_ok();
    let rest = fields.get(3..).unwrap_or_default();
    let times = match rest {
        [deviation, rest @ ..] if deviation.ends_with('%') => rest,
        rest => rest,
    };
    // Terse lines of fio have its version in place of the unit.
    is_value(fields[0])
        && !fields.get(1).is_some_and(|unit| unit.contains(|c: char| c.is_ascii_digit()))
        && fields.get(2).is_some_and(|event| event.starts_with(|c: char| c.is_alphabetic()))
        && matches!(times, [ran, share, ..] if ran.parse::<u64>().is_ok()
            && share.parse::<f64>().is_ok())
}

/// An event of one run.
struct Event<'a> {
    /// The end of its interval in s, with -I.
    interval_s: Option<f64>,
    value: &'a str,
    unit: &'a str,
    name: &'a str,
    /// The share of the time in which it was counted, in percent.
    counted_percent: Option<f64>,
    /// Whether perf has derived a metric from it, such as "2.5 K/sec".
    has_derived: bool,
}

/// Reads a run for each output of perf.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(TIMES[0], ReplicationUnit::Run, LACKS);
    let mut run = Counts::default();
    let (mut first, mut above) = (None, None);
    let mut multiplexed = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("# started on") {
            add_run(&mut foreign, std::mem::take(&mut run));
        }
        if is_heading(line) {
            continue;
        }
        if first.is_none() && !line.starts_with('{') && !is_event(line) {
            above.get_or_insert((index + 1, line));
            foreign.leave("lines above the events", line);
            continue;
        }
        let parsed: Value;
        let event = if line.starts_with('{') {
            let reading = || format!("line {}: expected a JSON object of an event", index + 1);
            parsed = serde_json::from_str(line).with_context(reading)?;
            if parsed.get("event").is_none() && parsed.get("metric-value").is_some() {
                *foreign.unread.entry(DERIVED.to_string()).or_default() += 1;
                continue;
            }
            json_event(&parsed).with_context(reading)?
        } else {
            csv_event(line, index + 1)?
        };
        let name = format!("perf.{}", metric_word(event.name));
        let (unit, factor) = unit_of(&event);
        foreign.describe(&name, unit, Neither);
        first.get_or_insert_with(|| name.clone());
        if event.has_derived {
            *foreign.unread.entry(DERIVED.to_string()).or_default() += 1;
        }
        if event.counted_percent.is_some() {
            *foreign.unread.entry(RUNNING.to_string()).or_default() += 2;
        }
        multiplexed |= event.counted_percent.is_some_and(|percent| percent < 99.995);
        if NO_VALUE.contains(&event.value) {
            continue;
        }
        let Some(value) = number(event.value, index + 1, event.name)? else { continue };
        ensure!(
            run.add(event.interval_s, name, value * factor),
            "line {}: {} appears twice in one run: import runs from files of their own",
            index + 1,
            event.name
        );
    }
    add_run(&mut foreign, run);
    if let (None, Some((number, line))) = (&first, above) {
        csv_event(line, number)?;
    }
    let has = |name: &&&str| foreign.metrics.contains_key(**name);
    let primary = TIMES.iter().find(has).map(|name| name.to_string()).or(first);
    foreign.primary = primary.unwrap_or_default();
    if let Some(described) = foreign.metrics.get_mut(&foreign.primary)
        && TIMES.contains(&foreign.primary.as_str())
    {
        described.better = records::Better::Lower;
    }
    if multiplexed {
        let text = "some events were counted only part of the time, and scaled";
        foreign.warnings.push(Warning::new(text, "count fewer events at once"));
    }
    Ok(foreign)
}

/// The unit of an event's metric, and what its value is multiplied by.
fn unit_of<'a>(event: &Event<'a>) -> (&'a str, f64) {
    let is_clock = ["task-clock", "cpu-clock"].iter().any(|one| event.name.starts_with(one));
    match event.unit {
        // Newer versions, such as 6.17, print clocks of -x as ns without a unit.
        "" if is_clock && !event.value.contains('.') => ("ms", 1e-6),
        "" => ("1", 1.0),
        "msec" => ("ms", 1.0),
        unit => (unit, 1.0),
    }
}

/// What was counted in one run so far.
#[derive(Default)]
pub struct Counts {
    pub values: BTreeMap<String, f64>,
    /// What each interval of -I counted, with its end in s.
    pub intervals: Vec<(f64, BTreeMap<String, f64>)>,
}

impl Counts {
    /// Adds a count; returns whether it is the first of its name, or of its name in its interval.
    pub fn add(&mut self, interval_s: Option<f64>, name: String, value: f64) -> bool {
        let Some(end_s) = interval_s else {
            return self.values.insert(name, value).is_none();
        };
        if self.intervals.last().is_none_or(|(last, _)| *last != end_s) {
            self.intervals.push((end_s, BTreeMap::new()));
        }
        // The intervals add up to the run.
        *self.values.entry(name.clone()).or_default() += value;
        let last = self.intervals.last_mut();
        last.is_some_and(|(_, values)| values.insert(name, value).is_none())
    }

    /// The run, whose intervals are samples.
    pub fn into_run(self, foreign: &mut Foreign) -> ForeignRun {
        if !self.intervals.is_empty() {
            foreign.describe(INTERVAL, "s", Neither);
        }
        let sample = |(end_s, mut values): (f64, BTreeMap<String, f64>)| {
            values.insert(INTERVAL.to_string(), end_s);
            values
        };
        ForeignRun {
            cell: ForeignCell::new("command"),
            values: self.values,
            samples: self.intervals.into_iter().map(sample).collect(),
            ..ForeignRun::default()
        }
    }
}

fn add_run(foreign: &mut Foreign, run: Counts) {
    if !run.values.is_empty() {
        let run = run.into_run(foreign);
        foreign.runs.push(run);
    }
}

fn json_event(event: &Value) -> Option<Event<'_>> {
    Some(Event {
        interval_s: json_number(event, "interval"),
        value: json_text(event, "counter-value")?,
        unit: json_text(event, "unit").unwrap_or_default(),
        name: json_text(event, "event")?,
        counted_percent: json_number(event, "pcnt-running"),
        has_derived: event.get("metric-value").is_some_and(|value| {
            value.is_number() || value.as_str().is_some_and(|text| text.parse::<f64>().is_ok())
        }),
    })
}

fn csv_event(line: &str, number: usize) -> Result<Event<'_>> {
    let (interval_s, line) = of_interval(line);
    let blank = Some(BLANK).filter(|_| interval_s.is_some());
    let Some(separator) = separator(line).or(blank) else {
        bail!(
            "line {number}: expected VALUE,UNIT,EVENT,TIME,PERCENT as perf stat -x, writes it, without -A \
             (values of single CPUs)"
        );
    };
    let fields: Vec<&str> = line.split(separator).collect();
    let mut rest = fields[3..].iter().skip_while(|field| field.ends_with('%')).skip(1);
    let (share, derived) = (rest.next(), rest.next());
    Ok(Event {
        interval_s,
        value: fields[0],
        unit: fields[1],
        name: fields[2],
        counted_percent: share.and_then(|share| share.parse().ok()),
        has_derived: derived.is_some_and(|value| value.parse::<f64>().is_ok()),
    })
}
