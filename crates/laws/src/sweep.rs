//! The measured curve: rates at several numbers of CPUs, or of what else it runs over.

use analysis::Axis;
use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::Observation;

/// Fewer numbers of CPUs than this say nothing about a law with three parameters.
pub const COUNTS_MIN: usize = 4;
/// Fewer than this have no slope at their end.
const SLOPE_MIN: usize = 2;
/// Less noise than this is no noise of measurements, but of numbers written with few digits.
pub const LEAST_NOISE: f64 = 1e-3;
/// Runs as many as the noise of all points counts beside a point's own.
pub const OTHERS: f64 = 20.0;
/// From this number of runs on, a search knows its noise, and tells a wrong law from a right one.
const MANY_RUNS: usize = 60;
/// The rates of a queue take time in proportion to its tasks.
const CPUS_MAX: u32 = 16384;

/// Rates at several numbers of CPUs, ascending.
#[derive(Clone, Debug)]
pub struct Sweep {
    axis: Axis,
    points: Vec<SweepPoint>,
    dosed: Vec<DosedPoint>,
    left_out: Vec<u32>,
    is_searched: bool,
}

/// Rates at one number of CPUs or at two neighbours, so far apart that they may be in different units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FarApart {
    /// Number of CPUs of the one rate.
    pub before: u32,
    /// Number of CPUs of the other rate; equal to `before` if both are of one number.
    pub after: u32,
    /// The higher rate over the lower.
    pub factor: f64,
}

/// The runs at one number of CPUs with time added to the lock.
#[derive(Clone, Debug)]
pub struct DosedPoint {
    pub cpus: u32,
    /// The added time, in the unit of time of the rates.
    pub dose: f64,
    pub rates: Vec<f64>,
}

/// The runs at one number of CPUs.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    pub cpus: u32,
    /// Operations per unit of time of each run.
    pub rates: Vec<f64>,
}

impl SweepPoint {
    /// The mean of the logarithms of the rates.
    pub fn log_rate(&self) -> f64 {
        self.logs().sum::<f64>() / self.rates.len() as f64
    }

    /// The logarithms of the rates.
    pub fn logs(&self) -> impl Iterator<Item = f64> {
        self.rates.iter().map(|rate| rate.ln())
    }

    /// The sum of the squared deviations of the logarithms from their mean.
    fn squares(&self) -> f64 {
        let mean = self.log_rate();
        self.logs().map(|log| (log - mean).powi(2)).sum()
    }
}

impl Sweep {
    /// Joins runs at the same number of CPUs.
    ///
    /// # Errors
    /// Says what is missing: fewer than two numbers of CPUs, or a rate that is no positive number.
    pub fn new(runs: impl IntoIterator<Item = (u32, Vec<f64>)>) -> Result<Sweep, String> {
        Sweep::over(&Axis::default(), runs)
    }

    /// Joins runs at the same place of an axis, as [`Sweep::new`] does those at the same number of CPUs.
    ///
    /// # Errors
    /// Says what is missing, as [`Sweep::new`] does.
    pub fn over(
        axis: &Axis,
        runs: impl IntoIterator<Item = (u32, Vec<f64>)>,
    ) -> Result<Sweep, String> {
        Sweep::without(axis, runs, Vec::new())
    }

