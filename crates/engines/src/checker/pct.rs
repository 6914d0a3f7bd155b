//! Random schedules for more tasks than can be searched: probabilistic concurrency testing
//! (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010). Tasks have random priorities, and the
//! enabled task of the highest priority takes the next step. At `depth - 1` random steps that
//! task falls below all others. Each schedule finds a bug that needs `depth` ordering
//! constraints, in n tasks of together k steps, with a probability of at least
//! 1/(n·k^(depth-1)).

use std::io;

use super::failure::{Failure, Fault};
use super::harness::{Harness, copy_region, explain_failure, restore_region, with_harness};
use super::schedule::{FLUSH, Schedule, Turn};
use super::state::SystemState;
use super::{Options, Setup, TASKS_MAX};
use crate::steppable::SavedStack;

/// Steps in a row after which a task falls below all others: it may be spinning.
const STEPS_IN_A_ROW_MAX: usize = 100;

/// Steps after which a schedule counts as endless.
const STEPS_MAX: usize = 100_000;

/// The priority that tasks fall to: just above it at change points, below it when they spin.
const LOWEST: u64 = 1 << 32;

/// The result of sampling.
#[derive(Clone, Debug)]
pub struct SampleResult {
    /// Schedules tried.
    pub schedules: u64,
    /// Steps taken.
    pub steps: u64,
    /// The first fault found, and the interleaving that leads to it.
    pub failure: Option<Failure>,
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
        let Sampler { schedules, steps, schedule, .. } = sampler;
        let fault = fault.map(|fault| (fault, Schedule(schedule)));
        let ahead = harness.world.borrow().layout.ahead.clone();
        (SampleResult { schedules, steps, failure: None }, fault.map(|fault| (fault, ahead)))
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
        let (longest, schedules, steps) = (1, 0, 0);
        Sampler {
            harness,
            start,
            stacks,
            memory,
            depth,
            random,
            longest,
            turns,
            schedule,
            schedules,
            steps,
        }
    }

    /// Tries one schedule from the start to its end.
    fn schedule(&mut self) -> Option<Fault> {
        if self.harness.world.borrow().grown {
            return None;
        }
        self.restore_start();
        self.schedules += 1;
        self.schedule.clear();
        let mut priorities = self.priorities();
        let mut changes = [0; 8];
        let depth = self.depth.clamp(1, changes.len());
        for change in &mut changes[..depth - 1] {
            *change = self.below(self.longest) + 1;
        }
        let (mut last, mut in_a_row, mut lowest) = (usize::MAX, 0, LOWEST);
        for step in 1..=STEPS_MAX {
            self.harness.world.borrow().turns(&mut self.turns);
            if self.turns.is_empty() {
                self.longest = self.longest.max(step);
                return self.harness.fault_of_stopped(&self.turns);
            }
            if let Some(fault) = self.harness.fault_of_stopped(&self.turns) {
                return Some(fault);
            }
            if let Some(change) = changes[..depth - 1].iter().position(|&change| change == step) {
                let highest = self.highest(&priorities);
                priorities[highest] = LOWEST + change as u64 + 1;
            }
            let highest = self.highest(&priorities);
            in_a_row = if highest == last { in_a_row + 1 } else { 0 };
            last = highest;
            if in_a_row == STEPS_IN_A_ROW_MAX {
                lowest -= 1;
                (priorities[highest], in_a_row) = (lowest, 0);
            }
            let turn = self.random_turn_of(highest);
            self.schedule.push(turn);
            self.steps += 1;
            self.harness.take_turn(turn);
            let world = self.harness.world.borrow();
            if world.grown || world.fault.is_some() {
                return world.fault.clone().filter(|_| !world.grown);
            }
        }
        Some(Fault::Endless(format!("a schedule has not ended after {STEPS_MAX} steps")))
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

    /// Random priorities, above those that tasks fall to at change points. Store buffers have
    /// priorities too: they take turns in which a store becomes visible.
    fn priorities(&mut self) -> [u64; 2 * TASKS_MAX] {
        std::array::from_fn(|_| 2 * LOWEST + (self.next() >> 8))
    }

    fn highest(&self, priorities: &[u64]) -> usize {
        let players = self.turns.iter().map(|&turn| player(turn));
        players.max_by_key(|&player| priorities[player]).expect("a turn is possible")
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

/// The number of the task that takes a turn, or of its store buffer, counted behind all tasks.
fn player((task, alternative): Turn) -> usize {
    usize::from(task) + if alternative == FLUSH { TASKS_MAX } else { 0 }
}
