//! Reports: what a record says, as text for people or as data for other programs. Pure
//! functions from a record to text; nothing here reads files, prints, or keeps results.

mod bisection_answer;
mod boot;
mod ceiling;
mod cells;
mod compare;
mod csv;
mod curve_panel;
mod curve_table;
mod doses;
mod effects;
mod form_part;
mod fragile;
mod header;
mod hysteresis;
mod joined;
mod loads;
mod plan;
mod scale;
mod scaling;
mod shown_metrics;
mod timing;
mod warnings;
mod will_it_scale;

use records::known_metric;

pub use crate::bisection_answer::{
    BisectionReport, CommitName, bisection_brackets, bisection_rests_on, bisection_sentence,
};
pub use crate::boot::boot;
pub use crate::ceiling::{ceiling_sentence, draw_ceilings, forecast_ceilings, met_sentence};
pub use crate::compare::{
    ComparedRow, ComparisonParts, LanePart, Layout, LoadPart, VerdictCounts, comparison,
    parts as comparison_parts, verdicts_in_words,
};
pub use crate::csv::{csv, csv_header};
pub use crate::curve_panel::{
    CurvePanel, Laws, OVER_CPUS, PROBABILITY, PanelLine, PanelPoint, PanelRun, Reaching,
    for_forecast as forecast_panel, for_lane as lane_panel, for_sweep as sweep_panel,
    for_values as value_panel,
};
pub use crate::curve_table::RATE;
pub use crate::doses::{dose_part, dose_sentence};
pub use crate::effects::{EFFECTS, NO_EFFECTS, effects};
pub use crate::fragile::{fragile_answer, fragile_part};
pub use crate::header::{ExperimentFile, experiment_file, facts, header, quoted};
pub use crate::hysteresis::hysteresis_sentence;
pub use crate::joined::{draw_joined, joined_sentences};
pub use crate::loads::{LoadSetting, parameters};
pub use crate::plan::{Plan, PlanPart, plan_answer, plan_part};
pub use crate::scale::{ScalePart, forecast_answer, forecast_part, name as law_name, scale_part};
pub use crate::scaling::{Detail, FormPart, RecordPart, record_parts, titled_curves};
pub use crate::shown_metrics::{ShownMetrics, metric_names, shown_metrics};
pub use crate::timing::timing_sentences;
pub use crate::warnings::{MissingSources, warning_lists, warnings_about_runs};
pub use crate::will_it_scale::{WillItScale, will_it_scale};

#[cfg(test)]
mod tests;
