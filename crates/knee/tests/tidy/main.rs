//! Habits as tests: what a reviewer would otherwise have to say again and again.

mod links;
mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files that git knows with this ending, relative to the root.
fn files(ending: &str) -> Vec<String> {
    let output = Command::new("git").arg("ls-files").current_dir(root()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|path| path.ends_with(ending)).map(str::to_string).collect()
}

/// Checks each file by `rule`, which gives what is wrong with it.
fn check(ending: &str, rule: impl Fn(&str, &str) -> Option<String>) {
    let wrong: Vec<String> = files(ending)
        .iter()
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(path)).ok()?;
            rule(path, &text).map(|what| format!("{path}: {what}"))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_module_opens_with_what_it_is_for() {
    check(".rs", |_, text| (!text.starts_with("//!")).then(|| "starts without //!".to_string()));
}

#[test]
fn source_files_stay_short_enough_to_read() {
    check(".rs", |_, text| {
        let lines = text.lines().count();
        (lines > 700).then(|| format!("has {lines} lines: does it still do one thing?"))
    });
}

#[test]
fn functions_are_seen_whole() {
    check(".rs", |_, text| {
        let (name, lines) = functions(text).into_iter().find(|(_, lines)| *lines > 70)?;
        Some(format!("{name} has {lines} lines"))
    });
}

/// The functions of a formatted file with their lines, without those of texts that a test expects.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let mut functions = Vec::new();
    let mut open: Option<(&str, &str, usize)> = None;
    let mut in_text = false;
    for line in text.lines() {
        in_text = if in_text {
            !line.contains("\"#")
        } else {
            line.contains("r#\"") && !line.contains("\"#")
        };
        let (indent, code) = line.split_at(line.len() - line.trim_start().len());
        open = match open {
            Some((name, at, lines)) if code == "}" && indent == at => {
                functions.push((name, lines + 1));
                None
            }
            // A declaration without a body.
            Some((_, at, _)) if code.starts_with(')') && code.ends_with(';') && indent == at => {
                None
            }
            Some((name, at, lines)) => Some((name, at, lines + usize::from(!in_text))),
            None if code.contains("fn ")
                && !code.starts_with("//")
                && !code.ends_with([';', '}']) =>
            {
                Some((code, indent, 1))
            }
            None => None,
        };
    }
    functions
}

#[test]
fn nothing_is_left_unfinished() {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("TM", "P ")];
    check(".rs", |_, text| {
        marks.iter().find(|mark| text.contains(**mark)).map(|mark| format!("contains {mark}"))
    });
}

#[test]
fn no_module_is_a_drawer_for_everything() {
    let drawers = ["util", "utils", "common", "helpers", "misc", "shared_code"];
    let stem = |path: &str| Path::new(path).file_stem().unwrap().to_string_lossy().into_owned();
    check(".rs", |path, _| {
        drawers.contains(&stem(path).as_str()).then(|| "name it by what it does".to_string())
    });
}

/// Where a child may be started without [`host::children`]: there; the pager, which needs the terminal;
/// in the worker, which is in no group of the terminal, for commands, which get a session of their own, and for users'
/// loads, which are stopped and killed with its group; in a guest's init, which has no terminal.
const OTHER_STARTS: &[&str] = &[
    "crates/host/src/children.rs",
    "crates/host/src/pager.rs",
    "crates/runner/src/places/guest/init.rs",
    "crates/worker/src/own.rs",
    "crates/worker/src/program.rs",
];

#[test]
fn children_are_started_out_of_the_terminals_reach() {
    check(".rs", |path, text| {
        let is_ours = path.starts_with("crates/") && path.contains("/src/");
        let source = text.split("#[cfg(test)]").next().unwrap_or_default();
        let starts = [".spawn()", ".output()", ".status()"];
        let starts_child =
            source.contains("Command::new") && starts.iter().any(|start| source.contains(start));
        (is_ours && starts_child && !OTHER_STARTS.contains(&path)).then(|| {
            "start children by host::children: Ctrl-Z may stop them before exec".to_string()
        })
    });
}

/// Where the command line alone decides what is compiled or started. Everything else is of files, and goes through the
/// question of `setup::foreign`; and the runner is called by its `measure`, which takes only what may be run.
const TYPED: &[&str] = &[
    "crates/knee/src/verbs/bisect.rs",
    "crates/knee/src/verbs/gate.rs",
    "crates/knee/src/verbs/remote.rs",
    "crates/knee/src/verbs/series.rs",
    "crates/lab/src/host_check.rs",
];

