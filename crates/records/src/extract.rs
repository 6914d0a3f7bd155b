//! Extractors: from a command's output and files to numbers. An extractor that finds nothing leaves
//! the metric missing and says so; it never makes up a value.

use std::collections::BTreeMap;

use regex_lite::RegexBuilder;
use serde_json::Value;

use crate::command::{Extract, TableColumn, TableRow};
use crate::pattern::NUMBER;
use crate::quantity::{self, Quantity};
use crate::table::{Row, column_values};

/// A number in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundNumber {
    /// The number with its unit.
    pub quantity: Quantity,
    /// What it is of, where its table or document says that: the words of its row, the names of its objects.
    pub labels: BTreeMap<String, String>,
}

impl From<Quantity> for FoundNumber {
    fn from(quantity: Quantity) -> FoundNumber {
        FoundNumber { quantity, labels: BTreeMap::new() }
    }
}

impl Extract {
    /// The number that the extractor finds in a text, or why there is none. It is in the metric's unit; where the metric
    /// has none of its own, in the base unit of what stands at the number, such as s for 12.5ms: all runs have one unit.
    pub fn quantity(&self, text: &str) -> Result<Quantity, String> {
        let number = match (&self.regex, &self.json, &self.column) {
            (Some(regex), ..) => self.by_regex(regex, text),
            (_, Some(pointer), _) => self.by_pointer(pointer, text),
            (.., Some(column)) => self.by_column(column, text),
            _ => Err("it has no regex, json or column".to_string()),
        };
        number.map_err(|why| self.missing(&why))
    }

    /// The number that a text begins with, of which `group` is what the pattern takes.
    fn settled(&self, found: Result<Quantity, String>, group: &str) -> Result<Quantity, String> {
        if Quantity::is_open(&self.unit) {
            return found.map(Quantity::in_base);
        }
        let value = found.ok().and_then(|found| found.in_unit(&self.unit));
        Ok(Quantity { value: value.map_or_else(|| number(group), Ok)?, unit: self.unit.clone() })
    }

    /// The group of the last match: if a program reports a number repeatedly, the last is the total.
    fn by_regex(&self, regex: &str, text: &str) -> Result<Quantity, String> {
        let groups = groups(regex, text)?;
        let (start, end) = *groups.last().ok_or("found nothing")?;
        self.settled(at_group(text, start, end), &text[start..end])
    }

    fn by_pointer(&self, pointer: &str, text: &str) -> Result<Quantity, String> {
        let document = first_document(text)?;
        match document.pointer(pointer) {
            Some(Value::Number(n)) => {
                let value = n.as_f64().ok_or("found a number that is not finite")?;
                let beside = pointer.rsplit_once('/').and_then(|(all, _)| document.pointer(all));
                let unit = beside.and_then(|all| all.get("unit")).and_then(Value::as_str);
                let unit = unit.unwrap_or_default().to_string();
                self.settled(Ok(Quantity { value, unit }), &value.to_string())
            }
            Some(Value::String(text)) => self.settled(Quantity::whole(text.trim()), text),
            Some(_) => Err("found a value that is not a number".to_string()),
            None => Err("found nothing".to_string()),
        }
    }

    fn by_column(&self, column: &TableColumn, text: &str) -> Result<Quantity, String> {
        let parse = |field: &str, _: Row| self.settled(Quantity::whole(field.trim()), field).ok();
        let values = column_values(&column.heading, text, parse).ok_or("found no such heading")?;
        let last = || values.last().cloned().ok_or("found no number below it".to_string());
        match column.row {
            TableRow::Last => last(),
            TableRow::Mean => {
                let unit = last()?.unit;
                if let Some(other) = values.iter().find(|value| value.unit != unit) {
                    return Err(format!("found numbers in '{}' and in '{unit}'", other.unit));
                }
                let sum: f64 = values.iter().map(|value| value.value).sum();
                Ok(Quantity { value: sum / values.len() as f64, unit })
            }
            TableRow::Number(n) => values.get(n as usize - 1).cloned().ok_or_else(|| {
                format!("found {} rows below it, not the row {n} asked for", values.len())
            }),
        }
    }

