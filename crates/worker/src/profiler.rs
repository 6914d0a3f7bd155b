//! The profiler of one run, if its job asks for a profile.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use probes::ledger::{Marker, SamplingStep, WatchPlan, Watcher};
use records::{Event, Form, Job, ProfileKind, Until, Work};

use crate::board::Board;

/// How long the sample buffers last without being drained. They are drained at least once a second,
/// mostly far more often.
const ROOM: Duration = Duration::from_secs(2);

/// Profiles a run with the ledger's probes, or keeps why it cannot.
pub struct Profiler {
    watcher: Option<Watcher>,
    windows: u32,
    tasks: u32,
    blind: Option<Event>,
}

impl Profiler {
    /// Attaches the probes before the tasks are started. If the kernel refuses them, the run takes
    /// place all the same and its profile has less in it.
    pub fn begin(job: &Job) -> Profiler {
        // The tasks of a command count no operations.
        let is_command = matches!(job.work, Work::Command(_));
        let tasks = if is_command { 0 } else { job.tasks };
        let none = Profiler { watcher: None, windows: 0, tasks, blind: None };
        let Some(profile) = &job.profile else { return none };
        let plan = WatchPlan {
            kind: profile.kind,
            hertz: profile.hertz,
            room: ROOM,
            cpus: job.cpus.clone(),
            tasks,
            bursts: profile.kind == ProfileKind::Counts && matches!(job.until, Until::Seconds(_)),
            knee: profile.knee,
            functions: profile.functions.clone(),
        };
        match Watcher::begin(plan) {
            Ok(watcher) => Profiler { watcher: Some(watcher), windows: profile.windows, ..none },
            Err(why) => Profiler {
                blind: Some(Event::UnavailableProbe { probe: "ledger".to_string(), why }),
                ..none
            },
        }
    }

    /// The memory in which the probes read the tasks' operation counts.
    pub fn operations(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.as_ref().map(Watcher::operations)
    }

    /// Marks the calling thread as a task of the run, for the probes.
    pub fn marker(&self) -> Option<Marker> {
        self.watcher.as_ref().map(Watcher::marker)
    }

    /// What to do what in a run of this length, in ns since the release, but for the edge that is
    /// its end.
    pub fn moments(&self, end_ns: u64) -> Vec<(u64, SamplingStep)> {
        let watcher = self.watcher.as_ref();
        watcher.map_or(Vec::new(), |watcher| watcher.schedule(end_ns, u64::from(self.windows)))
    }

    /// Does what is due at a moment, `at_ns` after the release.
    pub fn take(
        &mut self,
        moment: SamplingStep,
        at_ns: u64,
        board: &Board,
        form: Form,
    ) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        match moment {
            SamplingStep::Snapshot => self.edge(board, form),
            SamplingStep::Burst(length) => watcher.burst(length, at_ns),
        }
    }

    /// Ends one window and begins the next.
    pub fn edge(&mut self, board: &Board, form: Form) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let clocks =
            (0..self.tasks as usize).map(|task| clock_ns(board.thread_of(task, form), form));
        watcher.take_snapshot(clocks.sum())
    }

    /// Takes the edge before or after a command; `used_us` is the CPU time of its processes so far.
    pub fn edge_of_command(&mut self, used_us: u64) -> Result<(), String> {
        self.watcher.as_mut().map_or(Ok(()), |watcher| watcher.take_snapshot(1000 * used_us))
    }

    /// How often to drain the buffers: before they overflow, and before sampled processes are gone with
    /// the maps of their code. `None` without probes.
    pub fn drain_interval(&self) -> Option<Duration> {
        self.watcher.is_some().then_some(Duration::from_millis(20))
    }

    /// Drains the buffers of the probes.
    pub fn drain(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            watcher.drain();
        }
    }

    /// Detaches the probes and returns what they saw. `of_command` is the number of operations that a
    /// command did; the tasks of a workload have counted theirs.
    pub fn end(self, of_command: u64) -> Vec<Event> {
        let Some(watcher) = self.watcher else { return self.blind.into_iter().collect() };
        let seen = watcher.end();
        let blind = seen
            .unavailable_probes
            .into_iter()
            .map(|(probe, why)| Event::UnavailableProbe { probe, why });
        let is_command = self.tasks == 0;
        let windows = seen.windows.into_iter().map(|mut window| {
            if is_command {
                window.operations = of_command;
            }
            Event::Window(Box::new(window))
        });
        blind.chain(windows).collect()
    }
}

/// The CPU time of a task in ns; 0 if it has ended.
fn clock_ns((process, tid): (i32, i32), form: Form) -> u64 {
    // include/linux/posix-timers_types.h: the id inverted, the clock below; bit 2 says thread.
    const CPUCLOCK_SCHED: i32 = 2;
    const CPUCLOCK_PERTHREAD: i32 = 4;
    let clock = match form {
        Form::Processes => (!process << 3) | CPUCLOCK_SCHED,
        Form::Threads => (!tid << 3) | CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}
