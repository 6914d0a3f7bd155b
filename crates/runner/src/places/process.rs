//! The worker as a child process of the same binary, in a process group of its own that is gone,
//! whatever happened, when the run is over.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use host::{descendants, memfd, signals};
use records::{Event, Job, Variant, Warning, Work};
use setup::removal;

/// The result of a job.
pub struct Done {
    /// The worker's events.
    pub events: Vec<Event>,
    /// How the worker ended, to follow "the worker …".
    pub exit: String,
    /// Whether we ended it because we were asked to end.
    pub interrupted: bool,
}

/// Does a job here, the worker started as the variant says. It has until `deadline` from now.
/// `said` is told each event as it comes.
pub fn run(
    job: &Job,
    variant: Option<&Variant>,
    deadline: Duration,
    mut said: impl FnMut(&Event),
) -> Result<Done> {
    descendants::adopt();
    // Who became knee by exec may have left it children that are not ours to kill.
    let strangers = descendants::has_children();
    let oom_kills = oom_kills();
    let stderr = memfd::create(c"worker-stderr")?;
    let mut worker = match start(job, variant, &stderr) {
        Ok(worker) => worker,
        // A host too full for one run may have room for the next.
        Err(e) => return Ok(Done::failed_to_start(format!("could not be started ({e:#})"))),
    };
    let (mut events, end) = listen(&mut worker, deadline, &mut said);
    let group = worker.id() as i32;
    if matches!(job.work, Work::Command(_)) && end != End::Closed {
        let_it_clean_up(&worker);
    }
    kill_group(group);
    let status = worker.wait().context("waiting for the worker")?;
    wait_for_group(group);
    if !strangers && let Err(why) = descendants::kill(&BTreeSet::new()) {
        let advice = "they may disturb the next runs";
        let warning = Warning::new(format!("after the run, {why}"), advice);
        events.push(Event::Warning(warning));
    }
    if !job.keep
        && let Err(e) = remove_scratch(job)
    {
        let advice = "remove it by hand";
        events.push(Event::Warning(Warning::new(format!("{e:#}"), advice)));
    }
    let mut exit = match end {
        End::Deadline => format!("was killed after {:.0} s without an end", deadline.as_secs_f64()),
        _ => describe(status),
    };
    if oom_kills < crate::places::process::oom_kills() {
        blame_memory(&mut events, &mut exit);
    }
    if let Some(last) = last_words(&stderr) {
        exit += &format!(", saying: {last}");
    }
    Ok(Done { events, exit, interrupted: end == End::Interrupted })
}

impl Done {
    fn failed_to_start(exit: String) -> Done {
        Done { events: Vec::new(), exit, interrupted: false }
    }
}

/// Why we stopped listening to a worker.
#[derive(PartialEq)]
enum End {
    /// It closed its output.
    Closed,
    Deadline,
    Interrupted,
}

fn start(job: &Job, variant: Option<&Variant>, stderr: &File) -> Result<Child> {
    let mut command = worker_command(variant);
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
    let mut worker = command.spawn().context("starting the worker")?;
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
    // Not by its name, which may have become another build's meanwhile. For a command "self"
    // would be the command; and by number, a knee with file capabilities may not ask.
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

/// Reads events until the worker closes its output, the deadline passes, or we are asked to
/// end.
fn listen(
    worker: &mut Child,
    deadline: Duration,
    said: &mut impl FnMut(&Event),
) -> (Vec<Event>, End) {
    let mut output = worker.stdout.take().expect("the worker's output is a pipe");
    let since = Instant::now();
    let (mut events, mut text) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 1 << 16];
    let end = loop {
        // What has been said counts, even if we look late (stopped by Ctrl-Z, say).
        let left = deadline.saturating_sub(since.elapsed());
        if !readable(output.as_raw_fd(), left) {
            match (signals::received(), left) {
                (Some(_), _) => break End::Interrupted,
                (None, Duration::ZERO) => break End::Deadline,
                _ => continue,
            }
        }
        match output.read(&mut chunk) {
            Ok(0) => break End::Closed,
            Ok(n) => {
                text.extend_from_slice(&chunk[..n]);
                events.extend(whole_lines(&mut text).inspect(&mut *said));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break End::Closed,
        }
    };
    (events, end)
}

/// Takes the events out of the lines that are whole. One that is no event is somebody's debugging.
fn whole_lines(text: &mut Vec<u8>) -> impl Iterator<Item = Event> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<u8> = text.drain(..whole).collect();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    let events: Vec<Event> = lines.lines().filter_map(|line| Event::read(line).ok()).collect();
    events.into_iter()
}

/// Whether there is something to read; `false` after the time, a second, or a signal.
fn readable(fd: i32, time: Duration) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = time.as_millis().min(1000) as i32;
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut poll, 1, ms) > 0 }
}

/// How long a worker may take to kill a command and to clean up after it.
const CLEANING: Duration = Duration::from_secs(30);

/// Asks the worker of a command to end, and waits for it: the command and what it started are
/// in other groups, and what was prepared is to be undone.
fn let_it_clean_up(worker: &Child) {
    // SAFETY: the group of a child that has not been waited for yet.
    unsafe { libc::kill(-(worker.id() as i32), libc::SIGTERM) };
    let since = Instant::now();
    while since.elapsed() < CLEANING && !has_ended(worker.id()) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a child has ended; its id stays its own, since it is not collected.
fn has_ended(child: u32) -> bool {
    // SAFETY: a zeroed siginfo is valid, and says so if nothing has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, child, &mut info, flags) != 0 || info.si_pid() != 0
    }
}

fn kill_group(group: i32) {
    // SAFETY: the group of a child that has not been reaped yet.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Tasks die a moment after the worker: waits until none is left, for some seconds. As
/// their subreaper we collect those that the worker could not.
fn wait_for_group(group: i32) {
    for _ in 0..1000 {
        // SAFETY: null asks for no status; signal 0 only asks. The group's id is not
        // reused while a member lives.
        let gone = unsafe {
            while libc::waitpid(-group, std::ptr::null_mut(), libc::WNOHANG) > 0 {}
            libc::kill(-group, 0) != 0
        };
        if gone {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The worker removes its directory; a dead one could not.
fn remove_scratch(job: &Job) -> Result<()> {
    removal::remove(&job.scratch)
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signals::name(signal)),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_string(),
    }
}

/// Says of a SIGKILL, of the worker or of a task, where it probably came from.
fn blame_memory(events: &mut [Event], exit: &mut String) {
    let reasons = events.iter_mut().filter_map(|event| match event {
        Event::Failed { reason } => Some(reason),
        _ => None,
    });
    for said in reasons.chain([exit]).filter(|said| said.contains("SIGKILL")) {
        said.push_str(" (the kernel killed a process for want of memory meanwhile)");
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

/// How many processes the kernel has killed for want of memory since the boot.
fn oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}
