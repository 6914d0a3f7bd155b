//! A case that runs: the server, its load and, where they are planted, a quota, an only CPU or real-time tasks. Dropping it
//! kills and removes all of that; it dies with the benchmark even if that is killed.

use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, mem};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::case::{Case, Shape};
use super::interrupt::pause;
use super::language::Program;
use super::quota::QuotaGroup;
use crate::{fresh_directory, output, workspace};

/// How long a server may take until it listens, and until its first requests.
const START_MAX: Duration = Duration::from_secs(20);
/// When real-time tasks end by themselves, in seconds, whatever happens to the benchmark.
const HOG_MAX_S: u64 = 120;

/// The programs beside a server, and who runs the server and knee.
pub struct Tools {
    client: PathBuf,
    hog: PathBuf,
    user: Option<u32>,
}

/// The user and the group `nobody` of Debian.
const NOBODY: u32 = 65_534;

impl Tools {
    /// Compiles both. Without privileges, `nobody` runs the server and knee.
    pub fn build(is_unprivileged: bool) -> Result<Tools> {
        let built = |name: &str| {
            let file = folder()?.join(format!("server-{name}"));
            let source = workspace().join(format!("bench/servers/{name}.c"));
            let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
            output(Command::new("cc").args(flags).arg(&file).arg(source))?;
            anyhow::Ok(file)
        };
        let user = is_unprivileged.then_some(NOBODY);
        Ok(Tools { client: built("client")?, hog: built("hog")?, user })
    }
}

