//! A column of a table in a text: a line has its heading, and the lines below have its values. Fields are separated by
//! commas, semicolons, tabs, bars or blanks.

/// What a column has below a heading, in all tables that have it; `None` if no table has it. A table ends at a line
/// without a value in that column; a row of as many fields as the headings lacks just this one.
pub fn column_values<T>(
    heading: &str,
    text: &str,
    parse: impl Fn(&str, Row<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let mut values = None;
    // The current table, and whether rows began.
    let mut table: Option<(Header, bool)> = None;
    for line in text.lines() {
        if let Some(header) = Header::find(heading, line) {
            table = Some((header, false));
            values.get_or_insert_with(Vec::new);
            continue;
        }
        let Some((header, began)) = &mut table else { continue };
        let mut fields = header.split.fields(line);
        if fields.len() > header.headings.len() {
            fields.pop_if(|last| last.is_empty());
        }
        let row = Row { headings: &header.headings, fields: &fields };
        match fields.get(header.index).and_then(|field| parse(field, row)) {
            Some(value) => {
                values.get_or_insert_with(Vec::new).push(value);
                *began = true;
            }
            None if header.is_row(&fields) => (),
            None if *began => table = None,
            None => (),
        }
    }
    values
}

/// A row of a table.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub headings: &'a [String],
    /// As many fields as there are headings, unless blanks separate them.
    pub fields: &'a [String],
}

/// What separates the fields of a line.
#[derive(Clone, Copy, PartialEq)]
enum Split {
    /// One letter; fields may stand between quotation marks.
    At(char),
    Blanks,
}

impl Split {
    fn fields(self, line: &str) -> Vec<String> {
        match self {
            // A table whose headings stand between tabs may have rows between blanks.
            Split::At('\t') if !line.contains('\t') => Split::Blanks.fields(line),
            Split::At(separator) => between(line, separator),
            Split::Blanks => line.split_whitespace().map(str::to_string).collect(),
        }
    }
}

fn between(line: &str, separator: char) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        let field = fields.last_mut().expect("there is a field");
        match letter {
            '"' if is_quoted || field.trim().is_empty() => is_quoted = !is_quoted,
            letter if letter == separator && !is_quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    fields.into_iter().map(|field| field.trim().to_string()).collect()
}

/// A line of headings.
struct Header {
    split: Split,
    /// The place of the heading.
    index: usize,
    headings: Vec<String>,
}

impl Header {
    /// The line as headings, if this one is among them. If each word is a heading, they are separated by single blanks,
    /// otherwise by two.
    fn find(heading: &str, line: &str) -> Option<Header> {
        let line = line.trim().trim_start_matches("# ");
        for separator in ['\t', ';', '|', ','] {
            let mut fields = between(line, separator);
            // A separator at the end of the line.
            fields.pop_if(|last| last.is_empty());
            let has_gaps = separator == '\t' && fields.iter().any(String::is_empty);
            if let Some(index) = fields.iter().position(|field| field == heading)
                && fields.len() > 1
                && !has_gaps
            {
                return Some(Header { split: Split::At(separator), index, headings: fields });
            }
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
        let is_alone = words.len() == 1 && line != heading;
        let index = words.iter().position(|word| *word == heading).filter(|_| !is_alone)?;
        let headings = words.into_iter().map(str::to_string).collect();
        Some(Header { split: Split::Blanks, index, headings })
    }

    fn is_row(&self, fields: &[String]) -> bool {
        self.split != Split::Blanks && fields.len() == self.headings.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(heading: &str, text: &str, expected: &[&str]) {
        let number = |field: &str, _: Row| field.parse::<f64>().ok().map(|_| field.to_string());
        let found = column_values(heading, text, number).unwrap_or_default();
        assert_eq!(found, expected, "{heading} of {text}");
    }

    #[test]
    fn fields_are_separated_as_the_headings_are() {
        check("b", "a,b\n\"x, y\",1\nz,2\n", &["1", "2"]);
        check("b", "a;b\n1;2.5\n", &["2.5"]);
        check("ctime", "start\tctime\nFri Jun 24\t2\nFri Jun 25\t3\n", &["2", "3"]);
        check("ops/sec", "Node|ops/sec|ms\nx y|    12.0| 1.1\n", &["12.0"]);
        check("Files/sec", "Count    Files/sec\n10      20\n", &["20"]);
        check("median", "test\tmedian\t\nx y\t7\t\n", &["7"]);
        check("works/sec", "# ncpu works/sec\n1 7\n2 9\n", &["7", "9"]);
    }

    #[test]
    fn a_missing_value_ends_no_table_whose_row_is_whole() {
        check("b", "a,b\n1,2\n3,NA\n4,5\n\n6,7,8\n", &["2", "5"]);
        check("b", "a b\n1 2\nend of it\n3 4\n", &["2"]);
    }
}
