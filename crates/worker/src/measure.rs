//! The run itself: all tasks ready, one release, readings of the counts, one stop, reports.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use host::clock::now_ns;
use host::descendants::TreeUsage;
use host::memfd;
use probes::counters::Snapshot;
use probes::lock_delay::{Delayed, LockDelay, LockKind};
use records::{Event, Form, Job, Measured, OwnJob, Pass, TaskReport, Until, Usage, Warning};

use crate::board::{Board, Phase, install_kick_handler};
use crate::own::{self, OwnOutput};
use crate::priority::{self, SchedulingPolicy};
use crate::profiler::Profiler;
use crate::scratch::Scratch;
use crate::task::{Native, TaskContext};
use crate::tasks::{Tasks, where_it_waits};
use crate::{allocations, daemon, durations, pace, say, usage};

/// What tasks repeat.
pub enum Subject<'a> {
    /// Workloads of this binary, which the tasks do in turn: mostly one.
    Native(&'a [Native<'a>]),
    /// A load that the user wrote.
    Own(&'a OwnJob),
}

/// Does the run and prints its events, from `ready` to `latency`.
pub fn measure(
    job: &Job,
    subject: &Subject,
    scratch: &Scratch,
    started_ns: u64,
) -> Result<(), String> {
    install_kick_handler();
    let policy = SchedulingPolicy::current();
    if !priority::raise() && job.tasks as usize > 4 * job.cpus.len() {
        say(&Event::Warning(Warning::new(
            "the worker has no higher priority than its tasks: they may start and stop late",
            "run as root, or allow real-time priority 1 (ulimit -r 1)",
        )));
    }
    let mut profiler = Profiler::begin(job);
    let board =
        Board::new(job.tasks, profiler.operations()).map_err(|failure| failure.to_string())?;
    let reports = memfd::create_append_only(c"reports").map_err(|why| format!("{why:#}"))?;
    let (marker, delay) = (profiler.marker(), delay(subject)?);
    let context =
        TaskContext { job, scratch, board: &board, reports: &reports, policy, marker, delay };
    let observed = match subject {
        Subject::Native(natives) => observe_native(&context, natives, &mut profiler, started_ns)?,
        Subject::Own(own) => observe_own(&context, own, &mut profiler, started_ns)?,
    };
    let mut reports = read_reports(&reports)?;
    let operations = reports.iter().map(|r| r.operations).sum();
    if let Subject::Native(natives) = subject {
        verify(natives, &reports)?;
    }
    let latency = (job.pass == Pass::Latency).then(|| durations::merge(&mut reports));
    observed.intervals.iter().for_each(say);
    let mut measured = measured(job.form, subject, &reports, &observed);
    if job.allocations {
        allocations::put(&mut measured, allocations::of_tasks(&reports));
    }
    if let Subject::Native([native, ..]) = subject {
        measured.gauges.extend(pace::work_took(native.load, &job.cpus));
    }
    say(&Event::Measured(measured));
    reports.into_iter().for_each(|report| say(&Event::Task(report)));
    latency.into_iter().for_each(|latency| say(&Event::Latency(latency)));
    profiler.end(operations).iter().for_each(say);
    Ok(())
}

