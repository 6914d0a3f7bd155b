//! Hostile input to all readers: jobs, events, runs, records, experiments, results of other tools and
//! whole folders of records. A reader may refuse an input with a message. It must not panic, allocate an
//! absurd amount of memory, or read back something else than it wrote.

mod examples;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fuzz::{Fuzzer, fuzz};
use records::{Event, Experiment, Job, Record, Run, Session};
use serde::Serialize;
use store::import::{FORMATS, Input, Telling, assemble};
use store::{Index, Store};

const REPLAY: &str = "cargo test -p store --test fuzz";

#[test]
fn fuzzed_text_is_refused_or_read_as_it_would_be_written() {
    let bytes =
        |examples: &[&str]| examples.iter().map(|e| e.as_bytes().to_vec()).collect::<Vec<_>>();
    let kinds: [(Vec<Vec<u8>>, Feed); 5] = [
        (bytes(examples::JOBS), |text| same(text, Job::read, Job::read)),
        (bytes(examples::EVENTS), |text| same(text, Event::read, Event::read)),
        (bytes(examples::RUNS), feed_run),
        (bytes(examples::RECORDS), feed_record),
        (bytes(examples::EXPERIMENTS), feed_experiment),
    ];
    fuzz(130_000, &format!("{REPLAY} text"), |fuzzer| {
        let (examples, feed) = fuzzer.pick(&kinds);
        let input = fuzzer.damage(examples);
        feed(&String::from_utf8_lossy(&input))
    });
}

type Feed = fn(&str) -> Result<(), String>;

/// What was read, written and read again, is the same.
fn same<T: Serialize + PartialEq>(
    text: &str,
    read: impl Fn(&str) -> Result<T>,
    read_again: impl Fn(&str) -> Result<T>,
) -> Result<(), String> {
    let value = match read(text) {
        Ok(value) => value,
        Err(error) if format!("{error:#}").is_empty() => {
            return Err("refused without a word".into());
        }
        Err(_) => return Ok(()),
    };
    let written =
        serde_json::to_string(&value).map_err(|e| format!("read, but not writable: {e}"))?;
    match read_again(&written) {
        Ok(again) if again == value => Ok(()),
        Ok(_) => Err(format!("came back different from {written}")),
        Err(error) => Err(format!("wrote what it refuses to read: {error:#}\n{written}")),
    }
}

fn feed_run(text: &str) -> Result<(), String> {
    if let Ok(run) = Run::read(text) {
        run.value("operations_per_s");
        run.value("stat.ctxt/op");
    }
    same(text, Run::read, Run::read)
}

fn feed_record(text: &str) -> Result<(), String> {
    if let Ok(record) = Record::read(text) {
        record.runs_planned();
        record.started();
    }
    same(text, Record::read, Record::read)
}

fn feed_experiment(text: &str) -> Result<(), String> {
    // Records keep it as JSON.
    same(text, Experiment::read, |json| Ok(serde_json::from_str(json)?))
}

#[test]
fn fuzzed_results_of_other_tools_are_refused_or_become_records_that_can_be_kept() {
    let examples = examples::results();
    fuzz(20_000, &format!("{REPLAY} results"), |fuzzer| {
        let input = fuzzer.damage(&examples);
        let Ok(input) = Input::from_bytes(Path::new("a/x.txt"), &input) else { return Ok(()) };
        feed_result(&input, None)?;
        feed_result(&input, Some(fuzzer.pick(FORMATS).name))
    });
}

fn feed_result(input: &Input, format: Option<&str>) -> Result<(), String> {
    let started = "2026-11-20T12:00:00Z".parse().expect("a time");
    let (command, knee, boot_id) = (Vec::new(), String::new(), String::new());
    let session = Session {
        command,
        knee,
        started,
        finished: None,
        boot_id,
        node: None,
        first_run: 0,
        host_changes: None,
    };
    let telling = Telling { format, ..Telling::default() };
    let imported = match assemble(std::slice::from_ref(input), &telling, session) {
        Ok(imported) => imported,
        Err(error) if format!("{error:#}").contains("x.txt") => return Ok(()),
        Err(error) => return Err(format!("refused without the file's name: {error:#}")),
    };
    for (at, (run, _)) in imported.runs.iter().enumerate() {
        let known = (run.point as usize) < imported.record.points.len();
        if run.run as usize != at || !known {
            return Err(format!("run {at} has number {} and point {}", run.run, run.point));
        }
        let point = &imported.record.points[run.point as usize];
        if [&point.variant, &point.workload].iter().any(|name| name.contains(char::is_control)) {
            return Err(format!("a name that moves the cursor: {point:?}"));
        }
        same(&serde_json::to_string(run).expect("plain data"), Run::read, Run::read)?;
    }
    if imported.runs.len() < imported.record.runs_planned().unwrap_or(0) as usize {
        return Err("more runs are planned than there are".to_string());
    }
    same(&serde_json::to_string(&imported.record).expect("plain data"), Record::read, Record::read)
}

#[test]
fn fuzzed_folders_are_refused_or_opened() {
    let folders = examples::folders();
    fuzz(2_000, &format!("{REPLAY} folders"), |fuzzer| {
        let home = scratch();
        let files = fuzzer.pick(&folders);
        let hidden = if files == &folders[2] { ".part-" } else { "" };
        let name = format!("{hidden}{}", examples::id().as_str());
        let folder = home.path().join("7f").join(name);
        fs::create_dir_all(&folder).expect("making a folder");
        write(files, &folder, fuzzer);
        use_folder(&Store::at(home.path().to_path_buf()), &folder);
        Ok(())
    });
}

/// In memory where there is such a place: the disk would only slow this down.
fn scratch() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// Writes the files of a record, one of them damaged, sometimes one missing.
fn write(files: &examples::Files, folder: &Path, fuzzer: &mut Fuzzer) {
    let damaged = fuzzer.below(files.len());
    let missing = fuzzer.below(files.len() * 8);
    for (at, (name, bytes)) in files.iter().enumerate() {
        let bytes =
            if at == damaged { fuzzer.damage(std::slice::from_ref(bytes)) } else { bytes.clone() };
        if at != missing {
            fs::write(folder.join(name), bytes).expect("writing a file of a record");
        }
    }
}

/// All that may be done with a folder. Refusing is fine.
fn use_folder(store: &Store, folder: &Path) {
    look(folder);
    let listed = Index::open(store, Path::new("/proc/none")).map(|index| index.newest(9));
    listed.expect("a damaged record does not keep others from being listed");
    let recovered = store.recover("lab1");
    let folders: Vec<PathBuf> = recovered.unwrap_or_default();
    for folder in folders.iter().map(PathBuf::as_path).chain([folder]) {
        look(folder);
        if let Ok(growing) = store.resume(folder) {
            let _ = growing.read_runs();
            if let Ok(Some(folder)) =
                growing.finish("2026-11-20T13:00:00Z".parse().expect("a time"))
            {
                look(&folder);
            }
        }
    }
}

fn look(folder: &Path) {
    if let Ok(opened) = store::open(folder) {
        let _ = store::samples(&opened);
    }
}
