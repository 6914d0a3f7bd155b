//! The pages of curves: what they say about scaling, what they are forecast to be, and whether a verdict about two
//! of them survives small changes of the load.

use answers::{CurveForecast, DoseReport, Forecasts, FragileReport, ScalingEntry, Scalings};
use records::Opened;
use reports::{
    CurvePanel, Detail, FormPart, ScalePart, ceiling_sentence, dose_sentence, forecast_answer,
    forecast_ceilings, forecast_part, fragile_answer, fragile_part, hysteresis_sentence,
    joined_sentences, scale_part,
};

use crate::page::{Block, Page, PageKind, Section, Wide};
use crate::reading;
use crate::record::{self, blocks, dosed};

/// What a page shows of a curve beside what the curve says.
pub struct CurvePart {
    pub title: String,
    /// The curve as it was measured and, of a forecast, as it goes on; absent where it cannot be used.
    pub panel: Option<CurvePanel>,
    /// Whether each CPU had one task.
    pub has_task_per_cpu: bool,
}

/// The page of what curves and doses of time say. `record` has the curves, unless they are of a file; `parts` has a
/// part for each curve of `says`.
pub fn scaling(
    title: &str,
    record: Option<&Opened>,
    parts: Vec<CurvePart>,
    says: &Scalings,
) -> Page {
    let mut page = empty(title, PageKind::Scaling, record);
    let doses = || says.0.iter().filter_map(dose);
    page.answers = doses().filter_map(dose_sentence).collect();
    let curves = says.0.iter().filter_map(|entry| match entry {
        ScalingEntry::Curve(curve) => Some(curve),
        ScalingEntry::Dose { .. } => None,
    });
    let several = parts.len() > 1;
    for (CurvePart { title, panel, has_task_per_cpu }, curve) in parts.into_iter().zip(curves) {
        let below = [curve.hysteresis.as_ref().map(hysteresis_sentence), curve.grows.clone()];
        let ceilings = curve.ceilings.iter().map(ceiling_sentence);
        let below: Vec<String> = ceilings.chain(below.into_iter().flatten()).collect();
        let found = curve.scaling.as_ref().map(|found| scale_part(found, has_task_per_cpu));
        // Where doses were measured, curves too short for a law are no news.
        if found.is_none() && below.is_empty() && doses().next().is_some() {
            continue;
        }
        let unusable = || ScalePart::unusable(curve.unusable.as_deref().unwrap_or_default());
        let ScalePart { mut answers, mut sentences, laws } = found.unwrap_or_else(unusable);
        if several {
            let name = name(&title);
            page.answers.extend(answers.first().map(|answer| format!("{name}: {answer}")));
            sentences = [answers, sentences].concat();
        } else {
            page.answers.append(&mut answers);
        }
        let drawn = panel.filter(CurvePanel::is_curve).map(Block::Curves);
        let laws = Block::Folded("All laws, with intervals where they fit", laws);
        let blocks = [Block::Text(sentences), Block::Text(below), laws];
        page.sections.push(Section::open(&title, drawn.into_iter().chain(blocks).collect()));
    }
    page.sections.extend(dosed(doses()));
    page
}

/// The title without what an operation is.
fn name(title: &str) -> &str {
    title.split(": ").next().unwrap_or(title)
}

fn dose(entry: &ScalingEntry) -> Option<&DoseReport> {
    match entry {
        ScalingEntry::Curve(_) => None,
        ScalingEntry::Dose { dose } => Some(dose),
    }
}

/// The page of forecasts, with a part for each. `hand_over` says what was simulated for them.
pub fn forecasts(
    title: &str,
    record: Option<&Opened>,
    parts: Vec<CurvePart>,
    says: &Forecasts,
    hand_over: Option<String>,
) -> Page {
    let mut page = empty(title, PageKind::Forecast, record);
    let several = parts.len() > 1;
    for (CurvePart { title, panel, .. }, says) in parts.into_iter().zip(&says.0) {
        let name = name(&title);
        let named = |answer: String| if several { format!("{name}: {answer}") } else { answer };
        let (found, ceilings, simulated) = match says {
            CurveForecast::Made { forecast, ceilings, simulated, .. } => {
                (forecast, ceilings, simulated)
            }
            CurveForecast::Refused { refused, simulated, .. } => {
                page.answers.push(named(refused.clone()));
                let said = simulated.iter().flat_map(joined_sentences).collect();
                page.sections.extend(
                    simulated.as_ref().map(|_| Section::open(&title, vec![Block::Text(said)])),
                );
                continue;
            }
        };
        page.answers.extend(forecast_answer(found).map(named));
        let drawn = panel.filter(CurvePanel::is_curve).map(Block::Curves).into_iter();
        let table =
            blocks(forecast_part(&title, found), &title, (reading::FORECAST, Wide::Stacked));
        let joined = simulated.iter().flat_map(joined_sentences);
        let bounds =
            Block::Text(forecast_ceilings(found, ceilings).into_iter().chain(joined).collect());
        page.sections.push(Section::open(&title, drawn.chain(table).chain([bounds]).collect()));
    }
    page.method.extend(hand_over);
    page
}

/// The page of whether a verdict survives small changes of the load, by the record that measured them.
pub fn fragile(record: &Opened, report: &FragileReport) -> Page {
    let part = fragile_part(report);
    let title = part.title.clone();
    let mut page = empty(&title, PageKind::Fragility, Some(record));
    page.answers = vec![fragile_answer(report)];
    let part = FormPart { title: String::new(), ..part };
    let blocks = blocks(part, "", (reading::FRAGILE, Wide::Stacked));
    page.sections.push(Section::open("", blocks));
    page
}

fn empty(title: &str, kind: PageKind, record: Option<&Opened>) -> Page {
    let about = record.map(|record| record::about(record, &Detail::default(), ""));
    Page { title: title.to_string(), kind, ..about.unwrap_or_else(|| Page::new(title, kind)) }
}
