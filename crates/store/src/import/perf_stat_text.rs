//! The text that perf stat prints: for each command a table of events, and the times below it. With -I, a table over time.
//! Source: perf-stat(1), and the output of 4.4 to 6.17.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use records::Better::{Lower, Neither};
use records::{ReplicationUnit, Warning};

use crate::import::perf_stat::{Counts, DERIVED};
use crate::import::{File, Foreign, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "on which CPUs the command ran is not recorded",
    "with -r, each value is the mean of the repeats, so that they count as one run: perf stat does not print single \
     values",
];

const HEADING: &str = "Performance counter stats for ";
const TIME: &str = "time.elapsed_time";
/// The times below a table, by the words behind them.
const TIMES: [(&str, &str); 3] = [
    ("seconds time elapsed", TIME),
    ("seconds user", "time.user_time"),
    ("seconds sys", "time.system_time"),
];
/// Units that perf prints between a value and its event, and what they are called here.
const UNITS: [(&str, &str); 12] = [
    ("msec", "ms"),
    ("ns", "ns"),
    ("us", "us"),
    ("sec", "s"),
    ("Bytes", "B"),
    ("KiB", "KiB"),
    ("MiB", "MiB"),
    ("GiB", "GiB"),
    ("Joules", "J"),
    ("mW", "mW"),
    ("C", "C"),
    ("%", "%"),
];

/// Whether a text has the heading of a table, or of one over time.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(HEADING) || is_over_time(line))
}

fn is_over_time(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words == ["#", "time", "counts", "unit", "events"]
}

/// Reads a run for each table.
pub fn read(file: &File) -> Result<Foreign> {
    let foreign = Foreign::new(TIME, ReplicationUnit::Run, LACKS);
    let mut reader = Reader { foreign, ..Reader::new() };
    for (index, line) in file.text.lines().enumerate() {
        let reading = || format!("line {}", index + 1);
        reader.line(line).with_context(reading)?;
    }
    reader.end_table();
    reader.name(file);
    let Reader { mut foreign, first, multiplexed, .. } = reader;
    if !foreign.runs.iter().any(|run| run.values.contains_key(TIME)) {
        foreign.primary = first.unwrap_or_default();
    }
    if multiplexed {
        let text = "some events were counted only part of the time, and scaled";
        foreign.warnings.push(Warning::new(text, "count fewer events at once"));
    }
    Ok(foreign)
}

