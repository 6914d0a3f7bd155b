//! Group sequential tests: looking at a comparison after fixed numbers of blocks and stopping
//! early, without more false findings than one look at the end. The looks, and the share of the
//! error probability that each of them may spend.
//!
//! The nominal level grows with the number of blocks, p(n) = c (n / 60)^0.7. That is a power family
//! between the boundaries of Pocock (constant) and of O'Brien and Fleming (almost nothing early):
//! S. K. Wang and A. A. Tsiatis, "Approximately Optimal One-Parameter Boundaries for Group
//! Sequential Trials", Biometrics 43, 1987. If nothing is different, the signs of the differences
//! are coin tosses whatever the noise looks like, so one `c` for each overall level serves all;
//! [`calibrate`] finds it by simulating the coin tosses.

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::signed_rank::two_sided;
use crate::student::quantile as quantile_of_t;

/// The numbers of blocks after which a comparison is looked at.
pub const LOOKS: [usize; 7] = [8, 10, 14, 20, 28, 40, 60];

/// The looks of the rule that assumes normality, for units so expensive that eight are too many.
pub const STUDENT_LOOKS: [usize; 8] = [5, 7, 10, 14, 20, 28, 40, 60];

/// Exponent by which nominal levels grow with the number of blocks.
const GROWTH: f64 = 0.7;

/// The `c` for Student's t on normal noise at the overall levels 0.05 and 0.10, with nominal levels
/// in proportion to the number of blocks; a test simulates them.
const STUDENT_SCALES: (f64, f64) = (0.0236, 0.0490);

/// Overall levels and their `c`, from
/// `cargo test --release -p analysis regenerate -- --ignored --nocapture`.
/// The `c` of the two usual levels are rounded: 0.0232 spends 0.05007, 0.0475 spends 0.0990.
const SCALES: [(f64, f64); 39] = [
    // Too small to simulate: here the levels of all looks add up to the overall level.
    (0.0000900, 0.0000244),
    (0.0001000, 0.000041),
    (0.0003000, 0.000131),
    (0.0010000, 0.000396),
    (0.0020000, 0.000820),
    (0.0031250, 0.001313),
    (0.0033333, 0.001406),
    (0.0035714, 0.001513),
    (0.0038462, 0.001641),
    (0.0041667, 0.001743),
    (0.0045455, 0.001912),
    (0.0050000, 0.002187),
    (0.0055556, 0.002363),
    (0.0062500, 0.002634),
    (0.0066667, 0.002904),
    (0.0071429, 0.003111),
    (0.0076923, 0.003379),
    (0.0083333, 0.003644),
    (0.0090909, 0.003973),
    (0.0100000, 0.004448),
    (0.0111111, 0.004896),
    (0.0125000, 0.005576),
    (0.0142857, 0.006399),
    (0.0166667, 0.006832),
    (0.0200000, 0.008458),
    (0.0250000, 0.011066),
    (0.0333333, 0.014531),
    (0.0500000, 0.023200),
    (0.1000000, 0.047500),
    (0.1500000, 0.074624),
    (0.2000000, 0.102775),
    (0.3000000, 0.167536),
    (0.4000000, 0.235405),
    (0.5000000, 0.315796),
    (0.6000000, 0.398875),
    (0.7000000, 0.489212),
    (0.8000000, 0.599878),
    (0.9000000, 0.737452),
    (1.0, 1.0),
];

/// For each of [`STUDENT_LOOKS`], how many standard errors from 0 are a finding at the overall
/// level 0.05, and how many must fit within the margin for "the same" (overall 0.10). Levels grow
/// in proportion to the blocks, because noise that is not normal does harm if blocks are few.
pub fn student_bounds() -> Vec<(f64, f64)> {
    let bounds = |n: usize| {
        let bound = |c: f64| {
            let quantile = quantile_of_t(n as f64 - 1.0, c * n as f64 / 60.0);
            quantile.expect("all these levels are probabilities")
        };
        (bound(STUDENT_SCALES.0), bound(STUDENT_SCALES.1))
    };
    STUDENT_LOOKS.into_iter().map(bounds).collect()
}

/// The looks up to a cap. The level of one look does not depend on the cap. A lower cap leaves the
/// levels of the later looks unspent; beyond 60 blocks nothing is left to spend, so there is no
/// look. With a cap below 10 there is one look, at the cap, with the whole level.
pub fn looks(cap: u32) -> Vec<usize> {
    let cap = cap as usize;
    match cap {
        0 => Vec::new(),
        1..10 => vec![cap],
        _ => LOOKS.into_iter().filter(|look| *look <= cap).collect(),
    }
}

