//! What a file that no format fits says of itself: the line that tells what it is, lines with numbers, and a pattern of
//! `--value` that reads one of them. A pattern is only named if it finds its number.

use std::collections::{BTreeMap, BTreeSet};

use records::{Quantity, pattern};
use serde_json::Value;

use crate::import::numbers_in;

/// More of a file is not looked at.
const LOOKED_AT: usize = 1 << 20;
/// Lines that are shown.
const LINES: usize = 3;
/// Patterns that are tried.
const TRIED: usize = 40;

/// What to tell of a file.
#[derive(Debug, Default)]
pub struct Suggestion {
    /// What it seems to be.
    pub telling: String,
    /// Lines with numbers, or places in a document.
    lines: Vec<String>,
    /// The pattern that reads one of them.
    pattern: Option<String>,
    /// Whether that number looks like a result.
    is_likely: bool,
}

/// A number that may be the one.
struct Candidate {
    shown: String,
    pattern: String,
    value: f64,
    score: i32,
}

impl Suggestion {
    pub fn for_text(text: &str) -> Suggestion {
        let end = (0..=text.len().min(LOOKED_AT)).rev().find(|end| text.is_char_boundary(*end));
        let start = &text[..end.unwrap_or(0)];
        let document = document(text);
        let mut candidates = match &document {
            Some(document) => in_document(document),
            None => {
                let mut all = in_lines(start);
                all.extend(in_tables(start));
                all.extend(bare(start));
                all
            }
        };
        // What is found in the part is found in the whole, but a part of a document is none.
        let searched = if document.is_some() { text } else { start };
        // The sort is stable: of equals, the first in the file.
        candidates.sort_by_key(|candidate| -candidate.score);
        let finds = |candidate: &&Candidate| {
            let found = pattern::extract(&candidate.pattern).and_then(|one| one.numbers(searched));
            found.is_ok_and(|all| all.iter().any(|one| one.quantity.value == candidate.value))
        };
        let mut tried: BTreeSet<&str> = BTreeSet::new();
        let new = candidates.iter().filter(|one| tried.insert(&one.pattern));
        let best = new.take(TRIED).find(finds);
        let mut lines: Vec<String> = best.iter().map(|best| best.shown.clone()).collect();
        for candidate in &candidates {
            if lines.len() < LINES && !lines.contains(&candidate.shown) {
                lines.push(candidate.shown.clone());
            }
        }
        if lines.is_empty() {
            lines =
                text.lines().filter(|line| numbers_in(line) > 0).take(LINES).map(shown).collect();
        }
        let telling = match &document {
            Some(document) => keys(document),
            None => telling(start),
        };
        let is_likely = best.is_some_and(|best| best.score > 0);
        Suggestion { telling, lines, pattern: best.map(|best| best.pattern.clone()), is_likely }
    }

    /// The lines with numbers, and what to type; empty if there is no number.
    pub fn advice(&self, file: &str) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let lines: String = self.lines.iter().map(|line| format!("\n    {line}")).collect();
        format!("\n  it has numbers in\n{lines}\n\n{}", self.command(file))
    }

    /// What to type.
    pub fn command(&self, file: &str) -> String {
        let Some(pattern) = &self.pattern else {
            return "  say which to read: --value 'TEXT {}', with the text before or after a number".to_string();
        };
        let file = if file.starts_with('-') { format!("./{file}") } else { file.to_string() };
        match (host::ssh::quoted(&file), host::ssh::quoted(pattern)) {
            (Ok(file), Ok(pattern)) => {
                let doubt =
                    if self.is_likely { "" } else { "  none of them looks like a result\n" };
                format!(
                    "{doubt}  say which to read, as in\n\n    knee record import {file} --value {pattern}"
                )
            }
            _ => String::new(),
        }
    }
}

