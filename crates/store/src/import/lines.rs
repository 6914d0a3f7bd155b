//! Texts whose numbers stand at fixed places of known lines. A tool is a table of such lines, in `tools`; this file reads
//! them all. What no line of the table takes is counted, and named as not read.
//!
//!     #  a number                 #ns #s #B #k  one with its unit: 1.2ms, 3.4 us, 17.76GB, 4.83k
//!     @  the name of a workload   ~  words that become a part of the metrics' names, in place of {}: ~% a percentage
//!     %x the parameter x          *  any word, which is not read
//!     >  the rest of the line, which is not read

use std::collections::BTreeMap;

use anyhow::Result;
use records::{Better, ReplicationUnit, parse};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

/// A tool by the lines that it prints.
#[derive(Debug)]
pub struct Tool {
    /// Its name, which begins the names of its workloads.
    pub name: &'static str,
    /// Parts of its text that no other tool's text has together.
    pub marks: &'static [&'static str],
    /// The main metric.
    pub primary: &'static str,
    /// What its text does not say.
    pub lacks: &'static [&'static str],
    /// Its lines; the first that fits is taken.
    pub lines: &'static [Line],
}

/// A metric's name, unit and direction; a number without a name is not read.
pub type Metric = (&'static str, &'static str, Better);

/// A line of a tool: its words, as above, and the metrics of its numbers in their order.
#[derive(Debug)]
pub struct Line {
    words: &'static str,
    metrics: &'static [Metric],
    section: &'static str,
    within: &'static str,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    Values,
    Begin,
    Interim,
    Sample,
}

impl Line {
    pub const fn new(words: &'static str, metrics: &'static [Metric]) -> Line {
        Line { words, metrics, section: "", within: "", effect: Effect::Values }
    }

    /// A line that begins a new output.
    pub const fn begin(words: &'static str) -> Line {
        Line { effect: Effect::Begin, ..Line::new(words, &[]) }
    }

    /// A line that begins a new output, and has numbers of it.
    pub const fn begins(self) -> Line {
        Line { effect: Effect::Begin, ..self }
    }

    /// A line that begins a section.
    pub const fn section(words: &'static str, name: &'static str) -> Line {
        Line { section: name, ..Line::new(words, &[]) }
    }

    /// A line that ends a report on the time until then: the final report has everything.
    pub const fn interim(words: &'static str) -> Line {
        Line { effect: Effect::Interim, ..Line::new(words, &[]) }
    }

    /// A line of values inside the run.
    pub const fn sample(words: &'static str, metrics: &'static [Metric]) -> Line {
        Line { effect: Effect::Sample, ..Line::new(words, metrics) }
    }

    /// A line of values after which another section begins.
    pub const fn then(self, section: &'static str) -> Line {
        Line { section, ..self }
    }

    /// A line that is known in one section only.
    pub const fn within(self, section: &'static str) -> Line {
        Line { within: section, ..self }
    }
}

impl Line {
    /// What the line finds in a line of a text; `None` if it does not fit.
    fn find<'a>(&self, line: &'a str) -> Option<Found<'a>> {
        let mut found = Found::default();
        fits(&words(self.words), &words(line), line, &mut found).then_some(found)
    }
}

impl Tool {
    /// Whether a text has all the marks, and a line of the table with numbers.
    pub fn recognise(&self, text: &str) -> bool {
        let has_numbers = |line: &str| {
            let lines = self.lines.iter().filter(|known| !known.metrics.is_empty());
            let mut found = lines.filter_map(|known| known.find(line));
            found.any(|found| !found.values.is_empty())
        };
        self.marks.iter().all(|mark| text.contains(mark)) && text.lines().any(has_numbers)
    }

    /// Reads a run for each output, or for each workload that an output names.
    pub fn read(&self, file: &File) -> Result<Foreign> {
        let foreign = Foreign::new(self.primary, ReplicationUnit::Run, self.lacks);
        let mut reader = Reader { tool: self, foreign, run: self.run(), section: "", above: "" };
        for line in file.text.lines() {
            reader.line(line);
        }
        reader.finish();
        let foreign = &mut reader.foreign;
        let has = |metric: &str| foreign.runs.iter().any(|run| run.values.contains_key(metric));
        if !has(&foreign.primary) {
            let lines = self.lines.iter().flat_map(|line| line.metrics);
            let known = lines.map(|(name, ..)| *name).find(|name| has(name));
            foreign.primary = known.unwrap_or(self.primary).to_string();
        }
        Ok(reader.foreign)
    }

    fn run(&self) -> ForeignRun {
        ForeignRun { cell: ForeignCell::new(self.name), ..ForeignRun::default() }
    }
}

