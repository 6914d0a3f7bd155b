//! The state of a simulation at a moment of simulated time, and the events that change it.

mod accesses;
mod noise;
mod pause_loops;
mod placement;
mod scheduler;

use std::collections::VecDeque;

use machine::Region;

use super::coherence::CacheLines;
use super::host::GuestCosts;
use super::invariants::Invariants;
use super::ledger::TimeRow;
use super::queue::{EventQueue, QueuedEvent};
use super::random::{below, seeded};
use super::tasks::{NOW, Resume, RunQueue, SimulatedTask, TaskState};
use super::trace::Trace;
use super::waiters::Waiters;
use super::{Options, Preemption, Setup, Time};
use noise::NoiseSource;
use pause_loops::PauseLoops;
use placement::AllowedCpus;

/// The whole state of a simulation.
pub struct World {
    /// The tasks, followed by an interrupt handler for each CPU number, which takes interrupts
    /// while no task has the CPU.
    pub tasks: Vec<SimulatedTask>,
    /// The number of tasks, without interrupt handlers.
    pub task_count: usize,
    pub cpus: Vec<RunQueue>,
    pub lines: CacheLines,
    /// By line: the tasks that wait for a word of it to change.
    waiters: Vec<Waiters>,
    pub queue: EventQueue,
    pub invariants: Invariants,
    pub trace: Option<Trace>,
    pub preemption: Preemption,
    /// Whether a CPU may have more tasks than one.
    pub cpus_are_shared: bool,
    /// Whether threads of one core have tasks, and slow each other down.
    threads_share_cores: bool,
    /// The CPUs that tasks may be placed on; `None` where tasks are pinned.
    pub allowed_cpus: Option<AllowedCpus>,
    pub costs: super::Costs,
    /// By node: until when its memory is busy with what tasks clear and copy.
    memories: Vec<Time>,
    pub guest: Option<GuestCosts>,
    /// Set where tasks are virtual CPUs with pause-loop exiting.
    pub pause_loops: Option<PauseLoops>,
    noise: Option<NoiseSource>,
    /// Operations count from the first time to the second.
    pub window: (Time, Time),
    /// Sleeping tasks behind the offsets of their words, in the order in which they went to sleep.
    sleepers: VecDeque<(u32, u16)>,
    /// How often tasks went to sleep in the window.
    pub sleeps: u64,
    /// Depends on every access: equal for equal runs.
    pub hash: u64,
    /// The number of accesses, those of waiting tasks among them.
    pub accesses: u64,
    /// The address of the region.
    base: usize,
    /// The waits that end by a change of a line: the task, when it continues, and what it has seen. Empty in between.
    ended_waits: Vec<(u16, Time, u64)>,
    /// The random state for choices of the hardware and the system.
    random: u64,
}

