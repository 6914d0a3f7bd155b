//! Faults of the file systems that knee makes: what strikes one run's fails that run and no
//! other, and hosts that cannot make one are refused before anything is touched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use records::{Outcome, RecordState, Run};

use crate::file_systems::{check_nothing_is_left, check_refused, check_status, kinds, loops};
use crate::home::{Ended, Home};
use crate::process::wait_for;
use crate::skip::{is_root, skip};

/// A run that is struck while its tasks work, then another one of the same: the first failed,
/// by what its tasks were told, by what could not be written, or by its check; the second did
/// not.
#[track_caller]
fn check_struck(home: &Home, arguments: &str, strike: impl FnOnce(), heal: impl FnOnce()) {
    let command = format!("run {arguments} --cpus 1 --tasks 2 --blocks 2 --seed 1 --json");
    let mut running = home.start(&mut home.knee(&command));
    let cast = running.wait_for_tasks(2, 1);
    // The run does not end before it is struck, however long that takes on a busy host.
    cast.worker.kill(libc::SIGSTOP);
    strike();
    cast.worker.kill(libc::SIGCONT);
    running.wait_for_runs(1);
    heal();
    let ended = running.end();
    check_status(&ended, 1);
    let record = home.record();
    assert_eq!(record.record.state, RecordState::Whole);
    let reasons: Vec<Option<&str>> = record.runs.iter().map(reason).collect();
    println!("{arguments}: {reasons:?}");
    assert!(matches!(reasons[..], [Some(_), None]), "{arguments}: {reasons:?}");
}

fn reason(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Failed { reason } => Some(reason),
        Outcome::Finished { .. } => None,
    }
}

/// The image of the run under way.
fn image(directory: &Path) -> PathBuf {
    let made = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path().join("image-0"));
    made.into_iter().find(|image| image.exists()).expect("an image is there")
}

fn can_make(kind: &str, test: &str) -> Option<&'static str> {
    kinds(test).into_iter().find(|(name, _)| *name == kind).map(|(_, size)| size)
}

#[test]
fn an_image_that_is_cut_off_under_a_run_fails_it_and_no_other() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(_) = can_make(kind, "an image cut off") else { continue };
        let home = Home::new();
        let measured = home.path("measured");
        let cut = || {
            let image = File::options().write(true).open(image(&measured)).unwrap();
            image.set_len(1 << 20).unwrap();
        };
        check_struck(
            &home,
            // Inodes enough for a fast host.
            &format!("create_files --seconds 1.5 --fs {kind} --size 4G"),
            cut,
            || (),
        );
        check_nothing_is_left(&home);
    }
}

/// A tmpfs of the test's own.
struct Memory(PathBuf);

impl Memory {
    fn new(home: &Home, size: &str) -> Memory {
        let path = home.path("memory");
        fs::create_dir(&path).unwrap();
        let options = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "memory-of-a-test"])
            .arg(&path)
            .status();
        assert!(status.unwrap().success());
        Memory(path)
    }

    fn resize(&self, size: &str) -> bool {
        let options = format!("remount,size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-o", &options]).arg(&self.0).stderr(Stdio::null());
        mount.status().unwrap().success()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn no_room_below_a_sparse_image_fails_its_run_and_no_other() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(_) = can_make(kind, "a full disk below an image") else { continue };
        let home = Home::new();
        let memory = Memory::new(&home, "600M");
        // At once: to write that much could take longer than the run. What is in use grows meanwhile.
        let fill = || {
            let is_full = || {
                let used = fs::metadata(image(&memory.0)).unwrap().blocks() * 512;
                memory.resize(&(used + (64 << 10)).to_string()).then_some(())
            };
            wait_for("a full tmpfs", is_full);
        };
        let heal = || assert!(memory.resize("600M"));
        // Paced, so that no host is fast enough to fill it by itself: 60 MB a task at most.
        let pace = "--set size_bytes=4k --set idle_ns=100000";
        let load = format!("create_files {pace} --set sync=fdatasync --seconds 1.5");
        let arguments = format!("{load} --fs {kind} --size 2G --dir {}", memory.0.display());
        check_struck(&home, &arguments, fill, heal);
        let record = home.record();
        assert!(
            record.record.warnings.iter().any(|warning| warning.text.contains("MiB free in")),
            "a sparse image that may not fit is a warning"
        );
        assert!(fs::read_dir(&memory.0).unwrap().next().is_none(), "nothing lies there");
        drop(memory);
        assert_eq!(loops(&home), BTreeSet::new());
    }
}

