//! Exhaustive search, depth first: every order in which the tasks can take their steps, except
//! for orders that lead to a state visited before.
//!
//!     frame: a state on the path ──turn──> step ──> fingerprint ─┬─ closed: nothing new
//!        ▲                                                       ├─ open: a cycle
//!        └───────── back, state and stack restored ──────────────┴─ new: the next frame
//!
//! The states of a strongly connected component are closed together (Tarjan 1972). If no step
//! leads out of a component, and it is not the end, then the end is never reached from there,
//! however fair the scheduler.

use std::collections::HashMap;
use std::io;

use super::bypass::Bypass;
use super::canonical::Canonicalizer;
use super::executions::{Ahead, PROMISES};
use super::failure::{Failure, Fault};
use super::harness::{
    Followed, Harness, copy_region_into, explain_failure, followed, restore_region, with_harness,
};
use super::hash::mix;
use super::request::Request;
use super::schedule::{FLUSH, SIGNAL, Schedule, Turn, is_by_itself};
use super::shortest::{Shortest, shortest};
use super::state::SystemState;
use super::visited::{Visit, Visited};
use super::{Options, Setup, TASKS_MAX};
use crate::Unsupported;
use crate::steppable::SavedStack;

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// Different states. With symmetry, states that differ by a renumbering count as one.
    pub states: u64,
    /// Different states without symmetry, where [`Options::count_merged`] is set.
    pub unmerged_states: Option<u64>,
    /// Steps taken.
    pub steps: u64,
    /// Whether some path comes back to a state on it.
    pub cycles: bool,
    /// Whether the search gave up at [`Options::states_max`].
    pub gave_up: bool,
    /// The most entries of others while [`Options::watched_task`] waited.
    pub bypass: Bypass,
    /// Whether a task fell asleep.
    pub sleeps: bool,
    /// The first fault found, and the interleaving that leads to it.
    pub failure: Option<Failure>,
}

/// Searches all interleavings. Fails only where memory for the stacks cannot be had.
pub fn search(setup: &Setup, options: &Options) -> io::Result<SearchResult> {
    let SearchOutcome { mut result, fault, ahead } = searched(setup, options)?;
    if let Some((fault, schedule)) = fault {
        result.failure = Some(shown(setup, options, fault, schedule, &ahead)?);
    }
    Ok(result)
}

fn searched(setup: &Setup, options: &Options) -> io::Result<SearchOutcome> {
    with_harness(setup, options, |harness| Search::new(harness, options).run())
}

/// The way to a fault step by step: a shortest one, where that is wanted and can be found.
fn shown(
    setup: &Setup,
    options: &Options,
    fault: Fault,
    schedule: Schedule,
    ahead: &[Ahead],
) -> io::Result<Failure> {
    // A circle has no last step, and what is not supported needs no way to it.
    let has_end = !matches!(fault, Fault::Endless(_) | Fault::Unsupported(_));
    if !options.shortest || !has_end {
        return Ok(explain_failure(setup, options, fault, schedule, ahead));
    }
    let (fault, schedule, is_shortest) = match shortest(setup, options, schedule.len(), ahead)? {
        Shortest::Found(fault, schedule) => (fault, schedule, true),
        Shortest::None => (fault, schedule, true),
        Shortest::Unknown => (fault, schedule, false),
    };
    let failure = explain_failure(setup, options, fault, schedule, ahead);
    Ok(Failure { is_shortest, ..failure })
}

/// What a replayed schedule led to.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    /// The schedule as readable text, one line a step.
    pub steps: Vec<String>,
    /// What is wrong at its end.
    pub fault: Option<Fault>,
}

