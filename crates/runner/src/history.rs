//! What earlier records show about the points of a plan, so that the plan can estimate how long it takes
//! and what it can show before anything is run.

use analysis::{PastRuns, Spread};
use anyhow::Result;
use host::paths;
use records::{Opened, Point, Record};
use store::{Index, Store};

/// How many of the newest records are searched, and how many of those are opened: a plan should appear
/// without delay.
const LISTED_MAX: usize = 200;
const OPENED_MAX: usize = 8;

/// For each point of a planned record, its runs in the newest record of the same host and kernel that
/// has any.
pub fn past_runs(planned: &Record, store: &Store) -> Result<Vec<Option<PastRuns>>> {
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
                *past_runs = runs_of(&past, point, &planned.deciding(point));
            }
        }
    }
    Ok(past_runs)
}

/// The runs of a point in one record, if it has at least three.
fn runs_of(past: &Opened, point: &Point, metric: &str) -> Option<PastRuns> {
    let same = |other: &Point| {
        // The names of the variants do not matter, only what was run.
        let bare = |point: &Point| Point { variant: String::new(), cell: None, ..point.clone() };
        bare(other) == bare(point)
    };
    let changes_host = |point: &Point| {
        let variant = past.record.variants.iter().find(|v| v.name == point.variant);
        variant.is_some_and(|v| !v.sysctl.is_empty() || !v.under.is_empty() || v.binary.is_some())
    };
    let index = past.record.points.iter().position(|p| same(p) && !changes_host(p))?;
    let runs: Vec<_> = past.runs_of(index).filter(|run| run.finished()).collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| run.value(metric)).collect();
    let spread = Spread::of(&values).filter(|spread| spread.n >= 3 && spread.mean > 0.0)?;
    let next_start =
        |run: u32| past.runs.iter().find(|next| next.run == run + 1).map(|r| r.started);
    let durations = runs
        .iter()
        .filter_map(|run| Some(next_start(run.run)?.duration_since(run.started).as_secs_f64()));
    Some(PastRuns {
        record: past.record.id.clone(),
        runs: spread.n,
        deviation: spread.stddev? / spread.mean,
        run_s: Spread::of(&durations.collect::<Vec<_>>())?.median,
    })
}
