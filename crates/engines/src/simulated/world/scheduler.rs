//! The scheduler: tasks sleep, wake, and take turns on CPUs.
//!
//! The task with the smallest `vruntime` runs next. A woken task is placed a little before all
//! that wait, so that sleeping gives some precedence, but saves up no CPU time. If the current
//! task has had the CPU for much longer, the woken one preempts it. As in the fair scheduler of
//! Linux 2.6.23 to 6.5 (kernel/sched/fair.c: place_entity, check_preempt_tick,
//! wakeup_preempt_entity), with all tasks of equal weight.
//!
//! Differs from it: slices end exactly, not at the next tick.

use machine::Sleepers;

use super::World;
use crate::simulated::ledger::TimeRow;
use crate::simulated::tasks::{NOW, Resume, TaskState};
use crate::simulated::{Preemption, Time};

impl World {
    /// Queues the task among the sleepers of a word, and lets it leave its CPU, which takes this
    /// long. If it is woken in that time, it continues at its end and has not slept: the scheduler
    /// finds it runnable.
    pub fn sleep(&mut self, task: u16, offset: u32, leaving: Time) {
        self.sleepers.push_back((offset, task));
        if leaving == 0 {
            return self.fall_asleep(task, offset);
        }
        self.spend(task, TimeRow::System, leaving);
        let this = &mut self.tasks[usize::from(task)];
        this.state = TaskState::FallingAsleep { offset };
        let due = this.time;
        self.schedule(task, due);
    }

    /// Puts a task to sleep that is among the sleepers of a word, which frees its CPU.
    pub(super) fn fall_asleep(&mut self, task: u16, offset: u32) {
        let this = &self.tasks[usize::from(task)];
        let (now, cpu) = (this.time, usize::from(this.cpu));
        self.sleeps += u64::from((self.window.0..self.window.1).contains(&now));
        self.leave_cpu(task, TaskState::Asleep { offset });
        self.deliver_pending(task, cpu, now);
    }

    /// Delivers the interrupt that has come while the task was leaving this CPU, if one has.
    fn deliver_pending(&mut self, task: u16, cpu: usize, now: Time) {
        if std::mem::take(&mut self.tasks[usize::from(task)].interrupt_pending) {
            let number = match self.preemption {
                Preemption::BetweenOperations => cpu,
                Preemption::Anywhere => usize::from(task),
            };
            self.queue.push(now, self.interrupt_event(number));
        }
    }

    /// Wakes tasks that sleep on the word.
    pub fn wake(&mut self, waker: u16, offset: u32, whom: Sleepers) {
        while let Some(first) = self.sleepers.iter().position(|sleeper| sleeper.0 == offset) {
            let (_, task) = self.sleepers.remove(first).expect("a position in the queue");
            if self.keeps_awake(task) {
                if whom == Sleepers::One {
                    return;
                }
                continue;
            }
            let cost = self.jittered(self.costs.wake_each);
            self.spend(waker, TimeRow::System, cost);
            let now = self.tasks[usize::from(waker)].time;
            self.tasks[usize::from(task)].book(TimeRow::Asleep, now);
            self.place(task, waker);
            let cpu = &self.cpus[usize::from(self.tasks[usize::from(task)].cpu)];
            let min_vruntime = cpu.min_vruntime.saturating_sub(self.costs.period / 2);
            let this = &mut self.tasks[usize::from(task)];
            this.vruntime = this.vruntime.max(min_vruntime);
            let latency = self.jittered(self.costs.wake_latency);
            self.make_ready(task, NOW, now, latency);
            if whom == Sleepers::One {
                return;
            }
        }
    }

    /// Lets a task continue that has not left its CPU yet, which costs its waker nothing more;
    /// returns whether it had not.
    fn keeps_awake(&mut self, task: u16) -> bool {
        let this = &mut self.tasks[usize::from(task)];
        let TaskState::FallingAsleep { .. } = this.state else { return false };
        this.state = TaskState::Running;
        let (cpu, due) = (usize::from(this.cpu), this.time);
        self.deliver_pending(task, cpu, due);
        true
    }

