//! What earlier records show about the points of a plan, so that the plan can estimate how long it takes
//! and what it can show before anything is run.

use analysis::PointHistory;
use anyhow::Result;
use host::paths;
use records::Record;
use store::{Index, Store};

/// How many of the newest records are searched, and how many of those are opened: a plan should appear
/// without delay.
const LISTED_MAX: usize = 200;
const OPENED_MAX: usize = 8;

/// For each point of a planned record, its runs in the newest record of the same host and kernel that has
/// any; else how long the runs of the same load took there.
pub fn past_runs(planned: &Record, store: &Store) -> Result<Vec<Option<PointHistory>>> {
    let mut past_runs = vec![None; planned.points.len()];
    let mut similar = past_runs.clone();
    let index = Index::open(store, &paths::cache()?)?;
    let (host, kernel) = (&planned.host.hostname, &planned.host.kernel_release);
    let is_same = |name: &str, own: &Option<String>| own.as_deref().unwrap_or_default() == name;
    let listed = index.newest(LISTED_MAX)?;
    let shares_workload =
        |list: &str| list.split(',').any(|w| planned.points.iter().any(|p| p.workload == w.trim()));
    let candidates = listed.iter().filter(|listed| {
        is_same(&listed.host, host)
            && is_same(&listed.kernel, kernel)
            && shares_workload(&listed.workloads)
    });
    for listed in candidates.take(OPENED_MAX) {
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
