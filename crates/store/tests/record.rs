//! Records on disk: the golden record loads for ever, and whatever kills a writer, at
//! whatever step, leaves a record that can be read, with exactly the runs that counted.

mod golden;
#[path = "record/keep.rs"]
mod keep;
#[path = "record/recover.rs"]
mod recover;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use expect_test::expect;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Row, RowAccessor};
use records::{Opened, Point, RecordState, Run, Sample, Session};
use store::{Compacted, Filter, Growing, Id, Index, Store, compact};

/// Writes the golden record anew, into a folder of its own, when asked to.
#[test]
fn the_golden_record_can_be_made_again() {
    let asked = std::env::var_os("KNEE_WRITE_GOLDEN").map(PathBuf::from);
    let place = tempfile::tempdir().unwrap();
    let store = Store::at(asked.unwrap_or(place.path().to_path_buf()));
    let mut growing = store.begin(golden::plan(), golden::id()).unwrap();
    add(&mut growing, golden::RUNS);
    let made = growing.finish(golden::at(640)).unwrap().unwrap();
    let [made, kept] = [&made, &golden::folder()].map(|folder| store::open(folder).unwrap());
    assert_eq!(made.runs, kept.runs);
    assert_eq!(store::samples(&made).unwrap(), store::samples(&kept).unwrap());
}

#[test]
fn the_golden_record_of_format_1_loads_for_ever() {
    let opened = store::open(&golden::folder()).unwrap();
    let mut expected = golden::plan();
    expected.state = RecordState::Partial;
    (expected.runs_finished, expected.runs_failed) = (golden::RUNS - 1, 1);
    expected.files = opened.record.files.clone();
    assert_eq!(opened.record.files.len(), 2);
    assert_eq!(opened.record, expected);
    assert_runs(&opened, golden::RUNS);
}

#[test]
fn a_record_keeps_what_one_operation_was() {
    let place = tempfile::tempdir().unwrap();
    let mut plan = golden::plan();
    let workload = plan.points[0].workload.clone();
    plan.operations = [(workload, "what it was then".to_string())].into();
    let mut growing =
        Store::at(place.path().to_path_buf()).begin(plan.clone(), golden::id()).unwrap();
    add(&mut growing, 1);
    let folder = growing.finish(golden::at(640)).unwrap().unwrap();
    assert_eq!(store::open(&folder).unwrap().record.operations, plan.operations);
}

#[test]
fn records_of_one_second_and_number_get_ids_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let store = Store::at(place.path().to_path_buf());
    let begin = || store.begin(golden::plan(), golden::id()).unwrap();
    // One that is over, one that grows, and one more.
    let mut first = begin();
    add(&mut first, 1);
    let first_id = first.record.id.clone();
    first.finish(golden::at(640)).unwrap().unwrap();
    let (second, third) = (begin(), begin());
    assert_eq!(first_id, golden::id().as_str());
    assert_eq!(second.record.id, "20261120-115530-7f3a9d");
    assert_eq!(third.record.id, "20261120-115530-7f3a9e");
}

/// A small comparison of two variants, measured once and kept.
#[test]
fn the_golden_record_of_format_2_loads_for_ever() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2/20261120-165542-d10222");
    let opened = store::open(&folder).unwrap();
    let record = &opened.record;
    assert!(record.warnings.is_empty(), "its seal is whole: {:?}", record.warnings);
    assert_eq!((record.format, record.state), (2, RecordState::Whole));
    let names: Vec<&str> = record.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["wait", "try"]);
    let of_variant = |point: &Point| (point.cell, point.variant.clone());
    let cells: Vec<_> = record.points.iter().map(of_variant).collect();
    assert_eq!(cells, [(Some(0), "wait".to_string()), (Some(0), "try".to_string())]);
    assert_eq!((opened.runs.len(), opened.runs.iter().filter(|run| run.placebo).count()), (21, 1));
    assert!(!store::samples(&opened).unwrap().is_empty());
}

