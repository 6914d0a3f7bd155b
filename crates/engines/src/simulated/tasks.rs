//! Tasks, CPUs and who has which.

use std::collections::VecDeque;

use machine::{Annotation, Until};

use super::Time;
use super::coherence::{Use, Word};
use super::invariants::Watched;
use super::ledger::{Account, Row};
use super::world::Idling;

/// What a task is doing.
///
///     Running ──has to wait for its turn──> Asking ──the line comes──> Running
///     Running ──waits──> Watching ──seen──> Running
///        │ ^ └─parks──> Asleep ──woken──┐
///        │ └──gets a CPU── Ready <──────┤
///        └──loses its CPU───> Ready <───┘   (a watching one too: then it looks again)
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    /// Goes on at its time.
    Running,
    /// Asks for a line at its time.
    Asking(Ask),
    /// Has a CPU and waits for a word to change.
    Watching(Watch),
    /// Has got a CPU again, to look at its word.
    Looking(Watch),
    /// Sleeps on a word.
    Asleep { offset: u32 },
    /// Waits for a CPU.
    Ready(Then),
    /// Has nothing left to do.
    Ended,
}

/// What a task does once it has a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    /// What it was doing takes so long still, in that row.
    GoOn(Time, Row),
    /// Looks at its word.
    Look(Watch),
    /// Handles an interrupt for a CPU that has nothing else to do, and is done.
    Handle,
}

/// A line that a task wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    pub line: u32,
    pub how: Use,
    /// Whether all stores before it must have been seen.
    pub after_stores: bool,
}

/// A line that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub at: Time,
    /// When those who have it lose it.
    pub leaves: Time,
    /// Whether it was there.
    pub hit: bool,
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watch {
    pub word: Word,
    pub until: Until<u64>,
    /// When it gives up.
    pub deadline: Time,
}

/// A store in the buffer of its CPU: the line was asked for, and the word has not changed yet.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    pub word: Word,
    pub new: u64,
    /// When the task wrote it.
    pub at: Time,
    /// When the line comes.
    pub comes: Time,
    /// When those who have the line lose it.
    pub leaves: Time,
}

/// One task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Up to when it has done things.
    pub time: Time,
    pub cpu: u16,
    pub doing: Doing,
    /// The turn of its one valid event; 0: none.
    pub turn: u64,
    /// Its stores that others do not see yet, in order.
    pub stores: VecDeque<Store>,
    /// When they should all be out.
    pub drained: Time,
    /// The line that it asked for and waited for; nothing where an interrupt came first.
    pub asked: Option<Asked>,
    /// It leaves its section at its time.
    pub leaving: Option<Annotation>,
    /// What it saw when its wait ended; nothing if it gave up.
    pub seen: Option<u64>,
    pub inside: bool,
    /// How long it had its CPU, but for the current time.
    pub had: Time,
    /// How many sections deep it is not to be interrupted.
    pub masked: u32,
    /// An interrupt has come, and was not handled yet.
    pub pending: bool,
    /// It is being interrupted, and goes on with this afterwards.
    pub handling: Option<Then>,
    /// It goes on because it was interrupted just now.
    pub called: bool,
    pub operations: u64,
    pub random: u64,
    pub account: Account,
}

impl Task {
    /// Whether it only waits, and lets its CPU breathe.
    pub fn pauses(&self) -> bool {
        matches!(self.doing, Doing::Watching(_)) || self.account.last() == Row::Spinning
    }

    /// It leaves its section, if it was about to: its work inside is done now.
    #[inline]
    pub fn leave(&mut self, watched: &mut Watched) {
        if let Some(note) = self.leaving.take() {
            watched.leaves(note);
        }
    }

    /// Stops what it does at `now`; what it has to do afterwards.
    pub fn stop(&mut self, now: Time) -> Then {
        let (now, remaining, row) = self.account.take_back(now);
        (self.time, self.turn) = (now, 0);
        Then::GoOn(remaining, row)
    }

    /// Books all time up to `until` that is in no row yet.
    #[inline]
    pub fn book(&mut self, row: Row, until: Time) {
        match self.handling {
            None => self.account.book(row, until),
            Some(_) => self.book_interrupted(row, until),
        }
    }

    #[cold]
    fn book_interrupted(&mut self, row: Row, until: Time) {
        self.account.book(if row.runs() { Row::Interrupted } else { row }, until);
    }
}

/// One CPU, and who waits for it.
#[derive(Clone, Debug, Default)]
pub struct RunQueue {
    pub current: Option<u16>,
    /// Since when the current task has it.
    pub since: Time,
    /// Whether the current task should make way for one that was woken.
    pub called: bool,
    /// Who waits for it, who had it the shortest time first.
    pub ready: VecDeque<u16>,
    /// How long who had it the shortest time has had it, which never falls.
    pub least: Time,
    /// Who is next, before whoever had it the shortest time.
    pub favoured: Option<u16>,
    /// When its clock rings, if it does.
    pub rings: Time,
    pub idling: Idling,
    /// What local things cost while one of `siblings` is busy, of 1000.
    pub slower_per_mille: u64,
    /// The other threads of its core that have tasks.
    pub siblings: Vec<u16>,
}
