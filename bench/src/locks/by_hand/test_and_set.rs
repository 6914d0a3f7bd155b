//! The test-and-set lock, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ByHand, Task};

#[derive(Default)]
pub struct TestAndSet;

impl ByHand for TestAndSet {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, mem: &AtomicU32, _: &Task) -> u32 {
        while mem.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &AtomicU32, _: &Task, _: u32) {
        mem.store(0, Release);
    }
}
