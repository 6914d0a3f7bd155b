//! Comparisons of small made-up records: the outcome for each kind of value and layout.

use std::fmt::Write;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use records::{Opened, Outcome, Point, Record, ReplicationUnit, Run, Runs};
use serde_json::{Value, json};

use super::*;
use crate::comparison::Verdict;

mod emulated;
mod nodes;
mod servers;
mod sessions;
mod stopping;
mod taken;

/// A record with cells at 1, 2, … CPUs. `values[cell][block][variant]` are values of the metric;
/// `null` is a run that failed.
fn record(id: &str, experiment: &str, variants: &[&str], values: Value) -> Opened {
    let experiment =
        records::Experiment::read(&format!("{experiment}\n[[load]]\nworkload = 'getppid'\n"))
            .expect("an experiment");
    let cells = values.as_array().expect("cells");
    let point = |cell: usize, variant: &str| {
        json!({
            "workload": "getppid", "semantics": 1, "parameters": {}, "as": "processes",
            "cpus": cell + 1, "placement": "cores", "cpu_list": [0], "tasks": cell + 1,
            "until": {"seconds": 1.0}, "pass": "rate", "dir": "/tmp", "variant": variant,
            "cell": cell,
        })
    };
    let points = (0..cells.len()).flat_map(|cell| variants.iter().map(move |v| point(cell, v)));
    let cpus: Vec<Value> = (0..8)
        .map(|cpu| json!({"cpu": cpu, "core": cpu, "llc": 0, "node": 0, "package": 0}))
        .collect();
    let record: Record = serde_json::from_value(json!({
        "format": 2, "id": id, "state": "whole", "experiment": experiment, "seed": 1,
        "points": points.collect::<Vec<_>>(),
        "variants": variants.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "sessions": [{"command": ["knee"], "knee": "0", "started": "2026-11-20T12:00:00Z",
            "boot_id": id, "first_run": 0}],
        "host": {"hostname": "lab1", "kernel_release": "6.18.2"},
        "topology": {"cpus": cpus}, "directories": [],
    }))
    .expect("a record");
    let mut runs = Vec::new();
    for (cell, blocks) in cells.iter().enumerate() {
        for (block, values) in blocks.as_array().expect("blocks").iter().enumerate() {
            for (variant, value) in values.as_array().expect("values").iter().enumerate() {
                let point = cell * variants.len() + variant;
                runs.push(run(runs.len(), point, block, value));
            }
        }
    }
    Opened { folder: PathBuf::new(), record, runs: Runs::from(runs) }
}

/// A run with one value, or with metrics and counters of an object.
fn run(number: usize, point: usize, block: usize, value: &Value) -> Run {
    let mut run = json!({
        "run": number, "point": point, "block": block, "started": "2026-11-20T12:00:00Z",
        "state": "finished", "metrics": {}, "counters": {},
    });
    match value {
        Value::Null => {
            run["state"] = json!("failed");
            run["reason"] = json!("it fell over");
        }
        Value::Object(metrics) => run["metrics"] = json!(metrics),
        value => run["metrics"] = json!({"operations_per_s": value}),
    }
    serde_json::from_value(run).expect("a run")
}

/// Blocks of one cell in which each variant has its factor. Some of the noise is shared by all
/// variants of a block.
fn blocks(n: usize, factors: &[f64]) -> Value {
    let value = |block: usize, variant: usize| {
        let shared = 1.0 + 0.1 * ((block * 7 % 5) as f64 - 2.0);
        let own = 1.0 + 0.001 * ((block * 5 + variant * 3) % 11) as f64;
        (1000.0 * shared * own * factors[variant] * 1000.0).round() / 1000.0
    };
    (0..n).map(|b| (0..factors.len()).map(|v| value(b, v)).collect::<Vec<_>>()).collect()
}

fn check(record: &Opened, expected: Expect) {
    check_with(record, &CompareOptions::default(), expected);
}

