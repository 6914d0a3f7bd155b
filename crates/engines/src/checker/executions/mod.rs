//! Memory under rules of hardware or of the kernel: the execution so far as a graph. Its events are accesses and fences, its
//! edges program order with dependencies, which write each read reads from, and the order of the writes of each location.
//!
//!     t0: W x=1 ──stlr──> W y=1        t1: R y=1 ──address──> R x=0
//!               rf: y=1 ─> R y         co of x: x=0 ─> x=1; R x=0 comes before x=1
//!
//! A step adds an event at the end of its task, reading any write, or writing at any place in the order of its location, that
//! the rules (`armv8`, `lkmm`) allow. New edges touch the new event alone, so an execution stays allowed unless one of them
//! closes a cycle. The newest write can always be read, and a new one can always come last.

pub mod armv8;
pub mod lkmm;
mod promises;
mod relation;
mod settle;

use machine::{CodeSite, Dependencies, Ordering};

pub use promises::{Ahead, PROMISES};

use super::views::{Target, bits};

/// A set of events.
pub type Bits = u128;

/// Events of an execution at most.
pub const EVENTS_MAX: usize = Bits::BITS as usize;

/// Stands for the task that wrote what memory held before the first access.
pub const NOBODY: u8 = u8::MAX;

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The rules of the Arm architecture, version 8.
    Armv8,
    /// The rules of the Linux kernel's memory model.
    Lkmm(lkmm::Version),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Fence(Barrier),
}

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// All before with all after: `dmb ish`, `smp_mb()`.
    Full,
    /// Loads before with loads after, on Arm with stores after, too: `dmb ishld`, `smp_rmb()`.
    Loads,
    /// Stores before with stores after: `dmb ishst`, `smp_wmb()`.
    Stores,
    /// Loads before with all after: an acquire fence of C11 under the kernel's rules.
    Acquire,
    /// All before with stores after: a release fence of C11 under the kernel's rules.
    Release,
}

/// How an access orders others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Relaxed,
    /// A load before all that follows: `ldapr`.
    AcquirePc,
    /// As `AcquirePc`, and after earlier releases: `ldar`, `ldaxr`.
    Acquire,
    /// A store after all that came before.
    Release,
}

/// An access or a fence.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub task: u8,
    /// Its number among the events of its task.
    pub local: u8,
    pub kind: Kind,
    pub strength: Strength,
    pub is_plain: bool,
    /// Whether others may see it before its task has come to it: a store that runs ahead of loads.
    pub is_promise: bool,
    /// Whether it belongs to a read-modify-write: its write is the event after its read.
    pub is_update: bool,
    /// Whether it takes or releases a spinlock of the kernel.
    pub of_spinlock: bool,
    pub cell: u16,
    /// The words that it accesses, as bits from the first of the cell.
    pub words: u8,
    /// The bits that it writes, of the eight bytes that hold the cell, and their values.
    pub mask: u64,
    pub value: u64,
    /// The writes that it reads from: one, or several of a cell.
    pub from: Bits,
    /// Reads that its address, its value, and whether it happens depend on.
    pub address: Bits,
    pub data: Bits,
    pub control: Bits,
    /// Events of its own task that the rules order before it.
    pub before: Bits,
    pub ordering: Ordering,
    pub site: CodeSite,
}

/// The execution so far.
#[derive(Debug, Default)]
pub struct Executions {
    pub events: Vec<Event>,
    /// The writes, by cell and in coherence order.
    writes: Vec<u8>,
    /// By task: how many events it had, dropped ones too.
    pub counts: Vec<u8>,
    /// By task: the number of its last read.
    pub last_reads: Vec<Option<u8>>,
    /// By task: what its next access depends on.
    pub pending: Vec<Dependencies>,
    /// By task: reads that ended a wait, by their numbers in it.
    pub controls: Vec<Bits>,
}

impl Executions {
    pub fn new(tasks: usize) -> Executions {
        let pending = vec![Dependencies::default(); tasks];
        let (counts, controls) = (vec![0; tasks], vec![0; tasks]);
        let last_reads = vec![None; tasks];
        Executions { counts, last_reads, pending, controls, ..Executions::default() }
    }

    pub fn clone_from(&mut self, other: &Executions) {
        self.events.clone_from(&other.events);
        self.writes.clone_from(&other.writes);
        self.counts.clone_from(&other.counts);
        self.last_reads.clone_from(&other.last_reads);
        self.pending.clone_from(&other.pending);
        self.controls.clone_from(&other.controls);
    }

    pub fn copied(&self) -> Executions {
        let mut copy = Executions::default();
        copy.clone_from(self);
        copy
    }

    /// The events that a task has come to.
    pub fn of_task(&self, task: u8) -> impl Iterator<Item = (usize, &Event)> {
        let is_one = move |event: &Event| event.task == task && !event.is_promise;
        self.events.iter().enumerate().filter(move |(_, event)| is_one(event))
    }

