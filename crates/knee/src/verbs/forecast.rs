//! `knee scale forecast`: rates with more CPUs than were measured.

mod joined;
mod waiting;

use std::path::PathBuf;
use std::process::ExitCode;

use answers::{CurveForecast, Forecasts, SimulatedHandOver};
use anyhow::{Context, Result, bail, ensure};
use laws::{Known, Quantity, forecast};
use pages::{CurvePart, ViewFlags};
use records::parse;
use reports::{draw_ceilings, draw_joined, forecast_panel};
use store::Store;
use text::quantity::duration_ns as duration_text;

use super::scale::{CurveSource, Sweeps, TitledSweep};

/// Forecast rates with more CPUs than were measured
///
/// The answer says what each forecast rests on, and refuses where the curve says nothing of larger hosts. What is known of
/// the lock narrows it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    source: CurveSource,
    /// Numbers of CPUs to forecast
    ///
    /// A curve alone reaches twice the CPUs that were measured.
    #[arg(long, value_name = "CPUS", value_delimiter = ',', required = true,
          value_parser = clap::value_parser!(u32).range(1..=16384))]
    to: Vec<u32>,
    /// Time for which the lock is held, where it is known: 210ns, or 210ns~5% with its uncertainty
    ///
    /// From the ledger of `knee explain`, say. Its standard deviation is 5 % unless you say otherwise.
    #[arg(long, value_name = "TIME[~PERCENT]", value_parser = |text: &str| uncertain(text, 5.0))]
    held: Option<UncertainTime>,
    /// Time that each waiting task adds to that: 12ns, or 12ns~20%
    ///
    /// Its standard deviation is 20 % unless you say otherwise. Near 0 for a lock whose waiters spin on lines of their
    /// own, about the read of a shared line for a ticket lock (`busy_shared` of `knee doctor calibrate`).
    #[arg(long, value_name = "TIME[~PERCENT]", value_parser = |text: &str| uncertain(text, 20.0))]
    hand_over: Option<UncertainTime>,
    /// Simulate on this host what a waiting task adds, in place of --hand-over
    ///
    /// A host from `knee list hosts`, or a file by `knee doctor calibrate`. All tasks wait for the lock of --lock, held for
    /// the time of --held (200 ns without it).
    #[arg(long, value_name = "HOST", requires = "lock", conflicts_with = "hand_over")]
    host: Option<String>,
    /// Lock to simulate, from `knee list algorithms`
    #[arg(long, value_name = "LOCK", requires = "host")]
    lock: Option<String>,
    /// Answer of `knee simulate operation LOAD --json`, to join the simulated curve to the measured one
    #[arg(long, value_name = "FILE")]
    simulated: Option<PathBuf>,
    #[command(flatten)]
    view: ViewFlags,
}

/// A time with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UncertainTime {
    ns: f64,
    /// The standard deviation of its logarithm.
    deviation: f64,
}

/// `210ns` or `210ns~5%`.
fn uncertain(text: &str, default_percent: f64) -> Result<UncertainTime> {
    let (time, percent) = text.split_once('~').map_or((text, None), |(a, b)| (a, Some(b)));
    let ns = parse::time_ns(time)?;
    ensure!(ns > 0, "a time must be above 0");
    let percent = match percent {
        None => default_percent,
        Some(percent) => {
            let number = percent.trim_end_matches('%').parse::<f64>();
            number.with_context(|| format!("{percent:?} is no number of percent"))?
        }
    };
    ensure!(percent > 0.0 && percent <= 100.0, "{percent} %: must be above 0 and at most 100");
    Ok(UncertainTime { ns: ns as f64, deviation: percent / 100.0 })
}

