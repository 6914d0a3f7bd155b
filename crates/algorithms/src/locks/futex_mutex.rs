//! Futex mutex: a task that finds it locked sleeps at once, until it is woken.
//!
//!     0            unlocked
//!     1            locked, no task sleeps
//!     2            locked, a task may sleep
//!     0 -> 1       lock
//!     0,1,2 -> 2   lock by a task that has slept or is about to: others may be asleep too
//!     1,2 -> 0     unlock; from 2 it wakes one task
//!
//! The word and its states are those of `parking`, which polls for a while before it sleeps. It is the
//! default mutex of pthreads in glibc. Not fair: a task that has just unlocked it can take it again before a woken one
//! runs. Short critical sections are expensive beside sleepers, since each unlock then is a system call.
//!
//! Drepper 2011 (Futexes are tricky, mutex3); glibc, nptl/pthread_mutex_lock.c and lowlevellock.c.

use machine::{Machine, Ordering, Region};

use super::parking::{Parking, ParkingMem, lock_asleep, unlock};
use crate::{Equivalent, Hold, Lock, Shape, Waits};

/// Futex mutexes.
#[derive(Debug)]
pub struct FutexMutex;

impl Lock for FutexMutex {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "off by one",
        line: "compare_exchange(m, 0, 1,",
        why: "2 instead of 1 only costs unlock a needless system call",
    }];
    const FIFO: bool = false;
    const WAITS: Waits = Waits::Asleep;
    type Mem = ParkingMem;

    fn new(_: &Region, _: Shape) -> FutexMutex {
        FutexMutex
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &ParkingMem) -> Hold {
        // 0 -> 1. Pairs with the release in `unlock`.
        if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            let start = m.history_mark();
            lock_asleep(m, mem, start);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &ParkingMem, _: Hold) {
        unlock(m, mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &ParkingMem) -> bool {
        Parking.at_rest(m, mem)
    }
}
