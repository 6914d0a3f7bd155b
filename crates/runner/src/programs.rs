//! The programs that commands start: found before anything is measured, so that a missing one
//! is said at once, and described in the record by hash and version.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::durable::Seal;
use host::stderr::talk;
use host::{memfd, nearest};
use plan::commands::{RunId, command_job, split, values, words};
use records::{Command, CommandJob, Program, Record, Variant};

/// Stands for the scratch directory, which is not there yet: what lies in it is made later.
const LATER: &str = "/.knee-not-yet";

/// How long a program may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// The programs of all points, each found where it will be started from. Refuses one that is
/// not there, and lines whose placeholders cannot be filled.
pub fn find(record: &Record) -> Result<BTreeMap<String, Program>> {
    let mut found = BTreeMap::new();
    for point in &record.points {
        let Some(command) = record.command(point)? else { continue };
        let job = command_job(command, point, Path::new(LATER), RunId::default())
            .with_context(|| format!("in the command {}", command.name))?;
        let variant = record.variant(point);
        // What starts the worker may put it where other programs are.
        if variant.is_some_and(|variant| !variant.under.is_empty()) {
            continue;
        }
        let package = command.package.iter().map(|name| format!(" (it comes with {name})"));
        let cannot = format!(
            "the command {} cannot be started{}",
            command.name,
            package.collect::<String>()
        );
        for line in &job.prepare {
            look(&line[0], &job, variant).context(cannot.clone())?;
        }
        let program = program(command, &job)?;
        if let Some(path) = look(&program, &job, variant).context(cannot)? {
            found.insert(path.to_string_lossy().into_owned(), Program::default());
        }
    }
    Ok(found)
}

/// The word that starts what is measured. What a shell starts cannot be known, but it is the
/// program that is asked for its version.
fn program(command: &Command, job: &CommandJob) -> Result<String> {
    let asked = command.version.as_ref().filter(|_| command.shell);
    let first = asked.map(split).transpose()?.and_then(|words| words.into_iter().next());
    Ok(first.unwrap_or_else(|| job.run[0].clone()))
}

/// Where a program is, as execvp(3) would find it; nothing if that cannot be known yet.
fn look(program: &str, job: &CommandJob, variant: Option<&Variant>) -> Result<Option<PathBuf>> {
    if program.contains('/') {
        let path = job.directory.join(program);
        if path.starts_with(LATER) {
            return Ok(None);
        }
        let metadata =
            fs::metadata(&path).with_context(|| format!("looking for {}", path.display()))?;
        if !is_program(&metadata) {
            bail!("{} is no program: make it executable (chmod +x)", path.display());
        }
        return Ok(Some(path.canonicalize().unwrap_or(path)));
    }
    let own = || std::env::var("PATH").unwrap_or_default();
    let of_variant = variant.and_then(|variant| variant.environment.get("PATH"));
    let path = job.environment.get("PATH").or(of_variant.map(|word| &word.0));
    let path = path.cloned().unwrap_or_else(own);
    let folders: Vec<&Path> =
        path.split(':').filter(|f| f.starts_with('/')).map(Path::new).collect();
    let here = |folder: &&Path| fs::metadata(folder.join(program)).is_ok_and(|m| is_program(&m));
    match folders.iter().find(|folder| here(folder)) {
        Some(folder) => Ok(Some(folder.join(program))),
        None => {
            let names: Vec<String> = folders.iter().flat_map(|folder| names(folder)).collect();
            let hint = nearest(program, names.iter().map(String::as_str));
            bail!("no program '{program}' is in PATH ({path}){hint}: install it, or give its path")
        }
    }
}

fn is_program(metadata: &fs::Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Puts hashes and versions of the programs into a record.
pub fn identify(record: &mut Record) -> Result<()> {
    for (path, program) in &mut record.programs {
        program.file = Seal::for_file(Path::new(path)).ok();
    }
    for index in 0..record.points.len() {
        let point = &record.points[index];
        let Some(command) = record.command(point)? else { continue };
        let Some(line) = &command.version else { continue };
        let job = command_job(command, point, Path::new(LATER), RunId::default())?;
        let values = values(point, Path::new(LATER), RunId::default());
        let (words, of) = (words(line, command.shell, &values)?, record.variant(point));
        let Some(path) = look(&program(command, &job)?, &job, of).ok().flatten() else {
            continue;
        };
        let path = path.to_string_lossy().into_owned();
        let missing = record.programs.get(&path).is_some_and(|known| known.version.is_none());
        if !missing || words.iter().any(|word| word.contains(LATER)) {
            continue;
        }
        let said = first_line(&words, command, of);
        match said {
            Ok(line) => record.programs.entry(path).or_default().version = Some(line),
            Err(why) => talk(format_args!("the version of {} is not known: {why:#}", command.name)),
        }
    }
    Ok(())
}

/// The first line with words that a program prints.
fn first_line(words: &[String], command: &Command, variant: Option<&Variant>) -> Result<String> {
    let mut output = memfd::create(c"version")?;
    let mut program = std::process::Command::new(&words[0]);
    program.args(&words[1..]).process_group(0).stdin(Stdio::null());
    program.stdout(output.try_clone()?).stderr(output.try_clone()?);
    program.envs(variant.iter().flat_map(|v| &v.environment).map(|(name, word)| (name, &word.0)));
    program.envs(command.environment.iter().map(|(name, word)| (name, &word.0)));
    let mut child = program.spawn().with_context(|| format!("starting {}", words.join(" ")))?;
    let since = Instant::now();
    while child.try_wait()?.is_none() && since.elapsed() < VERSION_PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    if child.try_wait()?.is_none() {
        // SAFETY: a plain call; the group is of a child that has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        child.wait()?;
        bail!("{} did not end within {} s", words.join(" "), VERSION_PATIENCE.as_secs());
    }
    let mut text = Vec::new();
    output.rewind()?;
    output.take(1 << 16).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.with_context(|| format!("{} printed nothing", words.join(" ")))?;
    Ok(line.chars().filter(|c| !c.is_control()).take(200).collect())
}
