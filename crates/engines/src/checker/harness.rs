//! Tasks and memory at their start, and single steps from there: what searching, sampling
//! and replaying have in common.

use std::cell::RefCell;
use std::io;
use std::panic::Location;

use machine::{Ordering, Region};

use super::failure::{Failure, Fault};
use super::layout::Layout;
use super::request::{Kind, Reply, Request};
use super::schedule::{Schedule, Turn};
use super::state::{Names, Task};
use super::world::World;
use super::{Options, Setup, TASKS_MAX};
use crate::checker::Checked;
use crate::steppable::{Saved, Step, Steppable, Yielder, caught};

/// Tasks on a region.
pub struct Stage<'a> {
    pub setup: &'a Setup<'a>,
    pub world: &'a RefCell<World>,
    threads: Vec<Steppable<'a, Reply, Request>>,
    turns: Vec<Turn>,
}

/// Does something with tasks at their start; again and again while it finds that the table
/// of orders needs another row or column. The memory is afterwards as it was before.
pub fn on_stage<R>(
    setup: &Setup,
    options: &Options,
    mut act: impl FnMut(&mut Stage) -> R,
) -> io::Result<R> {
    let before = copy(setup.region);
    let mut layout = Layout::of(setup.region);
    loop {
        let mut world = World::new(setup, options);
        world.layout = layout;
        let world = RefCell::new(world);
        let done = start(setup, &world).map(|mut stage| act(&mut stage));
        put_back(setup.region, &before);
        let world = world.into_inner();
        if !world.grown {
            return done;
        }
        layout = world.layout;
    }
}

fn start<'a>(setup: &'a Setup<'a>, world: &'a RefCell<World>) -> io::Result<Stage<'a>> {
    let tasks = setup.nodes.len();
    assert!((1..=TASKS_MAX).contains(&tasks), "1 to {TASKS_MAX} tasks can be explored");
    {
        let world = &mut *world.borrow_mut();
        world.state.orders = world.new_orders(tasks);
        world.state.entries = world.new_entries(tasks);
        world.state.tasks = vec![new_task(); tasks];
    }
    let mut stage = Stage { setup, world, threads: Vec::new(), turns: Vec::new() };
    for task in 0..tasks {
        let body = move |yielder: &Yielder<Reply, Request>| {
            let (node, base) = (setup.nodes[task], setup.region.start() as usize);
            let interrupted = setup.interrupted;
            let m = Checked { yielder, world, task, node, base, interrupted };
            (setup.task)(&m, task);
            if interrupted.is_some() {
                m.idle();
            }
        };
        let (thread, step) = Steppable::start(body, Reply::default())?;
        stage.threads.push(thread);
        stage.settle(task, step);
        let mut world = world.borrow_mut();
        let first = std::mem::take(&mut world.quiet_steps);
        world.quiet_at_first.push(first);
    }
    Ok(stage)
}

fn new_task() -> Task {
    let location = Location::caller();
    let request =
        Request { kind: Kind::Stuck, offset: 0, size: 0, ordering: Ordering::Relaxed, location };
    let names = Names::default();
    let (history, steps, buffered) = (0, 0, 0);
    let (ended, interrupt, masked) = (false, false, 0);
    Task { request, ended, history, names, steps, buffered, interrupt, masked }
}

