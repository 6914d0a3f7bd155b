//! Least squares: the parameters of a law at which the logarithms of its rates are nearest to those measured.
//!
//! Sources: K. Levenberg, "A Method for the Solution of Certain Non-Linear Problems in Least Squares", 1944;
//! D. Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear Parameters", 1963.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::law::{Law, Parameters, STEP};

/// Without known noise, a law may hold if the points deviate from it by no more than this.
pub const FITS_WITHOUT_NOISE: f64 = 0.05;

/// A measured rate.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The number of tasks.
    pub tasks: f64,
    /// The logarithm of the rate.
    pub log_rate: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// How often the step applies: once behind a cliff; behind a bend, the logarithm of how many times the CPUs of the
    /// bend.
    pub steps: f64,
    /// Time that was added to the lock, as a dose. Only laws of a lock know what it does.
    pub dose: f64,
}

/// A quantity of a queue that is known from elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub quantity: Quantity,
    /// Its logarithm.
    pub log: f64,
    /// The standard deviation of that.
    pub deviation: f64,
}

/// What a lock's time consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The time for which it is held.
    Hold,
    /// What each waiting task adds to that.
    Handover,
    /// The serial share of an operation.
    Share,
    /// What a law with three parameters has beside that: the hand-over as a share of the hold, or κ.
    Third,
}

impl Quantity {
    /// The logarithm of the quantity in a law with a queue.
    pub fn log(self, parameters: &Parameters) -> f64 {
        match self {
            Quantity::Hold => parameters[0] + parameters[1],
            Quantity::Handover => parameters[0] + parameters[1] + parameters[2],
            Quantity::Share => parameters[1],
            Quantity::Third => parameters[2],
        }
    }
}

/// A law with the parameters that fit best.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    pub law: Law,
    pub parameters: Parameters,
    /// The sum of the squared deviations, each over its standard deviation.
    pub squares: f64,
}

impl Fit {
    /// Fits a law, from several starts.
    pub fn new(law: Law, observed: &[Observation], known: &[Known]) -> Fit {
        let fits = starts(law, observed).into_iter();
        let fits = fits.map(|start| Fit::from_start(law, start, observed, known));
        fits.min_by(|a, b| a.squares.total_cmp(&b.squares)).expect("every law has a start")
    }

