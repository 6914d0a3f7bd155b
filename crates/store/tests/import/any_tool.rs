//! Files of any tool: the numbers that a pattern finds, and that a refusal names a pattern which finds some.

use std::path::Path;

use records::ReplicationUnit;
use records::pattern::{DescribedNumber, extract};
use store::import::{Imported, Input, Telling, Wanted, assemble};

use super::lines::{described, unread};
use super::session;

fn wanted(pattern: &str) -> Wanted {
    let DescribedNumber { name, unit, better } = DescribedNumber::of(pattern);
    let extract = records::Extract { name, unit, better, ..extract(pattern).unwrap() };
    Wanted { pattern: pattern.to_string(), extract }
}

fn import(files: &[(&str, &str)], patterns: &[&str]) -> Result<Imported, String> {
    let inputs: Vec<Input> = files
        .iter()
        .map(|(name, text)| Input::from_bytes(Path::new(name), text.as_bytes()).unwrap())
        .collect();
    let values: Vec<Wanted> = patterns.iter().map(|pattern| wanted(pattern)).collect();
    let telling = Telling { values: &values, ..Telling::default() };
    assemble(&inputs, &telling, session()).map_err(|error| format!("{error:#}"))
}

/// The values of a metric in the order of the runs, each with its cell's parameters.
fn values(imported: &Imported, metric: &str) -> Vec<(String, f64)> {
    let points = &imported.record.points;
    let runs = imported.runs.iter();
    let value = |run: &records::Run| {
        let parameters = points[run.point as usize].parameters.values();
        Some((parameters.cloned().collect::<Vec<_>>().join(" "), run.value(metric)?))
    };
    runs.filter_map(|(run, _)| value(run)).collect()
}

#[track_caller]
fn check(text: &str, pattern: &str, metric: &str, expected: &[(&str, f64)]) {
    let imported = import(&[("x.txt", text)], &[pattern]).unwrap();
    let expected: Vec<(String, f64)> =
        expected.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    assert_eq!(values(&imported, metric), expected);
}

#[test]
fn matches_are_samples_in_the_order_of_the_file() {
    let text = "run 1\ntps = 1,650.5 (ok)\nrun 2\ntps =  1.7k\nrun 3\ntps = 900\n";
    check(text, "tps = {}", "tps", &[("", 1650.5), ("", 1700.0), ("", 900.0)]);
    let imported = import(&[("x.txt", text)], &["tps = {}"]).unwrap();
    assert_eq!(described(&imported, "tps"), "1/s, higher");
    let source = imported.record.source.as_ref().unwrap();
    assert_eq!((source.unit, &source.format[..]), (ReplicationUnit::Sample, "value"));
    assert_eq!(unread(&imported), "not read from x.txt: other numbers (3 numbers)");
    assert!(imported.record.warnings.iter().any(|one| one.text.contains("3 matches are taken")));
}

#[test]
fn files_are_variants_and_several_files_of_one_are_its_runs() {
    let files = [("old.log", "took 12.3ms\n"), ("new.log", "took 1.5s\n")];
    let imported = import(&files, &["took {}"]).unwrap();
    let names: Vec<&str> = imported.record.variants.iter().map(|one| &one.name[..]).collect();
    assert_eq!(names, ["old", "new"]);
    assert_eq!(values(&imported, "took"), [("".to_string(), 12.3), ("".to_string(), 1.5)]);
}

#[test]
fn units_are_those_of_the_file_and_one_for_all_numbers() {
    let text = "latency 635.5us\nlatency 1.5ms\nlatency 0\n";
    check(text, "latency {}", "latency", &[("", 635.5), ("", 1500.0), ("", 0.0)]);
    let imported = import(&[("x.txt", text)], &["latency {}"]).unwrap();
    assert_eq!(described(&imported, "latency"), "us, lower");
    check("real 1m3.25s\nreal 0:02.5\n", "real {}", "real", &[("", 63.25), ("", 2.5)]);
    let error = import(&[("x.txt", "rate 5 MB/s\nrate 7 KB/s\n")], &["rate {}"]).unwrap_err();
    assert!(error.contains("7 has KB/s, another number has MB/s"), "{error}");
    let error = import(&[("x.txt", "x 12,5\n")], &["x {}"]).unwrap_err();
    assert!(error.contains("found '12,5', which may be a decimal comma"), "{error}");
}

