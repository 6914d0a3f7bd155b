//! What is not ours stays as it is: folders of the user's own, other users' records, files
//! behind links. And what two knees do at once, or what does not fit, breaks no record.

use std::fs::FileTimes;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::*;

/// Makes a folder look as if nothing had happened in it for an hour.
fn make_old(folder: &Path) {
    let then = SystemTime::now() - Duration::from_secs(3600);
    File::open(folder).unwrap().set_times(FileTimes::new().set_modified(then)).unwrap();
}

#[test]
fn the_users_own_hidden_folders_stay() {
    let place = Place::new();
    let root = place.store.root();
    let mine = [".part-mydata", "7f/.part-mydata", "7f/.part-20261120-115530-7f3a9c-copy"];
    for name in mine {
        fs::create_dir_all(root.join(name)).unwrap();
        make_old(&root.join(name));
    }
    assert!(place.store.recover(HOST).unwrap().is_empty());
    assert!(mine.iter().all(|name| root.join(name).exists()));
}

#[test]
fn what_never_began_is_removed_without_what_the_user_put_there() {
    let place = Place::new();
    for (file, left) in [("plan.tmp", false), ("note.txt", true), ("runs.ndjson", true)] {
        fs::create_dir_all(place.hidden()).unwrap();
        fs::write(place.hidden().join(file), "mine").unwrap();
        make_old(&place.hidden());
        assert!(place.store.recover(HOST).unwrap().is_empty());
        assert_eq!(place.hidden().join(file).exists(), left, "{file}");
        let _ = fs::remove_dir_all(place.hidden());
    }
    let growing = place.begin(0);
    fs::create_dir(place.hidden().join("mine")).unwrap();
    assert_eq!(growing.finish(golden::at(1)).unwrap(), None);
    assert_eq!(file_names(&place.hidden()), ["mine"]);
}

#[test]
fn another_users_record_is_neither_recovered_nor_resumed() {
    let (place, other) = (Place::new(), 65534);
    drop(place.begin(5));
    for path in [place.hidden(), place.hidden().join("plan.json")] {
        let owner = fs::metadata(&path).unwrap().uid();
        if chown(&path, Some(other), None).is_err() {
            println!("skipped: only root can give a folder to another user");
            return;
        }
        assert!(place.store.recover(HOST).unwrap().is_empty());
        assert!(place.hidden().exists());
        chown(&path, Some(owner), None).unwrap();
    }
    place.assert_recovers(5);
    chown(place.visible(), Some(other), None).unwrap();
    let error = place.store.resume(&place.visible()).unwrap_err();
    assert!(error.to_string().contains("another user"), "{error}");
    assert_eq!(file_names(&place.visible()), WHOLE_FILES);
}

#[test]
fn nothing_is_written_through_a_link() {
    let temporary = ["samples.parquet", "samples.tmp", "record.tmp", "plan.tmp"];
    let growing = ["plan.json", "runs.ndjson", "samples.ndjson"];
    for (names, recovered) in [(&temporary[..], true), (&growing[..], false)] {
        for name in names {
            let place = Place::new();
            drop(place.begin(5));
            let link = place.hidden().join(name);
            let elsewhere = place.folder.path().join("elsewhere");
            if fs::rename(&link, &elsewhere).is_err() {
                fs::write(&elsewhere, "mine").unwrap();
            }
            append(&elsewhere, "{\"torn");
            let text = fs::read(&elsewhere).unwrap();
            symlink(&elsewhere, &link).unwrap();
            if recovered {
                place.assert_recovers(5);
            } else {
                assert!(place.store.recover(HOST).unwrap().is_empty(), "{name}");
                assert!(link.is_symlink(), "{name}");
            }
            assert_eq!(fs::read(&elsewhere).unwrap(), text, "{name}");
        }
    }
}

#[test]
fn a_shard_that_cannot_be_read_hides_no_other() {
    let place = Place::new();
    fs::create_dir_all(place.store.root()).unwrap();
    fs::write(place.store.root().join("00"), "mine").unwrap();
    drop(place.begin(5));
    place.assert_recovers(5);
    assert_eq!(place.listed(), [place.visible()]);
    let index = place.cache().join(&file_names(&place.cache())[0]);
    let inode = fs::metadata(&index).unwrap().ino();
    assert_eq!(place.listed(), [place.visible()]);
    assert_eq!(fs::metadata(&index).unwrap().ino(), inode, "the index was made again");
}

/// Replaces text of the index, lists, and returns whether the index was written again as it had been.
fn is_made_again(place: &Place, from: &str, to: &str) -> bool {
    let index = place.cache().join(&file_names(&place.cache())[0]);
    let text = fs::read_to_string(&index).unwrap();
    let changed = text.replace(from, to);
    assert_ne!(changed, text);
    fs::write(&index, changed).unwrap();
    assert_eq!(place.listed(), [place.visible()]);
    fs::read_to_string(&index).unwrap() == text
}

