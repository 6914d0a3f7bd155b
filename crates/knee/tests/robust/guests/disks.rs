//! File systems on the disks of virtual machines: each run's own (in `boots.rs`), kept by the runs of
//! a boot, and aged; and what a guest cannot have of its host, which is refused before one boots.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::PoisonError;

use records::{Aged, RecordState};

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::{Ended, Home};

const RUN: &str = "run create_files --cpus 1 --seconds 0.2 --seed 1 --accelerator tcg";

#[test]
fn a_kept_file_system_is_made_once_for_the_runs_of_a_boot() {
    let Some(kernel) = kernel("a kept file system in a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let kernel = kernel.display();
    let mut command = home.knee(&format!(
        "{RUN} --kernel {kernel} --fs ext4 --size 256M --policy kept --blocks 2 --runs-per-boot 3"
    ));
    // Count how often a file system is made, and a guest booted.
    let folder = home.path("bin");
    fs::create_dir(&folder).unwrap();
    for (name, counted) in [("mke2fs", "*"), ("qemu-system-x86_64", "*-kernel*")] {
        let program = folder.join(name);
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in {counted}) echo started >> \"$HOME\"/{name} ;; esac\n\
             PATH=${{PATH#*:}}:/usr/sbin:/sbin\nexec {name} \"$@\"\n"
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
    let ended = home.start(&mut command).end_within(PATIENCE);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!((record.record.state, record.runs.len()), (RecordState::Whole, 6));
    assert!(record.runs.iter().all(|run| run.finished() && run.file_system.is_some()));
    assert_eq!(record.record.warnings.iter().find(|w| w.text.contains("at the end of")), None);
    assert_eq!(store::boots(&record).unwrap().len(), 2);
    let starts = |name| fs::read_to_string(home.path(name)).unwrap().lines().count();
    assert_eq!(starts("mke2fs"), 1 + 2, "one to try it out, and one in each boot");
    assert_eq!(
        starts("qemu-system-x86_64"),
        2,
        "the guest that was tried out does the first block"
    );
}

#[test]
fn each_run_in_a_guest_gets_a_copy_of_the_same_aged_file_system() {
    let Some(kernel) = kernel("aged file systems in a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let kernel = kernel.display();
    let ended = run(
        &home,
        &format!(
            "{RUN} --kernel {kernel} --fs ext4 --size 128M --policy aged \
             --age filled=20%,rounds=2 --blocks 1 --runs-per-boot 2"
        ),
    );
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.record.state, RecordState::Whole);
    let made = record.runs.iter().map(|run| run.file_system.as_ref().expect("one was made"));
    let aged: Vec<(&Aged, u64)> = made
        .map(|made| (made.aged.as_ref().expect("it was aged"), made.bytes_total.unwrap()))
        .collect();
    // Two in a boot, and placebos.
    assert!(aged.len() >= 2);
    let (one, total) = aged[0];
    assert!(aged.iter().all(|other| other.0 == one), "{aged:?}");
    assert!(one.bytes as f64 > 0.2 * total as f64, "{one:?} of {total}");
    assert!(one.files > 100 && one.created as f64 > 1.7 * one.files as f64, "{one:?}");
    assert!(one.bytes_free.unwrap() < total - one.bytes, "{one:?}");
    assert!(one.free_extents.unwrap() > 20, "{one:?}");
    assert!(record.runs.iter().all(|run| run.finished()));
    assert!(home.scratch().is_empty(), "neither disks nor what they are copied from have names");
}

fn run(home: &Home, arguments: &str) -> Ended {
    home.start(&mut home.knee(arguments)).end_within(PATIENCE)
}

/// Panics unless such a run in a guest is refused with these words, with a kernel that no machine could
/// start.
#[track_caller]
fn check_refused(arguments: &str, expected: &str) {
    let home = Home::new();
    fs::write(home.path("kernel"), "no kernel").unwrap();
    let image = "blocks = 1\n[guest]\nkernel = 'kernel'\n[image]\nsize = '64M'\nworkload = \
                 'create_files'\ntasks = 1\noperations_per_task = 10\nfile_system = { kind = 'ext4' \
                 }\n[[load]]\nworkload = 'getppid'\n";
    fs::write(home.path("image.toml"), image).unwrap();
    let ended = run(&home, &format!("run {arguments}"));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains(expected), "no '{expected}' in:\n{}", ended.stderr);
    assert!(home.records().is_empty());
}

#[test]
fn what_a_guest_cannot_have_of_its_host_is_refused_before_one_boots() {
    let a = "create_files --kernel kernel --cpus 1";
    check_refused(&format!("{a} --dir /tmp"), "a guest has no directories of the host");
    check_refused(&format!("{a} --fs xfs --on ram --dir /tmp"), "leave it out, or measure");
    check_refused(&format!("{a} --fs xfs --dir /tmp,/"), "so name one");
    check_refused(&format!("{a} --fs xfs --on /dev/vdz --i-own-this-device"), "--on loop");
    check_refused(&format!("{a} --fs tmpfs --policy aged"), "lies in memory");
    check_refused(&format!("{a} --variant a=under=nice"), "for runs on the host itself");
    check_refused(&format!("{a} --patience 0"), "--patience is 0 s");
    check_refused("command:redis --server-pid 1 --kernel kernel --cpus 1", "leave --kernel out");
    check_refused(
        "--command true --kernel kernel --variant a=env.LD_PRELOAD=/x.so",
        "leave env.LD_PRELOAD out",
    );
    check_refused("image.toml", "leave --kernel out");
}
