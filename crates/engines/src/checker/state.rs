//! What the tasks have done so far, as far as it matters for what they will do.

use super::happens_before::Orders;
use super::request::{Kind, Request};

/// Stores that a CPU can hold back.
pub const BUFFER: usize = 4;

/// CPUs that a task may have seen named since its last cut.
const NAMES: usize = 24;

/// A state. Saved ones have the memory too; of the live one it is the region itself.
#[derive(Debug, Default)]
pub struct State {
    pub memory: Vec<u64>,
    pub tasks: Vec<Task>,
    /// The store buffers, [`BUFFER`] entries a task, the oldest first; empty where stores
    /// become visible at once.
    pub entries: Vec<Entry>,
    pub orders: Orders,
    /// Who has arrived and not entered, the first first.
    pub arrivals: Vec<u8>,
    /// How many are inside alone: at most one, or something is wrong.
    pub inside: u8,
    /// How many are inside with others.
    pub sharing: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub request: Request,
    pub ended: bool,
    /// A hash of all that the task was told and that still matters.
    pub history: u64,
    pub names: Names,
    /// Steps since the history was last cut.
    pub steps: u32,
    /// Stores held back.
    pub buffered: u8,
    /// Whether it was interrupted and has not seen to it.
    pub interrupt: bool,
    /// How many sections deep it cannot be interrupted.
    pub masked: u8,
}

/// The CPUs named in what a task was told, in order: kept apart from its history, so that
/// they can be renamed. Beside each the role of the word that named it, which follows from
/// the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    list: [(u8, u16); NAMES],
    length: u8,
}

impl Names {
    pub fn push(&mut self, cpu: u8, role: u16) {
        assert!(usize::from(self.length) < NAMES, "a task sees CPUs named without ever a cut");
        self.list[usize::from(self.length)] = (cpu, role);
        self.length += 1;
    }

    pub fn len(&self) -> u8 {
        self.length
    }

    pub fn truncate(&mut self, length: u8) {
        self.length = self.length.min(length);
    }

    pub fn iter(&self) -> impl Iterator<Item = u8> {
        self.with_roles().map(|(cpu, _)| cpu)
    }

    pub fn with_roles(&self) -> impl Iterator<Item = (u8, u16)> {
        self.list[..usize::from(self.length)].iter().copied()
    }
}

/// A store held back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    pub offset: u32,
    pub size: u8,
    pub value: u64,
}

impl State {
    pub fn clone_from(&mut self, other: &State) {
        self.tasks.clone_from(&other.tasks);
        self.entries.clone_from(&other.entries);
        self.orders.clone_from(&other.orders);
        self.arrivals.clone_from(&other.arrivals);
        (self.inside, self.sharing) = (other.inside, other.sharing);
    }

    /// The stores that a task holds back.
    pub fn held_back(&self, task: usize) -> &[Entry] {
        match self.entries.is_empty() {
            true => &[],
            false => &self.entries[task * BUFFER..][..usize::from(self.tasks[task].buffered)],
        }
    }

    /// Who sleeps on the word at this offset.
    pub fn asleep_on(&self, offset: u32) -> impl Iterator<Item = usize> + '_ {
        let asleep =
            move |task: &Task| task.request.kind == Kind::Asleep && task.request.offset == offset;
        (0..self.tasks.len()).filter(move |&t| asleep(&self.tasks[t]))
    }
}
