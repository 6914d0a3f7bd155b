//! Nothing is dropped in silence: a number of a file that changes changes the record, or is counted as not read, or
//! stands in the list of its test.

use expect_test::{Expect, expect};
use store::import::{Input, Telling, assemble};

use super::{fixture_text, session};

/// What a record says of its numbers, but for the file that it was made of.
pub fn said(name: &str, text: &str) -> Option<String> {
    let input = Input::from_bytes(std::path::Path::new(name), text.as_bytes()).ok()?;
    let imported = assemble(&[input], &Telling::default(), session()).ok()?;
    let record = &imported.record;
    Some(format!("{:?} {:?} {:?} {:?}", imported.runs, record.points, record.host, record.variants))
}

/// Start and end of each number in a text: digits, maybe with a point, that no letter stands before.
pub fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let is_inside =
            at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || b"._".contains(&bytes[at - 1]));
        if !bytes[at].is_ascii_digit() || is_inside {
            at += 1;
            continue;
        }
        let length = bytes[at..].iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        found.push((at, at + length));
        at += length;
    }
    found
}

/// Changes each number of a file by itself: what leaves the record as it is, is listed with its line.
#[track_caller]
fn check(name: &str, expected: Expect) {
    let text = fixture_text(name);
    let before = said(name, &text).expect("the file is read");
    let mut silent: Vec<(usize, String)> = Vec::new();
    for (start, end) in numbers(&text) {
        let first = if text[start..].starts_with('7') { "8" } else { "7" };
        let changed = format!("{}{first}{}", &text[..start], &text[start + 1..]);
        if said(name, &changed).is_some_and(|after| after == before) {
            let line = text[..start].matches('\n').count() + 1;
            silent.push((line, text[start..end].to_string()));
        }
    }
    let input = Input::from_bytes(std::path::Path::new(name), text.as_bytes()).unwrap();
    let imported = assemble(&[input], &Telling::default(), session()).unwrap();
    let warnings = imported.record.warnings.iter().map(|warning| warning.text.as_str());
    let told: Vec<&str> = warnings.filter(|text| text.starts_with("not read from")).collect();
    let mut shown: String = told.iter().map(|text| format!("{text}\n")).collect();
    for (line, number) in silent {
        shown += &format!("line {line}: {number}\n");
    }
    expected.assert_eq(&shown);
}

