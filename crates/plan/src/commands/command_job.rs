//! A command's definition with the values of one point and one run put in, as the worker gets it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use records::{
    Command, CommandJob, CommandLine, Extract, OperationCount, OutputSource, Point, ProgramProbe,
};

use super::placeholders::{IMAGE, Values, fill, words};

/// Identifies one run of a record, with the seed that makes its random choices repeatable.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunId {
    /// The number of its block.
    pub block: u32,
    /// Its number in the record.
    pub run: u32,
    /// The record's seed.
    pub seed: u64,
}

/// The path of a run's copy of the experiment's image.
pub fn copy_of_image(scratch: &Path) -> PathBuf {
    scratch.with_file_name(IMAGE)
}

/// The job of the worker in one run, with the values of all placeholders.
pub fn command_job(command: &Command, values: &Values, scratch: &Path) -> Result<CommandJob> {
    let lines = |lines: &[CommandLine]| -> Result<Vec<Vec<String>>> {
        lines.iter().map(|line| words(line, command.shell, values)).collect()
    };
    let directory = match &command.directory {
        Some(text) => scratch.join(fill(text, values)?),
        None => scratch.to_path_buf(),
    };
    let extract = |extract: &Extract| -> Result<Extract> {
        let from = match &extract.from {
            OutputSource::File(path) => {
                let path = directory.join(fill(path, values)?);
                OutputSource::File(path.to_string_lossy().into_owned())
            }
            from => from.clone(),
        };
        Ok(Extract { from, ..extract.clone() })
    };
    let run_words = words(&command.run, command.shell, values)?;
    let environment = command.environment.iter();
    let environment = environment.map(|(name, word)| Ok((name.clone(), fill(&word.0, values)?)));
    let operations = command.operations.as_ref().map(|text| -> Result<OperationCount> {
        let text = fill(&text.0, values)?;
        if ProgramProbe::is_meant(&text) {
            return passes(ProgramProbe::parse(&text)?, &run_words[0]);
        }
        Ok(match text.parse() {
            Ok(n) => OperationCount::Number(n),
            Err(_) => OperationCount::Metric(text),
        })
    });
    Ok(CommandJob {
        operations: operations.transpose()?,
        run: run_words.clone(),
        prepare: lines(&command.prepare)?,
        cleanup: lines(&command.cleanup)?,
        environment: environment.collect::<Result<_>>()?,
        success: command.success.clone(),
        timeout_s: command.timeout_s,
        metrics: command.metrics.iter().map(extract).collect::<Result<_>>()?,
        directory,
    })
}

/// Counts passes of a probe, in the program that is run unless the probe names another.
fn passes(probe: ProgramProbe, program: &str) -> Result<OperationCount> {
    let program = probe.program.as_deref().unwrap_or(program);
    let file = file_of(program)
        .with_context(|| format!("counting operations by {probe}: no file {program} is found"))?;
    Ok(OperationCount::Passes { file, probe: Box::new(probe) })
}

/// The file of a program, without links.
fn file_of(program: &str) -> Option<PathBuf> {
    find_program(program)?.canonicalize().ok()
}

/// A program by its path or by PATH, as execvp(3) finds it.
pub fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program).ok().filter(|file| file.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The values of all placeholders in a run.
pub fn values(point: &Point, scratch: &Path, run: RunId) -> Values {
    let cpus: Vec<String> = point.cpu_list.iter().map(u32::to_string).collect();
    let always = [
        ("cpus", point.cpus.to_string()),
        ("tasks", point.tasks.to_string()),
        ("cpu_list", cpus.join(",")),
        ("dir", point.dir.display().to_string()),
        ("scratch", scratch.display().to_string()),
        ("block", run.block.to_string()),
        ("run", run.run.to_string()),
        (IMAGE, copy_of_image(scratch).display().to_string()),
        // Many programs read a seed into a signed number of 32 bits.
        ("seed", (run.seed.wrapping_add(run.block as u64) % (1 << 31)).to_string()),
    ];
    let always = always.into_iter().map(|(name, value)| (name.to_string(), value));
    always.chain(point.parameters.clone()).collect()
}
