//! The drift of a host, learned from its own earlier records: how far the same load differs from
//! one session to another although nothing is known to have changed. Whoever compares two
//! records that were not interleaved sees how often such a difference came of nothing.

use records::{Opened, Record, Run};

use super::blocks::disturbance;
use crate::Spread;
use crate::comparison::{Comparison, HostDrift, Scale, Verdict};
use crate::history::point_in;

/// Fewer records than this say nothing about drift: they give a single pair.
const RECORDS_MIN: usize = 3;

/// Adds to each contrast of a deciding metric how far the points of the baseline differ between
/// `past` records. `points` are the baseline's point of each cell.
pub(super) fn learn(comparison: &mut Comparison, points: &[(&Record, usize)], past: &[Opened]) {
    for (cell, &(record, index)) in comparison.cells.iter_mut().zip(points) {
        let own: Vec<&str> = comparison.variants.iter().map(|v| v.record.as_str()).collect();
        let Some(metric) = cell.metrics.first_mut() else { continue };
        let is_like = |earlier: &&Opened| {
            !own.iter().any(|ids| ids.split(',').any(|id| id == earlier.record.id))
                && nothing_known_changed(&earlier.record, record)
        };
        let median = |earlier: &Opened| {
            let point = point_in(earlier, &record.points[index])?;
            let counts = |run: &&Run| {
                let planned = &earlier.record.points[point];
                run.finished()
                    && !run.placebo
                    && disturbance(&earlier.record, planned, run).is_none()
            };
            let runs = earlier.runs_of(point).filter(counts);
            let values: Vec<f64> = runs.filter_map(|run| run.value(&metric.metric)).collect();
            Some(Spread::from_values(&values)?.median).filter(|median| *median > 0.0)
        };
        let medians: Vec<f64> = past.iter().filter(is_like).filter_map(median).collect();
        for contrast in &mut metric.contrasts {
            let change = contrast.change.filter(|_| contrast.scale == Scale::Relative);
            contrast.drift = change.and_then(|change| drift(&medians, change));
            // This host did drift as far.
            if contrast.drift.is_some_and(|drift| drift.as_far > 0) && contrast.verdict.is_change()
            {
                contrast.verdict = Verdict::NotInterleaved;
                contrast.p = None;
            }
        }
    }
}

/// Whether two records are of the same host, kernel and settings.
fn nothing_known_changed(a: &Record, b: &Record) -> bool {
    let known = |record: &Record| {
        let host = &record.host;
        let kernel = (host.kernel_release.clone(), host.kernel_version.clone());
        (host.hostname.clone(), host.cpu_model.clone(), kernel, host.kernel_command_line.clone())
    };
    known(a) == known(b) && a.host.knobs == b.host.knobs && a.hypervisor == b.hypervisor
}

/// How many pairs of these values differ by as much as `change`, a share.
fn drift(medians: &[f64], change: f64) -> Option<HostDrift> {
    let pairs: Vec<f64> = (0..medians.len())
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| (medians[i] / medians[j]).ln().abs())
        .collect();
    let spread = Spread::from_values(&pairs).filter(|_| medians.len() >= RECORDS_MIN)?;
    Some(HostDrift {
        records: medians.len(),
        pairs: pairs.len(),
        as_far: pairs.iter().filter(|apart| **apart >= change.ln_1p().abs()).count(),
        median: spread.median.exp_m1(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_earlier_records_that_differ_as_much_are_counted() {
        let check = |medians: &[f64], change: f64, expected: Option<(usize, usize)>| {
            let found = drift(medians, change).map(|drift| (drift.as_far, drift.pairs));
            assert_eq!(found, expected, "{medians:?} and {change}");
        };
        check(&[], 0.1, None);
        check(&[100.0, 200.0], 0.1, None);
        check(&[100.0, 102.0, 110.0], 0.05, Some((2, 3)));
        // A fall by a share and a rise by its inverse are the same distance.
        check(&[100.0, 102.0, 110.0], -0.0909, Some((1, 3)));
        check(&[100.0, 100.0, 100.0, 100.0], 0.001, Some((0, 6)));
        check(&[100.0, 100.0, 100.0, 100.0], 0.0, Some((6, 6)));
    }
}
