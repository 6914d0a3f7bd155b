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

/// For each point of a planned record, its runs in the newest record of the same host and kernel that
/// has any.
pub fn past_runs(planned: &Record, store: &Store) -> Result<Vec<Option<PointHistory>>> {
    let mut past_runs = vec![None; planned.points.len()];
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
        for (point, past_runs) in planned.points.iter().zip(&mut past_runs) {
            if past_runs.is_none() {
                *past_runs = PointHistory::from_record(&past, point, &planned.deciding(point));
            }
        }
    }
    Ok(past_runs)
}
