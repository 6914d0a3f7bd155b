//! Laws of throughput: the rate of all tasks as a function of their number, each task on a CPU of its own.
//!
//!     linear     λ N                                  nothing is shared
//!     Amdahl     λ N / (1 + σ (N-1))                  a share σ of each operation is serial
//!     queue      tasks work outside for Z, queue for one lock and hold it for S
//!     handover   as queue, and the lock takes h longer for each task that waits for it
//!     universal  λ N / (1 + σ (N-1) + κ N (N-1))      fits many curves, and names no cause
//!
//! All parameters are positive and kept as logarithms.
//!
//! Sources: G. Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
//! AFIPS 1967; E. Lazowska et al., "Quantitative System Performance", 1984, chapter 6 and section 8.3 (closed queue with
//! a service that depends on its length, exact); N. Gunther, "A General Theory of Computational Scalability Based on
//! Rational Functions", arXiv:0808.1431 (universal law).

use schemars::JsonSchema;
use serde::Serialize;

/// How the rate of all tasks follows from their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    Linear,
    Amdahl,
    Queue,
    Handover,
    Universal,
}

/// Logarithms of a law's parameters, and last a step.
///
/// First the time of an operation of one task alone, in the unit of time of the rates. Then its serial share. Then, for
/// [`Law::Handover`], the additional hold for each waiting task over the hold, for [`Law::Universal`] κ. A law with
/// fewer parameters leaves the others at 0. The step is the logarithm by which rates after a cliff are lower.
pub type Parameters = [f64; 4];

/// The index of the step.
pub const STEP: usize = 3;

/// Ranges of parameters. At its lower end a parameter says: none.
const SHARE: (f64, f64) = (1e-5, 1.0);
const GROWTH: (f64, f64) = (1e-5, 10.0);
const KAPPA: (f64, f64) = (1e-9, 1.0);

/// No maximum is looked for beyond this number of tasks.
const TASKS_MAX: f64 = 16384.0;

impl Law {
    pub const ALL: [Law; 5] = [Law::Linear, Law::Amdahl, Law::Queue, Law::Handover, Law::Universal];

    /// The number of parameters, without the step.
    pub const fn parameters(self) -> usize {
        match self {
            Law::Linear => 1,
            Law::Amdahl | Law::Queue => 2,
            Law::Handover | Law::Universal => 3,
        }
    }

    /// The allowed range of a parameter's logarithm.
    pub fn range(self, index: usize) -> (f64, f64) {
        let (low, high) = match (self, index) {
            (_, 0) => return (-700.0, 700.0),
            (_, STEP) => return (0.0, 3.0),
            (_, 1) => SHARE,
            (Law::Universal, _) => KAPPA,
            _ => GROWTH,
        };
        (low.ln(), high.ln())
    }

    /// Whether a parameter is so near to the lower end of its range that it means none.
    pub fn is_none(self, parameters: &Parameters, index: usize) -> bool {
        index >= self.parameters()
            || (index > 0 && parameters[index] < self.range(index).0 + 3_f64.ln())
    }

    /// Operations per unit of time of this number of tasks.
    pub fn rate(self, parameters: &Parameters, tasks: f64) -> f64 {
        self.dosed_rate(parameters, tasks, 0.0)
    }

    /// Operations per unit of time of this number of tasks with this much more time in the lock. Without a lock, a dose
    /// changes nothing.
    pub fn dosed_rate(self, parameters: &Parameters, tasks: f64, dose: f64) -> f64 {
        let [time, share, third, _] = parameters.map(f64::exp);
        let others = tasks - 1.0;
        match self {
            Law::Linear => tasks / time,
            Law::Amdahl => tasks / (time * (1.0 + share * others)),
            Law::Universal => tasks / (time * (1.0 + share * others + third * tasks * others)),
            Law::Queue | Law::Handover => {
                let hold = time * share;
                let growth = if self == Law::Handover { third * hold } else { 0.0 };
                closed_queue(tasks, (time - hold).max(1e-6 * time), hold + dose, growth)
            }
        }
    }

    /// The highest rate at any number of tasks, and the number where it is reached; `None` where it is only approached.
    /// Infinite where nothing limits the rate.
    pub fn maximum(self, parameters: &Parameters) -> (f64, Option<f64>) {
        let [time, share, third, _] = parameters.map(f64::exp);
        if self == Law::Linear || self.is_none(parameters, 1) && self.is_none(parameters, 2) {
            return (f64::INFINITY, None);
        }
        if self.is_none(parameters, 2) {
            return (1.0 / (time * share), None);
        }
        let rate = |tasks: f64| self.rate(parameters, tasks);
        let at = match self {
            Law::Universal => ((1.0 - share) / third).max(1.0).sqrt(),
            _ => highest(rate),
        };
        (rate(at), Some(at))
    }

