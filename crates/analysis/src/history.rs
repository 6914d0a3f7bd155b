//! What an earlier record says about a point: how much its runs varied and how long they took. With this
//! a plan can tell, before anything is run, how long it takes and what it can find.

use records::{Opened, Point, Run, Until};

use crate::Spread;

/// The runs of a point in an earlier record, or of the most similar point with the same load.
#[derive(Clone, Debug, PartialEq)]
pub struct PointHistory {
    /// Id of the earlier record.
    pub record: String,
    /// Standard deviation of the deciding metric over runs, as a share of its mean; `None` unless the
    /// record has at least three runs of the very point.
    pub deviation: Option<f64>,
    /// Median time from the start of a run to the start of the next, in seconds. It includes set-up,
    /// verification and cleanup; of a similar point it is scaled to the length of this one.
    pub run_s: f64,
    /// Time from the start of knee to the first run, in seconds: file systems are tried and aged then.
    pub before_s: f64,
    /// Runs of the earlier record over those that it planned, at least 1: disturbed blocks are repeated.
    pub repeats: f64,
}

impl PointHistory {
    /// The history of `point` in `past`, if that record has at least three runs of it with `metric`. Runs
    /// of variants that change the host do not count.
    pub fn from_record(past: &Opened, point: &Point, metric: &str) -> Option<PointHistory> {
        let index = point_in(past, point)?;
        let runs = past.runs_of(index).filter(|run| run.finished());
        let values: Vec<f64> = runs.filter_map(|run| run.value(metric)).collect();
        let spread = Spread::from_values(&values);
        let spread = spread.filter(|spread| spread.n >= 3 && spread.mean > 0.0)?;
        Some(PointHistory {
            record: past.record.id.clone(),
            deviation: Some(spread.stddev? / spread.mean),
            run_s: run_s(past, index)?,
            before_s: before_s(past)?,
            repeats: repeats(past),
        })
    }

    /// How long runs of `point` would take, by the point of `past` that has the same load and is most like
    /// it. Says nothing about deviations.
    pub fn from_similar(past: &Opened, point: &Point) -> Option<PointHistory> {
        let points = past.record.points.iter().enumerate();
        let distance = |other: &Point| {
            let different = |differs: bool| u32::from(differs);
            different(point.parameters != other.parameters) * 4
                + different(point.dir != other.dir) * 2
                + different(point.cpus != other.cpus || point.tasks != other.tasks)
        };
        let similar = points.filter(|(_, other)| is_same_load(point, other));
        let timed = similar.filter_map(|(index, other)| {
            let run_s = scaled(past, index, other, point)?;
            Some((distance(other), run_s))
        });
        let (_, run_s) = timed.min_by(|a, b| a.0.cmp(&b.0))?;
        Some(PointHistory {
            record: past.record.id.clone(),
            deviation: None,
            run_s,
            before_s: before_s(past)?,
            repeats: repeats(past),
        })
    }
}

/// The point of an earlier record at which the same was run as at `point`. Points of variants that
/// change the host do not count.
pub(crate) fn point_in(past: &Opened, point: &Point) -> Option<usize> {
    past.record.points.iter().position(|other| {
        is_same_load(point, other)
            && (point.until, point.cpus, point.tasks) == (other.until, other.cpus, other.tasks)
            && (&point.cpu_list, &point.parameters) == (&other.cpu_list, &other.parameters)
            && point.dir == other.dir
            && !changes_host(past, other)
    })
}

/// Whether the runs of two points do the same, if not as often or on as many CPUs. Names of variants do not
/// matter, only what was run.
fn is_same_load(a: &Point, b: &Point) -> bool {
    let bare = |point: &Point| Point {
        variant: String::new(),
        cell: None,
        cpus: 0,
        cpu_list: Vec::new(),
        tasks: 0,
        until: Until::End,
        parameters: Default::default(),
        dir: Default::default(),
        ..point.clone()
    };
    bare(a) == bare(b)
}

fn changes_host(past: &Opened, point: &Point) -> bool {
    let variant = past.record.variant(point);
    variant.is_some_and(|v| {
        !v.sysctl.is_empty() || v.daemon.is_some() || !v.under.is_empty() || v.binary.is_some()
    })
}

