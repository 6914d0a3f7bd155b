//! Whether knee's rate reaches the limit, from pairs of windows in several starts of both programs.

/// What knee's operations per second of CPU time should reach of theirs.
pub const LIMIT: f64 = 0.99;

/// The ratios of one start of both programs, a ratio for each pair of windows.
pub type Start = Vec<f64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With 95 %, the median of all ratios is not below the limit, and no start is surely below it.
    Reaches,
    /// With 95 %, the median of all ratios of three starts or more is below the limit, and no start is surely not.
    Below,
    /// A start is surely below the limit and another surely not: what differs is drawn at the start, such as addresses.
    DiffersByStart,
    CannotTell,
}

impl Verdict {
    pub fn told(self) -> &'static str {
        match self {
            Verdict::Reaches => "reaches it",
            Verdict::Below => "BELOW",
            Verdict::DiffersByStart => "differs by start",
            Verdict::CannotTell => "cannot tell",
        }
    }

    pub fn new(starts: &[Start]) -> Verdict {
        let intervals: Vec<(f64, f64)> =
            starts.iter().map(|ratios| around_median(ratios)).collect();
        let below = intervals.iter().filter(|(_, high)| *high < LIMIT).count();
        let reaching = intervals.iter().filter(|(low, _)| *low >= LIMIT).count();
        let (low, high) = around_median(&starts.concat());
        match (below, reaching) {
            (1.., 1..) => Verdict::DiffersByStart,
            _ if high < LIMIT && starts.len() >= 3 => Verdict::Below,
            (0, _) if low >= LIMIT => Verdict::Reaches,
            _ => Verdict::CannotTell,
        }
    }
}

/// Between which values the median lies but in one of twenty cases, whatever the distribution: those whose ranks are
/// 1.96 deviations of a binomial from the middle, rounded outwards.
pub fn around_median(ratios: &[f64]) -> (f64, f64) {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let aside = 0.98 * n.sqrt();
    let low = (n / 2.0 - aside).floor().max(0.0) as usize;
    let high = ((n / 2.0 + aside).ceil() as usize).min(sorted.len() - 1);
    (sorted[low], sorted[high])
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(starts: &[f64], expected: Verdict) {
        let start = |middle: &f64| (0..15).map(|n| middle + 0.001 * (n as f64 - 7.0)).collect();
        let starts: Vec<Start> = starts.iter().map(start).collect();
        assert_eq!(Verdict::new(&starts), expected);
    }

    #[test]
    fn only_starts_that_agree_decide() {
        check(&[1.0, 1.01], Verdict::Reaches);
        check(&[0.9, 0.9], Verdict::CannotTell);
        check(&[0.9, 0.95, 0.9], Verdict::Below);
        check(&[0.9, 1.0, 1.0], Verdict::DiffersByStart);
        check(&[0.985, 0.986, 0.984], Verdict::Below);
        check(&[0.989, 0.991], Verdict::CannotTell);
    }

    #[test]
    fn an_interval_of_a_median_has_its_ranks() {
        let ratios: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(around_median(&ratios), (40.0, 60.0));
        assert_eq!(around_median(&[1.0, 2.0]), (1.0, 2.0));
    }
}
