//! The programs that commands start: searched before anything is measured, so that knee refuses a
//! missing one early, and described in the record by hash and version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::children::{self, Streams};
use host::durable::Seal;
use host::executables::{in_path, is_executable, own_path};
use host::nearest;
use host::terminal::talk;
use plan::commands::{RunId, client_on, command_job, split, values, words};
use records::{
    Command, CommandJob, Point, Program, Record, ServerJob, ServerProgram, StartedServer,
    Surroundings, Variant,
};

/// Stands for the scratch directory, which does not exist yet.
const FUTURE_SCRATCH: &str = "/.knee-not-yet";

/// How long a program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Finds the programs of all points where they will be started from. Refuses a missing program, and
/// lines whose placeholders cannot be filled.
pub fn find(record: &Record) -> Result<BTreeMap<String, Program>> {
    let mut programs = BTreeMap::new();
    for point in &record.points {
        let Some(command) = record.command(point)? else { continue };
        let job = job_before_runs(record, point, command)?;
        let variant = record.variant(point);
        // What starts the worker may give it another root or PATH.
        if variant.is_some_and(|variant| !variant.under.is_empty()) {
            continue;
        }
        let package = command.package.iter().map(|name| format!(" (it comes with {name})"));
        let cannot = format!(
            "the command {} cannot be started{}",
            command.name,
            package.collect::<String>()
        );
        let client = Surroundings::from(&job);
        // Those of a client on another host are looked for there.
        let is_here = client_on(point).is_none();
        for line in job.prepare.iter().filter(|_| is_here) {
            find_program(&line[0], client, variant).context(cannot.clone())?;
        }
        let mut measured = Vec::new();
        if is_here {
            measured.push((measured_program(command, &job)?, client));
        }
        if let Some(ServerJob::Start(server)) = &job.server {
            for (_, line) in server.programs() {
                find_program(&line[0], (&**server).into(), variant).context(cannot.clone())?;
            }
            measured.push((server.run[0].clone(), (&**server).into()));
        }
        for (program, surroundings) in measured {
            let path = find_program(&program, surroundings, variant).context(cannot.clone())?;
            if let Some(path) = path {
                programs.insert(path.to_string_lossy().into_owned(), Program::default());
            }
        }
    }
    for variant in &record.variants {
        let path = find_daemon(variant).with_context(|| {
            format!("the daemon of variant '{}' cannot be started", variant.name)
        })?;
        if let Some(path) = path {
            programs.insert(path.to_string_lossy().into_owned(), Program::default());
        }
    }
    Ok(programs)
}

/// The program of a variant's daemon, if it has one, once all that it starts is found. It has knee's own PATH, not the
/// variant's.
fn find_daemon(variant: &Variant) -> Result<Option<PathBuf>> {
    let Some(daemon) = daemon_before_runs(variant)? else { return Ok(None) };
    let mut path = None;
    for (program, line) in daemon.programs() {
        let found = find_program(&line[0], (&daemon).into(), None)?;
        if program == ServerProgram::Serves {
            ensure!(
                found.is_some(),
                "{} would be in its directory, which is empty when it starts: give its whole path",
                line[0]
            );
            path = found;
        }
    }
    Ok(path)
}

/// A variant's daemon as a worker starts it, as far as it is known before a run has its directory.
pub fn daemon_before_runs(variant: &Variant) -> Result<Option<StartedServer>> {
    let data = Path::new(FUTURE_SCRATCH).join("data");
    let daemon = variant.daemon.as_ref();
    daemon
        .map(|daemon| daemon.started(data, Vec::new()))
        .transpose()
        .with_context(|| format!("in the daemon of variant '{}'", variant.name))
}

/// The job of a point's command, as far as it is known before a run has its directory.
pub fn job_before_runs(record: &Record, point: &Point, command: &Command) -> Result<CommandJob> {
    let scratch = Path::new(FUTURE_SCRATCH);
    let values = values(point, &record.topology, scratch, RunId::default());
    command_job(command, &values, scratch)
        .with_context(|| format!("in the command {}", command.name))
}

/// The program that is measured. What a shell starts is unknown; there it is the program that prints
/// the version.
fn measured_program(command: &Command, job: &CommandJob) -> Result<String> {
    let version = command.version.as_ref().filter(|_| command.shell);
    let first = version.map(split).transpose()?.and_then(|words| words.into_iter().next());
    Ok(first.unwrap_or_else(|| job.run[0].clone()))
}

/// The folders, separated by colons, in which programs are searched: PATH of the command, of the variant or of knee.
pub fn searched_path(surroundings: Surroundings, variant: Option<&Variant>) -> String {
    let variants = variant.and_then(|variant| variant.environment.get("PATH"));
    let path = surroundings.environment.get("PATH").or(variants.map(|word| &word.0));
    path.cloned().unwrap_or_else(own_path)
}

