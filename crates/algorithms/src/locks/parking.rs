//! Parking mutex: who finds it locked looks for a while, then sleeps until it is woken.
//!
//!     0            unlocked
//!     1            locked, nobody sleeps
//!     2            locked, somebody may sleep
//!     0 -> 1       lock
//!     0,1,2 -> 2   lock by one who is about to sleep, or did: it cannot know who else does
//!     1,2 -> 0     unlock; from 2 it wakes one
//!
//! Not fair: whoever comes along may take it before the one that was woken. Nobody hands
//! the mutex on, so a preempted sleeper delays nobody. One compare-exchange and one swap where
//! nobody wants it at the same time; a system call where somebody sleeps.
//!
//! Each look takes the line from the holder, who needs it back to unlock. So the pauses between
//! looks double, as in parking_lot's SpinWait: two that want it all the time pass it a third more
//! often than by looking without a break, as Rust's std::sync::Mutex does. No look is made at
//! once: the try that failed was one.
//!
//! Drepper 2011 (Futexes are tricky, mutex3); Anderson 1990 (The performance of spin lock
//! alternatives), for the pauses.

use machine::{Atom, Machine, Ordering, Region, Sleepers, image};

use crate::{Equivalent, Hold, Lock, Shape};

/// Turns of a spin loop before the last look; half as many before the one before that, and so on
/// down to one. In all as many as that mutex of Rust looks.
const LONGEST_PAUSE: u32 = 64;

image! {
    /// The mutex.
    pub struct ParkingMem {
        state: Atom<u32>,
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
            why: "2 where 1 would do costs a system call in unlock",
        },
        Equivalent {
            change: "off by one",
            line: "while at.state.swap(m, 2,",
            why: "with 3 nobody ever sleeps, so nobody needs to be woken",
        },
        Equivalent {
            change: "no wait",
            line: "m.park(&at.state",
            why: "a sleeper may wake at any time",
        },
    ];
    const FIFO: bool = false;
    type Mem = ParkingMem;

    fn new(_: &Region, _: Shape) -> Parking {
        Parking
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &ParkingMem) -> Hold {
        // 0 -> 1. Pairs with the release in `unlock`.
        if at.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            lock_contended(m, at);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &ParkingMem, _: Hold) {
        // 1,2 -> 0. Pairs with the acquires in `lock`.
        if at.state.swap(m, 0, Ordering::Release) == 2 {
            m.wake(&at.state, Sleepers::One);
        }
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &ParkingMem) -> bool {
        at.state.load(m, Ordering::Relaxed) == 0
    }
}

#[cold]
fn lock_contended<M: Machine>(m: &M, at: &ParkingMem) {
    let start = m.history_mark();
    let mut pause = 1;
    while pause <= LONGEST_PAUSE {
        m.cpu_relax(pause);
        // Relaxed: only a hint that a try may succeed.
        match at.state.load(m, Ordering::Relaxed) {
            // 0 -> 1. Pairs with the release in `unlock`.
            0 if at.state.compare_exchange(m, 0, 1, Ordering::Acquire).is_ok() => return,
            // Whoever sleeps already will not be overtaken by looking on.
            2 => break,
            _ => pause *= 2,
        }
        m.forget_history(start, pause.into());
    }
    m.forget_history(start, 0);
    // 0,1,2 -> 2. Pairs with the release in `unlock`.
    while at.state.swap(m, 2, Ordering::Acquire) != 0 {
        m.park(&at.state, 2);
        m.forget_history(start, 0);
    }
}