    /// The fewest tasks, not always a whole number, with this share of the highest rate. Infinite if the law gives none.
    pub fn knee(self, parameters: &Parameters, share: f64) -> f64 {
        let (most, at) = self.maximum(parameters);
        if most.is_infinite() {
            return f64::INFINITY;
        }
        first(|tasks| self.rate(parameters, tasks) >= share * most, at)
    }
}

/// Where a condition begins to hold that holds at `known`, if that is given.
fn first(holds: impl Fn(f64) -> bool, known: Option<f64>) -> f64 {
    let (mut low, mut high) = (1.0, 1.0);
    while !holds(high) {
        if high >= TASKS_MAX {
            return f64::INFINITY;
        }
        low = high;
        high *= 2.0;
        if let Some(known) = known.filter(|known| (low..high).contains(known)) {
            high = known.max(low + 1e-9);
            break;
        }
    }
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The whole number at which a rate with one maximum is highest.
fn highest(rate: impl Fn(f64) -> f64) -> f64 {
    let mut high = 2.0;
    while rate(high) > rate(high / 2.0) && high < TASKS_MAX {
        high *= 2.0;
    }
    let mut low = (high / 4.0).max(1.0).floor();
    while high - low > 2.0 {
        let third = ((high - low) / 3.0).max(1.0).floor();
        if rate(low + third) < rate(high - third) {
            low += third;
        } else {
            high -= third;
        }
    }
    let around = [low, low + 1.0, high];
    around.into_iter().max_by(|a, b| rate(*a).total_cmp(&rate(*b))).unwrap_or(low)
}

/// The rate of tasks that work outside for exponential times and queue for a lock, which is held for `hold` and for
/// `growth` more for each task that waits. Between whole numbers of tasks it is interpolated.
pub fn closed_queue(tasks: f64, outside: f64, hold: f64, growth: f64) -> f64 {
    let (whole, part) = (tasks.floor(), tasks.fract());
    let rate = |tasks: f64| of_whole_number(tasks as usize, outside, hold, growth);
    if part == 0.0 {
        return rate(whole);
    }
    rate(whole.max(1.0)).powf(1.0 - part) * rate(whole + 1.0).powf(part)
}

/// By the probabilities that 0, 1, … tasks are at the lock, each a multiple of the last.
fn of_whole_number(tasks: usize, outside: f64, hold: f64, growth: f64) -> f64 {
    let (mut weight, mut all, mut passing) = (1.0_f64, 1.0_f64, 0.0_f64);
    // A division for each task would be half of the time of a fit.
    let arrivals = 1.0 / outside;
    for at_lock in 1..=tasks {
        let service = hold + growth * (at_lock - 1) as f64;
        let arriving = weight * (tasks - at_lock + 1) as f64 * arrivals;
        weight = arriving * service;
        all += weight;
        passing += arriving;
        if all > 1e200 {
            (weight, passing, all) = (weight / all, passing / all, 1.0);
        }
    }
    passing / all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters by their values.
    fn given(time: f64, share: f64, third: f64) -> Parameters {
        [time.ln(), share.ln(), third.ln(), 0.0]
    }

    #[test]
    fn laws_have_known_rates_and_maxima() {
        let amdahl = given(2.0, 0.1, 1.0);
        assert!((Law::Amdahl.rate(&amdahl, 10.0) - 5.0 / 1.9).abs() < 1e-12);
        assert!((Law::Amdahl.maximum(&amdahl).0 - 5.0).abs() < 1e-12);
        // 90 % of the highest rate where N / (1 + 0.1 (N-1)) = 9.
        assert!((Law::Amdahl.knee(&amdahl, 0.9) - 81.0).abs() < 1e-6);
        let universal = given(1.0, 0.02, 2e-4);
        assert_eq!(Law::Universal.maximum(&universal).1.unwrap().round(), 70.0);
        assert_eq!(Law::Linear.knee(&given(1.0, 1.0, 1.0), 0.9), f64::INFINITY);
    }

    /// One task: 1 / (Z + S). Two: both work outside, or one is at the lock, or both are.
    #[test]
    fn a_closed_queue_of_one_and_two_tasks_is_exact() {
        let (outside, hold) = (3.0, 1.0);
        assert!((closed_queue(1.0, outside, hold, 0.0) - 0.25).abs() < 1e-12);
        let weights = [1.0, 2.0 / 3.0, 2.0 / 9.0];
        let busy = (weights[1] + weights[2]) / weights.iter().sum::<f64>();
        assert!((closed_queue(2.0, outside, hold, 0.0) - busy).abs() < 1e-12);
        assert!((closed_queue(1e4, outside, hold, 0.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_lock_that_gets_slower_with_its_queue_has_a_peak() {
        let handover = given(10.0, 0.1, 0.05);
        let (most, at) = Law::Handover.maximum(&handover);
        let at = at.unwrap();
        let rate = |tasks: f64| Law::Handover.rate(&handover, tasks);
        assert!(rate(at - 1.0) < most && rate(at + 1.0) < most, "{at}");
        assert!(Law::Handover.knee(&handover, 0.9) < at);
    }
}
