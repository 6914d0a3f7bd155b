//! How near `knee simulate operation` comes to published rates of operations on many CPUs: the rows of
//! `publications/contended-lines/rates.toml`, and the curves of `publications/operations/curves.toml`, each traced on the
//! kernel that it names and simulated on its host.
//!
//! Rules, from before the first row was simulated: as many CPUs as were measured, but no more than the host has on that many
//! nodes; cores before their second threads. Where the rate of one CPU was published, the time of an instruction is fitted
//! to it; else it is the host's assumption. A rate is near if the middle is within a factor of 1.5. Of a curve, each rate over
//! that at the lowest count is compared with the published ratio; the curve is near if all of them are.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ceilings::{LOADS, RATES, Row, answer};
use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory};

const NEAR: f64 = 1.5;

const CURVES: &str = include_str!("../../publications/operations/curves.toml");
const LOADS_OF_CURVES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../publications/operations");

fn figure(what: &str, limit: Limit, values: Vec<f64>) -> Figure {
    Figure { name: format!("operations: {what}"), unit: "", limit, values }
}

/// A simulated rate: the middle, and the lowest and highest of all draws.
struct Simulated {
    cpus: usize,
    middle: f64,
    lowest: f64,
    highest: f64,
    stopped_by: String,
    /// Whether that is changed by compare-and-exchange.
    compares: bool,
}

/// Traces and simulates all rows, and grades them.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let rows = |text: &str| -> Result<BTreeMap<String, Row>> {
        let mut rows: BTreeMap<String, Row> = toml::from_str(text).context("reading a table")?;
        rows.retain(|_, row| options.set.as_ref().is_none_or(|set| row.set == *set));
        Ok(rows)
    };
    let curves = curves(bench, options, &rows(CURVES)?)?;
    let mut figures = rates(bench, options, &rows(RATES)?)?;
    figures.extend(curves);
    Ok(figures)
}

/// Simulates curves, and grades their bends.
fn curves(bench: &Bench, options: &Options, rows: &BTreeMap<String, Row>) -> Result<Vec<Figure>> {
    let kernels: BTreeMap<String, PathBuf> = options.kernel.iter().cloned().collect();
    let home = fresh_directory(&temp_dir())?;
    let (mut near, mut of, mut factors) = (0, 0, Vec::new());
    for (name, row) in rows.iter().filter(|(_, row)| row.curve.len() > 1) {
        of += 1;
        let bends = match bends(bench, home.path(), row, &kernels) {
            Ok(bends) => bends,
            // Refused, and so not near.
            Err(why) => {
                eprintln!("operations, curve {name}: not simulated: {why:#}");
                continue;
            }
        };
        let all_near = bends.iter().all(|bend| bend.is_near());
        eprintln!(
            "operations, curve {name}: {}{}",
            told(&bends),
            if all_near { ", near" } else { "" }
        );
        near += u32::from(all_near);
        factors.extend(bends.iter().map(Bend::factor));
    }
    let share = f64::from(near) / f64::from(of.max(1));
    Ok(vec![
        figure("curves whose ratios are all within 1.5, share", Limit::AtLeast(0.7), vec![share]),
        figure("simulated / published ratio of a curve", Limit::None, factors),
    ])
}

/// The rate at a number of CPUs over that at the lowest, published and simulated.
struct Bend {
    cpus: usize,
    published: f64,
    simulated: f64,
}

impl Bend {
    fn factor(&self) -> f64 {
        self.simulated / self.published
    }

    fn is_near(&self) -> bool {
        (1.0 / NEAR..=NEAR).contains(&self.factor())
    }
}