/// knee in a mount namespace in which this shell command was done before.
fn knee_where(home: &Home, before: &str, arguments: &str) -> Ended {
    let mut command = Command::new("unshare");
    let script = format!("{before} && exec \"$0\" \"$@\"");
    command.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_knee")]);
    command.args(arguments.split_whitespace());
    home.move_in(&mut command);
    home.start(&mut command).end()
}

#[track_caller]
fn check_refused_where(before: &str, arguments: &str, parts: &[&str]) {
    let home = Home::new();
    let ended = knee_where(&home, before, &format!("run create_files --cpus 1 --json {arguments}"));
    check_status(&ended, 2);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    check_nothing_is_left(&home);
}

#[test]
fn a_host_that_cannot_make_file_systems_is_refused_with_what_to_do() {
    if !is_root() {
        return skip("hosts that cannot make file systems", "only root may hide what they have");
    }
    let hide = |program: &str| {
        format!("for f in $(which -a {program}); do mount --bind /dev/null $f; done")
    };
    if can_make("xfs", "a program that is missing").is_some() {
        let wanted = ["mkfs.xfs is not installed", "apt install xfsprogs"];
        check_refused_where(&hide("mkfs.xfs"), "--fs xfs --size 300M", &wanted);
        // What checks it is asked for before anything is made, too.
        check_refused_where(
            &hide("xfs_repair"),
            "--fs xfs --size 300M",
            &["xfs_repair is not installed"],
        );
    }
    if can_make("ext4", "a loop driver that is missing").is_some() {
        let bare = "mount -t tmpfs none /dev && mknod /dev/null c 1 3";
        let wanted = ["no loop driver", "modprobe loop", "--on /dev/NAME"];
        check_refused_where(bare, "--fs ext4 --size 128M", &wanted);
        let nothing = "mount -t tmpfs -o nodev none /dev && mknod /dev/null c 1 3 && mknod \
                       /dev/loop-control c 10 237";
        let wanted = ["opening /dev/loop-control", "a container may lack the permission"];
        check_refused_where(nothing, "--fs ext4 --size 128M", &wanted);
    }
}

#[test]
fn a_directory_with_too_little_room_is_refused() {
    if can_make("ext4", "too little room").is_none() {
        return;
    }
    let home = Home::new();
    let memory = Memory::new(&home, "100M");
    let on =
        format!("run create_files --cpus 1 --fs ext4 --size 128M --dir {}", memory.0.display());
    for policy in ["fresh", "kept", "aged"] {
        let arguments = format!("{on} --policy {policy}");
        let ended = home.run(&arguments);
        check_status(&ended, 2);
        for part in ["100 MiB free", "leaves at least 512 to other programs", "another --dir"] {
            assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        }
    }
    assert!(fs::read_dir(&memory.0).unwrap().next().is_none(), "nothing lies there");
    assert!(home.records().is_empty());
    drop(memory);
    fs::remove_dir(home.path("memory")).unwrap();
    check_nothing_is_left(&home);
}

#[test]
fn a_device_that_somebody_uses_is_refused() {
    if can_make("ext4", "a device in use").is_none() {
        return;
    }
    let home = Home::new();
    let image = home.path("image");
    File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let Ok(output) = Command::new("losetup").args(["-f", "--show"]).arg(&image).output() else {
        return skip("a device in use", "there is no losetup");
    };
    let device = String::from_utf8(output.stdout).unwrap().trim().to_string();
    let held = File::options().read(true).custom_flags(libc::O_EXCL).open(&device).unwrap();
    let arguments =
        format!("run create_files --cpus 1 --fs ext4 --on {device} --i-own-this-device");
    let ended = home.run(&arguments);
    drop(held);
    assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    check_status(&ended, 2);
    assert!(ended.stderr.contains("exclusively (is it mounted, swap"), "{}", ended.stderr);
    wait_for("the device to be free", || loops(&home).is_empty().then_some(()));
    check_nothing_is_left(&home);
}

#[test]
fn mkfs_arguments_are_words_of_a_shell() {
    if can_make("ext4", "arguments of mkfs").is_none() {
        return;
    }
    let home = Home::new();
    let mut command =
        home.knee("run create_files --cpus 1 --seconds 0.05 --blocks 1 --size 128M --json");
    command.args(["--fs", "ext4:mkfs=-b 1024 -L 'two words'"]);
    check_status(&home.start(&mut command).end(), 0);
    // Split at blanks, the label would have been the name of a device.
    assert!(home.record().runs[0].finished());
    let home = Home::new();
    check_refused(&home, "run create_files --fs ext4:mkfs=\" --size 128M", &["unclosed quote"]);
}
