//! Pairs of programs drawn from a seed. The seed draws the language, what an
//! operation consists of, how many tasks do it, the one thing that differs, its size and its place. The
//! other actions of both programs are the same, in another order.
//!
//! A battery of pairs that were written by hand is one that rules can be tuned on. So score seeds that
//! nobody has looked at: `bench --only planted --drawn 200 --drawn-equal 40 --seed N`.

mod program;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use super::pair::{How, Pair, Size, Truth};
use crate::{fresh_directory, output};
use program::{Action, Language, Program};

/// How long a run should take, in seconds, by the rough costs of its actions.
const RUN_S: f64 = 0.4;

/// Draws `unequal` pairs with a cause and `equal` pairs without, and builds their programs in `folder`.
pub fn pairs(seed: u64, unequal: usize, equal: usize, folder: &Path) -> Result<Vec<Pair>> {
    let pair = |number: usize| {
        // Each pair by itself, so that one can be drawn again without the others.
        let mut random = Random::seed_from_u64(seed ^ (number as u64).wrapping_mul(0x9E37_79B9));
        let (before, after, cause) = if number < unequal {
            changed_clearly(&mut random)
        } else {
            let program = draw(&mut random);
            (program.clone(), program, Cause::default())
        };
        let after = Program { actions: shuffled(&after.actions, &mut random), ..after };
        let home = folder.join(format!("drawn-{seed}-{number}"));
        fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
        let lines = built(&before, &after, &home)?;
        let what = if cause.what.is_empty() { "nothing" } else { &cause.what };
        let name = format!("{seed}/{number} {}: {what}", before.language.name());
        let size = cause.is_of_cpu_time.then_some(Size::CpuOfAll);
        Ok(Pair::of_programs(name, [&lines[0], &lines[1]], cause.truths, size))
    };
    (0..unequal + equal).map(pair).collect()
}

/// Builds two programs twice: with the operations that should take [`RUN_S`] by the rough costs, and with those
/// that do by a trial. Both do as many, so that their starts and ends weigh as much. Returns their lines.
fn built(before: &Program, after: &Program, home: &Path) -> Result<Vec<String>> {
    let build = |operations: u64| {
        let named = [("old", before), ("new", after)].into_iter();
        let scaled = |program: &Program| Program { operations, ..program.clone() };
        named.map(|(name, program)| scaled(program).build(home, name)).collect::<Result<Vec<_>>>()
    };
    let lines = build(before.operations)?;
    let directory = fresh_directory(Path::new("/dev/shm"))?;
    let product = lines.iter().try_fold(1.0, |product, line| {
        let start = Instant::now();
        output(Command::new("sh").args(["-c", line]).current_dir(directory.path()))?;
        anyhow::Ok(product * start.elapsed().as_secs_f64())
    })?;
    build(((before.operations as f64) * RUN_S / product.sqrt()).ceil() as u64)
}

/// What differs, and the rows that may be named first for it.
#[derive(Default)]
struct Cause {
    what: String,
    truths: Vec<Truth>,
    /// Whether the tasks' CPU time grows by all of it: they do not wait, and end no process.
    is_of_cpu_time: bool,
}

impl Cause {
    /// More of an action, `ratio` times as much if known.
    fn more_of(action: Action, what: String, ratio: Option<f64>) -> Cause {
        let waits = matches!(action, Action::Sleep | Action::Spawn | Action::Locked(_));
        Cause { what, truths: action.truths(ratio), is_of_cpu_time: !waits }
    }

    /// An action of a program, so many times instead of once.
    fn repeated(action: Action, times: usize, before: &Program) -> Cause {
        let is_alone = !before.actions.iter().any(|other| other.shares_calls(&action));
        let ratio = is_alone.then_some(times as f64);
        Cause::more_of(action, format!("{times} times {action:?}"), ratio)
    }
}

fn draw(random: &mut Random) -> Program {
    let language = *one_of(
        &[Language::C, Language::C, Language::C, Language::Python, Language::Rust, Language::Shell],
        random,
    );
    let mut actions = Action::all(language);
    actions.shuffle(random);
    actions.truncate(random.random_range(2..=4));
    let tasks = if language == Language::C { random.random_range(1..=2) } else { 1 };
    let threads = tasks > 1 && random.random();
    let mut program = Program { language, actions, tasks, threads, operations: 1, confined: false };
    program.operations = program.operations_in(RUN_S);
    program
}

/// How many times as long an operation may become, by the rough costs of its actions: a smaller change is not
/// looked for, and a larger one needs no tool.
const CHANGE: std::ops::Range<f64> = 1.1..6.0;

/// Programs that differ by one change that is large enough to be looked for. Both do as many operations, which
/// take [`RUN_S`] in the geometric mean, by the rough costs.
fn changed_clearly(random: &mut Random) -> (Program, Program, Cause) {
    loop {
        let before = draw(random);
        let (after, cause) = changed(&before, random);
        let ratio = after.cost_ns() / before.cost_ns();
        if after.confined || CHANGE.contains(&ratio) {
            let operations = before.operations_in(RUN_S / ratio.sqrt());
            let (before, after) =
                (Program { operations, ..before }, Program { operations, ..after });
            return (before, after, cause);
        }
    }
}

