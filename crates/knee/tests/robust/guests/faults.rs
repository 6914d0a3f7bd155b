//! Virtual machines that panic or stop at any instant: whatever had been measured stays, one run is
//! lost, and the next boots again.
//!
//! knee finds QEMU by PATH, where a home has a script of that name, which adds a monitor: through it a
//! test sends the guest's CPUs a non-maskable interrupt, or stops them, and knee knows nothing of it.
//!
//! KNEE_PANICS=10 panics more often; KNEE_SEED repeats the choices, though not the instants to the
//! nanosecond.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;
use std::time::Duration;

use rand::RngExt;
use records::{Opened, Outcome, RecordState, Run};

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::{Home, Running, entries};
use crate::process::wait_within;
use crate::random::{choices, times};

/// `knee` in this home, with monitors for its guests.
fn monitored(home: &Home, arguments: &str) -> Command {
    let folder = home.path("bin");
    fs::create_dir_all(&folder).unwrap();
    let script = "#!/bin/sh\nPATH=${PATH#*:}\n\
         exec qemu-system-x86_64 \"$@\" -monitor unix:\"$HOME\"/monitor-$$,server=on,wait=off\n";
    let program = folder.join("qemu-system-x86_64");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.knee(arguments);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
    command
}

/// The QEMU of the guest that is up, with its monitor; nothing between two guests.
fn qemu(home: &Home) -> Option<(i32, PathBuf)> {
    home.processes().iter().find_map(|process| {
        let monitor = home.path(&format!("monitor-{}", process.pid));
        monitor.exists().then_some((process.pid, monitor))
    })
}

/// Tells a monitor something; whether the guest was still there.
fn tell(monitor: &Path, what: &str) -> bool {
    let said = || -> std::io::Result<()> {
        let mut stream = UnixStream::connect(monitor)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        prompt(&mut stream)?;
        stream.write_all(format!("{what}\n").as_bytes())?;
        prompt(&mut stream)
    };
    said().is_ok()
}

/// Reads up to where the monitor waits for a command.
fn prompt(stream: &mut UnixStream) -> std::io::Result<()> {
    let mut text = Vec::new();
    while !text.ends_with(b"(qemu) ") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    Ok(())
}

/// Why a run failed.
fn reason(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Failed { reason } => Some(reason),
        _ => None,
    }
}

/// Panics unless the record is whole, with so many runs, and has samples of each that finished.
#[track_caller]
fn check_whole(record: &Opened, runs: usize) {
    assert_eq!(record.record.state, RecordState::Whole);
    assert_eq!(record.runs.len(), runs);
    for (at, run) in record.runs.iter().enumerate() {
        assert_eq!(run.run, at as u32, "runs are numbered in order");
    }
    let finished = record.runs.iter().filter(|run| run.finished()).map(|run| run.run);
    let samples = store::samples(record).expect("reading the samples");
    let sampled: BTreeSet<u32> = samples.iter().map(|(run, _)| *run).collect();
    assert_eq!(sampled, finished.collect(), "samples of each finished run");
}

/// Waits until so many runs have been printed or knee has ended.
fn wait_for_runs(home: &Home, running: &mut Running, runs: usize) {
    wait_within(PATIENCE, "runs", || {
        (home.printed().len() >= runs || running.has_ended()).then_some(())
    });
}

