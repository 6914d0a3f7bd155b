//! `knee explain --pid 4711`: what holds back programs that already run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use host::signals;
use host::terminal::hint;
use pages::ViewFlags;
use probes::live::processes::{self, RunningProcess, Subject};
use records::OperationSource;
use records::live::Observation;
use store::{read_look, save_look};

use super::haste::Haste;
use super::members::{Members, chosen};
use super::operation_counts::OperationCounts;
use super::saved_looks::{print_one, print_two};
use super::watched::Watched;
use crate::flags::duration;

/// All processes of the host.
type Running = BTreeMap<u32, RunningProcess>;

/// The heading of the options for what runs already.
pub const HEADING: &str = "Running programs";

/// The options that say which.
pub const SUBJECTS: [&str; 4] = ["pids", "named", "cgroup", "host"];

/// Which running programs, and how to look at them.
#[derive(clap::Args, Debug, Default)]
#[group(skip)]
pub struct Options {
    /// Process that runs already, with its children
    ///
    /// Several count as one. Nothing is started, stopped or moved: knee looks for 10 s, or for --seconds, and says which lock, thread, quota or program
    /// holds it back.
    #[arg(long = "pid", value_name = "PID", help_heading = HEADING)]
    pids: Vec<u32>,
    /// All processes of this name, with their children
    #[arg(long = "name", value_name = "NAME", help_heading = HEADING, conflicts_with = "pids")]
    named: Option<String>,
    /// Control group, systemd unit or container
    ///
    /// A path as in /proc/PID/cgroup, the name of a unit, or the first digits of a container's number.
    #[arg(long, value_name = "GROUP", visible_aliases = ["unit", "container"], help_heading = HEADING,
          conflicts_with_all = ["pids", "named"])]
    cgroup: Option<String>,
    /// All programs of this host
    #[arg(long, help_heading = HEADING, conflicts_with_all = ["pids", "named", "cgroup"])]
    host: bool,
    /// Save the look in a file
    ///
    /// `knee explain FILE` shows it again, `knee explain FILE FILE` compares two, and --against FILE compares with it what runs
    /// now.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    save: Option<PathBuf>,
    /// Look twice, with this pause, and compare
    #[arg(long, value_name = "PAUSE", help_heading = HEADING, value_parser = duration, conflicts_with = "save")]
    twice: Option<Duration>,
    /// Operations per second, so that costs are per operation
    #[arg(long, value_name = "RATE", help_heading = HEADING, hide_short_help = true)]
    rate: Option<f64>,
    /// Look in /proc alone, as without privileges
    #[arg(long, help_heading = HEADING, hide_short_help = true)]
    without_bpf: bool,
    /// What counts operations: `knee run` has the option, too, for commands.
    #[arg(skip)]
    pub operations_from: Option<OperationSource>,
}

/// How long a look takes, in s.
const SECONDS: f64 = 10.0;
const SECONDS_MIN: f64 = 0.2;
/// Samples per second and CPU.
const HERTZ: u32 = 99;
/// How many windows the time is divided into, of at least a fifth of a second.
const WINDOWS: f64 = 10.0;
/// A longer look has more: what a window may take of the CPUs' time is taken at its beginning, and a program must not stand behind
/// that for seconds.
const WINDOW_S: f64 = 1.0;
const WINDOWS_MAX: f64 = 600.0;
/// Looks that are compared have more: the more there are, the smaller a change can be told from noise.
const WINDOWS_COMPARED: f64 = 20.0;

impl Options {
    /// Options that name running programs, for other verbs.
    pub fn of(
        pids: &[u32],
        named: Option<&str>,
        cgroup: Option<&str>,
        without_bpf: bool,
    ) -> Options {
        Options {
            pids: pids.to_vec(),
            named: named.map(str::to_string),
            cgroup: cgroup.map(str::to_string),
            without_bpf,
            ..Options::default()
        }
    }

    /// Options to look at all processes of a name in the same way.
    pub fn at_name(&self, name: &str) -> Options {
        Options::of(&[], Some(name), None, self.without_bpf)
    }

    /// Options to look at a process in the same way.
    pub fn at_process(&self, pid: u32) -> Options {
        Options::of(&[pid], None, None, self.without_bpf)
    }

    /// Whether the user names anything that runs.
    pub fn is_given(&self) -> bool {
        self.host || !self.pids.is_empty() || self.named.is_some() || self.cgroup.is_some()
    }

