//! Noise: what else takes a CPU for a while, whatever its task does: interrupts, firmware, the host of a virtual machine.
//!
//!     task ──> noise: the task stands still, and what it waits for or holds too ──> task
//!
//! Noise comes at random, independently on each CPU, and masks everything: a section with interrupts off stands still
//! too, and an interrupt waits for its end. Stores that a task has issued still take effect.

use super::World;
use crate::simulated::ledger::TimeRow;
use crate::simulated::random::{below, seeded};
use crate::simulated::tasks::{Resume, TaskState};
use crate::simulated::{Noise, Setup, Time};
use machine::exponential;

/// The noise of all CPUs.
#[derive(Clone, Debug)]
pub struct NoiseSource {
    noise: Noise,
    /// The random state. Noise has its own: so it comes at the same times whatever the tasks do.
    random: u64,
}

impl NoiseSource {
    /// The noise that this seed gives.
    pub fn new(noise: Noise, seed: u64) -> NoiseSource {
        NoiseSource { noise, random: seeded(seed, u64::MAX / 2) }
    }

    fn draw(&mut self, mean: Time) -> Time {
        exponential(mean, |bound| below(&mut self.random, bound))
    }
}

impl World {
    /// Queues the first noise of each CPU that has tasks.
    pub(super) fn start_noise(&mut self, setup: &Setup) {
        for &cpu in &setup.cpus[..setup.cpus.len().min(setup.tasks)] {
            self.queue_noise(cpu, 0);
        }
    }

    /// The target of the noise of a CPU: behind those of interrupts.
    pub(super) fn noise_event(&self, cpu: usize) -> u16 {
        self.interrupt_event(self.tasks.len() - self.task_count + cpu)
    }

    /// Queues the next noise of a CPU, if it comes within the window: a run that has nothing else to do would never end.
    fn queue_noise(&mut self, cpu: usize, now: Time) {
        let Some(source) = &mut self.noise else { return };
        let interval = source.noise.interval;
        let due = now + source.draw(interval);
        if due < self.window.1 {
            self.queue.push(due, self.noise_event(cpu));
        }
    }

    /// Takes the CPU for a while.
    pub(super) fn noise_due(&mut self, cpu: usize, now: Time) {
        let Some(source) = &mut self.noise else { return };
        let mean = source.noise.mean;
        let length = source.draw(mean);
        let end = now + length;
        self.cpus[cpu].taken_until = end;
        if let Some(task) = self.cpus[cpu].current {
            self.stand_still(task, now, length);
        }
        self.queue_noise(cpu, end);
    }

    /// Stops what the current task of a CPU does for so long.
    fn stand_still(&mut self, task: u16, now: Time, length: Time) {
        let state = self.tasks[usize::from(task)].state;
        if let TaskState::Waiting(wait) = state {
            self.tasks[usize::from(task)].book(TimeRow::Spinning, now);
            self.stop_waiting(task, wait);
        }
        let this = &mut self.tasks[usize::from(task)];
        let resume = match state {
            TaskState::Running | TaskState::Requesting(_) => Some(this.stop(now)),
            TaskState::Waiting(wait) | TaskState::Rechecking(wait) => Some(Resume::Recheck(wait)),
            TaskState::FallingAsleep { .. } => None,
            state => unreachable!("task {task} has a CPU and is {state:?}"),
        };
        this.time = this.time.max(now) + length;
        let due = this.time;
        this.book(TimeRow::Interrupted, due);
        match resume {
            Some(resume) => self.resume(task, resume),
            None => self.schedule(task, due),
        }
    }

    /// Whether noise has the CPU at this time; if so, queues the event again for its end.
    pub(super) fn waits_for_noise(&mut self, cpu: usize, target: u16, now: Time) -> bool {
        let end = self.cpus[cpu].taken_until;
        let waits = now < end;
        if waits {
            self.queue.push(end, target);
        }
        waits
    }
}
