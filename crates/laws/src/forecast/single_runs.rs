//! The laws that pass near a curve whose points ran once. Nothing shows their noise, so it is taken for what the nearest law
//! leaves, with as few degrees of freedom.

use crate::chance::Draws;
use crate::fall::fall_at_end;
use crate::fit::{FITS_WITHOUT_NOISE, Fit};
use crate::law::Law;
use crate::sweep::Sweep;

/// Noise that is taken for this at least: a law through few points leaves less by chance.
const LEAST_NOISE: f64 = 0.01;
/// What a law leaves is in part its own misfit, which neighbouring points share: its squares count by this much less.
const ALIKE: f64 = 6.0;
/// What each parameter of a law costs it. This and [`ALIKE`] were chosen on simulated curves (seeds 501 and 502 of
/// `knee selfcheck --scale`'s kinds) so that held-out points are forecast best.
const PARAMETER: f64 = 3.0;
/// Laws by so much worse than the best are left out.
const WORSE: f64 = 6.0;

/// The laws that pass near a curve of single runs.
pub struct NearLaws {
    /// The laws with draws, the best first.
    pub draws: Vec<Draws>,
    /// How much each counts, 1 in all.
    weights: Vec<f64>,
    /// The standard deviation of a point's logarithm.
    pub noise: f64,
}

impl NearLaws {
    /// `None` if no law passes near the curve.
    pub fn new(sweep: &Sweep) -> Option<NearLaws> {
        let mut observed = sweep.observations();
        let points = observed.len();
        let fall = fall_at_end(sweep);
        let is_near = |fit: &Fit| {
            let falls = fall.is_none_or(|(from, to)| fit.rate(to) < fit.rate(from));
            fit.law.parameters() < points
                && (fit.squares / points as f64).sqrt() <= FITS_WITHOUT_NOISE
                && falls
        };
        let fits: Vec<Fit> = Law::ALL.map(|law| Fit::new(law, &observed, &[])).to_vec();
        let fits: Vec<Fit> = fits.into_iter().filter(is_near).collect();
        let left = |fit: &Fit| points - fit.law.parameters();
        let variance = |fit: &Fit| fit.squares / left(fit) as f64;
        let nearest = fits.iter().min_by(|a, b| variance(a).total_cmp(&variance(b)))?;
        let (noise, freedom) = (variance(nearest).sqrt().max(LEAST_NOISE), left(nearest));
        observed.iter_mut().for_each(|one| one.deviation = noise);
        let score = |fit: &Fit| {
            fit.squares / (noise * noise) / ALIKE + fit.law.parameters() as f64 * PARAMETER
        };
        let best = fits.iter().map(score).fold(f64::INFINITY, f64::min);
        let mut kept: Vec<Fit> = fits.into_iter().filter(|fit| score(fit) < best + WORSE).collect();
        kept.sort_by(|a, b| score(a).total_cmp(&score(b)));
        let weights: Vec<f64> = kept.iter().map(|fit| ((best - score(fit)) / 2.0).exp()).collect();
        let all: f64 = weights.iter().sum();
        let draws = kept.iter().map(|fit| Draws::new(*fit, &observed, &[], freedom));
        Some(NearLaws {
            draws: draws.collect(),
            weights: weights.into_iter().map(|weight| weight / all).collect(),
            noise,
        })
    }

    /// The logarithm of the rate by all laws: their mean, each as much as it counts.
    pub fn log_rate(&self, cpus: f64) -> f64 {
        let log = |(draws, weight): (&Draws, &f64)| weight * draws.fit.rate(cpus).ln();
        self.draws.iter().zip(&self.weights).map(log).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SPARCcenter 2000 in the benchmark SPEC SDM91 (README of the R package usl): it falls from 72 users on.
    #[test]
    fn a_curve_that_falls_is_not_explained_by_a_law_without_a_fall() {
        let runs = [
            (1, 64.9),
            (18, 995.9),
            (36, 1652.4),
            (72, 1853.2),
            (108, 1828.9),
            (144, 1775.0),
            (216, 1702.2),
        ];
        let sweep = Sweep::new(runs.map(|(users, rate)| (users, vec![rate]))).unwrap();
        assert_eq!(fall_at_end(&sweep), Some((72.0, 216.0)));
        let found = crate::scaling(&sweep);
        assert_eq!(found.law, None, "{found:?}");
        let near = NearLaws::new(&sweep).unwrap();
        assert!(near.draws.iter().all(|one| one.fit.rate(216.0) < one.fit.rate(72.0)));
        let rate = near.log_rate(300.0).exp();
        assert!((1400.0..1853.2).contains(&rate), "{rate}");
    }
}
