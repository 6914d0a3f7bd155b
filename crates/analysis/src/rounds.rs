//! Further rounds of a gate: which of the cases that its blocks left open run again, and how many runs each of their values is
//! the mean of.

/// The most runs that a value is the mean of.
const RUNS_MAX: u32 = 16;

/// Blocks of a case until it is set aside, as a rule.
const USUAL_BLOCKS: f64 = 28.0;

/// A case that earlier rounds left open.
#[derive(Clone, Copy, Debug)]
pub struct OpenCase {
    /// How much worse it seems, as a logarithm.
    pub worse_by: f64,
    /// The smallest change that a round of single runs finds in it in four of five gates, as a share.
    pub could_see: Option<f64>,
}

/// What a further round runs.
#[derive(Clone, Debug, PartialEq)]
pub struct FurtherRound {
    /// The cases by their place, the most suspicious first.
    pub cases: Vec<usize>,
    /// Runs of which a value is the mean.
    pub runs: u32,
}

/// The next round of cases that are open: as many runs for a value as it takes to see the smallest effect in half of them,
/// and as many cases as that many runs are likely to last for. `None` without cases.
pub fn further_round(open: &[OpenCase], smallest: f64, runs_left: f64) -> Option<FurtherRound> {
    let mut cases: Vec<usize> = (0..open.len()).collect();
    cases.sort_by(|a, b| open[*b].worse_by.total_cmp(&open[*a].worse_by));
    let needed = |case: &OpenCase| {
        let times = case.could_see.unwrap_or(smallest) / smallest;
        (times * times).ceil().clamp(1.0, f64::from(RUNS_MAX)) as u32
    };
    let mut wanted: Vec<u32> = open.iter().map(needed).collect();
    wanted.sort_unstable();
    let runs = *wanted.get(wanted.len() / 2)?;
    let affordable = runs_left / (2.0 * USUAL_BLOCKS * f64::from(runs));
    cases.truncate((affordable as usize).max(1));
    Some(FurtherRound { cases, runs })
}

#[cfg(test)]
mod tests {
    use super::{FurtherRound, OpenCase, further_round};

    #[test]
    fn the_most_suspicious_cases_run_as_often_as_their_noise_needs() {
        let check = |could_see: [f64; 3], runs_left: f64, cases: &[usize], runs: u32| {
            let open = [(0.001, 0), (0.02, 1), (-0.01, 2)]
                .map(|(worse_by, at)| OpenCase { worse_by, could_see: Some(could_see[at]) });
            let expected = Some(FurtherRound { cases: cases.to_vec(), runs });
            assert_eq!(further_round(&open, 0.02, runs_left), expected);
        };
        check([0.02, 0.01, 0.02], 1e4, &[1, 0, 2], 1);
        check([0.04, 0.5, 0.03], 1e4, &[1, 0, 2], 4);
        check([0.04, 0.5, 0.03], 500.0, &[1, 0], 4);
        check([0.5, 0.5, 0.5], 10.0, &[1], 16);
        assert_eq!(further_round(&[], 0.02, 1e4), None);
    }
}
