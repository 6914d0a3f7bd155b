//! What is refused, and in which words: the file, the line, what was expected, what to do.

use std::fs;
use std::path::Path;

use records::ReplicationUnit;
use store::import::{Input, Telling, assemble};

use super::{fixture, import, session};

fn read(text: &str, telling: &Telling) -> Result<super::Imported, String> {
    let input = Input::from_bytes(Path::new("x.txt"), text.as_bytes());
    let imported = input.and_then(|input| assemble(&[input], telling, session()));
    imported.map_err(|error| format!("{error:#}"))
}

/// A text in a format is refused in words that have all these parts.
#[track_caller]
fn refused(format: &str, text: &str, parts: &[&str]) {
    let telling = Telling { format: Some(format), ..Telling::default() };
    let error = read(text, &telling).expect_err("it is refused");
    for part in [&["x.txt"], parts].concat() {
        assert!(error.contains(part), "no '{part}' in: {error}");
    }
}

#[test]
fn what_shows_no_format_says_which_there_are() {
    let error = read("hello", &Telling::default()).unwrap_err();
    assert_eq!(
        error,
        "the format of x.txt was not recognised: 'hello'\n  it has no numbers\n\n  or name its format: `--format help` lists all"
    );
    let error = read("", &Telling::default()).unwrap_err();
    assert!(error.contains("x.txt is empty: was the tool interrupted?"), "{error}");
    let error = import(&["fio.json", "hyperfine.json"], &[]).unwrap_err().to_string();
    assert_eq!(error, "fio.json is fio, but hyperfine.json is hyperfine: import them separately");
}

#[test]
fn every_format_refuses_an_empty_file_and_another_format() {
    for format in store::import::FORMATS {
        refused(format.name, "\n\n", &["is empty"]);
        refused(format.name, "Dear all,\nit is slow.\n", &[]);
    }
}

#[test]
fn plain_csv_is_refused_by_line() {
    let row = |row: &str| format!("variant,metric,value,block,cpus\na,m,1,0,2\n{row}\n");
    let plain = |text: &str, parts: &[&str]| refused("plain", text, parts);
    plain("variant,metric\na,m\n", &["line 1: no column value; expected variant, metric, value"]);
    plain("metric,value,value\n", &["line 1: there are two columns value"]);
    plain(&row("a,m,x,1,2"), &["line 3: value is 'x', not a number"]);
    plain(&row("a,m,1"), &["line 3: 3 fields, but the header has 5"]);
    plain(&row("a,m,1,-1,2"), &["line 3: block is '-1', must be a whole number"]);
    plain(&row("a,m,1,0,2"), &["line 3: a already has m of this block in line 2", "placebo"]);
    plain(&row("a,m,1,1,two"), &["line 3: cpus is 'two'"]);
    plain(&row("a,,1,1,2"), &["line 3: the metric has no name"]);
    plain(&row("a,\"m,1,1,2"), &["line 3: a quoted field does not end"]);
    plain("metric,value,better\nm,1,good\n", &["line 2: better is 'good', must be higher"]);
    plain("metric,value\nm,nan\n", &["no numeric value"]);
    plain("metric,value\n", &["has no results"]);
}

#[test]
fn will_it_scale_is_refused_by_line() {
    let wis = |rows: &str, parts: &[&str]| {
        let header = "tasks,processes,processes_idle,threads,threads_idle,linear\n";
        refused("will-it-scale", &format!("{header}{rows}"), parts);
    };
    wis("1,2,3\n", &["line 2: 3 fields, but the header has 6"]);
    wis("1,-5,3,4,5,6\n", &["line 2: processes is -5, must be -1 (failed) or not negative"]);
    wis("1,2,3,4,5,6\n1,2,3,4,5,6\n", &["line 3: 1 tasks are already in line 2"]);
    wis("one,2,3,4,5,6\n", &["line 2: tasks is 'one'"]);
    wis("0,0,100,0,100,0\n", &["has no results"]);
    refused("will-it-scale", "a,b\n1,2\n", &["line 1: expected the columns tasks,processes"]);
}

