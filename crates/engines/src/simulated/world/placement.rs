//! Placement of tasks that are not pinned: which CPU a woken task gets, and which task an idle
//! CPU takes.
//!
//!     woken ──> its last CPU, or that of its waker, if fewer tasks want it
//!                 └─ it is busy ──> an idle CPU of the same node, if there is one
//!     idle ──┬─ as a rule for long ──> takes a task that has waited for another CPU for long
//!            └─ after a tick ──> takes a task that waits for another CPU
//!
//! As in the fair scheduler of Linux 2.6.38 to 3.x (kernel/sched/fair.c: wake_affine,
//! select_idle_sibling, idle_balance, can_migrate_task, nohz_balancer_kick).
//!
//! Differs from it: the CPUs of a node share their last-level cache, all tasks have the same
//! weight, and CPUs that are all busy do not balance.

use super::World;
use crate::simulated::idle::MIGRATION_COST;
use crate::simulated::tasks::SimulatedTask;
use crate::simulated::{NS, Setup, Time};

/// The load of the waker's CPU, in percent of that of the woken task's last CPU, up to which the
/// task moves to the waker: half of a domain's `imbalance_pct`, above 100.
const IMBALANCE_PERCENT: usize = 112;

/// How long a CPU is idle before it balances: one tick of 1000 a second.
const TICK: Time = 1_000_000 * NS;

/// The CPUs that tasks may be placed on.
#[derive(Clone, Debug)]
pub struct AllowedCpus {
    cpus: Vec<u16>,
    /// The node of each CPU of the host.
    nodes: Vec<u16>,
}

impl AllowedCpus {
    pub fn new(setup: &Setup) -> AllowedCpus {
        let cpus = setup.cpus.iter().map(|&cpu| cpu as u16).collect();
        AllowedCpus { cpus, nodes: setup.host.cpus.iter().map(|cpu| cpu.node).collect() }
    }

    fn node(&self, cpu: u16) -> u16 {
        self.nodes[usize::from(cpu)]
    }
}

impl World {
    /// Selects a CPU for a task that wakes, and moves the task there.
    pub(super) fn place(&mut self, task: u16, waker: u16) {
        if let Some(allowed) = &self.allowed_cpus {
            let last = self.tasks[usize::from(task)].cpu;
            let cpu = self.select_cpu(allowed, last, self.tasks[usize::from(waker)].cpu);
            self.migrate(task, cpu);
        }
    }

    /// The CPU for a task that was on `last` and is woken from `here`.
    fn select_cpu(&self, allowed: &AllowedCpus, last: u16, here: u16) -> u16 {
        let limit = IMBALANCE_PERCENT * self.runnable_on(last);
        let moves_here = 100 * (self.runnable_on(here) + 1) <= limit;
        let target = if moves_here { here } else { last };
        if self.is_idle(target) {
            return target;
        }
        let is_near = |cpu: &u16| allowed.node(*cpu) == allowed.node(target) && self.is_idle(*cpu);
        let idle = allowed.cpus.iter().copied().filter(is_near);
        // Its last CPU first, then one on an idle core.
        let best = idle.min_by_key(|&cpu| (cpu != last, !self.core_is_idle(cpu)));
        best.unwrap_or(target)
    }

    /// How many tasks have the CPU or wait for it.
    fn runnable_on(&self, cpu: u16) -> usize {
        let queue = &self.cpus[usize::from(cpu)];
        queue.ready.len() + usize::from(queue.current.is_some())
    }

    fn is_idle(&self, cpu: u16) -> bool {
        self.runnable_on(cpu) == 0
    }

    fn core_is_idle(&self, cpu: u16) -> bool {
        self.cpus[usize::from(cpu)].siblings.iter().all(|&other| self.is_idle(other))
    }

    /// Moves the task to another CPU; its `vruntime` keeps its distance from the minimum there.
    fn migrate(&mut self, task: u16, cpu: u16) {
        let this = &mut self.tasks[usize::from(task)];
        let before = self.cpus[usize::from(this.cpu)].min_vruntime;
        let after = self.cpus[usize::from(cpu)].min_vruntime;
        this.vruntime = (this.vruntime + after).saturating_sub(before);
        this.cpu = cpu;
    }

    /// A CPU becomes idle; returns the task that it takes from another CPU, if it takes one.
    pub(super) fn newly_idle(&mut self, cpu: usize, now: Time) -> Option<u16> {
        self.allowed_cpus.as_ref()?;
        let idle_time = &mut self.cpus[cpu].idle_time;
        idle_time.since = now;
        let is_short = idle_time.average < MIGRATION_COST;
        let has_waited_long = |task: &SimulatedTask| task.time + MIGRATION_COST <= now;
        let taken = if is_short { None } else { self.take_task(cpu, has_waited_long) };
        if taken.is_none() {
            self.start_idle_timer(now);
        }
        taken
    }

    /// If a task waits for its CPU while another CPU is idle, starts the timer of the idle one.
    pub(super) fn start_idle_timer(&mut self, now: Time) {
        let Some(allowed) = &self.allowed_cpus else { return };
        let idle = allowed
            .cpus
            .iter()
            .map(|&cpu| usize::from(cpu))
            .find(|&cpu| self.is_idle(cpu as u16) && self.cpus[cpu].timer <= now);
        let has_waiting = |&cpu: &u16| !self.cpus[usize::from(cpu)].ready.is_empty();
        if let Some(cpu) = idle
            && allowed.cpus.iter().any(has_waiting)
        {
            self.cpus[cpu].timer = now + TICK;
            self.queue.push(now + TICK, self.timer_event(cpu));
        }
    }

    /// The timer of an idle CPU fires: it takes a task from another CPU, if it can.
    pub(super) fn balance_idle(&mut self, cpu: usize, now: Time) {
        if let Some(task) = self.take_task(cpu, |_| true) {
            self.cpus[cpu].idle_time.ends(now);
            let switch = self.jittered(self.costs.switch);
            self.run(task, now, switch);
            self.start_idle_timer(now);
        }
    }

    /// Moves a task that waits for another CPU to this one. The other CPU is on the same node if
    /// possible, and then the one that most tasks wait for.
    fn take_task(&mut self, cpu: usize, may_move: impl Fn(&SimulatedTask) -> bool) -> Option<u16> {
        let allowed = self.allowed_cpus.as_ref()?;
        let can_move = |task: &u16| may_move(&self.tasks[usize::from(*task)]);
        let busy = allowed.cpus.iter().filter_map(|&other| {
            let ready = &self.cpus[usize::from(other)].ready;
            Some((other, ready.iter().position(can_move)?, ready.len()))
        });
        let is_near = |other| allowed.node(other) == allowed.node(cpu as u16);
        let (other, index, _) =
            busy.max_by_key(|&(other, _, waiting)| (is_near(other), waiting))?;
        let task = self.cpus[usize::from(other)].ready.remove(index)?;
        self.migrate(task, cpu as u16);
        Some(task)
    }
}
