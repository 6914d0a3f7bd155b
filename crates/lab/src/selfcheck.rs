//! `knee selfcheck`: how often knee's rule for verdicts is right, compared with the rules of other
//! tools, by simulation; with `--host`, how often it is right on this host.

mod on_host;

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::selfcheck::selfcheck;
use anyhow::{Context, Result, ensure};
use bisection::selfcheck::{BisectPart, bisect_check};
use host::terminal::print;
use laws::selfcheck::{Part, scale_check};
use runner::End;
use serde::Serialize;
use text::Style;

/// What to simulate.
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
    #[arg(long, conflicts_with = "host")]
    scale: bool,
    /// Parts of --scale or --bisect to check [default: all]
    ///
    /// --scale has knees, quantities, cliffs, forecasts, searches, fragile; --bisect has searches, series, screening,
    /// choice. The numbers of a part do not depend on which others are checked.
    #[arg(long, value_delimiter = ',', value_name = "PART", conflicts_with = "host")]
    only: Vec<String>,
    /// Check searches of simulated ranges of commits instead, beside the rules of other tools
    ///
    /// --trials is then the number of ranges of each kind, 200 by default.
    #[arg(long, conflicts_with_all = ["host", "scale"])]
    bisect: bool,
    /// Compare real operations on this host instead: identical ones, and ones with a planted cost
    /// of known size. Takes about 40 minutes
    #[arg(long, conflicts_with_all = ["trials", "seed"])]
    host: bool,
    /// Share of the comparisons of --host to run, 1 for all
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", requires = "host")]
    share: f64,
    /// Length of each run of --host, in seconds
    #[arg(long, default_value_t = 0.05, requires = "host")]
    seconds: f64,
    /// Directory for the files of --host [default: the temporary directory]
    #[arg(long, requires = "host")]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    let style = &Style::for_stdout();
    let Arguments { trials, seed, only, .. } = arguments;
    if arguments.host {
        return check_host(arguments, style);
    }
    if arguments.scale {
        let parts = parts(only, "--scale", &Part::ALL, Part::word)?;
        let check = scale_check(trials.unwrap_or(200), *seed, &parts);
        return show(&check, reports::selfcheck_scale(&check, style), arguments.json);
    }
    if arguments.bisect {
        let parts = parts(only, "--bisect", &BisectPart::ALL, BisectPart::word)?;
        let check = bisect_check(trials.unwrap_or(200), *seed, &parts);
        return show(&check, reports::selfcheck_bisect(&check, style), arguments.json);
    }
    ensure!(only.is_empty(), "--only names parts of --scale or --bisect: add one of them");
    let check = selfcheck(trials.unwrap_or(4000), *seed);
    let shown = show(&check, reports::selfcheck(&check, style), arguments.json)?;
    Ok(if check.missed() { ExitCode::FAILURE } else { shown })
}

fn show(check: &impl Serialize, table: String, as_json: bool) -> Result<ExitCode> {
    print(if as_json { serde_json::to_string_pretty(check)? + "\n" } else { table })?;
    Ok(ExitCode::SUCCESS)
}

fn check_host(arguments: &Arguments, style: &Style) -> Result<ExitCode> {
    ensure!(
        arguments.share > 0.0 && arguments.share <= 10.0,
        "--share {}: must be above 0 and at most 10",
        arguments.share
    );
    let options = on_host::HostCheckOptions {
        seconds: arguments.seconds,
        share: arguments.share,
        dir: arguments.dir.clone().unwrap_or_else(host::paths::temporary),
    };
    let (check, end) = on_host::check(&options)?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&check)? + "\n"
    } else {
        reports::selfcheck_host(&check, style)
    };
    print(text)?;
    Ok(match end {
        End::Interrupted => ExitCode::from(130),
        End::Complete if check.missed() => ExitCode::FAILURE,
        End::Complete => ExitCode::SUCCESS,
    })
}
