//! Comparisons of small made-up records: what each kind of value and of layout comes to.

use std::fmt::Write;
use std::path::PathBuf;

use expect_test::{Expect, expect};
use records::{Opened, Record, Run};
use serde_json::{Value, json};

use super::*;

/// A record with cells at 1, 2, … CPUs; `values[cell][block][variant]` are of the metric, and
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
    Opened { folder: PathBuf::new(), record, runs }
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

/// Blocks of one cell in which each variant has its factor, with some noise that all share and
/// some that each has for itself.
fn blocks(n: usize, factors: &[f64]) -> Value {
    let value = |block: usize, variant: usize| {
        let shared = 1.0 + 0.1 * ((block * 7 % 5) as f64 - 2.0);
        let own = 1.0 + 0.001 * ((block * 5 + variant * 3) % 11) as f64;
        (1000.0 * shared * own * factors[variant] * 1000.0).round() / 1000.0
    };
    (0..n).map(|b| (0..factors.len()).map(|v| value(b, v)).collect::<Vec<_>>()).collect()
}

fn check(record: &Opened, expected: Expect) {
    check_with(record, &Options::default(), expected);
}

fn check_with(record: &Opened, options: &Options, expected: Expect) {
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
                    cell.place.cpus,
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
    for doubt in &comparison.doubts {
        writeln!(text, "doubt: {doubt}").unwrap();
    }
    text
}

#[test]
fn differences_within_blocks_are_found_whatever_blocks_share() {
    check(&record("r", "", &["a", "b"], json!([blocks(10, &[1.0, 1.05])])), expect![""]);
    check(&record("r", "", &["a", "b"], json!([blocks(10, &[1.0, 1.0])])), expect![""]);
}

#[test]
fn few_blocks_say_little_and_say_so() {
    check(&record("r", "", &["a", "b"], json!([blocks(3, &[1.0, 1.05])])), expect![""]);
    check(&record("r", "", &["a", "b"], json!([blocks(6, &[1.0, 1.05])])), expect![""]);
}

#[test]
fn several_variants_share_the_probability_of_a_false_finding() {
    let values = json!([blocks(12, &[1.0, 1.004, 1.05, 0.9])]);
    check(&record("r", "", &["a", "b", "c", "d"], values), expect![""]);
}

#[test]
fn constant_zero_negative_and_missing_values_have_an_outcome() {
    let of = |pairs: &[[Value; 2]]| record("r", "", &["a", "b"], json!([pairs]));
    let pair = |a: f64, b: f64| [json!(a), json!(b)];
    check(&of(&vec![pair(5.0, 5.0); 10]), expect![""]);
    check(&of(&vec![pair(0.0, 0.0); 10]), expect![""]);
    check(&of(&vec![pair(5.0, 6.0); 10]), expect![""]);
    let zeros: Vec<_> = (0..10).map(|i| pair(if i == 3 { 0.0 } else { 5.0 }, 6.0)).collect();
    check(&of(&zeros), expect![""]);
    let negative: Vec<_> = (0..10).map(|i| pair(-5.0 - i as f64, -6.0 - i as f64)).collect();
    check(&of(&negative), expect![""]);
    check(&of(&vec![[json!({}), json!({})]; 10]), expect![""]);
    let mut some = vec![pair(5.0, 6.0); 9];
    some.extend(vec![[json!(5.0), json!({})]; 3]);
    check(&of(&some), expect![""]);
}

#[test]
fn a_run_that_failed_takes_its_pair_with_it() {
    let mut values = blocks(10, &[1.0, 1.05, 1.1]);
    values[4][1] = Value::Null;
    check(&record("r", "", &["a", "b", "c"], json!([values])), expect![""]);
}

#[test]
fn percentages_are_compared_by_their_difference() {
    let pair = |i: usize| [10.0 + i as f64 * 0.1, 15.0 + i as f64 * 0.11];
    let values: Vec<Vec<Value>> =
        (0..10).map(|i| pair(i).iter().map(|x| json!({"idle_percent": x})).collect()).collect();
    let options = Options { primary: Some("idle_percent".to_string()), ..Options::default() };
    let record = record("r", "", &["a", "b"], json!([values]));
    check_with(&record, &options, expect![""]);
}