struct Reader<'a> {
    tool: &'a Tool,
    foreign: Foreign,
    run: ForeignRun,
    section: &'static str,
    /// The line before, if no line of the table fits it: a long name stands alone.
    above: &'a str,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str) {
        let is_here = |known: &&Line| known.within.is_empty() || known.within == self.section;
        let mut here = self.tool.lines.iter().filter(is_here);
        let Some((known, found)) = here.find_map(|known| Some((known, known.find(line)?))) else {
            self.foreign.leave("other lines", line);
            self.above = line;
            return;
        };
        self.foreign.leave("other numbers", &found.rest.join(" "));
        if !known.section.is_empty() {
            self.section = known.section;
        }
        match known.effect {
            Effect::Interim => {
                let values = self.run.values.len();
                *self.foreign.unread.entry("interim reports".to_string()).or_default() += values;
                self.run.values.clear();
            }
            Effect::Sample => {
                let values = self.values(known, &found);
                self.run.samples.push(values);
            }
            Effect::Begin => {
                self.finish();
                (self.run, self.section) = (self.tool.run(), known.section);
                self.add(known, found);
            }
            Effect::Values => self.add(known, found),
        }
        self.above = "";
    }

    /// Adds the values of a line to the run, or to the next, if the line names another workload or repeats a metric.
    fn add(&mut self, known: &Line, found: Found<'a>) {
        let values = self.values(known, &found);
        let mut cell = self.run.cell.clone();
        if let Some(name) = found.name {
            let name = if name.is_empty() { self.above.trim() } else { name };
            self.name(&mut cell, name);
        }
        for (parameter, value) in found.parameters {
            match (parameter, value.parse()) {
                ("tasks", Ok(tasks)) => cell.tasks = tasks,
                _ => drop(cell.parameters.insert(parameter.to_string(), value.to_string())),
            }
        }
        let now = &self.run.cell;
        let is_other = cell.workload != now.workload
            || (now.tasks != 0 && cell.tasks != now.tasks)
            || now.parameters.iter().any(|(name, value)| cell.parameters.get(name) != Some(value));
        if is_other || values.keys().any(|metric| self.run.values.contains_key(metric)) {
            self.finish();
        }
        self.run.cell = cell;
        self.run.values.extend(values);
    }

    /// The values of a line, whose metrics are described.
    fn values(&mut self, known: &Line, found: &Found) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        for ((name, unit, better), value) in known.metrics.iter().zip(&found.values) {
            if name.is_empty() {
                *self.foreign.unread.entry("other numbers".to_string()).or_default() += 1;
                continue;
            }
            let name = name.replace("{}", &found.inserted).replace("{s}", self.section);
            self.foreign.describe(&name, unit, *better);
            values.insert(name, *value);
        }
        values
    }

    /// Names a workload: what stands between slashes in it are parameters.
    fn name(&self, cell: &mut ForeignCell, name: &str) {
        let mut parts = name.split('/');
        let first = parts.next().unwrap_or_default();
        cell.workload = format!("{}.{first}", self.tool.name);
        let parts = parts.enumerate();
        cell.parameters =
            parts.map(|(at, part)| (format!("part_{}", at + 1), part.to_string())).collect();
    }

    /// Ends the run; the next one is of the same cell until a line says otherwise.
    fn finish(&mut self) {
        let next = ForeignRun { cell: self.run.cell.clone(), ..ForeignRun::default() };
        let mut run = std::mem::replace(&mut self.run, next);
        if run.values.is_empty() {
            run.failed = Some("the output has no result: was it interrupted?".to_string());
        }
        if !run.values.is_empty() || !run.samples.is_empty() {
            self.foreign.runs.push(run);
        }
    }
}

/// What a line of the table found in a line of the text.
#[derive(Clone, Default)]
struct Found<'a> {
    name: Option<&'a str>,
    inserted: String,
    parameters: Vec<(&'static str, &'a str)>,
    values: Vec<f64>,
    rest: Vec<&'a str>,
}

/// The words of a line. Brackets and the like are none, nor is a comma outside of a number, or a colon at a word's end.
fn words(line: &str) -> Vec<&str> {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut words = Vec::new();
    let (mut start, mut before) = (0, None);
    let mut letters = line.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let after = letters.peek().map(|(_, c)| *c);
        let is_end = match letter {
            ',' => !is_digit(before) || !is_digit(after),
            ':' => {
                after.is_none_or(char::is_whitespace)
                    || (before.is_some_and(char::is_alphabetic) && is_digit(after))
            }
            // Not in `======` and `<=`.
            '=' => before.is_some_and(char::is_alphanumeric),
            letter => letter.is_whitespace() || "[](){};|".contains(letter),
        };
        if is_end {
            words.extend(Some(&line[start..at]).filter(|word| !word.is_empty()));
            start = at + letter.len_utf8();
        }
        before = Some(letter);
    }
    words.extend(Some(&line[start..]).filter(|word| !word.is_empty()));
    words
}

