//! Exhaustive search, depth first: every order in which the tasks can take their steps, up to
//! orders that lead to a state which was visited before.
//!
//!     frame: a state on the path ──turn──> step ──> fingerprint ─┬─ closed: nothing new
//!        ▲                                                       ├─ open: a cycle
//!        └───────── back, state and stack restored ──────────────┴─ new: the next frame
//!
//! States of one cycle are closed together. If from such a component no step leads out, and
//! it is not the end, then from there the end is never reached, however fair the scheduler
//! (Tarjan 1972 finds the components).

use std::collections::HashMap;
use std::io;

use super::canonical::Canonical;
use super::failure::{Failure, Fault};
use super::harness::{Stage, copy_into, on_stage, put_back, told};
use super::hash::mix;
use super::request::Request;
use super::schedule::{FLUSH, SPURIOUS, Schedule, Turn};
use super::state::State;
use super::visited::{Seen, Visited};
use super::{Options, Setup, TASKS_MAX};
use crate::steppable::Saved;

/// What a search found.
#[derive(Clone, Debug)]
pub struct Searched {
    /// Different states; where tasks are alike, up to who is who.
    pub states: u64,
    /// The same with everybody's name, if that was asked for.
    pub named_states: Option<u64>,
    /// Steps taken.
    pub steps: u64,
    /// Whether some path comes back to where it was.
    pub cycles: bool,
    /// Whether it gave up at the largest number of states.
    pub gave_up: bool,
    /// What is wrong, and how to come there.
    pub failure: Option<Failure>,
}

/// Searches all interleavings. Fails only where memory for stacks cannot be had.
pub fn search(setup: &Setup, options: &Options) -> io::Result<Searched> {
    let mut found = on_stage(setup, options, |stage| Search::new(stage, options).run())?;
    if let Some((fault, schedule)) = found.fault.take() {
        found.searched.failure = Some(told(setup, options, fault, schedule));
    }
    Ok(found.searched)
}

/// What a schedule led to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Its steps, readable.
    pub steps: Vec<String>,
    /// What is wrong with them.
    pub fault: Option<Fault>,
}

/// Follows one schedule: its steps, readable, and what is wrong with them. An error if the
/// schedule is not possible.
pub fn replay(
    setup: &Setup,
    options: &Options,
    schedule: &Schedule,
) -> io::Result<Result<Replayed, String>> {
    // Each access is a step of the schedule, also one that need be none.
    let options = Options { reduction: false, ..*options };
    on_stage(setup, &options, |stage| {
        let followed = stage.follow(schedule)?;
        let at_the_end = || stage.wrong_at_the_end().filter(|_| followed.ended);
        let fault = followed.fault.clone().or_else(at_the_end);
        Ok(Replayed { steps: followed.steps, fault })
    })
}

struct Found {
    searched: Searched,
    fault: Option<(Fault, Schedule)>,
}

struct Search<'s, 'a> {
    stage: &'s mut Stage<'a>,
    options: &'s Options,
    canonical: Canonical,
    visited: Visited,
    /// The path; frames beyond `depth` are kept for their memory.
    frames: Vec<Frame>,
    depth: usize,
    /// Where threads stopped: first all at the start, then the one that each frame moved.
    stacks: Vec<Saved>,
    /// Open states that are not on the path: their component is not complete yet.
    component: Vec<u64>,
    /// What was pending in each state, where cuts are checked.
    pending: HashMap<u64, u64>,
    /// Words of the region in use.
    words: usize,
    numbers: u32,
    found: Searched,
}

