//! The evidence as a normal model of the levels: what builds and steps add is integrated out.
//!
//! A run is level(group of its build) + build + step + noise. In units of the variance of a run, what a build adds has
//! the variance `layout`, what a step adds `drift`. With levels b and the design X, -2 log likelihood is
//! c - 2 b'X'h + b'X'WXb: sums of h and W over groups of builds are all that a hypothesis needs.

use crate::evidence::Evidence;

/// Prior of the variance of a run: weight as half a run with a spread of 3 %.
pub const SHAPE: f64 = 0.5;
pub const SCALE: f64 = SHAPE * 0.03 * 0.03;

/// The model under one layout and one drift.
pub struct Ground {
    /// Subtracted from all logarithms, against cancellation.
    pub origin: f64,
    /// W, by rows.
    precision: Vec<f64>,
    /// h.
    pub information: Vec<f64>,
    /// c.
    squares: f64,
    /// The logarithm of the determinants of what was integrated out.
    log_determinant: f64,
    builds: usize,
    runs: f64,
}

impl Ground {
    pub fn new(evidence: &Evidence, layout: f64, drift: f64) -> Ground {
        let builds = evidence.builds().len();
        let origin = evidence.builds()[0].mean;
        let mut precision = vec![0.0; builds * builds];
        let mut information = vec![0.0; builds];
        let (mut squares, mut log_determinant) = (0.0, 0.0);
        for cells in evidence.by_step() {
            let runs: f64 = cells.iter().map(|cell| f64::from(cell.sums.runs)).sum();
            let shared = drift / (1.0 + drift * runs);
            let sum: f64 = cells
                .iter()
                .map(|cell| f64::from(cell.sums.runs) * (cell.sums.mean - origin))
                .sum();
            squares -= shared * sum * sum;
            log_determinant -= 0.5 * (1.0 + drift * runs).ln();
            for a in cells {
                let (n, mean) = (f64::from(a.sums.runs), a.sums.mean - origin);
                squares += a.sums.squares + n * mean * mean;
                information[a.build] += n * (mean - shared * sum);
                precision[a.build * builds + a.build] += n;
                for b in cells {
                    precision[a.build * builds + b.build] -= shared * n * f64::from(b.sums.runs);
                }
            }
        }
        let runs = f64::from(evidence.runs());
        let mut ground =
            Ground { origin, precision, information, squares, log_determinant, builds, runs };
        if layout > 0.0 {
            ground.integrate_layout(layout);
        }
        ground
    }

    /// What each build adds: with M = (1 + layout A)^-1, W becomes MA, h becomes Mr, c loses layout r'Mr.
    fn integrate_layout(&mut self, layout: f64) {
        let n = self.builds;
        // (1 + layout A)^-1 A = (1 - M) / layout.
        let mut matrix: Vec<f64> = self.precision.iter().map(|entry| layout * entry).collect();
        (0..n).for_each(|i| matrix[i * n + i] += 1.0);
        let (inverse, log_determinant) = inverted(&matrix, n);
        let new: Vec<f64> = (0..n)
            .map(|i| (0..n).map(|j| inverse[i * n + j] * self.information[j]).sum())
            .collect();
        let lost: f64 = new.iter().zip(&self.information).map(|(new, old)| new * old).sum();
        self.squares -= layout * lost;
        self.log_determinant -= 0.5 * log_determinant;
        self.information = new;
        for i in 0..n {
            for j in 0..n {
                let unit = if i == j { 1.0 } else { 0.0 };
                self.precision[i * n + j] = (unit - inverse[i * n + j]) / layout;
            }
        }
    }

    /// The best level of each build by itself, with its variance over that of a run. Every build must have runs.
    pub fn levels(&self) -> Vec<(f64, f64)> {
        let n = self.builds;
        let (inverse, _) = inverted(&self.precision, n);
        let level = |row: usize| product(&inverse[row * n..(row + 1) * n], &self.information);
        (0..n).map(|row| (self.origin + level(row), inverse[row * n + row])).collect()
    }