#[test]
fn logs_are_refused_by_line() {
    let heading = "FSUse%  Count  Size  Files/sec  App Overhead\n";
    let fs_mark = |row: &str, part: &str| refused("fs_mark", &format!("{heading}{row}"), &[part]);
    fs_mark("0 100 0 28", "line 2: 4 numbers, expected 5: FSUse% Count Size Files/sec");
    fs_mark("0 100 0 -28 1", "line 2: fs_mark.files_per_s is -28, cannot be negative");
    fs_mark("0 100 big 28 1", "line 2: Size is 'big'");
    fs_mark("0 x 0 28 1", "line 2: fs_mark.files is 'x', not a number");
    let heading = "stress-ng: metrc: [1] stressor   bogo ops real time\n";
    let log = |row: &str, part: &str| {
        refused("stress-ng", &format!("{heading}stress-ng: metrc: [1] {row}\n"), &[part]);
    };
    log("close 17 1.0", "line 2: 2 numbers of close, expected 6 or more; is the file truncated?");
    log("close 17 1.0 0 0 -3 4", "line 2: operations_per_s is -3, cannot be negative");
    let twice = "close 17 1 0 0 3 4\nstress-ng: metrc: [1] close 17 1 0 0 3 4";
    log(twice, "line 3: close is already in this table");
}

#[test]
fn json_is_refused_by_line_and_column() {
    for name in ["matrix.json", "fio.json", "hyperfine.json"] {
        let whole = fixture(name).text;
        let format = import(&[name], &[]).unwrap().format.name;
        let cut = &whole[..whole.len() / 2];
        refused(format, cut, &["line ", "column ", "expected JSON; is the file truncated?"]);
    }
    refused("fio", "note\n{\"jobs\": [NaN]}", &["line 2, column", "expected JSON"]);
    refused("fio", "{}", &["no \"jobs\": expected the JSON of fio --output-format=json"]);
    refused("fio", "{\"jobs\": [{}]}", &["job 0 has no \"jobname\""]);
    refused(
        "hyperfine",
        "{\"results\": [{\"command\": \"a\"}]}",
        &["result of 'a'", "no \"times\""],
    );
    let negative = "{\"results\": [{\"command\": \"a\", \"times\": [-1]}]}";
    refused("hyperfine", negative, &["time 0 is -1, cannot be negative"]);
    refused("lkp", "{\"a.b\": []}", &["no stat has a value"]);
    refused("lkp", &"[".repeat(100_000), &["expected JSON"]);
    refused("fio", &"{\"a\":".repeat(100_000), &["expected JSON"]);
}

