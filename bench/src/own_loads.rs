//! Tests of will-it-scale run by knee against the same tests run by will-it-scale's own program: operations per second,
//! as processes and threads, with 1 and 2 tasks.
//!
//! Each round runs both once, in random order, for the same time. Their program is compiled from the folder of the suite
//! with one change: its warm-up lasts one second, not six. Nothing of it is kept in this tree.
//!
//! Besides the rates, operations per second of CPU time are compared, which other programs on the host disturb less:
//! what knee says that the tasks used, and what the scheduler says of their process group in the second that they count.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use tempfile::TempDir;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, output};

const TASKS: [u32; 2] = [1, 2];
const FORMS: [&str; 2] = ["processes", "threads"];

/// Ratios for all tests of the suite in `--suite`, or those that `--test` names.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let suite =
        options.suite.as_deref().context("name the folder of will-it-scale with --suite")?;
    let home = TempDir::new().context("making a folder for programs and records")?;
    let suite = Suite { folder: suite, home: home.path(), options };
    let main = suite.main_with_short_warm_up()?;
    let mut figures = Vec::new();
    for test in suite.tests()? {
        for form in FORMS {
            let theirs = suite.build(&test, form, &main)?;
            for tasks in TASKS {
                let case = Case { suite: &suite, test: &test, theirs: &theirs, form, tasks };
                match case.measure(bench) {
                    Ok(more) => figures.extend(more),
                    Err(why) => eprintln!("{} is not measured: {why:#}", case.what()),
                }
            }
        }
    }
    Ok(figures)
}

struct Suite<'a> {
    folder: &'a Path,
    /// Where programs, records and caches go.
    home: &'a Path,
    options: &'a Options,
}

impl Suite<'_> {
    /// The files of the tests, in alphabetical order.
    fn tests(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join("tests");
        let files =
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        let files: Result<Vec<PathBuf>, _> =
            files.map(|file| file.map(|file| file.path())).collect();
        let is_wanted = |path: &PathBuf| {
            let named = &self.options.test;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            path.extension().is_some_and(|ending| ending == "c")
                && (named.is_empty() || named.iter().any(|test| **test == name))
        };
        let mut files: Vec<PathBuf> = files?.into_iter().filter(is_wanted).collect();
        files.sort();
        ensure!(!files.is_empty(), "{}: no test to measure", folder.display());
        Ok(files)
    }

    /// A copy of their main program that measures from the second second on.
    fn main_with_short_warm_up(&self) -> Result<PathBuf> {
        let path = self.folder.join("main.c");
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let short = text.replace("#define WARMUP_ITERATIONS 5", "#define WARMUP_ITERATIONS 0");
        ensure!(short != text, "{}: its warm-up is defined in another way", path.display());
        let copy = self.home.join("main.c");
        fs::write(&copy, short)?;
        Ok(copy)
    }

    /// Compiles a test as its Makefile does.
    fn build(&self, test: &Path, form: &str, main: &Path) -> Result<PathBuf> {
        let name = test.file_stem().unwrap_or_default().to_string_lossy();
        let program = self.home.join(format!("{name}_{form}"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread"]);
        if form == "threads" {
            cc.arg("-DTHREADS");
        }
        cc.args([main, test]).args(["-lhwloc", "-o"]).arg(&program);
        output(&mut cc).context("compiling will-it-scale needs hwloc (libhwloc-dev)")?;
        Ok(program)
    }
}

/// One test in one form with one number of tasks.
struct Case<'a> {
    suite: &'a Suite<'a>,
    test: &'a Path,
    theirs: &'a Path,
    form: &'static str,
    tasks: u32,
}

