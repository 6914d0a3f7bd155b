//! One run of a workload, as the real runner does it but checked more closely.
//!
//!     test ──fork──> worker: prepare, release, stop, verify all, look for leftovers
//!                      └─ tasks (processes or threads): make, wait, drive, verify, drop
//!
//! The worker and its tasks report problems on a pipe to the test; the run passes if there
//! are none and the worker exits with 0. The worker leads a process group, so nothing that
//! it started outlives the check.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use workloads::{
    CacheLine, Control, Idle, Load, Pace, Prepared, Shared, Spec, Task, TaskForm, Values,
};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// Each task does [`COUNT`] operations.
    Count,
    /// The tasks are told to stop, and interrupted until they do.
    Stop,
}

/// Operations of each task of a counted run.
const COUNT: u64 = 200;

/// A run is stopped after this many operations of all tasks, or after this time if there
/// was at least one.
const STOP_AFTER: (u64, Duration) = (100, Duration::from_millis(200));

pub struct Run {
    pub spec: &'static Spec,
    pub values: Values,
    pub form: TaskForm,
    pub tasks: usize,
    pub ending: Ending,
    /// The longest that each phase may take.
    pub phase_max: Duration,
}

impl Run {
    pub fn new(spec: &'static Spec, form: TaskForm, tasks: usize, ending: Ending) -> Run {
        let phase_max = Duration::from_secs(30);
        Run { spec, values: Values::default(), form, tasks, ending, phase_max }
    }

    fn limit(&self) -> Option<u64> {
        (self.ending == Ending::Count).then_some(COUNT)
    }

    /// Whether to use [`Task::drive_timed`]: both loops are tested, with one task and with more.
    fn timed(&self) -> bool {
        (self.tasks == 1) == (self.ending == Ending::Count)
    }
}

pub enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// Runs it in a worker process. The caller must have one thread only.
pub fn check(run: &Run) -> Outcome {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let (reader, writer) = io::pipe().expect("a pipe");
    // SAFETY: this process has one thread, so the child may do anything.
    let worker = unsafe { libc::fork() };
    assert!(worker >= 0, "fork: {}", io::Error::last_os_error());
    if worker == 0 {
        drop(reader);
        let status = in_worker(run, scratch.path(), File::from(OwnedFd::from(writer)));
        // SAFETY: no preconditions; the test's own destructors must not run here.
        unsafe { libc::_exit(status) };
    }
    drop(writer);
    // The worker does so too: whichever is first.
    // SAFETY: our own child.
    unsafe { libc::setpgid(worker, worker) };
    let (report, status) = listen(reader, worker, 4 * run.phase_max);
    let left = names_in(scratch.path());
    outcome(report, status, left)
}

fn outcome(report: String, status: Option<i32>, left: Vec<String>) -> Outcome {
    let mut failures: Vec<String> =
        report.lines().filter_map(|l| l.strip_prefix("failed ")).map(String::from).collect();
    match status {
        Some(0) => {}
        Some(status) => failures.push(format!("the worker ended with wait status {status:#x}")),
        None => failures.push("the worker had to be killed".to_string()),
    }
    let skipped = report.lines().find_map(|l| l.strip_prefix("skipped "));
    if skipped.is_none() && status == Some(0) && left != ["elsewhere"] {
        failures.push(format!("left outside of the run's directory, or not removed: {left:?}"));
    }
    match (failures.is_empty(), skipped) {
        (false, _) => Outcome::Failed(failures.join("\n")),
        (true, Some(why)) => Outcome::Skipped(why.to_string()),
        (true, None) => Outcome::Passed,
    }
}

/// What the worker and its tasks report until the worker ends, and its wait status; `None`
/// if it had to be killed. Kills the whole process group.
fn listen(mut reader: PipeReader, worker: i32, time_max: Duration) -> (String, Option<i32>) {
    let deadline = Instant::now() + time_max;
    let mut status = None;
    while status.is_none() && Instant::now() < deadline {
        status = ended(worker);
        sleep(Duration::from_micros(200));
    }
    // SAFETY: the process group of our own child.
    unsafe { libc::kill(-worker, libc::SIGKILL) };
    if status.is_none() {
        // SAFETY: our own child, killed above; its status is of no interest.
        unsafe { libc::waitpid(worker, std::ptr::null_mut(), 0) };
    }
    let mut report = String::new();
    reader.read_to_string(&mut report).expect("reading the worker's report");
    (report, status)
}