    /// All numbers that the extractor finds in a file, in its order, with the units that stand at them. A `*` in a JSON
    /// pointer stands for each element; the text may be several documents.
    ///
    /// # Errors
    /// It finds none, or what it finds is no number.
    pub fn numbers(&self, text: &str) -> Result<Vec<FoundNumber>, String> {
        let numbers = match (&self.regex, &self.json, &self.column) {
            (Some(regex), ..) => all_by_regex(regex, text),
            (_, Some(pointer), _) => all_by_pointer(pointer, text),
            (.., Some(column)) => all_in_column(&column.heading, text),
            _ => Err("it has no regex, json or column".to_string()),
        };
        numbers.and_then(|found| {
            if found.is_empty() { Err("found nothing".to_string()) } else { Ok(found) }
        })
    }

    fn missing(&self, why: &str) -> String {
        format!("{} of {}: {why}, so {} is missing", self.way(), self.from.text(), self.name)
    }

    /// Refuses patterns that can never match.
    pub fn check_pattern(&self) -> Result<(), String> {
        match (&self.regex, &self.json) {
            (Some(regex), _) => compiled(regex).map(|_| ()),
            (_, Some(pointer)) if !pointer.is_empty() && !pointer.starts_with('/') => {
                Err(format!("the JSON pointer '{pointer}' must begin with a slash"))
            }
            _ => Ok(()),
        }
    }
}

fn compiled(regex: &str) -> Result<regex_lite::Regex, String> {
    // Output of programs consists of lines.
    let compiled = RegexBuilder::new(regex).multi_line(true).build();
    let compiled = compiled.map_err(|e| format!("the regex '{regex}' is malformed: {e}"))?;
    match compiled.captures_len() {
        2 => Ok(compiled),
        n => Err(format!(
            "the regex '{regex}' has {} groups, must have one around the number: (…)",
            n - 1
        )),
    }
}

/// The groups of all matches: where they begin and end.
fn groups(regex: &str, text: &str) -> Result<Vec<(usize, usize)>, String> {
    let compiled = compiled(regex)?;
    let found = compiled.captures_iter(text).map(|captures| captures.get(1));
    let found = found.map(|group| group.map_or((0, 0), |group| (group.start(), group.end())));
    // In 1:02.5 s, `{} s` finds no number of its own.
    let is_part = |start: usize| {
        let mut before = text[..start].chars().rev();
        before.next() == Some(':') && before.next().is_some_and(|c| c.is_ascii_digit())
    };
    Ok(found.filter(|(start, _)| !regex.contains(NUMBER) || !is_part(*start)).collect())
}

/// The number in a group of a pattern. What stands right behind a number belongs to it, unless the pattern takes less than
/// the number.
fn at_group(text: &str, start: usize, end: usize) -> Result<Quantity, String> {
    let (group, rest) = (&text[start..end], &text[start..]);
    Quantity::at(if quantity::is_whole(group, rest) { rest } else { group })
}

fn all_by_regex(regex: &str, text: &str) -> Result<Vec<FoundNumber>, String> {
    let found = |(start, end)| at_group(text, start, end).map(FoundNumber::from);
    groups(regex, text)?.into_iter().map(found).collect()
}

/// The offset of the first line that begins a document. Some programs print messages before their JSON.
fn document_start(text: &str) -> Option<usize> {
    let starts = |line: &&str| line.trim_start().starts_with(['{', '[']);
    let first = text.split_inclusive('\n').find(starts)?;
    Some(first.as_ptr() as usize - text.as_ptr() as usize)
}

fn first_document(text: &str) -> Result<Value, String> {
    let at = document_start(text).ok_or("found no JSON")?;
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
    match values.next() {
        Some(Ok(document)) => Ok(document),
        Some(Err(e)) => Err(format!("found malformed JSON ({e})")),
        None => Err("found no JSON".to_string()),
    }
}

