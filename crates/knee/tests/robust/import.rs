//! Imported results go through everything that records of knee's own go through, and print
//! nothing that was never told; what cannot be imported leaves no record.

use std::fs;
use std::path::{Path, PathBuf};

use records::RecordState;

use crate::home::Home;

pub fn fixture(name: &str) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/import");
    tests.canonicalize().unwrap().join(name).display().to_string()
}

pub const FIXTURES: [&str; 9] = [
    "plain.csv",
    "no_blocks.csv",
    "exported.csv",
    "page_fault1.csv",
    "fs_mark.log",
    "matrix.json",
    "stress-ng.log",
    "fio.json",
    "hyperfine.json",
];

/// `knee` does this well, and says so without numbers that are none.
#[track_caller]
fn done(home: &Home, arguments: &str) -> String {
    let ended = home.run(arguments);
    assert_eq!(ended.status.code(), Some(0), "knee {arguments}: {}", ended.stderr);
    for word in ["NaN", "inf ", "inf%", "0 CPUs", "panicked"] {
        assert!(!ended.stdout.contains(word), "'{word}' in\n{}", ended.stdout);
    }
    ended.stdout
}

#[test]
fn what_was_imported_is_listed_shown_and_exported() {
    for name in FIXTURES {
        let home = Home::new();
        let id = done(&home, &format!("record import {}", fixture(name)));
        let id = id.trim();
        assert_eq!(home.record().record.id, id);
        assert_eq!(home.record().record.state, RecordState::Whole);
        assert!(done(&home, "list").contains(id));
        let shown = done(&home, "show");
        assert!(shown.contains(id) && shown.contains("missing"), "{shown}");
        for detail in ["--time", "--counters", "--json"] {
            done(&home, &format!("show {detail}"));
        }
        done(&home, "record export --format json");
        let csv = done(&home, "record export");
        assert!(csv.lines().count() > 1, "{csv}");
        home.check_nothing_is_left();
    }
}

#[test]
fn an_exported_record_comes_back_run_for_run() {
    let home = Home::new();
    done(&home, &format!("record import {}", fixture("exported.csv")));
    let before = home.record();
    done(&home, "record export --output again.csv");
    let again: PathBuf = home.path("again.csv");
    let back = Home::new();
    done(&back, &format!("record import {}", again.display()));
    let after = back.record();
    assert_eq!(after.runs, before.runs);
    assert_eq!(after.record.points, before.record.points);
    assert_eq!(after.record.variants, before.record.variants);
    assert!(after.record.source.is_some_and(|source| source.blocks));
}

#[test]
fn will_it_scale_s_csv_comes_back_as_it_was() {
    let home = Home::new();
    done(&home, &format!("record import {}", fixture("page_fault1.csv")));
    let exported = done(&home, "record export --format will-it-scale");
    // The host's idle share is another metric than knee's own.
    assert!(exported.contains("\n2,1590000,-1.00,-1,-1.00,1602468\n"), "{exported}");
}

#[test]
fn the_user_s_names_are_those_of_variants_and_workload() {
    let home = Home::new();
    let logs = [fixture("qspinlock.log"), fixture("ticket.log")].join(" ");
    let ended = home.run(&format!("record import {logs} --as q,t --workload create --json"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let made: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let record = home.record().record;
    assert_eq!(made["record"], record.id.as_str());
    let names: Vec<&str> = record.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!((names, &*record.points[0].workload), (vec!["q", "t"], "create"));
    for part in [
        "fs_mark: 32 values of 4 metrics in 8 samples of 2 variants: q (baseline), t",
        "not in the files:",
    ] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
}

#[test]
fn what_cannot_be_imported_is_named_and_leaves_no_record() {
    let home = Home::new();
    fs::write(home.path("bad.csv"), "metric,value\nm,x\n").unwrap();
    fs::write(home.path("letter"), "Dear all").unwrap();
    let check = |arguments: &str, part: &str| {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "knee {arguments}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        assert!(ended.stdout.is_empty() && home.records().is_empty());
        home.check_nothing_is_left();
    };
    check("record import bad.csv", "reading bad.csv as plain: line 2: value is 'x', not a number");
    check("record import letter", "the format of letter was not recognised: 'Dear all'");
    check("record import letter --value tps={}", "--value 'tps={}': found nothing");
    check("record import letter --value stderr:a{}", "a file has no standard error");
    check("record import letter --value (a", "the pattern '(a': the regex '(a' is malformed");
    check("record import letter --value a{} --format plain", "cannot be used with");
    check("record import letter --better lower", "--value <PATTERN>");
    check("record import none", "reading none: No such file");
    check("record import letter --format fi", "no format is called \"fi\"");
    check("record import letter --format hyperfin", "did you mean \"hyperfine\"");
    check("record import letter --as ,", "an empty name");
    check("record import bad.csv --unit year", "must be run, mount or boot");
    check("record import", "<FILE>");
    check(&format!("--records /proc/x import {}", fixture("fio.json")), "creating /proc/x");
}

#[test]
fn a_file_of_any_tool_is_imported_by_the_command_that_its_refusal_names() {
    let home = Home::new();
    fs::write(home.path("my result.txt"), "MyBench 2.1\nthroughput: 1,650.5 ops/s\nit's 7 ms\n")
        .unwrap();
    let mut command = home.knee("record import");
    let refused = home.start(command.arg("my result.txt")).end();
    let line = refused.stderr.lines().find(|line| line.trim().starts_with("knee record import"));
    let line = line.unwrap_or_else(|| panic!("{}", refused.stderr)).trim();
    let words = shlex::split(line).unwrap();
    let mut command = home.knee("record import");
    let ended = home.start(command.args(&words[3..])).end();
    assert_eq!(ended.status.code(), Some(0), "{line}\n{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.runs[0].value("throughput"), Some(1650.5), "{line}");
    let two =
        ["my result.txt", "--value", "throughput: {}", "--value", "{} ms", "--better", "lower"];
    let mut command = home.knee("record import");
    let ended = home.start(command.args(two)).end();
    assert!(ended.stderr.contains("value: 2 values of 2 metrics"), "{}", ended.stderr);
}

#[test]
fn standard_input_is_imported_as_the_file_is() {
    let home = Home::new();
    let mut command = home.knee("record import - --as old");
    command.stdin(fs::File::open(fixture("fs_mark.log")).unwrap());
    let ended = home.start(&mut command).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let piped = home.record();
    let other = Home::new();
    done(&other, &format!("record import {} --as old", fixture("fs_mark.log")));
    let values = |record: &records::Opened| {
        record.runs.iter().map(|run| format!("{:?}", run.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(values(&piped), values(&other.record()));
    assert!(!piped.runs.is_empty());
    fs::write(home.path("x.log.gz"), [0x1f, 0x8b, 8]).unwrap();
    let ended = home.run("record import x.log.gz");
    assert!(ended.stderr.contains("zcat x.log.gz | knee record import -"), "{}", ended.stderr);
}
