//! Searches all interleavings of tasks that use the lock.

use std::time::Instant;

use algorithms::Lock;
use anyhow::{Context, Result, anyhow, ensure};
use engines::checker::{Failure, Memory, Options, Schedule, Setup, TASKS_MAX, replay, search};
use host::counted;
use studies::checks::{CheckSize, Mutation, with_own_lock, with_result};

use crate::Subject;

/// How much to check.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of concurrent tasks
    #[arg(long, default_value_t = 3, value_name = "N")]
    threads: usize,
    /// Lock acquisitions per task
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1000))]
    acquires: u32,
    /// Locks that each task holds simultaneously: 2 means nested
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    locks: u8,
    /// Use the x86 memory model (TSO) instead of sequential consistency
    #[arg(long)]
    tso: bool,
    /// Give up after this many states
    #[arg(long, default_value_t = 100_000_000, value_name = "STATES", value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// Replay one schedule, as printed with a failure, and show each step
    #[arg(long, value_name = "SCHEDULE")]
    replay: Option<String>,
}

impl Arguments {
    fn size(&self) -> CheckSize {
        CheckSize { threads: self.threads, acquires: self.acquires, locks: self.locks.into() }
    }

    fn options(&self) -> Options {
        let memory =
            if self.tso { Memory::TotalStoreOrder } else { Memory::SequentiallyConsistent };
        Options { memory, states_max: self.states, ..Options::default() }
    }

    /// These arguments as text.
    fn text(&self) -> String {
        let locks = if self.locks > 1 { " --locks 2" } else { "" };
        let tso = if self.tso { " --tso" } else { "" };
        format!("--threads {} --acquires {}{locks}{tso}", self.threads, self.acquires)
    }
}

/// Checks or replays, and prints. Returns whether the search is complete and found no fault.
pub(crate) fn run<L: Lock>(lock: &Subject, arguments: &Arguments) -> Result<bool> {
    ensure!(
        (1..=TASKS_MAX).contains(&arguments.threads),
        "--threads {}: must be 1 to {TASKS_MAX}",
        arguments.threads
    );
    if let Some(schedule) = &arguments.replay {
        return follow::<L>(arguments, schedule);
    }
    let since = Instant::now();
    let searched = with_tasks::<L, _>(arguments, |setup| search(setup, &arguments.options()))??;
    let seconds = since.elapsed().as_secs_f64();
    let what = format!(
        "{}: {} × {}, {}",
        lock.name,
        counted(arguments.threads, "task"),
        counted(arguments.acquires as usize, "acquire"),
        if arguments.tso { "x86 (TSO)" } else { "sequentially consistent" }
    );
    let states = searched.states;
    match searched.failure {
        Some(failure) => print_failure(lock, arguments, &what, &failure),
        None if searched.gave_up => {
            println!("{what}: gave up after {states} states, {seconds:.1} s; nothing found so far");
        }
        None => {
            println!("{what}: passed, all {states} states in {seconds:.1} s");
            return Ok(true);
        }
    }
    Ok(false)
}

fn print_failure(lock: &Subject, arguments: &Arguments, what: &str, failure: &Failure) {
    println!("{what}: {}", failure.fault);
    for step in &failure.steps {
        println!("  {step}");
    }
    let (name, text) = (lock.name, arguments.text());
    println!("again: {name} check {text} --replay {}", failure.schedule);
}

fn follow<L: Lock>(arguments: &Arguments, schedule: &str) -> Result<bool> {
    let schedule: Schedule = schedule.parse().map_err(|why: String| anyhow!("--replay: {why}"))?;
    let options = arguments.options();
    let replayed = with_tasks::<L, _>(arguments, |setup| replay(setup, &options, &schedule))??;
    let replayed = replayed.map_err(|why| anyhow!("--replay: {why}"))?;
    println!("{}", replayed.steps.join("\n"));
    match &replayed.fault {
        None => println!("nothing is wrong"),
        Some(fault) => println!("{fault}"),
    }
    Ok(replayed.fault.is_none())
}

fn with_tasks<L: Lock, R>(arguments: &Arguments, act: impl FnMut(&Setup) -> R) -> Result<R> {
    let (size, mutation) = (arguments.size(), Mutation::None);
    let result = with_result(act, |act| Some(with_own_lock::<L>(size, mutation, act)));
    Ok(result.context("the tasks of the lock were never started")??)
}
