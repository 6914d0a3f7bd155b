//! The past: what earlier records say about the points of a plan, so that the plan can tell
//! how long it takes and what it can show before anything is run.

use analysis::PointHistory;
use anyhow::Result;
use host::paths;
use records::Record;
use store::{Index, Store};

/// How many of the newest records are looked through, and how many of those are opened:
/// a plan is to appear at once.
const LISTED_MAX: usize = 200;
const OPENED_MAX: usize = 8;

/// For each point of a planned record, what the newest record of the same host and kernel
/// that has it says.
pub fn of_points(planned: &Record, store: &Store) -> Result<Vec<Option<PointHistory>>> {
    let mut seen = vec![None; planned.points.len()];
    let index = Index::open(store, &paths::cache()?)?;
    let (host, kernel) = (&planned.host.hostname, &planned.host.kernel_release);
    let here = |name: &str, of: &Option<String>| of.as_deref().unwrap_or_default() == name;
    let listed = index.newest(LISTED_MAX)?;
    let workloads =
        |list: &str| list.split(',').any(|w| planned.points.iter().any(|p| p.workload == w.trim()));
    let candidates = listed.iter().filter(|listed| {
        here(&listed.host, host) && here(&listed.kernel, kernel) && workloads(&listed.workloads)
    });
    for listed in candidates.take(OPENED_MAX) {
        if seen.iter().all(Option::is_some) {
            break;
        }
        let Ok(past) = store::open(&listed.folder) else { continue };
        for (point, seen) in planned.points.iter().zip(&mut seen) {
            if seen.is_none() {
                *seen = PointHistory::from_record(&past, point, &planned.deciding(point));
            }
        }
    }
    Ok(seen)
}
