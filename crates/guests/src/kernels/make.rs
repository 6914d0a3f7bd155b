//! One run of make with its descendants, in a process group of its own: knee kills the group when a
//! signal asks it to end, and the group kills itself when knee dies. All output goes to a log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read, stderr};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::bounded_output::BoundedOutput;
use host::job_control::RunningSince;
use host::leftovers::Leftovers;
use host::terminal::{hint, is_quiet, shown};
use host::{children, kill_with_parent, signals};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};

/// The shell that starts make. When knee dies of any signal, the kernel signals this shell
/// (PR_SET_PDEATHSIG), and it kills the whole group: make's children would live on.
const GUARD: &str = r#"trap 'kill -KILL 0' TERM; "$@" & wait $!"#;

/// Settings of every run of make, so that equal sources give equal images.
pub const FIXED_VARIABLES: [(&str, &str); 5] = [
    ("ARCH", "x86_64"),
    ("KBUILD_BUILD_HOST", "knee"),
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "knee"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// Variables of the user's environment that would change what is built.
const FOREIGN_VARIABLES: &[&str] = &[
    "ARCH",
    "CC",
    "CFLAGS",
    "CROSS_COMPILE",
    "GNUMAKEFLAGS",
    "HOSTCC",
    "HOSTCFLAGS",
    "KAFLAGS",
    "KCFLAGS",
    "KCPPFLAGS",
    "LD",
    "LDFLAGS",
    "LLVM",
    "LLVM_IAS",
    "LOCALVERSION",
    "MAKEFILES",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
    "O",
    "SUBARCH",
    "V",
    "W",
];

/// Prefixes of more such variables.
const FOREIGN_PREFIXES: &[&str] = &["KBUILD_", "KCONFIG_", "INSTALL_"];

/// Time between two checks whether make has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time between two lines of progress, on a terminal and elsewhere.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Runs a command to its end, or until a deadline, with its output in the log. `None`: the deadline passed, and the
/// command was killed. Fails only if the command cannot be started, or if a signal asks knee to end.
pub fn run(
    arguments: &[OsString],
    log: &Path,
    deadline: Option<Deadline>,
    progress: &mut Progress,
) -> Result<Option<ExitStatus>> {
    let opening = || format!("opening {}", log.display());
    let appended = File::options().append(true).open(log).with_context(opening)?;
    let file = File::options().read(true).write(true).open(log).with_context(opening)?;
    let mut output = BoundedOutput::new(file);
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).args(arguments).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(appended.try_clone()?).stderr(appended);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_foreign(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    kill_with_parent(&mut command, libc::SIGTERM);
    let leftovers = Leftovers::of(&mut command);
    let child = children::spawn(&mut command).context("starting a shell for make")?;
    let status = wait(Group(child), deadline, &mut output, progress);
    leftovers.end();
    output.shorten()?;
    status.with_context(|| format!("the log: {}", log.display()))
}

/// The end of the time that a build may take. Time while knee is stopped (Ctrl-Z) does not count.
#[derive(Clone, Copy)]
pub struct Deadline {
    pub since: RunningSince,
    pub timeout: Duration,
}

impl Deadline {
    fn has_passed(&self) -> bool {
        self.since.elapsed() > self.timeout
    }
}

fn is_foreign(name: &str) -> bool {
    FOREIGN_VARIABLES.contains(&name)
        || FOREIGN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn wait(
    mut group: Group,
    deadline: Option<Deadline>,
    output: &mut BoundedOutput,
    progress: &mut Progress,
) -> Result<Option<ExitStatus>> {
    loop {
        output.free_middle()?;
        if let Some(status) = group.0.try_wait()? {
            return Ok(Some(status));
        }
        if deadline.is_some_and(|deadline| deadline.has_passed()) {
            return Ok(None);
        }
        if let Some(signal) = signals::received() {
            drop(group);
            bail!("interrupted by {}", signals::name(signal));
        }
        std::thread::sleep(POLL_INTERVAL);
        progress.update();
    }
}

/// The process group of one run of make. None of its processes outlives this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if !self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            return;
        }
        // The group's leader has not been waited for, so its id has not been reused. Orphans of the
        // group become children of this process (`descendants::adopt`): once none of its children
        // is in the group, the group is empty.
        let Some(group) = Pid::from_raw(self.0.id() as i32) else { return };
        let _ = kill_process_group(group, Signal::KILL);
        while let Ok(Some(_)) = waitpgid(group, WaitOptions::empty()) {}
    }
}

/// Shows a build's progress, by the number of lines in its log.
pub struct Progress {
    /// The revision that is built.
    revision: String,
    log: Option<File>,
    lines: usize,
    /// About as many lines as there will be.
    about: Option<usize>,
    since: Instant,
    last_update: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `about`: the steps of an earlier build like this one.
    pub fn new(revision: &str, log: &Path, about: Option<usize>) -> Progress {
        let now = Instant::now();
        Progress {
            revision: revision.to_string(),
            log: File::open(log).ok(),
            lines: 0,
            about,
            since: now,
            last_update: now,
            bar: (stderr().is_terminal() && !is_quiet()).then(bar),
        }
    }

    fn update(&mut self) {
        let interval = if self.bar.is_some() { TERMINAL_INTERVAL } else { LINE_INTERVAL };
        if self.last_update.elapsed() < interval {
            return;
        }
        self.last_update = Instant::now();
        self.count();
        let line = self.line();
        match &self.bar {
            Some(bar) => {
                bar.set_message(shown(&line));
                bar.tick();
            }
            None => hint(line),
        }
    }

    fn count(&mut self) {
        let mut buffer = [0; 1 << 16];
        while let Some(Ok(n @ 1..)) = self.log.as_mut().map(|log| log.read(&mut buffer)) {
            self.lines += buffer[..n].iter().filter(|byte| **byte == b'\n').count();
        }
    }

    fn line(&self) -> String {
        let (steps, seconds) = (self.lines, self.since.elapsed().as_secs());
        let all = self.about.filter(|about| *about > steps);
        let all = all.map(|about| format!(" of about {about}")).unwrap_or_default();
        format!("building {}: {steps}{all} steps, {seconds} s", self.revision)
    }

    /// The steps so far.
    pub fn steps(&mut self) -> usize {
        self.count();
        self.lines
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}