impl World {
    /// A world in which nothing happens from `end` on.
    pub fn new(setup: &Setup, options: &Options, end: Time) -> World {
        let host = setup.host;
        let window = (options.warm_up, options.warm_up + options.length);
        let first_cpu = |task: usize| setup.cpus[task % setup.cpus.len()];
        let is_used = |cpu: usize| setup.cpus.contains(&cpu);
        let run_queue = |cpu| {
            let others = host.threads(cpu).filter(|&other| other != cpu && is_used(other));
            let siblings: Vec<u16> = others.map(|other| other as u16).collect();
            let both_threads = u64::from(host.costs.both_threads_per_mille);
            let slower_per_mille = if siblings.is_empty() { 1000 } else { both_threads };
            RunQueue { slower_per_mille, siblings, ..RunQueue::default() }
        };
        let task = |i: usize, cpu: usize| {
            SimulatedTask::new(cpu as u16, seeded(options.seed, i as u64 + 1), window)
        };
        let cpu_numbers = setup.cpu_numbers(options.preemption);
        let handlers = if setup.ipi_handler.is_some() { cpu_numbers } else { 0 };
        let home = |number| setup.home(number, options.preemption);
        let tasks = (0..setup.tasks).map(|i| task(i, first_cpu(i)));
        let handlers = (0..handlers).map(|number| task(setup.tasks + number, home(number)));
        let lines = CacheLines::new(setup.region, host, seeded(options.seed, 0), home);
        let cpus: Vec<RunQueue> = (0..host.cpus.len()).map(run_queue).collect();
        let mut world = World {
            threads_share_cores: setup.cpus.iter().any(|&cpu| cpus[cpu].slower_per_mille != 1000),
            tasks: tasks.chain(handlers).collect(),
            task_count: setup.tasks,
            cpus,
            waiters: vec![Waiters::default(); lines.count()],
            lines,
            queue: EventQueue::new(end),
            invariants: Invariants::new(setup.exclusive, setup.fifo),
            trace: options.trace.map(Trace::new),
            preemption: options.preemption,
            cpus_are_shared: setup.tasks > setup.cpus.len() || !options.pinned,
            allowed_cpus: (!options.pinned).then(|| AllowedCpus::new(setup)),
            costs: host.costs,
            memories: vec![0; host.distances.len()],
            guest: host.guest,
            pause_loops: PauseLoops::new(setup, options),
            noise: options.noise.map(|noise| NoiseSource::new(noise, options.seed)),
            window,
            sleepers: VecDeque::new(),
            sleeps: 0,
            hash: options.seed,
            accesses: 0,
            base: base(setup.region),
            ended_waits: Vec::new(),
            random: seeded(options.seed, 0),
        };
        for task in 0..setup.tasks as u16 {
            world.make_ready(task, NOW, 0, 0);
        }
        for task in &mut world.tasks[setup.tasks..] {
            task.state = TaskState::Ended;
        }
        world.start_noise(setup);
        world
    }

    /// Returns whether the task must let others go first, because another event is due before;
    /// if so, queues the task's own event.
    #[inline(always)]
    pub fn must_yield(&mut self, task: u16) -> bool {
        let this = &mut self.tasks[usize::from(task)];
        if self.queue.is_first(this.time) {
            this.leave(&mut self.invariants);
            return false;
        }
        this.event = self.queue.push(this.time, task);
        true
    }

    /// Whether something may take the task's CPU or slow it down while it works, or the time is
    /// over.
    #[inline]
    pub fn can_be_delayed(&self, task: u16) -> bool {
        let is_slowed = || {
            let cpu = usize::from(self.tasks[usize::from(task)].cpu);
            self.threads_share_cores && self.cpus[cpu].slower_per_mille != 1000
        };
        let by_others = self.cpus_are_shared || self.tasks.len() > self.task_count || is_slowed();
        self.noise.is_some() || by_others || self.tasks[usize::from(task)].time >= self.window.1
    }

    #[inline]
    fn schedule(&mut self, task: u16, time: Time) {
        self.tasks[usize::from(task)].event = self.queue.push(time, task);
    }

    /// Advances the task's time by a cost, and books it.
    #[inline]
    pub fn spend(&mut self, task: u16, row: TimeRow, cost: Time) {
        let cost = if self.threads_share_cores { self.slowed(task, cost) } else { cost };
        let task = &mut self.tasks[usize::from(task)];
        task.time += cost;
        task.book(row, task.time);
    }

    /// Lets the task, which is due, clear or copy lines of its node's memory, in `alone` ps where nobody else does.
    pub fn stream(&mut self, task: u16, lines: u32, alone: Time) {
        let this = &self.tasks[usize::from(task)];
        let memory = &mut self.memories[self.lines.node(usize::from(this.cpu))];
        *memory = this.time.max(*memory) + Time::from(lines) * self.costs.stream;
        let served = *memory;
        self.spend(task, TimeRow::Work, alone);
        let this = &mut self.tasks[usize::from(task)];
        this.time = this.time.max(served);
        this.book(TimeRow::Transfer, this.time);
    }

    /// A cost of the task while other threads of its core may be busy.
    #[inline(never)]
    fn slowed(&self, task: u16, cost: Time) -> Time {
        let cpu = usize::from(self.tasks[usize::from(task)].cpu);
        let slower = self.cpus[cpu].slower_per_mille;
        if slower != 1000 && self.shares_core(cpu) { cost * slower / 1000 } else { cost }
    }

