//! What an algorithm does with words: the methods of atoms and fields, carried out by a machine.

use std::sync::atomic::Ordering;

use crate::{Atom, Field, Machine, Op, Value};

/// The methods of the standard library's atomics, carried out by a machine.
impl<T: Value> Atom<T> {
    /// Reads.
    #[inline(always)]
    #[track_caller]
    pub fn load<M: Machine>(&self, m: &M, ordering: Ordering) -> T {
        m.op(self, Op::Load, ordering)
    }

    /// Writes.
    #[inline(always)]
    #[track_caller]
    pub fn store<M: Machine>(&self, m: &M, value: T, ordering: Ordering) {
        m.op(self, Op::Store(value), ordering);
    }

    /// Writes; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn swap<M: Machine>(&self, m: &M, value: T, ordering: Ordering) -> T {
        m.op(self, Op::Swap(value), ordering)
    }

    /// Writes `new` if the word holds `old`. Returns the previous value, as an error if it was not
    /// `old`.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange<M: Machine>(
        &self,
        m: &M,
        old: T,
        new: T,
        ordering: Ordering,
    ) -> Result<T, T> {
        m.compare_exchange(self, old, new, ordering)
    }

    /// Adds, wrapping around; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add<M: Machine>(&self, m: &M, value: T, ordering: Ordering) -> T {
        m.op(self, Op::Add(value), ordering)
    }

    /// Sets bits; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or<M: Machine>(&self, m: &M, bits: T, ordering: Ordering) -> T {
        m.op(self, Op::Or(bits), ordering)
    }

    /// Clears all bits that are not in the mask; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and<M: Machine>(&self, m: &M, bits: T, ordering: Ordering) -> T {
        m.op(self, Op::And(bits), ordering)
    }

    /// Flips bits; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_xor<M: Machine>(&self, m: &M, bits: T, ordering: Ordering) -> T {
        m.op(self, Op::Xor(bits), ordering)
    }
}

impl<T: Value> Field<T> {
    /// Reads.
    #[inline(always)]
    #[track_caller]
    pub fn get<M: Machine>(&self, m: &M) -> T {
        m.get(self)
    }

    /// Requests the cache line, to read it soon.
    #[inline(always)]
    pub fn prefetch<M: Machine>(&self, m: &M) {
        m.prefetch(self);
    }

    /// Writes.
    #[inline(always)]
    #[track_caller]
    pub fn set<M: Machine>(&self, m: &M, value: T) {
        m.set(self, value);
    }
}
