//! Explaining: what was watched adds up to the nanosecond, with whatever this host allows; old
//! and foreign records have ledgers too; nothing stays attached.

use std::collections::BTreeSet;
use std::process::Command;

use records::{Opened, ProfileKind, Window};

use crate::home::Home;
use crate::process::wait_for;
use crate::skip::skip;

/// Programs that the kernel has loaded, by number; nothing where it may not be asked.
fn programs() -> Option<BTreeSet<u32>> {
    const BPF_PROG_GET_NEXT_ID: libc::c_int = 11;
    let (mut all, mut last) = (BTreeSet::new(), 0_u32);
    loop {
        let mut attributes = [last, 0, 0];
        // SAFETY: the attributes are live and of the length given.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_GET_NEXT_ID, &raw mut attributes, 12) };
        match std::io::Error::last_os_error().raw_os_error() {
            _ if result == 0 => last = attributes[1],
            Some(libc::ENOENT) => return Some(all),
            _ => return None,
        }
        all.insert(last);
    }
}

/// Explains, and gives the record; nothing if this host or this build lets nobody watch.
fn explained(home: &Home, arguments: &str) -> Option<Opened> {
    let ended = home.run(&format!("explain {arguments} --force"));
    assert!(matches!(ended.status.code(), Some(0)), "{}", ended.stderr);
    let record = home.record();
    let looks = store::profiles(&record).unwrap();
    assert!(looks.iter().all(|look| look.finished()), "{looks:?}");
    for window in looks.iter().flat_map(|look| &look.windows) {
        assert_eq!(window.broken_law(), None);
        assert!(window.operations > 0);
    }
    match looks.iter().find_map(|look| look.unavailable_probes.get("ledger")) {
        Some(why) => {
            assert!(home.said("stdout").contains("times are from /proc, in clock ticks"));
            skip("explain", why);
            None
        }
        None => Some(record),
    }
}

/// System calls that were counted, all the time or in bursts.
fn calls(window: &Window) -> u64 {
    let in_bursts = window.bursts.iter().flat_map(|bursts| bursts.counts.get("syscalls"));
    window.counts.get("syscalls").into_iter().chain(in_bursts).sum()
}

#[test]
fn every_nanosecond_of_every_look_is_in_a_row_and_nothing_stays_attached() {
    for load in ["getppid", "posix_lock_shared", "futex --as threads", "create_files"] {
        let home = Home::new();
        let before = programs();
        let Some(record) = explained(&home, &format!("{load} --seconds 0.2 --blocks 2")) else {
            return;
        };
        let looks = store::profiles(&record).unwrap();
        for kind in [ProfileKind::Time, ProfileKind::Counts, ProfileKind::Names] {
            assert_eq!(looks.iter().filter(|look| look.kind == kind).count(), 2, "{load}");
        }
        let calls: u64 = looks.iter().flat_map(|look| &look.windows).map(calls).sum();
        assert!(calls > 0, "{load}: system calls were counted");
        let said = home.said("stdout");
        assert!(said.contains("rows add up to CPUs x time to the nanosecond"), "{said}");
        home.check_nothing_is_left();
        // Programs go when their last descriptor does, a moment after the process.
        if let Some(before) = before {
            wait_for("programs to be gone", || {
                programs().is_some_and(|now| now.is_subset(&before)).then_some(())
            });
        }
    }
}

#[test]
fn commands_and_their_children_are_the_workload() {
    let home = Home::new();
    let Some(record) = explained(&home, "--blocks 2 --command true") else { return };
    let looks = store::profiles(&record).unwrap();
    let execs = looks.iter().flat_map(|look| &look.windows);
    let execs: Vec<&u64> = execs.filter_map(|window| window.counts.get("syscall.execve")).collect();
    // knee finds the program in PATH before it counts.
    assert_eq!(execs, [&1], "one program is started in the one block that counts");
}

#[test]
fn a_record_without_looks_has_the_ledger_of_proc() {
    let home = Home::new();
    assert!(home.run("run getppid --cpus 1 --seconds 0.1 --blocks 2").status.success());
    let ended = home.run("explain last");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(
        home.said("stdout").contains("times are from /proc, in clock ticks"),
        "{}",
        home.said("stdout")
    );
}

#[test]
fn what_cannot_be_explained_says_so() {
    let home = Home::new();
    for (arguments, part) in [
        ("explain nonsense", "no records in"),
        ("explain getppid --hertz 99999", "must be at most 10 000"),
        ("explain getppid --windows 0", "must be 1 to 1000"),
        ("explain", "required"),
    ] {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments}: {}", ended.stderr);
    }
}

#[test]
fn without_the_right_to_watch_there_is_the_ledger_of_proc_and_why() {
    let home = Home::new();
    let without_rights = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).args(words);
        home.move_in(&mut command);
        command
    };
    if !without_rights(&["true"]).status().is_ok_and(|status| status.success()) {
        return skip("explain", "setpriv may not take rights away here");
    }
    let knee = env!("CARGO_BIN_EXE_knee");
    let explain = ["explain", "getppid", "--cpus=1", "--seconds=0.1", "--blocks=2", "--force"];
    let ended = home.start(&mut without_rights(&[&[knee][..], &explain].concat())).end();
    let said = home.said("stdout");
    assert!(ended.status.success(), "{:?} {}\n{said}", ended.status, ended.stderr);
    assert!(said.contains("times are from /proc, in clock ticks"), "{said}");
    assert!(said.contains("not measured: ledger: "), "{said}");
}

#[test]
fn a_command_that_ends_at_once_or_fails_leaves_nothing_attached() {
    let home = Home::new();
    let ended = home.run("explain --blocks 2 --force --command false");
    assert!(!ended.status.success(), "{}", home.said("stdout"));
    home.check_nothing_is_left();
}
