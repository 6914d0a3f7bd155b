//! Searches all interleavings of tasks that use the lock.

use anyhow::{Result, ensure};
use host::counted;
use studies::checks::{CheckSize, Mutation};

use super::Subject;
use crate::search::{self, Searched};

/// How much to check.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Number of concurrent tasks
    #[arg(long, default_value_t = 3, value_name = "N")]
    threads: usize,
    /// Lock acquisitions per task
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1000))]
    acquires: u32,
    /// Locks that each task holds simultaneously: 2 means nested
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    locks: u8,
    #[command(flatten)]
    search: search::SearchArguments,
}

/// Checks or replays, and prints. Returns whether the search is complete and found no fault.
pub(super) fn run(lock: &Subject, arguments: &Arguments) -> Result<bool> {
    let Arguments { threads, acquires, locks, search } = arguments;
    search::ensure_tasks(*threads)?;
    ensure!(
        !lock.shared || *locks == 1,
        "--locks {locks}: tasks of a check hold one read-write lock at a time: leave it out"
    );
    let size = CheckSize { threads: *threads, acquires: *acquires, locks: (*locks).into() };
    let (tasks, acquired) = (counted(*threads, "task"), counted(*acquires as usize, "acquire"));
    let nested = if *locks > 1 { " --locks 2" } else { "" };
    let name = lock.name;
    search.run(&Searched {
        what: format!("{name}: {tasks} × {acquired}"),
        command: format!("{name} check --threads {threads} --acquires {acquires}{nested}"),
        with_tasks: &|act| Ok((lock.with_tasks)(size, Mutation::None, act)?),
    })
}