#[test]
fn what_files_decide_goes_through_the_gate() {
    check(".rs", |path, text| {
        let source = text.split("#[cfg(test)]").next().unwrap_or_default();
        let passes_by =
            ["Permitted::typed(", "runner::run("].iter().any(|way| source.contains(way));
        let is_ours = path.starts_with("crates/") && path.contains("/src/");
        (is_ours && passes_by && !TYPED.contains(&path))
            .then(|| "take a Permitted value: a file may decide what is run here".to_string())
    });
}

/// Files in folders that only the user can write to, of the kernel's, or that are looked at and not opened.
const FOUND_BY_PATH: &[&str] =
    &["crates/fleet/src/owner.rs", "crates/store/src/index.rs", "crates/store/src/import/input.rs"];

/// Others may write where records and fleets lie: a path leads elsewhere at any moment.
#[test]
fn files_of_records_and_fleets_are_found_by_descriptor() {
    check(".rs", |path, text| {
        let is_theirs =
            ["crates/fleet/src/", "crates/store/src/"].iter().any(|c| path.starts_with(c));
        let source = text.split("#[cfg(test)]").next().unwrap_or_default();
        let by_path =
            ["read", "read_to_string", "read_dir", "write", "copy", "rename", "hard_link"];
        let by_path = by_path.iter().map(|name| format!("fs::{name}("));
        let by_path = by_path
            .chain(["fs::remove", "fs::create", "File::open", "File::create"].map(String::from));
        let found = by_path.chain(["File::options", "OpenOptions"].map(String::from));
        let found =
            found.into_iter().find(|way| source.replace("PartFile::create", "").contains(way));
        let found = found.filter(|_| is_theirs && !FOUND_BY_PATH.contains(&path));
        found.map(|way| format!("opens by path ({way}): use host::HeldFolder"))
    });
}

/// Which crates of ours each crate may use; `knee` may use all. Each missing arrow is a wall: types
/// do no IO, analysis and plan read nothing, reports know no probe and no place, algorithms know
/// no engine and engines no lock.
const ARROWS: &[(&str, &[&str])] = &[
    ("algorithms", &["machine"]),
    ("analysis", &["host", "records"]),
    (
        "answers",
        &["analysis", "bisection", "host", "laws", "ledger", "records", "text", "workloads"],
    ),
    ("bisection", &["analysis", "host", "records"]),
    (
        "bisector",
        &[
            "analysis",
            "answers",
            "bisection",
            "conflicts",
            "guests",
            "host",
            "plan",
            "probes",
            "records",
            "runner",
            "setup",
            "store",
        ],
    ),
    ("c_locks", &["algorithms", "engines", "machine", "own_loads", "setup"]),
    ("calibration", &["algorithms", "analysis", "described_hosts", "host", "machine", "studies"]),
    ("conflicts", &["answers", "described_hosts", "guests", "perf_data", "records"]),
    ("described_hosts", &["engines", "host"]),
    ("engines", &["machine"]),
    (
        "explanations",
        &["analysis", "answers", "laws", "ledger", "live", "records", "reports", "text"],
    ),
    ("fleet", &["host", "plan", "records", "store"]),
    ("fuzz", &[]),
    ("guests", &["host", "records", "setup"]),
    ("host", &[]),
    (
        "lab",
        &[
            "algorithms",
            "analysis",
            "answers",
            "bisection",
            "c_locks",
            "calibration",
            "described_hosts",
            "engines",
            "host",
            "laws",
            "ledger",
            "pages",
            "probes",
            "records",
            "reports",
            "runner",
            "setup",
            "store",
            "studies",
            "text",
        ],
    ),
    ("laws", &["analysis", "host"]),
    ("ledger", &["analysis", "records"]),
    ("live", &["analysis", "ledger", "records"]),
    ("machine", &[]),
    ("own_loads", &["host", "records", "setup"]),
    ("pages", &["analysis", "answers", "explanations", "host", "records", "reports", "text"]),
    ("perf_data", &["records"]),
    ("plan", &["analysis", "host", "laws", "records", "workloads"]),
    ("probes", &["host", "perf_data", "records"]),
    ("records", &["host"]),
    (
        "reports",
        &["analysis", "answers", "bisection", "host", "laws", "records", "text", "workloads"],
    ),
    (
        "runner",
        &[
            "analysis",
            "guests",
            "host",
            "own_loads",
            "perf_data",
            "plan",
            "probes",
            "records",
            "setup",
            "store",
            "workloads",
        ],
    ),
    ("schemas", &[]),
    ("setup", &["host", "records"]),
    ("store", &["host", "records"]),
    (
        "studies",
        &["algorithms", "c_locks", "described_hosts", "engines", "host", "machine", "records"],
    ),
    ("text", &["host"]),
    ("worker", &["host", "probes", "records", "setup", "workloads"]),
    ("workloads", &["algorithms", "host", "machine"]),
];

