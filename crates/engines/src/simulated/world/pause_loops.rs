//! Pause-loop exiting: a virtual CPU that spins for long exits to its host, which lets another
//! virtual CPU run that may have what it waits for.
//!
//!     spins ── window ──> VM exit ── exit ──> a virtual CPU that is ready gets its CPU;
//!                                             the spinning one yields its own, if others wait
//!
//! Candidates are the ready virtual CPUs, in the order of their numbers, from the one after the
//! last chosen. One that yielded for spinning itself is passed over every second time. The host
//! does not know which virtual CPU holds a lock. As in KVM (Linux 3.6 and later,
//! virt/kvm/kvm_main.c: kvm_vcpu_on_spin, kvm_vcpu_eligible_for_directed_yield) and yield_to of
//! the host's scheduler.
//!
//! Differs from KVM: the window does not grow, and a pause that is longer than the window ends
//! before the exit.

use super::World;
use crate::simulated::ledger::TimeRow;
use crate::simulated::tasks::{NOW, Resume, TaskState, WordWait};
use crate::simulated::{Options, PauseLoopExiting, Preemption, Setup, Time};

/// How long each virtual CPU has been spinning.
#[derive(Clone, Debug)]
pub struct PauseLoops {
    exiting: PauseLoopExiting,
    vm_exit: Time,
    /// By task.
    spins: Vec<Spin>,
    /// The task that was chosen last.
    last_chosen: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spin {
    /// Since when the task does nothing but pause.
    since: Time,
    /// When the task last paused.
    paused: Time,
    /// The task yielded its CPU for spinning, and has had none since.
    yielded: bool,
    /// The task was passed over, and is eligible next time.
    passed_over: bool,
}

impl PauseLoops {
    /// `None` where the host has no pause-loop exiting, or tasks are no virtual CPUs.
    pub fn new(setup: &Setup, options: &Options) -> Option<PauseLoops> {
        let guest = setup.host.guest.filter(|_| options.preemption == Preemption::Anywhere)?;
        let exiting = guest.pause_loop_exiting?;
        let spins = vec![Spin::default(); setup.tasks];
        Some(PauseLoops { exiting, vm_exit: guest.vm_exit, spins, last_chosen: 0 })
    }

    /// Notes that the task has got a CPU.
    pub fn runs(&mut self, task: u16) {
        if let Some(spin) = self.spins.get_mut(usize::from(task)) {
            (spin.yielded, spin.passed_over) = (false, false);
        }
    }

    /// Whether the task, which is ready, is eligible now. If it is not, it will be next time.
    fn check_eligible(&mut self, task: usize) -> bool {
        let spin = &mut self.spins[task];
        let is_eligible = !spin.yielded || spin.passed_over;
        spin.passed_over = spin.yielded && !spin.passed_over;
        is_eligible
    }
}

impl World {
    /// When the task, which begins to wait for a word now, will exit for spinning.
    pub(super) fn pause_loop_exit_at(&self, task: u16) -> Time {
        let now = self.tasks[usize::from(task)].time;
        // After the window there are no exits, so that a task that waits for ever has no events.
        let loops = self.pause_loops.as_ref().filter(|_| now < self.window.1);
        loops.map_or(Time::MAX, |loops| now + loops.exiting.window)
    }

    /// Notes that the task has paused for this long, up to its time. Returns whether it has
    /// been in a pause loop for so long that it exits.
    pub fn is_pause_loop(&mut self, task: u16, paused: Time) -> bool {
        let now = self.tasks[usize::from(task)].time;
        let Some(loops) = &mut self.pause_loops else { return false };
        let spin = &mut loops.spins[usize::from(task)];
        if now - paused >= spin.paused + loops.exiting.gap {
            spin.since = now - paused;
        }
        spin.paused = now;
        let exits = now - spin.since >= loops.exiting.window;
        if exits {
            spin.since = now;
        }
        exits
    }

    /// Exits because of a pause loop; returns whether the task lost its CPU.
    pub fn exit_for_pausing(&mut self, task: u16) -> bool {
        self.vm_exit(task, NOW)
    }

    /// Exits because the task has waited for a word for long, up to now.
    pub(super) fn exit_while_waiting(&mut self, task: u16, wait: WordWait, now: Time) {
        let this = &mut self.tasks[usize::from(task)];
        this.time = this.time.max(now);
        this.book(TimeRow::Spinning, this.time);
        let resume = Resume::Recheck(wait);
        if !self.vm_exit(task, resume) {
            self.resume(task, resume);
        }
    }

    /// A running task exits to its host, which may let another one run. Returns whether the task
    /// lost its CPU.
    fn vm_exit(&mut self, task: u16, resume: Resume) -> bool {
        let Some(loops) = &self.pause_loops else { return false };
        let exit = loops.vm_exit;
        let exit = self.jittered(exit);
        self.spend(task, TimeRow::System, exit);
        let Some(chosen) = self.choose(task) else { return false };
        let now = self.tasks[usize::from(task)].time;
        let [own, other] =
            [task, chosen].map(|task| usize::from(self.tasks[usize::from(task)].cpu));
        self.cpus[other].next_buddy = Some(chosen);
        if own != other {
            self.cpus[other].need_resched = true;
            self.set_timer(other, now);
        }
        let queue = &mut self.cpus[own];
        // Not the spinning task, even if its `vruntime` is the smallest.
        queue.next_buddy = queue.next_buddy.or(queue.ready.front().copied());
        let yields = !queue.ready.is_empty();
        if yields {
            self.preempt(task, resume);
            if let Some(loops) = &mut self.pause_loops {
                loops.spins[usize::from(task)].yielded = true;
            }
        }
        yields
    }

    /// The task that should run because another one spins.
    fn choose(&mut self, spinner: u16) -> Option<u16> {
        let loops = self.pause_loops.as_mut()?;
        let (count, last) = (loops.spins.len(), loops.last_chosen);
        for task in (1..=count).map(|i| (last + i) % count) {
            let is_ready = matches!(self.tasks[task].state, TaskState::Ready(_));
            if task != usize::from(spinner) && is_ready && loops.check_eligible(task) {
                loops.last_chosen = task;
                return Some(task as u16);
            }
        }
        None
    }
}