/// Adds runs up to this number.
fn add(growing: &mut Growing, up_to: u32) {
    while growing.next_run() < up_to {
        let (run, samples) = golden::run(growing.next_run());
        growing.append(&run, samples).unwrap();
    }
}

/// The record has exactly the runs below `n`, with their samples.
fn assert_runs(opened: &Opened, n: u32) {
    let expected: Vec<(Run, Vec<Sample>)> = (0..n).map(golden::run).collect();
    let runs: Vec<&Run> = expected.iter().map(|(run, _)| run).collect();
    assert_eq!(opened.runs.iter().collect::<Vec<_>>(), runs);
    let samples = expected
        .iter()
        .flat_map(|(run, samples)| samples.iter().map(|sample| (run.run, sample.clone())));
    assert_eq!(store::samples(opened).unwrap(), samples.collect::<Vec<_>>());
}

/// A store in a folder that vanishes with it.
struct Place {
    folder: tempfile::TempDir,
    store: Store,
}

const HOST: &str = "lab1";
const PLANNED: u32 = 32;

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("records"));
        Place { folder, store }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn begin(&self, runs: u32) -> Growing {
        let mut growing = self.store.begin(golden::plan(), golden::id()).unwrap();
        add(&mut growing, runs);
        growing
    }

    /// A finished record with these runs.
    fn finished(&self, runs: u32) -> PathBuf {
        self.begin(runs).finish(golden::at(700)).unwrap().unwrap()
    }

    fn visible(&self) -> PathBuf {
        self.store.root().join("7f").join(golden::ID)
    }

    fn hidden(&self) -> PathBuf {
        self.store.root().join(format!("7f/.part-{}", golden::ID))
    }

    /// After a crash: recovery makes one partial record of exactly these runs, and a second
    /// recovery finds nothing to do.
    fn assert_recovers(&self, runs: u32) {
        assert_eq!(self.store.recover(HOST).unwrap(), [self.visible()]);
        assert!(!self.hidden().exists());
        let opened = store::open(&self.visible()).unwrap();
        assert_eq!(opened.record.state, RecordState::Partial);
        assert_runs(&opened, runs);
        assert_eq!(file_names(&self.visible()), WHOLE_FILES);
        assert!(self.store.recover(HOST).unwrap().is_empty());
    }

    fn listed(&self) -> Vec<PathBuf> {
        let index = Index::open(&self.store, &self.cache()).unwrap();
        let newest = index.newest(100);
        assert_eq!(index.count(&Filter::default()), newest.len());
        let mut folders: Vec<PathBuf> = newest.iter().map(|listed| listed.folder.clone()).collect();
        let names = store::names(&self.store, &self.cache()).unwrap();
        let mut named: Vec<PathBuf> = names.into_iter().map(|name| name.folder).collect();
        folders.sort();
        named.sort();
        assert_eq!(named, folders);
        newest.into_iter().map(|listed| listed.folder).collect()
    }
}

const WHOLE_FILES: [&str; 3] = ["record.json", "runs.ndjson", "samples.parquet"];

fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn append(path: &Path, text: &str) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in file_names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

#[test]
fn a_record_appears_whole_when_it_is_finished_and_not_before() {
    let place = Place::new();
    let mut growing = place.begin(3);
    assert!(place.listed().is_empty());
    assert_runs(&store::open(&place.hidden()).unwrap(), 3);
    add(&mut growing, PLANNED);
    assert_eq!(growing.read_runs().unwrap().len() as u32, PLANNED);
    let folder = growing.finish(golden::at(700)).unwrap().unwrap();
    assert_eq!(folder, place.visible());
    assert_eq!(file_names(&folder), WHOLE_FILES);
    let opened = store::open(&folder).unwrap();
    assert_eq!(opened.record.state, RecordState::Whole);
    assert_eq!(opened.record.sessions[1].finished, Some(golden::at(700)));
    assert_runs(&opened, PLANNED);
    assert_eq!(place.listed(), [folder]);
}

