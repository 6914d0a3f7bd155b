//! `knee record rm`: removes records.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use host::question;
use host::terminal::talk;
use store::Store;
use text::prose::counted;

use super::find::find;

/// Remove records
///
/// Lists what would go, and asks. Nothing is removed where nobody can be asked, unless --yes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Records to remove: `last`, labels, ids or their starts, or directories
    #[arg(required = true)]
    which: Vec<String>,
    /// Remove them without asking
    #[arg(long)]
    yes: bool,
}

/// Names the records, asks, and removes them.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let folders: Vec<PathBuf> =
        arguments.which.iter().map(|which| find(which, store)).collect::<Result<_>>()?;
    if !arguments.yes {
        folders.iter().for_each(|folder| talk(format_args!("  {}", folder.display())));
        let records = counted(folders.len(), "record");
        question::ask(&format!("Remove {records} for good?"), "nothing was removed", "add --yes")?;
    }
    folders.iter().try_for_each(|folder| remove(folder))?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a record, and says so.
pub fn remove(folder: &Path) -> Result<()> {
    let is_gone = store::remove(folder)?;
    let rest = if is_gone { "" } else { "; other files in the folder stay" };
    talk(format_args!("removed the record {}{rest}", folder.display()));
    Ok(())
}
