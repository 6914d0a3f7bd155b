//! One run of a workload, done as the real runner does it and watched more closely.
//!
//!     test ──fork──> worker: prepare, release, stop, verify all, look for what is left
//!                      └─ tasks (processes or threads): make, wait, drive, verify, drop
//!
//! Whoever has something to say says it on a pipe to the test; the run passed if nobody
//! did and the worker ended well. The worker leads a process group, so nothing that it
//! started outlives the check.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use workloads::{Control, Form, Line, Load, Prepared, Shared, Spec, Spin, Task, Values};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ending {
    /// Each task does [`COUNT`] operations.
    Count,
    /// The tasks are stopped, and interrupted until they have.
    Stop,
}

/// Operations of each task of a counted run.
const COUNT: u64 = 200;

/// Operations of all tasks, and how long to wait for them, before a run is stopped.
const STOP_AFTER: (u64, Duration) = (100, Duration::from_millis(200));

/// What to run.
pub struct Run {
    pub spec: &'static Spec,
    pub values: Values,
    pub form: Form,
    pub tasks: usize,
    pub ending: Ending,
    /// How long each phase may take.
    pub patience: Duration,
}

impl Run {
    pub fn new(spec: &'static Spec, form: Form, tasks: usize, ending: Ending) -> Run {
        let patience = Duration::from_secs(30);
        Run { spec, values: Values::default(), form, tasks, ending, patience }
    }

    fn limit(&self) -> Option<u64> {
        (self.ending == Ending::Count).then_some(COUNT)
    }

    /// Both loops of [`Task`] are walked, each with one task and with more.
    fn timed(&self) -> bool {
        (self.tasks == 1) == (self.ending == Ending::Count)
    }
}

/// What came of a run.
pub enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// Runs it in a worker process. The caller must have one thread only.
pub fn check(run: &Run) -> Outcome {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (reader, writer) = io::pipe().expect("a pipe");
    // SAFETY: this process has one thread, so the child may do anything.
    let worker = unsafe { libc::fork() };
    assert!(worker >= 0, "fork: {}", io::Error::last_os_error());
    if worker == 0 {
        drop(reader);
        let status = in_worker(run, place.path(), File::from(OwnedFd::from(writer)));
        // SAFETY: no preconditions; the test's own destructors must not run here.
        unsafe { libc::_exit(status) };
    }
    drop(writer);
    // The worker does the same; whoever comes first.
    // SAFETY: our own child.
    unsafe { libc::setpgid(worker, worker) };
    let (said, status) = listen(reader, worker, 4 * run.patience);
    let left = names_in(place.path());
    outcome(said, status, left)
}

fn outcome(said: String, status: Option<i32>, left: Vec<String>) -> Outcome {
    let mut failures: Vec<String> =
        said.lines().filter_map(|l| l.strip_prefix("failed ")).map(String::from).collect();
    match status {
        Some(0) => {}
        Some(status) => failures.push(format!("the worker ended with wait status {status:#x}")),
        None => failures.push("the worker had to be killed".to_string()),
    }
    let skipped = said.lines().find_map(|l| l.strip_prefix("skipped "));
    if skipped.is_none() && status == Some(0) && left != ["elsewhere"] {
        failures.push(format!("left outside of the run's directory, or of a removal: {left:?}"));
    }
    match (failures.is_empty(), skipped) {
        (false, _) => Outcome::Failed(failures.join("\n")),
        (true, Some(why)) => Outcome::Skipped(why.to_string()),
        (true, None) => Outcome::Passed,
    }
}

/// All that is said until the worker ends, and its wait status; `None` if it had to be
/// killed. Its whole process group is dead afterwards.
fn listen(mut reader: PipeReader, worker: i32, patience: Duration) -> (String, Option<i32>) {
    let deadline = Instant::now() + patience;
    let mut status = None;
    while status.is_none() && Instant::now() < deadline {
        status = ended(worker);
        sleep(Duration::from_micros(200));
    }
    // SAFETY: a group that we made, of our own child.
    unsafe { libc::kill(-worker, libc::SIGKILL) };
    if status.is_none() {
        // SAFETY: our own child, killed above; its status is of no interest.
        unsafe { libc::waitpid(worker, std::ptr::null_mut(), 0) };
    }
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("reading what the worker said");
    (said, status)
}

