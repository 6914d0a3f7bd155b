//! Whether the units of one side differ from those of the other beyond chance, with as few units as
//! ledgers have.
//!
//! Noise of a host is multiplicative: a row that is ten times as long varies ten times as much, and
//! now and then a unit is much longer than the others. So logarithms are tested. `start`, which is
//! small against an operation, is added to each value first, so that 0 has a logarithm and that
//! differences far below `start` do not count. If nothing is different, both sides have the same
//! distribution, and so have their logarithms.
//!
//! Two tests see different things. Units of one block ran next to each other, so the differences of
//! pairs are free of what the host did to the whole block; but five pairs leave only four degrees
//! of freedom. Welch's test has up to twice as many. The smaller p counts, doubled for the choice
//! (Bonferroni).
//!
//! A sampled row is a part of an exact one, and its share rests on a number of samples. So its
//! variance is known before any unit is seen: it follows from that number and from the exact row.
//! Five units say little about their own spread, and can agree by luck. So the prior variance
//! counts as much as [`PRIOR_FREEDOM`] more degrees of freedom, unless the units contradict it.
//!
//! Parts of one run say nothing about how runs differ, so a side that is one run has a further error:
//! [`RUN_TO_RUN`] or [`RUN_TO_RUN_OF_STARTS`], shares of its mean.
//!
//! Source: G. K. Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential
//! Expression in Microarray Experiments", Statistical Applications in Genetics and Molecular Biology
//! 3, 2004, for the moderated t. The tests of `causes.rs` simulate the error rates.

use analysis::Student;

/// The units of one side, and the noise of sampling.
#[derive(Clone)]
pub(super) struct Side {
    /// Time per operation of each unit, in ns; or how often it happened.
    pub values: Vec<f64>,
    /// Standard error of their mean because of the number of samples, or of events; 0 if exact.
    pub noise: f64,
    /// Standard error of their mean because units are parts of one run and another run differs; 0 if units
    /// are runs.
    pub between_runs: f64,
}

/// The result of a test of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chance {
    /// Probability of such a difference if nothing is different.
    pub p: f64,
    /// Half of the difference's 95 % interval, in ns, as if noise were additive. `None` if the units
    /// allow no interval.
    pub half: Option<f64>,
    /// The 95 % interval of the ratio after : before, of values with `start` added.
    ratio: Option<(f64, f64)>,
    /// The means before and after, with `start` added.
    means: (f64, f64),
}

impl Chance {
    /// The difference's 95 % interval, in ns. It excludes 0 if that of the ratio excludes 1. It starts
    /// from the smaller side: otherwise the size of a row that vanished would look as certain as its
    /// small rest. It is widened to contain `estimate`, in which long units weigh more than in
    /// logarithms.
    pub(super) fn interval(&self, estimate: f64) -> Option<(f64, f64)> {
        let (low, high) = self.ratio?;
        let difference = |ratio: f64| match self.means {
            (before, after) if before <= after => before * (ratio - 1.0),
            (_, after) => after * (1.0 - 1.0 / ratio),
        };
        Some((difference(low).min(estimate), difference(high).max(estimate)))
    }
}

/// Both sides of a row, ready to be tested.
#[derive(Clone)]
pub(super) struct RowTest<'a> {
    pub before: Side,
    pub after: Side,
    /// The exact row that a sampled one is a part of.
    pub whole: Option<&'a (Side, Side)>,
    /// Indexes, before and after, of units that ran next to each other.
    pub pairs: &'a [(usize, usize)],
}

/// Degrees of freedom that the prior variance of a sampled row counts as.
const PRIOR_FREEDOM: f64 = 8.0;
/// Units whose variance is more than this many times the prior one contradict it: they have another
/// source of noise. With four degrees of freedom, 2 of 100 rows look like that by chance.
const CONTRADICTED: f64 = 3.0;

/// Standard deviation between runs of one program, as a share of a row. Twelve programs were recorded eight times
/// each on a virtual machine without other load: beyond the noise of samples, rows of 100 samples and more differed
/// by 6 % in the median, and by 12 % in the root mean square.
pub(super) const RUN_TO_RUN: f64 = 0.12;

/// Standard deviation between runs of waits, and of all rows where the tasks of a recording sleep often or live
/// shortly. Programs that sleep differed by 18 to 47 % in the functions around it.
pub(super) const RUN_TO_RUN_OF_STARTS: f64 = 0.30;

/// A test of differences, by pairs or not.
type TestDesign = fn(&RowTest) -> Option<Student>;

