//! Whether the units of one side differ from those of the other beyond chance, with as few units
//! as ledgers have.
//!
//! Noise of a host multiplies: a row that is ten times as long varies ten times as much, and now
//! and then a unit is much longer than the others. So logarithms are tested, of values to which
//! `start` has been added, which is small against an operation: below it nothing matters, and 0 has
//! a logarithm. Were nothing different, both sides would have the same law, and so have their
//! logarithms.
//!
//! Two tests see different things. Units of one block ran next to each other, so the differences
//! of pairs are free of what the host did to the whole block; but five pairs leave only four
//! degrees of freedom. Welch's test has up to twice as many. The smaller p counts, doubled for the
//! choice (Bonferroni).
//!
//! A sampled row is a part of an exact one, and its share rests on a number of samples. So how much
//! it varies is known before any unit is seen: as that number and the exact row let it. Five units
//! say little about their own spread, and can agree by luck; so what is known beforehand is weighed
//! in as if [`PRIOR_FREEDOM`] more units had said it, unless the units deny it.
//!
//! Source: G. K. Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential
//! Expression in Microarray Experiments", Statistical Applications in Genetics and Molecular Biology
//! 3, 2004, for the moderated t. Rates of error are simulated in the tests of `causes.rs`.

use crate::Student;

/// One side: its units, and what samples make of them.
#[derive(Clone)]
pub(super) struct Side {
    /// Time per operation of each unit, in ns; or how often it happened.
    pub values: Vec<f64>,
    /// The standard error of their mean that the number of samples, or of events, leaves; 0 if
    /// exact.
    pub noise: f64,
}

/// What two sides tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chance {
    /// The chance of so large a difference were nothing different.
    pub p: f64,
    /// Half of the difference's 95 % interval, in ns, as if noise did not multiply; nothing where units
    /// do not tell.
    pub half: Option<f64>,
    /// The 95 % interval of after over before, of values with `start`.
    ratio: Option<(f64, f64)>,
    /// The values before and after, with `start`.
    means: (f64, f64),
}

impl Chance {
    /// The difference's 95 % interval, in ns: without 0 if 1 is not in that of the ratio. From the
    /// smaller side on, or what is gone would be known as well as what is left of it. It has `estimate`
    /// in it, which weighs long units more than logarithms do.
    pub(super) fn interval(&self, estimate: f64) -> Option<(f64, f64)> {
        let (low, high) = self.ratio?;
        let of = |ratio: f64| match self.means {
            (before, after) if before <= after => before * (ratio - 1.0),
            (_, after) => after * (1.0 - 1.0 / ratio),
        };
        Some((of(low).min(estimate), of(high).max(estimate)))
    }
}

/// Both sides of a row, and indices of units that ran next to each other.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub before: Side,
    pub after: Side,
    /// The exact row that a sampled one is a part of.
    pub whole: Option<&'a (Side, Side)>,
    pub pairs: &'a [(usize, usize)],
}

/// What is known beforehand counts as much as a spread with so many degrees of freedom.
const PRIOR_FREEDOM: f64 = 8.0;
/// Units whose variance is so many times the known one have something else in it: with four degrees
/// of freedom 2 of 100 rows look so by chance.
const DENIED: f64 = 3.0;

/// A test of differences, by pairs or not.
type Design = fn(&Row) -> Option<Student>;

