//! The test-and-test-and-set lock with exponential backoff, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ByHand, Task};

#[derive(Default)]
pub struct TestAndTestAndSet;

impl ByHand for TestAndTestAndSet {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, mem: &AtomicU32, task: &Task) -> u32 {
        let mut pause = 8;
        while mem.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            for _ in 0..task.random(pause) {
                spin_loop();
            }
            pause = 1024.min(pause * 2);
            while mem.load(Relaxed) != 0 {
                spin_loop();
            }
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &AtomicU32, _: &Task, _: u32) {
        mem.store(0, Release);
    }
}