fn all_by_pointer(pointer: &str, text: &str) -> Result<Vec<FoundNumber>, String> {
    let at = document_start(text).ok_or("found no JSON")?;
    let parts: Vec<String> =
        pointer.split('/').skip(1).map(|p| p.replace("~1", "/").replace("~0", "~")).collect();
    let mut found = Vec::new();
    for document in serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>() {
        match document {
            Ok(document) => collect(&document, &parts, &BTreeMap::new(), &mut found)?,
            // What follows the documents may be a message.
            Err(_) if !found.is_empty() => break,
            Err(e) => return Err(format!("found malformed JSON ({e})")),
        }
    }
    Ok(found)
}

/// Whether a key is one of what names an object.
fn is_naming(key: &str) -> bool {
    const NAMES: [&str; 10] = [
        "benchmark",
        "case",
        "test",
        "title",
        "label",
        "workload",
        "operation",
        "op",
        "scenario",
        "params",
    ];
    NAMES.contains(&key) || key.to_ascii_lowercase().ends_with("name")
}

/// The numbers at a place in a document, in its order. An array there gives its numbers.
fn collect(
    value: &Value,
    parts: &[String],
    labels: &BTreeMap<String, String>,
    found: &mut Vec<FoundNumber>,
) -> Result<(), String> {
    let mut push = |quantity| found.push(FoundNumber { quantity, labels: labels.clone() });
    match (value, parts.split_first()) {
        (Value::Number(n), None) => {
            n.as_f64().map(Quantity::without_unit).into_iter().for_each(push)
        }
        (Value::String(text), None) => push(Quantity::whole(text.trim())?),
        (Value::Array(all), None) => {
            for one in all.iter().filter(|one| one.is_number() || one.is_string()) {
                collect(one, parts, labels, found)?;
            }
        }
        (Value::Array(all), Some((star, rest))) if star == "*" => {
            for one in all {
                let mut labels = labels.clone();
                let parts = one.as_object().into_iter().flatten();
                let names = parts.filter(|(key, _)| is_naming(key));
                let names = names.filter_map(|(key, name)| Some((key.clone(), name.as_str()?)));
                labels.extend(names.map(|(key, name)| (key, name.to_string())));
                collect(one, rest, &labels, found)?;
            }
        }
        (Value::Object(all), Some((star, rest))) if star == "*" => {
            for (key, one) in all {
                let mut labels = labels.clone();
                let level = labels.keys().filter(|name| name.starts_with("key")).count();
                let name =
                    if level == 0 { "key".to_string() } else { format!("key_{}", level + 1) };
                labels.insert(name, key.clone());
                collect(one, rest, &labels, found)?;
            }
        }
        (Value::Array(all), Some((index, rest))) => {
            if let Some(one) = index.parse::<usize>().ok().and_then(|index| all.get(index)) {
                collect(one, rest, labels, found)?;
            }
        }
        (Value::Object(all), Some((key, rest))) => {
            if let Some(one) = all.get(key) {
                let before = found.len();
                collect(one, rest, labels, found)?;
                let unit = all.get("unit").and_then(Value::as_str).filter(|_| rest.is_empty());
                let bare = found[before..].iter_mut().filter(|one| one.quantity.unit.is_empty());
                bare.for_each(|one| one.quantity.unit = unit.unwrap_or_default().to_string());
            }
        }
        _ => (),
    }
    Ok(())
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = text.parse::<f64>().ok().or_else(|| quantity::plain(text));
    number.filter(|number| number.is_finite()).ok_or_else(|| {
        let start: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        format!("found '{start}', which is not a number")
    })
}

fn all_in_column(heading: &str, text: &str) -> Result<Vec<FoundNumber>, String> {
    let parse = |field: &str, row: Row| {
        let quantity = Quantity::whole(field.trim()).ok()?;
        // Between blanks, which word belongs to which heading is not sure.
        let is_sure = row.fields.len() == row.headings.len();
        let words =
            row.headings.iter().zip(row.fields).filter(|(_, field)| is_sure && is_name(field));
        let labels = words.map(|(heading, field)| (heading.clone(), field.clone())).collect();
        Some(FoundNumber { quantity, labels })
    };
    column_values(heading, text, parse).ok_or_else(|| "found no such heading".to_string())
}