/// Median time from the start of a point's runs to the next start, or to the end of the session. Profiles
/// in between are shared out.
fn run_s(past: &Opened, point: usize) -> Option<f64> {
    let profiles = past.record.experiment.explain.as_ref().map_or(0, |e| e.profiles.len());
    let next = |run: &Run| {
        let session = past.record.sessions.iter().rev().find(|s| s.first_run <= run.run)?;
        let next = past.runs.iter().find(|next| next.run == run.run + 1);
        let same_session = next.filter(|next| {
            past.record.sessions.iter().all(|session| session.first_run != next.run)
        });
        same_session.map(|next| next.started).or(session.finished)
    };
    let lasted: Vec<f64> = past
        .runs_of(point)
        .filter(|run| run.finished())
        .filter_map(|run| Some(next(run)?.duration_since(run.started).as_secs_f64()))
        .collect();
    Some(Spread::from_values(&lasted)?.median / (1 + profiles) as f64)
}

/// How long runs of `point` would take if everything around `index`, a point of the same load, took as
/// long per second or per operation.
fn scaled(past: &Opened, index: usize, other: &Point, point: &Point) -> Option<f64> {
    let run_s = run_s(past, index)?;
    let per_cpu = |point: &Point| f64::from(point.tasks.max(1)) / f64::from(point.cpus.max(1));
    let crowd = per_cpu(point) / per_cpu(other);
    let operations_per_s = || {
        let runs = past.runs_of(index);
        let rates: Vec<f64> = runs.filter_map(|run| run.value("operations_per_s")).collect();
        Some(Spread::from_values(&rates)?.median).filter(|rate| *rate > 0.0)
    };
    match (point.until, other.until) {
        (Until::Seconds(s), Until::Seconds(past_s)) => {
            let around_s = (run_s - past_s).max(0.0);
            // What longer runs create takes longer to remove.
            Some(s + around_s * (s / past_s).max(1.0))
        }
        (Until::OperationsPerTask(n), Until::OperationsPerTask(past_n)) => {
            Some(run_s * crowd * n as f64 / past_n as f64)
        }
        (Until::OperationsPerTask(n), Until::Seconds(past_s)) => {
            let per_task_per_s = operations_per_s()? / f64::from(other.tasks.max(1)) / crowd;
            Some(run_s / past_s * n as f64 / per_task_per_s)
        }
        (Until::End, Until::End) => Some(run_s),
        _ => None,
    }
}

fn repeats(past: &Opened) -> f64 {
    let planned = past.record.runs_planned().map(|planned| f64::from(planned.max(1)));
    planned.map_or(1.0, |planned| (past.runs.len() as f64 / planned).max(1.0))
}

fn before_s(past: &Opened) -> Option<f64> {
    let (session, first) = (past.record.sessions.first()?, past.runs.first()?);
    Some(first.started.duration_since(session.started).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::*;

    /// The history of the golden record's first point, changed.
    #[track_caller]
    fn check(change: impl Fn(&mut Point), expected: Expect) {
        let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
        let mut past = store::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(golden)).unwrap();
        // Three runs of the first point, as if the others had never been.
        let point = past.runs[0].point;
        past.runs.truncate(3);
        past.record.sessions.truncate(1);
        for (number, run) in past.runs.iter_mut().enumerate() {
            (run.run, run.point) = (number as u32, point);
        }
        let mut point = past.record.points[point as usize].clone();
        change(&mut point);
        let same = PointHistory::from_record(&past, &point, "operations_per_s");
        let seconds = |history: PointHistory| format!("{:.3} s", history.run_s);
        let similar = PointHistory::from_similar(&past, &point).map(seconds);
        let same = same.map(|same| (same.deviation.is_some(), seconds(same)));
        expected.assert_eq(&format!("same {same:?}, similar {similar:?}"));
    }

    #[test]
    fn the_very_point_tells_time_and_deviation_and_a_similar_one_tells_time() {
        check(|_| (), expect![[r#"same Some((true, "1.000 s")), similar Some("1.000 s")"#]]);
        check(
            |point| point.until = Until::Seconds(10.0),
            expect![[r#"same None, similar Some("10.000 s")"#]],
        );
        check(
            |point| point.until = Until::OperationsPerTask(1_000_000),
            expect![[r#"same None, similar Some("0.850 s")"#]],
        );
        check(
            |point| (point.cpus, point.cpu_list) = (3, vec![0, 1, 2]),
            expect![[r#"same None, similar Some("1.000 s")"#]],
        );
        check(|point| point.workload = "brk".to_string(), expect!["same None, similar None"]);
    }
}
