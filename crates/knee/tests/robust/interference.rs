//! Folders that others may write to: whatever takes the place of a file there, no verb waits for it, reads it as
//! its own or writes where it leads, and the message names it.
//!
//! KNEE_SWAPS=1000 puts that many more things in the place of files while verbs run, as another user.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};

use crate::home::{Ended, Home, entries};
use crate::random::{choices, times};
use crate::serving::{Server, status};
use crate::skip::{is_root, skip};

/// Some run, by which a record is made.
const RUN: &str = "run getppid --cpus 1 --blocks 1 --seconds 0.01";

/// A verb that has not ended by then waits for something.
const LIMIT: Duration = Duration::from_secs(60);

/// A user that nobody is.
const STRANGER: u32 = 64_321;

/// What can take the place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    /// To a right file of the same name elsewhere, which is never read.
    Link,
    LinkToFolder,
    Pipe,
    Device,
    Socket,
    Folder,
    /// A sparse file of 8 TiB.
    Long,
}

const THINGS: [Thing; 7] = [
    Thing::Link,
    Thing::LinkToFolder,
    Thing::Pipe,
    Thing::Device,
    Thing::Socket,
    Thing::Folder,
    Thing::Long,
];

impl Thing {
    /// Puts it at a path. `elsewhere` is a folder with a right file of the same name.
    fn put(self, path: &Path, elsewhere: &Path) {
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
        match self {
            Thing::Link => symlink(elsewhere.join(path.file_name().unwrap()), path).unwrap(),
            Thing::LinkToFolder => symlink(elsewhere, path).unwrap(),
            Thing::Pipe => make_node(path, libc::S_IFIFO).unwrap(),
            Thing::Device => make_node(path, libc::S_IFCHR).unwrap(),
            // A socket's path is short.
            Thing::Socket => {
                let short = tempfile::tempdir().unwrap();
                drop(UnixListener::bind(short.path().join("s")).unwrap());
                let moved = fs::rename(short.path().join("s"), path);
                moved.unwrap_or_else(|_| drop(UnixListener::bind(path).unwrap()));
            }
            Thing::Folder => fs::create_dir(path).unwrap(),
            Thing::Long => File::create(path).unwrap().set_len(8 << 40).unwrap_or_else(|_| {
                // tmpfs and ext4 have limits of their own.
                File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
            }),
        }
    }
}

/// A pipe, or /dev/zero.
fn make_node(path: &Path, kind: libc::mode_t) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a live C string.
    match unsafe { libc::mknod(path.as_ptr(), kind | 0o600, libc::makedev(1, 5)) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn things() -> impl Iterator<Item = Thing> {
    THINGS.into_iter().filter(|thing| *thing != Thing::Device || is_root())
}

/// A store with two records, in `records`, and the same elsewhere.
fn two_records(home: &Home) -> Vec<PathBuf> {
    for _ in 0..2 {
        assert!(home.run(RUN).status.success(), "{}", home.said("stderr"));
    }
    let folders = home.records().into_iter().map(|record| record.folder).collect();
    copy(&home.path("records"), &home.path("elsewhere"));
    folders
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("starting cp").success());
}

/// Runs a verb to its end, which is no signal and no panic.
#[track_caller]
fn ends(home: &Home, case: &str, arguments: &str) -> Ended {
    let ended = home.start(&mut home.knee(arguments)).end_within(LIMIT);
    assert!(ended.status.code().is_some(), "{case}, {arguments}: {}", ended.status);
    assert!(!ended.stderr.contains("panicked"), "{case}, {arguments}: {}", ended.stderr);
    ended
}

/// What everything below a folder is: its inode, mode, links and times as text, and its contents.
fn state(folder: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for path in entries(folder) {
        let found = fs::symlink_metadata(&path).unwrap();
        let text = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let is = [found.ino(), u64::from(found.mode()), found.nlink(), found.len()];
        let is = format!("{is:?} {} {}", found.mtime(), found.mtime_nsec());
        if found.is_dir() {
            all.extend(state(&path));
        }
        all.insert(path, (is, text));
    }
    all
}

