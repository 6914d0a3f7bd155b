//! Whatever lies in a held folder, nothing outside it is touched, and nobody is waited for.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, mkfifoat};
use tempfile::TempDir;

use super::*;

const LIMIT: Limit = Limit { bytes: 100, what: "a note" };

/// A folder `here` beside a file `precious`, which nothing may touch.
fn folders() -> (TempDir, HeldFolder) {
    let all = tempfile::tempdir().unwrap();
    fs::write(all.path().join("precious"), "precious").unwrap();
    let here = HeldFolder::create(&all.path().join("here")).unwrap();
    (all, here)
}

/// What can lie where knee has a file, with words that say what it is.
const THINGS: [(&str, &str); 8] = [
    ("link", "is a symbolic link"),
    ("dangling", "is a symbolic link"),
    ("linked folder", "is a symbolic link"),
    ("pipe", "is a pipe"),
    ("socket", "is a socket"),
    ("folder", "is a folder"),
    ("long", "has 3 GiB, more than the 100 bytes that a note may have"),
    ("two names", "has 2 names"),
];

fn put(all: &TempDir, thing: &str) {
    let (path, precious) = (all.path().join("here/x"), all.path().join("precious"));
    match thing {
        "link" => symlink(precious, path).unwrap(),
        "dangling" => symlink(all.path().join("nothing"), path).unwrap(),
        "linked folder" => symlink(all.path(), path).unwrap(),
        "pipe" => mkfifoat(CWD, &path, Mode::RWXU).unwrap(),
        "socket" => drop(UnixListener::bind(path).unwrap()),
        "folder" => fs::create_dir(path).unwrap(),
        "long" => File::create(path).unwrap().set_len(3 << 30).unwrap(),
        _ => fs::hard_link(precious, path).unwrap(),
    }
}

#[test]
fn what_is_no_file_of_the_folder_is_named_and_not_touched() {
    for (thing, words) in THINGS {
        let (all, here) = folders();
        put(&all, thing);
        let refused = |done: &str, result: Result<()>| {
            let why = format!("{:#}", result.expect_err(&format!("{done} of a {thing}")));
            assert!(why.contains(words) && why.contains("/here/x "), "{done}: {why}");
        };
        if thing != "two names" {
            refused("read", here.read("x", LIMIT).map(drop));
            refused("open_file", here.open_file("x", LIMIT).map(drop));
        }
        if thing != "long" {
            refused("append", here.append("x").map(drop));
            refused("open_to_change", here.open_to_change("x").map(drop));
        }
        if thing == "folder" {
            assert!(here.remove("x").is_err() && here.folder("x").unwrap().is_some());
            continue;
        }
        assert!(here.folder("x").is_err(), "{thing} is no folder");
        assert!(here.create_folder("x").is_err() && here.create_new("x").is_err());
        assert!(!here.link("x", b"new").unwrap(), "{thing} is there");
        here.replace("x", |mut file| Ok(file.write_all(b"new")?)).unwrap();
        assert_eq!(here.read("x", LIMIT).unwrap().unwrap(), b"new", "{thing}");
        assert!(here.remove("x").unwrap() && !here.remove("x").unwrap());
        put(&all, thing);
        assert!(here.remove("x").unwrap());
        assert_eq!(here.list().unwrap(), [], "{thing}");
        let precious = all.path().join("precious");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "{thing}");
        assert_eq!(fs::metadata(precious).unwrap().nlink(), 1);
        assert!(!all.path().join("nothing").exists());
    }
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let (_all, here) = folders();
    assert_eq!(here.read_text("x", LIMIT).unwrap(), None);
    assert!(here.link("x", b"one").unwrap() && !here.link("x", b"two").unwrap());
    here.append("x").unwrap().write_all(b" more").unwrap();
    assert_eq!(here.read_text("x", LIMIT).unwrap().unwrap(), "one more");
    here.replace("y", |mut file| Ok(file.write_all(&[b'y'; 101])?)).unwrap();
    let said = format!("{:#}", here.read("y", LIMIT).unwrap_err());
    assert!(said.contains("has 101 bytes, more than the 100 bytes that a note may have"), "{said}");
    assert!(here.replace("z", |_| bail!("not now")).is_err());
    let below = here.create_folder("below").unwrap();
    drop(below.create_new("file").unwrap());
    let mut names = here.list().unwrap();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    let shown: Vec<_> = names.iter().map(|e| (e.name.to_str().unwrap(), e.is_folder())).collect();
    assert_eq!(shown, [("below", true), ("x", false), ("y", false)]);
    assert!(!here.remove_empty_folder("below").unwrap(), "it holds a file");
    assert!(below.remove("file").unwrap() && here.remove_empty_folder("below").unwrap());
    assert!(here.folder("below").unwrap().is_none());
    for name in ["", ".", "..", "a/b", "/etc", "a\0b"] {
        assert!(here.look(name).is_err() && here.create_new(name).is_err(), "{name:?}");
    }
}

