//! `knee explain base.data new.data`: samples recorded by perf, as ledgers and in familiar views.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{RecordingDifference, RecordingLedger, as_json};
use anyhow::{Result, bail, ensure};
use explanations::recording::{self, NamedRecording};
use host::terminal::print;
use ledger::{RecordedLedger, RecordingQuestion, causes, difference, ledgers_from_recordings};
use records::recording::Recording;
use text::Style;

use super::views::ProfileView;

/// The heading of the options for recordings.
pub const HEADING: &str = "perf.data";

/// How to read recordings.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Options {
    /// Count tasks with this name as the workload
    ///
    /// The others count as other tasks. By default all but perf are the workload.
    #[arg(long = "task", value_name = "NAME", help_heading = HEADING)]
    followed: Vec<String>,
    /// Additional source of symbols
    ///
    /// For a recording from another host or boot: a copy of /proc/kallsyms, a vmlinux, or a directory like
    /// ~/.debug.
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    symbols: Vec<PathBuf>,
}

/// Prints the view of one recording, or of two compared.
pub fn run(
    files: &[PathBuf],
    operations: &[u64],
    json: bool,
    view: ProfileView,
    options: &Options,
) -> Result<ExitCode> {
    ensure!(files.len() <= 2, "{} perf.data files: name one, or two to compare", files.len());
    let given = operations.len();
    ensure!(
        given == 0 || given == files.len(),
        "--operations has {given} numbers for {} perf.data files: give one for each",
        files.len()
    );
    ensure!(!operations.contains(&0), "--operations 0: the cost per operation needs at least 1");
    let recordings: Vec<Recording> =
        files.iter().map(|file| perf_data::open(file, &options.symbols)).collect::<Result<_>>()?;
    options.check_tasks(&recordings)?;
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    let named: Vec<NamedRecording> = names
        .iter()
        .zip(&recordings)
        .enumerate()
        .map(|(index, (name, recording))| NamedRecording {
            name,
            recording,
            operations: operations.get(index).copied(),
        })
        .collect();
    print(options.shown(&named, view, json)?)?;
    // The process ends here: freeing millions of samples first would take noticeable time.
    std::mem::forget(recordings);
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn shown(&self, named: &[NamedRecording], view: ProfileView, json: bool) -> Result<String> {
        let style = Style::for_stdout();
        match (named, view) {
            ([one], ProfileView::Ledger) => {
                let recorded = self.recorded(&[one]).remove(0);
                if json {
                    as_json(&RecordingLedger { name: one.name, recorded: &recorded })
                } else {
                    Ok(recording::ledger(one, &recorded, style))
                }
            }
            ([one], ProfileView::Tree) => Ok(recording::callers(one)),
            ([one], ProfileView::Folded) => Ok(recording::folded(one)),
            ([one], ProfileView::Firefox) => Ok(recording::firefox(one)),
            ([base, new], ProfileView::Ledger) => self.changes([base, new], json, style),
            ([base, new], ProfileView::Diff) => Ok(recording::functions([base, new], style)),
            ([base, new], ProfileView::Folded) => Ok(recording::folded_pair([base, new])),
            (_, ProfileView::Locks | ProfileView::Ipis) => bail!(
                "perf.data has no {}: measure a workload with knee explain --view {}",
                if view == ProfileView::Locks { "locks" } else { "interrupts" },
                view.name()
            ),
            (_, ProfileView::Diff) => bail!("--view diff compares two perf.data files: name both"),
            _ => bail!("--view {} shows a single perf.data file: name one", view.name()),
        }
    }

    fn recorded(&self, named: &[&NamedRecording]) -> Vec<RecordedLedger> {
        let question = |named: &&NamedRecording| RecordingQuestion {
            operations: named.operations,
            tasks: self.followed.clone(),
        };
        let questions: Vec<RecordingQuestion> = named.iter().map(question).collect();
        let recordings = named.iter().map(|named| named.recording);
        let both: Vec<(&Recording, &RecordingQuestion)> = recordings.zip(&questions).collect();
        ledgers_from_recordings(&both)
    }

    fn changes(&self, named: [&NamedRecording; 2], json: bool, style: Style) -> Result<String> {
        let [base, new] = named;
        let recorded = self.recorded(&named);
        ensure!(
            recorded[0].measure == recorded[1].measure,
            "cannot compare samples of {} with samples of {}: record both with the same event",
            base.recording.event.name,
            new.recording.event.name
        );
        let (with, without) = if base.recording.has_callers() { (base, new) } else { (new, base) };
        ensure!(
            with.recording.has_callers() == without.recording.has_callers(),
            "{} was recorded with callers (perf record -g) and {} without: their rows are of different kinds. \
             Record both alike",
            with.name,
            without.name
        );
        let change = difference(&recorded[0].ledger, &recorded[1].ledger);
        if json {
            return as_json(&RecordingDifference {
                base: RecordingLedger { name: base.name, recorded: &recorded[0] },
                new: RecordingLedger { name: new.name, recorded: &recorded[1] },
                difference: &change,
                causes: causes(&change),
            });
        }
        Ok(recording::changes(named, [&recorded[0], &recorded[1]], &change, style))
    }

    /// Refuses a `--task` that no recording has: it is a typing mistake.
    fn check_tasks(&self, recordings: &[Recording]) -> Result<()> {
        for task in &self.followed {
            let known = recordings.iter().flat_map(|recording| &recording.tasks);
            ensure!(
                known.clone().any(|known| known == task),
                "no task in the recording is called \"{task}\"{}",
                host::nearest(task, known.map(String::as_str))
            );
        }
        Ok(())
    }
}

/// The name of a file in reports.
fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned())
}
