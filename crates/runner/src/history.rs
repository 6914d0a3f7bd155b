//! The past: what earlier records say about the points of a plan, so that the plan can tell
//! how long it takes and what it can show before anything is run.

use analysis::{PastRuns, Spread};
use anyhow::Result;
use host::paths;
use records::{Opened, Point, Record};
use store::{Index, Store};

/// How many of the newest records are looked through, and how many of those are opened:
/// a plan is to appear at once.
const LISTED_MAX: usize = 200;
const OPENED_MAX: usize = 8;

/// For each point of a planned record, what the newest record of the same host and kernel
/// that has it says.
pub fn of_points(planned: &Record, store: &Store) -> Result<Vec<Option<PastRuns>>> {
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
                *seen = look(&past, point, &planned.deciding(point));
            }
        }
    }
    Ok(seen)
}

/// What one record says about a point, if it has at least three runs of it.
fn look(past: &Opened, point: &Point, metric: &str) -> Option<PastRuns> {
    let same = |other: &Point| {
        // Whatever the variants were called: only what was run counts.
        let bare = |point: &Point| Point { variant: String::new(), cell: None, ..point.clone() };
        bare(other) == bare(point)
    };
    let changes_host = |point: &Point| {
        let variant = past.record.variants.iter().find(|v| v.name == point.variant);
        variant.is_some_and(|v| !v.sysctl.is_empty() || !v.under.is_empty() || v.binary.is_some())
    };
    let found = past.record.points.iter().position(|p| same(p) && !changes_host(p))?;
    let runs: Vec<_> = past.runs_of(found).filter(|run| run.finished()).collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| run.value(metric)).collect();
    let spread = Spread::of(&values).filter(|spread| spread.n >= 3 && spread.mean > 0.0)?;
    let next_start =
        |run: u32| past.runs.iter().find(|next| next.run == run + 1).map(|r| r.started);
    let lasted = runs
        .iter()
        .filter_map(|run| Some(next_start(run.run)?.duration_since(run.started).as_secs_f64()));
    Some(PastRuns {
        record: past.record.id.clone(),
        runs: spread.n,
        deviation: spread.stddev? / spread.mean,
        run_s: Spread::of(&lasted.collect::<Vec<_>>())?.median,
    })
}
