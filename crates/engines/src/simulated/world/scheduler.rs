//! Who has which CPU: tasks sleep, wake, and take turns.
//!
//! Who had a CPU the shortest time is next. Who is woken is taken for one that had it a little
//! less than all who wait, but not more, so that sleeping gives some precedence and no
//! arrears; if the current one has had the CPU so much longer, that one makes way. As the
//! fair scheduler of Linux 2.6.23 to 6.5 does (kernel/sched/fair.c: place_entity,
//! check_preempt_tick, wakeup_preempt_entity), with all tasks of equal weight.
//!
//! Differs from it: slices end when they are over, not at the next tick.

use machine::Sleepers;

use super::{NOW, World};
use crate::simulated::ledger::Row;
use crate::simulated::tasks::{Doing, Then};
use crate::simulated::{Preemption, Time};

impl World {
    /// The task goes to sleep on a word; its CPU is free.
    pub fn sleep(&mut self, task: u16, offset: u32) {
        self.sleepers.push_back((offset, task));
        self.leave_cpu(task, Doing::Asleep { offset });
    }

    /// Wakes tasks that sleep on the word.
    pub fn wake(&mut self, waker: u16, offset: u32, whom: Sleepers) {
        while let Some(first) = self.sleepers.iter().position(|sleeper| sleeper.0 == offset) {
            let (_, task) = self.sleepers.remove(first).expect("who was found is there");
            let cost = self.about(self.costs.wake_each);
            self.spend(waker, Row::System, cost);
            let now = self.tasks[usize::from(waker)].time;
            self.tasks[usize::from(task)].book(Row::Asleep, now);
            self.place(task, waker);
            let cpu = &self.cpus[usize::from(self.tasks[usize::from(task)].cpu)];
            let least = cpu.least.saturating_sub(self.costs.period / 2);
            let who = &mut self.tasks[usize::from(task)];
            who.had = who.had.max(least);
            let latency = self.about(self.costs.wake_latency);
            self.make_ready(task, NOW, now, latency);
            if whom == Sleepers::One {
                return;
            }
        }
    }

    /// The task has ended.
    pub fn end(&mut self, task: u16) {
        self.leave_cpu(task, Doing::Ended);
    }

    /// An operation is done; whether the task has to wait before the next one.
    pub fn operation_done(&mut self, task: u16) -> bool {
        let who = &mut self.tasks[usize::from(task)];
        if (self.window.0..self.window.1).contains(&who.time) {
            who.operations += 1;
        }
        self.call_ends(task)
    }

    /// A call into the kernel ends, where a task may lose its CPU; whether it does.
    pub fn call_ends(&mut self, task: u16) -> bool {
        let who = &self.tasks[usize::from(task)];
        let must_go = self.must_go(usize::from(who.cpu), who.time);
        let gives_way = must_go && self.preemption == Preemption::BetweenOperations;
        if gives_way {
            self.give_way(task, NOW);
        }
        gives_way
    }

    /// Whether the current task of a CPU should make way for another one.
    fn must_go(&self, cpu: usize, now: Time) -> bool {
        let queue = &self.cpus[cpu];
        !queue.ready.is_empty() && (queue.called || now >= self.slice_end(cpu))
    }

    /// When the slice of the current task of a CPU is over.
    fn slice_end(&self, cpu: usize) -> Time {
        let queue = &self.cpus[cpu];
        let each = self.costs.period / (queue.ready.len() as Time + 1);
        queue.since + each.max(self.costs.slice)
    }

    /// Others have the CPU first.
    pub(super) fn give_way(&mut self, task: u16, then: Then) {
        self.off_cpu(task, Doing::Ready(then));
        self.queue_up(task);
        self.next(task);
    }

    pub(super) fn leave_cpu(&mut self, task: u16, doing: Doing) {
        self.off_cpu(task, doing);
        self.next(task);
    }

    /// The CPU of the task has no current one.
    fn off_cpu(&mut self, task: u16, doing: Doing) {
        let who = &mut self.tasks[usize::from(task)];
        (who.doing, who.turn) = (doing, 0);
        let cpu = &mut self.cpus[usize::from(who.cpu)];
        who.had += who.time.saturating_sub(cpu.since);
        cpu.current = None;
    }

