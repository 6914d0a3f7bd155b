//! Grades against what they mean, the fit against functions with known answers, and small replays
//! as they are printed.

use expect_test::expect;

use super::*;
use crate::reports::{self, Style};

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
    // Near, but the interval does not have it.
    check(ratio(0.5), [0.4, 0.3, 0.45], Grade::Order);
    check(ratio(0.5), [0.2, 0.1, 0.6], Grade::Order);
    check(ratio(0.5), [0.1, 0.1, 0.6], Grade::Direction);
    // Near, but no change or the other way round.
    check(ratio(0.9), [1.0, 0.8, 1.2], Grade::NotPredicted);
    check(ratio(0.9), [1.1, 0.8, 1.2], Grade::NotPredicted);
    // No change is a direction, too.
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
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 2e-3, "{found}");
    near(fitted([1.0, 100.0], 49.0, |x| Ok(x * x)).unwrap(), 7.0);
    near(fitted([1.0, 100.0], 0.1, |x| Ok(1.0 / x)).unwrap(), 10.0);
    // What is beyond the range is at its end.
    near(fitted([1.0, 100.0], 1e9, Ok).unwrap(), 100.0);
}

#[test]
fn every_incident_says_where_its_numbers_come_from() {
    for incident in INCIDENTS {
        let inputs = (incident.inputs)();
        assert!(!inputs.is_empty() && !incident.sources.is_empty() && !incident.lacks.is_empty());
        for input in inputs {
            assert!(input.number.low <= input.number.high, "{}", input.name);
        }
        let anchors = incident.targets.iter().filter(|one| one.standing == Standing::Anchor);
        assert!(anchors.count() <= usize::from(incident.fitted.is_some()), "{}", incident.name);
        assert_eq!((incident.nulls)().len(), incident.targets.len(), "{}", incident.name);
    }
}

/// One parameter fitted on 2 CPUs predicts what 32 gain, within 1.5 times.
#[test]
fn what_32_cpus_gain_follows_from_what_2_do() {
    let replay = replay(&file_locks::INCIDENT, 2, 1).unwrap();
    let flock02 = replay.rows.last().unwrap();
    let Reported::Ratio(reported) = flock02.target.reported else { panic!("a ratio was reported") };
    let times = flock02.predicted.middle / reported;
    assert!((1.0 / 1.5..1.5).contains(&times), "{times}");
    // Which no null model does.
    for null in [flock02.nulls.usl, flock02.nulls.queueing].map(Option::unwrap) {
        assert!(null / reported > 5.0, "{null}");
    }
}

/// The reporter's question: more interrupts, or dearer ones.
#[test]
fn a_repair_sends_more_interrupts_and_no_dearer_ones() {
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

#[test]
fn a_replay_is_the_same_on_every_computer() {
    let replay = replay(&page_faults::INCIDENT, 2, 1).unwrap();
    expect![[r#"
        I4  write faults on three file systems, 160 processes
            D. Hansen, page fault scalability (ext3, ext4, xfs), 2013-08-14

        found     tasks: 160 (the report)
        assumed   tick: 1..4 ms (1000, 300 or 250 ticks a second in kernels of that time)
        assumed   work of a fault: 3000..8000 ns (a fault that finds a page of the cache and marks it dirty,
                  through a file system)
        assumed   work under the lock: 50..200 ns (one to some hundred instructions beside the list)

        target                         reported               predicted  grade
        more time in spinlocks on xfs     0.125  0.0633 (0.0571..0.106)  ratio order
        faults/s, xfs / ext4              0.875    0.937 (0.894..0.943)  ratio order
        faults/s, ext4 / ext3               0.8       1.29 (1.26..1.64)  not predicted, open

        faults/s, over those of one task on ext4
        tasks   ext3    ext4     xfs
            1   1.00    1.00    1.00
           10  10.02   10.03   10.03
           20  19.89   20.06   20.04
           40  38.79   40.17   39.76
           60  55.73   60.11   58.88
           80  70.22   80.02   77.22
          120  81.62   93.92   90.60
          160  83.20  107.53  100.73

        simulated on westmere-ex-8s: 12 numbers found, 0 measured, 40 assumed as ranges, 0 fitted; in
          brackets the lowest and highest of 3 draws of all ranges
        - a file's time stamp changes with the tick, for all tasks at once: each tick all 160 come to the
          lock of the list. How long a tick was is not reported
        - ext4 against ext3 is the length of their paths, of which the model has nothing: it has the locks
          of their journals, by which ext3 is the slower one
    "#]].assert_eq(&reports::replayed(&replay, 2, Style::PLAIN));
}
