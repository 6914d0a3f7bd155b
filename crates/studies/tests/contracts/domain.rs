//! Classes of comparisons, and what published tables say of the model in each.
//!
//! With `UPDATE_EXPECT=1` the first test replays all publications, and writes `publications/grades/rows.toml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use setup::foreign::Permitted;
use studies::Subject;
use studies::domain::{Class, GRADES, GradedRow, Grades, GradesFile, grades};
use studies::replays::{
    Grade, Incident, Replay, Reported, publications, read_publication, replay_all,
};

/// Publications that the test replays each time: all rows take a second.
const FAST: [&str; 3] =
    ["cost-hierarchy-skylake", "qspinlock-simple-write", "swift-mutex-broadwell"];
const DRAWS: u64 = 20;

/// Publications whose rates were used to choose `keep` of Intel's servers.
const SEEN: [&str; 2] = ["lockref-pause", "stat-dentry-line"];

const FITTED: [&str; 5] = [
    "concurrency-hierarchy-bench, results/skl/combined.csv: atomic additions and compare-and-exchanges of 1 to 4 threads \
     (busy and keep of skylake-4)",
    "concurrency-hierarchy-bench, results/icl/combined.csv: the same (busy and keep of icelake-4)",
    "perfbook, amd-milan.2024.09.22a/count_atomic:u: atomic additions of 2 to 64 threads (keep of EPYC hosts)",
    "ocaml-multicore/multicore-bench, pull request 25: additions and compare-and-exchanges of 2 cores of an Apple M3 Max \
     (keep of Arm hosts)",
    "publications/with-c/lockref-pause.toml and stat-dentry-line.toml: rates of fstat, open and stat (keep of Intel servers)",
];

/// The files of graded publications with locks in C.
fn files_with_c() -> Vec<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../publications/with-c"));
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_graded = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "toml") && !SEEN.contains(&&*stem(path))
    };
    let mut files: Vec<PathBuf> = files.filter(is_graded).collect();
    files.sort();
    files
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// The graded publications; their locks in C are compiled.
fn all_publications() -> Vec<Arc<Incident>> {
    let compile = |file: &Path| {
        let program = c_locks::compile(&Permitted::typed(file.to_path_buf()), &[])?;
        Ok(Subject::InC(Arc::new(program)))
    };
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Arc::new(read_publication(&path, &text, &compile).unwrap())
    };
    publications().into_iter().chain(files_with_c().into_iter().map(read)).collect()
}

fn rows(replay: &Replay) -> Vec<GradedRow> {
    let row = |row: &studies::replays::GradedTarget| {
        let Reported::Ratio(reported) = row.target.reported else { return None };
        // Six digits, as the file has them.
        let short = |value: f64| format!("{value:.5e}").parse().unwrap();
        (row.grade != Grade::Fitted).then(|| GradedRow {
            publication: replay.incident.name.clone(),
            what: row.target.what.clone(),
            class: row.class,
            reported: short(reported),
            middle: short(row.predicted.middle),
            low: short(row.predicted.low),
            high: short(row.predicted.high),
        })
    };
    replay.rows.iter().filter_map(row).collect()
}

#[test]
fn the_built_in_grades_are_those_of_replays() {
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut replayed = if is_update { all_publications() } else { publications() };
    replayed.retain(|one| is_update || FAST.contains(&one.name.as_str()));
    let replays = replay_all(&replayed, DRAWS, 1).unwrap();
    let row: Vec<GradedRow> = replays.iter().flat_map(rows).collect();
    if is_update {
        let file = GradesFile { fitted: FITTED.map(str::to_string).to_vec(), row };
        let text = toml::to_string(&file).unwrap();
        let head = "# Rows of replayed publications. UPDATE_EXPECT=1 cargo test -p studies -- built_in_grades writes this file.\n";
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../publications/grades/rows.toml");
        std::fs::write(path, head.to_string() + &text).unwrap();
        return;
    }
    let built_in = grades().file.row.iter();
    let built_in: Vec<&GradedRow> =
        built_in.filter(|row| FAST.contains(&row.publication.as_str())).collect();
    assert_eq!(built_in, row.iter().collect::<Vec<_>>(), "UPDATE_EXPECT=1 writes them again");
}

#[test]
fn all_publications_and_what_was_fitted_are_in_the_file() {
    assert!(!GRADES.is_empty() && grades().file.fitted == FITTED);
    let built_in = publications().into_iter().map(|publication| publication.name.clone());
    for name in built_in.chain(files_with_c().iter().map(|path| stem(path))) {
        let has_row = grades().file.row.iter().any(|row| row.publication == name);
        assert!(has_row, "{name} has no row");
    }
}

#[test]
fn the_manual_has_the_table_of_classes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/simulator.md");
    let manual = std::fs::read_to_string(path).unwrap();
    for class in Class::ALL {
        let grade = grades().of(class);
        // Three digits.
        let factor = if grade.factor < 10.0 {
            format!("{:.2}", grade.factor)
        } else {
            format!("{:.1}", grade.factor)
        };
        let line = format!(
            "| {}, {} | {} | {factor} | {} | {}, {} |",
            grade.publications,
            grade.rows,
            grade.inside,
            grade.inside_widened,
            grade.dared,
            grade.right
        );
        assert!(grade.rows == 0 || manual.contains(&line), "{}: {line}", class.name());
    }
}

/// Rows of publications of which each needs this factor.
fn made(class: Class, needed: &[&[f64]]) -> Vec<GradedRow> {
    let row = |publication: usize, factor: f64| GradedRow {
        publication: format!("table {publication}"),
        what: String::new(),
        class,
        reported: 2.0 * factor,
        middle: 1.9,
        low: 1.8,
        high: 2.0,
    };
    let of_table = |(table, factors): (usize, &&[f64])| -> Vec<GradedRow> {
        factors.iter().map(|factor| row(table, *factor)).collect()
    };
    needed.iter().enumerate().flat_map(of_table).collect()
}

#[test]
fn a_factor_contains_nine_tenths_of_the_rows_of_each_publication() {
    let graded = |row| Grades { file: GradesFile { fitted: Vec::new(), row } };
    // Of ten rows of a table one may need more.
    let ten = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.1, 9.0];
    let rows = made(Class::Queues, &[&ten, &[1.0, 1.4]]);
    let grade = graded(rows.clone()).of(Class::Queues);
    assert_eq!((grade.rows, grade.publications, grade.inside), (12, 2, 9));
    assert!((grade.factor - 1.4).abs() < 1e-9 && !grade.is_pooled, "{grade:?}");
    // Without the table that needs 1.4, 1.1 would have done: that row lies outside, as of a new table it might.
    assert_eq!((grade.dared, grade.right, grade.inside_widened), (12, 12, 10));
    // A class without rows takes the factor of all, also of those of other classes.
    let mut all = rows;
    all.extend(made(Class::Few, &[&[3.0]]));
    let none = graded(all).of(Class::Own);
    assert!(none.is_pooled && none.rows == 0 && (none.factor - 3.0).abs() < 1e-9, "{none:?}");
}