#[test]
fn a_record_without_runs_vanishes() {
    let place = Place::new();
    assert_eq!(place.begin(0).finish(golden::at(1)).unwrap(), None);
    drop(place.begin(0));
    assert!(place.store.recover(HOST).unwrap().is_empty());
    assert!(!place.hidden().exists());
}

#[test]
fn a_living_writer_is_left_alone_and_a_dead_one_is_finished() {
    let place = Place::new();
    let growing = place.begin(5);
    assert!(place.store.recover(HOST).unwrap().is_empty());
    drop(growing);
    assert!(place.store.recover("another host").unwrap().is_empty());
    place.assert_recovers(5);
    let opened = store::open(&place.visible()).unwrap();
    assert!(opened.record.warnings.iter().any(|w| w.text.contains("writer died")));
}

#[test]
fn a_torn_line_is_no_run_and_samples_without_a_run_are_none() {
    let place = Place::new();
    drop(place.begin(5));
    append(&place.hidden().join("runs.ndjson"), "{\"run\":5,\"point\":0,\"blo");
    append(&place.hidden().join("samples.ndjson"), "{\"run\":5,\"samples\":[]}\n{\"run\":6,\"sa");
    assert_eq!(store::open(&place.hidden()).unwrap().runs.len(), 5);
    place.assert_recovers(5);
}

#[test]
fn one_folder_that_cannot_be_recovered_does_not_hide_another() {
    let place = Place::new();
    drop(place.begin(5));
    let broken = place.store.root().join("00/.part-20261120-115530-000000");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("plan.json"), "{").unwrap();
    place.assert_recovers(5);
    assert!(broken.exists());
}

#[test]
fn a_changed_runs_file_is_a_warning_about_the_record() {
    let place = Place::new();
    let folder = place.finished(5);
    append(&folder.join("runs.ndjson"), "{\"torn");
    let opened = store::open(&folder).unwrap();
    assert!(opened.record.warnings.iter().any(|w| w.text.contains("has changed since")));
    assert_eq!(opened.runs.len(), 5);
}

#[test]
fn a_changed_samples_file_is_refused() {
    let place = Place::new();
    let folder = place.finished(5);
    append(&folder.join("samples.parquet"), "x");
    let error = store::samples(&store::open(&folder).unwrap()).unwrap_err();
    assert!(error.to_string().contains("has changed since"), "{error}");
    assert!(place.store.resume(&folder).is_err());
    assert_eq!(file_names(&folder), WHOLE_FILES);
}

#[test]
fn resuming_adds_the_missing_runs() {
    let place = Place::new();
    drop(place.begin(10));
    place.assert_recovers(10);
    let mut growing = place.store.resume(&place.visible()).unwrap();
    assert_eq!(growing.next_run(), 10);
    assert!(!place.visible().exists());
    assert_runs(&store::open(&place.hidden()).unwrap(), 10);
    add(&mut growing, 20);
    assert_runs(&store::open(&place.hidden()).unwrap(), 20);
    add(&mut growing, PLANNED);
    growing.finish(golden::at(900)).unwrap();
    let opened = store::open(&place.visible()).unwrap();
    assert_eq!(opened.record.state, RecordState::Whole);
    assert_eq!(opened.record.warnings, golden::plan().warnings);
    assert_runs(&opened, PLANNED);
}

#[test]
fn a_torn_record_is_resumed_after_its_last_whole_line() {
    let place = Place::new();
    let folder = place.finished(5);
    append(&folder.join("runs.ndjson"), "{\"torn");
    let mut growing = place.store.resume(&folder).unwrap();
    add(&mut growing, 7);
    assert_runs(&store::open(&place.hidden()).unwrap(), 7);
}

