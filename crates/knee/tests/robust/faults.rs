//! Whatever strikes one run fails that run, with a reason that names who and what, and no
//! other: the rest of the record is measured, and nothing stays behind. Whatever strikes
//! knee itself costs no run that had been over.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use records::{Opened, Outcome, RecordState, Run};

use crate::home::{Cast, Home};
use crate::process::Process;
use crate::skip::{is_root, skip};

/// Tasks of the run that is struck.
const TASKS: usize = 3;

/// Strikes a run, once its tasks are at work, in a record of four. The run that is struck
/// is long, so that the blow cannot come too late; it ends by the blow, so nobody waits.
#[track_caller]
fn check(arguments: &str, long: &str, strike: impl Fn(&Cast), parts: &[&str]) {
    let home = Home::new();
    let arguments = format!(
        "run {arguments} --cpus all --tasks {TASKS} --blocks 1 --seconds {long},0.02,0.03,0.04 --json"
    );
    let running = home.start(&mut home.knee(&arguments));
    // More time than the short runs give.
    strike(&running.wait_for_tasks(TASKS, 6));
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    check_one_failed(&home, 4, parts);
}

/// The record is whole; all its runs but one finished, and that one failed with all these
/// parts in its reason.
#[track_caller]
fn check_one_failed(home: &Home, runs: usize, parts: &[&str]) {
    let record = home.record();
    assert_eq!(record.record.state, RecordState::Whole);
    assert_eq!(*record.runs, home.printed());
    let reasons: Vec<&str> = record.runs.iter().filter_map(reason).collect();
    assert_eq!((record.runs.len(), reasons.len()), (runs, 1), "{reasons:?}");
    for part in parts {
        assert!(reasons[0].contains(part), "no '{part}' in:\n{}", reasons[0]);
        assert!(home.said("stderr").contains(part), "not told on standard error: {part}");
    }
    home.check_nothing_is_left();
}

fn reason(run: &Run) -> Option<&str> {
    match &run.outcome {
        Outcome::Failed { reason } => Some(reason),
        Outcome::Finished { .. } => None,
    }
}

#[test]
fn a_task_that_is_killed_fails_its_run() {
    let kill = |cast: &Cast| cast.tasks[1].kill(libc::SIGKILL);
    check("getppid", "60", kill, &["task ", "(process ", "was killed by SIGKILL"]);
    check("create_files", "60", kill, &["task ", "was killed by SIGKILL"]);
    // The others wait for the dead one.
    check("pthread_mutex", "60", kill, &["task ", "was killed by SIGKILL"]);
}

#[test]
fn a_task_that_crashes_fails_its_run() {
    // Rust's handler lets a first SIGSEGV that is no fault of the stack pass, and is gone. On a busy host two signals
    // may become one.
    let crash = |cast: &Cast| {
        while cast.tasks[0].lives() {
            cast.tasks[0].kill(libc::SIGSEGV);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    check("getppid", "60", crash, &["task 0 (process ", "was killed by SIGSEGV"]);
    let abort = |cast: &Cast| cast.tasks[2].kill(libc::SIGABRT);
    check("flock_own", "60", abort, &["task 2 (process ", "was killed by SIGABRT"]);
}

#[test]
fn a_task_that_leaves_its_cpu_fails_its_run() {
    // As the kernel does it when a CPU goes offline: it may run anywhere from then on.
    let unpin = |cast: &Cast| {
        // SAFETY: an all-zero set is a valid one; it is live during the call.
        let result = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
            libc::sched_setaffinity(cast.tasks[1].pid, size_of_val(&set), &set)
        };
        assert_eq!(result, 0);
    };
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return skip("a task that leaves its CPU", "there is one CPU");
    }
    check("getppid", "1.5", unpin, &["task ", "no longer pinned to CPU ", "offline for a while"]);
}