    /// Whether another thread of the core is busy, and not just pausing.
    fn shares_core(&self, cpu: usize) -> bool {
        let siblings = self.cpus[cpu].siblings.iter();
        let mut tasks = siblings.filter_map(|&other| self.cpus[usize::from(other)].current);
        tasks.any(|task| !self.tasks[usize::from(task)].pauses())
    }

    /// A random time from half to one and a half of this one, for what the system does. Were it
    /// always the same, tasks would fall into step, and some would lose their CPU each time before
    /// they have done anything.
    fn jittered(&mut self, time: Time) -> Time {
        time / 2 + time * Time::from(below(&mut self.random, 1024)) / 1024
    }

    /// Advances simulated time until a task continues, and returns that task. `None` where no
    /// event is left, or the time is over.
    pub fn advance(&mut self) -> Option<u16> {
        while let Some(event) = self.queue.pop() {
            if let Some(task) = self.dispatch(event) {
                return Some(task);
            }
        }
        None
    }

    /// Handles an event; returns the task that continues, if one does. The targets of events are
    /// numbered: first tasks, then the store buffers of tasks, the timers of CPUs, interrupts, and noise.
    fn dispatch(&mut self, event: QueuedEvent) -> Option<u16> {
        self.lines.passed(event.time);
        let target = usize::from(event.target());
        let (tasks, cpus) = (self.tasks.len(), self.cpus.len());
        if target < tasks {
            let task = event.target();
            return self.task_due(task, event.sequence(), event.time).then_some(task);
        }
        if target < 2 * tasks {
            self.store_due((target - tasks) as u16, event.time);
            return None;
        }
        if target < 2 * tasks + cpus {
            self.timer_due(target - 2 * tasks, event.time);
            return None;
        }
        let number = target - 2 * tasks - cpus;
        let handlers = tasks - self.task_count;
        if number < handlers {
            return self.interrupt_due(number, event.time);
        }
        self.noise_due(number - handlers, event.time);
        None
    }

    fn store_event(&self, task: u16) -> u16 {
        self.tasks.len() as u16 + task
    }

    fn timer_event(&self, cpu: usize) -> u16 {
        (2 * self.tasks.len() + cpu) as u16
    }

    /// The target of an interrupt of the CPU of this number.
    fn interrupt_event(&self, number: usize) -> u16 {
        (2 * self.tasks.len() + self.cpus.len() + number) as u16
    }

    /// Handles an event of a task; returns whether the task continues.
    fn task_due(&mut self, task: u16, sequence: u64, now: Time) -> bool {
        let this = &mut self.tasks[usize::from(task)];
        if this.event != sequence {
            return false;
        }
        this.event = 0;
        this.leave(&mut self.invariants);
        match this.state {
            TaskState::Running => true,
            TaskState::Requesting(request) => match self.issue_request(task, request) {
                None => false,
                granted => {
                    self.tasks[usize::from(task)].granted = granted;
                    true
                }
            },
            TaskState::Waiting(wait) => {
                self.stop_waiting(task, wait);
                if now < wait.deadline {
                    self.exit_while_waiting(task, wait, now);
                    return false;
                }
                let this = &mut self.tasks[usize::from(task)];
                let now = now.max(this.time);
                (this.seen, this.state, this.time) = (None, TaskState::Running, now);
                this.book(TimeRow::Spinning, now);
                true
            }
            TaskState::Rechecking(wait) => {
                if !self.recheck(task, wait, now) {
                    self.wait(task, wait);
                }
                false
            }
            TaskState::FallingAsleep { offset } => {
                self.fall_asleep(task, offset);
                false
            }
            state => unreachable!("task {task} is due and {state:?}"),
        }
    }

    /// Lets the task continue at its time.
    fn resume(&mut self, task: u16, resume: Resume) {
        let this = &mut self.tasks[usize::from(task)];
        this.state = match resume {
            Resume::Continue(remaining, row) => {
                this.time += remaining;
                this.book(row, this.time);
                TaskState::Running
            }
            Resume::Recheck(wait) => TaskState::Rechecking(wait),
            Resume::HandleInterrupt => {
                (this.interrupted, this.interrupt_arrived) = (Some(Resume::HandleInterrupt), true);
                TaskState::Running
            }
        };
        let due = this.time;
        self.schedule(task, due);
    }

