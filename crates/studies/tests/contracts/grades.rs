//! Grades of replays against their definitions; the fit and the null models against known answers.

use studies::replays::null_models::{closed_network, contention_of, serial_share, usl};
use studies::replays::{Grade, Interval, Reported, Standing, Target, fit, grade};

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} {expected}");
}

fn graded(reported: Reported, standing: Standing, [middle, low, high]: [f64; 3]) -> Grade {
    grade(&Target::new("", reported, standing), Interval { middle, low, high }, true)
}

#[test]
fn grades_are_by_ratio_interval_and_direction() {
    let check = |reported, predicted, expected| {
        assert_eq!(graded(reported, Standing::Claimed, predicted), expected, "{reported:?}");
    };
    let ratio = Reported::Ratio;
    check(ratio(0.5), [0.4, 0.3, 0.6], Grade::Quantitative);
    // The logarithm is what counts: 0.63 is two thirds of the effect of 0.5, 0.64 is less.
    check(ratio(0.5), [0.62, 0.5, 0.7], Grade::Quantitative);
    check(ratio(0.5), [0.64, 0.5, 0.7], Grade::Order);
    // A draw without the effect.
    check(ratio(0.5), [0.4, 0.3, 1.01], Grade::Order);
    check(ratio(0.5), [0.1, 0.1, 0.6], Grade::Direction);
    // Near, but no change, or a change in the other direction, or a change where none is reported.
    check(ratio(0.9), [1.0, 0.8, 1.2], Grade::NotPredicted);
    check(ratio(0.9), [1.1, 0.8, 1.2], Grade::NotPredicted);
    check(ratio(1.0), [1.1, 1.0, 1.2], Grade::NotPredicted);
    check(ratio(1.04), [0.98, 0.9, 1.1], Grade::NoChange);
    check(Reported::Share(0.12), [0.1, 0.08, 0.2], Grade::Quantitative);
    check(Reported::Share(0.12), [0.06, 0.04, 0.2], Grade::Order);
    check(Reported::Share(0.12), [0.01, 0.0, 0.2], Grade::NotPredicted);
    check(Reported::Less, [0.5, 0.4, 2.0], Grade::Direction);
    check(Reported::More, [0.5, 0.4, 2.0], Grade::NotPredicted);
    assert_eq!(graded(ratio(0.5), Standing::Anchor, [0.5, 0.5, 0.5]), Grade::Fitted);
}

#[test]
fn an_input_that_was_chosen_after_results_rules_out_the_best_grade() {
    let target = Target::new("", Reported::Ratio(0.5), Standing::Claimed);
    let predicted = Interval { middle: 0.5, low: 0.4, high: 0.6 };
    assert_eq!(grade(&target, predicted, true), Grade::Quantitative);
    assert_eq!(grade(&target, predicted, false), Grade::Order);
}

#[test]
fn a_number_is_fitted_to_a_function_that_rises_or_falls() {
    near(fit([1.0, 100.0], 49.0, |x| Ok(x * x)).unwrap(), 7.0, 2e-3);
    near(fit([1.0, 100.0], 0.1, |x| Ok(1.0 / x)).unwrap(), 10.0, 2e-3);
    // A number beyond the range is fitted to its end.
    near(fit([1.0, 100.0], 1e9, Ok).unwrap(), 100.0, 2e-3);
}

/// Against the recursion of Reiser and Lavenberg.
#[test]
fn a_constant_service_time_gives_mean_value_analysis() {
    let (think, service) = (530.0, 60.0);
    let (mut queue, mut rate) = (0.0, 0.0);
    for customers in 1..=48 {
        let residence = service * (1.0 + queue);
        rate = customers as f64 / (think + residence);
        queue = rate * residence;
        near(closed_network(customers, think, |_| service), rate, 1e-6);
    }
    assert!(rate <= 1.0 / service && rate > 0.99 / service);
}

/// The chain of a ticket lock with c = 60, s = 120, a = 530 ns.
#[test]
fn a_service_time_that_grows_with_the_queue_makes_throughput_collapse() {
    let rate = |n| closed_network(n, 530.0, |k| 120.0 + 60.0 * (k - 1) as f64 / 2.0) * 1e3;
    near(rate(1), 1e3 / 650.0, 1e-6);
    assert!(rate(48) < rate(6) / 3.0, "{} {}", rate(48), rate(6));
}

#[test]
fn fitted_parameters_give_the_scaling_they_were_fitted_to() {
    near(usl(2.0, contention_of(2.0, 1.386), 0.0), 1.386, 1e-6);
    near(usl(32.0, 0.0, 0.0), 32.0, 1e-6);
    let serial = serial_share(0.693);
    near(closed_network(2, 1.0 - serial, |_| serial) / 2.0, 0.693, 1e-6);
}
