//! Parking mutex: a task that finds it locked polls for a while, then sleeps until it is woken.
//!
//!     0            unlocked
//!     1            locked, no task sleeps
//!     2            locked, a task may sleep
//!     0 -> 1       lock
//!     0,1,2 -> 2   lock by a task that has slept or is about to: others may be asleep too
//!     1,2 -> 0     unlock; from 2 it wakes one task
//!
//! Not fair: a newcomer may take the mutex before the task that was woken. The mutex is never
//! handed over, so a preempted sleeper delays no other task. Uncontended it costs one
//! compare-exchange and one swap; if a task sleeps, a system call more.
//!
//! Each poll takes the line from the holder, who needs it back to unlock. So the pauses between
//! polls double, as in parking_lot's SpinWait: two tasks that always want the mutex pass it a third
//! more often than with polls without a pause, as in Rust's std::sync::Mutex. The first poll comes
//! after a pause: the attempt that failed has just looked.
//!
//! Drepper 2011 (Futexes are tricky, mutex3); Anderson 1990 (The performance of spin lock
//! alternatives), for the pauses.

use machine::{Atom, Machine, Ordering, Region, Sleepers, image};

use crate::{Equivalent, Hold, Lock, Shape, Waits};

/// Turns of a spin loop before the last poll. Each earlier pause is half as long, down to one turn.
/// Together they are as many turns as Rust's mutex polls.
const LONGEST_PAUSE: u32 = 64;

image! {
    /// The mutex.
    pub struct ParkingMem {
        /// 0: unlocked, 1: locked, 2: locked, and a task may sleep.
    pub state: Atom<u32>,
    }
}

/// Parking mutexes.
#[derive(Debug)]
pub struct Parking;

impl Lock for Parking {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, 1,",
            why: "2 instead of 1 only costs unlock a needless system call",
        },
        Equivalent {
            change: "off by one",
            line: "while mem.state.swap(m, 2,",
            why: "with 3 no task ever sleeps, so none needs to be woken",
        },
        Equivalent {
            change: "no wait",
            line: "m.park(&mem.state",
            why: "parking may return at any time",
        },
    ];
    const FIFO: bool = false;
    const WAITS: Waits = Waits::Asleep;
    type Mem = ParkingMem;

    fn new(_: &Region, _: Shape) -> Parking {
        Parking
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &ParkingMem) -> Hold {
        // 0 -> 1. Pairs with the release in `unlock`.
        if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            lock_contended(m, mem);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &ParkingMem, _: Hold) {
        unlock(m, mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &ParkingMem) -> bool {
        mem.state.load(m, Ordering::Relaxed) == 0
    }
}

#[inline(always)]
pub(super) fn unlock<M: Machine>(m: &M, mem: &ParkingMem) {
    // 1,2 -> 0. Pairs with the acquires in `lock`.
    if mem.state.swap(m, 0, Ordering::Release) == 2 {
        m.wake(&mem.state, Sleepers::One);
    }
}

#[cold]
fn lock_contended<M: Machine>(m: &M, mem: &ParkingMem) {
    let start = m.history_mark();
    let mut pause = 1;
    while pause <= LONGEST_PAUSE {
        m.cpu_relax(pause);
        // Relaxed: only a hint that an attempt may succeed.
        match mem.state.load(m, Ordering::Relaxed) {
            // 0 -> 1. Pairs with the release in `unlock`.
            0 if mem.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_ok() => return,
            // Tasks sleep already: polling on would only overtake them.
            2 => break,
            _ => pause *= 2,
        }
        m.forget_history(start, pause.into());
    }
    lock_asleep(m, mem, start);
}

/// Sleeps until the mutex is free, and takes it.
#[inline(always)]
pub(super) fn lock_asleep<M: Machine>(m: &M, mem: &ParkingMem, start: M::HistoryMark) {
    m.forget_history(start, 0);
    // 0,1,2 -> 2. Pairs with the release in `unlock`.
    while mem.state.swap(m, 2, Ordering::Acquire) != 0 {
        m.park(&mem.state, 2);
        m.forget_history(start, 0);
    }
}
