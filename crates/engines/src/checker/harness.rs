//! Tasks and memory at their start, and single turns from there: what searching, sampling and
//! replaying have in common.

use std::cell::{Cell, RefCell};
use std::io;

use machine::{CodeSite, Op, Ordering, Region};

use super::executions::Ahead;
use super::failure::{Failure, FailureDetails, Fault};
use super::layout::Layout;
use super::request::{Reply, Request, RequestKind};
use super::schedule::{FLUSH, Schedule, Turn, is_by_itself, only_time_outs};
use super::state::{CheckedTask, NamedCpus};
use super::trace::Trace;
use super::world::World;
use super::{Options, Setup, TASKS_MAX};
use crate::checker::Checked;
use crate::steppable::{SavedStack, Steppable, StopReason, Yielder, catch_panics};

/// Tasks on a region.
pub struct Harness<'a> {
    pub setup: &'a Setup<'a>,
    pub world: &'a RefCell<World>,
    threads: Vec<Steppable<'a, Reply, Request>>,
    turns: Vec<Turn>,
}

/// Acts on tasks at their start, and again each time that the layout turns out to need another
/// row or column. Restores the memory at the end.
pub fn with_harness<R>(
    setup: &Setup,
    options: &Options,
    act: impl FnMut(&mut Harness) -> R,
) -> io::Result<R> {
    with_start(setup, options, &Start::default(), act)
}

/// What tasks start with.
#[derive(Clone, Default)]
pub struct Start {
    /// A trace that tasks write.
    pub trace: Option<Trace>,
    /// Stores that were found to run ahead of loads.
    pub ahead: Vec<Ahead>,
}

/// As [`with_harness`], with what was known before.
pub fn with_start<R>(
    setup: &Setup,
    options: &Options,
    start_with: &Start,
    mut act: impl FnMut(&mut Harness) -> R,
) -> io::Result<R> {
    let before = copy_region(setup.region);
    let mut layout = Layout::new(setup.region);
    layout.ahead.clone_from(&start_with.ahead);
    loop {
        let mut world = World::new(setup, options);
        (world.layout, world.trace) = (layout, start_with.trace.clone());
        // What one task may do ahead is known by its number.
        world.symmetric &= world.layout.ahead.is_empty();
        let world = RefCell::new(world);
        let result = start(setup, &world).map(|mut harness| act(&mut harness));
        restore_region(setup.region, &before);
        let world = world.into_inner();
        if !world.grown {
            return result;
        }
        layout = world.layout;
    }
}

fn start<'a>(setup: &'a Setup<'a>, world: &'a RefCell<World>) -> io::Result<Harness<'a>> {
    let tasks = setup.nodes.len();
    assert!((1..=TASKS_MAX).contains(&tasks), "1 to {TASKS_MAX} tasks can be checked");
    {
        let world = &mut *world.borrow_mut();
        world.state.happens_before = world.new_happens_before(tasks);
        world.state.buffers = world.new_buffers(tasks);
        world.state.views = world.new_views(tasks);
        world.state.executions = world.new_executions(tasks);
        world.state.tasks = vec![new_task(); tasks];
    }
    let mut harness = Harness { setup, world, threads: Vec::new(), turns: Vec::new() };
    for task in 0..tasks {
        let body = move |yielder: &Yielder<Reply, Request>| {
            let (node, base) = (setup.nodes[task], setup.region.start() as usize);
            let ipi_handler = setup.ipi_handler;
            let (site, failure) = (Cell::new(None), Cell::new(Ordering::Relaxed));
            let m = Checked { yielder, world, task, node, base, ipi_handler, site, failure };
            (setup.task)(&m, task);
            if ipi_handler.is_some() {
                m.idle();
            }
        };
        let (thread, stop) = Steppable::start(body, Reply::default())?;
        harness.threads.push(thread);
        harness.settle(task, stop);
        let mut world = world.borrow_mut();
        let local_turns = std::mem::take(&mut world.local_turns);
        world.local_turns_at_start.push(local_turns);
    }
    Ok(harness)
}

fn new_task() -> CheckedTask {
    let (kind, ordering, failure) = (RequestKind::Stuck, Ordering::Relaxed, Ordering::Relaxed);
    let location = CodeSite::caller();
    CheckedTask {
        request: Request { kind, offset: 0, size: 0, ordering, failure, location },
        spins_on: None,
        slept_after: None,
        has_woken_by_itself: false,
        ended: false,
        history: 0,
        named_cpus: NamedCpus::default(),
        steps: 0,
        buffered: 0,
        has_stored: false,
        interrupt_pending: false,
        irqs_off_depth: 0,
    }
}

