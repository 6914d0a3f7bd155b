//! File systems made for runs: each kind runs, what it was is told, and nothing of it stays,
//! whatever becomes of knee. Only root may make one; without its programs a kind is skipped.
//!
//! KNEE_KILLS=500 kills more often; KNEE_SEED repeats the choices.

mod aged;
mod faults;
mod incidents;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Outcome, RecordState, Run};

use crate::home::{Ended, Home, entries};
use crate::process::wait_for;
use crate::random::{choices, times};
use crate::skip::{is_root, skip};

/// Each kind with the program that makes it and a size that is enough for it.
const KINDS: &[(&str, &str, &str)] = &[
    ("btrfs", "mkfs.btrfs", "128M"),
    ("ext2", "mke2fs", "128M"),
    ("ext3", "mke2fs", "128M"),
    ("ext4", "mke2fs", "128M"),
    ("tmpfs", "true", "128M"),
    ("xfs", "mkfs.xfs", "300M"),
];

const RUN: &str = "run create_files --cpus 1 --tasks 2 --seconds 0.05 --seed 1 --json";

/// The kinds that can be made here; what cannot is told as skipped.
pub fn kinds(test: &str) -> Vec<(&'static str, &'static str)> {
    if !is_root() || !Path::new("/dev/loop-control").exists() {
        skip(test, "only root with a loop driver may make file systems");
        return Vec::new();
    }
    let has = |program: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&paths).chain([PathBuf::from("/usr/sbin")]);
        folders.map(|folder| folder.join(program)).any(|path| path.exists())
    };
    let can = |(kind, program, _): &&(&str, &str, &str)| {
        let can = has(program);
        if !can {
            skip(test, &format!("there is no {program} to make {kind}"));
        }
        can
    };
    KINDS.iter().filter(can).map(|(kind, _, size)| (*kind, *size)).collect()
}

/// Loop devices that show a file of this home.
pub fn loops(home: &Home) -> BTreeSet<LoopDevice> {
    let home = home.path("");
    loops_that_show(|file| file.contains(home.to_str().unwrap()))
}

/// Loop devices of all processes that show an image in memory. Its path does not say whose it is,
/// and once its mount namespace is gone, its own name is all that is left of the path.
fn loops_in_memory() -> BTreeSet<LoopDevice> {
    loops_that_show(|file| file.contains("/memory-") || file.trim_end() == "/image-0")
}

/// A loop device, and the number of its use: the kernel gives the next one whenever a file is
/// attached to a device (diskseq, Linux 5.15).
type LoopDevice = (PathBuf, String);

fn loops_that_show(is_one: impl Fn(&str) -> bool) -> BTreeSet<LoopDevice> {
    let read =
        |device: &Path, name: &str| fs::read_to_string(device.join(name)).unwrap_or_default();
    let devices = entries(Path::new("/sys/block")).into_iter();
    let shows = devices.filter(|device| is_one(&read(device, "loop/backing_file")));
    shows.map(|device| (device.clone(), read(&device, "diskseq"))).collect()
}

/// Panics if a mount, a loop device, an image, a directory or a process is left.
pub fn check_nothing_is_left(home: &Home) {
    check_mounts_and_loops(home);
    home.check_nothing_is_left();
}

fn check_mounts_and_loops(home: &Home) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let of_home = mounts.lines().find(|line| line.contains(home.path("").to_str().unwrap()));
    assert_eq!(of_home, None);
    assert_eq!(loops(home), BTreeSet::new());
    // Those of other tests go, and one that was left stays.
    let seen = loops_in_memory();
    wait_for("loop devices in memory to go", || loops_in_memory().is_disjoint(&seen).then_some(()));
}

#[track_caller]
pub fn check_status(ended: &Ended, status: i32) {
    assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
}

#[track_caller]
pub fn check_refused(home: &Home, arguments: &str, parts: &[&str]) {
    let ended = home.run(arguments);
    check_status(&ended, 2);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    check_nothing_is_left(home);
}

