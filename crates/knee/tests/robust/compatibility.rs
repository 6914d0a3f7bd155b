//! What earlier versions of knee wrote is read for ever: a folder of `tests/compatibility` for each version, with a record, a
//! bisection, a line, what `knee explain --save` kept, and a fleet.
//!
//! When a version is released, its folder is made by these commands, in a repository p of five commits of which the third
//! prints `cost: 130` instead of 100:
//!
//!     knee run posix_lock_shared --variant wait= --variant try=mode=try --cpus 1 --seconds 0.02 --blocks 4 --label golden
//!     knee bisect --git p --good main~4 --bad main --value 'cost: {}' --command 'sh bench.sh' --no-confirm
//!     knee watch init line.toml --git p --command 'sh bench.sh' --value 'cost: {}'; knee watch add line.toml main~1 main
//!     sleep 30 & knee explain --pid $! --without-bpf --seconds 2 --save idle.live
//!     knee fleet plan getppid fleet --cpus 1 --blocks 2; knee fleet chunk fleet

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{Home, entries};

/// The versions whose files are kept here, the newest last.
const VERSIONS: [&str; 1] = ["0.1.0"];

/// Verbs that read them, and what each says.
const READERS: [(&str, &str); 11] = [
    ("list", "golden: posix_lock_shared"),
    ("show golden", "posix_lock_shared mode=try"),
    ("show golden --counters --time", "time.user_time"),
    ("compare wait try", "posix_lock_shared, processes"),
    ("report golden --view markdown", "wait → try"),
    ("record export golden --format csv", "operations_per_s"),
    ("bisect log last", "git bisect start"),
    ("report --bisection last --view markdown", "is where value changed"),
    ("watch show line.toml", "2 points"),
    ("explain idle.live", "Nothing holds it back"),
    ("fleet status fleet", "1 of 1 chunk done"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compatibility")
}

#[test]
fn files_of_every_version_are_read() {
    for version in VERSIONS {
        let home = Home::new();
        std::fs::remove_dir(home.path("records")).unwrap();
        for entry in entries(&folder().join(version)) {
            let copied = Command::new("cp").arg("-r").arg(&entry).arg(home.path("")).status();
            assert!(copied.expect("starting cp").success());
        }
        for (verb, expected) in READERS {
            let ended = home.run(verb);
            assert_eq!(ended.status.code(), Some(0), "{version}: knee {verb}: {}", ended.stderr);
            let said = ended.stdout + &ended.stderr;
            assert!(said.contains(expected), "{version}: knee {verb}: {said}");
        }
    }
}

#[test]
fn each_folder_is_listed_and_this_version_has_one() {
    let folders = entries(&folder());
    let names: Vec<String> = folders
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, VERSIONS, "VERSIONS lists the folders of tests/compatibility");
    assert_eq!(VERSIONS.last(), Some(&env!("CARGO_PKG_VERSION")), "a new version has its folder");
}