impl Harness<'_> {
    /// Takes one turn: performs the task's pending step, then runs the task up to its next one.
    pub fn take_turn(&mut self, turn: Turn) {
        // The last turn may be one of another branch, after which its task ended.
        self.world.borrow_mut().idle_update = None;
        let reply = self.world.borrow_mut().perform(turn);
        if let Some(reply) = reply {
            let task = usize::from(turn.0);
            let stop = self.threads[task].step(reply);
            self.settle(task, stop);
        }
        let mut world = self.world.borrow_mut();
        world.settle_views();
        world.settle_executions();
        world.watch_state(usize::from(turn.0));
    }

    /// Notes why a task has stopped. Stores that no other task sees yet do not stop it.
    fn settle(&mut self, task: usize, mut stop: StopReason<Request>) {
        loop {
            let mut world = self.world.borrow_mut();
            match stop {
                StopReason::Requests(request) => {
                    world.state.tasks[task].request = request;
                    world.find_spin(task);
                    world.expect_access(&request);
                    world.touch_awaited(task);
                    world.watch_request(task, &request);
                    // A fault is kept in the world; the task takes no step after it.
                    let Request { offset, size, location, .. } = request;
                    let _ = world.check_reach(task, offset, size, location);
                }
                StopReason::Ended => {
                    let buffered = world.state.tasks[task].buffered;
                    world.idle_update = None;
                    world.state.tasks[task] = CheckedTask { ended: true, buffered, ..new_task() };
                    return;
                }
                StopReason::Panicked(panic) => {
                    // Its stack is gone, so it is never saved again.
                    world.state.tasks[task].ended = true;
                    return world.report_fault(panic.into());
                }
            }
            if world.fault.is_some() || !world.need_not_stop(task) {
                return;
            }
            let reply = world.perform((task as u8, 0));
            drop(world);
            stop = self.threads[task].step(reply.expect("a store always gets a reply"));
        }
    }

    /// Saves where a task is stopped.
    pub fn save(&self, task: usize, into: &mut SavedStack) {
        self.threads[task].save(into);
    }

    /// Sets a task back to where it was saved.
    pub fn restore(&mut self, task: usize, from: &SavedStack) {
        self.threads[task].restore(from);
    }

    /// The fault of a live state in which no task can take a step: a task has not ended, or the
    /// memory is not what it must be.
    pub fn fault_at_end(&self) -> Option<Fault> {
        let world = self.world.borrow();
        let tasks = 0..world.state.tasks.len();
        let has_ended = |task: &CheckedTask| task.ended || task.request.kind == RequestKind::Idle;
        let blocked: Vec<usize> =
            tasks.filter(|&task| !has_ended(&world.state.tasks[task])).collect();
        if blocked.is_empty() {
            drop(world);
            return match catch_panics(self.setup.final_check) {
                Ok(result) => result.err().map(Fault::FinalState),
                Err(panic) => Some(panic.into()),
            };
        }
        let waits = blocked.iter().map(|&task| {
            let Request { kind, offset, size, location, .. } = world.state.tasks[task].request;
            let name = world.layout.name(offset, size);
            let site = location;
            if let RequestKind::Asleep(..) = kind {
                format!("t{task} sleeps on {name} ({site})")
            } else {
                format!("t{task} waits for {name}: {kind} ({site})")
            }
        });
        Some(Fault::Deadlock(waits.collect()))
    }

    fn follow(&mut self, schedule: &Schedule, drains: &mut Drains) -> Result<Followed, String> {
        let mut turns = std::mem::take(&mut self.turns);
        drains.met = 0;
        for (i, &turn) in schedule.0.iter().enumerate() {
            let is_over = |world: &World| world.fault.is_some() || world.grown;
            if is_over(&self.world.borrow()) {
                break;
            }
            // A local store became visible at once: here it may still have to go into the buffer.
            let is_to_store = |task: &CheckedTask| {
                task.buffered == 0 && matches!(task.request.kind, RequestKind::Access(Op::Store(_)))
            };
            let task = self.world.borrow().state.tasks.get(usize::from(turn.0)).copied();
            if turn.1 == FLUSH && task.as_ref().is_some_and(is_to_store) {
                self.take_turn((turn.0, 0));
            }
            if self.is_drained(turn.0) && drains.is_no_turn() {
                self.take_turn((turn.0, 0));
            }
            self.world.borrow().turns(&mut turns);
            if !turns.contains(&turn) {
                let (step, task) = (i + 1, turn.0);
                return Err(format!("step {step} of the schedule is impossible for t{task}"));
            }
            self.take_turn(turn);
        }
        let mut fault = self.world.borrow().fault.clone();
        if fault.is_none() {
            self.world.borrow().turns(&mut turns);
            fault = self.fault_of_stopped(&turns);
        }
        let trace = self.world.borrow_mut().trace.take().unwrap_or_default();
        let Trace { steps, sites, race, .. } = trace;
        Ok(Followed { steps, fault, details: FailureDetails { race, sites } })
    }

    /// Whether a task is at a full fence with an empty store buffer.
    fn is_drained(&self, task: u8) -> bool {
        let world = self.world.borrow();
        let task = world.state.tasks.get(usize::from(task));
        task.is_some_and(|task| {
            matches!(task.request.kind, RequestKind::Drain) && task.buffered == 0
        })
    }

    /// The fault of a live state in which no task goes on by itself, where these are all turns.
    pub fn fault_of_stopped(&mut self, turns: &[Turn]) -> Option<Fault> {
        // The watched task stops early, on purpose. So does a task that needs another row or column: all begins anew.
        let world = self.world.borrow();
        if world.watched_task.is_some() || world.grown || world.has_promises() {
            return None;
        }
        drop(world);
        if turns.iter().all(|&(_, alternative)| is_by_itself(alternative)) {
            return self.fault_at_end();
        }
        if only_time_outs(turns) { self.lost_wake_up() } else { None }
    }
}

