//! A comparison taken apart, for pages: the sentences, tables and curves that the other layouts print as
//! text, as values.

use analysis::{CellComparison, Comparison, Contrast, MetricComparison};
use text::Style;
use text::table::{Narrower, Table};

use crate::compare::answer::{VerdictCounts, answers, counts};
use crate::compare::change::{primary, verdict, without_values};
use crate::compare::curves::{ideal_per_cpu, lanes, metric_title};
use crate::compare::exploratory::also_changed;
use crate::compare::head::{lines, names};
use crate::compare::notes::{closing, indexes, of_cells};
use crate::compare::places::{Places, heading, loads, size};
use crate::compare::verdicts::{Deviations, described, narrower, rows, table};
use crate::loads::LoadSetting;
use text::WIDTH_MAX;

/// Pages have no width and know all symbols.
const PAGE: Style = Style { width: WIDTH_MAX, terminal: true, color: false };

/// What all layouts of a comparison say.
pub struct ComparisonParts {
    /// A sentence for each variant but the first.
    pub answers: Vec<String>,
    pub counts: VerdictCounts,
    /// The names of the variants, or letters where these are long.
    pub names: Vec<String>,
    /// Labels with what stands behind them; a line that goes on has no label.
    pub head: Vec<(&'static str, String)>,
    pub loads: Vec<LoadPart>,
    /// Noise floor, what was left out, and how verdicts come about.
    pub closing: Vec<String>,
}

/// The cells that differ only in CPUs and tasks.
pub struct LoadPart {
    /// Workload, parameters and settings.
    pub title: String,
    /// What its tasks did, as far as variants do not differ in it.
    pub setting: LoadSetting,
    /// The metric that decides, with its unit and direction.
    pub metric: String,
    /// Why it has no values; empty where it has some.
    pub why_no_values: String,
    pub table: Table,
    /// What each row of the table is about.
    pub rows: Vec<ComparedRow>,
    /// The table in narrower forms, the widest first.
    pub narrower: Vec<Narrower>,
    /// Where curves diverge, why there is no verdict, how many runs failed.
    pub notes: Vec<String>,
    /// Other metrics that changed.
    pub also: Option<(String, Table)>,
    pub lanes: Vec<LanePart>,
}

/// What a row of verdicts is about.
pub struct ComparedRow {
    /// Index into [`Comparison::cells`].
    pub cell: usize,
    /// Index into [`Comparison::variants`].
    pub variant: usize,
    /// What tells the cell from all others.
    pub place: String,
    pub metric: String,
    /// The verdict in words.
    pub verdict: String,
    pub contrast: Option<Contrast>,
}

/// Cells that make one curve.
pub struct LanePart {
    /// What tells the lane from the others of its load.
    pub title: String,
    /// The values, with their unit.
    pub metric: String,
    /// Indexes into [`Comparison::cells`].
    pub cells: Vec<usize>,
    /// Value for each CPU that follows the linear ideal; absent where it has no meaning.
    pub ideal: Option<f64>,
}

/// Takes a comparison apart. `again` is the command that makes it again; may be empty.
pub fn parts(comparison: &Comparison, again: &str) -> ComparisonParts {
    let places = Places::new(comparison);
    ComparisonParts {
        answers: answers(comparison),
        counts: counts(comparison),
        names: names(comparison),
        head: lines(comparison, again),
        loads: loads(comparison).iter().map(|load| load_part(comparison, &places, load)).collect(),
        closing: closing(comparison),
    }
}

fn load_part(
    comparison: &Comparison,
    places: &Places,
    load: &[(usize, &CellComparison)],
) -> LoadPart {
    let (cells, rows) = (indexes(load), rows(comparison, load));
    let has_values = load.iter().any(|(_, cell)| primary(cell).is_some());
    let metric = load.iter().find_map(|(_, cell)| cell.metrics.first());
    let row = |(index, cell): &(usize, &CellComparison), variant: usize| {
        let metric = cell.metrics.first();
        let contrast = metric.and_then(|metric| metric.contrasts.get(variant - 1));
        let said = |(metric, contrast): (&MetricComparison, &Contrast)| {
            verdict(metric, contrast, comparison.smallest_effect)
        };
        ComparedRow {
            cell: *index,
            variant,
            place: places.apart(&cell.key),
            metric: metric.map(|metric| metric.metric.clone()).unwrap_or_default(),
            verdict: metric.zip(contrast).map(said).unwrap_or_default(),
            contrast: contrast.cloned(),
        }
    };
    let variants = 1..comparison.variants.len();
    let described_rows =
        load.iter().flat_map(|cell| variants.clone().map(move |variant| row(cell, variant)));
    LoadPart {
        title: heading(&load[0].1.key),
        setting: setting(load),
        metric: metric.map(described).unwrap_or_default(),
        why_no_values: if has_values { String::new() } else { without_values(comparison, load) },
        rows: described_rows.collect(),
        table: table(comparison, &rows, Deviations::Both, PAGE),
        narrower: narrower(comparison, load, PAGE),
        notes: of_cells(comparison, places, &cells),
        also: also_changed(comparison, &cells).map(|also| (also.title, also.table)),
        lanes: lane_parts(comparison, load),
    }
}

fn setting(load: &[(usize, &CellComparison)]) -> LoadSetting {
    let key = &load[0].1.key;
    let runs = load.iter().flat_map(|(_, cell)| cell.passes.iter().flatten());
    let works = runs.flat_map(|run| run.metrics.iter());
    LoadSetting::new(&key.workload, &key.parameters, works)
}

fn lane_parts(comparison: &Comparison, load: &[(usize, &CellComparison)]) -> Vec<LanePart> {
    let lanes = lanes(load);
    let several = lanes.len() > 1;
    let part = |lane: Vec<(usize, &CellComparison)>| LanePart {
        title: if several { size(&lane[0].1.key).join(", ") } else { String::new() },
        metric: metric_title(comparison, &lane),
        cells: indexes(&lane),
        ideal: ideal_per_cpu(&lane),
    };
    lanes.into_iter().map(part).collect()
}
