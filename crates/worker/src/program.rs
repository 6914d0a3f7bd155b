//! One program of a command, from its start to its end: in a session of its own, with nothing on its
//! standard input and with a timeout. The measured one is pinned to the CPUs of its point.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use host::bounded_output::BoundedOutput;
use host::clock::now_ns;
use host::executables::{in_path, own_path};
use host::{affinity, children, signals};
use probes::ledger::Marker;
use records::{CommandJob, OutputSource, Surroundings, Usage};

use crate::output::{KeptOutput, Output, last_words};
use crate::priority::SchedulingPolicy;
use crate::profiler::Profiler;
use crate::usage;

/// Why a run has no result when knee asked its worker to end.
pub const INTERRUPTED: &str = "the worker was asked to end";

/// The server of a measured program, which is watched while the program runs.
pub struct Served<'a> {
    /// A descriptor that becomes readable when the server has ended.
    pub ended: i32,
    pub output: &'a mut BoundedOutput,
}

/// How a program ended.
pub enum ProgramEnd {
    /// By itself.
    Exited(ExitStatus),
    /// It took too long. It and what it started still live.
    TimedOut,
    /// A signal asked the worker to end. The program may still live.
    Interrupted,
    /// Its server ended first. The program may still live.
    ServerEnded,
}

/// The result of a measured program.
pub struct ProgramRun {
    pub end: ProgramEnd,
    /// From just before the program replaced the copy of the worker until it was collected.
    pub wall_ns: u64,
    /// Its own and that of all its descendants that were waited for.
    pub usage: Usage,
    pub stdout: KeptOutput,
    pub stderr: KeptOutput,
    /// The most threads that it was seen to have, looked at only beside a server; `None` if others of its processes work.
    pub threads: Option<usize>,
    /// How much of the CPUs of its host anything used meanwhile, if that is another host.
    pub host_busy_percent: Option<f64>,
}

/// SIGTERM, SIGINT and SIGHUP as a descriptor that becomes readable, instead of signals that kill the
/// worker.
pub struct TerminationSignals(OwnedFd);

