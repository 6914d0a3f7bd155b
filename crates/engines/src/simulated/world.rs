//! What is so at a moment of simulated time, and what accesses, waits and sleep do to it.

mod accesses;
mod pause_loops;
mod placement;
mod scheduler;

use std::collections::VecDeque;

use machine::Region;

use super::coherence::Lines;
use super::host::Guest;
use super::invariants::Watched;
use super::ledger::{Account, Row};
use super::queue::{Due, Queue};
use super::tasks::{Doing, RunQueue, Task, Then};
use super::trace::Trace;
use super::{Options, Preemption, Setup, Time};
use pause_loops::PauseLoops;
pub use placement::Idling;
use placement::Places;

/// Goes on at once.
const NOW: Then = Then::GoOn(0, Row::Local);

/// All that an engine knows.
pub struct World {
    /// Tasks, and behind them who handles interrupts where no task is, by the CPU's number.
    pub tasks: Vec<Task>,
    /// How many of them are tasks.
    pub workers: usize,
    pub cpus: Vec<RunQueue>,
    pub lines: Lines,
    pub queue: Queue,
    pub watched: Watched,
    pub trace: Option<Trace>,
    pub preemption: Preemption,
    /// Whether a CPU may have more tasks than one.
    pub cpus_are_shared: bool,
    /// Where tasks are put that have no CPU of their own.
    pub places: Option<Places>,
    pub costs: super::Costs,
    pub guest: Option<Guest>,
    /// Where tasks are virtual CPUs whose spinning is noticed.
    pub pause_loops: Option<PauseLoops>,
    /// Operations count from the first to the second.
    pub window: (Time, Time),
    /// Tasks that sleep and on which word, in the order in which they went.
    sleepers: VecDeque<(u32, u16)>,
    /// Depends on every access: equal for equal runs.
    pub hash: u64,
    /// How many accesses there were, looks of waiting tasks among them.
    pub accesses: u64,
    /// The address of the region.
    base: usize,
    /// For choices that are the hardware's.
    random: u64,
}

impl World {
    /// A world in which nothing happens from `over` on.
    pub fn new(setup: &Setup, options: &Options, over: Time) -> World {
        let host = setup.host;
        let window = (options.warm_up, options.warm_up + options.length);
        let cpu_of = |task: usize| setup.places[task % setup.places.len()];
        let is_used = |cpu: usize| setup.places.contains(&cpu);
        let queue_of = |cpu| {
            let others = host.threads(cpu).filter(|&other| other != cpu && is_used(other));
            let siblings: Vec<u16> = others.map(|other| other as u16).collect();
            let slower = match siblings.is_empty() {
                true => 1000,
                false => u64::from(host.costs.both_threads_per_mille),
            };
            RunQueue { slower_per_mille: slower, siblings, ..RunQueue::default() }
        };
        let task = |i: usize, cpu: usize| Task {
            time: 0,
            cpu: cpu as u16,
            doing: Doing::Ready(NOW),
            turn: 0,
            drained: 0,
            stores: VecDeque::new(),
            asked: None,
            leaving: None,
            seen: None,
            inside: false,
            had: 0,
            masked: 0,
            pending: false,
            handling: None,
            called: false,
            operations: 0,
            random: seeded(options.seed, i as u64 + 1),
            account: Account::new(window),
        };
        let numbers = setup.numbers(options.preemption);
        let handlers = if setup.interrupted.is_some() { numbers } else { 0 };
        let home = |number| setup.home(number, options.preemption);
        let tasks = (0..setup.tasks).map(|i| task(i, cpu_of(i)));
        // A CPU without a task has somebody too who handles interrupts.
        let tasks =
            tasks.chain((0..handlers).map(|number| task(setup.tasks + number, home(number))));
        let mut world = World {
            tasks: tasks.collect(),
            workers: setup.tasks,
            cpus: (0..host.cpus.len()).map(queue_of).collect(),
            lines: Lines::new(setup.region, host, home),
            queue: Queue::new(over),
            watched: Watched::new(setup.exclusive, setup.fifo),
            trace: options.trace.map(Trace::new),
            preemption: options.preemption,
            cpus_are_shared: setup.tasks > setup.places.len() || !options.pinned,
            places: (!options.pinned).then(|| Places::new(setup)),
            costs: host.costs,
            guest: host.guest,
            pause_loops: PauseLoops::new(setup, options),
            window,
            sleepers: VecDeque::new(),
            hash: options.seed,
            accesses: 0,
            base: base(setup.region),
            random: seeded(options.seed, 0),
        };
        for task in 0..setup.tasks as u16 {
            world.make_ready(task, NOW, 0, 0);
        }
        for task in &mut world.tasks[setup.tasks..] {
            task.doing = Doing::Ended;
        }
        world
    }

