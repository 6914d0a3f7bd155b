//! A comparison in a sentence for each variant, and its verdicts counted: what a reader sees first.

use std::collections::BTreeMap;

use analysis::{
    CellComparison, Comparison, Contrast, DiscardedBlock, MetricComparison, Scale, Verdict,
};
use records::Better;
use text::prose::counted;

use crate::compare::change::{change, interval, percent, primary, signed_percent, without_values};
use crate::compare::places;

/// How often each verdict was reached by the metric that decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    pub better: usize,
    pub worse: usize,
    /// More or less of a metric that is neither good nor bad.
    pub changed: usize,
    pub same: usize,
    pub cannot_tell: usize,
    /// Without a verdict: too few runs, or variants that were not interleaved.
    pub unjudged: usize,
}

/// A verdict with its place.
struct Judged<'a> {
    cell: usize,
    metric: &'a MetricComparison,
    contrast: &'a Contrast,
}

impl Judged<'_> {
    /// The size of the change, for the order of importance.
    fn size(&self) -> f64 {
        self.contrast.change.unwrap_or(0.0).abs()
    }
}

/// The verdicts of all cells and variants, counted.
pub fn counts(comparison: &Comparison) -> VerdictCounts {
    (1..comparison.variants.len()).fold(VerdictCounts::default(), |mut counts, variant| {
        judged(comparison, variant).iter().for_each(|one| counts.add(&one.contrast.verdict));
        counts
    })
}

impl VerdictCounts {
    fn add(&mut self, verdict: &Verdict) {
        let count = match verdict {
            Verdict::Better { .. } => &mut self.better,
            Verdict::Worse { .. } => &mut self.worse,
            Verdict::More { .. } | Verdict::Less { .. } => &mut self.changed,
            Verdict::Same => &mut self.same,
            Verdict::CannotTell { .. } => &mut self.cannot_tell,
            Verdict::NotInterleaved | Verdict::Unjudged { .. } => &mut self.unjudged,
        };
        *count += 1;
    }
}

/// Variants beside the baseline up to which each gets a sentence of its own; more are ranked in one.
const ALONE_MAX: usize = 3;

/// One sentence for each variant: in how many places it changed, and where most. Many variants are ranked in one.
pub fn answers(comparison: &Comparison) -> Vec<String> {
    match comparison.variants.len() {
        0 | 1 => vec!["One variant: nothing to compare".to_string()],
        _ if comparison.cells.is_empty() => {
            vec!["No verdict: the variants have no point in common".to_string()]
        }
        several if several > ALONE_MAX + 1 => match ranking(comparison).or(none(comparison)) {
            Some(one) => vec![one],
            None => (1..several).map(|variant| answer(comparison, variant)).collect(),
        },
        several => (1..several).map(|variant| answer(comparison, variant)).collect(),
    }
}

fn answer(comparison: &Comparison, variant: usize) -> String {
    let names = [0, variant].map(|index| format!("`{}`", comparison.variants[index].name));
    let mut all = judged(comparison, variant);
    all.sort_by(|a, b| b.size().total_cmp(&a.size()));
    match &all[..] {
        [] => format!("No verdict about {} against {}: nothing is compared", names[1], names[0]),
        [one] => alone(comparison, one, &names),
        _ => among(comparison, &all, &names),
    }
}

/// The only verdict of a variant.
fn alone(comparison: &Comparison, one: &Judged, [baseline, variant]: &[String; 2]) -> String {
    let Judged { metric, contrast, .. } = one;
    let word = contrast.verdict.word(metric.timed());
    let at = places::whole(&comparison.cells[one.cell].key);
    let change = in_words(comparison, one);
    match &contrast.verdict {
        Verdict::Same => format!("{variant} and {baseline} are the same ({change}): {at}"),
        Verdict::Unjudged { .. } if primary(&comparison.cells[one.cell]).is_none() => {
            let why = without_values(comparison, &[(one.cell, &comparison.cells[one.cell])]);
            format!("No verdict about {variant} against {baseline}, as {why}: {at}")
        }
        Verdict::Unjudged { .. } if contrast.n == 0 => {
            let why = why_no_block(comparison);
            format!("No verdict about {variant} against {baseline}, as no block counts{why}: {at}")
        }
        Verdict::CannotTell { .. } | Verdict::NotInterleaved | Verdict::Unjudged { .. } => {
            format!("No verdict about {variant} against {baseline} ({word}; {change}): {at}")
        }
        _ => format!("{variant} is {word} than {baseline}: {change}, {at}"),
    }
}

