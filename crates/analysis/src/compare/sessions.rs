//! Sessions in turn: A, B, A, B, … each a record of its own. A host drifts from one session to
//! the next, so runs of one session are not replicates; but neighbouring sessions share most of the
//! drift, as the runs of a block do.
//!
//!     time ────────────────────────────────────────────>
//!     A    ▇▇▇       ▇▇▇       ▇▇▇▇      ▇▇▇
//!     B         ▇▇▇       ▇▇▇       ▇▇▇       ▇▇▇          4 pairs: n = 4

use records::{Opened, Point, Record, Run};

use super::columns::{Column, finite, scaled};
use crate::comparison::Scale;

/// Differences of the means of neighbouring sessions.
pub(super) fn differences(a: &[&Run], b: &[&Run], metric: &str, scale: Scale) -> Column {
    let mean = |runs: &[&Run]| {
        let values = runs.iter().filter_map(|run| Some(scaled(finite(run, metric)?, scale)));
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let pairs = pairs(a, b);
    Column::Paired(pairs.iter().filter_map(|(a, b)| Some(mean(b)? - mean(a)?)).collect())
}

/// The runs of two sides, in pairs of neighbouring sessions. A session here is a stretch of time in
/// which no run of the other side began.
pub(super) fn pairs<'a>(a: &[&'a Run], b: &[&'a Run]) -> Vec<(Vec<&'a Run>, Vec<&'a Run>)> {
    let mut runs: Vec<(usize, &Run)> =
        a.iter().map(|run| (0, *run)).chain(b.iter().map(|run| (1, *run))).collect();
    runs.sort_by_key(|(_, run)| run.started);
    let mut sessions: [Vec<Vec<&Run>>; 2] = [Vec::new(), Vec::new()];
    let mut last = None;
    for (side, run) in runs {
        match sessions[side].last_mut().filter(|_| last == Some(side)) {
            Some(session) => session.push(run),
            None => sessions[side].push(vec![run]),
        }
        last = Some(side);
    }
    let [a, b] = sessions;
    a.into_iter().zip(b).collect()
}

/// Several records of the same points, as one with several sessions. Fails, with the reason, where
/// they differ in more than time.
pub fn join_sessions(records: Vec<Opened>) -> Result<Opened, String> {
    let mut records = records.into_iter();
    let mut joined = records.next().ok_or("no record is named")?;
    for next in records {
        let (whole, part) = (&mut joined.record, next.record);
        let host = |r: &records::Record| {
            (r.host.hostname.clone(), r.host.kernel_release.clone(), r.host.kernel_version.clone())
        };
        let obstacle = if part.source.is_some() != whole.source.is_some() {
            "one of them is imported"
        } else if host(whole) != host(&part) {
            "they are of different hosts or kernels"
        } else if measured(whole) != measured(&part) {
            "they have different points"
        } else {
            ""
        };
        if !obstacle.is_empty() {
            return Err(format!(
                "{} and {} cannot be sessions of one side: {obstacle}",
                whole.id, part.id
            ));
        }
        let first_run = joined.runs.iter().map(|run| run.run + 1).max().unwrap_or(0);
        let first_block = joined.runs.iter().map(|run| run.block + 1).max().unwrap_or(0);
        let first_boot = joined.runs.iter().filter_map(|run| run.boot).max().map_or(0, |b| b + 1);
        joined.runs.extend(next.runs.into_iter().map(|run| Run {
            run: first_run + run.run,
            block: first_block + run.block,
            boot: run.boot.map(|boot| first_boot + boot),
            ..run
        }));
        if let (Some(whole), Some(part)) = (&mut whole.source, part.source) {
            whole.sessions.resize(whole.sessions.len().max(1), 0);
            let firsts = if part.sessions.is_empty() { vec![0] } else { part.sessions };
            whole.sessions.extend(firsts.iter().map(|first| first_run + first));
            whole.files.extend(part.files);
            whole.timed &= part.timed;
            whole.blocks = false;
        }
        whole.id = format!("{},{}", whole.id, part.id);
        whole.sessions.extend(part.sessions.into_iter().map(|session| records::Session {
            first_run: first_run + session.first_run,
            ..session
        }));
        whole.warnings.extend(part.warnings);
        whole.runs_finished += part.runs_finished;
        whole.runs_failed += part.runs_failed;
    }
    Ok(joined)
}

/// What the points of a record measured. An imported record names its only variant by its file, so that name counts for
/// nothing.
fn measured(record: &Record) -> Vec<Point> {
    let is_named_by_file = record.source.is_some() && record.variants.len() < 2;
    let point = |point: &Point| {
        let variant = if is_named_by_file { String::new() } else { point.variant.clone() };
        Point { variant, ..point.clone() }
    };
    record.points.iter().map(point).collect()
}