/// Where JSON is another tool's format, or the data of a page's own scripts.
const FOREIGN_JSON: &[&str] = &[
    "crates/explanations/src/recording/firefox.rs",
    "crates/lab/src/check/sarif.rs",
    "crates/pages/src/html/data.rs",
];

#[test]
fn what_is_printed_as_json_has_a_type() {
    check(".rs", |path, text| {
        let is_ours =
            path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests");
        let source = text.split("#[cfg(test)]").next().unwrap_or_default();
        (is_ours && source.contains(concat!("json", "!(")) && !FOREIGN_JSON.contains(&path))
            .then(|| "give it a type in crates/answers: knee schema describes it".to_string())
    });
}

#[test]
fn doc_comments_stand_alone() {
    let riddles = ["/// The same", "/// Of ", "/// As above", "/// Ditto"];
    check(".rs", |_, text| {
        let found =
            text.lines().map(str::trim).find(|l| riddles.iter().any(|r| l.starts_with(r)))?;
        Some(format!("'{found}': say what it is, without the line before"))
    });
}

#[test]
fn every_dependency_is_used() {
    check("Cargo.toml", |path, text| {
        let package = Path::new(path).parent()?;
        let own = files(".rs").into_iter().filter(|file| Path::new(file).starts_with(package));
        let source: Vec<String> =
            own.filter_map(|file| fs::read_to_string(root().join(file)).ok()).collect();
        let used = |name: &str| {
            let name = name.replace('-', "_");
            let ways = [format!("{name}::"), format!("use {name};"), format!("#[{name}")];
            source.iter().any(|text| ways.iter().any(|way| text.contains(way)))
        };
        let named = text.lines().filter_map(|line| line.split_once(".workspace = true"));
        let names = named.map(|(name, _)| name).filter(|name| !NO_DEPENDENCIES.contains(name));
        let unused: Vec<&str> = names.filter(|name| !used(name)).collect();
        (!unused.is_empty()).then(|| format!("does not use {}", unused.join(", ")))
    });
}

/// What a manifest inherits from the workspace beside dependencies.
const NO_DEPENDENCIES: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// The text of a crate's manifest without the dependencies of its tests.
fn manifest(name: &str) -> String {
    let text = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    text.split("[dev-dependencies]").next().unwrap_or_default().to_string()
}

/// Cargo runs no test inside the sources of a library that says `test = false`.
#[test]
fn no_test_hides_in_a_library_without_tests() {
    check(".rs", |path, text| {
        let (library, _) = path.split_once("/src/")?;
        let manifest = fs::read_to_string(root().join(library).join("Cargo.toml")).ok()?;
        let hides = manifest.contains("\ntest = false\n") && text.contains("#[test]");
        hides.then(|| "no test of this library is run".to_string())
    });
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let folders: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed = ARROWS.iter().map(|(name, _)| name.to_string());
    assert_eq!(folders, listed.chain(["knee".to_string()]).collect());
    for (name, arrows) in ARROWS {
        let manifest = manifest(name);
        for other in &folders {
            let depends = manifest.lines().any(|l| l.starts_with(&format!("{other}.workspace")));
            assert!(!depends || arrows.contains(&other.as_str()), "{name} must not use {other}");
            assert!(depends || !arrows.contains(&other.as_str()), "{name} does not use {other}");
        }
    }
}

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for name in ARROWS.iter().map(|(name, _)| *name).chain(["knee"]) {
        let graph = modules::graph(&root().join(format!("crates/{name}/src")));
        println!("{name}\n{}", modules::drawn(&graph));
        wrong.extend(modules::circles(&graph).iter().map(|c| format!("{name}: {}", c.join(" "))));
    }
    assert!(wrong.is_empty(), "\nfiles that use each other:\n{}\n", wrong.join("\n"));
}

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_dependency_has_a_licence_and_a_source_that_deny_toml_allows() {
    let deny = fs::read_to_string(root().join("deny.toml")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&error);
    let allowed =
        |licence: &str| deny.contains(&format!("\"{}\"", licence.trim_matches(['(', ')', ' '])));
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        // `A OR B` needs one of them; `A AND B` all; `/` is an old way to write OR.
        let licence = licence.replace('/', " OR ").replace(" WITH LLVM-exception", "");
        let all = licence.split(" AND ").all(|part| part.split(" OR ").any(allowed));
        assert!(all, "{name} has licence '{licence}', which deny.toml does not allow");
        // A crate of the workspace has none.
        let source = package["source"].as_str().unwrap_or(REGISTRY);
        assert_eq!(source, REGISTRY, "{name}: deny.toml allows no other source");
    }
}