#[test]
fn the_last_name_of_a_path_is_not_followed() {
    let (all, here) = folders();
    put(&all, "link");
    let path = all.path().join("here/x");
    let (folder, name) = HeldFolder::above(&path).unwrap();
    assert!(folder.read(name, LIMIT).is_err() && here.look("x").unwrap().is_some());
    folder.replace(name, |_| Ok(())).unwrap();
    assert_eq!(fs::read_to_string(all.path().join("precious")).unwrap(), "precious");
    assert!(HeldFolder::above(&all.path().join("nowhere/x")).is_err());
}

#[test]
fn of_writers_at_the_same_time_one_links() {
    let (_all, here) = folders();
    let made = std::thread::scope(|scope| {
        let link = |n: u8| here.link("x", &[n]).unwrap();
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || link(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!((made, here.list().unwrap().len()), (1, 1));
}

#[test]
fn links_on_a_path_are_followed_if_they_are_ours() {
    let (all, here) = folders();
    drop(here.create_new("x").unwrap());
    symlink("here", all.path().join("there")).unwrap();
    symlink(all.path().join("there"), all.path().join("far")).unwrap();
    symlink("loop", all.path().join("loop")).unwrap();
    let opened = |name: &str| HeldFolder::open(&all.path().join(name));
    for name in ["here", "there", "far", "here/../far/.", "here/"] {
        assert!(opened(name).unwrap().look("x").unwrap().is_some(), "{name}");
    }
    assert!(opened("nowhere").is_err() && opened("here/x").is_err() && opened("loop").is_err());
    assert!(HeldFolder::open_if_there(&all.path().join("no/where")).unwrap().is_none());
    let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&here.held));
    assert!(HeldFolder::open(Path::new(&held)).unwrap().look("x").unwrap().is_some());
    if crate::paths::user() != 0 {
        return eprintln!("skipped: only root may give a link away");
    }
    std::os::unix::fs::lchown(all.path().join("there"), Some(64_321), None).unwrap();
    let said = format!("{:#}", opened("far").unwrap_err());
    assert!(said.contains("of user 64321") && said.contains("it leads to here"), "{said}");
    assert!(HeldFolder::create(&all.path().join("there/new")).is_err());
    assert_eq!(here.list().unwrap().len(), 1);
}

/// Two hundred writes and reads while another thread puts links, pipes and folders in the place of the file.
#[test]
fn swaps_at_any_instant_touch_nothing_outside() {
    let (all, here) = folders();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = all.path().join("here/x");
            for (thing, _) in THINGS.iter().cycle().filter(|(thing, _)| *thing != "two names") {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
                let made = all.path().join("here/made");
                match *thing {
                    "link" | "dangling" => symlink(all.path().join("precious"), &made).unwrap(),
                    "folder" => fs::create_dir(&made).unwrap(),
                    "pipe" => mkfifoat(CWD, &made, Mode::RWXU).unwrap(),
                    _ => symlink(all.path(), &made).unwrap(),
                }
                if fs::rename(&made, &path).is_err() {
                    let _ = fs::remove_file(&made).or_else(|_| fs::remove_dir(&made));
                }
            }
        });
        for _ in 0..200 {
            let _ = here.replace("x", |mut file| Ok(file.write_all(b"new")?));
            if let Ok(mut file) = here.append("x") {
                let _ = file.write_all(b"more");
            }
            if let Ok(Some(file)) = here.open_to_change("x") {
                let _ = file.set_len(0);
            }
            let read = here.read("x", LIMIT).ok().flatten().unwrap_or_default();
            assert!(!read.starts_with(b"precious"));
            if let Ok(Some(folder)) = here.folder("x") {
                assert!(folder.look("precious").unwrap().is_none());
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(all.path().join("precious")).unwrap(), "precious");
    assert!(!all.path().join("nothing").exists());
}
