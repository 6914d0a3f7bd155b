//! How well a prediction agrees with what was reported: its size, and the direction that it dares to name.

use super::{Interval, Reported, Standing, Target};

/// How well a target is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// The logarithm of the ratio is within a third of the reported one's, all draws are on its side of 1, and no
    /// input was chosen after results had been seen. A share: within a factor of 1.5, and in the interval.
    Quantitative,
    /// Nothing changes, as reported: both within 5 % of 1.
    NoChange,
    /// Within a factor of 3, and the direction is right.
    Order,
    /// Only the direction is right.
    Direction,
    /// The direction is wrong, a change is predicted where none is reported, or a share is off by more than a factor
    /// of 3.
    NotPredicted,
    /// Not a prediction: the one number was fitted to it.
    Fitted,
}

impl Grade {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Quantitative => "quantitative",
            Grade::NoChange => "no change",
            Grade::Order => "ratio order",
            Grade::Direction => "direction",
            Grade::NotPredicted => "not predicted",
            Grade::Fitted => "(fitted)",
        }
    }
}

/// What a prediction says of a direction, its model's error counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dares {
    /// What is reported.
    Right,
    /// Its contrary.
    Wrong,
    /// Nothing: its interval spans 1.
    CannotTell,
}

impl Dares {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Dares::Right => "right",
            Dares::Wrong => "wrong",
            Dares::CannotTell => "cannot tell",
        }
    }

    /// What the interval, with the model's error, says of a reported direction; `None` of a share.
    pub fn new(reported: Reported, widened: Interval) -> Option<Dares> {
        let is_more = match reported {
            Reported::Ratio(ratio) => ratio > 1.0,
            Reported::More => true,
            Reported::Less => false,
            Reported::Share(_) => return None,
        };
        let excludes_one = widened.low > 1.0 || widened.high < 1.0;
        Some(match excludes_one {
            false => Dares::CannotTell,
            true if (widened.middle > 1.0) == is_more => Dares::Right,
            true => Dares::Wrong,
        })
    }
}

/// A ratio within this factor of 1 counts as no change: repeated runs in the reports differ by as
/// much.
const NO_CHANGE: f64 = 1.05;

/// Grades a prediction. `is_blind` says that no input was chosen after results had been seen.
pub fn grade(target: &Target, predicted: Interval, is_blind: bool) -> Grade {
    let middle = predicted.middle;
    let within = |reported: f64, factor: f64| {
        middle > 0.0 && (middle / reported).max(reported / middle) <= factor
    };
    let by_direction = |expected: i32| {
        if direction(middle) == expected { Grade::Direction } else { Grade::NotPredicted }
    };
    match (target.standing, target.reported) {
        (Standing::Anchor, _) => Grade::Fitted,
        (_, Reported::Ratio(reported)) => match (direction(middle), direction(reported)) {
            (0, 0) => Grade::NoChange,
            (predicted, reported) if predicted != reported => Grade::NotPredicted,
            _ if is_blind && is_quantitative(predicted, reported) => Grade::Quantitative,
            _ if within(reported, 3.0) => Grade::Order,
            _ => Grade::Direction,
        },
        // A share has no direction; it can only be far too small or too large.
        (_, Reported::Share(reported)) => match predicted {
            Interval { low, high, .. }
                if is_blind && within(reported, 1.5) && (low..=high).contains(&reported) =>
            {
                Grade::Quantitative
            }
            _ if within(reported, 3.0) => Grade::Order,
            _ => Grade::NotPredicted,
        },
        (_, Reported::Less) => by_direction(-1),
        (_, Reported::More) => by_direction(1),
    }
}

/// 1 for more, -1 for less, 0 for no change.
fn direction(ratio: f64) -> i32 {
    match ratio {
        ratio if ratio > NO_CHANGE => 1,
        ratio if ratio < 1.0 / NO_CHANGE => -1,
        _ => 0,
    }
}

/// Whether the effect, as a logarithm, is within a third of the reported one, and no draw contradicts its direction.
fn is_quantitative(predicted: Interval, reported: f64) -> bool {
    let effect = predicted.middle.ln() / reported.ln();
    let excludes_one = predicted.low > 1.0 || predicted.high < 1.0;
    (effect - 1.0).abs() <= 1.0 / 3.0 && excludes_one
}
