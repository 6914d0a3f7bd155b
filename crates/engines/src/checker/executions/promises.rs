//! Stores that run ahead of earlier loads of their task (load buffering): a promise is a write that others can read before its task
//! has come to it. Once the task does, it is an event as any other, and must be allowed as one. What ends with a promise that no
//! task has come to has not happened.
//!
//!     t0: R x ─ ─ ─> W y=1        promised before t0 reads x, as nothing orders both
//!     t1: R y=1 ──data──> W x=1   so t1 reads y=1, and t0 may read x=1

use machine::{CodeSite, Ordering};

use super::{Bits, Event, Executions, Kind, set};

/// Alternatives from here on are promises: a learned store, and a place in the order of its location.
pub const PROMISES: u8 = 100;
/// A store that nothing of its task orders after some earlier load.
#[derive(Clone, Debug)]
pub struct Ahead {
    /// Where the loads stand that it may overtake.
    pub over: Vec<CodeSite>,
    pub task: usize,
    pub offset: u32,
    pub size: u8,
    pub value: u64,
    pub is_update: bool,
    pub ordering: Ordering,
    pub site: CodeSite,
}

impl Ahead {
    /// Whether it is the same store, whatever it overtakes.
    pub fn is_same(&self, other: &Ahead) -> bool {
        let identity = |one: &Ahead| (one.task, one.offset, one.size, one.value, one.is_update);
        identity(self) == identity(other)
    }
}

impl Executions {
    /// All promises.
    pub fn promised(&self) -> Bits {
        let promises = self.events.iter().enumerate().filter(|(_, event)| event.is_promise);
        promises.fold(0, |all, (id, _)| all | 1 << id)
    }

    /// The promises of a task.
    pub fn promised_by(&self, task: usize) -> impl Iterator<Item = usize> {
        set(self.promised()).filter(move |&id| usize::from(self.events[id].task) == task)
    }

    /// Adds a promise at this place in the order.
    pub fn promise(&mut self, event: Event, place: usize) {
        let id = self.events.len();
        let at = self.cell(event.cell).start + place;
        self.writes.insert(at, id as u8);
        self.events.push(Event { is_promise: true, local: u8::MAX, ..event });
    }

    /// Makes a promise the event to which its task has come.
    pub fn fulfil(&mut self, id: usize, event: Event) {
        self.counts[usize::from(event.task)] += 1;
        self.events[id] = Event { is_promise: false, ..event };
    }

    /// The place of a write in the order of its cell.
    pub fn place_of(&self, id: usize) -> usize {
        let order = self.order(self.events[id].cell);
        order.iter().position(|&one| usize::from(one) == id).expect("a write")
    }

    /// The place that is the last one before this, of writes to these words.
    pub fn place_before(&self, id: usize) -> Option<usize> {
        let event = &self.events[id];
        let order = self.order(event.cell);
        (0..self.place_of(id)).rev().find(|&at| self.write(order[at]).words & event.words != 0)
    }

    /// Whether a task has seen nothing of a word that comes after this write of its own, nor the write itself.
    pub fn can_fulfil(&self, id: usize) -> bool {
        let event = &self.events[id];
        let (order, place) = (self.order(event.cell), self.place_of(id));
        super::bits(event.words.into())
            .all(|bit| self.floor(event.task.into(), order, event.cell, bit) < place)
    }

    /// Reads of a task before this write of it that no rule of its own orders before it.
    pub fn overtaken(&self, id: usize, ordered: Bits) -> impl Iterator<Item = &Event> {
        let event = self.events[id];
        let reads = self.of_task(event.task).filter(move |&(other, read)| {
            let is_own = event.is_update && read.local + 1 == event.local;
            let is_same = read.cell == event.cell && read.words & event.words != 0;
            read.kind == Kind::Read
                && read.local < event.local
                && !is_own
                && !is_same
                && ordered >> other & 1 == 0
        });
        reads.map(|(_, read)| read)
    }

    /// Reads of other tasks from these writes.
    pub fn read_by_others(&self, writes: Bits) -> Bits {
        let reads = self.events.iter().enumerate().filter(|(_, read)| {
            set(read.from & writes).any(|write| self.events[write].task != read.task)
        });
        reads.fold(0, |all, (id, _)| all | 1 << id)
    }
}