/// Follows one schedule. The inner error says why the schedule is not possible.
pub fn replay(
    setup: &Setup,
    options: &Options,
    schedule: &Schedule,
) -> io::Result<Result<ReplayResult, String>> {
    let by_itself = schedule.0.iter().any(|turn| is_by_itself(turn.1));
    let spurious_wakeups = options.spurious_wakeups || by_itself;
    let options = &Options { spurious_wakeups, ..*options };
    // Which stores run ahead is learned by a search, and a schedule names them by number.
    let is_promise = |turn: &Turn| (PROMISES..SIGNAL).contains(&turn.1);
    let has_promises = options.memory.reads_old() && schedule.0.iter().any(is_promise);
    let ahead = if has_promises { searched(setup, options)?.ahead } else { Vec::new() };
    let followed = followed(setup, options, schedule, &ahead)?;
    Ok(followed.map(|Followed { steps, fault, .. }| ReplayResult { steps, fault }))
}

struct SearchOutcome {
    result: SearchResult,
    fault: Option<(Fault, Schedule)>,
    /// Stores that were found to run ahead of loads.
    ahead: Vec<Ahead>,
}

struct Search<'s, 'a> {
    harness: &'s mut Harness<'a>,
    options: &'s Options,
    canonical: Canonicalizer,
    visited: Visited,
    /// The path; frames beyond `depth` are kept for their memory.
    frames: Vec<Frame>,
    depth: usize,
    /// Where threads stopped: first all at the start, then the one that each frame moved.
    stacks: Vec<SavedStack>,
    /// Open states that are not on the path: their component is not complete yet.
    component: Vec<u64>,
    /// A hash of the accesses pending in each state, where [`Options::check_forgetting`] is set.
    pending: HashMap<u64, u64>,
    /// Words of the region in use.
    words: usize,
    /// The number of the last new state.
    last_number: u32,
    result: SearchResult,
}

/// Steps of an interleaving at most: each is kept, with memory as it was.
const DEPTH_MAX: usize = 400_000;

/// A state on the path.
#[derive(Default)]
struct Frame {
    fingerprint: u64,
    turns: Vec<Turn>,
    /// How many of the turns were taken.
    next: usize,
    /// How many of the turns are to be taken: only the first, where that step is persistent.
    wanted: usize,
    /// Local steps in the last turn that was taken, as alternatives.
    local_turns: Vec<u8>,
    number: u32,
    /// The lowest number of an open state that can be reached from this one.
    low: u32,
    /// Whether a step leads from its component to a closed state.
    exits: bool,
    /// The length of `component` when this state was reached.
    component: usize,
    /// Kept only where there are several turns.
    state: SystemState,
    /// For each task, which of `stacks` it is at.
    stacks: [u32; TASKS_MAX],
}

impl<'s, 'a> Search<'s, 'a> {
    fn new(harness: &'s mut Harness<'a>, options: &'s Options) -> Self {
        let result = SearchResult {
            states: 0,
            unmerged_states: options.count_merged.then_some(0),
            steps: 0,
            cycles: false,
            gave_up: false,
            bypass: Bypass::default(),
            sleeps: false,
            failure: None,
        };
        Search {
            canonical: Canonicalizer::new(harness.setup.nodes),
            options,
            visited: Visited::new(),
            frames: Vec::new(),
            depth: 0,
            stacks: Vec::new(),
            component: Vec::new(),
            pending: HashMap::new(),
            words: harness.setup.region.used().div_ceil(8),
            last_number: 0,
            result,
            harness,
        }
    }

    fn run(mut self) -> SearchOutcome {
        let fault = self.walk().err();
        let at_start = std::mem::take(&mut self.harness.world.borrow_mut().local_turns_at_start);
        let mut taken = Vec::new();
        for (task, local_turns) in at_start.into_iter().enumerate() {
            taken.extend(local_turns.into_iter().map(|turn| (task as u8, turn)));
        }
        for frame in &self.frames[..self.depth] {
            let Some(&turn) = frame.turns.get(frame.next.wrapping_sub(1)) else { continue };
            taken.push(turn);
            taken.extend(frame.local_turns.iter().map(|&local| (turn.0, local)));
        }
        let schedule = Schedule(taken);
        self.result.states = self.visited.len() as u64;
        self.result.bypass = self.harness.world.borrow().bypass;
        self.result.sleeps = self.harness.world.borrow().has_slept;
        let ahead = self.harness.world.borrow().layout.ahead.clone();
        SearchOutcome { result: self.result, fault: fault.map(|fault| (fault, schedule)), ahead }
    }