/// The nominal level of the look at `n` blocks, for an overall level of `alpha`.
pub fn nominal(n: usize, alpha: f64) -> f64 {
    scale(alpha) * weight(n)
}

/// The smallest overall level at which the look at `n` blocks finds something with this nominal `p`:
/// a p that allows for all looks.
pub fn overall(n: usize, p: f64) -> f64 {
    let c = p / weight(n);
    interpolate(c, SCALES.map(|(alpha, c)| (c, alpha))).min(1.0)
}

fn weight(n: usize) -> f64 {
    (n as f64 / 60.0).powf(GROWTH)
}

/// The `c` of an overall level.
fn scale(alpha: f64) -> f64 {
    interpolate(alpha, SCALES)
}

/// Interpolates linearly in logarithms between the points. Below the first point, values are in
/// proportion; above the last, the last value holds.
fn interpolate<const N: usize>(x: f64, points: [(f64, f64); N]) -> f64 {
    let after = points.partition_point(|(point, _)| *point < x);
    match after {
        0 => points[0].1 * x / points[0].0,
        after if after == N => points[N - 1].1,
        after => {
            let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
            let share = (x / x0).ln() / (x1 / x0).ln();
            if x == x1 { y1 } else { y0 * (y1 / y0).powf(share) }
        }
    }
}

/// Finds the `c` of each overall level by simulating `trials` comparisons without a difference.
pub fn calibrate(levels: &[f64], trials: usize, seed: u64) -> Vec<f64> {
    let smallest = simulate(trials, seed);
    levels.iter().map(|level| quantile(&smallest, *level)).collect()
}

/// For each `c`, the share of comparisons without a difference in which it finds something.
pub fn spent(scales: &[f64], trials: usize, seed: u64) -> Vec<f64> {
    let smallest = simulate(trials, seed);
    let findings = |c: &f64| smallest.partition_point(|least| least <= c) as f64;
    scales.iter().map(|c| findings(c) / smallest.len() as f64).collect()
}

/// Simulates comparisons without a difference: for each the smallest `c` that would find
/// something, ascending. All CPUs work, in parts that do not depend on the number of CPUs.
fn simulate(trials: usize, seed: u64) -> Vec<f64> {
    const PARTS: usize = 64;
    let part = |part: usize| -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ ((part as u64) << 32));
        (0..(trials + part) / PARTS).map(|_| least(&mut random)).collect()
    };
    let mut smallest = in_parallel(PARTS, part).concat();
    smallest.sort_unstable_by(f64::total_cmp);
    smallest
}

/// A quantile, midway between the two possible values around it, so that rounding decides nothing.
fn quantile(sorted: &[f64], level: f64) -> f64 {
    let index = ((level * sorted.len() as f64) as usize).min(sorted.len() - 1);
    let beyond = sorted[index];
    let below = sorted.partition_point(|c| *c < beyond * (1.0 - 1e-9));
    let within = if below > 0 { sorted[below - 1] } else { 0.0 };
    (within + beyond) / 2.0
}