/// Checks the effects of all tasks of each workload.
fn verify(natives: &[Native], reports: &[TaskReport]) -> Result<(), String> {
    for (number, native) in natives.iter().enumerate() {
        let own = reports.iter().filter(|report| report.task as usize % natives.len() == number);
        let operations = own.map(|report| report.operations).sum();
        native.prepared.verify(operations).map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// The delay of kernel locks that a workload's parameters ask for.
fn delay(subject: &Subject) -> Result<Option<LockDelay>, String> {
    let Subject::Native([native, ..]) = subject else { return Ok(None) };
    let Some((name, ns)) = native.load.values.delay() else { return Ok(None) };
    let kind = LockKind::from_name(name)
        .ok_or_else(|| format!("internal error: no probe delays a lock of kind {name}"))?;
    LockDelay::begin(kind, ns).map(Some)
}

/// Does the run of a workload of this binary.
fn observe_native(
    context: &TaskContext,
    natives: &[Native],
    profiler: &mut Profiler,
    started_ns: u64,
) -> Result<Observed, String> {
    let mut tasks = Tasks::new(context.job.form);
    // Threads that hang would keep the scope from ending: `exit_with_failure` ends the process instead.
    std::thread::scope(|scope| {
        let observed = run_phases(context, &mut tasks, profiler, started_ns, None, |tasks| {
            (0..context.job.tasks as usize).try_for_each(|index| {
                tasks.start(scope, context, &natives[index % natives.len()], index)
            })
        });
        if let Err(reason) = &observed
            && !abort_tasks(context, &mut tasks)
        {
            exit_with_failure(context.scratch, reason.clone());
        }
        observed
    })
}

/// Does the run of a load that the user wrote. What it prints is in the error, or is a warning.
fn observe_own(
    context: &TaskContext,
    own: &OwnJob,
    profiler: &mut Profiler,
    started_ns: u64,
) -> Result<Observed, String> {
    let mut tasks = Tasks::new(context.job.form);
    let output = OwnOutput::new()?;
    let warm_up = own.interface.counts_itself().then_some(own::WARM_UP);
    let observed = run_phases(context, &mut tasks, profiler, started_ns, warm_up, |tasks| {
        tasks.adopt(own::start(context, own, &output)?);
        Ok(())
    });
    let said = match &observed {
        Err(_) => {
            context.board.stop();
            context.board.set_phase(Phase::Abort);
            tasks.end_program();
            output.last_words()
        }
        Ok(_) => output.last_words(),
    };
    match (observed, said.as_str()) {
        (observed, "") => observed,
        (Err(reason), said) => Err(format!("{reason}, saying: {said}")),
        (Ok(observed), said) => {
            let text = format!("{} printed: {said}", own.name);
            let advice = "if it prints while it is measured, that takes a part of its time";
            say(&Event::Warning(Warning::new(text, advice)));
            Ok(observed)
        }
    }
}

/// What the worker recorded of a run.
struct Observed {
    before: Readings,
    after: Readings,
    /// When the stop flag was set, in ns since the release; not in fixed-count runs.
    stop_ns: Option<u64>,
    intervals: Vec<Event>,
}

/// Starts the tasks and takes them through their phases.
fn run_phases(
    context: &TaskContext,
    tasks: &mut Tasks,
    profiler: &mut Profiler,
    started_ns: u64,
    warm_up: Option<Duration>,
    start: impl Fn(&mut Tasks) -> Result<(), String>,
) -> Result<Observed, String> {
    let TaskContext { job, board, .. } = *context;
    let root = Path::new("/");
    start(tasks)?;
    until_arrived(context, tasks, 1, None)?;
    let startup_s = (now_ns() - started_ns) as f64 / 1e9;
    say(&Event::Ready { tasks: job.tasks, startup_s });

    if let Some(time) = warm_up {
        self::warm_up(context, tasks, time)?;
    }
    let before = Readings::now(Snapshot::before(root, &job.cpus), context)?;
    if !matches!(job.until, Until::Seconds(_)) {
        profiler.edge(board, job.form)?;
    }
    let released_ns = board.release(now_ns);
    if warm_up.is_some() {
        board.kick_all(job.form);
    }
    let mut intervals = Vec::with_capacity(4096);
    let stop_ns = match job.until {
        Until::Seconds(seconds) => {
            run_for(context, tasks, profiler, released_ns, seconds, &mut intervals)?
        }
        // What counts by itself does not stop at its count.
        Until::OperationsPerTask(n) if warm_up.is_some() => {
            run_until_counted(context, tasks, n)?;
            Some(now_ns() - released_ns)
        }
        Until::OperationsPerTask(_) | Until::End => {
            run_to_count(context, tasks, profiler, released_ns, &mut intervals)?
        }
    };
    if warm_up.is_some() {
        board.kick_all(job.form);
    }
    let grace = Duration::from_secs_f64(job.stop_grace_s);
    until_arrived(context, tasks, 2, stop_ns.map(|_| grace))?;
    tasks.reap()?;
    if stop_ns.is_none() {
        profiler.edge(board, job.form)?;
    }
    let after = Readings::now(Snapshot::after(root, &job.cpus), context)?;

    board.set_phase(Phase::Report);
    until_arrived(context, tasks, 3, None)?;
    tasks.join()?;
    Ok(Observed { before, after, stop_ns, intervals })
}

/// Lets tasks that count by themselves run before the release, until each has counted.
fn warm_up(context: &TaskContext, tasks: &mut Tasks, time: Duration) -> Result<(), String> {
    let TaskContext { job, board, .. } = *context;
    let (since_ns, limit) = (now_ns(), time.as_secs_f64() + job.stop_grace_s);
    board.set_phase(Phase::WarmUp);
    loop {
        let gate = board.gate();
        if board.has_failed() {
            return Err(first_failure(context.reports));
        }
        tasks.reap()?;
        let past = Duration::from_nanos(now_ns() - since_ns);
        if past >= time && board.all_count() {
            return Ok(());
        }
        if past.as_secs_f64() > limit {
            let silent: Vec<String> = board.uncounted().iter().map(usize::to_string).collect();
            return Err(format!(
                "task {} counted no operation within {limit:.1} s: testcase() must add to *iterations after \
                 each operation (--stop-grace allows more time)",
                silent[..silent.len().min(5)].join(", task ")
            ));
        }
        board.sleep(gate, time.saturating_sub(past).clamp(ARRIVAL_POLL, time));
    }
}

/// Lets the tasks run for a time; returns when the stop flag was set, in ns since the
/// release.
fn run_for(
    context: &TaskContext,
    tasks: &mut Tasks,
    profiler: &mut Profiler,
    released_ns: u64,
    seconds: f64,
    intervals: &mut Vec<Event>,
) -> Result<Option<u64>, String> {
    let board = context.board;
    // What the warm-up counted; 0 without one.
    let counted_before = board.operations();
    let operations = || board.operations().wrapping_sub(counted_before);
    let end_ns = (seconds * 1e9) as u64;
    let interval_ns = interval_ns(end_ns, context.job.tasks);
    let mut next_ns = interval_ns;
    let mut moments = profiler.moments(end_ns).into_iter().peekable();
    loop {
        let gate = board.gate();
        let at_ns = now_ns() - released_ns;
        if let Some((_, moment)) = moments.next_if(|(due_ns, _)| *due_ns <= at_ns) {
            profiler.take(moment, at_ns, board, context.job.form)?;
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
            profiler.edge(board, context.job.form)?;
            board.stop();
            intervals.push(Event::Interval { at_ns, operations: operations() });
            return Ok(Some(at_ns));
        }
        if at_ns < next_ns {
            continue;
        }
        intervals.push(Event::Interval { at_ns, operations: operations() });
        profiler.drain();
        tasks.reap()?;
        next_ns += interval_ns;
    }
}

/// Lets the tasks run until each has done its count.
fn run_to_count(
    context: &TaskContext,
    tasks: &mut Tasks,
    profiler: &mut Profiler,
    released_ns: u64,
    intervals: &mut Vec<Event>,
) -> Result<Option<u64>, String> {
    let board = context.board;
    let interval = Duration::from_nanos(interval_ns(1_000_000_000, context.job.tasks));
    loop {
        let gate = board.gate();
        if board.all_arrived(2) || board.has_failed() {
            return Ok(None);
        }
        board.sleep(gate, interval);
        let at_ns = now_ns() - released_ns;
        intervals.push(Event::Interval { at_ns, operations: board.operations() });
        profiler.drain();
        tasks.reap()?;
    }
}

/// Lets tasks that count by themselves run until each has done this many operations since the release.
fn run_until_counted(
    context: &TaskContext,
    tasks: &mut Tasks,
    operations: u64,
) -> Result<(), String> {
    let TaskContext { job, board, .. } = *context;
    let counts = || (0..job.tasks as usize).map(|task| board.count(task).load(Relaxed));
    let before: Vec<u64> = counts().collect();
    while counts().zip(&before).any(|(now, before)| now.wrapping_sub(*before) < operations) {
        if board.has_failed() {
            return Err(first_failure(context.reports));
        }
        board.sleep(board.gate(), ARRIVAL_POLL);
        tasks.reap()?;
    }
    board.stop();
    Ok(())
}

/// Time between two readings of the counts: 50 readings a run, but not so many that they disturb
/// the tasks (each reading is a cache miss for each task).
fn interval_ns(run_ns: u64, tasks: u32) -> u64 {
    (run_ns / 50).clamp(10_000_000, 1_000_000_000).max(tasks as u64 * 25_000)
}

/// Time between two checks on tasks that have not arrived. knee's deadline for the worker limits
/// the whole wait.
const ARRIVAL_POLL: Duration = Duration::from_millis(5);

/// Waits until all tasks have come to the end of a stage. With a grace period, late tasks are
/// interrupted in their waits, and the run fails if one is still late after it.
fn until_arrived(
    context: &TaskContext,
    tasks: &mut Tasks,
    stage: u32,
    grace: Option<Duration>,
) -> Result<(), String> {
    let board = context.board;
    let since_ns = now_ns();
    loop {
        let gate = board.gate();
        if board.has_failed() {
            return Err(first_failure(context.reports));
        }
        if board.all_arrived(stage) {
            return Ok(());
        }
        board.sleep(gate, ARRIVAL_POLL.max(Duration::from_micros(10 * context.job.tasks as u64)));
        if !board.all_arrived(stage) {
            tasks.reap()?;
        }
        if let Some(grace) = grace
            && !board.all_arrived(stage)
        {
            if Duration::from_nanos(now_ns() - since_ns) > grace {
                return Err(describe_late_tasks(context, stage, grace));
            }
            context.board.kick_all(context.job.form);
        }
    }
}

fn describe_late_tasks(context: &TaskContext, stage: u32, grace: Duration) -> String {
    let late_tasks = context.job.tasks - context.board.arrivals(stage);
    let states = (0..context.job.tasks as usize)
        .map(|index| (index, where_it_waits(context.board.thread_of(index, context.job.form))));
    // Those that have stopped wait for the next phase in a futex.
    let examples =
        states.filter(|(_, s)| !s.contains("futex")).map(|(i, s)| format!("task {i}: {s}"));
    format!(
        "{late_tasks} of {} tasks did not stop within {:.1} s after the end ({})",
        context.job.tasks,
        grace.as_secs_f64(),
        examples.take(3).collect::<Vec<_>>().join("; ")
    )
}

/// Tells all tasks to leave after a failure. Returns whether they did.
fn abort_tasks(context: &TaskContext, tasks: &mut Tasks) -> bool {
    let board = context.board;
    board.stop();
    board.set_phase(Phase::Abort);
    tasks.kill();
    if context.job.form == Form::Processes {
        return true;
    }
    let deadline_ns = now_ns() + 2_000_000_000;
    // Tasks that failed early skipped stages, so only idleness can be observed, not arrivals.
    while now_ns() < deadline_ns {
        if threads_of_this_process() == 1 {
            return true;
        }
        board.kick_all(context.job.form);
        std::thread::sleep(ARRIVAL_POLL);
    }
    false
}

fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Ends the process, and with it threads that hang.
fn exit_with_failure(scratch: &Scratch, reason: String) -> ! {
    scratch.try_remove();
    say(&Event::Failed { reason });
    std::process::exit(0)
}

/// Counters and the worker's own usage at one point in time.
struct Readings {
    counters: Snapshot,
    process: Usage,
    main_thread: Usage,
    /// What was delayed since the worker's start, in a run with a delay.
    delayed: Option<Delayed>,
    /// What the run's daemon has used, if it has one.
    daemon: Option<TreeUsage>,
}

impl Readings {
    fn now(counters: Snapshot, context: &TaskContext) -> Result<Readings, String> {
        let delayed = context.delay.as_ref().map(LockDelay::so_far).transpose()?;
        let (process, main_thread) = (usage::process(), usage::thread());
        let daemon = daemon::usage(context.job);
        Ok(Readings { counters, process, main_thread, delayed, daemon })
    }
}

fn measured(
    form: Form,
    subject: &Subject,
    reports: &[TaskReport],
    observed: &Observed,
) -> Measured {
    let Observed { before, after, stop_ns, .. } = observed;
    let wall_ns = reports.iter().map(|r| r.stop_ns).max().unwrap_or_default();
    let mut counters = after.counters.since(&before.counters);
    if let (Some(before), Some(after)) = (before.delayed, after.delayed) {
        let times = (after.times - before.times) as f64;
        counters.gauges.insert("delayed_locks".to_string(), times);
        counters.gauges.insert("delayed_s".to_string(), (after.ns - before.ns) as f64 / 1e9);
    }
    counters.gauges.extend(daemon::gauges(before.daemon, after.daemon));
    let process = usage::between(&before.process, &after.process);
    let main = usage::between(&before.main_thread, &after.main_thread);
    let of_tasks = || reports.iter().fold(Usage::default(), |sum, r| usage::sum(&sum, &r.usage));
    let usage = match form {
        Form::Processes => of_tasks(),
        // The threads are another process's, without the helpers that they start.
        Form::Threads if matches!(subject, Subject::Own(_)) => of_tasks(),
        // The whole process, to include helper threads of tasks, minus the main thread, which only
        // watched.
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

/// The reports so far, sorted by task. Reads at a position, since processes share the file's offset.
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

/// The failure that the first failed task reported.
fn first_failure(reports: &File) -> String {
    // A task raises the flag before its report is written.
    for _ in 0..200 {
        let failed = read_reports(reports).unwrap_or_default().into_iter();
        if let Some((task, why)) = failed.filter_map(|r| Some((r.task, r.failure?))).next() {
            return format!("task {task}: {why}");
        }
        std::thread::sleep(ARRIVAL_POLL);
    }
    "a task failed without giving a reason".to_string()
}