#[test]
fn rows_and_objects_with_names_are_cells() {
    let table = "name,ms,note\nparse,1.5,a\nprint,2.5,a\nparse,1.75,a\n";
    let rows = [("parse a", 1.5), ("parse a", 1.75), ("print a", 2.5)];
    check(table, "column:ms", "ms", &rows);
    let json = r#"[{"name": "a", "ms": {"mean": 1.5}}, {"name": "b", "ms": {"mean": 2}}]"#;
    check(json, "json:/*/ms/mean", "mean", &[("a", 1.5), ("b", 2.0)]);
    let units =
        r#"[{"name": "a", "unit": "req/s", "value": 7}, {"name": "b", "unit": "MB", "value": 9}]"#;
    check(units, "json:/*/value", "value_req_per_s", &[("a", 7.0)]);
    check(units, "json:/*/value", "value_mb", &[("b", 9.0)]);
}

#[test]
fn several_patterns_are_metrics_of_one_run() {
    let text = "tps = 5, p99 = 7 ms\ntps = 6, p99 = 8 ms\n";
    let imported = import(&[("x.txt", text)], &["tps = {}", "p99 = {} ms"]).unwrap();
    assert_eq!(imported.runs.len(), 2);
    assert_eq!(imported.runs[1].0.value("tps"), Some(6.0));
    assert_eq!(imported.runs[1].0.value("p99"), Some(8.0));
    assert_eq!(imported.record.experiment.compare.metric, "tps");
    let error = import(&[("x.txt", text)], &["tps = {}", "p50 = {}"]).unwrap_err();
    assert!(error.contains("--value 'p50 = {}': found nothing"), "{error}");
    assert!(error.contains("tps = 5, p99 = 7 ms"), "{error}");
}

/// A text is refused with a command that reads this value of it.
#[track_caller]
fn check_advice(text: &str, telling: &str, expected: f64) {
    let error = import(&[("-out file.txt", text)], &[]).unwrap_err();
    assert!(error.contains(telling), "no '{telling}' in: {error}");
    let command = error.lines().find(|line| line.trim().starts_with("knee record import"));
    let command = command.unwrap_or_else(|| panic!("no command in: {error}"));
    let mut words = shell_words(command.trim()).into_iter().skip(3);
    assert_eq!(words.next().as_deref(), Some("./-out file.txt"), "{command}");
    assert_eq!(words.next().as_deref(), Some("--value"), "{command}");
    let pattern = words.next().unwrap();
    let imported = import(&[("-out file.txt", text)], &[&pattern]).unwrap();
    let mut found = imported.runs.iter().flat_map(|(run, _)| {
        let metrics = imported.record.metrics.keys();
        metrics.filter_map(|name| run.value(name)).collect::<Vec<_>>()
    });
    assert!(found.any(|value| value == expected), "{pattern} in {text}");
}

/// The words that a shell makes of a line.
fn shell_words(line: &str) -> Vec<String> {
    let output = std::process::Command::new("sh")
        .args(["-c", &format!("for word in {line}; do printf '%s\\n' \"$word\"; done")])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

#[test]
fn a_refusal_has_a_command_that_works() {
    check_advice(
        "MyBench version 2.1\nthreads: 8\nthroughput: 1,650.5 ops/s\n",
        "'MyBench version 2.1'",
        1650.5,
    );
    check_advice(
        "2026-11-30 10:11:12 start\n2026-11-30 10:11:13 it's 12.5ms on average\n",
        "10:11:13",
        12.5,
    );
    check_advice("a b\tlatency\n1 2 3\t7.5\nJan 6\t-\nJan 7\t8.5\n", "latency", 8.5);
    check_advice("case;seed;time_ms\nx;1;12.5\n", "time_ms", 12.5);
    check_advice(
        "{\"seed\": 1, \"results\": [{\"n\": 1, \"qps\": 5.5}, {\"n\": 2, \"qps\": 6.5}]}",
        "JSON with results, seed",
        5.5,
    );
    check_advice("1.5\n1.75\n", "none of them looks like a result", 1.75);
    check_advice("0 25\n1 29\n", "0 25", 29.0);
    // A tool that knee knows by name has one, too.
    check_advice("PING a: \n64 bytes: icmp_seq=1 time=0.5 ms\n", "of ping", 0.5);
}

#[test]
fn what_has_no_numbers_has_no_command() {
    for text in ["no results\n", "{\"a\": \"b\"}\n", "<result></result>\n"] {
        let error = import(&[("x.txt", text)], &[]).unwrap_err();
        assert!(error.contains("it has no numbers") && !error.contains("--value"), "{error}");
    }
}