/// The smallest `c` at which one random comparison without a difference is a finding at some look.
/// The differences are uniform; the result has the same distribution for any symmetric noise.
fn least(random: &mut Xoshiro256PlusPlus) -> f64 {
    let mut differences = [0.0_f32; 60];
    let mut positive = 0;
    let mut least = f64::INFINITY;
    for n in 1..=60 {
        let new = random.random::<f32>() - 0.5;
        differences[n - 1] = new;
        positive += differences[..n].iter().map(|old| u32::from(old + new > 0.0)).sum::<u32>();
        if LOOKS.contains(&n) {
            let positive = positive as usize;
            let tail = positive.min(n * (n + 1) / 2 - positive);
            least = least.min(two_sided(n, tail) / weight(n));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::gaussian;
    use crate::signed_rank::critical;
    use crate::student::Student;

    /// The levels of the table: those of Holm's rule for up to 16 variants, twice those for
    /// "same", and some more to turn any p into one that allows for all looks.
    fn levels() -> Vec<f64> {
        let holm = (1..=16).flat_map(|k| [0.05 / f64::from(k), 0.10 / f64::from(k)]);
        let rest = [0.0001, 0.0003, 0.001, 0.002, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
        let mut levels: Vec<f64> = holm.chain(rest).collect();
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup_by(|a, b| (*a - *b).abs() < 1e-12);
        levels
    }

    #[test]
    fn the_tables_of_critical_values_come_out() {
        let cuts = |alpha| LOOKS.map(|n| critical(n, nominal(n, alpha)));
        let some = |cuts: [usize; 6]| cuts.map(Some);
        assert_eq!(cuts(0.05)[0], None);
        assert_eq!(cuts(0.05)[1..], some([2, 11, 38, 95, 234, 607]));
        assert_eq!(cuts(0.10)[0], Some(0));
        assert_eq!(cuts(0.10)[1..], some([3, 15, 44, 106, 254, 645]));
    }

    #[test]
    fn the_scales_of_the_table_are_what_simulation_gives() {
        let (trials, seed) = (200_000, 3);
        println!("seed {seed}");
        let shares = spent(&SCALES.map(|(_, c)| c), trials, seed);
        for ((level, _), share) in SCALES.into_iter().zip(shares) {
            let deviation = (level * (1.0 - level) / trials as f64).sqrt();
            // The distribution has steps, and the scale lies on the cautious side of one.
            let low = 0.97 * level - 4.0 * deviation - 4.0 / trials as f64;
            let high = 1.01 * level + 4.0 * deviation;
            assert!((low..=high).contains(&share), "{level}: {share}");
        }
    }

    #[test]
    fn scales_grow_and_small_levels_spend_less_than_they_may() {
        assert!(SCALES.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        // The sum over looks is an upper bound, however the looks depend on each other.
        let tiny = 1e-6;
        let sum: f64 = LOOKS.iter().map(|n| two_sided_at_most(*n, nominal(*n, tiny))).sum();
        assert!(sum <= tiny, "{sum}");
        assert!(scale(0.07) > scale(0.05) && scale(0.07) < scale(0.10));
    }

    /// The probability that is really spent at a look with this nominal level.
    fn two_sided_at_most(n: usize, level: f64) -> f64 {
        critical(n, level).map_or(0.0, |cut| two_sided(n, cut))
    }

    #[test]
    fn the_overall_p_is_at_most_alpha_exactly_when_the_look_finds_something() {
        for n in LOOKS {
            for alpha in [0.003125, 0.01, 0.05, 0.07, 0.1] {
                let level = nominal(n, alpha);
                assert!((overall(n, level) / alpha - 1.0).abs() < 1e-9);
            }
            assert!(overall(n, 0.3) > 0.3);
            assert_eq!(overall(n, 1.0), 1.0);
            assert!(overall(n, 0.0) == 0.0);
        }
    }

    #[test]
    fn the_bounds_for_student_find_as_often_as_promised() {
        let (trials, seed) = (100_000, 9);
        println!("seed {seed}");
        let bounds = student_bounds();
        assert!((bounds[0].0 - 7.21).abs() < 0.01 && (bounds[7].0 - 2.32).abs() < 0.01);
        let parts = in_parallel(10, |part| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed + part as u64);
            let mut findings = [0, 0];
            for _ in 0..trials / 10 {
                let noise: Vec<f64> = (0..60).map(|_| gaussian(&mut random)).collect();
                let beyond = |bound: fn(&(f64, f64)) -> f64| {
                    STUDENT_LOOKS.iter().zip(&bounds).any(|(n, bounds)| {
                        let student = Student::paired(&noise[..*n]).unwrap();
                        student.estimate.abs() > bound(bounds) * student.error
                    })
                };
                findings[0] += u32::from(beyond(|(changed, _)| *changed));
                findings[1] += u32::from(beyond(|(_, same)| *same));
            }
            findings
        });
        for (i, level) in [0.05, 0.10].into_iter().enumerate() {
            let share =
                f64::from(parts.iter().map(|part| part[i]).sum::<u32>()) / f64::from(trials);
            assert!((share / level - 1.0).abs() < 0.06, "{level}: {share}");
        }
    }

    #[test]
    #[ignore = "prints the table SCALES; takes half a minute"]
    fn regenerate() {
        let levels = levels();
        for (level, c) in levels.iter().zip(calibrate(&levels, 40_000_000, 1)) {
            println!("    ({level:.7}, {c:.6}),");
        }
        let rounded = [0.0232, 0.0475];
        println!("    {rounded:?} spend {:?}", spent(&rounded, 40_000_000, 2));
    }
}
