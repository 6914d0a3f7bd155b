//! Mutants: another machine, on which one access of the source does less than it says. A
//! check that cannot tell a mutant from the original has not looked at that access.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;

use machine::{Atom, Field, Interrupted, Machine, Note, Op, Ordering, Sleepers, Until, Value};

/// An access in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Its file.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
    /// Its column.
    pub column: u32,
}

/// What is changed at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The access is relaxed.
    Relaxed,
    /// The read-modify-write acquires no more, and releases still.
    NoAcquire,
    /// The read-modify-write releases no more, and acquires still.
    NoRelease,
    /// Nothing is written, or nobody woken.
    Skipped,
    /// What is written is one too much.
    OffByOne,
    /// The wait does not wait.
    NoWait,
    /// The read-modify-write is a load and then a store.
    Torn,
    /// The wait is not interrupted.
    Deaf,
}

/// A change at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where.
    pub site: Site,
    /// What.
    pub change: Change,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Change::Relaxed => "relaxed",
            Change::NoAcquire => "no acquire",
            Change::NoRelease => "no release",
            Change::Skipped => "skipped",
            Change::OffByOne => "off by one",
            Change::NoWait => "no wait",
            Change::Torn => "torn",
            Change::Deaf => "deaf",
        })
    }
}

/// A machine with a mutant, or one that notes which mutants there could be.
#[derive(Debug)]
pub struct Mutated<'a, M> {
    machine: &'a M,
    mutant: Option<Mutant>,
    possible: Option<&'a RefCell<BTreeSet<Mutant>>>,
}

impl<'a, M> Mutated<'a, M> {
    /// The machine with this mutant.
    pub fn new(machine: &'a M, mutant: Mutant) -> Mutated<'a, M> {
        Mutated { machine, mutant: Some(mutant), possible: None }
    }

    /// The machine as it is.
    pub fn unchanged(machine: &'a M) -> Mutated<'a, M> {
        Mutated { machine, mutant: None, possible: None }
    }

    /// The machine as it is; notes the mutants of each access that it sees.
    pub fn noting(machine: &'a M, possible: &'a RefCell<BTreeSet<Mutant>>) -> Mutated<'a, M> {
        Mutated { machine, mutant: None, possible: Some(possible) }
    }

    /// The change at the caller's site.
    #[track_caller]
    fn change(&self, possible: &[Change]) -> Option<Change> {
        let location = Location::caller();
        let (file, line, column) = (location.file(), location.line(), location.column());
        if let Some(noted) = self.possible {
            let site = Site { file, line, column };
            noted.borrow_mut().extend(possible.iter().map(|&change| Mutant { site, change }));
        }
        let Mutant { site, change } = self.mutant?;
        (site.line == line && site.column == column && site.file == file).then_some(change)
    }
}

/// What can be changed at an access. No vector: a task may not own memory while it is stopped.
fn changes<T>(op: &Op<T>, ordering: Ordering) -> &'static [Change] {
    use Change::{NoAcquire, NoRelease, OffByOne, Relaxed, Skipped, Torn};
    match (op, ordering) {
        (Op::Load, Ordering::Relaxed) => &[],
        (Op::Load, _) => &[Relaxed],
        (Op::Store(_), Ordering::Relaxed) => &[Skipped, OffByOne],
        (Op::Store(_), _) => &[Relaxed, Skipped, OffByOne],
        (_, Ordering::Relaxed) => &[Skipped, OffByOne, Torn],
        (_, Ordering::Acquire | Ordering::Release) => &[Relaxed, Skipped, OffByOne, Torn],
        _ => &[NoAcquire, NoRelease, Skipped, OffByOne, Torn],
    }
}

fn off_by_one<T: Value>(op: Op<T>) -> Op<T> {
    let more = |value: T| T::of_bits(value.bits().wrapping_add(1));
    match op {
        Op::Load => Op::Load,
        Op::Store(value) => Op::Store(more(value)),
        Op::Swap(value) => Op::Swap(more(value)),
        Op::CompareExchange(old, new) => Op::CompareExchange(old, more(new)),
        Op::Add(value) => Op::Add(more(value)),
        Op::Or(bits) => Op::Or(more(bits)),
        Op::And(bits) => Op::And(more(bits)),
    }
}

