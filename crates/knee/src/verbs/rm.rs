//! `knee record rm`: removes records.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{RemovedRecord, RemovedRecords, as_json};
use anyhow::Result;
use host::question;
use host::terminal::{print, talk};
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
    /// Print the folders that were removed as JSON
    #[arg(long)]
    json: bool,
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
    let removed = folders.iter().map(|folder| remove(folder)).collect::<Result<_>>()?;
    if arguments.json {
        print(as_json(&RemovedRecords { removed })?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a record, and says so.
pub fn remove(folder: &Path) -> Result<RemovedRecord> {
    let has_other_files = !store::remove(folder)?;
    let rest = if has_other_files { "; other files in the folder stay" } else { "" };
    talk(format_args!("removed the record {}{rest}", folder.display()));
    Ok(RemovedRecord { folder: folder.to_path_buf(), has_other_files })
}