    /// Walks until all states are visited. The error is the first fault.
    fn walk(&mut self) -> Result<(), Fault> {
        let tasks = self.harness.setup.nodes.len();
        for task in 0..tasks {
            let mut saved = SavedStack::default();
            if !self.harness.world.borrow().state.tasks[task].ended {
                self.harness.save(task, &mut saved);
            }
            self.stacks.push(saved);
        }
        self.check_fault()?;
        if !self.grown() {
            self.arrive(std::array::from_fn(|task| task as u32))?;
        }
        while self.depth > 0 && !self.result.gave_up && !self.grown() {
            if self.frames[self.depth - 1].has_untaken() {
                self.take_turn()?;
            } else {
                self.leave()?;
            }
        }
        Ok(())
    }

    /// Whether the search must begin again, with another row or column.
    fn grown(&self) -> bool {
        self.harness.world.borrow().grown
    }

    fn check_fault(&self) -> Result<(), Fault> {
        self.harness.world.borrow().fault.clone().map_or(Ok(()), Err)
    }

    /// Takes the next turn of the last frame.
    fn take_turn(&mut self) -> Result<(), Fault> {
        let frame = &mut self.frames[self.depth - 1];
        let turn = frame.turns[frame.next];
        if frame.next > 0 {
            self.harness.world.borrow_mut().state.clone_from(&frame.state);
            restore_region(self.harness.setup.region, &frame.state.memory);
        }
        frame.next += 1;
        let mut stacks = frame.stacks;
        let task = usize::from(turn.0);
        if turn.1 != FLUSH {
            self.harness.restore(task, &self.stacks[stacks[task] as usize]);
        }
        {
            let mut world = self.harness.world.borrow_mut();
            world.arrived = false;
            world.local_turns.clear();
        }
        self.harness.take_turn(turn);
        let local_turns = &mut self.frames[self.depth - 1].local_turns;
        local_turns.clone_from(&self.harness.world.borrow().local_turns);
        self.result.steps += 1;
        if self.grown() {
            return Ok(());
        }
        self.check_fault()?;
        let is_over = {
            let mut world = self.harness.world.borrow_mut();
            std::mem::take(&mut world.is_unfair) | std::mem::take(&mut world.is_cut)
        };
        if is_over {
            self.frames[self.depth - 1].exits = true;
            return Ok(());
        }
        let moved = turn.1 != FLUSH && !self.harness.world.borrow().state.tasks[task].ended;
        let fresh = self.harness.setup.nodes.len() + self.depth - 1;
        if moved {
            stacks[task] = fresh as u32;
        }
        // Only a new state, which is searched further, needs the stack.
        let from = self.depth - 1;
        let visit = self.arrive(stacks)?;
        if self.harness.world.borrow().arrived || matches!(visit, Visit::Open(_)) {
            self.frames[from].wanted = self.frames[from].turns.len();
        }
        if visit == Visit::New && moved {
            if self.stacks.len() <= fresh {
                self.stacks.resize_with(fresh + 1, SavedStack::default);
            }
            self.harness.save(task, &mut self.stacks[fresh]);
        }
        Ok(())
    }