#[test]
fn each_kind_is_made_for_every_run_and_nothing_of_it_stays() {
    for (kind, size) in kinds("each kind of file system") {
        let home = Home::new();
        let ended = home.run(&format!("{RUN} --blocks 2 --fs {kind} --size {size}"));
        check_status(&ended, 0);
        let record = home.record();
        assert_eq!(record.runs.len(), 2);
        for run in &record.runs {
            let made = run.file_system.as_ref().expect("what was mounted is told");
            assert_eq!(made.kind, kind);
            assert!(made.options.contains("nosuid") && made.options.contains("nodev"), "{made:?}");
            assert_eq!(made.geometry.is_empty(), kind == "tmpfs", "{made:?}");
        }
        let hidden = record.record.warnings.iter().any(|w| w.text.contains("served by the ext4"));
        let served =
            record.runs.iter().any(|run| run.file_system.as_ref().unwrap().driver.is_some());
        assert_eq!(hidden, served);
        assert!(kind != "ext3" || hidden, "no driver but ext4 has served ext3 since Linux 4.3");
        check_nothing_is_left(&home);
    }
}

#[test]
fn two_file_systems_with_options_are_compared_as_variants() {
    if kinds("a comparison of file systems").iter().filter(|(kind, _)| *kind == "ext4").count() == 0
    {
        return;
    }
    for policy in ["fresh", "kept"] {
        let home = Home::new();
        let mut command = home.knee(&format!("{RUN} --blocks 3 --size 128M --on ram"));
        command.args(["--policy", policy, "--fs", "tmpfs"]);
        command.args(["--fs", "small=ext4:mkfs=-b 1024 -I 256;mount=noatime,noinit_itable"]);
        check_status(&home.start(&mut command).end(), 0);
        let record = home.record();
        assert_eq!(record.record.state, RecordState::Whole);
        let names: Vec<&str> = record.record.variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["tmpfs", "small"]);
        for run in &record.runs {
            let point = &record.record.points[run.point as usize];
            assert!(point.other.contains_key("file_system"));
            let made = run.file_system.as_ref().unwrap();
            if point.variant == "small" {
                assert_eq!(made.geometry["block_size"], "1024");
                assert!(made.options.contains("noatime"), "{}", made.options);
                assert!(made.on.contains("in memory"), "{}", made.on);
            }
        }
        let dirs: BTreeSet<&PathBuf> = record.record.points.iter().map(|p| &p.dir).collect();
        assert_eq!(dirs.len(), 1);
        check_nothing_is_left(&home);
    }
}

#[test]
fn a_full_file_system_fails_its_run_and_no_other() {
    for (kind, size) in kinds("a full file system") {
        let home = Home::new();
        // 200 files of 4 MiB do not fit.
        let toml = home.path("full.toml");
        fs::write(
            &toml,
            "[axes]\ncpus = 1\noperations_per_task = 200\n[[load]]\nworkload = 'create_files'\n\
             parameters = { size_bytes = '4M', write_bytes = '1M' }\n[[load]]\nworkload = 'getppid'\n",
        )
        .unwrap();
        let ended = home
            .run(&format!("run {} --blocks 2 --json --fs {kind} --size {size}", toml.display()));
        check_status(&ended, 1);
        let record = home.record();
        let mut failed = 0;
        for run in &record.runs {
            let workload = &record.record.points[run.point as usize].workload;
            match &run.outcome {
                Outcome::Failed { reason } => {
                    assert_eq!(workload, "create_files", "{kind}: {reason}");
                    assert!(reason.contains("os error 28"), "{kind}: {reason}");
                    failed += 1;
                }
                Outcome::Finished { .. } => assert_eq!(workload, "getppid", "{kind}"),
            }
        }
        assert_eq!(failed, 2, "{kind}");
        check_nothing_is_left(&home);
    }
}

