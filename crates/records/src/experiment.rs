//! An experiment: which workloads run, over which axes, how often. It is a TOML file. The flags of
//! `knee run` make the same value, so that a record always holds the whole experiment.
//!
//! Each axis takes one value or a list; the points are all combinations. The axes of a `[[load]]`
//! replace those of the experiment. Each combination is a cell. With `[[variant]]`s, a cell has a
//! point for each variant, and these points are compared.
//!
//! A file with an unknown key is refused, because knee would not do all that the file asks for. In a
//! record unknown keys are ignored, so that a newer knee may add keys.

mod adaptive;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeTable;

use crate::axes::Axes;
use crate::command::Command;
use crate::daemon::Daemon;
use crate::explain::Explain;
use crate::file_system::{FileSystem, Image, Storage};
use crate::guest::Guest;
use crate::load::{Load, LoadWork};
use crate::metric::{ALLOCATIONS, per_operation};
use crate::own_load::OwnLoad;
use crate::scalar::{Many, Scalar};
use crate::sizes;
use crate::tasks::Form;

pub use adaptive::Adaptive;

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Name in lists: the stem of the file, or the workloads on the command line.
    #[serde(default)]
    pub name: String,
    /// Purpose of the experiment.
    #[serde(default)]
    pub description: String,
    /// The size of the experiment: `here` if it is as the file is written, else the name of a table
    /// `[sizes.NAME]`. Empty if the file has no sizes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub size: String,
    /// The differences of other sizes, by name; [`Experiment::read_at`] applies them.
    #[serde(default, skip_serializing)]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>")]
    pub sizes: BTreeMap<String, toml::Table>,
    /// Passes over all points, each in a random order of its own; the maximum if blocks go on until
    /// decided. See [`Experiment::blocks`] for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Runs of each point before the first block of a session, of which nothing is kept: they fill caches.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_runs: u32,
    /// Seed of the random order; drawn and recorded when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether to time single operations too, in separate runs.
    #[serde(default)]
    pub latency: bool,
    /// How long tasks may take to notice the end of a run, in seconds.
    #[serde(default = "default_stop_grace_s")]
    pub stop_grace_s: f64,
    /// How long set-up, verification and cleanup of a run may take in addition to the run's length, in
    /// seconds. A fixed-count run must end within this time too.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
    /// Axes of all loads.
    #[serde(default)]
    pub axes: Axes,
    /// How CPU counts are chosen while measuring, in place of the axis `cpus`; absent if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
    /// The workloads, each with parameters and axes of its own.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// The variants that are compared; the first is the baseline.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Whether the loads after the first are small changes of it, to see whether its verdict survives them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perturbed: bool,
    /// Combinations of variants that are left out: for each factor, the variants meant.
    #[serde(default, rename = "exclude", skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<BTreeMap<String, Many<String>>>,
    /// Profiles beside the runs, to explain them; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explain>,
    /// How variants are compared.
    #[serde(default, skip_serializing_if = "Judging::is_default")]
    pub compare: Judging,
    /// The virtual machine that runs are made in, if this or the variant names a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// Where knee makes the file systems that variants ask for.
    #[serde(default, skip_serializing_if = "Storage::is_default")]
    pub storage: Storage,
    /// An unmounted, filled file system. Each run of a command that names `{image}` gets a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// More runs of each point before the first block than this are a mistake.
const WARMUP_RUNS_MAX: u32 = 1000;

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn default_stop_grace_s() -> f64 {
    10.0
}

fn default_timeout_s() -> f64 {
    600.0
}

/// One of the things compared: its differences from the load as written. Variants of several factors
/// are combined; each combination is then a variant of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Variant {
    /// Name in tables.
    pub name: String,
    /// The factor. Variants of one factor exclude each other.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub factor: String,
    /// A workload that replaces the load's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Parameters that replace the load's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Scalar>,
    /// Processes or threads.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    /// Which CPUs first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The directory whose file system is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// A file system that knee makes and mounts for its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// Environment variables of the worker and its tasks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Scalar>,
    /// Kernel settings by their sysctl(8) names, restored after each run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, Scalar>,
    /// A program that runs beside each of its runs: a scheduler of sched_ext, tuned, irqbalance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Daemon>,
    /// A command with arguments that starts the worker: `["setarch", "-R"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<String>,
    /// Another build of knee as the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// Differences of its virtual machine from the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
}

