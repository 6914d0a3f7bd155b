//! How other tools search for a commit with a flaky test, for comparison in the self-check. Written from their
//! documentation and from what their users describe, not from their source. None of this decides anything in knee.

use statrs::distribution::{ContinuousCDF, StudentsT};

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

/// Apache Otava, as documented: the split of a series with the largest energy distance between both sides is a change if
/// Student's t finds one at a tenfold level, then both sides are split again; in the end the weakest go until all
/// have p < 0.001 against their neighbours. Returns the first point of each new level.
pub fn otava(values: &[f64]) -> Vec<usize> {
    const LEVEL: f64 = 0.001;
    let mut changes = Vec::new();
    let mut parts = vec![(0, values.len())];
    while let Some((low, high)) = parts.pop() {
        let distance = |at: usize| energy(&values[low..at], &values[at..high]);
        let split = (low + 1..high).max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let Some(at) = split else { continue };
        if student(&values[low..at], &values[at..high]) < 10.0 * LEVEL {
            changes.push(at);
            parts.extend([(low, at), (at, high)]);
        }
    }
    changes.sort_unstable();
    loop {
        let p = |index: usize| {
            let low = if index == 0 { 0 } else { changes[index - 1] };
            let high = changes.get(index + 1).copied().unwrap_or(values.len());
            student(&values[low..changes[index]], &values[changes[index]..high])
        };
        let weakest = (0..changes.len()).max_by(|a, b| p(*a).total_cmp(&p(*b)));
        match weakest.filter(|weakest| p(*weakest) >= LEVEL) {
            Some(weakest) => drop(changes.remove(weakest)),
            None => return changes,
        }
    }
}

/// The energy distance of two samples, by their sizes.
fn energy(a: &[f64], b: &[f64]) -> f64 {
    let mean = |a: &[f64], b: &[f64]| {
        let sum: f64 = a.iter().map(|x| b.iter().map(|y| (x - y).abs()).sum::<f64>()).sum();
        sum / (a.len() * b.len()) as f64
    };
    let (m, n) = (a.len() as f64, b.len() as f64);
    (2.0 * mean(a, b) - mean(a, a) - mean(b, b)) * m * n / (m + n)
}

/// The p of Student's t with one variance for both sides, of which one may have a single value.
fn student(a: &[f64], b: &[f64]) -> f64 {
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    let squares = |side: &[f64]| side.iter().map(|value| (value - mean(side)).powi(2)).sum::<f64>();
    let (m, n) = (a.len() as f64, b.len() as f64);
    let freedom = m + n - 2.0;
    let error = ((squares(a) + squares(b)) / freedom * (1.0 / m + 1.0 / n)).sqrt();
    let t = (mean(b) - mean(a)).abs() / error;
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |law| 2.0 * law.sf(t))
}

/// A threshold on absolute values, as jobs have it that compare with what they stored: a point that differs from the one
/// before it by more than `share` is a change.
pub fn beyond_share(values: &[f64], share: f64) -> Vec<usize> {
    let differs = |at: &usize| (values[*at] - values[at - 1]).abs() > share.ln_1p();
    (1..values.len()).filter(differs).collect()
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
    use super::{bayesect, beyond_share, git_bisect, otava};

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
    fn rules_of_series_find_a_large_step() {
        let noise = |at: usize| [0.001, -0.002, 0.0, 0.002, -0.001][at % 5];
        let step = |at| noise(at) + if at >= 12 { 0.1 } else { 0.0 };
        let values: Vec<f64> = (0..20).map(step).collect();
        assert_eq!((otava(&values), beyond_share(&values, 0.05)), (vec![12], vec![12]));
        let flat: Vec<f64> = (0..20).map(noise).collect();
        assert_eq!((otava(&flat), beyond_share(&flat, 0.05)), (vec![], vec![]));
    }

    #[test]
    fn git_bisect_names_a_commit_where_nothing_changed() {
        assert!(git_bisect(100, 1, |_| 0.0).change.is_some());
        assert_eq!(bayesect(100, 1, 50, |_| 0.0).change, None);
    }
}
