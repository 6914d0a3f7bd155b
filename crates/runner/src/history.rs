//! What earlier records show about the points of a plan, so that the plan can estimate how long it takes
//! and what it can show before anything is run.

use analysis::PointHistory;
use anyhow::Result;
use host::paths;
use records::{Opened, Record};
use store::{Index, Listed, Store};

/// How many of the newest records are searched: a plan or a comparison should appear without delay.
const LISTED_MAX: usize = 200;
/// How many of those are opened for a plan, and for the drift of a host.
const OPENED_FOR_PLAN: usize = 8;
const OPENED_FOR_DRIFT: usize = 20;

/// For each point of a planned record, its runs in the newest record of the same host and kernel that has
/// any; else how long the runs of the same load took there.
pub fn past_runs(planned: &Record, store: &Store) -> Result<Vec<Option<PointHistory>>> {
    let mut past_runs = vec![None; planned.points.len()];
    let mut similar = past_runs.clone();
    for listed in like(planned, store)?.iter().take(OPENED_FOR_PLAN) {
        if past_runs.iter().all(Option::is_some) {
            break;
        }
        let Ok(past) = store::open(&listed.folder) else { continue };
        let found = past_runs.iter_mut().zip(&mut similar);
        for (point, (same, similar)) in planned.points.iter().zip(found) {
            if same.is_none() {
                *same = PointHistory::from_record(&past, point, &planned.deciding(point));
            }
            if similar.is_none() {
                *similar = PointHistory::from_similar(&past, point);
            }
        }
    }
    Ok(past_runs.into_iter().zip(similar).map(|(same, similar)| same.or(similar)).collect())
}

/// The newest records of the same host, kernel and workloads.
pub fn past_records(record: &Record, store: &Store) -> Result<Vec<Opened>> {
    let like = like(record, store)?;
    Ok(like
        .iter()
        .take(OPENED_FOR_DRIFT)
        .filter_map(|past| store::open(&past.folder).ok())
        .collect())
}

/// The newest records of the same host and kernel that share a workload with this one.
fn like(record: &Record, store: &Store) -> Result<Vec<Listed>> {
    let index = Index::open(store, &paths::cache()?)?;
    let is_same = |name: &str, own: &Option<String>| own.as_deref().unwrap_or_default() == name;
    let has_host = |names: &str| names.split(", ").any(|name| is_same(name, &record.host.hostname));
    let shares_workload =
        |list: &str| list.split(',').any(|w| record.points.iter().any(|p| p.workload == w.trim()));
    let mut listed = index.newest(LISTED_MAX);
    listed.retain(|listed| {
        has_host(&listed.host)
            && is_same(&listed.kernel, &record.host.kernel_release)
            && shares_workload(&listed.workloads)
    });
    Ok(listed)
}