    /// Fits a law from parameters that are near already.
    pub fn from_start(
        law: Law,
        start: Parameters,
        observed: &[Observation],
        known: &[Known],
    ) -> Fit {
        const STEPS: usize = 60;
        let mut best = Fit { law, parameters: start, squares: 0.0 };
        best.squares = best.residuals(observed, known).map(|r| r * r).sum();
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            let Some((better, last_damping)) = best.descend(observed, known, damping) else {
                break;
            };
            let gained = best.squares - better.squares;
            (best, damping) = (better, (last_damping / 5.0).max(1e-9));
            if gained < 1e-9 * (1.0 + best.squares) {
                break;
            }
        }
        best
    }

    /// The rate at a number of tasks, before any step.
    pub fn rate(&self, tasks: f64) -> f64 {
        self.law.rate(&self.parameters, tasks)
    }

    /// The rate at a number of tasks with this much more time in the lock.
    pub fn dosed_rate(&self, tasks: f64, dose: f64) -> f64 {
        self.law.dosed_rate(&self.parameters, tasks, dose)
    }

    /// The probability of deviations like those of this number of points if the law holds, of which so many parameters were
    /// fitted. `None` where no noise is known.
    ///
    /// Source: R. Fisher, "The goodness of fit of regression formulae", 1922: deviations of means over those of runs.
    pub fn lack_of_fit(&self, points: usize, parameters: usize, freedom: usize) -> Option<f64> {
        let left = points.checked_sub(parameters).filter(|left| *left > 0)? as f64;
        let ratio = FisherSnedecor::new(left, freedom as f64).ok()?;
        Some(ratio.sf(self.squares / left))
    }

    /// How sharp the minimum of the squares is.
    pub fn sharpness(&self, observed: &[Observation], known: &[Known]) -> Sharpness {
        let mut matrix = self.normal_equations(observed, known).matrix;
        let has_step = observed.iter().any(|one| one.steps > 0.0);
        for (index, row) in matrix.iter_mut().enumerate() {
            if index >= self.law.parameters() && !(index == STEP && has_step) {
                row[index] = 1.0;
            }
        }
        Sharpness {
            log_determinant: log_determinant(matrix),
            step_deviation: solve(matrix, [0.0, 0.0, 0.0, 1.0])[STEP].max(0.0).sqrt(),
        }
    }

    /// A fit with fewer squares and the damping that led there; `None` at the minimum.
    fn descend(
        &self,
        observed: &[Observation],
        known: &[Known],
        mut damping: f64,
    ) -> Option<(Fit, f64)> {
        let equations = self.normal_equations(observed, known);
        while damping < 1e8 {
            let parameters = self.moved(&equations, damping);
            let mut there = Fit { parameters, ..*self };
            there.squares = there.residuals(observed, known).map(|r| r * r).sum();
            if there.squares < self.squares {
                return Some((there, damping));
            }
            damping *= 4.0;
        }
        None
    }

    /// By how many standard deviations each measured or known value is above the law.
    fn residuals<'a>(
        &'a self,
        observed: &'a [Observation],
        known: &'a [Known],
    ) -> impl Iterator<Item = f64> + 'a {
        let rates = observed.iter().map(|one| {
            let step = one.steps * self.parameters[STEP];
            (one.log_rate - self.dosed_rate(one.tasks, one.dose).ln() + step) / one.deviation
        });
        let known = known.iter();
        let known = known.map(|k| (k.log - k.quantity.log(&self.parameters)) / k.deviation);
        rates.chain(known)
    }

    fn normal_equations(&self, observed: &[Observation], known: &[Known]) -> Equations {
        const DIFFERENCE: f64 = 1e-5;
        let here: Vec<f64> = self.residuals(observed, known).collect();
        let slopes = |index: usize| -> Vec<f64> {
            if index >= self.law.parameters() && index != STEP {
                return vec![0.0; here.len()];
            }
            let mut there = *self;
            let at_end = there.parameters[index] + DIFFERENCE > self.law.range(index).1;
            let difference = if at_end { -DIFFERENCE } else { DIFFERENCE };
            there.parameters[index] += difference;
            let residuals = there.residuals(observed, known);
            residuals.zip(&here).map(|(there, here)| (there - here) / difference).collect()
        };
        let slopes = [0, 1, 2, STEP].map(slopes);
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        Equations {
            matrix: [0, 1, 2, STEP]
                .map(|a| [0, 1, 2, STEP].map(|b| product(&slopes[a], &slopes[b]))),
            right: [0, 1, 2, STEP].map(|a| -product(&slopes[a], &here)),
        }
    }

    /// The parameters after a damped step within their ranges.
    fn moved(&self, equations: &Equations, damping: f64) -> Parameters {
        const FARTHEST: f64 = 3.0;
        let mut equations = *equations;
        for (index, row) in equations.matrix.iter_mut().enumerate() {
            // Never 0, not even where the squares do not depend on the parameter.
            row[index] = row[index] * (1.0 + damping) + 1e-9;
        }
        let change = solve(equations.matrix, equations.right);
        let mut parameters = self.parameters;
        for (index, parameter) in parameters.iter_mut().enumerate() {
            let (low, high) = self.law.range(index);
            if index < self.law.parameters() || index == STEP {
                *parameter =
                    (*parameter + change[index].clamp(-FARTHEST, FARTHEST)).clamp(low, high);
            }
        }
        parameters
    }
}

/// How sharp the minimum of the squares of a fit is.
#[derive(Clone, Copy, Debug)]
pub struct Sharpness {
    /// The logarithm of the determinant of half of their second derivatives.
    pub log_determinant: f64,
    /// The standard deviation of the step.
    pub step_deviation: f64,
}

/// The logarithm of the determinant of a positive definite matrix.
fn log_determinant(mut matrix: [[f64; 4]; 4]) -> f64 {
    let mut log = 0.0;
    for pivot in 0..4 {
        let pivot_row = matrix[pivot];
        log += pivot_row[pivot].max(1e-300).ln();
        for row in &mut matrix[pivot + 1..] {
            let factor = row[pivot] / pivot_row[pivot];
            for (to, from) in row.iter_mut().zip(pivot_row) {
                *to -= factor * from;
            }
        }
    }
    log
}

/// Linear equations with a positive definite matrix.
#[derive(Clone, Copy, Debug)]
struct Equations {
    matrix: [[f64; 4]; 4],
    right: [f64; 4],
}

