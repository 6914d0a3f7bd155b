//! From the runs of several variants to what is said about them. docs/methodology.md gives
//! the reasons; `judge` decides about one column of numbers, this module lays the columns out.

use std::collections::BTreeSet;

use records::{Better, METRICS, Opened, Outcome, Point, Record, Run, Unit};

use crate::blocks::{Block, blocks};
use crate::columns::{Column, by_boot, change, finite, margin, paired, scale, scaled};
use crate::comparison::{Comparison, Contrast, Design, MetricComparison, Scale, Verdict};
use crate::judge::{Decision, Judgement, Rule};
use crate::multiplicity::{benjamini_hochberg, holm_adjusted, holm_levels};
use crate::{Spread, matching, survey};

/// What to compare: a variant of a record, or a record without variants.
#[derive(Clone, Copy, Debug)]
pub struct Arm<'a> {
    /// What tables call it.
    pub name: &'a str,
    /// Where its runs are.
    pub record: &'a Opened,
    /// The variant of that record; empty where it has none.
    pub variant: &'a str,
}

/// How to compare.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The metric that decides; by default the experiment's.
    pub primary: Option<String>,
    /// Further metrics, beside those of the metric list that were measured.
    pub metrics: Vec<String>,
    /// Smallest change that matters; by default the experiment's.
    pub smallest_effect: Option<f64>,
    /// Compare although workload versions or parameters differ.
    pub force: bool,
}

/// The chance of seeing a change where there is none, for all variants of a cell together.
pub const ALPHA: f64 = 0.05;

/// Compares arms, the first of them the baseline. Refuses, with a reason, what has no point in
/// common.
pub fn compare(arms: &[Arm], options: &Options) -> Result<Comparison, String> {
    let first = arms.first().ok_or("nothing to compare")?.record;
    let judging = &first.record.experiment.compare;
    let one_record = arms.iter().all(|arm| std::ptr::eq(arm.record, first));
    let in_blocks = one_record && first.record.source.as_ref().is_none_or(|s| s.blocks);
    let design = match in_blocks {
        true => Design::Blocks { sequential: judging.until_decided },
        false => Design::Separate,
    };
    let rules = Rules {
        primary: options.primary.clone().unwrap_or_else(|| judging.metric.clone()),
        asked: options.metrics.clone(),
        smallest_effect: options.smallest_effect.unwrap_or(judging.smallest_effect),
        sequential: design == Design::Blocks { sequential: true },
        cap: first.record.experiment.blocks(),
        by_boot: !one_record && kernels(arms).len() > 1,
    };
    let cells: Vec<Cell> = matching::cells(arms, options.force)?
        .into_iter()
        .map(|points| Cell::new(points, in_blocks))
        .collect();
    Ok(survey::whole(arms, design, &rules, &cells))
}

/// Whether a cell of variants needs its runs of block `block`, by the runs of the blocks
/// before: until enough blocks are kept, or until all is decided.
pub fn goes_on(record: &Record, points: &[usize], runs: &[&Run], block: u32) -> bool {
    let cap = record.experiment.blocks();
    let blocks = blocks(record, points, runs.iter().copied());
    let kept: Vec<&Block> = blocks.iter().filter(|block| block.kept()).collect();
    // Blocks that are left out are run again, within reason.
    if block >= cap + cap.div_ceil(3)
        || kept.len() >= cap as usize
        || has_hopeless(&blocks, points.len())
    {
        return false;
    }
    let judging = &record.experiment.compare;
    if !judging.until_decided {
        return true;
    }
    let rules = Rules {
        primary: judging.metric.clone(),
        asked: Vec::new(),
        smallest_effect: judging.smallest_effect,
        sequential: true,
        cap,
        by_boot: false,
    };
    let metric = record.deciding_or(&record.points[points[0]], &rules.primary);
    let runs = |variant: usize| kept.iter().filter_map(|block| block.runs[variant]).collect();
    let sides: Vec<Vec<&Run>> = (0..points.len()).map(runs).collect();
    let lined_up = LinedUp::new(&sides, &metric, &unit(record, &metric).0, |variant, scale| {
        let pairs = sides[0].iter().zip(&sides[variant]).map(|(a, b)| (*a, *b)).collect::<Vec<_>>();
        paired(&pairs, &metric, scale)
    });
    let judged = lined_up.judged(&rules);
    judged.iter().any(|j| !matches!(j.decision, Decision::Changed { .. } | Decision::Same))
}

