//! Random schedules for more tasks than can be searched: probabilistic concurrency testing
//! (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010). Tasks have random priorities, and the
//! enabled task of the highest priority takes the next step. At `depth - 1` random steps that
//! task falls below all others. Each schedule finds a bug that needs `depth` ordering
//! constraints, in n tasks of together k steps, with a probability of at least
//! 1/(n·k^(depth-1)). Every other schedule has as many random steps as there may be, for faults that are deeper than
//! anybody thought.
//!
//! Strict priorities are unfair: a task of a high one that spins keeps those that it waits for from their steps for ever. So a
//! task falls below all others once it has taken many steps in a row, or another one has waited for long; and a schedule that
//! does not end goes on with steps of random tasks, so that "never ends" is no fault of the scheduler.

use std::collections::HashSet;
use std::io;

use super::failure::{Failure, Fault};
use super::harness::{Harness, copy_region, explain_failure, restore_region, with_harness};
use super::hash::mix;
use super::schedule::{FLUSH, Schedule, Turn};
use super::state::SystemState;
use super::{Options, Setup, TASKS_MAX};
use crate::steppable::SavedStack;

/// Steps in a row after which a task falls below all others: it may be spinning.
const STEPS_IN_A_ROW_MAX: usize = 100;

/// How often a task can be passed over in a step that it could take.
const WAIT_MAX: usize = 1000;

/// Steps after which random tasks take steps: each task takes some sooner or later.
const FAIR_AFTER: usize = 20_000;

/// Steps after which a schedule counts as endless.
const STEPS_MAX: usize = 100_000;

/// Schedules that are told apart; further ones are not counted as distinct.
const DISTINCT_MAX: usize = 10_000_000;

/// Change points of a schedule, and of every second one, whatever the depth.
const CHANGES_MAX: usize = 7;

/// The priority that tasks fall to: just above it at change points, below it when they spin.
const LOWEST: u64 = 1 << 32;

/// The result of sampling.
#[derive(Clone, Debug)]
pub struct SampleResult {
    /// Schedules tried.
    pub schedules: u64,
    /// Steps taken.
    pub steps: u64,
    /// What the schedules cover.
    pub coverage: Coverage,
    /// The first fault found, and the interleaving that leads to it.
    pub failure: Option<Failure>,
}

/// What sampled schedules cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Schedules that differ in some step.
    pub distinct: u64,
    /// The most ordering constraints of a fault that the schedules look for.
    pub depth: u32,
    /// What takes turns: tasks, and their store buffers.
    pub players: u64,
    /// Steps of the longest schedule, up to where a task spins, if one does.
    pub longest: u64,
    /// Schedules of the depth since that length was known: only their change points lie anywhere in it.
    pub guaranteed: u64,
}

impl Coverage {
    /// The probability of missing a fault that this many ordering constraints lead to, at most: a schedule finds it with one
    /// of 1/(n·k^(depth-1)) or more.
    pub fn missed_at_most(&self, depth: u32) -> f64 {
        let one_in = self.players as f64 * (self.longest as f64).powi(depth as i32 - 1);
        (self.guaranteed as f64 * (-1.0 / one_in.max(1.0)).ln_1p()).exp()
    }
}

/// Tries this many random schedules, other ones for each seed.
pub fn sample(
    setup: &Setup,
    options: &Options,
    schedules: u64,
    depth: usize,
    seed: u64,
) -> io::Result<SampleResult> {
    let each_step = Options { reduction: false, ..*options };
    let (mut sampled, fault) = with_harness(setup, &each_step, |harness| {
        let mut sampler = Sampler::new(harness, depth, seed);
        let fault = (0..schedules).find_map(|_| sampler.schedule());
        let coverage = sampler.coverage();
        let Sampler { schedules, steps, schedule, .. } = sampler;
        let fault = fault.map(|fault| (fault, Schedule(schedule)));
        let ahead = harness.world.borrow().layout.ahead.clone();
        (
            SampleResult { schedules, steps, coverage, failure: None },
            fault.map(|fault| (fault, ahead)),
        )
    })?;
    if let Some(((fault, schedule), ahead)) = fault {
        sampled.failure = Some(explain_failure(setup, options, fault, schedule, &ahead));
    }
    Ok(sampled)
}