#[test]
fn a_record_has_one_writer() {
    let place = Place::new();
    let growing = place.begin(5);
    let other = place.store.begin(golden::plan(), golden::id()).unwrap();
    assert_ne!(other.record.id, growing.record.id);
    other.finish(golden::at(1)).unwrap();
    assert!(place.store.resume(&place.hidden()).is_err());
    let folder = growing.finish(golden::at(1)).unwrap().unwrap();
    let _resumed = place.store.resume(&folder).unwrap();
    assert!(place.store.resume(&folder).is_err());
    assert!(place.store.recover(HOST).unwrap().is_empty());
    let other = Id::read("20261120-115531-7f0000").unwrap();
    let mut beside = place.store.begin(golden::plan(), other).unwrap();
    add(&mut beside, 2);
    assert!(beside.finish(golden::at(2)).unwrap().is_some());
}

/// What a crash within [`Growing::finish`] can leave, step by step.
#[test]
fn a_crash_at_any_step_of_finishing_loses_nothing() {
    let crash = |step: &dyn Fn(&Path, &Path)| {
        let (place, other) = (Place::new(), Place::new());
        drop(place.begin(6));
        step(&place.hidden(), &other.finished(6));
        place.assert_recovers(6);
    };
    let copied = |names: &'static [&'static str]| {
        move |hidden: &Path, finished: &Path| {
            for name in names {
                fs::copy(finished.join(name), hidden.join(name)).unwrap();
            }
        }
    };
    crash(&|hidden, _| fs::write(hidden.join("samples.parquet"), "PAR1 half").unwrap());
    crash(&copied(&["samples.parquet"]));
    crash(&|hidden, finished| {
        copied(&["samples.parquet"])(hidden, finished);
        fs::write(hidden.join("record.tmp"), "{").unwrap();
    });
    crash(&copied(&["samples.parquet", "record.json"]));
    crash(&|hidden, finished| {
        copied(&["samples.parquet", "record.json"])(hidden, finished);
        fs::remove_file(hidden.join("samples.ndjson")).unwrap();
    });
    // Records of an earlier version lost their plan before they had their name.
    crash(&|hidden, finished| {
        copied(&["samples.parquet", "record.json"])(hidden, finished);
        fs::remove_file(hidden.join("samples.ndjson")).unwrap();
        fs::remove_file(hidden.join("plan.json")).unwrap();
    });
}

/// What a crash within [`Store::resume`] can leave, step by step.
#[test]
fn a_crash_at_any_step_of_resuming_loses_nothing() {
    let crash = |step: &dyn Fn(&Path)| {
        let place = Place::new();
        let folder = place.finished(6);
        drop(place.store.resume(&folder).unwrap());
        // As it was just after the rename.
        let other = Place::new();
        fs::remove_file(place.hidden().join("samples.ndjson")).unwrap();
        fs::copy(other.finished(6).join("record.json"), place.hidden().join("record.json"))
            .unwrap();
        step(&place.hidden());
        place.assert_recovers(6);
    };
    let samples: Vec<String> = {
        let place = Place::new();
        drop(place.begin(6));
        let text = fs::read_to_string(place.hidden().join("samples.ndjson")).unwrap();
        text.lines().map(|line| format!("{line}\n")).collect()
    };
    crash(&|_| ());
    crash(&|hidden| fs::write(hidden.join("samples.tmp"), &samples[0]).unwrap());
    crash(&|hidden| fs::write(hidden.join("samples.ndjson"), samples.concat()).unwrap());
    crash(&|hidden| {
        fs::write(hidden.join("samples.ndjson"), samples.concat()).unwrap();
        fs::remove_file(hidden.join("record.json")).unwrap();
    });
}