#[test]
fn a_panic_at_any_instant_costs_the_run_in_progress() {
    let Some(kernel) = kernel("panics at random instants") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut random = choices("a_panic_at_any_instant");
    let wanted = times("KNEE_PANICS", 3);
    let blocks = wanted * 8 / 10;
    let home = Home::new();
    let mut command = monitored(
        &home,
        &format!(
            "run getppid posix_lock_own --kernel {} --accelerator tcg --cpus 1,2 --seconds 0.3 \
             --blocks {blocks} --runs-per-boot 2 --seed 5 --patience 60 --json",
            kernel.display()
        ),
    );
    command.args(["--cmdline", "panics=unknown_nmi_panic"]);
    let mut running = home.start(&mut command);
    let mut before: Vec<Run> = Vec::new();
    for panic in 1..=wanted as usize {
        // Right after a panic the next guest is booting; later it is in a run, or between two. Not twice
        // in a row: three boots that fail are a run that fails.
        wait_for_runs(&home, &mut running, before.len() + random.random_range(panic % 2..6));
        std::thread::sleep(Duration::from_millis(random.random_range(0..1500)));
        let found = wait_within(PATIENCE, "a guest", || {
            running.has_ended().then_some(None).or(qemu(&home).map(Some))
        });
        let now = home.printed();
        assert_eq!(now[..before.len()], before, "what was printed is printed");
        before = now;
        if let Some((_, monitor)) = found {
            tell(&monitor, "nmi");
        }
    }
    let ended = running.end_within(PATIENCE);
    let record = home.record();
    check_whole(&record, blocks as usize * 2 * 2 * 2);
    assert_eq!(record.runs[..before.len()], before, "what had been printed is in the record");
    let boots = store::boots(&record).unwrap();
    let mut panics = 0_u64;
    for (at, run) in record.runs.iter().enumerate() {
        let Some(why) = reason(run) else { continue };
        panics += 1;
        assert!(why.contains("was in a guest that panicked: NMI: Not continuing"), "{why}");
        let boot = boots.iter().find(|boot| Some(boot.boot) == run.boot).expect("its boot");
        let end = boot.end.as_deref().unwrap_or_default();
        assert_eq!(end, format!("panicked: NMI: Not continuing in run {}", run.run));
        let next = record.runs.get(at + 1);
        assert!(next.is_none_or(|next| next.boot > run.boot), "the next run boots again");
    }
    // A panic between two runs costs none.
    let in_run = |end: &str| end.starts_with("panicked: ") && end.contains(" in run ");
    let ends = boots.iter().filter(|boot| boot.end.as_deref().is_some_and(in_run)).count();
    assert_eq!(ends as u64, panics, "each panic of a guest in a run cost that run");
    assert!(panics >= wanted * 3 / 10, "{panics} of {wanted} panics met a run: {}", ended.stderr);
    println!("{panics} runs lost of {}, {} boots", record.runs.len(), boots.len());
    home.wait_for_quiet();
}

/// Stops the guest that is up, by what is given, in the run that follows after so many. Returns whether it did: on a busy host
/// the run may be over by then.
fn stop_after(
    home: &Home,
    running: &mut Running,
    runs: usize,
    stop: impl Fn(i32, &Path) -> bool,
) -> bool {
    wait_for_runs(home, running, runs);
    std::thread::sleep(Duration::from_millis(500));
    // It may be between two boots.
    let guest = wait_within(PATIENCE, "a guest", || {
        running.has_ended().then_some(None).or(qemu(home).map(Some))
    });
    guest.is_some_and(|(pid, monitor)| stop(pid, &monitor)) && home.printed().len() == runs
}

/// Four runs in two boots, each of whose second runs meets a guest that stops: what is left, and what knee said. None if the host
/// was too busy: a guest did not boot with this patience, or a run of these seconds was over before its guest was stopped.
fn stopped_twice(kernel: &Path, seconds: f64, patience: u32) -> Option<(Home, String)> {
    let home = Home::new();
    let mut running = home.start(&mut monitored(
        &home,
        &format!(
            "run getppid --kernel {} --accelerator tcg --cpus 1 --seconds {seconds} --blocks 1 \
             --runs-per-boot 4 --patience {patience} --json",
            kernel.display()
        ),
    ));
    // QEMU itself.
    // SAFETY: a plain call; a test's own guest.
    let stop = |pid, _: &Path| unsafe { libc::kill(pid, libc::SIGSTOP) == 0 };
    let first = stop_after(&home, &mut running, 1, stop);
    // Only its CPUs, as where a disk cannot grow.
    let second = stop_after(&home, &mut running, 3, |_, monitor| tell(monitor, "stop"));
    let ended = running.end_within(PATIENCE);
    home.wait_for_quiet();
    (first && second).then_some((home, ended.stderr))
}

#[test]
fn a_guest_that_stops_is_given_up_and_costs_the_run_in_progress() {
    let Some(kernel) = kernel("a guest that stops") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, said) = [(1.5, 5), (15.0, 60), (60.0, 300)]
        .into_iter()
        .find_map(|(seconds, patience)| stopped_twice(&kernel, seconds, patience))
        .expect("a guest boots and a run of a minute is met");
    let record = home.record();
    check_whole(&record, 4);
    let whys: Vec<Option<&str>> = record.runs.iter().map(reason).collect();
    let [None, Some(first), None, Some(second)] = whys[..] else { panic!("{whys:?}: {said}") };
    for words in [
        "is stopped: its CPUs have not run on the host for",
        "its worker last said: ",
        "on its console last: [",
    ] {
        assert!(first.contains(words), "no '{words}' in: {first}");
        assert!(second.contains(words), "no '{words}' in: {second}");
    }
    let boots: Vec<Option<u32>> = record.runs.iter().map(|run| run.boot).collect();
    assert_eq!(boots, [Some(0), Some(0), Some(1), Some(1)], "the next run boots again");
    assert!(entries(&home.path("measured")).is_empty(), "nothing is left");
}
