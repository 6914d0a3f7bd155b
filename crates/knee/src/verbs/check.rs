//! `knee check`: searches what the tasks of an algorithm can do together, in every order, or
//! tries its mutants.

use std::process::ExitCode;
use std::time::Instant;

use algorithms::locks::{Algorithm, LOCKS};
use anyhow::{Context, Result, anyhow, bail, ensure};
use engines::explored::{
    Failure, Fault, Memory, Options, Replayed, Schedule, TASKS_MAX, replay, sample, search,
};
use serde_json::json;

use crate::checks::mutants::{self, Fate, Judged};
use crate::checks::{Between, Size, with_setup};
use crate::names::nearest;
use crate::reports::{self, Style};
use crate::talk::{print, print_line, talk};

/// What to check.
#[derive(clap::Args)]
pub struct Arguments {
    /// Algorithms, or `all` (see: knee list algorithms)
    #[arg(required = true)]
    names: Vec<String>,
    /// Tasks that run at once
    #[arg(long, default_value_t = 3, value_name = "N")]
    threads: usize,
    /// How often each task takes the lock
    #[arg(long, default_value_t = 1, value_name = "M")]
    acquires: u32,
    /// How many locks each task holds at once: 2 are one inside of the other
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    locks: u8,
    /// Stores wait in buffers, as on x86, instead of being visible at once
    #[arg(long)]
    tso: bool,
    /// Change one access after the other, and say which changes are found
    #[arg(long, conflicts_with_all = ["tso", "sample", "replay", "threads", "acquires", "locks"])]
    mutants: bool,
    /// Try this many random schedules (PCT) instead of all: for more tasks than can be searched
    #[arg(long, value_name = "SCHEDULES", conflicts_with = "replay")]
    sample: Option<u64>,
    /// Seed of --sample
    #[arg(long, default_value_t = 1, requires = "sample")]
    seed: u64,
    /// Follow one schedule, as a failure prints it, and show each step
    #[arg(long, value_name = "SCHEDULE")]
    replay: Option<String>,
    /// Tell apart states that differ only in who is who
    #[arg(long)]
    no_symmetry: bool,
    /// Give up at this many states
    #[arg(long, default_value_t = 100_000_000, value_name = "STATES")]
    states: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One check of one algorithm.
pub struct Checked {
    pub name: &'static str,
    pub size: Size,
    pub memory: Memory,
    /// States that were searched; none where schedules were sampled.
    pub states: Option<u64>,
    pub schedules: Option<u64>,
    pub steps: u64,
    pub seconds: f64,
    pub gave_up: bool,
    pub failure: Option<Failure>,
}

/// Checks and prints. The status is 1 if something is wrong, or was not searched to the end.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let locks = named(&arguments.names)?;
    ensure!(
        (1..=TASKS_MAX).contains(&arguments.threads),
        "--threads {}: 1 to {TASKS_MAX} can be explored",
        arguments.threads
    );
    ensure!(arguments.acquires <= 1000, "--acquires {}: 1000 at most", arguments.acquires);
    if arguments.mutants {
        return judge(arguments, &locks);
    }
    if let Some(schedule) = &arguments.replay {
        let [lock] = locks[..] else { bail!("--replay: of one algorithm") };
        return follow(arguments, lock, schedule);
    }
    let style = Style::of_stdout();
    let mut done = Vec::new();
    for lock in locks {
        talk(format_args!("checking {} …", lock.name));
        done.push(check(arguments, lock)?);
    }
    if arguments.json {
        let all: Vec<_> = done.iter().map(checked_json).collect();
        print_line(format_args!("{:#}", json!(all)))?;
    } else {
        print(reports::checked(&done, &style))?;
        for checked in &done {
            if let Some(failure) = &checked.failure {
                print(reports::failed_check(checked.name, failure, &again(arguments, checked)))?;
            }
        }
    }
    let good = done.iter().all(|checked| checked.failure.is_none() && !checked.gave_up);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The algorithms of these names, in the order given.
fn named(names: &[String]) -> Result<Vec<&'static Algorithm>> {
    let mut found = Vec::new();
    for name in names {
        if name == "all" {
            found.extend(LOCKS);
            continue;
        }
        let lock = LOCKS.iter().find(|lock| lock.name == *name);
        found.push(lock.ok_or_else(|| {
            let hint = nearest(name, LOCKS.iter().map(|lock| lock.name));
            anyhow!("no algorithm is called '{name}'{hint}; `knee list algorithms` shows all")
        })?);
    }
    Ok(found)
}

fn size(arguments: &Arguments) -> Size {
    let (threads, acquires) = (arguments.threads, arguments.acquires);
    Size { threads, acquires, locks: arguments.locks.into() }
}

fn options(arguments: &Arguments) -> Options {
    let memory =
        if arguments.tso { Memory::TotalStoreOrder } else { Memory::SequentiallyConsistent };
    let (symmetry, states_max) = (!arguments.no_symmetry, arguments.states);
    Options { memory, symmetry, states_max, ..Options::default() }
}