#[test]
fn what_takes_the_place_of_a_records_file_is_named_and_not_followed() {
    let home = Home::new();
    let folders = two_records(&home);
    let [bad, good] = &folders[..] else { panic!("two records") };
    let id = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_string();
    let elsewhere = home.path("elsewhere").join(bad.strip_prefix(home.path("records")).unwrap());
    let before = state(&home.path("elsewhere"));
    copy(&home.path("records"), &home.path("pristine"));
    // The verbs that read a file name it; others pass it over.
    let verbs = [
        ("show BAD", &["record.json", "runs.ndjson"][..]),
        ("list records", &["record.json"]),
        ("show GOOD", &[]),
        ("record export BAD --format csv", &["record.json", "runs.ndjson"]),
        ("compare BAD GOOD", &["record.json", "runs.ndjson"]),
        ("record note BAD mine", &["record.json"]),
        (&format!("{RUN} --resume"), &[]),
        ("record rm BAD --yes", &["record.json"]),
        ("record prune --keep 0 --yes", &[]),
    ];
    for thing in things() {
        for file in ["record.json", "runs.ndjson", "samples.parquet", "looks.ndjson"] {
            for (verb, naming) in &verbs {
                fs::remove_dir_all(home.path("records")).unwrap();
                copy(&home.path("pristine"), &home.path("records"));
                // It knows records that were read before.
                let _ = fs::remove_dir_all(home.path("cache/knee"));
                thing.put(&bad.join(file), &elsewhere);
                let case = format!("{thing:?} as {file}");
                let verb = verb.replace("BAD", &bad.display().to_string());
                let verb = verb.replace("GOOD", &good.display().to_string());
                let ended = ends(&home, &case, &verb);
                let said = format!("{}{}", ended.stdout, ended.stderr);
                let joined = said.split_whitespace().collect::<String>();
                // A file too long to read is removed like any other.
                if naming.contains(&file)
                    && !(verb.starts_with("record rm") && thing == Thing::Long)
                {
                    assert!(joined.contains(file), "{case}, {verb}: {said}");
                }
                if verb.starts_with("list records") {
                    assert!(ended.status.success() && said.contains(&id(good)), "{case}: {said}");
                }
            }
        }
    }
    assert!(before == state(&home.path("elsewhere")), "what lies elsewhere was touched");
}

