//! The trait: one task's view of a machine.

use std::sync::atomic::Ordering;

use crate::{Atom, Field, Op, Until, Value};

/// What one task of an algorithm may do. Algorithms take `m: &M`.
///
/// Waiting is an operation, never a loop over loads: natively it spins politely, simulated
/// it sleeps on the cache line, explored it disables the task. A loop that retries contains
/// a wait, a bound, or a [`Machine::forget_history`] at its head.
pub trait Machine {
    /// Does one access; returns what the word held.
    #[track_caller]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T;

    /// Writes `new` where `old` is. Returns what was there, as an error if it was another. The access
    /// is an [`Op::CompareExchange`]; a machine that is told at once whether it succeeded need not compare.
    #[inline(always)]
    #[track_caller]
    fn compare_exchange<T: Value>(
        &self,
        atom: &Atom<T>,
        old: T,
        new: T,
        ordering: Ordering,
    ) -> Result<T, T> {
        let found = self.op(atom, Op::CompareExchange(old, new), ordering);
        if found == old { Ok(found) } else { Err(found) }
    }

    /// Waits until the word fulfils the condition; returns the word. The only unbounded wait.
    #[track_caller]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T;

    /// Waits for a while, some `tries` looks at the word; `None` if that was in vain.
    #[track_caller]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T>;

    /// Reads a plain field.
    #[track_caller]
    fn get<T: Value>(&self, field: &Field<T>) -> T;

    /// Writes a plain field.
    #[track_caller]
    fn set<T: Value>(&self, field: &Field<T>, value: T);

    /// Writes a word that nobody else can reach now, as a plain field.
    #[track_caller]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T);

    /// Says that nobody will look at the word until it is written by `init` again: what it
    /// holds is no matter. A search holds everybody to that.
    #[inline(always)]
    #[track_caller]
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        let _ = atom;
    }

    /// The same of a plain field.
    #[inline(always)]
    #[track_caller]
    fn poison_field<T: Value>(&self, field: &Field<T>) {
        let _ = field;
    }

    /// Sleeps if the word is as expected, until woken; may return without either.
    #[track_caller]
    fn park(&self, atom: &Atom<u32>, expected: u32);

    /// Wakes tasks that sleep on the word.
    #[track_caller]
    fn wake(&self, atom: &Atom<u32>, whom: Sleepers);

    /// As [`Machine::park`], of who is a virtual CPU itself: it halts until it is kicked.
    #[inline(always)]
    #[track_caller]
    fn halt(&self, atom: &Atom<u32>, expected: u32) {
        self.park(atom, expected);
    }

    /// As [`Machine::wake`] of one, of a virtual CPU that halts on the word.
    #[inline(always)]
    #[track_caller]
    fn kick(&self, atom: &Atom<u32>) {
        self.wake(atom, Sleepers::One);
    }

    /// Interrupts other CPUs: each does what its machine was told to do then, before it goes on,
    /// also where it waits. Several that come before it does are one.
    #[track_caller]
    fn send_ipi(&self, whom: IpiTarget);

    /// Does something during which this CPU is not interrupted. What comes meanwhile comes
    /// afterwards.
    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R;

    /// Lets the CPU breathe for about this many turns of a spin loop.
    fn cpu_relax(&self, turns: u32);

    /// The same for any number of turns below the bound. Nothing else can depend on it, so a
    /// search need not try them all.
    fn random_backoff(&self, below: u32);

    /// Computes for this long, during which interrupts may come.
    fn work(&self, ns: u64);

    /// Says that a call into the kernel ends, with all that a kernel locks free again: a task that
    /// has had its CPU for long may lose it here, also if it holds what outlives the call.
    #[inline(always)]
    fn preemption_point(&self) {}

    /// The CPU it runs on, from 0.
    fn cpu(&self) -> usize;

    /// The memory node of that CPU, from 0.
    fn node(&self) -> usize;

    /// Any number below the bound.
    #[track_caller]
    fn random(&self, below: u32) -> u32;

    /// Whether something happens that does once in so many times. A search tries both.
    #[track_caller]
    fn chance(&self, one_in: u32) -> bool;

    /// A moment of the task's past.
    type HistoryMark: Copy;

    /// Now.
    fn history_mark(&self) -> Self::HistoryMark;

    /// Says that of all the task has seen since the mark only `live` matters for what it
    /// will do. That is what keeps the search of a retry loop finite; a wrong one would
    /// merge states that differ, so the search can check them.
    #[track_caller]
    fn forget_history(&self, since: Self::HistoryMark, live: u64);

    /// Tells a watching machine what has just happened.
    #[inline(always)]
    fn annotate(&self, annotation: Annotation) {
        let _ = annotation;
    }
}

/// Which CPUs are interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiTarget {
    /// This one, which is not the own.
    One(usize),
    /// All others, by one command.
    Others,
}

/// Whom to wake of those who sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// Any one of them, if there is one.
    One,
    /// All.
    All,
}

/// What an algorithm tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// The task has its place in the queue: whoever comes later enters later.
    Arrive,
    /// The task is inside, alone.
    Enter,
    /// The task leaves.
    Leave,
    /// The task is inside, with others who share.
    EnterShared,
    /// The task that shared leaves.
    LeaveShared,
}
