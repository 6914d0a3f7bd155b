//! Logs and output of fs_mark: comment lines with its command and version, a line of column names, a row
//! for each loop (-L). The loops share one run and one growing tree, so they are samples of that run.
//! Rows quoted in emails are read too. Source: fs_mark 3.3 and its README.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use records::{Better, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, amount, count};

const RATE: &str = "fs_mark.files_per_s";
const OVERHEAD: &str = "fs_mark.app_overhead_us";
const FILES: &str = "fs_mark.files";
const USED: &str = "fs_mark.file_system_used_percent";

const LACKS: &[&str] = &[
    "the loops of one log are samples of one run in a growing tree, not replicates: a verdict needs \
     several logs of each variant",
    "files/s is the sum of the tasks' own rates: if tasks end at different times, it exceeds files \
     per wall time, so it is not called operations_per_s",
    "mkdir of the subdirectory, once per file, is inside the loop but counts as overhead",
    "file system, device and kernel are not recorded, nor whether the file system was made anew",
];

/// Options of the command line that define the work, with their names as parameters.
const OPTIONS: [(&str, &str); 7] = [
    ("-n", "files_per_task_and_loop"),
    ("-S", "sync"),
    ("-D", "subdirectories"),
    ("-N", "files_per_subdirectory"),
    ("-w", "io_bytes"),
    ("-L", "loops"),
    ("-p", "name_bytes"),
];

/// Whether a text has the line of column names.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| is_heading(unquoted(line)))
}

/// A line without the quotation marks of an email reply.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t']).trim_end()
}

fn is_heading(line: &str) -> bool {
    line.starts_with("FSUse%") && line.contains("Files/sec")
}

/// Reads a run for each table of the file and each size of files, with its loops as samples.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Sample, LACKS);
    foreign.describe(RATE, "1/s", Better::Higher);
    foreign.describe(OVERHEAD, "us", Better::Lower);
    foreign.describe(FILES, "1", Better::Neither);
    foreign.describe(USED, "%", Better::Neither);
    let mut reader = Reader { foreign, ..Reader::new() };
    for (index, line) in file.text.lines().enumerate() {
        reader.line(unquoted(line), index + 1)?;
    }
    Ok(reader.finish())
}

