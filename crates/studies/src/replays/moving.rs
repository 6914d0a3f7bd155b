//! Which inputs move a prediction: each range alone, with the middle of all others.

use anyhow::Result;
use described_hosts::InRange;
use host::in_parallel;

use super::{Plan, Prediction, Replay};

/// How many inputs are named for each target.
const NAMED_MAX: usize = 2;

/// An input that moves a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct MovingInput {
    /// The name of the input, or the host and the full name of its number.
    pub name: String,
    /// The prediction with its lowest value, and the middle of all other ranges.
    pub at_low: f64,
    /// The prediction with its highest value.
    pub at_high: f64,
}

impl MovingInput {
    /// How far it moves the prediction, as a logarithm.
    fn effect(&self) -> f64 {
        let effect = (self.at_high / self.at_low).ln().abs();
        if effect.is_finite() { effect } else { 0.0 }
    }
}

/// An input that is a range, and that is known for a simulation.
#[derive(Clone, Debug)]
pub(super) enum FixedInput {
    /// An input of the incident.
    Input(String),
    /// The host, and the full name of its number.
    HostNumber(String, String),
}

impl FixedInput {
    fn name(&self) -> String {
        match self {
            FixedInput::Input(name) => name.clone(),
            FixedInput::HostNumber(host, number) => format!("{host}: {number}"),
        }
    }
}

/// Says for each target which inputs move it most: each range alone from its lowest to its highest value, with the
/// middle of all others. It takes two simulations for each range.
///
/// # Errors
/// A simulation failed.
pub fn add_moving_inputs(replays: &mut [Replay], seed: u64) -> Result<()> {
    for replay in replays {
        let plan = Plan::new(&replay.incident, seed)?;
        let ranges = plan.ranges();
        let ends = [InRange::Low, InRange::High];
        let tried = in_parallel(2 * ranges.len(), |part| {
            let drawn = plan.drawn(0, Some((&ranges[part / 2], ends[part % 2])));
            plan.incident.model.predict(&drawn)
        });
        let tried = tried.into_iter().collect::<Result<Vec<Prediction>>>()?;
        for (index, row) in replay.rows.iter_mut().enumerate() {
            let moving = ranges.iter().zip(tried.chunks(2)).map(|(input, both)| MovingInput {
                name: input.name(),
                at_low: both[0].values[index].value,
                at_high: both[1].values[index].value,
            });
            let mut moving: Vec<MovingInput> = moving.collect();
            moving.sort_by(|a, b| b.effect().total_cmp(&a.effect()));
            moving.truncate(NAMED_MAX);
            row.moved_by = moving;
        }
    }
    Ok(())
}
