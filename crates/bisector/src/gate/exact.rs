//! Cases by counts: the instructions and system calls of a run under emulation, which are the same on every host, however busy.
//! They say nothing about time.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use conflicts::by_function;
use guests::counted::{CountedProgram, count};
use host::{in_parallel, signals};
use plan::commands;
use records::CommandLine;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Request;
use crate::measurement::{CASE, Subject};

/// How often each side is counted, to see whether it repeats.
const TIMES: usize = 2;

/// What makes programs execute the same in each run. Go collects garbage and preempts by the clock.
const FIXED: [(&str, &str); 5] = [
    ("LC_ALL", "C"),
    ("PYTHONHASHSEED", "0"),
    ("GOGC", "off"),
    ("GOMAXPROCS", "1"),
    ("GODEBUG", "asyncpreemptoff=1"),
];

/// A change is told from this multiple of what one side differs by from run to run.
const SPREADS: f64 = 4.0;

/// Runs of a case.
pub(super) const RUNS: usize = 2 * TIMES;

/// Functions and system calls that are named for a case.
const NAMED_MAX: usize = 3;

/// The counts of one case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedCase {
    /// Its name; empty if the command is the only one.
    pub case: String,
    /// The verdict.
    pub is: CountVerdict,
    /// User instructions of a run, of base and head.
    pub instructions: Option<[u64; 2]>,
    /// Change of the instructions, as a share.
    pub change: Option<f64>,
    /// How far runs of one side differ, as a share: 0 where counts repeat to the last one.
    pub spread: f64,
    /// Functions whose instructions changed most: FUNCTION@FILE.
    pub functions: Vec<CountedChange>,
    /// System calls whose numbers changed most.
    pub system_calls: Vec<CountedChange>,
    /// What limits the verdict, or why there is none.
    pub why: String,
}

/// The verdict about the counts of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountVerdict {
    /// More instructions.
    More,
    /// Fewer instructions.
    Less,
    /// Less than the smallest effect more or fewer.
    Same,
    /// Runs of one side differ more than the sides.
    Unsteady,
    /// A side failed, or could not be counted.
    Failed,
}

/// A count of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedChange {
    /// Name of the function or system call.
    pub name: String,
    /// In a run of the base.
    pub base: u64,
    /// In a run of the head.
    pub head: u64,
}

/// Counts all cases. `None` if a signal asked knee to end.
pub(super) fn count_cases(
    request: &Request,
    subjects: &[Subject],
    cases: &[String],
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Vec<CountedCase>>> {
    let only = [String::new()];
    let cases = if cases.is_empty() { &only[..] } else { cases };
    tell(&format!(
        "counting {} of base and head under emulation",
        host::counted(cases.len(), "case")
    ));
    let runs = cases.len() * RUNS;
    let counted = in_parallel(runs, |run| {
        let (case, side) = (&cases[run / RUNS], &subjects[run % 2]);
        if signals::received().is_some() {
            return Err("interrupted".to_string());
        }
        counted_once(request, side, case).map_err(|why| format!("{}: {why:#}", side.name))
    });
    if signals::received().is_some() {
        return Ok(None);
    }
    let mut counted = counted.into_iter();
    let judged = cases.iter().map(|case| {
        let runs: Result<Vec<CountedProgram>, String> = counted.by_ref().take(RUNS).collect();
        match runs {
            Ok(runs) => judged(case, &runs, request.smallest_effect),
            Err(why) => failed(case, why),
        }
    });
    Ok(Some(judged.collect()))
}

/// A run of a case of one side.
fn counted_once(request: &Request, side: &Subject, case: &str) -> Result<CountedProgram> {
    let scratch = tempfile::tempdir().context("making a scratch directory")?;
    let value = |name: &str, value: String| (name.to_string(), value);
    let folder = side.folder.display().to_string();
    let values: commands::Values = [
        value(CASE, case.to_string()),
        value("program", side.program.clone().unwrap_or_default()),
        value("tree", folder.clone()),
        value("dir", folder),
        value("scratch", scratch.path().display().to_string()),
        value("cpus", "1".to_string()),
        value("tasks", "1".to_string()),
        value("cpu_list", "0".to_string()),
        value("seed", "1".to_string()),
        value("block", "0".to_string()),
        value("run", "0".to_string()),
    ]
    .into();
    let line = CommandLine::Text(request.command.clone());
    let words = commands::words(&line, request.shell, &values)?;
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH", "JAVA_HOME", "PYTHONPATH"];
    let kept = kept.iter().filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)));
    let environment: Vec<(String, String)> =
        kept.chain(FIXED.map(|(name, text)| value(name, text.to_string()))).collect();
    let limit = Duration::from_secs_f64(request.timeout_s);
    let counted = count(&words, &side.folder, &environment, limit)?;
    let said = String::from_utf8_lossy(&counted.output);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    anyhow::ensure!(counted.status.success(), "it ended with {}: {last:.160}", counted.status);
    Ok(counted)
}

fn failed(case: &str, why: String) -> CountedCase {
    CountedCase {
        case: case.to_string(),
        is: CountVerdict::Failed,
        instructions: None,
        change: None,
        spread: 0.0,
        functions: Vec::new(),
        system_calls: Vec::new(),
        why,
    }
}

