//! What a terminal gets: no line wider than asked for, no control character of somebody else's, colours
//! only where they are wanted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::home::{Ended, Home};
use crate::process::wait_for;
use crate::random::{choices, times};

/// A home with the golden record.
pub fn home_with_a_record() -> Home {
    let home = Home::new();
    copy(&golden(), &record_folder(&home));
    home
}

/// The folder of the golden record.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden/v1/20261120-115530-7f3a9c")
}

fn record_folder(home: &Home) -> PathBuf {
    home.path("records/7f/20261120-115530-7f3a9c")
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Verbs that print without measuring.
const PRINTING: &[&str] = &[
    "list",
    "list workloads",
    "list algorithms",
    "list hosts",
    "list experiments",
    "list commands",
    "list metrics",
    "show getppid",
    "show create_files",
    "show queued",
    "show file_locks",
    "show operations_per_s",
    "doctor",
    "show",
    "show --counters",
    "show --time",
    "compare last --layout curves",
    "simulate replay",
    "run first-look --plan",
    "check ticket --threads 2",
    "simulate ticket --cpus 1,2 --draws 0 --length 100us",
    "kernel list",
];

/// The words of every verb that knee lists, and of those below it, as the names of its manual pages tell them; for knee
/// itself none.
pub fn all_verbs(home: &Home) -> Vec<String> {
    let folder = home.path("man");
    fs::create_dir_all(&folder).unwrap();
    assert!(home.run("man-pages man").status.success());
    let names = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    let words = names.map(|name| {
        let name = name.to_string_lossy().into_owned();
        let words = name.trim_end_matches(".1").trim_start_matches("knee").replace('-', " ");
        words.trim().to_string()
    });
    let mut verbs: Vec<String> = words.filter(|words| !words.contains("help")).collect();
    verbs.sort();
    assert!(verbs.len() > 35, "{verbs:?}");
    verbs
}

/// Whether a line may be wider: a diagram or an example of a manual page, whose columns mean something; a
/// single word; in `knee doctor`, a word that is too long for the column beside the names.
fn may_be_wide(line: &str, arguments: &str, width: usize) -> bool {
    let is_diagram = arguments.starts_with("show ") && line.starts_with("    ");
    let last_word = line.rsplit(' ').next().unwrap_or_default();
    let is_long = arguments == "doctor" && DOCTOR_INDENT + last_word.chars().count() > width;
    // A command is copied: it stays in one line.
    let is_command = line.starts_with("rerun ");
    is_diagram || is_long || is_command || !line.trim().contains(' ')
}

/// Where the text of a finding begins.
const DOCTOR_INDENT: usize = 29;

/// The lines that are too wide.
#[track_caller]
fn wide_lines(home: &Home, arguments: &str, width: usize) -> Vec<String> {
    let ended = home.start(home.knee(&format!("{arguments} --width {width}")).env("TERM", "dumb"));
    let Ended { stdout, stderr, .. } = ended.end();
    assert!(!stdout.is_empty(), "knee {arguments}: {stderr}");
    assert!(!stdout.contains('\x1b'), "knee {arguments}: {stdout}");
    let is_wide =
        |line: &&str| line.chars().count() > width && !may_be_wide(line, arguments, width);
    stdout.lines().filter(is_wide).map(|line| format!("{arguments} {width}: {line}")).collect()
}

#[test]
fn every_verb_stays_within_the_width() {
    let home = home_with_a_record();
    let verbs = all_verbs(&home);
    let mut wide = Vec::new();
    for width in [72, 80, 120] {
        for arguments in PRINTING {
            wide.extend(wide_lines(&home, arguments, width));
        }
        for verb in &verbs {
            wide.extend(wide_lines(&home, &format!("{verb} -h"), width));
            wide.extend(wide_lines(&home, &format!("{verb} --help"), width));
        }
    }
    assert!(wide.is_empty(), "\n{}", wide.join("\n"));
}

#[test]
fn the_short_help_of_each_verb_fits_a_screen() {
    let home = Home::new();
    for verb in all_verbs(&home) {
        let help = home.run(&format!("{verb} -h --width 80")).stdout;
        let lines = help.lines().count();
        assert!(lines <= 45, "knee {verb} -h has {lines} lines");
        let examples = help.split("Examples:\n").nth(1).map_or(0, |lines| lines.lines().count());
        assert_eq!(examples, if verb.is_empty() { 0 } else { 2 }, "knee {verb} -h");
    }
    let long = home.run("run --help").stdout;
    for heading in ["Load:", "Runs:", "Comparison:", "File systems:", "Virtual machines:"] {
        assert!(long.contains(heading), "{heading}");
    }
}

#[test]
fn old_names_of_verbs_do_what_the_new_ones_do() {
    let home = home_with_a_record();
    for (old, new) in [
        ("describe getppid", "show getppid"),
        ("--quiet export last", "--quiet record export last"),
        ("note last --width 80", "record note last --width 80"),
        ("replay", "simulate replay"),
        ("chunk nowhere", "fleet chunk nowhere"),
        ("forecast --to 0", "scale forecast --to 0"),
        ("selfcheck --host --share 0", "doctor verdicts --share 0"),
        ("help rm", "help record rm"),
    ] {
        let (old, new) = (home.run(old), home.run(new));
        assert_eq!(old.stdout, new.stdout);
        assert_eq!(old.stderr, new.stderr);
        assert_eq!(old.status.code(), new.status.code());
    }
}

#[test]
fn a_record_comes_before_the_manual_page_of_its_label() {
    let home = home_with_a_record();
    let (page, record) = (home.run("show getppid").stdout, home.run("show last").stdout);
    assert_ne!(page, record);
    assert!(home.run("record note last --label getppid").status.success());
    assert!(home.run("show getppid").stdout.contains("getppid"));
    assert_ne!(home.run("show getppid").stdout, page);
    let refused = home.run("show ticket --counters");
    assert!(refused.stderr.contains("--counters is for records"), "{}", refused.stderr);
}

#[test]
fn colours_appear_only_where_they_are_wanted() {
    let home = home_with_a_record();
    let is_coloured = |arguments: &str, variable: (&str, &str)| {
        let mut command = home.knee(arguments);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env(variable.0, variable.1);
        home.start(&mut command).end().stdout.contains("\x1b[1m")
    };
    assert!(!is_coloured("show", ("TERM", "xterm")), "a file has no colours");
    assert!(is_coloured("show --color always", ("TERM", "xterm")));
    assert!(is_coloured("show --color always", ("NO_COLOR", "1")), "options come first");
    assert!(is_coloured("show", ("CLICOLOR_FORCE", "1")));
    assert!(!is_coloured("show --color never", ("CLICOLOR_FORCE", "1")));
}

#[test]
fn quiet_leaves_out_progress_and_hints() {
    let home = home_with_a_record();
    assert!(home.run("list").stderr.contains("more: knee list"));
    let measured = "run getppid --cpus 1 --blocks 1 --seconds 0.01";
    assert!(home.run(measured).stderr.contains("record "));
    for arguments in ["list", measured, "check ticket --threads 2"] {
        assert_eq!(home.run(&format!("{arguments} --quiet")).stderr, "", "knee {arguments}");
    }
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let home = Home::new();
    let mut command = home.knee("run getppid --cpus 1 --blocks 1 --seconds 0.01");
    let ended = home.start(command.env("KNEE_RECORDS", "").env("TMPDIR", "")).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(home.path(".local/share/knee/records").is_dir(), "{}", ended.stderr);
}

#[test]
fn a_record_that_is_removed_while_it_grows_ends_the_run_and_is_named() {
    let home = Home::new();
    let mut running =
        home.start(&mut home.knee("run getppid --cpus 1 --blocks 50 --seconds 0.05 --json"));
    running.wait_for_runs(2);
    let folder = wait_for("the record", || home.growing().first().cloned());
    fs::remove_dir_all(&folder).unwrap();
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("removed while it was being measured"), "{}", ended.stderr);
    home.check_nothing_is_left();
}

