//! Whether simulated locks agree with native runs here: the host is calibrated, then all locks run both ways at
//! settings drawn from the seed, at 1 CPU, 2, 4 and so on up to all.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

const SETTINGS: usize = 10;

/// A load of a lock.
#[derive(Debug)]
struct Setting {
    hold_ns: u64,
    work_ns: u64,
    lines_written: u64,
    lines_read: u64,
}

impl Setting {
    /// A random one. Every second holds the lock for at least 0.5 us: long enough for waiters to sleep.
    fn draw(random: &mut Xoshiro256PlusPlus, index: usize) -> Setting {
        let mut time = |low: f64, high: f64| (low * (high / low).powf(random.random())) as u64;
        let hold_ns = if index.is_multiple_of(2) { time(20.0, 500.0) } else { time(500.0, 5000.0) };
        let work_ns = time(100.0, 5000.0);
        let mut lines = || random.random_range(0..=8);
        Setting { hold_ns, work_ns, lines_written: lines(), lines_read: lines() }
    }

    fn flags(&self) -> Vec<String> {
        let Setting { hold_ns, work_ns, lines_written, lines_read } = self;
        let flags = [
            ["--hold".to_string(), format!("{hold_ns}ns")],
            ["--work".to_string(), format!("{work_ns}ns")],
            ["--data".to_string(), lines_written.to_string()],
            ["--read".to_string(), lines_read.to_string()],
        ];
        flags.concat()
    }
}

/// By number of CPUs the share of locks and settings that agree, and each lock's ratios.
pub fn measure(bench: &mut Bench, _: &Options) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    eprintln!("calibrating this host");
    let host = home.path().join("here.toml");
    let calibrated = output(bench.knee(home.path()).arg("calibrate"))?.stdout;
    fs::write(&host, &calibrated).with_context(|| format!("writing {}", host.display()))?;
    let most = available_parallelism()?.get();
    let counts: Vec<String> =
        (0..).map(|i| 1 << i).take_while(|n| *n <= most).map(|n| n.to_string()).collect();
    let mut ratios: BTreeMap<(u64, String), Vec<f64>> = BTreeMap::new();
    for index in 0..SETTINGS {
        let setting = Setting::draw(&mut bench.random, index);
        eprintln!("agreement, {} of {SETTINGS}: {setting:?}", index + 1);
        for one in agreements(bench, &host, &setting, &counts.join(","))? {
            let cpus = one["cpus"].as_u64().context("the CPU count is missing")?;
            let name = one["name"].as_str().context("the name is missing")?;
            let ratio = one["ratio"]["median"].as_f64().context("the ratio is missing")?;
            if one["agrees"] == false {
                eprintln!("  {name} at {cpus} CPUs: {ratio:.2}");
            }
            ratios.entry((cpus, name.to_string())).or_default().push(ratio);
        }
    }
    println!("{}", String::from_utf8_lossy(&calibrated));
    Ok(figures(&ratios))
}

fn agreements(bench: &Bench, host: &Path, setting: &Setting, counts: &str) -> Result<Vec<Value>> {
    let home = fresh_directory(&temp_dir())?;
    let mut command = bench.knee(home.path());
    command.args(["simulate", "all", "--check", "--json", "--cpus", counts, "--host"]).arg(host);
    command.args(setting.flags());
    let mut result: Value = serde_json::from_slice(&output(&mut command)?.stdout)?;
    match result["agreements"].take() {
        Value::Array(all) => Ok(all),
        other => anyhow::bail!("no agreements but {other}"),
    }
}

fn figures(ratios: &BTreeMap<(u64, String), Vec<f64>>) -> Vec<Figure> {
    let mut by_count: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for ((cpus, _), ratios) in ratios {
        by_count.entry(*cpus).or_default().extend(ratios);
    }
    let agrees = |ratio: &&f64| (0.8..=1.25).contains(*ratio);
    let share = |(cpus, ratios): (&u64, &Vec<f64>)| Figure {
        name: format!("locks × settings that agree at {cpus} CPUs"),
        unit: "",
        limit: Limit::AtLeast(0.9),
        values: vec![ratios.iter().filter(agrees).count() as f64 / ratios.len() as f64],
    };
    let ratio = |((cpus, name), ratios): (&(u64, String), &Vec<f64>)| Figure {
        name: format!("{name} at {cpus} CPUs: simulated / native"),
        unit: "",
        limit: Limit::None,
        values: ratios.clone(),
    };
    by_count.iter().map(share).chain(ratios.iter().map(ratio)).collect()
}