impl Case<'_> {
    fn what(&self) -> String {
        let name = self.test.file_stem().unwrap_or_default().to_string_lossy();
        format!("{name}, {} as {}", host::counted(self.tasks as usize, "task"), self.form)
    }

    fn measure(&self, bench: &mut Bench) -> Result<Vec<Figure>> {
        let pairs = self.suite.options.pairs;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for pair in 1..=pairs {
            eprintln!("{}: pair {pair} of {pairs}", self.what());
            let mut order = [true, false];
            order.shuffle(&mut bench.random);
            for is_ours in order {
                if is_ours {
                    ours.push(self.by_knee(bench)?);
                } else {
                    theirs.push(self.by_will_it_scale()?);
                }
            }
        }
        let pairs = || ours.iter().zip(&theirs);
        let rates = pairs().map(|(ours, theirs)| ours.per_s / theirs.per_s).collect();
        let per_cpu = pairs().map(|(ours, theirs)| ours.per_cpu_s / theirs.per_cpu_s).collect();
        // What two equal runs differ by, a round apart.
        let again = theirs.windows(2).map(|two| two[1].per_cpu_s / two[0].per_cpu_s).collect();
        let figure = |what, limit, values| Figure {
            name: format!("{}: {what}", self.what()),
            unit: "",
            limit,
            values,
        };
        let mut figures = vec![
            figure("knee / will-it-scale", Limit::AtLeast(0.99), rates),
            figure("by CPU time", Limit::AtLeast(0.99), per_cpu),
        ];
        if self.suite.options.pairs > 1 {
            figures.push(figure("will-it-scale / its run before, by CPU time", Limit::None, again));
        }
        Ok(figures)
    }

    /// A run, as knee says.
    fn by_knee(&self, bench: &Bench) -> Result<Rates> {
        let mut knee = bench.knee(self.suite.home);
        knee.arg("run").arg(self.test).args(["--json", "--blocks", "1", "--as", self.form]);
        knee.args(["--cpus", if self.tasks == 1 { "1" } else { "2" }]);
        knee.args(["--seconds", &self.suite.options.seconds.to_string()]);
        let said = output(&mut knee)?.stdout;
        let said: serde_json::Value = serde_json::from_slice(&said).context("reading its JSON")?;
        let metric = |name: &str| {
            let value = said["metrics"][name].as_f64();
            value.with_context(|| format!("knee says no {name}: {said}"))
        };
        let cpu_s = metric("time.user_time")? + metric("time.system_time")?;
        Ok(Rates { per_s: metric("operations_per_s")?, per_cpu_s: metric("operations")? / cpu_s })
    }

    /// A run, as their program says, which prints a line after each second until it is ended.
    fn by_will_it_scale(&self) -> Result<Rates> {
        // Lines as they are printed, though into a pipe. CPUs by number, as knee takes them.
        let mut program = Command::new("stdbuf");
        program.arg("-oL").arg(self.theirs).args(["-m", "-t", &self.tasks.to_string()]);
        program.stdout(Stdio::piped()).process_group(0);
        let mut child = program.spawn().context("starting will-it-scale's program by stdbuf")?;
        let said = child.stdout.take().context("its output is a pipe")?;
        let (mut warm_up_ns, mut rates) = (None, None);
        for line in BufReader::new(said).lines() {
            let line = line?;
            let Some((_, total)) = line.split_once("total:") else { continue };
            let now_ns = group_cpu_ns(child.id())?;
            if let Some(before_ns) = warm_up_ns.replace(now_ns) {
                let counted = total.parse::<f64>()?;
                rates =
                    Some(Rates { per_s: counted, per_cpu_s: counted / (now_ns - before_ns) * 1e9 });
                break;
            }
        }
        // SAFETY: a plain call. The group is that of the child, which has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        let status = child.wait()?;
        rates.with_context(|| format!("will-it-scale's program ended with {status}"))
    }
}

/// What a run came to.
struct Rates {
    /// Operations per second.
    per_s: f64,
    /// Operations per second of CPU time.
    per_cpu_s: f64,
}

/// The CPU time of all threads of a process group, in ns.
fn group_cpu_ns(group: u32) -> Result<f64> {
    let mut sum_ns = 0.0;
    for process in fs::read_dir("/proc")? {
        let folder = process?.path();
        // A process may end meanwhile.
        let Ok(stat) = fs::read_to_string(folder.join("stat")) else { continue };
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        if fields.split(' ').nth(2) != Some(&group.to_string()) {
            continue;
        }
        for thread in fs::read_dir(folder.join("task"))?.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            sum_ns += text.split(' ').next().unwrap_or_default().parse().unwrap_or(0.0);
        }
    }
    Ok(sum_ns)
}
