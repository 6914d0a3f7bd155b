//! Accesses and waits as data, so that a machine can print, hash, price or mutate them.

use crate::Value;

/// One access to an [`Atom`](crate::Atom). Each returns what the word held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<T> {
    /// Reads.
    Load,
    /// Writes. The only access that tells nothing: it returns zero.
    Store(T),
    /// Writes and reads in one.
    Swap(T),
    /// Writes the second if the word holds the first. One that fails gives no ordering, as
    /// in the kernel.
    CompareExchange(T, T),
    /// Adds, wrapping around.
    Add(T),
    /// Sets bits.
    Or(T),
    /// Keeps bits.
    And(T),
}

/// A condition on a word, as data: `word & mask` compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until<T> {
    /// Which bits count.
    pub mask: T,
    /// How they compare.
    pub test: Test,
    /// What with.
    pub value: T,
}

/// How a wait compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal.
    Equal,
    /// Not equal.
    Differs,
}

impl<T: Value> Until<T> {
    /// The word is `value`.
    #[inline(always)]
    pub fn equals(value: T) -> Until<T> {
        Until { mask: T::ALL, test: Test::Equal, value }
    }

    /// The word is not `value`.
    #[inline(always)]
    pub fn differs(value: T) -> Until<T> {
        Until { mask: T::ALL, test: Test::Differs, value }
    }

    /// None of these bits is set.
    #[inline(always)]
    pub fn clear(mask: T) -> Until<T> {
        Until { mask, test: Test::Equal, value: T::ZERO }
    }

    /// Some of these bits are set.
    #[inline(always)]
    pub fn any(mask: T) -> Until<T> {
        Until { mask, test: Test::Differs, value: T::ZERO }
    }

    /// Whether a word with this value fulfils it.
    #[inline(always)]
    pub fn holds(self, word: T) -> bool {
        let equal = word.and(self.mask) == self.value;
        match self.test {
            Test::Equal => equal,
            Test::Differs => !equal,
        }
    }
}