/// A state on the path.
#[derive(Default)]
struct Frame {
    fingerprint: u64,
    turns: Vec<Turn>,
    /// How many of the turns were taken.
    next: usize,
    /// How many of them are to be taken: of a step that goes alone, that one.
    wanted: usize,
    /// Quiet accesses in the last turn that was taken.
    quiet: u32,
    /// Its number, and the lowest number of an open state that can be reached from it.
    number: u32,
    low: u32,
    /// Whether a step leads from its component to a closed state.
    exits: bool,
    /// How many states of `component` were there before it.
    component: usize,
    /// Kept only where there are several turns.
    state: State,
    /// Which of `stacks` each task is at.
    stacks: [u32; TASKS_MAX],
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(stage: &'s mut Stage<'a>, options: &'s Options) -> Self {
        let found = Searched {
            states: 0,
            named_states: options.count_merged.then_some(0),
            steps: 0,
            cycles: false,
            gave_up: false,
            failure: None,
        };
        Search {
            canonical: Canonical::new(stage.setup.nodes),
            options,
            visited: Visited::new(),
            frames: Vec::new(),
            depth: 0,
            stacks: Vec::new(),
            component: Vec::new(),
            pending: HashMap::new(),
            words: stage.setup.region.used().div_ceil(8),
            numbers: 0,
            found,
            stage,
        }
    }

    fn run(mut self) -> Found {
        let fault = self.walk().err();
        let first = std::mem::take(&mut self.stage.world.borrow_mut().quiet_at_first);
        let mut taken = Vec::new();
        for (task, times) in first.into_iter().enumerate() {
            taken.extend((0..times).map(|_| (task as u8, 0)));
        }
        for frame in &self.frames[..self.depth] {
            let Some(&turn) = frame.turns.get(frame.next.wrapping_sub(1)) else { continue };
            taken.push(turn);
            taken.extend((0..frame.quiet).map(|_| (turn.0, 0)));
        }
        let schedule = Schedule(taken);
        self.found.states = self.visited.len() as u64;
        Found { searched: self.found, fault: fault.map(|fault| (fault, schedule)) }
    }

    /// Walks until all is visited, or the fault that was found.
    fn walk(&mut self) -> Result<(), Fault> {
        let tasks = self.stage.setup.nodes.len();
        for task in 0..tasks {
            let mut saved = Saved::default();
            if !self.stage.world.borrow().state.tasks[task].ended {
                self.stage.save(task, &mut saved);
            }
            self.stacks.push(saved);
        }
        self.no_fault()?;
        if !self.grown() {
            self.arrive(std::array::from_fn(|task| task as u32))?;
        }
        while self.depth > 0 && !self.found.gave_up && !self.grown() {
            if self.frames[self.depth - 1].untaken() {
                self.take_turn()?;
            } else {
                self.leave()?;
            }
        }
        Ok(())
    }

    /// Whether the search must begin again, with a larger table of orders.
    fn grown(&self) -> bool {
        self.stage.world.borrow().grown
    }

    fn no_fault(&self) -> Result<(), Fault> {
        self.stage.world.borrow().fault.clone().map_or(Ok(()), Err)
    }

    /// Takes the next turn of the last frame.
    fn take_turn(&mut self) -> Result<(), Fault> {
        let frame = &mut self.frames[self.depth - 1];
        let turn = frame.turns[frame.next];
        if frame.next > 0 {
            self.stage.world.borrow_mut().state.clone_from(&frame.state);
            put_back(self.stage.setup.region, &frame.state.memory);
        }
        frame.next += 1;
        let mut stacks = frame.stacks;
        let task = usize::from(turn.0);
        if turn.1 != FLUSH {
            self.stage.restore(task, &self.stacks[stacks[task] as usize]);
        }
        {
            let mut world = self.stage.world.borrow_mut();
            (world.arrived, world.quiet_steps) = (false, 0);
        }
        self.stage.go(turn);
        self.frames[self.depth - 1].quiet = self.stage.world.borrow().quiet_steps;
        self.found.steps += 1;
        if self.grown() {
            return Ok(());
        }
        self.no_fault()?;
        let moved = turn.1 != FLUSH && !self.stage.world.borrow().state.tasks[task].ended;
        let fresh = self.stage.setup.nodes.len() + self.depth - 1;
        if moved {
            stacks[task] = fresh as u32;
        }
        // Only a state that is searched further needs the stack.
        let from = self.depth - 1;
        let seen = self.arrive(stacks)?;
        if self.stage.world.borrow().arrived || matches!(seen, Seen::Open(_)) {
            self.frames[from].wanted = self.frames[from].turns.len();
        }
        if seen == Seen::New && moved {
            if self.stacks.len() <= fresh {
                self.stacks.resize_with(fresh + 1, Saved::default);
            }
            self.stage.save(task, &mut self.stacks[fresh]);
        }
        Ok(())
    }

