//! A pair as `pairs.toml` has it, and the experiment that it makes.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use toml::{Table, Value};

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// All of them.
    #[serde(rename = "pair")]
    pub pairs: Vec<Pair>,
}

/// Two variants and the truth about them; or several equal ones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// What is planted.
    pub name: String,
    load: Table,
    axes: Table,
    #[serde(default)]
    before: Table,
    #[serde(default)]
    after: Table,
    /// How many equal variants there are instead of a before and an after.
    #[serde(default)]
    pub same: usize,
    /// Operations of one run of a command.
    #[serde(default = "one")]
    pub operations: f64,
    /// What may be named first.
    #[serde(default)]
    pub causes: Vec<Truth>,
    /// How the clean runs tell the size of the first cause.
    pub size: Option<Size>,
}

fn one() -> f64 {
    1.0
}

/// A cause that is right.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Words of the row's path.
    pub row: String,
    /// Kind of the change.
    pub how: How,
    /// How many times as often, where that is known.
    pub ratio: Option<f64>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// More often.
    Count,
    /// Dearer.
    Cost,
    /// A larger share of the time.
    Time,
    /// Nothing counts it.
    Any,
}

/// What tells the true size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// The CPU time of the tasks per operation, of the first cause.
    Cpu,
    /// The CPU time of the tasks per operation, all of it: one change may be several calls and much user
    /// code.
    CpuOfAll,
}

impl Pair {
    /// Two programs, each a line; they are equal if there is no truth about them. Both print `ops: N`.
    /// Their size is judged if the change is in the CPU time of the tasks.
    pub fn of_programs(
        name: String,
        [before, after]: [&str; 2],
        causes: Vec<Truth>,
        size: Option<Size>,
    ) -> Pair {
        let line = |line: &str| {
            let command = Table::from_iter([("command".to_string(), Value::String(line.into()))]);
            Table::from_iter([("parameters".to_string(), Value::Table(command))])
        };
        let load = "command.run = '{command...}'\ncommand.operations = 'ops'\n\
                    [[command.metric]]\nname = 'ops'\nregex = 'ops: ([0-9]+)'\n";
        Pair {
            name,
            load: load.parse().expect("a table"),
            axes: "dir = '/dev/shm'\ncpus = 'all'".parse().expect("a table"),
            before: line(before),
            after: line(after),
            same: if causes.is_empty() { 2 } else { 0 },
            operations: one(),
            causes,
            size,
        }
    }

    /// The lines of two programs; nothing of a pair that is an experiment.
    pub fn lines(&self) -> Vec<&str> {
        let sides = [&self.before, &self.after].into_iter();
        sides.filter_map(|side| side.get("parameters")?.get("command")?.as_str()).collect()
    }

    /// Names of the variants; the first is the baseline.
    pub fn variants(&self) -> Vec<String> {
        match self.same {
            0 => ["before", "after"].map(str::to_string).to_vec(),
            several => (0..several).map(|copy| format!("equal{copy}")).collect(),
        }
    }

    /// The experiment as text; `programs` is where those of this battery are built.
    pub fn experiment(&self, blocks: usize, seconds: f64, programs: &Path) -> Result<String> {
        let mut axes = self.axes.clone();
        if !self.load.contains_key("command") {
            axes.insert("seconds".into(), Value::Float(seconds));
        }
        let looks = ["time", "counts"].map(|look| Value::String(look.into()));
        let explain = Table::from_iter([("looks".to_string(), Value::Array(looks.to_vec()))]);
        let judging = Table::from_iter([("placebo".to_string(), Value::Integer(0))]);
        let variants = self.variants().into_iter().enumerate().map(|(index, name)| {
            let mut variant = if index == 0 { self.before.clone() } else { self.after.clone() };
            variant.insert("name".into(), Value::String(name));
            Value::Table(variant)
        });
        let experiment = Table::from_iter([
            ("blocks".to_string(), Value::Integer(blocks as i64)),
            ("axes".to_string(), Value::Table(axes)),
            ("explain".to_string(), Value::Table(explain)),
            ("compare".to_string(), Value::Table(judging)),
            ("load".to_string(), Value::Array(vec![Value::Table(self.load.clone())])),
            ("variant".to_string(), Value::Array(variants.collect())),
        ]);
        let programs = format!("{}/planted-", programs.display());
        Ok(toml::to_string(&experiment)?.replace("PLANTED/", &programs))
    }
}