struct Reader {
    foreign: Foreign,
    /// What was counted, and how often it was repeated.
    command: String,
    repeats: Option<String>,
    counts: Option<Counts>,
    /// The command of each run.
    commands: Vec<String>,
    first: Option<String>,
    multiplexed: bool,
    /// Whether the table has ended with its time: what follows is of something else.
    timed: bool,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            foreign: Foreign::new(TIME, ReplicationUnit::Run, &[]),
            command: String::new(),
            repeats: None,
            counts: None,
            commands: Vec::new(),
            first: None,
            multiplexed: false,
            timed: false,
        }
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(rest) = line.trim_start().strip_prefix(HEADING) {
            self.end_table();
            let rest = rest.trim_end().trim_end_matches(':');
            let runs = rest
                .rsplit_once(" (")
                .and_then(|(what, runs)| Some((what, runs.strip_suffix(" runs)")?)));
            let (what, repeats) = runs.map_or((rest, None), |(what, runs)| (what, Some(runs)));
            self.command = what.trim_matches('\'').to_string();
            self.repeats = repeats.map(str::to_string);
            (self.counts, self.timed) = (Some(Counts::default()), false);
        } else if is_over_time(line) {
            self.counts.get_or_insert_default();
        } else if self.counts.is_some() {
            return self.row(line);
        } else {
            self.foreign.leave("other lines", line);
        }
        Ok(())
    }

    /// Reads a line of a table: `1,234.5 msec task-clock  #  1.0 CPUs utilized  ( +- 0.1% )  (49.9%)`.
    fn row(&mut self, line: &str) -> Result<()> {
        let (counted, derived) = line.split_once('#').unwrap_or((line, ""));
        let shares = line.rfind("( +-").or_else(|| line.rfind(" (")).map_or("", |at| &line[at..]);
        let counted = counted.split("( +-").next().unwrap_or_default();
        let counted = counted.split(" (").next().unwrap_or_default().trim();
        let time = TIMES.iter().find(|(words, _)| counted.ends_with(words));
        if let Some((words, metric)) = time {
            self.timed = true;
            let numbers = counted.trim_end_matches(words);
            let value = numbers.split_whitespace().next();
            // The deviation follows, in s and in percent.
            let rest = numbers.split_once("+-").map_or("", |(_, rest)| rest);
            self.foreign.leave("deviations in seconds", rest);
            return self.put(None, metric, "s", value.unwrap_or_default(), shares);
        }
        let mut words: Vec<&str> = counted.split_whitespace().collect();
        let is_time = |word: &&str| word.split_once('.').is_some_and(|(_, rest)| rest.len() == 9);
        let interval =
            words.first().filter(|_| self.command.is_empty()).copied().filter(|one| is_time(one));
        if interval.is_some() {
            words.remove(0);
        }
        let interval = interval.and_then(|time| time.parse().ok());
        let unit_of =
            |word: &str| UNITS.iter().find(|(unit, _)| *unit == word).map(|(_, unit)| *unit);
        let is_event = |word: &str| word.starts_with(char::is_alphabetic);
        match words[..] {
            _ if self.timed => self.foreign.leave("other lines", line),
            [] => self.derived(derived),
            // An event that was not counted, or is not supported.
            ["<not", ..] => (),
            [value, event] if is_event(event) => {
                self.put(interval, &format!("perf.{}", metric_word(event)), "1", value, shares)?;
                self.derived(derived);
            }
            [value, unit, event] if unit_of(unit).is_some() => {
                let unit = unit_of(unit).unwrap_or_default();
                self.put(interval, &format!("perf.{}", metric_word(event)), unit, value, shares)?;
                self.derived(derived);
            }
            _ => self.foreign.leave("other lines, such as values of single CPUs", line),
        }
        Ok(())
    }

    fn derived(&mut self, text: &str) {
        self.foreign.leave(DERIVED, text.split(" (").next().unwrap_or_default());
    }

    /// Adds a value, and how far the repeats deviate from it.
    fn put(
        &mut self,
        interval_s: Option<f64>,
        metric: &str,
        unit: &str,
        text: &str,
        shares: &str,
    ) -> Result<()> {
        let value = text.replace(',', "").parse::<f64>().ok().filter(|value| value.is_finite());
        let Some(value) = value else {
            // A word in front: S0, CPU3, a line of the command's own.
            ensure!(
                !text.starts_with(|c: char| c.is_ascii_digit()),
                "{metric} is '{text}', not a number: count again with LC_ALL=C, or with -x,"
            );
            return Ok(());
        };
        self.foreign.describe(metric, unit, if metric == TIME { Lower } else { Neither });
        self.first.get_or_insert_with(|| metric.to_string());
        let counts = self.counts.get_or_insert_default();
        let is_first = counts.add(interval_s, metric.to_string(), value);
        ensure!(is_first, "{metric} appears twice in one table: is it of single CPUs?");
        let percents = shares.split(['(', ')']).filter_map(|part| {
            let text = part.trim().strip_suffix('%')?;
            let (is_deviation, text) = match text.strip_prefix("+-") {
                Some(text) => (true, text),
                None => (false, text),
            };
            Some((is_deviation, text.trim().parse::<f64>().ok()?))
        });
        for (is_deviation, percent) in percents {
            if is_deviation {
                let name = format!("{metric}.stddev_percent");
                self.foreign.describe(&name, "%", Neither);
                counts.values.insert(name, percent);
            } else {
                self.multiplexed |= percent < 99.995;
                self.foreign.leave("shares of the time in which events were counted", "1");
            }
        }
        Ok(())
    }

    fn end_table(&mut self) {
        let Some(counts) = self.counts.take().filter(|counts| !counts.values.is_empty()) else {
            return;
        };
        let mut run: ForeignRun = counts.into_run(&mut self.foreign);
        let repeats = self.repeats.iter().map(|n| ("repeats".to_string(), n.clone()));
        run.options.extend(repeats);
        self.foreign.runs.push(run);
        self.commands.push(self.command.clone());
    }

    /// Says what each run counted: the commands of a file alone are its variants, those of one file of several are cells.
    fn name(&mut self, file: &File) {
        let different: BTreeSet<&String> = self.commands.iter().collect();
        let is_one = different.len() < 2;
        for (run, command) in self.foreign.runs.iter_mut().zip(&self.commands) {
            let named = ("command".to_string(), command.clone());
            if is_one {
                run.options.extend(Some(named).filter(|(_, command)| !command.is_empty()));
            } else if file.alone {
                run.variant = Some(command.clone());
            } else {
                run.cell.parameters.extend([named]);
            }
        }
    }
}