    /// Has the task wait for its turn, if somebody else is due before; whether it must.
    #[inline(always)]
    pub fn must_wait(&mut self, task: u16) -> bool {
        let who = &mut self.tasks[usize::from(task)];
        if self.queue.is_first(who.time) {
            who.leave(&mut self.watched);
            return false;
        }
        who.turn = self.queue.push(who.time, task);
        true
    }

    /// Whether somebody may take the CPU of the task while it works, or make it slower, or the time
    /// is over.
    #[inline]
    pub fn is_watched(&self, task: u16) -> bool {
        let others = self.cpus_are_shared
            || self.tasks.len() > self.workers
            || self.cpus[usize::from(self.tasks[usize::from(task)].cpu)].slower_per_mille != 1000;
        others || self.tasks[usize::from(task)].time >= self.window.1
    }

    #[inline]
    fn schedule(&mut self, task: u16, time: Time) {
        self.tasks[usize::from(task)].turn = self.queue.push(time, task);
    }

    /// Lets the task's time pass.
    #[inline]
    pub fn spend(&mut self, task: u16, row: Row, cost: Time) {
        let cpu = usize::from(self.tasks[usize::from(task)].cpu);
        let slower = self.cpus[cpu].slower_per_mille;
        let is_slower = slower != 1000 && self.shares_core(cpu);
        let task = &mut self.tasks[usize::from(task)];
        task.time += if is_slower { cost * slower / 1000 } else { cost };
        task.book(row, task.time);
    }

    /// Whether the other thread of the core is busy, and does not only pause.
    #[cold]
    fn shares_core(&self, cpu: usize) -> bool {
        let siblings = self.cpus[cpu].siblings.iter();
        let mut tasks = siblings.filter_map(|&other| self.cpus[usize::from(other)].current);
        tasks.any(|task| !self.tasks[usize::from(task)].pauses())
    }

    /// Half to one and a half of a time, by chance, as what the system does takes: tasks for which it
    /// is always the same fall into step, and some lose their CPU each time before they have done
    /// anything.
    fn about(&mut self, time: Time) -> Time {
        time / 2 + time * Time::from(below(&mut self.random, 1024)) / 1024
    }

    /// Lets time pass, up to where a task goes on: which one. Nobody does where nobody is due any
    /// more, or the time is over.
    pub fn pass(&mut self) -> Option<u16> {
        while let Some(due) = self.queue.pop() {
            if let Some(task) = self.happens(due) {
                return Some(task);
            }
        }
        None
    }

    /// What is due happens; the task that goes on, if one does. Events are for tasks, the stores
    /// of tasks, CPUs, and who is interrupted, in the order of their numbers.
    fn happens(&mut self, due: Due) -> Option<u16> {
        if let Some(bandwidth) = &mut self.lines.bandwidth {
            bandwidth.passed(due.time);
        }
        let who = usize::from(due.who());
        let (tasks, cpus) = (self.tasks.len(), self.cpus.len());
        if who < tasks {
            return self.due(due.who(), due.turn(), due.time).then_some(due.who());
        }
        if who < 2 * tasks {
            self.stored((who - tasks) as u16, due.time);
            return None;
        }
        if who < 2 * tasks + cpus {
            self.clock(who - 2 * tasks, due.time);
            return None;
        }
        self.interrupted(who - 2 * tasks - cpus, due.time)
    }

    fn store_of(&self, task: u16) -> u16 {
        self.tasks.len() as u16 + task
    }

    fn clock_of(&self, cpu: usize) -> u16 {
        (2 * self.tasks.len() + cpu) as u16
    }

    /// Who is due when a CPU of this number is interrupted.
    fn interrupt_of(&self, number: usize) -> u16 {
        (2 * self.tasks.len() + self.cpus.len() + number) as u16
    }

    /// An event of a task is due; whether the task goes on.
    fn due(&mut self, task: u16, turn: u64, now: Time) -> bool {
        let who = &mut self.tasks[usize::from(task)];
        if who.turn != turn {
            return false;
        }
        who.turn = 0;
        who.leave(&mut self.watched);
        match who.doing {
            Doing::Running => true,
            Doing::Asking(ask) => match self.ask(task, ask) {
                None => false,
                asked => {
                    self.tasks[usize::from(task)].asked = asked;
                    true
                }
            },
            Doing::Watching(watch) => {
                self.watch_no_more(task, watch);
                if now < watch.deadline {
                    self.watched_for_long(task, watch, now);
                    return false;
                }
                // Its patience is over.
                let who = &mut self.tasks[usize::from(task)];
                let now = now.max(who.time);
                (who.seen, who.doing, who.time) = (None, Doing::Running, now);
                who.book(Row::Spinning, now);
                true
            }
            Doing::Looking(watch) => {
                if !self.look(task, now) {
                    self.watch(task, watch);
                }
                false
            }
            doing => unreachable!("task {task} is due and {doing:?}"),
        }
    }

