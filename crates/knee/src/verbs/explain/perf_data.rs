//! `knee explain base.data new.data`: samples recorded by perf, as ledgers and in familiar views.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{RecordingDifference, RecordingLedger};
use anyhow::{Result, bail, ensure};
use explanations::ledger::LedgerPart;
use explanations::recording::{self, NamedRecording};
use host::terminal::print;
use ledger::{RecordedLedger, RecordingQuestion, causes, difference, ledgers_from_recordings};
use pages::{Page, ViewFlags, explanation};
use records::recording::Recording;

use super::part::{ProfilePart, no_json};

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
    #[arg(long, value_name = "PATH", help_heading = HEADING, hide_short_help = true)]
    symbols: Vec<PathBuf>,
}

/// Prints a part of what one recording says, or of two compared.
pub fn run(
    files: &[PathBuf],
    operations: &[u64],
    part: ProfilePart,
    options: &Options,
    view: ViewFlags,
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
    let named = names.iter().zip(&recordings).enumerate();
    let named = named.map(|(index, (name, recording))| NamedRecording {
        name,
        recording,
        operations: operations.get(index).copied(),
    });
    options.print(&named.collect::<Vec<_>>(), part, view)?;
    // The process ends here: freeing millions of samples first would take noticeable time.
    std::mem::forget(recordings);
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn print(&self, named: &[NamedRecording], part: ProfilePart, view: ViewFlags) -> Result<()> {
        let file = |text: &dyn Fn() -> String| -> Result<()> {
            part.check_view(view)?;
            print(text())
        };
        match (named, part) {
            ([one], ProfilePart::Ledger) => {
                let recorded = self.recorded(&[one]).remove(0);
                let value = || Ok(RecordingLedger { name: one.name, recorded: &recorded });
                view.print(value, || Ok(page(recording::recording_part(one, &recorded))))
            }
            ([one], ProfilePart::Tree) => file(&|| recording::callers(one)),
            ([one], ProfilePart::Folded) => file(&|| recording::folded(one)),
            ([one], ProfilePart::Firefox) => file(&|| recording::firefox(one)),
            ([base, new], ProfilePart::Ledger) => self.print_changes([base, new], view),
            ([base, new], ProfilePart::Diff) => {
                let title = format!("{} → {}", base.name, new.name);
                let part_of = || recording::functions_part(title, [base, new]);
                view.print(|| no_json(part), || Ok(page(part_of())))
            }
            ([base, new], ProfilePart::Folded) => file(&|| recording::folded_pair([base, new])),
            (_, ProfilePart::Locks | ProfilePart::Ipis) => bail!(
                "perf.data has no {}: measure a workload with knee explain --part {}",
                if part == ProfilePart::Locks { "locks" } else { "interrupts" },
                part.name()
            ),
            (_, ProfilePart::Diff) => bail!("--part diff compares two perf.data files: name both"),
            _ => bail!("--part {} shows a single perf.data file: name one", part.name()),
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

    fn print_changes(&self, named: [&NamedRecording; 2], view: ViewFlags) -> Result<()> {
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
        let value = || {
            Ok(RecordingDifference {
                base: RecordingLedger { name: base.name, recorded: &recorded[0] },
                new: RecordingLedger { name: new.name, recorded: &recorded[1] },
                difference: &change,
                causes: causes(&change),
            })
        };
        let both = [&recorded[0], &recorded[1]];
        view.print(value, || Ok(page(recording::changes_part(named, both, &change))))
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

fn page(part: LedgerPart) -> Page {
    explanation(String::new(), vec![part])
}

/// The name of a file in reports.
fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(|| file.display().to_string(), |n| n.to_string_lossy().into_owned())
}