/// What a read-modify-write would store.
fn result<T: Value>(op: Op<T>, old: T) -> Option<T> {
    let both = |value: T, combine: fn(u64, u64) -> u64| {
        Some(T::of_bits(combine(old.bits(), value.bits())))
    };
    match op {
        Op::Load => None,
        Op::CompareExchange(expected, _) if expected != old => None,
        Op::Store(value) | Op::Swap(value) | Op::CompareExchange(_, value) => Some(value),
        Op::Add(value) => both(value, u64::wrapping_add),
        Op::Or(bits) => both(bits, |a, b| a | b),
        Op::And(bits) => both(bits, |a, b| a & b),
    }
}

fn loading(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

fn storing(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Acquire => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Release,
        other => other,
    }
}

impl<M: Machine> Machine for Mutated<'_, M> {
    type Mark = M::Mark;

    #[track_caller]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        let relaxed = match self.change(changes(&op, ordering)) {
            None => ordering,
            Some(Change::NoAcquire) => Ordering::Release,
            Some(Change::NoRelease) => Ordering::Acquire,
            Some(Change::Skipped) => match op {
                Op::Store(_) => return T::ZERO,
                _ => return self.machine.op(atom, Op::Load, loading(ordering)),
            },
            Some(Change::OffByOne) => return self.machine.op(atom, off_by_one(op), ordering),
            Some(Change::Torn) => {
                let old = self.machine.op(atom, Op::Load, loading(ordering));
                if let Some(new) = result(op, old) {
                    self.machine.op(atom, Op::Store(new), storing(ordering));
                }
                return old;
            }
            Some(_) => Ordering::Relaxed,
        };
        self.machine.op(atom, op, relaxed)
    }

    #[track_caller]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        let relaxing = if ordering == Ordering::Relaxed { 1 } else { 0 };
        match self.change(&[Change::Relaxed, Change::NoWait, Change::Deaf][relaxing..]) {
            None => self.machine.await_until(atom, until, ordering),
            Some(Change::NoWait) => self.machine.op(atom, Op::Load, ordering),
            Some(Change::Deaf) => {
                self.machine.uninterrupted(|| self.machine.await_until(atom, until, ordering))
            }
            Some(_) => self.machine.await_until(atom, until, Ordering::Relaxed),
        }
    }

    #[track_caller]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T> {
        let relaxing = if ordering == Ordering::Relaxed { 1 } else { 0 };
        match self.change(&[Change::Relaxed, Change::NoWait][relaxing..]) {
            None => self.machine.await_for(atom, until, ordering, tries),
            Some(Change::NoWait) => None,
            Some(_) => self.machine.await_for(atom, until, Ordering::Relaxed, tries),
        }
    }

    #[track_caller]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        self.machine.get(field)
    }

    #[track_caller]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        if self.change(&[Change::Skipped]).is_none() {
            self.machine.set(field, value);
        }
    }

    #[track_caller]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        if self.change(&[Change::Skipped]).is_none() {
            self.machine.init(atom, value);
        }
    }

    #[track_caller]
    fn retire<T: Value>(&self, atom: &Atom<T>) {
        self.machine.retire(atom);
    }

    #[track_caller]
    fn discard<T: Value>(&self, field: &Field<T>) {
        self.machine.discard(field);
    }

    #[track_caller]
    fn park(&self, atom: &Atom<u32>, expected: u32) {
        if self.change(&[Change::NoWait]).is_none() {
            self.machine.park(atom, expected);
        }
    }

    #[track_caller]
    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        if self.change(&[Change::Skipped]).is_none() {
            self.machine.wake(atom, whom);
        }
    }

    #[track_caller]
    fn interrupt(&self, whom: Interrupted) {
        if self.change(&[Change::Skipped]).is_none() {
            self.machine.interrupt(whom);
        }
    }

    fn uninterrupted<R>(&self, body: impl FnOnce() -> R) -> R {
        self.machine.uninterrupted(body)
    }

    fn pause(&self, turns: u32) {
        self.machine.pause(turns);
    }

    fn back_off(&self, below: u32) {
        self.machine.back_off(below);
    }

    fn work(&self, ns: u64) {
        self.machine.work(ns);
    }

    fn call_ends(&self) {
        self.machine.call_ends();
    }

    fn cpu(&self) -> usize {
        self.machine.cpu()
    }

    fn node(&self) -> usize {
        self.machine.node()
    }

    #[track_caller]
    fn random(&self, below: u32) -> u32 {
        self.machine.random(below)
    }

    #[track_caller]
    fn chance(&self, one_in: u32) -> bool {
        self.machine.chance(one_in)
    }

    fn mark(&self) -> M::Mark {
        self.machine.mark()
    }

    #[track_caller]
    fn cut(&self, since: M::Mark, live: u64) {
        self.machine.cut(since, live);
    }

    fn note(&self, note: Note) {
        self.machine.note(note);
    }
}
