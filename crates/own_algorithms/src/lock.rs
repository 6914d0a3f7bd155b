//! The program of a lock: its `main`, and its load.

mod check;
#[doc(hidden)]
pub mod load;

use std::io;
use std::process::ExitCode;

use algorithms::locks::LOCKS;
use algorithms::{Equivalent, Lock, manual};
use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use host::unknown;
use studies::checks::mutants::{LockSubject, judge_lock};
use studies::checks::{CheckSize, Mutation, SetupFn, with_own_lock};
use studies::simulations::{
    Conditions, LockLoad, SimulatedPoint, Variation, lock_point, own_lock_point,
};

use crate::{mutants, simulate};

/// Check, mutate and simulate one lock
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Search all interleavings of tasks that use the lock
    Check(check::Arguments),
    /// Mutate one memory access after the other, and report which mutants the search catches
    Mutants,
    /// Simulate the lock on a described host, beside locks that come with knee
    Simulate(SimulateArguments),
    /// Print the lock's manual page: the comment at the start of its file
    Describe,
}

#[derive(clap::Args)]
struct SimulateArguments {
    #[command(flatten)]
    conditions: simulate::SimulationArguments,
    /// Locks of knee to compare with [default: ticket,mcs; of a read-write lock:
    /// queued_read_write,per_cpu_read_write]
    #[arg(long, value_delimiter = ',')]
    against: Option<Vec<String>>,
    /// ns for which the lock is held
    #[arg(long, default_value_t = 200, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    hold_ns: u64,
    /// How many of 100 operations only read, under a read-write lock [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(..=100))]
    reads: Option<u32>,
}

/// What one program is about: one lock.
pub(crate) struct Subject<'a> {
    /// The name of its file, without `.rs`.
    pub(crate) name: &'a str,
    /// The text of its file.
    pub(crate) source: &'a str,
    /// Its mutants that break nothing.
    pub(crate) equivalent: &'static [Equivalent],
    /// Calls its last argument with the lock's tasks at their start.
    pub(crate) with_tasks: fn(CheckSize, Mutation, &mut SetupFn) -> io::Result<()>,
    /// Simulates it on a number of CPUs, with as many tasks.
    pub(crate) point: fn(&str, LockLoad, &Conditions, usize, usize) -> Result<SimulatedPoint>,
    /// Whether readers share it.
    pub(crate) shared: bool,
}

/// The `main` of a lock's program: `name` is that of its file without `.rs`, `source` the file's text. The exit status
/// is 1 if a fault was found, a search was incomplete or a mutant survived, 2 if something else failed.
pub fn main<L: Lock>(name: &str, source: &str) -> ExitCode {
    exclusive::<L>(name, source).main()
}

/// Does what [`main`] does with these words as its command line. Returns whether nothing is wrong.
pub fn run<L: Lock>(name: &str, source: &str, words: &[&str]) -> Result<bool> {
    exclusive::<L>(name, source).run(words)
}

fn exclusive<'a, L: Lock>(name: &'a str, source: &'a str) -> Subject<'a> {
    Subject {
        name,
        source,
        equivalent: L::EQUIVALENT,
        with_tasks: with_own_lock::<L>,
        point: own_lock_point::<L>,
        shared: false,
    }
}

impl Subject<'_> {
    pub(crate) fn main(&self) -> ExitCode {
        crate::ended(self.name, self.act(&Arguments::parse().verb))
    }

    pub(crate) fn run(&self, words: &[&str]) -> Result<bool> {
        let words = std::iter::once(self.name).chain(words.iter().copied());
        self.act(&Arguments::try_parse_from(words)?.verb)
    }

    fn act(&self, verb: &Verb) -> Result<bool> {
        crate::ensure_seen(self.name, self.source)?;
        match verb {
            Verb::Check(arguments) => check::run(self, arguments),
            Verb::Mutants => {
                let judged = judge_lock(&LockSubject {
                    sources: &[(format!("/{}.rs", self.name), self.source)],
                    equivalent: self.equivalent,
                    with_tasks: &self.with_tasks,
                })?;
                mutants::print(self.name, "acquire", &judged)
            }
            Verb::Simulate(arguments) => self.simulate(arguments),
            Verb::Describe => {
                println!("{}", manual(self.source));
                Ok(true)
            }
        }
    }

    fn simulate(&self, arguments: &SimulateArguments) -> Result<bool> {
        let SimulateArguments { conditions, against, hold_ns, reads } = arguments;
        ensure!(
            self.shared || reads.is_none(),
            "--reads: a lock with one holder has no readers: leave it out, or write a read-write lock (knee new \
             read-write-lock NAME)"
        );
        let reads = reads.unwrap_or(if self.shared { READS } else { 0 });
        let usual: &[&str] = if self.shared {
            &["queued_read_write", "per_cpu_read_write"]
        } else {
            &["ticket", "mcs"]
        };
        let against: Vec<&str> = match against {
            Some(named) => named.iter().map(String::as_str).collect(),
            None => usual.to_vec(),
        };
        for &name in &against {
            ensure!(
                LOCKS.iter().any(|listed| listed.name == name),
                "{}",
                unknown(
                    "lock",
                    name,
                    LOCKS.iter().map(|listed| listed.name),
                    "knee list algorithms"
                )
            );
        }
        let load = LockLoad {
            work_ns: conditions.work_ns,
            variation: Variation::Exponential,
            hold_ns: *hold_ns,
            reads,
            locks: 1,
            lines_written: LINES,
            lines_read: LINES,
            start_within_ns: conditions.work_ns + hold_ns,
        };
        let names: Vec<&str> = [self.name].into_iter().chain(against).collect();
        let read = if self.shared { format!(", {reads} % of them reading") } else { String::new() };
        let held = format!(", lock held for {hold_ns} ns{read}");
        conditions.table(&names, &held, |column, conditions, cpus| match column {
            0 => (self.point)(self.name, load, conditions, cpus, cpus),
            _ => lock_point(names[column], load, conditions, cpus, cpus),
        })
    }
}

/// Lines that are written, and lines that are read, while the lock is held.
const LINES: usize = 2;

/// How many of 100 operations read under a read-write lock, where nothing else is asked for.
const READS: u32 = 90;