struct Sampler<'s, 'a> {
    harness: &'s mut Harness<'a>,
    start: SystemState,
    stacks: Vec<SavedStack>,
    memory: Vec<u64>,
    depth: usize,
    random: u64,
    /// The longest schedule so far: change points lie within it.
    longest: usize,
    /// Schedules of the depth since it became the longest.
    guaranteed: u64,
    /// Hashes of schedules.
    distinct: HashSet<u64>,
    /// How often each player could have taken a turn since its last one.
    passed_over: [usize; 2 * TASKS_MAX],
    turns: Vec<Turn>,
    schedule: Vec<Turn>,
    schedules: u64,
    steps: u64,
}

impl<'s, 'a> Sampler<'s, 'a> {
    fn new(harness: &'s mut Harness<'a>, depth: usize, seed: u64) -> Self {
        let mut start = SystemState::default();
        start.clone_from(&harness.world.borrow().state);
        let mut stacks = vec![SavedStack::default(); start.tasks.len()];
        for (task, saved) in stacks.iter_mut().enumerate() {
            if !start.tasks[task].ended {
                harness.save(task, saved);
            }
        }
        let memory = copy_region(harness.setup.region);
        let random = seed.wrapping_mul(2).wrapping_add(1);
        let (turns, schedule) = (Vec::new(), Vec::new());
        let (longest, guaranteed, schedules, steps) = (1, 0, 0, 0);
        Sampler {
            harness,
            start,
            stacks,
            memory,
            depth,
            random,
            longest,
            guaranteed,
            distinct: HashSet::new(),
            passed_over: [0; 2 * TASKS_MAX],
            turns,
            schedule,
            schedules,
            steps,
        }
    }

    fn coverage(&self) -> Coverage {
        let tasks = self.start.tasks.len() as u64;
        let has_buffers = self.harness.world.borrow().has_buffers;
        Coverage {
            distinct: self.distinct.len() as u64,
            depth: self.depth() as u32,
            players: if has_buffers { 2 * tasks } else { tasks },
            longest: self.longest as u64,
            guaranteed: self.guaranteed,
        }
    }

    fn depth(&self) -> usize {
        self.depth.clamp(1, CHANGES_MAX + 1)
    }

    /// The depth of the schedule that is tried.
    fn depth_now(&self) -> usize {
        if self.schedules.is_multiple_of(2) { CHANGES_MAX + 1 } else { self.depth() }
    }

    /// Tries one schedule from the start to its end.
    fn schedule(&mut self) -> Option<Fault> {
        if self.harness.world.borrow().grown {
            return None;
        }
        self.restore_start();
        self.schedules += 1;
        self.guaranteed += u64::from(self.depth_now() == self.depth());
        self.schedule.clear();
        self.passed_over.fill(0);
        let mut priorities = Priorities::new(self);
        for step in 1..=STEPS_MAX {
            self.harness.world.borrow().turns(&mut self.turns);
            if self.turns.is_empty() {
                self.note_length(priorities.spins_since.unwrap_or(step));
                return self.harness.fault_of_stopped(&self.turns);
            }
            if let Some(fault) = self.harness.fault_of_stopped(&self.turns) {
                return Some(fault);
            }
            let turn = if step < FAIR_AFTER {
                let player = priorities.next(step, self);
                self.random_turn_of(player)
            } else {
                let turn = self.below(self.turns.len());
                self.turns[turn]
            };
            self.schedule.push(turn);
            self.steps += 1;
            self.harness.take_turn(turn);
            let world = self.harness.world.borrow();
            if world.grown || world.fault.is_some() {
                return world.fault.clone().filter(|_| !world.grown);
            }
        }
        Some(Fault::Endless(format!(
            "a schedule has not ended after {STEPS_MAX} steps, the last {} of random tasks",
            STEPS_MAX - FAIR_AFTER
        )))
    }