#[test]
fn a_crash_before_the_folder_is_hidden_leaves_the_record_as_it_was() {
    let place = Place::new();
    let folder = place.finished(6);
    for leftover in ["plan.tmp", "plan.json"] {
        fs::write(folder.join(leftover), "{").unwrap();
        assert!(place.store.recover(HOST).unwrap().is_empty());
        assert_runs(&store::open(&folder).unwrap(), 6);
    }
    let mut growing = place.store.resume(&folder).unwrap();
    add(&mut growing, 7);
    growing.finish(golden::at(1)).unwrap();
    assert_eq!(file_names(&folder), WHOLE_FILES);
}

#[test]
fn a_resumed_record_without_samples_keeps_its_runs() {
    let place = Place::new();
    let mut growing = place.store.begin(golden::plan(), golden::id()).unwrap();
    let (run, _) = golden::run(0);
    growing.append(&run, Vec::new()).unwrap();
    let folder = growing.finish(golden::at(1)).unwrap().unwrap();
    drop(place.store.resume(&folder).unwrap());
    assert_eq!(place.store.recover(HOST).unwrap(), [&*folder]);
    let opened = store::open(&folder).unwrap();
    assert_eq!((opened.runs.len(), store::samples(&opened).unwrap().len()), (1, 0));
}

#[test]
fn a_plan_alone_is_a_record_that_never_began() {
    let place = Place::new();
    drop(place.begin(0));
    fs::remove_file(place.hidden().join("runs.ndjson")).unwrap();
    fs::remove_file(place.hidden().join("samples.ndjson")).unwrap();
    assert!(store::open(&place.hidden()).unwrap().runs.is_empty());
    assert!(place.store.recover(HOST).unwrap().is_empty());
    assert!(!place.hidden().exists());
}

#[test]
fn a_folder_whose_writer_is_just_starting_is_left_alone() {
    let place = Place::new();
    fs::create_dir_all(place.hidden()).unwrap();
    assert!(place.store.recover(HOST).unwrap().is_empty());
    assert!(place.hidden().exists());
}

#[test]
fn the_index_sees_what_is_added_removed_and_resumed() {
    let place = Place::new();
    assert!(place.listed().is_empty());
    let folder = place.finished(5);
    assert_eq!(place.listed(), [&*folder]);
    let mut growing = place.store.resume(&folder).unwrap();
    assert!(place.listed().is_empty());
    add(&mut growing, PLANNED);
    growing.finish(golden::at(1)).unwrap();
    let index = Index::open(&place.store, &place.cache()).unwrap();
    let listed = &index.with_prefix("20261120-1155")[0];
    assert_eq!((listed.state.as_str(), listed.runs, listed.failed), ("whole", PLANNED - 1, 1));
    assert_eq!(listed.workloads, "posix_lock_shared");
    assert!(index.with_prefix("x").is_empty());
    fs::remove_dir_all(&folder).unwrap();
    assert!(place.listed().is_empty());
    fs::remove_dir_all(place.store.root()).unwrap();
    assert!(place.listed().is_empty());
}

#[test]
fn names_come_from_the_index_where_it_is_up_to_date() {
    let place = Place::new();
    let folder = place.finished(5);
    let shard = File::open(place.store.root().join("7f")).unwrap();
    let root = File::open(place.store.root()).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    [shard, root].iter().for_each(|folder| folder.set_modified(long_ago).unwrap());
    assert_eq!(place.listed(), [&*folder]);
    // Nobody looks into the folder.
    fs::write(folder.join("record.json"), "damaged").unwrap();
    let names = store::names(&place.store, &place.cache()).unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!((names[0].id.as_str(), &names[0].folder), (golden::ID, &folder));
}

#[test]
fn records_copied_by_hand_are_listed_even_twice() {
    let place = Place::new();
    let folder = place.finished(5);
    let beside = place.store.root().join(golden::ID);
    copy(&folder, &beside);
    let mut listed = place.listed();
    listed.sort();
    assert_eq!(listed, [beside.clone(), folder.clone()]);
    let index = Index::open(&place.store, &place.cache()).unwrap();
    assert_eq!(index.with_prefix(golden::ID).len(), 2);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.listed(), [beside]);
}

