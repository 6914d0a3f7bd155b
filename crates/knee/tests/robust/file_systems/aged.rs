//! File systems that are aged before they are measured: each run gets a copy of the same one.

use records::{Aged, RecordState};

use crate::file_systems::{check_nothing_is_left, check_status, kinds};
use crate::home::Home;

const RUN: &str = "run create_files --cpus 1 --tasks 2 --seconds 0.05 --seed 1 --json";

#[test]
fn each_run_gets_a_copy_of_the_same_aged_file_system() {
    for (kind, size) in kinds("aged file systems") {
        if kind == "tmpfs" {
            continue;
        }
        // Of less, btrfs keeps half for its metadata.
        let size = if kind == "btrfs" { "300M" } else { size };
        for on in ["loop", "ram"] {
            let home = Home::new();
            let made = format!("--fs {kind} --size {size} --on {on} --policy aged");
            let ended = home.run(&format!("{RUN} --blocks 3 {made} --age filled=40%,rounds=2"));
            check_status(&ended, 0);
            let record = home.record();
            assert_eq!(record.record.state, RecordState::Whole);
            let aged: Vec<&Aged> = record
                .runs
                .iter()
                .map(|run| run.file_system.as_ref().unwrap().aged.as_ref().expect("it was aged"))
                .collect();
            assert_eq!(aged.len(), 3);
            assert!(aged.iter().all(|one| *one == aged[0]), "{aged:?}");
            check_aged(kind, aged[0], record.runs[0].file_system.as_ref().unwrap().bytes_total);
            check_nothing_is_left(&home);
        }
    }
}

fn check_aged(kind: &str, aged: &Aged, bytes_total: Option<u64>) {
    let total = bytes_total.unwrap();
    assert_eq!(aged.seed, 1);
    assert!(aged.bytes as f64 > 0.4 * total as f64, "{kind}: {aged:?} of {total}");
    assert!(aged.files > 100 && aged.created as f64 > 1.7 * aged.files as f64, "{kind}: {aged:?}");
    assert!(aged.bytes_free.unwrap() < total - aged.bytes, "{kind}: {aged:?}");
    assert!(aged.free_extents.unwrap() > 20, "{kind}: {aged:?}");
}

#[test]
fn what_is_too_small_to_be_filled_so_far_is_refused() {
    if kinds("a btrfs too small").iter().all(|(kind, _)| *kind != "btrfs") {
        return;
    }
    let home = Home::new();
    let made = "--fs btrfs --size 128M --policy aged --age filled=80%";
    let ended = home.run(&format!("{RUN} --blocks 1 {made}"));
    check_status(&ended, 2);
    for part in ["is full with", "fill it less (--age filled=", "(--size)"] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    check_nothing_is_left(&home);
}

#[test]
fn a_wish_to_end_while_a_file_system_is_aged_leaves_nothing() {
    if kinds("Ctrl-C while ageing").iter().all(|(kind, _)| *kind != "ext4") {
        return;
    }
    let home = Home::new();
    let command = "run create_files --fs ext4 --size 1G --policy aged --age rounds=1000";
    let running = home.start(&mut home.knee(command));
    crate::process::wait_for("an image", || {
        home.scratch().iter().any(|made| made.join("image-0").exists()).then_some(())
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(libc::SIGINT);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    check_nothing_is_left(&home);
}
