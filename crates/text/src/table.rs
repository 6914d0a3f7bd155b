//! A table of text: columns as wide as their content, two spaces between them, nothing
//! at the ends of lines. Headings may have several lines; they stand on the first row.

use host::terminal::one_line;

use crate::markdown;
use crate::prose::wrapped;

/// Between two columns.
const GAP: usize = 2;

/// On which side the cells of a column end evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Columns with headings, and rows of cells.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

/// A table in a narrower form: fewer columns, or a table for each of several things.
#[derive(Clone, Debug)]
pub struct Narrower {
    /// What its numbers are.
    pub caption: String,
    pub tables: Vec<Table>,
    /// What it leaves out, and where that stands; may be empty.
    pub left_out: &'static str,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new<H: Into<String>>(columns: impl IntoIterator<Item = (H, Align)>) -> Table {
        let columns = columns.into_iter().map(|(heading, align)| (heading.into(), align));
        Table { columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row, one cell a column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    /// The headings, which may have several lines, and how each column ends.
    pub fn columns(&self) -> &[(String, Align)] {
        &self.columns
    }

    /// The cells, row by row.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as lines of at most `width`: the last columns go if they do not fit.
    /// Returns their headings too.
    pub fn within(&self, width: usize) -> (String, Vec<String>) {
        let widths = self.widths();
        let mut end = 0;
        let fit = widths.iter().take_while(|column| {
            end += *column + if end > 0 { GAP } else { 0 };
            end <= width
        });
        let fit = fit.count().max(1);
        let lost = self.columns[fit..].iter().map(|(heading, _)| heading.replace('\n', " "));
        (self.picked(&(0..fit).collect::<Vec<_>>()).text(), lost.collect())
    }

    /// The table as lines of at most `width`, in which the cells of the last column go on below where they begin; if
    /// that leaves less than `least` for them, they stand below their rows. `None` if the other columns are too wide.
    pub fn hanging(&self, width: usize, least: usize) -> Option<String> {
        const BELOW: usize = 4;
        let last = self.columns.len() - 1;
        let others = self.picked(&(0..last).collect::<Vec<_>>());
        let indent: usize = others.widths().iter().map(|column| column + GAP).sum();
        if indent + least <= width {
            return Some(self.text().lines().map(|line| wrapped(line, width, indent)).collect());
        }
        let text = others.text();
        let headings = text.lines().count() - self.rows.len();
        let below = |(index, line): (usize, &str)| {
            let cell = match (index + 1).checked_sub(headings) {
                None => "",
                Some(0) => &self.columns[last].0,
                Some(row) => &self.rows[row - 1][last],
            };
            let lines = [line.to_string(), format!("{:BELOW$}{cell}", "")];
            let lines = lines.iter().filter(|line| !line.trim().is_empty());
            lines.map(|line| wrapped(line, width, BELOW)).collect::<String>()
        };
        (indent <= width + GAP).then(|| text.lines().enumerate().map(below).collect())
    }

    /// Tables that each fit into `width`: what does not fit beside the first columns follows below, where the
    /// first `keys` columns stand again. A column that is too wide by itself stays so.
    pub fn stacked(&self, width: usize, keys: usize) -> Vec<Table> {
        let widths = self.widths();
        let room = |columns: &[usize]| {
            columns.iter().map(|column| widths[*column] + GAP).sum::<usize>().saturating_sub(GAP)
        };
        let keys: Vec<usize> = (0..keys.min(widths.len())).collect();
        let mut groups = vec![keys.clone()];
        for column in keys.len()..widths.len() {
            let last = groups.last().map_or(&[][..], Vec::as_slice);
            let fits = room(&[last, &[column]].concat()) <= width;
            if !fits && last.len() > keys.len() {
                groups.push(keys.clone());
            }
            groups.iter_mut().last().into_iter().for_each(|group| group.push(column));
        }
        groups.iter().map(|group| self.picked(group)).collect()
    }

    /// A table of these columns.
    fn picked(&self, columns: &[usize]) -> Table {
        let mut table = Table::new(columns.iter().map(|column| self.columns[*column].clone()));
        for row in &self.rows {
            table.row(columns.iter().map(|column| row[*column].clone()).collect());
        }
        table
    }

    /// The table with each heading and cell changed.
    pub fn map(&self, change: impl Fn(&str) -> String) -> Table {
        let mut table = Table::new(self.columns.iter().map(|(name, align)| (change(name), *align)));
        for row in &self.rows {
            table.row(row.iter().map(|cell| change(cell)).collect());
        }
        table
    }

    /// The table as lines, however wide.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: &[&str]| {
            let padded = cells.iter().enumerate().map(|(i, cell)| match self.columns[i].1 {
                Align::Left => format!("{cell:<0$}", widths[i]),
                Align::Right => format!("{cell:>0$}", widths[i]),
            });
            let line = padded.collect::<Vec<_>>().join(&" ".repeat(GAP));
            format!("{}\n", line.trim_end())
        };
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect::<Vec<_>>());
        self.heading_lines().into_iter().chain(rows).map(|cells| line(&cells)).collect()
    }

    /// The table as GitHub shows it.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let safe = |cell: &String| markdown::cell(cell);
        let headings = self.columns.iter().map(|(heading, _)| safe(heading)).collect();
        let rule = |(_, align): &(String, Align)| match align {
            Align::Left => ":---".to_string(),
            Align::Right => "---:".to_string(),
        };
        let head = line(headings) + &line(self.columns.iter().map(rule).collect());
        let rows = self.rows.iter().map(|row| line(row.iter().map(safe).collect()));
        head + &rows.collect::<String>()
    }

    fn widths(&self) -> Vec<usize> {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|row| row[i].as_str());
            let lines = self.columns[i].0.lines().chain(cells);
            lines.map(|text| text.chars().count()).max().unwrap_or_default()
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// Headings line by line; short ones begin late.
    fn heading_lines(&self) -> Vec<Vec<&str>> {
        let height = |(heading, _): &(String, Align)| heading.lines().count();
        let lines = self.columns.iter().map(height).max().unwrap_or_default();
        let cells = |line: usize| {
            let cell = |column| match (line + height(column)).checked_sub(lines) {
                Some(own_line) => column.0.lines().nth(own_line).unwrap_or_default(),
                None => "",
            };
            self.columns.iter().map(cell).collect()
        };
        (0..lines).map(cells).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            ("name", Align::Left),
            ("operations\nper s", Align::Right),
            ("±", Align::Right),
            ("note", Align::Left),
        ]);
        table.row(["a", "1 234", "5", ""].map(String::from).into());
        table.row(["überlang", "7", "-", "late"].map(String::from).into());
        table
    }

    #[test]
    fn columns_that_do_not_fit_follow_below_beside_the_first() {
        let stacked = table().stacked(20, 1);
        let text: Vec<String> = stacked.iter().map(Table::text).collect();
        expect![[r#"
            [
                "          operations\nname           per s\na              1 234\nüberlang           7\n",
                "name      ±  note\na         5\nüberlang  -  late\n",
            ]
        "#]]
        .assert_debug_eq(&text);
        assert_eq!(table().stacked(40, 1).len(), 1);
        assert_eq!(table().stacked(3, 2).len(), 2, "each column once");
    }

    #[test]
    fn columns_are_as_wide_as_their_content_and_lines_end_without_blanks() {
        expect![[r#"
                      operations
            name           per s  ±  note
            a              1 234  5
            überlang           7  -  late
        "#]]
        .assert_eq(&table().text());
    }

    #[test]
    fn cells_of_the_last_column_go_on_below_where_they_begin() {
        let mut table = Table::new([("name", Align::Left), ("about", Align::Left)]);
        table.row(["a", "first second third"].map(String::from).into());
        expect![[r#"
            name  about
            a     first second
                  third
        "#]]
        .assert_eq(&table.hanging(18, 12).unwrap());
        expect![[r#"
            name
                about
            a
                first second
                third
        "#]]
        .assert_eq(&table.hanging(18, 13).unwrap());
        assert_eq!(table.hanging(3, 13), None);
    }

    #[test]
    fn columns_that_do_not_fit_go_and_are_named() {
        let (text, lost) = table().within(23);
        expect![[r#"
                      operations
            name           per s  ±
            a              1 234  5
            überlang           7  -
        "#]]
        .assert_eq(&text);
        assert_eq!(lost, ["note"]);
    }

    #[test]
    fn github_gets_rules_and_no_stray_bars() {
        let mut table = Table::new([("a\nb", Align::Left), ("n", Align::Right)]);
        table.row(["x|y", "1"].map(String::from).into());
        expect![[r#"
            | a b | n |
            | :--- | ---: |
            | x\|y | 1 |
        "#]]
        .assert_eq(&table.markdown());
    }
}
