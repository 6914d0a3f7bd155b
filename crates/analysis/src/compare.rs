//! From the runs of several variants to what is said about them. docs/methodology.md gives
//! the reasons; `judge` decides about one column of numbers, this module lays the columns out.

use std::collections::BTreeSet;

use records::{
    Better, METRICS, Opened, Outcome, Point, Policy, Record, ReplicationUnit, Run, Until,
};

use crate::blocks::{Block, blocks, disturbance};
use crate::columns::{Column, by_boot, change, finite, margin, paired, scale, scaled};
use crate::comparison::{
    CellComparison, Comparison, Contrast, Design, MetricComparison, Scale, Verdict,
};
use crate::judge::{Decision, Judgement, Rule};
use crate::multiplicity::{benjamini_hochberg, holm_adjusted, holm_levels};
use crate::{Spread, matching, repeats, survey};

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
    /// Compare although workload versions or parameters differ, and judge times of guests that
    /// were emulated.
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
    let own = Rules::of(&first.record);
    let rules = Rules {
        primary: options.primary.clone().unwrap_or(own.primary),
        asked: options.metrics.clone(),
        smallest_effect: options.smallest_effect.unwrap_or(own.smallest_effect),
        sequential: design == Design::Blocks { sequential: true },
        by_boot: !one_record && (kernels(arms).len() > 1 || in_guests(arms)),
        judge_emulated: options.force,
        ..own
    };
    let matched = matching::cells(arms, options.force)?;
    let raw = cells(matched.cells.clone(), in_blocks);
    if !arms.iter().any(|arm| arm.record.runs.iter().any(|run| run.repeat > 0)) {
        return Ok(survey::whole(arms, design, &rules, &raw, &raw, matched.left_out));
    }
    let merged: Vec<Opened> = arms.iter().map(|arm| repeats::merged(arm.record)).collect();
    // Blocks are shared by what is one record.
    let place = |record: &Opened| {
        let same = |arm: &Arm| std::ptr::eq(arm.record, record);
        arms.iter().position(same).unwrap_or_default()
    };
    let points = matched.cells.iter().map(|points| {
        points.iter().map(|(record, index)| (&merged[place(record)], *index)).collect()
    });
    let merged_cells = cells(points.collect(), in_blocks);
    Ok(survey::whole(arms, design, &rules, &merged_cells, &raw, matched.left_out))
}

/// The points of a cell of variants, the baseline's first, that are to run in block `block`, by
/// the runs of the blocks before: all until enough blocks count for each pair, or until all is
/// decided. A variant whose runs have all failed is given up, a baseline with its whole cell.
pub fn wanted(record: &Record, points: &[usize], runs: &[&Run], block: u32) -> Vec<usize> {
    let cap = record.experiment.blocks();
    let runs = repeats::of_runs(runs.iter().copied());
    let blocks = blocks(record, points, &runs);
    let rules = Rules::of(record);
    let metric = record.deciding_or(&record.points[points[0]], &rules.primary);
    let has = |block: &Block, place: usize| {
        block.runs[place].is_some_and(|run| finite(run, &metric).is_some())
    };
    let hopeless = |place: usize| blocks.len() >= 3 && !blocks.iter().any(|b| has(b, place));
    let alive: Vec<usize> = (0..points.len()).filter(|place| !hopeless(*place)).collect();
    // Blocks that are left out are run again, within reason.
    if block >= cap + cap.div_ceil(3) || alive.first() != Some(&0) || alive.len() < 2 {
        return Vec::new();
    }
    let pairs = |place: usize| -> Vec<(&Run, &Run)> {
        blocks.iter().filter_map(|block| block.pair(0, place)).collect()
    };
    let enough = alive[1..].iter().all(|place| pairs(*place).len() >= cap as usize);
    let decided = || {
        let side = |place: &usize| blocks.iter().filter_map(|b| b.runs[*place]).collect();
        let sides: Vec<Vec<&Run>> = alive.iter().map(side).collect();
        let unit = unit(record, &metric).0;
        let lined_up = LinedUp::new(&sides, &metric, &unit, |side, scale| {
            paired(&pairs(alive[side]), &metric, scale)
        });
        lined_up.judged(&rules).iter().all(|judgement| judgement.stop)
    };
    if enough || (rules.sequential && decided()) {
        return Vec::new();
    }
    alive.into_iter().map(|place| points[place]).collect()
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
    /// Whether times of guests that were emulated are judged like any others.
    pub judge_emulated: bool,
}

