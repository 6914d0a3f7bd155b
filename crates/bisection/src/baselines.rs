//! How other tools search for a commit with a flaky test, for comparison in the self-check. Written from their
//! documentation and from what their users describe, not from their source. None of this decides anything in knee.

/// The result of a tool that always names a commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named {
    /// `None` if the tool was still searching at the most runs allowed.
    pub change: Option<usize>,
    pub runs: u32,
    pub builds: u32,
}

/// `git bisect run` with a script that compares the mean of `repeats` runs with a threshold: the middle between the
/// ends, each measured as often.
pub fn git_bisect(changes: usize, repeats: u32, mut measure: impl FnMut(usize) -> f64) -> Named {
    let mut mean = |commit| (0..repeats).map(|_| measure(commit)).sum::<f64>() / f64::from(repeats);
    let (good, bad) = (mean(0), mean(changes));
    let threshold = f64::midpoint(good, bad);
    let (mut low, mut high, mut builds) = (0, changes, 2);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        builds += 1;
        if (mean(middle) > threshold) == (bad > good) { high = middle } else { low = middle }
    }
    Named { change: Some(high), runs: builds * repeats, builds }
}

/// git_bayesect, as documented: a test passes or fails with an unknown probability before the culprit and another
/// from it on, both Beta(1/2, 1/2); the commit whose outcome leaves the least expected entropy is tested next; it
/// stops at a posterior of 95 %. A run fails here beyond the middle of `repeats` runs of each end.
pub fn bayesect(
    changes: usize,
    repeats: u32,
    runs_max: u32,
    mut measure: impl FnMut(usize) -> f64,
) -> Named {
    let mut mean = |commit| (0..repeats).map(|_| measure(commit)).sum::<f64>() / f64::from(repeats);
    let threshold = f64::midpoint(mean(0), mean(changes));
    let mut bayes = Bayesect::new(changes);
    let mut runs = 2 * repeats;
    loop {
        let weights = bayes.weights();
        let builds = bayes.builds();
        if let Some(at) = weights.iter().position(|p| *p >= 0.95) {
            return Named { change: Some(at + 1), runs, builds };
        }
        if runs >= runs_max {
            return Named { change: None, runs, builds };
        }
        let commit = bayes.choose(&weights);
        bayes.outcomes[commit][usize::from(measure(commit) > threshold)] += 1;
        runs += 1;
    }
}

/// The outcomes of a search so far.
struct Bayesect {
    /// Passes and failures of each commit.
    outcomes: Vec<[u32; 2]>,
}

impl Bayesect {
    fn new(changes: usize) -> Bayesect {
        Bayesect { outcomes: vec![[0; 2]; changes + 1] }
    }

    fn builds(&self) -> u32 {
        let inner = &self.outcomes[1..self.outcomes.len() - 1];
        2 + inner.iter().filter(|[a, b]| a + b > 0).count() as u32
    }

    /// Outcomes before each culprit, and from it on.
    fn sides(&self) -> Vec<[[u32; 2]; 2]> {
        let add = |a: [u32; 2], b: [u32; 2]| [a[0] + b[0], a[1] + b[1]];
        let total = self.outcomes.iter().fold([0, 0], |sum, one| add(sum, *one));
        let mut before = [0, 0];
        let culprits = self.outcomes[..self.outcomes.len() - 1].iter().map(|outcomes| {
            before = add(before, *outcomes);
            [before, [total[0] - before[0], total[1] - before[1]]]
        });
        culprits.collect()
    }

    /// The posterior of each change, from 1.
    fn weights(&self) -> Vec<f64> {
        let runs: u32 = self.outcomes.iter().flatten().sum();
        // ln Γ(n + 1/2) - ln Γ(1/2), and ln n!.
        let (mut half, mut whole) = (vec![0.0], vec![0.0]);
        for n in 0..runs {
            half.push(half[n as usize] + (f64::from(n) + 0.5).ln());
            whole.push(whole[n as usize] + f64::from(n + 1).ln());
        }
        let beta = |[a, b]: [u32; 2]| half[a as usize] + half[b as usize] - whole[(a + b) as usize];
        let logs: Vec<f64> = self.sides().iter().map(|[l, r]| beta(*l) + beta(*r)).collect();
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - highest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    /// The commit whose outcome leaves the least expected entropy.
    fn choose(&self, weights: &[f64]) -> usize {
        let sides = self.sides();
        let fails = |[a, b]: [u32; 2]| (f64::from(b) + 0.5) / (f64::from(a + b) + 1.0);
        let log = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
        // Sums over the culprits up to a commit, and of all: failing, passing; weight and weight times its logarithm.
        let terms = |side: usize| {
            weights.iter().zip(&sides).map(move |(p, sides)| {
                let fail = p * fails(sides[side]);
                [fail, p - fail, log(fail), log(p - fail)]
            })
        };
        let add = |a: [f64; 4], b: [f64; 4]| std::array::from_fn(|i| a[i] + b[i]);
        let subtract = |a: [f64; 4], b: [f64; 4]| std::array::from_fn(|i| a[i] - b[i]);
        let mut sum: [f64; 4] = terms(0).fold([0.0; 4], add);
        let (mut best, mut least) = (0, f64::INFINITY);
        let commits = std::iter::once([[0.0; 4]; 2])
            .chain(terms(0).zip(terms(1)).map(|(before, from)| [before, from]));
        for (commit, [before, from]) in commits.enumerate() {
            sum = add(subtract(sum, before), from);
            let [fail, pass, fail_log, pass_log] = sum;
            let entropy = log(fail) - fail_log + log(pass) - pass_log;
            if entropy < least - 1e-12 {
                (best, least) = (commit, entropy);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::{bayesect, git_bisect};

    #[test]
    fn without_noise_both_find_every_change() {
        for change in [1, 2, 50, 99, 100] {
            let level = |commit| if commit >= change { 1.0 } else { 0.0 };
            let found = git_bisect(100, 1, level);
            assert_eq!((found.change, found.runs <= 9), (Some(change), true));
            let found = bayesect(100, 1, 200, level);
            assert_eq!(found.change, Some(change), "{found:?}");
        }
    }

    #[test]
    fn git_bisect_names_a_commit_where_nothing_changed() {
        assert!(git_bisect(100, 1, |_| 0.0).change.is_some());
        assert_eq!(bayesect(100, 1, 50, |_| 0.0).change, None);
    }
}
