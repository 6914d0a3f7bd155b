//! Test-and-set lock with a delay: after a failed attempt, the next one comes later.
//!
//!     0 -> 1    lock, by a compare-exchange that is retried after a delay
//!     1 -> 0    unlock
//!
//! As unfair as `test_and_set`, but waiters take the line from the holder less often. The
//! delay is fixed: long enough not to disturb a short critical section, and lost time if the lock
//! is released earlier. A delay in the retry loop restored a virtual machine in which file
//! creation had collapsed on the plain lock.
//!
//! Anderson 1990 (The performance of spin lock alternatives), delay after noticing.

use machine::{Machine, Region};

use super::test_and_set::{TestAndSet, TestAndSetMem, acquire, release};
use crate::{Hold, Lock, Shape, Waits};

/// Turns of a spin loop between two attempts.
const DELAY: u32 = 64;

/// Test-and-set locks with a delay.
#[derive(Debug)]
pub struct TestAndSetDelayed;

impl Lock for TestAndSetDelayed {
    const FIFO: bool = false;
    const WAITS: Waits = Waits::OneWord;
    type Mem = TestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndSetDelayed {
        TestAndSetDelayed
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &TestAndSetMem) -> Hold {
        acquire(m, mem, DELAY);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &TestAndSetMem, _: Hold) {
        release(m, mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &TestAndSetMem) -> bool {
        TestAndSet.at_rest(m, mem)
    }
}
