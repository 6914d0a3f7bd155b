//! `knee selfcheck`: how often the rule that decides verdicts is right, and the rules of other
//! tools beside it, by simulation.

use std::process::ExitCode;

use analysis::selfcheck::selfcheck;
use anyhow::Result;

use crate::reports::{self, Style};
use crate::talk::print;

/// What to simulate.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Simulated comparisons for each rule, noise and change
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    trials: u32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    // What a check of this host, rather than of the rules, needs goes here.
}

/// Simulates and prints. The status is 1 if a figure is missed.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let check = selfcheck(arguments.trials, arguments.seed);
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&check)? + "\n",
        false => reports::selfcheck(&check, &Style::of_stdout()),
    };
    print(text)?;
    Ok(if check.met() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