/// "+2.3%, 95 % interval [+1.4, +4.9], n = 10".
fn in_words(comparison: &Comparison, Judged { metric, contrast, .. }: &Judged) -> String {
    let estimate = change(contrast, &metric.unit);
    let interval = contrast
        .interval
        .map(|_| format!(", {} interval {}", percent(comparison.confidence), interval(contrast)));
    format!("{estimate}{}, n = {}", interval.unwrap_or_default(), contrast.n)
}

/// Several verdicts about a variant, ordered by the size of the change.
fn among(comparison: &Comparison, all: &[Judged], [baseline, variant]: &[String; 2]) -> String {
    let mut counts = VerdictCounts::default();
    all.iter().for_each(|one| counts.add(&one.contrast.verdict));
    let word = |is: fn(&Verdict) -> bool| {
        let one = all.iter().find(|one| is(&one.contrast.verdict));
        one.map_or("", |one| one.contrast.verdict.word(one.metric.timed()))
    };
    let (worse, better) = (
        word(|verdict| matches!(verdict, Verdict::Worse { .. })),
        word(|verdict| matches!(verdict, Verdict::Better { .. })),
    );
    let parts = [
        (counts.worse, worse),
        (counts.better, better),
        (counts.changed, "different"),
        (counts.same, "the same"),
    ];
    let is: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{word} in {n}")).collect();
    let open = counts.cannot_tell + counts.unjudged;
    let places = counted(all.len(), "place");
    if is.is_empty() {
        let no_block = all.iter().all(|one| one.contrast.n == 0);
        let why = if no_block { why_no_block(comparison) } else { String::new() };
        let why = if why.is_empty() { why } else { format!(", as no block counts{why}") };
        return format!("No verdict about {variant} against {baseline} in {places}{why}");
    }
    let open = if open > 0 { format!("; no verdict in {open}") } else { String::new() };
    let most = all.iter().find(|one| one.contrast.verdict.is_change());
    let most = most.map(|one| {
        let at = places::apart(comparison, one.cell);
        format!("; most with {at}: {}", in_words(comparison, one))
    });
    format!(
        "Of {places}, {variant} is {} against {baseline}{open}{}",
        is.join(", "),
        most.unwrap_or_default()
    )
}

/// The contrasts of a variant by the metric that decides, cell by cell.
fn judged(comparison: &Comparison, variant: usize) -> Vec<Judged<'_>> {
    let cells = comparison.cells.iter().enumerate();
    let judged = cells.filter_map(|(cell, of_cell)| {
        let metric = of_cell.metrics.first()?;
        Some(Judged { cell, metric, contrast: metric.contrasts.get(variant - 1)? })
    });
    judged.collect()
}

/// " (left out: 12 of 12 blocks; at worst, in block 3, other programs took 72.7 % of the other CPUs)"; empty where no
/// block was left out. Of several kinds of reasons it is the most frequent one.
fn why_no_block(comparison: &Comparison) -> String {
    let discards = &comparison.discards;
    let mut kinds: BTreeMap<String, Vec<&DiscardedBlock>> = BTreeMap::new();
    for block in &discards.discarded {
        let kind = block.reason.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        kinds.entry(kind).or_default().push(block);
    }
    let amount = |block: &&DiscardedBlock| {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let number = block.reason.split(|c| !is_number(c)).find_map(|text| text.parse().ok());
        number.unwrap_or(0.0)
    };
    let most = kinds.into_values().max_by_key(Vec::len).unwrap_or_default();
    let worst = most.into_iter().max_by(|a, b| f64::total_cmp(&amount(a), &amount(b)));
    worst.map_or(String::new(), |worst| {
        let (left_out, blocks) = (discards.discarded.len(), counted(discards.blocks, "block"));
        let DiscardedBlock { block, reason, .. } = worst;
        format!(" (left out: {left_out} of {blocks}; at worst, in block {block}, {reason})")
    })
}

