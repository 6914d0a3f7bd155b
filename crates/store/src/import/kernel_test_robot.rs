//! The table in a mail of the kernel test robot (`lkp compare`): for each stat the mean of each commit, with its
//! deviation. A mail may hold several tables, each of another job. Source: mails to linux-kernel of 2014 to 2026.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use records::Better::Neither;
use records::ReplicationUnit;

use crate::import::lkp::{self, headline};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, better_by_name};

const LACKS: &[&str] = &[
    "each value is a mean over runs, of which neither the number nor the single values are in the mail: a commit \
     counts as one run, and there is no verdict",
    "a deviation below 2 % of the mean is left out by the robot",
];

/// Whether a text has the headings of such a table.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| is_heading(unquoted(line)))
}

fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], ["%stddev", "%change", "%stddev", ..])
}

/// A line without the marks of a quotation.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', ' '])
}

/// Reads a run for each commit of each table.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new("", ReplicationUnit::Run, LACKS);
    let mut table = Job::default();
    let mut runs: Vec<ForeignRun> = Vec::new();
    let mut is_of_values = false;
    for (index, line) in file.text.lines().enumerate() {
        let line = unquoted(line).trim_end();
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.len() > 20 && line.chars().all(|c| c == '=') {
            foreign.runs.append(&mut runs);
            table = Job::default();
            is_of_values = false;
        } else if is_heading(line) {
            is_of_values = true;
            runs = table.runs();
            ensure!(runs.len() > 1, "line {}: the table names no two commits before it", index + 1);
        } else if !is_of_values {
            table.line(line, &words);
        } else if words.contains(&"fail:runs") {
            // What failed how often, until the next table.
            is_of_values = false;
        } else if let Some((stat, values)) = row(&words, runs.len()) {
            put(&mut foreign, &mut runs, stat, &values);
        } else {
            foreign.leave("other lines", line);
        }
    }
    foreign.runs.append(&mut runs);
    let names: Vec<String> = foreign.metrics.keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    foreign.primary = headline(&names).to_string();
    Ok(foreign)
}

/// What stands above a table.
#[derive(Default)]
struct Job {
    /// The names of the job's settings, "compiler/kconfig/testcase:", and their values below.
    keys: Vec<String>,
    values: Vec<String>,
    /// The first letters of each commit.
    commits: Vec<String>,
}

impl Job {
    fn line(&mut self, line: &str, words: &[&str]) {
        let is_commit =
            |word: &&str| word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit());
        if self.keys.is_empty() && line.ends_with(':') && line.contains('/') {
            self.keys = line.trim_end_matches(':').split('/').map(str::to_string).collect();
        } else if !self.keys.is_empty() && self.values.is_empty() && line.contains('/') {
            self.values = line.split('/').map(|value| value.trim().to_string()).collect();
        } else if words.len() > 1 && words.iter().all(is_commit) {
            self.commits = words.iter().map(|word| word.chars().take(12).collect()).collect();
        }
    }

    /// An empty run for each commit.
    fn runs(&self) -> Vec<ForeignRun> {
        let mut parameters: BTreeMap<String, String> =
            self.keys.iter().cloned().zip(self.values.iter().cloned()).collect();
        let test = parameters.remove("testcase").unwrap_or_else(|| "job".to_string());
        let cell = ForeignCell { parameters, ..ForeignCell::new(format!("lkp.{test}")) };
        let run = |commit: &String| ForeignRun {
            variant: Some(commit.clone()),
            cell: cell.clone(),
            ..ForeignRun::default()
        };
        self.commits.iter().map(run).collect()
    }
}

/// A mean, and its deviation in percent.
type Mean = (f64, Option<f64>);

/// "38.21 ± 2%  +18.4%  45.24  perf-profile.calltrace…": the stat, and the mean of each commit. The changes
/// follow from them.
fn row<'a>(words: &[&'a str], commits: usize) -> Option<(&'a str, Vec<Mean>)> {
    let (stat, mut rest) = words.split_last().map(|(stat, rest)| (*stat, rest))?;
    let mut values = Vec::new();
    for commit in 0..commits {
        if commit > 0 {
            // The change: "+18.4%", or "+2.3" of a stat in percent.
            let (change, after) = rest.split_first()?;
            rest = Some(after).filter(|_| change.starts_with(['+', '-']))?;
        }
        let (mean, after) = rest.split_first()?;
        let mean: f64 = mean.parse().ok().filter(|mean: &f64| mean.is_finite())?;
        let (deviation, after) = match after {
            ["±", percent, after @ ..] => (percent.trim_end_matches('%').parse().ok(), after),
            [percent, after @ ..] if percent.starts_with('±') => {
                (percent.trim_matches(['±', '%']).parse().ok(), after)
            }
            after => (None, after),
        };
        values.push((mean, deviation));
        rest = after;
    }
    (rest.is_empty() && stat.contains('.')).then_some((stat, values))
}

fn put(foreign: &mut Foreign, runs: &mut [ForeignRun], stat: &str, means: &[Mean]) {
    let name = lkp::name(stat);
    foreign.describe(&name, "1", better_by_name(&name));
    for (run, (mean, deviation)) in runs.iter_mut().zip(means) {
        run.values.insert(name.clone(), *mean);
        if let Some(percent) = deviation {
            let name = format!("{name}.stddev_percent");
            foreign.describe(&name, "%", Neither);
            run.values.insert(name, *percent);
        }
    }
}
