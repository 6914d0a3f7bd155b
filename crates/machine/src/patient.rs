//! A machine that gives its CPU away when a wait lasts: the holder of a lock, or the next in
//! line, may be waiting for that very CPU.

use std::sync::atomic::Ordering;

use crate::{Annotation, Atom, Field, IpiTarget, Machine, Op, Sleepers, Until, Value};

/// Some tens of microseconds: longer than any wait for a task that runs.
const LOOKS: u32 = 2000;

/// Another machine, with yielding waits.
#[derive(Debug)]
pub struct Patient<M>(pub M);

impl<M: Machine> Machine for Patient<M> {
    type HistoryMark = M::HistoryMark;

    #[inline(always)]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        loop {
            if let Some(word) = self.0.await_for(atom, until, ordering, LOOKS) {
                return word;
            }
            std::thread::yield_now();
        }
    }

    #[inline(always)]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        self.0.op(atom, op, ordering)
    }

    #[inline(always)]
    fn compare_exchange<T: Value>(
        &self,
        atom: &Atom<T>,
        old: T,
        new: T,
        ordering: Ordering,
    ) -> Result<T, T> {
        self.0.compare_exchange(atom, old, new, ordering)
    }

    #[inline(always)]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T> {
        self.0.await_for(atom, until, ordering, tries)
    }

    #[inline(always)]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        self.0.get(field)
    }

    #[inline(always)]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        self.0.set(field, value);
    }

    #[inline(always)]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        self.0.init(atom, value);
    }

    #[inline(always)]
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        self.0.poison(atom);
    }

    #[inline(always)]
    fn poison_field<T: Value>(&self, field: &Field<T>) {
        self.0.poison_field(field);
    }

    #[inline(always)]
    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.0.park(atom, expected);
    }

    #[inline(always)]
    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.0.wake(atom, whom);
    }

    #[inline(always)]
    fn send_ipi(&self, whom: IpiTarget) {
        self.0.send_ipi(whom);
    }

    #[inline(always)]
    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.0.with_irqs_off(body)
    }

    #[inline(always)]
    fn cpu_relax(&self, turns: u32) {
        self.0.cpu_relax(turns);
    }

    #[inline(always)]
    fn random_backoff(&self, below: u32) {
        self.0.random_backoff(below);
    }

    #[inline(always)]
    fn work(&self, ns: u64) {
        self.0.work(ns);
    }

    #[inline(always)]
    fn preemption_point(&self) {
        self.0.preemption_point();
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        self.0.cpu()
    }

    #[inline(always)]
    fn node(&self) -> usize {
        self.0.node()
    }

    #[inline(always)]
    fn random(&self, below: u32) -> u32 {
        self.0.random(below)
    }

    #[inline(always)]
    fn chance(&self, one_in: u32) -> bool {
        self.0.chance(one_in)
    }

    #[inline(always)]
    fn history_mark(&self) -> M::HistoryMark {
        self.0.history_mark()
    }

    #[inline(always)]
    fn forget_history(&self, since: M::HistoryMark, live: u64) {
        self.0.forget_history(since, live);
    }

    #[inline(always)]
    fn annotate(&self, annotation: Annotation) {
        self.0.annotate(annotation);
    }
}
