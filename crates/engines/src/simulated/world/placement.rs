//! Where tasks are put that are not pinned: which CPU a task gets that wakes, and what a CPU takes
//! that has nothing to do.
//!
//!     woken ──> its last CPU, or that of its waker, if fewer want it
//!                 └─ somebody has it ──> an idle one of the same node, if there is one
//!     idle ──┬─ as a rule for long ──> takes a task that has waited for another CPU for long
//!            └─ after a tick ──> takes one that waits for another CPU
//!
//! As the fair scheduler of Linux 2.6.38 to 3.x does (kernel/sched/fair.c: wake_affine,
//! select_idle_sibling, idle_balance, can_migrate_task, nohz_balancer_kick).
//!
//! Differs from it: the CPUs of a node share their last cache, all tasks weigh the same, and CPUs
//! that all have something to do do not balance.

use super::World;
use crate::simulated::tasks::Task;
use crate::simulated::{NS, Setup, Time};

/// Who ran so recently still has its data in the caches of its CPU; a CPU that does not idle for so
/// long takes nobody's tasks (sysctl_sched_migration_cost).
const IS_WARM: Time = 500_000 * NS;

/// How many more may want the CPU of the waker than the last one of who is woken, in percent of
/// these: half of imbalance_pct of a domain, above 100.
const IMBALANCE: usize = 112;

/// When an idle CPU takes part in the work of others, if it is idle still: with 1000 ticks a second.
const TICK: Time = 1_000_000 * NS;

/// Where tasks may be put.
#[derive(Clone, Debug)]
pub struct Places {
    cpus: Vec<u16>,
    /// The node of each CPU of the host.
    nodes: Vec<u16>,
}

impl Places {
    pub fn new(setup: &Setup) -> Places {
        let cpus = setup.places.iter().map(|&cpu| cpu as u16).collect();
        Places { cpus, nodes: setup.host.cpus.iter().map(|cpu| cpu.node).collect() }
    }

    fn node(&self, cpu: u16) -> u16 {
        self.nodes[usize::from(cpu)]
    }
}

/// How long a CPU idles.
#[derive(Clone, Copy, Debug)]
pub struct Idling {
    since: Time,
    /// As a rule.
    lasts: Time,
}

impl Default for Idling {
    fn default() -> Idling {
        Idling { since: 0, lasts: 2 * IS_WARM }
    }
}

impl Idling {
    /// It is over.
    pub fn ends(&mut self, now: Time) {
        let lasted = now.saturating_sub(self.since);
        self.lasts = match lasted > 2 * IS_WARM {
            true => 2 * IS_WARM,
            false => self.lasts - self.lasts / 8 + lasted / 8,
        };
    }
}

impl World {
    /// A task that wakes gets a CPU.
    pub(super) fn place(&mut self, task: u16, waker: u16) {
        if let Some(places) = &self.places {
            let last = self.tasks[usize::from(task)].cpu;
            let cpu = self.cpu_for(places, last, self.tasks[usize::from(waker)].cpu);
            self.put_on(task, cpu);
        }
    }

    /// The CPU for a task that was on `last` and is woken from `here`.
    fn cpu_for(&self, places: &Places, last: u16, here: u16) -> u16 {
        let comes = 100 * (self.wanted_by(here) + 1) <= IMBALANCE * self.wanted_by(last);
        let target = if comes { here } else { last };
        if self.idles(target) {
            return target;
        }
        let near = |cpu: &u16| places.node(*cpu) == places.node(target) && self.idles(*cpu);
        let idle = places.cpus.iter().copied().filter(near);
        // Its last one, then one whose core idles.
        let least = idle.min_by_key(|&cpu| (cpu != last, !self.core_idles(cpu)));
        least.unwrap_or(target)
    }

    /// How many tasks have a CPU or wait for it.
    fn wanted_by(&self, cpu: u16) -> usize {
        let queue = &self.cpus[usize::from(cpu)];
        queue.ready.len() + usize::from(queue.current.is_some())
    }

    fn idles(&self, cpu: u16) -> bool {
        self.wanted_by(cpu) == 0
    }

    fn core_idles(&self, cpu: u16) -> bool {
        self.cpus[usize::from(cpu)].siblings.iter().all(|&other| self.idles(other))
    }

    /// The task goes to another CPU, ahead or behind there by as much as it was.
    fn put_on(&mut self, task: u16, cpu: u16) {
        let who = &mut self.tasks[usize::from(task)];
        let before = self.cpus[usize::from(who.cpu)].least;
        who.had = (who.had + self.cpus[usize::from(cpu)].least).saturating_sub(before);
        who.cpu = cpu;
    }

    /// A CPU has nothing to do; a task that it takes from another one.
    pub(super) fn has_nothing(&mut self, cpu: usize, now: Time) -> Option<u16> {
        self.places.as_ref()?;
        let idling = &mut self.cpus[cpu].idling;
        idling.since = now;
        let taken = match idling.lasts < IS_WARM {
            true => None,
            false => self.takes(cpu, |waiting| waiting.time + IS_WARM <= now),
        };
        if taken.is_none() {
            self.somebody_waits(now);
        }
        taken
    }

    /// A task may have to wait for its CPU while another one idles, which will notice.
    pub(super) fn somebody_waits(&mut self, now: Time) {
        let Some(places) = &self.places else { return };
        let idle = places
            .cpus
            .iter()
            .map(|&cpu| usize::from(cpu))
            .find(|&cpu| self.idles(cpu as u16) && self.cpus[cpu].rings <= now);
        let waits = |&cpu: &u16| !self.cpus[usize::from(cpu)].ready.is_empty();
        if let Some(cpu) = idle
            && places.cpus.iter().any(waits)
        {
            self.cpus[cpu].rings = now + TICK;
            self.queue.push(now + TICK, self.clock_of(cpu));
        }
    }

    /// The clock of an idle CPU rings.
    pub(super) fn looks_for_work(&mut self, cpu: usize, now: Time) {
        if let Some(task) = self.takes(cpu, |_| true) {
            self.cpus[cpu].idling.ends(now);
            let switch = self.about(self.costs.switch);
            self.run(task, now, switch);
            self.somebody_waits(now);
        }
    }

    /// The CPU takes a task that waits for another one, the nearest, and of these the one that most
    /// wait for.
    fn takes(&mut self, cpu: usize, which: impl Fn(&Task) -> bool) -> Option<u16> {
        let places = self.places.as_ref()?;
        let may_go = |task: &u16| which(&self.tasks[usize::from(*task)]);
        let busy = places.cpus.iter().filter_map(|&other| {
            let ready = &self.cpus[usize::from(other)].ready;
            Some((other, ready.iter().position(may_go)?, ready.len()))
        });
        let is_near = |other| places.node(other) == places.node(cpu as u16);
        let (other, at, _) = busy.max_by_key(|&(other, _, all)| (is_near(other), all))?;
        let task = self.cpus[usize::from(other)].ready.remove(at)?;
        self.put_on(task, cpu as u16);
        Some(task)
    }
}