/// The verdict about runs of base and head in turn.
fn judged(case: &str, runs: &[CountedProgram], smallest: f64) -> CountedCase {
    let side = |side: usize| runs.iter().skip(side).step_by(2);
    let of = |one: usize| -> Vec<f64> { side(one).map(|run| run.instructions() as f64).collect() };
    let [base, head] = [of(0), of(1)];
    let least = |side: &[f64]| side.iter().copied().fold(f64::INFINITY, f64::min);
    let apart = |side: &[f64]| {
        let most = side.iter().copied().fold(0.0, f64::max);
        (most - least(side)) / least(side).max(1.0)
    };
    let change = least(&head) / least(&base).max(1.0) - 1.0;
    let spread = apart(&base).max(apart(&head));
    let threshold = smallest.max(SPREADS * spread);
    let is = match change {
        _ if spread > smallest && change.abs() < threshold => CountVerdict::Unsteady,
        _ if change >= threshold => CountVerdict::More,
        _ if change <= -threshold => CountVerdict::Less,
        _ => CountVerdict::Same,
    };
    let (first, second) = (&runs[0], &runs[1]);
    // Only system calls of which every run of a side makes as many.
    let repeats = |number: &u64| {
        let counts = |one: usize| side(one).map(|run| run.system_calls.get(number));
        (0..2).all(|one| counts(one).all(|count| count == runs[one].system_calls.get(number)))
    };
    let calls = |run: &CountedProgram| -> BTreeMap<String, u64> {
        let steady = run.system_calls.iter().filter(|(number, _)| repeats(number));
        steady.map(|(number, n)| (probes::call_name(*number), *n)).collect()
    };
    let has_moved = matches!(is, CountVerdict::More | CountVerdict::Less);
    let functions = has_moved.then(|| changes(&by_function(first), &by_function(second)));
    CountedCase {
        instructions: Some([least(&base) as u64, least(&head) as u64]),
        change: Some(change),
        spread,
        functions: functions.unwrap_or_default(),
        system_calls: changes(&calls(first), &calls(second)),
        is,
        why: limits(runs),
        ..failed(case, String::new())
    }
}

/// What changed most between two counts by name.
fn changes(base: &BTreeMap<String, u64>, head: &BTreeMap<String, u64>) -> Vec<CountedChange> {
    let names = base.keys().chain(head.keys().filter(|name| !base.contains_key(*name)));
    let change = |name: &String| {
        let count = |side: &BTreeMap<String, u64>| side.get(name).copied().unwrap_or(0);
        CountedChange { name: name.clone(), base: count(base), head: count(head) }
    };
    let mut changes: Vec<CountedChange> =
        names.map(change).filter(|change| change.base != change.head).collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.base.abs_diff(change.head)));
    changes.truncate(NAMED_MAX);
    changes
}

/// What was not counted.
fn limits(runs: &[CountedProgram]) -> String {
    let lost = runs.iter().any(|run| run.lost > 0);
    let uncounted = runs.iter().flat_map(|run| &run.uncounted_paths).next();
    let mut limits = Vec::new();
    limits.extend(lost.then(|| "more code than there is room for was executed".to_string()));
    limits.extend(uncounted.map(|path| format!("{path}, which it starts, is not counted")));
    limits.join("; ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use guests::counted::CountedBlock;

    use super::*;

    fn run(instructions: u64, getppid: u64) -> CountedProgram {
        CountedProgram {
            objects: vec![String::new()],
            blocks: vec![CountedBlock { object: 0, offset: 0, instructions, executions: 1 }],
            system_calls: BTreeMap::from([(libc::SYS_getppid as u64, getppid)]),
            status: ExitStatus::from_raw(0),
            output: Vec::new(),
            lost: 0,
            uncounted: 0,
            uncounted_paths: Vec::new(),
        }
    }

    #[test]
    fn counts_that_repeat_tell_small_changes_and_others_do_not() {
        let check = |counts: [u64; 4], expected: CountVerdict| {
            let runs = counts.map(|count| run(count, 1));
            assert_eq!(judged("a", &runs, 0.005).is, expected, "{counts:?}");
        };
        check([1000, 1010, 1000, 1010], CountVerdict::More);
        check([1000, 990, 1000, 990], CountVerdict::Less);
        check([1000, 1004, 1000, 1004], CountVerdict::Same);
        check([1000, 1010, 1004, 1010], CountVerdict::Same);
        check([1000, 1010, 1020, 1010], CountVerdict::Unsteady);
        check([1000, 1200, 1020, 1200], CountVerdict::More);
    }

    #[test]
    fn system_calls_are_named_where_their_numbers_differ() {
        let counted = judged("a", &[run(1000, 3), run(1000, 5), run(1000, 3), run(1000, 5)], 0.005);
        let change = CountedChange { name: "getppid".to_string(), base: 3, head: 5 };
        assert_eq!((counted.is, counted.system_calls), (CountVerdict::Same, vec![change]));
        // One side does not repeat.
        let counted = judged("a", &[run(1000, 3), run(1000, 5), run(1000, 4), run(1000, 5)], 0.005);
        assert_eq!(counted.system_calls, []);
    }
}