#[test]
fn an_index_of_another_version_or_store_is_made_again() {
    let place = Place::new();
    place.finished(5);
    place.listed();
    assert!(is_made_again(&place, "{\"index\":", "{\"index\":99"));
    assert!(is_made_again(&place, "/records", "-records"));
}

#[test]
fn a_list_needs_no_folder_that_can_hold_an_index() {
    let place = Place::new();
    let folder = place.finished(5);
    fs::write(place.cache(), "no folder").unwrap();
    assert_eq!(place.listed(), [folder]);
}

#[test]
fn a_store_is_made_with_all_folders_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("a/b/records"));
    let mut growing = store.begin(golden::plan(), golden::id()).unwrap();
    add(&mut growing, 1);
    let made = growing.finish(golden::at(1)).unwrap().unwrap();
    assert_eq!(made, store.root().join("7f").join(golden::ID));
}

#[test]
fn a_torn_line_is_not_sealed() {
    let place = Place::new();
    let growing = place.begin(5);
    append(&place.hidden().join("runs.ndjson"), "{\"run\":5,\"po");
    let folder = growing.finish(golden::at(1)).unwrap().unwrap();
    let opened = store::open(&folder).unwrap();
    assert_eq!(opened.record.warnings, golden::plan().warnings);
    assert_runs(&opened, 5);
}

/// Runs itself again where no file can grow beyond some KiB.
#[test]
fn a_run_that_does_not_fit_leaves_no_half_line() {
    if std::env::var_os("KNEE_SMALL_FILES").is_none() {
        let again = "trap '' XFSZ; ulimit -f 40; \
                     exec \"$0\" --exact recover::a_run_that_does_not_fit_leaves_no_half_line";
        let mut shell = Command::new("sh");
        shell.args(["-c", again]).arg(std::env::current_exe().unwrap());
        let output = shell.env("KNEE_SMALL_FILES", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    // Either file can be the one that is full.
    for samples in [vec![golden::run(0).1; 10].concat(), Vec::new()] {
        let place = Place::new();
        let mut growing = place.begin(0);
        let add = |growing: &mut Growing| {
            let run = Run { run: growing.next_run(), ..golden::run(0).0 };
            growing.append(&run, samples.clone())
        };
        while add(&mut growing).is_ok() {}
        let files = ["runs.ndjson", "samples.ndjson"].map(|name| place.hidden().join(name));
        let lines = files.map(|file| {
            let text = fs::read_to_string(file).unwrap();
            assert!(text.ends_with('\n'));
            text.lines().count() as u32
        });
        let runs = growing.next_run();
        assert!(runs > 0);
        assert_eq!(lines, [runs; 2]);
        assert!(add(&mut growing).is_err());
        let folder = growing.finish(golden::at(1)).unwrap().unwrap();
        let opened = store::open(&folder).unwrap();
        assert_eq!(opened.runs.len() as u32, runs);
        assert_eq!(store::samples(&opened).unwrap().len(), runs as usize * samples.len());
    }
}

#[test]
fn a_record_that_another_knee_is_moving_is_not_touched() {
    let place = Place::new();
    let folder = place.finished(5);
    let moving = File::open(folder.join("record.json")).unwrap();
    moving.lock().unwrap();
    let error = place.store.resume(&folder).unwrap_err();
    assert!(error.to_string().contains("another knee"), "{error}");
    assert_eq!(file_names(&folder), WHOLE_FILES);
    // As it is between the last steps of finishing.
    fs::rename(&folder, place.hidden()).unwrap();
    assert!(place.store.recover(HOST).unwrap().is_empty());
    assert!(place.hidden().exists());
    drop(moving);
    place.assert_recovers(5);
}

#[test]
fn of_many_knees_that_resume_and_recover_at_once_one_gets_the_record() {
    let place = Place::new();
    let folder = place.finished(1);
    for runs in 1..30 {
        let resumed: Vec<Growing> = std::thread::scope(|scope| {
            let knees = [(); 4].map(|()| {
                scope.spawn(|| {
                    let growing = place.store.resume(&folder).ok();
                    assert!(place.store.recover(HOST).is_ok());
                    growing
                })
            });
            knees.into_iter().filter_map(|knee| knee.join().unwrap()).collect()
        });
        assert_eq!(resumed.len(), 1);
        for mut growing in resumed {
            assert_eq!(growing.next_run(), runs);
            assert!(place.hidden().exists() && !folder.exists(), "a live record was recovered");
            add(&mut growing, runs + 1);
        }
        let recovered: Vec<PathBuf> = std::thread::scope(|scope| {
            let knees = [(); 4].map(|()| scope.spawn(|| place.store.recover(HOST).unwrap()));
            knees.into_iter().flat_map(|knee| knee.join().unwrap()).collect()
        });
        assert_eq!(recovered, [&*folder]);
        assert_runs(&store::open(&folder).unwrap(), runs + 1);
    }
}