    /// Looks up the live state; if it is new, makes it the last frame.
    fn arrive(&mut self, stacks: [u32; TASKS_MAX]) -> Result<Visit, Fault> {
        let world = self.harness.world.borrow();
        let fingerprint = self.canonical.fingerprint(&world);
        if self.options.check_forgetting {
            let pending = pending(world.state.tasks.iter().map(|task| task.request));
            let before = *self.pending.entry(fingerprint).or_insert(pending);
            if before != pending {
                let why = "merged states have different accesses pending";
                return Err(Fault::Forgotten(why.into()));
            }
        }
        let last = self.frames[..self.depth].last_mut();
        let visit = self.visited.enter(fingerprint, self.last_number + 1);
        match (visit, last) {
            (Visit::Closed, Some(last)) => last.exits = true,
            (Visit::Open(number), Some(last)) => {
                last.low = last.low.min(number);
                self.result.cycles = true;
            }
            _ => {
                if let Some(states) = &mut self.result.unmerged_states {
                    *states += self.canonical.renumberings(&world);
                }
                drop(world);
                self.push(fingerprint, stacks)?;
            }
        }
        Ok(visit)
    }

    fn push(&mut self, fingerprint: u64, stacks: [u32; TASKS_MAX]) -> Result<(), Fault> {
        self.last_number += 1;
        self.result.gave_up = self.visited.len() as u64 >= self.options.states_max;
        if self.depth >= DEPTH_MAX {
            return Err(Fault::Unsupported(Unsupported::new(
                format!(
                    "an interleaving with more than {DEPTH_MAX} steps, such as a loop that counts on, whose states all differ"
                ),
                "give the loop an end after few turns, or try random schedules (--sample 100000)",
            )));
        }
        if self.frames.len() == self.depth {
            self.frames.push(Frame::default());
        }
        self.harness.world.borrow_mut().find_triangles();
        let frame = &mut self.frames[self.depth];
        self.harness.world.borrow().turns(&mut frame.turns);
        if let Some(fault) = self.harness.fault_of_stopped(&frame.turns) {
            return Err(fault);
        }
        let world = self.harness.world.borrow();
        // Circles in which a task never comes to the store that it made visible ahead are no execution.
        (frame.fingerprint, frame.next, frame.exits) = (fingerprint, 0, world.has_promises());
        frame.wanted = frame.turns.len();
        if self.options.reduction
            && frame.wanted > 1
            && let Some(persistent) = world.persistent_task()
        {
            let is_other = |&(task, alternative): &Turn| {
                usize::from(task) != persistent || alternative >= SIGNAL
            };
            frame.turns.sort_by_key(is_other);
            let own = frame.turns.iter().filter(|turn| !is_other(turn)).count();
            frame.wanted = if own > 0 { own } else { frame.turns.len() };
        }
        (frame.number, frame.low) = (self.last_number, self.last_number);
        frame.component = self.component.len();
        frame.stacks = stacks;
        if frame.turns.len() > 1 {
            frame.state.clone_from(&world.state);
            let region = self.harness.setup.region;
            copy_region_into(region, self.words, &mut frame.state.memory);
        }
        self.depth += 1;
        Ok(())
    }

    /// Leaves the last frame, whose turns were all taken.
    fn leave(&mut self) -> Result<(), Fault> {
        let (before, frame) = self.frames[..self.depth].split_at_mut(self.depth - 1);
        let frame = &frame[0];
        if frame.low < frame.number {
            // Part of a component that begins at an earlier frame.
            let parent = before.last_mut().expect("a component begins at some frame");
            parent.low = parent.low.min(frame.low);
            parent.exits |= frame.exits;
            self.component.push(frame.fingerprint);
            self.depth -= 1;
            return Ok(());
        }
        if !frame.exits && !frame.turns.is_empty() {
            return Err(Fault::Endless("from here on all steps lead in circles".into()));
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
    fn has_untaken(&self) -> bool {
        self.next < self.wanted
    }
}

/// A hash of the steps that the tasks take next.
fn pending(requests: impl Iterator<Item = Request>) -> u64 {
    let hash = |request: Request| {
        let site = u64::from(request.location.line) << 32 | u64::from(request.offset);
        format!("{}", request.kind).bytes().fold(site, |hash, byte| mix(hash, u64::from(byte)))
    };
    requests.map(hash).fold(0, mix)
}
