//! Extractors: from a command's output and files to numbers. An extractor that finds nothing leaves
//! the metric missing and says so; it never makes up a value.

use regex_lite::RegexBuilder;
use serde_json::Value;

use crate::command::{Extract, TableColumn, TableRow};

impl Extract {
    /// The number that the extractor finds in a text, or why there is none.
    pub fn number(&self, text: &str) -> Result<f64, String> {
        let number = match (&self.regex, &self.json, &self.column) {
            (Some(regex), ..) => by_regex(regex, text),
            (_, Some(pointer), _) => by_pointer(pointer, text),
            (.., Some(column)) => by_column(column, text),
            _ => Err("it has no regex, json or column".to_string()),
        };
        number.map_err(|why| {
            format!("{} of {}: {why}, so {} is missing", self.way(), self.from.text(), self.name)
        })
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

/// The group of the last match: if a program reports a number repeatedly, the last is the total.
fn by_regex(regex: &str, text: &str) -> Result<f64, String> {
    let last = compiled(regex)?.captures_iter(text).last().ok_or("found nothing")?;
    number(last.get(1).map_or("", |group| group.as_str()))
}

fn by_pointer(pointer: &str, text: &str) -> Result<f64, String> {
    // Some programs print messages before their JSON.
    let starts = |line: &&str| line.trim_start().starts_with(['{', '[']);
    let first = text.split_inclusive('\n').find(starts).ok_or("found no JSON")?;
    let at = first.as_ptr() as usize - text.as_ptr() as usize;
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
    let document = match values.next() {
        Some(Ok(document)) => document,
        Some(Err(e)) => return Err(format!("found malformed JSON ({e})")),
        None => return Err("found no JSON".to_string()),
    };
    match document.pointer(pointer) {
        Some(Value::Number(n)) => n.as_f64().ok_or("found a number that is not finite".to_string()),
        Some(Value::String(text)) => number(text),
        Some(_) => Err("found a value that is not a number".to_string()),
        None => Err("found nothing".to_string()),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| {
        let start: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        format!("found '{start}', which is not a number")
    })
}

fn by_column(column: &TableColumn, text: &str) -> Result<f64, String> {
    let values = column_values(&column.heading, text).ok_or("found no such heading")?;
    match column.row {
        TableRow::Last => values.last().copied().ok_or("found no number below it".to_string()),
        TableRow::Mean if values.is_empty() => Err("found no number below it".to_string()),
        TableRow::Mean => Ok(values.iter().sum::<f64>() / values.len() as f64),
        TableRow::Number(n) => values.get(n as usize - 1).copied().ok_or_else(|| {
            format!("found {} rows below it, not the row {n} asked for", values.len())
        }),
    }
}

/// The numbers below a heading, in all tables that have it; `None` if no table has it. A table ends at
/// a line without a number in that column.
fn column_values(heading: &str, text: &str) -> Option<Vec<f64>> {
    let mut values = None;
    // The current table: how its fields are split, the index of the column, whether rows began.
    let mut table: Option<(Split, usize, bool)> = None;
    for line in text.lines() {
        if let Some((split, index)) = place(heading, line) {
            table = Some((split, index, false));
            values.get_or_insert_with(Vec::new);
            continue;
        }
        let Some((split, index, began)) = table else { continue };
        let field = split.row(line).nth(index);
        match field.and_then(|field| number(field).ok()) {
            Some(value) => {
                values.get_or_insert_with(Vec::new).push(value);
                table = Some((split, index, true));
            }
            None if began => table = None,
            None => (),
        }
    }
    values
}

#[derive(Clone, Copy)]
enum Split {
    Commas,
    Blanks,
}

impl Split {
    fn row(self, line: &str) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Split::Commas => Box::new(line.split(',').map(str::trim)),
            Split::Blanks => Box::new(line.split_whitespace()),
        }
    }
}

/// How a line with this heading is split into fields, and the index of the heading. Headings are
/// separated by commas or by two blanks; if each word is a heading, by single blanks.
fn place(heading: &str, line: &str) -> Option<(Split, usize)> {
    let line = line.trim();
    let find = |mut words: std::vec::IntoIter<&str>| words.position(|word| word == heading);
    if line.contains(',') {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        return find(words.into_iter()).map(|index| (Split::Commas, index));
    }
    let wide: Vec<&str> = line
        .split("  ")
        .flat_map(|part| part.split('\t'))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    let words: Vec<&str> = match wide.len() {
        1 => line.split_whitespace().collect(),
        _ => wide,
    };
    // One word alone is a line of text that happens to be the same.
    let alone = words.len() == 1 && line != heading;
    find(words.into_iter()).filter(|_| !alone).map(|index| (Split::Blanks, index))
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
        match (how.number(text), expected) {
            (Ok(value), Ok(expected)) => assert_eq!(value, expected),
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
            match fuzzer.pick(&hows).number(&String::from_utf8_lossy(&text)) {
                Ok(value) if !value.is_finite() => Err(format!("found {value}")),
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
