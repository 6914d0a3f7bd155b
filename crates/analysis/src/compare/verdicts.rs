//! From judgements to verdicts: a judgement knows only numbers; a verdict also knows which
//! direction is better, and how many metrics were looked at.

use records::Better;

use super::columns::change;
use super::rules::ALPHA;
use crate::comparison::{CellComparison, Contrast, Scale, Verdict};
use crate::judge::{Decision, Judgement};
use crate::multiplicity::benjamini_hochberg;

/// A judgement as a contrast. `p` is adjusted by the caller; `too_few` is why there may be too
/// few units for a verdict.
pub(super) fn contrast(
    judgement: &Judgement,
    p: Option<f64>,
    scale: Scale,
    better: Better,
    too_few: &str,
) -> Contrast {
    let changes = |(low, high): (f64, f64)| (change(low, scale), change(high, scale));
    Contrast {
        n: judgement.n,
        scale,
        change: judgement.estimate.map(|estimate| change(estimate, scale)),
        interval: judgement.interval.map(changes),
        method: judgement.method,
        p,
        verdict: verdict(judgement, better, too_few),
        harmless: false,
        modes: judgement.modes,
        drift: None,
    }
}

/// Why more blocks of the same run cannot decide: the looks end at `cap` blocks.
pub(super) fn no_look_left(judgement: &Judgement, more: Option<u32>, cap: u32) -> String {
    let over = if judgement.stop {
        "the last look is over".to_string()
    } else {
        format!("the last look is at {cap} blocks")
    };
    match more {
        Some(more) => format!(
            "{over}; a new run of about {} blocks may decide (--blocks)",
            judgement.n as u64 + u64::from(more)
        ),
        None => format!("{over}, and the estimate is too close to 0"),
    }
}

fn verdict(judgement: &Judgement, better: Better, too_few: &str) -> Verdict {
    match judgement.decision {
        // The smallest effect is a share of the value; if all values are 0, it is 0 too.
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

/// Adjusts the verdicts about exploratory metrics, those that nobody named beforehand: a change
/// stands only if it is significant among all metrics and cells (Benjamini and Hochberg).
pub(super) fn adjust_exploratory(cells: &mut [CellComparison]) {
    let metrics = cells.iter().flat_map(|cell| cell.metrics.iter().skip(1));
    let contrasts = metrics.flat_map(|metric| &metric.contrasts);
    // A contrast without p was not tested.
    let p: Vec<f64> = contrasts.filter_map(|contrast| contrast.p).collect();
    let adjusted = benjamini_hochberg(&p);
    let metrics = cells.iter_mut().flat_map(|cell| cell.metrics.iter_mut().skip(1));
    let contrasts = metrics.flat_map(|metric| &mut metric.contrasts).filter(|c| c.p.is_some());
    for (contrast, adjusted) in contrasts.zip(adjusted) {
        contrast.p = Some(adjusted);
        if contrast.verdict.is_change() && adjusted > ALPHA {
            let why = "not significant once adjusted for the number of metrics".to_string();
            contrast.verdict = Verdict::CannotTell { more: None, why };
        }
    }
}