/// The wait status of a child of this thread, if it has ended; child -1 is any: but not one that a workload's
/// thread made, which collects it itself.
fn ended(child: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` is live.
    let pid = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG | libc::__WNOTHREAD) };
    (pid > 0).then_some(status)
}

// From here on: inside the worker and its tasks.

/// The pipe on which the worker and its tasks report.
static REPORT: OnceLock<File> = OnceLock::new();

fn report(kind: &str, what: impl std::fmt::Display) {
    let line = format!("{kind} {}\n", what.to_string().replace('\n', " "));
    // One write of less than PIPE_BUF bytes: lines of several tasks do not mix.
    let _ = REPORT.get().expect("set first of all").write_all(line.as_bytes());
}

/// Reports a failure and exits this process.
fn give_up(what: impl std::fmt::Display) -> ! {
    report("failed", what);
    // SAFETY: no preconditions.
    unsafe { libc::_exit(1) }
}

fn in_worker(run: &Run, scratch: &Path, pipe: File) -> i32 {
    REPORT.set(pipe).expect("set once");
    std::panic::set_hook(Box::new(|panic| give_up(panic)));
    // SAFETY: no preconditions.
    unsafe { libc::setpgid(0, 0) };
    ignore_interruptions();
    let (directory, elsewhere) = (scratch.join("load"), scratch.join("elsewhere"));
    for path in [&directory, &elsewhere] {
        fs::create_dir(path).expect("a directory in a fresh one");
    }
    std::env::set_current_dir(&elsewhere).expect("a directory just made");
    let load = load(run, directory);
    if let Some(missing) = run.spec.needs.iter().find_map(|need| need.check(&load).err()) {
        report("skipped", missing);
        return 0;
    }
    let before = open_descriptors();
    run_load(run, &load);
    look_for_leftovers(&before, &elsewhere);
    if let Err(error) = fs::remove_dir_all(&load.directory) {
        report("failed", format_args!("the run's directory cannot be removed: {error}"));
    }
    0
}

fn load(run: &Run, directory: PathBuf) -> Load {
    Load {
        tasks: run.tasks,
        form: run.form,
        values: run.values.clone(),
        directory,
        operations: run.limit(),
        pace: Pace::NOMINAL,
    }
}

/// Installs a handler that does nothing, without SA_RESTART: waiting calls return, and no
/// more happens.
fn ignore_interruptions() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: zero is a valid sigaction; the handler does nothing, which is always safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

/// Memory that the worker shares with all tasks.
struct Flags {
    /// The number of tasks that are made.
    ready: CacheLine<AtomicU32>,
    /// The number of tasks that have stopped driving.
    stopped: CacheLine<AtomicU32>,
    /// Written once, by the worker.
    released: CacheLine<AtomicU32>,
    /// Written by the worker, and by a task that failed.
    stop: CacheLine<AtomicU32>,
}

/// Memory that the worker shares with one task.
struct TaskSlot {
    thread: CacheLine<AtomicI32>,
    count: CacheLine<AtomicU64>,
}

struct SharedState {
    flags: Shared<Flags>,
    tasks: Shared<TaskSlot>,
}

impl SharedState {
    fn flags(&self) -> &Flags {
        &self.flags[0]
    }

    fn counted(&self) -> u64 {
        self.tasks.iter().map(|task| task.count.load(SeqCst)).sum()
    }
}

fn run_load(run: &Run, load: &Load) {
    // SAFETY: atomics of zero bytes are 0, and hold no pointers.
    let state = unsafe {
        Shared::zeroed(1)
            .and_then(|flags| Ok(SharedState { flags, tasks: Shared::zeroed(run.tasks)? }))
    };
    let state = state.expect("a little shared memory");
    let prepared = match (run.spec.prepare)(load) {
        Ok(prepared) => prepared,
        Err(failure) => return report("failed", format_args!("prepare: {failure}")),
    };
    match run.form {
        TaskForm::Processes => as_processes(run, &*prepared, &state),
        TaskForm::Threads => as_threads(run, &*prepared, &state),
    }
    let counted = state.counted();
    if counted == 0 {
        report("failed", "no operation was done");
    }
    if let Err(failure) = prepared.verify(counted) {
        report("failed", format_args!("verification of all tasks: {failure}"));
    }
}

fn as_threads(run: &Run, prepared: &dyn Prepared, state: &SharedState) {
    std::thread::scope(|scope| {
        for index in 0..run.tasks {
            scope.spawn(move || in_task(run, prepared, state, index));
        }
        supervise(run, state);
    });
}

fn as_processes(run: &Run, prepared: &dyn Prepared, state: &SharedState) {
    for index in 0..run.tasks {
        // SAFETY: the worker has one thread in this form, so the child may do anything.
        match unsafe { libc::fork() } {
            0 => {
                let before = open_descriptors();
                in_task(run, prepared, state, index);
                report_open_descriptors(&before);
                // SAFETY: no preconditions.
                unsafe { libc::_exit(0) }
            }
            -1 => give_up(format_args!("fork: {}", io::Error::last_os_error())),
            _ => {}
        }
    }
    supervise(run, state);
    for _ in 0..run.tasks {
        let mut status = 0;
        // SAFETY: `status` is live.
        let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
        // No child: `check_alive` has collected it.
        if pid >= 0 {
            check_status(status);
        }
    }
}

fn check_status(status: i32) {
    if status != 0 {
        report("failed", format_args!("a task ended with wait status {status:#x}"));
    }
}

/// Releases the tasks, ends the run, and waits until every task has stopped.
fn supervise(run: &Run, state: &SharedState) {
    let flags = state.flags();
    let tasks = run.tasks as u32;
    let check = || check_alive(state, tasks);
    wait(run, "to be made", check, || flags.ready.load(SeqCst) == tasks);
    flags.released.store(1, SeqCst);
    if run.ending == Ending::Stop {
        let start = Instant::now();
        let done = || {
            let is_enough = state.counted() >= STOP_AFTER.0;
            is_enough || (state.counted() > 0 && start.elapsed() > STOP_AFTER.1)
        };
        let failed = || flags.stop.load(SeqCst) != 0;
        wait(run, "to do an operation", check, || done() || failed());
        flags.stop.store(1, SeqCst);
    }
    let check_and_interrupt = || {
        check_alive(state, tasks);
        if flags.stop.load(SeqCst) != 0 {
            interrupt(run, state);
        }
    };
    wait(run, "to stop", check_and_interrupt, || flags.stopped.load(SeqCst) == tasks);
}

/// Waits for `done`, calling `poll` in between; gives up after [`Run::phase_max`].
fn wait(run: &Run, what: &str, mut poll: impl FnMut(), done: impl Fn() -> bool) {
    let deadline = Instant::now() + run.phase_max;
    while !done() {
        if Instant::now() > deadline {
            give_up(format_args!("after {:?} still waiting for the tasks {what}", run.phase_max));
        }
        poll();
        sleep(Duration::from_micros(100));
    }
}

/// No task process may end before all tasks have stopped.
fn check_alive(state: &SharedState, tasks: u32) {
    // Read after `ended`: the last task may have stopped, and another ended, in between.
    if let Some(status) = ended(-1) {
        if state.flags().stopped.load(SeqCst) < tasks {
            give_up(format_args!("a task died with wait status {status:#x}"));
        }
        check_status(status);
    }
}

/// Sends one signal to every task, as the real worker does until all have stopped.
fn interrupt(run: &Run, state: &SharedState) {
    for task in state.tasks.iter() {
        let thread = task.thread.load(SeqCst);
        let process =
            if run.form == TaskForm::Threads { std::process::id() as i32 } else { thread };
        // SAFETY: our own tasks; they have not ended, as not all have stopped.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    }
}

/// Runs one task. It goes through all stages with the others even when it fails.
fn in_task(run: &Run, prepared: &dyn Prepared, state: &SharedState, index: usize) {
    let (flags, slot) = (state.flags(), &state.tasks[index]);
    let fail = |what: &str, why: &dyn std::fmt::Display| {
        report("failed", format_args!("task {index}: {what}: {why}"));
        flags.stop.store(1, SeqCst);
    };
    // SAFETY: no preconditions.
    slot.thread.store(unsafe { libc::gettid() }, SeqCst);
    let mut task = prepared.task(index);
    if let Err(failure) = &task {
        fail("cannot be made", failure);
    }
    flags.ready.fetch_add(1, SeqCst);
    wait_until(|| flags.released.load(SeqCst) != 0);
    let driven = task.as_mut().is_ok_and(|task| {
        let result = drive(run, &mut **task, flags, slot);
        result.inspect_err(|why| fail("driven", why)).is_ok()
    });
    flags.stopped.fetch_add(1, SeqCst);
    wait_until(|| flags.stopped.load(SeqCst) == run.tasks as u32);
    let Ok(mut task) = task else { return };
    if !driven {
        return;
    }
    if let Err(failure) = task.verify(slot.count.load(SeqCst)) {
        fail("verification", &failure);
    }
    if let Some(effect) = task.effects().iter().find(|(_, value)| !value.is_finite()) {
        fail("effect", &format!("{effect:?}"));
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        sleep(Duration::from_micros(50));
    }
}

/// Drives the task and checks the numbers of operations counted and reported.
fn drive(run: &Run, task: &mut dyn Task, flags: &Flags, slot: &TaskSlot) -> Result<(), String> {
    let limit = run.limit();
    let control = Control {
        stop: &flags.stop,
        count: &slot.count,
        limit: limit.unwrap_or(u64::MAX),
        idle: Idle::default(),
    };
    let mut reports = 0;
    let result = if run.timed() {
        task.drive_timed(&control, || 0, &mut |_| reports += 1)
    } else {
        task.drive(&control)
    };
    result.map_err(|failure| format!("an operation failed: {failure}"))?;
    let counted = slot.count.load(SeqCst);
    if run.timed() && reports != counted {
        return Err(format!("{counted} operations counted, {reports} reported"));
    }
    match limit {
        // Cut short by the failure of another task, which has reported it.
        Some(limit) if counted < limit && flags.stop.load(SeqCst) != 0 => Ok(()),
        Some(limit) if counted != limit => Err(format!("{counted} operations instead of {limit}")),
        _ => Ok(()),
    }
}

/// Checks that a run left no descriptor, no thread, no process, and no file elsewhere.
fn look_for_leftovers(before: &[String], elsewhere: &Path) {
    report_open_descriptors(before);
    // A joined thread may be listed a moment longer.
    let threads = || names_in(Path::new("/proc/self/task")).len();
    let deadline = Instant::now() + Duration::from_secs(1);
    while threads() > 1 && Instant::now() < deadline {
        sleep(Duration::from_micros(50));
    }
    if threads() > 1 {
        report("failed", format_args!("{} threads are left", threads() - 1));
    }
    // SAFETY: a null status is allowed.
    if unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } >= 0 {
        report("failed", "a process is left");
    }
    let files = names_in(elsewhere);
    if !files.is_empty() {
        report("failed", format_args!("left in the current directory: {files:?}"));
    }
}

/// The open descriptors of this process, each with the file that it is open on.
fn open_descriptors() -> Vec<String> {
    let folder = Path::new("/proc/self/fd");
    let described = |name: &String| {
        let file = fs::read_link(folder.join(name)).ok()?;
        Some(format!("{name} on {file:?}"))
    };
    // The descriptor of the listing itself is closed by now: it has no link any more.
    names_in(folder).iter().filter_map(described).collect()
}

/// Looks again for a second: a scope of threads ends before its threads have, and the C library opens a file
/// in /proc for a moment when one of them gives back memory.
fn report_open_descriptors(before: &[String]) {
    let left =
        || -> Vec<_> { open_descriptors().into_iter().filter(|d| !before.contains(d)).collect() };
    let until = Instant::now() + Duration::from_secs(1);
    while !left().is_empty() && Instant::now() < until {
        sleep(Duration::from_millis(1));
    }
    let left = left();
    if !left.is_empty() {
        report("failed", format_args!("descriptors are left open: {}", left.join(", ")));
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a folder that exists");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