/// Whether a field says what its row is of: no number, no time, and nothing that is missing.
fn is_name(field: &str) -> bool {
    let is_missing = ["", "-", "na", "n/a", "nan", "null", "none"];
    let has_letter = field.contains(char::is_alphabetic);
    let is_time = field.split_once(':').is_some_and(|(before, after)| {
        before.ends_with(|c: char| c.is_ascii_digit())
            && after.starts_with(|c: char| c.is_ascii_digit())
    });
    has_letter
        && !is_time
        && !is_missing.contains(&&field.to_ascii_lowercase()[..])
        && Quantity::whole(field).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, OutputSource};

    fn blank() -> Extract {
        Extract {
            name: "n".to_string(),
            unit: "1".to_string(),
            better: Better::Neither,
            kind: None,
            from: OutputSource::Stdout,
            regex: None,
            json: None,
            column: None,
        }
    }

    #[track_caller]
    fn check_extract(how: Extract, text: &str, expected: Result<f64, &str>) {
        match (how.quantity(text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.value, expected),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (got, _) => panic!("{got:?}"),
        }
    }

    #[track_caller]
    fn regex(pattern: &str, text: &str, expected: Result<f64, &str>) {
        check_extract(Extract { regex: Some(pattern.to_string()), ..blank() }, text, expected);
    }

    #[test]
    fn a_regex_finds_the_group_of_its_last_match() {
        regex(r"rate (\S+)", "rate 1.5\nrate 2e3 x\n", Ok(2000.0));
        regex(r"^(\d+)$", "a\n17\nb", Ok(17.0));
        regex(
            r"rate (\S+)",
            "nothing",
            Err("the regex 'rate (\\S+)' of stdout: found nothing, so n is missing"),
        );
        regex(r"rate (\S+)", "rate fast", Err("found 'fast', which is not a number"));
        regex(r"rate (\S+)", "rate inf", Err("not a number"));
        regex(r"rate (", "rate 1", Err("is malformed"));
        regex(r"rate \d", "rate 1", Err("has 0 groups, must have one"));
        regex(r"(\d)(\d)", "12", Err("has 2 groups"));
        regex(r"(\d+)", &"x".repeat(1 << 22), Err("found nothing"));
    }

    #[test]
    fn a_number_of_a_run_is_in_the_unit_of_its_metric_or_in_a_base_unit() {
        let in_unit = |unit: &str, text: &str| {
            let (unit, regex) = (unit.to_string(), Some(format!(r"^(?:\w+ )?{NUMBER}")));
            let found = Extract { unit, regex, ..blank() }.quantity(text).unwrap();
            format!("{} {}", found.value, found.unit)
        };
        assert_eq!(in_unit("1", "took 12.5ms"), "0.0125 s");
        assert_eq!(in_unit("1", "took 1m3.2s"), "63.2 s");
        assert_eq!(in_unit("1", "took 900 us"), "0.0009 s");
        assert_eq!(in_unit("1", "rate 1.2k"), "1200 ");
        assert_eq!(in_unit("1", "5MiB/s"), "5242880 B/s");
        assert_eq!(in_unit("1", "3.2GB/s"), "3.2 GB/s");
        assert_eq!(in_unit("1/s", "35.5 ops/sec"), "35.5 1/s");
        assert_eq!(in_unit("ms", "took 1.5s"), "1500 ms");
        // A metric whose unit the tool's description tells has its numbers as they stand.
        assert_eq!(in_unit("KB/s", "sha256 771.5k"), "771.5 KB/s");
        assert_eq!(in_unit("MB/s", "1,234 MB/sec"), "1234 MB/s");
        let json = Some("/latency/value".to_string());
        let found = Extract { json, ..blank() }
            .quantity("{\"latency\": {\"value\": 250, \"unit\": \"us\"}}");
        assert_eq!(found.map(|found| (found.value, found.unit)), Ok((0.00025, "s".to_string())));
    }

    #[track_caller]
    fn json(pointer: &str, text: &str, expected: Result<f64, &str>) {
        check_extract(Extract { json: Some(pointer.to_string()), ..blank() }, text, expected);
    }

    #[test]
    fn a_pointer_finds_a_number_in_json_with_notes_before_it() {
        let text = "fio: a note\n{\"jobs\": [{\"write\": {\"iops\": 12.5, \"s\": \"7\"}}]}\nmore";
        json("/jobs/0/write/iops", text, Ok(12.5));
        json("/jobs/0/write/s", text, Ok(7.0));
        json("/jobs/0", text, Err("is not a number"));
        json("/jobs/1/write/iops", text, Err("found nothing"));
        json("/jobs", "no document", Err("found no JSON"));
        json("/jobs", "{\"jobs\": [", Err("malformed JSON"));
        json("/a", &"[".repeat(100_000), Err("malformed JSON"));
    }

    const FS_MARK: &str = "
