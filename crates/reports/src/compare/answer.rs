//! A comparison in a sentence for each variant, and its verdicts counted: what a reader sees first.

use analysis::{Comparison, Contrast, MetricComparison, Verdict};
use text::prose::counted;

use crate::compare::change::{change, interval, percent, primary, without_values};
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

/// One sentence for each variant: in how many places it changed, and where most.
pub fn answers(comparison: &Comparison) -> Vec<String> {
    match comparison.variants.len() {
        0 | 1 => vec!["One variant: nothing to compare".to_string()],
        _ if comparison.cells.is_empty() => {
            vec!["No verdict: the variants have no point in common".to_string()]
        }
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
            format!("No verdict about {variant} against {baseline}, as no block counts: {at}")
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
        return format!("No verdict about {variant} against {baseline} in {places}");
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
