//! One run of make, with all that it starts: in a process group of its own, which is killed
//! when knee is asked to end, and kills itself when knee dies. All that is said goes to a log.

use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read, stderr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::signals;
use host::stderr::talk;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::kernels::kill_with_parent::kill_with_parent;

/// What starts make. knee may be killed in any way; then the kernel tells this shell
/// (PR_SET_PDEATHSIG), and it takes all with it: make's children would not notice.
const GUARD: &str = r#"trap 'kill -KILL 0' TERM; "$@" & wait $!"#;

/// Variables of the user's environment that would change what is built.
const OTHERS: &[&str] = &[
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

/// Beginnings of the names of more of these.
const OTHER_BEGINNINGS: &[&str] = &["KBUILD_", "KCONFIG_", "INSTALL_"];

/// Time between two looks, and between two lines where there is no terminal.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Runs a command to its end, with its words in the log. An error only if it cannot be
/// started, or if knee was asked to end.
pub fn run(words: &[OsString], log: &Path, progress: &mut Progress) -> Result<ExitStatus> {
    let file = File::options().append(true).open(log);
    let file = file.with_context(|| format!("opening {}", log.display()))?;
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).args(words).process_group(0).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_other(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    kill_with_parent(&mut command, libc::SIGTERM);
    let child = command.spawn().context("starting a shell for make")?;
    wait(Group(child), progress).with_context(|| format!("the log: {}", log.display()))
}

fn is_other(name: &str) -> bool {
    OTHERS.contains(&name) || OTHER_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn wait(mut group: Group, progress: &mut Progress) -> Result<ExitStatus> {
    loop {
        if let Some(status) = group.0.try_wait()? {
            return Ok(status);
        }
        if let Some(signal) = signals::received() {
            drop(group);
            bail!("ended by {}", signals::name(signal));
        }
        std::thread::sleep(LOOK_EVERY);
        progress.look();
    }
}

/// The processes of one run. None of them outlives this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if !self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            return;
        }
        let id = self.0.id() as i32;
        // SAFETY: plain calls. The group's leader has not been waited for, so its id is not
        // another's. Orphans of the group become our children (`descendants::adopt`): when we
        // have none in it, there is none.
        unsafe {
            libc::kill(-id, libc::SIGKILL);
            while libc::waitpid(-id, std::ptr::null_mut(), 0) > 0 {}
        }
    }
}

/// Says how far a build is, by the lines of its log.
pub struct Progress {
    /// What is built.
    what: String,
    log: Option<File>,
    lines: usize,
    since: Instant,
    spoken: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// For one build.
    pub fn new(what: &str, log: &Path) -> Progress {
        let now = Instant::now();
        Progress {
            what: what.to_string(),
            log: File::open(log).ok(),
            lines: 0,
            since: now,
            spoken: now,
            bar: stderr().is_terminal().then(bar),
        }
    }

    fn look(&mut self) {
        let every = if self.bar.is_some() { Duration::from_millis(200) } else { LINE_EVERY };
        if self.spoken.elapsed() < every {
            return;
        }
        self.spoken = Instant::now();
        self.count();
        let line = self.line();
        match &self.bar {
            Some(bar) => {
                bar.set_message(line);
                bar.tick();
            }
            None => talk(line),
        }
    }

    fn count(&mut self) {
        let mut buffer = [0; 1 << 16];
        while let Some(Ok(n @ 1..)) = self.log.as_mut().map(|log| log.read(&mut buffer)) {
            self.lines += buffer[..n].iter().filter(|byte| **byte == b'\n').count();
        }
    }

    fn line(&self) -> String {
        let seconds = self.since.elapsed().as_secs();
        format!("building {}: {} steps, {seconds} s", self.what, self.lines)
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
