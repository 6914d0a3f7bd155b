//! A shortest way to a fault: breadth first, every order of steps without reduction, up to the length of a way that is known.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::rc::Rc;

use super::canonical::Canonicalizer;
use super::executions::Ahead;
use super::failure::Fault;
use super::harness::{Harness, Start, copy_region_into, restore_region, with_start};
use super::schedule::{FLUSH, Schedule, Turn};
use super::state::SystemState;
use super::{Options, Setup};
use crate::steppable::SavedStack;

/// States after which the search gives up.
const STATES_MAX: usize = 200_000;

/// Bytes of states that wait to be searched, after which the search gives up.
const BYTES_MAX: usize = 256 << 20;

/// A shortest schedule that leads to a fault, among those shorter than `length`.
#[derive(Debug)]
pub enum Shortest {
    /// This one, and its fault.
    Found(Fault, Schedule),
    /// There is none.
    None,
    /// The search gave up.
    Unknown,
}

/// Looks for the shortest schedule that leads to a fault.
pub fn shortest(
    setup: &Setup,
    options: &Options,
    length: usize,
    ahead: &[Ahead],
) -> io::Result<Shortest> {
    let options = Options { reduction: false, ..*options };
    let start = Start { trace: None, ahead: ahead.to_vec() };
    with_start(setup, &options, &start, |harness| BreadthFirst::new(harness).search(length))
}

/// A state that waits to be searched.
struct Waiting {
    /// Its number among all.
    number: usize,
    state: SystemState,
    stacks: Vec<Rc<SavedStack>>,
    length: usize,
}

struct BreadthFirst<'s, 'a> {
    harness: &'s mut Harness<'a>,
    canonical: Canonicalizer,
    visited: HashSet<u64>,
    /// By the number of a state: the state before it, and the turn that led from there.
    from: Vec<(usize, Turn)>,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    words: usize,
}

impl<'s, 'a> BreadthFirst<'s, 'a> {
    fn new(harness: &'s mut Harness<'a>) -> Self {
        BreadthFirst {
            canonical: Canonicalizer::new(harness.setup.nodes),
            visited: HashSet::new(),
            from: Vec::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            words: harness.setup.region.used().div_ceil(8),
            harness,
        }
    }

    fn search(&mut self, length: usize) -> Shortest {
        let tasks = self.harness.setup.nodes.len();
        let stacks = (0..tasks).map(|task| self.saved(task)).collect();
        if let Some(fault) = self.enter(0, (0, 0), stacks, 0) {
            return Shortest::Found(fault, Schedule::default());
        }
        let mut turns = Vec::new();
        while let Some(waiting) = self.waiting.pop_front() {
            self.bytes -= waiting.state.memory.len() * 8;
            if waiting.length + 1 >= length {
                return Shortest::None;
            }
            self.restore_memory(&waiting);
            self.harness.world.borrow().turns(&mut turns);
            for (i, &turn) in turns.iter().enumerate() {
                if i > 0 {
                    self.restore_memory(&waiting);
                }
                let fault = self.take(&waiting, turn);
                if self.harness.world.borrow().grown || self.from.len() > STATES_MAX {
                    return Shortest::Unknown;
                }
                if let Some(fault) = fault {
                    return Shortest::Found(fault, self.way(waiting.number, turn));
                }
            }
            if self.bytes > BYTES_MAX {
                return Shortest::Unknown;
            }
        }
        Shortest::None
    }

    fn restore_memory(&mut self, waiting: &Waiting) {
        self.harness.world.borrow_mut().state.clone_from(&waiting.state);
        restore_region(self.harness.setup.region, &waiting.state.memory);
    }

    /// Takes a turn from a state; returns the fault that it leads to.
    fn take(&mut self, waiting: &Waiting, turn: Turn) -> Option<Fault> {
        let task = usize::from(turn.0);
        if turn.1 != FLUSH {
            self.harness.restore(task, &waiting.stacks[task]);
        }
        self.harness.take_turn(turn);
        let is_cut = std::mem::take(&mut self.harness.world.borrow_mut().is_cut);
        if is_cut || self.harness.world.borrow().grown {
            return None;
        }
        let mut stacks = waiting.stacks.clone();
        let has_moved = turn.1 != FLUSH && !self.harness.world.borrow().state.tasks[task].ended;
        if has_moved {
            stacks[task] = self.saved(task);
        }
        self.enter(waiting.number, turn, stacks, waiting.length + 1)
    }

    /// Where a task is stopped, if it has not ended.
    fn saved(&self, task: usize) -> Rc<SavedStack> {
        let mut saved = SavedStack::default();
        if !self.harness.world.borrow().state.tasks[task].ended {
            self.harness.save(task, &mut saved);
        }
        Rc::new(saved)
    }

    /// Queues the live state, if it is new. Returns its fault.
    fn enter(
        &mut self,
        from: usize,
        turn: Turn,
        stacks: Vec<Rc<SavedStack>>,
        length: usize,
    ) -> Option<Fault> {
        if let Some(fault) = &self.harness.world.borrow().fault {
            return Some(fault.clone());
        }
        if !self.visited.insert(self.canonical.fingerprint(&self.harness.world.borrow())) {
            return None;
        }
        let mut turns = Vec::new();
        self.harness.world.borrow().turns(&mut turns);
        let fault = self.harness.fault_of_stopped(&turns);
        let mut state = SystemState::default();
        state.clone_from(&self.harness.world.borrow().state);
        copy_region_into(self.harness.setup.region, self.words, &mut state.memory);
        self.bytes += state.memory.len() * 8;
        let number = self.from.len();
        self.from.push((from, turn));
        self.waiting.push_back(Waiting { number, state, stacks, length });
        fault
    }

    /// The turns from the start to a state, and one more.
    fn way(&self, state: usize, last: Turn) -> Schedule {
        let (mut turns, mut at) = (vec![last], state);
        while at > 0 {
            let (before, turn) = self.from[at];
            turns.push(turn);
            at = before;
        }
        turns.reverse();
        Schedule(turns)
    }
}