    /// What the task does from its time on.
    fn go_on(&mut self, task: u16, then: Then) {
        let who = &mut self.tasks[usize::from(task)];
        who.doing = match then {
            Then::GoOn(remaining, row) => {
                who.time += remaining;
                who.book(row, who.time);
                Doing::Running
            }
            Then::Look(watch) => Doing::Looking(watch),
            Then::Handle => {
                (who.handling, who.called) = (Some(Then::Handle), true);
                Doing::Running
            }
        };
        let due = who.time;
        self.schedule(task, due);
    }

    /// Interrupts the CPU of this number, whose own number is not `own`.
    pub fn send(&mut self, sender: u16, numbers: impl Iterator<Item = usize>) {
        self.spend(sender, Row::Sending, self.costs.interrupt_send);
        let now = self.tasks[usize::from(sender)].time;
        for number in numbers {
            self.queue.push(now + self.costs.interrupt_delivery, self.interrupt_of(number));
        }
    }

    /// An interrupt has come to the CPU of this number; who handles it, if it is now.
    fn interrupted(&mut self, number: usize, now: Time) -> Option<u16> {
        let task = match self.preemption {
            Preemption::BetweenOperations => self.cpus[number].current,
            Preemption::Anywhere => Some(number as u16).filter(|&task| {
                !matches!(self.tasks[usize::from(task)].doing, Doing::Asleep { .. } | Doing::Ended)
            }),
        };
        let Some(task) = task else {
            self.handle_idle((self.workers + number) as u16, now);
            return None;
        };
        let who = &mut self.tasks[usize::from(task)];
        if who.masked > 0 || who.handling.is_some() {
            who.pending = true;
            return None;
        }
        let then = match who.doing {
            Doing::Running | Doing::Asking(_) => who.stop(now),
            Doing::Watching(watch) | Doing::Looking(watch) => {
                (who.time, who.turn) = (now.max(who.time), 0);
                Then::Look(watch)
            }
            // It has no CPU: once it has.
            _ => {
                who.pending = true;
                return None;
            }
        };
        if let Doing::Watching(watch) = who.doing {
            who.book(Row::Spinning, now);
            self.watch_no_more(task, watch);
        }
        let who = &mut self.tasks[usize::from(task)];
        who.doing = Doing::Running;
        (who.handling, who.called) = (Some(then), true);
        Some(task)
    }

    /// Whether the task goes on because it was interrupted, and not because it is due.
    pub fn is_called(&mut self, task: u16) -> bool {
        std::mem::take(&mut self.tasks[usize::from(task)].called)
    }

    /// A CPU that has nothing to do has this.
    fn handle_idle(&mut self, handler: u16, now: Time) {
        let who = &mut self.tasks[usize::from(handler)];
        if who.doing == Doing::Ended {
            who.time = who.time.max(now);
            who.book(Row::Asleep, now);
            self.make_ready(handler, Then::Handle, now, 0);
        } else {
            who.pending = true;
        }
    }

    /// The task has handled its interrupt and goes on; whether another one has come.
    pub fn handled(&mut self, task: u16) -> bool {
        let who = &mut self.tasks[usize::from(task)];
        if std::mem::take(&mut who.pending) {
            return true;
        }
        match who.handling.take() {
            Some(Then::Handle) => self.leave_cpu(task, Doing::Ended),
            Some(then) => self.go_on(task, then),
            // It was in a section that was not to be interrupted, and goes on at once.
            None => (),
        }
        false
    }

    /// Books what was going on when the time was over.
    pub fn close(&mut self) {
        let end = self.window.1;
        for task in &mut self.tasks {
            let row = match task.doing {
                Doing::Running | Doing::Asking(_) => Row::Local,
                Doing::Watching(_) | Doing::Looking(_) => Row::Spinning,
                Doing::Ready(_) => Row::Ready,
                Doing::Asleep { .. } | Doing::Ended => Row::Asleep,
            };
            task.book(row, end);
        }
    }
}

fn base(region: &Region) -> usize {
    region.start() as usize
}

/// A state of `below`, never 0. SplitMix64 (Steele, Lea and Flood 2014).
fn seeded(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) | 1
}

/// A number below the bound. Xorshift64* (Vigna 2016).
pub fn below(state: &mut u64, bound: u32) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let high = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    ((high * u64::from(bound)) >> 32) as u32
}
