//! The manual pages: each has the sections that readers look for, its examples work, and they name every variable that knee
//! reads.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{Home, entries};
use crate::skip::skip;

/// The pages, by name: `knee-run`.
fn pages(home: &Home) -> Vec<(String, String)> {
    let folder = home.path("man");
    fs::create_dir(&folder).unwrap();
    assert!(home.run("man-pages man").status.success());
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let pages: Vec<_> = entries(&folder).iter().map(read).collect();
    assert!(pages.len() > 40, "{}", pages.len());
    pages
}

/// The lines of a section.
fn section<'p>(page: &'p str, title: &str) -> Vec<&'p str> {
    let heading = format!(".SH {title}");
    let lines = page.lines().skip_while(|line| line.replace('"', "") != heading).skip(1);
    lines.take_while(|line| !line.starts_with(".SH ")).collect()
}

#[test]
fn every_page_has_all_sections() {
    for (name, page) in pages(&Home::new()) {
        let sections = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXAMPLES",
            "FILES",
            "ENVIRONMENT",
            "EXIT STATUS",
            "SEE ALSO",
        ];
        for title in sections {
            let has_text = section(&page, title).iter().any(|line| !line.starts_with('.'));
            assert!(has_text, "{name}: {title} is missing or empty");
        }
        let statuses = section(&page, "EXIT STATUS");
        let numbers = statuses.iter().filter(|line| line.starts_with("\\fB")).count();
        assert!(numbers >= 3 && statuses[1].starts_with("\\fB0\\fR"), "{name}: {statuses:?}");
    }
}

#[test]
fn statuses_that_scripts_act_on_are_in_their_pages() {
    let pages = pages(&Home::new());
    let check = |name: &str, expected: &[&str]| {
        let (_, page) = pages.iter().find(|(known, _)| known == name).unwrap();
        let bold = section(page, "EXIT STATUS").into_iter().filter(|line| line.starts_with("\\fB"));
        let bold: Vec<&str> =
            bold.map(|line| line.trim_start_matches("\\fB").trim_end_matches("\\fR")).collect();
        assert_eq!(bold, expected, "{name}");
    };
    check("knee", &["0", "1", "2", "3", "130"]);
    check("knee-run", &["0", "1", "2", "3", "130"]);
    check("knee-bisect", &["0", "1", "2", "3", "130"]);
    check("knee-gate", &["0", "2", "3", "130"]);
    check("knee-conflicts", &["0", "2", "3", "130"]);
    check("knee-watch-check", &["0", "2", "3"]);
    check("knee-kernel-build", &["0", "1", "2", "130"]);
    check("knee-list", &["0", "2", "130"]);
}

#[test]
fn pages_point_at_pages_and_guides_that_exist() {
    let home = Home::new();
    let pages = pages(&home);
    let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let mut guides = BTreeSet::new();
    for (name, page) in &pages {
        let text = section(page, "SEE ALSO").join(" ").replace('\\', "");
        let (others, own_guides) = text.split_once(" .PP Guides: ").unwrap();
        for other in others.split(", ") {
            assert!(names.contains(other.trim_end_matches("(1)")), "{name}: {other}");
        }
        guides.extend(
            own_guides.split(", ").map(|guide| guide.trim_start_matches("knee ").to_string()),
        );
    }
    for guide in guides {
        assert!(home.run(&guide).status.success(), "knee {guide}");
    }
}

#[test]
fn formatters_have_nothing_to_say_about_the_pages() {
    let home = Home::new();
    let pages = pages(&home);
    for (name, _) in &pages {
        let mut groff = Command::new("groff");
        groff
            .args(["-Kutf8", "-man", "-Tutf8", "-ww", "-z"])
            .arg(home.path("man").join(format!("{name}.1")));
        let Ok(ended) = groff.output() else { return skip("manual pages", "there is no groff") };
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        if said.contains("cannot open macro file") || said.contains("can't find macro file") {
            return skip("manual pages", "groff has no man macros here (package groff)");
        }
        assert!(said.is_empty() && ended.status.success(), "{name}: {said}");
    }
}

/// Variables between processes of knee, its tests and its fuzzer, which no user sets.
const INTERNAL: [&str; 7] = [
    "KNEE_FUZZ_INPUT",
    "KNEE_FUZZ_INPUTS",
    "KNEE_PADDING",
    "KNEE_REVERSED",
    "KNEE_SEED",
    "KNEE_SIMULATIONS",
    "KNEE_STARTED_BY",
];

/// Macros of users' files in C.
const MACROS: [&str; 2] = ["KNEE_LOCK", "KNEE_OPERATION"];