/// Characters that a terminal obeys or does not show.
const CONTROLS: &[&str] = &[
    "\x1b]0;title\x07",
    "\x1b[31m",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{2028}",
    "\u{9b}2J",
    "\x7f",
    "\r",
    "\x08",
    "\x0c",
];

/// Puts control characters into strings, keeping those that a reader must recognise.
fn poison(value: &mut Value, random: &mut Xoshiro256PlusPlus) {
    match value {
        Value::String(text) if random.random_bool(0.4) => {
            text.push_str(CONTROLS[random.random_range(0..CONTROLS.len())]);
        }
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, random)),
        Value::Object(fields) => fields.values_mut().for_each(|value| poison(value, random)),
        _ => (),
    }
}

/// Poisons one part of the record: whole, it would mostly be refused.
fn poison_record(folder: &Path, random: &mut Xoshiro256PlusPlus) {
    let path = folder.join("record.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields: Vec<String> = record.as_object().unwrap().keys().cloned().collect();
    for _ in 0..3 {
        poison(&mut record[&fields[random.random_range(0..fields.len())]], random);
    }
    record["note"] = CONTROLS[random.random_range(0..CONTROLS.len())].into();
    fs::write(&path, record.to_string()).unwrap();
    let path = folder.join("runs.ndjson");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| {
        let mut run: Value = serde_json::from_str(line).unwrap();
        for field in ["reason", "warnings", "unavailable"] {
            if let Some(value) = run.get_mut(field) {
                poison(value, random);
            }
        }
        format!("{run}\n")
    });
    let lines: String = lines.collect();
    fs::write(&path, lines).unwrap();
}

