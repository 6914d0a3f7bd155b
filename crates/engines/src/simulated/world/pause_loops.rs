//! Virtual CPUs that spin: the processor notices it, and their host lets one run that may have what
//! they wait for.
//!
//!     spins ── window ──> leaves its guest ── exit ──> another one that has no CPU gets it;
//!                                                      it makes way on its own CPU, if others wait
//!
//! Who is chosen is the next, by number, after the one that was last, of those that are ready to
//! run; one that made way for spinning itself is passed over each second time. Nobody knows who
//! holds a lock. As KVM does (Linux 3.6 and later, virt/kvm/kvm_main.c: kvm_vcpu_on_spin,
//! kvm_vcpu_eligible_for_directed_yield), and yield_to of its scheduler.
//!
//! Differs from it: the window does not grow. Pauses longer than it end before they are noticed.

use super::World;
use crate::simulated::ledger::Row;
use crate::simulated::tasks::{Doing, Then, Watch};
use crate::simulated::{Options, PauseLoop, Preemption, Setup, Time};

/// Who spins, of virtual CPUs.
#[derive(Clone, Debug)]
pub struct PauseLoops {
    found: PauseLoop,
    exit: Time,
    /// By task.
    spins: Vec<Spin>,
    /// Who was chosen last.
    last: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spin {
    /// Since when it does nothing but pause, and when it last did.
    since: Time,
    paused: Time,
    /// It made way for spinning, and has no CPU since.
    made_way: bool,
    /// It is taken next time.
    passed_over: bool,
}

impl PauseLoops {
    /// Nothing where spinning is not noticed.
    pub fn new(setup: &Setup, options: &Options) -> Option<PauseLoops> {
        let guest = setup.host.guest.filter(|_| options.preemption == Preemption::Anywhere)?;
        let found = guest.pause_loop?;
        let spins = vec![Spin::default(); setup.tasks];
        Some(PauseLoops { found, exit: guest.exit, spins, last: 0 })
    }

    /// The task has got a CPU.
    pub fn runs(&mut self, task: u16) {
        if let Some(spin) = self.spins.get_mut(usize::from(task)) {
            (spin.made_way, spin.passed_over) = (false, false);
        }
    }

    /// Whether the task, which is ready, may be chosen now.
    fn takes(&mut self, task: usize) -> bool {
        let spin = &mut self.spins[task];
        let takes = !spin.made_way || spin.passed_over;
        spin.passed_over = spin.made_way && !spin.passed_over;
        takes
    }
}

impl World {
    /// When the task, which waits for a word from now on, leaves its guest for that.
    pub(super) fn leaves_guest_at(&self, task: u16) -> Time {
        let now = self.tasks[usize::from(task)].time;
        // When all is over, nobody waits who waits for ever.
        let loops = self.pause_loops.as_ref().filter(|_| now < self.window.1);
        loops.map_or(Time::MAX, |loops| now + loops.found.window)
    }

    /// The task has paused for so long up to its time; whether it leaves its guest.
    pub fn has_paused(&mut self, task: u16, paused: Time) -> bool {
        let now = self.tasks[usize::from(task)].time;
        let Some(loops) = &mut self.pause_loops else { return false };
        let spin = &mut loops.spins[usize::from(task)];
        if now - paused >= spin.paused + loops.found.gap {
            spin.since = now - paused;
        }
        spin.paused = now;
        let leaves = now - spin.since >= loops.found.window;
        if leaves {
            spin.since = now;
        }
        leaves
    }

    /// The task has paused for long; whether it has to wait for a CPU.
    pub fn paused_for_long(&mut self, task: u16) -> bool {
        self.leaves_guest(task, super::NOW)
    }

    /// The task has waited for a word for long, up to now.
    pub(super) fn watched_for_long(&mut self, task: u16, watch: Watch, now: Time) {
        let who = &mut self.tasks[usize::from(task)];
        who.time = who.time.max(now);
        who.book(Row::Spinning, who.time);
        let then = Then::Look(watch);
        if !self.leaves_guest(task, then) {
            self.go_on(task, then);
        }
    }

    /// The task, which runs, leaves its guest: another one may run; whether it has to make way.
    fn leaves_guest(&mut self, task: u16, then: Then) -> bool {
        let Some(loops) = &self.pause_loops else { return false };
        let exit = loops.exit;
        let exit = self.about(exit);
        self.spend(task, Row::System, exit);
        let Some(chosen) = self.choose(task) else { return false };
        let now = self.tasks[usize::from(task)].time;
        let [own, other] =
            [task, chosen].map(|task| usize::from(self.tasks[usize::from(task)].cpu));
        self.cpus[other].favoured = Some(chosen);
        if own != other {
            self.cpus[other].called = true;
            self.set_timer(other, now);
        }
        let queue = &mut self.cpus[own];
        // Not itself, though it may have had the CPU for the shortest time.
        queue.favoured = queue.favoured.or(queue.ready.front().copied());
        let makes_way = !queue.ready.is_empty();
        if makes_way {
            self.give_way(task, then);
            if let Some(loops) = &mut self.pause_loops {
                loops.spins[usize::from(task)].made_way = true;
            }
        }
        makes_way
    }

    /// Who should run because this one spins.
    fn choose(&mut self, spinner: u16) -> Option<u16> {
        let loops = self.pause_loops.as_mut()?;
        let (count, last) = (loops.spins.len(), loops.last);
        for task in (1..=count).map(|i| (last + i) % count) {
            let is_ready = matches!(self.tasks[task].doing, Doing::Ready(_));
            if task != usize::from(spinner) && is_ready && loops.takes(task) {
                loops.last = task;
                return Some(task as u16);
            }
        }
        None
    }
}