#[test]
fn a_shard_or_record_that_is_a_link_is_not_entered() {
    let home = Home::new();
    let folders = two_records(&home);
    let before = state(&home.path("elsewhere"));
    let shard = folders[0].parent().unwrap().to_path_buf();
    let elsewhere = home.path("elsewhere").join(shard.file_name().unwrap());
    for path in [folders[0].clone(), shard] {
        let target = if path == folders[0] {
            elsewhere.join(path.file_name().unwrap())
        } else {
            elsewhere.clone()
        };
        fs::remove_dir_all(&path).unwrap();
        symlink(target, &path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let listed = ends(&home, "a link", "list records");
        assert!(listed.stdout.contains(&format!("{name}  damaged")), "{}", listed.stdout);
        for verb in
            ["record prune --keep 0 --yes", "record rm LINK --yes", "record note LINK mine", RUN]
        {
            ends(&home, "a link", &verb.replace("LINK", &folders[0].display().to_string()));
            assert!(before == state(&home.path("elsewhere")), "{verb} went through {name}");
        }
    }
}

#[test]
fn what_takes_the_place_of_a_fleets_file_is_named_and_not_followed() {
    let home = Home::new();
    let planned = home.run("fleet plan getppid --cpus 1 --blocks 1 --seconds 0.01 pristine");
    assert!(planned.status.success(), "{}", planned.stderr);
    copy(&home.path("pristine"), &home.path("done"));
    let measured = home.run("fleet chunk done");
    assert!(measured.status.success(), "{}", measured.stderr);
    let before = state(&home.path("done"));
    // A file, and the verbs that read it.
    let files = [
        ("plan.json", &["fleet chunk", "fleet status", "fleet collect", "fleet chunk --check"][..]),
        ("claims/0000.1", &["fleet chunk", "fleet status"]),
        ("claims", &["fleet chunk", "fleet status"]),
        ("claims/0000.4294967295", &["fleet chunk", "fleet status"]),
        ("done/0000", &["fleet collect"]),
        ("done", &["fleet collect", "fleet status"]),
        ("beats/0000.1", &[]),
        ("records", &["fleet chunk"]),
        ("hosts/other.json", &["fleet status"]),
        ("slurm-jobs", &["fleet status"]),
    ];
    for thing in things() {
        for (file, naming) in files {
            for verb in ["fleet chunk --check", "fleet status", "fleet collect", "fleet chunk"] {
                let _ = fs::remove_dir_all(home.path("fleet"));
                copy(&home.path("pristine"), &home.path("fleet"));
                let (path, right) = (home.path("fleet").join(file), home.path("done").join(file));
                if thing == Thing::Folder && path.is_dir() {
                    continue;
                }
                thing.put(&path, right.parent().unwrap());
                let case = format!("{thing:?} as {file}");
                let ended = ends(&home, &case, &format!("{verb} fleet"));
                let said = format!("{}{}", ended.stdout, ended.stderr);
                let joined = said.split_whitespace().collect::<String>();
                let name = file.trim_end_matches(".json");
                if naming.contains(&verb) {
                    assert!(joined.contains(name), "{case}, {verb}: {said}");
                    let is_shown = verb == "fleet status" && said.contains("0 of 1 chunk done");
                    assert!(is_shown || !ended.status.success(), "{case}, {verb}: {said}");
                }
            }
        }
    }
    assert!(before == state(&home.path("done")), "what lies elsewhere was touched");
}

#[test]
fn a_signal_ends_a_member_that_waits() {
    let home = Home::new();
    let planned = "fleet plan getppid --cpus 1 --blocks 1 --seconds 0.01 --lease 3000s fleet";
    assert!(home.run(planned).status.success(), "{}", home.said("stderr"));
    let claim = r#"{"owner":{"host":"far","boot_id":"x","pid_namespace":"y","pid":1,"started_ticks":1},
                    "plan":"","keeps":{}}"#;
    fs::write(home.path("fleet/claims/0000.1"), claim).unwrap();
    let waiting = home.start(&mut home.knee("fleet chunk fleet"));
    crate::process::wait_for("the hint", || home.said("stderr").contains("waiting").then_some(()));
    waiting.signal(libc::SIGTERM);
    let ended = waiting.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
}

/// Becomes the stranger in this thread alone.
fn become_stranger() {
    let id = STRANGER as libc::c_long;
    // SAFETY: plain system calls. The C library would change all threads; the kernel changes the calling one.
    let ids = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()),
            libc::syscall(libc::SYS_setresgid, id, id, id),
            libc::syscall(libc::SYS_setresuid, id, id, id),
        ]
    };
    assert_eq!(ids, [0; 3], "becoming another user");
}

/// Everything below a folder, that others may see, and no further down than files of a record.
fn below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if depth > 0 && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            below(&path, depth - 1, found);
        }
        found.push(path);
    }
}