#[test]
fn bytes_that_are_no_text_are_refused_by_line() {
    let refused = |bytes: &[u8], part: &str| {
        let error = Input::from_bytes(Path::new("x.csv"), bytes).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(b"a\nb\xff\0", "x.csv, line 2: not text");
    refused(b"\xff\xfea\0b", "x.csv is damaged UTF-16");
    refused(b"\x1f\x8b\x08", "x.csv is compressed: zcat x.csv | knee record import -");
    refused(b"\xfd7zXZ\0", "xzcat x.csv | knee record import -");
    refused(b"\x28\xb5\x2f\xfd", "zstdcat x.csv | knee record import -");
}

#[test]
fn text_of_other_encodings_is_read() {
    let csv = "variant,metric,value,unit\nMünchen,took,1.5,µs\n";
    let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let wide = |order: fn(u16) -> [u8; 2]| {
        "\u{feff}".encode_utf16().chain(csv.encode_utf16()).flat_map(order).collect()
    };
    let all: [Vec<u8>; 3] = [bytes(csv), wide(u16::to_le_bytes), wide(u16::to_be_bytes)];
    let read = all.map(|bytes| {
        let input = Input::from_bytes(Path::new("x.csv"), &bytes).unwrap();
        assemble(&[input], &Telling::default(), session()).unwrap().record
    });
    for record in &read {
        assert_eq!(record.variants[0].name, "München");
        assert_eq!(record.metrics["took"].unit, "µs");
    }
    let told = |at: usize| read[at].warnings.iter().any(|warning| warning.text.contains("Latin-1"));
    assert_eq!([told(0), told(1), told(2)], [true, false, false]);
    // A line of UTF-8 beside one of Latin-1 stays as it is.
    let mixed = [csv.as_bytes(), b"K\xf6ln,took,2,\n"].concat();
    let input = Input::from_bytes(Path::new("x.csv"), &mixed).unwrap();
    assert!(input.text.contains("München") && input.text.contains("Köln"), "{}", input.text);
    assert_eq!(input.warnings[0].text, "x.csv, line 3: not UTF-8, read as Latin-1");
}

#[test]
fn files_and_folders_that_cannot_be_read_are_named() {
    let place = tempfile::tempdir().unwrap();
    let refused = |name: &str, part: &str| {
        let error = format!("{:#}", Input::open(&place.path().join(name)).unwrap_err());
        assert!(error.contains(part) && error.contains(name), "{error}");
    };
    refused("none", "No such file");
    fs::create_dir_all(place.path().join("empty")).unwrap();
    refused("empty", "holds no matrix.json, no stats.json and no numbered runs");
    fs::create_dir_all(place.path().join("packed")).unwrap();
    fs::write(place.path().join("packed/matrix.json.gz"), b"x").unwrap();
    refused("packed", "zcat ");
    let huge = fs::File::create(place.path().join("huge")).unwrap();
    huge.set_len(300 << 20).unwrap();
    refused("huge", "more than the 256 MiB that a result may have");
}

#[test]
fn the_numbered_runs_of_a_folder_are_runs_of_one_variant() {
    let place = tempfile::tempdir().unwrap();
    for run in ["0", "1", "10"] {
        let folder = place.path().join("c0fb4765c508").join(run);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stats.json"), format!("{{\"a.ops\": 3{run}}}")).unwrap();
    }
    let inputs = Input::open(&place.path().join("c0fb4765c508")).unwrap();
    let imported = assemble(&inputs, &Telling::default(), session()).unwrap();
    assert_eq!((imported.record.variants.len(), imported.runs.len()), (1, 3));
    assert_eq!(imported.record.variants[0].name, "c0fb4765c508");
}

#[test]
fn names_must_fit_the_files() {
    let refused = |files: &[&str], names: &[&str], part: &str| {
        let error = format!("{:#}", import(files, names).unwrap_err());
        assert!(error.contains(part), "{error}");
    };
    let logs = ["qspinlock.log", "ticket.log"];
    refused(&logs, &["a", "b", "c"], "--as has 3 names for 2 files: give one name per file");
    refused(&["plain.csv"], &["a", "b", "c"], "the file holds 2 variants: old, as shipped, new");
    refused(&["plain.csv"], &["a"], "plain.csv itself holds the variants");
    refused(&["fio.json", "fio.json"], &["a", "a"], "fio.json is a byte-for-byte copy of fio.json");
    let named = import(&["plain.csv"], &["before", "after"]).unwrap();
    assert_eq!(named.record.variants[0].name, "before");
    let unit = Some(ReplicationUnit::Boot);
    let telling = Telling { unit, ..Telling::default() };
    let error = assemble(&[fixture("fio.json")], &telling, session()).unwrap_err().to_string();
    assert_eq!(error, "--unit is only for plain CSV: the format fio itself defines what a run is");
}

#[test]
fn files_of_one_name_in_two_folders_are_told_apart_by_the_folders() {
    let at = |path: &str, rate: &str| {
        let text = fixture("page_fault1.csv").text.replace("801234", rate);
        Input::from_bytes(Path::new(path), text.as_bytes()).unwrap()
    };
    let inputs = [at("old/page_fault1.csv", "801234"), at("new/page_fault1.csv", "812345")];
    let record = assemble(&inputs, &Telling::default(), session()).unwrap().record;
    let names: Vec<&str> = record.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["old", "new"]);
    assert_eq!(record.points[0].workload, "will-it-scale.page_fault1");
}

