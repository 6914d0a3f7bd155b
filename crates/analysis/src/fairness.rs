//! Jain's fairness index.

/// Jain's index of shares: 1 if all are equal, 1/n if one has everything. `None` if there are
/// no shares or all are 0.
///
/// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and
/// Discrimination", DEC TR-301, 1984.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn equal_shares_are_fair_and_one_winner_is_not() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
