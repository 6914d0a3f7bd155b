//! A page as a value: the answer first, then what it rests on. Each form of a page shows all of it.

use analysis::{Contrast, Verdict};
use explanations::ledger::LedgerTree;
use explanations::recording::FlameGraph;
use records::Record;
use reports::{CurvePanel, ExperimentFile, LoadSetting, experiment_file};
use text::prose::wrapped;
use text::table::{Align, Narrower, Table};

/// Headings of columns that say which row it is.
pub const PLACES: [&str; 4] = ["CPUs", "tasks", "variant", "measured"];

/// Ledger rows below this depth are left out where nothing can be folded.
pub const LEDGER_DEPTH_MAX: usize = 4;

/// A longer name hides the answer that it stands in.
const NAME_MAX: usize = 80;
/// A longer title pushes the answer out of sight.
const TITLE_MAX: usize = 160;

/// A page.
pub struct Page {
    /// Title of the page, a few words.
    pub title: String,
    pub kind: PageKind,
    /// Whether a run goes on that will add to it.
    pub is_growing: bool,
    /// The answer, a sentence each.
    pub answers: Vec<String>,
    /// How many verdicts of each kind there are; empty where nothing is judged.
    pub counts: Vec<Count>,
    pub sections: Vec<Section>,
    /// How the answer came about: noise floor, what was left out, method.
    pub method: Vec<String>,
    /// Warnings, failed runs, what was not measured: headings with sentences.
    pub warnings: Vec<(String, Vec<String>)>,
    /// Host, design, variants: labels with what stands behind them. A line that goes on has no label.
    pub facts: Vec<(String, String)>,
    /// Commands that make the runs, or this page, again.
    pub again: Vec<String>,
    /// Files from which a reader who lacks what these commands need can do the same. Forms that are sent have them whole.
    pub files: Vec<PageFile>,
}

/// A file that a page holds for its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    pub name: String,
    pub text: String,
    /// The command that needs it.
    pub command: String,
}

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    Measurement,
    Comparison,
    Explanation,
    Bisection,
    Simulation,
    Replay,
    Scaling,
    Forecast,
    Fragility,
    Plan,
    Screening,
    Series,
    Gate,
    Watch,
    Check,
    Conflicts,
    Health,
    List,
    Manual,
}

impl PageKind {
    /// What stands above the title.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Measurement => "Measurement",
            PageKind::Comparison => "Comparison",
            PageKind::Explanation => "Explanation",
            PageKind::Bisection => "Bisection",
            PageKind::Simulation => "Simulation",
            PageKind::Replay => "Replay, simulated",
            PageKind::Scaling => "Scaling",
            PageKind::Forecast => "Forecast",
            PageKind::Fragility => "Fragility",
            PageKind::Plan => "Plan",
            PageKind::Screening => "Screening",
            PageKind::Series => "Series",
            PageKind::Gate => "Gate",
            PageKind::Watch => "Watch",
            PageKind::Check => "Check",
            PageKind::Conflicts => "Contended lines",
            PageKind::Health => "Host",
            PageKind::List => "List",
            PageKind::Manual => "Manual",
        }
    }

    /// Whether the reader of a terminal, who has just typed the question, still needs a title.
    pub fn has_title_on_a_terminal(self) -> bool {
        let is_known = matches!(
            self,
            PageKind::Bisection
                | PageKind::Check
                | PageKind::Health
                | PageKind::List
                | PageKind::Manual
                | PageKind::Screening
                | PageKind::Series
                | PageKind::Gate
        );
        !is_known
    }
}

/// How often a verdict was reached.
pub struct Count {
    pub n: usize,
    pub word: &'static str,
    pub tone: Tone,
}

/// What a verdict means to a reader, which colours and marks show beside its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Better,
    Worse,
    /// Different in a metric that is neither good nor bad.
    Changed,
    Same,
    /// Nothing is known.
    Open,
}

/// A part of a page with a heading.
pub struct Section {
    pub title: String,
    /// The load that it is about, if there is one.
    pub load: Option<LoadSetting>,
    /// Whether its blocks are shown before the reader asks.
    pub is_open: bool,
    /// Whether it repeats rows of other sections, which a text does not need.
    pub is_summary: bool,
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section about no load in particular, which is shown at once.
    pub fn open(title: &str, blocks: Vec<Block>) -> Section {
        Section { title: title.to_string(), load: None, is_open: true, is_summary: false, blocks }
    }
}