    /// The sums of W over the builds of a group, by row.
    pub fn row_sums(&self, group: &[bool]) -> Vec<f64> {
        let mut sums = vec![0.0; self.builds];
        for (row, _) in
            self.precision.chunks(self.builds.max(1)).zip(group).filter(|(_, is_in)| **is_in)
        {
            sums.iter_mut().zip(row).for_each(|(sum, entry)| *sum += entry);
        }
        sums
    }

    /// The sum of W over pairs of builds, one of each group.
    pub fn group_sums(&self, a: &[bool], b: &[bool]) -> f64 {
        sum_of(&self.row_sums(a), b)
    }

    /// The sum of h over a group.
    pub fn group_information(&self, group: &[bool]) -> f64 {
        sum_of(&self.information, group)
    }

    /// The logarithm of the probability of the runs: `explained` is h'b at the best levels b, `log_levels` the logarithm of
    /// the determinant of their precision.
    pub fn log_evidence(&self, explained: f64, log_levels: f64) -> f64 {
        self.log_determinant - 0.5 * log_levels - self.power() * (self.half_squares(explained)).ln()
    }

    /// The variance of a run.
    pub fn variance(&self, explained: f64) -> f64 {
        self.half_squares(explained) / self.power()
    }

    fn half_squares(&self, explained: f64) -> f64 {
        SCALE + (self.squares - explained).max(0.0) / 2.0
    }

    fn power(&self) -> f64 {
        SHAPE + (self.runs - 2.0).max(0.0) / 2.0
    }
}

/// The sum of the values of a group.
pub fn sum_of(values: &[f64], group: &[bool]) -> f64 {
    in_lanes(values, group, |value, is_in| if is_in { value } else { 0.0 })
}

/// The inverse of a positive definite matrix and the logarithm of its determinant, by Cholesky's factors. All inner loops
/// run along rows.
pub fn inverted(matrix: &[f64], n: usize) -> (Vec<f64>, f64) {
    let mut factor = vec![0.0; n * n];
    let mut log_determinant = 0.0;
    for i in 0..n {
        for j in 0..=i {
            let known = product(&factor[i * n..i * n + j], &factor[j * n..j * n + j]);
            let left = matrix[i * n + j] - known;
            factor[i * n + j] =
                if i == j { left.max(1e-300).sqrt() } else { left / factor[j * n + j] };
        }
        log_determinant += 2.0 * factor[i * n + i].ln();
    }
    // The inverse of the factor, transposed.
    let mut columns = vec![0.0; n * n];
    for j in 0..n {
        for i in j..n {
            let unit = if i == j { 1.0 } else { 0.0 };
            let known = product(&factor[i * n + j..i * n + i], &columns[j * n + j..j * n + i]);
            columns[j * n + i] = (unit - known) / factor[i * n + i];
        }
    }
    let mut inverse = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let entry = product(&columns[i * n + i..(i + 1) * n], &columns[j * n + i..(j + 1) * n]);
            inverse[i * n + j] = entry;
            inverse[j * n + i] = entry;
        }
    }
    (inverse, log_determinant)
}

/// The scalar product of two rows.
fn product(a: &[f64], b: &[f64]) -> f64 {
    in_lanes(a, b, |a, b| a * b)
}

