//! The test-and-test-and-set lock with exponential back-off, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ByHand, Task};

#[derive(Default)]
pub struct TestAndTestAndSet;

impl ByHand for TestAndTestAndSet {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, at: &AtomicU32, task: &Task) -> u32 {
        let mut pause = 8;
        while at.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            for _ in 0..task.random(pause) {
                spin_loop();
            }
            pause = 1024.min(pause * 2);
            while at.load(Relaxed) != 0 {
                spin_loop();
            }
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, at: &AtomicU32, _: &Task, _: u32) {
        at.store(0, Release);
    }
}