/// Full fences in a schedule. One that a search met with an empty buffer was no turn there. Where each access is a step, a store
/// before it may be buffered still: then the schedule does not say whether the fence has a turn.
#[derive(Default)]
struct Drains {
    /// Whether each has no turn, of the first ones; all others have.
    no_turn: Vec<bool>,
    /// How many were met.
    met: usize,
}

impl Drains {
    fn is_no_turn(&mut self) -> bool {
        self.met += 1;
        self.no_turn.get(self.met - 1).copied().unwrap_or(false)
    }

    /// The next guess, after one that was wrong; false after the last.
    fn guess_again(&mut self) -> bool {
        self.no_turn.resize(self.met, false);
        while self.no_turn.pop_if(|no_turn| *no_turn).is_some() {}
        let last = self.no_turn.last_mut().map(|no_turn| *no_turn = true);
        last.is_some()
    }
}

/// What a schedule led to.
pub struct Followed {
    pub steps: Vec<String>,
    /// What is wrong at its end.
    pub fault: Option<Fault>,
    pub details: FailureDetails,
}

/// Follows a schedule from the start, and writes down each step. The inner error says why the schedule is not possible.
pub fn followed(
    setup: &Setup,
    options: &Options,
    schedule: &Schedule,
    ahead: &[Ahead],
) -> io::Result<Result<Followed, String>> {
    // In a schedule each access is a step, local ones too.
    let options = Options { reduction: false, ..*options };
    let mut drains = Drains::default();
    let start = Start { trace: Some(Trace::default()), ahead: ahead.to_vec() };
    let follow = |drains: &mut Drains| {
        with_start(setup, &options, &start, |harness| harness.follow(schedule, drains))
    };
    let first = follow(&mut drains)?;
    if first.is_ok() {
        return Ok(first);
    }
    for _ in 0..GUESSES_MAX {
        if !drains.guess_again() {
            break;
        }
        let next = follow(&mut drains)?;
        if next.is_ok() {
            return Ok(next);
        }
    }
    Ok(first)
}

/// How often a schedule is followed with other guesses about its fences.
const GUESSES_MAX: usize = 1000;

/// Follows the way to a fault once more, and writes it down.
pub fn explain_failure(
    setup: &Setup,
    options: &Options,
    fault: Fault,
    schedule: Schedule,
    ahead: &[Ahead],
) -> Failure {
    let (steps, again, mut details) = match followed(setup, options, &schedule, ahead) {
        Ok(Ok(Followed { steps, fault, details })) => (steps, fault, details),
        Ok(Err(why)) => (vec![why], None, FailureDetails::default()),
        Err(why) => (vec![why.to_string()], None, FailureDetails::default()),
    };
    // The trace knows more of a race.
    let fault = again.filter(|again| again.word() == fault.word()).unwrap_or(fault);
    details.race = details.race.filter(|_| matches!(fault, Fault::Race(_)));
    Failure { fault, schedule, steps, is_shortest: false, details: Box::new(details) }
}

/// A copy of the used part of a region, as words.
pub fn copy_region(region: &Region) -> Vec<u64> {
    let mut words = Vec::new();
    copy_region_into(region, region.used().div_ceil(8), &mut words);
    words
}

pub fn copy_region_into(region: &Region, words: usize, into: &mut Vec<u64>) {
    into.clear();
    into.reserve(words);
    // SAFETY: a region is a whole number of pages; no task is running.
    unsafe {
        std::ptr::copy_nonoverlapping(region.start().cast::<u64>(), into.as_mut_ptr(), words);
        into.set_len(words);
    }
}

pub fn restore_region(region: &Region, words: &[u64]) {
    // SAFETY: as for `copy_region_into`.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), region.start().cast::<u64>(), words.len());
    }
}
