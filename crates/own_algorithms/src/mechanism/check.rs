//! Searches all interleavings of tasks that do the mechanism's operation.

use algorithms::mechanisms::{ListedMechanism, Mechanism, Scenario};
use anyhow::{Context, Result, ensure};
use host::counted;
use studies::checks::{Mutation, with_own_mechanism};

use crate::search::{self, Searched};

/// How much to check.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Designs to check [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    design: Vec<String>,
    /// Number of concurrent tasks
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    /// Operations per task
    #[arg(long, default_value_t = 1, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1000))]
    operations: u32,
    #[command(flatten)]
    search: search::SearchArguments,
}

/// Checks or replays, and prints. Returns whether all searches are complete and none found a fault.
pub(super) fn run<X: Mechanism>(
    mechanism: &ListedMechanism,
    arguments: &Arguments,
) -> Result<bool> {
    let Arguments { design, threads, operations, search } = arguments;
    search::ensure_tasks(*threads)?;
    let designs = super::designs(mechanism, design)?;
    ensure!(
        search.replay.is_none() || designs.len() == 1,
        "--replay: a schedule is that of one design: name it with --design"
    );
    let scenario = Scenario::new(*threads, *operations);
    let (tasks, done) = (counted(*threads, "task"), counted(*operations as usize, "operation"));
    let mut passed = true;
    for design in designs {
        let name = X::NAME;
        passed &= search.run(&Searched {
            what: format!("{name}:{design}: {tasks} × {done}"),
            command: format!(
                "{name} check --design {design} --threads {threads} --operations {operations}"
            ),
            with_tasks: &|act| {
                let tasks =
                    with_own_mechanism::<X>(mechanism, design, scenario, Mutation::None, act);
                Ok(tasks.context("a design of the mechanism")??)
            },
        })?;
    }
    Ok(passed)
}