/// How variants are compared, and when the measurement may stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Judging {
    /// The metric that decides.
    pub metric: String,
    /// The smallest relevant change, as a share of the baseline's value: 0.02 is 2 %.
    pub smallest_effect: f64,
    /// Whether blocks go on until each comparison is decided, up to `blocks`.
    pub until_decided: bool,
    /// Whether that is each variant against the one before it, as in a series of patches, in place of the first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_steps: bool,
    /// One verdict about many cells: what all of them may cost and how often it may be wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Share of a cell's blocks in which one variant is run twice, to measure how far equal variants
    /// differ.
    pub placebo: f64,
    /// The order in which the points of a block are run.
    pub order: PointOrder,
    /// Name of the report's default layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Metrics that the report shows in addition to the one that decides.
    #[serde(rename = "show", skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
}

/// The bounds of a gate. A cell is also left alone once no change for the worse of `smallest_effect` is likely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Probability that any cell is called changed if nothing is.
    pub alpha: f64,
    /// Seconds that all runs may take.
    pub budget_s: f64,
    /// Runs of a point in a block, whose mean counts.
    #[serde(default = "one_run")]
    pub runs: u32,
}

fn one_run() -> u32 {
    1
}

/// The order in which the points of a block are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointOrder {
    /// The variants of a cell one after the other: drift between them is least.
    #[default]
    Adjacent,
    /// All points of a variant one after the other, and every other block in reverse order: for
    /// variants that are expensive to switch between.
    Grouped,
    /// By ascending CPU count in one block, by descending count in the next: what a run leaves behind shows as
    /// hysteresis.
    UpDown,
}

impl Default for Judging {
    fn default() -> Judging {
        Judging {
            metric: "operations_per_s".to_string(),
            smallest_effect: 0.02,
            until_decided: false,
            in_steps: false,
            gate: None,
            placebo: 0.05,
            order: PointOrder::Adjacent,
            layout: None,
            shown: Vec::new(),
        }
    }
}

impl Judging {
    fn is_default(&self) -> bool {
        *self == Judging::default()
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.smallest_effect > 0.0 && self.smallest_effect < 10.0,
            "smallest_effect is {}, must be a share such as 0.02",
            self.smallest_effect
        );
        ensure!(
            (0.0..=1.0).contains(&self.placebo),
            "placebo is {}, must be a share from 0 to 1",
            self.placebo
        );
        if let Some(Gate { alpha, budget_s, runs }) = self.gate {
            ensure!(
                alpha > 0.0 && alpha < 1.0 && budget_s > 0.0 && runs > 0,
                "gate: alpha is {alpha}, must be a share such as 0.01; budget_s is {budget_s} and runs is {runs}, must be above 0"
            );
        }
        Ok(())
    }
}

impl Default for Experiment {
    fn default() -> Experiment {
        Experiment {
            name: String::new(),
            description: String::new(),
            size: String::new(),
            sizes: BTreeMap::new(),
            blocks: None,
            warmup_runs: 0,
            seed: None,
            latency: false,
            stop_grace_s: default_stop_grace_s(),
            timeout_s: default_timeout_s(),
            axes: Axes::default(),
            adaptive: None,
            loads: Vec::new(),
            variants: Vec::new(),
            perturbed: false,
            exclusions: Vec::new(),
            explain: None,
            compare: Judging::default(),
            guest: None,
            storage: Storage::default(),
            image: None,
        }
    }
}

impl Experiment {
    /// The text of a TOML file that reads as this experiment, without its seed, which may be no number of TOML, and
    /// without the sizes that were not chosen.
    pub fn to_toml(&self) -> Result<String> {
        let file = Experiment {
            seed: None,
            size: String::new(),
            sizes: Default::default(),
            ..self.clone()
        };
        toml::to_string(&file).context("writing the experiment as TOML")
    }

    /// Parses the text of a TOML file, at the size as written. Its other sizes must parse too.
    pub fn read(text: &str) -> Result<Experiment> {
        let document = DeTable::parse(text).context("reading the experiment")?;
        let mut experiment = Experiment::from_document(document, text)?;
        ensure!(
            experiment.size.is_empty() && !experiment.sizes.contains_key(sizes::HERE),
            "reading the experiment: the size `{}` is the file as written: write the differences of \
             other sizes in [sizes.NAME]",
            sizes::HERE
        );
        for size in experiment.sizes.keys() {
            Experiment::read_at(text, size)?;
        }
        if !experiment.sizes.is_empty() {
            experiment.size = sizes::HERE.to_string();
        }
        Ok(experiment)
    }