/// A line for a message.
fn shown(line: &str) -> String {
    const LETTERS: usize = 90;
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ").replace(char::is_control, " ");
    match line.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

/// The line that most likely says what wrote the text: one with a version or the word benchmark, else the first.
fn telling(text: &str) -> String {
    const LOOKED_AT: usize = 40;
    let has_letter = |line: &&str| line.contains(char::is_alphabetic);
    let lines: Vec<&str> = text.lines().filter(has_letter).take(LOOKED_AT).collect();
    let says = |line: &&&str| {
        let line = line.to_ascii_lowercase();
        ["benchmark", "version", "test suite", "bench "].iter().any(|word| line.contains(word))
            && !line.contains("warning")
    };
    let line = lines.iter().find(says).or(lines.first()).copied().unwrap_or_default();
    let quoted = shown(line);
    if quoted.is_empty() { String::new() } else { format!("'{quoted}'") }
}

/// The document of a text that is nothing else, or several lines of documents, of which the first ones are taken.
fn document(text: &str) -> Option<Value> {
    const DOCUMENTS: usize = 50;
    let text = text.trim_start();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let all: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_str(text).into_iter::<Value>().take(DOCUMENTS).collect();
    let mut all = all.ok()?;
    let is_object = |value: &Value| value.is_object() || value.is_array();
    match all.len() {
        0 => None,
        1 => Some(all.remove(0)),
        _ => all.into_iter().find(|one| is_object(one) && !in_document(one).is_empty()),
    }
}

fn keys(document: &Value) -> String {
    const KEYS: usize = 6;
    let object = match document {
        Value::Array(all) => all.iter().find(|one| one.is_object()),
        one => Some(one),
    };
    let keys = object.and_then(Value::as_object).map(|object| object.keys());
    let keys: Vec<&str> = keys.into_iter().flatten().take(KEYS).map(String::as_str).collect();
    if keys.is_empty() {
        "JSON".to_string()
    } else {
        shown(&format!("JSON with {}", keys.join(", ")))
    }
}

/// The numbers of a document by their places; those of an array's elements have one.
fn in_document(document: &Value) -> Vec<Candidate> {
    const PLACES: usize = 4000;
    let mut places: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    let mut open = vec![(String::new(), document)];
    while let Some((place, value)) = open.pop() {
        let next = places.len();
        match value {
            Value::Number(number) => {
                let value = number.as_f64().unwrap_or_default();
                // The stack gives the first last.
                places.entry(place).and_modify(|known| known.1 = value).or_insert((next, value));
            }
            Value::String(text) => {
                if let Ok(quantity) = Quantity::whole(text.trim()) {
                    let known = places.entry(place);
                    known
                        .and_modify(|known| known.1 = quantity.value)
                        .or_insert((next, quantity.value));
                }
            }
            Value::Array(all) if all.iter().all(Value::is_number) => {
                open.extend(all.first().map(|first| (place, first)));
            }
            Value::Array(all) => {
                open.extend(all.iter().rev().map(|one| (format!("{place}/*"), one)));
            }
            Value::Object(all) if are_alike(all) => {
                open.extend(all.values().rev().map(|one| (format!("{place}/*"), one)));
            }
            Value::Object(all) => {
                let name = |key: &str| key.replace('~', "~0").replace('/', "~1");
                open.extend(
                    all.iter().rev().map(|(key, one)| (format!("{place}/{}", name(key)), one)),
                );
            }
            _ => (),
        }
        if places.len() > PLACES {
            break;
        }
    }
    let mut all: Vec<(usize, String, f64)> =
        places.into_iter().map(|(place, (at, value))| (at, place, value)).collect();
    all.sort_by_key(|(at, ..)| *at);
    let candidate = |(_, place, value): (usize, String, f64)| Candidate {
        shown: shown(&format!("{place}: {value}")),
        score: score(&place, "", value) - place.matches('/').count() as i32 / 2,
        pattern: format!("json:{place}"),
        value,
    };
    all.into_iter().filter(|(_, place, _)| !place.is_empty()).map(candidate).collect()
}

/// Whether the keys of an object are names of alike things: each has the same keys.
fn are_alike(object: &serde_json::Map<String, Value>) -> bool {
    const ALIKE_MIN: usize = 3;
    let keys = |value: &Value| -> Option<Vec<String>> {
        Some(value.as_object()?.keys().cloned().collect())
    };
    let mut all = object.values().map(keys);
    let first = all.next().flatten();
    object.len() >= ALIKE_MIN && first.is_some() && all.all(|keys| keys == first)
}

/// The columns of tables: headings above a row of as many fields with numbers.
fn in_tables(text: &str) -> Vec<Candidate> {
    const TABLES: usize = 20;
    // A rule may stand between headings and rows.
    let has_more = |line: &&str| line.contains(char::is_alphanumeric);
    let lines: Vec<&str> = text.lines().filter(has_more).collect();
    let mut found = Vec::new();
    let mut tables = 0;
    for pair in lines.windows(2) {
        let header = pair[0].trim().trim_start_matches("# ");
        for separator in [Some('\t'), Some(';'), Some('|'), Some(','), None] {
            let fields = |line: &str| -> Vec<String> {
                match separator {
                    Some(one) => {
                        line.split(one).map(|f| f.trim().trim_matches('"').to_string()).collect()
                    }
                    None => line.split_whitespace().map(str::to_string).collect(),
                }
            };
            let (mut headings, row) = (fields(header), fields(pair[1]));
            if separator.is_none() && headings.len() != row.len() {
                // Headings of several words stand two blanks apart.
                let wide = header.split("  ").map(str::trim).filter(|one| !one.is_empty());
                headings = wide.map(str::to_string).collect();
            }
            let is_number = |field: &String| Quantity::whole(field).is_ok();
            let numbers = row.iter().filter(|field| is_number(field)).count();
            let are_headings = headings.len() > 1
                && headings.iter().all(|one| one.contains(char::is_alphabetic) && !is_number(one));
            // Between blanks, words may be prose.
            let is_table = headings.len() == row.len()
                && numbers > 0
                && (separator.is_some() || numbers * 2 >= row.len());
            if !are_headings || !is_table {
                continue;
            }
            for (heading, field) in headings.iter().zip(&row).filter(|(_, field)| is_number(field))
            {
                let value = Quantity::at(field).map_or(0.0, |found| found.value);
                let pattern = format!("column:{heading}");
                let score = score(heading, "", value) + 3;
                found.push(Candidate { shown: shown(header), pattern, value, score });
            }
            tables += 1;
            break;
        }
        if tables >= TABLES {
            break;
        }
    }
    found
}

/// Lines of numbers only, all with as many: the last of each.
fn bare(text: &str) -> Option<Candidate> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let fields = |line: &str| line.split_whitespace().count();
    let are_numbers = |line: &&&str| {
        line.split_whitespace().all(|word| Quantity::at(word).is_ok_and(|q| q.unit.is_empty()))
    };
    let first = lines.iter().find(are_numbers)?;
    let count = fields(first);
    let others = format!(r"(?:\S+[ \t]+){{{}}}", count - 1);
    let before = if count > 1 { &others[..] } else { "" };
    Some(Candidate {
        shown: shown(first),
        pattern: format!(r"^[ \t]*{before}([-+0-9.,eE]+)[ \t]*$"),
        value: Quantity::at(first.split_whitespace().next_back()?).ok()?.value,
        score: 0,
    })
}

