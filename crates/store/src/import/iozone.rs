//! What IOzone prints: the table of its automatic mode, whose columns are found by where they stand, and the lines of its
//! throughput mode. Source: `iozone.c` of 3.4 and 3.5, and outputs of both.

use anyhow::{Result, bail};
use records::Better::{self, Higher, Lower, Neither};
use records::{ReplicationUnit, parse};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "one output is one run: replication needs several files",
    "CPUs, host, kernel and file system are not recorded",
];

/// The columns behind size and record; each is 9 letters wide.
const COLUMNS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "backward_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];
const WIDTH: usize = 9;

/// Whether a text is IOzone's, with results.
pub fn recognise(text: &str) -> bool {
    let is_result = |line: &str| is_header(line) || line.contains("sees throughput for");
    text.contains("Iozone: Performance Test of File I/O") && text.lines().any(is_result)
        || text.lines().any(|line| line.contains("Children see throughput for"))
}

/// The header of the table.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().is_some_and(|word| word.eq_ignore_ascii_case("kb"));
    first && words.next() == Some("reclen") && words.next() == Some("write")
}

/// Reads a run for each row of a table, and one for each output of the throughput mode.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("", ReplicationUnit::Run, LACKS);
    let mut reader = Reader::default();
    for (index, line) in file.text.lines().enumerate() {
        reader.line(&mut foreign, line, index + 1)?;
    }
    reader.close(&mut foreign);
    let first = foreign.runs.iter().flat_map(|run| run.values.keys()).next();
    foreign.primary = first.cloned().unwrap_or_default();
    Ok(foreign)
}

#[derive(Default)]
struct Reader {
    /// Ending, unit and direction of the table's numbers.
    output: Option<(&'static str, &'static str, Better)>,
    in_table: bool,
    /// Sizes that hold for all tests of the throughput mode.
    sizes: Vec<(&'static str, String)>,
    /// Whether a run has them.
    has_sizes: bool,
    /// The test of the throughput mode.
    test: String,
    run: ForeignRun,
}

impl Reader {
    fn line(&mut self, foreign: &mut Foreign, line: &str, number: usize) -> Result<()> {
        let text = line.trim();
        if text.starts_with("Iozone: ") {
            self.close(foreign);
        } else if is_header(line) {
            self.in_table = true;
        } else if self.in_table && text.starts_with(|c: char| c.is_ascii_digit()) {
            let output = self.output.unwrap_or(("kb_per_s", "KB/s", Higher));
            let row = table_row(foreign, line, number, output)?;
            foreign.runs.push(row);
        } else if let Some(size) = text.strip_prefix("Record Size ") {
            self.sizes.push(("record", size.replace(' ', "")));
        } else if let Some(size) = text.strip_prefix("File size set to ") {
            self.sizes.push(("file", size.replace(' ', "")));
        } else if text.contains("utput is in") {
            self.output = Some(match text.to_ascii_lowercase() {
                text if text.contains("operations per second") => ("per_s", "1/s", Higher),
                text if text.contains("microseconds") => ("us", "us", Lower),
                _ => ("kb_per_s", "KB/s", Higher),
            });
        } else if !self.throughput(foreign, text) {
            foreign.leave("other lines", text);
        }
        Ok(())
    }

    /// Reads a line such as `Children see throughput for  4 readers = 1000.00 kB/sec`.
    fn throughput(&mut self, foreign: &mut Foreign, line: &str) -> bool {
        let Some((words, value)) = line.split_once('=') else { return false };
        let mut value = value.split_whitespace();
        let (Some(value), unit) = (value.next().and_then(parse::number), value.next()) else {
            return false;
        };
        let (ending, unit, better) = match unit.map(str::to_ascii_lowercase).as_deref() {
            Some("kb/sec") => ("kb_per_s", "KB/s", Higher),
            Some("ops/sec") => ("per_s", "1/s", Higher),
            Some("kb") => ("kb", "KB", Neither),
            Some("ops") => ("operations", "1", Neither),
            _ => return false,
        };
        let words = words.trim();
        let of_test = |start: &str| words.strip_prefix(start).map(str::trim);
        let part = if let Some(test) = of_test("Children see throughput for") {
            let digits = test.find(|c: char| !c.is_ascii_digit()).unwrap_or(test.len());
            let tasks = test[..digits].parse().unwrap_or(0);
            if self.run.cell.tasks != tasks {
                self.finish(foreign);
                self.run.cell = ForeignCell { tasks, ..ForeignCell::new("iozone") };
            }
            self.test = metric_word(&test[digits..]);
            ""
        } else if of_test("Parent sees throughput for").is_some() {
            "parent_"
        } else {
            match metric_word(words).as_str() {
                "min_throughput_per_process" | "min_throughput_per_thread" => "process_min_",
                "max_throughput_per_process" | "max_throughput_per_thread" => "process_max_",
                "avg_throughput_per_process" | "avg_throughput_per_thread" => "process_mean_",
                "min_xfer" => "least_moved_",
                _ => return false,
            }
        };
        let name = format!("iozone.{}_{part}{ending}", self.test);
        foreign.describe(&name, unit, better);
        if self.run.values.contains_key(&name) {
            self.finish(foreign);
        }
        self.run.values.insert(name, value);
        true
    }

    /// Ends a run of the throughput mode.
    fn finish(&mut self, foreign: &mut Foreign) {
        let next = ForeignRun { cell: self.run.cell.clone(), ..ForeignRun::default() };
        let mut run = std::mem::replace(&mut self.run, next);
        let sizes = self.sizes.iter().map(|(name, size)| (name.to_string(), size.clone()));
        run.cell.parameters.extend(sizes);
        if !run.values.is_empty() {
            self.has_sizes = true;
            foreign.runs.push(run);
        }
    }

    /// Ends an output.
    fn close(&mut self, foreign: &mut Foreign) {
        self.finish(foreign);
        let reader = std::mem::take(self);
        // A table says the sizes in its rows.
        for (name, size) in reader.sizes.iter().filter(|_| !reader.has_sizes) {
            foreign.leave("settings", &format!("{name} {size}"));
        }
    }
}

/// A row of the table. A test that was left out leaves blanks.
fn table_row(
    foreign: &mut Foreign,
    line: &str,
    number: usize,
    (ending, unit, better): (&str, &str, Better),
) -> Result<ForeignRun> {
    let mut fields = Vec::new();
    for word in line.split_whitespace() {
        let end = word.as_ptr() as usize - line.as_ptr() as usize + word.len();
        let Some(value) = parse::number(word) else {
            bail!("line {number}: '{word}' is not a number");
        };
        fields.push((end, word, value));
    }
    let [(_, size, _), (start, record, _), values @ ..] = &fields[..] else {
        bail!("line {number}: expected the sizes of a file and of a record, and rates");
    };
    let mut run = ForeignRun { cell: ForeignCell::new("iozone"), ..ForeignRun::default() };
    let sizes = [("file_kb", size), ("record_kb", record)];
    run.cell.parameters = sizes.map(|(name, size)| (name.to_string(), size.to_string())).into();
    for (end, word, value) in values {
        let column = (end - start + WIDTH / 2) / WIDTH;
        let name = column.checked_sub(1).and_then(|at| COLUMNS.get(at));
        let name = name.map(|name| format!("iozone.{name}_{ending}"));
        let Some(name) = name.filter(|name| !run.values.contains_key(name)) else {
            bail!("line {number}: '{word}' stands below no heading: were blanks changed?");
        };
        foreign.describe(&name, unit, better);
        run.values.insert(name, *value);
    }
    Ok(run)
}
