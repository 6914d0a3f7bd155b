//! Words: shared atomics, plain fields that something else guards, and the cache line.

mod access;

use std::fmt::{Debug, Display};
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

pub use access::{Op, Test, Until};

/// A word that several CPUs access concurrently: natively an atomic of the standard library.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Atom<T: Value>(T::Cell);

/// A word that something else guards, such as a lock. Natively an access is one `mov`; the
/// checker reports accesses that no happens-before relation orders.
///
/// These are relaxed atomics: a program that breaks the rule is wrong, but its behaviour is never
/// undefined.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Field<T: Value>(T::Cell);

/// A value on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The types that a word can hold: `u8`, `u16`, `u32` and `u64`.
#[diagnostic::on_unimplemented(
    message = "a word cannot hold `{Self}`",
    note = "words hold u8, u16, u32 or u64; refer to other words by their index"
)]
pub trait Value: Copy + Eq + Debug + Display + Send + Sync + 'static {
    /// The matching atomic of the standard library.
    type Cell: Debug + Default + Send + Sync + 'static;
    /// Zero.
    const ZERO: Self;
    /// All bits set.
    const ALL: Self;

    /// This value, zero-extended to 64 bits.
    fn bits(self) -> u64;
    /// The value in the low bits of a 64-bit word.
    fn from_bits(bits: u64) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Does an access natively; returns the previous value, but zero for a store.
    fn apply(cell: &Self::Cell, op: Op<Self>, ordering: Ordering) -> Self;
    /// Does an [`Op::CompareExchange`] natively. The error is the value that was there instead.
    fn compare_exchange(
        cell: &Self::Cell,
        old: Self,
        new: Self,
        ordering: Ordering,
    ) -> Result<Self, Self>;
}

macro_rules! values {
    ($($value:ty, $cell:ty;)*) => { $(
        impl Value for $value {
            type Cell = $cell;
            const ZERO: $value = 0;
            const ALL: $value = <$value>::MAX;

            #[inline(always)]
            fn bits(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> $value {
                bits as $value
            }

            #[inline(always)]
            fn and(self, other: $value) -> $value {
                self & other
            }

            #[inline(always)]
            fn apply(cell: &$cell, op: Op<$value>, ordering: Ordering) -> $value {
                match op {
                    Op::Load => cell.load(ordering),
                    Op::Store(value) => {
                        cell.store(value, ordering);
                        0
                    }
                    Op::Swap(value) => cell.swap(value, ordering),
                    Op::CompareExchange(old, new) => {
                        match <$value>::compare_exchange(cell, old, new, ordering) {
                            Ok(previous) | Err(previous) => previous,
                        }
                    }
                    Op::Add(value) => cell.fetch_add(value, ordering),
                    Op::Or(value) => cell.fetch_or(value, ordering),
                    Op::And(value) => cell.fetch_and(value, ordering),
                    Op::Xor(value) => cell.fetch_xor(value, ordering),
                }
            }

            #[inline(always)]
            fn compare_exchange(
                cell: &$cell,
                old: $value,
                new: $value,
                ordering: Ordering,
            ) -> Result<$value, $value> {
                cell.compare_exchange(old, new, ordering, Ordering::Relaxed)
            }
        }
    )* };
}

values! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

impl<T: Value> Atom<T> {
    /// The native atomic, for machines.
    #[inline(always)]
    pub fn cell(&self) -> &T::Cell {
        &self.0
    }
}

impl<T: Value> Field<T> {
    /// The native atomic, for machines.
    #[inline(always)]
    pub fn cell(&self) -> &T::Cell {
        &self.0
    }
}
