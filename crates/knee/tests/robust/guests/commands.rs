//! Commands in guests: their programs come with their libraries, and kernel modules that they load lie where modprobe(8)
//! looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::PoisonError;

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::{Ended, Home};

/// Measures a command in a guest, as an experiment with these lines defines it.
fn run(home: &Home, what: &str, lines: &str) -> Option<Ended> {
    let kernel = kernel(what)?;
    let text = format!(
        "blocks = 1\n[axes]\ncpus = 1\n[guest]\nkernel = '{}'\naccelerator = 'tcg'\n{lines}",
        kernel.display()
    );
    fs::write(home.path("x.toml"), text).unwrap();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some(home.start(&mut home.knee("run x.toml")).end_within(PATIENCE))
}

#[test]
fn a_shell_and_the_programs_that_its_line_names_run_in_a_guest() {
    let home = Home::new();
    let load = "[[load]]\n[load.command]\nname = 'x'\nshell = true\nprimary = 'n'\n\
                prepare = ['cp /proc/sys/kernel/hostname here']\n\
                run = 'test $(cat here) = guest && ls lib >&2; echo n = 41 | sed s/41/42/'\n\
                modules = { xfs = 'CONFIG_XFS_FS' }\n\
                [[load.command.metric]]\nname = 'n'\nregex = 'n = ([0-9]+)'\n";
    let load = load.replace("ls lib", "ls /lib/modules/*/xfs.ko /lib/modules/*/modules.dep.bin");
    let Some(ended) = run(&home, "a command in a virtual machine", &load) else { return };
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    let run = &record.runs[0];
    assert!(run.finished(), "{run:?}");
    assert_eq!(run.value("n"), Some(42.0));
}

#[test]
fn a_server_runs_in_a_guest_as_its_user() {
    let home = Home::new();
    let lines = "[[load]]\n[load.command]\nname = 'x'\nshell = true\nprimary = 'n'\n\
                 run = 'cat {data}/answer'\n\
                 [load.command.server]\nuser = 'nobody'\n\
                 run = ['sh', '-c', 'echo n = $(id -u) > answer; echo up; exec sleep 100']\n\
                 ready = { line = '^up$' }\n\
                 [[load.command.metric]]\nname = 'n'\nregex = 'n = ([0-9]+)'\n";
    let Some(ended) = run(&home, "a server in a virtual machine", lines) else { return };
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let nobody = host::paths::user_named("nobody").expect("nobody is a user");
    assert_eq!(home.record().runs[0].value("n"), Some(nobody.0.into()));
}

/// The switch is in /sys/kernel/debug, which hosts may lock.
#[test]
fn a_switch_of_the_scheduler_and_a_daemon_are_there_for_their_variants_alone() {
    let home = Home::new();
    let lines = "[[load]]\n[load.command]\nname = 'x'\nshell = true\nprimary = 'n'\n\
                 run = 'echo n = $(grep -c NO_WAKEUP_PREEMPTION /sys/kernel/debug/sched/features) \
                 d = $(cat /proc/[0-9]*/cmdline | tr \\\\0 . | grep -c slee[p].101)'\n\
                 [[load.command.metric]]\nname = 'n'\nregex = 'n = ([0-9]+)'\n\
                 [[load.command.metric]]\nname = 'd'\nregex = 'd = ([0-9]+)'\n\
                 [[variant]]\nname = 'plain'\n\
                 [[variant]]\nname = 'late'\n\
                 sysctl = { '/sys/kernel/debug/sched/features' = 'NO_WAKEUP_PREEMPTION' }\n\
                 [[variant]]\nname = 'beside'\ndaemon = { run = 'sleep 101', ready = { alive_ms = 50 } }\n";
    let Some(ended) = run(&home, "settings and daemons in a virtual machine", lines) else {
        return;
    };
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    for run in &record.runs {
        let expected = match record.record.points[run.point as usize].variant.as_str() {
            "late" => [1.0, 0.0],
            "beside" => [0.0, 1.0],
            _ => [0.0, 0.0],
        };
        assert_eq!(["n", "d"].map(|name| run.value(name).unwrap()), expected, "{run:?}");
    }
    // A busy host has runs repeated, in boots of their own.
    let mut boots: BTreeMap<Option<u32>, BTreeSet<u32>> = BTreeMap::new();
    for run in &record.runs {
        boots.entry(run.boot).or_default().insert(run.point);
    }
    assert!(
        boots.values().any(|points| points.len() == 3),
        "in one boot each is put back: {boots:?}"
    );
}

#[test]
fn a_module_that_the_kernel_was_built_without_is_named_with_its_option() {
    let home = Home::new();
    let Some(ended) =
        run(&home, "a module that is missing", "[[load]]\nworkload = 'command:locktorture'\n")
    else {
        return;
    };
    if ended.stderr.contains("no program 'modprobe'") {
        return crate::skip::skip("a module that is missing", "no modprobe");
    }
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    for part in ["no module locktorture", "CONFIG_LOCK_TORTURE_TEST=m", "--modules DIR"] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert!(home.records().is_empty());
}