/// Copying takes time: a folder may be seen before its files are.
#[test]
fn a_record_whose_files_arrive_late_is_listed_when_they_are_there() {
    let (place, other) = (Place::new(), Place::new());
    let folder = other.finished(5);
    fs::create_dir_all(place.visible()).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    File::open(place.store.root().join("7f")).unwrap().set_modified(long_ago).unwrap();
    assert!(place.listed().is_empty());
    copy(&folder, &place.visible());
    assert_eq!(place.listed(), [place.visible()]);
}

#[test]
fn the_index_is_built_again_when_its_file_is_deleted_or_damaged() {
    let place = Place::new();
    let folder = place.finished(5);
    assert_eq!(place.listed(), [&*folder]);
    let file = place.cache().join(&file_names(&place.cache())[0]);
    fs::remove_file(&file).unwrap();
    assert_eq!(place.listed(), [&*folder]);

    let sound = fs::read(&file).unwrap();
    let newline = sound.iter().position(|byte| *byte == b'\n').unwrap();
    let mut damaged = vec![b"no index".to_vec(), b"{}\n".to_vec(), Vec::new()];
    // Rubbish or nothing behind a sound beginning: a part of the first line, that line, and a part of the next.
    for end in [newline / 2, newline, newline + 1, newline + 20, sound.len() - 2] {
        let rubbish = vec![0xa5; sound.len() - end];
        damaged.extend([sound[..end].to_vec(), [&sound[..end], &rubbish].concat()]);
    }
    for damaged in damaged {
        fs::write(&file, damaged).unwrap();
        assert_eq!(place.listed(), [&*folder]);
        assert_eq!(fs::read(&file).unwrap(), sound, "it is on disk again");
    }

    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(place.listed(), [&*folder]);
}

/// Leaves nothing out.
fn nothing(_: &Opened) -> BTreeMap<u32, String> {
    BTreeMap::new()
}

/// Leaves the first run out.
fn first(_: &Opened) -> BTreeMap<u32, String> {
    BTreeMap::from([(0, "steal 9 %".to_string())])
}