/// The sum over two rows, in sums that do not wait for each other.
fn in_lanes<T: Copy>(a: &[f64], b: &[T], of: impl Fn(f64, T) -> f64) -> f64 {
    const LANES: usize = 8;
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += of(*a, *b);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| of(*a, *b)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::{Ground, inverted};
    use crate::evidence::Evidence;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let matrix = [4.0, 1.0, 0.5, 1.0, 3.0, -0.2, 0.5, -0.2, 2.0];
        let (inverse, log_determinant) = inverted(&matrix, 3);
        for i in 0..3 {
            for j in 0..3 {
                let entry: f64 = (0..3).map(|k| matrix[i * 3 + k] * inverse[k * 3 + j]).sum();
                let unit = if i == j { 1.0 } else { 0.0 };
                assert!((entry - unit).abs() < 1e-12, "{i} {j} {entry}");
            }
        }
        let determinant: f64 = 4.0 * (6.0 - 0.04) - (2.0 + 0.1) + 0.5 * (-0.2 - 1.5);
        assert!((log_determinant - determinant.ln()).abs() < 1e-12);
    }

    /// -2 log likelihood of two levels, from the definition: the covariance of all runs.
    fn by_definition(
        runs: &[(usize, usize, f64)],
        levels: [f64; 2],
        layout: f64,
        drift: f64,
    ) -> f64 {
        let n = runs.len();
        let same = |a: usize, b: usize| if a == b { 1.0 } else { 0.0 };
        let mut covariance = vec![0.0; n * n];
        for (i, a) in runs.iter().enumerate() {
            for (j, b) in runs.iter().enumerate() {
                covariance[i * n + j] =
                    same(i, j) + layout * same(a.0, b.0) + drift * same(a.1, b.1);
            }
        }
        let (inverse, log_determinant) = inverted(&covariance, n);
        let off: Vec<f64> = runs.iter().map(|run| run.2 - levels[run.0 % 2]).collect();
        let squares: f64 = (0..n * n).map(|at| inverse[at] * off[at / n] * off[at % n]).sum();
        squares + log_determinant
    }

    #[test]
    fn levels_of_builds_are_compared_within_steps() {
        let mut evidence = Evidence::new(&[0, 9, 5]);
        // The host is 10 slower in the second step, which has build 1 and build 2.
        for (drift, builds) in [(0.0, [0, 1]), (10.0, [1, 2])] {
            evidence.begin_step();
            for build in builds {
                (0..4).for_each(|_| evidence.add(build, drift + build as f64));
            }
        }
        let levels = Ground::new(&evidence, 0.0, 1e6).levels();
        let over_first = |build: usize| levels[build].0 - levels[0].0;
        assert!((over_first(1) - 1.0).abs() < 1e-3 && (over_first(2) - 2.0).abs() < 1e-3);
        let plain = Ground::new(&evidence, 0.0, 0.0).levels();
        assert!((plain[2].0 - 12.0).abs() < 1e-9 && (plain[2].1 - 0.25).abs() < 1e-12);
    }

    #[test]
    fn builds_and_steps_are_integrated_out_as_defined() {
        // Build, step, value; even builds are of one group, odd ones of the other.
        let runs = [
            (0, 1, 0.3),
            (1, 1, 1.2),
            (0, 1, 0.1),
            (2, 2, -0.4),
            (2, 2, 0.2),
            (1, 3, 0.9),
            (3, 3, 1.4),
            (0, 3, -0.2),
        ];
        let mut evidence = Evidence::new(&[0, 1, 2, 3]);
        let mut step = 0;
        for (build, at, value) in runs {
            if at != step {
                evidence.begin_step();
                step = at;
            }
            evidence.add(build, value);
        }
        let [even, odd] = [[true, false, true, false], [false, true, false, true]];
        for (layout, drift) in [(0.0, 0.0), (0.5, 0.0), (0.0, 0.7), (0.4, 1.3)] {
            let ground = Ground::new(&evidence, layout, drift);
            for levels in [[0.0, 1.0], [0.4, -0.3]] {
                let [a, b] = [levels[0] - ground.origin, levels[1] - ground.origin];
                let linear =
                    a * ground.group_information(&even) + b * ground.group_information(&odd);
                let square = a * a * ground.group_sums(&even, &even)
                    + 2.0 * a * b * ground.group_sums(&even, &odd)
                    + b * b * ground.group_sums(&odd, &odd);
                let found = ground.squares - 2.0 * linear + square - 2.0 * ground.log_determinant;
                let expected = by_definition(&runs, levels, layout, drift);
                assert!((found - expected).abs() < 1e-9, "{layout} {drift}: {found} {expected}");
            }
        }
    }
}
