//! Hysteresis: rates that depend on whether the sweep went up or down to a number of CPUs. Of fresh tasks, what stays from
//! one run to the next is the state of the host: its temperature, memory and caches of the kernel.

use analysis::Student;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chance::Estimate;
use crate::sweep::LEAST_NOISE;

/// A sweep up and the sweep down after it: rates by CPU count.
#[derive(Clone, Debug)]
pub struct UpAndDown {
    pub up: Vec<(u32, f64)>,
    pub down: Vec<(u32, f64)>,
}

/// How far rates on the way down lie above those on the way up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Hysteresis {
    /// The mean over the logarithm of the CPUs, as a share: the area of the loop over its width.
    pub loop_area: Estimate,
    /// Pairs of sweeps.
    pub pairs: usize,
    /// Probability of such an area without hysteresis.
    pub p: f64,
}

/// The hysteresis of pairs of sweeps. `None` with fewer than two pairs that share two CPU counts.
pub fn hysteresis(pairs: &[UpAndDown]) -> Option<Hysteresis> {
    let areas: Vec<f64> = pairs.iter().filter_map(area).collect();
    if areas.len() < 2 {
        return None;
    }
    let mean = areas.iter().sum::<f64>() / areas.len() as f64;
    // Values without any noise were written with few digits.
    let exact = Student { estimate: mean, error: LEAST_NOISE, freedom: areas.len() as f64 - 1.0 };
    let student = Student::paired(&areas).unwrap_or(exact);
    let loop_area = Estimate { value: student.estimate, interval: student.interval(0.1) };
    let p = student.p();
    Some(Hysteresis { loop_area: loop_area.map(|log| log.exp() - 1.0), pairs: areas.len(), p })
}

/// The mean logarithm of down over up, by trapezoids over the logarithm of the CPUs.
fn area(pair: &UpAndDown) -> Option<f64> {
    let difference = |(cpus, up): &(u32, f64)| {
        let (_, down) = pair.down.iter().find(|(other, _)| other == cpus)?;
        let log = (down / up).ln();
        log.is_finite().then(|| (f64::from(*cpus).ln(), log))
    };
    let mut points: Vec<(f64, f64)> = pair.up.iter().filter_map(difference).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let width = points.last()?.0 - points.first()?.0;
    let trapezoid = |two: &[(f64, f64)]| (two[1].0 - two[0].0) * (two[0].1 + two[1].1) / 2.0;
    (width > 0.0).then(|| points.windows(2).map(trapezoid).sum::<f64>() / width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(down_over_up: f64, noise: f64) -> UpAndDown {
        let up = |cpus: u32| (cpus, 1e6 * f64::from(cpus) * noise);
        let down = |(cpus, rate): (u32, f64)| (cpus, rate / noise * down_over_up);
        let up: Vec<(u32, f64)> = [1, 2, 4, 8].map(up).to_vec();
        UpAndDown { down: up.iter().copied().rev().map(down).collect(), up }
    }

    #[test]
    fn a_loop_is_found_and_noise_is_none() {
        let noises = [1.0, 1.01, 0.99, 1.005, 0.995];
        let found = hysteresis(&noises.map(|noise| pair(1.05, noise))).unwrap();
        assert!((found.loop_area.value - 0.05).abs() < 0.005 && found.p < 0.01, "{found:?}");
        let found = hysteresis(&noises.map(|noise| pair(1.0, noise))).unwrap();
        assert!(found.p > 0.5 && found.pairs == 5, "{found:?}");
        assert_eq!(hysteresis(&[pair(1.0, 1.0)]), None);
        let failed = UpAndDown { down: Vec::new(), ..pair(1.0, 1.0) };
        assert_eq!(hysteresis(&[failed.clone(), failed]), None);
    }
}