    /// Notes that the task has ended, which frees its CPU.
    pub fn end(&mut self, task: u16) {
        self.leave_cpu(task, TaskState::Ended);
    }

    /// Counts an operation; returns whether the task loses its CPU before the next one.
    pub fn operation_done(&mut self, task: u16) -> bool {
        let this = &mut self.tasks[usize::from(task)];
        if (self.window.0..self.window.1).contains(&this.time) {
            this.operations += 1;
        }
        self.preemption_point(task)
    }

    /// The end of a call into the kernel; returns whether the task loses its CPU there.
    pub fn preemption_point(&mut self, task: u16) -> bool {
        let this = &self.tasks[usize::from(task)];
        let should_preempt = self.should_preempt(usize::from(this.cpu), this.time);
        let preempts = should_preempt && self.preemption == Preemption::BetweenOperations;
        if preempts {
            self.preempt(task, NOW);
        }
        preempts
    }

    /// Whether the current task of a CPU should make way for another one.
    fn should_preempt(&self, cpu: usize, now: Time) -> bool {
        let queue = &self.cpus[cpu];
        !queue.ready.is_empty() && (queue.need_resched || now >= self.slice_end(cpu))
    }

    /// When the slice of the current task of a CPU ends.
    fn slice_end(&self, cpu: usize) -> Time {
        let queue = &self.cpus[cpu];
        let share = self.costs.period / (queue.ready.len() as Time + 1);
        queue.since + share.max(self.costs.slice)
    }

    /// Takes the CPU from the task, which then waits for it.
    pub(super) fn preempt(&mut self, task: u16, resume: Resume) {
        self.off_cpu(task, TaskState::Ready(resume));
        self.enqueue(task);
        self.run_next(task);
    }

    pub(super) fn leave_cpu(&mut self, task: u16, state: TaskState) {
        self.off_cpu(task, state);
        self.run_next(task);
    }

    /// Leaves the CPU of the task without a current task.
    fn off_cpu(&mut self, task: u16, state: TaskState) {
        let this = &mut self.tasks[usize::from(task)];
        (this.state, this.event) = (state, 0);
        let cpu = &mut self.cpus[usize::from(this.cpu)];
        this.vruntime += this.time.saturating_sub(cpu.since);
        cpu.current = None;
    }

    /// Runs the next task on the CPU that `previous` has left.
    fn run_next(&mut self, previous: u16) {
        let this = &self.tasks[usize::from(previous)];
        let (cpu, now, vruntime) = (usize::from(this.cpu), this.time, this.vruntime);
        let queue = &mut self.cpus[cpu];
        let smallest =
            queue.ready.front().map_or(vruntime, |&first| self.tasks[usize::from(first)].vruntime);
        queue.min_vruntime = queue.min_vruntime.max(smallest);
        // The next buddy runs first, unless its `vruntime` is much larger than the smallest.
        let is_fair = |&task: &u16| {
            let limit = smallest.saturating_add(self.costs.wake_lead);
            self.tasks[usize::from(task)].vruntime <= limit
        };
        let buddy = queue.next_buddy.take().filter(is_fair);
        let index = buddy.and_then(|task| queue.ready.iter().position(|&other| other == task));
        let next = queue.ready.remove(index.unwrap_or(0));
        if let Some(next) = next.or_else(|| self.newly_idle(cpu, now)) {
            let switch = self.jittered(self.costs.switch);
            self.run(next, now, switch);
        }
    }

    /// Inserts the task into the queue of its CPU, behind tasks of equal `vruntime`.
    fn enqueue(&mut self, task: u16) {
        let this = &self.tasks[usize::from(task)];
        let tasks = &self.tasks;
        let ready = &mut self.cpus[usize::from(this.cpu)].ready;
        let index =
            ready.partition_point(|&other| tasks[usize::from(other)].vruntime <= this.vruntime);
        ready.insert(index, task);
    }

