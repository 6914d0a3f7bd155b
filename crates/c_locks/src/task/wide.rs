//! Atomic accesses of 16 bytes: several of a search, between which no other of 16 bytes comes. They are as one where memory has
//! one value at a time; elsewhere they are refused.

use std::sync::atomic::Ordering::Relaxed;

use machine::{Machine, Op, Ordering};

use super::Task;
use super::access::{Place, mix};
use crate::hooks::PACK_HALVES;

/// Distinguishes the state at the end from that at the beginning.
const ENDS: u64 = 0x16E2;

impl<M: Machine> Task<'_, M> {
    /// Begins one here, once no other is under way.
    pub(super) fn begin_wide(&self, address: usize, state: u64) {
        if self.m.reads_old_values() {
            self.refuse("an atomic access of 16 bytes is searched on x86 alone", PACK_HALVES);
        }
        if !address.is_multiple_of(16) {
            self.fail("an atomic access of 16 bytes that is not aligned to them".to_string());
        }
        self.instance.program.parts.add_wide(address.wrapping_sub(self.instance.region.0));
        self.ends_wait();
        self.has_effect();
        loop {
            self.forget(state);
            let op = Op::CompareExchange(0, 1);
            if self.m.op(self.atom::<u32>(self.wide_word()), op, Ordering::SeqCst) == 0 {
                return;
            }
        }
    }

    pub(super) fn end_wide(&self, state: u64) {
        self.forget(mix(state, ENDS));
        self.m.op(self.atom::<u32>(self.wide_word()), Op::Swap(0), Ordering::SeqCst);
    }

    pub(super) fn wide_half(&self, half: Place) -> u64 {
        if self.is_own(half.address, half.size.into(), false) {
            self.refuse("an atomic access of 16 bytes to a local variable", PACK_HALVES);
        }
        self.comes_to_place(half);
        self.get::<u64>(half)
    }

    pub(super) fn set_wide_half(&self, half: Place, value: u64) {
        self.comes_to_place(half);
        self.set::<u64>(half, value);
    }

    /// The word that is 1 while one is under way.
    fn wide_word(&self) -> Place {
        Place { address: self.instance.wide.load(Relaxed), size: 4 }
    }
}