#[test]
fn a_tmpfs_has_the_size_that_was_asked_for() {
    if kinds("the size of a tmpfs").is_empty() {
        return;
    }
    let home = Home::new();
    check_status(&home.run(&format!("{RUN} --blocks 1 --fs tmpfs --size 64M")), 0);
    let record = home.record();
    let made = record.runs[0].file_system.as_ref().unwrap();
    assert_eq!(made.bytes_total, Some(64 << 20));
    assert_eq!(made.on, "memory");
    check_nothing_is_left(&home);
}

#[test]
fn a_file_system_that_its_check_finds_corrupt_is_a_failed_run() {
    if kinds("a corrupt file system").iter().all(|(kind, _)| *kind != "ext4") {
        return;
    }
    let home = Home::new();
    // Finds the first one sound, which was only tried.
    let programs = home.path("programs");
    fs::create_dir(&programs).unwrap();
    let script = "#!/bin/sh\ncd \"${0%/*}\"\n[ -e tried ] || { touch tried; exit 0; }\n\
                  echo 'Inode 12 has illegal block(s).'\nexit 4\n";
    let check = programs.join("e2fsck");
    fs::write(&check, script).unwrap();
    fs::set_permissions(&check, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = home.knee(&format!("{RUN} --blocks 1 --fs ext4,tmpfs --size 128M"));
    command.env("PATH", format!("{}:{path}", programs.display()));
    let ended = home.start(&mut command).end();
    check_status(&ended, 1);
    let record = home.record();
    for run in &record.runs {
        let variant = &record.record.points[run.point as usize].variant;
        match &run.outcome {
            Outcome::Failed { reason } => {
                assert_eq!(variant, "ext4");
                assert!(reason.contains("e2fsck found the file system corrupted"), "{reason}");
                assert!(reason.contains("Inode 12 has illegal"), "{reason}");
            }
            Outcome::Finished { .. } => assert_eq!(variant, "tmpfs"),
        }
    }
    check_nothing_is_left(&home);
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_measured() {
    let home = Home::new();
    let made = |fs: &str| format!("{RUN} --blocks 1 --size 128M --fs {fs}");
    check_refused(&home, &made("etx4"), &["'etx4'", "There are btrfs, ext2"]);
    check_refused(&home, &format!("{RUN} --size 1G"), &["--size", "name them with --fs"]);
    check_refused(&home, &made("tmpfs --policy old"), &["'old'", "fresh, kept or aged"]);
    check_refused(&home, &format!("{RUN} --fs tmpfs --size 8GB"), &["8GB", "such as 8G"]);
    check_refused(&home, &made("tmpfs --policy aged"), &["tmpfs lies in memory", "fresh"]);
    check_refused(
        &home,
        &made("tmpfs --age rounds=1"),
        &["--age has no effect without --policy aged"],
    );
    check_refused(&home, &made("ext4 --policy aged --age rounds=x"), &["filled=50%,rounds=4"]);
    check_refused(&home, &made("tmpfs --on tape"), &["'tape'", "loop"]);
    check_refused(&home, &made("tmpfs:mkfs=-q"), &["no program makes tmpfs"]);
    if kinds("what mkfs and mount refuse").iter().all(|(kind, _)| *kind != "ext4") {
        return;
    }
    check_refused(&home, &made("ext4:mkfs=--wrong"), &["mke2fs failed", "wrong"]);
    check_refused(&home, &made("ext4:mount=wrong"), &["mounting", "wrong", "dmesg"]);
    check_refused(&home, &made("tmpfs:mount=ro"), &["'ro'", "knee cannot measure"]);
    let plan = home.run(&format!("{} --plan", made("xfs,tmpfs")).replace(" --json", ""));
    check_status(&plan, 0);
    assert!(plan.stdout.contains("file systems of 128M on loop"), "{}", plan.stdout);
    check_nothing_is_left(&home);
}

#[test]
fn only_root_may_make_file_systems() {
    if !is_root() {
        return skip("file systems as another user", "only root may be another user");
    }
    let home = Home::new();
    for name in ["", "records", "state", "cache", "measured"] {
        fs::set_permissions(home.path(name), Permissions::from_mode(0o777)).unwrap();
    }
    home.copy_knee();
    let mut command = Command::new(home.path("knee"));
    command.args(format!("{RUN} --fs tmpfs").split(' '));
    home.move_in(&mut command);
    command.uid(64_321);
    let ended = home.start(&mut command).end();
    check_status(&ended, 2);
    assert!(ended.stderr.contains("only root may make"), "{}", ended.stderr);
    assert!(ended.stderr.contains("sudo"), "{}", ended.stderr);
}

/// A loop device of the test's own, of 64 MiB.
struct Device {
    path: String,
}

impl Device {
    fn new(home: &Home) -> Option<Device> {
        let image = home.path("image");
        File::create(&image).unwrap().set_len(128 << 20).unwrap();
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().ok()?;
        let path = String::from_utf8(output.stdout).unwrap().trim().to_string();
        (!path.is_empty()).then_some(Device { path })
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let status = Command::new(program).args(arguments).arg(&self.path).status();
        assert!(status.unwrap().success(), "{program}");
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        File::open(&self.path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.path]).status();
    }
}

#[test]
fn a_device_is_taken_only_if_it_is_blank_and_ours_and_blank_again_afterwards() {
    if kinds("a device of the user's").iter().all(|(kind, _)| *kind != "ext4") {
        return;
    }
    let home = Home::new();
    let Some(device) = Device::new(&home) else {
        return skip("a device of the user's", "there is no losetup");
    };
    let on = |more: &str| format!("{RUN} --blocks 1 --fs ext4 --on {} {more}", device.path);
    let refused = |arguments: &str, parts: &[&str]| {
        let ended = home.run(arguments);
        check_status(&ended, 2);
        for part in parts {
            assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        }
        home.check_nothing_is_left();
    };
    refused(&on(""), &["--i-own-this-device"]);
    refused(
        &format!("{RUN} --fs ext4 --on /dev/null --i-own-this-device"),
        &["not a block device"],
    );
    device.run("mke2fs", &["-q"]);
    refused(&on("--i-own-this-device"), &["an ext2, ext3 or ext4", "wipefs -a"]);
    let point = home.path("elsewhere");
    fs::create_dir(&point).unwrap();
    let mounted = Command::new("mount").arg(&device.path).arg(&point).status().unwrap();
    assert!(mounted.success());
    let ended = home.run(&on("--i-own-this-device"));
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    check_status(&ended, 2);
    assert!(ended.stderr.contains("is mounted at"), "{}", ended.stderr);
    let file = File::options().write(true).open(&device.path).unwrap();
    file.write_all_at(&vec![0; 1 << 20], 0).unwrap();
    file.write_all_at(b"x", 999_999).unwrap();
    drop(file);
    refused(&on("--i-own-this-device"), &["is not blank: it has data"]);
    File::options().write(true).open(&device.path).unwrap().write_all_at(b"\0", 999_999).unwrap();
    check_status(&home.run(&on("--i-own-this-device")), 0);
    assert!(device.bytes().iter().all(|byte| *byte == 0), "blank again");
    home.check_nothing_is_left();
}

/// Where journals lie.
fn leave(home: &Home, journal: &[&str]) -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let folder = home.path("state/knee").join(host.trim());
    fs::create_dir_all(&folder).unwrap();
    for folder in [home.path("state/knee"), folder.clone()] {
        fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    }
    let path = folder.join("0123456789abcdef.journal");
    fs::write(&path, journal.iter().map(|entry| format!("{entry}\0")).collect::<String>()).unwrap();
    path
}