    /// The events with these numbers in their task.
    pub fn named(&self, task: usize, locals: Bits) -> Bits {
        if locals == 0 {
            return 0;
        }
        let is_one = |event: &Event| locals >> event.local & 1 != 0;
        let named = self.of_task(task as u8).filter(|(_, event)| is_one(event));
        named.fold(0, |all, (id, _)| all | 1 << id)
    }

    /// Where the writes of a cell are in `writes`.
    fn cell(&self, cell: u16) -> std::ops::Range<usize> {
        let is_of = |&&id: &&u8| self.events[usize::from(id)].cell == cell;
        let Some(first) = self.writes.iter().position(|id| is_of(&id)) else {
            let end = self.writes.len();
            return end..end;
        };
        first..first + self.writes[first..].iter().take_while(is_of).count()
    }

    /// The writes of a cell in coherence order.
    pub fn order(&self, cell: u16) -> &[u8] {
        &self.writes[self.cell(cell)]
    }

    fn write(&self, id: u8) -> &Event {
        &self.events[usize::from(id)]
    }

    /// Notes what memory holds, as the first write of a cell.
    pub fn begin_cell(
        &mut self,
        target: &Target,
        words: u8,
        (mask, memory): (u64, u64),
        site: CodeSite,
    ) {
        if !self.cell(target.cell).is_empty() {
            return;
        }
        let first = Event {
            task: NOBODY,
            local: 0,
            kind: Kind::Write,
            strength: Strength::Relaxed,
            is_plain: false,
            is_promise: false,
            is_update: false,
            of_spinlock: false,
            cell: target.cell,
            words,
            mask,
            value: memory,
            from: 0,
            address: 0,
            data: 0,
            control: 0,
            before: 0,
            ordering: Ordering::Relaxed,
            site,
        };
        self.writes.push(self.events.len() as u8);
        self.events.push(first);
    }

    /// The event with this number in its task.
    pub fn id_of(&self, task: u8, local: u8) -> usize {
        let is_it = |(_, event): &(usize, &Event)| event.local == local;
        self.of_task(task).find(is_it).expect("an event that is kept").0
    }

    /// The read of a read-modify-write, by its write.
    pub fn update_of(&self, id: usize) -> Option<usize> {
        let event = &self.events[id];
        (event.kind == Kind::Write && event.is_update)
            .then(|| self.id_of(event.task, event.local - 1))
    }

    /// The bits of a cell, of the eight bytes that hold it.
    pub fn cell_mask(&self, cell: u16) -> u64 {
        self.order(cell).first().map_or(0, |&first| self.write(first).mask)
    }

    /// The last write up to this one, in the order of a cell, of a word.
    fn last(&self, order: &[u8], up_to: usize, bit: usize) -> Option<usize> {
        (0..=up_to).rev().find(|&index| self.write(order[index]).words >> bit & 1 != 0)
    }

    /// The writes that a read of the cell as it is after this one reads from.
    pub fn sources(&self, target: &Target, read: usize) -> Bits {
        let order = self.order(target.cell);
        let last = bits(target.words.into()).filter_map(|bit| self.last(order, read, bit));
        last.fold(0, |all, index| all | 1 << order[index])
    }

    /// The value of the eight bytes that hold the cell after this write.
    pub fn value(&self, cell: u16, read: usize) -> u64 {
        let order = &self.order(cell)[..=read];
        order.iter().fold(0, |value, &id| {
            let Event { mask, value: new, .. } = *self.write(id);
            value & !mask | new
        })
    }

    /// The place in the order, of a word, that a task must not read behind.
    fn floor(&self, task: usize, order: &[u8], cell: u16, bit: usize) -> usize {
        let place = |id: usize| order.iter().position(|&write| usize::from(write) == id);
        let of_word = |(_, event): &(usize, &Event)| {
            event.cell == cell
                && event.words >> bit & 1 != 0
                && !matches!(event.kind, Kind::Fence(_))
        };
        let places = self.of_task(task as u8).filter(of_word).filter_map(|(id, event)| {
            if event.kind == Kind::Write {
                return place(id);
            }
            let sources = set(event.from).filter(|&id| self.events[id].words >> bit & 1 != 0);
            sources.filter_map(place).max()
        });
        places.max().unwrap_or(0)
    }

    /// The places in the order that a task may read at by coherence: the newest first.
    pub fn readable(&self, task: usize, target: &Target) -> Vec<usize> {
        let order = self.order(target.cell);
        let floors: Vec<(usize, usize)> = bits(target.words.into())
            .map(|bit| (bit, self.floor(task, order, target.cell, bit)))
            .collect();
        let mut readable = Vec::new();
        for read in (0..order.len()).rev() {
            if self.write(order[read]).words & target.words == 0 {
                continue;
            }
            let is_late =
                |&(bit, floor): &(usize, usize)| self.last(order, read, bit) >= Some(floor);
            if !floors.iter().all(is_late) {
                break;
            }
            // What a task has only promised, it has not written yet.
            let is_own = |id: usize| {
                let write = &self.events[id];
                write.is_promise && usize::from(write.task) == task
            };
            if !set(self.sources(target, read)).any(is_own) {
                readable.push(read);
            }
        }
        readable
    }