#[track_caller]
fn check_clean(what: &str, ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        let is_control = |c: &char| {
            let shown = ['\n', '\t'].contains(c);
            (c.is_control() && !shown)
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
                || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
        };
        let found: BTreeSet<char> = text.chars().filter(is_control).collect();
        assert!(found.is_empty(), "{what} printed {found:?}:\n{text}");
    }
}

#[test]
fn no_text_of_a_record_controls_the_terminal() {
    let mut random = choices("no_text_of_a_record_controls");
    let verbs = ["list", "list --json", "show", "show --counters", "show --json"];
    let others = [
        "record note last",
        "compare last --layout curves",
        "compare last --json",
        "record export --format json",
    ];
    for _ in 0..times("KNEE_POISONED", 12) {
        let home = home_with_a_record();
        poison_record(&record_folder(&home), &mut random);
        for verb in verbs.iter().chain(&others) {
            let ended = home.run(verb);
            let is_export = verb.starts_with("record export");
            if !is_export {
                check_clean(&format!("knee {verb}"), &ended);
            }
            if verb.contains("json") && ended.status.success() {
                let read: Result<Value, _> = serde_json::from_str(&ended.stdout);
                assert!(read.is_ok(), "knee {verb} printed no JSON: {}", ended.stdout);
            }
        }
    }
}

#[test]
fn no_name_or_imported_text_controls_the_terminal() {
    let mut random = choices("no_name_or_imported_text_controls");
    let home = home_with_a_record();
    for _ in 0..times("KNEE_POISONED", 12) {
        let control = CONTROLS[random.random_range(0..CONTROLS.len())];
        let name = format!("a{control}b");
        let file = home.path(&format!("{name}.csv"));
        fs::write(&file, format!("tasks,{name}\n1,{name}\n{name}\n")).unwrap();
        let experiment = home.path(&format!("{name}.toml"));
        let quoted = serde_json::to_string(&name).unwrap().replace('\x7f', "\\u007f");
        let text =
            format!("name = {quoted}\ndescription = {quoted}\n[[load]]\nworkload = {quoted}\n");
        fs::write(&experiment, text).unwrap();
        let words: [&[&str]; 8] = [
            &["run", &name],
            &["show", &name],
            &["show", &name],
            &[&name],
            &["run", "getppid", "--set", &name],
            &["record", "import", file.to_str().unwrap()],
            &["run", experiment.to_str().unwrap()],
            &["compare", &name, "x"],
        ];
        for words in words {
            let ended = home.start(home.knee("").args(words)).end();
            assert!(!ended.status.success(), "{words:?}");
            check_clean(&format!("{words:?}"), &ended);
            // What clap refuses, it shows without such characters.
            let is_clap = ended.stderr.contains("shows all options");
            assert!(is_clap || ended.stderr.contains("a\\u"), "{words:?}: {}", ended.stderr);
        }
    }
}
