//! How near simulated rates of operations came to published ones.

use studies::operation_grades::{GradedRate, GradedRates, graded_rates};

#[test]
fn nine_tenths_of_a_kind_are_within_its_factor() {
    let rate = |compares: bool, published: f64| GradedRate {
        name: String::new(),
        compares,
        published,
        middle: 10.0,
        low: 8.0,
        high: 12.0,
    };
    let mut row: Vec<GradedRate> = (0..8).map(|_| rate(true, 10.0)).collect();
    row.extend([rate(true, 24.0), rate(true, 120.0), rate(false, 2.0)]);
    let rates = GradedRates { row };
    assert_eq!(rates.error(true), Some((10, 2.0)));
    assert_eq!(rates.error(false), Some((1, 4.0)));
    assert_eq!(GradedRates::default().error(true), None);
    assert!(graded_rates().error(true).is_some() && graded_rates().error(false).is_some());
}