/// Whether a variant has failed in each of at least three blocks.
fn has_hopeless(blocks: &[Block], variants: usize) -> bool {
    let never = |variant: usize| blocks.iter().all(|block| block.runs[variant].is_none());
    blocks.len() >= 3 && (0..variants).any(never)
}

/// What decides, the same for all cells.
pub(crate) struct Rules {
    pub primary: String,
    /// Metrics asked for by name.
    pub asked: Vec<String>,
    pub smallest_effect: f64,
    pub sequential: bool,
    /// Most blocks.
    pub cap: u32,
    /// Whether a unit is a boot: what is compared differs in its kernel.
    pub by_boot: bool,
}

impl Rules {
    fn rule(&self, alpha: f64, margin: f64) -> Rule {
        Rule { alpha, margin, sequential: self.sequential, cap: self.cap }
    }
}

/// The kernels of all arms, where they are known.
fn kernels(arms: &[Arm]) -> BTreeSet<String> {
    let kernel = |arm: &Arm| {
        let host = &arm.record.record.host;
        let parts = [&host.kernel_release, &host.kernel_version, &host.kernel_command_line];
        parts[0].is_some().then(|| format!("{parts:?}"))
    };
    arms.iter().filter_map(kernel).collect()
}

/// The points of one cell, one for each arm, with their runs.
pub(crate) struct Cell<'a> {
    /// Record and index of each point.
    pub points: Vec<(&'a Opened, usize)>,
    /// The blocks, where variants share them.
    pub blocks: Option<Vec<Block<'a>>>,
    /// Finished runs of each arm that count, in order of execution. Where there are blocks,
    /// one for each kept block.
    pub sides: Vec<Vec<&'a Run>>,
}

