//! knee may be root on a machine that others use too: what they put where it keeps its own
//! is not believed, does not make it wait, and is not removed.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::{Ended, Home, entries};
use crate::skip::{is_root, skip};

/// Some run.
const RUN: &str = "run getppid --cpus 1 --blocks 1 --seconds 0.01";

/// A user that nobody is.
const STRANGER: u32 = 64_321;

/// Where journals lie.
fn journals(home: &Home) -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let folder = home.path("state/knee").join(host.trim());
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

/// Lets a dead knee have left a journal with these entries.
fn leave(home: &Home, entries: &[&[u8]]) -> PathBuf {
    let path = journals(home).join("0123456789abcdef.journal");
    fs::write(&path, entries.iter().flat_map(|e| [*e, b"\0"].concat()).collect::<Vec<_>>())
        .unwrap();
    path
}

/// A directory with a file in it where knee measures, and what a journal says of it.
fn scratch(home: &Home, name: &[u8]) -> (PathBuf, String) {
    let path = home.path("measured").join(OsStr::from_bytes(name));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "x").unwrap();
    let found = fs::metadata(&path).unwrap();
    (path, format!("{} {}", found.dev(), found.ino()))
}

#[track_caller]
fn check_runs(home: &Home) -> Ended {
    let ended = home.run(RUN);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended
}

#[test]
fn what_a_killed_knee_made_is_removed_whatever_its_name() {
    for name in [&b".knee-1"[..], b".knee-a\nb", b".knee-\xff\xfe"] {
        let home = Home::new();
        let (path, made) = scratch(&home, name);
        leave(&home, &[path.as_os_str().as_bytes(), made.as_bytes()]);
        let ended = check_runs(&home);
        assert!(ended.stderr.contains("left by a knee that was killed"), "{}", ended.stderr);
        home.check_nothing_is_left();
    }
}

#[test]
fn a_directory_that_was_not_made_is_not_removed() {
    let home = Home::new();
    let (path, made) = scratch(&home, b".knee-1");
    let named = path.as_os_str().as_bytes();
    let stays = |what: &str| {
        check_runs(&home);
        assert!(path.join("file").exists(), "{what} was removed");
        assert_eq!(entries(&journals(&home)), [] as [PathBuf; 0]);
    };
    leave(&home, &[named, b"1 2"]);
    stays("another directory");
    leave(&home, &[named]);
    stays("a directory that knee cannot have made, as it is full");
    let elsewhere = home.path("measured/mine");
    fs::rename(&path, &elsewhere).unwrap();
    leave(&home, &[elsewhere.as_os_str().as_bytes(), made.as_bytes()]);
    check_runs(&home);
    assert!(elsewhere.join("file").exists(), "a directory with a name of somebody's own");
    symlink(&elsewhere, &path).unwrap();
    leave(&home, &[named, made.as_bytes()]);
    stays("what a link names");
}

#[test]
fn a_directory_that_was_just_made_is_removed() {
    let home = Home::new();
    let path = home.path("measured/.knee-1");
    fs::create_dir(&path).unwrap();
    // Killed while it wrote what it had made.
    let journal = leave(&home, &[path.as_os_str().as_bytes()]);
    fs::write(&journal, [fs::read(&journal).unwrap(), b"12".to_vec()].concat()).unwrap();
    check_runs(&home);
    home.check_nothing_is_left();
}

#[test]
fn a_directory_that_is_out_of_sight_is_not_forgotten() {
    let home = Home::new();
    let path = home.path("unmounted/.knee-1");
    let journal = leave(&home, &[path.as_os_str().as_bytes(), b"1 2"]);
    check_runs(&home);
    assert!(journal.exists(), "the journal of what may come back");
    fs::create_dir(path.parent().unwrap()).unwrap();
    check_runs(&home);
    assert!(!journal.exists(), "the journal of what is gone");
}

#[test]
fn pipes_and_links_among_the_journals_are_left_alone() {
    let home = Home::new();
    let (path, made) = scratch(&home, b".knee-1");
    let folder = journals(&home);
    let pipe = CString::new(folder.join("x.journal").as_os_str().as_bytes()).unwrap();
    // SAFETY: a live C string.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let text = [path.as_os_str().as_bytes(), b"\0", made.as_bytes(), b"\0"].concat();
    fs::write(home.path("elsewhere"), text).unwrap();
    symlink(home.path("elsewhere"), folder.join("y.journal")).unwrap();
    symlink(home.path("victim"), folder.join("z.journal")).unwrap();
    check_runs(&home);
    assert!(path.exists() && !home.path("victim").exists());
    assert_eq!(entries(&folder).len(), 3);
}

#[test]
fn journals_where_others_may_write_are_refused() {
    let home = Home::new();
    fs::set_permissions(journals(&home), Permissions::from_mode(0o777)).unwrap();
    let ended = home.run(RUN);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    for part in ["set XDG_STATE_HOME", "others may write", "chmod go-w"] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
}

#[test]
fn journals_of_others_name_nothing_to_remove() {
    if !is_root() {
        return skip("journals of others", "only root may give files away");
    }
    let home = Home::new();
    let (path, made) = scratch(&home, b".knee-1");
    let journal = leave(&home, &[path.as_os_str().as_bytes(), made.as_bytes()]);
    chown(&journal, Some(STRANGER), None).unwrap();
    check_runs(&home);
    assert!(path.exists() && journal.exists());
    chown(&journal, Some(0), None).unwrap();
    chown(&path, Some(STRANGER), None).unwrap();
    check_runs(&home);
    assert!(path.exists(), "a directory of others");
    chown(journals(&home), Some(STRANGER), None).unwrap();
    let ended = home.run(RUN);
    assert!(ended.stderr.contains("belongs to user 64321"), "{}", ended.stderr);
}

