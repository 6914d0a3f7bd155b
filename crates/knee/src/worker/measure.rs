//! The run itself: all tasks ready, one release, looks at the counts, one stop, reports.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use probes::counters::Snapshot;
use records::{Event, Form, Job, Measured, Pass, TaskReport, Until, Usage, Warning};
use workloads::{Load, Prepared, Spin};

use super::board::{Board, Phase, install_kick_handler};
use super::priority::{self, Policy};
use super::task::Birth;
use super::tasks::{Tasks, where_it_waits};
use super::watch::Watch;
use super::{durations, say, usage};
use crate::clock::now_ns;

/// Does the run and says its events, from `ready` to `latency`.
pub fn measure(
    job: &Job,
    load: &Load,
    prepared: &dyn Prepared,
    started_ns: u64,
) -> Result<(), String> {
    install_kick_handler();
    let policy = Policy::current();
    if !priority::raise() && job.tasks as usize > 4 * job.cpus.len() {
        say(&Event::Warning(Warning::new(
            "the worker could not go before its tasks: they may start and stop late",
            "run as root, or allow real-time priority 1 (ulimit -r 1)",
        )));
    }
    let mut watch = Watch::begin(job);
    let board = Board::new(job.tasks, watch.operations()).map_err(|failure| failure.to_string())?;
    let reports = memory_file()?;
    let marker = watch.marker();
    let birth = Birth { job, load, prepared, board: &board, reports: &reports, policy, marker };
    let mut tasks = Tasks::new(job.form);
    // Threads that hang would keep the scope from ending: `leave` ends the process instead.
    let seen = std::thread::scope(|scope| {
        let seen = conduct(&birth, &mut tasks, &mut watch, started_ns, |tasks, index| {
            tasks.start(scope, &birth, index)
        });
        if let Err(reason) = &seen
            && !tasks_leave(&birth, &mut tasks)
        {
            leave(job, reason.clone());
        }
        seen
    })?;
    let mut reports = read_reports(&reports)?;
    let operations = reports.iter().map(|r| r.operations).sum();
    prepared.verify(operations).map_err(|failure| failure.to_string())?;
    let latency = (job.pass == Pass::Latency).then(|| durations::merge(&mut reports));
    seen.intervals.iter().for_each(say);
    say(&Event::Measured(measured(job.form, &reports, &seen)));
    reports.into_iter().for_each(|report| say(&Event::Task(report)));
    latency.into_iter().for_each(|latency| say(&Event::Latency(latency)));
    watch.end().iter().for_each(say);
    Ok(())
}

/// What the worker saw of a run.
struct Seen {
    before: Look,
    after: Look,
    /// When the stop flag was set, in ns since the release; not in fixed-count runs.
    stop_ns: Option<u64>,
    intervals: Vec<Event>,
}

/// Takes the tasks through their phases.
fn conduct(
    birth: &Birth,
    tasks: &mut Tasks,
    watch: &mut Watch,
    started_ns: u64,
    start: impl Fn(&mut Tasks, usize) -> Result<(), String>,
) -> Result<Seen, String> {
    let Birth { job, board, .. } = *birth;
    let root = Path::new("/");
    for index in 0..job.tasks as usize {
        start(tasks, index)?;
    }
    until_arrived(birth, tasks, 1, None)?;
    let startup_s = (now_ns() - started_ns) as f64 / 1e9;
    say(&Event::Ready { tasks: job.tasks, startup_s });

    let before = Look::now(Snapshot::before(root, &job.cpus));
    if !matches!(job.until, Until::Seconds(_)) {
        watch.edge(board, job.form)?;
    }
    let released_ns = board.release(now_ns);
    let mut intervals = Vec::with_capacity(4096);
    let stop_ns = match job.until {
        Until::Seconds(seconds) => {
            run_for(birth, tasks, watch, released_ns, seconds, &mut intervals)?
        }
        Until::OperationsPerTask(_) | Until::End => {
            run_out(birth, tasks, watch, released_ns, &mut intervals)?
        }
    };
    let grace = Duration::from_secs_f64(job.stop_grace_s);
    until_arrived(birth, tasks, 2, stop_ns.map(|_| grace))?;
    if stop_ns.is_none() {
        watch.edge(board, job.form)?;
    }
    let after = Look::now(Snapshot::after(root, &job.cpus));

    board.set_phase(Phase::Report);
    until_arrived(birth, tasks, 3, None)?;
    tasks.join()?;
    Ok(Seen { before, after, stop_ns, intervals })
}

