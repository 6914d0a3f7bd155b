//! `knee record`: annotates, removes, imports and exports records.

use std::process::ExitCode;

use anyhow::Result;
use store::Store;

use super::{export, import, note, prune, rm};

/// Annotate, remove, import and export records
///
/// A record is a folder that can be copied and sent. See `knee help record`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: RecordAction,
}

#[derive(clap::Subcommand)]
enum RecordAction {
    Note(note::Arguments),
    Rm(rm::Arguments),
    Prune(prune::Arguments),
    Import(import::Arguments),
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