    /// Parses the text of a TOML file at one of its sizes.
    pub fn read_at(text: &str, size: &str) -> Result<Experiment> {
        let read = |size| Experiment::from_document(sizes::document_at(text, size)?, text);
        read(size).with_context(|| format!("at the size {size}"))
    }

    /// Takes the parsed text, maybe changed, and the text, which errors show.
    fn from_document(document: Spanned<DeTable>, text: &str) -> Result<Experiment> {
        let mut unknown = Vec::new();
        let document = toml::Deserializer::from(document);
        let read = serde_ignored::deserialize(document, |key| unknown.push(key.to_string()));
        // Unknown keys first: a misspelt key would otherwise be reported as a missing one.
        if let Some(key) = unknown.first() {
            bail!("reading the experiment: {}unknown key `{key}`", line_of(text, key));
        }
        let located = |mut error: toml::de::Error| {
            error.set_input(Some(text));
            error
        };
        let experiment: Experiment = read.map_err(located).context("reading the experiment")?;
        experiment.check()?;
        Ok(experiment)
    }

    /// Passes over all points; the maximum if blocks go on until decided. By default 5; 10 if variants
    /// are compared, so that an exact interval exists; 60 if blocks go on until decided. The blocks of a search for a
    /// knee hold few points, and at most 200 of them are made.
    pub fn blocks(&self) -> u32 {
        let default = match self.variants.len() {
            0 | 1 if self.adaptive.is_some() => 200,
            0 | 1 => 5,
            _ if self.compare.until_decided => 60,
            _ => 10,
        };
        self.blocks.unwrap_or(default)
    }

    /// The virtual machine that a variant's runs are made in; `None` if they are made on the host.
    /// Without a variant, the experiment's.
    pub fn guest(&self, variant: Option<&Variant>) -> Option<Guest> {
        self.booted(variant).filter(|guest| guest.metal != Some(true))
    }

    /// The kernel that the host itself boots for a variant's runs; `None` if they are made in a virtual
    /// machine, or on the kernel that runs anyway.
    pub fn metal(&self, variant: Option<&Variant>) -> Option<Guest> {
        self.booted(variant).filter(|guest| guest.metal == Some(true))
    }

    /// Whether a metric decides, itself or an operation's share of it.
    pub fn is_judged_by(&self, metric: &str) -> bool {
        per_operation(&self.compare.metric).0 == metric
    }

    /// Whether allocations of kernel memory are counted: where one of their metrics decides or is shown.
    pub fn counts_allocations(&self) -> bool {
        let asked = self.compare.shown.iter().chain([&self.compare.metric]);
        asked.into_iter().any(|metric| ALLOCATIONS.contains(&per_operation(metric).0))
    }

    /// Whether a variant needs the host to boot another kernel.
    pub fn has_metal(&self) -> bool {
        let variants = self.variants.iter().map(Some).chain([None]);
        variants.into_iter().any(|variant| self.metal(variant).is_some())
    }

    /// The kernel that is booted for a variant's runs, in a virtual machine or on the host itself.
    pub fn booted(&self, variant: Option<&Variant>) -> Option<Guest> {
        let outer = self.guest.clone().unwrap_or_default();
        let own = variant.and_then(|variant| variant.guest.clone()).unwrap_or_default();
        Some(own.over(&outer)).filter(|guest| guest.kernel.is_some() || guest.feature.is_some())
    }