/// The program with one change.
fn changed(before: &Program, random: &mut Random) -> (Program, Cause) {
    let mut after = before.clone();
    let place = random.random_range(0..after.actions.len());
    let absent: Vec<Action> = Action::all(before.language)
        .into_iter()
        .filter(|action| !before.actions.iter().any(|own| own.kind() == action.kind()))
        .collect();
    let can_be_confined = before.tasks > 1 && before.actions.iter().all(Action::is_undisturbed);
    let cause = match random.random_range(0..if can_be_confined { 10 } else { 9 }) {
        9 => {
            after.confined = true;
            let any = |row: &str| Truth { row: row.to_string(), how: How::Any, ratio: None };
            // A recording of perf only says that a CPU is idle.
            let truths =
                vec![any("affinity"), any("idle > for reasons not known"), any("not sampled")];
            Cause { what: "one CPU for all tasks".to_string(), truths, is_of_cpu_time: false }
        }
        0..=2 if !absent.is_empty() => {
            let added = *one_of(&absent, random);
            after.actions.push(added);
            Cause::more_of(added, format!("also {added:?}"), None)
        }
        3..=5 => {
            let times = random.random_range(2..=4);
            let repeated = after.actions[place];
            after.actions.extend(vec![repeated; times - 1]);
            Cause::repeated(repeated, times, before)
        }
        _ => {
            let larger = after.actions[place].larger(random.random_range(3..=8));
            match larger {
                Some((larger, truths)) => {
                    after.actions[place] = larger;
                    let what = format!("{larger:?} instead of {:?}", before.actions[place]);
                    Cause { truths, ..Cause::more_of(larger, what, None) }
                }
                // An action that has no size is made twice.
                None => {
                    let repeated = after.actions[place];
                    after.actions.push(repeated);
                    Cause::repeated(repeated, 2, before)
                }
            }
        }
    };
    (after, cause)
}

fn shuffled(actions: &[Action], random: &mut Random) -> Vec<Action> {
    let mut actions = actions.to_vec();
    actions.shuffle(random);
    actions
}

fn one_of<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[random.random_range(0..all.len())]
}

impl Action {
    /// Whether tasks that do it at the same time do not disturb each other. With those that do, one CPU for all
    /// tasks makes an operation shorter: nobody waits for a lock or a TLB flush.
    fn is_undisturbed(&self) -> bool {
        !matches!(self, Action::Touch(_) | Action::Protect | Action::Locked(_))
    }

    /// Whether another action makes some of the same calls, so that these become less than twice as many if only
    /// one of both actions is made twice.
    fn shares_calls(&self, other: &Action) -> bool {
        let both = |a: Action, b: Action| {
            (self.kind() == a.kind() && other.kind() == b.kind())
                || (self.kind() == b.kind() && other.kind() == a.kind())
        };
        let pairs = [
            (Action::Open, Action::List),
            (Action::Status, Action::List),
            (Action::Touch(1), Action::Protect),
        ];
        pairs.into_iter().any(|(a, b)| both(a, b))
    }

    /// What may be named first if there is more of the action, `ratio` times as much if known.
    fn truths(self, ratio: Option<f64>) -> Vec<Truth> {
        let count = |row: &str| Truth { row: row.to_string(), how: How::Count, ratio };
        let any = |row: &str| Truth { row: row.to_string(), how: How::Any, ratio: None };
        match self {
            Action::Parent => vec![count("getppid")],
            Action::Status => vec![count("stat")],
            // The shell reads a line byte by byte.
            Action::Open => vec![count("open"), count("close"), count("system call read")],
            Action::Read(_) => vec![count("read")],
            Action::Write(_) => vec![count("write")],
            Action::Seek => vec![count("lseek")],
            Action::Compute(_) => vec![any("user code")],
            // Which of the two is larger depends on the kernel.
            Action::Touch(_) => vec![any("page faults"), any("munmap"), any("mmap")],
            // A recording of perf lacks samples of idle CPUs.
            Action::Sleep => ["nanosleep", "idle", "not sampled"].map(any).into(),
            Action::Spawn => {
                // Most of it is the start of the program, in user code.
                let calls = ["clone", "vfork", "execve", "wait4", "exit"];
                let around = ["page faults", "idle", "processes", "user code"];
                calls.into_iter().chain(around).map(any).collect()
            }
            Action::Yield => vec![count("sched_yield")],
            Action::Signal => vec![count("tgkill"), count("rt_sigreturn")],
            Action::Socket => vec![count("sendto"), count("recvfrom")],
            Action::Pipe => vec![count("write"), count("read")],
            Action::List => ["getdents64", "open", "close", "stat"].map(count).into(),
            Action::Rename => vec![count("rename")],
            Action::Protect => vec![count("mprotect"), count("page faults")],
            Action::Random => vec![count("getrandom")],
            Action::Poll => vec![count("poll")],
            // With one task the work in the lock is all there is; tasks that wait sleep in the futex.
            Action::Locked(_) => ["user code", "futex", "idle"].map(any).into(),
        }
    }

    /// The action made larger, and what may then be named first; `None` if it has no size.
    fn larger(self, factor: u32) -> Option<(Action, Vec<Truth>)> {
        let cost = |row: &str| vec![Truth { row: row.to_string(), how: How::Cost, ratio: None }];
        let count = |row: &str| vec![Truth { row: row.to_string(), how: How::Count, ratio: None }];
        match self {
            Action::Read(pages) => Some((Action::Read(pages * factor), cost("read"))),
            Action::Write(pages) => Some((Action::Write(pages * factor), cost("write"))),
            Action::Compute(turns) => Some((Action::Compute(turns * factor), self.truths(None))),
            Action::Locked(turns) => Some((Action::Locked(turns * factor), self.truths(None))),
            Action::Touch(pages) => Some((Action::Touch(pages * factor), count("page faults"))),
            _ => None,
        }
    }
}