/// The folder of programs and of servers' files: on a disk, if the sources are.
pub fn folder() -> Result<PathBuf> {
    let folder = workspace().join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// A process in a group of its own, killed with its group when dropped.
pub struct Process(Child);

impl Process {
    /// Starts a command that prints to a file; on one CPU, if that is given.
    pub fn start(command: &mut Command, printed: &Path, cpu: Option<usize>) -> Result<Process> {
        let file =
            File::create(printed).with_context(|| format!("making {}", printed.display()))?;
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        let parent = std::process::id();
        // SAFETY: only system calls, on values that were made before the fork.
        unsafe {
            command.pre_exec(move || {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::other("the benchmark has ended"));
                }
                cpu.map_or(Ok(()), confine)
            })
        };
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Process(child))
    }

    /// The id of the process, and of its group.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended well; nothing while it runs.
    pub fn ended(&mut self) -> Result<Option<bool>> {
        Ok(self.0.try_wait().context("waiting for a process")?.map(|status| status.success()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: no preconditions; the group is ours as long as its first process is not waited for.
        unsafe { libc::kill(-(self.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

fn become_user(command: &mut Command, user: Option<u32>) {
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
}

/// Lets this process run on one CPU only.
fn confine(cpu: usize) -> io::Result<()> {
    // SAFETY: a set is plain data, valid when zero; the calls take it by its size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A server under load. Fields are dropped in this order: processes before their group and their files.
pub struct Running {
    hog: Option<Process>,
    client: Option<Process>,
    server: Process,
    _group: Option<QuotaGroup>,
    home: TempDir,
    _memory: TempDir,
    is_batch: bool,
    user: Option<u32>,
}

impl Running {
    /// Starts a built case, with its limit or without.
    pub fn start(
        case: &Case,
        program: &Program,
        tools: &Tools,
        is_limited: bool,
    ) -> Result<Running> {
        let start = &case.starts[if is_limited { 0 } else { 1 }];
        let home = fresh_directory(&folder()?)?;
        let memory = fresh_directory(Path::new("/dev/shm"))?;
        symlink(memory.path(), home.path().join("memory")).context("linking to memory")?;
        if let Some(user) = tools.user {
            for folder in [home.path(), memory.path()] {
                chown(folder, Some(user), Some(user)).context("giving the server its folder")?;
            }
        }
        let mut command = program.command(start, tools.user.is_some())?;
        become_user(&mut command, tools.user);
        command.arg(if is_limited { "1" } else { "0" }).arg(home.path());
        let server = Process::start(&mut command, &home.path().join("server.log"), start.cpu)?;
        let group = start.quota.map(|(share, period_us)| QuotaGroup::new(share, period_us));
        let mut running = Running {
            hog: None,
            client: None,
            server,
            _group: group.transpose()?,
            home,
            _memory: memory,
            is_batch: case.shape == Shape::Batch,
            user: tools.user,
        };
        if !running.is_batch {
            running.client = Some(running.client(case, tools)?);
        }
        // The quota applies to requests, not to the start of a machine for Java.
        if let Some(group) = &running._group {
            group.take(running.id())?;
        }
        if let Some((busy_ms, period_ms)) = start.hog_ms {
            let mut hog = Command::new(&tools.hog);
            hog.args([busy_ms, period_ms, HOG_MAX_S].map(|number| number.to_string()));
            running.hog = Some(Process::start(&mut hog, &running.file("hog.log"), None)?);
        }
        Ok(running)
    }

    /// Has the server's user run a command.
    pub fn as_its_user(&self, command: &mut Command) {
        become_user(command, self.user);
    }

    /// The process that knee is asked about.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// A file of this run.
    pub fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn client(&mut self, case: &Case, tools: &Tools) -> Result<Process> {
        let place = self.listening_place()?;
        let mut client = Command::new(&tools.client);
        client.args(place.split_whitespace());
        client.args([u64::from(case.connections), case.pause_us].map(|number| number.to_string()));
        Process::start(&mut client, &self.file("client.log"), None)
    }

    /// What the server prints when it listens: `tcp PORT` or `unix PATH`.
    fn listening_place(&mut self) -> Result<String> {
        let since = Instant::now();
        loop {
            let printed = fs::read_to_string(self.file("server.log"))?;
            let mut lines = printed.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.find(|l| l.starts_with("tcp ") || l.starts_with("unix ")) {
                return Ok(line.trim().to_string());
            }
            self.check_alive()?;
            ensure!(since.elapsed() < START_MAX, "the server does not listen after {START_MAX:?}");
            pause(Duration::from_millis(20))?;
        }
    }

    /// An error if one of the processes has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        let processes = [
            ("server", Some(&mut self.server)),
            ("client", self.client.as_mut()),
            ("hog", self.hog.as_mut()),
        ];
        for (name, process) in processes {
            if let Some(process) = process
                && process.ended()?.is_some()
            {
                let printed = fs::read_to_string(self.home.path().join(format!("{name}.log")));
                let printed = printed.unwrap_or_default();
                bail!("the {name} ended: {}", printed.lines().last().unwrap_or("without a word"));
            }
        }
        Ok(())
    }

    /// Waits for the first report of requests.
    pub fn wait_for_requests(&mut self) -> Result<()> {
        let since = Instant::now();
        while self.done().is_err() {
            self.check_alive()?;
            ensure!(since.elapsed() < START_MAX, "no request is served after {START_MAX:?}");
            pause(Duration::from_millis(20))?;
        }
        Ok(())
    }

    /// Requests per second in the next time; 0 if none is reported, as on a host that is very busy.
    pub fn rate(&mut self, duration: Duration) -> Result<f64> {
        let (first, first_s) = self.done()?;
        pause(duration)?;
        self.check_alive()?;
        let (last, last_s) = self.done()?;
        Ok(if last_s > first_s { (last - first) / (last_s - first_s) } else { 0.0 })
    }

    /// Requests so far, and when that was printed, in seconds.
    fn done(&self) -> Result<(f64, f64)> {
        let log = self.file(if self.is_batch { "server.log" } else { "client.log" });
        let printed = fs::read_to_string(log)?;
        let lines = printed.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let numbers = |line: &str| {
            let (done, at_s) = line.strip_prefix("done ")?.trim().split_once(' ')?;
            Some((done.parse().ok()?, at_s.parse().ok()?))
        };
        lines.rev().find_map(numbers).context("the load reports no requests")
    }
}