impl Stage<'_> {
    /// Does one turn: what the task asked for, and then the task up to its next request.
    pub fn go(&mut self, turn: Turn) {
        let reply = self.world.borrow_mut().perform(turn);
        if let Some(reply) = reply {
            let task = usize::from(turn.0);
            let step = self.threads[task].step(reply);
            self.settle(task, step);
        }
    }

    /// Takes note of why a task has stopped. Stores that nobody sees yet do not stop it.
    fn settle(&mut self, task: usize, mut step: Step<Request>) {
        loop {
            let mut world = self.world.borrow_mut();
            match step {
                Step::Asks(request) => {
                    world.state.tasks[task].request = request;
                    world.looks(task);
                    // A fault is kept; the task goes no further.
                    let Request { offset, size, location, .. } = request;
                    let _ = world.reaches(task, offset, size, location);
                }
                Step::Ends => {
                    let buffered = world.state.tasks[task].buffered;
                    world.state.tasks[task] = Task { ended: true, buffered, ..new_task() };
                    return;
                }
                Step::Panics(why) => return world.accuse(Fault::Panicked(why)),
            }
            if world.fault.is_some() || !world.need_not_stop(task) {
                return;
            }
            let reply = world.perform((task as u8, 0));
            drop(world);
            step = self.threads[task].step(reply.expect("a store is answered at once"));
        }
    }

    /// Remembers where a task is stopped.
    pub fn save(&self, task: usize, into: &mut Saved) {
        self.threads[task].save(into);
    }

    /// Puts a task back.
    pub fn restore(&mut self, task: usize, from: &Saved) {
        self.threads[task].restore(from);
    }

    /// What is wrong in the live state where nobody can go on: not everybody has ended, or
    /// the memory is not what it must be.
    pub fn wrong_at_the_end(&self) -> Option<Fault> {
        let world = self.world.borrow();
        let tasks = 0..world.state.tasks.len();
        let at_the_end = |task: &Task| task.ended || task.request.kind == Kind::Idle;
        let blocked: Vec<usize> =
            tasks.filter(|&task| !at_the_end(&world.state.tasks[task])).collect();
        if blocked.is_empty() {
            drop(world);
            return match caught(self.setup.last) {
                Ok(last) => last.err().map(Fault::Last),
                Err(why) => Some(Fault::Panicked(why)),
            };
        }
        let waits = blocked.iter().map(|&task| {
            let Request { kind, offset, size, location, .. } = world.state.tasks[task].request;
            let name = world.layout.name(offset, size);
            let verb = if kind == Kind::Asleep { "sleeps on" } else { "waits at" };
            let place = super::world::short(location);
            let kind = if kind == Kind::Asleep { String::new() } else { format!(": {kind}") };
            format!("t{task} {verb} {name}{kind} ({place})")
        });
        Some(Fault::Deadlock(waits.collect()))
    }

    /// Follows a schedule from the start and tells what happens.
    pub fn follow(&mut self, schedule: &Schedule) -> Result<Followed, String> {
        self.world.borrow_mut().trace = Some(Vec::new());
        let mut turns = std::mem::take(&mut self.turns);
        for (i, &turn) in schedule.0.iter().enumerate() {
            if self.world.borrow().fault.is_some() {
                break;
            }
            self.world.borrow().turns(&mut turns);
            if !turns.contains(&turn) {
                let step = i + 1;
                return Err(format!("step {step} of the schedule: t{} cannot do that", turn.0));
            }
            self.go(turn);
        }
        self.world.borrow().turns(&mut turns);
        let ended = turns.is_empty();
        let mut world = self.world.borrow_mut();
        let (steps, fault) = (world.trace.take().unwrap_or_default(), world.fault.clone());
        Ok(Followed { steps, fault, ended })
    }
}

/// What a schedule led to.
pub struct Followed {
    pub steps: Vec<String>,
    pub fault: Option<Fault>,
    /// Nobody can go on.
    pub ended: bool,
}

/// Tells a fault: the way to it is walked once more, and written down.
pub fn told(setup: &Setup, options: &Options, fault: Fault, schedule: Schedule) -> Failure {
    let options = Options { reduction: false, ..*options };
    let followed = on_stage(setup, &options, |stage| stage.follow(&schedule));
    let steps = match followed {
        Ok(Ok(followed)) => followed.steps,
        Ok(Err(why)) => vec![why],
        Err(why) => vec![why.to_string()],
    };
    Failure { fault, schedule, steps }
}

/// The bytes of a region that are in use, as words.
pub fn copy(region: &Region) -> Vec<u64> {
    let mut words = Vec::new();
    copy_into(region, region.used().div_ceil(8), &mut words);
    words
}

pub fn copy_into(region: &Region, words: usize, into: &mut Vec<u64>) {
    into.clear();
    into.reserve(words);
    // SAFETY: a region is a whole number of pages; no task is running.
    unsafe {
        std::ptr::copy_nonoverlapping(region.start().cast::<u64>(), into.as_mut_ptr(), words);
        into.set_len(words);
    }
}

pub fn put_back(region: &Region, words: &[u64]) {
    // SAFETY: as for `copy_into`.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), region.start().cast::<u64>(), words.len());
    }
}
