//! What measuring costs: the rate of knee's workload over the rate of a bare C loop doing the
//! same system calls on the same CPUs, which is what a user could have written instead.
//!
//! Each round runs knee once and the bare loop twice, in random order, each on a fresh
//! directory after a sync(2). The second bare run tells how far two equal things differ here.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rand::seq::SliceRandom;
use records::{Event, Form, Job, Native, PROTOCOL, Pass, Until, Work};
use workloads::Workload;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output, workspace};

/// Workloads that have a bare loop in `bench/bare`.
pub const WORKLOADS: &[&str] =
    &["getppid", "posix_lock_own", "flock_own", "page_fault_shared_file", "create_files"];

const TASKS: &[u32] = &[1, 2];

/// Ratios and rates of these workloads.
pub fn measure(
    bench: &mut Bench,
    options: &Options,
    workloads: impl Iterator<Item = &'static str>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for workload in workloads {
        let bare = compile(workload)?;
        for &tasks in TASKS {
            figures.extend(Case { workload, bare: &bare, tasks, options }.measure(bench)?);
        }
    }
    Ok(figures)
}

/// Compiles a bare loop, linked statically as knee is. Returns the program.
fn compile(workload: &str) -> Result<PathBuf> {
    let folder = workspace().join("target/bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let program = folder.join(workload);
    let source = workspace().join("bench/bare").join(workload).with_extension("c");
    let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o"];
    output(Command::new("cc").args(flags).arg(&program).arg(source))?;
    Ok(program)
}

/// One workload at one number of tasks, task i on CPU i.
struct Case<'a> {
    workload: &'static str,
    bare: &'a Path,
    tasks: u32,
    options: &'a Options,
}

#[derive(Clone, Copy)]
enum Side {
    Knee,
    Bare,
    BareAgain,
}

impl Case<'_> {
    fn measure(&self, bench: &mut Bench) -> Result<Vec<Figure>> {
        let pairs = self.options.pairs;
        let mut rates = [vec![], vec![], vec![]];
        let mut order = [Side::Knee, Side::Bare, Side::BareAgain];
        for pair in 1..=pairs {
            eprintln!("{} × {}: pair {pair} of {pairs}", self.workload, self.tasks);
            order.shuffle(&mut bench.random);
            for side in order {
                rates[side as usize].push(self.rate(bench, side)?);
            }
        }
        let [knee, bare, again] = rates;
        let ratio = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect();
        let plural = if self.tasks == 1 { "" } else { "s" };
        let figure = |what, unit, limit, values| Figure {
            name: format!("{}, {} task{plural}: {what}", self.workload, self.tasks),
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

    /// Operations per second of one run, in a state of the file system that no other run has
    /// left to it.
    fn rate(&self, bench: &Bench, side: Side) -> Result<f64> {
        let directory = fresh_directory(&self.options.dir)?;
        // SAFETY: no preconditions.
        unsafe { libc::sync() };
        let (operations, wall_ns) = match side {
            Side::Knee => self.run_knee(&bench.knee, directory.path()),
            Side::Bare | Side::BareAgain => self.run_bare(directory.path()),
        }?;
        ensure!(operations > 0, "{} did nothing within {} s", self.workload, self.options.seconds);
        Ok(operations as f64 / wall_ns as f64 * 1e9)
    }

    /// Operations of all tasks, and ns from their release to the last one's stop.
    fn run_bare(&self, directory: &Path) -> Result<(u64, u64)> {
        let mut command = Command::new(self.bare);
        command.arg(directory).args([self.tasks.to_string(), self.options.seconds.to_string()]);
        let text = String::from_utf8(output(&mut command)?.stdout)?;
        let (operations, wall_ns) = text.trim().split_once(' ').context("two numbers expected")?;
        Ok((operations.parse()?, wall_ns.parse()?))
    }

    /// The same two numbers, of a worker that got the job which `knee run` would give it.
    fn run_knee(&self, knee: &Path, directory: &Path) -> Result<(u64, u64)> {
        let mut operations = 0;
        let mut wall_ns = None;
        for event in worker(knee, &self.job(directory))? {
            match event {
                Event::Measured(measured) => wall_ns = Some(measured.wall_ns),
                Event::Task(task) => operations += task.operations,
                Event::Failed { reason } => bail!("knee: {reason}"),
                _ => {}
            }
        }
        Ok((operations, wall_ns.context("the worker died")?))
    }

    fn job(&self, directory: &Path) -> Job {
        let workload = Workload::find(self.workload).expect("bare loops are of known workloads");
        Job {
            protocol: PROTOCOL,
            work: Work::Workload(Native {
                name: self.workload.to_string(),
                semantics: workload.spec.semantics,
                parameters: Default::default(),
            }),
            form: Form::Processes,
            tasks: self.tasks,
            cpus: (0..self.tasks).collect(),
            until: Until::Seconds(self.options.seconds),
            pass: Pass::Rate,
            watch: None,
            scratch: directory.join("knee"),
            keep: false,
            stop_grace_s: 10.0,
        }
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

/// Has a command run on CPU 0, as a job does.
pub fn pinned(command: &mut Command) {
    let mask = [1_u64; 1];
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