/// A home in which a user that nobody is may do all, and `knee` there as that user.
fn of_stranger(home: &Home, arguments: &str) -> Command {
    for name in ["", "records", "state", "cache", "measured"] {
        fs::set_permissions(home.path(name), Permissions::from_mode(0o1777)).unwrap();
    }
    if !home.path("knee").exists() {
        home.copy_knee();
    }
    let mut command = Command::new(home.path("knee"));
    command.args(arguments.split(' '));
    home.move_in(&mut command);
    command.uid(STRANGER);
    command
}

#[test]
fn without_a_home_the_temporary_one_must_be_our_own() {
    if !is_root() {
        return skip("no home", "only root may be another user");
    }
    let home = Home::new();
    let mut command = of_stranger(&home, RUN);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let temporary = home.path("measured/knee-64321");
    fs::create_dir(&temporary).unwrap();
    let refused = |command: &mut Command, part: &str| {
        let ended = home.start(command).end();
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        for part in [part, "XDG_STATE_HOME", "--records"] {
            assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        }
    };
    fs::set_permissions(&temporary, Permissions::from_mode(0o777)).unwrap();
    refused(&mut command, "others may write");
    chown(&temporary, Some(STRANGER - 1), None).unwrap();
    refused(&mut command, "belongs to user 64320");
    fs::remove_dir(&temporary).unwrap();
    symlink(home.path("records"), &temporary).unwrap();
    refused(&mut command, "is not a directory");
    fs::remove_file(&temporary).unwrap();
    let ended = home.start(&mut command).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(fs::metadata(&temporary).unwrap().mode() & 0o777, 0o700);
}

/// A directory of others with the names that runs use.
fn precious(home: &Home) -> PathBuf {
    let victim = home.path("victim");
    for run in 0..30 {
        let task = victim.join(format!("{run}/task-0000"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("file"), "precious").unwrap();
    }
    victim
}

#[track_caller]
fn check_untouched(victim: &Path) {
    assert_eq!(fs::read_dir(victim).unwrap().count(), 30);
    for run in 0..30 {
        let file = victim.join(format!("{run}/task-0000/file"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious", "{}", file.display());
    }
}

#[test]
fn where_others_can_rename_knee_does_not_run() {
    let home = Home::new();
    let victim = precious(&home);
    let refused = |who: &str| {
        let ended = home.run(RUN);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        let why = format!("{who} can rename in {}", home.path("measured").display());
        assert!(ended.stderr.contains(&why), "no '{why}' in:\n{}", ended.stderr);
        assert_eq!(entries(&home.path("measured")), Vec::<PathBuf>::new());
    };
    fs::set_permissions(home.path("measured"), Permissions::from_mode(0o777)).unwrap();
    refused("every user");
    fs::set_permissions(home.path("measured"), Permissions::from_mode(0o1777)).unwrap();
    check_runs(&home);
    if !is_root() {
        return skip("directories of another user", "only root may give one away");
    }
    chown(home.path("measured"), Some(STRANGER), None).unwrap();
    refused("user 64321");
    check_untouched(&victim);
}

#[test]
fn where_only_owners_can_rename_a_thousand_attacks_change_nothing() {
    if !is_root() {
        return skip("attacks", "only root may start another user's process");
    }
    let home = Home::new();
    let victim = precious(&home);
    fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.path("measured"), Permissions::from_mode(0o1777)).unwrap();
    let script = "for i in $(seq 1000); do \
                      for d in .knee-*; do mv $d moved && ln -s \"$0\" $d; done; \
                  done 2> /dev/null; true";
    let mut attacker = Command::new("sh");
    attacker.args(["-c", script]).arg(&victim).uid(STRANGER).current_dir(home.path("measured"));
    let mut attacker = attacker.spawn().unwrap();
    while attacker.try_wait().unwrap().is_none() {
        let ended = home.run("run create_files --cpus 1 --blocks 25 --operations 5");
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
    check_untouched(&victim);
}

/// Lets a binary be started with a privilege that its user does not have.
fn grant(path: &Path) -> std::io::Result<()> {
    // struct vfs_cap_data of linux/capability.h: revision 2, effective; CAP_SYS_NICE permitted.
    let words = [0x0200_0001_u32, 1 << 23, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = CString::new(OsString::from(path).into_vec())?;
    let name = c"security.capability";
    // SAFETY: live C strings, and a live buffer with its length.
    match unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn the_worker_of_a_privileged_binary_dies_with_knee() {
    if !is_root() {
        return skip("a privileged binary", "only root may grant privileges");
    }
    let home = Home::new();
    // Named, as a privileged process is not told of TMPDIR.
    let arguments = "run getppid --cpus 1 --tasks 2 --seconds 600 --dir measured";
    let mut command = of_stranger(&home, arguments);
    if let Err(why) = grant(&home.path("knee")) {
        return skip("a privileged binary", &why.to_string());
    }
    let running = home.start(&mut command);
    running.wait_for_tasks(2, 2);
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
}

#[test]
fn a_worker_whose_parent_is_gone_does_nothing() {
    let home = Home::new();
    let ended = home.run("worker --parent 1");
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
}
