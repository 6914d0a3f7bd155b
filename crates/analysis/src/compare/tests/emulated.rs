//! Emulated guests: a metric's declared kind says whether it is judged, never its name.

use super::*;

/// A record of emulated guests with two variants. Each metric has the same factor between them; `operations` are as many
/// as fit into the run.
fn emulated(blocks: usize, metrics: &[&str], counters: &[&str]) -> Opened {
    let run = |block: usize, variant: usize| {
        let factor = [1.0, 1.5][variant] * (1.0 + 0.001 * (block * 5 % 7) as f64);
        let values = metrics.iter().map(|name| (name.to_string(), json!(1e6 * factor)));
        json!(
            values
                .chain([("operations".to_string(), json!(1000))])
                .collect::<serde_json::Map<_, _>>()
        )
    };
    let values = (0..blocks).map(|block| json!([run(block, 0), run(block, 1)])).collect::<Vec<_>>();
    let mut opened = record("r", "", &["a", "b"], json!([values]));
    opened.record.hypervisor = serde_json::from_value(json!({
        "program": "QEMU emulator version 7.2.22", "accelerator": "tcg", "why_not_kvm": "no /dev/kvm",
    }))
    .unwrap();
    for run in &mut opened.runs {
        if let Outcome::Finished { counters: counted, .. } = &mut run.outcome {
            let added = counters.iter().map(|name| (*name, 4_000_000 + i64::from(run.block)));
            let times = if run.point == 1 { 2 } else { 1 };
            *counted = counted.iter().chain(added).map(|(name, n)| (name, times * n)).collect();
        }
    }
    opened
}

/// The verdict about one metric that was asked for.
#[track_caller]
fn verdict(record: &Opened, metric: &str) -> Verdict {
    let options = CompareOptions { primary: Some(metric.to_string()), ..CompareOptions::default() };
    let arms = ["a", "b"].map(|name| Arm { name, record, variant: name });
    compare(&arms, &options).unwrap().cells[0].metrics[0].contrasts[0].verdict.clone()
}

#[track_caller]
fn check(record: &Opened, metric: &str, why_not: Option<&str>) {
    match (verdict(record, metric), why_not) {
        (Verdict::CannotTell { why, more: None }, Some(expected)) => {
            assert!(
                why.starts_with("the guest was emulated, and ") && why.contains(expected),
                "{why}"
            );
            assert!(!why.contains("force"), "{why}");
        }
        (verdict, None) => assert!(verdict.is_change(), "{metric}: {verdict:?}"),
        (verdict, _) => panic!("{metric}: {verdict:?}"),
    }
}

const METRICS: &[&str] = &[
    "operations_per_s",
    "cpu_s",
    "time.system_time",
    "time.minor_page_faults",
    "time.involuntary_context_switches",
    "faults",
    "bytes",
    "waited",
];
const COUNTERS: &[&str] =
    &["stat.ctxt", "stat.all.system_ticks", "interrupts.LOC", "vmstat.pgfault", "vmstat.nr_dirty"];

fn declared(kind: Value) -> records::DescribedMetric {
    let mut described = json!({"unit": "1", "better": "neither", "obtained": "imported"});
    described.as_object_mut().unwrap().extend(kind.as_object().cloned().unwrap());
    serde_json::from_value(described).unwrap()
}

#[test]
fn only_counts_of_the_program_are_judged() {
    let mut record = emulated(12, METRICS, COUNTERS);
    for (name, kind) in [
        ("faults", json!({"kind": "count"})),
        ("waited", json!({"unit": "us"})),
        ("bytes", json!({})),
    ] {
        record.record.metrics.insert(name.to_string(), declared(kind));
    }
    for metric in ["time.minor_page_faults/op", "vmstat.pgfault/op", "faults/op"] {
        check(&record, metric, None);
    }
    for (metric, why) in [
        ("operations_per_s", "operations_per_s is a time, or follows from one"),
        ("cpu_s", "cpu_s is a time"),
        ("cpu_s/op", "cpu_s is a time"),
        ("time.system_time/op", "time.system_time is a time"),
        ("stat.all.system_ticks/op", "is a time"),
        ("stat.ctxt/op", "stat.ctxt is a count of events that the clock causes"),
        ("interrupts.LOC/op", "events that the clock causes"),
        ("time.involuntary_context_switches/op", "events that the clock causes"),
        ("vmstat.nr_dirty/op", "is a level"),
        ("vmstat.pgfault", "a run has more vmstat.pgfault the more it gets done"),
        ("waited/op", "waited is a time"),
        ("bytes/op", "nothing says what bytes is: kind = \"count\""),
    ] {
        check(&record, metric, Some(why));
        check(&record, metric, Some("such as vmstat.pgfault/op, "));
    }
}

#[test]
fn counts_over_a_fixed_number_of_operations_are_judged() {
    let mut record = emulated(12, METRICS, COUNTERS);
    for point in &mut record.record.points {
        point.until = records::Until::OperationsPerTask(1000);
    }
    check(&record, "vmstat.pgfault", None);
    check(&record, "stat.ctxt", Some("such as vmstat.pgfault, "));
}

#[test]
fn few_emulated_runs_are_told_of_emulation_and_not_of_runs() {
    check(&emulated(2, METRICS, COUNTERS), "cpu_s/op", Some("cpu_s is a time"));
    let without_counts = emulated(2, &["cpu_s"], &["stat.ctxt"]);
    check(&without_counts, "stat.ctxt/op", Some("no count of the program's events was measured"));
    let few = verdict(&emulated(2, METRICS, COUNTERS), "vmstat.pgfault/op");
    assert!(matches!(few, Verdict::Unjudged { .. }), "{few:?}");
}

#[test]
fn who_forces_it_gets_times_of_emulated_guests_judged() {
    let record = emulated(12, METRICS, COUNTERS);
    let options = CompareOptions { force: true, ..CompareOptions::default() };
    let arms = ["a", "b"].map(|name| Arm { name, record: &record, variant: name });
    let verdict = &compare(&arms, &options).unwrap().cells[0].metrics[0].contrasts[0].verdict;
    assert!(matches!(verdict, Verdict::Better { .. }), "{verdict:?}");
}

#[test]
fn blocks_end_where_none_could_decide() {
    let check = |metrics: &[&str], metric: &str, expected: usize| {
        let mut opened = emulated(12, metrics, &["vmstat.pgfault"]);
        let experiment = &mut opened.record.experiment;
        experiment.compare.until_decided = true;
        experiment.compare.metric = metric.to_string();
        let goes_on = |block: &u32| {
            let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < *block).collect();
            !points_to_run(&opened.record, &[0, 1], &before, *block).is_empty()
        };
        assert_eq!((0..12).take_while(goes_on).count(), expected, "{metric}");
    };
    check(METRICS, "operations_per_s", 1);
    // The record plans five blocks.
    check(METRICS, "vmstat.pgfault/op", 5);
}
