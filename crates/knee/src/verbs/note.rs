//! `knee record note`: gives a record a label or a note.

use std::process::ExitCode;

use answers::{NotedRecord, as_json};
use anyhow::{Result, bail};
use host::terminal::{print, print_line, talk};
use records::check_label;
use store::Store;

use super::find::find;

/// Label a record, or attach a note to it
///
/// Where a record is asked for, its label names it, the newest one if several have it.
#[derive(clap::Args)]
pub struct Arguments {
    /// Record: `last`, a label, an id or its start, or a directory
    which: String,
    /// Note to attach; it replaces the present one, and '' removes it
    text: Option<String>,
    /// Label to give; '' removes it
    ///
    /// A label can be used wherever a record is named. If several records have it, it names the newest.
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Print the label and the note that the record has then as JSON
    #[arg(long)]
    json: bool,
}

/// Changes label and note, or prints them if there is nothing to change.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let Arguments { which, text, label, json } = arguments;
    let folder = find(which, store)?;
    if text.is_some() || label.is_some() {
        label.iter().filter(|label| !label.is_empty()).try_for_each(|label| check_label(label))?;
        store::annotate(&folder, label.as_deref(), text.as_deref())?;
        talk(format_args!("changed {}", folder.display()));
    }
    if *json {
        let record = store::open(&folder)?.record;
        let (record, label, note) = (record.id, record.label, record.note);
        print(as_json(&NotedRecord { record, folder, label, note })?)?;
    } else if text.is_none() && label.is_none() {
        let record = store::open(&folder)?.record;
        if record.label.is_empty() && record.note.is_empty() {
            bail!(
                "{} has neither label nor note: knee record note {which} 'TEXT' attaches one",
                record.id
            );
        }
        for part in [&record.label, &record.note].into_iter().filter(|part| !part.is_empty()) {
            print_line(part)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