/// Whether the words of a table's line fit those of a text's line.
fn fits<'a>(
    pattern: &[&'static str],
    words: &[&'a str],
    line: &'a str,
    found: &mut Found<'a>,
) -> bool {
    let Some((first, pattern)) = pattern.split_first() else { return words.is_empty() };
    match (*first, words) {
        (">", rest) => found.rest.extend(rest),
        ("@" | "~", words) => return named(first, pattern, words, line, found),
        ("~%", [word, rest @ ..]) if word.starts_with(|c: char| c.is_ascii_digit()) => {
            found.inserted = part_of_name(word);
            return fits(pattern, rest, line, found);
        }
        (kind, [_, ..]) if NUMBERS.contains(&kind) => {
            let Some((value, taken)) = measured(kind, words) else { return false };
            found.values.push(value);
            return fits(pattern, &words[taken..], line, found);
        }
        ("*", [word, rest @ ..]) => {
            found.rest.push(*word);
            return fits(pattern, rest, line, found);
        }
        (parameter, [word, rest @ ..]) if parameter.len() > 1 && parameter.starts_with('%') => {
            found.parameters.push((&parameter[1..], *word));
            return fits(pattern, rest, line, found);
        }
        (literal, [word, rest @ ..]) if literal == *word => {
            return fits(pattern, rest, line, found);
        }
        _ => return false,
    }
    true
}

/// Fits a name of as few words as possible before the rest of a line. Only the name of a workload may be on the line above.
fn named<'a>(
    kind: &str,
    pattern: &[&'static str],
    words: &[&'a str],
    line: &'a str,
    found: &mut Found<'a>,
) -> bool {
    let offset = |word: &str| word.as_ptr() as usize - line.as_ptr() as usize;
    let fewest = if kind == "@" { 0 } else { 1 };
    for taken in fewest..=words.len() {
        let mut rest = found.clone();
        if !fits(pattern, &words[taken..], line, &mut rest) {
            continue;
        }
        let start = words.first().map_or(line.len(), |word| offset(word));
        let end = words.get(taken).map_or(line.len(), |word| offset(word));
        let text =
            line[start..end].trim_matches(|c: char| c.is_whitespace() || "=:[],".contains(c));
        *found = rest;
        if kind == "@" {
            found.name = Some(text);
        } else {
            found.inserted = part_of_name(text);
        }
        return true;
    }
    false
}

/// Words as a part of a metric's name: `50.000%` and `50.0th` become 50, `99.9%` becomes 999.
fn part_of_name(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() || !["", "%", "th"].contains(&rest) {
        return metric_word(text);
    }
    let short = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    short.replace('.', "")
}

/// A number of a kind at the start of some words, and how many of them it takes.
fn measured(kind: &str, words: &[&str]) -> Option<(f64, usize)> {
    let (first, second) = (words[0], words.get(1).copied().unwrap_or_default());
    if kind == "#" {
        let number = first.trim_start_matches('±').trim_end_matches('%');
        return Some((parse::number(number)?, 1));
    }
    let factors: &[(&str, f64)] = match kind {
        "#ns" | "#s" => &TIMES,
        "#B" => &BYTES,
        _ => &COUNTS,
    };
    let end = first.find(|c: char| !c.is_ascii_digit() && !"+-.,".contains(c));
    let (number, unit) = first.split_at(end.unwrap_or(first.len()));
    let factor = |unit: &str| {
        let unit = unit.strip_suffix("/iter").unwrap_or(unit);
        factors.iter().find(|(known, _)| *known == unit).map(|(_, factor)| *factor)
    };
    let (factor, taken) = if !unit.is_empty() {
        (factor(unit)?, 1)
    } else if kind == "#k" {
        (1.0, 1)
    } else {
        (factor(second)?, 2)
    };
    let in_ns = if kind == "#s" { 1e9 } else { 1.0 };
    Some((parse::number(number)? * factor / in_ns, taken))
}

/// Kinds of numbers.
const NUMBERS: [&str; 5] = ["#", "#ns", "#s", "#B", "#k"];
/// Units of times in ns.
const TIMES: [(&str, f64); 13] = [
    ("ps", 1e-3),
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("secs", 1e9),
    ("seconds", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
];
/// Units of amounts in bytes, as wrk has them.
const BYTES: [(&str, f64); 5] = [
    ("B", 1.0),
    ("KB", 1024.0),
    ("MB", 1024.0 * 1024.0),
    ("GB", 1024.0 * 1024.0 * 1024.0),
    ("TB", 1024.0 * 1024.0 * 1024.0 * 1024.0),
];
const COUNTS: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
