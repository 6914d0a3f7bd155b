//! Records as their users keep them: labelled, noted, listed, filtered, removed; and what is said of one
//! whose runs were changed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::home::{Ended, Home};
use crate::skip::skip;
use crate::terminal::{copy, golden, home_with_a_record};

/// The id of the golden record.
const ID: &str = "20261120-115530-7f3a9c";

const RUN: &str = "run getppid --cpus 1 --blocks 1 --seconds 0.01 --json";

#[track_caller]
fn done(home: &Home, arguments: &str) -> Ended {
    let ended = home.run(arguments);
    assert!(ended.status.success(), "knee {arguments}: {}", ended.stderr);
    ended
}

#[track_caller]
fn refused(home: &Home, arguments: &str, part: &str) {
    let ended = home.run(arguments);
    assert_eq!(ended.status.code(), Some(2), "knee {arguments}: {}", ended.stdout);
    assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
}

#[test]
fn a_label_names_a_record_wherever_one_is_named() {
    let home = Home::new();
    done(&home, &format!("{RUN} --label before --note first"));
    done(&home, RUN);
    let show = done(&home, "show before").stdout;
    assert!(show.contains("label       before\nnote        first\n"), "{show}");
    done(&home, "record note last the-second --label after");
    done(&home, "compare before after");
    done(&home, "record export after");
    assert_eq!(done(&home, "record note after").stdout, "after\nthe-second\n");
    let listed = done(&home, "list --label after").stdout;
    assert!(listed.contains("  after: getppid  1 run  ") && listed.ends_with(" the-second\n"));
    let [_, result, _] = listed.lines().collect::<Vec<_>>()[..] else { panic!("{listed}") };
    assert!(result.contains(" getppid, processes: "), "{listed}");
    let json = done(&home, "list --json --since 1h --workload getppid").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 2);
    assert!(json[0]["started"].as_str().unwrap().ends_with('Z'), "{json}");
    assert!(done(&home, "list --until 2000-01-01").stdout.starts_with("No record in "));
    refused(&home, &format!("{RUN} --label 2026"), "'2026' cannot be a label");
    refused(&home, "record note after x --label last", "'last' cannot be a label");
    refused(&home, "show nothing", "no record in");
}

#[test]
fn the_curves_of_a_record_become_an_svg_file() {
    let home = Home::new();
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return skip("curves as SVG", "there is one CPU");
    }
    done(&home, "run getppid --cpus 1-2 --blocks 1 --seconds 0.01 --json --label a");
    done(&home, "show a --svg a.svg");
    let drawn = fs::read_to_string(home.path("a.svg")).unwrap();
    assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"), "{drawn}");
    assert!(drawn.contains("getppid: operations/s over CPUs"), "{drawn}");
    refused(&home, "show a --svg /proc/none/a.svg", "creating /proc/none/a.svg");
    done(&home, RUN);
    refused(&home, "show last --svg b.svg", "has no curve");
}

#[test]
fn records_are_removed_only_when_asked_to() {
    let home = Home::new();
    for label in ["a", "b", "c", "d"] {
        done(&home, &format!("{RUN} --label {label}"));
    }
    refused(
        &home,
        "record rm a",
        "nothing was removed, since there is no terminal to ask on: add --yes",
    );
    done(&home, "record rm a --yes");
    refused(&home, "show a", "no record in");
    // Records with a label are kept.
    done(&home, "record prune --keep 0 --yes");
    assert_eq!(home.records().len(), 3);
    for label in ["b", "c"] {
        done(&home, &format!("record note {label} --label="));
    }
    refused(&home, "record prune --keep 1", "nothing was removed");
    let ended = done(&home, "record prune --keep 1 --yes");
    assert_eq!(ended.stdout.lines().count(), 1, "it names what it removes: {}", ended.stdout);
    assert_eq!(home.records().len(), 2);
    done(&home, "record prune --older-than 1h --size 1M --yes");
    assert_eq!(home.records().len(), 2);
    refused(&home, "record prune", "--older-than");
    refused(&home, "record prune --older-than 3", "must be an age such as 30d");
}

#[test]
fn what_is_noted_and_removed_is_said_as_json() {
    let home = home_with_a_record();
    let answer = |arguments: &str| -> Value {
        serde_json::from_str(&done(&home, arguments).stdout).expect("JSON alone on standard output")
    };
    let noted = answer("record note last --label kept --json");
    assert_eq!((&noted["record"], &noted["label"]), (&json!(ID), &json!("kept")));
    assert_eq!(answer("record note kept --json"), noted);
    assert_eq!(answer("record prune --keep 0 --yes --json"), json!({ "removed": [] }));
    answer("record note kept --label= --json");
    let removed = json!([{ "folder": noted["folder"], "has_other_files": false }]);
    assert_eq!(answer("record prune --keep 0 --yes --json")["removed"], removed);
    copy(&golden(), Path::new(noted["folder"].as_str().unwrap()));
    assert_eq!(answer("record rm last --yes --json")["removed"], removed);
}

#[test]
fn all_hosts_that_ran_for_a_record_are_in_its_json() {
    let home = home_with_a_record();
    let path = home.path(&format!("records/7f/{ID}/record.json"));
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for (session, node) in [(0, "beta"), (1, "gamma")] {
        record["sessions"][session]["node"] = json!(node);
    }
    fs::write(&path, record.to_string()).unwrap();
    let shown: Value = serde_json::from_str(&done(&home, "show --json").stdout).unwrap();
    let hosts = shown["record"]["hosts"].as_array().unwrap();
    let named: Vec<_> = hosts.iter().map(|host| (&host["name"], &host["runs"])).collect();
    assert_eq!(named, [(&json!("beta"), &json!(27)), (&json!("gamma"), &json!(4))]);
    let share = hosts[1]["share"].as_f64().unwrap();
    assert!((share - 4.0 / 31.0).abs() < 1e-9, "{hosts:?}");
}

#[test]
fn an_export_of_changed_runs_says_so() {
    let home = Home::new();
    done(&home, RUN);
    let runs = home.record().folder.join("runs.ndjson");
    let text = fs::read_to_string(&runs).unwrap();
    assert!(!done(&home, "record export last").stderr.contains("has changed"));
    fs::write(&runs, text.replacen("\"block\":0", "\"block\": 0", 1)).unwrap();
    let compact = format!("record export last --compact {}", home.path("compact").display());
    for arguments in ["record export last", "record export last --format json", &compact] {
        let ended = done(&home, arguments);
        assert!(ended.stderr.contains("runs.ndjson has changed since"), "{}", ended.stderr);
    }
}
