//! `knee record import`: turns results of other tools into a record.

use std::path::PathBuf;
use std::process::ExitCode;

use answers::{ImportedRecord, as_json};
use anyhow::{Context, Result, bail, ensure};
use host::terminal::{print, print_line, talk};
use host::unknown_of;
use plan::commands;
use records::pattern::DescribedNumber;
use records::{Better, Extract, Outcome, ReplicationUnit, Session, check_label};
use store::import::{FORMATS, Format, Imported, Input, Telling, Wanted, assemble};
use store::{Id, Store};
use text::prose::counted;

/// Import results of other tools as a record
///
/// The format is detected. A number that is not read is named in a warning, never dropped. Of any other file, --value says
/// where the numbers are. See `knee help importing`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Files to import, or result directories of lkp
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Format, such as fio or pgbench: `--format help` lists all [default: detected]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Read these numbers, of any tool: text around `{}`, 'json:/POINTER' or 'column:HEADING'; repeatable
    ///
    /// Such as 'tps = {}', or a regular expression with one group. Each match is a sample, in the order of the file. A `*`
    /// in a pointer is each element. Rows and elements with names make a cell for each name. The first pattern decides.
    #[arg(long = "value", value_name = "PATTERN", conflicts_with_all = ["format", "unit"])]
    values: Vec<String>,
    /// Which --value is better: higher, lower or neither [default: by name and unit]
    #[arg(long, value_name = "DIRECTION", requires = "values", value_parser = super::run::better)]
    better: Option<Better>,
    /// Name of each file's variant; files with the same name are runs of one variant
    #[arg(long = "as", value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
    /// The variant that the others are compared with [default: the first in the files]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Name of the workload
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// What each run in plain CSV repeats: only the run, or also a fresh mount or boot (run,
    /// mount, boot) [default: run]
    #[arg(long, value_parser = unit)]
    unit: Option<ReplicationUnit>,
    /// Name the record, as a label
    #[arg(long, value_name = "NAME", value_parser = label)]
    label: Option<String>,
    /// Attach a note to the record
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Print the new record's id and folder as JSON
    #[arg(long)]
    json: bool,
}

fn unit(text: &str) -> Result<ReplicationUnit> {
    let units = [
        ("run", ReplicationUnit::Run),
        ("mount", ReplicationUnit::Mount),
        ("boot", ReplicationUnit::Boot),
    ];
    let unit = units.into_iter().find(|(name, _)| *name == text);
    unit.map(|(_, unit)| unit).ok_or_else(|| anyhow::anyhow!("must be run, mount or boot"))
}

fn label(text: &str) -> Result<String> {
    check_label(text).map(|()| text.to_string())
}

