//! The worker as a child process of the same binary, in a process group of its own. Whatever happens,
//! the group is gone when the run is over.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::job_control::RunningSince;
use host::{children, descendants, memfd, signals};
use records::{Event, Job, Until, Variant, Warning, Work};
use setup::directory;

use super::daemon::RunningDaemon;
use super::worker_output::{readable, whole_lines};

/// How a worker and its job ended.
pub struct WorkerEnd {
    /// The worker's events.
    pub events: Vec<Event>,
    /// How the worker ended, to follow "the worker …".
    pub exit: String,
    /// Whether we ended it because we were asked to end.
    pub interrupted: bool,
    /// Why the run does not count, although the worker finished it.
    pub invalid_because: Option<String>,
}

/// Does a job on this host, beside the variant's daemon, in a worker that is started as the variant says and must end within
/// `deadline`. Calls `on_event` with each event as it arrives.
pub fn run(
    job: &Job,
    variant: Option<&Variant>,
    deadline: Duration,
    on_event: impl FnMut(&Event),
) -> Result<WorkerEnd> {
    descendants::adopt();
    // A program that became knee by exec may have left it children that are not ours to kill.
    let has_foreign_children = descendants::has_children();
    let daemon = variant.and_then(|variant| variant.daemon.as_ref());
    let daemon = match daemon.map(|daemon| RunningDaemon::start(daemon, job)).transpose() {
        Ok(daemon) => daemon,
        Err(_) if signals::received().is_some() => return Ok(WorkerEnd::interrupted()),
        Err(why) => return Ok(WorkerEnd::failed(format!("{why:#}"))),
    };
    let holder = daemon.as_ref().map(RunningDaemon::holder);
    let mut end = run_worker(&Job { daemon: holder, ..job.clone() }, variant, deadline, on_event)?;
    let mut warn = |text, advice| end.events.push(Event::Warning(Warning::new(text, advice)));
    let daemon_end = daemon.map_or(Ok(Vec::new()), RunningDaemon::stop);
    if !has_foreign_children && let Err(why) = descendants::kill(&BTreeSet::new()) {
        warn(format!("after the run, {why}"), "they may disturb the next runs");
    }
    if !job.keep
        && let Err(e) = remove_scratch(job)
    {
        warn(format!("{e:#}"), "remove it by hand");
    }
    match daemon_end {
        Ok(warnings) => end.events.extend(warnings.into_iter().map(Event::Warning)),
        Err(why) => end.invalid_because = Some(why),
    }
    Ok(end)
}

/// Does a job in a worker, of whose process group nothing is left then.
fn run_worker(
    job: &Job,
    variant: Option<&Variant>,
    deadline: Duration,
    mut on_event: impl FnMut(&Event),
) -> Result<WorkerEnd> {
    let oom_kills_before = oom_kills();
    let stderr = memfd::create(c"worker-stderr")?;
    let mut worker = match start(job, variant, &stderr) {
        Ok(worker) => worker,
        // A host too full for one run may have room for the next.
        Err(e) => return Ok(WorkerEnd::failed_to_start(format!("could not be started ({e:#})"))),
    };
    let limits = Limits { deadline, silence: silence_of(job) };
    let (mut events, reason, continued) = listen(&mut worker, &limits, &mut on_event);
    let group = worker.id() as i32;
    let is_cut_off = reason != ListenEnd::Closed;
    if matches!(job.work, Work::Command(_) | Work::Own(_)) && is_cut_off {
        terminate_and_wait(&worker);
    }
    // A load of the user's own puts away its files once its worker has ended.
    let ends_itself = matches!(job.work, Work::Own(_)) && is_cut_off && has_ended(worker.id());
    if !ends_itself {
        kill_group(group);
    }
    let status = wait_for_killed(&mut worker)?;
    if !wait_for_group(group, OWN_LOAD_PATIENCE) {
        kill_group(group);
        wait_for_group(group, KILLED_PATIENCE);
    }
    let mut exit = match &reason {
        ListenEnd::Stopped { silent, why } => format!(
            "did not answer for {:.0} s, as {why} (something else did that); it was killed",
            silent.as_secs_f64()
        ),
        ListenEnd::Deadline => {
            format!(
                "was killed after {:.0} s, before it had finished",
                limits.deadline.as_secs_f64()
            )
        }
        _ => describe(status),
    };
    if oom_kills_before < oom_kills() {
        blame_memory(&mut events, &mut exit);
    }
    if let Some(last) = last_words(&stderr) {
        exit += &format!(", saying: {last}");
    }
    let invalid_because = continued.then(|| {
        "the worker was stopped and continued by signals (SIGSTOP, SIGCONT), and its tasks may have been"
            .to_string()
    });
    Ok(WorkerEnd { events, exit, interrupted: reason == ListenEnd::Interrupted, invalid_because })
}

