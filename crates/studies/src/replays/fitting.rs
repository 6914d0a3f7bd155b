//! Fits the one number of an incident.

use anyhow::Result;

/// How often a number is tried at most to fit it.
const TRIES_MAX: u32 = 12;
/// A fitted value may be off by this share, which is less than what a seed does to it.
const FITTED_WITHIN: f64 = 1e-3;

/// Finds the number in a range at which a monotonic `value` reaches a goal; if it reaches none, the end of the range
/// that comes nearer. By false position, on logarithmic scales because all that is known of the number is that it is
/// positive. An end that is kept twice counts half, so that both ends move.
///
/// Source: M. Dowell and P. Jarratt, "A modified regula falsi method for computing the root of an equation", 1971.
pub fn fit(range: [f64; 2], goal: f64, mut value: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    // How far an end is from the goal says little if it is far: a share may even be 0 there.
    let error = |value: f64| (value / goal).ln().clamp(-3.0, 3.0);
    let [mut low, mut high] = range.map(f64::ln);
    let ends = [value(range[0])?, value(range[1])?];
    let [mut at_low, mut at_high] = ends.map(error);
    if at_low * at_high >= 0.0 {
        let [low_misses, high_misses] = ends.map(|end| (end - goal).abs());
        return Ok(range[usize::from(high_misses < low_misses)]);
    }
    let (mut best, mut previous) = ((f64::INFINITY, low), 0.0);
    for _ in 0..TRIES_MAX {
        let between = (low * at_high - high * at_low) / (at_high - at_low);
        let at = error(value(between.exp())?);
        if at.abs() < best.0 {
            best = (at.abs(), between);
        }
        if at.abs() < FITTED_WITHIN {
            break;
        }
        let kept = if at * previous > 0.0 { 0.5 } else { 1.0 };
        if at * at_low > 0.0 {
            (low, at_low, at_high) = (between, at, at_high * kept);
        } else {
            (high, at_high, at_low) = (between, at, at_low * kept);
        }
        previous = at;
    }
    Ok(best.1.exp())
}