#[test]
fn a_worker_that_is_killed_fails_its_run() {
    let kill = |cast: &Cast| cast.worker.kill(libc::SIGKILL);
    check("create_files", "60", kill, &["the worker was killed by SIGKILL"]);
    check("create_files --as threads", "60", kill, &["the worker was killed by SIGKILL"]);
    let abort = |cast: &Cast| cast.worker.kill(libc::SIGABRT);
    check("getppid --as threads", "60", abort, &["the worker was killed by SIGABRT"]);
}

#[test]
fn a_worker_that_is_stopped_for_good_fails_its_run() {
    let home = Home::new();
    let arguments = format!("run getppid --cpus all --tasks {TASKS} --blocks 4 --seconds 2 --json");
    let running = home.start(&mut home.knee(&arguments));
    running.wait_for_tasks(TASKS, 0).worker.kill(libc::SIGSTOP);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let parts = ["the worker did not answer for ", "as it is stopped (state T)"];
    check_one_failed(&home, 4, &parts);
}

/// A control group of its own with a freezer of version 1 or 2, thawed and removed at the end.
struct Freezer {
    group: PathBuf,
    /// The file that freezes it, and the words that freeze and thaw.
    switch: (&'static str, &'static str, &'static str),
}

impl Freezer {
    /// That of a version, in one of the folders where its groups may be mounted.
    fn new(version: u32) -> Option<Freezer> {
        let name = format!("knee-test-{}", std::process::id());
        let (roots, switch): (&[&str], _) = match version {
            1 => (&["/sys/fs/cgroup/freezer"], ("freezer.state", "FROZEN", "THAWED")),
            _ => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], ("cgroup.freeze", "1", "0")),
        };
        roots.iter().find_map(|root| {
            let group = PathBuf::from(root).join(&name);
            fs::create_dir(&group).ok()?;
            let has_switch = group.join(switch.0).exists();
            if !has_switch {
                let _ = fs::remove_dir(&group);
            }
            has_switch.then_some(Freezer { group, switch })
        })
    }

    fn freeze(&self, process: &Process) {
        fs::write(self.group.join("cgroup.procs"), process.pid.to_string()).unwrap();
        fs::write(self.group.join(self.switch.0), self.switch.1).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.group.join(self.switch.0), self.switch.2);
        // Its processes, which were killed, die now.
        let is_removed = |_: &u32| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            fs::remove_dir(&self.group).is_ok()
        };
        let _ = (0..1000).find(is_removed);
    }
}

#[test]
fn a_worker_whose_control_group_is_frozen_is_named() {
    for version in [1, 2] {
        match Freezer::new(version) {
            Some(freezer) => check_frozen(freezer),
            None => skip(
                &format!("a frozen worker, control groups of version {version}"),
                "no freezer of theirs that this user may use",
            ),
        }
    }
}

fn check_frozen(freezer: Freezer) {
    let home = Home::new();
    let arguments = format!("run getppid --cpus all --tasks {TASKS} --blocks 4 --seconds 2 --json");
    let running = home.start(&mut home.knee(&arguments));
    freezer.freeze(&running.wait_for_tasks(TASKS, 0).worker);
    let ended = running.end();
    // Version 1 keeps even SIGKILL from it: then knee says what to do and goes no further.
    let (status, part) = match freezer.switch.0 {
        "freezer.state" => (2, "cannot be killed as its control group "),
        _ => (1, "the worker did not answer for "),
    };
    assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
    assert!(ended.stderr.contains(part) && ended.stderr.contains(" is frozen"), "{}", ended.stderr);
    drop(freezer);
    home.check_nothing_is_left();
}

#[test]
fn a_task_that_does_not_stop_fails_its_run() {
    let stop = |cast: &Cast| cast.tasks[1].kill(libc::SIGSTOP);
    let parts = ["1 of 3 tasks did not stop within 1.0 s after the end", "task 1: ", "state T"];
    check("create_files --stop-grace 1", "1.5", stop, &parts);
}