/// The path of a program, as execvp(3) would find it; `None` if it may appear later.
pub fn find_program(
    program: &str,
    surroundings: Surroundings,
    variant: Option<&Variant>,
) -> Result<Option<PathBuf>> {
    if program.contains('/') {
        let path = surroundings.directory.join(program);
        if path.starts_with(FUTURE_SCRATCH) {
            return Ok(None);
        }
        fs::metadata(&path).with_context(|| format!("looking for {}", path.display()))?;
        if !is_executable(&path) {
            bail!("{} is not an executable file: make it one (chmod +x)", path.display());
        }
        return Ok(Some(path.canonicalize().unwrap_or(path)));
    }
    let path = searched_path(surroundings, variant);
    if let Some(file) = in_path(program, &path) {
        return Ok(Some(file));
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let names: Vec<String> = folders.flat_map(|folder| names(Path::new(folder))).collect();
    let hint = nearest(program, names.iter().map(String::as_str));
    bail!("no program '{program}' is in PATH ({path}){hint}: install it, or give its path")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Adds the hashes and versions of the programs to a record.
pub fn identify(record: &mut Record) -> Result<()> {
    for (path, program) in &mut record.programs {
        program.file = Seal::for_file(Path::new(path)).ok();
    }
    for index in 0..record.points.len() {
        let point = &record.points[index];
        let Some(command) = record.command(point)? else { continue };
        let Some(line) = &command.version else { continue };
        let job = job_before_runs(record, point, command)?;
        let values = values(point, &record.topology, Path::new(FUTURE_SCRATCH), RunId::default());
        let (words, variant) = (words(line, command.shell, &values)?, record.variant(point));
        let program = measured_program(command, &job)?;
        let client = Surroundings::from(&job);
        let mut path = find_program(&program, client, variant).ok().flatten();
        if let Some(ServerJob::Start(server)) = &job.server {
            // The version of what serves is the one that a reader asks for.
            let served = find_program(&server.run[0], (&**server).into(), variant);
            path = served.ok().flatten().or(path);
        }
        let Some(path) = path else { continue };
        let path = path.to_string_lossy().into_owned();
        let missing = record.programs.get(&path).is_some_and(|known| known.version.is_none());
        if !missing || words.iter().any(|word| word.contains(FUTURE_SCRATCH)) {
            continue;
        }
        match first_line(&words, command, variant) {
            Ok(line) => record.programs.entry(path).or_default().version = Some(line),
            Err(why) => talk(format_args!("the version of {} is unknown: {why:#}", command.name)),
        }
    }
    Ok(())
}

/// The first line that is not empty of what a program prints.
fn first_line(words: &[String], command: &Command, variant: Option<&Variant>) -> Result<String> {
    let mut program = std::process::Command::new(&words[0]);
    program.args(&words[1..]);
    program.envs(variant.iter().flat_map(|v| &v.environment).map(|(name, word)| (name, &word.0)));
    program.envs(command.environment.iter().map(|(name, word)| (name, &word.0)));
    let output = children::output_within(&mut program, Streams::Together, VERSION_TIMEOUT)
        .with_context(|| format!("running {}", words.join(" ")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.with_context(|| format!("{} printed nothing", words.join(" ")))?;
    Ok(line.chars().filter(|c| !c.is_control()).take(200).collect())
}

#[cfg(test)]
mod tests {
    use records::Experiment;

    use super::*;

    fn check(daemon: &str, expected: &str) {
        let text = format!(
            "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'b'\n[variant.daemon]\n{daemon}\n"
        );
        let experiment = Experiment::read(&text).unwrap();
        let shown = match find_daemon(&experiment.variants[0]) {
            Ok(path) => format!("{path:?}"),
            Err(why) => format!("{why:#}"),
        };
        assert!(shown.starts_with(expected), "{daemon}: {shown}");
    }

    #[test]
    fn every_program_of_a_daemon_is_looked_for_before_runs() {
        let path = "environment = { PATH = '/bin' }";
        let sh = "Some(\"/bin/sh\")";
        check(&format!("run = 'sh -c x'\n{path}"), sh);
        check(&format!("run = 'sh'\nstop = ['SIGINT']\n{path}"), sh);
        check(&format!("run = 'sh'\nready = {{ command = './made-by-it' }}\n{path}"), sh);
        let missing = "no program 'nowhere' is in PATH (/bin)";
        check(&format!("run = 'nowhere'\n{path}"), missing);
        check(&format!("run = 'sh'\nready = {{ command = 'nowhere up' }}\n{path}"), missing);
        check(&format!("run = 'sh'\nstop = 'nowhere end'\n{path}"), missing);
        check("run = './sh'", "./sh would be in its directory, which is empty");
    }
}
