//! `create_files` against fs_mark, whose semantics it has: files a second in directories of the
//! tasks' own, on an XFS made anew for each run, for the same number of empty files.
//!
//! What counts are the files that are there afterwards, and that XFS itself counted as made, over
//! wall time: of knee from the release to the last task's stop, of fs_mark from its start to its end
//! less what it takes for one file, on an XFS of its own, too. Its own figure is another one: the
//! sum of its tasks' rates, each over a time of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use records::Until;

use crate::file_system::FileSystem;
use crate::ratio::{self, Ran};
use crate::report::{Figure, Limit};
use crate::{Bench, Options, output, peer};

/// Files of each task.
const FILES: u64 = 100_000;

const TASKS: &[u32] = &[1, 2];

/// Names of ten random characters, as long as knee's.
const SHORT_NAMES: &[&str] = &["-p", "10", "-r", "10"];

/// Ratios and rates for each number of tasks.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let program = peer::find("fs_mark", "fsmark")?;
    let mut figures = Vec::new();
    for &tasks in TASKS {
        figures.extend(Case { program: &program, tasks, options }.measure(bench)?);
    }
    Ok(figures)
}

/// One number of tasks.
struct Case<'a> {
    program: &'a Path,
    tasks: u32,
    options: &'a Options,
}

#[derive(Clone, Copy)]
enum Side {
    Knee,
    Peer,
    PeerAgain,
    /// Names as it makes them unasked: 40 characters, 24 of them random.
    LongNames,
}

/// What came of one run.
#[derive(Clone, Copy)]
struct Outcome {
    /// Files made per second of wall time.
    rate: f64,
    /// What the program said they were.
    claimed: f64,
    /// How long it took for one file.
    start_s: f64,
}

impl Outcome {
    fn rate(&self) -> f64 {
        self.rate
    }

    fn claimed(&self) -> f64 {
        self.claimed
    }
}

