//! `knee explain base.data new.data`: samples that perf took, as ledgers and in familiar views.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::ledger::{
    RecordedLedger, RecordingQuestion, causes, difference, ledgers_from_recordings,
};
use anyhow::{Context, Result, bail, ensure};
use host::stderr::print;
use perf_data::{Recording, recognise};
use reports::Style;
use reports::recording::{self, NamedRecording};
use serde_json::json;

use super::views::View;

/// How recordings are read.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Options {
    /// The workload is the tasks of this name, all others are others [default: all but perf]
    #[arg(long = "task", value_name = "NAME", help_heading = "Recordings of perf")]
    followed: Vec<String>,
    /// Where else to look for names of functions: a copy of /proc/kallsyms, a vmlinux, a folder
    /// like ~/.debug; for a recording from another host or boot
    #[arg(long, value_name = "PATH", help_heading = "Recordings of perf")]
    symbols: Vec<PathBuf>,
}

/// The files, if these words name recordings; an error where only some do.
pub fn recordings(words: &[String]) -> Result<Option<Vec<PathBuf>>> {
    let (yes, no): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| is_recording(Path::new(word)));
    match (yes.is_empty(), no.first()) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(words.iter().map(PathBuf::from).collect())),
        (false, Some(other)) => {
            File::open(other).with_context(|| format!("reading {other}"))?;
            bail!("{other} is no recording of perf, and those compare only with their like")
        }
    }
}

fn is_recording(file: &Path) -> bool {
    let mut start = Vec::new();
    let opened = File::open(file).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
    let read = opened.map(|file| file.take(8).read_to_end(&mut start));
    read.is_some_and(|read| read.is_ok()) && recognise(&start)
}

/// Prints what is asked for.
pub fn run(
    files: &[PathBuf],
    operations: &[u64],
    json: bool,
    view: View,
    options: &Options,
) -> Result<ExitCode> {
    ensure!(files.len() <= 2, "{} recordings: name one, or two to compare", files.len());
    let given = operations.len();
    ensure!(
        given == 0 || given == files.len(),
        "--operations has {given} numbers for {} recordings: give one for each",
        files.len()
    );
    ensure!(!operations.contains(&0), "--operations is 0: nothing is per no operation");
    let recordings: Vec<Recording> =
        files.iter().map(|file| Recording::open(file, &options.symbols)).collect::<Result<_>>()?;
    options.check_tasks(&recordings)?;
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    let told: Vec<NamedRecording> = names
        .iter()
        .zip(&recordings)
        .enumerate()
        .map(|(index, (name, recording))| NamedRecording {
            name,
            recording,
            operations: operations.get(index).copied(),
        })
        .collect();
    print(options.shown(&told, view, json)?)?;
    // The process ends here: taking apart millions of samples first would be seen.
    std::mem::forget(recordings);
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn shown(&self, told: &[NamedRecording], view: View, json: bool) -> Result<String> {
        let style = Style::for_stdout();
        match (told, view) {
            ([one], View::Ledger) => {
                let recorded = self.recorded(&[one]).remove(0);
                match json {
                    true => as_json(&json!({"name": one.name, "recorded": recorded})),
                    false => Ok(recording::ledger(one, &recorded, style)),
                }
            }
            ([one], View::Tree) => Ok(recording::callers(one)),
            ([one], View::Folded) => Ok(recording::folded(one)),
            ([one], View::Firefox) => Ok(recording::firefox(one)),
            ([base, new], View::Ledger) => self.changes([base, new], json, style),
            ([base, new], View::Diff) => Ok(recording::functions([base, new], style)),
            ([base, new], View::Folded) => Ok(recording::folded_pair([base, new])),
            (_, View::Locks | View::Ipis) => bail!(
                "a recording of perf has no {}: measure a workload with knee explain --view {}",
                if view == View::Locks { "locks" } else { "interrupts" },
                view.name()
            ),
            (_, View::Diff) => bail!("--view diff is of two recordings: name both"),
            _ => bail!("this --view is of one recording: name one"),
        }
    }

    fn recorded(&self, told: &[&NamedRecording]) -> Vec<RecordedLedger> {
        let question = |told: &&NamedRecording| RecordingQuestion {
            operations: told.operations,
            tasks: self.followed.clone(),
        };
        let questions: Vec<RecordingQuestion> = told.iter().map(question).collect();
        let recordings = told.iter().map(|told| told.recording);
        let both: Vec<(&Recording, &RecordingQuestion)> = recordings.zip(&questions).collect();
        ledgers_from_recordings(&both)
    }

    fn changes(&self, told: [&NamedRecording; 2], json: bool, style: Style) -> Result<String> {
        let [base, new] = told;
        let recorded = self.recorded(&told);
        ensure!(
            recorded[0].measure == recorded[1].measure,
            "one is of {}, the other of {}: those do not compare",
            base.recording.event.name,
            new.recording.event.name
        );
        let change = difference(&recorded[0].ledger, &recorded[1].ledger);
        if json {
            return as_json(&json!({
                "base": {"name": base.name, "recorded": recorded[0]},
                "new": {"name": new.name, "recorded": recorded[1]},
                "difference": change,
                "causes": causes(&change),
            }));
        }
        Ok(recording::changes(told, [&recorded[0], &recorded[1]], &change, style))
    }

    /// A task that no recording has is a slip of the pen.
    fn check_tasks(&self, recordings: &[Recording]) -> Result<()> {
        for task in &self.followed {
            let known = recordings.iter().flat_map(|recording| &recording.tasks);
            ensure!(
                known.clone().any(|known| known == task),
                "no task is called '{task}'{}",
                host::nearest(task, known.map(String::as_str))
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