    /// The live state was reached. If it is new, it is the last frame now.
    fn arrive(&mut self, stacks: [u32; TASKS_MAX]) -> Result<Seen, Fault> {
        let world = self.stage.world.borrow();
        let fingerprint = self.canonical.fingerprint(&world);
        if self.options.check_cuts {
            let pending = pending(world.state.tasks.iter().map(|task| task.request));
            let before = *self.pending.entry(fingerprint).or_insert(pending);
            if before != pending {
                return Err(Fault::Cut("equal states have different accesses pending".into()));
            }
        }
        let last = self.frames[..self.depth].last_mut();
        let seen = self.visited.enter(fingerprint, self.numbers + 1);
        match (seen, last) {
            (Seen::Closed, Some(last)) => last.exits = true,
            (Seen::Open(number), Some(last)) => {
                last.low = last.low.min(number);
                self.found.cycles = true;
            }
            _ => {
                if let Some(states) = &mut self.found.named_states {
                    *states += self.canonical.renamings(&world);
                }
                drop(world);
                self.push(fingerprint, stacks)?;
            }
        }
        Ok(seen)
    }

    fn push(&mut self, fingerprint: u64, stacks: [u32; TASKS_MAX]) -> Result<(), Fault> {
        self.numbers += 1;
        self.found.gave_up = self.visited.len() as u64 >= self.options.states_max;
        if self.frames.len() == self.depth {
            self.frames.push(Frame::default());
        }
        let frame = &mut self.frames[self.depth];
        let world = self.stage.world.borrow();
        world.turns(&mut frame.turns);
        if frame.turns.iter().all(|&(_, way)| way == SPURIOUS)
            && let Some(fault) = self.stage.wrong_at_the_end()
        {
            return Err(fault);
        }
        (frame.fingerprint, frame.next, frame.exits) = (fingerprint, 0, false);
        frame.wanted = frame.turns.len();
        let alone = if self.options.reduction && frame.wanted > 1 { world.alone() } else { None };
        let at = alone.and_then(|alone| frame.turns.iter().position(|&turn| turn == alone));
        if let Some(at) = at {
            frame.turns.swap(0, at);
            frame.wanted = 1;
        }
        (frame.number, frame.low) = (self.numbers, self.numbers);
        frame.component = self.component.len();
        frame.stacks = stacks;
        if frame.turns.len() > 1 {
            frame.state.clone_from(&world.state);
            let region = self.stage.setup.region;
            copy_into(region, self.words, &mut frame.state.memory);
        }
        self.depth += 1;
        Ok(())
    }

    /// All turns of the last frame were taken.
    fn leave(&mut self) -> Result<(), Fault> {
        let (before, frame) = self.frames[..self.depth].split_at_mut(self.depth - 1);
        let frame = &frame[0];
        if frame.low < frame.number {
            // Part of a cycle that begins before it.
            let parent = before.last_mut().expect("a cycle begins at some frame");
            parent.low = parent.low.min(frame.low);
            parent.exits |= frame.exits;
            self.component.push(frame.fingerprint);
            self.depth -= 1;
            return Ok(());
        }
        if !frame.exits && !frame.turns.is_empty() {
            return Err(Fault::Endless("from here on only steps in a circle are possible".into()));
        }
        self.visited.close(frame.fingerprint);
        for member in self.component.drain(frame.component..) {
            self.visited.close(member);
        }
        if let Some(parent) = before.last_mut() {
            parent.exits = true;
        }
        self.depth -= 1;
        Ok(())
    }
}

impl Frame {
    fn untaken(&self) -> bool {
        self.next < self.wanted
    }
}

/// What the tasks want to do next, as a hash.
fn pending(requests: impl Iterator<Item = Request>) -> u64 {
    let hash = |request: Request| {
        let place = u64::from(request.location.line()) << 32 | u64::from(request.offset);
        format!("{}", request.kind).bytes().fold(place, |hash, byte| mix(hash, u64::from(byte)))
    };
    requests.map(hash).fold(0, mix)
}