#[test]
fn a_task_that_is_stopped_and_continued_fails_its_run() {
    let pause = |process: &Process| {
        process.kill(libc::SIGSTOP);
        std::thread::sleep(std::time::Duration::from_millis(50));
        process.kill(libc::SIGCONT);
    };
    let parts = ["task 1 (process ", "was stopped and continued by signals (SIGSTOP, SIGCONT)"];
    check("create_files", "1.5", |cast: &Cast| pause(&cast.tasks[1]), &parts);
    let parts = ["the worker was stopped and continued by signals (SIGSTOP, SIGCONT)"];
    check("create_files --as threads", "1.5", |cast: &Cast| pause(&cast.worker), &parts);
}

#[test]
fn a_worker_that_says_nothing_more_fails_its_run() {
    let stop = |cast: &Cast| cast.worker.kill(libc::SIGSTOP);
    let parts = ["the worker was killed after 4 s, before it had finished"];
    check("create_files --stop-grace 1 --timeout 1", "2", stop, &parts);
    check("create_files --as threads --stop-grace 1 --timeout 1", "2", stop, &parts);
}

/// A memory control group below our own.
struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    fn new(bytes: u64) -> Result<MemoryGroup, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
        let group = |version: &str, below: &str, limit: &str| {
            let path = own.lines().find_map(|line| line.split_once(version))?.1;
            let name = format!("knee-test-{}", std::process::id());
            Some((
                PathBuf::from(format!("/sys/fs/cgroup{below}{path}")).join(name),
                limit.to_string(),
            ))
        };
        let (folder, limit) = group(":memory:", "/memory", "memory.limit_in_bytes")
            .or_else(|| group("0::", "", "memory.max"))
            .ok_or("no memory control group")?;
        fs::create_dir(&folder).map_err(|e| format!("creating {}: {e}", folder.display()))?;
        let group = MemoryGroup { folder };
        let path = group.folder.join(&limit);
        fs::write(&path, bytes.to_string())
            .map_err(|e| format!("writing {}: {e}", path.display()))?;
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn want_of_memory_fails_its_run_and_is_named() {
    // Operations enough to touch every page of the larger size, however busy the host is.
    let group = match MemoryGroup::new(96 << 20) {
        Ok(group) => group,
        Err(why) => return skip("want of memory", &why),
    };
    for form in ["processes", "threads"] {
        let home = Home::new();
        let mut command = home.knee(&format!(
            "run page_fault_anonymous --set size_bytes=1M,512M --as {form} --cpus 1 --blocks 1 \
             --operations 131072 --json"
        ));
        let processes = group.folder.join("cgroup.procs");
        // SAFETY: a write to a file; allocates, which is safe as this test forks no thread
        // that could hold the allocator's lock.
        unsafe { command.pre_exec(move || fs::write(&processes, std::process::id().to_string())) };
        let ended = home.start(&mut command).end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        check_one_failed(&home, 2, &["was killed by SIGKILL", "for lack of memory"]);
    }
}

/// As many runs as take a while.
const MANY: &str =
    "run create_files getppid --cpus 1 --tasks 2 --blocks 6 --seconds 0.1 --seed 1 --json";
const PLANNED: usize = 12;

/// Every (block, point) at most once, numbered in order, all that were printed among them.
#[track_caller]
fn check_runs(record: &Opened, printed: &[Run]) {
    let numbers: Vec<u32> = record.runs.iter().map(|run| run.run).collect();
    assert_eq!(numbers, (0..record.runs.len() as u32).collect::<Vec<_>>());
    let cells: BTreeSet<(u32, u32)> = record.runs.iter().map(|r| (r.block, r.point)).collect();
    assert_eq!(cells.len(), record.runs.len(), "a run was done twice");
    for run in printed {
        assert_eq!(record.runs.get(run.run as usize), Some(run), "a printed run was lost");
    }
}

