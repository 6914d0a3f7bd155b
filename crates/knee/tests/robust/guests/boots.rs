//! Kernels that boot: what comes back from a guest, what stays when it dies, and which kernels are
//! refused.

use std::fs;
use std::path::PathBuf;
use std::sync::PoisonError;

use records::{Opened, Run};

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::{Ended, Home};
use crate::process::{Process, wait_within};

/// Runs knee to its end.
fn run(home: &Home, arguments: &str) -> Ended {
    home.start(&mut home.knee(arguments)).end_within(PATIENCE)
}

/// Panics unless knee ended like this and said so.
#[track_caller]
fn ended_with(status: i32, said: &str, ended: Ended) {
    let Ended { status: has, stderr, .. } = ended;
    assert_eq!(has.code(), Some(status), "{stderr}");
    assert!(stderr.contains(said), "no '{said}' in:\n{stderr}");
}

/// The sum of some counts of each run of a workload on one CPU, for an operation.
fn per_operation(record: &Opened, workload: &str, counts: &[&str]) -> Vec<f64> {
    let point = |run: &Run| &record.record.points[run.point as usize];
    let is_it = |run: &&Run| point(run).workload == workload && point(run).cpus == 1;
    let runs = record.runs.iter().filter(is_it);
    let value = |run: &Run, name: &str| run.value(&format!("{name}/op")).expect("it is counted");
    runs.map(|run| counts.iter().map(|name| value(run, name)).sum()).collect()
}

