//! Grades against their definitions, and the fit against functions with known answers.

use super::*;

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
    let near =
        |fitted: f64, expected: f64| assert!((fitted / expected - 1.0).abs() < 2e-3, "{fitted}");
    near(fit([1.0, 100.0], 49.0, |x| Ok(x * x)).unwrap(), 7.0);
    near(fit([1.0, 100.0], 0.1, |x| Ok(1.0 / x)).unwrap(), 10.0);
    // A number beyond the range is fitted to its end.
    near(fit([1.0, 100.0], 1e9, Ok).unwrap(), 100.0);
}
