//! Whether published rates of operations on many CPUs lie in the interval that `knee conflicts` prints for them:
//! `publications/contended-lines/rates.toml`, whose rows were written down before they were traced.

use std::collections::BTreeMap;
use std::env::temp_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory};

pub const RATES: &str = include_str!("../../publications/contended-lines/rates.toml");
pub const LOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../publications/contended-lines");

/// A guest that boots while its host is busy may not find its timer.
const BOOTS: usize = 3;

/// A published rate, and how its operation is traced.
#[derive(Deserialize)]
pub struct Row {
    operation: Option<String>,
    /// A file in C, from the table's folder, in place of a workload.
    load: Option<String>,
    #[serde(default)]
    settings: Vec<String>,
    #[serde(default)]
    threads: bool,
    fs: Option<String>,
    cmdline: Option<String>,
    /// The release of the kernel to boot: a name of `--kernel`.
    kernel: String,
    /// `first` or `second`.
    pub set: String,
    pub host: String,
    /// The described host that is nearest since more are described.
    pub nearest: Option<String>,
    /// Memory nodes that the CPUs are of.
    pub nodes: usize,
    pub cpus: usize,
    /// Operations a second, all CPUs together; 0 where only a curve was published.
    #[serde(default)]
    pub rate: f64,
    /// Rates by number of CPUs, where more were published.
    #[serde(default)]
    pub curve: BTreeMap<String, f64>,
}

impl Row {
    /// The command line of a verb that traces the operation.
    pub fn arguments(
        &self,
        verb: &[&str],
        host: &str,
        beside: &Path,
        kernels: &BTreeMap<String, PathBuf>,
    ) -> Result<Vec<String>> {
        let kernel = kernels.get(&self.kernel).with_context(|| {
            format!("{} is needed: --kernel {}=FILE, a vmlinuz of Debian", self.kernel, self.kernel)
        })?;
        let load = self.load.as_ref().map(|file| beside.join(file).display().to_string());
        let operation = self.operation.clone().or(load).context("a row has an operation")?;
        let mut words: Vec<String> = verb.iter().map(ToString::to_string).collect();
        words.extend([operation, "--json".to_string(), "--yes".to_string()]);
        let mut option = |name: &str, value: &str| {
            words.extend([name.to_string(), value.to_string()]);
        };
        option("--kernel", &kernel.display().to_string());
        option("--host", host);
        self.settings.iter().for_each(|setting| option("--set", setting));
        self.fs.iter().for_each(|kind| option("--fs", kind));
        self.cmdline.iter().for_each(|text| option("--cmdline", text));
        words.extend(self.threads.then(|| "--threads".to_string()));
        Ok(words)
    }

    /// The interval that knee prints, in operations a second.
    fn interval(&self, bench: &Bench, home: &Path, words: &[String]) -> Result<[f64; 2]> {
        let found = &answer(bench, home, words)?["traced"][0]["ceilings"][0]["operations_per_s"];
        serde_json::from_value(found.clone()).context("no line bounds it")
    }
}

/// What knee answers, in one of some boots.
pub fn answer(bench: &Bench, home: &Path, words: &[String]) -> Result<Value> {
    let mut said = String::new();
    for _ in 0..BOOTS {
        let output = bench.knee(home).args(words).output().context("starting knee")?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout)?);
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    ensure!(!said.contains("knee: "), "{}", said.trim());
    anyhow::bail!("knee failed {BOOTS} times")
}

/// Traces all rows and grades them.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let rows: BTreeMap<String, Row> = toml::from_str(RATES).context("reading the table")?;
    let kernels: BTreeMap<String, PathBuf> = options.kernel.iter().cloned().collect();
    let home = fresh_directory(&temp_dir())?;
    let (mut inside, mut above) = (0, 0);
    let (mut beyond, mut widths) = (Vec::new(), Vec::new());
    for (name, row) in &rows {
        let words = row.arguments(&["conflicts"], &row.host, Path::new(LOADS), &kernels)?;
        let [low, high] =
            row.interval(bench, home.path(), &words).with_context(|| format!("tracing {name}"))?;
        let standing = match row.rate {
            rate if rate > high => "above",
            rate if rate < low => "below",
            _ => "inside",
        };
        eprintln!("ceilings, {name}: {:.0}/s, {low:.0} to {high:.0}/s: {standing}", row.rate);
        inside += u32::from(standing == "inside");
        above += u32::from(standing == "above");
        beyond.push(high / row.rate);
        widths.push(high / low);
    }
    let share = f64::from(inside) / rows.len() as f64;
    let figure = |what: &str, limit, values| Figure {
        name: format!("ceilings: {what}"),
        unit: "",
        limit,
        values,
    };
    Ok(vec![
        figure("published rates inside, share", Limit::AtLeast(0.8), vec![share]),
        figure("published rates above the highest", Limit::AtMost(0.0), vec![f64::from(above)]),
        figure("highest / published rate", Limit::None, beyond),
        figure("highest / lowest", Limit::None, widths),
    ])
}
