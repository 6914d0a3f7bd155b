//! `knee explain before.live after.live`: looks at running programs that were saved, alone or compared.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use explanations::ledger::LedgerPart;
use explanations::live::{compared_part, live_part};
use pages::{Page, ViewFlags, explanation};
use records::live::Observation;
use store::{is_saved_look, read_look};

/// The usual ending of a file with a look.
const ENDING: &str = ".live";

/// The files, if these words name saved looks.
///
/// # Errors
/// Only some of them do.
pub fn named(words: &[String]) -> Result<Option<Vec<PathBuf>>> {
    let is_look = |word: &&String| word.ends_with(ENDING) || is_saved_look(Path::new(word));
    let (looks, others): (Vec<&String>, Vec<&String>) = words.iter().partition(is_look);
    match (looks.is_empty(), others.first()) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(looks.into_iter().map(PathBuf::from).collect())),
        (false, Some(other)) => {
            bail!("{other} is not a saved look: compare {} only with another look", looks[0])
        }
    }
}

/// Prints what one saved look says, or what changed from the first to the second.
///
/// # Errors
/// A file is no look, or there are more than two.
pub fn run(files: &[PathBuf], view: ViewFlags) -> Result<ExitCode> {
    ensure!(files.len() <= 2, "{} looks: name one, or two to compare", files.len());
    let looks: Vec<Observation> =
        files.iter().map(|file| read_look(file)).collect::<Result<_>>()?;
    match &looks[..] {
        [one] => print_one(one, view)?,
        [before, after] => print_two(before, after, view)?,
        _ => (),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what holds programs back.
pub fn print_one(observation: &Observation, view: ViewFlags) -> Result<()> {
    let answer = live::answer(observation);
    let part = live_part(&answer);
    view.print(|| Ok(answer), || Ok(page(part)))
}

/// Prints what changed.
pub fn print_two(before: &Observation, after: &Observation, view: ViewFlags) -> Result<()> {
    let comparison = live::compare(before, after);
    let part = compared_part(&comparison);
    view.print(|| Ok(comparison), || Ok(page(part)))
}

fn page(part: LedgerPart) -> Page {
    let title = part.title.clone();
    explanation(title, vec![part])
}