impl WorkerEnd {
    /// The end of a run whose worker was not started, as this failed.
    fn failed(reason: String) -> WorkerEnd {
        let events = vec![Event::Failed { reason }];
        WorkerEnd { events, ..WorkerEnd::failed_to_start("was not started".to_string()) }
    }

    fn interrupted() -> WorkerEnd {
        let end = WorkerEnd::failed_to_start("was not started".to_string());
        WorkerEnd { interrupted: true, ..end }
    }

    fn failed_to_start(exit: String) -> WorkerEnd {
        WorkerEnd { events: Vec::new(), exit, interrupted: false, invalid_because: None }
    }
}

/// Why we stopped listening to a worker.
#[derive(PartialEq)]
enum ListenEnd {
    /// The worker closed its output.
    Closed,
    Deadline,
    Interrupted,
    /// It said nothing for longer than its run takes, and cannot run.
    Stopped {
        silent: Duration,
        why: String,
    },
}

/// How long a worker is listened to.
struct Limits {
    /// The longest it may take.
    deadline: Duration,
    /// The longest silence that its run explains; after it, and after twice as long, it is looked at.
    silence: Duration,
}

/// A worker says nothing between release and stop. A busy host makes a run's other parts longer.
fn silence_of(job: &Job) -> Duration {
    let length_s = match job.until {
        Until::Seconds(seconds) => seconds,
        Until::OperationsPerTask(_) | Until::End => 0.0,
    };
    Duration::from_secs_f64(10.0 + 3.0 * length_s)
}

fn start(job: &Job, variant: Option<&Variant>, stderr: &File) -> Result<Child> {
    let mut command = worker_command(variant);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
    let mut worker = children::spawn(&mut command).context("starting the worker")?;
    let text = serde_json::to_string(job)?;
    let mut stdin = worker.stdin.take().context("the worker's input is a pipe")?;
    // A worker that died before it read all will say so by its status.
    let _ = stdin.write_all(text.as_bytes());
    Ok(worker)
}

/// The command that becomes the worker: this binary, or the variant's, under the variant's
/// command and with its environment.
fn worker_command(variant: Option<&Variant>) -> Command {
    let knee = std::process::id();
    let under = variant.map(|variant| variant.under.as_slice()).unwrap_or_default();
    // Not by its name, which may have become another build's meanwhile. Under a command, "self"
    // would be that command; and a knee with file capabilities may not read /proc/PID/exe.
    let own = match under {
        [] => PathBuf::from("/proc/self/exe"),
        _ => PathBuf::from(format!("/proc/{knee}/exe")),
    };
    let binary = variant.and_then(|variant| variant.binary.clone()).unwrap_or(own);
    let mut command = match under {
        [] => Command::new(&binary),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&binary);
            command
        }
    };
    // The worker itself asks to die with us: exec of a binary with file capabilities, or
    // setuid, would clear what we asked for it. A command in between dies with us by what we
    // ask here, and the worker with the command.
    command.args(["worker", "--parent", &knee.to_string()]);
    if !under.is_empty() {
        command.arg("--under");
        // SAFETY: one plain call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
    }
    let environment = variant.iter().flat_map(|variant| &variant.environment);
    command.envs(environment.map(|(name, word)| (name, &word.0)));
    command
}

/// Reads events until the worker closes its output, the deadline passes, somebody has stopped it for good, or we are
/// asked to end. Also returns whether somebody stopped and continued the worker.
fn listen(
    worker: &mut Child,
    limits: &Limits,
    on_event: &mut impl FnMut(&Event),
) -> (Vec<Event>, ListenEnd, bool) {
    let mut output = worker.stdout.take().expect("the worker's output is a pipe");
    // Ctrl-Z stops the worker too, but is no fault of its.
    let since = RunningSince::now();
    let (mut heard, mut look_after) = (since, limits.silence);
    let (mut events, mut text) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 1 << 16];
    let mut continued = false;
    let reason = loop {
        continued |= has_changed(worker.id(), libc::WCONTINUED);
        // Events that were sent in time count, even if we read them late (stopped by Ctrl-Z, say).
        let left = limits.deadline.saturating_sub(since.elapsed());
        if !readable(output.as_raw_fd(), left) {
            match (signals::received(), left) {
                (Some(_), _) => break ListenEnd::Interrupted,
                (None, Duration::ZERO) => break ListenEnd::Deadline,
                _ => (),
            }
            let silent = heard.elapsed();
            if silent >= look_after {
                look_after *= 2;
                if let Some(why) = descendants::why_stopped(worker.id()) {
                    break ListenEnd::Stopped { silent, why };
                }
            }
            continue;
        }
        (heard, look_after) = (RunningSince::now(), limits.silence);
        match output.read(&mut chunk) {
            Ok(0) => break ListenEnd::Closed,
            Ok(n) => {
                text.extend_from_slice(&chunk[..n]);
                events.extend(whole_lines(&mut text).inspect(&mut *on_event));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break ListenEnd::Closed,
        }
    };
    (events, reason, continued)
}