impl Row<'_> {
    /// How the sides differ. Nothing with fewer than two units a side, or where no unit differs from
    /// another.
    pub(super) fn chance(&self, start: f64) -> Option<Chance> {
        const ALPHA: f64 = 0.05;
        let whole = self.whole.map(|(a, b)| (a.logarithm(start), b.logarithm(start)));
        let (before, after) = (self.before.logarithm(start), self.after.logarithm(start));
        let logarithms = Row { before, after, whole: whole.as_ref(), pairs: self.pairs };
        let designs: [Design; 2] = [|row| row.paired(), |row| row.welch()];
        let tests = designs.map(|design| Some((design, logarithms.student(design)?.p())));
        let tests: Vec<(Design, f64)> = tests.into_iter().flatten().collect();
        let (design, p) = tests.iter().min_by(|x, y| x.1.total_cmp(&y.1))?;
        let tries = tests.len() as f64;
        let logarithm = logarithms.student(*design)?.interval(ALPHA / tries);
        let values = Row { whole: None, ..self.clone() };
        let interval = values.student(*design).and_then(|s| s.interval(ALPHA / tries));
        Some(Chance {
            p: (p * tries).min(1.0),
            half: interval.map(|(low, high)| (high - low) / 2.0),
            ratio: logarithm.map(|(low, high)| (low.exp(), high.exp())),
            means: (self.before.mean() + start, self.after.mean() + start),
        })
    }

    /// The chance of so different counts whose units are all equal, as those of calls often are: by the
    /// number of events alone.
    pub(super) fn of_constants(&self, start: f64) -> Option<f64> {
        let (before, after) = (self.before.logarithm(start), self.after.logarithm(start));
        let estimate = after.values.first()? - before.values.first()?;
        let freedom = before.values.len().min(after.values.len()) as f64 - 1.0;
        let error = before.noise.hypot(after.noise);
        let is_known = freedom > 0.0 && error > 0.0 && estimate.is_finite();
        is_known.then(|| Student { estimate, error, freedom }.p())
    }

    fn student(&self, design: Design) -> Option<Student> {
        let sampled = self.before.noise.hypot(self.after.noise);
        if sampled == 0.0 {
            return design(self);
        }
        let by_units = design(self)?;
        let whole = self.whole.and_then(|(before, after)| {
            let (before, after) = (before.clone(), after.clone());
            design(&Row { before, after, whole: None, pairs: self.pairs })
        });
        let known = sampled.powi(2) + whole.map_or(0.0, |whole| whole.error.powi(2));
        let seen = by_units.error.powi(2);
        if seen > DENIED * known {
            return Some(by_units);
        }
        let freedom = PRIOR_FREEDOM + by_units.freedom;
        let error = ((PRIOR_FREEDOM * known + by_units.freedom * seen) / freedom).sqrt();
        Some(Student { error, freedom, ..by_units })
    }

    fn paired(&self) -> Option<Student> {
        let of = |(i, j): &(usize, usize)| self.after.values[*j] - self.before.values[*i];
        Student::paired(&self.pairs.iter().map(of).collect::<Vec<f64>>())
    }

    fn welch(&self) -> Option<Student> {
        Student::welch(&self.before.values, &self.after.values)
    }
}

impl Side {
    fn logarithm(&self, start: f64) -> Side {
        Side {
            values: self.values.iter().map(|ns| (ns + start).ln()).collect(),
            noise: self.noise / (self.mean() + start),
        }
    }

    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(a: &[f64], b: &[f64], noise: f64, pairs: bool) -> f64 {
        let side = |values: &[f64]| Side { values: values.to_vec(), noise };
        let pairs: Vec<(usize, usize)> =
            if pairs { (0..a.len()).map(|i| (i, i)).collect() } else { Vec::new() };
        let row = Row { before: side(a), after: side(b), whole: None, pairs: &pairs };
        row.chance(10.0).unwrap().p
    }

    #[test]
    fn pairs_see_through_what_the_host_did_to_both() {
        let a = [1000.0, 2000.0, 1500.0, 3000.0, 1200.0];
        let b = a.map(|ns| ns * 1.1 + ns % 7.0);
        assert!(p(&a, &b, 0.0, true) < 1e-4);
        assert!(p(&a, &b, 0.0, false) > 0.5);
    }

    #[test]
    fn what_is_new_is_seen_however_it_varies() {
        let a = [0.0; 5];
        let b = [2000.0, 9000.0, 4000.0, 3000.0, 6000.0];
        assert!(p(&a, &b, 0.0, true) < 1e-3);
        // Of the values themselves this would be no news at all.
        assert!(Student::welch(&a, &b).unwrap().p() > 0.01);
    }

    #[test]
    fn units_that_agree_by_luck_are_as_sure_as_their_samples() {
        let (a, b) = ([100.0, 100.1, 100.0, 100.1, 100.0], [130.0, 130.1, 130.1, 130.0, 130.1]);
        assert!(p(&a, &b, 0.0, true) < 1e-6);
        assert!(p(&a, &b, 20.0, true) > 0.3);
    }
}
