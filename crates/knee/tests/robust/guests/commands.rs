//! Commands in guests: their programs come with their libraries, and kernel modules that they load lie where modprobe(8)
//! looks.

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
