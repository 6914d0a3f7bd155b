//! A home: a temporary folder that holds all that one test's knees may touch, and what is
//! known about it afterwards.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use records::{Opened, Run};
use store::Store;
use tempfile::TempDir;

use crate::process::{self, Process, wait_for, wait_within};

/// A folder with `records`, `state`, `cache` and the directory to `measure`.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Home {
        let home = Home { folder: tempfile::tempdir().expect("making a temporary folder") };
        for name in ["records", "state", "cache", "measured"] {
            fs::create_dir(home.path(name)).expect("making a folder of the home");
        }
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn store(&self) -> Store {
        Store::at(self.path("records"))
    }

    /// `knee` with these arguments, separated by spaces. Its output goes to files.
    pub fn knee(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_knee"));
        command.args(arguments.split_whitespace());
        self.move_in(&mut command);
        // A test that was started with `nohup`, or with `&` in a script, ignores these signals, and so
        // would knee.
        // SAFETY: system calls only.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            })
        };
        command
    }

    /// Puts a copy of `knee` here, to be changed. By another process: a file that is open for
    /// writing in this one is so in whatever another test forks just now, and cannot be
    /// executed for as long (ETXTBSY).
    pub fn copy_knee(&self) {
        let copied =
            Command::new("cp").arg(env!("CARGO_BIN_EXE_knee")).arg(self.path("knee")).status();
        assert!(copied.expect("starting cp").success());
    }

    /// Makes a command live here.
    pub fn move_in(&self, command: &mut Command) {
        command
            .env("HOME", self.folder.path())
            .env("KNEE_RECORDS", self.path("records"))
            .env("TMPDIR", self.path("measured"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(File::create(self.path("stdout")).expect("creating a file"))
            .stderr(File::create(self.path("stderr")).expect("creating a file"));
    }

    /// Runs `knee` to its end.
    pub fn run(&self, arguments: &str) -> Ended {
        self.start(&mut self.knee(arguments)).end()
    }

    /// Resumes a record. Knee is refused to as long as another test has a setting of this host changed, which takes minutes where
    /// the host is busy; and for good if the kernel changed what counts as one, as a warning of its own taints it.
    pub fn resume(&self, arguments: &str) -> Ended {
        let since = Instant::now();
        loop {
            let ended = self.run(arguments);
            if !ended.is_refused() || since.elapsed() > Duration::from_secs(240) {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn start(&self, command: &mut Command) -> Running<'_> {
        Running { home: self, child: command.spawn().expect("starting knee") }
    }

    /// What the last command has said so far.
    pub fn said(&self, what: &str) -> String {
        fs::read_to_string(self.path(what)).expect("reading what knee said")
    }

    /// The runs that the last command has printed. A line cut off is none.
    pub fn printed(&self) -> Vec<Run> {
        let text = self.said("stdout");
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| Run::read(line.trim_end()).expect("knee prints runs")).collect()
    }

    /// The records that can be seen.
    pub fn records(&self) -> Vec<Opened> {
        let folders = self.folders().into_iter().filter(|f| !name(f).starts_with('.'));
        folders.map(|folder| store::open(&folder).expect("opening a record")).collect()
    }

    /// The one record.
    pub fn record(&self) -> Opened {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "one record is here");
        records.remove(0)
    }

    fn folders(&self) -> Vec<PathBuf> {
        let shards = entries(&self.path("records"));
        let of_records = shards.iter().filter(|shard| name(shard) != "bisections");
        of_records.flat_map(|shard| entries(shard)).collect()
    }

    /// The hidden folders of records that are not over. One without a plan is of a knee that
    /// was just starting.
    pub fn growing(&self) -> Vec<PathBuf> {
        let begun = |folder: &PathBuf| {
            folder.join("plan.json").exists() || folder.join("record.json").exists()
        };
        let hidden = self.folders().into_iter().filter(|folder| name(folder).starts_with('.'));
        hidden.filter(begun).collect()
    }

    pub fn processes(&self) -> Vec<Process> {
        process::of(&self.path("records"))
    }

    /// Waits until no process of this home lives.
    pub fn wait_for_quiet(&self) {
        wait_for("all processes to be gone", || self.processes().is_empty().then_some(()));
    }

    /// What a run makes and removes again.
    pub fn scratch(&self) -> Vec<PathBuf> {
        entries(&self.path("measured"))
    }

    /// Panics if something is left of knees that have ended.
    pub fn check_nothing_is_left(&self) {
        self.wait_for_quiet();
        let mut left = self.scratch();
        let hosts = entries(&self.path("state/knee"));
        left.extend(hosts.iter().flat_map(|host| entries(host)));
        left.extend(self.growing());
        // Named memory is a file there; folders are other people's.
        let memory = entries(Path::new("/dev/shm")).into_iter();
        left.extend(memory.filter(|path| path.is_file() && name(path).contains("knee")));
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// What lies in a folder; nothing if there is none.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// A `knee run` that has been started.
pub struct Running<'a> {
    home: &'a Home,
    child: Child,
}

/// The processes of one run.
pub struct Cast {
    pub worker: Process,
    /// The tasks, as processes; none when they are threads of the worker.
    pub tasks: Vec<Process>,
}

/// How a command ended, and what it said.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Whether knee resumed no record because a setting of this host has changed.
    pub fn is_refused(&self) -> bool {
        self.stderr.contains("is not resumed: the setting ")
    }
}

impl Running<'_> {
    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that has not been waited for, so the id is still its.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("looking after knee").is_some()
    }

    /// Waits until so many runs have been printed, or knee has ended.
    pub fn wait_for_runs(&mut self, runs: usize) {
        let home = self.home;
        let lines = || home.said("stdout").matches('\n').count();
        wait_for("runs", || (lines() >= runs || self.has_ended()).then_some(()));
    }

    /// Waits until the tasks of a run have used so many ticks of CPU time each, which they
    /// can only while they are measured.
    pub fn wait_for_tasks(&self, tasks: usize, ticks: u64) -> Cast {
        wait_for("tasks at work", || self.cast(tasks, ticks))
    }

    /// The worker of the run under way.
    pub fn worker(&self) -> Option<Process> {
        let all = self.home.processes();
        all.into_iter().find(|process| process.parent == self.child.id() as i32)
    }

    fn cast(&self, tasks: usize, ticks: u64) -> Option<Cast> {
        let all = self.home.processes();
        let of = |parent| all.iter().filter(move |p| p.parent == parent).cloned();
        // Beside the worker, knee starts mkfs and fsck, which may have threads of their own.
        let worker = of(self.child.id() as i32).find(|child| child.program.ends_with("knee"))?;
        let children: Vec<Process> = of(worker.pid).collect();
        let at_work = if worker.threads > 1 {
            worker.threads == tasks + 1 && worker.ticks >= ticks * tasks as u64
        } else {
            children.len() == tasks && children.iter().all(|task| task.ticks >= ticks)
        };
        at_work.then_some(Cast { worker, tasks: children })
    }

    pub fn end(self) -> Ended {
        self.end_within(Duration::from_secs(100))
    }

    pub fn end_within(mut self, time: Duration) -> Ended {
        let has_ended = || self.child.try_wait().expect("looking after knee");
        let status = wait_within(time, "knee to end", has_ended);
        Ended { status, stdout: self.home.said("stdout"), stderr: self.home.said("stderr") }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