/// Makes one record of all files.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    check_names(arguments)?;
    let mut inputs = Vec::new();
    for file in &arguments.files {
        inputs.extend(Input::open(file)?);
    }
    let values = wanted(&arguments.values, arguments.better)?;
    let telling = Telling {
        values: &values,
        format: arguments.format.as_deref(),
        names: &arguments.names,
        workload: arguments.workload.as_deref(),
        baseline: arguments.baseline.as_deref(),
        unit: arguments.unit,
    };
    let mut imported = assemble(&inputs, &telling, session())?;
    imported.record.label = arguments.label.clone().unwrap_or_default();
    imported.record.note = arguments.note.clone().unwrap_or_default();
    let said = said(&imported);
    for line in &said {
        talk(line);
    }
    let (id, folder) = keep(imported, store)?;
    if arguments.json {
        print(as_json(&ImportedRecord { record: id.as_str().to_string(), folder, said })?)?;
    } else {
        print_line(id.as_str())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The numbers that the user points at. The words around them name them; where these are the same, more of the words.
fn wanted(patterns: &[String], better: Option<Better>) -> Result<Vec<Wanted>> {
    const WORDS: usize = 8;
    let mut all: Vec<Wanted> = Vec::new();
    for pattern in patterns {
        ensure!(
            !pattern.starts_with("stderr:"),
            "--value '{pattern}': a file has no standard error: leave out stderr:"
        );
        let extract = commands::operations_from(pattern).context("--value")?;
        let is_free = |name: &String| all.iter().all(|one| one.extract.name != *name);
        let described = (1..=WORDS).map(|words| DescribedNumber::of_words(pattern, words));
        let mut described: Vec<DescribedNumber> = described.collect();
        let at = described.iter().position(|one| is_free(&one.name)).unwrap_or(0);
        let DescribedNumber { mut name, unit, better: by_name } = described.swap_remove(at);
        if !is_free(&name) {
            name = format!("{name}_{}", all.len() + 1);
        }
        let extract = Extract { name, unit, better: better.unwrap_or(by_name), ..extract };
        all.push(Wanted { pattern: pattern.clone(), extract });
    }
    Ok(all)
}

/// Refuses names that no record may have, before anything is read.
fn check_names(arguments: &Arguments) -> Result<()> {
    if let Some(format) = &arguments.format
        && !FORMATS.iter().any(|known| known.name == format)
    {
        let all: Vec<&str> = FORMATS.iter().map(|known| known.name).collect();
        if format == "help" {
            let about = |format: &Format| format!("  {:17} {}", format.name, format.about);
            let lines: Vec<String> = FORMATS.iter().map(about).collect();
            bail!("--format is one of\n{}", lines.join("\n"));
        }
        bail!("{}", unknown_of("format", format, &all));
    }
    for name in arguments.names.iter().chain(&arguments.workload) {
        ensure!(
            !name.trim().is_empty(),
            "an empty name in --as or --workload: give each variant and workload a name"
        );
        ensure!(
            !name.contains(char::is_control),
            "'{}' in --as or --workload: a name must not contain control characters",
            name.escape_debug()
        );
    }
    Ok(())
}

fn session() -> Session {
    Session {
        command: host::command_line(),
        knee: env!("CARGO_PKG_VERSION").to_string(),
        started: jiff::Timestamp::now(),
        finished: None,
        boot_id: String::new(),
        node: None,
        first_run: 0,
        host_changes: None,
    }
}

/// Messages: the detected format, the number of values, and what the files lack.
fn said(imported: &Imported) -> Vec<String> {
    let record = &imported.record;
    let failed = imported.runs.iter().filter(|(run, _)| !run.finished()).count();
    let finished = imported.runs.iter().filter_map(|(run, _)| match &run.outcome {
        Outcome::Finished { metrics, .. } => Some(metrics.keys()),
        Outcome::Failed { .. } => None,
    });
    let metrics: std::collections::BTreeSet<&str> = finished.flatten().collect();
    let what = match record.source.as_ref().map(|source| source.unit) {
        Some(ReplicationUnit::Sample) => "sample",
        _ => "run",
    };
    let baseline =
        |at: usize| if at == 0 && record.variants.len() > 1 { " (baseline)" } else { "" };
    let names = record.variants.iter().enumerate();
    let names: Vec<String> = names.map(|(at, v)| format!("{}{}", v.name, baseline(at))).collect();
    let mut lines = vec![format!(
        "{}: {} of {} in {} of {}: {}",
        imported.format.name,
        counted(imported.values, "value"),
        counted(metrics.len(), "metric"),
        counted(imported.runs.len(), what),
        counted(names.len(), "variant"),
        names.join(", ")
    )];
    if failed > 0 {
        lines.push(format!("{} failed when they were run", counted(failed, what)));
    }
    let lacks = record.source.iter().flat_map(|source| &source.lacks);
    lines.extend(lacks.map(|lack| format!("not in the files: {lack}")));
    let warnings = record.warnings.iter();
    lines.extend(warnings.map(|one| format!("warning: {}: {}", one.text, one.advice)));
    lines
}

/// Puts a record into the store, as a run would, in one go.
fn keep(imported: Imported, store: &Store) -> Result<(Id, PathBuf)> {
    let now = jiff::Timestamp::now();
    let id = Id::new(now, host::random() as u32);
    let mut growing = store.begin(imported.record, id.clone())?;
    let added = growing.append_all(imported.runs);
    // Without its runs, the record is discarded.
    growing.complete = added.is_ok();
    let folder = growing.finish(jiff::Timestamp::now());
    added?;
    let folder = folder?.ok_or_else(|| anyhow::anyhow!("the record {} is empty", id.as_str()))?;
    Ok((id, folder))
}
