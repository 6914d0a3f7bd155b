//! How near the simulator comes to published curves of one contended word: `publications/contended-words/curves.toml`, the
//! mechanism `counter` on the host of each curve. The residual of curves to which hosts may be fitted (`use = "fit"`), and of
//! the others.

use std::env::temp_dir;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory};

const CURVES: &str = include_str!("../../publications/contended-words/curves.toml");

#[derive(Deserialize)]
struct Curves {
    curve: Vec<Curve>,
}

/// A published curve.
#[derive(Deserialize)]
struct Curve {
    machine: String,
    /// `fit` or `test`.
    r#use: String,
    /// The described host, if there is one.
    host: Option<String>,
    /// `add`, `cas` or `rwlock`.
    operation: String,
    threads: Vec<usize>,
    /// From one operation of a thread to its next.
    ns: Vec<f64>,
}

/// Simulates each curve whose host is described.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let curves: Curves = toml::from_str(CURVES).context("reading the curves")?;
    let (mut fit, mut test) = (Vec::new(), Vec::new());
    for curve in &curves.curve {
        let design = match curve.operation.as_str() {
            "add" => "counter:add",
            "cas" => "counter:compare",
            _ => continue,
        };
        let Some(host) = &curve.host else { continue };
        let logarithms = curve.logarithms(bench, host, design)?;
        let of = if curve.r#use == "test" { &mut test } else { &mut fit };
        of.extend(logarithms);
    }
    let residual = |logarithms: &[f64]| {
        let squares: f64 = logarithms.iter().map(|one| one * one).sum();
        (squares / logarithms.len().max(1) as f64).sqrt()
    };
    let figure = |what: &str, values: &[f64]| Figure {
        name: format!("words: {what}"),
        unit: "",
        limit: Limit::None,
        values: vec![residual(values)],
    };
    Ok(vec![
        figure("root mean square of ln(simulated / published), curves to fit", &fit),
        figure("root mean square of ln(simulated / published), other curves", &test),
    ])
}

impl Curve {
    /// The logarithms of simulated over published times, of two threads and more.
    fn logarithms(&self, bench: &Bench, host: &str, design: &str) -> Result<Vec<f64>> {
        let most = described_hosts::find(host)?.cpus();
        let points = self.threads.iter().zip(&self.ns);
        let points: Vec<(usize, f64)> = points
            .map(|(threads, ns)| (*threads, *ns))
            .filter(|(threads, _)| (2..=most).contains(threads))
            .collect();
        let counts: Vec<String> = points.iter().map(|(threads, _)| threads.to_string()).collect();
        let home = fresh_directory(&temp_dir())?;
        let mut knee = bench.knee(home.path());
        knee.args(["simulate", design, "--host", host, "--cpus", &counts.join(",")]);
        knee.args(["--work", "0ns", "--draws", "0", "--length", "200us", "--json"]);
        let output = knee.output().context("starting knee")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        let mut logarithms = Vec::new();
        for (index, (threads, ns)) in points.iter().enumerate() {
            let rate = answer["algorithms"][0]["points"][index]["operations_per_s"].as_f64();
            let simulated = *threads as f64 * 1e9 / rate.context("the answer has no rate")?;
            logarithms.push((simulated / ns).ln());
        }
        let factors = points.iter().zip(&logarithms);
        let factors = factors.map(|((threads, _), one)| format!("{threads}: {:.2}", one.exp()));
        let factors: Vec<String> = factors.collect();
        eprintln!("words, {} ({}), {}: {}", self.machine, self.r#use, design, factors.join(" "));
        Ok(logarithms)
    }
}