#[test]
fn mounts_and_loop_devices_that_are_not_what_a_journal_says_are_left_alone() {
    if kinds("journals of mounts").is_empty() {
        return;
    }
    let home = Home::new();
    let directory = home.path("measured").join(".knee-1");
    let point = directory.join("mounted-0");
    fs::create_dir_all(&point).unwrap();
    let made = fs::metadata(&directory).unwrap();
    let directory_entry = directory.display().to_string();
    let identity = format!("{} {}", made.dev(), made.ino());
    let mount = |source: &str| {
        let status = Command::new("mount").args(["-t", "tmpfs", source]).arg(&point).status();
        assert!(status.unwrap().success());
        fs::write(point.join("file"), "x").unwrap();
    };
    mount("theirs");
    let step = format!("~mount\nours\n{}", point.display());
    let journal = leave(&home, &[&directory_entry, &identity, &step]);
    let said = home.run("doctor --clean");
    check_status(&said, 0);
    assert!(said.stdout.contains("which knee did not mount"), "{}", said.stdout);
    assert!(point.join("file").exists() && journal.exists());
    assert!(Command::new("umount").arg(&point).status().unwrap().success());
    mount("ours");
    leave(&home, &[&directory_entry, &identity, &step]);
    let said = home.run("doctor --clean");
    assert!(said.stdout.contains("undid the mount"), "{}", said.stdout);
    check_nothing_is_left(&home);
    assert!(home.run("doctor --clean").stdout.contains("no killed knee has left anything"));
}

