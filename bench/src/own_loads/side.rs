//! A program that runs a test, knee or will-it-scale's own, as it is measured: it stops, and goes on for a while.
//!
//! While it is stopped, its counters and the CPU time of its tasks are exact: nothing of either is under way.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::group::Group;

/// A test under way.
pub struct Side {
    child: Child,
    group: Group,
    counters: Counters,
    /// The program of knee, whose processes are not tasks.
    knee: Option<std::path::PathBuf>,
}

/// The words that the tasks count in, in memory that a file holds.
struct Counters {
    file: File,
    stride: usize,
    offset: usize,
    tasks: usize,
}

/// What the tasks have done and used so far, or in a while.
#[derive(Clone, Copy)]
pub struct Work {
    pub operations: f64,
    pub cpu_ns: f64,
}

/// How long a program may take until its tasks count.
const PATIENCE: Duration = Duration::from_secs(20);

impl Side {
    /// Starts `knee run`, and waits until the tasks are released.
    pub fn of_knee(knee: &Command, form: &str, tasks: usize, tmp: &Path) -> Result<Side> {
        let group = Group::new("knee", tmp)?;
        let mut command = group.command(knee);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("starting knee")?;
        let (head, counts) = until(|| {
            ensure!(child.try_wait()?.is_none(), "knee ended before its tasks ran: {knee:?}");
            Ok(board_of(&group, form))
        })?;
        until(|| {
            ensure!(child.try_wait()?.is_none(), "knee ended before its tasks ran: {knee:?}");
            // The phase is the first word.
            let mut phase = [0; 4];
            head.read_exact_at(&mut phase, 0)?;
            Ok((u32::from_ne_bytes(phase) == PHASE_RUN).then_some(()))
        })?;
        let counters = Counters { file: counts, stride: 128, offset: 64, tasks };
        let program = Path::new(knee.get_program()).canonicalize()?;
        Ok(Side { child, group, counters, knee: Some(program) })
    }

    /// Starts will-it-scale's program, and waits until all tasks count.
    pub fn of_will_it_scale(program: &Path, tasks: usize, tmp: &Path) -> Result<Side> {
        let group = Group::new("theirs", tmp)?;
        let mut command = Command::new(program);
        // CPUs by number, as knee takes them.
        command.args(["-m", "-t", &tasks.to_string()]);
        let mut command = group.command(&command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("starting will-it-scale's program")?;
        let counters = until(|| {
            ensure!(child.try_wait()?.is_none(), "{} ended", program.display());
            let file = open_descriptor(child.id(), |target| target.contains("/shared_area_"));
            let counters = file.map(|file| Counters { file, stride: 256, offset: 0, tasks });
            Ok(counters
                .filter(|counters| counters.values().is_ok_and(|v| v.iter().all(|n| *n > 0))))
        })?;
        Ok(Side { child, group, counters, knee: None })
    }

    pub fn stop(&self) -> Result<()> {
        self.group.freeze()
    }

    /// Lets a stopped program run for a while.
    pub fn run_for(&self, time: Duration) -> Result<Work> {
        let before = self.so_far()?;
        self.group.thaw()?;
        sleep(time);
        self.group.freeze()?;
        let after = self.so_far()?;
        Ok(Work {
            operations: after.operations - before.operations,
            cpu_ns: after.cpu_ns - before.cpu_ns,
        })
    }

    /// Ends the program as its user would, so that it removes its files.
    pub fn end(mut self) -> Result<()> {
        self.group.thaw()?;
        match self.knee {
            // SAFETY: a plain call, for a child that has not been waited for.
            Some(_) => drop(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }),
            None => drop(self.child.stdin.take()),
        }
        let since = Instant::now();
        while self.child.try_wait()?.is_none() {
            if since.elapsed() > PATIENCE {
                self.child.kill()?;
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn so_far(&self) -> Result<Work> {
        let operations = self.counters.values()?.into_iter().sum::<u64>() as f64;
        let mut cpu_ns = 0.0;
        for process in self.group.processes()? {
            let program = fs::read_link(format!("/proc/{process}/exe"));
            if self.knee.is_some() && program.ok() == self.knee {
                continue;
            }
            for thread in fs::read_dir(format!("/proc/{process}/task"))? {
                let text = fs::read_to_string(thread?.path().join("schedstat"))?;
                let ran = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
                cpu_ns +=
                    ran.with_context(|| format!("process {process}: schedstat is '{text}'"))?;
            }
        }
        Ok(Work { operations, cpu_ns })
    }
}

impl Counters {
    fn values(&self) -> Result<Vec<u64>> {
        let mut bytes = vec![0; self.stride * self.tasks];
        self.file.read_exact_at(&mut bytes, 0).context("reading counters")?;
        let value = |task| {
            let at = self.stride * task + self.offset;
            let word = bytes[at..].first_chunk().context("a counter is cut off")?;
            Ok(u64::from_ne_bytes(*word))
        };
        (0..self.tasks).map(value).collect()
    }
}

/// `Phase::Run` of crates/worker/src/board.rs.
const PHASE_RUN: u32 = 1;

/// The files of the board, once knee has started the load: the load's arguments name the descriptors.
fn board_of(group: &Group, form: &str) -> Option<(File, File)> {
    let arguments = |process: &u32| {
        let text = fs::read(format!("/proc/{process}/cmdline")).ok()?;
        let words =
            text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        Some((*process, words.collect::<Vec<_>>()))
    };
    let is_load =
        |(_, words): &(u32, Vec<String>)| words.len() > 12 && words[1] == "run" && words[2] == form;
    let processes = group.processes().ok()?;
    let (process, words) = processes.iter().filter_map(arguments).find(is_load)?;
    let open = |descriptor: &str| File::open(format!("/proc/{process}/fd/{descriptor}")).ok();
    Some((open(&words[6])?, open(&words[7])?))
}

/// A descriptor of another process, by what it refers to.
fn open_descriptor(process: u32, is_wanted: impl Fn(&str) -> bool) -> Option<File> {
    let mut links = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
    let found = links.find(|link| {
        fs::read_link(link.path()).is_ok_and(|target| is_wanted(&target.to_string_lossy()))
    })?;
    File::open(found.path()).ok()
}

fn until<T>(mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        if let Some(value) = ready()? {
            return Ok(value);
        }
        sleep(Duration::from_millis(2));
    }
    bail!("no task counts after {PATIENCE:?}")
}
