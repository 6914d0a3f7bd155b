//! Curves that `knee simulate operation --json` has simulated, joined to measured ones.

use std::path::Path;

use answers::{CurveIdentity, JoinedCurve, OperationCurves};
use anyhow::{Context, Result, ensure};
use host::{Limit, given_file};
use laws::Sweep;

const LIMIT: Limit = Limit { bytes: 64 << 20, what: "an answer of knee simulate operation" };

/// Reads a file that `knee simulate operation … --json` printed.
pub fn read(path: &Path) -> Result<OperationCurves> {
    let text = given_file::read_text(path, LIMIT)?;
    let curves: OperationCurves = serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: no simulated operations: write them by `knee simulate operation LOAD --json > FILE`",
            path.display()
        )
    })?;
    let points = || curves.operations.iter().flat_map(|one| &one.points);
    let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
    ensure!(
        points().all(|point| is_rate(point.operations_per_s)),
        "{}: a simulated rate is not above 0",
        path.display()
    );
    Ok(curves)
}

/// The simulated curve of a measured one, joined to it. `None` where the file has another operation, or no number of CPUs
/// that was measured.
pub fn joined(
    curves: &OperationCurves,
    identity: &CurveIdentity,
    sweep: Option<&Sweep>,
) -> Option<JoinedCurve> {
    let is_of = |operation: &str| match identity {
        CurveIdentity::File { .. } => curves.operations.len() == 1,
        CurveIdentity::Measured { workload, .. } => workload == operation,
    };
    let operation = curves.operations.iter().find(|one| is_of(&one.operation))?;
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let measured: Vec<(u32, f64)> =
        sweep?.points().iter().map(|point| (point.cpus, mean(&point.rates))).collect();
    operation.joined_to(&curves.host, &measured)
}