/// How long a worker may take to kill a command and to clean up after it.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a command's worker SIGTERM, continues it if it is stopped, and waits while it kills the command, which is in another
/// process group, and undoes the preparation.
fn terminate_and_wait(worker: &Child) {
    // SAFETY: the group of a child that has not been waited for yet.
    unsafe {
        libc::kill(-(worker.id() as i32), libc::SIGTERM);
        libc::kill(-(worker.id() as i32), libc::SIGCONT);
    }
    let since = Instant::now();
    while since.elapsed() < CLEANUP_TIMEOUT && !has_ended(worker.id()) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a worker that was killed.
///
/// # Errors
/// It cannot die: the freezer of control groups of version 1 keeps even SIGKILL from a process.
fn wait_for_killed(worker: &mut Child) -> Result<ExitStatus> {
    let since = Instant::now();
    loop {
        if let Some(status) = worker.try_wait().context("waiting for the worker")? {
            return Ok(status);
        }
        if since.elapsed() > KILLED_PATIENCE
            && let Some(group) = descendants::frozen_group(worker.id())
        {
            bail!(
                "the worker, process {}, cannot be killed as its control group {group} is frozen: thaw it, and it ends",
                worker.id()
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a child has ended. It is not reaped, so its id stays valid.
fn has_ended(child: u32) -> bool {
    has_changed(child, libc::WEXITED | libc::WNOWAIT)
}

/// Whether a child has changed its state in a way that waitid(2) has a flag for. With `WNOWAIT` it is not
/// reaped, so its id stays valid.
fn has_changed(child: u32, flags: i32) -> bool {
    // SAFETY: a zeroed siginfo is valid, and stays zero if the state has not changed.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let waited = libc::waitid(libc::P_PID, child, &mut info, flags | libc::WNOHANG);
        waited == 0 && info.si_pid() != 0
    }
}

fn kill_group(group: i32) {
    // SAFETY: the group of a child that has not been reaped yet.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// How long a load of the user's own may take to end, once its worker has ended.
const OWN_LOAD_PATIENCE: Duration = Duration::from_secs(3);

/// How long a group may take to die.
const KILLED_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until the group is empty: tasks die a moment after the worker. As their subreaper, knee reaps those that the
/// worker could not. Returns whether it is.
fn wait_for_group(group: i32, patience: Duration) -> bool {
    let since = Instant::now();
    while since.elapsed() < patience {
        // SAFETY: null asks for no status; signal 0 only asks. The group's id is not
        // reused while a member lives.
        let gone = unsafe {
            while libc::waitpid(-group, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            libc::kill(-group, 0) != 0
        };
        if gone {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Removes the run's directory, which a worker that was killed could not.
fn remove_scratch(job: &Job) -> Result<()> {
    directory::remove_from_private(&job.scratch)
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signals::name(signal)),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_string(),
    }
}

/// Adds the probable cause to reasons that name a SIGKILL, of the worker or of a task.
fn blame_memory(events: &mut [Event], exit: &mut String) {
    let reasons = events.iter_mut().filter_map(|event| match event {
        Event::Failed { reason } => Some(reason),
        _ => None,
    });
    for reason in reasons.chain([exit]).filter(|reason| reason.contains("SIGKILL")) {
        reason.push_str(" (the kernel killed a process for lack of memory during the run)");
    }
}

/// The last line that the worker wrote to its standard error.
fn last_words(mut stderr: &File) -> Option<String> {
    let mut text = Vec::new();
    stderr.rewind().ok()?;
    stderr.read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_string)
}

/// The number of processes that the kernel has killed for lack of memory since the boot.
fn oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}
