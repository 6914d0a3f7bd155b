//! Grades against their definitions, the fit against functions with known answers, and small
//! replays.

use super::*;

fn graded(reported: Reported, standing: Standing, [middle, low, high]: [f64; 3]) -> Grade {
    grade(&Target { what: "", reported, standing }, Interval { middle, low, high })
}

#[test]
fn grades_are_by_ratio_interval_and_direction() {
    let check = |reported, predicted, expected| {
        assert_eq!(graded(reported, Standing::Claimed, predicted), expected, "{reported:?}");
    };
    let ratio = Reported::Ratio;
    check(ratio(0.5), [0.4, 0.3, 0.6], Grade::Quantitative);
    // Near, but outside of the interval.
    check(ratio(0.5), [0.4, 0.3, 0.45], Grade::Order);
    check(ratio(0.5), [0.2, 0.1, 0.6], Grade::Order);
    check(ratio(0.5), [0.1, 0.1, 0.6], Grade::Direction);
    // Near, but no change, or a change in the other direction.
    check(ratio(0.9), [1.0, 0.8, 1.2], Grade::NotPredicted);
    check(ratio(0.9), [1.1, 0.8, 1.2], Grade::NotPredicted);
    // Both count as no change, which is a direction too.
    check(ratio(1.04), [0.98, 0.9, 1.1], Grade::Quantitative);
    check(Reported::Share(0.12), [0.06, 0.04, 0.2], Grade::Order);
    check(Reported::Share(0.12), [0.01, 0.0, 0.2], Grade::NotPredicted);
    check(Reported::Less, [0.5, 0.4, 2.0], Grade::Direction);
    check(Reported::More, [0.5, 0.4, 2.0], Grade::NotPredicted);
    assert_eq!(graded(ratio(0.5), Standing::Anchor, [0.5, 0.5, 0.5]), Grade::Fitted);
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

#[test]
fn every_incident_says_where_its_numbers_come_from() {
    for incident in INCIDENTS {
        let inputs = (incident.inputs)();
        assert!(
            !inputs.is_empty() && !incident.sources.is_empty() && !incident.limitations.is_empty()
        );
        for input in inputs {
            assert!(input.number.low <= input.number.high, "{}", input.name);
        }
        let targets = incident.targets.iter();
        let anchors = targets.filter(|target| target.standing == Standing::Anchor);
        assert!(anchors.count() <= usize::from(incident.fitted.is_some()), "{}", incident.name);
        assert_eq!((incident.nulls)().len(), incident.targets.len(), "{}", incident.name);
    }
}

/// One parameter fitted on 2 CPUs predicts the gain on 32 within a factor of 1.5.
#[test]
fn the_gain_on_32_cpus_follows_from_that_on_2() {
    let replay = replay(&file_locks::INCIDENT, 2, 1).unwrap();
    let flock02 = replay.rows.last().unwrap();
    let Reported::Ratio(reported) = flock02.target.reported else { panic!("a ratio was reported") };
    let factor = flock02.predicted.middle / reported;
    assert!((1.0 / 1.5..1.5).contains(&factor), "{factor}");
    // No null model predicts it.
    for null in [flock02.nulls.usl, flock02.nulls.queueing].map(Option::unwrap) {
        assert!(null / reported > 5.0, "{null}");
    }
}

/// The reporter's question: are there more interrupts, or does each cost more?
#[test]
fn a_repair_sends_more_interrupts_at_the_same_cost_each() {
    let replay = replay(&repair::INCIDENT, 0, 1).unwrap();
    let [small, small_in_turn, large, large_in_turn] =
        [0, 1, 2, 3].map(|row| replay.rows[row].predicted.middle);
    assert!(1.05 < small && 1.05 < small_in_turn, "{small} {small_in_turn}");
    assert!(small < large_in_turn && small_in_turn < large_in_turn && large_in_turn < large);
    for row in replay.figure.unwrap().rows {
        let [_, counts_before, counts_after, us_before, us_after] = row[..] else {
            panic!("{row:?}");
        };
        assert!(counts_after > 5.0 * counts_before, "{row:?}");
        assert!((0.67..1.5).contains(&(us_after / us_before)), "{row:?}");
    }
}
