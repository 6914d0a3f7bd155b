//! Rows of comma-separated values (RFC 4180), or of values between tabs or semicolons: fields may be quoted, and quoted fields may contain commas,
//! line ends and doubled quotes. Lines may end in CRLF.

use anyhow::{Result, bail, ensure};

/// The rows of a text, each with the number of its first line. Empty lines are skipped.
pub fn rows(text: &str) -> impl Iterator<Item = Result<(usize, Vec<String>)>> {
    let first = text.lines().next().unwrap_or_default();
    let separators = [',', '\t', ';'];
    let separator = separators.into_iter().find(|one| first.contains(*one)).unwrap_or(',');
    Rows { rest: text, line: 1, separator }
}

struct Rows<'a> {
    rest: &'a str,
    line: usize,
    separator: char,
}

impl Iterator for Rows<'_> {
    type Item = Result<(usize, Vec<String>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let start = self.line;
            match self.row() {
                Ok(fields) if fields.iter().all(String::is_empty) && fields.len() < 2 => continue,
                Ok(fields) => return Some(Ok((start, fields))),
                Err(error) => {
                    self.rest = "";
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Rows<'_> {
    fn row(&mut self) -> Result<Vec<String>> {
        let mut fields = Vec::new();
        loop {
            fields.push(if self.rest.starts_with('"') { self.quoted()? } else { self.bare() });
            if let Some(rest) = self.rest.strip_prefix(self.separator) {
                self.rest = rest;
                continue;
            }
            let end = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n'));
            ensure!(
                end.is_some() || self.rest.is_empty(),
                "line {}: text after a closing quote; double a quote inside a field",
                self.line
            );
            self.line += 1;
            self.rest = end.unwrap_or_default();
            return Ok(fields);
        }
    }

    fn bare(&mut self) -> String {
        let end = self.rest.find([self.separator, '\n']).unwrap_or(self.rest.len());
        let (mut field, mut rest) = self.rest.split_at(end);
        if !rest.starts_with(self.separator) && field.ends_with('\r') {
            field = &field[..field.len() - 1];
            rest = &self.rest[field.len()..];
            // A lone carriage return at the end of the text ends the line too.
            rest = if rest == "\r" { "" } else { rest };
        }
        self.rest = rest;
        field.trim().to_string()
    }

    fn quoted(&mut self) -> Result<String> {
        let mut field = String::new();
        let mut rest = &self.rest[1..];
        loop {
            let Some(end) = rest.find('"') else {
                bail!("line {}: a quoted field does not end; is the file truncated?", self.line);
            };
            field.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix('"') {
                Some(after) => {
                    field.push('"');
                    rest = after;
                }
                None => break,
            }
        }
        self.line += field.matches('\n').count();
        self.rest = rest;
        Ok(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let read: Result<Vec<_>> = rows(text).collect();
        let read = match read {
            Ok(rows) => {
                let row = |(line, fields): &(usize, Vec<String>)| format!("{line}:{fields:?}");
                rows.iter().map(row).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn fields_are_parsed_as_in_rfc_4180() {
        check("a,b\n1,2\n", r#"1:["a", "b"] 2:["1", "2"]"#);
        check("a,b\r\n\r\n1,\r\n", r#"1:["a", "b"] 3:["1", ""]"#);
        check("\"a,\"\"b\"\"\",\"c\nd\"\ne", r#"1:["a,\"b\"", "c\nd"] 3:["e"]"#);
        check("a,b\r", r#"1:["a", "b"]"#);
        check(",", r#"1:["", ""]"#);
        check("a\tb\n1,5\t\"2\t3\"\n", r#"1:["a", "b"] 2:["1,5", "2\t3"]"#);
        check("a;b\n1;2\n", r#"1:["a", "b"] 2:["1", "2"]"#);
        check("", "");
        check("a\n\"b", "line 2: a quoted field does not end; is the file truncated?");
        check("\"a\"b", "line 1: text after a closing quote; double a quote inside a field");
    }
}