    fn without(
        axis: &Axis,
        runs: impl IntoIterator<Item = (u32, Vec<f64>)>,
        left_out: Vec<u32>,
    ) -> Result<Sweep, String> {
        let mut points: Vec<SweepPoint> = Vec::new();
        // Points of an unknown number of CPUs, and the row of 0 tasks of will-it-scale, say nothing.
        for (cpus, rates) in runs.into_iter().filter(|(cpus, _)| *cpus > 0) {
            if cpus > CPUS_MAX {
                return Err(format!("{}: at most {CPUS_MAX} can be looked at", axis.counted(cpus)));
            }
            if let Some(rate) = rates.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
                let cpus = axis.counted(cpus);
                return Err(format!("a rate of {rate} at {cpus}: rates must be above 0"));
            }
            match points.iter_mut().find(|point| point.cpus == cpus) {
                Some(point) => point.rates.extend(rates),
                None => points.push(SweepPoint { cpus, rates }),
            }
        }
        points.retain(|point| !point.rates.is_empty());
        points.sort_by_key(|point| point.cpus);
        let (axis, is_curve) = (axis.clone(), points.len() >= SLOPE_MIN);
        let sweep = Sweep { axis, points, dosed: Vec::new(), left_out, is_searched: false };
        if is_curve { Ok(sweep) } else { Err(sweep.too_few("a curve", SLOPE_MIN)) }
    }

    /// The sweep, if it has enough counts for a law.
    ///
    /// # Errors
    /// Says that there are fewer than four numbers of CPUs.
    pub fn for_laws(self) -> Result<Sweep, String> {
        let has_few = self.points.len() < COUNTS_MIN;
        if has_few { Err(self.too_few("a law of scaling", COUNTS_MIN)) } else { Ok(self) }
    }

    fn too_few(&self, what: &str, least: usize) -> String {
        let listed = |counts: Vec<String>| match &counts[..] {
            [] => "none".to_string(),
            counts => counts.join(", "),
        };
        let without = match &self.left_out[..] {
            [] => String::new(),
            zeros => format!(
                ", and those with a rate of 0 ({}), which are left out",
                listed(zeros.iter().map(u32::to_string).collect())
            ),
        };
        format!(
            "{what} takes rates at {least} or more {}; here are {} ({}){without}",
            self.axis.counts(),
            self.points.len(),
            listed(self.points.iter().map(|point| point.cpus.to_string()).collect())
        )
    }

    /// The sweep without the numbers of CPUs where a run completed nothing.
    ///
    /// # Errors
    /// Says what is missing without them.
    pub fn without_zeros(
        axis: &Axis,
        runs: impl IntoIterator<Item = (u32, Vec<f64>)>,
    ) -> Result<Sweep, String> {
        let runs: Vec<(u32, Vec<f64>)> = runs.into_iter().collect();
        let zero = runs.iter().filter(|(cpus, rates)| *cpus > 0 && rates.contains(&0.0));
        let mut left_out: Vec<u32> = zero.map(|(cpus, _)| *cpus).collect();
        left_out.sort_unstable();
        left_out.dedup();
        let kept = runs.into_iter().filter(|(cpus, _)| !left_out.contains(cpus));
        Sweep::without(axis, kept, left_out.clone())
    }

    /// The runs of a search, which ends when the interval of the knee is narrow: the interval then also holds the one of
    /// [`Sweep::look_before`].
    pub fn searched(self) -> Sweep {
        Sweep { is_searched: true, ..self }
    }

    /// A search as it may have been a few blocks before: without the last run of each count with three or more. `None`
    /// if this is no search, or one that has come to know its noise: an interval is narrow by chance where runs are few.
    pub fn look_before(&self) -> Option<Sweep> {
        const KEPT: usize = 2;
        let without_last = |point: &SweepPoint| {
            let kept = point.rates.len().min(KEPT.max(point.rates.len() - 1));
            SweepPoint { cpus: point.cpus, rates: point.rates[..kept].to_vec() }
        };
        let points = self.points.iter().map(without_last).collect();
        let is_early = self.is_searched && self.runs() < MANY_RUNS;
        is_early.then(|| Sweep { points, ..self.clone() })
    }

    /// The sweep without the lowest run of each point with three or more.
    pub fn without_lowest_runs(&self) -> Sweep {
        let without_lowest = |point: &SweepPoint| {
            let mut rates = point.rates.clone();
            rates.sort_by(f64::total_cmp);
            let lowest = usize::from(rates.len() >= 3);
            SweepPoint { cpus: point.cpus, rates: rates.split_off(lowest) }
        };
        Sweep { points: self.points.iter().map(without_lowest).collect(), ..self.clone() }
    }

    /// Whether this is a search with many runs.
    pub fn is_long_search(&self) -> bool {
        self.is_searched && self.runs() >= MANY_RUNS
    }

    /// Numbers of CPUs that were left out.
    pub fn left_out(&self) -> &[u32] {
        &self.left_out
    }

    /// The first rates that are a hundred times as far apart as any law puts them.
    pub fn far_apart(&self) -> Option<FarApart> {
        const UNITS: f64 = 100.0;
        let at_one = self.points.iter().map(|point| {
            let low = point.rates.iter().copied().fold(f64::INFINITY, f64::min);
            let high = point.rates.iter().copied().fold(0.0, f64::max);
            FarApart { before: point.cpus, after: point.cpus, factor: high / low }
        });
        let of_neighbours = self.points.windows(2).map(|pair| {
            let rise = pair[1].log_rate() - pair[0].log_rate();
            let linear = (f64::from(pair[1].cpus) / f64::from(pair[0].cpus)).ln();
            let beyond = if rise > 0.0 { rise - linear } else { -rise };
            let factor = if beyond >= UNITS.ln() { rise.abs().exp() } else { 1.0 };
            FarApart { before: pair[0].cpus, after: pair[1].cpus, factor }
        });
        at_one.chain(of_neighbours).find(|one| one.factor >= UNITS)
    }

    /// The sweep with runs beside it in which the lock is held longer. What has no usable rate is left out.
    pub fn with_doses(mut self, dosed: Vec<DosedPoint>) -> Sweep {
        let is_usable = |one: &DosedPoint| {
            one.cpus > 0
                && one.dose > 0.0
                && !one.rates.is_empty()
                && one.rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
        };
        self.dosed.extend(dosed.into_iter().filter(is_usable));
        self
    }

    /// Whether two or more points with several tasks have doses: enough to tell time in the lock from time outside.
    pub fn has_doses(&self) -> bool {
        self.dosed.iter().filter(|one| one.cpus > 1).count() >= 2
    }

    /// What the curve runs over.
    pub fn axis(&self) -> &Axis {
        &self.axis
    }

    pub fn points(&self) -> &[SweepPoint] {
        &self.points
    }

    /// The most CPUs that were measured.
    pub fn most_cpus(&self) -> f64 {
        f64::from(self.points[self.points.len() - 1].cpus)
    }

    /// The part of the sweep with at most this many CPUs.
    pub fn up_to(&self, cpus: u32) -> Result<Sweep, String> {
        let points = self.points.iter().filter(|point| point.cpus <= cpus);
        let points = points.map(|point| (point.cpus, point.rates.clone()));
        let part = Sweep::without(&self.axis, points, self.left_out.clone())?;
        let dosed = self.dosed.iter().filter(|one| one.cpus <= cpus);
        Ok(part.with_doses(dosed.cloned().collect()))
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.points.iter().map(|point| point.rates.len()).sum()
    }

    /// Runs beyond the first of each point: the degrees of freedom of the noise. 0 where each point ran once.
    pub fn freedom(&self) -> usize {
        self.points.iter().map(|point| point.rates.len() - 1).sum()
    }

    /// The standard deviation of the logarithm of a single run's rate, over all points. `None` where each point ran once.
    pub fn noise(&self) -> Option<f64> {
        let squares: f64 = self.points.iter().map(SweepPoint::squares).sum();
        (self.freedom() > 0).then(|| (squares / self.freedom() as f64).sqrt())
    }

    /// The points with the standard deviations of their means. A point's own noise counts beside that of all points,
    /// which weighs as much as [`OTHERS`] more runs would. Without any repeats all points weigh the same.
    pub fn observations(&self) -> Vec<Observation> {
        let all = self.noise().map(|noise| noise.max(LEAST_NOISE));
        let observation = |point: &SweepPoint| {
            let runs = point.rates.len() as f64;
            let deviation = all.map(|all| {
                let squares = OTHERS * all * all + point.squares();
                (squares / (OTHERS + runs - 1.0) / runs).sqrt()
            });
            Observation {
                tasks: f64::from(point.cpus),
                log_rate: point.log_rate(),
                deviation: deviation.unwrap_or(1.0),
                steps: 0.0,
                dose: 0.0,
            }
        };
        self.points.iter().map(observation).collect()
    }
}

