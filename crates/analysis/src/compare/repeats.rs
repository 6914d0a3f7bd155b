//! Several runs of a point in one boot are one value, their mean: the boot is what was set up
//! anew, not the run.

use std::collections::BTreeMap;

use records::{Opened, Outcome, Run};

/// A record in which each point has at most one run a boot.
pub fn merged(record: &Opened) -> Opened {
    Opened {
        folder: record.folder.clone(),
        record: record.record.clone(),
        runs: merged_runs(&record.runs).into(),
    }
}

/// Merges the runs of each point and block into one, in the order of the first of each. If none
/// of them finished, the first failed run stays.
pub fn merged_runs<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<Run> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    let mut group_of: BTreeMap<(u32, u32, bool), usize> = BTreeMap::new();
    for run in runs {
        let group = *group_of.entry((run.block, run.point, run.placebo)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(run);
    }
    groups.iter().map(|runs| mean_run(runs)).collect()
}

/// The run that stands for several: the first finished one, with the means of all finished ones.
fn mean_run(runs: &[&Run]) -> Run {
    let finished: Vec<&Run> = runs.iter().copied().filter(|run| run.finished()).collect();
    let Some(first) = finished.first() else { return runs[0].clone() };
    let mut merged = (*first).clone();
    let Outcome::Finished { metrics, counters, .. } = &mut merged.outcome else { return merged };
    let n = finished.len() as f64;
    // A metric that some of the runs lack is not known of the boot.
    let mean = |name: &str| -> Option<f64> {
        finished.iter().map(|run| run.value(name)).sum::<Option<f64>>().map(|sum| sum / n)
    };
    *metrics = metrics.keys().filter_map(|name| Some((name, mean(name)?))).collect();
    let rounded = |name| Some((name, mean(name)?.round() as i64));
    *counters = counters.keys().filter_map(rounded).collect();
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(block: u32, repeat: u32, rate: Option<f64>) -> Run {
        let outcome = match rate {
            Some(rate) => serde_json::json!({
                "state": "finished", "metrics": {"operations_per_s": rate}, "counters": {"n": rate as i64},
            }),
            None => serde_json::json!({"state": "failed", "reason": "no"}),
        };
        let mut run = serde_json::json!({
            "run": 0, "point": 0, "block": block, "repeat": repeat, "started": "2026-11-20T00:00:00Z",
        });
        run.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        serde_json::from_value(run).unwrap()
    }

    fn check(runs: &[Run], expected: &[Option<f64>]) {
        let merged = merged_runs(runs);
        let values: Vec<Option<f64>> =
            merged.iter().map(|run| run.value("operations_per_s")).collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn runs_of_one_boot_are_one_value() {
        check(
            &[run(0, 0, Some(1.0)), run(0, 1, Some(3.0)), run(1, 0, Some(5.0))],
            &[Some(2.0), Some(5.0)],
        );
        check(&[run(0, 0, None), run(0, 1, Some(3.0))], &[Some(3.0)]);
        check(&[run(0, 0, None), run(0, 1, None)], &[None]);
    }
}