/// Reads line by line, one table at a time.
struct Reader {
    foreign: Foreign,
    tasks: u32,
    options: BTreeMap<String, String>,
    /// Names of the averages that -v adds behind the first five columns.
    calls: Vec<String>,
    /// Loops by size of files.
    loops: BTreeMap<u64, Vec<BTreeMap<String, f64>>>,
    missing: usize,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            foreign: Foreign::new(RATE, ReplicationUnit::Sample, &[]),
            tasks: 0,
            options: BTreeMap::new(),
            calls: Vec::new(),
            loops: BTreeMap::new(),
            missing: 0,
        }
    }

    fn line(&mut self, line: &str, number: usize) -> Result<()> {
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment.trim(), number);
        }
        if is_heading(line) {
            self.end_table();
            self.calls = calls(line);
            for call in &self.calls {
                self.foreign.describe(call, "us", Better::Lower);
            }
            return Ok(());
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_row = fields.first().is_some_and(|field| field.parse::<f64>().is_ok());
        if is_row {
            return self.row(&fields, number);
        }
        if !self.loops.is_empty() {
            self.foreign.leave("other lines", line);
        }
        Ok(())
    }

    fn comment(&mut self, comment: &str, number: usize) -> Result<()> {
        let words: Vec<&str> = comment.split_whitespace().collect();
        if words.first().is_some_and(|word| word.rsplit('/').next() == Some("fs_mark")) {
            // The command begins the comments of the next table.
            self.end_table();
            self.options = options(&words);
            let named = words.iter().filter(|word| **word == "-d").count();
            self.tasks = named.try_into().unwrap_or_default();
        }
        if let [before, "thread(s)", ..] = words.get(2..).unwrap_or_default() {
            self.tasks = count(before, number, "threads")?;
            let version = words[1].trim_end_matches(',');
            self.options.insert("version".to_string(), version.to_string());
        }
        Ok(())
    }

    fn row(&mut self, fields: &[&str], line: usize) -> Result<()> {
        let columns = 5 + 3 * self.calls.len();
        ensure!(
            fields.len() == columns,
            "line {line}: {} numbers, expected {columns}: FSUse% Count Size Files/sec App \
             Overhead{}; is the file truncated?",
            fields.len(),
            if self.calls.is_empty() { "" } else { " and three for each call" }
        );
        let Ok(size) = fields[2].parse::<u64>() else {
            bail!("line {line}: Size is '{}', must be a whole number of bytes", fields[2]);
        };
        let mut values = BTreeMap::new();
        let named = [(0, USED), (1, FILES), (3, RATE), (4, OVERHEAD)];
        for (at, name) in named {
            match amount(fields[at], line, name)? {
                Some(value) => drop(values.insert(name.to_string(), value)),
                None => self.missing += 1,
            }
        }
        for (index, call) in self.calls.iter().enumerate() {
            let three = &fields[5 + 3 * index..][..3];
            // All zeros: the call was never made.
            if three.iter().any(|field| *field != "0") {
                values.extend(amount(three[1], line, call)?.map(|value| (call.clone(), value)));
            }
        }
        self.loops.entry(size).or_default().push(values);
        Ok(())
    }

    /// Makes runs of the rows so far.
    fn end_table(&mut self) {
        for (size, loops) in std::mem::take(&mut self.loops) {
            let parameters = BTreeMap::from([("size_bytes".to_string(), size.to_string())]);
            let cell = ForeignCell { tasks: self.tasks, parameters, ..ForeignCell::new("fs_mark") };
            self.foreign.runs.push(ForeignRun {
                cell,
                options: self.options.clone(),
                values: run_values(&loops),
                samples: loops,
                ..ForeignRun::default()
            });
        }
    }

    fn finish(mut self) -> Foreign {
        self.end_table();
        self.foreign.note_not_finite(self.missing);
        self.foreign
    }
}

/// The values of the whole run: means over its loops, and the fill level at the end.
fn run_values(loops: &[BTreeMap<String, f64>]) -> BTreeMap<String, f64> {
    let mut values: BTreeMap<String, f64> = BTreeMap::new();
    let names: std::collections::BTreeSet<&String> = loops.iter().flat_map(|l| l.keys()).collect();
    for name in names {
        let loop_values: Vec<f64> = loops.iter().filter_map(|l| l.get(name).copied()).collect();
        let last = loop_values.last().copied().unwrap_or_default();
        let mean = loop_values.iter().sum::<f64>() / loop_values.len() as f64;
        let value = if [FILES, USED].contains(&name.as_str()) { last } else { mean };
        values.insert(name.clone(), value);
    }
    values.retain(|_, value| value.is_finite());
    values
}

/// The metrics' names of averages, from headings such as "CREAT (Min/Avg/Max)" after the first columns.
fn calls(heading: &str) -> Vec<String> {
    let words: Vec<&str> = heading.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[1] == "(Min/Avg/Max)");
    pairs.map(|pair| format!("fs_mark.{}_us", super::metric_word(pair[0]))).collect()
}

fn options(words: &[&str]) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    for (at, word) in words.iter().enumerate() {
        let known = OPTIONS.iter().find_map(|(o, name)| Some((name, word.strip_prefix(o)?)));
        // "-S 0" and "-S0".
        let value = known.map(|(_, rest)| rest).filter(|rest| !rest.is_empty());
        if let (Some((name, _)), Some(value)) = (known, value.or(words.get(at + 1).copied())) {
            options.insert(name.to_string(), value.to_string());
        }
    }
    options
}
