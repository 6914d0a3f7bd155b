//! Whether doses predict gains: locks with a random hold and random work outside. From doses inside, what a shorter hold
//! will gain is predicted; then it is made shorter and measured.

use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

const PAIRS: usize = 30;
const LOCKS: [&str; 6] =
    ["lock_mcs", "lock_ticket", "lock_queued", "lock_clh", "lock_test_and_set", "lock_array"];

/// A lock, and by how much its hold will be shorter.
#[derive(Debug)]
struct Case {
    lock: &'static str,
    hold_ns: u64,
    outside_ns: u64,
    less_ns: u64,
}

impl Case {
    fn draw(random: &mut Xoshiro256PlusPlus) -> Case {
        let hold_ns = (300.0 * 10_f64.powf(random.random())) as u64;
        Case {
            lock: LOCKS.choose(random).expect("there are locks"),
            hold_ns,
            outside_ns: (hold_ns as f64 * 0.3 * 10_f64.powf(random.random())) as u64,
            less_ns: (hold_ns as f64 * random.random_range(0.1..0.3)) as u64,
        }
    }

    fn settings(&self, holds: &[u64]) -> Vec<String> {
        let holds: Vec<String> = holds.iter().map(u64::to_string).collect();
        let flags = [
            self.lock.to_string(),
            "--set".to_string(),
            format!("hold_ns={}", holds.join(",")),
            "--set".to_string(),
            format!("idle_ns={}~exp", self.outside_ns),
        ];
        flags.to_vec()
    }
}

/// How often the gain lies in its predicted interval, and how far from the prediction it is, in percent points.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let (mut inside, mut errors) = (Vec::new(), Vec::new());
    for index in 1..=PAIRS {
        let case = Case::draw(&mut bench.random);
        let home = fresh_directory(&options.dir)?;
        let doses = [0, 1, 2, 4].map(|times| case.hold_ns + times * case.less_ns);
        run(bench, home.path(), &case.settings(&doses), "10")?;
        let predicted = predicted(bench, home.path())?;
        run(
            bench,
            home.path(),
            &case.settings(&[case.hold_ns - case.less_ns, case.hold_ns]),
            "10",
        )?;
        let gain = measured(bench, home.path(), &case)?;
        let is_inside = (predicted.low..=predicted.high).contains(&gain);
        eprintln!(
            "gain, {index} of {PAIRS}: {case:?}: predicted {:.1} % ({:.1} to {:.1}), measured {:.1} %",
            100.0 * predicted.value,
            100.0 * predicted.low,
            100.0 * predicted.high,
            100.0 * gain
        );
        inside.push(f64::from(u8::from(is_inside)));
        errors.push(100.0 * (gain - predicted.value).abs());
    }
    let share = inside.iter().sum::<f64>() / PAIRS as f64;
    let near = errors.iter().filter(|error| **error <= 3.0).count() as f64 / PAIRS as f64;
    Ok(vec![
        figure(
            "measured gain in the predicted interval: share of pairs",
            "",
            Limit::AtLeast(0.9),
            vec![share],
        ),
        figure(
            "measured gain within 3 points of the predicted: share of pairs",
            "",
            Limit::AtLeast(25.0 / 30.0),
            vec![near],
        ),
        figure("measured gain, distance from the predicted", "points", Limit::None, errors),
    ])
}

fn figure(name: &str, unit: &'static str, limit: Limit, values: Vec<f64>) -> Figure {
    Figure { name: name.to_string(), unit, limit, values }
}

/// Runs points in blocks on all CPUs.
fn run(bench: &Bench, home: &Path, settings: &[String], blocks: &str) -> Result<()> {
    let cpus = available_parallelism()?.to_string();
    let mut command = bench.knee(home);
    command.args([
        "run",
        "--as",
        "threads",
        "--cpus",
        &cpus,
        "--blocks",
        blocks,
        "--seconds",
        "0.1",
    ]);
    output(command.args(settings)).map(drop)
}

/// A gain as a share.
struct Predicted {
    value: f64,
    low: f64,
    high: f64,
}

fn predicted(bench: &Bench, home: &Path) -> Result<Predicted> {
    let mut command = bench.knee(home);
    let doses: Value = serde_json::from_slice(&output(command.args(["scale", "--json"]))?.stdout)?;
    let dose = doses.as_array().and_then(|all| all.iter().find_map(|one| one.get("dose")));
    let gain = dose.and_then(|dose| dose["points"][0]["gains"][1].get("measured"));
    let gain = gain.with_context(|| format!("no gain in {doses}"))?;
    let number = |value: &Value| value.as_f64().context("no number");
    Ok(Predicted {
        value: number(&gain["value"])?,
        low: number(&gain["interval"][0])?,
        high: number(&gain["interval"][1])?,
    })
}

/// The gain of the shorter hold, by means of as many runs as a dose has.
fn measured(bench: &Bench, home: &Path, case: &Case) -> Result<f64> {
    let mut command = bench.knee(home);
    let shown: Value = serde_json::from_slice(&output(command.args(["show", "--json"]))?.stdout)?;
    let rate = |hold_ns: u64| -> Result<f64> {
        let curves = shown["curves"].as_array().context("no curves")?;
        let hold = hold_ns.to_string();
        let curve = curves.iter().find(|curve| curve["parameters"]["hold_ns"] == hold.as_str());
        let metrics = curve.map(|curve| &curve["cells"][0]["metrics"]["operations_per_s"]);
        metrics.and_then(|metric| metric["mean"].as_f64()).context("no rate")
    };
    Ok(rate(case.hold_ns - case.less_ns)? / rate(case.hold_ns)? - 1.0)
}
