//! How long a plan takes: from earlier records of this host where they have the load, else from times that
//! are common, as a range.

use std::collections::BTreeSet;
use std::path::Path;

use analysis::PointHistory;
use answers::TimeRange;
use records::{FileSystem, Point, Policy, Record, Until, parse};
use text::prose::counted;
use workloads::{Family, Workload};

/// Seconds to start, verify and clean up a run.
const AROUND_S: f64 = 0.05;

/// Seconds to make, mount, unmount and check a new file system of 8 GiB, on fast and on slow disks.
const FILE_SYSTEM_S: TimeRange = TimeRange { low: 0.3, high: 1.5 };

/// Bytes a second that ageing writes, on fast and on slow disks.
const AGEING_BYTES_PER_S: [f64; 2] = [1e9, 1e8];

/// The time of a run of each point, with set-up and cleanup; `None` where nothing tells it.
pub fn of_runs(record: &Record, past: &[Option<PointHistory>]) -> Vec<Option<TimeRange>> {
    let of_point = |(point, seen): (&Point, &Option<PointHistory>)| match (seen, point.until) {
        (Some(seen), _) => Some(TimeRange::exactly(seen.run_s)),
        (None, Until::Seconds(seconds)) => Some(assumed(record, point, seconds)),
        (None, Until::OperationsPerTask(_) | Until::End) => None,
    };
    record.points.iter().zip(past).map(of_point).collect()
}

/// A run of this length, of which no earlier record tells.
fn assumed(record: &Record, point: &Point, seconds: f64) -> TimeRange {
    let run = TimeRange::exactly(seconds + AROUND_S);
    // What a run created is removed after it, which may take as long as creating it.
    let family = Workload::find(&point.workload).map(|workload| workload.spec.family);
    let cleanup_s = if family == Some(Family::Files) { seconds } else { 0.0 };
    let run = run.plus(TimeRange { low: 0.0, high: cleanup_s });
    match record.file_system(point) {
        Some(made) if made.kind != "tmpfs" && record.experiment.storage.policy != Policy::Kept => {
            run.plus(FILE_SYSTEM_S)
        }
        _ => run,
    }
}

/// The time of all blocks and of what comes before them, without the points whose runs have an unknown
/// length.
pub fn total(record: &Record, past: &[Option<PointHistory>]) -> TimeRange {
    if let Some(adaptive) = record.experiment.adaptive {
        return TimeRange { low: 0.0, high: adaptive.budget_s };
    }
    let block =
        of_runs(record, past).into_iter().flatten().fold(TimeRange::default(), TimeRange::plus);
    let profiles = record.experiment.explain.as_ref().map_or(0, |e| e.profiles.len());
    let steps = (1 + profiles) as f64 * (1.0 + placebo_share(record));
    let blocks = f64::from(record.experiment.blocks());
    let warmup_runs = f64::from(record.experiment.warmup_runs);
    let planned = block.times(steps * blocks + warmup_runs);
    // Comparisons repeat disturbed blocks, on this host as often as before.
    let repeats = past.iter().flatten().map(|seen| seen.repeats).fold(1.0, f64::max);
    let repeats = if record.variants.len() > 1 { repeats } else { 1.0 };
    let planned = TimeRange { low: planned.low, high: planned.high * repeats };
    planned.plus(before(record, past))
}

/// How much longer placebo runs make it.
fn placebo_share(record: &Record) -> f64 {
    match record.variants.len() {
        0 | 1 => 0.0,
        variants => record.experiment.compare.placebo / variants as f64,
    }
}

/// The time before the first run: each file system is made once to try it, and aged if it is to be.
fn before(record: &Record, past: &[Option<PointHistory>]) -> TimeRange {
    if past.iter().all(Option::is_some) {
        let longest = past.iter().flatten().map(|seen| seen.before_s).fold(0.0, f64::max);
        return TimeRange::exactly(longest);
    }
    let made = record.points.iter().filter_map(|p| Some((p.dir.as_path(), record.file_system(p)?)));
    let made: BTreeSet<(&Path, &FileSystem)> = made.filter(|(_, f)| f.kind != "tmpfs").collect();
    let storage = &record.experiment.storage;
    let ageing = match storage.policy {
        Policy::Aged => {
            // Half of the files are replaced in each round.
            let written = storage.age.filled * (1.0 + 0.5 * f64::from(storage.age.rounds));
            let bytes = parse::bytes(&storage.size.0).unwrap_or(0) as f64 * written;
            let [low, high] = AGEING_BYTES_PER_S.map(|per_s| bytes / per_s);
            TimeRange { low, high }
        }
        Policy::Fresh | Policy::Kept => TimeRange::default(),
    };
    FILE_SYSTEM_S.plus(ageing).times(made.len() as f64)
}

