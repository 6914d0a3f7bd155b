//! `knee record export`: writes records for other tools.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::{as_json, whole};
use anyhow::{Context, Result, bail, ensure};
use host::terminal::{WRITING, print, talk};
use host::{HeldFolder, given_file};
use records::{Opened, Warning};
use reports::{WillItScale, csv, csv_header, will_it_scale};
use store::{Store, compact};
use text::prose::counted;

use super::find::{all, find};

/// Export records for other tools
///
/// CSV has a line for each metric of each run, with its unit, host and block. See `knee help reports`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Records to export: `last`, labels, ids or their starts, directories, or `all`
    #[arg(default_value = "last")]
    which: Vec<String>,
    /// Format: csv (a line per metric and run), json (one complete record) or will-it-scale
    #[arg(long, value_enum, default_value = "csv")]
    format: ExportFormat,
    /// File to write, or directory if there are several files [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Export only this workload (will-it-scale)
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Write runs and raw samples of many records as a few large Parquet files, in a new directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "output", "workload"])]
    compact: Option<PathBuf>,
}

/// A file format to export.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ExportFormat {
    Csv,
    Json,
    WillItScale,
}

/// Writes the records in the requested format.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let folders = folders(&arguments.which, store)?;
    if let Some(into) = &arguments.compact {
        folders.iter().try_for_each(|folder| open(folder).map(drop))?;
        let written = compact(&folders, into, analysis::left_out)?;
        let files = counted(written.files, "file");
        let rows = counted(written.rows, "row");
        talk(format_args!("wrote {rows} in {files} to {}", into.display()));
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.format {
        ExportFormat::Csv => to_output(arguments, |out| export_csv(&folders, out))?,
        ExportFormat::Json => {
            let record = open(only(&folders, "json")?)?;
            to_output(arguments, |out| Ok(out.write_all(as_json(&whole(&record))?.as_bytes())?))?;
        }
        ExportFormat::WillItScale => {
            let record = open(only(&folders, "will-it-scale")?)?;
            export_will_it_scale(arguments, will_it_scale(&record))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a record, and says so if its runs are not those that were measured: the exported file will not.
fn open(folder: &Path) -> Result<Opened> {
    let opened = store::open(folder)?;
    if let Some(Warning { text, advice, .. }) = store::alteration(&opened) {
        talk(format_args!("{}: {text}: {advice}", opened.record.id));
    }
    Ok(opened)
}

fn folders(which: &[String], store: &Store) -> Result<Vec<PathBuf>> {
    if which == ["all"] {
        return all(store);
    }
    which.iter().map(|which| find(which, store)).collect()
}

fn only<'a>(folders: &'a [PathBuf], format: &str) -> Result<&'a Path> {
    match folders {
        [one] => Ok(one),
        _ => bail!(
            "--format {format} takes one record, not {}: export them one by one",
            folders.len()
        ),
    }
}

fn to_output(
    arguments: &Arguments,
    write: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let Some(path) = &arguments.output else {
        if io::stdout().is_terminal() {
            let mut text = Vec::new();
            write(&mut text)?;
            return print(String::from_utf8_lossy(&text));
        }
        let mut out = BufWriter::new(io::stdout().lock());
        return write(&mut out).and_then(|()| Ok(out.flush()?)).context(WRITING);
    };
    let file = given_file::create(path)?;
    let mut out = BufWriter::new(file);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    written.with_context(|| format!("writing {}", path.display()))
}

fn export_csv(folders: &[PathBuf], mut out: &mut dyn Write) -> Result<()> {
    csv_header(&mut out)?;
    for folder in folders {
        csv(&open(folder)?, &mut out)?;
    }
    Ok(())
}

fn export_will_it_scale(arguments: &Arguments, mut files: Vec<WillItScale>) -> Result<()> {
    if let Some(workload) = &arguments.workload {
        files.retain(|file| file.workload == *workload || file.name == *workload);
    }
    ensure!(
        !files.is_empty(),
        "nothing to export: the will-it-scale format holds rates by number of tasks, and the \
         record has none for this --workload"
    );
    let is_folder = |path: &&PathBuf| path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/");
    let into_folder = arguments.output.as_ref().filter(|path| files.len() > 1 || is_folder(path));
    match (&files[..], into_folder) {
        (_, Some(folder)) => write_files(&files, folder),
        ([one], None) => to_output(arguments, |out| Ok(out.write_all(one.csv.as_bytes())?)),
        (several, None) => {
            let names: Vec<&str> = several.iter().map(|file| file.name.as_str()).collect();
            bail!(
                "this export has several files ({}): name a directory with --output, or one \
                 of them with --workload",
                names.join(", ")
            )
        }
    }
}

/// The CSV files, and the titles that will-it-scale's plotter reads beside them.
fn write_files(files: &[WillItScale], folder: &Path) -> Result<()> {
    let folder = HeldFolder::create(folder)?;
    for file in files {
        for (ending, text) in [("csv", &file.csv), ("title", &(file.title.clone() + "\n"))] {
            folder.put(format!("{}.{ending}", file.name), text.as_bytes())?;
        }
    }
    Ok(())
}
