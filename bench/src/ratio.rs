//! What measuring costs: the rate of knee's workload over the rate of a bare C loop doing the
//! same system calls on the same CPUs, which is what a user could have written instead.
//!
//! Each round runs knee once and the bare loop twice, in random order, each on a fresh directory, or
//! a fresh file system, after a sync(2). The second bare run tells how far two equal things differ
//! here.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rand::seq::SliceRandom;
use records::{Event, Form, Job, NativeJob, PROTOCOL, Pass, Until, Usage, Work};
use tempfile::TempDir;
use workloads::Workload;

use crate::file_system::{self, FileSystem};
use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output, workspace};

/// Workloads that have a bare loop in `bench/bare`.
pub const WORKLOADS: &[&str] =
    &["getppid", "posix_lock_own", "flock_own", "page_fault_shared_file", "create_files"];

const TASKS: &[u32] = &[1, 2];

/// Files whose first pass, in which the file system and the host give each page a place, takes a few
/// hundredths of a second: it differs from run to run more than the loops do.
const FILE_BYTES: u64 = 16 << 20;

/// Ratios and rates of these workloads.
pub fn measure(
    bench: &mut Bench,
    options: &Options,
    workloads: impl Iterator<Item = &'static str>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for workload in workloads {
        let bare = build(workload, &["-static"])?;
        for &tasks in TASKS {
            let case = Case { workload, parameters: &[], bare: &bare, tasks, kind: None, options };
            figures.extend(case.measure(bench)?);
        }
    }
    Ok(figures)
}

/// Ratios and rates of shared write faults on a fresh file system of each kind.
pub fn on_file_systems(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let workload = "page_fault_shared_file";
    let parameters = &[("size_bytes", FILE_BYTES.to_string())];
    let bare = build(workload, &["-static", &format!("-DSIZE={FILE_BYTES}L")])?;
    let mut figures = Vec::new();
    for kind in file_system::KINDS.iter().filter(|kind| options.wants_fs(kind.name)) {
        for &tasks in TASKS {
            let kind = Some(kind.name);
            let case = Case { workload, parameters, bare: &bare, tasks, kind, options };
            figures.extend(case.measure(bench)?);
        }
    }
    Ok(figures)
}

/// Compiles a file of `bench/bare`; loops statically, as knee is. Returns what came of it.
pub fn build(name: &str, flags: &[&str]) -> Result<PathBuf> {
    let folder = workspace().join("target/bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let built = folder.join(name);
    let source = workspace().join("bench/bare").join(name).with_extension("c");
    let always = ["-O2", "-Wall", "-Wextra", "-Werror"];
    output(Command::new("cc").args(always).args(flags).arg("-o").arg(&built).arg(source))?;
    Ok(built)
}

/// One workload at one number of tasks, task i on CPU i.
struct Case<'a> {
    workload: &'static str,
    parameters: &'a [(&'a str, String)],
    bare: &'a Path,
    tasks: u32,
    /// The kind of file system made for each run; none: a directory in `--dir`.
    kind: Option<&'static str>,
    options: &'a Options,
}

#[derive(Clone, Copy)]
enum Side {
    Knee,
    Bare,
    BareAgain,
}

/// Where one run is, gone when dropped.
enum Place {
    Directory(TempDir),
    FileSystem(FileSystem),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Place::Directory(directory) => directory.path(),
            Place::FileSystem(made) => made.root(),
        }
    }
}