impl TerminationSignals {
    /// Blocks those signals from now on. If the parent's death kills us, it becomes such a signal
    /// too: what we started must not outlive us.
    pub fn block() -> Result<TerminationSignals, String> {
        // SAFETY: plain calls on live data; the new descriptor is owned by nobody else.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd == -1 {
                return Err(format!("signalfd: {}", io::Error::last_os_error()));
            }
            let mut death_signal = 0;
            libc::prctl(libc::PR_GET_PDEATHSIG, &mut death_signal);
            if death_signal != 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            }
            Ok(TerminationSignals(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Runs the measured program, on these CPUs only, with the policy that knee was started with.
pub fn run_measured(
    job: &CommandJob,
    cpus: &[u32],
    policy: SchedulingPolicy,
    signals: &TerminationSignals,
    profiler: &mut Profiler,
    mut served: Option<Served>,
) -> Result<ProgramRun, String> {
    let mut command = command(&job.run, &job.into());
    place(&mut command, cpus, policy, profiler.marker());
    let mut file = output_file(job);
    let printed = file.as_ref().and_then(|file| file.for_child().ok());
    command.stdout(printed.map_or_else(Stdio::piped, Stdio::from)).stderr(Stdio::piped());
    let begun = Begun::new();
    begun.is_written_by(&mut command);
    let started_ns = now_ns();
    let mut child = command.spawn().map_err(|e| not_started(&job.run, &job.into(), &e))?;
    let ended = pidfd(&child)?;
    let mut stdout = Output::new(child.stdout.take());
    let mut stderr = Output::new(child.stderr.take());
    let (since, timeout) = (Instant::now(), Duration::from_secs_f64(job.timeout_s));
    let mut threads = None;
    let (end, ended_ns, usage) = loop {
        let signalled = signals.descriptor();
        let server = served.as_ref().map_or(-1, |served| served.ended);
        let fds = [ended.as_raw_fd(), signalled, server, stdout.descriptor(), stderr.descriptor()];
        let left = timeout.saturating_sub(since.elapsed());
        let pause = match (&file, &served) {
            (_, Some(_)) => left.min(SERVED_INTERVAL),
            (Some(_), None) => left.min(FREE_INTERVAL),
            (None, None) => left,
        };
        let ready = poll(&fds, profiler.drain_interval().map_or(pause, |time| time.min(pause)));
        profiler.drain();
        let _ = file.as_mut().map(BoundedOutput::free_middle);
        if let Some(served) = &mut served {
            let _ = served.output.free_middle();
            // Once it has ended, it is a process with one thread.
            threads = threads.max((!ready[0]).then(|| threads_of(child.id())).flatten());
        }
        if ready[0] {
            let (status, usage) = collect(&child)?;
            break (ProgramEnd::Exited(status), now_ns(), usage);
        }
        // One turn each, so that neither stream delays the other, or the end.
        stdout.read(1);
        stderr.read(1);
        let ends = [
            (ready[1], ProgramEnd::Interrupted),
            (ready[2], ProgramEnd::ServerEnded),
            (left.is_zero(), ProgramEnd::TimedOut),
        ];
        if let Some((_, end)) = ends.into_iter().find(|(is_so, _)| *is_so) {
            break (end, now_ns(), Usage::default());
        }
    };
    // What was written before the end. The limit is for descendants that go on writing.
    stdout.read(64);
    stderr.read(64);
    let printed = file.and_then(|file| file.text().ok());
    Ok(ProgramRun {
        end,
        wall_ns: ended_ns - begun.at_ns().unwrap_or(started_ns),
        usage,
        stdout: printed.map_or_else(|| stdout.into_kept(), |text| KeptOutput::from_bytes(&text)),
        stderr: stderr.into_kept(),
        threads,
        host_busy_percent: None,
    })
}

/// How often the output and the threads of a client and its server are looked at.
pub const SERVED_INTERVAL: Duration = Duration::from_millis(500);

/// The number of threads of a process that has no children.
fn threads_of(process: u32) -> Option<usize> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.count();
    (children.trim().is_empty() && threads > 0).then_some(threads)
}

/// Makes the child that a command starts run on these CPUs only, with this policy, as a task of the workload
/// for the probes.
pub fn place(
    command: &mut Command,
    cpus: &[u32],
    policy: SchedulingPolicy,
    marker: Option<Marker>,
) {
    let mask = affinity::mask(cpus);
    // SAFETY: between fork and exec only system calls, on data that is live.
    unsafe {
        command.pre_exec(move || {
            affinity::apply(0, &mask)?;
            if !policy.is_default() {
                policy.apply().map_err(|_| io::Error::last_os_error())?;
            }
            marker.map_or(Ok(()), Marker::mark)
        });
    }
}

/// The file in memory that a program prints to, where no number is read from what it prints. A pipe would make a program that
/// prints much wait for us, and count its waits.
fn output_file(job: &CommandJob) -> Option<BoundedOutput> {
    let is_read = job.metrics.iter().any(|extract| extract.from == OutputSource::Stdout);
    if is_read { None } else { BoundedOutput::in_memory().ok() }
}

/// When the child is about to become the program, in memory that both share. Until then it is a copy of the worker, whose
/// making is no time of the program.
struct Begun(*mut u64);

impl Begun {
    fn new() -> Begun {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of a page of zeros.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<u64>(), access, kind, -1, 0) };
        Begun(if page == libc::MAP_FAILED { std::ptr::null_mut() } else { page.cast() })
    }

    /// Has the child that a command starts write the time as its last step before exec.
    fn is_written_by(&self, command: &mut Command) {
        let page = self.0.expose_provenance();
        // SAFETY: between fork and exec only system calls, on data that is live.
        unsafe {
            command.pre_exec(move || {
                if page != 0 {
                    std::ptr::with_exposed_provenance_mut::<u64>(page).write_volatile(now_ns());
                }
                Ok(())
            });
        }
    }

    fn at_ns(&self) -> Option<u64> {
        // SAFETY: null, or mapped as long as this lives.
        let at_ns = (!self.0.is_null()).then(|| unsafe { self.0.read_volatile() })?;
        (at_ns > 0).then_some(at_ns)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the page that `new` mapped.
            unsafe { libc::munmap(self.0.cast(), size_of::<u64>()) };
        }
    }
}

/// How often the output of a program that prepares or cleans up is looked at.
pub const FREE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a program of the preparation or the cleanup. Its output goes to a file in memory: a server
/// that it leaves behind must not lose its output.
pub fn run_helper(
    words: &[String],
    surroundings: &Surroundings,
    timeout: Duration,
    signals: Option<&TerminationSignals>,
) -> Result<(), HelperError> {
    let failed = HelperError::Failed;
    let output = BoundedOutput::in_memory();
    let mut output = output.map_err(|why| failed(format!("{why:#}")))?;
    let copy = || output.for_child().map_err(|e| failed(format!("dup: {e}")));
    let mut command = command(words, surroundings);
    command.stdout(copy()?).stderr(copy()?);
    become_user(&mut command, surroundings.user);
    let child = command.spawn().map_err(|e| failed(not_started(words, surroundings, &e)))?;
    let ended = pidfd(&child).map_err(failed)?;
    let signalled = signals.map_or(-1, TerminationSignals::descriptor);
    let since = Instant::now();
    loop {
        let left = timeout.saturating_sub(since.elapsed());
        let ready = poll(&[ended.as_raw_fd(), signalled], left.min(FREE_INTERVAL));
        let _ = output.free_middle();
        if ready[0] {
            break;
        }
        if ready[1] {
            return Err(HelperError::Interrupted);
        }
        if left.is_zero() {
            let name = shown(words);
            let seconds = timeout.as_secs_f64();
            return Err(failed(format!("'{name}' took longer than {seconds:.0} s")));
        }
    }
    let (status, _) = collect(&child).map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let last_words = output.text().map(|text| last_words(&text)).unwrap_or_default();
    let why = with_last_words(&described(status), &last_words);
    Err(failed(format!("'{}' {why}", shown(words))))
}