#[test]
fn fio() {
    check(
        "fio.json",
        expect![[r#"
        line 4: 1795187798
        line 9: 0
        line 11: 1
        line 18: 0
        line 18: 0
        line 18: 0.0
        line 19: 0
        line 19: 0
        line 19: 0.0
        line 19: 0.0
        line 19: 0
    "#]],
    );
    check(
        "fio-2.2.json",
        expect![[r#"
        line 3: 1444144000
        line 4: 6
        line 4: 11
        line 4: 06
        line 4: 40
        line 4: 2015
        line 6: 0
        line 6: 0
        line 6: 26
        line 8: 0
        line 8: 0.00
        line 8: 0.00
        line 11: 0
        line 11: 0
        line 11: 0.00
        line 11: 0
    "#]],
    );
    check(
        "fio-2.6-mixed.json",
        expect![[r#"
        line 5: 0
        line 5: 0
        line 5: 31
        line 7: 0
        line 7: 0.00
        line 7: 0.00
    "#]],
    );
    check(
        "fio-sync.json",
        expect![[r#"
            not read from fio-sync.json: bins of latencies (2 numbers), disk_util (3 numbers), distribution of depths (2 numbers), distribution of latencies (2 numbers)
            line 4: 0
            line 4: 0
            line 4: 11
            line 6: 0
            line 7: 40000
            line 7: 4000
            line 8: 0
            line 8: 0
            line 8: 0.0
            line 8: 0.0
            line 8: 0
            line 9: 2100
            line 9: 4000
            line 9: 5000
            line 9: 6000
            line 12: 0
            line 15: 1
            line 15: 100.0
            line 15: 2
            line 15: 0.0
            line 15: 2
            line 15: 10.0
            line 15: 10
            line 15: 90.0
            line 15: 0
            line 15: 100.0
            line 15: 0
            line 17: 0
            line 17: 20100
            line 17: 97.5
        "#]],
    );
}

#[test]
fn sysbench() {
    check(
        "sysbench.log",
        expect![[r#"
        line 1: 2.1.0
        line 8: 10000
        line 32: 2.1.0
        line 40: 4
        line 40: 1
        line 41: 4
        line 42: 16
        line 43: 0
        line 44: 1.50
        line 45: 100
    "#]],
    );
    check(
        "sysbench-0.5.log",
        expect![[r#"
            line 5: 10
            line 6: 0
            line 11: 99
            line 12: 99
        "#]],
    );
    check(
        "sysbench-intervals.log",
        expect![[r#"
        line 1: 2.1.0
        line 5: 1
    "#]],
    );
}

#[test]
fn stress_ng() {
    check(
        "stress-ng.log",
        expect![[r#"
            not read from stress-ng.log: other lines (2 numbers)
            line 1: 7558
            line 1: 1
            line 2: 7558
            line 3: 7558
            line 4: 7558
            line 5: 7558
            line 5: 0.00
            line 6: 7558
            line 7: 7558
            line 8: 7558
            line 8: 1
            line 9: 7558
            line 9: 1.03
            line 10: 7601
            line 10: 1
            line 11: 7601
            line 12: 7601
            line 13: 7601
        "#]],
    );
    check(
        "stress-ng-2023.log",
        expect![[r#"
            not read from stress-ng-2023.log: other lines (4 numbers)
            line 1: 101
            line 1: 1
            line 1: 0
            line 2: 101
            line 3: 101
            line 4: 101
            line 5: 101
            line 6: 101
            line 7: 101
            line 7: 4
            line 8: 101
            line 8: 0
            line 9: 101
            line 9: 4
            line 9: 4
            line 10: 101
            line 10: 0
            line 11: 101
            line 11: 0
            line 12: 101
            line 12: 1
            line 12: 0.00
        "#]],
    );
    check(
        "stress-ng.yaml",
        expect![[r#"
        line 7: 1
    "#]],
    );
}

#[test]
fn perf_stat() {
    check(
        "perf_stat.csv",
        expect![[r#"
            not read from perf_stat.csv: how long events were counted (14 numbers), metrics that perf derives (5 numbers)
            line 1: 23
            line 1: 04
            line 1: 15
            line 1: 20
            line 1: 2026
            line 3: 619457
            line 3: 100.00
            line 3: 0.357
            line 4: 619457
            line 4: 100.00
            line 4: 80.716
            line 5: 0
            line 5: 100.00
            line 6: 619457
            line 6: 100.00
            line 6: 1.614
            line 7: 23
            line 7: 04
            line 7: 15
            line 7: 20
            line 7: 2026
            line 9: 510974
            line 9: 100.00
            line 9: 0.477
            line 10: 510974
            line 10: 100.00
            line 10: 97.852
            line 11: 0
            line 11: 100.00
        "#]],
    );
    check(
        "perf_stat.json",
        expect![[r#"
            not read from perf_stat.json: how long events were counted (8 numbers), metrics that perf derives (4 numbers)
            line 1: 530240
            line 1: 100.00
            line 1: 0.498197
            line 2: 530240
            line 2: 100.00
            line 2: 94.296922
            line 3: 0
            line 3: 100.00
            line 3: 0.000000
            line 4: 1064317
            line 4: 100.00
            line 4: 2.007236
        "#]],
    );
    check(
        "perf_stat_interval.csv",
        expect![[r#"
            not read from perf_stat_interval.csv: how long events were counted (8 numbers), metrics that perf derives (4 numbers)
            line 1: 5
            line 1: 10
            line 1: 00
            line 1: 00
            line 1: 2026
            line 3: 2001500000
            line 3: 100.00
            line 3: 2.001
            line 4: 2001500000
            line 4: 100.00
            line 4: 2.498
            line 5: 2000900000
            line 5: 100.00
            line 5: 2.001
            line 6: 2000900000
            line 6: 100.00
            line 6: 2.549
        "#]],
    );
}

#[test]
fn benchmarks_of_languages() {
    check("go_bench.txt", expect![[r#""#]]);
    check(
        "google_benchmark.json",
        expect![[r#"
        not read from google_benchmark.json: aggregates over repetitions (5 numbers)
        line 2: 2026
        line 2: 11
        line 2: 20
        line 2: 00
        line 2: 00
        line 2: 00
        line 2: 00
        line 2: 8
        line 2: 2400
        line 4: 64
        line 4: 4
        line 4: 0
        line 4: 4
        line 4: 2
        line 4: 0
        line 6: 64
        line 6: 4
        line 6: 0
        line 6: 4
        line 6: 2
        line 6: 1
        line 8: 64
        line 8: 4
        line 8: 0
        line 8: 64
        line 8: 4
        line 9: 4
        line 9: 2
        line 9: 121.0
        line 9: 480.9
    "#]],
    );
    check(
        "jmh.json",
        expect![[r#"
        not read from jmh.json: errors and percentiles that JMH derives (9 numbers)
        line 2: 1.37
        line 2: 2
        line 3: 1
        line 3: 2
        line 4: 2500.25
        line 4: 12.5
        line 4: 2487.75
        line 4: 2512.75
        line 5: 0.0
        line 5: 2490.0
        line 5: 100.0
        line 5: 2511.0
        line 6: 24.5
        line 6: 0.5
        line 6: 24.0
        line 6: 25.0
        line 7: 0.0
        line 7: 24.0
    "#]],
    );
    check(
        "hyperfine.json",
        expect![[r#"
            not read from hyperfine.json: means and extremes over all runs (7 numbers)
            line 5: 0.0126
            line 5: 0.0014
            line 5: 0.0126
            line 5: 0.00137
            line 5: 0.0
            line 5: 0.0116
            line 5: 0.0136
            line 12: 0.0241
            line 12: 0.0241
            line 12: 0.00131
            line 12: 0.0002
            line 12: 0.0241
            line 12: 0.0241
            line 13: 0.0241
            line 14: 2097152
        "#]],
    );
}

#[test]
fn benchmarks_of_the_kernel() {
    check(
        "perf_bench.txt",
        expect![[r#"
            not read from perf_bench.txt: other lines (8 numbers)
            line 16: 4242
            line 16: 1024
            line 16: 10
            line 18: 0
            line 18: 0
            line 18: 0
            line 18: 512000
        "#]],
    );
    check(
        "hackbench.txt",
        expect![[r#"
        line 1: 40
        line 4: 40
    "#]],
    );
    check(
        "kernel_test_robot.txt",
        expect![[r#"
        line 13: 12.3
        line 14: 12.3
        line 15: 18.4
    "#]],
    );
    check(
        "matrix.json",
        expect![[r#"
        line 9: 14.1
        line 9: 14.0
        line 10: 0
        line 10: 1
        line 10: 2
    "#]],
    );
    check(
        "page_fault1.csv",
        expect![[r#"
        line 2: 0
        line 2: 100
        line 2: 0
        line 2: 100
        line 2: 0
        line 3: 801234
        line 4: 1602468
        line 5: 3204936
    "#]],
    );
    check(
        "processes_only.csv",
        expect![[r#"
        line 2: 0
        line 2: 100
        line 2: 0
        line 2: 100
        line 2: 0
        line 3: 0.00
        line 3: 512345
        line 4: 0.00
        line 4: 1024690
        line 5: 0.00
        line 5: 2049380
        line 6: 0.00
        line 6: 4098760
        line 7: 0.00
        line 7: 8197520
        line 8: 0.00
        line 8: 16395040
        line 9: 0.00
        line 9: 32790080
    "#]],
    );
    check("qspinlock.log", expect![[r#""#]]);
}

#[test]
fn others() {
    check(
        "pgbench.txt",
        expect![[r#"
        not read from pgbench.txt: statistics of single scripts or statements (2 numbers)
        line 1: 15.3
        line 11: 0.000
        line 15: 16.1
        line 26: 0.008
        line 32: 0.801
        line 32: 1
    "#]],
    );
    check("plain.csv", expect![[r#""#]]);
    check("scan.csv", expect![[r#""#]]);
}

#[test]
fn a_file_of_which_much_is_not_read_says_so() {
    let check = |others: &str, expected: Option<&str>| {
        let text = format!(
            "{{\"others\": [{others}],\n\"results\": [{{\"command\": \"a\", \"times\": [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2]}}]}}"
        );
        let input = Input::from_bytes(std::path::Path::new("x.json"), text.as_bytes()).unwrap();
        let imported = assemble(&[input], &Telling::default(), session()).unwrap();
        let warnings = imported.record.warnings.iter().map(|warning| warning.text.as_str());
        let told: Vec<&str> = warnings.filter(|text| text.starts_with("read from")).collect();
        assert_eq!(told, expected.as_slice(), "{others}");
    };
    check("2.25, 3.25", None);
    let told = "read from x.json: only 8 of its 14 numbers, for example none of line 1: {\"others\": [11.7, 12.7, 13.7, 14.7, 15.7, 17.7],";
    check("11.7, 12.7, 13.7, 14.7, 15.7, 17.7", Some(told));
}
