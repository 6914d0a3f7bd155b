//! Patterns of `--value`: where a number stands in a text, as users say it in one line.
//!
//!     tps = {}             text around the number; blanks stand for any blanks
//!     json:/a/0/b          a JSON pointer
//!     column:HEADING       a column of a table
//!     took (\d+) ms        a regular expression with one group
//!     stderr:…             any of these, in standard error

use crate::command::{Extract, OutputSource, TableColumn, TableRow};
use crate::metric::{Better, METRICS};
use crate::quantity::Quantity;

/// A number of its own, as programs print it.
pub(crate) const NUMBER: &str = r"([-+]?[0-9](?:[0-9.,eE+-]*[0-9])?)";
/// One that stands in a list between commas.
const LISTED: &str = r"([-+]?[0-9](?:[0-9.eE+-]*[0-9])?)";

/// Where a pattern finds its number.
///
/// # Errors
/// It can never find one.
pub fn extract(pattern: &str) -> Result<Extract, String> {
    let (from, pattern) = match pattern.strip_prefix("stderr:") {
        Some(pattern) => (OutputSource::Stderr, pattern),
        None => (OutputSource::Stdout, pattern),
    };
    let mut extract = Extract {
        name: "value".to_string(),
        unit: "1".to_string(),
        better: Better::Neither,
        kind: None,
        from,
        regex: None,
        json: None,
        column: None,
    };
    if let Some(pointer) = pattern.strip_prefix("json:") {
        extract.json = Some(pointer.to_string());
    } else if let Some(heading) = pattern.strip_prefix("column:") {
        let heading = heading.trim().to_string();
        extract.column = Some(TableColumn { heading, row: TableRow::Last });
    } else {
        extract.regex = Some(regex(pattern));
    }
    extract.check_pattern()?;
    Ok(extract)
}

fn regex(pattern: &str) -> String {
    let Some((before, after)) = pattern.split_once("{}") else { return pattern.to_string() };
    let (before, after) = (before.trim(), after.trim());
    // A number without text before it begins where no other number or word ends.
    let start = if before.is_empty() { "(?:^|[^0-9A-Za-z.,_])" } else { "" };
    // In a list, 5,600 is two numbers.
    let number = if before.ends_with([',', '[']) { LISTED } else { NUMBER };
    format!(r"{start}{}[ \t]*{number}[ \t]*{}", literal(before), literal(after))
}

/// A text as a regular expression in which blanks stand for any blanks.
fn literal(text: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_punctuation() => format!("\\{c}"),
        c => c.to_string(),
    };
    let words = text.split_whitespace().map(|word| word.chars().map(letter).collect::<String>());
    words.collect::<Vec<_>>().join(r"[ \t]+")
}

/// A number by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedNumber {
    /// Name of the metric.
    pub name: String,
    /// Unit; `1` if the words do not tell it.
    pub unit: String,
    /// Which direction is better, as far as the words tell.
    pub better: Better,
}

impl DescribedNumber {
    /// What the words around a number say of it: it is called by the word before `{}`, or after it.
    pub fn of(pattern: &str) -> DescribedNumber {
        DescribedNumber::of_words(pattern, 1)
    }

    /// What the words around a number say of it, called by so many of them: more tell it from others.
    pub fn of_words(pattern: &str, taken: usize) -> DescribedNumber {
        let text = pattern.strip_prefix("stderr:").unwrap_or(pattern);
        if let Some(heading) = text.strip_prefix("column:") {
            return DescribedNumber::of_heading(heading);
        }
        let text = match text.strip_prefix("json:") {
            // A place in a document ends with the number's name.
            Some(place) => place.replace(['/', '*'], " "),
            None => text.to_string(),
        };
        let text = if text.contains("{}") { text } else { without_classes(&text) };
        let (before, after) = text.split_once("{}").unwrap_or((&text, ""));
        let (before, after) = (words(before), words(after));
        let from = before.len().saturating_sub(taken);
        let called = match &before[from..] {
            [] => after.iter().take(taken).cloned().collect::<Vec<_>>(),
            last => last.to_vec(),
        };
        let name = called.join("_").replace("/s", "_per_s").replace('/', "_per_");
        let unit = after.first().map(String::as_str).filter(|word| Quantity::is_time(word));
        let all = [before.join(" "), after.join(" ")].join(" ");
        DescribedNumber::new(name.trim_matches('_'), unit, &all)
    }

    /// A heading such as `Time (ms)`.
    fn of_heading(heading: &str) -> DescribedNumber {
        let (name, unit) = heading.split_once(['(', '[']).unwrap_or((heading, ""));
        let unit = unit.trim_end_matches([')', ']', ':']).trim();
        let name = words(name).join("_").replace("/s", "_per_s").replace('/', "_per_");
        DescribedNumber::new(
            &name,
            Some(unit).filter(|u| Quantity::is_time(u)),
            &heading.to_lowercase(),
        )
    }