/// Numbers with a text before or after them.
fn in_lines(text: &str) -> Vec<Candidate> {
    const LINES: usize = 20_000;
    let lines = text.lines().take(LINES).filter(|line| line.len() < 2000);
    let all = lines.flat_map(|line| in_line(line).into_iter().map(move |one| (line, one)));
    let candidates = all.map(|(line, (before, quantity, after))| {
        // A unit right behind the number says more than the words before it: x 4,340,190 ops/sec.
        let next = after.split_whitespace().next().unwrap_or_default();
        let is_rate = next.contains("/s") || after.trim_start().starts_with("per sec");
        let before_words = label(before).filter(|words| !is_rate || words.ends_with([':', '=']));
        let (pattern, words) = match before_words {
            Some(words) => (format!("{words} {{}}"), words),
            None if after.trim().is_empty() => {
                // The label itself has numbers: case / 16: 0.5.
                let words = label(
                    &line[..before.as_ptr() as usize - line.as_ptr() as usize + before.len()],
                );
                let words = words.unwrap_or_default();
                (format!("{words} {{}}"), words)
            }
            None => {
                let words: Vec<&str> = after.split_whitespace().take(3).collect();
                let words = words.join(" ");
                let words = words.trim_end_matches([',', ';', '.', ':', '(']).to_string();
                (format!("{{}} {words}"), words)
            }
        };
        Candidate {
            shown: shown(line),
            score: score(&words, &quantity.unit, quantity.value)
                - 2 * i32::from(line.len() > 160)
                // It names what follows, or tells how sure a number is.
                - 8 * i32::from(after.starts_with(':') || before.trim_end().ends_with(['±', '~']))
                - 8 * i32::from(is_place(&words))
                // Words with numbers in them are of few lines.
                - 3 * i32::from(words.contains(|c: char| c.is_ascii_digit())),
            pattern,
            value: quantity.value,
        }
    });
    let is_plain = |candidate: &Candidate| {
        let text = candidate.pattern.replacen("{}", "", 1);
        text.chars().filter(|c| c.is_alphabetic()).count() > 1
            && !text.contains("{}")
            && !text.contains(char::is_control)
    };
    candidates.filter(is_plain).collect()
}

