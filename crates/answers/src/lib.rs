//! The answer of each verb as a value. What `--json` prints is the value itself, and `knee schema` prints the JSON
//! Schema that is derived from its type: the doc comments here are the descriptions there.
//!
//! Types that other crates have anyway (`analysis::Comparison`, `ledger::Explained`) are answers, too, and stay where
//! they are. docs/formats/answers.md lists all.

mod doses;
mod fragility;
mod scaling;
mod shown;
mod sweep;

use anyhow::{Context, Result};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

pub use crate::doses::{DosePoint, DoseReport, Gain, dosed_points, doses};
pub use crate::fragility::{FragileAnswer, FragileReport, fragile};
pub use crate::scaling::{
    CurveForecast, CurveIdentity, CurveScaling, Forecasts, ScalingEntry, Scalings,
    SimulatedHandOver,
};
pub use crate::shown::{CurveSummary, Summary, WholeRecord, summary, whole};
pub use crate::sweep::{hysteresis, sweep};

/// The metric that decides unless an experiment says otherwise.
pub const RATE: &str = "operations_per_s";

/// An answer as indented JSON with a line end. Only what has a schema is an answer.
///
/// # Errors
/// Says which value has no JSON form: a path that is not UTF-8.
pub fn as_json(answer: &(impl Serialize + JsonSchema)) -> Result<String> {
    serde_json::to_string_pretty(answer).map(|text| text + "\n").context(WRITING)
}

/// An answer as one line of JSON with its line end, for verbs that print an answer for each of several things.
///
/// # Errors
/// Says which value has no JSON form: a path that is not UTF-8.
pub fn as_json_line(answer: &(impl Serialize + JsonSchema)) -> Result<String> {
    serde_json::to_string(answer).map(|text| text + "\n").context(WRITING)
}

const WRITING: &str = "writing the answer as JSON";

/// The JSON Schema of what [`as_json`] writes of a type.
pub fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}