#[test]
fn a_device_of_a_killed_knee_is_named_and_not_touched() {
    let home = Home::new();
    let journal = leave(&home, &["~device\n/dev/no-such-device"]);
    let said = home.run("doctor --clean");
    check_status(&said, 0);
    assert!(said.stdout.contains("wipefs -a /dev/no-such-device"), "{}", said.stdout);
    assert!(!journal.exists(), "it is named once");
}

#[test]
fn a_loop_device_that_shows_another_file_is_left_alone() {
    if kinds("journals of loop devices").is_empty() {
        return;
    }
    let home = Home::new();
    let Some(device) = Device::new(&home) else {
        return skip("journals of loop devices", "there is no losetup");
    };
    let image = fs::metadata(home.path("image")).unwrap();
    let path = home.path("measured").join(".knee-1/image-0");
    for identity in ["1 2".to_string(), format!("{} {}", image.dev(), image.ino())] {
        // The second is the right file, but not under the name that knee gives.
        leave(&home, &[&format!("~loop\n{}\n{identity}\n{}", device.path, path.display())]);
        check_status(&home.run("doctor --clean"), 0);
        assert_eq!(loops(&home).len(), 1);
    }
}

#[test]
fn a_wish_to_end_unmounts_and_removes_at_once() {
    for policy in ["fresh", "kept"] {
        if kinds("Ctrl-C while a file system is mounted").iter().all(|(kind, _)| *kind != "ext4") {
            return;
        }
        let home = Home::new();
        let command =
            "run create_files --cpus 1 --blocks 3 --fs ext4:mkfs=-i4096 --size 128M --on ram";
        let command = format!("{command} --operations 1000000000 --policy {policy} --tasks 2");
        let running = home.start(&mut home.knee(&command));
        running.wait_for_tasks(2, 1);
        assert!(!loops_in_memory().is_empty());
        running.signal(libc::SIGINT);
        let ended = running.end();
        assert!([Some(130), Some(1)].contains(&ended.status.code()), "{}", ended.stderr);
        check_nothing_is_left(&home);
    }
}

#[test]
fn no_kill_at_any_instant_leaves_a_file_system_behind() {
    let kinds = kinds("kills while file systems are made");
    if kinds.is_empty() {
        return;
    }
    let mut random = choices("no_kill_at_any_instant_leaves");
    let kills = times("KNEE_KILLS", 18);
    let mut sum = Killed::default();
    while sum.kills < kills {
        let (kind, size) = kinds[random.random_range(0..kinds.len())];
        let on = ["loop", "ram"][random.random_range(0..2)];
        let policy = ["fresh", "kept", "aged"][random.random_range(0..3)];
        let others = if policy == "aged" || kind == "tmpfs" { "" } else { ",tmpfs" };
        let policy = if kind == "tmpfs" { "fresh" } else { policy };
        // Of less, btrfs keeps half for its metadata.
        let size = if kind == "btrfs" { "300M" } else { size };
        let made = format!("--fs {kind}{others} --size {size} --on {on} --policy {policy}");
        let command = random.random_bool(0.5);
        let arguments = if command {
            COMMAND.iter().map(|word| word.to_string()).collect::<Vec<_>>()
        } else {
            RUN.split(' ').map(str::to_string).collect()
        };
        let more = format!("--blocks 3 {made}");
        let arguments = [arguments, more.split(' ').map(str::to_string).collect()].concat();
        sum.add(kill_once(&mut random, &arguments), command);
    }
    println!("{sum}");
}

