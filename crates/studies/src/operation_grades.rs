//! How near simulated rates of operations came to published ones: `publications/grades/operations.toml`.
//!
//! One factor contains nine tenths of the published rates of a kind, if the intervals of the draws are widened by it on both
//! sides: the model's error, which the ranges of a host do not have in them. Operations that change a lockref are a kind of
//! their own: who gets its line next differs most from host to host.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

const OPERATIONS: &str = include_str!("../../../publications/grades/operations.toml");

/// A published rate with its simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradedRate {
    /// The row of `publications/contended-lines/rates.toml`.
    pub name: String,
    /// Whether the line that stops it most is changed by compare-and-exchange.
    pub compares: bool,
    /// The published rate, in operations per second.
    pub published: f64,
    /// The simulated rate with the middles of all ranges.
    pub middle: f64,
    /// The lowest of all draws.
    pub low: f64,
    /// The highest of all draws.
    pub high: f64,
}

/// The format of `publications/grades/operations.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradedRates {
    /// All rates, in the order of their names.
    pub row: Vec<GradedRate>,
}

impl GradedRate {
    /// The factor by which the interval of the draws has to be widened to contain the published rate.
    fn needed(&self) -> f64 {
        (self.low / self.published).max(self.published / self.high).max(1.0)
    }
}

impl GradedRates {
    /// How many rates of a kind were published, and the factor that contains nine tenths of them; `None` of none.
    pub fn error(&self, compares: bool) -> Option<(usize, f64)> {
        let of_kind = self.row.iter().filter(|row| row.compares == compares);
        let mut needed: Vec<f64> = of_kind.map(GradedRate::needed).collect();
        needed.sort_by(f64::total_cmp);
        let rank = (0.9 * needed.len() as f64).ceil() as usize;
        Some((needed.len(), *needed.get(rank.checked_sub(1)?)?))
    }
}

/// The published rates built into knee.
///
/// # Panics
/// If their file cannot be read.
pub fn graded_rates() -> &'static GradedRates {
    static ALL: OnceLock<GradedRates> = OnceLock::new();
    ALL.get_or_init(|| toml::from_str(OPERATIONS).expect("operations.toml is a file of rates"))
}