#[test]
fn runs_of_one_variant_that_were_made_differently_are_refused() {
    let text = fixture("fio.json").text.replace("psync", "libaio");
    let other = Input::from_bytes(Path::new("other.json"), text.as_bytes()).unwrap();
    let names = ["a".to_string(), "a".to_string()];
    let telling = Telling { names: &names, ..Telling::default() };
    let error =
        assemble(&[fixture("fio.json"), other], &telling, session()).unwrap_err().to_string();
    assert!(error.contains("other.json differs from fio.json in ioengine"), "{error}");
}

#[test]
fn blocks_of_different_records_are_never_pairs() {
    let one = "record,metric,value,block\nA,m,1,0\nA,m,2,1\nB,m,3,0\nB,m,4,1\n";
    let imported = read(one, &Telling::default()).unwrap();
    let source = imported.record.source.unwrap();
    assert!(!source.blocks);
    assert!(source.lacks.iter().any(|lack| lack.contains("no block holds two variants")));
    let blocks: Vec<u32> = imported.runs.iter().map(|(run, _)| run.block).collect();
    assert_eq!(blocks, [0, 1, 2, 3]);
}

#[test]
fn names_that_would_move_a_terminal_s_cursor_are_made_plain() {
    let text = "variant,metric,value\n\"a\nb\",m,1\n\"\u{1b}7c\",m,2\n";
    let record = read(text, &Telling::default()).unwrap().record;
    let names: Vec<&str> = record.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["a b", "7c"]);
}

#[test]
fn lines_of_perf_are_refused_by_number() {
    let perf = |text: &str, parts: &[&str]| refused("perf-stat", text, parts);
    perf("# started on x\n\n     0.10,0.7,msec,task-clock,7,100.00,,\n", &["line 3", "without -A"]);
    perf("CPU0,21,,cs,53055319,100.00,,\n", &["line 1", "-A (values of single CPUs)"]);
    perf("1,,cs,5,100.00,,\n2,,cs,5,100.00,,\n", &["line 2: cs appears twice in one run"]);
    perf("{\"counter-value\" : \"1\"\n", &["line 1: expected a JSON object of an event"]);
}

#[test]
fn outputs_that_lack_runs_are_refused_with_the_one_that_has_them() {
    let refused = |text: &str, advice: &str| {
        let error = read(text, &Telling::default()).unwrap_err();
        assert!(error.contains("x.txt is") && error.contains(advice), "{error}");
    };
    refused(
        "command,mean,stddev,median,user,system,min,max\ntrue,0.1,0,0,0,0,0,0\n",
        "--export-json",
    );
    refused("3;fio-3.33;a;0;0;528\n", "--output-format=json");
    refused(
        "# Samples: 12 of event 'cycles'\n# Event count (approx.): 5\n# Overhead  Command\n 9.5%  main\n",
        "perf.data",
    );
    refused("main 7322 606499.090607: 1 cycles: 7fff _start+0x0 (main)\n", "perf.data");
    refused("progress: 1.0 s, 7.0 tps, lat 435.396 ms stddev 120.347\n", "the whole output");
    refused("1650260552 5178 26171317 177284491527 1136 44462 0 0\n", "--format pgbench-log");
    refused(
        "{\"sampling_mode\":\"Flat\",\"iters\":[1.0],\"times\":[5.0]}\n",
        "what cargo bench prints",
    );
    // A tool without a remedy of its own is at least named.
    refused("MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0\n16384 1 1 10.0 23446.5\n", "netperf");
    refused(
        "{\"end\": {\"sum_sent\": {\"bits_per_second\": 9.5e9}}}\n",
        "iperf3, of which knee has no reader",
    );
}

#[test]
fn wide_tables_that_are_no_scans_are_not_taken_for_one() {
    for text in [
        "name,users,city\na,many,x\n",
        "threads,processes,note\n1,2,a\n",
        "user,time\na,1.5\n",
        "threads\n1\n2\n",
    ] {
        let error = read(text, &Telling::default()).unwrap_err();
        assert!(error.contains("was not recognised"), "{text}: {error}");
    }
}
