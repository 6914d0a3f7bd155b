//! Whether timing each operation changes how a load scales: then its latencies are those of another load.

use analysis::{Curve, CurveCell, curves};
use records::{Opened, Pass};
use text::prose::counted;
use text::quantity::short;

use crate::curve_table::RATE;
use crate::scaling::load_name;

/// A smaller difference of two factors is no other scaling.
const FACTOR_MIN: f64 = 1.15;
/// A difference has to be so many standard errors.
const ERRORS_MIN: f64 = 3.0;

/// A sentence for each load that scales otherwise when its operations are timed.
pub fn timing_sentences(record: &Opened) -> Vec<String> {
    let curves = curves(record);
    let timed = |untimed: &Curve| curves.iter().find(|timed| is_timed_pass_of(timed, untimed));
    let untimed = curves.iter().filter(|curve| curve.point.pass == Pass::Rate);
    untimed.filter_map(|untimed| sentence(untimed, timed(untimed)?)).collect()
}

fn is_timed_pass_of(timed: &Curve, untimed: &Curve) -> bool {
    let [timed_point, point] = [timed.point, untimed.point].map(|point| {
        (
            (&point.workload, &point.parameters, point.form, point.placement),
            (&point.dir, &point.variant, &point.command),
        )
    });
    timed.point.pass == Pass::Latency
        && timed_point == point
        && timed.tasks_per_cpu == untimed.tasks_per_cpu
}

/// A factor between two rates, and the relative standard error of it.
struct Factor {
    value: f64,
    error: f64,
}

fn sentence(untimed: &Curve, timed: &Curve) -> Option<String> {
    let both = |cell: &&CurveCell| cell_at(timed, cell.point.cpus).is_some();
    let mut cells = untimed.cells.iter().filter(both);
    let (first, last) = (cells.next()?, cells.next_back()?);
    let [fewest, most] = [first, last].map(|cell| cell.point.cpus);
    let without = factor(first, last)?;
    let with = factor(cell_at(timed, fewest)?, cell_at(timed, most)?)?;
    let difference = (with.value / without.value).ln().abs();
    let error = with.error.hypot(without.error);
    if difference < FACTOR_MIN.ln() || difference < ERRORS_MIN * error {
        return None;
    }
    let variant = Some(&untimed.point.variant).filter(|variant| !variant.is_empty());
    let variant = variant.map_or(String::new(), |variant| format!("`{variant}`, "));
    let said = |factor: &Factor| {
        format!("{} ± {}", short(factor.value), short(factor.value * factor.error))
    };
    Some(format!(
        "Timing changes how {variant}{}, {} scale: on {} they reach {} times the rate of {} untimed, and {} times it \
         with each operation timed; the latencies are those of the timed load, not of the one whose rate is shown",
        load_name(untimed.point),
        untimed.point.form.name(),
        counted(most as usize, "CPU"),
        said(&without),
        counted(fewest as usize, "CPU"),
        said(&with)
    ))
}

fn cell_at<'a, 'b>(curve: &'a Curve<'b>, cpus: u32) -> Option<&'a CurveCell<'b>> {
    curve.cells.iter().find(|cell| cell.point.cpus == cpus)
}

/// The rate of one cell over that of another, if both have several runs.
fn factor(first: &CurveCell, last: &CurveCell) -> Option<Factor> {
    let [first, last] = [first.spread(RATE)?, last.spread(RATE)?];
    let relative = |spread: &analysis::Spread| {
        Some(spread.stddev? / (spread.mean * (spread.n as f64).sqrt())).filter(|e| e.is_finite())
    };
    let value = Some(last.mean / first.mean).filter(|value| value.is_finite() && *value > 0.0)?;
    Some(Factor { value, error: relative(&first)?.hypot(relative(&last)?) })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use records::Runs;
    use serde_json::json;

    use super::*;

    /// A record of two CPU counts, with the rates of each pass: untimed on 1 and 2 CPUs, timed on 1 and 2.
    fn record(rates: [[f64; 3]; 4]) -> Opened {
        let point = |pass: &str, cpus: u32| {
            json!({
                "workload": "getppid", "semantics": 1, "parameters": {}, "as": "threads", "cpus": cpus,
                "placement": "cores", "cpu_list": (0..cpus).collect::<Vec<_>>(), "tasks": cpus,
                "until": {"seconds": 1.0}, "pass": pass, "dir": "/tmp",
            })
        };
        let points = [point("rate", 1), point("rate", 2), point("latency", 1), point("latency", 2)];
        let record = serde_json::from_value(json!({
            "format": 2, "id": "r", "state": "whole", "seed": 1, "points": points,
            "experiment": records::Experiment::read("[[load]]\nworkload = 'getppid'").unwrap(),
            "sessions": [], "host": {}, "topology": {"cpus": []}, "directories": [],
        }));
        let mut runs = Runs::default();
        for (point, rates) in rates.iter().enumerate() {
            for (block, rate) in rates.iter().enumerate() {
                let run = json!({
                    "run": runs.len(), "point": point, "block": block, "started": "2026-11-20T12:00:00Z",
                    "state": "finished", "metrics": {"operations_per_s": rate}, "counters": {},
                });
                runs.push(serde_json::from_value(run).unwrap());
            }
        }
        Opened { folder: PathBuf::from("/no/record"), record: record.unwrap(), runs }
    }

    #[test]
    fn timing_that_changes_how_a_load_scales_is_said() {
        let near = |rate: f64| [rate, rate * 1.01, rate * 0.99];
        let check = |rates: [f64; 4], expected: &str| {
            let said = timing_sentences(&record(rates.map(near)));
            assert_eq!(said.is_empty(), expected.is_empty(), "{said:?}");
            assert!(said.iter().all(|one| one.contains(expected)), "{said:?}");
        };
        check(
            [1000.0, 490.0, 500.0, 770.0],
            "on 2 CPUs they reach 0.49 ± 0.004 times the rate of 1 CPU untimed, and 1.54 ± 0.0126 times it with each \
             operation timed",
        );
        // Slower alike: the same scaling.
        check([1000.0, 490.0, 500.0, 245.0], "");
        check([1000.0, 1900.0, 800.0, 1550.0], "");
        // A difference within what runs differ.
        let noisy = [[1000.0, 700.0, 1300.0], [500.0, 900.0, 600.0], near(500.0), near(500.0)];
        assert!(timing_sentences(&record(noisy)).is_empty());
    }
}