    /// Makes the task ready. It runs immediately if its CPU is idle, which takes `latency` to
    /// notice.
    pub(super) fn make_ready(&mut self, task: u16, resume: Resume, now: Time, latency: Time) {
        let this = &mut self.tasks[usize::from(task)];
        this.state = TaskState::Ready(resume);
        let cpu = usize::from(this.cpu);
        let Some(current) = self.cpus[cpu].current else {
            this.book(TimeRow::Asleep, now + latency);
            self.cpus[cpu].idle_time.ends(now);
            return self.run(task, now + latency, 0);
        };
        let vruntime = this.vruntime;
        self.enqueue(task);
        let before_slice = self.tasks[usize::from(current)].vruntime;
        let queue = &mut self.cpus[cpu];
        let current_vruntime = before_slice + now.saturating_sub(queue.since);
        queue.need_resched |= current_vruntime > vruntime + self.costs.wake_lead;
        self.set_timer(cpu, now);
        self.start_idle_timer(now);
    }

    /// Sets the timer of a CPU that tasks wait for, where tasks may be preempted anywhere.
    pub(super) fn set_timer(&mut self, cpu: usize, now: Time) {
        if self.preemption != Preemption::Anywhere {
            return;
        }
        let need_resched = self.cpus[cpu].need_resched;
        let due = if need_resched { now } else { self.slice_end(cpu).max(now) };
        if self.cpus[cpu].timer != due {
            self.cpus[cpu].timer = due;
            self.queue.push(due, self.timer_event(cpu));
        }
    }

    /// Gives the task its CPU.
    pub(super) fn run(&mut self, task: u16, now: Time, switch: Time) {
        let this = &mut self.tasks[usize::from(task)];
        let cpu = usize::from(this.cpu);
        let begin = now.max(this.time).max(self.cpus[cpu].taken_until);
        let TaskState::Ready(resume) = this.state else {
            unreachable!("task {task} gets a CPU and is {:?}", this.state);
        };
        this.book(TimeRow::Ready, begin);
        this.book(TimeRow::System, begin + switch);
        let start = begin + switch;
        this.time = start;
        let queue = &mut self.cpus[cpu];
        (queue.current, queue.since, queue.need_resched) = (Some(task), start, false);
        if let Some(loops) = &mut self.pause_loops {
            loops.runs(task);
        }
        self.resume(task, resume);
        if std::mem::take(&mut self.tasks[usize::from(task)].interrupt_pending) {
            self.queue.push(start, self.interrupt_event(usize::from(task)));
        }
        if !self.cpus[cpu].ready.is_empty() {
            self.set_timer(cpu, start);
        }
    }

    /// The timer of a CPU fires: the slice of its task may have ended, or it is idle.
    pub(super) fn timer_due(&mut self, cpu: usize, now: Time) {
        let queue = &self.cpus[cpu];
        if queue.timer != now {
            return;
        }
        let Some(task) = queue.current else { return self.balance_idle(cpu, now) };
        if self.preemption != Preemption::Anywhere {
            return;
        }
        if now < queue.taken_until {
            self.cpus[cpu].timer = queue.taken_until;
            self.waits_for_noise(cpu, self.timer_event(cpu), now);
            return;
        }
        if !self.should_preempt(cpu, now) {
            // The slice has become longer, or no other task waits for the CPU any more.
            if !queue.ready.is_empty() {
                self.set_timer(cpu, now);
            }
            return;
        }
        let this = &mut self.tasks[usize::from(task)];
        let resume = match this.state {
            // It leaves by itself; if it is woken before, the slice ends then.
            TaskState::FallingAsleep { .. } => {
                let due = this.time;
                self.cpus[cpu].timer = due;
                self.queue.push(due, self.timer_event(cpu));
                return;
            }
            TaskState::Running | TaskState::Requesting(_) => this.stop(now),
            TaskState::Waiting(wait) | TaskState::Rechecking(wait) => Resume::Recheck(wait),
            state => unreachable!("task {task} has a CPU and is {state:?}"),
        };
        if let TaskState::Waiting(wait) = this.state {
            self.stop_waiting(task, wait);
            let this = &mut self.tasks[usize::from(task)];
            this.time = now.max(this.time);
            this.book(TimeRow::Spinning, this.time);
        }
        self.preempt(task, resume);
    }
}
