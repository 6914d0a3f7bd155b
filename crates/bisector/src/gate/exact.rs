//! Cases by counts: the instructions and system calls of a run under emulation, which are the same on every host, however busy.
//! They say nothing about time.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
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
const FIXED: [(&str, &str); 6] = [
    ("LC_ALL", "C"),
    // A case by itself binds other functions than a start alone.
    ("LD_BIND_NOW", "1"),
    ("PYTHONHASHSEED", "0"),
    ("GOGC", "off"),
    ("GOMAXPROCS", "1"),
    ("GODEBUG", "asyncpreemptoff=1"),
];

/// A change is told from this multiple of what one side differs by from run to run.
const SPREADS: f64 = 4.0;

/// Runs of a case.
pub(super) const RUNS: usize = 2 * TIMES;

/// A change of fewer of all instructions, those of the start too, is none: where things lie changes as many.
const LEAST_OF_ALL: f64 = 1e-4;

/// What stands for `{times}` at first, and at most.
const TIMES_LEAST: u64 = 10;
const TIMES_MOST: u64 = 1000;

/// So many instructions of a case, if it may run so often, hide what a start varies by.
const ENOUGH: u64 = 200_000_000;

/// System calls by which a case changes whose instructions do not repeat to the last one; or a hundredth, if that is more.
const CALLS_LEAST: u64 = 20;

/// Functions and system calls that are named for a case.
const NAMED_MAX: usize = 3;

/// The counts of one case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedCase {
    /// Its name; empty if the command is the only one.
    pub case: String,
    /// The verdict.
    pub is: CountVerdict,
    /// User instructions of a run, of base and head, without those of a start that runs no case where the harness has one.
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

/// The lines to count.
pub(super) struct Counting<'a> {
    pub request: &'a Request,
    /// The line that starts the program, and runs no case.
    pub started: Option<&'a str>,
    /// Base and head.
    pub subjects: &'a [Subject],
}

impl Counting<'_> {
    /// Counts all cases. `None` if a signal asked knee to end.
    pub(super) fn count_cases(
        &self,
        cases: &[String],
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Vec<CountedCase>>> {
        let only = [String::new()];
        let cases = if cases.is_empty() { &only[..] } else { cases };
        tell(&format!(
            "counting {} of base and head under emulation",
            host::counted(cases.len(), "case")
        ));
        let command = &self.request.command;
        let started = match self.started {
            Some(line) => in_parallel(RUNS, |run| self.once(line, run % 2, "", 1)),
            None => Vec::new(),
        };
        // What does not start says so in its cases.
        let started: Vec<CountedProgram> =
            started.into_iter().collect::<Result<_, _>>().unwrap_or_default();
        let start = started.iter().map(CountedProgram::instructions).min().unwrap_or(0);
        let takes_times = command.contains("{times}");
        let times: Vec<u64> = in_parallel(if takes_times { cases.len() } else { 0 }, |case| {
            let tried = self.once(command, 0, &cases[case], TIMES_LEAST);
            tried.map_or(TIMES_LEAST, |tried| times(tried.instructions().saturating_sub(start)))
        });
        let counted = in_parallel(cases.len() * RUNS, |run| {
            let times = times.get(run / RUNS).copied().unwrap_or(1);
            self.once(command, run % 2, &cases[run / RUNS], times)
        });
        if signals::received().is_some() {
            return Ok(None);
        }
        let mut counted = counted.into_iter();
        let judged = cases.iter().map(|case| {
            let runs: Result<Vec<CountedProgram>, String> = counted.by_ref().take(RUNS).collect();
            match runs {
                Ok(runs) => judged(case, &runs, &started, self.request.smallest_effect),
                Err(why) => failed(case, why),
            }
        });
        Ok(Some(judged.collect()))
    }

    /// Counts a line of one side.
    fn once(
        &self,
        line: &str,
        side: usize,
        case: &str,
        times: u64,
    ) -> Result<CountedProgram, String> {
        if signals::received().is_some() {
            return Err("interrupted".to_string());
        }
        let side = &self.subjects[side];
        let counted = counted_once(self.request, line, side, case, times);
        counted.map_err(|why| format!("{}: {why:#}", side.name))
    }
}

/// How often a case runs that takes so many instructions for the least number of times.
fn times(instructions: u64) -> u64 {
    (ENOUGH / (instructions / TIMES_LEAST).max(1)).clamp(TIMES_LEAST, TIMES_MOST)
}