fn check_with(record: &Opened, options: &CompareOptions, expected: Expect) {
    let variants = record.record.variants.iter().map(|variant| variant.name.as_str());
    let arms: Vec<Arm> = variants.map(|name| Arm { name, record, variant: name }).collect();
    expected.assert_eq(&shown(&compare(&arms, options)));
}

/// A comparison in a few lines.
fn shown(comparison: &Result<Comparison, String>) -> String {
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(why) => return format!("refused: {why}\n"),
    };
    let mut text = String::new();
    for cell in &comparison.cells {
        for metric in &cell.metrics {
            for (contrast, variant) in metric.contrasts.iter().zip(&comparison.variants[1..]) {
                let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:+.4}"));
                let interval = contrast.interval.map(|(a, b)| (Some(a), Some(b)));
                let (low, high) = interval.unwrap_or_default();
                writeln!(
                    text,
                    "{} CPU {} {}: {} [{}, {}] n={} {:?} {:?} {:?}",
                    cell.key.cpus,
                    metric.metric,
                    variant.name,
                    number(contrast.change),
                    number(low),
                    number(high),
                    contrast.n,
                    contrast.scale,
                    contrast.method,
                    contrast.verdict,
                )
                .expect("text grows");
            }
        }
    }
    for curve in &comparison.curves {
        for band in &curve.bands {
            writeln!(text, "parts from {:?}, ahead {:?}", band.parts_from, band.ahead).unwrap();
        }
    }
    if let Some(floor) = &comparison.noise_floor {
        writeln!(text, "{floor:?}").unwrap();
    }
    for discard in &comparison.discards.discarded {
        writeln!(text, "left out: block {}: {}", discard.block, discard.reason).unwrap();
    }
    if let Some(p) = comparison.discards.imbalance_p {
        writeln!(text, "imbalance p = {p:.3}").unwrap();
    }
    for warning in &comparison.warnings {
        writeln!(text, "warning: {warning}").unwrap();
    }
    text
}

