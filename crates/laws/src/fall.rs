//! Whether a curve of single runs falls at its end.

use crate::sweep::Sweep;

/// By how much the rate must fall, as a logarithm.
const FALL: f64 = 0.01;

/// The places between which the rate falls at the end of a curve of single runs: from the highest rate to the last, over
/// two or more points that fall one after the other.
pub fn fall_at_end(sweep: &Sweep) -> Option<(f64, f64)> {
    let points = sweep.points();
    let logs: Vec<f64> = points.iter().map(|point| point.log_rate()).collect();
    let highest = (0..logs.len()).max_by(|a, b| logs[*a].total_cmp(&logs[*b]))?;
    let falling = &logs[highest..];
    let falls = falling.len() > 2 && falling.windows(2).all(|pair| pair[1] < pair[0]);
    // Of three points in a row noise makes one in six fall, of four one in 24.
    let least = if falling.len() > 3 { FALL } else { 3.0 * FALL };
    let is_clear = falls && falling[0] - falling[falling.len() - 1] >= least;
    let at = |index: usize| f64::from(points[index].cpus);
    is_clear.then(|| (at(highest), at(points.len() - 1)))
}
