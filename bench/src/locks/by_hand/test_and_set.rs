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
    fn lock(&self, at: &AtomicU32, _: &Task) -> u32 {
        while at.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, at: &AtomicU32, _: &Task, _: u32) {
        at.store(0, Release);
    }
}
