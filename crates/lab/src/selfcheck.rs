//! `knee selfcheck`: how often knee's rule for verdicts is right, compared with the rules of other tools, by simulation.

mod bisect;
mod gates;
pub mod host;
mod scale;
mod verdicts;
mod watch;

use std::process::ExitCode;

use analysis::selfcheck::{gate_check, selfcheck};
use anyhow::{Context, Result, ensure};
use bisection::selfcheck::{BisectPart, bisect_check};
use bisection::watch::selfcheck::watch_check;
use laws::selfcheck::{Part, scale_check};
use pages::ViewFlags;

/// Estimate how often verdicts are right, beside other tools' rules
///
/// Measurements with a known truth are simulated, and judged by knee's rules and by those of other tools.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Simulated comparisons per rule, noise model and size of change
    ///
    /// By default 4000.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    trials: Option<u32>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Check knees, laws, cliffs and forecasts of simulated curves instead
    ///
    /// --trials is then the number of curves of each kind, 200 by default.
    #[arg(long)]
    scale: bool,
    /// Parts of --scale or --bisect to check [default: all]
    ///
    /// --scale has knees, quantities, cliffs, forecasts, searches, fragile; --bisect has searches, series, screening,
    /// choice. The numbers of a part do not depend on which others are checked.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Check gates of simulated pull requests instead, beside the rules of other tools
    ///
    /// --trials is then the number of pull requests of each kind, 500 by default.
    #[arg(long, conflicts_with_all = ["scale", "bisect"])]
    gates: bool,
    /// Check searches of simulated ranges of commits instead, beside the rules of other tools
    ///
    /// --trials is then the number of ranges of each kind, 200 by default.
    #[arg(long, conflicts_with = "scale")]
    bisect: bool,
    /// Check watched lines of simulated points instead, beside rules that run nothing again
    ///
    /// --trials is then the number of lines of each kind, 200 by default.
    #[arg(long, conflicts_with_all = ["scale", "bisect", "gates"])]
    watch: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// The parts that `--only` names, or all.
fn parts<P: Copy>(
    only: &[String],
    flag: &str,
    all: &[P],
    word: impl Fn(P) -> &'static str,
) -> Result<Vec<P>> {
    if only.is_empty() {
        return Ok(all.to_vec());
    }
    let part = |name: &String| {
        let found = all.iter().copied().find(|part| word(*part) == *name);
        found.with_context(|| {
            let words: Vec<&str> = all.iter().map(|part| word(*part)).collect();
            format!("--only {name}: not a part of {flag}, which has {}", words.join(", "))
        })
    };
    only.iter().map(part).collect()
}

/// Checks and prints. The status is 1 if an error rate of verdicts misses its target.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { trials, seed, only, view, .. } = arguments;
    if arguments.scale {
        let parts = parts(only, "--scale", &Part::ALL, Part::word)?;
        let check = scale_check(trials.unwrap_or(200), *seed, &parts);
        view.print(|| Ok(&check), || Ok(scale::page(&check)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.bisect {
        let parts = parts(only, "--bisect", &BisectPart::ALL, BisectPart::word)?;
        let check = bisect_check(trials.unwrap_or(200), *seed, &parts);
        view.print(|| Ok(&check), || Ok(bisect::page(&check)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.gates {
        let check = gate_check(trials.unwrap_or(500), *seed);
        view.print(|| Ok(&check), || Ok(gates::page(&check)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.watch {
        let check = watch_check(trials.unwrap_or(200), *seed);
        view.print(|| Ok(&check), || Ok(watch::page(&check)))?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(only.is_empty(), "--only names parts of --scale or --bisect: add one of them");
    let check = selfcheck(trials.unwrap_or(4000), *seed);
    view.print(|| Ok(&check), || Ok(verdicts::page(&check)))?;
    Ok(if check.missed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
