//! What counts the operations of running programs: places that they pass, found in the files that they run, and counters
//! in files and in what commands print.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use host::children::{Streams, output_within};
use host::clock::now_ns;
use host::{Limit, given_file, parse_cpu_list};
use perf_data::{ProbeSite, probe_sites};
use records::{ProgramProbe, counter_in};

use crate::ledger::programs::root_of;
use crate::passes::Passes;

/// A file that processes run, with the places to count passes at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedFile {
    pub path: PathBuf,
    pub sites: Vec<ProbeSite>,
}

/// Where the processes pass a probe: in their programs, or else in libraries that they have loaded.
///
/// # Errors
/// None of their files has it.
pub fn passed_files(processes: &[u32], probe: &ProgramProbe) -> Result<Vec<PassedFile>, String> {
    let is_meant = |path: &Path| match probe.program.as_deref() {
        None => true,
        Some(name) if name.contains('/') => path.ends_with(name.trim_start_matches(['.', '/'])),
        Some(name) => path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)),
    };
    let programs = files(processes, program_of).into_iter().filter(|path| is_meant(path));
    let with_sites = |path: PathBuf| {
        let sites = probe_sites(&path, &probe.place).ok()?;
        Some(PassedFile { path, sites })
    };
    let mut found: Vec<PassedFile> = programs.filter_map(with_sites).collect();
    if found.is_empty() {
        let libraries = files(processes, mapped_by).into_iter().filter(|path| is_meant(path));
        found = libraries.filter_map(with_sites).collect();
    }
    if found.is_empty() {
        return Err(format!(
            "no file that the processes run has {probe}: a stripped program has no names of functions, and readelf -n lists \
             static tracepoints"
        ));
    }
    Ok(found)
}

/// Files of all processes, each once.
fn files(processes: &[u32], of: impl Fn(u32) -> Vec<PathBuf>) -> BTreeSet<PathBuf> {
    processes.iter().flat_map(|process| of(*process)).collect()
}

fn program_of(process: u32) -> Vec<PathBuf> {
    let path = fs::read_link(format!("/proc/{process}/exe"));
    path.map(|path| in_root(process, &path.to_string_lossy())).into_iter().collect()
}

/// The files whose code a process has mapped.
fn mapped_by(process: u32) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let of_line = |line: &str| {
        let (head, path) = line.split_once('/')?;
        let is_code = head.split_whitespace().nth(1).is_some_and(|rights| rights.contains('x'));
        (is_code && !path.ends_with(" (deleted)")).then(|| in_root(process, &format!("/{path}")))
    };
    maps.lines().filter_map(of_line).collect()
}

fn in_root(process: u32, path: &str) -> PathBuf {
    PathBuf::from(format!("{}{path}", root_of(process)))
}

/// Counts the passes of all processes that run these files, where BPF does not watch.
///
/// # Errors
/// The kernel cannot put a probe there, or allows none.
pub fn count_passes(files: &[PassedFile], probe: &ProgramProbe) -> Result<Vec<Passes>, String> {
    const ONLINE: &str = "/sys/devices/system/cpu/online";
    let list = fs::read_to_string(ONLINE).map_err(|e| format!("reading {ONLINE}: {e}"))?;
    let cpus = parse_cpu_list(&list).ok_or_else(|| format!("{ONLINE} is no list of CPUs"))?;
    files.iter().map(|file| Passes::begin(&file.path, probe, &cpus)).collect()
}

/// A counter that someone else keeps.
#[derive(Clone, Debug)]
pub enum Counter {
    /// The number in a file, or behind a word of it.
    File { path: PathBuf, word: Option<String> },
    /// The first number that a command prints.
    Command { line: String, words: Vec<String> },
}

/// A counter's value at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub count: f64,
}

/// The longest time that a command may take: a look stands still meanwhile.
const COMMAND_MAX: Duration = Duration::from_secs(2);
/// Longer files are no counters.
const FILE_MAX: Limit = Limit { bytes: 1 << 20, what: "a file with a counter" };

impl Counter {
    /// Reads the counter now.
    ///
    /// # Errors
    /// There is no number, or the command fails.
    pub fn read(&self) -> Result<Reading, String> {
        let before = now_ns();
        let (text, word) = match self {
            Counter::File { path, word } => {
                let text = given_file::read(path, FILE_MAX).map_err(|why| format!("{why:#}"))?;
                (text, word.as_deref())
            }
            Counter::Command { line, words } => (printed(line, words)?, None),
        };
        let at_ns = before + (now_ns() - before) / 2;
        let text = String::from_utf8_lossy(&text);
        let count = counter_in(&text, word).ok_or_else(|| self.without_number(word))?;
        Ok(Reading { at_ns, count })
    }

    fn without_number(&self, word: Option<&str>) -> String {
        match (self, word) {
            (Counter::File { path, .. }, Some(word)) => {
                format!("{} has no number behind the word {word}", path.display())
            }
            (Counter::File { path, .. }, None) => format!("{} has no number in it", path.display()),
            (Counter::Command { line, .. }, _) => format!("`{line}` prints no number"),
        }
    }
}

fn printed(line: &str, words: &[String]) -> Result<Vec<u8>, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("the command has no words".to_string());
    };
    let mut command = Command::new(program);
    let output = output_within(command.args(arguments), Streams::Apart, COMMAND_MAX);
    let output = output.map_err(|why| format!("`{line}`: {why:#}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
        return Err(format!("`{line}` ends with {}{said}", output.status));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_from_a_file_and_from_what_a_command_prints() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "hits 12\nmisses 3\n").unwrap();
        let check = |counter: Counter, expected: Result<f64, &str>| match (counter.read(), expected)
        {
            (Ok(reading), Ok(expected)) => assert_eq!(reading.count, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (read, _) => panic!("{counter:?}: {read:?}"),
        };
        let of = |word: Option<&str>| Counter::File {
            path: file.path().to_path_buf(),
            word: word.map(str::to_string),
        };
        check(of(None), Ok(12.0));
        check(of(Some("misses")), Ok(3.0));
        check(of(Some("errors")), Err("no number behind the word errors"));
        let missing = Counter::File { path: PathBuf::from("/no/such/file"), word: None };
        check(missing, Err("/no/such/file"));
        let command = |words: &[&str]| Counter::Command {
            line: words.join(" "),
            words: words.iter().map(|word| word.to_string()).collect(),
        };
        check(command(&["echo", "served", "77"]), Ok(77.0));
        check(command(&["true"]), Err("`true` prints no number"));
        check(command(&["false"]), Err("`false` ends with"));
        check(command(&["no-such-program"]), Err("no-such-program"));
    }

    #[test]
    fn a_place_that_no_file_has_is_refused() {
        let probe = ProgramProbe::parse("uprobe:no_such_function_anywhere").unwrap();
        let why = passed_files(&[std::process::id()], &probe).unwrap_err();
        assert!(why.contains("no file that the processes run has uprobe:no_such"), "{why}");
    }
}