fn told(bends: &[Bend]) -> String {
    let one =
        |bend: &Bend| format!("{} CPUs {:.2} for {:.2}", bend.cpus, bend.simulated, bend.published);
    bends.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn bends(
    bench: &Bench,
    home: &Path,
    row: &Row,
    kernels: &BTreeMap<String, PathBuf>,
) -> Result<Vec<Bend>> {
    let described = described_hosts::find(&row.host)?;
    let topology = described.topology();
    let of_nodes = topology.cpus.iter().filter(|cpu| (cpu.node as usize) < row.nodes).count();
    let mut published = Vec::new();
    for (cpus, rate) in &row.curve {
        let cpus: usize = cpus.parse().context("a curve's key is a number of CPUs")?;
        published.extend((cpus <= of_nodes).then_some((cpus, *rate)));
    }
    published.sort_by_key(|(cpus, _)| *cpus);
    let counts: Vec<String> = published.iter().map(|(cpus, _)| cpus.to_string()).collect();
    let beside = Path::new(LOADS_OF_CURVES);
    let mut words = row.arguments(&["simulate", "operation"], &row.host, beside, kernels)?;
    words.extend(["--cpus", &counts.join(","), "--draws", "0"].map(str::to_string));
    if let Some(rate) = row.curve.get("1") {
        words.extend(["--rate".to_string(), rate.to_string()]);
    }
    let answer = answer(bench, home, &words)?;
    let simulated = |index: usize| {
        let rate = answer["operations"][0]["points"][index]["operations_per_s"].as_f64();
        rate.context("the answer has no rate")
    };
    let (_, lowest) = *published.first().context("no count that the host has")?;
    let first = simulated(0)?;
    let bend = |(index, (cpus, rate)): (usize, &(usize, f64))| {
        let simulated = simulated(index)? / first;
        Ok(Bend { cpus: *cpus, published: rate / lowest, simulated })
    };
    published.iter().enumerate().skip(1).map(bend).collect()
}

/// Simulates single rates, and grades them.
fn rates(bench: &Bench, options: &Options, rows: &BTreeMap<String, Row>) -> Result<Vec<Figure>> {
    let kernels: BTreeMap<String, PathBuf> = options.kernel.iter().cloned().collect();
    let home = fresh_directory(&temp_dir())?;
    let (mut near, mut inside, mut factors) = (0, 0, Vec::new());
    let mut graded = String::new();
    for (name, row) in rows {
        let simulated = match simulated(bench, home.path(), row, &kernels) {
            Ok(simulated) => simulated,
            Err(why) => {
                eprintln!("operations, {name}: not simulated: {why:#}");
                continue;
            }
        };
        let Simulated { cpus, middle, lowest, highest, stopped_by, compares } = simulated;
        write!(
            graded,
            "\n[[row]]\nname = {name:?}\ncompares = {compares}\npublished = {:.1}\nmiddle = {middle:.1}\nlow = {lowest:.1}\n\
             high = {highest:.1}\n",
            row.rate
        )?;
        let factor = middle / row.rate;
        let is_near = (1.0 / NEAR..=NEAR).contains(&factor);
        let is_inside = (lowest..=highest).contains(&row.rate);
        near += u32::from(is_near);
        inside += u32::from(is_inside);
        factors.push(factor);
        eprintln!(
            "operations, {name}: {:.0}/s at {}, simulated {middle:.0} ({lowest:.0} to {highest:.0}) at {cpus}: factor \
             {factor:.2}{}{}; {stopped_by}",
            row.rate,
            row.cpus,
            if is_near { ", near" } else { "" },
            if is_inside { ", inside" } else { "" },
        );
    }
    eprintln!("operations: rows of publications/grades/operations.toml:\n{graded}");
    let share = |count: u32| vec![f64::from(count) / rows.len() as f64];
    Ok(vec![
        figure("published rates within a factor of 1.5, share", Limit::AtLeast(0.7), share(near)),
        figure("published rates inside the interval, share", Limit::AtLeast(0.8), share(inside)),
        figure("simulated / published rate", Limit::None, factors),
    ])
}

fn simulated(
    bench: &Bench,
    home: &Path,
    row: &Row,
    kernels: &BTreeMap<String, PathBuf>,
) -> Result<Simulated> {
    let host = row.nearest.as_ref().unwrap_or(&row.host);
    let described = described_hosts::find(host)?;
    let topology = described.topology();
    let of_nodes = topology.cpus.iter().filter(|cpu| (cpu.node as usize) < row.nodes).count();
    let cpus = row.cpus.min(of_nodes);
    let mut words = row.arguments(&["simulate", "operation"], host, Path::new(LOADS), kernels)?;
    words.extend(["--cpus".to_string(), cpus.to_string(), "--draws".to_string(), "20".to_string()]);
    if let Some(rate) = row.curve.get("1") {
        words.extend(["--rate".to_string(), rate.to_string()]);
    }
    let answer = answer(bench, home, &words)?;
    let operation = &answer["operations"][0];
    let point = &operation["points"][0];
    let rate = |key: &str| point[key].as_f64().context("the answer has no rate");
    Ok(Simulated {
        cpus,
        middle: rate("operations_per_s")?,
        lowest: rate("operations_per_s_lowest")?,
        highest: rate("operations_per_s_highest")?,
        stopped_by: operation["stops"][0]["member"].as_str().unwrap_or("no line").to_string(),
        compares: operation["stops"][0]["compares"] == true,
    })
}