fn check(arguments: &Arguments, lock: &'static Algorithm) -> Result<Checked> {
    let (size, options) = (size(arguments), options(arguments));
    let since = Instant::now();
    let mut checked = Checked {
        name: lock.name,
        size,
        memory: options.memory,
        states: None,
        schedules: None,
        steps: 0,
        seconds: 0.0,
        gave_up: false,
        failure: None,
    };
    if let Some(schedules) = arguments.sample {
        let sampled = with_setup(lock.name, size, Between::Nothing, |setup| {
            sample(setup, &options, schedules, DEPTH, arguments.seed)
        });
        let sampled = sampled.context("a listed algorithm")???;
        checked.schedules = Some(sampled.schedules);
        (checked.steps, checked.failure) = (sampled.steps, sampled.failure);
    } else {
        let searched =
            with_setup(lock.name, size, Between::Nothing, |setup| search(setup, &options));
        let searched = searched.context("a listed algorithm")???;
        checked.states = Some(searched.states);
        (checked.steps, checked.failure) = (searched.steps, searched.failure);
        checked.gave_up = searched.gave_up;
    }
    checked.seconds = since.elapsed().as_secs_f64();
    Ok(checked)
}

/// Ordering constraints that a sampled bug may need.
const DEPTH: usize = 3;

/// The command that shows a failure again.
fn again(arguments: &Arguments, checked: &Checked) -> String {
    let Some(failure) = &checked.failure else { return String::new() };
    let Size { threads, acquires, locks } = checked.size;
    let locks = if locks > 1 { format!(" --locks {locks}") } else { String::new() };
    let tso = if arguments.tso { " --tso" } else { "" };
    format!(
        "knee check {} --threads {threads} --acquires {acquires}{locks}{tso} --replay {}",
        checked.name, failure.schedule
    )
}

fn follow(arguments: &Arguments, lock: &Algorithm, schedule: &str) -> Result<ExitCode> {
    let schedule: Schedule = schedule.parse().map_err(|why: String| anyhow!("--replay: {why}"))?;
    let replayed = with_setup(lock.name, size(arguments), Between::Nothing, |setup| {
        replay(setup, &options(arguments), &schedule)
    });
    let replayed = replayed.context("a listed algorithm")???;
    let Replayed { steps, fault } = replayed.map_err(|why| anyhow!("--replay: {why}"))?;
    if arguments.json {
        let fault = fault.as_ref().map(Fault::to_string);
        print_line(format_args!("{:#}", json!({"steps": steps, "fault": fault})))?;
    } else {
        let end = fault.as_ref().map_or("nothing is wrong\n".to_string(), |f| format!("{f}\n"));
        print(steps.join("\n") + "\n" + &end)?;
    }
    Ok(if fault.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn checked_json(checked: &Checked) -> serde_json::Value {
    let failure = checked.failure.as_ref();
    json!({
        "name": checked.name,
        "threads": checked.size.threads,
        "acquires": checked.size.acquires,
        "locks": checked.size.locks,
        "memory": reports::memory(checked.memory),
        "states": checked.states,
        "schedules": checked.schedules,
        "steps": checked.steps,
        "seconds": checked.seconds,
        "complete": checked.states.is_some() && !checked.gave_up && failure.is_none(),
        "fault": failure.map(|failure| failure.fault.to_string()),
        "schedule": failure.map(|failure| failure.schedule.to_string()),
        "interleaving": failure.map(|failure| &failure.steps),
    })
}

fn judge(arguments: &Arguments, locks: &[&'static Algorithm]) -> Result<ExitCode> {
    let mut all = Vec::new();
    for lock in locks {
        talk(format_args!("mutants of {} …", lock.name));
        all.push((lock.name, mutants::judge(lock)?));
    }
    if arguments.json {
        let one = |(name, judged): &(&str, Vec<Judged>)| json!({"name": name, "mutants": judged.iter().map(judged_json).collect::<Vec<_>>()});
        print_line(format_args!("{:#}", json!(all.iter().map(one).collect::<Vec<_>>())))?;
    } else {
        for (name, judged) in &all {
            print(reports::mutants(name, judged))?;
        }
    }
    let survived = |judged: &Judged| matches!(judged.fate, Fate::Survived);
    let none = !all.iter().any(|(_, judged)| judged.iter().any(survived));
    Ok(if none { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn judged_json(judged: &Judged) -> serde_json::Value {
    let mut value = json!({
        "line": judged.mutant.site.line,
        "source": judged.line,
        "change": judged.mutant.change.to_string(),
    });
    match &judged.fate {
        Fate::Caught { fault, size, memory } => {
            value["fate"] = "caught".into();
            value["fault"] = fault.to_string().into();
            value["threads"] = size.threads.into();
            value["acquires"] = size.acquires.into();
            value["memory"] = reports::memory(*memory).into();
        }
        Fate::Equivalent(why) => {
            value["fate"] = "equivalent".into();
            value["why"] = (*why).into();
        }
        Fate::Survived => value["fate"] = "survived".into(),
    }
    value
}
