//! One program from its start to its end: in a session of its own, with nothing on its
//! standard input, pinned where that is asked for, with a time-out, and an ear for the wish
//! to end.

use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use host::clock::now_ns;
use host::{affinity, memfd, signals};
use probes::ledger::Marker;
use records::{CommandJob, Usage};

use crate::output::{Kept, Output, last_words};
use crate::priority::Policy;
use crate::usage;
use crate::watch::Watch;

/// How a program came to its end.
pub enum End {
    /// By itself.
    Ended(ExitStatus),
    /// It took too long. Only this: it and what it started still live.
    TimedOut,
    /// We were asked to end. It may still live.
    Asked,
}

/// What came of a measured program.
pub struct Ran {
    pub end: End,
    /// From just before it was started until it was collected.
    pub wall_ns: u64,
    /// Its own and that of all processes below it that were waited for.
    pub usage: Usage,
    pub stdout: Kept,
    pub stderr: Kept,
}

/// The wish to end, as a descriptor: SIGTERM, SIGINT and SIGHUP wake who waits, and kill
/// nobody.
pub struct Wish(OwnedFd);

impl Wish {
    /// From now on those signals are only heard here. If the parent's death kills us, it
    /// becomes such a signal too: what we started must not outlive us.
    pub fn hear() -> Result<Wish, String> {
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
            let mut of_parent = 0;
            libc::prctl(libc::PR_GET_PDEATHSIG, &mut of_parent);
            if of_parent != 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            }
            Ok(Wish(OwnedFd::from_raw_fd(fd)))
        }
    }

    fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Runs the measured program, on these CPUs only, with the policy that knee was started with,
/// watched if there is a watch.
pub fn measured(
    job: &CommandJob,
    cpus: &[u32],
    policy: Policy,
    wish: &Wish,
    watching: &mut Watch,
) -> Result<Ran, String> {
    let mut command = command(&job.run, job);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mask = affinity::mask(cpus);
    let marker = watching.marker();
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
    let started_ns = now_ns();
    let mut child = command.spawn().map_err(|e| not_started(&job.run, job, &e))?;
    let watch = watch(&child)?;
    let mut stdout = Output::of(child.stdout.take().expect("it is a pipe"));
    let mut stderr = Output::of(child.stderr.take().expect("it is a pipe"));
    let since = Instant::now();
    let patience = Duration::from_secs_f64(job.timeout_s);
    let (end, ended_ns, usage) = loop {
        let fds = [watch.as_raw_fd(), wish.descriptor(), stdout.descriptor(), stderr.descriptor()];
        let left = patience.saturating_sub(since.elapsed());
        let ready = poll(&fds, watching.patience().map_or(left, |patience| patience.min(left)));
        watching.drain();
        if ready[0] {
            let (status, usage) = collect(&child)?;
            break (End::Ended(status), now_ns(), usage);
        }
        // One turn each, so that neither keeps us from the other, or from the end.
        stdout.read(1);
        stderr.read(1);
        if ready[1] {
            break (End::Asked, now_ns(), Usage::default());
        }
        if left.is_zero() {
            break (End::TimedOut, now_ns(), Usage::default());
        }
    };
    // What was written before the end; a process that goes on writing does not hold us up.
    stdout.read(64);
    stderr.read(64);
    Ok(Ran {
        end,
        wall_ns: ended_ns - started_ns,
        usage,
        stdout: stdout.end(),
        stderr: stderr.end(),
    })
}

/// Runs a program beside the measured one, within so much time. What it writes goes to a file
/// in memory: a server that it leaves behind must not lose its output.
pub fn beside(
    words: &[String],
    job: &CommandJob,
    patience: Duration,
    wish: Option<&Wish>,
) -> Result<(), Beside> {
    let failed = Beside::Failed;
    let mut said = memfd::create(c"output").map_err(|why| failed(format!("{why:#}")))?;
    let copy = || said.try_clone().map_err(|e| failed(format!("dup: {e}")));
    let mut command = command(words, job);
    command.stdout(copy()?).stderr(copy()?);
    let child = command.spawn().map_err(|e| failed(not_started(words, job, &e)))?;
    let watch = watch(&child).map_err(failed)?;
    let since = Instant::now();
    loop {
        let left = patience.saturating_sub(since.elapsed());
        let ready = poll(&[watch.as_raw_fd(), wish.map_or(-1, Wish::descriptor)], left);
        if ready[0] {
            break;
        }
        if ready[1] {
            return Err(Beside::Asked);
        }
        if left.is_zero() {
            let name = words.join(" ");
            return Err(failed(format!(
                "'{name}' took longer than {:.0} s",
                patience.as_secs_f64()
            )));
        }
    }
    let (status, _) = collect(&child).map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    let read = said.rewind().and_then(|()| said.read_to_end(&mut text));
    let words_of_it = read.map(|_| last_words(&text)).unwrap_or_default();
    Err(failed(format!("'{}' {}", words.join(" "), with_words(&described(status), &words_of_it))))
}

/// Why a program beside the measured one did not do its part.
pub enum Beside {
    Failed(String),
    Asked,
}

fn command(words: &[String], job: &CommandJob) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(&job.environment).current_dir(&job.directory);
    command.stdin(Stdio::null());
    let worker = std::process::id();
    // SAFETY: between fork and exec only system calls.
    unsafe {
        command.pre_exec(move || {
            // No terminal to stop it, no group in which its signals would hit us; and dead
            // with us, if we had no time to kill it.
            libc::setsid();
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            match libc::getppid() as u32 == worker {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
    command
}

fn not_started(words: &[String], job: &CommandJob, error: &io::Error) -> String {
    format!("starting '{}' in {}: {error}", words.join(" "), job.directory.display())
}

/// A descriptor that becomes readable when the child has ended.
fn watch(child: &Child) -> Result<OwnedFd, String> {
    // SAFETY: plain numbers; the new descriptor is owned by nobody else.
    match unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } {
        -1 => Err(format!("pidfd_open (Linux 5.3 or newer): {}", io::Error::last_os_error())),
        // SAFETY: as above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Which descriptors are ready; none after the time.
fn poll<const N: usize>(fds: &[i32; N], time: Duration) -> [bool; N] {
    let mut polled = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // Rounded up: 0 would be no wait at all.
    let ms = time.as_millis().min(1_000_000) as i32 + i32::from(!time.is_zero());
    // SAFETY: live pollfds, and their number.
    unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, ms) };
    polled.map(|fd| fd.revents != 0)
}

/// Collects a child that has ended.
fn collect(child: &Child) -> Result<(ExitStatus, Usage), String> {
    let mut status = 0;
    // SAFETY: rusage is plain data, valid when zero; both are live.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as i32, &mut status, 0, &mut usage), usage)
    };
    match pid {
        -1 => Err(format!("wait4: {}", io::Error::last_os_error())),
        _ => Ok((ExitStatus::from_raw(status), usage::of_rusage(&usage))),
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

/// A reason with what the program said last.
pub fn with_words(reason: &str, words: &str) -> String {
    match words {
        "" => format!("{reason}, saying nothing"),
        words => format!("{reason}, saying: {words}"),
    }
}