impl Case<'_> {
    fn measure(&self, bench: &mut Bench) -> Result<Vec<Figure>> {
        let pairs = self.options.pairs;
        let mut rates = [vec![], vec![], vec![]];
        let mut order = [Side::Knee, Side::Bare, Side::BareAgain];
        for pair in 1..=pairs {
            eprintln!("{}, {} tasks: pair {pair} of {pairs}", self.what(), self.tasks);
            order.shuffle(&mut bench.random);
            for side in order {
                rates[side as usize].push(self.rate(bench, side)?);
            }
        }
        let [knee, bare, again] = rates;
        let ratio = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect();
        let plural = if self.tasks == 1 { "" } else { "s" };
        let figure = |what, unit, limit, values| Figure {
            name: format!("{}, {} task{plural}: {what}", self.what(), self.tasks),
            unit,
            limit,
            values,
        };
        Ok(vec![
            figure("knee / bare", "", Limit::AtLeast(0.99), ratio(&knee, &bare)),
            figure("bare / bare", "", Limit::None, ratio(&again, &bare)),
            figure("knee", "/s", Limit::None, knee),
            figure("bare", "/s", Limit::None, bare),
        ])
    }

    fn what(&self) -> String {
        match self.kind {
            Some(kind) => format!("{} on {kind}", self.workload),
            None => self.workload.to_string(),
        }
    }

    /// Operations per second of one run, in a state of the file system that no other run has
    /// left to it.
    fn rate(&self, bench: &Bench, side: Side) -> Result<f64> {
        let place = match self.kind {
            Some(kind) => Place::FileSystem(FileSystem::make(kind, &self.options.dir)?),
            None => Place::Directory(fresh_directory(&self.options.dir)?),
        };
        // SAFETY: no preconditions.
        unsafe { libc::sync() };
        let (operations, wall_ns) = match side {
            Side::Knee => self.run_knee(&bench.knee, place.path()),
            Side::Bare | Side::BareAgain => self.run_bare(place.path()),
        }?;
        ensure!(operations > 0, "{} did nothing within {} s", self.workload, self.options.seconds);
        Ok(operations as f64 / wall_ns as f64 * 1e9)
    }

    /// Operations of all tasks, and ns from their release to the last one's stop.
    fn run_bare(&self, directory: &Path) -> Result<(u64, u64)> {
        // As deep as knee's.
        let directory = directory.join("bare");
        std::fs::create_dir(&directory)?;
        let mut command = Command::new(self.bare);
        command.arg(directory).args([self.tasks.to_string(), self.options.seconds.to_string()]);
        let text = String::from_utf8(output(&mut command)?.stdout)?;
        let (operations, wall_ns) = text.trim().split_once(' ').context("two numbers expected")?;
        Ok((operations.parse()?, wall_ns.parse()?))
    }

    /// Operations and wall time in ns of a worker with the job that `knee run` would give it.
    fn run_knee(&self, knee: &Path, directory: &Path) -> Result<(u64, u64)> {
        let until = Until::Seconds(self.options.seconds);
        let job = job(self.workload, self.parameters, self.tasks, until, directory);
        let ran = Ran::by(knee, &job)?;
        Ok((ran.operations, ran.wall_ns))
    }
}

/// The job that `knee run` would give to a worker, task i on CPU i.
pub fn job(
    workload: &str,
    parameters: &[(&str, String)],
    tasks: u32,
    until: Until,
    directory: &Path,
) -> Job {
    let spec = &Workload::find(workload).expect("a known workload").spec;
    let parameters: BTreeMap<String, String> =
        parameters.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    Job {
        protocol: PROTOCOL,
        work: Work::Workload(NativeJob {
            name: workload.to_string(),
            semantics: spec.semantics,
            parameters,
        }),
        form: Form::Processes,
        tasks,
        cpus: (0..tasks).collect(),
        until,
        pass: Pass::Rate,
        scratch: directory.join("knee"),
        keep: false,
        beside: None,
        daemon: None,
        together: false,
        allocations: false,
        traced: false,
        profile: None,
        stop_grace_s: 10.0,
    }
}

/// What a worker told of a run.
pub struct Ran {
    /// Operations of all tasks.
    pub operations: u64,
    /// From the release to the last task's stop, in ns.
    pub wall_ns: u64,
    /// What the tasks took meanwhile.
    pub usage: Usage,
}

impl Ran {
    /// Has a worker do a job.
    pub fn by(knee: &Path, job: &Job) -> Result<Ran> {
        let mut operations = 0;
        let mut measured = None;
        for event in worker(knee, job)? {
            match event {
                Event::Measured(seen) => measured = Some(seen),
                Event::Task(task) => operations += task.operations,
                Event::Failed { reason } => bail!("knee: {reason}"),
                _ => {}
            }
        }
        let measured = measured.context("the worker died")?;
        Ok(Ran { operations, wall_ns: measured.wall_ns, usage: measured.usage })
    }
}

/// What a worker that got this job says.
pub fn worker(knee: &Path, job: &Job) -> Result<Vec<Event>> {
    let mut worker = Command::new(knee)
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", knee.display()))?;
    let mut input = worker.stdin.take().context("the worker's input is a pipe")?;
    input.write_all(serde_json::to_string(job)?.as_bytes())?;
    drop(input);
    let text = String::from_utf8(worker.wait_with_output()?.stdout)?;
    text.lines().map(Event::read).collect()
}

/// Has a command run on the first CPUs, as a job does.
pub fn pinned(command: &mut Command, cpus: u32) {
    let mask = [u64::MAX >> (64 - cpus); 1];
    // SAFETY: between fork and exec one system call, on live data.
    unsafe {
        command.pre_exec(move || {
            match libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}