/// The time in words: "about 3 min 20 s, from record 20261120-…".
pub fn sentence(record: &Record, past: &[Option<PointHistory>]) -> String {
    if let Some(adaptive) = record.experiment.adaptive {
        return format!("time: at most about {}", spoken(adaptive.budget_s));
    }
    let guests = record.points.iter().any(|point| record.guest(&point.variant).is_some());
    let range = total(record, past);
    let unknown = of_runs(record, past).iter().filter(|run| run.is_none()).count();
    if unknown > 0 {
        let some = match record.points.len() - unknown {
            0 => "not known".to_string(),
            _ => format!("at least {}", spoken(range.low)),
        };
        return format!(
            "time: {some}; runs of {} last until their work is done, and no record of this host tells \
             how long: --blocks 1 makes one",
            counted(unknown, "point")
        );
    }
    let most = if record.experiment.compare.until_decided { "at most " } else { "" };
    let (low, high) = (spoken(range.low), spoken(range.high));
    let time = if low == high { low } else { format!("{low} to {high}") };
    let sources: BTreeSet<&str> = past.iter().flatten().map(|seen| seen.record.as_str()).collect();
    let known = past.iter().flatten().count();
    let how = match (sources.first(), known == past.len()) {
        (Some(one), true) if sources.len() == 1 => format!(", from record {one}"),
        (Some(_), true) => format!(", from {} records of this host", sources.len()),
        (Some(_), false) => ", partly from earlier records of this host".to_string(),
        (None, _) => String::new(),
    };
    let boots = if guests && known < past.len() { "; boots take longer" } else { "" };
    let again = "; blocks disturbed by the host are repeated";
    let again = if record.variants.len() > 1 { again } else { "" };
    format!("time: {most}about {time}{how}{boots}{again}")
}

/// "45 s", "3 min 20 s", "2 h 5 min".
fn spoken(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{:.0} s", seconds.max(1.0)),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use records::{Explain, Variant};

    use super::*;

    /// The sentence about the golden record's plan, changed, if `known` of its points have been run before
    /// for 2 s each.
    #[track_caller]
    fn check(change: impl Fn(&mut Record), known: usize, expected: Expect) {
        let mut record = crate::tests::golden().record;
        change(&mut record);
        let history = PointHistory {
            record: "20261120-115530-7f3a9c".to_string(),
            deviation: None,
            run_s: 2.0,
            before_s: 10.0,
            repeats: 1.5,
        };
        let past = |index: usize| Some(history.clone()).filter(|_| index < known);
        let past: Vec<_> = (0..record.points.len()).map(past).collect();
        expected.assert_eq(&sentence(&record, &past));
    }

    fn all_points(record: &mut Record, change: impl Fn(&mut Point)) {
        record.points.iter_mut().for_each(change);
    }

    #[test]
    fn what_earlier_records_tell_is_exact_and_the_rest_a_range() {
        check(|_| (), 16, expect!["time: about 1 min 14 s, from record 20261120-115530-7f3a9c"]);
        check(|_| (), 0, expect!["time: about 34 s"]);
        check(|_| (), 3, expect!["time: about 39 s, partly from earlier records of this host"]);
        check(
            |record| all_points(record, |point| point.workload = "create_files".to_string()),
            0,
            expect!["time: about 34 s to 1 min 6 s"],
        );
        check(
            |record| record.experiment.explain = Some(Explain::default()),
            0,
            expect!["time: about 2 min 14 s"],
        );
    }

    #[test]
    fn file_systems_and_their_ageing_take_time_too() {
        let on_xfs = |record: &mut Record| {
            let file_system = FileSystem { kind: "xfs".to_string(), ..FileSystem::default() };
            let name = "x".to_string();
            record.variants = vec![Variant {
                name: name.clone(),
                file_system: Some(file_system),
                ..Variant::default()
            }];
            all_points(record, |point| point.variant = name.clone());
        };
        check(on_xfs, 0, expect!["time: about 44 s to 1 min 23 s"]);
        check(
            |record| {
                on_xfs(record);
                record.experiment.storage.policy = Policy::Aged;
            },
            0,
            expect!["time: about 56 s to 3 min 32 s"],
        );
    }

    #[test]
    fn comparisons_repeat_disturbed_blocks_as_often_as_before() {
        let compared = |record: &mut Record| {
            let variant = |name: &str| Variant { name: name.to_string(), ..Variant::default() };
            record.variants = vec![variant("a"), variant("b")];
        };
        check(
            compared,
            16,
            expect![
                "time: about 1 min 16 s to 1 min 48 s, from record 20261120-115530-7f3a9c; blocks disturbed by the host are repeated"
            ],
        );
    }

    #[test]
    fn runs_of_unknown_length_are_counted() {
        let until_done = |point: &mut Point| point.until = Until::OperationsPerTask(10);
        check(
            |record| all_points(record, until_done),
            0,
            expect![
                "time: not known; runs of 16 points last until their work is done, and no record of this host tells how long: --blocks 1 makes one"
            ],
        );
        check(
            |record| all_points(record, until_done),
            16,
            expect!["time: about 1 min 14 s, from record 20261120-115530-7f3a9c"],
        );
        check(
            |record| until_done(&mut record.points[0]),
            0,
            expect![
                "time: at least 32 s; runs of 1 point last until their work is done, and no record of this host tells how long: --blocks 1 makes one"
            ],
        );
    }
}