    /// Refuses experiments that no host can plan.
    pub fn check(&self) -> Result<()> {
        ensure!(self.blocks() >= 1, "blocks is 0, must be at least 1");
        ensure!(
            !self.loads.is_empty(),
            "the experiment has no [[load]]: name at least one workload"
        );
        ensure!(
            self.warmup_runs <= WARMUP_RUNS_MAX,
            "warmup_runs is {}, must be at most {WARMUP_RUNS_MAX}",
            self.warmup_runs
        );
        let guests = self.variants.iter().filter_map(|v| v.guest.as_ref()).chain(&self.guest);
        ensure!(
            self.warmup_runs == 0 || guests.into_iter().all(|guest| guest.kernel.is_none()),
            "warmup_runs is for runs on the host itself: what they warm is gone with the next boot"
        );
        let limits = [("stop_grace_s", self.stop_grace_s), ("timeout_s", self.timeout_s)];
        for (name, value) in limits {
            ensure!(value > 0.0 && value < 1e6, "{name} is {value}, must be above 0 s");
        }
        self.axes.check().context("in [axes]")?;
        if let Some(adaptive) = &self.adaptive {
            adaptive.check(self).context("in [adaptive]")?;
        }
        self.image.iter().try_for_each(|image| image.check().context("in [image]"))?;
        self.compare.check().context("in [compare]")?;
        if let Some(explain) = &self.explain {
            explain.check().context("in [explain]")?;
        }
        for variant in &self.variants {
            ensure!(!variant.name.trim().is_empty(), "a [[variant]] has no name");
            let daemon = variant.daemon.as_ref();
            daemon
                .map_or(Ok(()), Daemon::check)
                .with_context(|| format!("in the daemon of variant '{}'", variant.name))?;
        }
        ensure!(
            !self.compare.until_decided || self.variants.len() > 1,
            "until_decided needs at least two variants to compare"
        );
        for load in &self.loads {
            load.check()?;
            load.axes.check().with_context(|| format!("in the axes of {}", load.name()))?;
            for (name, values) in &load.parameters {
                ensure!(
                    !values.0.is_empty(),
                    "parameter {name} of {} is an empty list",
                    load.name()
                );
            }
        }
        Ok(())
    }
}

/// The line of the last key of a dotted path, such as "line 3: "; empty if no line starts with the key.
fn line_of(text: &str, path: &str) -> String {
    let key = path.rsplit('.').next().unwrap_or(path);
    let starts_with_key = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let line = text.lines().position(starts_with_key).map(|index| format!("line {}: ", index + 1));
    line.unwrap_or_default()
}

impl Experiment {
    /// The loads that the user wrote.
    pub fn own_loads(&self) -> impl Iterator<Item = &OwnLoad> {
        self.loads.iter().filter_map(Load::own)
    }

    /// The loads that the user wrote, to be changed.
    pub fn own_loads_mut(&mut self) -> impl Iterator<Item = &mut OwnLoad> {
        self.loads.iter_mut().filter_map(|load| match &mut load.work {
            LoadWork::Own(own) => Some(&mut **own),
            _ => None,
        })
    }

    /// The commands that the experiment defines, to be changed.
    pub fn commands_mut(&mut self) -> impl Iterator<Item = &mut Command> {
        self.loads.iter_mut().filter_map(|load| match &mut load.work {
            LoadWork::Command(command) => Some(&mut **command),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: expect_test::Expect) {
        let shown = match Experiment::read(text) {
            Ok(experiment) => serde_json::to_string(&experiment).unwrap(),
            Err(error) => format!("{error:#}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn an_axis_takes_one_value_or_a_list_of_words_and_numbers() {
        check(
            "[axes]\ncpus = [1, 'cores', \"all\"]\nas = 'threads'\nseconds = 1\n[[load]]\nworkload = 'brk'\n\
             parameters = { hold_ns = [0, 100], mode = 'try' }",
            expect_test::expect![[
                r#"{"name":"","description":"","latency":false,"stop_grace_s":10.0,"timeout_s":600.0,"axes":{"cpus":["1","cores","all"],"as":["threads"],"seconds":[1.0]},"load":[{"workload":"brk","parameters":{"hold_ns":["0","100"],"mode":["try"]}}]}"#
            ]],
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        check(
            "",
            expect_test::expect![[r#"
            reading the experiment: TOML parse error at line 1, column 1
              |
            1 | 
              | ^
            missing field `load`
        "#]],
        );
        check(
            "blocks = 0\n[[load]]\nworkload = 'brk'",
            expect_test::expect!["blocks is 0, must be at least 1"],
        );
        check(
            "[axes]\ntasks = 1\ntasks_per_cpu = 2\n[[load]]\nworkload = 'brk'",
            expect_test::expect!["in [axes]: tasks and tasks_per_cpu exclude each other: give one"],
        );
        check(
            "[[load]]\nworkload = 'brk'\naxes = { cpu = 1 }",
            expect_test::expect!["reading the experiment: unknown key `load.0.axes.cpu`"],
        );
        check(
            "[axes]\nas = 'fibres'\n[[load]]\nworkload = 'brk'",
            expect_test::expect![[r#"
                reading the experiment: TOML parse error at line 2, column 6
                  |
                2 | as = 'fibres'
                  |      ^^^^^^^^
                unknown variant `fibres`, expected `processes` or `threads`
            "#]],
        );
    }
}