    /// Sends an interrupt to the CPUs of these numbers.
    pub fn send_ipi(&mut self, sender: u16, numbers: impl Iterator<Item = usize>) {
        self.spend(sender, TimeRow::Sending, self.costs.interrupt_send);
        let now = self.tasks[usize::from(sender)].time;
        for number in numbers {
            self.queue.push(now + self.costs.interrupt_delivery, self.interrupt_event(number));
        }
    }

    /// Handles an interrupt of the CPU of this number; returns the task that takes it, if one
    /// takes it now.
    fn interrupt_due(&mut self, number: usize, now: Time) -> Option<u16> {
        let task = match self.preemption {
            Preemption::BetweenOperations => self.cpus[number].current,
            Preemption::Anywhere => Some(number as u16).filter(|&task| {
                !matches!(
                    self.tasks[usize::from(task)].state,
                    TaskState::Asleep { .. } | TaskState::Ended
                )
            }),
        };
        let Some(task) = task else {
            self.interrupt_idle_cpu((self.task_count + number) as u16, now);
            return None;
        };
        let this = &self.tasks[usize::from(task)];
        let (cpu, event) = (this.cpu.into(), self.interrupt_event(number));
        if !matches!(this.state, TaskState::Ready(_)) && self.waits_for_noise(cpu, event, now) {
            return None;
        }
        let this = &mut self.tasks[usize::from(task)];
        if this.irqs_off_depth > 0 || this.interrupted.is_some() {
            this.interrupt_pending = true;
            return None;
        }
        if let TaskState::Waiting(wait) = this.state {
            this.book(TimeRow::Spinning, now);
            self.stop_waiting(task, wait);
        }
        let this = &mut self.tasks[usize::from(task)];
        let resume = match this.state {
            TaskState::Running | TaskState::Requesting(_) => this.stop(now),
            TaskState::Waiting(wait) | TaskState::Rechecking(wait) => {
                (this.time, this.event) = (now.max(this.time), 0);
                Resume::Recheck(wait)
            }
            // It has no CPU, or is about to leave it, and takes the interrupt once that is over.
            _ => {
                this.interrupt_pending = true;
                return None;
            }
        };
        this.state = TaskState::Running;
        (this.interrupted, this.interrupt_arrived) = (Some(resume), true);
        Some(task)
    }

    /// Whether the task continues because of an interrupt; resets that.
    pub fn take_interrupt(&mut self, task: u16) -> bool {
        std::mem::take(&mut self.tasks[usize::from(task)].interrupt_arrived)
    }

    /// Wakes the interrupt handler of a CPU without a task.
    fn interrupt_idle_cpu(&mut self, handler: u16, now: Time) {
        let this = &mut self.tasks[usize::from(handler)];
        if this.state == TaskState::Ended {
            this.time = this.time.max(now);
            this.book(TimeRow::Asleep, now);
            self.make_ready(handler, Resume::HandleInterrupt, now, 0);
        } else {
            this.interrupt_pending = true;
        }
    }

    /// Ends the handling of an interrupt; returns whether another one has come in between.
    pub fn end_interrupt(&mut self, task: u16) -> bool {
        let this = &mut self.tasks[usize::from(task)];
        if std::mem::take(&mut this.interrupt_pending) {
            return true;
        }
        match this.interrupted.take() {
            Some(Resume::HandleInterrupt) => self.leave_cpu(task, TaskState::Ended),
            Some(resume) => self.resume(task, resume),
            // It came in a section with interrupts off, at whose end the task continues directly.
            None => (),
        }
        false
    }

    /// Books what each task was doing when the time was over.
    pub fn close_accounts(&mut self) {
        let end = self.window.1;
        for task in &mut self.tasks {
            let row = match task.state {
                TaskState::Running | TaskState::Requesting(_) => TimeRow::Local,
                TaskState::Waiting(_) | TaskState::Rechecking(_) => TimeRow::Spinning,
                TaskState::FallingAsleep { .. } => TimeRow::System,
                TaskState::Ready(_) => TimeRow::Ready,
                TaskState::Asleep { .. } | TaskState::Ended => TimeRow::Asleep,
            };
            task.book(row, end);
        }
    }
}

fn base(region: &Region) -> usize {
    region.start() as usize
}