/// Lets the tasks run for a time; returns when the stop flag was set, in ns since the
/// release.
fn run_for(
    birth: &Birth,
    tasks: &mut Tasks,
    watch: &mut Watch,
    released_ns: u64,
    seconds: f64,
    intervals: &mut Vec<Event>,
) -> Result<Option<u64>, String> {
    let board = birth.board;
    let end_ns = (seconds * 1e9) as u64;
    let interval_ns = interval_ns(end_ns, birth.job.tasks);
    let mut next_ns = interval_ns;
    let mut moments = watch.moments(end_ns).into_iter().peekable();
    loop {
        let gate = board.gate();
        let at_ns = now_ns() - released_ns;
        if let Some((_, moment)) = moments.next_if(|(due_ns, _)| *due_ns <= at_ns) {
            watch.take(moment, at_ns, board, birth.job.form)?;
            continue;
        }
        let due_ns = moments.peek().map_or(end_ns, |(due_ns, _)| *due_ns);
        let next = next_ns.min(due_ns).min(end_ns);
        if at_ns < next && !board.has_failed() {
            board.sleep(gate, Duration::from_nanos(next - at_ns));
            continue;
        }
        let at_ns = now_ns() - released_ns;
        if at_ns >= end_ns || board.has_failed() {
            watch.edge(board, birth.job.form)?;
            board.stop();
            intervals.push(Event::Interval { at_ns, operations: board.operations() });
            return Ok(Some(at_ns));
        }
        if at_ns < next_ns {
            continue;
        }
        intervals.push(Event::Interval { at_ns, operations: board.operations() });
        watch.drain();
        tasks.reap()?;
        next_ns += interval_ns;
    }
}

/// Lets the tasks run until each has done its count.
fn run_out(
    birth: &Birth,
    tasks: &mut Tasks,
    watch: &mut Watch,
    released_ns: u64,
    intervals: &mut Vec<Event>,
) -> Result<Option<u64>, String> {
    let board = birth.board;
    let interval = Duration::from_nanos(interval_ns(1_000_000_000, birth.job.tasks));
    loop {
        let gate = board.gate();
        if board.all_arrived(2) || board.has_failed() {
            return Ok(None);
        }
        board.sleep(gate, interval);
        let at_ns = now_ns() - released_ns;
        intervals.push(Event::Interval { at_ns, operations: board.operations() });
        watch.drain();
        tasks.reap()?;
    }
}

/// Time between two looks at the counts: 50 looks a run, but not so often that the looks
/// (a cache miss for each task) could be felt.
fn interval_ns(run_ns: u64, tasks: u32) -> u64 {
    (run_ns / 50).clamp(10_000_000, 1_000_000_000).max(tasks as u64 * 25_000)
}

/// How long tasks may take to arrive at `Report`'s end or to be ready before something is
/// wrong with the host; the parent's deadline is shorter where the job's length is known.
const ARRIVAL_POLL: Duration = Duration::from_millis(5);

/// Waits until all tasks have come to the end of a stage. With a grace, tasks that take
/// longer are interrupted in their waits, and after it the run has failed.
fn until_arrived(
    birth: &Birth,
    tasks: &mut Tasks,
    stage: u32,
    grace: Option<Duration>,
) -> Result<(), String> {
    let board = birth.board;
    let since_ns = now_ns();
    loop {
        let gate = board.gate();
        if board.has_failed() {
            return Err(first_failure(birth.reports));
        }
        if board.all_arrived(stage) {
            return Ok(());
        }
        board.sleep(gate, ARRIVAL_POLL.max(Duration::from_micros(10 * birth.job.tasks as u64)));
        if !board.all_arrived(stage) {
            tasks.reap()?;
        }
        if let Some(grace) = grace
            && !board.all_arrived(stage)
        {
            if Duration::from_nanos(now_ns() - since_ns) > grace {
                return Err(stuck(birth, stage, grace));
            }
            birth.board.kick_all(birth.job.form);
        }
    }
}

fn stuck(birth: &Birth, stage: u32, grace: Duration) -> String {
    let late = birth.job.tasks - birth.board.arrivals(stage);
    let states = (0..birth.job.tasks as usize)
        .map(|index| (index, where_it_waits(birth.board.thread_of(index, birth.job.form))));
    // Those that have stopped wait for the next phase in a futex.
    let example =
        states.filter(|(_, s)| !s.contains("futex")).map(|(i, s)| format!("task {i}: {s}"));
    format!(
        "{late} of {} tasks did not stop within {:.1} s after the end ({})",
        birth.job.tasks,
        grace.as_secs_f64(),
        example.take(3).collect::<Vec<_>>().join("; ")
    )
}