    /// Refuses what only applies to programs that run, where none is named.
    ///
    /// # Errors
    /// Names the option.
    pub fn check_unused(&self) -> Result<()> {
        let given = [
            (self.rate.is_some(), "--rate"),
            (self.without_bpf, "--without-bpf"),
            (self.save.is_some(), "--save"),
            (self.twice.is_some(), "--twice"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, unused)) => {
                bail!(
                    "{unused} is about programs that run already: name one by --pid, --name or --cgroup, or all by --host"
                )
            }
            None => Ok(()),
        }
    }

    /// Looks, and prints what holds the programs back, or what changed since the look in the file `against`.
    ///
    /// # Errors
    /// No such process; or the kernel allows no look at it.
    pub fn run(
        &self,
        seconds: &[f64],
        against: Option<&Path>,
        view: ViewFlags,
    ) -> Result<ExitCode> {
        let seconds = match seconds {
            [] => SECONDS,
            [one] => *one,
            _ => bail!("--seconds has several values: each look is as long as the others"),
        };
        ensure!(
            seconds >= SECONDS_MIN,
            "--seconds {seconds}: a look takes {SECONDS_MIN} s at least"
        );
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate must be above 0");
        ensure!(
            self.rate.is_none() || self.operations_from.is_none(),
            "--rate says how many operations there are, and --operations-from what counts them: leave out one"
        );
        ensure!(
            against.is_none() || self.twice.is_none(),
            "--against compares with a saved look, and --twice with another look now: leave out one"
        );
        let before = against.map(read_look).transpose()?;
        signals::catch();
        let is_compared = before.is_some() || self.save.is_some() || self.twice.is_some();
        let windows = if is_compared { WINDOWS_COMPARED } else { WINDOWS };
        let first = self.observe(seconds, windows)?;
        if let Some(path) = &self.save {
            save_look(path, first.clone())?;
            hint(format_args!("the look is in {}", path.display()));
        }
        match (before, self.twice) {
            (Some(before), _) => print_two(&before, &first, view)?,
            (None, Some(pause)) => self.look_again(&first, pause, seconds, view)?,
            (None, None) => print_one(&first, view)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Looks once more after a pause, and prints what changed. If a signal comes first, it prints the first look.
    fn look_again(
        &self,
        first: &Observation,
        pause: Duration,
        seconds: f64,
        view: ViewFlags,
    ) -> Result<()> {
        hint(format_args!("looking again in {} s", pause.as_secs_f64()));
        if signals::wait(pause) {
            return print_one(first, view);
        }
        print_two(first, &self.observe(seconds, WINDOWS_COMPARED)?, view)
    }

    fn observe(&self, seconds: f64, windows: f64) -> Result<Observation> {
        let windows = windows.max((seconds / WINDOW_S).ceil().min(WINDOWS_MAX));
        let windows = (seconds / 0.2).floor().clamp(1.0, windows) as u32;
        let mut look = self.begin(Duration::from_secs_f64(seconds) / windows)?;
        look.watch.advice().into_iter().for_each(hint);
        hint(format_args!("looking at {} for {seconds} s", look.words));
        for _ in 0..windows {
            if !look.follow() {
                break;
            }
        }
        let mut observation = look.end();
        if let Some(rate) = self.rate {
            count_by_rate(&mut observation, rate);
        }
        Ok(observation)
    }

    /// Begins a look, in windows of this length.
    ///
    /// # Errors
    /// No such process; or the kernel allows no look at it.
    pub fn begin(&self, window: Duration) -> Result<Look> {
        let running = processes::all();
        let subjects = self.subjects(&running)?;
        let chosen = chosen(&subjects, &running);
        ensure!(!chosen.is_empty(), "{}", self.nothing(&running));
        let at = jiff::Timestamp::now();
        let words = self.words(&chosen, &running);
        let list: Vec<u32> = chosen.iter().copied().collect();
        let quotas = chosen.iter().filter_map(|process| {
            probes::cpu_quota(Path::new("/"), &process.to_string()).ok().flatten()
        });
        let quota_cpus = quotas.min_by(f64::total_cmp);
        let mut haste = Haste::hurry();
        let mut watch = Watched::begin(&list, HERTZ, window, self.without_bpf)?;
        let source = self.operations_from.clone();
        let operations =
            source.map(|source| OperationCounts::begin(source, &mut watch, &list)).transpose()?;
        haste.calm();
        let now = Instant::now();
        let host = probes::host(Path::new("/")).hostname.unwrap_or_default();
        Ok(Look {
            watch,
            haste,
            operations,
            members: Members::new(subjects, chosen),
            words,
            host,
            at,
            quota_cpus,
            window,
            edge: now,
            has_ended: false,
            windows: 0,
        })
    }

    fn subjects(&self, running: &Running) -> Result<Vec<Subject>> {
        if self.host {
            return Ok(vec![Subject::Host]);
        }
        if let Some(name) = &self.named {
            return Ok(vec![Subject::Named(name.clone())]);
        }
        if let Some(group) = &self.cgroup {
            let whole = group.starts_with('/').then(|| {
                let path = group.strip_prefix("/sys/fs/cgroup").unwrap_or(group);
                Subject::ControlGroup(path.to_string())
            });
            let subject = whole.map_or_else(|| Subject::in_group(group, running), Ok);
            return Ok(vec![subject.map_err(anyhow::Error::msg)?]);
        }
        for pid in &self.pids {
            ensure!(
                running.contains_key(pid),
                "no process has the number {pid}: ps -e lists those that run"
            );
            if *pid == std::process::id() {
                bail!("{pid} is knee itself");
            }
        }
        Ok(self.pids.iter().map(|pid| Subject::Process(*pid)).collect())
    }

    fn nothing(&self, running: &Running) -> String {
        match (&self.named, &self.cgroup) {
            (Some(name), _) => {
                let names = running.values().map(|process| process.name.as_str());
                format!("no process is called {name}{}", host::nearest(name, names))
            }
            (None, Some(group)) => format!("no process runs in the control group {group}"),
            (None, None) if self.host => "nothing runs here but knee".to_string(),
            (None, None) => "these processes are knee's own".to_string(),
        }
    }

    /// What is looked at, in words.
    fn words(&self, chosen: &BTreeSet<u32>, running: &Running) -> String {
        if self.host {
            return format!("all programs of this host ({} processes)", chosen.len());
        }
        let name = |pid: &u32| running.get(pid).map_or("", |process| process.name.as_str());
        if let Some(group) = &self.cgroup {
            return format!("{group} ({} processes)", chosen.len());
        }
        if let Some(named) = &self.named {
            return match chosen.len() {
                1 => named.clone(),
                n => format!("{named} ({n} processes)"),
            };
        }
        let named = self.pids.iter().map(|pid| format!("{} (pid {pid})", name(pid)));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// A look at running programs, which goes on window by window.
pub struct Look {
    watch: Watched,
    haste: Haste,
    operations: Option<OperationCounts>,
    members: Members,
    /// What is looked at, in words.
    pub words: String,
    host: String,
    at: jiff::Timestamp,
    quota_cpus: Option<f64>,
    window: Duration,
    /// When the last window should have ended: windows do not drift.
    edge: Instant,
    /// Whether no process of the subjects was there when they were last looked for.
    pub has_ended: bool,
    /// How many windows [`Look::advance`] has ended since the last cut.
    windows: u32,
}

impl Look {
    /// Follows for one window, or until a signal comes, and says whether to go on.
    pub fn follow(&mut self) -> bool {
        self.edge += self.window;
        while Instant::now() < self.edge && signals::received().is_none() {
            let pause = self.take_in();
            std::thread::sleep(pause.min(self.edge.saturating_duration_since(Instant::now())));
        }
        // What a command costs that counts belongs to the window that ends: the next one has all of its budget.
        if let Some(operations) = &mut self.operations {
            operations.read(&self.watch);
        }
        self.watch.edge();
        signals::received().is_none()
    }

    /// Takes in what there is, and says after which time to call again.
    fn take_in(&mut self) -> Duration {
        self.haste.check();
        let pause = self.watch.drain();
        if let Some(known) = self.members.renewed() {
            self.has_ended = known.is_empty();
            self.watch.follow(&known.iter().copied().collect::<Vec<u32>>());
        }
        pause
    }

    /// Takes in what there is, ends the window when its time has come, and says after which time to call again.
    pub fn advance(&mut self) -> Duration {
        let pause = self.take_in();
        let now = Instant::now();
        let end = self.edge + self.window;
        if now < end {
            return pause.min(end - now);
        }
        self.watch.edge();
        self.windows += 1;
        // An answer may have taken longer than a window.
        self.edge = if now < end + self.window { end } else { now };
        Duration::ZERO
    }

    /// Answers with what threads and locks did since the last call, up to the last end of a window; the look goes on.
    pub fn cut<R>(&mut self, answer: impl FnOnce(Observation) -> R) -> R {
        let at = std::mem::replace(&mut self.at, jiff::Timestamp::now());
        let (subject, host, quota_cpus) = (self.words.clone(), self.host.clone(), self.quota_cpus);
        self.windows = 0;
        self.watch.cut(|seen| answer(Observation { at, subject, host, quota_cpus, ..seen }))
    }

    /// Whether an answer to so many windows may be asked for, within what knee may take of the CPUs' time.
    pub fn may_be_cut(&self, windows: u32) -> bool {
        /// Where answers take more than that, one comes after so many times the windows at the latest.
        const LATE: u32 = 3;
        let is_due = self.windows >= windows && self.watch.has_windows();
        is_due && (self.watch.is_paid() || self.windows >= LATE * windows)
    }

    /// Follows nothing until [`Look::resume`].
    pub fn rest(&mut self) {
        self.watch.rest();
    }

    /// Goes on, without what came before.
    pub fn resume(&mut self) {
        self.watch.resume();
        self.windows = 0;
        self.at = jiff::Timestamp::now();
        self.edge = Instant::now();
    }

    /// What threads and locks did in all windows.
    pub fn end(self) -> Observation {
        let Look { watch, mut haste, operations, words, at, quota_cpus, host, .. } = self;
        haste.again();
        let mut observation = Observation { subject: words, at, host, quota_cpus, ..watch.end() };
        if let Some(operations) = operations {
            operations.fill(&mut observation);
        }
        observation
    }
}

fn count_by_rate(observation: &mut Observation, rate: f64) {
    for window in &mut observation.windows {
        window.operations = Some(rate * window.ns as f64 / 1e9);
    }
}
