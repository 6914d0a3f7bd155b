//! One cell of a comparison: its points, one for each arm, with the runs that count, and the
//! verdict about each metric.

use std::collections::BTreeSet;

use records::{
    METRICS, MetricKind, Opened, Point, Policy, Record, ReplicationUnit, Run, Until, Values,
    per_operation,
};

use super::blocks::{Block, blocks, disturbance};
use super::columns::{Column, MetricColumns, by_boot, finite, scaled, unit_and_direction};
use super::emulated::hidden_by_emulation;
use super::rules::Rules;
use super::sessions;
use super::taken::TakenRuns;
use super::verdicts::{contrast, no_look_left};
use crate::comparison::{Contrast, Design, MetricComparison, Scale, TakenIn, Verdict};
use crate::judge::{Judgement, MISSES};
use crate::multiplicity::holm_adjusted;
use crate::{Modes, Spread};

/// The points of one cell, one for each arm, with their runs.
pub(super) struct ComparedCell<'a> {
    /// Record and index of each point.
    pub points: Vec<(&'a Opened, usize)>,
    /// The blocks, if the variants share them.
    pub blocks: Option<Vec<Block<'a>>>,
    /// The finished runs of each arm that count, in order of execution.
    pub sides: Vec<Vec<&'a Run>>,
    /// With blocks, for each arm: which run of the baseline and which of the arm share a block that counts.
    pairs: Vec<Vec<(usize, usize)>>,
    /// Without blocks: the runs of each arm that were left out, and what disturbed them.
    pub disturbed: Vec<Vec<(&'a Run, String)>>,
}

impl<'a> ComparedCell<'a> {
    pub fn new(points: Vec<(&'a Opened, usize)>, in_blocks: bool) -> ComparedCell<'a> {
        if in_blocks { ComparedCell::in_blocks(points) } else { ComparedCell::separate(points) }
    }

    fn in_blocks(points: Vec<(&'a Opened, usize)>) -> ComparedCell<'a> {
        let record = points[0].0;
        let indexes: Vec<usize> = points.iter().map(|(_, index)| *index).collect();
        let blocks = blocks(&record.record, &indexes, record.runs_of_all(&indexes));
        // A block in which only another variant failed still counts for these two. If all
        // blocks were disturbed, their values are shown; nothing is judged by them.
        let none_counts = blocks.iter().all(|block| !block.reasons.is_empty());
        let arms = points.len();
        let (mut sides, mut pairs) = (vec![Vec::new(); arms], vec![Vec::new(); arms]);
        for block in blocks.iter().filter(|block| block.reasons.is_empty() || none_counts) {
            for arm in 0..arms {
                if block.pair(0, arm).is_some() {
                    // The baseline's run is there already, as the last one.
                    pairs[arm].push((sides[0].len().saturating_sub(1), sides[arm].len()));
                }
                sides[arm].extend(block.runs[arm]);
            }
        }
        let disturbed = vec![Vec::new(); arms];
        ComparedCell { points, blocks: Some(blocks), sides, pairs, disturbed }
    }

    fn separate(points: Vec<(&'a Opened, usize)>) -> ComparedCell<'a> {
        let (mut sides, mut disturbed) = (Vec::new(), Vec::new());
        for (record, index) in &points {
            let point = &record.record.points[*index];
            let (mut kept, mut left_out) = (Vec::new(), Vec::new());
            for run in record.runs_of(*index).filter(|run| run.finished() && !run.placebo) {
                match disturbance(&record.record, point, run) {
                    None => kept.push(run),
                    Some(why) => left_out.push((run, why)),
                }
            }
            sides.push(kept);
            disturbed.push(left_out);
        }
        ComparedCell { points, blocks: None, sides, pairs: Vec::new(), disturbed }
    }

    /// The point of an arm.
    pub fn point(&self, arm: usize) -> &'a Point {
        let (record, index) = self.points[arm];
        &record.record.points[index]
    }

    /// The metric that decides about this cell.
    pub fn primary(&self, rules: &Rules) -> String {
        self.points[0].0.record.deciding_or(self.point(0), &rules.primary)
    }

    /// Each metric that any run has, the deciding one first.
    pub fn metrics(&self, rules: &Rules) -> Vec<(String, Role)> {
        let primary = self.primary(rules);
        let secondary = self.names(rules).into_iter().filter(|name| *name != primary);
        let mut metrics: Vec<_> = secondary.map(|name| (name, Role::Secondary)).collect();
        metrics.insert(0, (primary, Role::Primary));
        metrics
    }

    /// Fails where the records of two arms give a metric in different units.
    pub fn units_agree(&self, metric: &str) -> Result<(), String> {
        let measured = self
            .points
            .iter()
            .zip(&self.sides)
            .filter(|(_, runs)| runs.iter().any(|run| run.value(metric).is_some()));
        let mut known = measured.map(|((record, _), _)| &record.record);
        let Some(first) = known.next() else { return Ok(()) };
        let told = |record: &Record| {
            let (unit, better) = unit_and_direction(record, metric);
            (unit, better.name())
        };
        match known.find(|other| told(other) != told(first)) {
            None => Ok(()),
            Some(other) => {
                let ((unit, better), (other_unit, other_better)) = (told(first), told(other));
                Err(format!(
                    "{metric} is in {unit} (better: {better}) in {}, and in {other_unit} (better: \
                     {other_better}) in {}: import one of them again in the unit of the other",
                    first.id, other.id
                ))
            }
        }
    }

    /// Names of all metrics: those of the list, those of the record, and those asked for. Not those whose units differ.
    fn names(&self, rules: &Rules) -> Vec<String> {
        let mut last: Option<&Values<f64>> = None;
        let measured: BTreeSet<&str> = self
            .sides
            .iter()
            .flatten()
            .filter_map(|run| run.metrics())
            .filter(|next| !last.replace(next).is_some_and(|last| last.shares_names_with(next)))
            .flat_map(Values::keys)
            .collect();
        let listed = METRICS.iter().flat_map(|m| measured.iter().filter(|name| m.matches(name)));
        let unlisted = measured.iter().filter(|name| !METRICS.iter().any(|m| m.matches(name)));
        let mut names: Vec<String> = listed.chain(unlisted).map(|name| name.to_string()).collect();
        names.extend(rules.asked.iter().filter(|name| !measured.contains(name.as_str())).cloned());
        names.retain(|name| self.units_agree(name).is_ok());
        names
    }

    /// The comparisons of some metrics, whose values one walk over the runs reads.
    pub fn compared(&self, metrics: &[(String, Role)], rules: &Rules) -> Vec<MetricComparison> {
        let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
        let read = self.read(&names);
        let named = metrics.iter().zip(&read);
        named.map(|((name, role), values)| self.metric(name, values, rules, *role)).collect()
    }

    fn metric(
        &self,
        metric: &str,
        values: &[Vec<Option<f64>>],
        rules: &Rules,
        role: Role,
    ) -> MetricComparison {
        let (unit, better) = unit_and_direction(&self.points[0].0.record, metric);
        let columns = self.columns_of(values, metric, &unit, rules);
        let judgements = match role {
            Role::Primary => columns.judged(rules),
            Role::Secondary => columns.judged_alone(rules),
        };
        let p: Vec<f64> = judgements.iter().map(|j| j.p.unwrap_or(1.0)).collect();
        let adjusted = holm_adjusted(&p);
        let hidden = self.hidden(metric, rules);
        let drifts = self.drifts(metric, rules, role);
        let contrast = |(judgement, adjusted): (&Judgement, f64)| {
            let p = judgement.p.map(|own| if role == Role::Primary { adjusted } else { own });
            let mut contrast = contrast(judgement, p, columns.scale, better, self.too_few(rules));
            let too_few = matches!(contrast.verdict, Verdict::Unjudged { .. });
            // More units are no help where the guest was emulated, and are where the host may have drifted.
            let is_far = role == Role::Primary && is_far(judgement, columns.scale);
            let drifted =
                || Some(Verdict::NotInterleaved).filter(|_| drifts && !too_few && !is_far);
            if let Some(verdict) = hidden.clone().or_else(drifted) {
                // No test, so not among the metrics that an exploratory change competes with.
                return Contrast { p: None, verdict, ..contrast };
            }
            if let Verdict::CannotTell { more, why } = &mut contrast.verdict
                && rules.sequential()
                && (judgement.stop
                    || more.is_some_and(|more| judgement.n as u32 + more > rules.cap))
            {
                *why = no_look_left(judgement, more.take(), rules.cap);
            }
            contrast
        };
        let explained = |(index, (judgement, adjusted))| {
            let mut contrast = contrast((judgement, adjusted));
            if let Verdict::CannotTell { why, more } = &mut contrast.verdict
                && why.is_empty()
            {
                if let Some(reason) = self.order_as_reason(index + 1, rules) {
                    // More of them in this order hardly help.
                    (*why, *more) = (reason, None);
                }
                let side = |arm: usize| -> Vec<f64> {
                    values[arm].iter().flatten().map(|x| scaled(*x, columns.scale)).collect()
                };
                let seen = Modes::seen([&side(0), &side(index + 1)]);
                contrast.modes = contrast.modes.or(seen.filter(|_| role == Role::Primary));
            }
            contrast
        };
        let side = |arm| Spread::from_values(&self.summarized(arm, values, &judgements, rules));
        let mut contrasts: Vec<Contrast> =
            judgements.iter().zip(adjusted).enumerate().map(explained).collect();
        if rules.spares_harmless && role == Role::Primary {
            let harmless = columns.harmless_at(MISSES[0], rules, better);
            contrasts.iter_mut().zip(harmless).for_each(|(one, harmless)| one.harmless = harmless);
        }
        MetricComparison {
            metric: metric.to_string(),
            unit,
            better,
            sides: (0..self.sides.len()).map(side).collect(),
            contrasts,
        }
    }

    /// The values of the baseline and an arm in the order in which they were taken.
    pub fn taken(&self, arm: usize) -> Option<TakenRuns<'_>> {
        let side = |arm: usize| (self.points[arm].0, &self.sides[arm][..]);
        TakenRuns::new(side(0), side(arm)).filter(|_| self.blocks.is_none())
    }

    /// Why the order of the values leaves open whether the arm differs.
    fn order_as_reason(&self, arm: usize, rules: &Rules) -> Option<String> {
        let Design::Unpaired { .. } = rules.design else { return None };
        let taken = self.taken(arm)?;
        let noun = taken.unit.noun();
        let is_named = self.point(0).variant != self.point(arm).variant;
        let name = |arm: usize| {
            if is_named { &self.point(arm).variant } else { &self.points[arm].0.record.id }
        };
        match taken.order() {
            TakenIn::Turn => None,
            TakenIn::Sequence => {
                let (first, last) = if taken.variant_came_first() { (arm, 0) } else { (0, arm) };
                let [first, last] = [first, last].map(name);
                Some(format!(
                    "the {noun}s of `{first}` all came before those of `{last}`, so drift of the host may be the difference"
                ))
            }
            TakenIn::UnknownOrder => Some(format!(
                "the order of the {noun}s is not known, so drift of the host may be the difference"
            )),
        }
    }

    /// For each metric and side, the value of each run. A run is looked at once, since a record may have very many.
    fn read(&self, metrics: &[&str]) -> Vec<Vec<Vec<Option<f64>>>> {
        let room = || self.sides.iter().map(|side| Vec::with_capacity(side.len())).collect();
        let mut read: Vec<Vec<Vec<Option<f64>>>> = metrics.iter().map(|_| room()).collect();
        for (arm, side) in self.sides.iter().enumerate() {
            for run in side {
                for (metric, values) in metrics.iter().zip(&mut read) {
                    values[arm].push(finite(run, metric));
                }
            }
        }
        read
    }

    /// The values of an arm that tables summarize. Where blocks go on until decided, those of the
    /// blocks up to the look that was judged, so that the mean is of the same blocks as the interval.
    fn summarized(
        &self,
        arm: usize,
        values: &[Vec<Option<f64>>],
        judgements: &[Judgement],
        rules: &Rules,
    ) -> Vec<f64> {
        if self.blocks.is_none() || !rules.sequential() {
            return values[arm].iter().copied().flatten().collect();
        }
        // The baseline has a pair with each variant: with the one that was judged by most of them.
        let most = (1..self.sides.len()).max_by_key(|other| judgements[other - 1].n);
        let partner = if arm > 0 { arm } else { most.unwrap_or_default() };
        let pairs = self.pairs[partner].iter();
        let pairs = pairs.filter_map(|(a, b)| Some((values[0][*a]?, values[partner][*b]?)));
        let own = pairs.map(|(baseline, variant)| if arm > 0 { variant } else { baseline });
        own.take(judgements.get(partner.wrapping_sub(1)).map_or(0, |j| j.n)).collect()
    }

    /// The columns of a metric, one for each arm but the first.
    pub fn columns(&self, metric: &str, unit: &str, rules: &Rules) -> MetricColumns {
        self.columns_of(&self.read(&[metric])[0], metric, unit, rules)
    }

    fn columns_of(
        &self,
        values: &[Vec<Option<f64>>],
        metric: &str,
        unit: &str,
        rules: &Rules,
    ) -> MetricColumns {
        MetricColumns::new(values, unit, |arm, scale| {
            self.column(arm, values, metric, scale, rules)
        })
    }

    fn column(
        &self,
        arm: usize,
        values: &[Vec<Option<f64>>],
        metric: &str,
        scale: Scale,
        rules: &Rules,
    ) -> Column {
        let scaled = |value: &Option<f64>| value.map(|value| scaled(value, scale));
        if self.blocks.is_some() {
            let difference =
                |(a, b): &(usize, usize)| Some(scaled(&values[arm][*b])? - scaled(&values[0][*a])?);
            return Column::Paired(self.pairs[arm].iter().filter_map(difference).collect());
        }
        if rules.design == Design::Sessions {
            return sessions::differences(&self.sides[0], &self.sides[arm], metric, scale);
        }
        if let Design::Unpaired { .. } = rules.design {
            let taken = self.taken(arm).map(|taken| taken.values(metric, scale));
            return Column::Taken(taken.unwrap_or_default());
        }
        let units = |arm: usize| match self.unit_of_replication(rules) {
            ReplicationUnit::Boot if rules.by_boot => {
                by_boot(self.points[arm].0, &self.sides[arm], metric, scale)
            }
            // Values of one run are not replicates of each other.
            ReplicationUnit::Sample => Vec::new(),
            _ => values[arm].iter().filter_map(scaled).collect(),
        };
        Column::Separate(units(0), units(arm))
    }

    /// What is set up anew for each value that counts.
    fn unit_of_replication(&self, rules: &Rules) -> ReplicationUnit {
        let is_made_anew = |(record, point): &(&Opened, usize)| {
            let record = &record.record;
            record.experiment.storage.policy != Policy::Kept
                && record.variants.iter().any(|variant| {
                    variant.name == record.points[*point].variant && variant.file_system.is_some()
                })
        };
        let sources = self.points.iter().filter_map(|(record, _)| record.record.source.as_ref());
        match sources.map(|source| source.unit).min() {
            Some(imported) => imported,
            None if rules.by_boot => ReplicationUnit::Boot,
            None if self.points.iter().all(is_made_anew) => ReplicationUnit::Mount,
            None => ReplicationUnit::Run,
        }
    }

    /// The verdict where an emulated guest forbids any other.
    pub fn hidden(&self, metric: &str, rules: &Rules) -> Option<Verdict> {
        let (record, _) = self.points.iter().find(|(record, _)| record.record.emulated())?;
        let runs: Vec<&Run> = self.sides.concat();
        let why = hidden_by_emulation(&record.record, metric, self.point(0).until, &runs)?;
        (!rules.judge_emulated).then_some(Verdict::CannotTell { more: None, why })
    }

    /// Whether the host's drift may look like a change of the metric. A count that was asked for hardly depends on how
    /// fast the host is at the time, if it is per operation or over a fixed number of operations.
    fn drifts(&self, metric: &str, rules: &Rules, role: Role) -> bool {
        let record = &self.points[0].0.record;
        let fixed_count = matches!(self.point(0).until, Until::OperationsPerTask(_));
        let (unit, _) = unit_and_direction(record, metric);
        let is_asked = role == Role::Primary || rules.asked.iter().any(|name| name == metric);
        let is_count = record.kind_of(metric) != Some(MetricKind::Time)
            && (per_operation(metric).1 || (fixed_count && unit == "1"));
        rules.design == Design::Separate && !(is_count && is_asked)
    }

    /// Why there may be too few units for a verdict.
    fn too_few(&self, rules: &Rules) -> &'static str {
        match (&self.blocks, self.unit_of_replication(rules)) {
            (Some(blocks), _) if blocks.iter().any(|block| !block.reasons.is_empty()) => {
                "too few blocks that the host did not disturb"
            }
            _ if rules.design == Design::Sessions => "too few sessions in turn",
            _ if matches!(rules.design, Design::Unpaired { .. }) => "too few values of a side",
            (_, ReplicationUnit::Sample) => "values of one run are not replicates: repeat the run",
            (_, ReplicationUnit::Run) => "too few runs",
            (_, ReplicationUnit::Mount) => {
                "too few mounts: the file systems differ, so each value needs a new mount"
            }
            (_, ReplicationUnit::Boot) => {
                "too few boots: the kernels differ, so each value needs a new boot"
            }
        }
    }
}

/// Whether the whole interval is a change by a factor that no host is known to drift by between two sessions.
fn is_far(judgement: &Judgement, scale: Scale) -> bool {
    const FACTOR: f64 = 2.0;
    let is_beyond = |(low, high): (f64, f64)| low > FACTOR.ln() || high < -FACTOR.ln();
    scale == Scale::Relative && judgement.interval.is_some_and(is_beyond)
}

/// Whether a metric decides, or is shown besides the one that does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Role {
    Primary,
    Secondary,
}