#[test]
fn a_debian_kernel_runs_what_this_host_runs() {
    let Some(kernel) = kernel("a Debian kernel in a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let loads =
        "run page_fault_anonymous context_switch create_files --cpus 1,2 --seconds 0.2 --seed 7";
    let guest = format!(
        "--kernel {} --fs xfs --size 512M --accelerator tcg \
                         --cmdline small=transparent_hugepage=never",
        kernel.display()
    );
    ended_with(0, "", run(&home, &format!("{loads} {guest} --blocks 2")));
    let record = home.record();
    assert_eq!(record.runs.len(), 12);
    for run in &record.runs {
        assert!(run.finished(), "{run:?}");
        let made = run.file_system.as_ref().expect("a file system was made");
        assert_eq!(made.kind, "xfs");
        assert!(made.geometry.contains_key("agcount"), "{made:?}");
    }
    let boots = store::boots(&record).unwrap();
    assert_eq!(boots.len(), 2, "each block has a boot of its own");
    for boot in &boots {
        assert_eq!(boot.end.as_deref(), Some("was switched off"));
        assert_eq!(boot.topology.cpus.len(), 2);
    }
    assert_ne!(boots[0].boot_id, boots[1].boot_id);
    assert_ne!(boots[0].text, boots[1].text, "each boot lays its kernel elsewhere");
    assert!(record.record.emulated());
    // What an operation does is the same in both kernels, however fast it does it.
    let native = Home::new();
    ended_with(0, "", run(&native, &format!("{loads} --blocks 2")));
    let here = native.record();
    // Whether who wakes another is preempted by it differs, the number of switches does not.
    let switches = &["time.voluntary_context_switches", "time.involuntary_context_switches"];
    let counts: [(&str, &[&str]); 2] =
        [("page_fault_anonymous", &["time.minor_page_faults"]), ("context_switch", switches)];
    for (workload, names) in counts {
        let all = [&record, &here].map(|record| per_operation(record, workload, names));
        let [guest, host] = all.map(|values| values.iter().sum::<f64>() / values.len() as f64);
        // A busy host preempts tasks, which adds switches on one side or the other.
        let most = if workload == "context_switch" { 1.5 } else { 1.02 };
        let ratio = guest / host;
        assert!(ratio > 1.0 / most && ratio < most, "{names:?}/op: {guest} there, {host} here");
    }
}

#[test]
fn a_killed_knee_leaves_no_guest() {
    let Some(kernel) = kernel("kill -9 with a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let command = format!(
        "run create_files --fs ext4 --size 256M --kernel {} --cpus 1 --seconds 30 --blocks 1 \
         --accelerator tcg",
        kernel.display()
    );
    let running = home.start(&mut home.knee(&command));
    // An emulated boot takes some 3 s of CPU time: it is in its run.
    let is_up =
        |process: &Process| process.program.ends_with("qemu-system-x86_64") && process.ticks > 600;
    wait_within(PATIENCE, "a guest that is up", || {
        home.processes().iter().any(is_up).then_some(())
    });
    running.signal(libc::SIGKILL);
    home.wait_for_quiet();
    assert_eq!(home.scratch(), Vec::<PathBuf>::new(), "the disk has no name");
}

#[test]
fn instructions_repeat_from_boot_to_boot() {
    let home = Home::new();
    let load = "run getppid --metric instructions/op --cpus 1 --operations 20000";
    ended_with(2, "name a kernel to boot", run(&home, load));
    let Some(kernel) = kernel("instructions in a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kernel = kernel.display();
    ended_with(2, "counted on one CPU", run(&home, &format!("{load} --kernel {kernel} --cores 2")));
    ended_with(0, "", run(&home, &format!("{load} --kernel {kernel} --blocks 2")));
    let counted = per_operation(&home.record(), "getppid", &["instructions"]);
    assert_eq!(counted.len(), 2, "{counted:?}");
    assert!(counted[0] > 100.0 && (counted[1] / counted[0] - 1.0).abs() < 0.01, "{counted:?}");
}

#[test]
fn allocations_are_the_same_for_each_operation() {
    let Some(kernel) = kernel("allocations in a virtual machine") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let load = "run open_close_own getppid --metric slab_allocations/op --cpus 1 --operations 1000";
    ended_with(0, "", run(&home, &format!("{load} --kernel {} --blocks 1", kernel.display())));
    let counted = |load: &str| per_operation(&home.record(), load, &["slab_allocations"]);
    assert_eq!(counted("getppid"), [0.0]);
    let [opened] = counted("open_close_own")[..] else { panic!("one run") };
    assert!(opened >= 1.0 && opened.fract() == 0.0, "{opened}");
}

/// What `knee kernel boot` of such a kernel says.
fn check(home: &Home, arguments: &str, expected: &str) {
    ended_with(2, expected, run(home, &format!("kernel boot {arguments}")));
}

#[test]
fn what_cannot_be_booted_is_named() {
    let home = Home::new();
    check(&home, "nowhere", "looking for nowhere");
    let make = "has no kernel: name a kernel file, a folder with arch/x86/boot/bzImage";
    check(&home, "measured", make);
    fs::write(home.path("text"), "hello").unwrap();
    check(&home, "text", "is not a kernel for x86-64 or arm64");
    let mut arm = vec![0; 4096];
    arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
    fs::write(home.path("arm"), arm).unwrap();
    check(&home, "arm", "does not contain the text `Linux version`");
    let Some(kernel) = kernel("kernels that cannot be booted") else { return };
    let kernel = kernel.display();
    check(&home, &format!("{kernel} --accelerator xen"), "must be kvm, tcg or icount");
    check(&home, &format!("{kernel} --cores 400"), "1 to 255 CPUs");
    check(&home, &format!("{kernel} --guest-memory 1M"), "at least 256 MiB");
    check(&home, &format!("{kernel} --numa-distance 10"), "OWN,OTHER");
    check(&home, &format!("{kernel} --host-cpus 4000"), "may not use");
    check(&home, &format!("{kernel} --modules nowhere"), "nowhere");
    check(&home, &format!("{kernel} --cmdline init=/bin/sh"), "knee needs for itself");
    fs::create_dir(home.path("empty")).unwrap();
    check(
        &home,
        &format!("{kernel} --accelerator tcg --cmdline maxcpus=1"),
        "has 1 of the guest's 2 CPUs",
    );
    let mut command = home.knee(&format!("kernel boot {kernel}"));
    command.env("PATH", home.path("empty"));
    ended_with(2, "apt install qemu-system-x86", home.start(&mut command).end_within(PATIENCE));
}