impl RowTest<'_> {
    /// Tests how the sides differ. `None` with fewer than two units a side, or if all units are
    /// equal.
    pub(super) fn chance(&self, start: f64) -> Option<Chance> {
        const ALPHA: f64 = 0.05;
        let whole = self.whole.map(|(a, b)| (a.logarithm(start), b.logarithm(start)));
        let (before, after) = (self.before.logarithm(start), self.after.logarithm(start));
        let logarithms = RowTest { before, after, whole: whole.as_ref(), pairs: self.pairs };
        let designs: [TestDesign; 2] = [|row| row.paired(), |row| row.welch()];
        let tests = designs.map(|design| Some((design, logarithms.student(design)?.p())));
        let tests: Vec<(TestDesign, f64)> = tests.into_iter().flatten().collect();
        let (design, p) = tests.iter().min_by(|x, y| x.1.total_cmp(&y.1))?;
        let tries = tests.len() as f64;
        let logarithm = logarithms.student(*design)?.interval(ALPHA / tries);
        let values = RowTest { whole: None, ..self.clone() };
        let interval = values.student(*design).and_then(|s| s.interval(ALPHA / tries));
        Some(Chance {
            p: (p * tries).min(1.0),
            half: interval.map(|(low, high)| (high - low) / 2.0),
            ratio: logarithm.map(|(low, high)| (low.exp(), high.exp())),
            means: (self.before.mean() + start, self.after.mean() + start),
        })
    }

    /// The p of counts whose units are all equal, as counts of calls often are: by the number of
    /// events alone.
    pub(super) fn p_of_constants(&self, start: f64) -> Option<f64> {
        let (before, after) = (self.before.logarithm(start), self.after.logarithm(start));
        let estimate = after.values.first()? - before.values.first()?;
        let freedom = before.values.len().min(after.values.len()) as f64 - 1.0;
        let error = before.noise.hypot(after.noise);
        let is_known = freedom > 0.0 && error > 0.0 && estimate.is_finite();
        is_known.then(|| Student { estimate, error, freedom }.p())
    }

    fn student(&self, design: TestDesign) -> Option<Student> {
        // Known as well as anything: its freedom has no bound but that of the distribution.
        const KNOWN: f64 = 1e6;
        let of_units = self.of_units(design);
        let between_runs = self.before.between_runs.hypot(self.after.between_runs);
        if between_runs == 0.0 {
            return of_units;
        }
        let estimate = self.after.mean() - self.before.mean();
        let equal = Student { estimate, error: 0.0, freedom: KNOWN };
        let of_units = of_units.unwrap_or(equal);
        // Welch and Satterthwaite, for an error of which the second part is known.
        let error = of_units.error.hypot(between_runs);
        let freedom = of_units.freedom * (error / of_units.error).powi(4);
        Student { error, freedom: freedom.min(KNOWN), ..of_units }.checked()
    }

    /// The test by the units and their samples.
    fn of_units(&self, design: TestDesign) -> Option<Student> {
        let sampled = self.before.noise.hypot(self.after.noise);
        if sampled == 0.0 {
            return design(self);
        }
        let by_units = design(self)?;
        let whole = self.whole.and_then(|(before, after)| {
            let (before, after) = (before.clone(), after.clone());
            design(&RowTest { before, after, whole: None, pairs: self.pairs })
        });
        let prior = sampled.powi(2) + whole.map_or(0.0, |whole| whole.error.powi(2));
        let observed = by_units.error.powi(2);
        if observed > CONTRADICTED * prior {
            return Some(by_units);
        }
        let freedom = PRIOR_FREEDOM + by_units.freedom;
        let error = ((PRIOR_FREEDOM * prior + by_units.freedom * observed) / freedom).sqrt();
        Student { error, freedom, ..by_units }.checked()
    }

    fn paired(&self) -> Option<Student> {
        let difference = |(i, j): &(usize, usize)| self.after.values[*j] - self.before.values[*i];
        Student::paired(&self.pairs.iter().map(difference).collect::<Vec<f64>>())
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
            between_runs: self.between_runs / (self.mean() + start),
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
        let side = |values: &[f64]| Side { values: values.to_vec(), noise, between_runs: 0.0 };
        let pairs: Vec<(usize, usize)> =
            if pairs { (0..a.len()).map(|i| (i, i)).collect() } else { Vec::new() };
        let row = RowTest { before: side(a), after: side(b), whole: None, pairs: &pairs };
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
    fn a_new_row_is_found_however_it_varies() {
        let a = [0.0; 5];
        let b = [2000.0, 9000.0, 4000.0, 3000.0, 6000.0];
        assert!(p(&a, &b, 0.0, true) < 1e-3);
        // The values themselves, without logarithms, would show nothing.
        assert!(Student::welch(&a, &b).unwrap().p() > 0.01);
    }

    #[test]
    fn times_below_zero_that_only_a_damaged_record_has_are_no_panic() {
        let side = |values: &[f64]| Side { values: values.to_vec(), noise: 0.0, between_runs: 0.1 };
        let (before, after) = (side(&[-20.0, -30.0]), side(&[5.0, 6.0]));
        let row = RowTest { before, after, whole: None, pairs: &[] };
        assert!(row.chance(10.0).is_none());
    }

    #[test]
    fn units_that_agree_by_luck_are_as_sure_as_their_samples() {
        let (a, b) = ([100.0, 100.1, 100.0, 100.1, 100.0], [130.0, 130.1, 130.1, 130.0, 130.1]);
        assert!(p(&a, &b, 0.0, true) < 1e-6);
        assert!(p(&a, &b, 20.0, true) > 0.3);
    }
}
