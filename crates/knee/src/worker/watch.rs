//! The watch over one run, if its job asks for one: what a look adds to a run.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use probes::ledger::{Marker, SamplingStep, WatchPlan, Watcher};
use records::{Event, Form, Job, LookKind, Until, Work};

use super::board::Board;

/// How long samples find room while nobody drains them, which is done each second and mostly far
/// more often.
const ROOM: Duration = Duration::from_secs(2);

/// Watches, or knows why it does not.
pub struct Watch {
    watcher: Option<Watcher>,
    windows: u32,
    tasks: u32,
    blind: Option<Event>,
}

impl Watch {
    /// Begins to watch before the tasks are born. A kernel that does not let us is no reason not
    /// to run: the rest of the look says less then.
    pub fn begin(job: &Job) -> Watch {
        // The tasks of a command count no operations: the command is one.
        let is_command = matches!(job.work, Work::Command(_));
        let tasks = if is_command { 0 } else { job.tasks };
        let none = Watch { watcher: None, windows: 0, tasks, blind: None };
        let Some(watch) = &job.watch else { return none };
        let plan = WatchPlan {
            kind: watch.kind,
            hertz: watch.hertz,
            room: ROOM,
            cpus: job.cpus.clone(),
            tasks,
            bursts: watch.kind == LookKind::Counts && matches!(job.until, Until::Seconds(_)),
            knee: watch.knee,
            functions: watch.functions.clone(),
        };
        match Watcher::begin(plan) {
            Ok(watcher) => Watch { watcher: Some(watcher), windows: watch.windows, ..none },
            Err(why) => {
                Watch { blind: Some(Event::Blind { probe: "ledger".to_string(), why }), ..none }
            }
        }
    }

    /// Memory for the operation counts, where they are read.
    pub fn operations(&self) -> Option<BorrowedFd<'_>> {
        self.watcher.as_ref().map(Watcher::operations)
    }

    /// What tells the tasks from others.
    pub fn marker(&self) -> Option<Marker> {
        self.watcher.as_ref().map(Watcher::marker)
    }

    /// When to do what in a run of this length, in ns since the release, but for the edge that is
    /// its end.
    pub fn moments(&self, end_ns: u64) -> Vec<(u64, SamplingStep)> {
        let watcher = self.watcher.as_ref();
        watcher.map_or(Vec::new(), |watcher| watcher.schedule(end_ns, u64::from(self.windows)))
    }

    /// Does what is due at a moment, so long after the release.
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

    /// Takes an edge between two windows.
    pub fn edge(&mut self, board: &Board, form: Form) -> Result<(), String> {
        let Some(watcher) = &mut self.watcher else { return Ok(()) };
        let clocks =
            (0..self.tasks as usize).map(|task| clock_ns(board.thread_of(task, form), form));
        watcher.take_snapshot(clocks.sum())
    }

    /// Takes the edge before or after a command, whose processes have used so much CPU time.
    pub fn edge_of_command(&mut self, used_us: u64) -> Result<(), String> {
        self.watcher.as_mut().map_or(Ok(()), |watcher| watcher.take_snapshot(1000 * used_us))
    }

    /// How long one may wait before emptying what would overflow, and before processes that were
    /// sampled are gone with the maps of their code; nothing where nothing would.
    pub fn patience(&self) -> Option<Duration> {
        self.watcher.is_some().then_some(Duration::from_millis(20))
    }

    /// Empties what would overflow.
    pub fn drain(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            watcher.drain();
        }
    }

    /// Ends the watch and says what was seen.
    pub fn end(self) -> Vec<Event> {
        let Some(watcher) = self.watcher else { return self.blind.into_iter().collect() };
        let seen = watcher.end();
        let blind =
            seen.unavailable_probes.into_iter().map(|(probe, why)| Event::Blind { probe, why });
        let is_command = self.tasks == 0;
        let windows = seen.windows.into_iter().map(|mut window| {
            if is_command {
                window.operations = 1;
            }
            Event::Window(Box::new(window))
        });
        blind.chain(windows).collect()
    }
}

/// What the CPU clock of a task shows; 0 if it has ended.
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