/// The rest of [`MANY`] makes the record whole, and does no more than that.
#[track_caller]
fn check_resumes(home: &Home) {
    let before = home.record();
    assert_eq!(before.record.state, RecordState::Partial);
    let ended = home.resume(&format!("{MANY} --resume"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let printed = home.printed();
    let after = home.record();
    assert_eq!(before.runs.len() + printed.len(), PLANNED);
    assert_eq!(after.runs[..before.runs.len()], *before.runs);
    check_runs(&after, &printed);
    assert_eq!(after.record.state, RecordState::Whole);
    assert_eq!(after.record.sessions.len(), 2);
    let parquet = store::samples(&after).unwrap();
    let sampled: BTreeSet<u32> = parquet.iter().map(|(run, _)| *run).collect();
    assert_eq!(sampled.len(), PLANNED, "samples of each run");
    home.check_nothing_is_left();
}

#[test]
fn a_wish_to_end_keeps_the_finished_runs_and_resuming_does_the_rest() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let home = Home::new();
        let mut running = home.start(&mut home.knee(MANY));
        running.wait_for_runs(2);
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
        assert!(ended.stderr.contains("with --resume does the rest"), "{}", ended.stderr);
        home.check_nothing_is_left();
        let record = home.record();
        assert_eq!(*record.runs, home.printed());
        check_runs(&record, &[]);
        check_resumes(&home);
    }
}

#[test]
fn what_knee_was_started_to_ignore_it_ignores() {
    for signal in [libc::SIGHUP, libc::SIGINT] {
        let home = Home::new();
        let mut command = home.knee(MANY);
        // SAFETY: a system call only. As `nohup` does, and a shell for `&` in a script.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_IGN);
                Ok(())
            })
        };
        let mut running = home.start(&mut command);
        running.wait_for_runs(2);
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert_eq!(home.record().runs.len(), PLANNED);
    }
}

#[test]
fn a_wish_to_end_before_the_first_run_is_over_leaves_nothing() {
    let home = Home::new();
    let running = home.start(&mut home.knee("run create_files --seconds 60 --tasks 2 --cpus 1"));
    running.wait_for_tasks(2, 2);
    running.signal(libc::SIGINT);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing to keep"), "{}", ended.stderr);
    assert!(home.records().is_empty());
    home.check_nothing_is_left();
}

#[test]
fn after_kill_9_the_next_start_tidies_and_recovers_and_resuming_does_the_rest() {
    let home = Home::new();
    let mut running = home.start(&mut home.knee(MANY));
    running.wait_for_runs(2);
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
    let printed = home.printed();
    assert!(home.records().is_empty(), "a record that grew is not seen");
    assert!(!home.scratch().is_empty(), "a killed knee cannot remove its directory");

    let ended = home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for part in ["removed", "left by a knee that was killed", "recovered", "whose knee died"] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    home.check_nothing_is_left();
    let (partial, other): (Vec<_>, Vec<_>) =
        home.records().into_iter().partition(|r| r.record.state == RecordState::Partial);
    check_runs(&partial[0], &printed);
    assert!(partial[0].record.warnings.iter().any(|w| w.text.contains("the writer died")));
    fs::remove_dir_all(&other[0].folder).unwrap();
    check_resumes(&home);
}

#[test]
fn a_full_disk_keeps_the_finished_runs_and_resuming_does_the_rest() {
    if !is_root() {
        return skip("a full disk", "only root may mount one");
    }
    let home = Home::new();
    let mount = |options: &str| {
        let records = home.path("records");
        let mut command = Command::new("mount");
        let status = command.args(["-t", "tmpfs", "-o", options, "none"]).arg(records).status();
        assert!(status.expect("starting mount").success(), "mounting with {options}");
    };
    mount("size=64k");
    let arguments = "run getppid --cpus 1 --blocks 60 --seconds 0.005 --seed 1 --json";
    let ended = home.run(arguments);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    let safe = home.printed();
    for part in ["No space left", "of 60 runs are safe in", "--resume does the rest"] {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    let listed = home.run("list").stdout;
    assert!(listed.contains(&format!("{} of 60 runs", safe.len())), "{listed}");
    mount("remount,size=64m");
    let ended = home.resume(&format!("{arguments} --resume"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!((record.runs.len(), &record.runs[..safe.len()]), (60, &safe[..]));
    let unmounted = Command::new("umount").arg(home.path("records")).status();
    assert!(unmounted.expect("starting umount").success());
}
