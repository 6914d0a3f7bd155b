//! Accesses and wait conditions as data, so that a machine can print, hash, price or mutate them.

use crate::Value;

/// One access to an [`Atom`](crate::Atom). Every access but a store returns the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<T> {
    /// Reads.
    Load,
    /// Writes. It returns zero, not the previous value.
    Store(T),
    /// Writes, and returns the previous value.
    Swap(T),
    /// Writes the second value if the word holds the first. A compare-exchange that fails gives
    /// no ordering, as in the kernel.
    CompareExchange(T, T),
    /// Adds, wrapping around.
    Add(T),
    /// Sets bits.
    Or(T),
    /// Clears all bits that are not in the mask.
    And(T),
    /// Flips bits.
    Xor(T),
}

impl<T: Value> Op<T> {
    /// This access with 64-bit operands, for machines that treat words of all sizes alike.
    #[inline]
    pub fn widened(self) -> Op<u64> {
        match self {
            Op::Load => Op::Load,
            Op::Store(value) => Op::Store(value.bits()),
            Op::Swap(value) => Op::Swap(value.bits()),
            Op::CompareExchange(old, new) => Op::CompareExchange(old.bits(), new.bits()),
            Op::Add(value) => Op::Add(value.bits()),
            Op::Or(value) => Op::Or(value.bits()),
            Op::And(value) => Op::And(value.bits()),
            Op::Xor(value) => Op::Xor(value.bits()),
        }
    }
}

impl Op<u64> {
    /// The value that a word of `size` bytes holds after this access; `None` if the access does
    /// not write.
    #[inline]
    pub fn written(self, old: u64, size: u8) -> Option<u64> {
        let new = match self {
            Op::Load => return None,
            Op::CompareExchange(expected, _) if expected != old => return None,
            Op::Store(value) | Op::Swap(value) | Op::CompareExchange(_, value) => value,
            Op::Add(value) => old.wrapping_add(value),
            Op::Or(bits) => old | bits,
            Op::And(bits) => old & bits,
            Op::Xor(bits) => old ^ bits,
        };
        let all_bits = u64::MAX >> (64 - 8 * u32::from(size));
        Some(new & all_bits)
    }
}

/// A condition on a word, as data: `word & mask` compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until<T> {
    /// The bits that are compared.
    pub mask: T,
    /// Whether they must equal `value` or differ from it.
    pub test: Test,
    /// The value that the masked word is compared with.
    pub value: T,
}

/// The comparison of an [`Until`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The masked word equals the value.
    Equal,
    /// The masked word differs from the value.
    Differs,
}

impl<T: Value> Until<T> {
    /// Until the word is `value`.
    #[inline(always)]
    pub fn equals(value: T) -> Until<T> {
        Until { mask: T::ALL, test: Test::Equal, value }
    }

    /// Until the word is not `value`.
    #[inline(always)]
    pub fn differs(value: T) -> Until<T> {
        Until { mask: T::ALL, test: Test::Differs, value }
    }

    /// Until no bit of the mask is set.
    #[inline(always)]
    pub fn clear(mask: T) -> Until<T> {
        Until { mask, test: Test::Equal, value: T::ZERO }
    }

    /// Until a bit of the mask is set.
    #[inline(always)]
    pub fn any(mask: T) -> Until<T> {
        Until { mask, test: Test::Differs, value: T::ZERO }
    }

    /// Whether a word with this value fulfils the condition.
    #[inline(always)]
    pub fn holds(self, word: T) -> bool {
        let equal = word.and(self.mask) == self.value;
        match self.test {
            Test::Equal => equal,
            Test::Differs => !equal,
        }
    }

    /// This condition with 64-bit operands.
    #[inline]
    pub fn widened(self) -> Until<u64> {
        Until { mask: self.mask.bits(), test: self.test, value: self.value.bits() }
    }
}