#  -d  /tmp/a  -n  1000

FSUse%        Count         Size    Files/sec     App Overhead
    79         1000            0      10000.5           123456
    79         2000            0      20000.5           123457

Average Files/sec:      15000.0
p50 Files/sec: 17
";

    #[track_caller]
    fn column(heading: &str, row: TableRow, text: &str, expected: Result<f64, &str>) {
        let column = Some(TableColumn { heading: heading.to_string(), row });
        check_extract(Extract { column, ..blank() }, text, expected);
    }

    #[test]
    fn a_column_is_found_by_its_heading() {
        column("Files/sec", TableRow::Last, FS_MARK, Ok(20000.5));
        column("Files/sec", TableRow::Mean, FS_MARK, Ok(15000.5));
        column("Files/sec", TableRow::Number(1), FS_MARK, Ok(10000.5));
        column(
            "Files/sec",
            TableRow::Number(3),
            FS_MARK,
            Err("found 2 rows below it, not the row 3"),
        );
        column("App Overhead", TableRow::Last, FS_MARK, Ok(123457.0));
        column("Overhead", TableRow::Last, FS_MARK, Err("found no such heading"));
        column("FSUse%", TableRow::Last, "FSUse%  Count\n", Err("found no number below it"));
        column("b", TableRow::Last, "a b c\n1 2 3\n", Ok(2.0));
        column("mean", TableRow::Last, "command,mean,sd\n\"sleep 1\",1.5,0.1\n", Ok(1.5));
        column("x", TableRow::Last, "", Err("found no such heading"));
    }

    #[test]
    fn fuzzed_outputs_are_read_or_refused() {
        use fuzz::fuzz;
        let column = |heading: &str, row| {
            let column = TableColumn { heading: heading.to_string(), row };
            Extract { column: Some(column), ..blank() }
        };
        let hows = [
            column("Files/sec", TableRow::Mean),
            column("App Overhead", TableRow::Last),
            column("b", TableRow::Number(1)),
            Extract { json: Some("/jobs/0/iops".to_string()), ..blank() },
            Extract { regex: Some(r"(\d+\.\d+)".to_string()), ..blank() },
        ];
        let texts = [FS_MARK, "a,b\n1,2\n", "x\n{\"jobs\": [{\"iops\": 1.5}]}\n"];
        let texts = texts.map(|text| text.as_bytes().to_vec());
        fuzz(20_000, "cargo test -p records fuzzed", |fuzzer| {
            let text = fuzzer.damage(&texts);
            match fuzzer.pick(&hows).quantity(&String::from_utf8_lossy(&text)) {
                Ok(found) if !found.value.is_finite() => Err(format!("found {found:?}")),
                Err(why) if why.is_empty() => Err("refused without a word".to_string()),
                _ => Ok(()),
            }
        });
    }

    #[test]
    fn patterns_that_can_never_find_anything_are_refused() {
        let pattern =
            |regex: &str| Extract { regex: Some(regex.to_string()), ..blank() }.check_pattern();
        assert!(pattern("(a").unwrap_err().contains("malformed"));
        assert!(pattern("a").unwrap_err().contains("groups"));
        assert!(pattern("(a)").is_ok());
        let pointer = Extract { json: Some("jobs/0".to_string()), ..blank() }.check_pattern();
        assert!(pointer.unwrap_err().contains("must begin with a slash"));
    }
}
