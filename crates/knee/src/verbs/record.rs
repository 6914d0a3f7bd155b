//! `knee record`: annotates, removes, imports and exports records.

use std::process::ExitCode;

use anyhow::Result;
use store::Store;

use super::{export, import, note, prune, rm};

/// What to do with records.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: RecordAction,
}

#[derive(clap::Subcommand)]
enum RecordAction {
    /// Label a record, or attach a note to it
    Note(note::Arguments),
    /// Remove records
    Rm(rm::Arguments),
    Prune(prune::Arguments),
    /// Import results of other tools as a record
    Import(import::Arguments),
    /// Export records for other tools
    Export(export::Arguments),
}

/// Does it.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    match &arguments.action {
        RecordAction::Note(arguments) => note::run(arguments, store),
        RecordAction::Rm(arguments) => rm::run(arguments, store),
        RecordAction::Prune(arguments) => prune::run(arguments, store),
        RecordAction::Import(arguments) => import::run(arguments, store),
        RecordAction::Export(arguments) => export::run(arguments, store),
    }
}