impl Sweep {
    /// The points with doses, with the standard deviations of their means.
    pub fn dosed_observations(&self) -> Vec<Observation> {
        let noise = self.noise().map(|noise| noise.max(LEAST_NOISE));
        let observation = |one: &DosedPoint| {
            let runs = one.rates.len() as f64;
            Observation {
                tasks: f64::from(one.cpus),
                log_rate: one.rates.iter().map(|rate| rate.ln()).sum::<f64>() / runs,
                deviation: noise.map_or(1.0, |noise| noise / runs.sqrt()),
                steps: 0.0,
                dose: one.dose,
            }
        };
        self.dosed.iter().map(observation).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_curves_are_refused_with_what_they_lack() {
        let refused = |runs: &[(u32, &[f64])]| {
            Sweep::new(runs.iter().map(|(cpus, rates)| (*cpus, rates.to_vec()))).unwrap_err()
        };
        assert_eq!(
            refused(&[(2, &[9.0]), (2, &[9.5])]),
            "a curve takes rates at 2 or more CPU counts; here are 1 (2)"
        );
        let two = Sweep::new([(1, vec![5.0]), (2, vec![9.0])]).unwrap();
        assert_eq!(
            two.for_laws().unwrap_err(),
            "a law of scaling takes rates at 4 or more CPU counts; here are 2 (1, 2)"
        );
        assert!(refused(&[]).ends_with("here are 0 (none)"));
        assert_eq!(refused(&[(4, &[1.0, 0.0])]), "a rate of 0 at 4 CPUs: rates must be above 0");
        assert!(refused(&[(4, &[f64::NAN])]).contains("NaN"));
        assert_eq!(refused(&[(20_000, &[1.0])]), "20000 CPUs: at most 16384 can be looked at");
        assert!(refused(&[(0, &[0.0])]).ends_with("here are 0 (none)"));
    }

    #[test]
    fn counts_where_a_run_completed_nothing_are_left_out() {
        let runs = |zero_at: u32| {
            [1, 2, 4, 8, 16].map(|n| (n, vec![f64::from(n), if n == zero_at { 0.0 } else { 1.0 }]))
        };
        let sweep = Sweep::without_zeros(&Axis::default(), runs(4)).unwrap();
        assert_eq!(sweep.left_out(), [4]);
        assert_eq!(sweep.points().iter().map(|p| p.cpus).collect::<Vec<_>>(), [1, 2, 8, 16]);
        let three = Sweep::without_zeros(&Axis::default(), runs(4).into_iter().take(4)).unwrap();
        let refused = three.for_laws().unwrap_err();
        assert!(
            refused.ends_with(
                "here are 3 (1, 2, 8), and those with a rate of 0 (4), which are left out"
            ),
            "{refused}"
        );
        let row_of_will_it_scale = runs(0).into_iter().chain([(0, vec![0.0])]);
        assert!(
            Sweep::without_zeros(&Axis::default(), row_of_will_it_scale)
                .unwrap()
                .left_out()
                .is_empty()
        );
    }

    #[test]
    fn rates_in_different_units_are_noticed() {
        let far_apart = |rates: [&[f64]; 4]| {
            let runs = [1, 2, 4, 8].into_iter().zip(rates.map(<[f64]>::to_vec));
            Sweep::new(runs).unwrap().far_apart().map(|one| (one.before, one.after))
        };
        assert_eq!(far_apart([&[1.0, 1.1], &[2.0], &[4.0], &[0.1]]), None);
        assert_eq!(far_apart([&[1.0], &[2.0, 2000.0], &[4.0], &[8.0]]), Some((2, 2)));
        assert_eq!(far_apart([&[1e3], &[2e3], &[4.0], &[8.0]]), Some((2, 4)));
        assert_eq!(far_apart([&[1.0], &[2.0], &[4.0], &[8e3]]), Some((4, 8)));
    }

    #[test]
    fn runs_at_the_same_count_are_joined_and_the_noise_is_theirs() {
        let runs = [(8, vec![4.0]), (1, vec![1.0]), (8, vec![4.4]), (2, vec![2.0]), (4, vec![3.0])];
        let sweep = Sweep::new(runs).unwrap();
        assert_eq!(sweep.points().iter().map(|p| p.cpus).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(sweep.freedom(), 1);
        let expected = (1.1_f64.ln() / 2.0 * 2_f64.sqrt()).abs();
        assert!((sweep.noise().unwrap() - expected).abs() < 1e-12);
        assert_eq!(sweep.up_to(1).unwrap_err().split(';').next_back(), Some(" here are 1 (1)"));
    }
}
