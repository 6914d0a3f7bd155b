//! `knee explain base.data new.data`: samples that perf took, as ledgers and in familiar views.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::ledger::{Question, Recorded, difference, recorded};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use records::perf_data::{Recording, recognise};
use serde_json::json;

use crate::reports::Style;
use crate::reports::recording::{self as reports, Told};
use crate::talk::print;

/// How recordings are read.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Operations that were done while each was recorded, so that all is per operation and not
    /// per second
    #[arg(long, value_name = "N[,M]", value_delimiter = ',', help_heading = "Recordings of perf")]
    operations: Vec<u64>,
    /// How to show a recording
    #[arg(long, value_enum, default_value = "ledger", help_heading = "Recordings of perf")]
    view: View,
    /// The workload is the tasks of this name, all others are others [default: all but perf]
    #[arg(long = "task", value_name = "NAME", help_heading = "Recordings of perf")]
    tasks: Vec<String>,
    /// Where else to look for names of functions: a copy of /proc/kallsyms, a vmlinux, a folder
    /// like ~/.debug; for a recording from another host or boot
    #[arg(long, value_name = "PATH", help_heading = "Recordings of perf")]
    symbols: Vec<PathBuf>,
    /// The ledger, or the difference, as JSON
    #[arg(long)]
    json: bool,
}

/// What is shown of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    /// A ledger that adds up; of two, what changed, ranked
    Ledger,
    /// Callers of each function: percent, symbol, chain
    Tree,
    /// Two: baseline, delta, object, symbol, like perf diff but per operation
    Diff,
    /// Stacks for flame graphs, a line each; of two, both counts
    Folded,
    /// JSON for the Firefox Profiler
    Firefox,
}

/// Whether all of these are recordings; an error where only some are.
pub fn are_recordings(files: &[PathBuf]) -> Result<bool> {
    let is = |file: &PathBuf| {
        let mut start = Vec::new();
        let opened =
            File::open(file).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
        let read = opened.map(|file| file.take(8).read_to_end(&mut start));
        read.is_some_and(|read| read.is_ok()) && recognise(&start)
    };
    let (yes, no): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(|file| is(file));
    if let (Some(_), Some(other)) = (yes.first(), no.first()) {
        File::open(other).with_context(|| format!("reading {}", other.display()))?;
        bail!("{} is no recording of perf: those start with PERFILE2", other.display());
    }
    Ok(no.is_empty() && !yes.is_empty())
}

/// Prints what is asked for.
pub fn run(files: &[PathBuf], options: &Options) -> Result<ExitCode> {
    ensure!(files.len() <= 2, "{} recordings: name one, or two to compare", files.len());
    let given = options.operations.len();
    ensure!(
        given == 0 || given == files.len(),
        "--operations has {given} numbers for {} recordings: give one for each",
        files.len()
    );
    ensure!(!options.operations.contains(&0), "--operations is 0: nothing is per no operation");
    let recordings: Vec<Recording> =
        files.iter().map(|file| Recording::open(file, &options.symbols)).collect::<Result<_>>()?;
    options.check_tasks(&recordings)?;
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    let told = |index: usize| Told {
        name: &names[index],
        recording: &recordings[index],
        operations: options.operations.get(index).copied(),
    };
    let style = Style::of_stdout();
    let text = match (&files.len(), options.view) {
        (1, View::Ledger) => {
            let recorded = options.recorded(&recordings).remove(0);
            match options.json {
                true => as_json(&json!({"name": names[0], "recorded": recorded}))?,
                false => reports::ledger(&told(0), &recorded, style),
            }
        }
        (1, View::Tree) => reports::callers(&told(0)),
        (1, View::Folded) => reports::folded(&told(0)),
        (1, View::Firefox) => reports::firefox(&told(0)),
        (1, View::Diff) => bail!("--view diff is of two recordings: name both"),
        (_, View::Ledger) => options.changes(&recordings, [told(0), told(1)], style)?,
        (_, View::Diff) => reports::functions([&told(0), &told(1)], style),
        (_, View::Folded) => reports::folded_pair([&told(0), &told(1)]),
        (_, View::Tree | View::Firefox) => bail!("this --view is of one recording: name one"),
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn recorded(&self, recordings: &[Recording]) -> Vec<Recorded> {
        let question = |index: usize| Question {
            operations: self.operations.get(index).copied(),
            tasks: self.tasks.clone(),
        };
        let questions: Vec<Question> = (0..recordings.len()).map(question).collect();
        let both: Vec<(&Recording, &Question)> = recordings.iter().zip(&questions).collect();
        recorded(&both)
    }

    fn changes(&self, recordings: &[Recording], told: [Told; 2], style: Style) -> Result<String> {
        let recorded = self.recorded(recordings);
        ensure!(
            recorded[0].measure == recorded[1].measure,
            "one is of {}, the other of {}: those do not compare",
            recordings[0].event.name,
            recordings[1].event.name
        );
        let difference = difference(&recorded[0].ledger, &recorded[1].ledger);
        if self.json {
            return as_json(&json!({
                "base": {"name": told[0].name, "recorded": recorded[0]},
                "new": {"name": told[1].name, "recorded": recorded[1]},
                "difference": difference,
            }));
        }
        let told = [&told[0], &told[1]];
        Ok(reports::changes(told, [&recorded[0], &recorded[1]], &difference, style))
    }

    /// A task that no recording has is a slip of the pen.
    fn check_tasks(&self, recordings: &[Recording]) -> Result<()> {
        for task in &self.tasks {
            let known = recordings.iter().flat_map(|recording| &recording.tasks);
            ensure!(
                known.clone().any(|known| known == task),
                "no task is called '{task}'{}",
                crate::names::nearest(task, known.map(String::as_str))
            );
        }
        Ok(())
    }
}

fn as_json(value: &serde_json::Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// What reports call a file.
fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned())
}