/// A folder of the stranger's with a fleet, and with a store that has records of root's.
fn give_to_stranger(home: &Home) -> PathBuf {
    fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    two_records(home);
    let shared = home.path("shared");
    fs::create_dir(&shared).unwrap();
    copy(&home.path("elsewhere"), &shared.join("records"));
    let planned =
        home.run("fleet plan getppid --cpus 1 --blocks 8 --seconds 0.01 shared/fleet --chunk 1s");
    assert!(planned.status.success(), "{}", planned.stderr);
    let mut all = vec![shared.clone()];
    below(&shared, 1, &mut all);
    for path in all.iter().filter(|path| path.exists()) {
        chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    for path in entries(&shared.join("records")) {
        chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    for path in entries(&shared.join("fleet")).iter().flat_map(|folder| entries(folder)) {
        chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    shared
}

/// Moves something of `shared` aside, and puts something else in its place for a moment. Returns whether it did.
fn swap(shared: &Path, precious: &[PathBuf], random: &mut impl Rng) -> bool {
    let mut found = Vec::new();
    below(shared, 3, &mut found);
    let path = &found[random.random_range(0..found.len())];
    let aside = shared.join(format!("aside-{}", random.random::<u32>()));
    let moved = fs::rename(path, &aside).is_ok();
    let target = &precious[random.random_range(0..precious.len())];
    let put = match random.random_range(0..6) {
        0..3 => symlink(target, path).is_ok(),
        3 => fs::hard_link(target, path).is_ok(),
        4 => make_node(path, libc::S_IFIFO).is_ok(),
        _ => symlink("/dev/zero", path).is_ok(),
    };
    thread::sleep(Duration::from_micros(random.random_range(0..3000)));
    if moved {
        let _ = fs::remove_file(path);
        let _ = fs::rename(&aside, path);
    }
    put
}

/// Verbs that root runs in folders of a stranger's, who swaps.
const VERBS: [&str; 10] = [
    "fleet chunk --yes shared/fleet",
    "fleet status shared/fleet",
    "fleet collect shared/fleet --partial",
    "run getppid --cpus 1 --blocks 2 --seconds 0.01 --records shared/records",
    "run getppid --cpus 1 --blocks 2 --seconds 0.01 --records shared/records --resume --yes",
    "list records --records shared/records",
    "show last --records shared/records",
    "record export last --records shared/records --format csv",
    "record prune --keep 2 --yes --records shared/records",
    "record rm last --yes --records shared/records",
];

/// How many swaps, unless KNEE_SWAPS says otherwise.
const SWAPS: u64 = 40;

#[test]
fn swaps_at_any_instant_touch_no_file_of_others() {
    if !is_root() {
        return skip("swaps", "only root may be another user");
    }
    let mut random = choices("swaps_at_any_instant_touch_no_file_of_others");
    let wanted = times("KNEE_SWAPS", SWAPS);
    let home = Home::new();
    let shared = give_to_stranger(&home);
    let precious = home.path("precious");
    fs::create_dir(&precious).unwrap();
    copy(&home.path("elsewhere"), &precious.join("records"));
    for name in ["record.json", "runs.ndjson", "0000", "0000.1", "plan.json", "slurm-jobs"] {
        fs::write(precious.join(name), "precious").unwrap();
        fs::set_permissions(precious.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let mut targets = Vec::new();
    below(&precious, 3, &mut targets);
    let before = state(&precious);
    let server = Server::start_as(&home, "serve --port 0 --records shared/records");
    let pages = home
        .records()
        .into_iter()
        .map(|record| format!("/records/{}", record.folder.file_name().unwrap().to_str().unwrap()));
    let pages: Vec<String> = pages.chain(["/".to_string()]).collect();
    let (swaps, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut swapper = rand_xoshiro::Xoshiro256PlusPlus::from_rng(&mut random);
    thread::scope(|scope| {
        scope.spawn(|| {
            become_stranger();
            while !is_over.load(Ordering::Relaxed) {
                swaps
                    .fetch_add(u64::from(swap(&shared, &targets, &mut swapper)), Ordering::Relaxed);
            }
        });
        let mut verbs = 0;
        while verbs < VERBS.len() || swaps.load(Ordering::Relaxed) < wanted {
            let verb = VERBS
                [if verbs < VERBS.len() { verbs } else { random.random_range(0..VERBS.len()) }];
            let ended = home.start(&mut home.knee(verb)).end_within(LIMIT);
            assert!(ended.status.code().is_some(), "{verb}: {}", ended.status);
            assert!(!ended.stderr.contains("panicked"), "{verb}: {}", ended.stderr);
            let page = &pages[verbs % pages.len()];
            let answer = server.get(page);
            assert!(["200", "404", "500"].contains(&status(&answer)), "{page}: {answer}");
            verbs += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{} swaps during {verbs} verbs", swaps.load(Ordering::Relaxed));
    });
    assert!(before == state(&precious), "files of others were touched");
}