impl Rules {
    /// Those of a record's own experiment.
    fn of(record: &Record) -> Rules {
        let judging = &record.experiment.compare;
        Rules {
            primary: judging.metric.clone(),
            asked: Vec::new(),
            smallest_effect: judging.smallest_effect,
            sequential: judging.until_decided,
            cap: record.experiment.blocks(),
            by_boot: false,
            judge_emulated: false,
        }
    }

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

/// Cells with their runs.
fn cells(points: Vec<Vec<(&Opened, usize)>>, in_blocks: bool) -> Vec<Cell<'_>> {
    points.into_iter().map(|points| Cell::new(points, in_blocks)).collect()
}

/// Whether runs of any arm were made in guests.
fn in_guests(arms: &[Arm]) -> bool {
    arms.iter().any(|arm| arm.record.record.hypervisor.is_some())
}

/// The points of one cell, one for each arm, with their runs.
pub(crate) struct Cell<'a> {
    /// Record and index of each point.
    pub points: Vec<(&'a Opened, usize)>,
    /// The blocks, where variants share them.
    pub blocks: Option<Vec<Block<'a>>>,
    /// Finished runs of each arm that count, in order of execution.
    pub sides: Vec<Vec<&'a Run>>,
    /// Runs of each arm that were disturbed and left out, where there are no blocks, and why.
    pub disturbed: Vec<Vec<(&'a Run, String)>>,
}

impl<'a> Cell<'a> {
    fn new(points: Vec<(&'a Opened, usize)>, in_blocks: bool) -> Cell<'a> {
        if in_blocks {
            let record = points[0].0;
            let indexes: Vec<usize> = points.iter().map(|(_, index)| *index).collect();
            let blocks = blocks(&record.record, &indexes, &record.runs);
            // A block in which only another variant failed still counts for these two. Where
            // all blocks were disturbed, their values are shown; nothing is judged by them.
            let none_counts = blocks.iter().all(|block| !block.reasons.is_empty());
            let side = |arm: usize| {
                let shown = blocks.iter().filter(|block| block.reasons.is_empty() || none_counts);
                shown.filter_map(|block| block.runs[arm]).collect()
            };
            let sides = (0..points.len()).map(side).collect();
            let disturbed = vec![Vec::new(); points.len()];
            return Cell { points, blocks: Some(blocks), sides, disturbed };
        }
        let mut cell = Cell { points, blocks: None, sides: Vec::new(), disturbed: Vec::new() };
        for (record, index) in &cell.points {
            let point = &record.record.points[*index];
            let (mut side, mut disturbed) = (Vec::new(), Vec::new());
            for run in record.runs_of(*index).filter(|run| run.finished() && !run.placebo) {
                match disturbance(point, run) {
                    None => side.push(run),
                    Some(why) => disturbed.push((run, why)),
                }
            }
            cell.sides.push(side);
            cell.disturbed.push(disturbed);
        }
        cell
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
            let mut contrast = contrast(judgement, p, lined_up.scale, better, self.too_few(rules));
            if let Some(why) = self.says_nothing(metric, rules) {
                // Not tested, so none of those among which a change must stand out.
                let verdict = Verdict::CannotTell { more: None, why: why.to_string() };
                return Contrast { p: None, verdict, ..contrast };
            }
            if let Verdict::CannotTell { more, why } = &mut contrast.verdict
                && rules.sequential
                && judgement.stop
            {
                *why = no_look_left(judgement.n, more.take());
            }
            contrast
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
            let pairs: Vec<_> = blocks.iter().filter_map(|block| block.pair(0, arm)).collect();
            return paired(&pairs, metric, scale);
        }
        let values = |arm: usize| match self.unit_of_replication(rules) {
            ReplicationUnit::Boot if rules.by_boot => {
                by_boot(self.points[arm].0, &self.sides[arm], metric, scale)
            }
            // Values of one run are no replicates: together they are one.
            ReplicationUnit::Sample => Vec::new(),
            _ => {
                let values = self.sides[arm].iter().filter_map(|run| finite(run, metric));
                values.map(|value| scaled(value, scale)).collect()
            }
        };
        Column::Separate(values(0), values(arm))
    }

    /// What is set up anew for each value that counts.
    fn unit_of_replication(&self, rules: &Rules) -> ReplicationUnit {
        let made_anew = |(record, point): &(&Opened, usize)| {
            let record = &record.record;
            record.experiment.storage.policy != Policy::Kept
                && record.variants.iter().any(|variant| {
                    variant.name == record.points[*point].variant && variant.file_system.is_some()
                })
        };
        let sources = self.points.iter().filter_map(|(record, _)| record.record.source.as_ref());
        let imported = sources.map(|source| source.unit).min();
        match (imported, rules.by_boot) {
            (Some(unit), _) => unit,
            (None, true) => ReplicationUnit::Boot,
            (None, false) if self.points.iter().all(made_anew) => ReplicationUnit::Mount,
            (None, false) => ReplicationUnit::Run,
        }
    }
}

impl Cell<'_> {
    /// Why values of a metric say nothing about any processor, if so: instructions that are translated
    /// take other times, and other shares of them. How often an operation does something is as it
    /// would be, and so are sums over a fixed number of operations.
    fn says_nothing(&self, metric: &str, rules: &Rules) -> Option<&'static str> {
        let emulated = self.points.iter().any(|(record, _)| record.record.emulated());
        let counted = matches!(self.point(0).until, Until::OperationsPerTask(_));
        let (unit, _) = unit(&self.points[0].0.record, metric);
        let count = metric.ends_with("/op") || (counted && unit == "1");
        (emulated && !count && !rules.judge_emulated).then_some(
            "emulated: only counts per operation compare (--metric NAME/op; --force judges all the same)",
        )
    }

    /// Why there may be too few units for a verdict.
    fn too_few(&self, rules: &Rules) -> &'static str {
        match (&self.blocks, self.unit_of_replication(rules)) {
            (Some(blocks), _) if blocks.iter().any(|block| !block.reasons.is_empty()) => {
                "too few blocks that the host did not disturb"
            }
            (_, ReplicationUnit::Sample) => "values of one run are no replicates: repeat the run",
            (_, ReplicationUnit::Run) => "too few runs",
            (_, ReplicationUnit::Mount) => {
                "too few mounts: the file system is what differs, so each needs a new one"
            }
            (_, ReplicationUnit::Boot) => {
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

/// After the last look, more of the same run would be one look too many.
fn no_look_left(n: usize, more: Option<u32>) -> String {
    match more {
        Some(more) => format!(
            "the last look is past; a new run of about {} blocks may tell (--blocks)",
            n as u64 + more as u64
        ),
        None => "the last look is past, and the estimate is too near to 0".to_string(),
    }
}

fn verdict(judgement: &Judgement, better: Better, too_few: &str) -> Verdict {
    match judgement.decision {
        // Of values that are all 0, no share could be the smallest that matters.
        _ if judgement.interval == Some((0.0, 0.0)) => Verdict::Same,
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
/// among all of them, in all cells (Benjamini and Hochberg).
pub(crate) fn explore(cells: &mut [CellComparison]) {
    let metrics = || cells.iter().flat_map(|cell| cell.metrics.iter().skip(1));
    let contrasts = metrics().flat_map(|metric| &metric.contrasts);
    // What has no p was not tested.
    let p: Vec<f64> = contrasts.filter_map(|contrast| contrast.p).collect();
    let adjusted = benjamini_hochberg(&p);
    let metrics = cells.iter_mut().flat_map(|cell| cell.metrics.iter_mut().skip(1));
    let contrasts = metrics.flat_map(|metric| &mut metric.contrasts).filter(|c| c.p.is_some());
    for (contrast, adjusted) in contrasts.zip(adjusted) {
        contrast.p = Some(adjusted);
        let stands_out = adjusted <= ALPHA;
        if contrast.verdict.is_change() && !stands_out {
            let why = "it does not stand out among so many metrics".to_string();
            contrast.verdict = Verdict::CannotTell { more: None, why };
        }
    }
}

#[cfg(test)]
mod tests;