    /// The places in the order that a new write of a task may get by coherence: the last first.
    pub fn writable(&self, task: usize, target: &Target) -> Vec<usize> {
        let order = self.order(target.cell);
        let floors = bits(target.words.into()).map(|bit| self.floor(task, order, target.cell, bit));
        let floor = floors.max().unwrap_or(0);
        let overlaps = |index: usize| self.write(order[index]).words & target.words != 0;
        (floor + 1..=order.len())
            .rev()
            .filter(|&index| index == order.len() || overlaps(index))
            .filter(|&index| !self.splits_update(order, index, target))
            .collect()
    }

    /// Whether a write at this place would come between a read-modify-write and what it read.
    fn splits_update(&self, order: &[u8], index: usize, target: &Target) -> bool {
        bits(target.words.into()).any(|bit| {
            let mut later = order[index..].iter().map(|&id| self.write(id));
            later.find(|write| write.words >> bit & 1 != 0).is_some_and(|next| next.is_update)
        })
    }

    /// Whether a read-modify-write can read at this place.
    pub fn can_update(&self, target: &Target, read: usize) -> bool {
        !self.splits_update(self.order(target.cell), read + 1, target)
    }

    /// Adds an event at the end of its task; a write at this place in the order.
    pub fn push(&mut self, event: Event, place: Option<usize>) -> usize {
        let id = self.events.len();
        if let Some(place) = place {
            let at = self.cell(event.cell).start + place;
            self.writes.insert(at, id as u8);
        }
        self.counts[usize::from(event.task)] += 1;
        if event.kind == Kind::Read {
            self.last_reads[usize::from(event.task)] = Some(event.local);
        }
        self.events.push(event);
        id
    }

    /// Takes the last event back.
    pub fn pop(&mut self) {
        let Some(event) = self.events.pop() else { return };
        let id = self.events.len() as u8;
        self.writes.retain(|&write| write != id);
        self.counts[usize::from(event.task)] -= 1;
    }

    /// Whether a read comes before a write in coherence: it reads an older value of a word of it.
    fn reads_before(&self, read: &Event, order: &[u8], write: usize) -> bool {
        let words = read.words & self.events[write].words;
        let is_same = read.cell == self.events[write].cell;
        if !is_same || read.kind != Kind::Read || words == 0 || read.from >> write & 1 != 0 {
            return false;
        }
        let place = |id: usize| order.iter().position(|&one| usize::from(one) == id);
        let at = place(write);
        // Each word is read from the last of these writes that has it.
        bits(words.into()).any(|bit| {
            let sources = set(read.from).filter(|&id| self.events[id].words >> bit & 1 != 0);
            sources.map(place).max().is_some_and(|source| source < at)
        })
    }

    /// Writes behind what this event reads or writes, in coherence order.
    pub fn after(&self, id: usize) -> Bits {
        let event = &self.events[id];
        if let Kind::Fence(_) = event.kind {
            return 0;
        }
        let order = self.order(event.cell);
        let place = order.iter().position(|&one| usize::from(one) == id);
        let is_after = |&(at, &other): &(usize, &u8)| {
            self.write(other).words & event.words != 0
                && match event.kind {
                    Kind::Write => Some(at) > place,
                    _ => self.reads_before(event, order, other.into()),
                }
        };
        order.iter().enumerate().filter(is_after).fold(0, |after, (_, &other)| after | 1 << other)
    }

    /// Writes of other tasks behind what this event reads or writes.
    pub fn external_after(&self, id: usize) -> Bits {
        let task = self.events[id].task;
        let other = |&write: &usize| self.events[write].task != task;
        set(self.after(id)).filter(other).fold(0, |all, write| all | 1 << write)
    }

    /// Events of other tasks right before this one: what it reads, writes that it overwrites, reads of those.
    pub fn external_before(&self, id: usize) -> Bits {
        let event = &self.events[id];
        match event.kind {
            Kind::Fence(_) => 0,
            Kind::Read => set(event.from)
                .filter(|&id| self.events[id].task != event.task)
                .fold(0, |all, id| all | 1 << id),
            Kind::Write => {
                let order = self.order(event.cell);
                let is_before = |&(_, other): &(usize, &Event)| {
                    other.task != event.task && self.reads_before(other, order, id)
                };
                let reads = self.events.iter().enumerate().filter(is_before);
                let reads = reads.fold(0, |all, (id, _)| all | 1 << id);
                let earlier = order.iter().take_while(|&&one| usize::from(one) != id);
                earlier.fold(reads, |all, &one| {
                    let write = self.write(one);
                    let is_it = write.task != event.task && write.words & event.words != 0;
                    all | Bits::from(is_it) << one
                })
            }
        }
    }
}

/// The events of a set.
pub fn set(mut events: Bits) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let id = events.trailing_zeros() as usize;
        (events != 0).then(|| events &= events - 1).map(|()| id)
    })
}
