//! Warnings: what makes a result less than certain, and what to do about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A warning about a result, with advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// What is doubtful.
    pub text: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The number in the text, by which the worst of several warnings is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
}

impl Warning {
    /// A warning with advice.
    pub fn new(text: impl Into<String>, advice: impl Into<String>) -> Warning {
        Warning { text: text.into(), advice: advice.into(), amount: None }
    }
}