/// The first line of a program and its arguments, for messages: a script of a shell may have many.
pub fn shown(words: &[String]) -> String {
    let text = words.join(" ");
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (Some(first), Some(_)) => format!("{first} …"),
        _ => text,
    }
}

/// Why a program of the preparation or the cleanup did not succeed.
pub enum HelperError {
    Failed(String),
    Interrupted,
}

/// The path of a program, as execvp(3) would find it. The child itself would try each folder of PATH, and each trial would be
/// counted as a call of the program.
fn found(program: &str, surroundings: &Surroundings) -> PathBuf {
    let path = surroundings.environment.get("PATH").cloned().unwrap_or_else(own_path);
    let found = if program.contains('/') { None } else { in_path(program, &path) };
    found.unwrap_or_else(|| PathBuf::from(program))
}

/// A program in a session of its own, as the worker's user.
pub fn command(words: &[String], surroundings: &Surroundings) -> Command {
    let mut command = Command::new(found(&words[0], surroundings));
    command.arg0(&words[0]).args(&words[1..]);
    command.envs(surroundings.environment).current_dir(surroundings.directory);
    command.stdin(Stdio::null());
    let worker = std::process::id();
    // SAFETY: between fork and exec only system calls.
    unsafe {
        command.pre_exec(move || {
            // A session of its own: no terminal can stop it, and its signals to its group do not hit
            // us. It dies with us, in case we have no time to kill it.
            libc::setsid();
            die_with(worker)?;
            children::clean_signals()
        });
    }
    command
}

/// Asks the kernel to kill the calling child when the worker dies, which it may have done already.
fn die_with(worker: u32) -> io::Result<()> {
    // SAFETY: plain calls.
    let parent = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid()
    };
    if parent as u32 == worker { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

/// Makes the child that a command starts give up root's rights, as the last step before exec.
pub fn become_user(command: &mut Command, user: Option<(u32, u32)>) {
    let Some((user, group)) = user else { return };
    let worker = std::process::id();
    // SAFETY: between fork and exec only system calls.
    unsafe {
        command.pre_exec(move || {
            let failed = libc::setgroups(0, std::ptr::null()) != 0
                || libc::setgid(group) != 0
                || libc::setuid(user) != 0;
            if failed {
                return Err(io::Error::last_os_error());
            }
            // A change of the user clears it (prctl(2)).
            die_with(worker)
        });
    }
}

pub fn not_started(words: &[String], surroundings: &Surroundings, error: &io::Error) -> String {
    let user = surroundings.user.map(|(user, _)| format!(" as user {user}"));
    format!(
        "starting '{}' in {}{}: {error}",
        words.join(" "),
        surroundings.directory.display(),
        user.unwrap_or_default()
    )
}

/// A descriptor that becomes readable when the child has ended.
pub fn pidfd(child: &Child) -> Result<OwnedFd, String> {
    // SAFETY: plain numbers; the new descriptor is owned by nobody else.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } {
        -1 => Err(format!("pidfd_open (Linux 5.3 or newer): {}", io::Error::last_os_error())),
        // SAFETY: as above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Waits until a descriptor is readable, at most for `time`. Returns which ones are.
pub fn poll<const N: usize>(fds: &[i32; N], time: Duration) -> [bool; N] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // Rounded up: 0 would be no wait at all.
    let ms = time.as_millis().min(1_000_000) as i32 + i32::from(!time.is_zero());
    // SAFETY: live pollfds, and their number.
    unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, ms) };
    polled.map(|fd| fd.revents != 0)
}

/// Reaps a child that has ended.
pub fn collect(child: &Child) -> Result<(ExitStatus, Usage), String> {
    let mut status = 0;
    // SAFETY: rusage is plain data, valid when zero; both are live.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as i32, &mut status, 0, &mut usage), usage)
    };
    match pid {
        -1 => Err(format!("wait4: {}", io::Error::last_os_error())),
        _ => Ok((ExitStatus::from_raw(status), usage::from_rusage(&usage))),
    }
}

/// "ended with status 1", "was killed by SIGSEGV".
pub fn described(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by {}", signals::name(signal)),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_string(),
    }
}

/// A reason, followed by the last output of the program.
pub fn with_last_words(reason: &str, last_words: &str) -> String {
    match last_words {
        "" => format!("{reason}, with no output"),
        words => format!("{reason}, saying: {words}"),
    }
}