    /// Notes a schedule that has ended, of this many steps.
    fn note_length(&mut self, steps: usize) {
        if steps > self.longest {
            (self.longest, self.guaranteed) = (steps, 0);
        }
        if self.distinct.len() < DISTINCT_MAX {
            let turn = |&(task, alternative): &Turn| u64::from(task) << 8 | u64::from(alternative);
            self.distinct.insert(self.schedule.iter().map(turn).fold(0, mix));
        }
    }

    /// Notes which players could take this step, and which does. Returns whether one has been passed over for too long.
    fn is_unfair(&mut self, taken: usize) -> bool {
        let mut can = [false; 2 * TASKS_MAX];
        self.turns.iter().for_each(|&turn| can[player(turn)] = true);
        for (passed, can) in self.passed_over.iter_mut().zip(can) {
            *passed += usize::from(can);
        }
        self.passed_over[taken] = 0;
        self.passed_over.iter().any(|&passed| passed >= WAIT_MAX)
    }

    fn restore_start(&mut self) {
        self.harness.world.borrow_mut().state.clone_from(&self.start);
        restore_region(self.harness.setup.region, &self.memory);
        for (task, saved) in self.stacks.iter().enumerate() {
            if !self.start.tasks[task].ended {
                self.harness.restore(task, saved);
            }
        }
    }

    fn random_turn_of(&mut self, chosen: usize) -> Turn {
        let count = self.turns.iter().filter(|&&turn| player(turn) == chosen).count();
        let index = if count > 1 { self.below(count) } else { 0 };
        let mut turns = self.turns.iter().filter(|&&turn| player(turn) == chosen);
        *turns.nth(index).expect("an index below the count")
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Xorshift*, which has a period of 2⁶⁴-1 (Vigna 2016).
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The priorities of one schedule.
struct Priorities {
    of: [u64; 2 * TASKS_MAX],
    /// The steps at which the highest falls.
    changes: [usize; CHANGES_MAX],
    last: usize,
    in_a_row: usize,
    lowest: u64,
    /// The first step at which a task fell because it spins.
    spins_since: Option<usize>,
}

impl Priorities {
    /// Random ones, above those that tasks fall to at change points. Store buffers have priorities too: they take turns in
    /// which a store becomes visible.
    fn new(sampler: &mut Sampler) -> Priorities {
        let of = std::array::from_fn(|_| 2 * LOWEST + (sampler.next() >> 8));
        let mut changes = [0; CHANGES_MAX];
        for change in &mut changes[..sampler.depth_now() - 1] {
            *change = sampler.below(sampler.longest) + 1;
        }
        let (last, in_a_row, lowest) = (usize::MAX, 0, LOWEST);
        Priorities { of, changes, last, in_a_row, lowest, spins_since: None }
    }

    /// Who takes this step.
    fn next(&mut self, step: usize, sampler: &mut Sampler) -> usize {
        if let Some(change) = self.changes.iter().position(|&change| change == step) {
            self.of[self.highest(&sampler.turns)] = LOWEST + change as u64 + 1;
        }
        let highest = self.highest(&sampler.turns);
        self.in_a_row = if highest == self.last { self.in_a_row + 1 } else { 0 };
        self.last = highest;
        if self.in_a_row == STEPS_IN_A_ROW_MAX || sampler.is_unfair(highest) {
            self.spins_since.get_or_insert(step);
            self.lowest -= 1;
            (self.of[highest], self.in_a_row) = (self.lowest, 0);
        }
        highest
    }

    fn highest(&self, turns: &[Turn]) -> usize {
        let players = turns.iter().map(|&turn| player(turn));
        players.max_by_key(|&player| self.of[player]).expect("a turn is possible")
    }
}

/// The number of the task that takes a turn, or of its store buffer, counted behind all tasks.
fn player((task, alternative): Turn) -> usize {
    usize::from(task) + if alternative == FLUSH { TASKS_MAX } else { 0 }
}
