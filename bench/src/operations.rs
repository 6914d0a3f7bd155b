//! How near `knee simulate operation` comes to published rates of operations on many CPUs: the rows of
//! `publications/contended-lines/rates.toml`, each traced on the kernel that it names and simulated on its host.
//!
//! Rules, from before the first row was simulated: as many CPUs as were measured, but no more than the host has on that many
//! nodes; cores before their second threads. Where the rate of one CPU was published, the time of an instruction is fitted
//! to it; else it is the host's assumption. A row is near if the middle is within a factor of 1.5.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::ceilings::{RATES, Row, answer};
use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory};

const NEAR: f64 = 1.5;

/// A simulated rate: the middle, and the lowest and highest of all draws.
struct Simulated {
    cpus: usize,
    middle: f64,
    lowest: f64,
    highest: f64,
    stopped_by: String,
}

/// Traces and simulates all rows, and grades them.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut rows: BTreeMap<String, Row> = toml::from_str(RATES).context("reading the table")?;
    if let Some(set) = &options.set {
        rows.retain(|_, row| row.set == *set);
    }
    let kernels: BTreeMap<String, PathBuf> = options.kernel.iter().cloned().collect();
    let home = fresh_directory(&temp_dir())?;
    let (mut near, mut inside, mut factors) = (0, 0, Vec::new());
    for (name, row) in &rows {
        let simulated = simulated(bench, home.path(), row, &kernels);
        let Simulated { cpus, middle, lowest, highest, stopped_by } =
            simulated.with_context(|| format!("simulating {name}"))?;
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
    let share = |count: u32| vec![f64::from(count) / rows.len() as f64];
    let figure = |what: &str, limit, values| Figure {
        name: format!("operations: {what}"),
        unit: "",
        limit,
        values,
    };
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
    let mut words = row.arguments(&["simulate", "operation"], host, kernels)?;
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
    })
}