    /// The CPU of a task that left it goes to whoever is next.
    fn next(&mut self, left: u16) {
        let who = &self.tasks[usize::from(left)];
        let (cpu, now, had) = (usize::from(who.cpu), who.time, who.had);
        let queue = &mut self.cpus[cpu];
        let least = queue.ready.front().map_or(had, |&first| self.tasks[usize::from(first)].had);
        queue.least = queue.least.max(least);
        // Who is favoured has it first if it had it not much longer than whoever had it least.
        let is_fair = |&task: &u16| {
            self.tasks[usize::from(task)].had <= least.saturating_add(self.costs.wake_lead)
        };
        let favoured = queue.favoured.take().filter(is_fair);
        let place = favoured.and_then(|task| queue.ready.iter().position(|&other| other == task));
        let first = queue.ready.remove(place.unwrap_or(0));
        if let Some(first) = first.or_else(|| self.has_nothing(cpu, now)) {
            let switch = self.about(self.costs.switch);
            self.run(first, now, switch);
        }
    }

    /// The task waits for its CPU behind those who had it no longer.
    fn queue_up(&mut self, task: u16) {
        let who = &self.tasks[usize::from(task)];
        let tasks = &self.tasks;
        let ready = &mut self.cpus[usize::from(who.cpu)].ready;
        let place = ready.partition_point(|&other| tasks[usize::from(other)].had <= who.had);
        ready.insert(place, task);
    }

    /// The task wants a CPU: at once where its own is idle, which takes `latency` to notice.
    pub(super) fn make_ready(&mut self, task: u16, then: Then, now: Time, latency: Time) {
        let who = &mut self.tasks[usize::from(task)];
        who.doing = Doing::Ready(then);
        let cpu = usize::from(who.cpu);
        let Some(current) = self.cpus[cpu].current else {
            who.book(Row::Asleep, now + latency);
            self.cpus[cpu].idling.ends(now);
            return self.run(task, now + latency, 0);
        };
        let had = who.had;
        self.queue_up(task);
        let current_had = self.tasks[usize::from(current)].had;
        let queue = &mut self.cpus[cpu];
        let current_had = current_had + now.saturating_sub(queue.since);
        queue.called |= current_had > had + self.costs.wake_lead;
        self.set_timer(cpu, now);
        self.somebody_waits(now);
    }

    /// Where tasks may be preempted anywhere, a CPU that others wait for looks at the clock.
    pub(super) fn set_timer(&mut self, cpu: usize, now: Time) {
        if self.preemption != Preemption::Anywhere {
            return;
        }
        let at = if self.cpus[cpu].called { now } else { self.slice_end(cpu).max(now) };
        if self.cpus[cpu].rings != at {
            self.cpus[cpu].rings = at;
            self.queue.push(at, self.clock_of(cpu));
        }
    }

    /// The task gets its CPU.
    pub(super) fn run(&mut self, task: u16, now: Time, switch: Time) {
        let who = &mut self.tasks[usize::from(task)];
        let (cpu, begin) = (usize::from(who.cpu), now.max(who.time));
        let Doing::Ready(then) = who.doing else {
            unreachable!("task {task} gets a CPU and is {:?}", who.doing);
        };
        who.book(Row::Ready, begin);
        who.book(Row::System, begin + switch);
        let start = begin + switch;
        who.time = start;
        let queue = &mut self.cpus[cpu];
        (queue.current, queue.since, queue.called) = (Some(task), start, false);
        if let Some(loops) = &mut self.pause_loops {
            loops.runs(task);
        }
        self.go_on(task, then);
        if std::mem::take(&mut self.tasks[usize::from(task)].pending) {
            self.queue.push(start, self.interrupt_of(usize::from(task)));
        }
        if !self.cpus[cpu].ready.is_empty() {
            self.set_timer(cpu, start);
        }
    }

    /// The clock of a CPU rings: its task may have had its slice, or it has none.
    pub(super) fn clock(&mut self, cpu: usize, now: Time) {
        let queue = &self.cpus[cpu];
        if queue.rings != now {
            return;
        }
        let Some(task) = queue.current else { return self.looks_for_work(cpu, now) };
        if self.preemption != Preemption::Anywhere {
            return;
        }
        if !self.must_go(cpu, now) {
            // The slice has become longer, or others have the CPU no more.
            if !queue.ready.is_empty() {
                self.set_timer(cpu, now);
            }
            return;
        }
        let who = &mut self.tasks[usize::from(task)];
        let then = match who.doing {
            Doing::Running | Doing::Asking(_) => who.stop(now),
            Doing::Watching(watch) | Doing::Looking(watch) => Then::Look(watch),
            doing => unreachable!("task {task} has a CPU and is {doing:?}"),
        };
        if let Doing::Watching(watch) = who.doing {
            who.time = now.max(who.time);
            who.book(Row::Spinning, who.time);
            self.watch_no_more(task, watch);
        }
        self.give_way(task, then);
    }
}