/// The numbers of a line that stand for themselves, each with the text before it, up to the number before, and after it.
fn in_line(line: &str) -> Vec<(&str, Quantity, &str)> {
    let mut found: Vec<(&str, Quantity, &str)> = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < line.len() {
        let rest = &line[at..];
        let letter = rest.chars().next().unwrap_or(' ');
        let before = line[..at].chars().next_back();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || "._-+:/".contains(c))
            && !line[..at].ends_with(": ");
        let is_label_end =
            before == Some(':') && !line[..at - 1].ends_with(|c: char| c.is_ascii_digit());
        if !letter.is_ascii_digit() || (is_inside && !is_label_end) {
            at += letter.len_utf8();
            continue;
        }
        let end = rest.find(|c: char| c.is_whitespace() || "()[]{}<>;|\"'".contains(c));
        let end = at + end.unwrap_or(rest.len());
        // Times of day begin lines of logs.
        let is_clock = rest[..end - at].contains(':') && label(&line[from..at]).is_none();
        if let Ok(quantity) = Quantity::at(rest)
            && !is_clock
        {
            // A colon right behind the number is no part of it.
            let is_name = line[..end].ends_with(':');
            let after = &line[end - usize::from(is_name)..];
            let next = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            found.push((&line[from..at], quantity, &after[..next]));
        }
        (from, at) = (end, end);
    }
    found
}

/// Whether words end with the name of a source file, so that the number is one of a line: miner.rs:2299.
fn is_place(words: &str) -> bool {
    let last = words.split_whitespace().next_back().unwrap_or_default();
    last.strip_suffix(':').is_some_and(|name| name.contains('.'))
}

/// The words before a number, by which it can be found.
fn label(before: &str) -> Option<String> {
    const WORDS: usize = 6;
    let before = before.trim_start_matches(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = before.split_whitespace().collect();
    let words = words[words.len().saturating_sub(WORDS)..].join(" ");
    let letters = words.chars().filter(|c| c.is_alphabetic()).count();
    (letters > 1).then_some(words)
}

/// Words of a number that is a result: of a rate, of a time or a mean.
const RATES: [&str; 10] =
    ["ops", "tps", "qps", "rps", "iops", "throughput", "bandwidth", "score", "rate", "mflops"];
const TIMES: [&str; 13] = [
    "latency", "time", "elapsed", "took", "finished", "duration", "average", "mean", "avg",
    "median", "total", "real", "p99",
];
/// Words of one that was set, or tells how sure another is.
const SETTINGS: [&str; 46] = [
    "date",
    "version",
    "seed",
    "port",
    "pid",
    "thread",
    "client",
    "size",
    "iteration",
    "cpu",
    "core",
    "memory",
    "kernel",
    "warn",
    "error",
    "line",
    "copyright",
    "http",
    "usage",
    "option",
    "stamp",
    "start",
    "begin",
    "finish",
    "id",
    "count",
    "number",
    "warmup",
    "config",
    "std",
    "dev",
    "deviation",
    "stddev",
    "min",
    "percent",
    "loop",
    "connection",
    "round",
    "idx",
    "index",
    "run",
    "np",
    "ret",
    "dummy",
    "found",
    "scale",
];

/// How likely a number with these words is the result.
fn score(words: &str, unit: &str, value: f64) -> i32 {
    let spaced = apart(words).to_ascii_lowercase();
    let parts: Vec<&str> =
        spaced.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).collect();
    let has = |known: &[&str]| parts.iter().any(|part| known.contains(part));
    let is_setting =
        |part: &&str| SETTINGS.iter().any(|one| part == one || part.strip_suffix('s') == Some(one));
    let is_rate = ["/s", "per sec", "per_sec", "/sec"].iter().any(|part| spaced.contains(part));
    let is_year = (1990.0..2100.0).contains(&value) && value.fract() == 0.0 && unit.is_empty();
    // Seconds or milliseconds since 1970.
    let is_date = (1e9..2.2e9).contains(&value) || (1e12..2.2e12).contains(&value);
    let is_date =
        is_date && unit.is_empty() && has(&["time", "date", "timestamp", "start", "end", "begin"]);
    let has_unit = !unit.is_empty() && unit != "%";
    4 * i32::from(has(&RATES) || is_rate)
        + 3 * i32::from(has(&TIMES))
        + 2 * i32::from(has_unit)
        + i32::from(has(&["mean", "avg", "average", "median"]))
        + i32::from(words.ends_with([':', '=']))
        + i32::from(value.fract() != 0.0)
        - 5 * i32::from(parts.iter().any(is_setting))
        - 3 * i32::from(is_year)
        - 9 * i32::from(is_date)
        - i32::from(value == 0.0)
}

/// A text whose words in one, such as meanResponseTime, stand apart.
fn apart(words: &str) -> String {
    let mut text = String::new();
    let mut is_lower = false;
    for letter in words.chars() {
        if is_lower && letter.is_uppercase() {
            text.push(' ');
        }
        is_lower = letter.is_lowercase();
        text.push(letter);
    }
    text
}