#[test]
fn a_disturbed_block_is_left_out_whole_and_told() {
    let mut values = blocks(12, &[1.0, 1.05]);
    for (block, variant) in [(2, 0), (7, 1)] {
        let rate = values[block][variant].clone();
        values[block][variant] = json!({"operations_per_s": rate, "steal_percent": 3.13});
    }
    check(&record("r", "", &["a", "b"], json!([values])), expect![""]);
}

#[test]
fn one_variant_disturbed_more_than_chance_allows_takes_all_verdicts_back() {
    let mut values = blocks(20, &[1.0, 1.05]);
    for block in 0..8 {
        let rate = values[block][1].clone();
        values[block][1] = json!({"operations_per_s": rate, "steal_percent": 9.0});
    }
    check(&record("r", "", &["a", "b"], json!([values])), expect![""]);
}

#[test]
fn curves_part_where_the_band_excludes_equality_from_there_on() {
    let factors = [1.0, 1.0, 1.03, 1.2];
    let cells: Vec<Value> = factors.iter().map(|factor| blocks(12, &[1.0, *factor])).collect();
    check(&record("r", "", &["a", "b"], json!(cells)), expect![""]);
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
    check(&opened, expect![""]);
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
    check(&record("r", "", &["a", "b"], json!([values])), expect![""]);
}

/// Two records, each of one variant.
fn check_records(a: &Opened, b: &Opened, options: &Options, expected: Expect) {
    let arm = |name, record| Arm { name, record, variant: "v" };
    expected.assert_eq(&shown(&compare(&[arm("a", a), arm("b", b)], options)));
}

fn alone(id: &str, factor: f64) -> Opened {
    let values = blocks(12, &[factor]);
    record(id, "", &["v"], json!([values]))
}

#[test]
fn separate_records_are_compared_with_a_doubt() {
    check_records(&alone("x", 1.0), &alone("y", 1.8), &Options::default(), expect![""]);
}

#[test]
fn other_kernels_need_boots() {
    let mut other = alone("y", 1.8);
    other.record.host.kernel_release = Some("6.19.0".to_string());
    check_records(&alone("x", 1.0), &other, &Options::default(), expect![""]);
}

#[test]
fn other_operations_and_parameters_are_not_compared_unless_forced() {
    let mut other = alone("y", 1.8);
    other.record.points[0].semantics = 2;
    check_records(&alone("x", 1.0), &other, &Options::default(), expect![""]);
    let mut other = alone("y", 1.8);
    other.record.points[0].parameters = [("idle_ns".to_string(), "5".to_string())].into();
    check_records(&alone("x", 1.0), &other, &Options::default(), expect![""]);
    let force = Options { force: true, ..Options::default() };
    check_records(&alone("x", 1.0), &other, &force, expect![""]);
    other.record.points[0].workload = "brk".to_string();
    check_records(&alone("x", 1.0), &other, &force, expect![""]);
}

#[test]
fn values_of_one_run_are_no_replicates() {
    let mut imported = alone("y", 1.8);
    imported.record.source = Some(records::Source {
        format: "fs_mark".to_string(),
        files: Default::default(),
        unit: Unit::Sample,
        blocks: false,
        lacks: vec!["the loops are of one run".to_string()],
    });
    check_records(&alone("x", 1.0), &imported, &Options::default(), expect![""]);
}

/// How many blocks a cell gets, where each variant has its factor.
fn blocks_until_decided(experiment: &str, factors: &[f64]) -> u32 {
    let names: Vec<&str> = ["a", "b", "c"][..factors.len()].to_vec();
    let opened = record("r", experiment, &names, json!([blocks(80, factors)]));
    let points: Vec<usize> = (0..factors.len()).collect();
    let goes_on = |block: &u32| {
        let before: Vec<&Run> = opened.runs.iter().filter(|run| run.block < *block).collect();
        goes_on(&opened.record, &points, &before, *block)
    };
    (0..200).take_while(goes_on).count() as u32
}

#[test]
fn blocks_go_on_until_all_is_decided_or_the_cap_is_reached() {
    let experiment =
        "[compare]\nuntil_decided = true\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'";
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.0]), 8);
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.2]), 10);
    assert_eq!(blocks_until_decided(experiment, &[1.0, 1.2, 1.0]), 10);
    assert_eq!(blocks_until_decided("", &[1.0, 1.0]), 5);
    assert_eq!(blocks_until_decided("blocks = 7", &[1.0, 1.0]), 7);
}