/// After a failure: tells all tasks to leave. Whether they did.
fn tasks_leave(birth: &Birth, tasks: &mut Tasks) -> bool {
    let board = birth.board;
    board.stop();
    board.set_phase(Phase::Abort);
    tasks.kill();
    if birth.job.form == Form::Processes {
        return true;
    }
    let patience_ns = now_ns() + 2_000_000_000;
    // Tasks that failed early skipped stages, so only idleness can be seen, not arrivals.
    while now_ns() < patience_ns {
        if threads_of_this_process() == 1 {
            return true;
        }
        board.kick_all(birth.job.form);
        std::thread::sleep(ARRIVAL_POLL);
    }
    false
}

fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// The way out when threads hang: the process ends, and with it the threads.
fn leave(job: &Job, reason: String) -> ! {
    let _ = std::fs::remove_dir_all(&job.scratch);
    say(&Event::Failed { reason });
    std::process::exit(0)
}

/// Counters and the worker's own usage at one moment.
struct Look {
    counters: Snapshot,
    process: Usage,
    main_thread: Usage,
}

impl Look {
    fn now(counters: Snapshot) -> Look {
        Look { counters, process: usage::of_process(), main_thread: usage::of_thread() }
    }
}

fn measured(form: Form, reports: &[TaskReport], seen: &Seen) -> Measured {
    let Seen { before, after, stop_ns, .. } = seen;
    let wall_ns = reports.iter().map(|r| r.stop_ns).max().unwrap_or_default();
    let counters = after.counters.since(&before.counters);
    let process = usage::between(&before.process, &after.process);
    let main = usage::between(&before.main_thread, &after.main_thread);
    let usage = match form {
        Form::Processes => {
            reports.iter().fold(Usage::default(), |sum, r| usage::together(&sum, &r.usage))
        }
        // Of the whole process, so that helper threads of tasks are in it; less the main
        // thread, which only looked.
        Form::Threads => {
            Usage { max_rss_kib: process.max_rss_kib, ..usage::between(&main, &process) }
        }
    };
    Measured {
        wall_ns,
        drain_ns: stop_ns.map(|stop_ns| wall_ns.saturating_sub(stop_ns)),
        usage,
        worker_us: main.user_us + main.system_us,
        deltas: counters.deltas,
        gauges: counters.gauges,
        unavailable: counters.unavailable,
    }
}

/// An append-only file in memory without a name.
fn memory_file() -> Result<File, String> {
    // SAFETY: a live C string; the descriptor is new and owned by nobody else.
    let file = unsafe {
        match libc::memfd_create(c"reports".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(format!("memfd_create: {}", std::io::Error::last_os_error())),
            fd => {
                libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND);
                File::from_raw_fd(fd)
            }
        }
    };
    Ok(file)
}

/// The reports so far, by task. By position, since processes share the file's offset.
fn read_reports(file: &File) -> Result<Vec<TaskReport>, String> {
    let mut text = Vec::new();
    let read = file.metadata().and_then(|metadata| {
        text.resize(metadata.len() as usize, 0);
        file.read_exact_at(&mut text, 0)
    });
    read.map_err(|e| format!("reading the tasks' reports: {e}"))?;
    let text = String::from_utf8_lossy(&text);
    let mut reports = text
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("reading a task's report: {e}")))
        .collect::<Result<Vec<TaskReport>, String>>()?;
    reports.sort_by_key(|report| report.task);
    Ok(reports)
}

/// Why the run failed, as the first task that failed said it.
fn first_failure(reports: &File) -> String {
    // A task says that it failed before it has written why.
    for _ in 0..200 {
        let failed = read_reports(reports).unwrap_or_default().into_iter();
        if let Some((task, why)) = failed.filter_map(|r| Some((r.task, r.failure?))).next() {
            return format!("task {task}: {why}");
        }
        std::thread::sleep(ARRIVAL_POLL);
    }
    "a task failed without saying why".to_string()
}

/// How many turns of [`Spin`] this host does in a nanosecond: the best of some tries, since
/// whatever disturbs makes them longer.
pub fn turns_per_ns() -> f64 {
    const TURNS: u64 = 1 << 18;
    let ns = (0..8).map(|_| {
        let start = now_ns();
        Spin::new(TURNS).run();
        now_ns() - start
    });
    TURNS as f64 / ns.min().unwrap_or(1).max(1) as f64
}