/// The wait status of a child that has ended; -1 for any child.
fn ended(child: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` is live.
    let pid = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
    (pid > 0).then_some(status)
}

// From here on: inside the worker and its tasks.

/// Where the worker and its tasks speak.
static VOICE: OnceLock<File> = OnceLock::new();

fn say(kind: &str, what: impl std::fmt::Display) {
    let line = format!("{kind} {}\n", what.to_string().replace('\n', " "));
    // One write of less than PIPE_BUF bytes: lines of several tasks do not mix.
    let _ = VOICE.get().expect("set first of all").write_all(line.as_bytes());
}

/// Ends this process and with it what cannot go on.
fn give_up(what: impl std::fmt::Display) -> ! {
    say("failed", what);
    // SAFETY: no preconditions.
    unsafe { libc::_exit(1) }
}

fn in_worker(run: &Run, place: &Path, voice: File) -> i32 {
    VOICE.set(voice).expect("set once");
    std::panic::set_hook(Box::new(|panic| give_up(panic)));
    // SAFETY: no preconditions.
    unsafe { libc::setpgid(0, 0) };
    ignore_interruptions();
    let (directory, elsewhere) = (place.join("load"), place.join("elsewhere"));
    for path in [&directory, &elsewhere] {
        fs::create_dir(path).expect("a directory in a fresh one");
    }
    std::env::set_current_dir(&elsewhere).expect("a directory just made");
    let load = load(run, directory);
    if let Some(missing) = run.spec.needs.iter().find_map(|need| need.check(&load).err()) {
        say("skipped", missing);
        return 0;
    }
    let before = open_descriptors();
    run_load(run, &load);
    look_for_remains(&before, &elsewhere);
    if let Err(error) = fs::remove_dir_all(&load.directory) {
        say("failed", format_args!("the run's directory cannot be removed: {error}"));
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
        turns_per_ns: 1.0,
    }
}

/// A handler that does nothing, without SA_RESTART: waiting calls return, no more.
fn ignore_interruptions() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: zero is a valid sigaction; the handler does nothing, which is always safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
}

/// What the runner and the tasks share.
struct Board {
    /// Tasks that are made, and tasks that no longer drive.
    ready: Line<AtomicU32>,
    stopped: Line<AtomicU32>,
    /// Written once by the runner, `stop` also by a task that failed.
    released: Line<AtomicU32>,
    stop: Line<AtomicU32>,
}

struct Seat {
    thread: Line<AtomicI32>,
    count: Line<AtomicU64>,
}

struct Room {
    board: Shared<Board>,
    seats: Shared<Seat>,
}

impl Room {
    fn board(&self) -> &Board {
        &self.board[0]
    }

    fn counted(&self) -> u64 {
        self.seats.iter().map(|seat| seat.count.load(SeqCst)).sum()
    }
}

fn run_load(run: &Run, load: &Load) {
    // SAFETY: atomics of zero bytes are 0, and hold no pointers.
    let room = unsafe {
        Shared::zeroed(1).and_then(|board| Ok(Room { board, seats: Shared::zeroed(run.tasks)? }))
    };
    let room = room.expect("a little shared memory");
    let prepared = match (run.spec.prepare)(load) {
        Ok(prepared) => prepared,
        Err(failure) => return say("failed", format_args!("prepare: {failure}")),
    };
    match run.form {
        Form::Processes => as_processes(run, &*prepared, &room),
        Form::Threads => as_threads(run, &*prepared, &room),
    }
    let counted = room.counted();
    if counted == 0 {
        say("failed", "no operation was done");
    }
    if let Err(failure) = prepared.verify(counted) {
        say("failed", format_args!("verification of all tasks: {failure}"));
    }
}

fn as_threads(run: &Run, prepared: &dyn Prepared, room: &Room) {
    std::thread::scope(|scope| {
        for index in 0..run.tasks {
            scope.spawn(move || in_task(run, prepared, room, index));
        }
        supervise(run, room);
    });
}

fn as_processes(run: &Run, prepared: &dyn Prepared, room: &Room) {
    for index in 0..run.tasks {
        // SAFETY: the worker has one thread in this form, so the child may do anything.
        match unsafe { libc::fork() } {
            0 => {
                let before = open_descriptors();
                in_task(run, prepared, room, index);
                complain_of_descriptors(&before);
                // SAFETY: no preconditions.
                unsafe { libc::_exit(0) }
            }
            -1 => give_up(format_args!("fork: {}", io::Error::last_os_error())),
            _ => {}
        }
    }
    supervise(run, room);
    for _ in 0..run.tasks {
        let mut status = 0;
        // SAFETY: `status` is live.
        let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
        if pid < 0 || status != 0 {
            say("failed", format_args!("a task ended with wait status {status:#x}"));
        }
    }
}

/// Releases the tasks, ends the run, and waits until every task has stopped.
fn supervise(run: &Run, room: &Room) {
    let board = room.board();
    let all = run.tasks as u32;
    wait(run, "to be made", || all_alive(room, all), || board.ready.load(SeqCst) == all);
    board.released.store(1, SeqCst);
    if run.ending == Ending::Stop {
        let start = Instant::now();
        let over = || {
            let enough = room.counted() >= STOP_AFTER.0;
            enough || (room.counted() > 0 && start.elapsed() > STOP_AFTER.1)
        };
        let failed = || board.stop.load(SeqCst) != 0;
        wait(run, "to do an operation", || all_alive(room, all), || over() || failed());
        board.stop.store(1, SeqCst);
    }
    let nudge = || {
        all_alive(room, all);
        if board.stop.load(SeqCst) != 0 {
            interrupt(run, room);
        }
    };
    wait(run, "to stop", nudge, || board.stopped.load(SeqCst) == all);
}

/// Waits for `over`, doing `meanwhile`; gives up when it takes too long.
fn wait(run: &Run, what: &str, mut meanwhile: impl FnMut(), over: impl Fn() -> bool) {
    let deadline = Instant::now() + run.patience;
    while !over() {
        if Instant::now() > deadline {
            give_up(format_args!("waited {:?} in vain for the tasks {what}", run.patience));
        }
        meanwhile();
        sleep(Duration::from_micros(100));
    }
}

/// No task process ends before all have stopped.
fn all_alive(room: &Room, all: u32) {
    // Asked again, as the last may have stopped, and another ended, in between.
    if let Some(status) = ended(-1)
        && room.board().stopped.load(SeqCst) < all
    {
        give_up(format_args!("a task died with wait status {status:#x}"));
    }
}

/// One signal to every task, as the real worker sends them until all have stopped.
fn interrupt(run: &Run, room: &Room) {
    for seat in room.seats.iter() {
        let thread = seat.thread.load(SeqCst);
        let process = if run.form == Form::Threads { std::process::id() as i32 } else { thread };
        // SAFETY: our own tasks; they have not ended, as not all have stopped.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    }
}

/// What one task does. It keeps step with the others even when it fails.
fn in_task(run: &Run, prepared: &dyn Prepared, room: &Room, index: usize) {
    let (board, seat) = (room.board(), &room.seats[index]);
    let complain = |what: &str, why: &dyn std::fmt::Display| {
        say("failed", format_args!("task {index}: {what}: {why}"));
        board.stop.store(1, SeqCst);
    };
    // SAFETY: no preconditions.
    seat.thread.store(unsafe { libc::gettid() }, SeqCst);
    let mut task = prepared.task(index);
    if let Err(failure) = &task {
        complain("cannot be made", failure);
    }
    board.ready.fetch_add(1, SeqCst);
    wait_quietly(|| board.released.load(SeqCst) != 0);
    let driven = task.as_mut().is_ok_and(|task| {
        let driven = drive(run, &mut **task, board, seat);
        driven.inspect_err(|why| complain("driven", why)).is_ok()
    });
    board.stopped.fetch_add(1, SeqCst);
    wait_quietly(|| board.stopped.load(SeqCst) == run.tasks as u32);
    let Ok(mut task) = task else { return };
    if !driven {
        return;
    }
    if let Err(failure) = task.verify(seat.count.load(SeqCst)) {
        complain("verification", &failure);
    }
    if let Some(effect) = task.effects().iter().find(|(_, value)| !value.is_finite()) {
        complain("effect", &format!("{effect:?}"));
    }
}

fn wait_quietly(over: impl Fn() -> bool) {
    while !over() {
        sleep(Duration::from_micros(50));
    }
}

/// Drives the task and checks what was counted and reported.
fn drive(run: &Run, task: &mut dyn Task, board: &Board, seat: &Seat) -> Result<(), String> {
    let limit = run.limit();
    let control = Control {
        stop: &board.stop,
        count: &seat.count,
        limit: limit.unwrap_or(u64::MAX),
        idle: Spin::turns(0),
    };
    let mut reports = 0;
    let result = match run.timed() {
        true => task.drive_timed(&control, || 0, &mut |_| reports += 1),
        false => task.drive(&control),
    };
    result.map_err(|failure| format!("an operation failed: {failure}"))?;
    let counted = seat.count.load(SeqCst);
    if run.timed() && reports != counted {
        return Err(format!("{counted} operations counted, {reports} reported"));
    }
    match limit {
        // Cut short by the failure of another task, which has been told.
        Some(limit) if counted < limit && board.stop.load(SeqCst) != 0 => Ok(()),
        Some(limit) if counted != limit => Err(format!("{counted} operations instead of {limit}")),
        _ => Ok(()),
    }
}

/// After a run: no descriptor, no thread, no process, no file where none belongs.
fn look_for_remains(before: &[String], elsewhere: &Path) {
    complain_of_descriptors(before);
    // A thread joined may be listed a moment longer.
    let threads = || names_in(Path::new("/proc/self/task")).len();
    let deadline = Instant::now() + Duration::from_secs(1);
    while threads() > 1 && Instant::now() < deadline {
        sleep(Duration::from_micros(50));
    }
    if threads() > 1 {
        say("failed", format_args!("{} threads are left", threads() - 1));
    }
    // SAFETY: a null status is allowed.
    if unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } >= 0 {
        say("failed", "a process is left");
    }
    let littered = names_in(elsewhere);
    if !littered.is_empty() {
        say("failed", format_args!("left in the current directory: {littered:?}"));
    }
}

/// Each open descriptor of this process and what it is open on.
fn open_descriptors() -> Vec<String> {
    let folder = Path::new("/proc/self/fd");
    let on = |name: &String| fs::read_link(folder.join(name)).ok().map(|to| (name.clone(), to));
    // The listing itself is closed by now, and has no link any more.
    names_in(folder).iter().filter_map(on).map(|(name, to)| format!("{name} on {to:?}")).collect()
}

fn complain_of_descriptors(before: &[String]) {
    let left: Vec<_> = open_descriptors().into_iter().filter(|d| !before.contains(d)).collect();
    if !left.is_empty() {
        say("failed", format_args!("descriptors are left open: {}", left.join(", ")));
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a folder that exists");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
