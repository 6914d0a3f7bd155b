//! Loops that count their tries: a spin that ends after a thousand, a backoff that grows. Each try is another state of the task, and
//! finds nothing new as long as no other task runs. So only the first tries are steps of a search, between which others run;
//! the others find at once what the last step found, up to the end of the loop. What depends on a number of tries between
//! these is not searched.

use std::sync::atomic::Ordering::Relaxed;

use machine::{CodeSite, Machine, Op};

use super::Task;
use crate::hooks::Hook;

/// Tries in a row that are steps.
const STEPS: u32 = 4;
/// Tries in a row after which each is a step again: a loop that counts without end may never come to another way.
const TRIES_MAX: u32 = 20_000;

/// Between two looks at whether a loop still counts: tries that are no steps.
const LOOK: u32 = 64;

/// An access that left memory as it was.
#[derive(Clone, Copy)]
pub struct Try {
    address: usize,
    op: Op<u64>,
    site: CodeSite,
    state: u64,
    /// The state at a try whose number is a power of two.
    mark: u64,
    value: u64,
    /// Where its call returns to.
    returns_to: u64,
    /// How many there were in a row.
    count: u32,
}

impl<M: Machine> Task<'_, M> {
    /// Something else than a try came.
    pub(super) fn ends_wait(&self) {
        self.last_load.set(None);
        self.last_try.set(None);
    }

    /// What a load finds that is tried again, of most tries: without a look at the state that the task is in.
    pub(super) fn finds_quickly(&self, hook: Hook, address: u64, returns_to: u64) -> Option<u64> {
        let is_load = matches!(hook, Hook::Load(_));
        let last = self.last_try.get().filter(|last| {
            is_load
                && last.count >= STEPS
                && !last.count.is_multiple_of(LOOK)
                && (last.address as u64, last.returns_to) == (address, returns_to)
        })?;
        if self.m.names_dependencies() || !self.m.is_timeless() {
            return None;
        }
        self.instance.program.counts_tries.store(true, Relaxed);
        self.last_try.set(Some(Try { count: last.count + 1, ..last }));
        Some(last.value)
    }

    /// What the task finds if it tries the same again, and needs no step for that: it reads the same write again. A loop that
    /// comes back to a state waits.
    pub(super) fn finds_the_same(&self, address: usize, op: Op<u64>, state: u64) -> Option<u64> {
        let last = self.last_try.get().filter(|last| {
            (last.address, last.op, last.site) == (address, op, self.site.get())
                && last.count >= STEPS
        })?;
        if !self.m.is_timeless() {
            return None;
        }
        if [last.state, last.mark].contains(&state) {
            self.last_load.set((op == Op::Load).then_some((state, last.value)));
            return None;
        }
        if last.count >= TRIES_MAX {
            return None;
        }
        self.instance.program.counts_tries.store(true, Relaxed);
        let mark = if last.count.is_power_of_two() { state } else { last.mark };
        self.last_try.set(Some(Try { state, mark, count: last.count + 1, ..last }));
        self.notes_read();
        Some(last.value)
    }

    /// Notes a try behind the one before.
    pub(super) fn tried(
        &self,
        before: Option<Try>,
        address: usize,
        op: Op<u64>,
        state: u64,
        value: u64,
    ) {
        let site = self.site.get();
        let again = before.filter(|last| {
            (last.address, last.op, last.site, last.value) == (address, op, site, value)
        });
        let count = again.map_or(0, |last| last.count) + 1;
        let returns_to = self.returns_to.get();
        let mark = state;
        self.last_try.set(Some(Try { address, op, site, state, mark, value, returns_to, count }));
    }
}
