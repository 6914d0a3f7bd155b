//! Searches all interleavings of an algorithm's tasks, or replays one, and prints what is found.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use engines::checker::{Failure, Memory, Options, Schedule, Setup, TASKS_MAX, replay, search};
use studies::checks::{SetupFn, with_result};

/// How to search.
#[derive(clap::Args)]
pub(crate) struct SearchArguments {
    /// Use the x86 memory model (TSO) instead of sequential consistency
    #[arg(long)]
    tso: bool,
    /// Give up after this many states
    #[arg(long, default_value_t = 100_000_000, value_name = "STATES", value_parser = clap::value_parser!(u64).range(1..))]
    states: u64,
    /// Replay one schedule, as printed with a failure, and show each step
    #[arg(long, value_name = "SCHEDULE")]
    pub(crate) replay: Option<String>,
}

/// What is searched.
pub(crate) struct Searched<'a> {
    /// The algorithm, its tasks and what they do, for reports.
    pub(crate) what: String,
    /// The command that searches this again.
    pub(crate) command: String,
    /// Calls its argument with the tasks at their start.
    pub(crate) with_tasks: &'a dyn Fn(&mut SetupFn) -> Result<()>,
}

/// Fails unless the checker can search this many tasks.
pub(crate) fn ensure_tasks(threads: usize) -> Result<()> {
    ensure!((1..=TASKS_MAX).contains(&threads), "--threads {threads}: must be 1 to {TASKS_MAX}");
    Ok(())
}

impl SearchArguments {
    /// Searches or replays, and prints. Returns whether the search is complete and found no fault.
    pub(crate) fn run(&self, searched: &Searched) -> Result<bool> {
        let memory =
            if self.tso { Memory::TotalStoreOrder } else { Memory::SequentiallyConsistent };
        let options = Options { memory, states_max: self.states, ..Options::default() };
        match &self.replay {
            Some(schedule) => follow(searched, &options, schedule),
            None => self.search(searched, &options),
        }
    }

    fn search(&self, searched: &Searched, options: &Options) -> Result<bool> {
        let since = Instant::now();
        let found = with_tasks(searched, |setup| search(setup, options))??;
        let seconds = since.elapsed().as_secs_f64();
        let memory = if self.tso { "x86 (TSO)" } else { "sequentially consistent" };
        let (what, states) = (format!("{}, {memory}", searched.what), found.states);
        match found.failure {
            Some(failure) => self.print_failure(searched, &what, &failure),
            None if found.gave_up => {
                println!(
                    "{what}: gave up after {states} states, {seconds:.1} s; nothing found so far"
                );
            }
            None => {
                println!("{what}: passed, all {states} states in {seconds:.1} s");
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn print_failure(&self, searched: &Searched, what: &str, failure: &Failure) {
        println!("{what}: {}", failure.fault);
        for step in &failure.steps {
            println!("  {step}");
        }
        let tso = if self.tso { " --tso" } else { "" };
        println!("again: {}{tso} --replay {}", searched.command, failure.schedule);
    }
}

fn follow(searched: &Searched, options: &Options, schedule: &str) -> Result<bool> {
    let schedule: Schedule = schedule.parse().map_err(|why: String| anyhow!("--replay: {why}"))?;
    let replayed = with_tasks(searched, |setup| replay(setup, options, &schedule))??;
    let replayed = replayed.map_err(|why| anyhow!("--replay: {why}"))?;
    println!("{}", replayed.steps.join("\n"));
    match &replayed.fault {
        None => println!("nothing is wrong"),
        Some(fault) => println!("{fault}"),
    }
    Ok(replayed.fault.is_none())
}

fn with_tasks<R>(searched: &Searched, act: impl FnMut(&Setup) -> R) -> Result<R> {
    let mut failed = None;
    let result = with_result(act, |act| match (searched.with_tasks)(act) {
        Ok(()) => Some(Ok(())),
        Err(why) => {
            failed = Some(why);
            None
        }
    });
    match (failed, result) {
        (Some(why), _) => Err(why),
        (None, result) => Ok(result.context("the tasks were never started")??),
    }
}
