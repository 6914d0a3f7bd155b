//! Wake-ups that only a time-out hides. Where tasks sleep for a limited time, no state is a deadlock. So in a state in which
//! nothing but time-outs goes on, each sleeper whose word has changed is woken once, for a try. If it comes to its critical
//! section or its end, it slept in vain: a wake-up was due. If it sleeps again, it had nothing to do.

use super::failure::Fault;
use super::harness::{Harness, copy_region, restore_region};
use super::request::RequestKind;
use super::schedule::{FLUSH, SPURIOUS};
use super::state::SystemState;
use crate::steppable::SavedStack;

/// Steps that a woken task may need to its critical section.
const STEPS_MAX: usize = 1000;

impl Harness<'_> {
    /// A lost wake-up of a live state in which nothing but time-outs goes on. Leaves the state as it is.
    pub fn lost_wake_up(&mut self) -> Option<Fault> {
        let tasks = self.setup.nodes.len();
        (0..tasks).find_map(|task| self.lost_wake_up_of(task))
    }

    fn lost_wake_up_of(&mut self, task: usize) -> Option<Fault> {
        let why = {
            let world = self.world.borrow();
            let request = world.state.tasks[task].request;
            let RequestKind::Asleep(expected, _) = request.kind else { return None };
            let now = world.value_seen(task, request.offset, request.size);
            if now == expected {
                return None;
            }
            let name = world.layout.name(request.offset, request.size);
            format!(
                "t{task} sleeps on {name} until its time-out ({}), although it has changed from {expected} to {now} and no other \
                 task will wake it",
                request.location
            )
        };
        let (mut state, mut stack) = (SystemState::default(), SavedStack::default());
        state.clone_from(&self.world.borrow().state);
        let memory = copy_region(self.setup.region);
        self.save(task, &mut stack);
        let trace = self.world.borrow_mut().trace.take();
        let goes_on = self.goes_on_if_woken(task);
        self.restore(task, &stack);
        restore_region(self.setup.region, &memory);
        let mut world = self.world.borrow_mut();
        world.state.clone_from(&state);
        (world.fault, world.trace) = (None, trace);
        goes_on.then_some(Fault::LostWakeUp(why))
    }

    fn goes_on_if_woken(&mut self, task: usize) -> bool {
        let entries = self.world.borrow().entries;
        let mut turn = SPURIOUS;
        for _ in 0..STEPS_MAX {
            self.take_turn((task as u8, turn));
            let world = self.world.borrow();
            let state = &world.state.tasks[task];
            if world.fault.is_some() || world.grown {
                return false;
            }
            if state.ended || world.entries > entries {
                return true;
            }
            turn = if world.alternatives(task) > 0 { 0 } else { FLUSH };
            let is_asleep = matches!(state.request.kind, RequestKind::Asleep(..));
            if is_asleep || turn == FLUSH && state.buffered == 0 {
                return false;
            }
        }
        false
    }
}