/// Prints forecasts of all curves that allow one.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let known = |quantity, time: Option<UncertainTime>| {
        time.map(|time| Known { quantity, log: (time.ns / 1e9).ln(), deviation: time.deviation })
    };
    let simulated = simulated_hand_over(arguments)?;
    let of_simulation = simulated
        .as_ref()
        .map(|one| UncertainTime { ns: one.ns, deviation: waiting::deviation(one) });
    let hand_over = arguments.hand_over.or(of_simulation);
    let known: Vec<Known> =
        [known(Quantity::Hold, arguments.held), known(Quantity::Handover, hand_over)]
            .into_iter()
            .flatten()
            .collect();
    let Sweeps { all, title, record, .. } = arguments.source.sweeps(store)?;
    let mut to = arguments.to.clone();
    to.sort_unstable();
    to.dedup();
    let operations = arguments.simulated.as_deref().map(joined::read).transpose()?;
    let mut parts = Vec::new();
    let forecasts = all.into_iter().map(|one| {
        let TitledSweep { title, rate, identity: curve, has_task_per_cpu, sweep, ceilings, .. } =
            one;
        let simulated_curve = operations
            .as_ref()
            .and_then(|operations| joined::joined(operations, &curve, sweep.as_ref().ok()));
        let made = sweep.and_then(|sweep| {
            let found = forecast(&sweep, &known, &to)?;
            let mut panel = forecast_panel(&rate, &sweep, &found);
            draw_ceilings(&mut panel, &ceilings);
            simulated_curve.iter().for_each(|joined| draw_joined(&mut panel, joined));
            Ok((panel, found))
        });
        let (panel, says) = match made {
            Ok((panel, forecast)) => {
                let hand_over = simulated.clone();
                let simulated = simulated_curve;
                (
                    Some(panel),
                    CurveForecast::Made { curve, forecast, hand_over, ceilings, simulated },
                )
            }
            Err(refused) => {
                (None, CurveForecast::Refused { curve, refused, simulated: simulated_curve })
            }
        };
        parts.push(CurvePart { title, panel, has_task_per_cpu });
        says
    });
    let forecasts = Forecasts(forecasts.collect());
    if operations.is_some() && !forecasts.0.iter().any(has_simulated) {
        bail!("--simulated has no operation of these curves at a number of CPUs that was measured");
    }
    if let [CurveForecast::Refused { refused, simulated: None, .. }] = &forecasts.0[..] {
        bail!("{refused}");
    }
    let page = || {
        let hand_over = simulated.as_ref().map(sentence);
        Ok(pages::forecasts(&title, record.as_ref(), parts, &forecasts, hand_over))
    };
    arguments.view.print(|| Ok(&forecasts), page)?;
    let is_made = |one: &CurveForecast| matches!(one, CurveForecast::Made { .. });
    let has_one = forecasts.0.iter().any(|one| is_made(one) || has_simulated(one));
    Ok(if has_one { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn has_simulated(one: &CurveForecast) -> bool {
    match one {
        CurveForecast::Made { simulated, .. } | CurveForecast::Refused { simulated, .. } => {
            simulated.is_some()
        }
    }
}

fn simulated_hand_over(arguments: &Arguments) -> Result<Option<SimulatedHandOver>> {
    let (Some(host), Some(lock)) = (&arguments.host, &arguments.lock) else { return Ok(None) };
    let hold_ns = arguments.held.map_or(200, |held| held.ns as u64);
    let most = arguments.to.iter().copied().max().unwrap_or(0);
    waiting::hand_over(lock, host, hold_ns, most).map(Some)
}

/// "each waiting task adds 36.9 ns (30 to 45 ns …): ticket, simulated on …".
fn sentence(found: &SimulatedHandOver) -> String {
    let SimulatedHandOver { lock, host, cpus, ns, range_ns: (low, high) } = found;
    format!(
        "each waiting task adds {} ({} to {} over what is known of the host's numbers): {lock}, \
         simulated on {host} with {} to {} CPUs",
        duration_text(*ns),
        duration_text(*low),
        duration_text(*high),
        cpus.0,
        cpus.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_an_uncertainty() {
        let check = |text, ns, deviation| {
            assert_eq!(uncertain(text, 5.0).unwrap(), UncertainTime { ns, deviation }, "{text}");
        };
        check("210ns", 210.0, 0.05);
        check("1.5us~20%", 1500.0, 0.2);
        check("10ns~1", 10.0, 0.01);
        for text in ["0ns", "5", "5ns~x", "5ns~0", "5ns~200%"] {
            assert!(uncertain(text, 5.0).is_err(), "{text}");
        }
    }
}