impl Case<'_> {
    fn measure(&self, bench: &mut Bench) -> Result<Vec<Figure>> {
        let mut outcomes = [vec![], vec![], vec![], vec![]];
        let mut order = [Side::Knee, Side::Peer, Side::PeerAgain, Side::LongNames];
        for pair in 1..=self.options.pairs {
            eprintln!("fs_mark, {} tasks: pair {pair} of {}", self.tasks, self.options.pairs);
            order.shuffle(&mut bench.random);
            for side in order {
                outcomes[side as usize].push(self.run(bench, side)?);
            }
        }
        Ok(self.figures(&outcomes))
    }

    fn figures(&self, [knee, peer, again, long]: &[Vec<Outcome>; 4]) -> Vec<Figure> {
        let ratio = |a: &[Outcome], b: &[Outcome], of: fn(&Outcome) -> f64| {
            a.iter().zip(b).map(|(a, b)| a.rate / of(b)).collect()
        };
        let all = |of: fn(&Outcome) -> f64, side: &[Outcome]| side.iter().map(of).collect();
        let plural = if self.tasks == 1 { "" } else { "s" };
        let figure = |what: &str, unit, limit, values| Figure {
            name: format!("files made on xfs, {} task{plural}: {what}", self.tasks),
            unit,
            limit,
            values,
        };
        let least = Limit::AtLeast(1.0);
        let (rate, claimed) = (Outcome::rate, Outcome::claimed);
        vec![
            figure("knee / fs_mark", "", least, ratio(knee, peer, rate)),
            figure("fs_mark / fs_mark", "", Limit::None, ratio(again, peer, rate)),
            figure("knee / fs_mark, its long names", "", Limit::None, ratio(knee, long, rate)),
            figure("knee / what fs_mark claims", "", Limit::None, ratio(knee, peer, claimed)),
            figure("knee", "/s", Limit::None, all(rate, knee)),
            figure("fs_mark", "/s", Limit::None, all(rate, peer)),
            figure("fs_mark, its long names", "/s", Limit::None, all(rate, long)),
            figure("fs_mark claims", "/s", Limit::None, all(claimed, peer)),
            figure("fs_mark for one file", "s", Limit::None, all(|o| o.start_s, peer)),
        ]
    }

    fn run(&self, bench: &Bench, side: Side) -> Result<Outcome> {
        let names = match side {
            Side::Knee => return self.run_knee(&bench.knee),
            Side::Peer | Side::PeerAgain => SHORT_NAMES,
            Side::LongNames => &[],
        };
        let (start_s, _) = self.run_peer(1, names)?;
        let (wall_s, claimed) = self.run_peer(FILES, names)?;
        let files = (FILES - 1) * self.tasks as u64;
        Ok(Outcome { rate: files as f64 / (wall_s - start_s), claimed, start_s })
    }

    fn run_knee(&self, knee: &Path) -> Result<Outcome> {
        let made = self.fresh()?;
        let until = Until::OperationsPerTask(FILES);
        let mut job = ratio::job("create_files", &[], self.tasks, until, made.root());
        job.keep = true;
        let before = entries_made(&made)?;
        let ran = Ran::by(knee, &job)?;
        // Its directory and one for each task.
        let counted = entries_made(&made)? - before - 1 - self.tasks as u64;
        check(FILES * self.tasks as u64, counted, &job.scratch)?;
        let rate = ran.operations as f64 / ran.wall_ns as f64 * 1e9;
        Ok(Outcome { rate, claimed: rate, start_s: 0.0 })
    }

    /// Wall time of the whole program, and the rate that it claims.
    fn run_peer(&self, files: u64, names: &[&str]) -> Result<(f64, f64)> {
        let made = self.fresh()?;
        let top = made.root().join("fs_mark");
        fs::create_dir(&top)?;
        let mut command = Command::new(self.program);
        command.args(["-k", "-s", "0", "-S", "0", "-n", &files.to_string()]);
        command.args(["-t", &self.tasks.to_string()]).args(names).args(["-l", "log"]);
        // It has room for directories of 38 characters, so they start where it does.
        command.current_dir(&top);
        for task in 0..self.tasks {
            command.arg("-d").arg(format!("task-{task:04}"));
        }
        ratio::pinned(&mut command, self.tasks);
        let before = entries_made(&made)?;
        let since = Instant::now();
        let said = String::from_utf8(output(&mut command)?.stdout)?;
        let wall_s = since.elapsed().as_secs_f64();
        // Its directories and logs, of which those of the tasks are gone.
        let counted = entries_made(&made)? - before - 1 - 2 * self.tasks as u64;
        check(files * self.tasks as u64, counted, &top)?;
        Ok((wall_s, claimed(&said)?))
    }

    fn fresh(&self) -> Result<FileSystem> {
        let made = FileSystem::make("xfs", &self.options.dir)?;
        // SAFETY: no preconditions.
        unsafe { libc::sync() };
        Ok(made)
    }
}

/// The rate in the last line of what fs_mark says: full, count, size, files a second, overhead.
fn claimed(said: &str) -> Result<f64> {
    let last = said.lines().last().unwrap_or_default();
    let rate = last.split_whitespace().nth(3).and_then(|rate| rate.parse().ok());
    rate.with_context(|| format!("no rate in what fs_mark said last: {last}"))
}

/// How many directory entries XFS has made since it was mounted.
fn entries_made(made: &FileSystem) -> Result<u64> {
    let path = PathBuf::from(format!("/sys/fs/xfs/{}/stats/stats", made.device()?));
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("dir "));
    let count = line.and_then(|line| line.split(' ').nth(1)?.parse().ok());
    count.with_context(|| format!("no count of directory entries in {}", path.display()))
}

/// Checks that so many files were made as were asked for, and that all are there: files in the
/// directories of this one.
fn check(asked: u64, counted: u64, top: &Path) -> Result<()> {
    let mut found = 0;
    for task in fs::read_dir(top)? {
        let task = task?;
        if task.file_type()?.is_dir() {
            found += fs::read_dir(task.path())?.count() as u64;
        }
    }
    ensure!(
        counted == asked && found == asked,
        "of {asked} files in {}, {counted} were made and {found} are there",
        top.display()
    );
    Ok(())
}