/// A run of a case of one side.
fn counted_once(
    request: &Request,
    line: &str,
    side: &Subject,
    case: &str,
    times: u64,
) -> Result<CountedProgram> {
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
        value("times", times.to_string()),
    ]
    .into();
    let line = CommandLine::Text(line.to_string());
    let words = commands::words(&line, request.shell, &values)?;
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH", "JAVA_HOME", "PYTHONPATH"];
    let kept = kept.iter().filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)));
    let environment: Vec<(String, String)> =
        kept.chain(FIXED.map(|(name, text)| value(name, text.to_string()))).collect();
    let limit = Duration::from_secs_f64(request.timeout_s);
    let counted = count(&words, &side.folder, &environment, limit)?;
    let said = String::from_utf8_lossy(&counted.output);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let hint = match counted.status.signal() {
        Some(libc::SIGILL) => {
            ": QEMU lacks an instruction of it, so build it for any CPU, not for this one"
        }
        _ => "",
    };
    anyhow::ensure!(
        counted.status.success(),
        "it ended with {}{hint}: {last:.160}",
        counted.status
    );
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

/// Instructions of runs of one side: the least, and how far they differ.
fn least_and_apart(runs: &[CountedProgram], side: usize) -> (f64, f64) {
    let counts = runs.iter().skip(side).step_by(2).map(|run| run.instructions());
    let least = counts.clone().min().unwrap_or(0);
    (least as f64, (counts.max().unwrap_or(0) - least) as f64)
}

/// The verdict about runs of base and head in turn, and of starts without a case.
fn judged(
    case: &str,
    runs: &[CountedProgram],
    started: &[CountedProgram],
    smallest: f64,
) -> CountedCase {
    let side = |side: usize| runs.iter().skip(side).step_by(2);
    let of = |one: usize| {
        let (all, apart) = least_and_apart(runs, one);
        let (start, start_apart) = least_and_apart(started, one);
        let own = (all - start).max(1.0);
        (all, own, (apart + start_apart) / own)
    };
    let ((all, base, base_apart), (_, head, head_apart)) = (of(0), of(1));
    let change = head / base - 1.0;
    let spread = base_apart.max(head_apart);
    let threshold = smallest.max(SPREADS * spread).max(LEAST_OF_ALL * all / base);
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
    let mut system_calls = changes(&calls(first), &calls(second));
    // What does not repeat calls for its own reasons, now and then as often twice.
    system_calls.retain(|change| {
        spread == 0.0 || change.base.abs_diff(change.head) >= CALLS_LEAST.max(change.base / 100)
    });
    let functions = has_moved.then(|| changes(&by_function(first), &by_function(second)));
    CountedCase {
        instructions: Some([base as u64, head as u64]),
        change: Some(change),
        spread,
        functions: functions.unwrap_or_default(),
        system_calls,
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
            assert_eq!(judged("a", &runs, &[], 0.005).is, expected, "{counts:?}");
        };
        check([1000, 1010, 1000, 1010], CountVerdict::More);
        check([1000, 990, 1000, 990], CountVerdict::Less);
        check([1000, 1004, 1000, 1004], CountVerdict::Same);
        check([1000, 1010, 1004, 1010], CountVerdict::Same);
        check([1000, 1010, 1020, 1010], CountVerdict::Unsteady);
        check([1000, 1200, 1020, 1200], CountVerdict::More);
    }

    #[test]
    fn what_a_start_takes_is_no_part_of_a_case() {
        let check = |counts: [u64; 4], starts: [u64; 4], expected: CountVerdict| {
            let (runs, starts) = (counts.map(|n| run(n, 1)), starts.map(|n| run(n, 1)));
            assert_eq!(judged("a", &runs, &starts, 0.005).is, expected, "{counts:?} {starts:?}");
        };
        let same = [1_000_000; 4];
        check([1_050_000, 1_052_500, 1_050_000, 1_052_500], same, CountVerdict::More);
        check([1_050_000, 1_050_100, 1_050_000, 1_050_100], same, CountVerdict::Same);
        // The start is what changed.
        let longer = [1_000_000, 1_020_000, 1_000_000, 1_020_000];
        check([1_050_000, 1_070_000, 1_050_000, 1_070_000], longer, CountVerdict::Same);
        // Or it does not repeat.
        let unsteady = [1_000_000, 1_000_000, 1_001_000, 1_000_000];
        check([1_050_000, 1_052_500, 1_050_000, 1_052_500], unsteady, CountVerdict::Unsteady);
        check([1_000_200, 1_000_260, 1_000_200, 1_000_260], same, CountVerdict::Same);
    }

    #[test]
    fn short_cases_run_often_and_long_ones_seldom() {
        assert_eq!([0, 400_000, 40_000_000, 4_000_000_000].map(times), [1000, 1000, 50, 10]);
    }

    #[test]
    fn system_calls_are_named_where_their_numbers_differ() {
        let of_calls = |calls: [u64; 4]| judged("a", &calls.map(|n| run(1000, n)), &[], 0.005);
        let counted = of_calls([3, 5, 3, 5]);
        let change = CountedChange { name: "getppid".to_string(), base: 3, head: 5 };
        assert_eq!((counted.is, counted.system_calls), (CountVerdict::Same, vec![change]));
        // One side does not repeat.
        let counted = of_calls([3, 5, 4, 5]);
        assert_eq!(counted.system_calls, []);
    }
}