#[test]
fn differences_within_blocks_are_found_whatever_blocks_share() {
    check(
        &record("r", "", &["a", "b"], json!([blocks(10, &[1.0, 1.05])])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=10 Relative SignedRank Better { at_least: true }
    "#]],
    );
    check(
        &record("r", "", &["a", "b"], json!([blocks(10, &[1.0, 1.0])])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0030 [-0.0025, +0.0030] n=10 Relative SignedRank Same
    "#]],
    );
}

#[test]
fn few_blocks_say_little_and_say_so() {
    check(
        &record("r", "", &["a", "b"], json!([blocks(3, &[1.0, 1.05])])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0503 [-, -] n=3 Relative None Unjudged { needs: 4, why: "too few runs" }
    "#]],
    );
    check(
        &record("r", "", &["a", "b"], json!([blocks(6, &[1.0, 1.05])])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0493 [+0.0431, +0.0555] n=6 Relative Student Better { at_least: true }
    "#]],
    );
}

#[test]
fn several_variants_share_the_probability_of_a_false_finding() {
    let values = json!([blocks(12, &[1.0, 1.004, 1.05, 0.9])]);
    check(
        &record("r", "", &["a", "b", "c", "d"], values),
        expect![[r#"
        1 CPU operations_per_s b: +0.0070 [+0.0015, +0.0070] n=12 Relative SignedRank Same
        1 CPU operations_per_s c: +0.0505 [+0.0448, +0.0563] n=12 Relative SignedRank Better { at_least: true }
        1 CPU operations_per_s d: -0.1018 [-0.1018, -0.0969] n=12 Relative SignedRank Worse { at_least: true }
    "#]],
    );
}

#[test]
fn constant_zero_negative_and_missing_values_have_an_outcome() {
    let record_of = |pairs: &[[Value; 2]]| record("r", "", &["a", "b"], json!([pairs]));
    let pair = |a: f64, b: f64| [json!(a), json!(b)];
    check(
        &record_of(&vec![pair(5.0, 5.0); 10]),
        expect![[r#"
        1 CPU operations_per_s b: +0.0000 [+0.0000, +0.0000] n=10 Relative SignedRank Same
    "#]],
    );
    check(
        &record_of(&vec![pair(0.0, 0.0); 10]),
        expect![[r#"
            1 CPU operations_per_s b: +0.0000 [+0.0000, +0.0000] n=10 Absolute SignedRank Same
        "#]],
    );
    check(
        &record_of(&vec![pair(5.0, 6.0); 10]),
        expect![[r#"
        1 CPU operations_per_s b: +0.2000 [+0.2000, +0.2000] n=10 Relative SignedRank Better { at_least: true }
    "#]],
    );
    let zeros: Vec<_> = (0..10).map(|i| pair(if i == 3 { 0.0 } else { 5.0 }, 6.0)).collect();
    check(
        &record_of(&zeros),
        expect![[r#"
        1 CPU operations_per_s b: +1.0000 [+1.0000, +3.5000] n=10 Absolute SignedRank Better { at_least: true }
    "#]],
    );
    let negative: Vec<_> = (0..10).map(|i| pair(-5.0 - i as f64, -6.0 - i as f64)).collect();
    check(
        &record_of(&negative),
        expect![[r#"
        1 CPU operations_per_s b: -1.0000 [-1.0000, -1.0000] n=10 Absolute SignedRank Worse { at_least: true }
    "#]],
    );
    check(
        &record_of(&vec![[json!({}), json!({})]; 10]),
        expect![[r#"
        1 CPU operations_per_s b: - [-, -] n=0 Relative None Unjudged { needs: 4, why: "too few runs" }
    "#]],
    );
    let mut some = vec![pair(5.0, 6.0); 9];
    some.extend(vec![[json!(5.0), json!({})]; 3]);
    check(
        &record_of(&some),
        expect![[r#"
        1 CPU operations_per_s b: +0.2000 [+0.2000, +0.2000] n=9 Relative SignedRank Better { at_least: true }
    "#]],
    );
}

#[test]
fn a_run_that_failed_takes_its_pair_with_it() {
    let mut values = blocks(10, &[1.0, 1.05, 1.1]);
    values[4][1] = Value::Null;
    check(
        &record("r", "", &["a", "b", "c"], json!([values])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=9 Relative SignedRank Better { at_least: true }
        1 CPU operations_per_s c: +0.1005 [+0.0945, +0.1066] n=10 Relative SignedRank Better { at_least: true }
    "#]],
    );
}

#[test]
fn percentages_are_compared_by_their_difference() {
    let pair = |i: usize| [10.0 + i as f64 * 0.1, 15.0 + i as f64 * 0.11];
    let values: Vec<Vec<Value>> =
        (0..10).map(|i| pair(i).iter().map(|x| json!({"idle_percent": x})).collect()).collect();
    let options =
        CompareOptions { primary: Some("idle_percent".to_string()), ..CompareOptions::default() };
    let record = record("r", "", &["a", "b"], json!([values]));
    check_with(
        &record,
        &options,
        expect![[r#"
        1 CPU idle_percent b: +5.0450 [+5.0200, +5.0700] n=10 Absolute SignedRank More { at_least: true }
    "#]],
    );
}

#[test]
fn a_disturbed_block_is_left_out_whole_and_reported() {
    let mut values = blocks(12, &[1.0, 1.05]);
    for (block, variant) in [(2, 0), (7, 1)] {
        let rate = values[block][variant].clone();
        values[block][variant] = json!({"operations_per_s": rate, "steal_percent": 3.2});
    }
    check(
        &record("r", "", &["a", "b"], json!([values])),
        expect![[r#"
            1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=10 Relative SignedRank Better { at_least: true }
            left out: block 2: the hypervisor took 3.2 % of the CPUs used
            left out: block 7: the hypervisor took 3.2 % of the CPUs used
            imbalance p = 1.000
        "#]],
    );
}

#[test]
fn one_variant_disturbed_more_than_chance_allows_takes_all_verdicts_back() {
    let mut values = blocks(20, &[1.0, 1.05]);
    for block in 0..8 {
        let rate = values[block][1].clone();
        values[block][1] = json!({"operations_per_s": rate, "steal_percent": 9.0});
    }
    check(
        &record("r", "", &["a", "b"], json!([values])),
        expect![[r#"
            1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=12 Relative SignedRank CannotTell { more: None, why: "one variant was disturbed more often than the others" }
            left out: block 0: the hypervisor took 9.0 % of the CPUs used
            left out: block 1: the hypervisor took 9.0 % of the CPUs used
            left out: block 2: the hypervisor took 9.0 % of the CPUs used
            left out: block 3: the hypervisor took 9.0 % of the CPUs used
            left out: block 4: the hypervisor took 9.0 % of the CPUs used
            left out: block 5: the hypervisor took 9.0 % of the CPUs used
            left out: block 6: the hypervisor took 9.0 % of the CPUs used
            left out: block 7: the hypervisor took 9.0 % of the CPUs used
            imbalance p = 0.003
            warning: more than 30 % of the blocks were disturbed: this host is not fit to measure on right now (`knee doctor`)
            warning: one variant was disturbed more often than chance allows: no verdict stands
        "#]],
    );
}

#[test]
fn curves_part_where_the_band_excludes_equality_from_there_on() {
    let factors = [1.0, 1.0, 1.03, 1.2];
    let cells: Vec<Value> = factors.iter().map(|factor| blocks(12, &[1.0, *factor])).collect();
    check(
        &record("r", "", &["a", "b"], json!(cells)),
        expect![[r#"
        1 CPU operations_per_s b: +0.0030 [-0.0025, +0.0030] n=12 Relative SignedRank Same
        2 CPU operations_per_s b: +0.0030 [-0.0025, +0.0030] n=12 Relative SignedRank Same
        3 CPU operations_per_s b: +0.0331 [+0.0274, +0.0331] n=12 Relative SignedRank Better { at_least: true }
        4 CPU operations_per_s b: +0.2036 [+0.1970, +0.2036] n=12 Relative SignedRank Better { at_least: true }
        parts from Some(3), ahead [(1, 2, None), (3, 4, Some(true))]
    "#]],
    );
}

#[test]
fn placebo_runs_are_the_noise_floor_and_nothing_else() {
    let mut opened = record("r", "", &["a", "b"], json!([blocks(10, &[1.0, 1.05])]));
    for (block, factor) in [(3, 1.001), (6, 0.96)] {
        let twin = opened.runs.iter().find(|run| run.block == block && run.point == 1).unwrap();
        let value = json!(twin.value("operations_per_s").unwrap() * factor);
        let mut placebo = run(opened.runs.len(), 1, block as usize, &value);
        placebo.placebo = true;
        opened.runs.push(placebo);
    }
    check(
        &opened,
        expect![[r#"
        1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=10 Relative SignedRank Better { at_least: true }
        NoiseFloor { pairs: 2, median: 0.020499999999999963, largest: 0.040000000000000036, beyond: 1 }
    "#]],
    );
}

#[test]
fn metrics_that_nobody_named_must_stand_out_among_all() {
    let noise = |i: usize, k: usize| 100.0 + ((i * 13 + k * 7) % 17) as f64;
    let values = |i: usize| -> [Value; 2] {
        [0, 1].map(|side| {
            json!({
                "operations_per_s": 1000.0 + noise(i, side),
                "time.user_time": noise(i, 2 + side) * (1.0 + side as f64),
                "time.minor_page_faults": noise(i, 4 + side),
                "latency.p99_ns": noise(i, 6 + side),
            })
        })
    };
    let values: Vec<_> = (0..12).map(values).collect();
    check(
        &record("r", "", &["a", "b"], json!([values])),
        expect![[r#"
        1 CPU operations_per_s b: -0.0013 [-0.0090, +0.0063] n=12 Relative SignedRank Same
        1 CPU time.user_time b: +0.9721 [+0.8238, +1.1327] n=12 Relative SignedRank Worse { at_least: true }
        1 CPU time.minor_page_faults b: -0.0123 [-0.0154, +0.0674] n=12 Relative SignedRank CannotTell { more: Some(188), why: "" }
        1 CPU latency.p99_ns b: -0.0121 [-0.0153, +0.0676] n=12 Relative SignedRank CannotTell { more: Some(188), why: "" }
    "#]],
    );
}

/// Two records, each of one variant.
fn check_records(a: &Opened, b: &Opened, options: &CompareOptions, expected: Expect) {
    let arm = |name, record| Arm { name, record, variant: "v" };
    expected.assert_eq(&shown(&compare(&[arm("a", a), arm("b", b)], options)));
}

fn alone(id: &str, factor: f64) -> Opened {
    let values = blocks(12, &[factor]);
    record(id, "", &["v"], json!([values]))
}

#[test]
fn separate_records_are_compared_with_a_warning() {
    check_records(
        &alone("x", 1.0),
        &alone("y", 1.8),
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.8000 [+0.5936, +1.0331] n=12 Relative RankSum NotInterleaved
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows; `knee run --variant` measures variants in turn
            warning: the records are of different boots: whatever differs from boot to boot counts as a difference too
        "#]],
    );
}

#[test]
fn what_is_not_interleaved_shows_how_far_the_host_drifts_by_itself() {
    let (a, b) = (alone("x", 1.0), alone("y", 1.05));
    let past = |id, factor| alone(id, factor);
    let mut changed = past("p5", 3.0);
    changed.record.host.knobs.insert("governor".to_string(), "powersave".to_string());
    let options = CompareOptions {
        // The compared records themselves, and one of other settings, do not count.
        past: vec![past("p1", 1.0), past("p2", 1.1), past("p3", 1.02), past("x", 9.0), changed],
        ..CompareOptions::default()
    };
    let arm = |record, name| Arm { name, record, variant: "v" };
    let comparison = compare(&[arm(&a, "a"), arm(&b, "b")], &options).unwrap();
    let contrast = &comparison.cells[0].metrics[0].contrasts[0];
    let drift = contrast.drift.expect("three earlier records");
    assert_eq!((drift.records, drift.pairs, drift.as_far), (3, 3, 2));
    assert_eq!((&contrast.verdict, contrast.p), (&Verdict::NotInterleaved, None));
}

#[test]
fn work_of_unknown_length_is_compared_with_a_warning() {
    let with_work = |id, real_ns: Option<f64>| {
        let mut opened = alone(id, 1.0);
        opened.record.points[0].parameters = [("idle_ns".to_string(), "500".to_string())].into();
        for run in &mut opened.runs {
            let Outcome::Finished { metrics, .. } = &mut run.outcome else { continue };
            real_ns.into_iter().for_each(|ns| metrics.insert("work.idle_ns", ns));
        }
        opened
    };
    let check = |older_ns, expected| {
        let records = [with_work("x", older_ns), with_work("y", Some(501.0))];
        check_records(&records[0], &records[1], &CompareOptions::default(), expected);
    };
    check(
        None,
        expect![[r#"
            1 CPU operations_per_s b: +0.0000 [-0.1146, +0.1295] n=12 Relative RankSum NotInterleaved
            1 CPU work.idle_ns b: - [-, -] n=0 Relative None Unjudged { needs: 4, why: "too few runs" }
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows; `knee run --variant` measures variants in turn
            warning: the records are of different boots: whatever differs from boot to boot counts as a difference too
            warning: `a` did not measure how long the work of its parameters took: with other versions of knee, that work can be of another length
        "#]],
    );
    check(
        Some(499.0),
        expect![[r#"
            1 CPU operations_per_s b: +0.0000 [-0.1146, +0.1295] n=12 Relative RankSum NotInterleaved
            1 CPU work.idle_ns b: +0.0040 [+0.0040, +0.0040] n=12 Relative RankSum NotInterleaved
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows; `knee run --variant` measures variants in turn
            warning: the records are of different boots: whatever differs from boot to boot counts as a difference too
        "#]],
    );
}

#[test]
fn other_kernels_need_boots() {
    let mut other = alone("y", 1.8);
    other.record.host.kernel_release = Some("6.19.0".to_string());
    check_records(
        &alone("x", 1.0),
        &other,
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.8000 [-, -] n=1 Relative None Unjudged { needs: 4, why: "too few boots: the kernels differ, so each value needs a new boot" }
            warning: the boots were not in turn: what changed on the host between those of one variant and those of the other counts as a difference too
            warning: the kernels differ (6.18.2 and 6.19.0): this difference is part of what is compared
        "#]],
    );
}

#[test]
fn other_operations_and_parameters_are_not_compared_unless_forced() {
    let mut other = alone("y", 1.8);
    other.record.points[0].semantics = 2;
    check_records(
        &alone("x", 1.0),
        &other,
        &CompareOptions::default(),
        expect![[r#"
        refused: the records have no point in common: an operation of getppid is not the same in versions 1 and 2; --force compares them anyway
    "#]],
    );
    let mut other = alone("y", 1.8);
    other.record.points[0].parameters = [("idle_ns".to_string(), "5".to_string())].into();
    check_records(
        &alone("x", 1.0),
        &other,
        &CompareOptions::default(),
        expect![[r#"
        refused: the records have no point in common: parameter idle_ns of getppid is unknown and 5; --force compares them anyway
    "#]],
    );
    let force = CompareOptions { force: true, ..CompareOptions::default() };
    check_records(
        &alone("x", 1.0),
        &other,
        &force,
        expect![[r#"
            1 CPU operations_per_s b: +0.8000 [+0.5936, +1.0331] n=12 Relative RankSum NotInterleaved
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows; `knee run y --against x` measures both again, in turn
            warning: the records are of different boots: whatever differs from boot to boot counts as a difference too
            warning: `b` did not measure how long the work of its parameters took: with other versions of knee, that work can be of another length
        "#]],
    );
    other.record.points[0].workload = "brk".to_string();
    check_records(
        &alone("x", 1.0),
        &other,
        &force,
        expect![[r#"
        refused: the records have no point in common: the workloads are getppid and brk
    "#]],
    );
}

#[test]
fn values_of_one_run_are_not_replicates() {
    let mut imported = alone("y", 1.8);
    imported.record.source = Some(records::Source {
        format: "fs_mark".to_string(),
        files: Default::default(),
        unit: ReplicationUnit::Sample,
        blocks: false,
        sessions: Vec::new(),
        timed: false,
        lacks: vec!["the loops are of one run".to_string()],
    });
    check_records(
        &alone("x", 1.0),
        &imported,
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: - [-, -] n=0 Relative None Unjudged { needs: 4, why: "values of one run are not replicates: repeat the run" }
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows
            warning: the records are of different boots: whatever differs from boot to boot counts as a difference too
            warning: the loops are of one run
        "#]],
    );
}

#[test]
fn points_meet_their_own_directory_and_parameters() {
    // Two cells that differ in one thing, in one order and in the other.
    let two = |set: &dyn Fn(&mut Point, usize), order: [usize; 2], id: &str| {
        let cells = order.map(|which| blocks(12, &[[1.0, 2.0][which]]));
        let mut opened = record(id, "", &["v"], json!(cells));
        for (index, which) in order.into_iter().enumerate() {
            let point = &mut opened.record.points[index];
            (point.cpus, point.tasks) = (1, 1);
            set(point, which);
        }
        opened
    };
    let dirs = |point: &mut Point, which: usize| point.dir = ["/x", "/y"][which].into();
    let idle = |point: &mut Point, which: usize| {
        point.parameters = [("idle_ns".to_string(), which.to_string())].into();
    };
    let pairs = [&dirs as &dyn Fn(&mut Point, usize), &idle]
        .map(|set| (two(set, [0, 1], "a"), two(set, [1, 0], "b")));
    for (a, b) in pairs {
        let arm = |name, record| Arm { name, record, variant: "v" };
        let options = CompareOptions { force: true, ..CompareOptions::default() };
        let comparison = compare(&[arm("a", &a), arm("b", &b)], &options).expect("a comparison");
        assert_eq!(comparison.cells.len(), 2);
        for cell in &comparison.cells {
            let change = cell.metrics[0].contrasts[0].change.expect("an estimate");
            assert!(change.abs() < 0.01, "{change}");
        }
    }
}

#[test]
fn withdrawn_verdicts_leave_no_band_and_no_p() {
    let disturbed = |factor: f64| {
        let mut values = blocks(20, &[1.0, factor]);
        for block in 0..8 {
            let rate = values[block][1].clone();
            values[block][1] = json!({"operations_per_s": rate, "steal_percent": 9.0});
        }
        values
    };
    let opened = record("r", "", &["a", "b"], json!([disturbed(1.1), disturbed(1.2)]));
    let arms = ["a", "b"].map(|name| Arm { name, record: &opened, variant: name });
    let comparison = compare(&arms, &CompareOptions::default()).expect("a comparison");
    assert!(comparison.curves.is_empty());
    let mut contrasts = comparison.cells.iter().flat_map(|c| &c.metrics).flat_map(|m| &m.contrasts);
    assert!(contrasts.all(|contrast| contrast.p.is_none() && !contrast.verdict.is_change()));
}

#[test]
fn a_busy_host_disturbs_all_variants_alike_and_withdraws_nothing() {
    let mut values = blocks(20, &[1.0, 1.05]);
    for block in 0..16 {
        // Both are disturbed, whichever runs first.
        for variant in [block % 2, 1 - block % 2] {
            let rate = values[block][variant].clone();
            values[block][variant] = json!({"operations_per_s": rate, "steal_percent": 9.0});
        }
    }
    let opened = record("r", "", &["a", "b"], json!([values]));
    let arms = ["a", "b"].map(|name| Arm { name, record: &opened, variant: name });
    let comparison = compare(&arms, &CompareOptions::default()).expect("a comparison");
    assert_eq!(comparison.discards.by_variant, [16, 16]);
    assert_eq!(comparison.discards.imbalance_p, Some(1.0));
}

#[test]
fn runs_that_fail_in_one_variant_only_may_have_been_the_slow_ones() {
    let mut values = blocks(20, &[1.0, 1.05]);
    for block in 0..9 {
        values[block][1] = Value::Null;
    }
    check(
        &record("r", "", &["a", "b"], json!([values])),
        expect![[r#"
        1 CPU operations_per_s b: +0.0531 [+0.0474, +0.0531] n=11 Relative SignedRank CannotTell { more: None, why: "runs of one variant failed more often, and those that finished may be the lucky ones" }
    "#]],
    );
}

#[test]
fn without_a_band_nobody_is_ahead() {
    let cells: Vec<Value> = [1.0, 1.2].iter().map(|factor| blocks(3, &[1.0, *factor])).collect();
    check(
        &record("r", "", &["a", "b"], json!(cells)),
        expect![[r#"
        1 CPU operations_per_s b: +0.0003 [-, -] n=3 Relative None Unjudged { needs: 4, why: "too few runs" }
        2 CPU operations_per_s b: +0.2003 [-, -] n=3 Relative None Unjudged { needs: 4, why: "too few runs" }
        parts from None, ahead []
    "#]],
    );
}

#[test]
fn disturbed_runs_of_separate_records_are_left_out_too() {
    let mut other = alone("y", 1.8);
    for run in other.runs.iter_mut().take(3) {
        if let Outcome::Finished { metrics, .. } = &mut run.outcome {
            metrics.insert("steal_percent", 5.0);
        }
    }
    other.record.host.knobs = [("governor".to_string(), "powersave".to_string())].into();
    let mut first = alone("x", 1.0);
    first.record.host.knobs = [("governor".to_string(), "performance".to_string())].into();
    check_records(
        &first,
        &other,
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.8000 [+0.5936, +1.0331] n=9 Relative RankSum NotInterleaved
            warning: not interleaved: host drift not excluded. The intervals hold the chance of sampling only; the speed of a host also changes from one session to the next, by an amount that no number of runs in these sessions shows; `knee run --variant` measures variants in turn
            warning: the settings of governor differ (performance and powersave): this difference is part of what is compared
            warning: 3 of 12 runs of `b` were disturbed and left out (the first: the hypervisor took 5.0 % of the CPUs used)
        "#]],
    );
}