/// What each column holds is checked by reading one row of each kind.
#[test]
fn compacted_records_are_partitioned_rows() {
    let place = Place::new();
    let folders = [place.finished(golden::RUNS)];
    let into = place.folder.path().join("compact");
    let written = compact(&folders, &into, nothing).unwrap();
    let file = into.join("workload=posix_lock_shared/month=2026-11/records.parquet");
    let rows = rows(&file);
    assert_eq!(written, Compacted { files: 1, rows: rows.len() });
    let first_of = |metric: &str| {
        let of_metric = |row: &&Row| row.get_string(14).unwrap() == metric;
        rows.iter().find(of_metric).unwrap().to_string()
    };
    expect![[r#"{record: "20261120-115530-7f3a9c", run: 0, block: 0, started: 2026-11-20 11:55:31.000000 +00:00, host: "lab1", kernel: "6.12.8", semantics: 1, as: "processes", cpus: 1, tasks: 1, placement: "cores", parameters: "{"hold_ns":"0","idle_ns":"100","mode":"wait"}", pass: "rate", dir: "/mnt/a b", metric: "operations_per_s", task: null, at_ns: null, value: 1176000.0, variant: null, placebo: false, left_out: null}"#]].assert_eq(&first_of("operations_per_s"));
    expect![[r#"{record: "20261120-115530-7f3a9c", run: 0, block: 0, started: 2026-11-20 11:55:31.000000 +00:00, host: "lab1", kernel: "6.12.8", semantics: 1, as: "processes", cpus: 1, tasks: 1, placement: "cores", parameters: "{"hold_ns":"0","idle_ns":"100","mode":"wait"}", pass: "rate", dir: "/mnt/a b", metric: "task.operations", task: 0, at_ns: null, value: 1176000.0, variant: null, placebo: false, left_out: null}"#]].assert_eq(&first_of("task.operations"));
    expect![[r#"{record: "20261120-115530-7f3a9c", run: 20, block: 1, started: 2026-11-20 11:55:51.000000 +00:00, host: "lab1", kernel: "6.12.8", semantics: 1, as: "threads", cpus: 8, tasks: 8, placement: "cores", parameters: "{"hold_ns":"0","idle_ns":"100","mode":"wait"}", pass: "rate", dir: "/mnt/a b", metric: "failed", task: null, at_ns: null, value: 1.0, variant: null, placebo: false, left_out: null}"#]].assert_eq(&first_of("failed"));
    let samples = store::samples(&store::open(&folders[0]).unwrap()).unwrap();
    let of_runs = rows.iter().filter(|row| row.get_int(15).is_err() && row.get_long(16).is_err());
    assert_eq!(rows.len() - of_runs.count(), samples.len());

    let error = compact(&folders, &into, nothing).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
}

#[test]
fn compacted_runs_of_a_fleet_name_their_host_their_variant_and_why_they_are_left_out() {
    let place = Place::new();
    let mut plan = golden::plan();
    plan.points[0].variant = "after".to_string();
    let mut growing = place.store.begin(plan, golden::id()).unwrap();
    add(&mut growing, 4);
    let session = growing.record.sessions[0].clone();
    let node = |first_run: u32, name: &str| Session {
        first_run,
        node: Some(name.to_string()),
        ..session.clone()
    };
    growing.record.sessions = vec![node(0, "n1"), node(2, "n2")];
    let folder = growing.finish(golden::at(640)).unwrap().unwrap();
    for (host, count) in [("n1", 1), ("n2", 1), ("lab1", 0), ("n", 0)] {
        let filter = Filter { host: Some(host.to_string()), ..Filter::default() };
        assert_eq!(
            Index::open(&place.store, &place.cache()).unwrap().count(&filter),
            count,
            "{host}"
        );
    }
    let runs = store::open(&folder).unwrap().runs;
    let into = place.folder.path().join("compact");
    compact(&[folder], &into, first).unwrap();
    let rows = rows(&into.join("workload=posix_lock_shared/month=2026-11/records.parquet"));
    for row in rows {
        let run = row.get_int(1).unwrap();
        assert_eq!(row.get_string(4).unwrap(), if run < 2 { "n1" } else { "n2" });
        let is_after = runs[run as usize].point == 0;
        assert_eq!(row.get_string(18).ok().map(String::as_str), is_after.then_some("after"));
        assert_eq!(row.get_string(20).ok().map(String::as_str), (run == 0).then_some("steal 9 %"));
    }
}

fn rows(file: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn many_lookers_at_once_agree() {
    let place = Place::new();
    let folder = place.finished(5);
    std::thread::scope(|scope| {
        let lookers: Vec<_> = (0..8).map(|_| scope.spawn(|| place.listed())).collect();
        for looker in lookers {
            assert_eq!(looker.join().unwrap(), [&*folder]);
        }
    });
}

#[test]
fn what_is_no_record_is_not_listed() {
    let place = Place::new();
    let folder = place.finished(5);
    let root = place.store.root();
    fs::write(root.join("note.txt"), "mine").unwrap();
    fs::create_dir_all(root.join("7f/20261120-115530-000000")).unwrap();
    fs::create_dir_all(root.join("7f/copy of a record")).unwrap();
    let newer = root.join("00/20271120-115530-000000");
    fs::create_dir_all(&newer).unwrap();
    fs::write(newer.join("record.json"), "{\"format\": 999}").unwrap();
    assert_eq!(place.listed(), [folder]);
    let error = store::open(&newer).unwrap_err();
    assert!(format!("{error:#}").contains("use a newer knee"));
}
