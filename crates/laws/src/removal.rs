//! What less time inside or outside of a lock would gain, by the law of a lock that fits a curve.

use schemars::JsonSchema;
use serde::Serialize;

use crate::chance::{Draws, Estimate};
use crate::fit::{Fit, Quantity};
use crate::law::{Law, closed_queue};
use crate::scaling::may_hold;
use crate::sweep::Sweep;

/// Gains by a law.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LawGain {
    pub law: Law,
    /// The share by which the rate would grow with this much less time in the lock; `None` if it is held for less.
    pub inside: Option<Estimate>,
    /// The share by which it would grow with this much less outside.
    pub outside: Option<Estimate>,
}

/// What this much less time would gain at a number of CPUs. `None` unless a law of a lock may hold.
pub fn gain_by_law(sweep: &Sweep, cpus: u32, removed_s: f64) -> Option<LawGain> {
    let laws = may_hold(&sweep.observations(), sweep.freedom());
    let of_lock = |draws: &&Draws| matches!(draws.fit.law, Law::Queue | Law::Handover);
    let draws = laws.iter().find(of_lock)?;
    let tasks = f64::from(cpus);
    let gain = |inside_s: f64, outside_s: f64| {
        let of = |fit: &Fit| {
            let [held, outside, growth] = times(fit);
            let (held, outside) = (held - inside_s, outside - outside_s);
            if held <= 0.0 || outside <= 0.0 {
                return f64::INFINITY;
            }
            closed_queue(tasks, outside, held, growth) / fit.rate(tasks) - 1.0
        };
        Some(draws.estimate(of)).filter(|estimate| estimate.value.is_finite())
    };
    Some(LawGain {
        law: draws.fit.law,
        inside: gain(removed_s, 0.0),
        outside: gain(0.0, removed_s),
    })
}

/// Time held, time outside, and what each waiting task adds.
fn times(fit: &Fit) -> [f64; 3] {
    let held = Quantity::Hold.log(&fit.parameters).exp();
    let growth = match fit.law {
        Law::Handover => Quantity::Handover.log(&fit.parameters).exp(),
        _ => 0.0,
    };
    [held, (fit.parameters[0].exp() - held).max(1e-6 * held), growth]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(rate: impl Fn(f64) -> f64) -> Sweep {
        let runs = [1, 2, 4, 8, 16, 32].map(|cpus: u32| {
            let rate = rate(f64::from(cpus));
            (cpus, [0.99, 1.0, 1.01].map(|share| share * rate).to_vec())
        });
        Sweep::new(runs).unwrap()
    }

    #[test]
    fn a_shorter_hold_gains_at_a_saturated_lock_and_less_work_outside_does_not() {
        let sweep = sweep(|tasks| closed_queue(tasks, 900e-9, 100e-9, 0.0));
        let gain = gain_by_law(&sweep, 32, 20e-9).unwrap();
        let (inside, outside) = (gain.inside.unwrap(), gain.outside.unwrap());
        assert!((inside.value - 0.25).abs() < 0.02 && outside.value < 0.01, "{gain:?}");
        let (low, high) = inside.interval.unwrap();
        assert!(low < 0.25 && 0.25 < high, "{gain:?}");
        let alone = gain_by_law(&sweep, 1, 20e-9).unwrap();
        assert!((alone.inside.unwrap().value - alone.outside.unwrap().value).abs() < 1e-3);
        assert!(gain_by_law(&sweep, 32, 200e-9).unwrap().inside.is_none());
    }

    #[test]
    fn without_a_lock_nothing_is_said() {
        assert!(gain_by_law(&sweep(|tasks| 1e6 * tasks.sqrt()), 32, 20e-9).is_none());
    }
}
