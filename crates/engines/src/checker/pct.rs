//! Random schedules by priorities, for more tasks than can be searched: PCT (Burckhardt,
//! Kothari, Musuvathi, Nagarakatte 2010). Tasks have random priorities, the highest that can
//! go goes, and at `depth - 1` random steps whoever would go falls behind all others. A bug
//! that needs `depth` ordering constraints, in n tasks of together k steps, is found by each
//! schedule with a probability of at least 1/(n·k^(depth-1)).

use std::io;

use super::failure::{Failure, Fault};
use super::harness::{Stage, copy, on_stage, put_back, told};
use super::schedule::{FLUSH, Schedule, Turn};
use super::state::State;
use super::{Options, Setup, TASKS_MAX};
use crate::steppable::Saved;

/// Steps in a row after which a task falls behind all others: it may be spinning.
const PATIENCE: usize = 100;

/// Steps after which a schedule counts as endless.
const STEPS_MAX: usize = 100_000;

/// Priorities that tasks fall to: at change points, and below that when they spin.
const LOWEST: u64 = 1 << 32;

/// What sampling found.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Schedules tried.
    pub schedules: u64,
    /// Steps taken.
    pub steps: u64,
    /// What is wrong, and how to come there.
    pub failure: Option<Failure>,
}

/// Tries this many schedules, different ones for each seed.
pub fn sample(
    setup: &Setup,
    options: &Options,
    schedules: u64,
    depth: usize,
    seed: u64,
) -> io::Result<Sampled> {
    let each_step = Options { reduction: false, ..*options };
    let (mut sampled, fault) = on_stage(setup, &each_step, |stage| {
        let mut sampler = Sampler::new(stage, depth, seed);
        let fault = (0..schedules).find_map(|_| sampler.schedule());
        let Sampler { schedules, steps, schedule, .. } = sampler;
        let fault = fault.map(|fault| (fault, Schedule(schedule)));
        (Sampled { schedules, steps, failure: None }, fault)
    })?;
    if let Some((fault, schedule)) = fault {
        sampled.failure = Some(told(setup, options, fault, schedule));
    }
    Ok(sampled)
}

struct Sampler<'s, 'a> {
    stage: &'s mut Stage<'a>,
    start: State,
    stacks: Vec<Saved>,
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
    fn new(stage: &'s mut Stage<'a>, depth: usize, seed: u64) -> Self {
        let mut start = State::default();
        start.clone_from(&stage.world.borrow().state);
        let mut stacks = vec![Saved::default(); start.tasks.len()];
        for (task, saved) in stacks.iter_mut().enumerate() {
            if !start.tasks[task].ended {
                stage.save(task, saved);
            }
        }
        let memory = copy(stage.setup.region);
        let random = seed.wrapping_mul(2).wrapping_add(1);
        let (turns, schedule) = (Vec::new(), Vec::new());
        let (longest, schedules, steps) = (1, 0, 0);
        Sampler {
            stage,
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

    /// One schedule from the start to its end.
    fn schedule(&mut self) -> Option<Fault> {
        if self.stage.world.borrow().grown {
            return None;
        }
        self.back_to_the_start();
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
            self.stage.world.borrow().turns(&mut self.turns);
            if self.turns.is_empty() {
                self.longest = self.longest.max(step);
                return self.stage.wrong_at_the_end();
            }
            if let Some(change) = changes[..depth - 1].iter().position(|&change| change == step) {
                let highest = self.highest(&priorities);
                priorities[highest] = LOWEST + change as u64 + 1;
            }
            let highest = self.highest(&priorities);
            in_a_row = if highest == last { in_a_row + 1 } else { 0 };
            last = highest;
            if in_a_row == PATIENCE {
                lowest -= 1;
                (priorities[highest], in_a_row) = (lowest, 0);
            }
            let turn = self.any_turn_of(highest);
            self.schedule.push(turn);
            self.steps += 1;
            self.stage.go(turn);
            let world = self.stage.world.borrow();
            if world.grown || world.fault.is_some() {
                return world.fault.clone().filter(|_| !world.grown);
            }
        }
        Some(Fault::Endless(format!("a schedule went on for {STEPS_MAX} steps")))
    }

    fn back_to_the_start(&mut self) {
        self.stage.world.borrow_mut().state.clone_from(&self.start);
        put_back(self.stage.setup.region, &self.memory);
        for (task, saved) in self.stacks.iter().enumerate() {
            if !self.start.tasks[task].ended {
                self.stage.restore(task, saved);
            }
        }
    }

    /// Random, and above those that tasks fall to at change points. The buffers have
    /// priorities too: what becomes visible when is somebody's turn.
    fn priorities(&mut self) -> [u64; 2 * TASKS_MAX] {
        std::array::from_fn(|_| 2 * LOWEST + (self.next() >> 8))
    }

    fn highest(&self, priorities: &[u64]) -> usize {
        let players = self.turns.iter().map(|&turn| player(turn));
        players.max_by_key(|&player| priorities[player]).expect("somebody can go")
    }

    fn any_turn_of(&mut self, who: usize) -> Turn {
        let ways = self.turns.iter().filter(|&&turn| player(turn) == who).count();
        let any = if ways > 1 { self.below(ways) } else { 0 };
        let mut turns = self.turns.iter().filter(|&&turn| player(turn) == who);
        *turns.nth(any).expect("within the number of ways")
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

/// Who takes a turn: a task, or its buffer.
fn player((task, way): Turn) -> usize {
    usize::from(task) + if way == FLUSH { TASKS_MAX } else { 0 }
}