impl<'a> Cell<'a> {
    fn new(points: Vec<(&'a Opened, usize)>, in_blocks: bool) -> Cell<'a> {
        if in_blocks {
            let record = points[0].0;
            let indexes: Vec<usize> = points.iter().map(|(_, index)| *index).collect();
            let blocks = blocks(&record.record, &indexes, &record.runs);
            // A block in which only another variant failed still counts for these two. Where
            // all blocks were disturbed, their values are shown; nothing is judged by them.
            let none_counts = blocks.iter().all(|block| block.reason.is_some());
            let side = |arm: usize| {
                let shown = blocks.iter().filter(|block| block.reason.is_none() || none_counts);
                shown.filter_map(|block| block.runs[arm]).collect()
            };
            let sides = (0..points.len()).map(side).collect();
            return Cell { points, blocks: Some(blocks), sides };
        }
        let side = |(record, index): &(&'a Opened, usize)| {
            let of_point = |run: &&Run| run.point as usize == *index && !run.placebo;
            record.runs.iter().filter(of_point).filter(|run| run.finished()).collect()
        };
        let sides = points.iter().map(side).collect();
        Cell { points, blocks: None, sides }
    }

    /// The point of an arm.
    pub fn point(&self, arm: usize) -> &'a Point {
        let (record, index) = self.points[arm];
        &record.record.points[index]
    }

    /// The metric that decides about it.
    pub fn primary(&self, rules: &Rules) -> String {
        self.points[0].0.record.deciding_or(self.point(0), &rules.primary)
    }

    /// What is said about all metrics that any run has, the deciding one first.
    pub fn metrics(&self, rules: &Rules) -> Vec<MetricComparison> {
        let primary = self.primary(rules);
        let mut metrics = vec![self.metric(&primary, rules, Role::Primary)];
        let secondary = self.names(rules).into_iter().filter(|name| *name != primary);
        metrics.extend(secondary.map(|name| self.metric(&name, rules, Role::Secondary)));
        explore(&mut metrics[1..]);
        metrics
    }

    /// Metrics beside the primary one: of the list, of the record, and those asked for.
    fn names(&self, rules: &Rules) -> Vec<String> {
        let measured: BTreeSet<&str> = self
            .sides
            .iter()
            .flatten()
            .filter_map(|run| match &run.outcome {
                Outcome::Finished { metrics, .. } => Some(metrics.keys().map(String::as_str)),
                Outcome::Failed { .. } => None,
            })
            .flatten()
            .collect();
        let listed = METRICS.iter().flat_map(|m| measured.iter().filter(|name| m.matches(name)));
        let unlisted = measured.iter().filter(|name| !METRICS.iter().any(|m| m.matches(name)));
        let mut names: Vec<String> = listed.chain(unlisted).map(|name| name.to_string()).collect();
        names.extend(rules.asked.iter().filter(|name| !measured.contains(name.as_str())).cloned());
        names
    }

    fn metric(&self, metric: &str, rules: &Rules, role: Role) -> MetricComparison {
        let (unit, better) = unit(&self.points[0].0.record, metric);
        let lined_up = self.lined_up(metric, &unit, rules);
        let judged = match role {
            Role::Primary => lined_up.judged(rules),
            Role::Secondary => lined_up.judged_alone(rules),
        };
        let p: Vec<f64> = judged.iter().map(|j| j.p.unwrap_or(1.0)).collect();
        let adjusted = holm_adjusted(&p);
        let contrast = |(judgement, adjusted): (&Judgement, f64)| {
            let p = judgement.p.map(|own| if role == Role::Primary { adjusted } else { own });
            contrast(judgement, p, lined_up.scale, better, self.too_few(rules))
        };
        let values = |side: &Vec<&Run>| -> Vec<f64> {
            side.iter().filter_map(|run| finite(run, metric)).collect()
        };
        MetricComparison {
            metric: metric.to_string(),
            unit,
            better,
            sides: self.sides.iter().map(|side| Spread::of(&values(side))).collect(),
            contrasts: judged.iter().zip(adjusted).map(contrast).collect(),
        }
    }

    /// The columns of a metric, one for each arm but the first.
    pub fn lined_up(&self, metric: &str, unit: &str, rules: &Rules) -> LinedUp {
        LinedUp::new(&self.sides, metric, unit, |arm, scale| self.column(arm, metric, scale, rules))
    }

    fn column(&self, arm: usize, metric: &str, scale: Scale, rules: &Rules) -> Column {
        if let Some(blocks) = &self.blocks {
            let counted = blocks.iter().filter(|block| block.reason.is_none());
            let pairs: Vec<_> = counted.filter_map(|b| Some((b.runs[0]?, b.runs[arm]?))).collect();
            return paired(&pairs, metric, scale);
        }
        let values = |arm: usize| match self.unit_of_replication(rules) {
            Unit::Boot if rules.by_boot => {
                by_boot(self.points[arm].0, &self.sides[arm], metric, scale)
            }
            // Values of one run are no replicates: together they are one.
            Unit::Sample => Vec::new(),
            _ => {
                let values = self.sides[arm].iter().filter_map(|run| finite(run, metric));
                values.map(|value| scaled(value, scale)).collect()
            }
        };
        Column::Separate(values(0), values(arm))
    }

    /// What is set up anew for each value that counts.
    fn unit_of_replication(&self, rules: &Rules) -> Unit {
        let sources = self.points.iter().filter_map(|(record, _)| record.record.source.as_ref());
        let imported = sources.map(|source| source.unit).min();
        match (imported, rules.by_boot) {
            (Some(unit), _) => unit,
            (None, true) => Unit::Boot,
            (None, false) => Unit::Run,
        }
    }
}

impl Cell<'_> {
    /// Why there may be too few units for a verdict.
    fn too_few(&self, rules: &Rules) -> &'static str {
        match (&self.blocks, self.unit_of_replication(rules)) {
            (Some(blocks), _) if blocks.iter().any(|block| block.reason.is_some()) => {
                "too few blocks that the host did not disturb"
            }
            (_, Unit::Sample) => "values of one run are no replicates: repeat the run",
            (_, Unit::Run) => "too few runs",
            (_, Unit::Mount) => {
                "too few mounts: the file system is what differs, so each needs a new one"
            }
            (_, Unit::Boot) => {
                "too few boots: the kernel is what differs, so each needs a new boot"
            }
        }
    }
}

/// Whether a metric decides, or is looked at beside the one that does.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Primary,
    Secondary,
}

/// The unit of a metric, and which direction is better.
pub(crate) fn unit(record: &Record, metric: &str) -> (String, Better) {
    if let Some(described) = record.metrics.get(metric) {
        return (described.unit.clone(), described.better);
    }
    let known = METRICS.iter().find(|known| known.matches(metric));
    known.map_or(("1".to_string(), Better::Neither), |m| (m.unit.to_string(), m.better))
}

