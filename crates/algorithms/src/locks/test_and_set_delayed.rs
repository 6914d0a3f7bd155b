//! Test-and-set lock with a delay: after a try in vain, the next one comes later.
//!
//!     0 -> 1    lock, by a compare-exchange that is tried again after a delay
//!     1 -> 0    unlock
//!
//! As unfair as `test_and_set`, but waiters take the line from the holder less often. The
//! delay is fixed: long enough to leave a short section alone, and lost time where the lock
//! comes free earlier. A delay in the retry loop is what restored a virtual machine in which
//! file creation had collapsed on the plain lock.
//!
//! Anderson 1990 (The performance of spin lock alternatives), delay after noticing.

use machine::{Machine, Region};

use super::test_and_set::{TestAndSet, TestAndSetMem, let_go, take};
use crate::{Hold, Lock, Shape};

/// Turns of a spin loop between two tries.
const DELAY: u32 = 64;

/// Test-and-set locks with a delay.
#[derive(Debug)]
pub struct TestAndSetDelayed;

impl Lock for TestAndSetDelayed {
    const FIFO: bool = false;
    type Mem = TestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndSetDelayed {
        TestAndSetDelayed
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &TestAndSetMem) -> Hold {
        take(m, at, DELAY);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &TestAndSetMem, _: Hold) {
        let_go(m, at);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &TestAndSetMem) -> bool {
        TestAndSet.at_rest(m, at)
    }
}