/// The environment variables that a source file names: `"KNEE_…"`, and what it hands to a function that reads one.
fn variables(text: &str) -> BTreeSet<String> {
    let is_name = |word: &&str| {
        !word.is_empty()
            && word.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
    };
    let literals = text.split('"').skip(1).step_by(2).filter(is_name);
    let own = literals.filter(|word| word.starts_with("KNEE_"));
    let readers = ["var(\"", "var_os(\"", "xdg(\"", "is_set(\"", "variable(\""];
    let read = readers.iter().flat_map(|reader| text.split(reader).skip(1));
    let read = read.filter_map(|rest| rest.split('"').next()).filter(is_name);
    own.chain(read).map(str::to_string).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

#[test]
fn every_variable_that_knee_reads_is_in_its_page() {
    let pages = pages(&Home::new());
    let (_, page) = pages.iter().find(|(name, _)| name == "knee").unwrap();
    let documented: BTreeSet<&str> = section(page, "ENVIRONMENT")
        .into_iter()
        .filter(|line| line.starts_with("\\fB"))
        .flat_map(|line| line.trim_start_matches("\\fB").trim_end_matches("\\fR").split(", "))
        .collect();
    let mut read = BTreeSet::new();
    for member in entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")) {
        let mut files = Vec::new();
        sources(&member.join("src"), &mut files);
        read.extend(files.iter().flat_map(|file| variables(&fs::read_to_string(file).unwrap())));
    }
    assert!(read.len() > 20, "{read:?}");
    let known = |name: &&String| {
        documented.contains(name.as_str())
            || [&INTERNAL[..], &MACROS[..]].concat().contains(&name.as_str())
    };
    let missing: Vec<&String> = read.iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "in crates/knee/src/help/manual.rs stands nothing of {missing:?}");
}

/// Examples that need what a test has not: kernels, repositories, other hosts, four CPUs, minutes, or a terminal.
const ELSEWHERE: [&str; 22] = [
    "knee bisect",
    "knee check my_lock.c",
    "knee compare fragile",
    "knee conflicts",
    "knee doctor calibrate",
    "knee doctor verdicts",
    "knee explain",
    "knee fleet",
    "knee gate",
    "knee kernel b",
    "knee kernel c",
    "knee kernel remove",
    "knee record rm last",
    "knee run",
    "knee scale forecast",
    "knee scale last",
    "knee serve",
    "knee simulate my_lock.c",
    "knee simulate operation",
    "knee simulate replay --all",
    "knee top",
    "knee watch",
];

/// What hyperfine exports.
const HYPERFINE: &str = r#"{"results": [{"command": "NAME", "mean": 1.0, "stddev": 0.1, "median": 1.0, "user": 0.1,
    "system": 0.1, "min": 0.9, "max": 1.1, "times": [0.9, 1.0, 1.1], "exit_codes": [0, 0, 0]}]}"#;

#[test]
fn examples_work() {
    let home = Home::new();
    let records = ["base", "new", "before", "after"];
    for label in records {
        let ended = home.run(&format!(
            "run posix_lock_shared getppid --cpus 1 --seconds 0.02 --blocks 2 --label {label} --as processes"
        ));
        assert!(ended.status.success(), "{}", ended.stderr);
    }
    fs::write(home.path("curve.csv"), "cpus,ops\n1,100\n2,190\n4,340\n8,520\n16,600\n").unwrap();
    fs::write(home.path("out.txt"), "tps = 5\n").unwrap();
    for file in ["old.json", "new.json"] {
        fs::write(home.path(file), HYPERFINE.replace("NAME", file)).unwrap();
    }
    let mut examples: Vec<String> = pages(&home)
        .iter()
        .flat_map(|(_, page)| section(page, "EXAMPLES"))
        .filter(|line| !line.starts_with('.'))
        .map(|line| line.replace("\\(ti", "~").replace('\\', ""))
        .filter(|line| !ELSEWHERE.iter().any(|start| line.starts_with(start)))
        .collect();
    // What removes records comes last.
    examples.sort_by_key(|line| (line.contains(" rm ") || line.contains("prune"), line.clone()));
    examples.dedup();
    let mut failed = Vec::new();
    for example in &examples {
        let mut shell = Command::new("sh");
        let folder = Path::new(env!("CARGO_BIN_EXE_knee")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        shell.args(["-c", example]).env("PATH", path);
        home.move_in(&mut shell);
        let ended = home.start(&mut shell).end();
        if !ended.status.success() {
            failed.push(format!("{example}\n{}", ended.stderr));
        }
    }
    eprintln!("{} examples", examples.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