/// The columns of one metric, ready to be judged.
pub(crate) struct LinedUp {
    pub columns: Vec<Column>,
    pub scale: Scale,
    unit: String,
    baseline_mean: f64,
}

impl LinedUp {
    fn new(
        sides: &[Vec<&Run>],
        metric: &str,
        unit: &str,
        column: impl Fn(usize, Scale) -> Column,
    ) -> LinedUp {
        let of_side = |side: &Vec<&Run>| -> Vec<f64> {
            side.iter().filter_map(|run| finite(run, metric)).collect()
        };
        let values: Vec<Vec<f64>> = sides.iter().map(of_side).collect();
        let scale = scale(unit, values.iter().flatten());
        LinedUp {
            columns: (1..sides.len()).map(|arm| column(arm, scale)).collect(),
            scale,
            unit: unit.to_string(),
            baseline_mean: Spread::of(&values[0]).map_or(0.0, |spread| spread.mean),
        }
    }

    fn rule(&self, rules: &Rules, alpha: f64) -> Rule {
        let margin = margin(rules.smallest_effect, self.scale, &self.unit, self.baseline_mean);
        rules.rule(alpha, margin)
    }

    /// Each against the baseline, all together at the chance of [`ALPHA`], by Holm's
    /// step-down procedure: each at the level at which it was tested.
    pub fn judged(&self, rules: &Rules) -> Vec<Judgement> {
        let alone = self.judged_alone(rules);
        let p: Vec<f64> = alone.iter().map(|j| j.p.unwrap_or(1.0)).collect();
        let levels = holm_levels(&p, ALPHA);
        let each = self.columns.iter().zip(levels);
        each.map(|(column, level)| column.judge(&self.rule(rules, level))).collect()
    }

    /// Each by itself.
    pub fn judged_alone(&self, rules: &Rules) -> Vec<Judgement> {
        self.columns.iter().map(|column| column.judge(&self.rule(rules, ALPHA))).collect()
    }

    /// Intervals at a level of one's own.
    pub fn judged_at(&self, rules: &Rules, alpha: f64) -> Vec<Judgement> {
        self.columns.iter().map(|column| column.judge(&self.rule(rules, alpha))).collect()
    }
}

fn contrast(
    judgement: &Judgement,
    p: Option<f64>,
    scale: Scale,
    better: Better,
    too_few: &str,
) -> Contrast {
    let changed = |(low, high): (f64, f64)| (change(low, scale), change(high, scale));
    Contrast {
        n: judgement.n,
        scale,
        change: judgement.estimate.map(|estimate| change(estimate, scale)),
        interval: judgement.interval.map(changed),
        method: judgement.method,
        p,
        verdict: verdict(judgement, better, too_few),
    }
}

fn verdict(judgement: &Judgement, better: Better, too_few: &str) -> Verdict {
    match judgement.decision {
        Decision::Changed { at_least } => {
            let up = judgement.estimate.unwrap_or(0.0) > 0.0;
            match (better, up) {
                (Better::Higher, true) | (Better::Lower, false) => Verdict::Better { at_least },
                (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse { at_least },
                (Better::Neither, true) => Verdict::More { at_least },
                (Better::Neither, false) => Verdict::Less { at_least },
            }
        }
        Decision::Same => Verdict::Same,
        Decision::CannotTell { more } => Verdict::CannotTell { more, why: String::new() },
        Decision::TooFew { needs } => Verdict::Unjudged { needs, why: too_few.to_string() },
    }
}

/// Verdicts about metrics that nobody named beforehand: a change is one only if it stands out
/// among all of them (Benjamini and Hochberg).
fn explore(metrics: &mut [MetricComparison]) {
    let contrasts = || metrics.iter().flat_map(|metric| &metric.contrasts);
    let p: Vec<f64> = contrasts().map(|contrast| contrast.p.unwrap_or(1.0)).collect();
    let adjusted = benjamini_hochberg(&p);
    let contrasts = metrics.iter_mut().flat_map(|metric| &mut metric.contrasts);
    for (contrast, adjusted) in contrasts.zip(adjusted) {
        contrast.p = contrast.p.map(|_| adjusted);
        let stands_out = adjusted <= ALPHA;
        if contrast.verdict.is_change() && !stands_out {
            let why = "it does not stand out among so many metrics".to_string();
            contrast.verdict = Verdict::CannotTell { more: None, why };
        }
    }
}

#[cfg(test)]
mod tests;