/// A command that writes, and leaves a process that it is not waited for.
const COMMAND: &[&str] = &[
    "run",
    "--cpus",
    "1",
    "--seed",
    "1",
    "--json",
    "--command",
    "sh -c 'setsid sleep 60 & head -c 3000000 /dev/zero > {scratch}/file; sync {scratch}/file; \
     sleep 0.05'",
];

/// What kills met and left.
#[derive(Default)]
struct Killed {
    /// Knees that were killed before they had ended.
    kills: u64,
    /// Those of them that ran a command.
    commands: u64,
    loops: usize,
    journals: usize,
    printed: usize,
}

impl Killed {
    fn add(&mut self, one: Killed, command: bool) {
        self.kills += one.kills;
        self.commands += if command { one.kills } else { 0 };
        self.loops += one.loops;
        self.journals += one.journals;
        self.printed += one.printed;
    }
}

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Killed { kills, commands, loops, journals, printed } = self;
        write!(
            f,
            "{kills} kills, {commands} of them of a command; {journals} left a journal, \
             {loops} a loop device, all undone; {printed} runs printed, none lost"
        )
    }
}

/// Kills one knee at some instant of its life and tidies up after it: by doctor --clean alone,
/// or by the next start alone.
fn kill_once(random: &mut Xoshiro256PlusPlus, arguments: &[String]) -> Killed {
    let home = Home::new();
    let command = arguments.join(" ");
    let mut running = home.start(home.knee(&arguments[0]).args(&arguments[1..]));
    if random.random_bool(0.5) {
        running.wait_for_runs(random.random_range(0..4));
    }
    std::thread::sleep(Duration::from_micros(random.random_range(0..1_200_000)));
    let ended = running.has_ended();
    running.signal(libc::SIGKILL);
    let status = running.end().status;
    assert!(!ended || status.success(), "{command}: {}", home.said("stderr"));
    home.wait_for_quiet();
    let journals = entries(&home.path("state/knee")).iter().flat_map(|host| entries(host)).count();
    let killed = Killed {
        kills: u64::from(!ended),
        commands: 0,
        loops: usize::from(!loops(&home).is_empty() || !loops_in_memory().is_empty()),
        journals,
        printed: 0,
    };
    let printed: BTreeMap<u32, Run> =
        home.printed().into_iter().map(|run| (run.run, run)).collect();
    if random.random_bool(0.5) {
        let cleaned = home.run("doctor --clean");
        check_status(&cleaned, 0);
        assert!(!cleaned.stdout.contains("stays"), "{command}: {}", cleaned.stdout);
        check_mounts_and_loops(&home);
        let journals = entries(&home.path("state/knee"));
        assert_eq!(journals.iter().flat_map(|host| entries(host)).count(), 0, "{command}");
        assert!(home.scratch().is_empty(), "{command}");
    }
    // Recovers the record, too.
    check_status(&home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01"), 0);
    check_nothing_is_left(&home);
    let records = home.records();
    let of_kill = records.iter().find(|record| record.record.experiment.name != "getppid");
    let runs = of_kill.map(|record| record.runs.clone()).unwrap_or_default();
    for (number, run) in &printed {
        assert_eq!(runs.get(*number as usize), Some(run), "{command}: a printed run was lost");
    }
    Killed { printed: printed.len(), ..killed }
}