/// What sections consist of.
pub enum Block {
    /// Sentences.
    Text(Vec<String>),
    Curves(CurvePanel),
    Table(PageTable),
    Matrix(Matrix),
    Ledger(LedgerTree),
    Flame(FlameGraph),
    /// The text of a manual, as in doc comments: paragraphs, lists and diagrams.
    Manual(String),
    /// Sentences that only some readers want, below a heading.
    Folded(&'static str, Vec<String>),
}

/// Numbers of pairs of names, drawn as a map of heat where there are colours.
pub struct Matrix {
    pub names: Vec<String>,
    /// For each name, those with each name.
    pub cells: Vec<Vec<MatrixCell>>,
    /// How to read it, a sentence each.
    pub reading: &'static [&'static str],
}

/// A number of two names.
#[derive(Clone, Default)]
pub struct MatrixCell {
    /// Absent where it is not known.
    pub value: Option<f64>,
    /// What stands in the cell.
    pub text: String,
    /// What the cell says, for a reader who points at it.
    pub about: String,
}

impl Matrix {
    /// As text: columns are named by their numbers.
    pub fn table(&self) -> Table {
        let numbers = (1..=self.names.len()).map(|number| (number.to_string(), Align::Right));
        let columns = [("operation".to_string(), Align::Left)].into_iter().chain(numbers);
        let mut table = Table::new(columns);
        for (number, (name, cells)) in self.names.iter().zip(&self.cells).enumerate() {
            let first = format!("{:>2} {name}", number + 1);
            let texts = cells.iter().map(|cell| cell.text.clone());
            table.row([first].into_iter().chain(texts).collect());
        }
        table
    }
}

/// A table with what a reader needs to understand it.
pub struct PageTable {
    /// What its numbers are; empty where the title of its section says that.
    pub caption: String,
    pub table: Table,
    /// For each row what it says; empty for tables without verdicts.
    pub marks: Vec<RowMark>,
    pub wide: Wide,
    /// How to read it, a sentence each.
    pub reading: &'static [&'static str],
    /// Whether it is shown before the reader asks.
    pub is_open: bool,
}

/// What becomes of a table where lines are shorter than its rows.
pub enum Wide {
    /// Columns that do not fit stand below, behind those that say which row it is.
    Stacked,
    /// Columns that do not fit go, and are named: the last ones matter least.
    FirstColumns,
    /// Cells of the last column go on below where they begin.
    Prose,
    /// The first of these that fits, or the last one.
    Narrower(Vec<Narrower>),
    /// A table of steps, whose first column has the names of tasks: where lines are long, and in HTML, each task has a column
    /// of its own. Elsewhere as it is.
    ByTask(TaskSteps),
}

/// Steps of tasks, one after the other.
pub struct TaskSteps {
    /// The names of all tasks, in the order of their columns.
    pub tasks: Vec<String>,
    /// The task, what it does, and where that stands.
    pub steps: Vec<[String; 3]>,
}

impl TaskSteps {
    /// Lines are long from here on.
    pub const WIDTH_MIN: usize = 100;

    /// Columns of a task, at least.
    const COLUMN_MIN: usize = 24;

    /// A table with a column for each task, in lines of at most this width; `None` if that is too narrow.
    pub fn within(&self, width: usize) -> Option<Table> {
        let at = self.steps.iter().map(|[_, _, at]| at.chars().count()).max()?.max(2);
        let column = width.checked_sub(at)? / self.tasks.len();
        let column = column.checked_sub(2).filter(|&column| column >= Self::COLUMN_MIN)?;
        let is_long = width >= Self::WIDTH_MIN;
        is_long.then(|| self.table(|step| wrapped(step, column, 2)))
    }

    /// A table with a column for each task, however wide.
    pub fn wide(&self) -> Table {
        self.table(str::to_string)
    }

    fn table(&self, lines: impl Fn(&str) -> String) -> Table {
        let columns = [String::from("at")].into_iter().chain(self.tasks.iter().cloned());
        let mut table = Table::new(columns.map(|heading| (heading, Align::Left)));
        for [task, step, at] in &self.steps {
            let column = self.tasks.iter().position(|name| name == task);
            for (index, line) in lines(step).lines().enumerate() {
                let mut row = vec![String::new(); self.tasks.len() + 1];
                row[0] = if index == 0 { at.clone() } else { String::new() };
                row[column.map_or(0, |column| column + 1)] = line.to_string();
                table.row(row);
            }
        }
        table
    }
}

/// What a row of verdicts says, for marks beside it and for programs that read the page.
pub struct RowMark {
    pub tone: Tone,
    pub cell: usize,
    pub variant: String,
    pub verdict: String,
    /// The change and its interval, to be drawn.
    pub contrast: Option<Contrast>,
    /// The smallest change that matters, as a share.
    pub smallest_effect: f64,
}

/// A sentence with the names between backquotes cut where they are long. The facts of a page have them whole.
pub fn brief(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A backquote without its partner is a part of a name.
    if parts.len().is_multiple_of(2) {
        return text.to_string();
    }
    let part = |(index, part): (usize, &&str)| {
        if index % 2 == 1 { cut(part, NAME_MAX) } else { part.to_string() }
    };
    parts.iter().enumerate().map(part).collect::<Vec<_>>().join("`")
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most - 1) {
        Some((end, last)) if end + last.len_utf8() < text.len() => format!("{}…", &text[..end]),
        Some(_) | None => text.to_string(),
    }
}

