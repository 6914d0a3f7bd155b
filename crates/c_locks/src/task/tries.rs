//! Loops that count their tries: a spin that ends after a thousand, a backoff that grows. Each try is another state of the task, and
//! finds nothing new as long as no other task runs. So only the first tries are steps of a search, between which others run;
//! the others find at once what the last step found, up to the end of the loop. What depends on a number of tries between
//! these is not searched.
//!
//! A try may be one access or several: a round of loads, and of read-modify-writes that change nothing. Where the first four
//! rounds have found the same, the next ones find it at once, too, as long as memory still holds it.
//!
//!     load head ─> load tail ─> load slot ─┐   round: as many accesses as it takes until the same one comes again
//!        ▲                                 │   found the same in four rounds: the rest are no steps
//!        └──────── attempts++ ─────────────┘

use std::sync::atomic::Ordering::Relaxed;

use machine::{CodeSite, Machine, Op, Value};

use super::access::{mix, with_size};
use super::{Place, Task};
use crate::entry::Frame;
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
    /// Registers then: where they are others, the state is another one.
    mark_registers: [u64; 6],
    value: u64,
    /// Where its call returns to.
    returns_to: u64,
    /// How many there were in a row.
    count: u32,
}

/// Accesses of a round at most.
const ROUND_MAX: usize = 6;

/// An access of a loop that left memory as it was.
#[derive(Clone, Copy, Default)]
struct Tried {
    /// Which access it was: its word, what it does, and where it stands.
    access: u64,
    value: u64,
    /// The state that the task was in.
    state: u64,
}

/// The last accesses, if each left memory as it was.
#[derive(Clone, Copy, Default)]
pub struct Rounds {
    /// The last one first.
    last: [Tried; ROUND_MAX],
    /// By how many accesses a round may have, from one on: how many in a row were as the one a round before.
    repeated: [u32; ROUND_MAX],
    /// The state at an access whose number is a power of two.
    mark: u64,
}

impl Rounds {
    /// The access a round ago, if the next one is the same, and the first rounds were alike.
    fn before(&self, access: u64) -> Option<Tried> {
        let is_one = |&length: &usize| {
            let alike = STEPS * length as u32;
            let most = TRIES_MAX * length as u32;
            (alike..most).contains(&self.repeated[length - 1])
                && self.last[length - 1].access == access
        };
        (2..=ROUND_MAX).find(is_one).map(|length| self.last[length - 1])
    }

    fn push(&mut self, tried: Tried) {
        for length in 1..=ROUND_MAX {
            let before = &self.last[length - 1];
            let is_same = (before.access, before.value) == (tried.access, tried.value);
            let repeated = &mut self.repeated[length - 1];
            *repeated = if is_same { *repeated + 1 } else { 0 };
        }
        if self.repeated.iter().max().is_some_and(|most| most.is_power_of_two()) {
            self.mark = tried.state;
        }
        self.last.rotate_right(1);
        self.last[0] = tried;
    }
}

/// Which access it is, whatever the task's state.
fn access(address: usize, op: Op<u64>, site: CodeSite) -> u64 {
    let (kind, operands) = match op {
        Op::Load => (0, [0, 0]),
        Op::Store(value) => (1, [value, 0]),
        Op::Swap(value) => (2, [value, 0]),
        Op::CompareExchange(old, new) => (3, [old, new]),
        Op::Add(value) => (4, [value, 0]),
        Op::Or(value) => (5, [value, 0]),
        Op::And(value) => (6, [value, 0]),
        Op::Xor(value) => (7, [value, 0]),
    };
    let place = u64::from(site.line) << 32 | u64::from(site.column);
    [kind, operands[0], operands[1], site.file.as_ptr() as u64, place]
        .into_iter()
        .fold(address as u64, mix)
}

impl<M: Machine> Task<'_, M> {
    /// Something else than a try came.
    pub(super) fn ends_wait(&self) {
        self.last_load.set(None);
        self.last_try.set(None);
        self.rounds.set(Rounds::default());
    }

    /// What the task finds if it tries the same access, or the same round of accesses, again.
    pub(super) fn finds_again(&self, place: Place, op: Op<u64>, state: u64) -> Option<u64> {
        self.finds_the_same(place.address, op, state)
            .or_else(|| self.finds_in_round(place, op, state))
    }

    /// What the task finds if it goes round a loop of several accesses again, and needs no step for that: memory holds what it
    /// found a round ago, and no other task has run since the last step.
    fn finds_in_round(&self, place: Place, op: Op<u64>, state: u64) -> Option<u64> {
        let mut rounds = self.rounds.get();
        let access = access(place.address, op, self.site.get());
        let before = rounds.before(access)?;
        // A loop that comes back to a state waits.
        if [before.state, rounds.mark].contains(&state) || !self.m.is_timeless() {
            return None;
        }
        let size = usize::from(place.size);
        if !self.is_shared(place.address, size) || !place.address.is_multiple_of(size) {
            return None;
        }
        if with_size!(place.size, self.peeked(place)) != Some(before.value) {
            return None;
        }
        self.instance.program.counts_tries.store(true, Relaxed);
        rounds.push(Tried { access, value: before.value, state });
        self.rounds.set(rounds);
        self.notes_read();
        Some(before.value)
    }

    fn peeked<T: Value>(&self, place: Place) -> Option<u64> {
        self.m.peek(self.atom::<T>(place)).map(Value::bits)
    }

    /// What a load finds that is tried again, of most tries: without a look at the state that the task is in.
    pub(super) fn finds_quickly(&self, hook: Hook, address: u64, frame: &Frame) -> Option<u64> {
        let returns_to = frame.return_address;
        let is_load = matches!(hook, Hook::Load(_));
        let last = self.last_try.get().filter(|last| {
            is_load
                && last.count >= STEPS
                && !last.count.is_multiple_of(LOOK)
                && last.mark_registers != frame.registers
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
    fn finds_the_same(&self, address: usize, op: Op<u64>, state: u64) -> Option<u64> {
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
        let (mark, mark_registers) = if last.count.is_power_of_two() {
            (state, self.registers.get())
        } else {
            (last.mark, last.mark_registers)
        };
        let count = last.count + 1;
        self.last_try.set(Some(Try { state, mark, mark_registers, count, ..last }));
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
        let mut rounds = self.rounds.get();
        rounds.push(Tried { access: access(address, op, site), value, state });
        self.rounds.set(rounds);
        let again = before.filter(|last| {
            (last.address, last.op, last.site, last.value) == (address, op, site, value)
        });
        let count = again.map_or(0, |last| last.count) + 1;
        let returns_to = self.returns_to.get();
        let (mark, mark_registers) = (state, self.registers.get());
        self.last_try.set(Some(Try {
            address,
            op,
            site,
            state,
            mark,
            mark_registers,
            value,
            returns_to,
            count,
        }));
    }
}