/// Solves linear equations with a positive definite matrix, by elimination.
pub fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut right: [f64; N]) -> [f64; N] {
    for pivot in 0..N {
        let pivot_row = matrix[pivot];
        for row in pivot + 1..N {
            let factor = matrix[row][pivot] / pivot_row[pivot];
            for (to, from) in matrix[row].iter_mut().zip(pivot_row).skip(pivot) {
                *to -= factor * from;
            }
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; N];
    for row in (0..N).rev() {
        let known = (row + 1..N).map(|column| matrix[row][column] * solution[column]);
        solution[row] = (right[row] - known.sum::<f64>()) / matrix[row][row];
    }
    solution
}

/// Where fits begin: many, because the squares may have several minima.
fn starts(law: Law, observed: &[Observation]) -> Vec<Parameters> {
    let fewest = observed.iter().min_by(|a, b| a.tasks.total_cmp(&b.tasks));
    let time = fewest.map_or(0.0, |first| first.tasks.ln() - first.log_rate);
    let shares = [0.002_f64, 0.02, 0.1, 0.4];
    let thirds = if law == Law::Universal { [1e-6_f64, 1e-4, 1e-2] } else { [1e-3, 0.03, 0.3] };
    match law.parameters() {
        1 => vec![[time, 0.0, 0.0, 0.0]],
        2 => shares.map(|share| [time, share.ln(), 0.0, 0.0]).to_vec(),
        _ => {
            let with = |share: f64| thirds.map(|third| [time, share.ln(), third.ln(), 0.0]);
            shares.into_iter().flat_map(with).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_rates_give_back_the_parameters() {
        for (law, parameters) in [
            (Law::Linear, [0.5, 0.0, 0.0, 0.0]),
            (Law::Amdahl, [0.5, 0.07_f64.ln(), 0.0, 0.0]),
            (Law::Queue, [-3.0, 0.11_f64.ln(), 0.0, 0.0]),
            (Law::Handover, [2.0, 0.05_f64.ln(), 0.02_f64.ln(), 0.0]),
            (Law::Universal, [0.0, 0.03_f64.ln(), 4e-4_f64.ln(), 0.0]),
        ] {
            let observed = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|tasks| Observation {
                tasks,
                log_rate: law.rate(&parameters, tasks).ln(),
                deviation: 0.01,
                steps: 0.0,
                dose: 0.0,
            });
            let fit = Fit::new(law, &observed, &[]);
            for (got, expected) in fit.parameters.iter().zip(parameters) {
                assert!((got - expected).abs() < 1e-3, "{law:?}: {:?}", fit.parameters);
            }
        }
    }

    /// Checks that the universal law has these coefficients (rate of one task, sigma, kappa) where the deviations of
    /// rates count, not of their logarithms: each turn puts the logarithms where they would be if it were so near the last
    /// fit.
    fn check_published(points: &[(f64, f64)], published: [f64; 3]) {
        let law = Law::Universal;
        let time = (points[0].0 / points[0].1).ln();
        let mut fit = Fit { law, parameters: [time, -3.0, -9.0, 0.0], squares: 0.0 };
        for _ in 0..50 {
            let near = points.iter().map(|&(tasks, rate)| {
                let fitted = fit.rate(tasks);
                let log_rate = fitted.ln() + (rate - fitted) / fitted;
                let deviation = 1.0 / fitted;
                Observation { tasks, log_rate, deviation, steps: 0.0, dose: 0.0 }
            });
            fit = Fit::from_start(law, fit.parameters, &near.collect::<Vec<_>>(), &[]);
        }
        let [time, share, third, _] = fit.parameters.map(f64::exp);
        for (found, published) in [1.0 / time, share, third].into_iter().zip(published) {
            assert!((found / published - 1.0).abs() < 0.01, "{found} {published}");
        }
    }

    /// A SPARCcenter 2000 in the benchmark SPEC SDM91, and the coefficients that the R package usl 3.0.3 gives for it
    /// (README).
    #[test]
    fn rates_weighted_as_by_the_r_package_usl_give_its_coefficients() {
        let points = [
            (1.0, 64.9),
            (18.0, 995.9),
            (36.0, 1652.4),
            (72.0, 1853.2),
            (108.0, 1828.9),
            (144.0, 1775.0),
            (216.0, 1702.2),
        ];
        check_published(&points, [89.995_233_0, 0.027_728_5, 0.000_104_4]);
    }

    /// A benchmark by Cisco, in B. Schwartz, "Practical Scalability Analysis with the Universal Scalability Law", 2015, and
    /// the coefficients that usl4j gives for it (its tests).
    #[test]
    fn rates_weighted_as_by_usl4j_give_its_coefficients() {
        let rates = [
            955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61,
            8278.71, 8646.7, 9047.84, 9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39,
            10798.52, 11151.43, 11518.63, 11806.0, 12089.37, 12075.41, 12177.29, 12211.41,
            12158.93, 12155.27, 12118.04, 12140.4, 12074.39,
        ];
        let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(rates).collect();
        check_published(&points, [995.6486, 0.026_715_91, 7.690_945e-4]);
    }

    #[test]
    fn a_known_hold_moves_the_fit() {
        let observed = [1.0, 2.0, 4.0].map(|tasks| Observation {
            tasks,
            log_rate: closed_rate(tasks),
            deviation: 0.5,
            steps: 0.0,
            dose: 0.0,
        });
        let known = Known { quantity: Quantity::Hold, log: 0.2_f64.ln(), deviation: 0.001 };
        let fit = Fit::new(Law::Queue, &observed, &[known]);
        assert!((Quantity::Hold.log(&fit.parameters).exp() - 0.2).abs() < 0.001);
    }

    fn closed_rate(tasks: f64) -> f64 {
        crate::law::closed_queue(tasks, 0.9, 0.1, 0.0).ln()
    }
}