    /// A number of this name with the words around it. The name's end may be a unit: duration_ns.
    fn new(name: &str, unit: Option<&str>, all: &str) -> DescribedNumber {
        let ending = name.rsplit_once('_').map(|(_, ending)| ending);
        let ending =
            ending.filter(|e| ["ns", "us", "ms", "s"].contains(e) && !name.contains("per_"));
        let unit = unit.or(ending);
        let last = name.rsplit('_').next().unwrap_or_default();
        let is_rate = ["/s", "per sec", "per_s", "_sec"].iter().any(|part| all.contains(part))
            || ["tps", "qps", "rps", "ops", "iops"].contains(&last);
        let parts = ["latency", "time", "elapsed", "duration"];
        let is_time = unit.is_some() || parts.iter().any(|part| all.contains(part));
        let (unit, better) = match (is_rate, is_time) {
            (true, _) => ("1/s", Better::Higher),
            (_, true) => (unit.unwrap_or("1"), Better::Lower),
            _ => ("1", Better::Neither),
        };
        let is_taken = name.is_empty() || METRICS.iter().any(|metric| metric.matches(name));
        let name = if is_taken { "value" } else { name };
        DescribedNumber { name: name.to_string(), unit: unit.to_string(), better }
    }
}

/// A regular expression without what stands for letters of some kind, and with `{}` for its group.
fn without_classes(regex: &str) -> String {
    let mut text = String::new();
    let mut letters = regex.chars();
    let mut depth = 0_usize;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => text.push_str(" {} "),
            letter if depth == 0 => text.push(letter),
            _ => (),
        }
    }
    text.replacen("{}", "\n", 1).replace("{}", " ").replace('\n', "{}")
}

fn words(text: &str) -> Vec<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
    let words = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty());
    let has_letter = |word: &&str| word.chars().any(|c| c.is_ascii_alphabetic());
    words.filter(has_letter).map(|word| word.to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_by_the_words_around_them() {
        let check = |pattern: &str, name: &str, unit: &str, better: Better| {
            let found = DescribedNumber::of(pattern);
            assert_eq!(
                (&found.name[..], &found.unit[..], found.better),
                (name, unit, better),
                "{pattern}"
            );
        };
        check("tps = {}", "tps", "1/s", Better::Higher);
        check("latency average = {} ms", "average", "ms", Better::Lower);
        check("{} requests/sec", "requests_per_sec", "1/s", Better::Higher);
        check("stderr:score: {}", "score", "1", Better::Neither);
        check("{}", "value", "1", Better::Neither);
        check(r"^[ \t]*([-+0-9]+)[ \t]*$", "value", "1", Better::Neither);
        check(r"rate: (\d+) x", "rate", "1", Better::Neither);
        check("wall_s {} s", "value", "s", Better::Lower);
        check("json:/results/0/latency/mean", "mean", "1", Better::Lower);
        check("column:Elapsed Time", "elapsed_time", "1", Better::Lower);
        check("column:fwd_time (usec)", "fwd_time", "usec", Better::Lower);
        check("column:ops/sec", "ops_per_sec", "1/s", Better::Higher);
        check("json:/*/mean_duration_ns", "mean_duration_ns", "ns", Better::Lower);
        assert_eq!(DescribedNumber::of_words("latency average = {}", 2).name, "latency_average");
    }

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: &[f64]) {
        let found = extract(pattern).unwrap().numbers(text).unwrap_or_default();
        let found: Vec<f64> = found.iter().map(|found| found.quantity.value).collect();
        assert_eq!(found, expected, "{pattern} in {text}");
        let last = extract(pattern).unwrap().quantity(text).map(|found| found.value).ok();
        let is_same = last.is_none() || last == expected.last().copied();
        assert!(is_same, "{pattern} in {text}: {last:?} of a run");
    }

    #[test]
    fn all_matches_are_found_in_their_order() {
        check("tps = {}", "tps = 1,650\ntps =\t7\n", &[1650.0, 7.0]);
        check("{} requests per second", "1,650 requests per  second\n", &[1650.0]);
        check("{} s", "took 1:02.5 s, or 3 s", &[3.0]);
        check("a,{}", "a,5,600\n", &[5.0]);
        check(r"took (\d+)\.", "took 12.5 s", &[12.0]);
        check("column:ms", "name,ms\na,1.5\nb,NA\nc,2\n", &[1.5, 2.0]);
        check(
            "json:/runs/*/ms",
            "note\n{\"runs\": [{\"ms\": 1}, {\"x\": 5}, {\"ms\": \"2\"}]}",
            &[1.0, 2.0],
        );
        check("json:/ms", "{\"ms\": [1, 2]}\n{\"ms\": 3}\n", &[1.0, 2.0, 3.0]);
        check("real {}", "real 1m3.2s\n", &[63.2]);
    }

    #[test]
    fn a_part_of_a_number_is_none() {
        let run = |pattern: &str, text: &str| {
            extract(pattern).unwrap().quantity(text).map(|found| found.value)
        };
        assert_eq!(run("real {}", "real 1m3.2s\n"), Ok(63.2));
        assert!(run("{}s", "real 1m3.2s\n").unwrap_err().contains("found nothing"));
        assert_eq!(run("rate {}", "rate -1,650.5"), Ok(-1650.5));
        assert!(
            run("x {}", "x 12,5").unwrap_err().contains("'12,5', which may be a decimal comma")
        );
    }
}