/// One sentence where no variant has a verdict.
fn none(comparison: &Comparison) -> Option<String> {
    let all: Vec<Judged> =
        (1..comparison.variants.len()).flat_map(|v| judged(comparison, v)).collect();
    if !all.iter().all(is_open) {
        return None;
    }
    let no_block = all.iter().all(|one| one.contrast.n == 0);
    let why = if no_block { why_no_block(comparison) } else { String::new() };
    let why = if why.is_empty() { why } else { format!(", as no block counts{why}") };
    let places = match comparison.cells.len() {
        1 => String::new(),
        n => format!(" in {}", counted(n, "place")),
    };
    let others = comparison.variants.len() - 1;
    let baseline = &comparison.variants[0].name;
    Some(format!("No verdict about any of {others} variants against `{baseline}`{places}{why}"))
}

/// Whether a verdict says nothing.
fn is_open(one: &Judged) -> bool {
    !one.contrast.verdict.is_change() && one.contrast.verdict != Verdict::Same
}

/// A variant in a ranking.
struct Ranked {
    name: String,
    /// The factor against the baseline, where more is better; a geometric mean over places.
    factor: f64,
    /// The change and the verdict, or how many verdicts of which kind.
    said: String,
}

/// All variants in one sentence, the best first, and then those without a verdict; `None` where some changes are no
/// ratios, or too few are known.
fn ranking(comparison: &Comparison) -> Option<String> {
    let baseline = &comparison.variants[0].name;
    let mut open = Vec::new();
    let mut ranked = vec![Ranked { name: baseline.clone(), factor: 1.0, said: "baseline".into() }];
    for (variant, about) in comparison.variants.iter().enumerate().skip(1) {
        match ranked_variant(comparison, variant) {
            Some(one) if judged(comparison, variant).iter().all(is_open) => {
                open.push(format!("`{}` ({})", one.name, one.said));
            }
            Some(one) => ranked.push(one),
            None => open.push(format!("`{}`", about.name)),
        }
    }
    if ranked.len() < 3 || comparison.cells.iter().any(|cell| !has_direction(cell)) {
        return None;
    }
    ranked.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    let one = |one: &Ranked| format!("`{}` ({})", one.name, one.said);
    let mut named: Vec<String> = ranked.iter().map(one).collect();
    if named.len() > RANKED_MAX {
        let last = named.split_off(named.len() - RANKED_LAST);
        let left = named.split_off(RANKED_MAX - RANKED_LAST).len();
        named.push(format!("{left} between"));
        named.extend(last);
    }
    let open = match &open[..] {
        [] => String::new(),
        some => format!("; no verdict about {}", some.join(", ")),
    };
    let places = match &comparison.cells[..] {
        [one] => places::whole(&one.key),
        several => format!("geometric means over {}", counted(several.len(), "place")),
    };
    Some(format!(
        "Of {} variants, the best first: {}{open}; each is compared with `{baseline}`, not with its neighbours: {places}",
        comparison.variants.len(),
        named.join(", ")
    ))
}

/// Variants that a ranking names, and how many of them from its end.
const RANKED_MAX: usize = 16;
const RANKED_LAST: usize = 4;

fn has_direction(cell: &CellComparison) -> bool {
    cell.metrics.first().is_none_or(|metric| metric.better != Better::Neither)
}

fn ranked_variant(comparison: &Comparison, variant: usize) -> Option<Ranked> {
    let all = judged(comparison, variant);
    let log = |one: &Judged| {
        let change = one.contrast.change.filter(|_| one.contrast.scale == Scale::Relative)?;
        let sign = if one.metric.better == Better::Lower { -1.0 } else { 1.0 };
        Some(sign * change.ln_1p()).filter(|log| log.is_finite())
    };
    let logs: Vec<f64> = all.iter().filter_map(log).collect();
    if logs.is_empty() || logs.len() < all.len() {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let said = match &all[..] {
        [one] => {
            let word = one.contrast.verdict.word(one.metric.timed());
            format!("{}, {word}", change(one.contrast, &one.metric.unit))
        }
        _ => {
            let mut counts = VerdictCounts::default();
            all.iter().for_each(|one| counts.add(&one.contrast.verdict));
            let open = counts.cannot_tell + counts.unjudged;
            let parts = [
                (counts.better, "better"),
                (counts.worse, "worse"),
                (counts.same, "the same"),
                (open, "without verdict"),
            ];
            let parts = parts.into_iter().filter(|(n, _)| *n > 0);
            let parts: Vec<String> = parts.map(|(n, word)| format!("{n} {word}")).collect();
            format!("{}: {}", signed_percent(mean.exp_m1()), parts.join(", "))
        }
    };
    let name = comparison.variants[variant].name.clone();
    Some(Ranked { name, factor: mean.exp(), said })
}