impl Page {
    /// A page that says nothing yet.
    pub fn new(title: &str, kind: PageKind) -> Page {
        Page {
            title: title.to_string(),
            kind,
            is_growing: false,
            answers: Vec::new(),
            counts: Vec::new(),
            sections: Vec::new(),
            method: Vec::new(),
            warnings: Vec::new(),
            facts: Vec::new(),
            again: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The title, cut where it has long names.
    pub fn brief_title(&self) -> String {
        cut(&self.title, TITLE_MAX)
    }

    /// The heading of the facts.
    pub fn facts_title(&self) -> &'static str {
        match self.kind {
            PageKind::Simulation | PageKind::Replay => "What was simulated, and where",
            PageKind::Check => "What was checked",
            PageKind::Plan => "What would be measured, and where",
            PageKind::List | PageKind::Manual => "Also",
            _ => "What was measured, and where",
        }
    }

    /// Adds the experiment of a record where the record's command needs files that readers elsewhere lack.
    pub fn add_experiment(&mut self, record: &Record) {
        if let Some(ExperimentFile { name, text, command }) = experiment_file(record) {
            self.files.push(PageFile { name, text, command });
        }
    }

    /// This page, and below it what another says.
    pub fn and(mut self, other: Page) -> Page {
        self.answers.extend(other.answers);
        for count in other.counts {
            match self.counts.iter_mut().find(|known| known.word == count.word) {
                Some(known) => known.n += count.n,
                None => self.counts.push(count),
            }
        }
        self.is_growing |= other.is_growing;
        self.sections.extend(other.sections);
        let is_new = |known: &Vec<String>, text: &String| !known.contains(text);
        let method = other.method.into_iter().filter(|text| is_new(&self.method, text));
        self.method.extend(method.collect::<Vec<_>>());
        for (title, sentences) in other.warnings {
            match self.warnings.iter_mut().find(|(known, _)| *known == title) {
                Some((_, known)) => {
                    let new = sentences.into_iter().filter(|text| !known.contains(text));
                    let new: Vec<String> = new.collect();
                    known.extend(new);
                }
                None => self.warnings.push((title, sentences)),
            }
        }
        let facts = other.facts.into_iter().filter(|fact| !self.facts.contains(fact));
        self.facts.extend(facts.collect::<Vec<_>>());
        let again = other.again.into_iter().filter(|text| is_new(&self.again, text));
        self.again.extend(again.collect::<Vec<_>>());
        let files = other.files.into_iter().filter(|file| !self.files.contains(file));
        self.files.extend(files.collect::<Vec<_>>());
        self
    }
}

impl Tone {
    /// The tone of a verdict.
    pub fn of_verdict(verdict: Option<&Verdict>) -> Tone {
        match verdict {
            Some(Verdict::Better { .. }) => Tone::Better,
            Some(Verdict::Worse { .. }) => Tone::Worse,
            Some(Verdict::More { .. } | Verdict::Less { .. }) => Tone::Changed,
            Some(Verdict::Same) => Tone::Same,
            Some(_) | None => Tone::Open,
        }
    }

    /// Its name in the page.
    pub fn name(self) -> &'static str {
        match self {
            Tone::Better => "better",
            Tone::Worse => "worse",
            Tone::Changed => "changed",
            Tone::Same => "same",
            Tone::Open => "open",
        }
    }
}

impl PageTable {
    /// A table of names, or values, and in the last column sentences about them.
    pub fn of_prose(table: Table) -> PageTable {
        PageTable { wide: Wide::Prose, ..PageTable::plain("", table, &[]) }
    }

    /// A matrix where nothing is drawn.
    pub fn of_matrix(matrix: &Matrix) -> PageTable {
        PageTable {
            wide: Wide::FirstColumns,
            ..PageTable::plain("", matrix.table(), matrix.reading)
        }
    }

    /// A table without verdicts.
    pub fn plain(caption: &str, table: Table, reading: &'static [&'static str]) -> PageTable {
        PageTable {
            caption: caption.to_string(),
            table,
            marks: Vec::new(),
            wide: Wide::Stacked,
            reading,
            is_open: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_where_they_would_hide_the_answer() {
        let long = "é".repeat(4096);
        let cut = brief(&format!("`{long}` is faster than `b`: +2 %"));
        assert_eq!(cut, format!("`{}…` is faster than `b`: +2 %", "é".repeat(79)));
        assert_eq!(brief(&long), long);
        assert_eq!(brief("a`b is slower"), "a`b is slower");
    }
}
